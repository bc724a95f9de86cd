"""`evenhand recalibrate`: learn corrected scores from outcomes, or apply them."""

from __future__ import annotations

import argparse
import sys
from typing import Any

ADDED = "recalibrated"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from evenhand.cli.options import add_no_progress

    roles = parser.add_argument_group("roles")
    parser.add_argument("files", nargs="+", metavar="FILE", help="Parquet, CSV, JSON lines (also .gz) or Excel")
    roles.add_argument("--score", required=True, metavar="COLUMN", help="column with the score")
    text = "column with the group; a missing value is the group unknown"
    roles.add_argument("--group", required=True, metavar="COLUMN", help=text)
    text = "column with the outcome of each candidate; with it, a model is learned"
    roles.add_argument("--outcome", metavar="COLUMN", help=text)
    text = "file of the model: written with --outcome, otherwise read"
    parser.add_argument("--model", required=True, metavar="FILE.json", help=text)
    how = parser.add_argument_group("how to learn")
    text = "number of score bins with equally many rows (default: 10)"
    how.add_argument("--bins", type=int, default=10, metavar="N", help=text)
    how.add_argument("--reference", metavar="LABEL", help="group that gaps are measured from (default: the largest)")
    how.add_argument("--weight", metavar="COLUMN", help="column with the weight of each row")
    text = "column with what rows share, such as the request or the job: noise is judged by whole clusters"
    how.add_argument("--cluster", metavar="COLUMN", help=text)
    out = parser.add_argument_group("output")
    text = "write the corrected table to FILE instead of standard output"
    out.add_argument("--output", dest="table", metavar="FILE", help=text)
    add_no_progress(out)


def run(args: argparse.Namespace) -> int:
    from evenhand.cli.options import progress
    from evenhand.errors import EvenhandError
    from evenhand.report.files import refuse_unwritable

    if args.outcome and args.table:
        raise EvenhandError(
            "--outcome learns a model and writes no table. Leave --output out, and apply the model in a second command."
        )
    if not args.outcome and (args.weight or args.cluster):
        raise EvenhandError("--weight and --cluster are for learning. Pass --outcome, or leave them out.")
    reads = [*args.files, *([] if args.outcome else [args.model])]
    refuse_unwritable(filter(None, [args.model if args.outcome else None, args.table]), reads)
    with progress("reading", quiet=args.no_progress):
        return _learn(args) if args.outcome else _apply(args)


def _table(args: argparse.Namespace, *roles: str) -> Any:
    """The whole table, with numbers read as such; all missing columns are one error."""
    from evenhand.errors import all_problems
    from evenhand.sources.opening import fetch, open_table
    from evenhand.sources.relation import missing_columns

    named = [(role, column) for role in roles if (column := getattr(args, role)) is not None]
    numeric = [column for role, column in named if role not in ("group", "cluster")]
    opened = open_table(args.files if len(args.files) > 1 else args.files[0]).with_numbers(*numeric)
    problems = [p.replace(f"{r}=", f"--{r} ") for (r, c) in named for p in missing_columns(opened, [(r, c)])]
    if problems:
        raise all_problems(problems, where="The command")
    return fetch(opened).frame


def _learn(args: argparse.Namespace) -> int:
    from evenhand.audits.outcome.remedies import OutcomeRecalibrator

    frame = _table(args, "score", "group", "outcome", "weight", "cluster")
    model = OutcomeRecalibrator(bins=args.bins, reference=args.reference)
    roles = {"weights": args.weight, "clusters": args.cluster}
    more = {role: frame[column] for role, column in roles.items() if column is not None}
    model.fit(frame[args.score], frame[args.group], frame[args.outcome], **more)
    model.to_json(args.model)
    print(f"wrote {args.model}: {frame.height:,} rows, groups {', '.join(model.groups_)}", file=sys.stderr)
    return 0


def _apply(args: argparse.Namespace) -> int:
    import polars as pl

    from evenhand.audits.outcome.remedies import OutcomeRecalibrator
    from evenhand.cli.outputs import write_table_or_print
    from evenhand.errors import EvenhandError

    model, frame = OutcomeRecalibrator.from_json(args.model), _table(args, "score", "group")
    if ADDED in frame.columns:
        raise EvenhandError(f"The table already has a column {ADDED!r}. Rename it first.")
    groups = frame[args.group].to_list()
    corrected = frame.with_columns(pl.Series(ADDED, model.transform(frame[args.score], groups)))
    if new := sorted({str(g) for g in groups if g is not None} - set(model.groups_)):
        print(
            f"evenhand: the model was not trained on {', '.join(new[:10])}; the curve of all groups was used for them.",
            file=sys.stderr,
        )
    write_table_or_print(corrected, args.table)
    return 0
