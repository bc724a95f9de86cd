"""`evenhand counterfactual`: the outcome test, and slots reallocated by predicted outcome."""

from __future__ import annotations

import argparse

from evenhand.cli.audit import add_audit, audit_of, call, reading
from evenhand.cli.extras import add_reallocation, reallocate
from evenhand.cli.options import add_output, finish


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from evenhand.audits.outcome.remedies import CHARTS

    add_audit(parser, audit_of("outcome-test"))
    add_reallocation(parser)
    add_output(parser, CHARTS)


def run(args: argparse.Namespace) -> int:
    audit = audit_of("outcome-test")
    with reading(audit, args):
        result = reallocate(call(audit, args), args)
    return finish(result, args)
