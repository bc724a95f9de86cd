"""`evenhand recommender`."""

from __future__ import annotations

import argparse
from typing import Any

from evenhand.cli.options import add_output, add_uncertainty, finish, given, progress, source

EXAMPLE = """\
examples:
  evenhand recommender scores.npz --user-groups users.csv --versus a --protected b --top 10 --html bias.html
  evenhand recommender scores.parquet --relevant clicks.parquet --user-groups users.csv --top 10 --items 100000
  evenhand recommender lists.csv --score none --user-groups gender -m exposure_tv -m item_gini
  evenhand recommender scores.npz --user-groups users.csv --top 10 --convention holisticai

scores are a matrix (.npz of numpy or scipy, .npy; users are numbered from 0) or a table with a row per user and item.
--user-groups is a table of user and group, a table of group alone (one row per row of the matrix), or a column of scores."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLE
    parser.add_argument(
        "files",
        nargs="+",
        metavar="SCORES",
        help="a matrix (.npz, .npy), or a table: Parquet, CSV or JSON lines (also .gz)",
    )
    roles = parser.add_argument_group("roles")
    roles.add_argument("--user-groups", metavar="FILE|COLUMN", help="which group each user belongs to")
    roles.add_argument(
        "--protected",
        action="append",
        metavar="LABEL",
        help="group of users that may be served worse; repeated: several taken together",
    )
    roles.add_argument(
        "--versus", action="append", metavar="LABEL", help="group it is compared with; repeated: several taken together"
    )
    roles.add_argument("--relevant", metavar="FILE", help="the truth, in the same form as the scores")
    roles.add_argument("--items", metavar="N|FILE", help="the whole catalogue (default: the items of the table)")
    for name, default in (("user", "user"), ("item", "item"), ("group", "group")):
        roles.add_argument(f"--{name}", default=default, help=f"column of the {name} (default: {default})")
    roles.add_argument(
        "--score", default="score", help="column of the score, or none if every row is shown (default: score)"
    )
    roles.add_argument(
        "--relevance", help="column of the relevance in the truth (default: relevance, or like the scores)"
    )
    rules = parser.add_argument_group("what is shown")
    rules.add_argument("--top", type=int, help="the best so many of each user")
    rules.add_argument("--threshold", type=float, help="every score from here up")
    rules.add_argument(
        "--ties", choices=("first", "last", "fractional"), default="first", help="at the last slot (default: first)"
    )
    rules.add_argument("--true-top", type=int, help="relevant are the best so many of the truth")
    rules.add_argument(
        "--true-threshold", type=float, help="relevant is what the truth has from here up (default: above 0)"
    )
    rules.add_argument("--normalize", action="store_true", help="bring scores and truth together to [0, 1] first")
    rules.add_argument("--convention", help="another tool's numbers on purpose, e.g. holisticai")
    rules.add_argument(
        "--chance",
        default="permutation(199)",
        help="user labels dealt out at random, or none (default: permutation(199))",
    )
    add_uncertainty(parser, missing=())
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    from evenhand.audits.recommender import recommender

    matrix = len(args.files) == 1 and args.files[0].endswith((".npz", ".npy"))
    scores = args.files[0] if matrix else source(args.files, args.engine)
    with progress("reading", quiet=args.no_progress):
        result = recommender(scores, **_roles(args), **given(args))
    return finish(result, args)


def _roles(args: argparse.Namespace) -> dict[str, Any]:
    """The words of the command line as arguments of the audit."""
    same = ("user_groups", "relevant", "user", "item", "group", "relevance", "top", "threshold", "ties", "true_top",
            "true_threshold", "normalize", "convention")  # fmt: skip
    items = args.items
    return {
        **{name: getattr(args, name) for name in same},
        "protected": _one_or_several(args.protected),
        "versus": _one_or_several(args.versus),
        "items": int(items) if items and items.isdigit() else items,
        "score": None if args.score == "none" else args.score,
        "chance": None if args.chance == "none" else args.chance,
    }


def _one_or_several(labels: list[str] | None) -> Any:
    return labels[0] if labels and len(labels) == 1 else labels
