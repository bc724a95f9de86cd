"""`evenhand rerank`: new lists from scores, by a re-ranker."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from evenhand.cli.audit import add_audit, call, reading
from evenhand.cli.options import add_no_progress, inputs

if TYPE_CHECKING:
    from evenhand.audits.declare import Audit


def _tool() -> Audit:
    from evenhand.audits import rerank  # noqa: F401  (declares it)
    from evenhand.audits.declare import TOOLS

    return TOOLS["rerank"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_audit(parser, _tool())
    group = parser.add_argument_group("output")
    text = "write the lists to FILE instead of standard output"
    group.add_argument("--output", dest="lists", metavar="FILE", help=text)
    add_no_progress(group)
    parser.set_defaults(written=("lists",))


def run(args: argparse.Namespace) -> int:
    from evenhand.cli.outputs import write_table_or_print
    from evenhand.report.files import refuse_unwritable

    tool = _tool()
    refuse_unwritable(filter(None, [args.lists]), inputs(args))
    with reading(tool, args):
        lists = call(tool, args)
    write_table_or_print(lists, args.lists)
    return 0
