"""New lists from scores by a re-ranker that people know: boosts, FA*IR, DetConstSort, calibrated lists.

examples:
  evenhand rerank candidates.parquet --method boosts --boosts boosts.csv --groups publisher --top 10 --output new.parquet
  evenhand rerank candidates.parquet --method 'fa_star_ir(p=0.3, alpha=0.1)' --groups gender --protected f --top 20
  evenhand rerank candidates.parquet --method 'calibrated(strength=0.5)' --groups genre --target rock=0.5,jazz=0.5 --top 10

The answer is a table of request, item and rank: CSV on standard output, or a file that ends in .csv, .parquet or .jsonl.
"""

from __future__ import annotations

import argparse
from typing import Any


def _declared() -> Any:
    from evenhand.audits.declare import TOOLS
    from evenhand.audits.rebalance import rerank  # noqa: F401  (declares it)

    return TOOLS["rerank"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from evenhand.cli.audit import add_audit

    add_audit(parser, _declared())
    out = parser.add_argument_group("output")
    out.add_argument(
        "--output", dest="lists", metavar="FILE", help="write the lists to FILE instead of standard output"
    )
    out.add_argument("--no-progress", action="store_true", help="no progress on standard error")
    parser.set_defaults(written=("lists",))


def run(args: argparse.Namespace) -> int:
    from evenhand.cli.audit import call, in_flags
    from evenhand.cli.ending import hand_over
    from evenhand.cli.options import inputs, progress
    from evenhand.errors import EvenhandError
    from evenhand.report.files import refuse_unwritable

    declared = _declared()
    refuse_unwritable(filter(None, [args.lists]), inputs(args))
    try:
        with progress("reading", quiet=args.no_progress):
            lists = call(declared, args)
    except EvenhandError as error:
        raise EvenhandError(in_flags(str(error), declared)) from error
    hand_over(lists, args.lists)
    return 0
