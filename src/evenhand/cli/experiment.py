"""`evenhand experiment`: the option --power beside those of the audit."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `--power`, which is `--arm none`: a power analysis on a log without a change."""
    from evenhand.cli.audit import dest

    group = parser.add_mutually_exclusive_group(required=True)
    arm = parser._option_string_actions["--arm"]  # noqa: SLF001  (no public way to find an option)
    arm.required = False
    group._group_actions.append(arm)  # noqa: SLF001
    group.add_argument(
        "--power", dest=dest("arm"), action="store_const", const=["none"], default=argparse.SUPPRESS,
        help="plan a test from a log without a change: the smallest difference detected with 80%% power",
    )  # fmt: skip
