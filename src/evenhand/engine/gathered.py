"""Whole rankings from where their rows live apart, in few bytes: one row for each, its items in order, as codes.

A cluster or a database keeps the rows of a ranking anywhere, so that they cannot be read as a stream of whole rankings; and
what reaches the driver is what it has to hold. So every combination of values that occurs gets a number, and a ranking travels
as its id and the numbers of its items, a byte or two each. Here they become rows again, a bounded number at a time.
"""

from __future__ import annotations

import functools
import importlib
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import narwhals as nw
import numpy as np

from evenhand.views.match import in_our_order
from evenhand.views.tables import each_once, to_polars

CODE, STEP = "evenhand code", "evenhand step"
"""Columns of lists: numbers of the items' values, and how far each place is from the one before it."""

MOST_CODES = 1 << 15
"""Combinations of values that are numbered on a cluster; of more, numbers with a fraction travel as they are."""

MOST_CASES = 1 << 8
"""The same in a query, which names every one of them; of more, nothing is gathered."""

ORDER = "evenhand order"

EXACT = frozenset({"postgres", "duckdb"})
"""Databases whose numbers, as text, have all their digits."""

IN_ORDER = frozenset({"postgres", "duckdb", "bigquery", "snowflake", "trino"})
"""Databases that put the values of a group into one text in order and do not cut it short (MySQL does)."""


BLOCK = 250_000
"""Rows read together."""


def is_apart(lazy: nw.LazyFrame[Any]) -> bool:
    """Whether rows live on a cluster or in a database that can gather them before they are sent."""
    if lazy.implementation.is_ibis():
        return lazy.to_native().get_backend().name in IN_ORDER
    return bool(lazy.implementation.is_pyspark())


def gathered(
    lazy: nw.LazyFrame[Any],
    keys: Sequence[str],
    values: Sequence[str],
    order: str | None = None,
    *,
    plain: Sequence[str] = (),
) -> nw.LazyFrame[Any] | None:
    """The same rows in Polars, those of a ranking together and by `order`: columns `keys`, `order` and `values`.

    A `rank` is kept; anything else that orders is there as places from 1, which are the same where it was. None where a
    query would have to name too many values. `plain` are columns that a cluster numbers only where few combinations of values
    are left with them; it does without the first of them first.
    """
    lazy, keys, values = _only(lazy, keys, values, order)
    if lazy.implementation.is_pyspark():
        return _rows(*_on_spark(lazy, keys, values, order, plain=plain), keys, values, order)
    coded = _named(lazy, values)
    packed = None if coded is None else _in_a_query(*coded, keys, order)
    return None if packed is None else _rows(*packed, keys, values, order)


def itemised(
    lazy: nw.LazyFrame[Any],
    keys: Sequence[str],
    values: Sequence[str],
    order: str | None,
    ranked: Sequence[str],
    plain: Sequence[str],
    rows: int,
) -> nw.LazyFrame[Any] | None:
    """The same from a database with columns that have too many values to be named: `ranked` ones, of which nobody reads more than
    the order, come as their places among all values; `plain` numbers as they are. There are at most so many `rows`.
    """
    lazy, keys, values = _only(lazy, keys, [*values, *ranked, *plain], order)
    schema, table = lazy.collect_schema(), lazy.to_native()
    if any(schema[name].is_float() for name in plain) and table.get_backend().name not in EXACT:
        return None
    coded = _named(lazy, [name for name in values if name not in (*ranked, *plain)])
    if coded is None:
        return None
    named, known = coded
    ibis = importlib.import_module("ibis")
    for name in ranked:
        in_order = in_our_order(nw.from_native(named), name, ORDER).to_native()
        place = ibis.dense_rank().over(order_by=in_order[ORDER])
        named = in_order.mutate(**{name: place}).drop(ORDER)
    packed = _in_a_query(named, known, keys, order, ranked, plain, rows)
    return None if packed is None else _rows(*packed, keys, values, order)


