"""Options and endings that every audit verb shares."""

from __future__ import annotations

import argparse
import contextlib
import logging
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evenhand.errors import EvenhandError

FORMATS = ("table", "csv", "tsv", "jsonl", "json", "markdown", "latex")
PATIENCE = 2.0
"""Seconds of silence before progress is shown."""


def add_output(parser: argparse.ArgumentParser) -> None:
    """Where the answer goes and in what form."""
    out = parser.add_argument_group("output")
    out.add_argument("--format", choices=FORMATS, default="table", help="form of the answer (default: table)")
    out.add_argument("--output", metavar="FILE", help="write the answer to FILE instead of standard output")
    out.add_argument("--html", metavar="FILE", help="write a report that opens in any browser")
    out.add_argument(
        "--plot", metavar="KIND=FILE", action="append", default=[], help="write a chart (.svg, .png or .html)"
    )
    out.add_argument("--sentences", action="store_true", help="say the findings in words instead of the table")
    out.add_argument(
        "--check", metavar="RULE", action="append", default=[], help="exit 1 unless it holds, e.g. 'gini <= 0.9'"
    )
    out.add_argument("--no-progress", action="store_true", help="no progress on standard error")


def add_uncertainty(
    parser: argparse.ArgumentParser, *, example: str = "top_share(p=0.01)",
    missing: tuple[str, ...] = ("raise", "omit", "propagate"),
) -> None:  # fmt: skip
    """Metrics, intervals and seeds; the first rule for missing values is the default."""
    how = parser.add_argument_group("what and how")
    how.add_argument(
        "-m", "--metric", dest="metrics", action="append", help=f"metric, e.g. '{example}'; may be repeated"
    )
    how.add_argument(
        "--interval", default=None, help="bootstrap(999), percentile(999), normal or none (default: bootstrap(999))"
    )
    how.add_argument("--level", type=float, default=0.95, help="coverage of the interval (default: 0.95)")
    how.add_argument("--seed", type=int, default=None, help="seed of the random draws (default: drawn and recorded)")
    how.add_argument("--min-units", type=int, default=None, help="suppress slices with fewer units")
    how.add_argument(
        "--nan-policy", choices=missing, default=missing[0], help=f"what a missing value does (default: {missing[0]})"
    )
    how.add_argument(
        "--engine", choices=("polars", "duckdb"), default="polars", help="what reads the files (default: polars)"
    )


def add_systems(parser: argparse.ArgumentParser) -> None:
    """The systems against each other, for verbs that rank."""
    parser.add_argument_group("systems").add_argument(
        "--systems", choices=("table", "markdown", "latex"),
        help="instead of the answer, systems by metrics: letters say which differ on the same requests",
    )  # fmt: skip


def given(args: argparse.Namespace, **more: Any) -> dict[str, Any]:
    """The keyword arguments of an audit, as typed."""
    found = {"level": args.level, "rng": args.seed, "min_units": args.min_units, "nan_policy": args.nan_policy, **more}
    if args.metrics:
        found["metrics"] = args.metrics
    if args.interval is not None:
        found["interval"] = None if args.interval == "none" else args.interval
    return found


def source(files: list[str], engine: str) -> Any:
    """The files as a table: paths for Polars, a relation for DuckDB."""
    if engine == "polars":
        return files if len(files) > 1 else files[0]
    from evenhand.views.tables import open_with_duckdb

    return open_with_duckdb(files)


def finish(result: Any, args: argparse.Namespace) -> int:
    """Hand the answer out: files first, whole or not at all; then the checks decide the exit code."""
    from evenhand.present.files import refuse_unwritable, write_whole

    charts = [_chart(result, spec) for spec in args.plot]
    answer = _answer(result, args)
    checks = result.check(*args.check) if args.check else None
    files = [*(path for _, path in charts), *filter(None, [args.html, args.output])]
    refuse_unwritable(files)
    with progress("writing", quiet=args.no_progress):
        for save, path in charts:
            save(path)
        if args.html:
            result.report(args.html)
        if args.output:
            write_whole(args.output, answer)
    if not args.output:
        sys.stdout.write(answer)
    for path in files:
        print(f"wrote {path}", file=sys.stderr)
    if checks is None:
        return 0
    print(checks, file=sys.stderr)
    return 0 if checks.passed else 1


def _answer(result: Any, args: argparse.Namespace) -> str:
    if getattr(args, "systems", None):
        from evenhand.audits.paired import compare_systems

        return compare_systems(result, rng=args.seed).systems(args.systems)
    said: str = "".join(s + "\n" for s in result.sentences()) if args.sentences else result.to_text(args.format)
    return said


def _chart(result: Any, spec: str) -> tuple[Any, str]:
    kind, equals, path = spec.partition("=")
    if not equals or not path:
        raise EvenhandError(f"--plot {spec!r} names no file. Write KIND=FILE.svg, for example lorenz=curve.svg.")
    if Path(path).suffix not in (".svg", ".png", ".html"):
        raise EvenhandError(f"--plot {spec!r} has an ending that is not known. End the file in .svg, .png or .html.")
    from evenhand.present import charts

    chart = result.plot(kind)
    return (lambda where: charts.save(chart, where)), path


@contextlib.contextmanager
def progress(stage: str, *, quiet: bool) -> Iterator[None]:
    """Say on standard error what is going on once it has taken a while; one line that is rewritten on a terminal."""
    if quiet:
        yield
        return
    latest, done, started = [stage], threading.Event(), time.monotonic()

    class Follow(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            latest[0] = record.getMessage()

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
