"""Readers of files in the layouts of TREC (runs, judgments, labels, the Fair Ranking track), MovieLens and GoodReads (ratings).

Stated ranks hold where they are an order along which scores never rise. Elsewhere trec_eval's rule does: the score orders,
highest first, ties by document id, highest first.
"""

from __future__ import annotations

import glob
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import narwhals as nw
import polars as pl

from evenhand.errors import DataWarning, EvenhandError, listing, suggestion
from evenhand.sources.engine import reading
from evenhand.sources.files import literal, nearby, refuse_missing
from evenhand.sources.inputs import record_facts, record_reading
from evenhand.sources.labels import Labels
from evenhand.sources.opening import csv
from evenhand.sources.rollup import rollup
from evenhand.sources.text_files import opened_bytes

RUN = r"^\s*(?<request>\S+)\s+(?<iteration>\S+)\s+(?<item>\S+)\s+(?<rank>\S+)\s+(?<score>\S+)(?:\s+(?<system>.*?))?\s*$"
JUDGED = r"^\s*(?<request>\S+)\s+(?<iteration>\S+)\s+(?<item>\S+)\s+(?<value>\S+)\s*$"


def trec_run(path: str | Path, *, duplicates: Literal["raise", "first"] = "raise") -> pl.DataFrame:
    """One TREC run as a Polars frame: request, item, rank, score, system, tied (and sample).

    Lines are `request Q0 item rank score tag`, also gzipped; a tag may hold spaces. The stated ranks hold where they are
    unique within a request and scores never rise along them; otherwise items are ranked by score, highest first, then by
    item id, highest first, as trec_eval does. `tied` marks rows that shared their score. The second field is whatever a
    system wrote; only where items repeat within a request and it tells the repeats apart (expeval's runs of stochastic
    rankers) it is the `sample`. Other repeats are refused, or kept for an audit with `duplicates="first"`.
    """
    lines = _fields(path, RUN, "a run has six: request Q0 item rank score tag")
    run = lines.with_columns(
        pl.col("score").cast(pl.Float64, strict=False), pl.col("rank").cast(pl.Float64, strict=False).alias("stated")
    )
    _refuse_lines(path, run, ~pl.col("score").is_finite().fill_null(False), "the score is not a number")
    keys, run = _keyed(path, run, duplicates)
    system = pl.when(pl.col("system").str.len_chars() > 0).then(pl.col("system")).otherwise(pl.lit(Path(path).name))
    run = run.with_columns(system, pl.struct(*keys).rank("dense").alias("order"))
    ranked = _ranked(path, run).with_columns((pl.len().over("order", "score") > 1).alias("tied"))
    return ranked.select(*keys, "item", "rank", "score", "system", "tied")


def _keyed(path: str | Path, run: pl.DataFrame, on_repeat: str) -> tuple[list[str], pl.DataFrame]:
    """Key columns of a ranking: the request, and the second field if items repeat."""
    repeated = run.filter(pl.struct("request", "item").is_duplicated())
    if not repeated.height:
        return ["request"], run.drop("iteration")
    duplicates = repeated.filter(pl.struct("request", "item", "iteration").is_duplicated())
    if duplicates.height and on_repeat == "first":
        is_sampled = len(repeated.unique(["request", "item", "iteration"])) > len(repeated.unique(["request", "item"]))
        return (["request", "sample"], run.rename({"iteration": "sample"})) if is_sampled else (["request"], run)
    if duplicates.height:
        first = duplicates.row(0, named=True)
        raise EvenhandError(
            f"{str(path)!r} lists an item twice in {duplicates.select('request').n_unique():,} requests (first: request "
            f"{first['request']!r}, item {first['item']!r}). Keep one line per request and item, or pass duplicates='first'."
        )
    return ["request", "sample"], run.rename({"iteration": "sample"})