def by_cluster(lazy: nw.LazyFrame[Any], key: str, values: Sequence[str], plain: Sequence[str]) -> nw.LazyFrame[Any]:
    """The same from a Spark cluster, by a key that comes as its place among all keys."""
    lazy, keys, values = _only(lazy, [key], values, None)
    held, known = _on_spark(lazy, keys, values, None, plain=plain, placed=True)
    return _rows(held, known, keys, values, None)


def numbered(
    lazy: nw.LazyFrame[Any], keys: Sequence[str], values: Sequence[str], order: str | None = None, *, known: Any = None
) -> nw.LazyFrame[Any]:
    """The same however many values there are: a database numbers them itself, and a cluster is told those that are `known`."""
    lazy, keys, values = _only(lazy, keys, values, order)
    if lazy.implementation.is_pyspark():
        return _rows(*_on_spark(lazy, keys, values, order, known), keys, values, order)
    table, held = _counted(lazy, values)
    return _rows(_packed(table, held, keys, order), held, keys, values, order)


def _only(
    lazy: nw.LazyFrame[Any], keys: Sequence[str], values: Sequence[str], order: str | None
) -> tuple[nw.LazyFrame[Any], list[str], list[str]]:
    return lazy.select(*dict.fromkeys([*keys, *([] if order is None else [order]), *values])), [*keys], [*values]


def _on_spark(
    lazy: nw.LazyFrame[Any],
    keys: list[str],
    values: list[str],
    order: str | None,
    known: Any = None,
    plain: Sequence[str] = (),
    *,
    placed: bool = False,
) -> tuple[Any, Any]:
    """A Polars frame of a row per ranking with its lists, and one of the values that codes are places in.

    `placed` : rows come in order of the one key, and their number stands for it.
    """
    import polars as pl
    from pyspark.sql import functions as fn

    coded: Sequence[str] = values
    if known is None:
        kinds = lazy.collect_schema()
        fewer = [tuple(name for name in values if name not in plain[:i]) for i in range(len(plain) + 1)]
        fewer.append(tuple(name for name in fewer[-1] if not kinds[name].is_float()))
        for coded in dict.fromkeys(fewer):
            known = to_polars(each_once(lazy.select(*coded)).head(MOST_CODES + 1)) if coded else pl.DataFrame()
            if known.height <= MOST_CODES:
                break
        else:
            known = to_polars(each_once(lazy.select(*coded)))
    native, rows = lazy.to_native(), fn.col("evenhand rows")
    held = [name for name in values if name not in coded]
    if coded:
        kind = pl.Int8 if known.height <= 1 << 7 else pl.Int16 if known.height <= 1 << 15 else pl.Int32
        table = native.sparkSession.createDataFrame(known.with_row_index(CODE).cast({CODE: kind}).to_arrow())
        met = _all(fn.col(f"rows.{name}").eqNullSafe(fn.col(f"known.{name}")) for name in coded)
        native = native.alias("rows").join(fn.broadcast(table).alias("known"), met).select("rows.*", f"known.{CODE}")
        held = [CODE, *held]
    row = fn.struct(*([] if order is None else [order]), *held)
    lists = [rows.getField(name).alias(name) for name in held]
    if order is not None:
        places = rows.getField(order)

        def step(x: Any, i: Any) -> Any:
            before = fn.get(places, i - 1)
            taken = x - fn.coalesce(before, fn.lit(0)) if order == "rank" else fn.coalesce(x != before, fn.lit(True))
            return taken.cast("int" if order == "rank" else "tinyint")

        even = fn.element_at(places, -1) if order == "rank" else fn.size(fn.array_distinct(places))
        lists.append(fn.when(even != fn.size(places), fn.transform(places, step)).alias(STEP))
    packed = native.groupBy(*keys).agg(fn.sort_array(fn.collect_list(row)).alias("evenhand rows"))
    if placed:
        found = to_polars(nw.from_native(packed.orderBy(*keys).select(*lists)))
        return found.with_row_index(keys[0]), known
    return to_polars(nw.from_native(packed.select(*keys, *lists))), known


def _in_a_query(table: Any, known: Any, *how: Any) -> tuple[Any, Any] | None:
    """The same from a database; None where a value equals none that the query was told of."""
    held = _packed(table, known, *how)
    return None if held[CODE].list.max().max() == known.height > 0 else (held, known)


