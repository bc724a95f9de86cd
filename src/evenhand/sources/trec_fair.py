"""Files of the TREC Fair Ranking track: judged queries, query sequences, groups, runs."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import narwhals as nw
import polars as pl

from evenhand.errors import EvenhandError, listing
from evenhand.sources.failures import reading
from evenhand.sources.files import FAIR, literal, paths_after, refuse_missing
from evenhand.sources.inputs import record_reading
from evenhand.sources.labels import Labels
from evenhand.sources.rollup import rollup


def fair_paths(source: Any) -> list[str] | None:
    """The paths behind `trec-fair:`, or None where nothing is said to be a file of the track."""
    return paths_after(FAIR, source)


def fair_roles(rankings: Any) -> dict[str, str]:
    """The roles that a run of the track settles by itself."""
    return {} if fair_paths(rankings) is None else {"sample": "sample", "weight": "weight", "system": "system"}


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
