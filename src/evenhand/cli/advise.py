"""`evenhand advise`."""

from __future__ import annotations

import argparse

from evenhand.cli.options import add_output, finish, progress, source

EXAMPLE = """\
examples:
  evenhand advise --balance medium --bias high
  evenhand advise --viewpoints 7 --bias low
  evenhand advise --goal opportunity --sparse
  evenhand advise serps.csv --request query --group stance --protected against --bias medium

The recommended metric comes first. With rankings, the balance is read off them, `chance` is what random order gives on a
typical list, and `found` how often a list with the expected bias would stand out from random orders."""

DEGREES = ("low", "medium", "high")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLE
    parser.add_argument("files", nargs="*", metavar="FILE", help="rankings, as for evenhand prefix (optional)")
    what = parser.add_argument_group("situation")
    what.add_argument("--balance", choices=DEGREES, help="how balanced protected and other items are")
    what.add_argument("--bias", choices=DEGREES, help="how biased you expect the rankings to be")
    what.add_argument("--viewpoints", type=int, help="number of labels, where no side is protected")
    what.add_argument(
        "--goal", choices=("one_ranking", "parity", "opportunity"), help="advice on exposure metrics, for this goal"
    )
    what.add_argument("--sparse", action="store_true", default=None, help="relevance judgments are sparse")
    roles = parser.add_argument_group("roles")
    roles.add_argument("--groups", metavar="COLUMN|FILE", help="with --goal: groups of items, as for evenhand exposure")
    roles.add_argument("--relevance", metavar="COLUMN|FILE", help="with --goal: judgments, as for evenhand exposure")
    roles.add_argument("--group", metavar="COLUMN|FILE", help="column of labels, or a file of labels by item")
    roles.add_argument("--protected", action="append", metavar="LABEL", help="protected label; may be repeated")
    roles.add_argument("--request", default="request", help="column of the query or user (default: request)")
    roles.add_argument("--item", default="item", help="column of the item; need not exist (default: item)")
    roles.add_argument("--rank", default="rank", help="column of the rank, 1 is best (default: rank)")
    roles.add_argument("--score", help="column of a score that orders instead, highest first")
    roles.add_argument(
        "--ties", choices=("raise", "input_order"), default="raise", help="what ties do (default: raise)"
    )
    parser.add_argument("--engine", choices=("polars", "duckdb"), default="polars", help="what reads the files")
    parser.add_argument(
        "--seed", type=int, default=None, help="seed of the random orders (default: drawn and recorded)"
    )
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    from evenhand.audits.advise import advise

    protected = args.protected
    with progress("weighing", quiet=args.no_progress):
        result = advise(
            source(args.files, args.engine) if args.files else None, balance=args.balance, bias=args.bias,
            viewpoints=args.viewpoints, goal=args.goal, sparse=args.sparse, groups=args.groups, relevance=args.relevance,
            group=args.group,
            protected=protected[0] if protected and len(protected) == 1 else protected, request=args.request,
            item=args.item, rank=args.rank, score=args.score, ties=args.ties, rng=args.seed,
        )  # fmt: skip
    return finish(result, args)