def _packed(
    table: Any,
    known: Any,
    keys: list[str],
    order: str | None,
    ranked: Sequence[str] = (),
    plain: Sequence[str] = (),
    rows: int = 0,
) -> Any:
    """A Polars frame of a row per ranking with its lists, which came as text: codes and places in so many characters each, and
    behind them `plain` numbers as they are written. No place is larger than `rows`.
    """
    widths = {CODE: _width(known.height), **{name: _width(rows) for name in ranked}}
    sums: dict[str, Any] = {}
    by: list[Any] = []
    if order is not None:
        ibis = importlib.import_module("ibis")
        before = table[order].lag().over(group_by=keys, order_by=order)
        steps = ibis.coalesce(table[order] - before, table[order]) if order == "rank" else None
        table = table.mutate(**{STEP: (table[order] == before).ifelse(0, 1) if steps is None else steps})
        by = [table[order], table[STEP].desc()]  # of those at one place, the one that went up to it is first
        steps = table[STEP].cast("string").group_concat("," if order == "rank" else "", order_by=by)
        sums = {STEP: steps, "uneven": (table[STEP] != 1).any()}
    fixed = [_in_characters(table[name], width) for name, width in widths.items()]
    written = [part for name in plain for part in (table[name].cast("string"), ":")]
    row = functools.reduce(operator.add, [*fixed, *written[:-1]])
    packed = table.group_by(*keys).agg(**{CODE: row.group_concat(" " if plain else "", order_by=by)}, **sums)
    if order is not None:
        packed = packed.mutate(**{STEP: packed["uneven"].ifelse(packed[STEP], None)}).drop("uneven")
    kinds = {name: "Float64" if table[name].type().is_floating() else "Int64" for name in plain}
    return _unwritten(to_polars(nw.from_native(packed)), widths, kinds, order)


def _unwritten(held: Any, widths: dict[str, int], kinds: dict[str, str], order: str | None) -> Any:
    """Rankings whose lists came as text, with lists: of characters for the numbers of each row, and of `kinds` after them."""
    import polars as pl

    if order is not None:
        apart = pl.col(STEP).cast(pl.String).str.split("," if order == "rank" else "")
        held = held.with_columns(apart.cast(pl.List(pl.Int32)))
    text, wide = held[CODE].cast(pl.String), sum(widths.values())
    rows, sizes = text, text.str.len_bytes() // wide
    if kinds:
        each = text.str.split(" ")
        rows, sizes = each.explode(), each.list.len()
        parts = rows.str.slice(wide).str.split_exact(":", len(kinds) - 1).struct.unnest()
        parts.columns = [*kinds]
        rows = rows.str.slice(0, wide)
    digits = np.frombuffer("".join(rows).encode("ascii"), dtype=np.uint8).reshape(-1, wide) - np.uint8(FIRST)
    lists, at = dict[str, Any](), 0
    for name, width in widths.items():
        lists[name] = digits[:, at : at + width].astype(np.int32) @ (DIGITS ** np.arange(width)[::-1]).astype(np.int32)
        at += width
    lists |= {name: parts[name].cast(getattr(pl, kind)) for name, kind in kinds.items()}
    ends = np.concatenate([[0], np.cumsum(sizes.to_numpy().astype(np.int64))])
    return held.with_columns(**{name: _lists(values, ends) for name, values in lists.items()})


def _lists(values: Any, ends: Any) -> Any:
    """A Polars column of lists that end where they are said to."""
    import polars as pl
    import pyarrow as pa

    flat = values.to_arrow() if isinstance(values, pl.Series) else pa.array(values)
    return pl.from_arrow(pa.LargeListArray.from_arrays(pa.array(ends), flat))


FIRST, DIGITS = 33, 94
"""Characters that stand for the digits of a number: those from "!" to "~", which are neither blank nor longer than a byte."""


