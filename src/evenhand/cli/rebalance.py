"""`evenhand rebalance`: files of boosts and new lists beside the result."""

from __future__ import annotations

import argparse
from typing import Any

from evenhand.errors import EvenhandError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("files for serving")
    group.add_argument("--boosts", metavar="FILE", help="write a boost for each provider, to join in a serving system")
    group.add_argument("--rankings", metavar="FILE", help="write new lists for all requests")
    group.add_argument("--take", type=float, metavar="X", help="strength of these files (default: the highest)")
    text = "make new lists by drawing from the policy, or by adding boosts to scores (default: policy)"
    group.add_argument("--by-means", choices=("policy", "boosts"), default="policy", help=text)
    parser.set_defaults(written=("boosts", "rankings"))


def after(result: Any, args: argparse.Namespace) -> Any:
    """The result, after its boosts and rankings were written where options ask for them."""
    from evenhand.report.files import write_table

    if args.take is not None and not (args.boosts or args.rankings):
        raise EvenhandError("--take names the strength of files. Pass --boosts or --rankings with one.")
    strength = args.take
    if strength is None:
        strength = max(s for s in result.findings.columns["strength"] if s is not None)
    if args.boosts:
        write_table(args.boosts, result.boosts(strength))
    if args.rankings:
        write_table(args.rankings, result.rankings(strength, by_means=args.by_means))
    return result
