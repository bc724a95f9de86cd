r"""Who would gain if slots went to the highest predicted outcomes? The outcome test's lines, used to give them again.

examples:
  evenhand counterfactual jobs.parquet --score score --outcome applied --group gender --treated notified --request job_id \
      --kind classification --threshold 0.4 --seed 7
  evenhand counterfactual feed.parquet --score score --outcome clicked --group gender --request viewer --html slots.html

Options are those of outcome-test, which it asks first. Never read a gain without its band of chance (the ..._null rows).
"""

from __future__ import annotations

import argparse
from typing import Any


def _audit() -> Any:
    from evenhand.audits.declare import find

    return find("outcome_test")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from evenhand.audits.outcome.counterfactual import CHARTS
    from evenhand.cli.audit import add_audit
    from evenhand.cli.options import add_output

    add_audit(parser, _audit())
    add_again(parser)
    add_output(parser, CHARTS)


def add_again(parser: argparse.ArgumentParser) -> None:
    """How slots are given again."""
    again = parser.add_argument_group("what would change without the bias")
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


def given_again(result: Any, args: argparse.Namespace) -> Any:
    """The slots of an outcome test given again, as the options say."""
    window, baseline = (None if word == "none" else word for word in (args.window, args.baseline))
    return result.counterfactual(
        folds=args.folds, window=window, baseline=baseline, null_draws=args.null_draws, rng=args.seed
    )


def run(args: argparse.Namespace) -> int:
    from evenhand.cli.audit import call, in_flags
    from evenhand.cli.options import finish, progress
    from evenhand.errors import EvenhandError

    try:
        with progress("reading", quiet=args.no_progress):
            result = given_again(call(_audit(), args), args)
    except EvenhandError as error:
        raise EvenhandError(in_flags(str(error), _audit())) from error
    return finish(result, args)