def _ranked(path: str | Path, run: pl.DataFrame) -> pl.DataFrame:
    """The rows with ranks: as stated where scores never rise along them, else by score."""
    stated = pl.col("stated")
    whole = (stated.is_not_null() & (stated == stated.round()) & (stated >= 0)).all().over("order")
    alike = stated.is_duplicated().over("order")
    by_rank = run.with_columns(whole.alias("whole"), alike.alias("alike")).sort("order", "stated", maintain_order=True)
    rises = (pl.col("score").diff() > 0).fill_null(value=False).any().over("order")
    sound = by_rank.with_columns((pl.col("whole") & ~pl.col("alike").any().over("order") & ~rises).alias("sound"))
    odd, rankings = sound.filter(~pl.col("sound"))["order"].n_unique(), run["order"].n_unique()
    by_score = f"recomputed from scores in {odd:,} of {rankings:,} rankings" if odd else ""
    record_facts(str(path), ranks=by_score or "as stated")
    if odd:
        warnings.warn(
            DataWarning(
                f"{str(path)!r} has ranks that are missing, alike or not in the order of the scores in {odd:,} of "
                f"{rankings:,} requests. The scores were used there, as trec_eval does."
            ),
            stacklevel=4,
        )
    from_zero = pl.lit(1 if bool((sound.filter("sound")["stated"] == 0).any()) else 0)
    stated_ranks = sound.filter("sound").with_columns((stated + from_zero).cast(pl.Int64).alias("rank"))
    scored = sound.filter(~pl.col("sound")).sort("order", "score", "item", descending=[False, True, True])
    scored = scored.with_columns(pl.int_range(1, pl.len() + 1).over("order").cast(pl.Int64).alias("rank"))
    return pl.concat([stated_ranks, scored]).sort("order", "rank")


def trec_runs(
    pattern: str | Path | Sequence[str | Path], *, duplicates: Literal["raise", "first"] = "raise"
) -> pl.DataFrame:
    """Several TREC runs (a glob, or paths) as one frame.

    `system` is the file name without the parts between dots that all files share.
    """
    patterns = [pattern] if isinstance(pattern, (str, Path)) or not isinstance(pattern, Sequence) else list(pattern)
    if not all(isinstance(name_or_glob, (str, Path)) for name_or_glob in patterns):
        raise EvenhandError(f"{pattern!r} is not a path. Pass a glob, or paths of TREC files.")
    paths: list[str] = []
    for name in map(str, patterns):
        matches = [name] if os.path.isfile(name) else [p for p in glob.glob(name, recursive=True) if os.path.isfile(p)]
        if not matches:
            raise EvenhandError(f"{name!r} matches no file. {nearby(name)}Pass the path or pattern of TREC runs.")
        paths += matches
    paths = sorted(set(paths))
    frames = [trec_run(path, duplicates=duplicates) for path in paths]
    if len(paths) > 1:
        named = zip(frames, _short_names(paths), strict=True)
        frames = [f.with_columns(pl.lit(name).alias("system")) for f, name in named]
    if any("sample" in f.columns for f in frames):
        frames = [f if "sample" in f.columns else f.with_columns(pl.lit("Q0").alias("sample")) for f in frames]
        frames = [f.select(frames[0].columns) for f in frames]
    return pl.concat(frames)


def _short_names(paths: Sequence[str]) -> list[str]:
    """File names without the parts between dots that all share; whole where that fails.

    >>> _short_names(["input.run0.gz", "input.run1.gz"]), _short_names(["a.run", "b.run"])
    (['run0', 'run1'], ['a', 'b'])
    """
    whole = [Path(path).name for path in paths]
    parts = [name.split(".") for name in whole]
    shared = set(parts[0]).intersection(*parts)
    short = [".".join(part for part in name if part not in shared) for name in parts]
    if all(short) and len(set(short)) == len(short):
        return short
    return whole if len(set(whole)) == len(whole) else list(paths)


def qrels(path: str | Path) -> pl.DataFrame:
    """TREC judgments as a Polars frame: request, item, relevance.

    Lines are `request iteration item relevance`.
    Where the second field differs within the file (expeval writes groups there), it is kept as `iteration`.
    """
    judged = _judged(path)
    numbers = judged["value"].cast(pl.Float64, strict=False)
    _refuse_lines(
        path,
        judged,
        ~pl.Series(numbers).is_finite().fill_null(False),
        "the relevance is not a number",
        "eh.read.labels",
    )
    whole = bool((numbers == numbers.round()).all())
    relevance = numbers.cast(pl.Int64) if whole else numbers
    names = ["request", "item", "relevance"] + (["iteration"] if judged["iteration"].n_unique() > 1 else [])
    return judged.with_columns(relevance.alias("relevance")).select(names)


def labels(path: str | Path) -> pl.DataFrame:
    """Labels (`request iteration item label`) as a Polars frame: request, item, group."""
    return _judged(path).rename({"value": "group"}).select("request", "item", "group")


