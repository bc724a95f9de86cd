"""`evenhand demo`: a generated table, audited, with the commands to copy."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

EXAMPLE = """\
example:
  evenhand demo --folder evenhand-demo"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLE
    parser.add_argument("--folder", default="evenhand-demo", help="where data and answers go (default: evenhand-demo)")
    parser.add_argument("--seed", type=int, default=7)


def run(args: argparse.Namespace) -> int:
    from evenhand.audits.inequality import inequality

    folder = Path(args.folder)
    folder.mkdir(parents=True, exist_ok=True)
    events, authors = folder / "events.parquet", folder / "authors.parquet"
    _generate(events, authors, args.seed)
    print(f"A made-up feed: who was shown to whom is in {events}, everyone who could have been is in {authors}.\n")
    result = inequality(
        str(events), unit="author_id", amount="impressions", population=str(authors), by="source", rng=args.seed,
        metrics=["gini", "top_share(p=0.01)", "equal_share"],
    )  # fmt: skip
    print(result)
    print("In words:")
    for sentence in result.sentences():
        print(f"  {sentence}")
    print("\nThe same from the command line, to copy:")
    words = ["evenhand", "inequality", str(events), "--unit", "author_id", "--amount", "impressions", "--population", str(authors),
             "--by", "source", "-m", "gini", "-m", "top_share(p=0.01)", "-m", "equal_share", "--seed", str(args.seed)]  # fmt: skip
    print(f"  {shlex.join(words)}")
    return 0


def _generate(events: Path, authors: Path, seed: int) -> None:
    import numpy as np
    import polars as pl

    rng = np.random.default_rng(seed)
    followers = np.floor(rng.pareto(1.1, 20_000) * 30).astype(np.int64)
    pl.DataFrame({"author_id": np.arange(len(followers)), "followers": followers}).write_parquet(authors)
    parts = []
    for source, pull in (("in-network", 1.0), ("out-of-network", 1.4)):
        rate = followers**pull
        seen = rng.poisson(200_000 * rate / rate.sum())
        held = np.flatnonzero(seen)
        parts.append(pl.DataFrame({"author_id": held, "source": [source] * len(held), "impressions": seen[held]}))
    pl.concat(parts).write_parquet(events)
