"""Ratings in the layouts of MovieLens and GoodReads, and the groups of rated items."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from evenhand.errors import EvenhandError, listing, suggestion
from evenhand.sources.engine import reading
from evenhand.sources.files import literal, refuse_missing
from evenhand.sources.labels import Labels, open_labels
from evenhand.sources.opening import open_table
from evenhand.sources.rollup import rollup
from evenhand.sources.text_files import opened_bytes

USERS = ("user", "user_id", "userid")
ITEMS = ("item", "item_id", "itemid", "movie_id", "movieid", "book_id", "bookid", "work_id", "isbn", "cluster")
AUTHORS = ("author", "author_id", "authorid", "provider", "provider_id")
GROUPS = ("group", "gender")
UNKNOWN = (
    "", "unknown", "ambiguous", "unlinked", "no-author", "no-author-rec", "no-book", "no-book-author", "no-loc-author",
    "no-viaf-author", "no-gender", "na", "nan", "none", "null", "(no genres listed)",
)  # fmt: skip
"""Labels that say that the group is not known: those of the book data that the paper used, and of MovieLens."""


def ratings(path: str | Path) -> pl.DataFrame:
    """Interactions as a Polars frame: user, item; each pair once, sorted.

    Known layouts: `u.data` of MovieLens 100K (tabs), `ratings.dat` of 1M and 10M (`::`), `ratings.csv` of the later ones,
    GoodReads interactions (JSON lines with user_id and book_id, also gzipped, or CSV), Parquet; a header is optional where
    the first two values are user and item, and whole numbers. Every line is an interaction, whatever its rating, as in the paper.
    """
    scanned = _scanned(path, "ratings")
    with reading(f"ratings={str(path)!r}"):
        names = scanned.collect_schema().names()
    named = _columns(names)
    user, item = (next((named[n] for n in aliases if n in named), None) for aliases in (USERS, ITEMS))
    if user is None or item is None:
        lacking = " and ".join(w for w, c in (("users", user), ("items", item)) if c is None)
        raise EvenhandError(
            f"ratings={str(path)!r} has no column of {lacking}. Name them user_id and item_id (or movieId, book_id). "
            f"Its columns: {listing(names)}."
        )
    with reading(f"ratings={str(path)!r}"):
        pairs = scanned.select(pl.col(user).alias("user"), pl.col(item).alias("item")).collect(engine="streaming")
    holes = pairs.filter(pl.any_horizontal(pl.all().is_null())).height
    if holes:
        raise EvenhandError(f"ratings={str(path)!r} lacks the user or the item in {holes:,} lines. Remove those lines.")
    return pairs.unique().sort("user", "item")


def item_groups(paths: str | Path | Sequence[str | Path], *, group: str | None = None) -> Labels:
    """Groups of rated items from one file (labels or shares), or two (through authors).

    `group` names the column of labels (default: group, gender, or the only one there is). Labels such as `unknown` and
    `ambiguous` are unknown. A label such as `Drama|War` is shared equally. A book whose authors have known and different
    labels is ambiguous, hence unknown, as in the paper.
    """
    listed = [paths] if isinstance(paths, (str, Path)) else list(paths)
    if len(listed) == 2:
        return _through_authors(listed[0], listed[1], group)
    if len(listed) != 1:
        raise EvenhandError(f"groups names {len(listed)} files. Pass one (items), or two (items to authors, authors).")
    table = _table(listed[0])
    item = _key(table, ITEMS, listed[0])
    others = [c for c in table.columns if c != item]
    are_shares = all(table.schema[c].is_float() for c in others)
    if group is None and len(others) > 1 and (are_shares or {"group", "share"} == set(others)):
        soft = open_labels(table.rename({item: "item"}), open_table(table), item="item")
        if isinstance(soft, Labels):
            return soft
    label = _label(others, group, listed[0])
    labelled = _unknown_as_null(table.select(pl.col(item).alias("item"), label))
    parts = labelled.with_columns(pl.col("group").str.split("|")).explode("group")
    if parts.height > labelled.height:
        return rollup(_unknown_as_null(parts))
    return _hard(labelled, str(listed[0]))


def _through_authors(books: str | Path, authors: str | Path, group: str | None) -> Labels:
    """One label for each book: that of its authors, where those that are known agree."""
    books_table = _table(books)
    item = _key(books_table, ITEMS, books)
    if "authors" in books_table.columns and isinstance(books_table.schema["authors"], pl.List):
        books_table = books_table.select(pl.col(item), pl.col("authors")).explode("authors")
        if isinstance(books_table.schema["authors"], pl.Struct):
            books_table = books_table.unnest("authors")
    author = _key(books_table, (*AUTHORS, "authors"), books)
    people = _table(authors)
    person = _key(people, AUTHORS, authors)
    label = _label([c for c in people.columns if c != person], group, authors)
    labelled = people.select(pl.col(person).cast(pl.String).alias("author"), label)
    labelled = _unknown_as_null(labelled).drop_nulls("group")
    links = books_table.select(pl.col(item).alias("item"), pl.col(author).cast(pl.String).alias("author"))
    return _hard(links.join(labelled, on="author", how="left"), f"{books}, through {authors}")


def _hard(frame: pl.DataFrame, origin: str) -> Labels:
    """One label per item; an item whose known labels disagree is unknown."""
    each = frame.group_by("item").agg(pl.col("group").drop_nulls().unique()).sort("item")
    agreed = pl.when(pl.col("group").list.len() == 1).then(pl.col("group").list.first()).alias("group")
    rows = each.select("item", agreed, pl.lit(1.0).alias("share")).filter(pl.col("item").is_not_null())
    return Labels.from_frame(rows, soft=False, origin=origin)


def _unknown_as_null(frame: pl.DataFrame) -> pl.DataFrame:
    label = pl.col("group").str.strip_chars()
    return frame.with_columns(pl.when(~label.str.to_lowercase().is_in(UNKNOWN)).then(label).alias("group"))


def _label(others: Sequence[str], group: str | None, path: str | Path) -> pl.Expr:
    named = _columns(others)
    chosen = group if group is not None else next((named[n] for n in GROUPS if n in named), None)
    if chosen is None and len(others) == 1:
        chosen = others[0]
    if chosen is None or chosen not in others:
        fact = f"group={group!r} is not a column of {str(path)!r}" if group else f"{str(path)!r} has several columns"
        near = suggestion(group, others) if group else ""
        raise EvenhandError(f"{fact}. {near}Name the column of labels with group=. Columns: {listing(others)}.")
    return pl.col(chosen).cast(pl.String).alias("group")


def _key(table: pl.DataFrame, aliases: Sequence[str], path: str | Path) -> str:
    named = _columns(table.columns)
    column = next((named[n] for n in aliases if n in named), None)
    if column is None:
        raise EvenhandError(
            f"{str(path)!r} has no column named {listing(aliases[:4])}. Rename one. Its columns: {listing(table.columns)}."
        )
    return column


def _columns(names: Sequence[str]) -> Mapping[str, str]:
    """Columns by their names in lower case, without dashes and types after a colon."""
    return {name.split(":")[0].strip().lower().replace("-", "_"): name for name in reversed(names)}


def _table(path: str | Path) -> pl.DataFrame:
    with reading(f"groups={str(path)!r}"):
        return _scanned(path, "groups").collect()


def _scanned(path: str | Path, role: str) -> pl.LazyFrame:
    """Any of the layouts as a lazy Polars frame."""
    place = Path(path)
    if os.path.isdir(place):
        inside = sorted(p.name for p in place.iterdir() if p.is_file())
        raise EvenhandError(f"{role}={str(path)!r} is a folder. Pass one of its files: {listing(inside) or 'none'}.")
    refuse_missing(place, "a file", role)
    with reading(f"{role}={str(path)!r}"):
        if place.suffix in (".parquet", ".pq"):
            return pl.scan_parquet(place, glob=False)
        try:
            with opened_bytes(str(place)) as handle:
                first = handle.readline().decode(errors="replace").strip("\ufeff\r\n ")
        except (OSError, EOFError) as error:
            raise EvenhandError(f"{str(path)!r} cannot be read ({error}). Check the file.") from error
        if not first:
            raise EvenhandError(f"{role}={str(path)!r} is empty. Pass a file with lines.")
        if first.startswith("{"):
            return pl.scan_ndjson(literal([str(place)]), infer_schema_length=10_000)
        separator = next((s for s in ("::", "\t", ",", "|", ";") if s in first), ",")
        cells = [c.strip().strip('"') for c in first.split(separator)]
        named = _columns(cells)
        header = any(n in named for n in (*USERS, *ITEMS, *AUTHORS, *GROUPS)) or not cells[0].isdecimal()
        scanned = pl.scan_csv(
            place, glob=False, separator=separator[0], has_header=header, infer_schema_length=10_000, encoding="utf8-lossy",
            quote_char=None if separator == "::" else '"',
        )  # fmt: skip
        columns = scanned.collect_schema().names()
    if separator == "::":  # one sign parts columns here: every other one is empty
        columns = columns[::2]
        scanned = scanned.select(columns)
    if not header:
        names = ["user_id", "item_id", "rating"] if role == "ratings" else ["item", "group"]
        scanned = scanned.rename(dict(zip(columns, names, strict=False)))
    return scanned
