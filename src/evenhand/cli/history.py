"""`evenhand history`: trends and alarms from the file that `--history` writes."""

from __future__ import annotations

import argparse

from evenhand.cli.options import Delivery, add_output, deliver, finish
from evenhand.errors import EvenhandError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE.parquet", help="history, as --history writes it")
    parser.add_argument(
        "--alarm", metavar="RATE", nargs="?", const=0.05, type=float,
        help="show only the alarms, and exit with code 1 while one stands; RATE is the chance that a stable series raises a false "
        "alarm in a year (default: 0.05)",
    )  # fmt: skip
    add_output(parser, ["trend"], gates=False)


def run(args: argparse.Namespace) -> int:
    from evenhand.history.histories import RATE, history
    from evenhand.results import Result

    if args.history or args.check:
        raise EvenhandError("--history and --check only work with an audit. Leave them out.")
    stored = history(args.file)
    rate = RATE if args.alarm is None else args.alarm
    if args.format in ("openmetrics", "grafana") and not args.sentences:
        return deliver([Delivery(latest.audit, Result(latest), []) for latest in stored.latest()], args)
    if args.alarm is None:
        return finish(stored.trend(rate), args)
    alarms = stored.alarms(rate)
    return max(finish(alarms, args), int(alarms.standing > 0))
