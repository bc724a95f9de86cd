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

GROUPS, RUN = "GROUPS.csv", "RUN"
"""Placeholders in a command for files that only the user can name."""


@dataclass(frozen=True)
class Question:
    """A question that the table can answer, and the words to type after `evenhand`."""

    text: str
    words: list[str]
    note: str = ""

    @property
    def is_complete(self) -> bool:
        return not {GROUPS, RUN} & set(self.words)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from evenhand.cli.audit import add_csv

    parser.add_argument(
        "file", nargs="+", metavar="FILE", help="Parquet, CSV, JSON lines (also .gz) or Excel, or a glob in quotes"
    )
    add_csv(parser)
    parser.add_argument("--run", action="store_true", help="run the most likely audit at once")
    parser.add_argument("--html", metavar="FILE", help="with --run, also write a report that opens in any browser")


def run(args: argparse.Namespace) -> int:
    from evenhand.cli import main
    from evenhand.cli.audit import source
    from evenhand.cli.options import print_reading
    from evenhand.sources.inputs import Inputs
    from evenhand.sources.inspect import inspect

    if args.html and not args.run:
        raise EvenhandError(
            "--html needs a result to report. Add --run, or add --html to one of the proposed commands."
        )
    inputs = Inputs()
    with inputs.recording():
        sample = inspect(source(args.file, "duckdb", csv=args.csv))
    print_reading(inputs.reading())
    read_as = ["--csv", args.csv] if args.csv else []
    proposals = [replace(q, words=[*q.words, *read_as]) for q in questions(sample, args.file)]
    if not args.run:
        print(*described(sample), "", *proposed(proposals), sep="\n")
        return 0
    runnable = [question for question in proposals if question.is_complete]
    if not runnable:
        raise EvenhandError(
            "These columns are not enough for any audit. Run evenhand look without --run to see what was found."
        )
    words = [*runnable[0].words, "--sentences", *(["--html", args.html] if args.html else [])]
    print(f"$ {shlex.join(['evenhand', *words])}", file=sys.stderr)
    return main(words)


