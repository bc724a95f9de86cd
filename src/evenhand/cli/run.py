"""`evenhand run`: the audits of a plan file, for one day or for each day that has files."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.cli.options import Delivery, add_output, deliver, output_files, progress
from evenhand.errors import EvenhandError

if TYPE_CHECKING:
    from evenhand.cli.plan import Plan, Step


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", metavar="PLAN.toml", help="plan file; evenhand plan writes one")
    group = parser.add_argument_group("days and variables")
    group.add_argument("--each", choices=("day",), help="run every day that has files and is not in the history yet")
    group.add_argument(
        "--date", metavar="COLUMN", help="with --history: column of dates; every period of it becomes a row"
    )
    group.add_argument(
        "--every",
        choices=("day", "week", "month", "quarter", "year"),
        help="with --date: length of a period (default: month)",
    )
    group.add_argument("--since", metavar="DATE", help="with --each: first day to run")
    group.add_argument("--until", metavar="DATE", help="with --each: last day to run")
    group.add_argument(
        "--set", metavar="NAME=VALUE", action="append", default=[], help="value of ${NAME} in the plan; may be repeated"
    )
    add_output(parser, ["as for the audit"])


def run(args: argparse.Namespace) -> int:
    from evenhand.cli.plan import load, plan, variables
    from evenhand.history.histories import day

    path, values = Path(args.plan), variables(args.set)
    raw = load(path)
    if args.each:
        return _run_each_day(path, raw, values, args)
    if args.since or args.until:
        raise EvenhandError("--since and --until only work with --each. Add --each day, or leave them out.")
    if args.date or args.every:
        return _run_periods(plan(path, raw, values, None), args)
    plan_of_day = plan(path, raw, values, None if args.at is None else day(args.at))
    _complete(args, plan_of_day)
    with progress("reading", quiet=args.no_progress):
        deliveries = _results(plan_of_day, args)
    return deliver(deliveries, args)


def _complete(args: argparse.Namespace, plan: Plan) -> None:
    for key in ("history", "junit", "summary"):
        setattr(args, key, getattr(args, key) or plan.whole.get(key))


def _deliveries(plan: Plan, args: argparse.Namespace) -> list[Delivery]:
    deliveries = []
    for step in plan.steps:
        keys, values = step.answer, step.arguments.values()
        deliveries.append(
            Delivery(
                step.name,
                None,
                check=[*keys.get("check", []), *args.check],
                outputs=list(keys.get("outputs", [])),
                plots=list(keys.get("plot", [])),
                baseline=[*args.against, *keys.get("baseline", [])],
                inconclusive=args.inconclusive or keys.get("inconclusive", "estimate"),
                adjust=args.adjust or keys.get("adjust", "holm"),
                reads=[w for v in values for w in (v if isinstance(v, list) else [v]) if isinstance(w, str)],
            )
        )
    return deliveries


def _results(plan: Plan, args: argparse.Namespace) -> list[Delivery]:
    """Run the audits of a plan, after checking that all their files can be written."""
    deliveries = _deliveries(plan, args)
    output_files(args, deliveries)
    results = []
    for step, delivery in zip(plan.steps, deliveries, strict=True):
        result: Any = step.audit(**step.arguments)
        # The hash of the plan before its paths were resolved: the same wherever the plan lies.
        facts = {**result.findings.provenance, "plan_hash": step.hash}
        result = replace(result, findings=replace(result.findings, provenance=facts))
        results.append(replace(delivery, result=result))
    return results


def _run_each_day(path: Path, raw: dict[str, Any], values: dict[str, str], args: argparse.Namespace) -> int:
    """Run every day that has files and no numbers yet; finished days stay on failure."""
    from evenhand.cli.outputs import Outputs, write_build_files
    from evenhand.cli.plan import days, plan
    from evenhand.history.histories import day, history

    if args.at is not None or args.output or args.html or args.plot:
        raise EvenhandError(
            "--each day runs several days, and --at, --output, --html and --plot are for one. Use outputs with ${DATE} in the plan."
        )
    first = day(args.since) if args.since else date.min
    last = day(args.until) if args.until else date.max
    plans = {at: plan(path, raw, values, at) for at in days(path, raw, values) if first <= at <= last}
    for plan_of_day in plans.values():
        _complete(args, plan_of_day)
    if not args.history:
        raise EvenhandError("--each day needs a file for the numbers of every day. Add --history FILE.parquet.")
    stored = history(args.history).plans_and_days()
    new = [at for at, p in plans.items() if args.replace or not {(step.hash, at) for step in p.steps} <= stored]
    gates, exit_code = [], 0
    for number, at in enumerate(new, start=1):
        args.at = at.isoformat()
        with progress(f"{at} ({number:,} of {len(new):,})", quiet=args.no_progress):
            outputs = Outputs(_results(plans[at], args), args)
            writers = outputs.writers()
            outputs.append_history()
            for write in writers:
                write()
        gates += outputs.gates
        exit_code = max(exit_code, outputs.print_checks())
        if not args.no_progress:
            print(f"{at}: added ({number:,} of {len(new):,})", file=sys.stderr)
    write_build_files(gates, args)
    skipped = len(plans) - len(new)
    print(f"added {len(new):,} days to {args.history}; {skipped:,} were already there", file=sys.stderr)
    return exit_code


def _run_periods(plan: Plan, args: argparse.Namespace) -> int:
    """Fill a history from one dated table: the audits run once, sliced by period; checks are of the last period."""
    from evenhand.cli.outputs import Outputs, add_to_history, write_build_files

    _complete(args, plan)
    if not args.date or not args.history:
        raise EvenhandError(
            "--every needs a column of dates and a file for the numbers. Add --date COLUMN and --history FILE.parquet."
        )
    if args.at is not None or args.output or args.html or args.plot:
        raise EvenhandError(
            "--date runs every period, and --at, --output, --html and --plot are for one result. Leave them out; "
            "evenhand history FILE --html makes a page of the history."
        )
    deliveries = _deliveries(plan, args)
    parts: list[tuple[Any, Any]] = []
    last = []
    for step, delivery in zip(plan.steps, deliveries, strict=True):
        with progress("reading", quiet=args.no_progress):
            of_step = _by_period(step, args)
        parts += of_step
        last.append(replace(delivery, result=of_step[-1][0], outputs=[], plots=[]))
    args.at = max(day for _, day in parts).isoformat()
    outputs = Outputs(last, args)
    add_to_history(parts, args)
    write_build_files(outputs.gates, args)
    if any(delivery.outputs or delivery.plots for delivery in deliveries):
        print("evenhand: outputs and plot of the plan are for one result and were not written.", file=sys.stderr)
    periods = len({day for _, day in parts})
    checked = f"; checks are of the last, {args.at}" if any(delivery.check for delivery in last) else ""
    print(f"{periods:,} {'period is' if periods == 1 else 'periods are'} in {args.history}{checked}", file=sys.stderr)
    return outputs.print_checks()


def _by_period(step: Step, args: argparse.Namespace) -> list[tuple[Any, Any]]:
    from evenhand.results import Result
    from evenhand.sources.relation import periods

    if "by" not in step.audit.parameters:
        raise EvenhandError(
            f"{step.audit.name} has no slices, and --date makes one of every period. Run the plan once per period."
        )
    slices = step.written.get("by") or []
    by = [str(periods(args.date, args.every or "month")), *([slices] if isinstance(slices, str) else slices)]
    result: Any = step.audit(**replace(step, written={**step.written, "by": by}).arguments)
    findings = result.findings
    days = findings.columns[args.date]
    slices = tuple(name for name in findings.slices if name != args.date)
    facts = {**findings.provenance, "plan_hash": step.hash}  # of the plan without periods
    parts = []
    for day in sorted({day for day in days if day is not None}):
        columns = {
            name: [v for v, d in zip(values, days, strict=True) if d == day]
            for name, values in findings.columns.items()
            if name != args.date
        }
        part = replace(findings, slices=slices, columns=columns, provenance=facts, claims=(), curves={})
        parts.append((Result(part), day))
    if parts and None in days:
        print(f"evenhand: rows without {args.date} are in no period and were left out.", file=sys.stderr)
    if not parts:
        raise EvenhandError(f"--date {args.date} holds no dates: the table has no row with one. Name another column.")
    return parts
