"""The command line: parse words, call an audit, choose an exit code. No arithmetic here."""

from __future__ import annotations

import argparse
import importlib
import os
import re
import signal
import sys
import warnings
from collections.abc import Sequence
from typing import NoReturn

from evenhand import __version__
from evenhand.errors import EvenhandError, suggestion

VERBS = {
    "demo": "the audits on generated data, a report per question, the commands that made them",
    "inequality": "how unevenly something is spread over those who could receive it",
    "sources": "which source makes the skew: the Gini index split over where amounts come from",
    "decompose": "does the inequality lie within groups or between them?",
    "criteria": "which metric suits this data: the criteria of the inequality paper, measured",
    "prefix": "does every top of a ranking mirror the whole, or does one viewpoint stand higher?",
    "advise": "which ranking metric to trust for these rankings, and why",
    "exposure": "who is exposed in rankings, against a target, another group, or relevance",
    "pairwise": "does the more relevant item stand above, whatever the groups?",
    "agreement": "saved results of several systems: do the metrics agree on which is fairer?",
    "outcome-test": "whether equally scored candidates of different groups realise equal outcomes",
    "recommender": "whether a recommender serves groups of users, and items, even-handedly",
    "compare": "two saved results: did it change, and by more than chance?",
    "run": "an audit from a plan file, for a build: exit code 1 when a check fails",
    "metrics": "the cards: what each number means, and what other tools print under the same name",
    "study": "a paper's study, rerun: each stated finding beside what comes out",
}
"""Each verb is a module of this package with `add_arguments(parser)` and `run(args) -> int`."""

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
        parser = _parser(words)
        if not words:
            parser.print_help(sys.stderr)
            return 2
        args = parser.parse_args(words)
        if "output" in args:
            importlib.import_module("evenhand.cli.options").outputs(args)
        return int(_module(args.verb).run(args))
    except EvenhandError as error:
        print(f"evenhand: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("evenhand: interrupted; nothing was written.", file=sys.stderr)
        return 130
    except MemoryError:
        print("evenhand: out of memory. Slice the input, or use --engine duckdb.", file=sys.stderr)
        return 2
    finally:
        warnings.showwarning = shown


def _say(message: Warning | str, *_: object, **__: object) -> None:
    """A warning as a sentence, without the line of code it came from."""
    print(f"evenhand: {message}", file=sys.stderr)


def _module(verb: str):  # type: ignore[no-untyped-def]  # noqa: ANN202
    return importlib.import_module(f"evenhand.cli.{verb.replace('-', '_')}")


def _sentence(words: str) -> str:
    return words[0].upper() + words[1:] + ("" if words.endswith("?") else ".")


class _Parser(argparse.ArgumentParser):
    """Says what was wrong and where to look, and not the whole of the usage."""

    options: Sequence[str] = ()
    typed = ""

    def error(self, message: str) -> NoReturn:
        near = ""
        if found := re.search(r"unrecognized arguments: (--[\w-]+)", message):
            near = suggestion(found[1], self.options)
        elif found := re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message):
            near = suggestion(found[1], re.findall(r"[\w-]+", found[2]))
        where = f"{self.prog} {self.typed}".rstrip()
        print(f"{where}: error: {message}. {near}See: {where} --help", file=sys.stderr)
        sys.exit(2)


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """The parser; only the verb that was typed loads its options, so that --help stays quick."""
    parser = _Parser(
        prog="evenhand", description="Who gets seen, and is it even-handed?", epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--version", action="version", version=f"evenhand {__version__}")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB", title="verbs")
    typed = next((w for w in words if not w.startswith("-")), "")
    for verb, summary in VERBS.items():
        sub = verbs.add_parser(
            verb, help=summary, description=_sentence(summary), allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        if verb == typed:
            _module(verb).add_arguments(sub)
            parser.typed, parser.options = verb, list(sub._option_string_actions)  # noqa: SLF001  (no public list)
    return parser
