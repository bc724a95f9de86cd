"""Readers of TREC files: runs, judgments, and labels in the form of judgments.

The rules are trec_eval's: the score orders a run, highest first, ties by document id, highest first; the rank column is
not believed.
"""

from __future__ import annotations

import glob
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evenhand.errors import DataWarning, EvenhandError
from evenhand.views.files import nearby
from evenhand.views.tables import engine_errors

RUN = r"^\s*(?<request>\S+)\s+(?<iteration>\S+)\s+(?<item>\S+)\s+(?<rank>\S+)\s+(?<score>\S+)(?:\s+(?<system>.*?))?\s*$"
JUDGED = r"^\s*(?<request>\S+)\s+(?<iteration>\S+)\s+(?<item>\S+)\s+(?<value>\S+)\s*$"


def trec_run(path: str | Path) -> Any:
    """One TREC run as a Polars frame: request, item, rank, score, system, tied (and sample).

    Lines are `request Q0 item rank score tag`, also gzipped; a tag may hold spaces. Items are ranked by score, highest
    first, then by item id, highest first, as trec_eval does; `tied` marks rows that shared their score. Where the second
    field differs within the file (expeval's runs of stochastic rankers), it is the `sample`.
    """
    import polars as pl

    lines = _fields(path, RUN, "a run has six: request Q0 item rank score tag")
    run = lines.with_columns(
        pl.col("score").cast(pl.Float64, strict=False), pl.col("rank").cast(pl.Float64, strict=False).alias("stated")
    )
    _refuse_lines(path, run, ~pl.col("score").is_finite().fill_null(False), "the score is not a number")
    keys = ["request"]
    if run["iteration"].n_unique() > 1:
        keys, run = ["request", "sample"], run.rename({"iteration": "sample"})
    twice = run.filter(pl.struct(*keys, "item").is_duplicated())
    if twice.height:
        first = twice.row(0, named=True)
        raise EvenhandError(
            f"{str(path)!r} lists an item twice in {twice.select(keys).n_unique():,} requests (first: request "
            f"{first['request']!r}, item {first['item']!r}). Keep one line per request and item."
        )
    _warn_of_ranks(path, run, keys)
    system = pl.when(pl.col("system").str.len_chars() > 0).then(pl.col("system")).otherwise(pl.lit(Path(path).name))
    ranked = run.with_columns(system, pl.struct(*keys).rank("dense").alias("order")).sort(
        "order", "score", "item", descending=[False, True, True], maintain_order=True
    )
    return ranked.with_columns(
        pl.int_range(1, pl.len() + 1).over("order").cast(pl.Int64).alias("rank"),
        (pl.len().over("order", "score") > 1).alias("tied"),
    ).select(*keys, "item", "rank", "score", "system", "tied")


def trec_runs(pattern: str | Path | Sequence[str | Path]) -> Any:
    """Several TREC runs (a glob, or paths) as one frame; `system` is the tag, or the file where tags repeat."""
    import polars as pl

    patterns = [pattern] if isinstance(pattern, (str, Path)) or not isinstance(pattern, Sequence) else list(pattern)
    if not all(isinstance(one, (str, Path)) for one in patterns):
        raise EvenhandError(f"{pattern!r} is not a path. Pass a glob, or paths of TREC files.")
    paths = sorted({p for one in patterns for p in _matches(str(one))})
    frames = [trec_run(path) for path in paths]
    tags = [frame["system"].unique(maintain_order=True).to_list() for frame in frames]
    known = [tag for found in tags for tag in found]
    if len(set(known)) < len(known) or any(len(found) > 1 for found in tags):
        frames = [f.with_columns(pl.lit(Path(p).name).alias("system")) for f, p in zip(frames, paths, strict=True)]
    if any("sample" in f.columns for f in frames):
        frames = [f if "sample" in f.columns else f.with_columns(pl.lit("Q0").alias("sample")) for f in frames]
        frames = [f.select(frames[0].columns) for f in frames]
    return pl.concat(frames)


def qrels(path: str | Path) -> Any:
    """TREC judgments (`request iteration item relevance`) as a Polars frame: request, item, relevance.

    Where the second field differs within the file (expeval writes groups there), it is kept as `iteration`.
    """
    import polars as pl

    found = _judged(path)
    numbers = found["value"].cast(pl.Float64, strict=False)
    _refuse_lines(
        path, found, ~pl.Series(numbers).is_finite().fill_null(False), "the relevance is not a number", "eh.read.labels"
    )
    whole = bool((numbers == numbers.round()).all())
    relevance = numbers.cast(pl.Int64) if whole else numbers
    kept = ["request", "item", "relevance"] + (["iteration"] if found["iteration"].n_unique() > 1 else [])
    return found.with_columns(relevance.alias("relevance")).select(kept)


