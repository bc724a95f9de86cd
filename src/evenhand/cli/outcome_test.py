"""`evenhand outcome-test`: the option --counterfactual beside those of the audit."""

from __future__ import annotations

import argparse
from typing import Any

from evenhand.cli.counterfactual import add_reallocation, reallocate


def add_arguments(parser: argparse.ArgumentParser) -> None:
    text = "then reallocate the slots, as evenhand counterfactual does"
    parser.add_argument("--counterfactual", action="store_true", help=text)
    add_reallocation(parser)


def after(result: Any, args: argparse.Namespace) -> Any:
    """The result, or its counterfactual with --counterfactual."""
    return reallocate(result, args) if args.counterfactual else result
