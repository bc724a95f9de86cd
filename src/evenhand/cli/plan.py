"""`evenhand plan`: a plan file from a command, whether plan files can be run, or the JSON Schema of plans."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from evenhand.errors import EvenhandError

HEAD = "# evenhand run plan.toml\n"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--schema", action="store_true", help="print the JSON Schema of plans instead")
    parser.add_argument(
        "--check", action="store_true", help="check plan files instead: audits, keys and rules, no data"
    )
    text = "a verb with its options; with --check, plan files"
    parser.add_argument("words", metavar="VERB ...", nargs=argparse.REMAINDER, help=text)


def run(args: argparse.Namespace) -> int:
    if args.schema:
        from evenhand.cli.schema import text

        sys.stdout.write(text())
        return 0
    if args.check:
        return check(args.words)
    if not args.words:
        raise EvenhandError(
            "evenhand plan needs a command to write as a plan, as in: evenhand plan inequality log.csv ..."
        )
    sys.stdout.write(HEAD + plan_of(args.words))
    return 0


def check(names: Sequence[str]) -> int:
    """2 where a plan file could not be run whatever the data, with a line for each; every `${NAME}` counts as given."""
    from evenhand.cli.plans import load, plan, variable_names
    from evenhand.report.checks import parse

    if not names:
        raise EvenhandError("--check needs plan files. Name them, as in: evenhand plan --check plan.toml.")
    exit_code = 0
    for path in map(Path, names):
        try:
            raw = load(path)
            values = {name: name for name in variable_names(raw)}
            for step in plan(path, raw, values, datetime.now(UTC).date()).steps:
                step.audit.call(**step.parameters)
                for rule in step.answer.get("check", []):
                    parse(rule)
        except EvenhandError as error:
            where = "" if str(path) in str(error) else f"{str(path)!r}: "
            print(f"evenhand: {where}{error}", file=sys.stderr)
            exit_code = 2
    return exit_code


def plan_of(words: list[str]) -> str:
    """A command as a plan file."""
    from evenhand import cli
    from evenhand.cli.audit import audit_of, bind
    from evenhand.report.reproduce import plan_file

    typed = cli.parse(words)
    if not cli.is_audit(typed.verb):
        audits = ", ".join(verb for verb in cli.VERBS if cli.is_audit(verb))
        raise EvenhandError(f"{typed.verb!r} is not an audit, and a plan runs audits. Use one of: {audits}.")
    audit = audit_of(typed.verb)
    positional, by_name = bind(audit, typed)
    recorded, objects = audit.call(*positional, **by_name).recorded
    if objects:
        raise EvenhandError(f"A plan cannot hold {', '.join(objects)}. Name files instead.")
    if "rng" not in by_name:
        recorded.pop("rng", None)
    answer = {
        "check": typed.check, "baseline": typed.against, "inconclusive": typed.inconclusive,
        "adjust": typed.adjust if typed.adjust == "none" else None,
        "outputs": [path for path in (typed.html, typed.output) if path], "plot": typed.plot, "history": typed.history,
        "csv": getattr(typed, "csv", None), "junit": typed.junit, "summary": typed.summary,
    }  # fmt: skip
    return plan_file({**recorded, **{key: value for key, value in answer.items() if value}})
