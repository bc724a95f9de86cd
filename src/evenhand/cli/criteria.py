"""`evenhand criteria`."""

from __future__ import annotations

import argparse
from typing import Any

from evenhand.cli.inequality import add_files, add_units, units
from evenhand.cli.options import add_metrics, add_output, finish, progress, source
from evenhand.errors import EvenhandError

EXAMPLE = """\
example:
  evenhand criteria events.parquet --unit author_id --amount impressions --population authors.parquet --by source

Each criterion of the paper's Table 2 is measured on this data: what was measured, the number behind it, and what the
authors judged. effect needs --by or several --amount."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLE
    add_files(parser)
    add_units(parser, several=True)
    how = parser.add_argument_group("what and how")
    add_metrics(how, "criteria")
    how.add_argument("--draws", type=int, default=199, help="resampled populations per slice (default: 199)")
    how.add_argument(
        "--cutoff",
        action="append",
        default=[],
        metavar="CRITERION=MEDIUM,HIGH",
        help="e.g. stable=0.1,0.02; may be repeated",
    )
    how.add_argument("--seed", type=int, default=None, help="seed of the random draws (default: drawn and recorded)")
    how.add_argument("--min-units", type=int, default=None, help="leave out slices with fewer units")
    how.add_argument(
        "--nan-policy", choices=("raise", "omit", "propagate"), default="raise", help="what a missing value does"
    )
    how.add_argument(
        "--engine", choices=("polars", "duckdb"), default="polars", help="what reads the files (default: polars)"
    )
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    from evenhand.audits.criteria import criteria

    chosen: dict[str, Any] = {"metrics": args.metrics} if args.metrics else {}
    cutoffs = dict(_cutoff(text) for text in args.cutoff) or None
    with progress("reading", quiet=args.no_progress):
        result = criteria(
            source(args.files, args.engine), cutoffs=cutoffs, draws=args.draws, rng=args.seed,
            min_units=args.min_units, nan_policy=args.nan_policy, **units(args), **chosen,
        )  # fmt: skip
    return finish(result, args)


def _cutoff(text: str) -> tuple[str, tuple[float, ...]]:
    name, _, numbers = text.partition("=")
    try:
        return name.strip(), tuple(float(x) for x in numbers.split(","))
    except ValueError as error:
        raise EvenhandError(
            f"--cutoff {text!r} cannot be read. Write CRITERION=MEDIUM,HIGH, such as stable=0.1,0.02."
        ) from error
