"""Rankings in little memory: rows are read a part at a time, and handed on as whole rankings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from math import ceil
from typing import Any, TypeVar

import narwhals as nw
import numpy as np

from evenhand.views.tables import engine_errors, to_polars

Made = TypeVar("Made")

BLOCK = 250_000
"""Rows read and added up together."""

COUNTED = 1_000_000
"""Rows counted together, which needs none of them for long."""

SORTED = 2_000_000
"""Rows that are sorted at a time where those of a ranking stand apart."""

MOST_WALKS = 16
"""How often such a table is read at most: a larger one is sorted in larger pieces."""


Sums = dict[str, Any]


def summed(lazy: nw.LazyFrame[Any], *asked: nw.Expr) -> Sums:
    """Facts of all rows from those of each part: what is called `low_...` is the least, `high_...` the largest, others add up."""
    if not _takes_slices(lazy):
        return dict(to_polars(lazy.select(*asked)).row(0, named=True))
    parts: list[Any] = []
    while not parts or parts[-1]["evenhand_rows"][0] == COUNTED:
        part = nw.from_native(lazy.to_native().slice(COUNTED * len(parts), COUNTED))
        parts.append(to_polars(part.select(*asked, nw.len().alias("evenhand_rows"))))
    return _together([part.drop("evenhand_rows") for part in parts])


def _together(parts: Sequence[Any]) -> Sums:
    """Facts of all rows from those of each part."""
    import polars as pl

    found = pl.concat(parts)
    ways = {"low": pl.Expr.min, "high": pl.Expr.max}
    total = [ways.get(c.split("_")[0], _total)(pl.col(c)) for c in found.columns]
    return dict(found.select(total).row(0, named=True)) if total else {}


def _total(counts: Any) -> Any:
    import polars as pl

    return counts.cast(pl.Int64).sum()


def with_sums(
    lazy: nw.LazyFrame[Any], keys: Sequence[str], make: Callable[[Any], Made], asked: Sequence[nw.Expr]
) -> tuple[list[Made], Sums]:
    """`by_ranking`, and what `summed` says, from the same walk over the rows."""

    def both(rows: Any) -> tuple[Made, Any]:
        return make(rows), nw.from_native(rows).select(*asked).to_native() if asked else None

    made, facts = zip(*by_ranking(lazy, keys, both), strict=True)
    return list(made), _together(facts) if asked else {}


def ranking_facts(
    lazy: nw.LazyFrame[Any], keys: Sequence[str], order: str, item: str | None, *asked: nw.Expr
) -> tuple[nw.LazyFrame[Any], Sums]:
    """One row per ranking: rows `n`, `distinct` values, `last` and `best` of what orders it, and distinct `items`.

    Beside it what was `asked` of all rows, as `summed` says it.
    """
    import polars as pl

    keys = list(keys)
    if not _hands_parts(lazy):
        return _settled(lazy, keys, order, item), summed(lazy, *asked) if asked else {}

    def facts(rows: Any) -> Any:
        found = _of_runs(rows, keys, order, item)
        if found is None:
            found = to_polars(_settled(nw.from_native(rows).lazy(), keys, order, item))
        counts = sorted(set(found.columns) - {*keys, "last", "best"})
        return found.select(
            *keys, pl.col("last", "best").cast(kind, strict=False), *(pl.col(c).cast(pl.Int64) for c in counts)
        )

    # a missing place is told of by those who asked for it, and there is no other use for these facts
    kind = pl.Float64 if lazy.collect_schema()[order].is_float() else pl.Int64
    if not asked:
        lazy = lazy.select(*dict.fromkeys([*keys, order, *([] if item is None else [item])]))
    found, sums = with_sums(lazy, keys, facts, asked)
    return nw.from_native(pl.concat(found).lazy()), sums


def by_ranking(lazy: nw.LazyFrame[Any], keys: Sequence[str], make: Callable[[Any], Made]) -> list[Made]:
    """What `make` makes of Polars frames of whole rankings, each with some of the rows; there is one frame at least."""
    keys = list(keys)
    if not _hands_parts(lazy):
        return [make(rows) for rows in _cut(to_polars(lazy).sort(*keys, nulls_last=True), keys)]
    try:
        return [make(rows) for rows in _as_they_stand(lazy, keys)]
    except _Scattered:
        return [make(rows) for rows in _brought_together(lazy, keys)]


def distinct(lazy: nw.LazyFrame[Any], column: str) -> int:
    """How many values a column has that mostly stand in runs, as requests do."""
    lazy = lazy.select(column)
    if not _takes_slices(lazy):
        return int(to_polars(lazy.unique().select(nw.len().alias("n")))["n"][0])
    return sum(by_ranking(lazy, [column], lambda rows: len(first_of_runs(rows, [column]))))


def repeated(
    lazy: nw.LazyFrame[Any], keys: Sequence[str], item: str = "item", *asked: nw.Expr
) -> tuple[int, dict[str, Any], Sums]:
    """How many items stand in a ranking several times, and the first of them with its ranking; what was `asked` of all rows.

    They are looked for within each ranking, some rankings at a time, and never among all rows.
    """
    import polars as pl

    named = [*keys, item]

    def several(rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        return rows.group_by(*named).agg(nw.len().alias("evenhand_rows")).filter(nw.col("evenhand_rows") > 1)

    def here(rows: Any) -> tuple[int, Any]:
        lengths = np.diff(first_of_runs(rows, list(keys)), append=rows.height)
        alike = len(lengths) and _twice(rows[item].hash().to_numpy(), lengths)
        if not alike:
            return 0, None
        found = to_polars(several(nw.from_native(rows).lazy()))
        return found.height, found.sort(*named).head(1)

    if not _hands_parts(lazy):
        found = several(lazy)
        count = int(to_polars(found.select(nw.len().alias("n")))["n"][0])
        first = to_polars(found.sort(*named).head(1)) if count else None
        return count, {} if first is None else first.row(0, named=True), summed(lazy, *asked) if asked else {}
    counted, sums = with_sums(lazy if asked else lazy.select(*named), keys, here, asked)
    firsts = [first for count, first in counted if count]
    first = pl.concat(firsts).sort(*named).row(0, named=True) if firsts else {}
    return sum(count for count, _ in counted), first, sums


def first_of_runs(rows: Any, keys: list[str]) -> Any:
    """Where a new ranking begins in rows of whole rankings."""
    new = np.zeros(rows.height, dtype=bool)
    new[:1] = True
    for key in keys:
        new[1:] |= _changes(rows[key])
    return np.flatnonzero(new)


class _Scattered(Exception):  # noqa: N818
    """Rows of a ranking stand apart."""


def _as_they_stand(lazy: nw.LazyFrame[Any], keys: list[str]) -> Iterator[Any]:
    """All rows as frames of whole rankings, where the rows of a ranking stand together; else `_Scattered` is raised.

    That may be only after the last frame, so what was made of the frames counts once they came to an end.
    """
    import polars as pl

    heads: list[Any] = []
    held: Any = None
    for part in _parts(lazy):
        rows = part if held is None else pl.concat([held, part], rechunk=True)
        first = first_of_runs(rows, keys)
        if not len(first):
            continue
        held = rows[int(first[-1]) :]
        if len(first) > 1:
            heads.append(rows.select(keys)[first[:-1]])
            if heads[-1].is_duplicated().any():
                raise _Scattered
            yield rows[: int(first[-1])]
    if held is None:
        raise _Scattered
    yield held
    heads.append(held.select(keys).head(1))
    if pl.concat(heads).is_duplicated().any():
        raise _Scattered


def _brought_together(lazy: nw.LazyFrame[Any], keys: list[str]) -> Iterator[Any]:
    """The same wherever rows stand: the rankings of a part of all requests at a time, picked out and sorted."""
    import polars as pl

    rows = int(to_polars(lazy.select(nw.len().alias("n")))["n"][0])
    walks = max(1, min(MOST_WALKS, ceil(rows / SORTED)))
    for walk in range(walks):
        mine = pl.struct(keys).hash() % walks == walk
        found = to_polars(lazy) if walks == 1 else pl.concat([part.filter(mine) for part in _parts(lazy)])
        if found.height or walks == 1:
            yield from _cut(found.sort(*keys, nulls_last=True), keys)


def _cut(rows: Any, keys: list[str]) -> Iterator[Any]:
    """Sorted rows as frames of whole rankings."""
    first = np.append(first_of_runs(rows, keys), rows.height)
    start = 0
    while start < rows.height or not start:
        stop = int(first[np.searchsorted(first, min(start + BLOCK, rows.height))])
        yield rows[start:stop]
        start = max(stop, 1)


def _hands_parts(lazy: nw.LazyFrame[Any]) -> bool:
    """Whether the engine hands rows over in the order in which it reads them."""
    return bool(lazy.implementation.is_polars() or lazy.implementation.is_duckdb())


def _parts(lazy: nw.LazyFrame[Any]) -> Iterator[Any]:
    """The rows as Polars frames, for engines that hand them over in the order in which they read them."""
    import polars as pl

    native = lazy.to_native()
    with engine_errors():
        if _takes_slices(lazy):
            start, part = 0, None
            while part is None or part.height == BLOCK:
                part = native.slice(start, BLOCK).collect(engine="streaming")
                start += BLOCK
                yield part
        elif lazy.implementation.is_duckdb():
            called = ("to_arrow_reader", "fetch_record_batch", "fetch_arrow_reader")  # by the versions of DuckDB
            read = next(getattr(native, name) for name in called if hasattr(native, name))
            for batch in read(BLOCK):
                yield pl.from_arrow(batch)
        elif hasattr(native, "collect_batches"):  # Polars from 1.34 on
            yield from native.collect_batches(chunk_size=BLOCK)
        else:
            yield native.collect(engine="streaming")


ROWWISE = re.compile(
    r"(\s*(SELECT|WITH_COLUMNS:|simple π|\[).*\n)*"  # nothing that looks at other rows
    r"\s*(DF \[|Parquet SCAN \[(?!\w+://)[^,\]]+\]\n(\s*PROJECT.*\n)?\s*SLICE: )"  # in memory, or one file of this machine
)
"""Plans of Polars, told to it as text, in which the source itself takes a slice of the rows."""


def _takes_slices(lazy: nw.LazyFrame[Any]) -> bool:
    """Whether a part of the rows is read without all that stands before it.

    Where Polars reads a whole file, it holds a few groups of rows ahead, as large as their writer made them.
    """
    if not lazy.implementation.is_polars():
        return False
    with engine_errors():
        return ROWWISE.match(lazy.to_native().slice(1, 1).explain()) is not None


def _settled(rows: nw.LazyFrame[Any], keys: Sequence[str], order: str, item: str | None) -> nw.LazyFrame[Any]:
    """The facts as any engine counts them."""
    if rows.implementation.is_ibis():  # narwhals would add a truth value to the count, which PostgreSQL refuses
        table = rows.to_native()
        held = table[order]
        facts = {"n": table.count(), "distinct": held.nunique(), "last": held.max(), "best": held.min()}
        facts |= {} if item is None else {"items": table[item].nunique()}
        counted: nw.LazyFrame[Any] = nw.from_native(table.group_by(*keys).agg(**facts))
        return counted
    if rows.implementation.is_pyspark():  # where two distinct counts at once would send every row twice
        from pyspark.sql import functions as fn

        held = {
            "n": fn.count("*"),
            "distinct": fn.size(fn.collect_set(order)),
            "last": fn.max(order),
            "best": fn.min(order),
        }
        held |= {} if item is None else {"items": fn.size(fn.collect_set(item))}
        per: nw.LazyFrame[Any] = nw.from_native(
            rows.to_native().groupBy(*keys).agg(*(e.alias(name) for name, e in held.items()))
        )
        return per
    by = nw.col(order)
    asked = {"n": nw.len(), "distinct": by.n_unique(), "last": by.max(), "best": by.min()}
    if item is not None:
        asked["items"] = nw.col(item).n_unique()
    return rows.group_by(*keys).agg(*(e.alias(name) for name, e in asked.items()))


def _of_runs(rows: Any, keys: list[str], order: str, item: str | None) -> Any:
    """Facts of rankings whose rows stand together, where nothing looks as if it stood in one of them twice.

    Places that rise (or fall) from row to row are distinct, and so is what has distinct hashes. Otherwise None: then the
    values themselves must be counted.
    """
    import polars as pl

    if not rows.height:
        return None
    first = first_of_runs(rows, keys)
    place = rows[order].to_numpy()
    inside = np.ones(rows.height, dtype=bool)
    inside[first] = False
    inside = inside[1:]
    n = np.diff(first, append=rows.height)
    rising, falling = place[1:] > place[:-1], place[1:] < place[:-1]
    ordered = (rising | ~inside).all() or (falling | ~inside).all()
    if not ordered and _twice(rows[order].hash().to_numpy(), n):
        return None
    if item is not None and _twice(rows[item].hash().to_numpy(), n):
        return None
    facts = {
        "n": n,
        "distinct": n,
        "last": np.maximum.reduceat(place, first),
        "best": np.minimum.reduceat(place, first),
    }
    if item is not None:
        facts["items"] = n
    return rows.select(keys)[first].with_columns(*(pl.Series(name, values) for name, values in facts.items()))


def _changes(column: Any) -> Any:
    """Where a value differs from the one above it."""
    if column.dtype.is_integer() and not column.null_count():
        values = column.to_numpy()
        return values[1:] != values[:-1]
    return column.ne_missing(column.shift(1)).to_numpy()[1:]


def _twice(hashes: Any, lengths: Any) -> bool:
    """Whether two hashes of one run are alike, or look so: half of the bits are compared, run by run where that is cheap."""
    short, wide = (hashes >> np.uint64(32)).astype(np.uint32), int(lengths.max())
    if (lengths == wide).all():
        rows = short.reshape(len(lengths), wide)
    elif len(lengths) * wide <= 2 * len(hashes):
        rows = np.tile(np.arange(wide, dtype=np.uint32), (len(lengths), 1))  # what stands past the end differs
        rows[np.arange(wide) < lengths[:, None]] = short
    else:
        run = np.repeat(np.arange(len(lengths), dtype=np.uint64), lengths)
        rows = (hashes ^ (run * np.uint64(0x9E3779B97F4A7C15)))[None, :]  # an odd factor keeps runs apart
    rows = np.sort(rows, axis=1)
    return bool((rows[:, 1:] == rows[:, :-1]).any())
