"""`evenhand counterfactual`: the outcome test, and slots reallocated by predicted outcome."""

from __future__ import annotations

import argparse
from typing import Any

from evenhand.cli import audit_of

AUDIT = "outcome-test"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from evenhand.audits.outcome.remedies import CHARTS
    from evenhand.cli.audit import add_audit
    from evenhand.cli.options import add_output

    add_audit(parser, audit_of(AUDIT))
    add_reallocation(parser)
    add_output(parser, CHARTS)


def add_reallocation(parser: argparse.ArgumentParser) -> None:
    """Add the options of a reallocation of slots."""
    group = parser.add_argument_group("reallocation of slots")
    group.add_argument("--folds", type=int, default=2, help="number of cross-fitting folds (default: 2)")
    group.add_argument(
        "--window", choices=("bin", "none"), default="bin",
        help="how far below the threshold a candidate may score: one bin width, or any distance (none) (default: bin)",
    )  # fmt: skip
    group.add_argument(
        "--baseline", choices=("recalibrated", "none"), default="none",
        help="compare with predictions that ignore the group (recalibrated), or with the slots as they were (default: none)",
    )  # fmt: skip
    group.add_argument(
        "--null-draws", type=int, default=200, help="draws for the range expected by chance (default: 200)"
    )
    group.add_argument("--seed", type=int, default=None, help="seed of folds and draws (default: drawn and recorded)")


def reallocate(result: Any, args: argparse.Namespace) -> Any:
    """The counterfactual of an outcome test, as the options say."""
    window, baseline = (None if word == "none" else word for word in (args.window, args.baseline))
    return result.counterfactual(
        folds=args.folds, window=window, baseline=baseline, null_draws=args.null_draws, rng=args.seed
    )


def run(args: argparse.Namespace) -> int:
    from evenhand.cli.audit import call, in_flags
    from evenhand.cli.options import finish, progress
    from evenhand.errors import EvenhandError

    audit = audit_of(AUDIT)
    try:
        with progress("reading", quiet=args.no_progress):
            result = reallocate(call(audit, args), args)
    except EvenhandError as error:
        raise EvenhandError(in_flags(str(error), audit)) from error
    return finish(result, args)