def described(sample: Sample) -> list[str]:
    """Lines of a table of the columns: name, type, number of values, possible roles."""
    arm = _arm(sample)
    roles = {c.name: [role for role in c.roles if role != "arm" or c.name == arm] for c in sample.columns}
    rows = [("column", "type", "values", "missing", "for example", "could be")]
    rows += [
        (
            c.name,
            c.kind,
            f"{c.distinct:,}",
            f"{c.missing:,}" if c.missing else "",
            c.example,
            ", ".join(roles[c.name]) or "-",
        )
        for c in sample.columns
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    first = "the first " if sample.has_more else ""
    kind = (
        f"A TREC file of {'judgments' if sample.trec == 'judgments' else 'rankings (a run)'}: " if sample.trec else ""
    )
    odd = [f"{c.name} is nearly a number: {c.odd}." for c in sample.columns if c.odd]
    if rank := sample.ranking_from_zero:
        odd.append(f"{rank} runs from 0, and 1 is the best rank: add 1 to it to ask who is exposed.")
    return [
        f"{kind}{len(sample.columns)} columns, {first}{sample.rows:,} rows",
        "",
        *lines,
        *([""] if odd else []),
        *odd,
    ]


def proposed(proposals: list[Question]) -> list[str]:
    from evenhand.cli import POPULATION

    if not proposals:
        return [
            "No audit fits these columns. An audit needs, for example, a column of units and one of amounts:",
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
    if sample.trec:
        return [_trec(sample, files)]
    if groups := _table_of_groups(sample, files):
        return [groups]
    proposals = [question for question_for in QUESTIONS if (question := question_for(sample, files)) is not None]
    proposals.sort(key=lambda question: not question.is_complete)
    return [_omit_missing(sample, question) for question in proposals]


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


def _trec(sample: Sample, files: list[str]) -> Question:
    text, note = "Who is exposed, and is it in proportion?", f"{GROUPS} is a file with a group for each item."
    if sample.trec == "run":
        return Question(text, ["exposure", *files, "--groups", GROUPS], note)
    words = ["exposure", RUN, "--groups", GROUPS, "--relevance", files[0]]
    return Question(text, words, f"{RUN} is the run that was judged. {note}")


def _table_of_groups(sample: Sample, files: list[str]) -> Question | None:
    """A row per item with its labels and nothing else belongs beside rankings."""
    from evenhand.sources.inspect import KEY
    from evenhand.sources.relation import ITEM_NAMES

    items = [c.name for c in sample.columns if c.is_unique and {"item", "unit"} & set(c.roles)]
    others = [c for c in sample.columns if c.name not in items[:1]]
    are_labels = all("group" in c.roles or (c.is_called(KEY) and 2 * c.distinct < sample.rows) for c in others)
    if not items or not others or not are_labels:
        return None
    words = ["exposure", RUN, "--groups", files[0], *([] if items[0] in ITEM_NAMES else ["--item", items[0]])]
    return Question("Who is exposed, and is it in proportion?", words, f"{RUN} is a table of rankings of these items.")


def _lists(sample: Sample, files: list[str]) -> Question | None:
    from evenhand.sources.inspect import NAMES

    lists = [c.name for c in sample.columns if c.kind == "list"]
    requests = [c.name for c in sample.columns if c.is_unique] or sample.all_having("request") + sample.all_having(
        "user"
    )
    if not lists:
        return None
    item = next((name for name in lists if sample.column(name).is_called(NAMES["item"])), lists[0])
    words = ["exposure", *files, "--groups", GROUPS, *_options(request=next(iter(requests), "none"), item=item)]
    note = f"{item} holds lists: the position is the rank. {GROUPS} is a file with a group for each item."
    return Question("Who is exposed, and is it in proportion?", words, note)


def _pairwise(sample: Sample, files: list[str]) -> Question | None:
    """Scores of items that were judged, several for each request."""
    request, relevance = sample.having("request"), sample.having("relevance")
    if not (request and relevance) or sample.ranking[0]:
        return None
    score = sample.having("score", without=[relevance])
    item = next(
        (i for i in sample.all_having("item", without=[request]) if sample.distinct(request, i) == sample.rows), ""
    )
    group = sample.having("group", without=[request, relevance, score, item])
    if not (score and item and group):
        return None
    options = _options(request=request, item=item, score=score)
    words = [
        "pairwise",
        *files,
        "--groups",
        group,
        "--relevance",
        relevance,
        "--protected",
        sample.rarest(group),
        *options,
    ]
    return Question("Is a relevant item of each group as often ranked above others?", words)


def _outcome(sample: Sample, files: list[str]) -> Question | None:
    from evenhand.sources.inspect import NAMES

    score, outcome = sample.having("score"), sample.having("outcome")
    numbers = [c.name for c in sample.columns if c.kind == "number" and c.name != outcome]
    score = score or (numbers[0] if len(numbers) == 1 and sample.positive(outcome or numbers[0]) else "")
    if not (score and outcome) or sample.ranking[1] or _arm(sample):
        return None
    if sample.amount() and not (sample.column(outcome).is_called(NAMES["outcome"]) or sample.positive(outcome)):
        return None  # a flag of something that has amounts
    scored = [c.name for c in sample.columns if c.name not in (score, outcome) and sample.determines(score, c.name)]
    others = [c.name for c in sample.columns if c.distinct == 2 and "outcome" in c.roles and c.name != outcome]
    group = next(filter(None, [sample.having("group", without=[outcome, score, *scored]), *others]), "")
    if not group:
        return None
    label, request = sample.positive(outcome), sample.having("request", without=[group, *sample.all_having("item")])
    more = (["--positive", label] if label else []) + (["--request", request] if request else [])
    words = ["outcome-test", *files, "--score", score, "--outcome", outcome, "--group", group, *more]
    return Question("Is some group held to a higher bar?", words)


def _options(**columns: str) -> list[str]:
    """Options for the columns that are not named like their role, which is the default."""
    return [word for role, column in columns.items() if column != role for word in (f"--{role}", column)]


def _ranked(sample: Sample) -> tuple[str, list[str], list[str]]:
    """Rank of rankings, the columns that name one, and the options that differ from their defaults."""
    rank, keys = sample.ranking
    if not rank or (not keys and sample.amount(without=[rank])):  # a list of everybody by size is no ranking to audit
        return "", [], []
    system = next((key for key in keys if key in sample.all_having("system")), "") if len(keys) > 1 else ""
    others = sorted((key for key in keys if key != system), key=lambda key: -sample.column(key).distinct)
    request = others[0] if others else "none"
    slices = [word for key in others[1:] for word in ("--by", key)]
    words = _options(request=request, rank=rank) + (["--system", system] if system else []) + slices
    return rank, list(keys), words


def _group(sample: Sample, rank: str, keys: list[str]) -> str:
    """Labels of items: they differ within rankings, and do not follow from the rank."""
    from evenhand.sources.inspect import NAMES

    items = sample.all_having("item", without=[rank, *keys])
    flags = [  # that an item has in every ranking, and is not what happened there
        c.name for c in sample.columns
        if c.distinct == 2 and c.name not in (rank, *keys) and not c.is_called(NAMES["outcome"])
        and any(sample.distinct(i) < sample.rows and sample.determines(i, c.name) for i in items)
    ]  # fmt: skip
    able = [*sample.all_having("group", without=[rank, *keys]), *flags]
    return next(
        (g for g in able if not (keys and sample.determines(keys[0], g)) and not sample.determines(rank, g)), ""
    )


def _prefix(sample: Sample, files: list[str]) -> Question | None:
    rank, keys, words = _ranked(sample)
    group = _group(sample, rank, keys) if rank else ""
    if not group:
        return None
    label = shlex.quote(sample.rarest(group))  # more often than not the one that somebody worries about
    return Question(
        "Does every top of the ranking mirror the whole?",
        ["prefix", *files, "--group", group, *words],
        f"Add --protected {label} (or another label) for one side against the rest.",
    )


def _exposure(sample: Sample, files: list[str]) -> Question | None:
    rank, keys, words = _ranked(sample)
    items = sample.all_having("item", without=[rank, *keys]) if rank else []
    item = next((i for i in items if sample.distinct(i, *keys) == sample.rows), "")
    if not item:
        return None
    group = _group(sample, rank, keys)
    words = ["exposure", *files, "--groups", group or GROUPS, *words, *_options(item=item)]
    text = "Who is exposed, and is it in proportion?"
    if not group:
        return Question(text, words, f"{GROUPS} is a file with a group for each item.")
    rest = ["--versus", "*"] if len(sample.labels(group)) > 2 else []  # all others against the protected
    return Question(text, [*words, "--protected", sample.rarest(group), *rest])


def _scored(sample: Sample, files: list[str]) -> Question | None:
    """One list by score, where nothing else can be asked."""
    score = sample.having("score")
    group = sample.having("group", without=[score])
    if not (score and group) or sample.ranking[0] or sample.unit()[0]:
        return None
    ties = ["--ties", "input_order"] if sample.distinct(score) < sample.rows else []
    words = ["prefix", *files, "--group", group, "--score", score, "--request", "none", *ties]
    return Question("Does every top of the list by score mirror the whole?", words)


def _recommender(sample: Sample, files: list[str]) -> Question | None:
    user = sample.having("user")
    item, score = sample.having("item", without=[user]), sample.having("score")
    if not (user and item and score) or sample.ranking[0] or sample.column(score).is_called("rating"):
        return None  # ratings are what users said, not what a model predicts
    if sample.distinct(user, item) < sample.rows:
        return None
    words = _options(user=user, item=item, score=score)
    group = next((g for g in sample.all_having("group") if sample.determines(user, g)), "")
    more = ["--user-groups", group] if group else []
    return Question(
        "Does the recommender serve users, and items, even-handedly?",
        ["recommender", *files, *words, *more, "--top", "10"],
    )


def _arm(sample: Sample) -> str:
    """The column of the arms of an experiment: named so, or with a label of a control beside one of a treatment."""
    from evenhand.sources.inspect import CONTROL, NAMES, TREATMENT

    for name in sample.all_having("arm"):
        labels = {label.lower() for label in sample.labels(name)}
        is_split = bool(labels & set(CONTROL[:2])) or bool(labels & set(CONTROL) and labels & set(TREATMENT))
        if is_split and (labels & set(CONTROL[:2]) or sample.column(name).is_called(NAMES["arm"])):
            return name
    return ""


def _experiment(sample: Sample, files: list[str]) -> Question | None:
    from evenhand.sources.inspect import CONTROL

    arm, (unit, note) = _arm(sample), sample.unit()
    if not (arm and unit) or sample.ranking[1]:
        return None
    users = [*sample.all_having("user"), *sample.all_having("request"), *sample.all_having("item")]
    others = [name for name in dict.fromkeys([unit, *users]) if name != arm and sample.determines(name, arm)]
    randomized = others[0] if others else "none"
    amount, unnamed = sample.amount(without=[unit, arm]), sample.having("outcome", without=[arm])
    received = amount or (unnamed if randomized == unit and not sample.positive(unnamed or unit) else "")
    if not received and randomized == unit:
        return None
    labels = sorted(sample.labels(arm), key=lambda a: (CONTROL.index(a.lower()) if a.lower() in CONTROL else 99, a))
    words = ["experiment", *files, "--unit", unit, "--amount", received or "none", "--arm", arm]
    words += ["--randomized", randomized, "--control", labels[0], "--population", "none"]
    return Question("Did the change make it more even?", words, note)


def _inequality(sample: Sample, files: list[str]) -> Question | None:
    from evenhand.sources.inspect import NAMES

    unit, note = sample.unit()
    rank, keys = sample.ranking
    amount = sample.amount(without=[unit, rank])
    if keys and not (amount and sample.column(amount).is_called(NAMES["amount"])):
        return None  # what else stands in rankings (grades, clicks) is not received
    if not unit or (not amount and sample.column(unit).is_unique):
        return None
    able = sample.all_having("group", without=[unit, amount, rank])
    group = next((g for g in able if not sample.determines(g, unit)), "")
    places = {c.name: i for i, c in enumerate(sample.columns)}
    lost = [c for c in sample.nearly_amounts() if not amount or places[c.name] < places[amount]]
    notes = [note, *(f"{c.name} was not taken: {c.odd}." for c in lost)]
    words = ["inequality", *files, "--unit", unit, "--amount", amount or "none", "--population", "none"]
    more = ["--by", group] if group else []
    return Question("How unevenly is it spread?", [*words, *more], "\n".join(filter(None, notes)))


QUESTIONS: tuple[Callable[[Sample, list[str]], Question | None], ...] = (
    _experiment, _outcome, _lists, _pairwise, _exposure, _prefix, _recommender, _inequality, _scored,
)  # fmt: skip
