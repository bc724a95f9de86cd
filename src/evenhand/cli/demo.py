"""`evenhand demo`: a short tour. Data are generated, every question is asked with the command that anyone can copy."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from pathlib import Path

from evenhand.cli.options import progress

EXAMPLE = """\
example:
  evenhand demo --folder evenhand-demo"""

AUTHORS = 30_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLE
    parser.add_argument("--folder", default="evenhand-demo", help="where data and reports go (default: evenhand-demo)")
    parser.add_argument("--seed", type=int, default=7, help="seed of the generated data (default: 7)")


def run(args: argparse.Namespace) -> int:
    from evenhand.cli import main

    started, folder = time.monotonic(), Path(args.folder)
    folder.mkdir(parents=True, exist_ok=True)
    with progress("generating a platform, its feed and its log", quiet=False):
        _generate(folder, args.seed)
    reports = []
    for number, (title, words, report) in enumerate(stops(str(folder), str(args.seed)), start=1):
        print(f"\n{number}. {title}\n\n   $ {shlex.join(['evenhand', *words, '--html', report])}\n", flush=True)
        code = main([*words, "--html", report])
        if code:
            return code
        reports.append(report)
    print(f"\nDone in {time.monotonic() - started:.0f} s. Reports that open in any browser:", *reports, sep="\n  ")
    print("\nEvery number has a card:\n  evenhand metrics gini")
    sys.stdout.flush()
    return 0


def stops(folder: str, seed: str) -> list[tuple[str, list[str], str]]:
    """Question, command, report."""
    log, authors = f"{folder}/engagements.parquet", f"{folder}/authors.parquet"
    who = ["--unit", "author_id", "--amount", "impressions", "--population", authors]
    return [
        (
            "Who gets seen? Impressions of a month, per source of the feed.",
            ["inequality", log, *who, "--by", "source", "-m", "gini", "-m", "top_share(p=0.01)", "--seed", seed],
            f"{folder}/inequality.html",
        ),
        (
            "Which source makes the skew?",
            ["sources", log, *who, "--source", "source", "--interval", "percentile(199)", "--seed", seed],
            f"{folder}/sources.html",
        ),
    ]


def _generate(folder: Path, seed: int) -> None:
    import polars as pl

    from evenhand.synthetic import platform

    made = platform(AUTHORS, rng=seed)
    made.engagements.write_parquet(folder / "engagements.parquet")
    made.authors.filter(pl.col("displays") > 0).write_parquet(folder / "authors.parquet")
