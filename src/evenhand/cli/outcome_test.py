"""`evenhand outcome-test`."""

from __future__ import annotations

import argparse
from typing import Any

from evenhand.cli.options import add_output, finish, progress, source
from evenhand.errors import EvenhandError

EXAMPLE = """\
examples:
  evenhand outcome-test invites.parquet --score score --outcome accepted --group gender --request viewer_id --reference male
  evenhand outcome-test jobs.parquet --score score --outcome applied --group gender --kind classification --threshold 0.4 \\
      --request job_id --html bar.html

A positive gap means that the group does better than the reference at the same score: the score under-rates it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLE
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="Parquet, CSV or JSON lines (also .gz), or a glob in quotes"
    )
    roles = parser.add_argument_group("roles")
    roles.add_argument("--score", required=True, help="column with the score")
    roles.add_argument("--outcome", required=True, help="column with what became of the candidate")
    roles.add_argument("--group", required=True, help="column with the group; a missing one is 'unknown'")
    roles.add_argument("--reference", help="group that the others are compared with (default: the largest)")
    roles.add_argument("--request", help="column with the query or job; errors are then clustered by it")
    roles.add_argument("--treated", help="column that says (0 or 1) whose outcome could be seen (default: everybody's)")
    roles.add_argument("--cluster", help="column to cluster by, if not --request")
    how = parser.add_argument_group("what and how")
    how.add_argument("--kind", choices=("ranking", "classification"), default="ranking", help="default: ranking")
    how.add_argument("--threshold", type=float, help="score from which candidates are treated (classification)")
    how.add_argument(
        "--bins", action="append", help="number of bins, or edges such as 0.2,0.5,0.8; may be repeated (default: 10)"
    )
    how.add_argument("--covariance", choices=("HC1", "classical", "cluster"), help="default: clustered, or else HC1")
    how.add_argument("--level", type=float, default=0.95, help="coverage of the intervals (default: 0.95)")
    how.add_argument("--min-units", type=int, default=None, help="suppress cells with fewer rows")
    how.add_argument("--nan-policy", choices=("raise", "omit"), default="raise", help="what a missing value does")
    how.add_argument("--engine", choices=("polars", "duckdb"), default="polars", help="what reads the files")
    again = parser.add_argument_group("what would change without the bias")
    again.add_argument("--counterfactual", action="store_true", help="give the slots again and say who gains")
    again.add_argument("--folds", type=int, default=2, help="parts that predict for each other (default: 2)")
    again.add_argument("--window", choices=("bin", "none"), default="bin", help="how far below the threshold to look")
    again.add_argument("--baseline", choices=("recalibrated",), help="compare with predictions without group terms")
    again.add_argument("--null-draws", type=int, default=200, help="draws of the band by chance alone (default: 200)")
    again.add_argument("--seed", type=int, default=None, help="seed of folds and draws (default: drawn and recorded)")
    add_output(parser)


ROLES = ("score", "outcome", "group", "reference", "request", "treated", "cluster", "kind", "threshold", "covariance")


def run(args: argparse.Namespace) -> int:
    from evenhand.audits.outcome import outcome_test

    chosen: dict[str, Any] = {name: getattr(args, name) for name in (*ROLES, "level", "min_units", "nan_policy")}
    with progress("reading", quiet=args.no_progress):
        result: Any = outcome_test(source(args.files, args.engine), bins=bins(",".join(args.bins or ["10"])), **chosen)
        result = _again(result, args) if args.counterfactual else result
    return finish(result, args)


def _again(result: Any, args: argparse.Namespace) -> Any:
    window = None if args.window == "none" else args.window
    return result.counterfactual(
        folds=args.folds, window=window, baseline=args.baseline, null_draws=args.null_draws, rng=args.seed
    )


def bins(text: str) -> int | list[float]:
    """A number of bins, or edges with commas between."""
    try:
        return int(text) if "," not in text and "." not in text else [float(part) for part in text.split(",")]
    except ValueError as error:
        raise EvenhandError(f"--bins {text!r} cannot be read. Write a number, or edges such as 0.2,0.5,0.8.") from error
