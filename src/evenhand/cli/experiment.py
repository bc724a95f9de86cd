r"""Whether a change made it more even: arms of an experiment, or two periods, compared by what was randomised.

examples:
  evenhand experiment log.parquet --unit author_id --amount views --arm variant --randomized viewer_id --population none
  evenhand experiment log.parquet --unit author_id --amount views --arm variant --randomized author_id --population none
  evenhand experiment log.parquet --unit author_id --amount views --arm month --randomized none --control 2026-09 --population none
  evenhand experiment last_week.parquet --unit author_id --amount views --power --randomized viewer_id --population none \
      --shares control=0.9,new=0.1

randomized is the column whose values were assigned to arms at random:
  a column      viewers, requests or sessions: arms hold the same units, whole viewers are re-assigned
  the unit      authors in arms: different units, which are re-assigned
  none          nothing was (two periods, two sources): each unit is compared with itself
"""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`--power` is `--arm none`: a log without a change, and what a test on it would find."""
    from evenhand.cli.audit import dest

    one_of = parser.add_mutually_exclusive_group(required=True)
    arm = parser._option_string_actions["--arm"]  # noqa: SLF001  (no public way to find an option again)
    arm.required = False
    one_of._group_actions.append(arm)  # noqa: SLF001
    one_of.add_argument(
        "--power", dest=dest("arm"), action="store_const", const=["none"], default=argparse.SUPPRESS,
        help="plan a test from a log without a change: the smallest difference found with 80%% power",
    )  # fmt: skip
