"""`evenhand demo`: the audits on generated data, with an index of their reports."""

from __future__ import annotations

import argparse
import contextlib
import io
import shlex
import sys
import time
from pathlib import Path

from evenhand.cli.options import finish, progress

AUTHORS = 30_000
MIX = {"in_network": 0.7, "misc": 0.15, "topics": 0.15}
"""Sources of the feed: three whose curves can be told apart by eye."""
MAX_LINES = 20
"""Lines of each answer that are printed: a screen."""


QUESTIONS = (
    (
        "Who gets seen? Impressions of a month, per source of the feed.",
        "inequality {folder}/engagements.parquet --unit author_id --amount impressions --population {folder}/authors.parquet "
        "--by source -m gini -m 'top_share(p=0.01)' --seed {seed}",
        "inequality",
    ),
    (
        "Which source drives the inequality?",
        "sources {folder}/engagements.parquet --unit author_id --amount impressions --population {folder}/authors.parquet "
        "--source source --interval 'percentile(199)' --seed {seed}",
        "sources",
    ),
    (
        "Do search results mirror the viewpoints there are? Two engines, stance of each result.",
        "prefix {folder}/searches.parquet --group viewpoint --protected against --by engine --seed {seed}",
        "prefix",
    ),
    (
        "Who is exposed in the rankings of a shop? Two systems, small and large sellers.",
        "exposure {folder}/rankings.parquet --groups {folder}/sellers.parquet --relevance {folder}/judgments.parquet "
        "--system system --protected 'small seller' --seed {seed}",
        "exposure",
    ),
    (
        "Is some group held to a higher bar? Scores and outcomes of invitations.",
        "outcome-test {folder}/invitations.parquet --score score --outcome outcome --group group --reference male "
        "--request request --treated treated --bins 5 --sentences",
        "outcome",
    ),
    (
        "Does a recommender serve two groups of users alike?",
        "recommender {folder}/scores.parquet --user-groups {folder}/users.parquet --top 10 --seed {seed}",
        "recommender",
    ),
    (
        "Did a change make it more even? An experiment on viewers.",
        "experiment {folder}/trial.parquet --unit author --amount views --arm arm --randomized viewer --population none "
        "-m gini -m 'top_share(p=0.01)' --seed {seed}",
        "experiment",
    ),
    (
        "What would a more even exposure cost in relevance?",
        "rebalance {folder}/candidates.parquet --providers provider --top 10 --strength 0.05 --strength 0.1 --strength 0.3 "
        "--seed {seed}",
        "rebalance",
    ),
)
"""A question, the command that answers it, and the name of its report."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--folder", default="evenhand-demo", help="where data and reports go (default: evenhand-demo)")
    parser.add_argument("--seed", type=int, default=7, help="seed of the generated data (default: 7)")


def run(args: argparse.Namespace) -> int:
    from evenhand.cli import run_audit
    from evenhand.report.files import write_whole
    from evenhand.report.page import Tile, gallery

    started, folder = time.monotonic(), Path(args.folder)
    folder.mkdir(parents=True, exist_ok=True)
    with progress("generating a platform, its feed and its log", quiet=False):
        _generate(folder, args.seed)
    tiles = []
    for number, (title, template, name) in enumerate(QUESTIONS, start=1):
        words = [word.format(folder=folder, seed=args.seed) for word in shlex.split(template)]
        words += ["--html", f"{folder}/{name}.html"]
        command = shlex.join(["evenhand", *words])
        print(f"\n{number}. {title}\n\n   $ {command}\n", flush=True)
        parsed, result = run_audit(words)
        with contextlib.redirect_stdout(io.StringIO()) as answer:
            finish(result, parsed)
        lines = answer.getvalue().splitlines()
        print(*lines[:MAX_LINES], sep="\n")
        if len(lines) > MAX_LINES:
            print(f"... {len(lines) - MAX_LINES} more lines: run the command yourself, or open the report")
        tiles.append(Tile(title, result.findings, f"{name}.html", command))
    index = write_whole(folder / "index.html", gallery(tiles, NEXT_COMMANDS))
    print(f"\nDone in {time.monotonic() - started:.0f} s. All of it on one page that opens in any browser:\n  {index}")
    print("\nFor your own data:", *(command for _, command in NEXT_COMMANDS), sep="\n  ")
    sys.stdout.flush()
    return 0


NEXT_COMMANDS = (
    ("What is in a file, and which questions can it answer?", "evenhand look FILE"),
    ("The most likely one at once, with a report like these:", "evenhand look FILE --run --html report.html"),
    ("What a number means:", "evenhand metrics gini"),
)


def _generate(folder: Path, seed: int) -> None:
    import numpy as np
    import polars as pl

    from evenhand.synthetic import Maker, catalogue, corpus, market, marketplace, platform, trial, viewpoints

    feed = platform(AUTHORS, rng=seed, mix=MIX)
    tables = {"engagements": feed.engagements, "authors": feed.authors.filter(pl.col("displays") > 0)}
    stances = {"against": 6, "neutral": 8, "for": 6}
    engines = [
        viewpoints(stances, alpha=alpha, lists=40, favoured=["against"], rng=seed).with_columns(engine=pl.lit(name))
        for name, alpha in (("plain", 0.0), ("slanted", 0.5))
    ]
    tables["searches"] = pl.concat(engines)
    systems = {"relevance": Maker(), "bestseller": Maker(bias=0.5, popularity=1.0)}
    shop = corpus(300, 200, systems=systems, rng=seed)
    sellers = pl.col("group").replace({"P": "small seller", "U": "large seller"})
    tables |= {"rankings": shop.rankings.drop("score"), "judgments": shop.relevance}
    tables["sellers"] = shop.groups.with_columns(sellers)
    tables["invitations"] = marketplace("ranking", requests=2_000, candidates=8, bias={"female": 0.3}, rng=seed)
    readers = catalogue(300, 200, rng=seed)
    scores = readers.scores["personal"]
    user, item = (index.ravel() for index in np.indices(scores.shape))
    tables["scores"] = pl.DataFrame({"user": user, "item": item, "score": scores.ravel()})
    tables["users"] = pl.DataFrame({"user": np.arange(len(scores)), "group": readers.groups})
    tables["trial"] = trial(viewers=1_200, effect=0.3, rng=seed)
    tables["candidates"] = market(150, 30, providers=30, items=300, rng=seed)
    for name, table in tables.items():
        table.write_parquet(folder / f"{name}.parquet")
