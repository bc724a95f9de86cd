"""`evenhand decompose`."""

from __future__ import annotations

import argparse

from evenhand.cli.inequality import add_files, add_units, units
from evenhand.cli.options import add_output, add_uncertainty, finish, given, progress, source

EXAMPLE = """\
example:
  evenhand decompose events.parquet --unit author_id --amount impressions --group country --population authors.parquet \\
      --index 'atkinson(epsilon=0.5)'

gini: total = within + between + overlap; theil, ge(alpha=2): total = within + between;
atkinson(epsilon=0.5): 1 - total = (1 - within)(1 - between).
The unseen must have a group: --population takes a table with the group column, GROUP=N,..., or none."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLE
    add_files(parser)
    roles = add_units(parser)
    roles.add_argument(
        "--group", required=True, help="column that says which group a unit belongs to, or bins of a number"
    )
    roles.add_argument("--weight", help="column with the weight of each unit")
    roles.add_argument(
        "--index", default="gini", help="gini, theil, ge(alpha=2) or atkinson(epsilon=0.5) (default: gini)"
    )
    add_uncertainty(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    from evenhand.audits.decompose import decompose

    with progress("reading", quiet=args.no_progress):
        result = decompose(
            source(args.files, args.engine), group=args.group, weight=args.weight, index=args.index, **units(args), **given(args)
        )  # fmt: skip
    return finish(result, args)
