"""`evenhand prefix`."""

from __future__ import annotations

import argparse
from typing import Any

from evenhand.cli.options import add_output, add_systems, add_uncertainty, finish, given, progress, source

EXAMPLE = """\
examples:
  evenhand prefix serps.csv --request query --group stance --protected against
  evenhand prefix serps.csv --request query --group stance --by engine -m ndjs --html viewpoints.html
  evenhand prefix serps.csv --group stance --protected=-3 --protected=-2 --protected=-1 -m ndd -m ndkl
  evenhand prefix 'runs/*.gz' --group labels.qrels --protected con       TREC runs, labels in the form of judgments

Files without a table's ending (.parquet, .csv, .tsv, .jsonl) are read as TREC runs: request Q0 item rank score tag,
ordered by score, ties by item, as trec_eval does."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLE
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="Parquet, CSV or JSON lines (also .gz), or TREC runs; a glob in quotes"
    )
    roles = parser.add_argument_group("roles")
    roles.add_argument(
        "--group", action="append", required=True, metavar="COLUMN|FILE",
        help="column of labels, or a file of labels by item; repeated: columns with the share of each group",
    )  # fmt: skip
    roles.add_argument(
        "--protected", action="append", metavar="LABEL", help="protected label; repeated: several taken together"
    )
    roles.add_argument("--request", default="request", help="column of the query or user (default: request)")
    roles.add_argument("--item", default="item", help="column of the item; need not exist (default: item)")
    roles.add_argument("--rank", default="rank", help="column of the rank, 1 is best (default: rank)")
    roles.add_argument("--score", help="column of a score that orders instead, highest first")
    roles.add_argument("--system", help="column of the system")
    roles.add_argument("--by", action="append", default=[], help="column to slice by; may be repeated")
    rules = parser.add_argument_group("rules")
    rules.add_argument(
        "--ties", choices=("raise", "input_order"), default="raise", help="what ties do (default: raise)"
    )
    rules.add_argument(
        "--unknown", choices=("drop", "group", "unprotected", "raise"), default="drop",
        help="what items without a label do (default: drop, they keep their rank and count in no share)",
    )  # fmt: skip
    rules.add_argument(
        "--chance", default="permutation(999)", help="random orders for p, or none (default: permutation(999))"
    )
    add_uncertainty(parser, missing=("raise", "omit"))
    add_systems(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    from evenhand.audits.prefix import prefix

    with progress("reading", quiet=args.no_progress):
        result = prefix(source(args.files, args.engine), **_roles(args), **given(args))
    return finish(result, args)


def _roles(args: argparse.Namespace) -> dict[str, Any]:
    """The words of the command line as arguments of the audit."""
    protected = args.protected
    return {
        "group": args.group[0] if len(args.group) == 1 else args.group,
        "protected": protected[0] if protected and len(protected) == 1 else protected,
        "request": args.request,
        "item": args.item,
        "rank": args.rank,
        "score": args.score,
        "system": args.system,
        "by": args.by or None,
        "ties": args.ties,
        "unknown": args.unknown,
        "chance": None if args.chance == "none" else args.chance,
    }
