r"""Whether equally scored candidates of different groups realise equal outcomes.

examples:
  evenhand outcome-test invites.parquet --score score --outcome accepted --group gender --request viewer_id --reference male
  evenhand outcome-test jobs.parquet --score score --outcome applied --group gender --kind classification --threshold 0.4 \
      --request job_id --html bar.html

A positive gap means that the group does better than the reference at the same score: the score under-rates it.
"""

from __future__ import annotations

import argparse
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    again = parser.add_argument_group("what would change without the bias")
    again.add_argument("--counterfactual", action="store_true", help="give the slots again and say who gains")
    again.add_argument("--folds", type=int, default=2, help="parts that predict for each other (default: 2)")
    again.add_argument("--window", choices=("bin", "none"), default="bin", help="how far below the threshold to look")
    again.add_argument(
        "--baseline",
        choices=("recalibrated", "none"),
        default="none",
        help="compare with predictions without group terms",
    )
    again.add_argument("--null-draws", type=int, default=200, help="draws of the band by chance alone (default: 200)")
    again.add_argument("--seed", type=int, default=None, help="seed of folds and draws (default: drawn and recorded)")


def after(result: Any, args: argparse.Namespace) -> Any:
    """The slots given again, where that was asked for."""
    if not args.counterfactual:
        return result
    window, baseline = (None if word == "none" else word for word in (args.window, args.baseline))
    return result.counterfactual(
        folds=args.folds, window=window, baseline=baseline, null_draws=args.null_draws, rng=args.seed
    )