def _width(most: int) -> int:
    """How many characters the numbers from 0 to `most` need.

    >>> _width(0), _width(93), _width(94), _width(600_000)
    (1, 1, 2, 3)
    """
    return 1 if most < DIGITS else 1 + _width(most // DIGITS)


def _in_characters(number: Any, width: int) -> Any:
    """A whole number of Ibis as text of so many characters."""
    builtin = importlib.import_module("ibis").udf.scalar.builtin
    character = builtin(chr, name="chr", signature=(("int32",), "string"))
    digits = [number // DIGITS**i if i else number for i in reversed(range(width))]
    digits = [digits[0], *(digit % DIGITS for digit in digits[1:])]
    return functools.reduce(operator.add, [character((digit + FIRST).cast("int32")) for digit in digits])


def _named(lazy: nw.LazyFrame[Any], values: list[str]) -> tuple[Any, Any] | None:
    """The table with a number for each combination of values, all of which the query names, and what they stand for."""
    ibis = importlib.import_module("ibis")
    known = to_polars(each_once(lazy.select(*values)).head(MOST_CASES + 1))
    if known.height > MOST_CASES:
        return None
    table = lazy.to_native()
    cases = [
        (_all(table[name].isnull() if v is None else table[name] == v for name, v in row.items()), ibis.literal(i))
        for i, row in enumerate(known.iter_rows(named=True))
    ]
    return table.mutate(**{CODE: ibis.cases(*cases, else_=known.height) if cases else ibis.literal(0)}), known


def _counted(lazy: nw.LazyFrame[Any], values: list[str]) -> tuple[Any, Any]:
    """The same with numbers that the database finds, twice alike: it may order text in a way of its own."""
    ibis, table = importlib.import_module("ibis"), lazy.to_native()
    known = table.select(*values).distinct()
    known = known.mutate(**{CODE: ibis.row_number().over(order_by=[known[name] for name in values])})
    held = to_polars(nw.from_native(known)).sort(CODE).drop(CODE)
    return table.mutate(**{CODE: ibis.dense_rank().over(order_by=[table[name] for name in values])}), held


def _all(conditions: Iterable[Any]) -> Any:
    return functools.reduce(operator.and_, conditions)


def _rows(held: Any, known: Any, keys: list[str], values: list[str], order: str | None) -> nw.LazyFrame[Any]:
    """Packed rankings as rows."""
    import polars as pl
    from polars.io.plugins import register_io_source

    lists = [name for name in held.columns if name not in (*keys, STEP)]
    kinds = {name: held.schema[name] for name in keys}
    kinds |= {} if order is None else {order: pl.Int64 if order == "rank" else pl.Float64}
    kinds |= {name: known.schema[name] if name in known.columns else held.schema[name].inner for name in values}

    def unpacked(part: Any) -> Any:
        if order is not None:
            places = pl.col(STEP).list.eval(pl.element().cum_sum().cast(pl.Int64))
            places = (
                pl.when(pl.col(STEP).is_null())
                .then(pl.int_ranges(1, pl.col(lists[0]).list.len() + 1))
                .otherwise(places)
            )
            part = part.with_columns(places.alias(order)).drop(STEP)  # else every row would carry the list of all
        flat = part.explode(*lists, *([] if order is None else [order]))
        met = [known[name].gather(flat[CODE].cast(pl.UInt32)) for name in known.columns]
        return flat.with_columns(met).select(*kinds).cast(kinds)

    def source(columns: list[str] | None, predicate: Any, rows: int | None, _: int | None) -> Iterator[Any]:
        for part in _parts(held, lists[0]):
            found = unpacked(part)
            found = found if predicate is None else found.filter(predicate)
            found = found if columns is None else found.select(columns)
            yield found if rows is None else found.head(rows)
            rows = None if rows is None else rows - min(rows, found.height)

    lazy: nw.LazyFrame[Any] = nw.from_native(register_io_source(source, schema=kinds))
    return lazy


def _parts(held: Any, lists: str) -> Iterator[Any]:
    """Some rankings after the other, of a bounded number of rows in all."""
    ends = np.cumsum(held[lists].list.len().to_numpy().astype(np.int64))
    start = 0
    while start < held.height or not start:
        before = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + BLOCK, side="right")))
        yield held[start:stop]
        start = stop
