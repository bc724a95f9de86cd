"""`evenhand look`: guess the roles of columns, and propose commands."""

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
"""Placeholder in a command for a file that only the user can name."""


@dataclass(frozen=True)
class Question:
    """A question that the table can answer, and the words to type after `evenhand`."""

    text: str
    words: list[str]
    note: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", nargs="+", metavar="FILE", help="Parquet, CSV or JSON lines (also .gz), or a glob in quotes"
    )
    parser.add_argument("--run", action="store_true", help="run the most likely audit at once")
    parser.add_argument("--html", metavar="FILE", help="with --run, also write a report that opens in any browser")


def run(args: argparse.Namespace) -> int:
    from evenhand.cli import main
    from evenhand.sources.inspect import inspect

    if args.html and not args.run:
        raise EvenhandError(
            "--html needs a result to report. Add --run, or add --html to one of the proposed commands."
        )
    sample = inspect(args.file if len(args.file) > 1 else args.file[0])
    proposals = questions(sample, args.file)
    if not args.run:
        print(*described(sample), "", *proposed(proposals), sep="\n")
        return 0
    runnable = [question for question in proposals if GROUPS not in question.words]
    if not runnable:
        raise EvenhandError(
            "These columns are not enough for any audit. Run evenhand look without --run to see what was found."
        )
    words = [*runnable[0].words, "--sentences", *(["--html", args.html] if args.html else [])]
    print(f"$ {shlex.join(['evenhand', *words])}", file=sys.stderr)
    return main(words)


def described(sample: Sample) -> list[str]:
    """Lines of a table of the columns: name, type, number of values, possible roles."""
    rows = [("column", "type", "values", "missing", "for example", "could be")]
    rows += [
        (c.name, c.kind, f"{c.distinct:,}", f"{c.missing:,}" if c.missing else "", c.example, ", ".join(c.roles) or "-")
        for c in sample.columns
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    first = "the first " if sample.has_more else ""
    return [f"{len(sample.columns)} columns, {first}{sample.rows:,} rows", "", *lines]


def proposed(proposals: list[Question]) -> list[str]:
    """Lines of the questions with their commands, the most likely first."""
    from evenhand.cli import POPULATION

    if not proposals:
        return [
            "No audit fits these column names. An audit needs, for example, a column of units and one of amounts:",
            "  evenhand inequality FILE --unit COLUMN --amount COLUMN --population none",
        ]
    lines = ["It can answer (the most likely first):"]
    for number, question in enumerate(proposals, start=1):
        lines += ["", f"{number}. {question.text}", f"   evenhand {shlex.join(question.words)}"]
        lines += [f"   {line}" for line in question.note.splitlines()]
    lines += ["", "Add --html report.html for a report, --sentences for the answer in words."]
    if any("--population" in question.words for question in proposals):
        lines += ["", POPULATION]
    return lines


def questions(sample: Sample, files: list[str]) -> list[Question]:
    """All questions that the columns allow, the most informative first."""
    proposals = (question_for(sample, files) for question_for in QUESTIONS)
    return [_omit_missing(sample, question) for question in proposals if question is not None]


COMPLETE = ("--unit", "--amount", "--score", "--outcome", "--request", "--rank")
"""Options whose column may have no missing values, unless --nan-policy says otherwise."""


def _omit_missing(sample: Sample, question: Question) -> Question:
    """The question, with --nan-policy omit and a note if a column has missing values."""
    from evenhand.cli import options_of

    incomplete = {c.name for c in sample.columns if c.missing}
    pairs = zip(question.words, question.words[1:], strict=False)
    columns = [column for option, column in pairs if option in COMPLETE and column in incomplete]
    if not columns or "--nan-policy" not in options_of(question.words[0]):
        return question
    note = f"Rows without {' or '.join(columns)} are left out."
    words = [*question.words, "--nan-policy", "omit"]
    return replace(question, words=words, note="\n".join(filter(None, [question.note, note])))


def _outcome(sample: Sample, files: list[str]) -> Question | None:
    score, outcome = sample.having("score"), sample.having("outcome")
    group = sample.having("group", without=[outcome, score])
    if not (score and outcome and group):
        return None
    request = sample.having("request", without=[group])
    more = ["--request", request] if request else []
    words = ["outcome-test", *files, "--score", score, "--outcome", outcome, "--group", group, *more]
    return Question("Is some group held to a higher bar?", words)


def _options(**columns: str) -> list[str]:
    """Options for the columns that are not named like their role, which is the default."""
    return [word for role, column in columns.items() if column != role for word in (f"--{role}", column)]


def _ranked(sample: Sample) -> tuple[str, str, str, list[str]]:
    """Request, rank and group of rankings, and the options that differ from their defaults."""
    rank, request = sample.having("rank"), sample.having("request")
    system = sample.having("system", without=[request])
    group = sample.having("group", without=[system, request, rank])
    return rank, request, group, _options(request=request, rank=rank) + (["--system", system] if system else [])


def _prefix(sample: Sample, files: list[str]) -> Question | None:
    rank, request, group, words = _ranked(sample)
    if not (rank and request and group):
        return None
    label = shlex.quote(sample.rarest(group))  # more often than not the one that somebody worries about
    return Question(
        "Does every top of the ranking mirror the whole?",
        ["prefix", *files, "--group", group, *words],
        f"Add --protected {label} (or another label) for one side against the rest.",
    )


def _exposure(sample: Sample, files: list[str]) -> Question | None:
    rank, request, group, words = _ranked(sample)
    item = sample.having("item", without=[request])
    if not (rank and request and item):
        return None
    words = ["exposure", *files, "--groups", group or GROUPS, *words, *_options(item=item)]
    text = "Who is exposed, and is it in proportion?"
    if not group:
        return Question(text, words, f"{GROUPS} is a file with a group for each item.")
    return Question(text, [*words, "--protected", sample.rarest(group)])


def _recommender(sample: Sample, files: list[str]) -> Question | None:
    user = sample.having("user")
    item, score = sample.having("item", without=[user]), sample.having("score")
    if not (user and item and score) or sample.having("rank"):
        return None
    words = _options(user=user, item=item, score=score)
    group = sample.having("group")
    more = ["--user-groups", group] if group else []
    return Question(
        "Does the recommender serve users, and items, even-handedly?",
        ["recommender", *files, *words, *more, "--top", "10"],
    )


def _inequality(sample: Sample, files: list[str]) -> Question | None:
    unit = sample.having("unit") or sample.having("user") or sample.having("item")
    if not unit or sample.having("rank"):
        return None
    amount, group = sample.having("amount", without=[unit]), sample.having("group", without=[unit])
    words = ["inequality", *files, "--unit", unit, *(["--amount", amount] if amount else []), "--population", "none"]
    return Question("How unevenly is it spread?", [*words, *(["--by", group] if group else [])])


def _parts(sample: Sample, files: list[str]) -> Question | None:
    """Groups of units where each unit has one label; sources where it has several."""
    spread = _inequality(sample, files)
    if spread is None or "--by" not in spread.words or "--amount" not in spread.words:
        return None
    words, group = spread.words[1:-2], spread.words[-1]
    unit = words[words.index("--unit") + 1]
    if sample.is_constant_within(unit, group):
        return Question("Is the inequality within groups or between them?", ["decompose", *words, "--group", group])
    return Question("Which source drives the inequality?", ["sources", *words, "--source", group])


QUESTIONS: tuple[Callable[[Sample, list[str]], Question | None], ...] = (
    _outcome, _exposure, _prefix, _recommender, _inequality, _parts,
)  # fmt: skip
