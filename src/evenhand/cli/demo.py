"""The audits on generated data: a report per question, an index of them all, the commands that made them.

example:
  evenhand demo --folder evenhand-demo
"""

from __future__ import annotations

import argparse
import contextlib
import io
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evenhand.cli.options import progress

AUTHORS = 30_000
MIX = {"in_network": 0.7, "misc": 0.15, "topics": 0.15}
"""Sources of the feed: three whose curves can be told apart by eye."""
MOST_LINES = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--folder", default="evenhand-demo", help="where data and reports go (default: evenhand-demo)")
    parser.add_argument("--seed", type=int, default=7, help="seed of the generated data (default: 7)")


def run(args: argparse.Namespace) -> int:
    from evenhand.report.files import write_whole
    from evenhand.report.gallery import Tile, page

    started, folder = time.monotonic(), Path(args.folder)
    folder.mkdir(parents=True, exist_ok=True)
    with progress("generating a platform, its feed and its log", quiet=False):
        _generate(folder, args.seed)
    tiles = []
    for number, (title, words, report) in enumerate(stops(str(folder), str(args.seed)), start=1):
        command = shlex.join(["evenhand", *words, "--html", report])
        print(f"\n{number}. {title}\n\n   $ {command}\n", flush=True)
        result, answer = _asked([*words, "--html", report])
        lines = answer.splitlines()
        print(*lines[:MOST_LINES], sep="\n")
        if len(lines) > MOST_LINES:
            print(f"... {len(lines) - MOST_LINES} more lines: run the command yourself, or open the report")
        tiles.append(Tile(title, result.findings, Path(report).name, command))
    index = write_whole(folder / "index.html", page(tiles, OWN))
    print(f"\nDone in {time.monotonic() - started:.0f} s. All of it on one page that opens in any browser:\n  {index}")
    print("\nFor your own data:", *(command for _, command in OWN), sep="\n  ")
    sys.stdout.flush()
    return 0


OWN = (
    ("What is in a file, and which questions can it answer?", "evenhand look FILE"),
    ("The most likely one at once, with a report like these:", "evenhand look FILE --run --html report.html"),
    ("What a number means:", "evenhand metrics gini"),
)


def _asked(words: Sequence[str]) -> tuple[Any, str]:
    """The result of a command, and what it prints."""
    from evenhand.cli import asked
    from evenhand.cli.options import finish

    args, result = asked(words)
    with contextlib.redirect_stdout(io.StringIO()) as answer:
        finish(result, args)
    return result, answer.getvalue()


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
        (
            "Do search results mirror the viewpoints there are? Two engines, stance of each result.",
            ["prefix", f"{folder}/searches.parquet", "--request", "query", "--group", "stance", "--protected", "against",
             "--by", "engine", "--seed", seed],
            f"{folder}/prefix.html",
        ),
        (
            "Who is exposed in the rankings of a shop? Two systems, small and large sellers.",
            ["exposure", f"{folder}/rankings.parquet", "--groups", f"{folder}/sellers.parquet", "--relevance",
             f"{folder}/judgments.parquet", "--system", "system", "--protected", "small seller", "--seed", seed],
            f"{folder}/exposure.html",
        ),
        (
            "Is some group held to a higher bar? Scores and answers of invitations.",
            ["outcome-test", f"{folder}/invitations.parquet", "--score", "score", "--outcome", "accepted", "--group", "gender",
             "--reference", "male", "--request", "viewer_id", "--bins", "5", "--sentences"],
            f"{folder}/outcome.html",
        ),
        (
            "Does a recommender serve two groups of users alike?",
            ["recommender", f"{folder}/scores.parquet", "--user-groups", f"{folder}/users.parquet", "--top", "10", "--seed", seed],
            f"{folder}/recommender.html",
        ),
        (
            "Did a change make it more even? An experiment on viewers.",
            ["experiment", f"{folder}/trial.parquet", "--unit", "author", "--amount", "views", "--arm", "arm", "--randomized",
             "viewer", "--population", "none", "-m", "gini", "-m", "top_share(p=0.01)", "--seed", seed],
            f"{folder}/experiment.html",
        ),
        (
            "What would a more even exposure cost in relevance?",
            ["rebalance", f"{folder}/candidates.parquet", "--providers", "provider", "--top", "10", "--strength", "0.05",
             "--strength", "0.1", "--strength", "0.3", "--seed", seed],
            f"{folder}/rebalance.html",
        ),
    ]  # fmt: skip


def _generate(folder: Path, seed: int) -> None:
    import polars as pl

    from evenhand.synthetic import market, platform, trial
    from evenhand.synthetic.tour import invitations, listeners, searches, shop

    made = platform(AUTHORS, rng=seed, mix=MIX)
    made.engagements.write_parquet(folder / "engagements.parquet")
    made.authors.filter(pl.col("displays") > 0).write_parquet(folder / "authors.parquet")
    searches(rng=seed).write_parquet(folder / "searches.parquet")
    rankings, sellers, judgments = shop(rng=seed)
    rankings.write_parquet(folder / "rankings.parquet")
    sellers.write_parquet(folder / "sellers.parquet")
    judgments.write_parquet(folder / "judgments.parquet")
    invitations(rng=seed).write_parquet(folder / "invitations.parquet")
    served, users = listeners(rng=seed)
    served.write_parquet(folder / "scores.parquet")
    users.write_parquet(folder / "users.parquet")
    trial(viewers=1_200, effect=0.3, rng=seed).write_parquet(folder / "trial.parquet")
    market(150, 30, providers=30, items=300, rng=seed).write_parquet(folder / "candidates.parquet")
