"""The command line: parse arguments, call an audit, choose an exit code. No arithmetic here."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import re
import signal
import socket
import sys
import textwrap
import threading
import time
import traceback
import warnings
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NoReturn

from evenhand import __version__
from evenhand.cli.examples import VERBS
from evenhand.cli.streams import BOLD, RED, guarded, painted
from evenhand.errors import EvenhandError, printable, suggestion, without_keys

if TYPE_CHECKING:
    from evenhand.cli.verbs import Add, Run
    from evenhand.results import Result

__all__ = ["POPULATION", "VERBS", "is_audit", "main", "options_of", "parse", "run_audit"]

EPILOG = """\
Answers go to standard output, everything else to standard error.
Exit codes: 0 done, 1 a check failed, 2 bad input or usage.
Start with:  evenhand demo"""

TWO_SCREENS = 90
SHORT_HELP = ("positional arguments", "roles")
"""Groups of options that the help of a verb always explains."""

POPULATION = """\
--population is how many could have received something, including those who got nothing and are in no log.
Pass a number, or a file that lists everyone; none counts only those in the file, which understates inequality."""


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    signal.signal(signal.SIGTERM, _terminate)
    _end_by_sigterm()
    showwarning = warnings.showwarning
    warnings.showwarning = _print_error
    try:
        with guarded():
            return _exit_code(words)
    finally:
        warnings.showwarning = showwarning


IS_TERMINATED = threading.Event()
"""Set by SIGTERM: an engine that stops for it says that it was interrupted, as it does for Ctrl-C."""


def _terminate(*_: object) -> None:
    IS_TERMINATED.set()
    sys.exit(143)


PATIENCE_SECONDS = 2.0
"""How long a query or a library in C may go on after SIGTERM before the process ends without it."""


def _end_by_sigterm() -> None:
    """End the process soon after SIGTERM also while the main thread waits for an engine, where Python cannot act on signals.

    The system writes every signal into a socket at once; a thread that reads it removes temporary folders and ends.
    """
    before = signal.set_wakeup_fd(-1)
    if before != -1:  # that of an earlier call, or of another program's loop
        signal.set_wakeup_fd(before)
        return
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)

    def watch(_writer: socket.socket = writer) -> None:
        while received := reader.recv(1):
            if received[0] == signal.SIGTERM:
                time.sleep(PATIENCE_SECONDS)  # the main thread may end by itself
                from evenhand.sources.folders import remove_all

                remove_all()
                os._exit(143)

    threading.Thread(target=watch, daemon=True).start()


def _exit_code(words: Sequence[str]) -> int:
    """1 only for a failed check; whatever else goes wrong is 2 and a sentence."""
    try:
        try:
            return _run(words)
        finally:
            sys.stdout.flush()
    except EvenhandError as error:
        _print_error(error)
    except KeyboardInterrupt:
        from evenhand.report.files import WRITTEN

        written = (
            f"{', '.join(dict.fromkeys(WRITTEN))} had been written, nothing else" if WRITTEN else "nothing was written"
        )
        _print_error(f"interrupted; {written}.")
        return 143 if IS_TERMINATED.is_set() else 130
    except MemoryError:
        _print_error("out of memory. Audit a part of the rows, or use a machine with more memory.")
    except OSError as error:
        reason = error.strerror or type(error).__name__
        _print_error(f"{str(error.filename or 'A file')!r} cannot be used ({reason}). Pass another path.")
    except (SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        if sys.flags.dev_mode:
            raise
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{type(error).__name__} in line {last.lineno} of {os.path.basename(last.filename)}"  # noqa: PTH119
        _print_error(
            f"this is a fault in evenhand ({where}). Please report it, with the command; python -X dev -m evenhand shows more."
        )
    return 2


def _run(words: Sequence[str]) -> int:
    parser = _parser(words)
    if not words:
        parser.print_help(sys.stderr)
        return 2
    args = parser.parse_args(words)
    if "output" in args:
        from evenhand.cli.options import output_files, settle_format

        settle_format(args)
        output_files(args)
    if verb := _not_an_audit(args.verb):
        return verb[1](args)
    from evenhand.cli.options import finish

    return finish(_result(args), args)


def _print_error(message: object, *_: object, **__: object) -> None:
    """An error, or a warning without the line of code that it came from, as a sentence."""
    prefix = painted("evenhand:", f"{BOLD};{RED}", sys.stderr)
    print(f"{prefix} {without_keys(printable(str(message)))}", file=sys.stderr)


def _not_an_audit(verb: str) -> tuple[Add, Run] | None:
    """What adds the options of a verb that runs no audit, or more than one, and what runs it."""
    name = f"evenhand.cli.{verb.replace('-', '_')}"
    if importlib.util.find_spec(name):
        module = importlib.import_module(name)
        return module.add_arguments, module.run
    from evenhand.cli.verbs import SMALL

    return SMALL.get(verb)


def is_audit(verb: str) -> bool:
    return _not_an_audit(verb) is None


def parse(words: Sequence[str]) -> argparse.Namespace:
    return _parser(words).parse_args(words)


def run_audit(words: Sequence[str]) -> tuple[argparse.Namespace, Result]:
    from evenhand.cli.options import settle_format

    args = parse(words)
    settle_format(args)
    return args, _result(args)


def _result(args: argparse.Namespace) -> Result:
    from evenhand.cli.audit import audit_of, call, reading
    from evenhand.cli.verbs import EXTRAS, keep

    audit = audit_of(args.verb)
    _, after = EXTRAS.get(args.verb, (None, keep))
    with reading(audit, args):
        result: Result = after(call(audit, args), args)
    return result


def _add_arguments(verb: str, parser: argparse.ArgumentParser) -> None:
    """Add the options of a verb: of its module, or of its audit, its extras and every answer."""
    if not_an_audit := _not_an_audit(verb):
        not_an_audit[0](parser)
        return
    from evenhand.cli.audit import add_audit, audit_of
    from evenhand.cli.options import add_output, add_systems
    from evenhand.cli.verbs import EXTRAS

    audit = audit_of(verb)
    add_audit(parser, audit)
    if verb in EXTRAS:
        EXTRAS[verb][0](parser)
    if "system" in audit.parameters and audit.over == "requests":
        add_systems(parser)
    add_output(parser, audit.charts)


def options_of(verb: str) -> Mapping[str, argparse.Action]:
    return _parser([verb]).options


class _Parser(argparse.ArgumentParser):
    """Errors name what was wrong and where to look, without the whole usage."""

    options: Mapping[str, argparse.Action] = MappingProxyType({})
    words: Sequence[str] = ()
    typed = ""

    def error(self, message: str) -> NoReturn:
        hint = self._misspelt()
        if not hint and (choice := re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)):
            hint = suggestion(choice[1], re.findall(r"[\w-]+", choice[2]))
        elif not hint and (missing := re.search(r"arguments are required: (.*)", message)):
            names = [name.split("/")[-1] for name in missing[1].split(", ") if name != "--population"]
            texts = {
                name: self._option_string_actions[name].help for name in names if name in self._option_string_actions
            }
            lines = [f"\n  {name}: {text}" for name, text in texts.items() if text]
            hint = "".join(lines).replace("%%", "%") + ("\n" if lines else "")
        where = f"{self.prog} {self.typed}".rstrip()
        print(without_keys(printable(f"{where}: error: {message}. {hint}See: {where} --help")), file=sys.stderr)
        if "--population" in message and "required" in message:
            print(POPULATION, file=sys.stderr)
        sys.exit(2)

    def format_help(self) -> str:
        """Short help where there is more than two screens of it: examples, files and roles; the other options by name."""
        full = super().format_help()
        if "--help-all" in self.words or full.count("\n") <= TWO_SCREENS or not self.options:
            return full
        formatter = self._get_formatter()
        shown = [g for g in self._action_groups if g.title in SHORT_HELP]
        words = [a.metavar for a in self._positionals._group_actions]  # noqa: SLF001
        words += [f"{a.option_strings[-1]} {a.metavar}" for a in self._actions if a.option_strings and a.required]
        formatter.add_usage(f"{self.prog} {' '.join(map(str, words))} [options]", [], [])
        formatter.add_text(self.description)
        formatter.add_text(self.epilog)
        metric = self._option_string_actions.get("--metric")
        sections = [(g.title, g._group_actions) for g in shown]  # noqa: SLF001
        for title, actions in [*sections, *([("metrics", [metric])] if metric else [])]:
            formatter.start_section(title)
            formatter.add_arguments(actions)
            formatter.end_section()
        formatter.start_section(f"more, explained by {self.prog} --help-all")
        for group in self._action_groups:
            names = [a.option_strings[-1] for a in group._group_actions if a.option_strings]  # noqa: SLF001
            if names and group not in shown:
                formatter.add_text(textwrap.fill(f"{group.title}: {' '.join(names)}", 76, break_on_hyphens=False))
        formatter.end_section()
        return formatter.format_help()

    def _misspelt(self) -> str:
        """The first unknown option with the nearest known one; it may be why another is missing."""
        for word in self.words:
            option = word.partition("=")[0]
            if option.startswith("--") and option != "--" and self.options and option not in self.options:
                return f"{option} is not an option. {suggestion(option, self.options)}"
        return ""


def _options(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    """The options of a verb, and of the verbs that come after it."""
    options = dict(parser._option_string_actions)  # noqa: SLF001  (no public list)
    for action in parser._actions:  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for subparser in action.choices.values():
                options |= _options(subparser)
    return options


def _parser(words: Sequence[str]) -> _Parser:
    """The parser; only the verb that was typed loads its options, so that --help stays quick."""
    parser = _Parser(
        prog="evenhand", description="Who gets seen, and is it even-handed?", epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--version", action="version", version=f"evenhand {__version__}")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB", title="verbs")
    typed = next((w for w in words if not w.startswith("-")), "")
    for verb, text in VERBS.items():
        summary, _, examples = text.strip().partition("\n")
        sub = verbs.add_parser(
            verb, help=summary[0].lower() + summary[1:].rstrip("."), description=summary, epilog=examples.strip(),
            allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        if verb == typed:
            sub.add_argument("--help-all", action="help", help="show every option and exit")
            _add_arguments(verb, sub)
            for each in (parser, sub):
                each.words, each.options = words, _options(sub)
            parser.typed = verb
    return parser
