"""Facts of each ranking in little memory: a batch of rows at a time, for distinct values hold on to every row they count."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import narwhals as nw
import numpy as np

from evenhand.views.match import same_engine
from evenhand.views.tables import engine_errors, to_polars

ROWS = 200_000
"""Rows looked at together."""

BLOCK = 500_000
"""Rows added up together."""


def ranking_facts(lazy: nw.LazyFrame[Any], keys: Sequence[str], order: str, item: str | None) -> nw.LazyFrame[Any]:
    """One row per ranking: rows `n`, `distinct` values, `last` and `best` of what orders it, and distinct `items`.

    Tables mostly hold a ranking's rows together. Then a batch settles the rankings that lie within it, and only those cut
    by the end of a batch are looked at again. Where rows are mixed, the engine does all at once.
    """
    keys = list(keys)
    lazy = lazy.select(*dict.fromkeys([*keys, order, *([] if item is None else [item])]))
    with engine_errors():
        parts = _by_batch(lazy, keys, order, item)
    if not parts:
        return _settled(lazy, keys, order, item)
    import polars as pl

    found = pl.concat(parts)
    cut = pl.struct(keys).is_duplicated()
    again = found.filter(cut).select(keys).unique()
    whole = found.filter(~cut)
    if again.height:
        rest = _settled(_rows_of(lazy, again, keys), keys, order, item)
        whole = pl.concat([whole, to_polars(rest).select(found.columns).cast(dict(found.schema))])
    facts: nw.LazyFrame[Any] = nw.from_native(whole.lazy())
    return facts


def whole_rankings(lazy: nw.LazyFrame[Any], keys: Sequence[str]) -> Iterator[Any]:
    """All rows as Polars frames of whole rankings, where the rows of a ranking stand together; else `Scattered` is raised.

    That may be only after the last frame, so what was made of the frames counts once they came to an end.
    """
    import polars as pl

    keys = list(keys)
    heads: list[Any] = []
    held: Any = None
    with engine_errors():
        for batch in _batches(lazy, BLOCK):
            rows = batch if held is None else pl.concat([held, batch])
            first = first_of_runs(rows, keys)
            if not len(first):
                continue
            held = rows[int(first[-1]) :]
            if len(first) > 1:
                heads.append(rows.select(keys)[first[:-1]])
                if heads[-1].is_duplicated().any():
                    raise Scattered
                yield rows[: int(first[-1])]
    if held is None:
        raise Scattered
    yield held
    heads.append(held.select(keys).head(1))
    if pl.concat(heads).is_duplicated().any():
        raise Scattered


def may_repeat(lazy: nw.LazyFrame[Any], keys: Sequence[str], item: str = "item") -> bool:
    """Whether a ranking may list an item twice: no is certain, and takes little memory; yes must be looked into."""
    try:
        for rows in whole_rankings(lazy.select(*keys, item), keys):
            lengths = np.diff(first_of_runs(rows, list(keys)), append=rows.height)
            if _twice(rows[item].hash().to_numpy(), lengths):
                return True
    except Scattered:
        return True
    return False


class Scattered(Exception):  # noqa: N818
    """Rows of a ranking stand apart, or the engine hands no batches over: read all of them at once."""


def first_of_runs(rows: Any, keys: list[str]) -> Any:
    """Where a new ranking begins in rows of whole rankings."""
    new = np.zeros(rows.height, dtype=bool)
    new[:1] = True
    for key in keys:
        new[1:] |= _changes(rows[key])
    return np.flatnonzero(new)


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


def _rows_of(lazy: nw.LazyFrame[Any], again: Any, keys: list[str]) -> nw.LazyFrame[Any]:
    """The rows of some rankings; a key may be missing, which joins do not match."""
    if lazy.implementation.is_polars():
        found: nw.LazyFrame[Any] = nw.from_native(
            lazy.to_native().join(again.lazy(), on=keys, how="semi", nulls_equal=True)
        )
        return found
    near = [k for k in keys if not again[k].null_count()]  # with every ranking that only a missing key tells apart
    few = nw.from_native(again.select(near).unique()).lazy()
    return lazy.join(same_engine(few, lazy), on=near, how="semi") if near else lazy


def _by_batch(lazy: nw.LazyFrame[Any], keys: list[str], order: str, item: str | None) -> list[Any]:
    """Facts of the rankings in each batch; nothing where most rankings of a batch go on in the next."""
    parts: list[Any] = []
    for batch in _batches(lazy, ROWS):
        found = _of_runs(batch, keys, order, item)
        if found is None:
            found = to_polars(_settled(nw.from_native(batch).lazy(), keys, order, item))
        found = found.select(*keys, *sorted(set(found.columns) - set(keys)))
        if parts and 2 * found.join(parts[-1], on=keys, how="semi", nulls_equal=True).height > found.height > 1:
            return []
        parts.append(found if not parts else found.cast(dict(parts[0].schema)))
    return parts


def _batches(lazy: nw.LazyFrame[Any], rows: int) -> Iterator[Any]:
    """The rows as Polars frames, for engines that hand them over in the order in which they read them."""
    import polars as pl

    native = lazy.to_native()
    if lazy.implementation.is_polars() and hasattr(native, "collect_batches"):  # Polars from 1.34 on
        yield from native.collect_batches(chunk_size=rows)
    elif lazy.implementation.is_duckdb():
        called = ("to_arrow_reader", "fetch_record_batch", "fetch_arrow_reader")  # by the versions of DuckDB
        read = next(getattr(native, name) for name in called if hasattr(native, name))
        for batch in read(rows):
            yield pl.from_arrow(batch)


def _of_runs(batch: Any, keys: list[str], order: str, item: str | None) -> Any:
    """Facts of each run of rows of one ranking, where nothing in the batch looks as if it stood there twice.

    Places that rise (or fall) from row to row are distinct, and so are items whose hashes are. Otherwise None: then the
    values themselves must be counted. A ranking in several runs has several rows here.
    """
    import polars as pl

    if not batch.height:
        return None
    first = first_of_runs(batch, keys)
    place = batch[order].to_numpy()
    inside = np.ones(batch.height, dtype=bool)
    inside[first] = False
    inside = inside[1:]
    rising, falling = place[1:] > place[:-1], place[1:] < place[:-1]
    if not (rising | ~inside).all() and not (falling | ~inside).all():
        return None
    n = np.diff(first, append=batch.height)
    if item is not None and _twice(batch[item].hash().to_numpy(), n):
        return None
    facts = {
        "n": n,
        "distinct": n,
        "last": np.maximum.reduceat(place, first),
        "best": np.minimum.reduceat(place, first),
    }
    if item is not None:
        facts["items"] = n
    return batch.select(keys)[first].with_columns(*(pl.Series(name, values) for name, values in facts.items()))


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
