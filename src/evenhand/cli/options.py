"""Options and endings that every audit verb shares."""

from __future__ import annotations

import argparse
import contextlib
import glob
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evenhand.cli import colour
from evenhand.errors import EvenhandError, printable

FORMATS = ("table", "csv", "tsv", "jsonl", "json", "markdown", "latex", "openmetrics", "grafana")
ENDINGS = {
    ".txt": "table", ".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".json": "json", ".md": "markdown", ".tex": "latex",
    ".prom": "openmetrics",
}  # fmt: skip
"""Files of a plan's `outputs`, by how their names end; .html is the report."""
PATIENCE = 2.0
"""Seconds of silence before progress is shown."""


def add_output(parser: argparse.ArgumentParser, charts: Sequence[str] = (), *, gates: bool = True) -> None:
    """Where the answer goes and in what form; `charts` are the kinds there are, nothing is drawn or checked without any."""
    out = parser.add_argument_group("output")
    out.add_argument("--format", choices=FORMATS, default="table", help="form of the answer (default: table)")
    out.add_argument(
        "--raw",
        action="store_true",
        help="csv and tsv cells as they are, also text that a spreadsheet runs as a formula",
    )
    out.add_argument("--output", metavar="FILE", help="write the answer to FILE instead of standard output")
    out.add_argument("--html", metavar="FILE", help="write a report that opens in any browser")
    shown = bool(charts)
    kinds = f"write a chart (.svg, .png or .html); kinds: {', '.join(charts)}"
    out.add_argument(
        "--plot", metavar="KIND=FILE", action="append", default=[], help=kinds if shown else argparse.SUPPRESS
    )
    out.add_argument("--sentences", action="store_true", help="say the findings in words instead of the table")
    out.add_argument("--no-progress", action="store_true", help="no progress on standard error")
    _add_gates(parser, hidden=not (shown and gates))


def _add_gates(parser: argparse.ArgumentParser, *, hidden: bool) -> None:
    """Rules that decide the exit code, and the file that keeps the numbers day by day."""
    gates = parser.add_argument_group("checks and history")

    taken = parser._option_string_actions  # noqa: SLF001  (no public list)

    def add(name: str, help: str, **more: Any) -> None:
        if (
            name in taken
        ):  # the audit has an option of that name, and its own words come first; a plan has the key as well
            parser.set_defaults(**{more["dest"]: more.get("default")})
        else:
            gates.add_argument(name, help=argparse.SUPPRESS if hidden else help, **more)

    several: dict[str, Any] = {"action": "append", "default": []}
    rule = "exit 1 unless it holds: a metric of the table, a sign and a number, as in 'gini <= 0.9'; may be repeated"
    add("--check", rule, dest="check", metavar="RULE", **several)
    last = "a saved result (--format json) for rules such as 'gini <= baseline + 0.01'; may be repeated"
    add("--baseline", last, dest="against", metavar="FILE.json", **several)
    open_ = "what decides a check whose interval reaches the other side (default: estimate, with a warning)"
    add("--inconclusive", open_, dest="inconclusive", choices=("estimate", "pass", "fail"))
    add("--junit", "write the checks as JUnit XML", dest="junit", metavar="FILE.xml")
    add(
        "--summary",
        "write checks and findings as Markdown, as for $GITHUB_STEP_SUMMARY",
        dest="summary",
        metavar="FILE.md",
    )
    kept = "keep the numbers in this file, a row per day, plan, slice, metric and group"
    add("--history", kept, dest="history", metavar="FILE.parquet")
    add("--at", "the day that the numbers are for", dest="at", metavar="DATE")
    again = "with --history: these numbers take the place of others for the same plan and day"
    add("--replace", again, dest="replace", action="store_true", default=False)


def add_systems(parser: argparse.ArgumentParser) -> None:
    """The systems against each other, for verbs that rank."""
    parser.add_argument_group("systems").add_argument(
        "--systems", choices=("table", "markdown", "latex"),
        help="instead of the answer, systems by metrics: letters say which differ on the same requests",
    )  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """One answer, once it is there, and what is to become of it."""

    name: str
    result: Any
    check: list[str]
    outputs: list[str] = field(default_factory=list)
    plots: list[str] = field(default_factory=list)
    baseline: list[str] = field(default_factory=list)
    inconclusive: str = "estimate"
    reads: list[str] = field(default_factory=list)


