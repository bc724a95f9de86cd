"""Options that single audit verbs have beside the parameters of their audit, and what they do with the result."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from evenhand.errors import EvenhandError


def add_power(parser: argparse.ArgumentParser) -> None:
    """Add `--power` to experiment, which is `--arm none`: a power analysis on a log without a change."""
    from evenhand.cli.audit import dest

    group = parser.add_mutually_exclusive_group(required=True)
    arm = parser._option_string_actions["--arm"]  # noqa: SLF001  (no public way to find an option)
    arm.required = False
    group._group_actions.append(arm)  # noqa: SLF001
    group.add_argument(
        "--power", dest=dest("arm"), action="store_const", const=["none"], default=argparse.SUPPRESS,
        help="plan a test from a log without a change: the smallest difference detected with 80%% power",
    )  # fmt: skip


def add_counterfactual(parser: argparse.ArgumentParser) -> None:
    text = "then reallocate the slots, as evenhand counterfactual does"
    parser.add_argument("--counterfactual", action="store_true", help=text)
    add_reallocation(parser)


def add_reallocation(parser: argparse.ArgumentParser) -> None:
    """Add the options of a reallocation of slots."""
    group = parser.add_argument_group("reallocation of slots")
    group.add_argument("--folds", type=int, default=2, help="number of cross-fitting folds (default: 2)")
    text = "how far below the threshold a candidate may score: one bin width, or any distance (none) (default: bin)"
    group.add_argument("--window", choices=("bin", "none"), default="bin", help=text)
    text = (
        "compare with predictions that ignore the group (recalibrated), or with the slots as they were (default: none)"
    )
    group.add_argument("--baseline", choices=("recalibrated", "none"), default="none", help=text)
    text = "draws for the range expected by chance (default: 200 for each claim, at most 5,000)"
    group.add_argument("--null-draws", type=int, default=None, help=text)
    group.add_argument("--seed", type=int, default=None, help="seed of folds and draws (default: drawn and recorded)")


def reallocate(result: Any, args: argparse.Namespace) -> Any:
    """The counterfactual of an outcome test, as the options say."""
    window, baseline = (None if word == "none" else word for word in (args.window, args.baseline))
    return result.counterfactual(
        folds=args.folds, window=window, baseline=baseline, null_draws=args.null_draws, rng=args.seed
    )


def add_serving_files(parser: argparse.ArgumentParser) -> None:
    """Add the files that rebalance writes for a serving system."""
    group = parser.add_argument_group("files for serving")
    group.add_argument("--boosts", metavar="FILE", help="write a boost for each provider, to join in a serving system")
    group.add_argument("--rankings", metavar="FILE", help="write new lists for all requests")
    group.add_argument("--take", type=float, metavar="X", help="strength of these files (default: the highest)")
    text = "make new lists by drawing from the policy, or by adding boosts to scores (default: policy)"
    group.add_argument("--by-means", choices=("policy", "boosts"), default="policy", help=text)
    parser.set_defaults(written=("boosts", "rankings"))


def write_serving_files(result: Any, args: argparse.Namespace) -> Any:
    """The result, after its boosts and rankings were written where options ask for them."""
    from evenhand.report.files import write_table

    if args.take is not None and not (args.boosts or args.rankings):
        raise EvenhandError("--take is the strength of the files to write. Add --boosts FILE or --rankings FILE.")
    strength = args.take
    if strength is None:
        strength = max(s for s in result.findings.columns["strength"] if s is not None)
    if args.boosts:
        write_table(args.boosts, result.boosts(strength))
    if args.rankings:
        write_table(args.rankings, result.rankings(strength, by_means=args.by_means))
    return result


def add_movers(parser: argparse.ArgumentParser) -> None:
    """Add the file of units that a change goes with."""
    text = "write the units that the change goes with most: unit, before, after, effect (their number: --top)"
    parser.add_argument("--movers", metavar="FILE", help=text)
    parser.set_defaults(written=("movers",))


def write_movers(result: Any, args: argparse.Namespace) -> Any:
    """The result, after its movers were written where `--movers` asks for them."""
    from evenhand.report.files import write_table

    if args.movers:
        write_table(args.movers, result.movers)
    return result


def keep(result: Any, _: argparse.Namespace) -> Any:
    return result


Add = Callable[[argparse.ArgumentParser], None]
After = Callable[[Any, argparse.Namespace], Any]
EXTRAS: dict[str, tuple[Add, After]] = {
    "experiment": (add_power, keep),
    "explain": (add_movers, write_movers),
    "outcome-test": (
        add_counterfactual,
        lambda result, args: reallocate(result, args) if args.counterfactual else result,
    ),
    "rebalance": (add_serving_files, write_serving_files),
}
"""For each verb, what adds its options, and what is done with the result."""
