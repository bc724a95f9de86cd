"""`evenhand exposure`."""

from __future__ import annotations

import argparse
from typing import Any

from evenhand.cli.options import add_output, add_sides, add_systems, add_uncertainty, finish, given, progress, source
from evenhand.errors import EvenhandError

EXAMPLE = """\
examples:
  evenhand exposure recs.parquet --request user --groups artist_gender --protected female
  evenhand exposure 'runs/*.gz' --groups docs.csv --relevance 2020.qrels --protected developing -m awrf -m eel
  evenhand exposure runs.csv --system run --groups docs.csv --protected f -m 'awrf@10' -m 'log_dp(per_item=True)'
  evenhand exposure trec-fair:run.jsonl --groups trec-fair:article-level.csv --relevance trec-fair:sample.jsonl

Files without a table's ending (.parquet, .csv, .tsv, .jsonl) are TREC runs or, for --relevance, judgments (qrels).
trec-fair: before a path reads a file of the TREC Fair Ranking track (runs, ragged groups, judged queries).
--target may be population, equal, ranking, relevant, or shares: f=0.5,m=0.5"""

FAIR = "trec-fair:"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLE
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="Parquet, CSV or JSON lines (also .gz), or TREC runs; a glob in quotes"
    )
    _add_roles(parser.add_argument_group("roles"))
    rules = parser.add_argument_group("rules")
    rules.add_argument("--attention", help="browsing model, e.g. 'rbp(patience=0.8)' (default: each metric's own)")
    rules.add_argument("--target", default="population", help="what awrf aims at (default: population)")
    rules.add_argument(
        "--unknown", choices=("drop", "group", "unprotected", "raise"), default="drop",
        help="what items without a group do (default: drop, they keep their rank and count in no sum)",
    )  # fmt: skip
    rules.add_argument(
        "--missing-relevance", choices=("zero", "drop", "raise"), default="zero",
        help="what ranked items without a judgment do (default: zero)",
    )  # fmt: skip
    rules.add_argument(
        "--ties", choices=("raise", "input_order"), default="raise", help="what ties do (default: raise)"
    )
    rules.add_argument("--no-chance", action="store_true", help="leave out what random order would give")
    add_uncertainty(parser, missing=("raise", "omit"))
    add_systems(parser)
    add_output(parser)


def _add_roles(roles: Any) -> None:
    roles.add_argument(
        "--groups", action="append", required=True, metavar="COLUMN|FILE",
        help="column of groups, or a file with groups or shares by item; columns given repeatedly are combined",
    )  # fmt: skip
    roles.add_argument("--relevance", metavar="COLUMN|FILE", help="column of relevance, or a file of judgments")
    add_sides(roles)
    roles.add_argument("--request", default="request", help="column of the query or user (default: request)")
    roles.add_argument("--item", default="item", help="column of the item (default: item)")
    roles.add_argument("--rank", default="rank", help="column of the rank, 1 is best (default: rank)")
    roles.add_argument("--score", help="column of the predicted utility; without a rank it orders, highest first")
    roles.add_argument("--sample", help="column of the draw of a stochastic policy")
    roles.add_argument("--probability", help="column of the probability of the draw")
    roles.add_argument("--weight", help="column of the weight of the request")
    roles.add_argument("--system", help="column of the system")
    roles.add_argument("--by", action="append", default=[], help="column to slice by; may be repeated")


def run(args: argparse.Namespace) -> int:
    from evenhand.audits.exposure import exposure

    with progress("reading", quiet=args.no_progress):
        rankings, own = _rankings(args)
        result = exposure(rankings, **{**_roles(args), **own}, **given(args))
    return finish(result, args)


def _rankings(args: argparse.Namespace) -> tuple[Any, dict[str, Any]]:
    """The rankings, and the roles that a file of the TREC Fair track settles by itself."""
    fair = [f.removeprefix(FAIR) for f in args.files if f.startswith(FAIR)]
    if not fair:
        return source(args.files, args.engine), {}
    if len(fair) < len(args.files):
        raise EvenhandError(
            "Files of the TREC Fair track are mixed with others. Put trec-fair: before each, or before none."
        )
    from evenhand.views.trec_fair import trec_fair_run

    return trec_fair_run(fair), {"sample": "sample", "weight": "weight", "system": "system"}


def _roles(args: argparse.Namespace) -> dict[str, Any]:
    """The words of the command line as arguments of the audit."""
    return {
        "groups": _groups(args.groups),
        "relevance": _relevance(args.relevance),
        "protected": _one_or_more(args.protected),
        "versus": _one_or_more(args.versus),
        "attention": args.attention,
        "target": _target(args.target),
        "unknown": args.unknown,
        "missing_relevance": args.missing_relevance,
        "request": args.request,
        "item": args.item,
        "rank": args.rank,
        "score": args.score,
        "sample": args.sample,
        "probability": args.probability,
        "weight": args.weight,
        "system": args.system,
        "by": args.by or None,
        "ties": args.ties,
        "chance": not args.no_chance,
    }


def _one_or_more(labels: list[str] | None) -> Any:
    return labels[0] if labels and len(labels) == 1 else labels


def _groups(words: list[str]) -> Any:
    if len(words) == 1 and words[0].startswith(FAIR):
        from evenhand.views.trec_fair import trec_fair_groups

        return trec_fair_groups(words[0].removeprefix(FAIR))
    return words[0] if len(words) == 1 else words


def _relevance(word: str | None) -> Any:
    if word is not None and word.startswith(FAIR):
        from evenhand.views.trec_fair import trec_fair_queries

        return trec_fair_queries(word.removeprefix(FAIR))
    return word


def _target(text: str) -> Any:
    """A word, or `group=share,group=share`."""
    if "=" not in text:
        return text
    pairs = [part.rpartition("=") for part in text.split(",")]
    try:
        return {name.strip(): float(share) for name, _, share in pairs}
    except ValueError as error:
        raise EvenhandError(f"--target {text!r} cannot be read. Write a word, or group=share,group=share.") from error
