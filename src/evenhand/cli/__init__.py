"""The command line: parse words, call an audit, choose an exit code. No arithmetic here."""

from __future__ import annotations

import argparse
import importlib
import os
import re
import signal
import sys
import traceback
import warnings
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn

from evenhand import __version__
from evenhand.cli.streams import guarded
from evenhand.errors import EvenhandError, printable, suggestion, without_keys

VERBS = (
    "demo", "look", "inequality", "sources", "decompose", "criteria", "prefix", "advise", "exposure", "pairwise",
    "agreement", "sensitivity", "outcome-test", "counterfactual", "recalibrate", "recommender", "experiment", "rebalance", "rerank",
    "compare", "run", "plan", "sql", "history", "metrics", "conformance", "study", "completion",
)  # fmt: skip
"""Each verb is a module of this package: its docstring is the help, the first line in the list of verbs and the rest with
examples below the options. A verb of an audit needs nothing else: options and call come from the audit's declaration; it
may have `add_arguments(parser)` for options of its own and `after(result, args)` for what they do. Other verbs have
`add_arguments(parser)` and `run(args) -> int`."""

EPILOG = """\
Answers go to standard output, everything else to standard error.
Exit codes: 0 done, 1 a check failed, 2 bad input or usage.
Start with:  evenhand demo"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is the answer to the shell."""
    words = list(sys.argv[1:] if argv is None else argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    shown = warnings.showwarning
    warnings.showwarning = _say
    try:
        with guarded():
            return _answered(words)
    finally:
        warnings.showwarning = shown


def _answered(words: Sequence[str]) -> int:
    """The exit code: 1 is a check's alone, whatever else goes wrong is 2 and a sentence."""
    try:
        try:
            return _asked(words)
        finally:
            sys.stdout.flush()
    except EvenhandError as error:
        _say(error)
    except KeyboardInterrupt:
        _say("interrupted; nothing was written.")
        return 130
    except MemoryError:
        _say("out of memory. Slice the input, or use --engine duckdb.")
    except OSError as error:
        _say(
            f"{str(error.filename or 'A file')!r} cannot be used ({error.strerror or type(error).__name__}). Pass another path."
        )
    except (SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        if sys.flags.dev_mode:
            raise
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{type(error).__name__} in line {last.lineno} of {os.path.basename(last.filename)}"  # noqa: PTH119
        _say(
            f"this is a fault in evenhand ({where}). Please report it, with the command; python -X dev -m evenhand shows more."
        )
    return 2


def _asked(words: Sequence[str]) -> int:
    parser = _parser(words)
    if not words:
        parser.print_help(sys.stderr)
        return 2
    args = parser.parse_args(words)
    if "output" in args:
        importlib.import_module("evenhand.cli.options").outputs(args)
    return _run(args)


def _say(message: object, *_: object, **__: object) -> None:
    """An error, or a warning without the line of code that it came from, as a sentence."""
    from evenhand.cli.colour import BOLD, RED, painted

    print(
        f"{painted('evenhand:', f'{BOLD};{RED}', sys.stderr)} {without_keys(printable(str(message)))}", file=sys.stderr
    )


def _module(verb: str):  # type: ignore[no-untyped-def]  # noqa: ANN202
    return importlib.import_module(f"evenhand.cli.{verb.replace('-', '_')}")


def is_audit(verb: str) -> bool:
    """Whether the verb asks an audit: then all it needs comes from that audit's declaration."""
    return not hasattr(_module(verb), "run")


def audit_verbs() -> list[str]:
    return [verb for verb in VERBS if is_audit(verb)]


def parse(words: Sequence[str]) -> argparse.Namespace:
    """The words of a command as they were typed."""
    return _parser(words).parse_args(words)


def _run(args: argparse.Namespace) -> int:
    module = _module(args.verb)
    if not is_audit(args.verb):
        return int(module.run(args))
    from evenhand.cli.options import finish

    return finish(_result(args), args)


def _result(args: argparse.Namespace) -> Any:
    """What the audit of a verb answers."""
    from evenhand.audits.declare import find
    from evenhand.cli.audit import call, in_flags
    from evenhand.cli.options import progress

    module, audit = _module(args.verb), find(args.verb.replace("-", "_"))
    try:
        with progress("reading", quiet=args.no_progress):
            result = call(audit, args)
            return module.after(result, args) if hasattr(module, "after") else result
    except EvenhandError as error:
        raise EvenhandError(in_flags(str(error), audit)) from error


def asked(words: Sequence[str]) -> tuple[argparse.Namespace, Any]:
    """The words of a command of an audit as argparse reads them, and its result."""
    args = parse(words)
    return args, _result(args)


def _add_arguments(verb: str, parser: argparse.ArgumentParser) -> None:
    """The options of a verb: those of its audit, its own, and those of every answer."""
    module = _module(verb)
    if is_audit(verb):
        from evenhand.audits.declare import find
        from evenhand.cli.audit import add_audit
        from evenhand.cli.options import add_output

        audit = find(verb.replace("-", "_"))
        add_audit(parser, audit)
        if hasattr(module, "add_arguments"):
            module.add_arguments(parser)
        add_output(parser, audit.charts)
    else:
        module.add_arguments(parser)


POPULATION = """\
--population is how many could have received something, also those who got nothing and are in no log.
Give the number or a file of all of them; none counts only those in the file, and then inequality is understated."""


def options_of(verb: str) -> Mapping[str, argparse.Action]:
    """The options of a verb as argparse has them."""
    return _parser([verb]).options


class _Parser(argparse.ArgumentParser):
    """Says what was wrong and where to look, and not the whole of the usage."""

    options: Mapping[str, argparse.Action] = MappingProxyType({})
    words: Sequence[str] = ()
    typed = ""

    def error(self, message: str) -> NoReturn:
        near = self._misspelt()
        if not near and (found := re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)):
            near = suggestion(found[1], re.findall(r"[\w-]+", found[2]))
        elif found := re.search(r"arguments are required: (.*)", message):
            near = near or self._about([one for one in found[1].split(", ") if one != "--population"])
        where = f"{self.prog} {self.typed}".rstrip()
        print(without_keys(printable(f"{where}: error: {message}. {near}See: {where} --help")), file=sys.stderr)
        if "--population" in message and "required" in message:
            print(POPULATION, file=sys.stderr)
        sys.exit(2)

    def _about(self, lost: Sequence[str]) -> str:
        """What options that are missing are for, a line each."""
        known = {name: action.help for name, action in self._option_string_actions.items()}
        lines = [f"\n  {name}: {known[name]}" for name in (one.split("/")[-1] for one in lost) if known.get(name)]
        return "".join(lines).replace("%%", "%") + ("\n" if lines else "")

    def _misspelt(self) -> str:
        """The first word that looks like an option and is none, with the nearest that is one; it may be why another is lacking."""
        for word in self.words:
            option = word.partition("=")[0]
            if option.startswith("--") and option != "--" and self.options and option not in self.options:
                return f"{option} is no option. {suggestion(option, self.options)}"
        return ""


def _options(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    """The options of a verb, and of the verbs that come after it."""
    found = dict(parser._option_string_actions)  # noqa: SLF001  (no public list)
    for action in parser._actions:  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            found |= {name: one for after in action.choices.values() for name, one in _options(after).items()}
    return found


def _parser(words: Sequence[str]) -> _Parser:
    """The parser; only the verb that was typed loads its options, so that --help stays quick."""
    parser = _Parser(
        prog="evenhand", description="Who gets seen, and is it even-handed?", epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--version", action="version", version=f"evenhand {__version__}")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB", title="verbs")
    typed = next((w for w in words if not w.startswith("-")), "")
    for verb in VERBS:
        summary, _, examples = (_module(verb).__doc__ or "").partition("\n")
        sub = verbs.add_parser(
            verb, help=summary[0].lower() + summary[1:].rstrip("."), description=summary, epilog=examples.strip(),
            allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        if verb == typed:
            _add_arguments(verb, sub)
            for each in (parser, sub):
                each.words, each.options = words, _options(sub)
            parser.typed = verb
    return parser
