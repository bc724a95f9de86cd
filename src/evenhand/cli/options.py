"""Options of the answer that every audit verb shares, and the steps that deliver it."""

from __future__ import annotations

import argparse
import contextlib
import glob
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evenhand.cli import streams
from evenhand.errors import EvenhandError, printable

FORMATS = ("table", "csv", "tsv", "jsonl", "json", "markdown", "latex", "openmetrics", "grafana")
FORMAT_OF_SUFFIX = {
    ".txt": "table", ".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".json": "json", ".md": "markdown", ".tex": "latex",
    ".ndjson": "jsonl", ".markdown": "markdown", ".prom": "openmetrics",
}  # fmt: skip
"""Formats of --output and of the files in a plan's `outputs`; .html is the report."""
QUIET_SECONDS = 2.0
"""How long a command may be silent before progress is shown."""


def add_output(parser: argparse.ArgumentParser, charts: Sequence[str] = (), *, gates: bool = True) -> None:
    """Add the options of the answer; without `charts` nothing is drawn or checked."""
    out = parser.add_argument_group("output")
    text = "format of the answer (default: by the ending of --output, otherwise table)"
    out.add_argument("--format", choices=FORMATS, help=text)
    out.add_argument(
        "--raw", action="store_true", help="do not escape csv and tsv cells that a spreadsheet would run as a formula"
    )
    out.add_argument(
        "--output", metavar="FILE", help="write the answer to FILE instead of standard output; .xlsx: a spreadsheet"
    )
    out.add_argument("--html", metavar="FILE", help="write a report that opens in any browser")
    text = "with --html: write a page for the file by a template (record, dsa, ll144, ai-act, or a .toml file of yours)"
    out.add_argument("--profile", metavar="NAME", help=text)
    kinds = f"write a chart (.svg, .png or .html); kinds: {', '.join(charts)}"
    out.add_argument(
        "--plot", metavar="KIND=FILE", action="append", default=[], help=kinds if charts else argparse.SUPPRESS
    )
    out.add_argument("--sentences", action="store_true", help="print the findings as sentences instead of a table")
    add_no_progress(out)
    _add_checks(parser, hidden=not (charts and gates))


def add_no_progress(group: Any) -> None:
    group.add_argument("--no-progress", action="store_true", help="show no progress on standard error")


def _add_checks(parser: argparse.ArgumentParser, *, hidden: bool) -> None:
    group = parser.add_argument_group("checks and history")
    taken = parser._option_string_actions  # noqa: SLF001  (no public list)

    def add(name: str, help: str, **more: Any) -> None:
        if name in taken:  # an audit's own option of that name comes first; a plan still has the key
            parser.set_defaults(**{more["dest"]: more.get("default")})
        else:
            group.add_argument(name, help=argparse.SUPPRESS if hidden else help, **more)

    repeated: dict[str, Any] = {"action": "append", "default": []}
    text = "exit with code 1 unless this holds, such as 'gini <= 0.9'; may be repeated"
    add("--check", text, dest="check", metavar="RULE", **repeated)
    text = "saved result (--format json) for rules such as 'gini <= baseline + 0.01'; may be repeated"
    add("--baseline", text, dest="against", metavar="FILE.json", **repeated)
    text = "what decides a check whose interval includes the limit (default: estimate, with a warning)"
    add("--inconclusive", text, dest="inconclusive", choices=("estimate", "pass", "fail"))
    text = "with --inconclusive pass: adjust failures over all checks of the run (default: holm)"
    add("--adjust", text, dest="adjust", choices=("holm", "none"))
    add("--junit", "write the checks as JUnit XML", dest="junit", metavar="FILE.xml")
    text = "write checks and findings as Markdown, for example to $GITHUB_STEP_SUMMARY"
    add("--summary", text, dest="summary", metavar="FILE.md")
    text = "append the numbers to this file, a row per day, plan, slice, metric and group"
    add("--history", text, dest="history", metavar="FILE.parquet")
    add("--at", "date of the numbers, such as 2026-11-16", dest="at", metavar="DATE")
    text = (
        "with --history: days that the table covers, up to --at; overlapping tables are not watched twice (default: 1)"
    )
    add("--window", text, dest="days", metavar="DAYS", type=int, default=1)
    text = "with --history: replace earlier numbers of the same plan and day"
    add("--replace", text, dest="replace", action="store_true", default=False)


def add_systems(parser: argparse.ArgumentParser) -> None:
    parser.add_argument_group("systems").add_argument(
        "--systems", choices=("table", "markdown", "latex"),
        help="print a table of systems by metrics instead; letters mark significant differences on the same requests",
    )  # fmt: skip


@dataclass(frozen=True)
class Delivery:
    name: str
    result: Any
    check: list[str]
    outputs: list[str] = field(default_factory=list)
    plots: list[str] = field(default_factory=list)
    baseline: list[str] = field(default_factory=list)
    inconclusive: str = "estimate"
    adjust: str = "holm"
    reads: list[str] = field(default_factory=list)


def finish(result: Any, args: argparse.Namespace) -> int:
    inconclusive = args.inconclusive or "estimate"
    adjust = args.adjust or "holm"
    delivery = Delivery(args.verb, result, args.check, baseline=args.against, inconclusive=inconclusive, adjust=adjust)
    return deliver([delivery], args)