def _judged(path: str | Path) -> pl.DataFrame:
    lines = _fields(path, JUDGED, "judgments have four: request iteration item relevance")
    distinct = lines.unique(["request", "item", "value"], keep="first", maintain_order=True)
    clash = distinct.filter(pl.struct("request", "item").is_duplicated())
    if clash.height:
        first = clash.row(0, named=True)
        raise EvenhandError(
            f"{str(path)!r} has different judgments for {clash.select('request', 'item').n_unique():,} pairs of request and item "
            f"(first: request {first['request']!r}, item {first['item']!r}). Keep one judgment per request and item."
        )
    return distinct


def _fields(path: str | Path, pattern: str, expected: str) -> pl.DataFrame:
    """The lines of a file split into named fields; blank lines are skipped, others must fit."""
    if not isinstance(path, (str, Path)):
        raise EvenhandError(f"{path!r} is not a path. Pass the path of a TREC file.")
    refuse_missing(path, "a TREC file")
    if not Path(path).stat().st_size:
        raise EvenhandError(f"{str(path)!r} is empty. Pass a TREC file with lines.")
    with reading(repr(str(path))):
        lines = pl.read_csv(
            path, glob=False, has_header=False, separator="\x01", quote_char=None, schema={"line": pl.String},
            encoding="utf8-lossy", truncate_ragged_lines=True,
        )  # fmt: skip
    lines = lines.with_row_index("number", offset=1).with_columns(pl.col("line").str.strip_chars("\ufeff\r\n \t"))
    lines = lines.filter(pl.col("line").str.len_chars() > 0)
    if not lines.height:
        raise EvenhandError(f"{str(path)!r} holds white space only. Pass a TREC file with lines.")
    record_reading(str(path), lines.height)
    split = lines.with_columns(pl.col("line").str.extract_groups(pattern).alias("fields"))
    bad = split.filter(pl.col("fields").struct.field("request").is_null())
    if bad.height:
        first = bad.row(0, named=True)
        fields = len(first["line"].split())
        other = " It looks like judgments: read it with eh.read.qrels." if fields == 4 and "six" in expected else ""
        other = " It looks like a run: read it with eh.read.trec_run." if fields >= 5 and "four" in expected else other
        raise EvenhandError(
            f"{str(path)!r} has {fields} fields in line {first['number']} ({first['line'][:60]!r}); {expected}.{other}"
        )
    return split.unnest("fields").drop("line")


def _refuse_lines(
    path: str | Path, frame: pl.DataFrame, broken: pl.Expr | pl.Series, what: str, instead: str = ""
) -> None:
    bad = frame.filter(broken)
    if bad.height:
        remedy = f"Correct the file, or read it with {instead}." if instead else "Correct the file."
        raise EvenhandError(
            f"In {bad.height:,} lines of {str(path)!r} {what} (first: line {bad['number'][0]}). {remedy}"
        )


FAIR_ROLES = ("sample", "weight", "system")
"""Columns of a run of the track, each in the role of that name."""


def trec_fair_queries(path: str | Path) -> pl.DataFrame:
    """Judged documents as a Polars frame, from JSON lines with keys qid and documents.

    Documents have a doc_id and a relevance.
    Columns request, item, relevance, and query and frequency where the file has them. A document without a relevance keeps
    a missing one. Pass it as `relevance=`; the order of the documents, with `rank`, is the track's candidate list.
    """
    lines = _json_lines(path, ("qid", "documents"))
    optional = [c for c in ("query", "frequency") if c in lines.columns]
    if not isinstance(lines.schema["documents"], pl.List) or not lines.height:
        raise _not_this(path, "queries", "a list of documents in every line")
    inner = getattr(lines.schema["documents"], "inner", None)
    names = [f.name for f in getattr(inner, "fields", [])]
    if "doc_id" not in names:
        raise _not_this(path, "queries", "documents with a doc_id")
    pairs = lines.select(pl.col("qid").cast(pl.String).alias("request"), *optional, "documents").explode("documents")
    document = pl.col("documents").struct
    grade = document.field("relevance").cast(pl.Float64) if "relevance" in names else pl.lit(None, dtype=pl.Float64)
    pairs = pairs.with_columns(document.field("doc_id").cast(pl.String).alias("item"), grade.alias("relevance"))
    pairs = pairs.filter(pl.col("item").is_not_null())
    rank = pl.int_range(1, pl.len() + 1).over("request").alias("rank")
    return pairs.with_columns(rank).select("request", "item", "relevance", "rank", *optional)


