"""What changed and when: a history as a page, as lines, and whether to raise an alarm.

examples:
  evenhand run plan.toml --history reach.parquet --at 2026-11-16
  evenhand history reach.parquet --html trend.html
  evenhand history reach.parquet --alarm 0.05 --format csv
  evenhand history reach.parquet --format openmetrics --output reach.prom     # the latest numbers, for Prometheus
  evenhand history reach.parquet --format grafana --output dashboard.json     # a dashboard that reads them
"""

from __future__ import annotations

import argparse

from evenhand.cli.options import Asked, add_output, conclude, finish
from evenhand.errors import EvenhandError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE.parquet")
    parser.add_argument(
        "--alarm", metavar="RATE", nargs="?", const=0.05, type=float,
        help="answer with the alarms alone; RATE is the chance that a stable quantity ever gives a false one (default: 0.05)",
    )  # fmt: skip
    add_output(parser, ["trend"], gates=False)


def run(args: argparse.Namespace) -> int:
    from evenhand.history.histories import RATE, history
    from evenhand.results import Result

    if args.history or args.check:
        raise EvenhandError("--history and --check are for the answer of an audit, and this is none. Leave them out.")
    kept = history(args.file)
    rate = RATE if args.alarm is None else args.alarm
    if args.format in ("openmetrics", "grafana") and not args.sentences:
        return conclude([Asked(latest.audit, Result(latest), []) for latest in kept.latest()], args)
    return finish(kept.trend(rate) if args.alarm is None else kept.alarms(rate), args)
