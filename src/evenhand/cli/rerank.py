"""`evenhand rerank`: new lists from scores, by a re-ranker."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evenhand.audits.declare import Audit


def _tool() -> Audit:
    from evenhand.audits import rerank  # noqa: F401  (declares it)
    from evenhand.audits.declare import TOOLS

    return TOOLS["rerank"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from evenhand.cli.audit import add_audit
    from evenhand.cli.options import add_no_progress

    add_audit(parser, _tool())
    group = parser.add_argument_group("output")
    text = "write the lists to FILE instead of standard output"
    group.add_argument("--output", dest="lists", metavar="FILE", help=text)
    add_no_progress(group)
    parser.set_defaults(written=("lists",))


def run(args: argparse.Namespace) -> int:
    from evenhand.cli.audit import call, in_flags
    from evenhand.cli.options import inputs, progress
    from evenhand.cli.outputs import write_table_or_print
    from evenhand.errors import EvenhandError
    from evenhand.report.files import refuse_unwritable

    tool = _tool()
    refuse_unwritable(filter(None, [args.lists]), inputs(args))
    try:
        with progress("reading", quiet=args.no_progress):
            lists = call(tool, args)
    except EvenhandError as error:
        raise EvenhandError(in_flags(str(error), tool)) from error
    write_table_or_print(lists, args.lists)
    return 0