def trec_fair_sequence(path: str | Path) -> pl.DataFrame:
    """Query sequences as a Polars frame: sequence, step, request.

    Lines are `sequence.step,qid` or `sequence,step,qid`.
    """
    parts = _split_lines(path)
    widths = set(parts["cells"].list.len().unique().to_list())
    if widths == {2}:
        number = parts["cells"].list.get(0).str.splitn(".", 2).struct.unnest()
        steps = pl.DataFrame(
            {"sequence": number.to_series(0), "step": number.to_series(1), "request": parts["cells"].list.get(1)}
        )
    elif widths == {3}:
        steps = pl.DataFrame(
            {name: parts["cells"].list.get(i) for i, name in enumerate(("sequence", "step", "request"))}
        )
    else:
        raise _not_this(path, "a query sequence", "two or three values in every line")
    numbers = steps.with_columns(pl.col("sequence", "step").cast(pl.Int64, strict=False))
    if numbers["sequence"].null_count() or numbers["step"].null_count():
        raise _not_this(path, "a query sequence", "whole numbers before the query")
    return numbers


def trec_fair_groups(path: str | Path) -> Labels:
    """Shares of groups in documents, from lines `document,group of author 1,group of author 2`.

    Every author has an equal part of the document; an empty cell is an author of unknown group, whose part is unknown.
    Pass it as `groups=`.
    """
    parts = _split_lines(path)
    rows = parts.select(
        pl.col("cells").list.first().alias("item"), pl.col("cells").list.slice(1).alias("group")
    ).explode("group")
    rows = rows.filter(pl.col("item").is_not_null() & (pl.col("item") != ""))
    rows = rows.with_columns(pl.when(pl.col("group").str.strip_chars() != "").then(pl.col("group").str.strip_chars()))
    return rollup(rows)


def trec_fair_run(paths: str | Path | Sequence[str | Path]) -> pl.DataFrame:
    """Rankings of a query sequence, from JSON lines with q_num, qid and ranking.

    Columns system (the name of the file), request, sample (q_num), item, rank, and weight: how often the request was made,
    which as `weight=` makes every ranking of the sequence count the same.
    """
    listed = [paths] if isinstance(paths, (str, Path)) else list(paths)
    files = [f for p in listed for f in (sorted(glob.glob(str(p))) or [str(p)])]
    frames = []
    for file in files:
        lines = _json_lines(file, ("qid", "ranking"))
        number = pl.col("q_num").cast(pl.String) if "q_num" in lines.columns else pl.int_range(pl.len()).cast(pl.String)
        rows = lines.select(
            pl.lit(Path(file).name.split(".")[0]).alias("system"),
            pl.col("qid").cast(pl.String).alias("request"), number.alias("sample"), pl.col("ranking").alias("item"),
        )  # fmt: skip
        rows = rows.with_columns(pl.len().over("request").alias("weight"))
        rows = rows.with_columns(pl.int_ranges(1, pl.col("item").list.len() + 1).alias("rank")).explode("item", "rank")
        frames.append(rows.filter(pl.col("item").is_not_null()).with_columns(pl.col("item").cast(pl.String)))
    return pl.concat(frames).select("system", "request", "sample", "item", "rank", "weight")


def qrels_groups(judged: Any, *, item: str = "item", iteration: str = "iteration") -> Labels:
    """Groups from the iteration field of expeval's qrels: ids split at commas or bars.

    -1 is no label. A document with several ids is shared equally among them (expeval gives each the whole document).
    """
    frame = nw.from_native(judged).lazy().collect("polars").to_native()
    lacking = [c for c in (item, iteration) if c not in frame.columns]
    if lacking:
        raise EvenhandError(
            f"The judgments lack the column {listing(map(repr, lacking))}. Read them with eh.read.qrels(path)."
        )
    ids = pl.col(iteration).cast(pl.String).str.replace_all(r"\|", ",").str.split(",")
    rows = frame.select(pl.col(item).alias("item"), ids.alias("group")).explode("group").unique()
    label = pl.col("group").str.strip_chars()
    rows = rows.with_columns(pl.when(~label.is_in(["", "-1"])).then(label).alias("group"))
    several = rows.filter(pl.col("group").is_not_null())
    none = rows.join(several, on="item", how="anti").unique()
    return rollup(pl.concat([several, none]))


def _json_lines(path: str | Path, keys: tuple[str, ...]) -> pl.DataFrame:
    refuse_missing(path, "a file of the TREC Fair track")
    with reading(str(path)):
        lines = pl.scan_ndjson(literal([str(path)]), infer_schema_length=None).collect()
    record_reading(str(path), lines.height)
    lacking = [k for k in keys if k not in lines.columns]
    if lacking:
        raise EvenhandError(
            f"{str(path)!r} has no key {listing(map(repr, lacking))}. Its keys: {listing(lines.columns)}."
        )
    return lines


