"""Correct scores so that the same score means the same outcome for every group: learn from one file, apply to another.

examples:
  evenhand recalibrate seen.parquet --score score --group gender --outcome accepted --model fair.json
  evenhand recalibrate new.parquet --score score --group gender --model fair.json --output corrected.parquet

With --outcome it learns and writes the model (JSON); without, it applies the model and adds the column recalibrated.
The corrected table is CSV on standard output, or a file that ends in .csv, .parquet or .jsonl.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

ADDED = "recalibrated"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    roles = parser.add_argument_group("roles")
    parser.add_argument("files", nargs="+", metavar="FILE", help="Parquet, CSV or JSON lines (also .gz)")
    roles.add_argument("--score", required=True, metavar="COLUMN", help="column of the score")
    roles.add_argument("--group", required=True, metavar="COLUMN", help="column of the group; a missing one is unknown")
    roles.add_argument(
        "--outcome", metavar="COLUMN", help="column of what became of the candidate: then a model is learned"
    )
    parser.add_argument(
        "--model", required=True, metavar="FILE.json", help="the model: written with --outcome, else read"
    )
    how = parser.add_argument_group("how to learn")
    how.add_argument("--bins", type=int, default=10, metavar="N", help="equally filled score bins (default: 10)")
    how.add_argument("--reference", metavar="LABEL", help="group that gaps are measured from (default: the largest)")
    out = parser.add_argument_group("output")
    out.add_argument(
        "--output", dest="table", metavar="FILE", help="write the corrected table to FILE instead of standard output"
    )
    out.add_argument("--no-progress", action="store_true", help="no progress on standard error")


def run(args: argparse.Namespace) -> int:
    from evenhand.cli.options import progress
    from evenhand.errors import EvenhandError
    from evenhand.report.files import refuse_unwritable

    if args.outcome and args.table:
        raise EvenhandError(
            "--output is for the corrected table, and --outcome learns a model. Apply it in a second command."
        )
    reads = [*args.files, *([] if args.outcome else [args.model])]
    refuse_unwritable(filter(None, [args.model if args.outcome else None, args.table]), reads)
    with progress("reading", quiet=args.no_progress):
        return _learned(args) if args.outcome else _applied(args)


def _columns(args: argparse.Namespace, *roles: str) -> Any:
    """The whole table, its numbers read as such; a role that is no column is an error."""
    from evenhand.errors import EvenhandError, all_problems
    from evenhand.sources.opening import fetch, open_table
    from evenhand.sources.relation import is_number
    from evenhand.sources.roles import missing_columns

    named = [(role, getattr(args, role)) for role in roles]
    numeric = [column for role, column in named if role != "group"]
    opened = open_table(args.files if len(args.files) > 1 else args.files[0]).with_numbers(*numeric)
    problems = [p.replace(f"{r}=", f"--{r} ") for (r, c) in named for p in missing_columns(opened, [(r, c)])]
    if problems:
        raise all_problems(problems, where="The command")
    lost = [c for c in numeric if not is_number(opened.schema[c])]
    if lost:
        raise EvenhandError(
            f"{lost[0]!r} holds {opened.schema[lost[0]]} values, not numbers. Convert the column first."
        )
    frame = fetch(opened).frame
    blank = {column: frame[column].is_null().sum() + frame[column].cast(float).is_nan().sum() for column in numeric}
    if empty := [column for column, many in blank.items() if many]:
        raise EvenhandError(f"{empty[0]!r} is missing in {blank[empty[0]]:,} rows. Remove them first.")
    return frame


def _learned(args: argparse.Namespace) -> int:
    from evenhand.audits.outcome.recalibrator import OutcomeRecalibrator

    frame = _columns(args, "score", "group", "outcome")
    model = OutcomeRecalibrator(bins=args.bins, reference=args.reference)
    model.fit(frame[args.score].to_numpy(), frame[args.group].to_list(), frame[args.outcome].to_numpy())
    model.to_json(args.model)
    print(f"wrote {args.model}: {frame.height:,} rows, groups {', '.join(model.groups_)}", file=sys.stderr)
    return 0


def _applied(args: argparse.Namespace) -> int:
    import polars as pl

    from evenhand.audits.outcome.recalibrator import OutcomeRecalibrator
    from evenhand.cli.ending import hand_over
    from evenhand.errors import EvenhandError

    model, frame = OutcomeRecalibrator.from_json(args.model), _columns(args, "score", "group")
    if ADDED in frame.columns:
        raise EvenhandError(f"The table has a column {ADDED!r} already. Rename it first.")
    groups = frame[args.group].to_list()
    corrected = frame.with_columns(pl.Series(ADDED, model.transform(frame[args.score].to_numpy(), groups)))
    if new := sorted({str(g) for g in groups if g is not None} - set(model.groups_)):
        said = ", ".join(new[:10])
        print(f"evenhand: the model has not seen {said}; these got the curve of all groups.", file=sys.stderr)
    hand_over(corrected, args.table)
    return 0
