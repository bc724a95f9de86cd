"""Audits from a plan file, for a build or a schedule: exit code 1 when a check fails.

example plan.toml:
  audit = "inequality"
  table = "events.parquet"          # paths are relative to the plan
  unit = "author_id"
  amount = "impressions"
  population = "authors.parquet"    # or a number, or "none"
  by = "source"
  metrics = ["gini", "top_share(p=0.01)"]
  rng = 7
  check = ["gini <= 0.9"]
  outputs = ["reach.html", "reach.json"]

  evenhand run plan.toml --check 'top_share(p=0.01) <= 50%'
  evenhand run plan.toml --baseline last.json --check 'gini <= baseline + 0.01' --junit checks.xml
  evenhand run plan.toml --history reach.parquet --at 2026-11-16     # ${DATE} in the plan is that day
  evenhand run plan.toml --history reach.parquet --each day          # every day that has files and no numbers yet
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.cli.options import Asked, add_output, conclude, outputs, progress
from evenhand.errors import EvenhandError

if TYPE_CHECKING:
    from evenhand.cli.ending import Ending
    from evenhand.cli.plans import Plan, Step


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", metavar="PLAN.toml")
    many = parser.add_argument_group("days and variables")
    many.add_argument("--each", choices=("day",), help="walk all days that have files, from where it stopped last time")
    many.add_argument("--since", metavar="DATE", help="with --each: the first day")
    many.add_argument("--until", metavar="DATE", help="with --each: the last day")
    many.add_argument(
        "--set", metavar="NAME=VALUE", action="append", default=[], help="value of ${NAME} in the plan; may be repeated"
    )
    add_output(parser, ["as for the audit"])


def run(args: argparse.Namespace) -> int:
    from evenhand.cli.plans import load, plan, variables
    from evenhand.history.histories import day

    path, given = Path(args.plan), variables(args.set)
    raw = load(path)
    if args.each:
        return _walk(path, raw, given, args)
    if args.since or args.until:
        raise EvenhandError("--since and --until bound --each. Add --each day, or leave them out.")
    at = None if args.at is None else day(args.at)
    made = plan(path, raw, given, at)
    _complete(args, made)
    asked = [_asked(step, args) for step in made.steps]
    outputs(args, asked)
    with progress("reading", quiet=args.no_progress):
        answered = [replace(one, result=_ask(step)) for one, step in zip(asked, made.steps, strict=True)]
    return conclude(answered, args)


def _complete(args: argparse.Namespace, made: Plan) -> None:
    """Where the plan says what the command does not."""
    for key in ("history", "junit", "summary"):
        setattr(args, key, getattr(args, key) or made.whole.get(key))


def _asked(step: Step, args: argparse.Namespace) -> Asked:
    held = step.endings
    reads = [w for v in step.arguments.values() for w in (v if isinstance(v, list) else [v]) if isinstance(w, str)]
    return Asked(
        step.name, None, [*held.get("check", []), *args.check], list(held.get("outputs", [])), list(held.get("plot", [])),
        [*args.against, *held.get("baseline", [])], args.inconclusive or held.get("inconclusive", "estimate"), reads,
    )  # fmt: skip


def _ask(step: Step) -> Any:
    """The answer, marked with the plan as it is written rather than as its paths came out."""
    result = step.audit(**step.arguments)
    facts = {**result.findings.provenance, "plan_hash": step.hash}
    return replace(result, findings=replace(result.findings, provenance=facts))


def _walk(path: Path, raw: dict[str, Any], given: dict[str, str], args: argparse.Namespace) -> int:
    """Every day that has files and no numbers yet; what was done stays done, whatever happens to the days after it."""
    from evenhand.cli.ending import tell_build
    from evenhand.cli.plans import days, plan
    from evenhand.history.histories import day, history

    if args.at is not None or args.output or args.html or args.plot:
        raise EvenhandError(
            "--each walks all days, and --at, --output, --html and --plot are for one. Use outputs with ${DATE} in the plan."
        )
    first = day(args.since) if args.since else date.min
    last = day(args.until) if args.until else date.max
    plans = {at: plan(path, raw, given, at) for at in days(path, raw, given) if first <= at <= last}
    for made in plans.values():
        _complete(args, made)
    if not args.history:
        raise EvenhandError("--each keeps the numbers of every day, and no file for them is named. Add --history FILE.")
    there = history(args.history).held()
    new = [at for at, made in plans.items() if args.replace or not {(s.hash, at) for s in made.steps} <= there]
    gates, failed = [], 0
    for place, at in enumerate(new, start=1):
        args.at = at.isoformat()
        with progress(f"{at} ({place:,} of {len(new):,})", quiet=args.no_progress):
            ending = _day(plans[at], args)
        gates += ending.gates
        failed = max(failed, ending.verdict())
        if not args.no_progress:
            print(f"{at}: added ({place:,} of {len(new):,})", file=sys.stderr)
    tell_build(gates, args)
    print(f"{len(new):,} days were added to {args.history}; {len(plans) - len(new):,} were there.", file=sys.stderr)
    return failed


def _day(made: Plan, args: argparse.Namespace) -> Ending:
    """Ask for one day, keep its numbers, and write what the plan wants written."""
    from evenhand.cli.ending import Ending

    asked = [_asked(step, args) for step in made.steps]
    outputs(args, asked)
    ending = Ending([replace(one, result=_ask(step)) for one, step in zip(asked, made.steps, strict=True)], args)
    files = ending.files()
    ending.keep()
    for write in files:
        write()
    return ending