def _split_lines(path: str | Path) -> pl.DataFrame:
    refuse_missing(path, "a file of the TREC Fair track")
    with reading(str(path)):
        lines = pl.read_csv(str(path), glob=False, has_header=False, separator="\x1f", quote_char=None, new_columns=["line"],
                            infer_schema=False)  # fmt: skip
    lines = lines.filter(pl.col("line").str.strip_chars() != "")
    record_reading(str(path), lines.height)
    return lines.select(pl.col("line").str.replace_all("\t", ",").str.split(",").alias("cells"))


def _not_this(path: str | Path, what: str, needs: str) -> EvenhandError:
    return EvenhandError(f"{str(path)!r} cannot be read as {what}: it needs {needs}. Check which file this is.")


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
    GoodReads interactions (JSON lines with user_id and book_id, also gzipped, or CSV), Parquet.
    Every line is an interaction, whatever its rating, as in the paper.
    """
    table = _table(path, "ratings")
    pairs = table.select(pl.col(_key(table, USERS, path)).alias("user"), pl.col(_key(table, ITEMS, path)).alias("item"))
    holes = pairs.filter(pl.any_horizontal(pl.all().is_null())).height
    if holes:
        raise EvenhandError(f"ratings={str(path)!r} lacks the user or the item in {holes:,} lines. Remove those lines.")
    return pairs.unique().sort("user", "item")


def item_groups(paths: str | Path | Sequence[str | Path], *, group: str | None = None) -> Labels:
    """Groups of rated items from one file, or two (through authors).

    `group` names the column of labels (default: group, gender, or the only one there is). Labels such as `unknown` and
    `ambiguous` are unknown. A label such as `Drama|War` is shared equally. A book whose authors have known and different
    labels is ambiguous, hence unknown, as in the paper.
    """
    listed = [paths] if isinstance(paths, (str, Path)) else list(paths)
    if len(listed) == 2:
        return _through_authors(listed[0], listed[1], group)
    if len(listed) != 1:
        raise EvenhandError(f"groups names {len(listed)} files. Pass one (items), or two (items to authors, authors).")
    table = _table(listed[0], "groups")
    item = _key(table, ITEMS, listed[0])
    label = _label([c for c in table.columns if c != item], group, listed[0])
    labelled = _unknown_as_null(table.select(pl.col(item).alias("item"), label))
    parts = labelled.with_columns(pl.col("group").str.split("|")).explode("group")
    if parts.height > labelled.height:
        return rollup(_unknown_as_null(parts))
    return _hard(labelled, str(listed[0]))


def _through_authors(books: str | Path, authors: str | Path, group: str | None) -> Labels:
    """One label for each book: that of its authors, where those that are known agree."""
    books_table = _table(books, "groups")
    item = _key(books_table, ITEMS, books)
    if "authors" in books_table.columns and isinstance(books_table.schema["authors"], pl.List):
        books_table = books_table.select(pl.col(item), pl.col("authors")).explode("authors")
        if isinstance(books_table.schema["authors"], pl.Struct):
            books_table = books_table.unnest("authors")
    author = _key(books_table, (*AUTHORS, "authors"), books)
    people = _table(authors, "groups")
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
    rows = each.select("item", agreed).filter(pl.col("item").is_not_null())
    return Labels.from_frame(rows, origin=origin)


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


def _table(path: str | Path, role: str) -> pl.DataFrame:
    """JSON lines, ratings of MovieLens without a header, or any table with one."""
    place, suffix = str(path), Path(path).suffix
    refuse_missing(place, "a file", role)
    with reading(f"{role}={place!r}"):
        with opened_bytes(place) as handle:
            is_json = handle.read(1) == b"{"
        if is_json:
            return pl.scan_ndjson(literal([place]), infer_schema_length=10_000).collect()
        if suffix not in (".data", ".dat"):
            table: pl.DataFrame = csv(place).frame
            return table
        separator = "\t" if suffix == ".data" else ":"
        table = pl.read_csv(place, glob=False, has_header=False, separator=separator, quote_char=None)
        columns = table.columns[:: len("::") if suffix == ".dat" else 1]  # between two colons stands an empty column
        return table.select(pl.col(name).alias(role) for name, role in zip(columns, ("user", "item"), strict=False))
