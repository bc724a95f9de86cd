"""One small set of ratings, written in the layouts that people have."""

import gzip
import json

import numpy as np


def interactions(users=36, items=50, seed=1):
    """Pairs of user and item, popular items more often, two tastes."""
    rng = np.random.default_rng(seed)
    found = []
    for user in range(1, users + 1):
        weight = (1 / np.arange(1, items + 1)) * np.where(np.arange(items) % 2 == user % 2, 3, 1)
        own = rng.choice(items, rng.integers(12, 20), replace=False, p=weight / weight.sum())
        found += [(user, int(i) + 1, int(rng.integers(1, 6))) for i in own]
    return found


def write(folder, layout, rows):
    """The path of a file in a layout: tabs, colons, csv, goodreads or goodreads csv."""
    if layout == "tabs":
        path, lines = folder / "u.data", [f"{u}\t{i}\t{r}\t88125{u:04}" for u, i, r in rows]
    elif layout == "colons":
        path, lines = folder / "ratings.dat", [f"{u}::{i}::{r}::97830{u:04}" for u, i, r in rows]
    elif layout == "csv":
        lines = ["userId,movieId,rating,timestamp", *(f"{u},{i},{r / 2},1{u}" for u, i, r in rows)]
        path = folder / "ratings.csv"
    elif layout == "goodreads csv":
        lines = ["user_id,book_id,is_read,rating,is_reviewed", *(f"{u},{i},1,{r},0" for u, i, r in rows)]
        path = folder / "goodreads_interactions.csv"
    else:
        path = folder / "goodreads_interactions_poetry.json.gz"
        told = (
            {"user_id": f"u{u:04}", "book_id": str(i), "is_read": r > 2, "rating": r if r > 2 else 0}
            for u, i, r in rows
        )
        path.write_bytes(gzip.compress("\n".join(map(json.dumps, told)).encode()))
        return path
    path.write_text("\n".join(lines) + "\n")
    return path


LAYOUTS = ("tabs", "colons", "csv", "goodreads", "goodreads csv")


def write_genders(folder, items=50):
    """Books with their authors, and the authors with their gender, as GoodReads and the book data have them."""
    books = folder / "goodreads_books.json"
    told = [{"book_id": str(i), "authors": [{"author_id": f"a{i % 17}", "role": ""}]} for i in range(1, items + 1)]
    told[4]["authors"] += [{"author_id": "a0", "role": ""}]  # a man and a woman: ambiguous
    books.write_text("\n".join(map(json.dumps, told)))
    authors = folder / "author-gender.csv"
    words = {0: "female", 1: "unknown", 2: "ambiguous", 3: "female"}
    authors.write_text("author_id,gender\n" + "\n".join(f"a{i},{words.get(i, 'male')}" for i in range(16)))
    return books, authors
