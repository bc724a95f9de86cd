"""The most even exposure for each loss of relevance, as boosts or new lists.

examples:
  evenhand rebalance candidates.parquet --providers publisher --top 10 --html fix.html
  evenhand rebalance candidates.parquet --providers publisher --top 10 --strength 0.1 --boosts boosts.csv --rankings new.parquet
  evenhand rebalance candidates.parquet --providers gender --top 10 --objective f=0.5,m=0.5 --served shown.parquet --sentences
  evenhand rebalance candidates.parquet --providers 'rollup(songs.csv, group=artist)' --top 10      songs of several artists

Files of boosts and rankings end in .csv, .parquet or .jsonl and are of the strongest strength unless --take names another.
"""

from __future__ import annotations

import argparse
from typing import Any

from evenhand.errors import EvenhandError

WRITTEN = ("boosts", "rankings")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    away = parser.add_argument_group("to take away")
    away.add_argument("--boosts", metavar="FILE", help="write a boost for each provider: a join in any serving system")
    away.add_argument("--rankings", metavar="FILE", help="write new lists of all requests")
    away.add_argument("--take", type=float, metavar="X", help="the strength that files are of (default: the strongest)")
    away.add_argument(
        "--by-means",
        choices=("policy", "boosts"),
        default="policy",
        help="new lists drawn from the policy, or by the boosts",
    )
    parser.set_defaults(written=WRITTEN)


def after(result: Any, args: argparse.Namespace) -> Any:
    """Write what was asked for."""
    from evenhand.report.files import write_table

    if args.take is not None and not (args.boosts or args.rankings):
        raise EvenhandError("--take names the strength of files. Pass --boosts or --rankings with one.")
    strength = (
        args.take if args.take is not None else max(s for s in result.findings.columns["strength"] if s is not None)
    )
    if args.boosts:
        write_table(args.boosts, result.boosts(strength))
    if args.rankings:
        write_table(args.rankings, result.rankings(strength, by_means=args.by_means))
    return result
