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

from evenhand.cli.counterfactual import add_again, given_again


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--counterfactual", action="store_true", help="as evenhand counterfactual: give the slots again"
    )
    add_again(parser)


def after(result: Any, args: argparse.Namespace) -> Any:
    """The slots given again, where that was asked for."""
    return given_again(result, args) if args.counterfactual else result