def finish(result: Any, args: argparse.Namespace) -> int:
    """Hand one answer out."""
    one = Asked(args.verb, result, args.check, baseline=args.against, inconclusive=args.inconclusive or "estimate")
    return conclude([one], args)


def conclude(asked: Sequence[Asked], args: argparse.Namespace) -> int:
    """Hand answers out: the history and files first, whole or not at all; then the checks decide the exit code."""
    from evenhand.cli.ending import Ending, tell_build
    from evenhand.report.files import write_whole

    ending = Ending(asked, args)
    files = outputs(args, asked)
    made, answer = ending.files(), ending.answer()
    ending.keep()
    with progress("writing", quiet=args.no_progress):
        for write in made:
            write()
        tell_build(ending.gates, args)
        if args.output:
            write_whole(args.output, answer)
    if not args.output:
        plain = args.format != "table" or args.sentences
        sys.stdout.write(answer if plain else colour.table(answer, sys.stdout))
    for path in files:
        print(f"wrote {path}", file=sys.stderr)
    return ending.verdict()


def outputs(args: argparse.Namespace, asked: Sequence[Asked] = ()) -> list[str]:
    """The files that will be written; one that cannot be, or that the command reads, is refused before any work is done."""
    from evenhand.report.files import refuse_unwritable

    plots = [*args.plot, *(plot for one in asked for plot in one.plots)]
    own = [getattr(args, name) for name in getattr(args, "written", ())]
    files = [
        *(path for _, path in map(chart_file, plots)),
        *(path for one in asked for path in one.outputs),
        *filter(None, [args.html, args.output, args.junit, args.summary, *own]),
    ]
    if args.history and not args.at and not getattr(args, "each", None):
        raise EvenhandError("--history keeps numbers by day, and no day was given. Add --at 2026-11-16.")
    refuse_unwritable(files, [*inputs(args), *(path for one in asked for path in one.reads if os.path.isfile(path))])
    refuse_unwritable(filter(None, [args.history]))
    return files


def inputs(args: argparse.Namespace) -> list[str]:
    """Files that the words of this command name, patterns spelled out; an answer must not take their place."""
    from evenhand.sources.files import database_of, split_kind

    words: list[str] = []
    for name, value in vars(args).items():
        written = ("html", "output", "plot", "junit", "summary", *getattr(args, "written", ()))
        if name not in ("check", "of_metrics", "written", *written):
            words += [v for v in (value if isinstance(value, list) else [value]) if isinstance(v, str)]
    words = [(database_of(path) or (path,))[0] for _, path in map(split_kind, words)]
    found = [path for word in words for path in (glob.glob(word, recursive=True) or [word])]
    return [path for path in found if os.path.isfile(path)]


def chart_file(spec: str) -> tuple[str, str]:
    """`KIND=FILE` in its parts."""
    kind, equals, path = spec.partition("=")
    if not equals or not path:
        raise EvenhandError(f"--plot {spec!r} names no file. Write KIND=FILE.svg, for example lorenz=curve.svg.")
    if Path(path).suffix not in (".svg", ".png", ".html"):
        raise EvenhandError(f"--plot {spec!r} has an ending that is not known. End the file in .svg, .png or .html.")
    return kind, path


@contextlib.contextmanager
def progress(stage: str, *, quiet: bool) -> Iterator[None]:
    """Say on standard error what is going on once it has taken a while; one line that is rewritten on a terminal."""
    if quiet:
        yield
        return
    latest, done, started = [stage], threading.Event(), time.monotonic()

    class Follow(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            latest[0] = printable(record.getMessage())

    def show() -> None:
        terminal, said = sys.stderr.isatty(), ""
        while not done.wait(0.5 if terminal else PATIENCE):
            spent = time.monotonic() - started
            if spent < PATIENCE or (latest[0] == said and not terminal):
                continue
            said = latest[0]
            print(f"\r\033[K{said} ... {spent:.0f} s" if terminal else f"{said} ... {spent:.0f} s",
                  end="" if terminal else "\n", file=sys.stderr, flush=True)  # fmt: skip
        if terminal and said:
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    log, handler = logging.getLogger("evenhand"), Follow()
    log.addHandler(handler)
    level = log.level
    log.setLevel(logging.INFO)
    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        log.removeHandler(handler)
        log.setLevel(level)
