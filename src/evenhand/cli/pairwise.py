"""`evenhand pairwise`."""

from __future__ import annotations

import argparse
from typing import Any

from evenhand.cli.options import add_output, add_sides, add_systems, add_uncertainty, finish, given, progress, source

EXAMPLE = """\
examples:
  evenhand pairwise scores.parquet --request user --groups artist_gender --relevance test.csv --protected female
  evenhand pairwise scores.csv --system model --groups books.csv --relevance rating --protected f --negatives 10000

Pass all that was scored, not a list that was cut: pairs need items on both sides of the cut."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLE
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="Parquet, CSV or JSON lines (also .gz), or TREC runs; a glob in quotes"
    )
    roles = parser.add_argument_group("roles")
    roles.add_argument(
        "--groups", action="append", required=True, metavar="COLUMN|FILE",
        help="column of groups, or a file with the group of each item; columns given repeatedly are combined",
    )  # fmt: skip
    roles.add_argument(
        "--relevance", required=True, metavar="COLUMN|FILE", help="column of relevance, or a file of judgments"
    )
    add_sides(roles)
    roles.add_argument("--request", default="request", help="column of the query or user (default: request)")
    roles.add_argument("--item", default="item", help="column of the item (default: item)")
    roles.add_argument("--score", default="score", help="column of the score, highest first (default: score)")
    roles.add_argument("--system", help="column of the system")
    roles.add_argument("--by", action="append", default=[], help="column to slice by; may be repeated")
    rules = parser.add_argument_group("rules")
    rules.add_argument(
        "--average", choices=("pooled", "macro"), default="pooled", help="all pairs alike, or all requests"
    )
    rules.add_argument("--negatives", type=int, help="draw this many less relevant items per item (default: all pairs)")
    rules.add_argument(
        "--unknown", choices=("drop", "group", "unprotected", "raise"), default="drop",
        help="what items without a group do (default: drop)",
    )  # fmt: skip
    rules.add_argument(
        "--missing-relevance", choices=("zero", "drop", "raise"), default="zero",
        help="what scored items without a judgment do (default: zero)",
    )  # fmt: skip
    add_uncertainty(parser, missing=("omit", "raise"))
    add_systems(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    from evenhand.audits.pairwise import pairwise

    with progress("reading", quiet=args.no_progress):
        result = pairwise(source(args.files, args.engine), **_roles(args), **given(args))
    return finish(result, args)


def _roles(args: argparse.Namespace) -> dict[str, Any]:
    """The words of the command line as arguments of the audit."""
    return {
        "groups": args.groups[0] if len(args.groups) == 1 else args.groups,
        "relevance": args.relevance,
        "protected": _one_or_more(args.protected),
        "versus": _one_or_more(args.versus),
        "request": args.request,
        "item": args.item,
        "score": args.score,
        "system": args.system,
        "by": args.by or None,
        "average": args.average,
        "negatives": args.negatives,
        "unknown": args.unknown,
        "missing_relevance": args.missing_relevance,
    }


def _one_or_more(labels: list[str] | None) -> Any:
    return labels[0] if labels and len(labels) == 1 else labels