def deliver(deliveries: Sequence[Delivery], args: argparse.Namespace) -> int:
    """Write history and files, whole or not at all, then print; checks decide the exit code."""
    from evenhand.cli.outputs import Outputs, write_build_files
    from evenhand.report.files import SPREADSHEET, write_whole

    outputs = Outputs(deliveries, args)
    files = output_files(args, deliveries)
    writers, answer = outputs.writers(), outputs.answer()
    outputs.append_history()
    with progress("writing", quiet=args.no_progress):
        for write in writers:
            write()
        write_build_files(outputs.gates, args)
        if args.output:
            is_workbook = args.output.lower().endswith(SPREADSHEET)
            write_whole(args.output, outputs.workbook() if is_workbook else answer)
    for delivery in deliveries:
        print_reading(delivery.result.provenance.get("reading") or {})
    if not args.output:
        plain = args.format != "table" or args.sentences
        sys.stdout.write(answer if plain else streams.coloured_table(answer, sys.stdout))
    for path in files:
        print(f"wrote {path}", file=sys.stderr)
    return outputs.print_checks()


def print_reading(reading: Mapping[str, Any]) -> None:
    """Say on standard error how messy text was read."""
    from evenhand.report.words.summary import reading_sentences

    if lines := reading_sentences(reading):
        is_text = "files" in reading or any("list" not in facts for facts in reading["columns"].values())
        remedy = " Pass --csv to read it otherwise." if is_text else ""
        print(printable(f"read {' '.join(lines)}{remedy}"), file=sys.stderr)


def settle_format(args: argparse.Namespace) -> None:
    """Choose the format of the answer by the ending of its file, where --format names none."""
    if args.format is None:
        if Path(args.output or "").suffix.lower() in (".html", ".htm"):
            raise EvenhandError(f"--output {args.output!r} names a page. Write the report with --html {args.output}.")
        args.format = FORMAT_OF_SUFFIX.get(Path(args.output or "").suffix.lower(), "table")


def output_files(args: argparse.Namespace, deliveries: Sequence[Delivery] = ()) -> list[str]:
    """The files to write; unwritable files and inputs are refused before any work is done."""
    from evenhand.report.files import refuse_ending, refuse_unwritable

    if args.profile:
        from evenhand.report.profile import load_profile

        load_profile(args.profile)
    plots = [*args.plot, *(plot for delivery in deliveries for plot in delivery.plots)]
    written = [getattr(args, name) for name in getattr(args, "written", ())]
    files = [
        *(path for _, path in map(chart_file, plots)),
        *(path for delivery in deliveries for path in delivery.outputs),
        *filter(None, [args.html, args.output, args.junit, args.summary, *written]),
    ]
    if args.history and not args.at and not getattr(args, "each", None) and not getattr(args, "date", None):
        raise EvenhandError("--history needs the date of the numbers. Add --at 2026-11-16.")
    reads = [path for delivery in deliveries for path in delivery.reads if os.path.isfile(path)]
    refuse_unwritable(files, [*inputs(args), *reads])
    if args.output:
        refuse_ending(args.output)
    refuse_unwritable(filter(None, [args.history]))
    return files


def inputs(args: argparse.Namespace) -> list[str]:
    """The files that the command reads, globs expanded; an answer must not overwrite them."""
    from evenhand.sources.files import database_of
    from evenhand.sources.inputs import split_kind

    words: list[str] = []
    for name, value in vars(args).items():
        written = ("html", "output", "plot", "junit", "summary", *getattr(args, "written", ()))
        if name not in ("check", "of_metrics", "written", *written):
            words += [v for v in (value if isinstance(value, list) else [value]) if isinstance(v, str)]
    words = [(database_of(path) or (path,))[0] for _, path in map(split_kind, words)]
    paths = [path for word in words for path in (glob.glob(word, recursive=True) or [word])]
    return [path for path in paths if os.path.isfile(path)]


def chart_file(spec: str) -> tuple[str, str]:
    kind, equals, path = spec.partition("=")
    if not equals or not path:
        raise EvenhandError(f"--plot {spec!r} has no file name. Write KIND=FILE.svg, for example lorenz=curve.svg.")
    if Path(path).suffix not in (".svg", ".png", ".html"):
        raise EvenhandError(f"--plot {spec!r} has an unknown file ending. End the file name in .svg, .png or .html.")
    return kind, path


@contextlib.contextmanager
def progress(stage: str, *, quiet: bool) -> Iterator[None]:
    """Show the current stage on standard error; on a terminal, one line that is rewritten."""
    if quiet:
        yield
        return
    latest, done, started = [stage], threading.Event(), time.monotonic()

    class Follow(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            latest[0] = printable(record.getMessage())

    def show() -> None:
        is_terminal, shown = sys.stderr.isatty(), ""
        while not done.wait(0.5 if is_terminal else QUIET_SECONDS):
            seconds = time.monotonic() - started
            if seconds < QUIET_SECONDS or (latest[0] == shown and not is_terminal):
                continue
            shown = latest[0]
            line = f"{shown} ... {seconds:.0f} s"
            print(
                f"\r\033[K{line}" if is_terminal else line, end="" if is_terminal else "\n", file=sys.stderr, flush=True
            )
        if is_terminal and shown:
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
