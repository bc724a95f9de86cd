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
from pathlib import Path
from typing import Any

from evenhand.errors import EvenhandError

FORMATS = ("table", "csv", "tsv", "jsonl", "json", "markdown", "latex")
PATIENCE = 2.0
"""Seconds of silence before progress is shown."""


def add_output(parser: argparse.ArgumentParser, charts: Sequence[str] = ()) -> None:
    """Where the answer goes and in what form; `charts` are the kinds there are, nothing is drawn or checked without any."""
    out = parser.add_argument_group("output")
    out.add_argument("--format", choices=FORMATS, default="table", help="form of the answer (default: table)")
    out.add_argument("--output", metavar="FILE", help="write the answer to FILE instead of standard output")
    out.add_argument("--html", metavar="FILE", help="write a report that opens in any browser")
    shown = bool(charts)
    kinds = f"write a chart (.svg, .png or .html); kinds: {', '.join(charts)}"
    out.add_argument(
        "--plot", metavar="KIND=FILE", action="append", default=[], help=kinds if shown else argparse.SUPPRESS
    )
    out.add_argument("--sentences", action="store_true", help="say the findings in words instead of the table")
    rule = "exit 1 unless it holds: a metric of the table, a sign and a number, as in 'gini <= 0.9'; may be repeated"
    out.add_argument("--check", metavar="RULE", action="append", default=[], help=rule if shown else argparse.SUPPRESS)
    out.add_argument("--no-progress", action="store_true", help="no progress on standard error")


def add_systems(parser: argparse.ArgumentParser) -> None:
    """The systems against each other, for verbs that rank."""
    parser.add_argument_group("systems").add_argument(
        "--systems", choices=("table", "markdown", "latex"),
        help="instead of the answer, systems by metrics: letters say which differ on the same requests",
    )  # fmt: skip


def finish(result: Any, args: argparse.Namespace) -> int:
    """Hand the answer out: files first, whole or not at all; then the checks decide the exit code."""
    from evenhand.present.files import write_whole

    files = outputs(args)
    drawn = [(result.plot(kind), path) for kind, path in map(_chart, args.plot)]
    answer = _answer(result, args)
    checks = result.check(*args.check) if args.check else None
    with progress("writing", quiet=args.no_progress):
        for chart, path in drawn:
            _save(chart, path)
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


def outputs(args: argparse.Namespace) -> list[str]:
    """The files that will be written; one that cannot be, or that the command reads, is refused before any work is done."""
    from evenhand.present.files import refuse_unwritable

    own = [getattr(args, name) for name in getattr(args, "written", ())]
    files = [*(path for _, path in map(_chart, args.plot)), *filter(None, [args.html, args.output, *own])]
    refuse_unwritable(files, _inputs(args))
    return files


def _inputs(args: argparse.Namespace) -> list[str]:
    """Files that the words of this command name, patterns spelled out; an answer must not take their place."""
    words: list[str] = []
    for name, value in vars(args).items():
        if name not in ("html", "output", "plot", "check", "of_metrics", "written", *getattr(args, "written", ())):
            words += [v for v in (value if isinstance(value, list) else [value]) if isinstance(v, str)]
    words = [word.removeprefix("trec-fair:") for word in words]
    found = [path for word in words for path in (glob.glob(word, recursive=True) or [word])]
    return [path for path in found if os.path.isfile(path)]


def _answer(result: Any, args: argparse.Namespace) -> str:
    if getattr(args, "systems", None):
        from evenhand.audits.compare import compare

        compared: Any = compare(result, rng=result.provenance["seed"])
        return str(compared.systems(args.systems))
    said: str = (
        "".join(s + "\n" for s in dict.fromkeys(result.sentences())) if args.sentences else result.to_text(args.format)
    )
    return said


def _chart(spec: str) -> tuple[str, str]:
    kind, equals, path = spec.partition("=")
    if not equals or not path:
        raise EvenhandError(f"--plot {spec!r} names no file. Write KIND=FILE.svg, for example lorenz=curve.svg.")
    if Path(path).suffix not in (".svg", ".png", ".html"):
        raise EvenhandError(f"--plot {spec!r} has an ending that is not known. End the file in .svg, .png or .html.")
    return kind, path


def _save(chart: Any, path: str) -> None:
    from evenhand.present import charts  # Altair is slow to load, and most commands draw nothing

    charts.save(chart, path)


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
