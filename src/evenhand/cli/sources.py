"""`evenhand sources`."""

from __future__ import annotations

import argparse

from evenhand.cli.inequality import add_files, add_units, units
from evenhand.cli.options import add_output, add_uncertainty, finish, given, progress, source

EXAMPLE = """\
example:
  evenhand sources events.parquet --unit author_id --amount impressions --source source --population authors.parquet

Per source: share of the total, own_gini, correlation with the rank of the total, contribution (they add up to the Gini
index), and marginal: 1% more from that source moves the index by 1% of it. Which source makes the skew? Read marginal."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLE
    add_files(parser)
    roles = add_units(parser)
    roles.add_argument("--source", required=True, help="column that says where an amount came from")
    add_uncertainty(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    from evenhand.audits.sources import sources

    with progress("reading", quiet=args.no_progress):
        result = sources(source(args.files, args.engine), source=args.source, **units(args), **given(args))
    return finish(result, args)
