"""The command line: parse words, call an audit, choose an exit code. No arithmetic here."""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
import warnings
from collections.abc import Sequence

from evenhand import __version__
from evenhand.errors import EvenhandError

VERBS = {
    "agreement": "saved results of several systems: do the metrics agree on which is fairer?",
    "advise": "which metric to trust for these rankings, and why",
    "compare": "two saved results: did it change, and by more than chance?",
    "criteria": "which metric suits this data: the criteria of the inequality paper, measured",
    "decompose": "does the inequality lie within groups or between them?",
    "demo": "the audits on generated data, a report per question, the commands that made them",
    "exposure": "who is exposed in rankings, against a target, another group, or relevance",
    "inequality": "how unevenly something is spread over those who could receive it",
    "metrics": "the cards: what each number means",
    "outcome-test": "whether equally scored candidates of different groups realise equal outcomes",
    "pairwise": "does the more relevant item stand above, whatever the groups?",
    "prefix": "does every top of a ranking mirror the whole, or does one viewpoint stand higher?",
    "recommender": "whether a recommender serves groups of users, and items, even-handedly",
    "run": "an audit from a plan file",
    "sources": "which source makes the skew: the Gini index split over where amounts come from",
    "study": "a seed's study again: each stated finding beside what comes out",
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
        args = _parser(words).parse_args(words)
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


def _said(summary: str) -> str:
    return summary[0].upper() + summary[1:] + ("" if summary.endswith("?") else ".")


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """The parser; only the verb that was typed loads its options, so that --help stays quick."""
    parser = argparse.ArgumentParser(
        prog="evenhand", description="Who gets seen, and is it even-handed?", epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--version", action="version", version=f"evenhand {__version__}")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB", title="verbs")
    typed = next((w for w in words if not w.startswith("-")), "")
    for verb, summary in sorted(VERBS.items()):
        sub = verbs.add_parser(
            verb, help=summary, description=_said(summary), allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        if verb == typed:
            _module(verb).add_arguments(sub)
    return parser