def labels(path: str | Path) -> Any:
    """Labels in the form of judgments (`request iteration item label`) as a Polars frame: request, item, group."""
    return _judged(path).rename({"value": "group"}).select("request", "item", "group")


def _judged(path: str | Path) -> Any:
    import polars as pl

    found = _fields(path, JUDGED, "judgments have four: request iteration item relevance")
    distinct = found.unique(["request", "item", "value"], keep="first", maintain_order=True)
    clash = distinct.filter(pl.struct("request", "item").is_duplicated())
    if clash.height:
        first = clash.row(0, named=True)
        raise EvenhandError(
            f"{str(path)!r} judges {clash.select('request', 'item').n_unique():,} pairs in two ways (first: request "
            f"{first['request']!r}, item {first['item']!r}). Keep one judgment per request and item."
        )
    return distinct


def _fields(path: str | Path, pattern: str, wanted: str) -> Any:
    """The lines of a file split into named fields; blank lines are skipped, others must fit."""
    import polars as pl

    if not isinstance(path, (str, Path)):
        raise EvenhandError(f"{path!r} is not a path. Pass the path of a TREC file.")
    if not os.path.isfile(path):
        raise EvenhandError(f"{str(path)!r} is not a file. {nearby(path)}Pass the path of a TREC file.")
    if not Path(path).stat().st_size:
        raise EvenhandError(f"{str(path)!r} is empty. Pass a TREC file with lines.")
    with engine_errors(repr(str(path))):
        lines = pl.read_csv(
            path, glob=False, has_header=False, separator="\x01", quote_char=None, schema={"line": pl.String},
            encoding="utf8-lossy", truncate_ragged_lines=True,
        )  # fmt: skip
    lines = lines.with_row_index("number", offset=1).with_columns(pl.col("line").str.strip_chars("\ufeff\r\n \t"))
    lines = lines.filter(pl.col("line").str.len_chars() > 0)
    split = lines.with_columns(pl.col("line").str.extract_groups(pattern).alias("fields"))
    bad = split.filter(pl.col("fields").struct.field("request").is_null())
    if bad.height:
        first = bad.row(0, named=True)
        fields = len(first["line"].split())
        other = " It looks like judgments: read it with eh.read.qrels." if fields == 4 and "six" in wanted else ""
        other = " It looks like a run: read it with eh.read.trec_run." if fields >= 5 and "four" in wanted else other
        raise EvenhandError(
            f"{str(path)!r} has {fields} fields in line {first['number']} ({first['line'][:60]!r}); {wanted}.{other}"
        )
    return split.unnest("fields").drop("line")


def _refuse_lines(path: str | Path, frame: Any, broken: Any, what: str, instead: str = "") -> None:
    bad = frame.filter(broken)
    if bad.height:
        remedy = f"Correct the file, or read it with {instead}." if instead else "Correct the file."
        raise EvenhandError(
            f"In {bad.height:,} lines of {str(path)!r} {what} (first: line {bad['number'][0]}). {remedy}"
        )


def _warn_of_ranks(path: str | Path, run: Any, keys: list[str]) -> None:
    """Say so where the rank column tells another order than the scores do."""
    import polars as pl

    by_rank = run.filter(pl.col("stated").is_not_null()).sort(*keys, "stated", maintain_order=True)
    climbs = (pl.col("score").diff() > 0) & (pl.struct(*keys) == pl.struct(*keys).shift(1))
    odd = by_rank.filter(climbs).select(keys).n_unique() if by_rank.height else 0
    if odd:
        warnings.warn(
            DataWarning(
                f"{str(path)!r} has ranks that are not in the order of the scores in {odd:,} of "
                f"{run.select(keys).n_unique():,} requests. The scores were used, as trec_eval does."
            ),
            stacklevel=4,
        )


def _matches(pattern: str) -> list[str]:
    if os.path.isfile(pattern):
        return [pattern]
    found = [p for p in glob.glob(pattern, recursive=True) if os.path.isfile(p)]
    if not found:
        raise EvenhandError(f"{pattern!r} matches no file. {nearby(pattern)}Pass the path or pattern of TREC runs.")
    return found


__all__ = ["labels", "qrels", "trec_run", "trec_runs"]
