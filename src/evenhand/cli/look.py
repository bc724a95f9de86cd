"""What is in a file, which questions it can answer, and what to type for each.

Column names, types and the first 100,000 rows are looked at; nothing is measured. Roles are guesses: change a column name in
the command where the guess is wrong.

example:
  evenhand look events.csv
  evenhand look events.csv --run --html report.html
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from evenhand.errors import EvenhandError

if TYPE_CHECKING:
    from evenhand.sources.inspect import Sample

GROUPS = "GROUPS.csv"
"""Stands in a command for a file that only the reader can name."""


@dataclass(frozen=True)
class Question:
    """What can be asked of the table, and the words to type after `evenhand`."""

    asks: str
    words: list[str]
    note: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", nargs="+", metavar="FILE", help="Parquet, CSV or JSON lines (also .gz), or a glob in quotes"
    )
    parser.add_argument("--run", action="store_true", help="ask the most likely question at once")
    parser.add_argument("--html", metavar="FILE", help="with --run, also write a report that opens in any browser")


def run(args: argparse.Namespace) -> int:
    from evenhand.cli import main
    from evenhand.sources.inspect import inspect

    if args.html and not args.run:
        raise EvenhandError(
            "--html needs an answer to write down. Add --run, or type one of the commands below --help."
        )
    seen = inspect(args.file if len(args.file) > 1 else args.file[0])
    asked = questions(seen, args.file)
    if not args.run:
        print(*described(seen), "", *proposed(asked), sep="\n")
        return 0
    asked = [question for question in asked if GROUPS not in question.words]
    if not asked:
        raise EvenhandError(
            "No question can be asked with these columns alone. Run evenhand look without --run to see what was found."
        )
    words = [*asked[0].words, "--sentences", *(["--html", args.html] if args.html else [])]
    print(f"$ {shlex.join(['evenhand', *words])}", file=sys.stderr)
    return main(words)


def described(seen: Sample) -> list[str]:
    """The columns as a table: name, type, how many values, what it could be."""
    rows = [("column", "type", "values", "missing", "for example", "could be")]
    rows += [
        (c.name, c.kind, f"{c.distinct:,}", f"{c.missing:,}" if c.missing else "", c.example, ", ".join(c.roles) or "-")
        for c in seen.columns
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    first = "the first " if seen.has_more else ""
    return [f"{len(seen.columns)} columns, {first}{seen.rows:,} rows", "", *lines]


def proposed(asked: list[Question]) -> list[str]:
    """The questions with their commands, the most likely first."""
    from evenhand.cli import POPULATION

    if not asked:
        return [
            "No question fits these columns as they are named. An audit needs, for example, a column of units and one of amounts:",
            "  evenhand inequality FILE --unit COLUMN --amount COLUMN --population none",
        ]
    lines = ["It can answer (the most likely first):"]
    for number, question in enumerate(asked, start=1):
        lines += ["", f"{number}. {question.asks}", f"   evenhand {shlex.join(question.words)}"]
        lines += [f"   {line}" for line in question.note.splitlines()]
    lines += ["", "Add --html report.html for a report, --sentences for the answer in words."]
    if any("--population" in question.words for question in asked):
        lines += ["", POPULATION]
    return lines


def questions(seen: Sample, files: list[str]) -> list[Question]:
    """All that the columns allow, the most telling first."""
    made = (ask(seen, files) for ask in ASKED)
    return [_leaving_out(seen, question) for question in made if question is not None]


NEEDED = ("--unit", "--amount", "--score", "--outcome", "--request", "--rank")
"""Options whose column may not lack a value, unless somebody says that such rows are left out."""


def _leaving_out(seen: Sample, question: Question) -> Question:
    """The question as it can be run: rows that lack what it needs are left out, and that is said."""
    from evenhand.cli import options_of

    lost = {c.name for c in seen.columns if c.missing}
    pairs = zip(question.words, question.words[1:], strict=False)
    named = [column for option, column in pairs if option in NEEDED and column in lost]
    if not named or "--nan-policy" not in options_of(question.words[0]):
        return question
    note = f"Rows without {' or '.join(named)} are left out."
    words = [*question.words, "--nan-policy", "omit"]
    return replace(question, words=words, note="\n".join(filter(None, [question.note, note])))


def _outcome(seen: Sample, files: list[str]) -> Question | None:
    score, outcome = seen.having("score"), seen.having("outcome")
    group = seen.having("group", without=[outcome, score])
    if not (score and outcome and group):
        return None
    request = seen.having("request", without=[group])
    more = ["--request", request] if request else []
    words = ["outcome-test", *files, "--score", score, "--outcome", outcome, "--group", group, *more]
    return Question("Is some group held to a higher bar?", words)


def _ranked(seen: Sample) -> tuple[str, str, str, list[str]]:
    """Request, rank and group of rankings, and the options that differ from their defaults."""
    rank, request = seen.having("rank"), seen.having("request")
    system = seen.having("system", without=[request])
    group = seen.having("group", without=[system, request, rank])
    words = [w for name, held in (("request", request), ("rank", rank)) if held != name for w in (f"--{name}", held)]
    return rank, request, group, [*words, *(["--system", system] if system else [])]


def _prefix(seen: Sample, files: list[str]) -> Question | None:
    rank, request, group, words = _ranked(seen)
    if not (rank and request and group):
        return None
    first = seen.rarest(group)  # more often than not the one that somebody worries about
    asks = "Does every top of the ranking mirror the whole?"
    return Question(
        asks,
        ["prefix", *files, "--group", group, *words],
        f"Add --protected {shlex.quote(first)} (or another label) for one side against the rest.",
    )


def _exposure(seen: Sample, files: list[str]) -> Question | None:
    rank, request, group, words = _ranked(seen)
    item = seen.having("item", without=[request])
    if not (rank and request and item):
        return None
    named = ["--item", item] if item != "item" else []
    asks = "Who is exposed, and is it in proportion?"
    if not group:
        note = f"{GROUPS} is a file with a group for each item."
        return Question(asks, ["exposure", *files, "--groups", GROUPS, *words, *named], note)
    return Question(asks, ["exposure", *files, "--groups", group, *words, *named, "--protected", seen.rarest(group)])


def _recommender(seen: Sample, files: list[str]) -> Question | None:
    user = seen.having("user")
    item, score = seen.having("item", without=[user]), seen.having("score")
    if not (user and item and score) or seen.having("rank"):
        return None
    words = [
        w
        for name, held in (("user", user), ("item", item), ("score", score))
        if held != name
        for w in (f"--{name}", held)
    ]
    group = seen.having("group")
    more = ["--user-groups", group] if group else []
    return Question(
        "Does the recommender serve users, and items, even-handedly?",
        ["recommender", *files, *words, *more, "--top", "10"],
    )


def _inequality(seen: Sample, files: list[str]) -> Question | None:
    unit = seen.having("unit") or seen.having("user") or seen.having("item")
    if not unit or seen.having("rank"):
        return None
    amount, group = seen.having("amount", without=[unit]), seen.having("group", without=[unit])
    words = ["inequality", *files, "--unit", unit, *(["--amount", amount] if amount else []), "--population", "none"]
    return Question("How unevenly is it spread?", [*words, *(["--by", group] if group else [])])


def _parts(seen: Sample, files: list[str]) -> Question | None:
    """Groups of units where each unit has one label; sources where it has several."""
    spread = _inequality(seen, files)
    if spread is None or "--by" not in spread.words or "--amount" not in spread.words:
        return None
    words, group = spread.words[1:-2], spread.words[-1]
    unit = words[words.index("--unit") + 1]
    if seen.is_constant_within(unit, group):
        return Question(
            "Does the inequality lie within groups or between them?", ["decompose", *words, "--group", group]
        )
    return Question("Which source makes the skew?", ["sources", *words, "--source", group])


ASKED: tuple[Callable[[Sample, list[str]], Question | None], ...] = (
    _outcome, _exposure, _prefix, _recommender, _inequality, _parts,
)  # fmt: skip
