"""Rankings in little memory: rows are read a part at a time, and handed on as whole rankings."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, TypeVar

import narwhals as nw
import numpy as np

from evenhand.errors import EvenhandError
from evenhand.views.spilled import Spilled, table_of
from evenhand.views.tables import each_once, engine_errors, to_polars

Made = TypeVar("Made")

Make = Callable[[Any, Any], Made]
"""What makes something of a Polars frame of whole rankings, given where each of them begins."""

BLOCK = 250_000
"""Rows read and added up together."""

COUNTED = 1_000_000
"""Rows counted together, which needs none of them for long."""

SORTED = 500_000
"""Rows that are sorted at a time where those of a ranking stand apart."""

Sums = dict[str, Any]

Asked = Callable[[Any], Sequence[Any]]
"""What is asked of all rows: expressions of the library that is passed, narwhals or Polars, whose words are the same."""


def nothing(_: Any) -> Sequence[Any]:
    return ()


def summed(lazy: nw.LazyFrame[Any], asked: Asked) -> Sums:
    """Facts of all rows from those of each part: what is called `low_...` is the least, `high_...` the largest, others add up."""
    if not _takes_slices(lazy):
        return dict(to_polars(lazy.select(*told)).row(0, named=True)) if (told := asked(nw)) else {}
    parts: list[Any] = []
    while not parts or parts[-1]["evenhand_rows"][0] == COUNTED:
        part = nw.from_native(lazy.to_native().slice(COUNTED * len(parts), COUNTED))
        parts.append(to_polars(part.select(*asked(nw), nw.len().alias("evenhand_rows"))))
    return _together([part.drop("evenhand_rows") for part in parts])


def _together(parts: Sequence[Any]) -> Sums:
    """Facts of all rows from those of each part."""
    import polars as pl

    found = pl.concat(parts)
    if found.height == 1:
        return dict(found.row(0, named=True))
    ways = {"low": pl.Expr.min, "high": pl.Expr.max}
    total = [ways.get(c.split("_")[0], _total)(pl.col(c)) for c in found.columns]
    return dict(found.select(total).row(0, named=True)) if total else {}


def _total(counts: Any) -> Any:
    import polars as pl

    return counts.cast(pl.Int64).sum()


def with_sums(
    lazy: nw.LazyFrame[Any], keys: Sequence[str], make: Make[Made], asked: Asked
) -> tuple[list[Made], Sums, nw.LazyFrame[Any]]:
    """`by_ranking`, what `summed` says, and the rows for the next walk, from one walk over them."""
    import polars as pl

    told = list(asked(pl))

    def both(rows: Any, first: Any) -> tuple[Made, Any]:
        return make(rows, first), rows.select(told) if told else None

    found, lazy = _walked(lazy, list(keys), both)
    made, facts = zip(*found, strict=True)
    return list(made), _together(facts) if told else {}, lazy


@dataclass(frozen=True)
class Facts:
    """What was seen of rankings on a walk over their rows.

    Attributes
    ----------
    per : one row per ranking: rows `n`, `distinct` values, `last` and `best` of what orders it, and distinct `items`; a
        Polars frame from engines that hand over parts, a lazy table of others.
    sums : what was asked of all rows, as `summed` says it.
    lazy : the rows with those of a ranking together.
    made : what was made on the way of some rankings after the other.
    """

    per: Any
    sums: Sums
    lazy: nw.LazyFrame[Any]
    made: Sequence[Any] = ()


Along = Callable[[list[str]], Make[Any]]
"""From the columns that name a ranking to what makes something of rows of whole rankings."""


def made_along(
    along: Along | None, lazy: nw.LazyFrame[Any], keys: Sequence[str], sound: Callable[..., bool]
) -> Callable[..., Any] | None:
    """What goes along with a walk over rows that are only being checked: of rows that are not `sound` it makes nothing.

    So it does where it refuses them: that is said once they are known to be what they should be.
    """
    if along is None or not hands_parts(lazy):
        return None
    try:
        make = along(list(keys))  # before the walk: DuckDB answers no question while it hands over rows
    except EvenhandError:
        return None

    def made(rows: Any, first: Any, *facts: Any) -> Any:
        try:
            return make(rows, first) if sound(rows, *facts) else None
        except EvenhandError:
            return None

    return made


def every(made: Sequence[Made | None]) -> Sequence[Made] | None:
    """What was made, if it was made of all rows."""
    whole = [one for one in made if one is not None]
    return whole if whole and len(whole) == len(made) else None


def ranking_facts(
    lazy: nw.LazyFrame[Any],
    keys: Sequence[str],
    order: str,
    item: str | None,
    asked: Asked = nothing,
    along: Callable[[Any, Any, Any], Any] | None = None,
) -> Facts:
    """Facts of all rankings; `along` is given the rows of some after the other, and the facts of these."""
    import polars as pl

    keys = list(keys)
    if not hands_parts(lazy):
        return Facts(_settled(lazy, keys, order, item), summed(lazy, asked), lazy)

    def facts(rows: Any, first: Any) -> tuple[Any, Any]:
        found = _of_runs(rows, first, keys, order, item)
        if found is None:
            found = to_polars(_settled(nw.from_native(rows).lazy(), keys, order, item))
        kinds = {name: kind if name in ("last", "best") else pl.Int64 for name in found.columns[len(keys) :]}
        found = found.cast(kinds, strict=False)
        return found, None if along is None else along(rows, first, found)

    # a missing place is told of by those who asked for it, and there is no other use for these facts
    kind = pl.Float64 if lazy.collect_schema()[order].is_float() else pl.Int64
    found, sums, lazy = with_sums(lazy, keys, facts, asked)
    return Facts(pl.concat([per for per, _ in found]), sums, lazy, [made for _, made in found])


def by_ranking(lazy: nw.LazyFrame[Any], keys: Sequence[str], make: Make[Made]) -> list[Made]:
    """What `make` makes of frames of whole rankings, each with some of the rows; there is one frame at least."""
    return _walked(lazy, list(keys), make)[0]


def _walked(lazy: nw.LazyFrame[Any], keys: list[str], make: Make[Made]) -> tuple[list[Made], nw.LazyFrame[Any]]:
    """The same, and the rows with those of a ranking together, for the next walk; other engines keep theirs.

    Rows that came at once are kept in memory.
    """
    if not hands_parts(lazy):
        return [make(*some) for some in _cut(to_polars(lazy).sort(*keys, nulls_last=True), keys)], lazy
    try:
        made: list[Made] = []
        for rows, first in _as_they_stand(lazy, keys):
            made.append(make(rows, first))
        at_once = len(made) == 1 and lazy.implementation.is_polars()
        return made, nw.from_native(rows.lazy()) if at_once else lazy
    except _Scattered:
        near = _rearranged(lazy, keys, keys, lambda _, rows: rows)
        return [make(*some) for some in _whole(near, keys)], near if lazy.implementation.is_polars() else lazy


def once(lazy: nw.LazyFrame[Any], keys: Sequence[str]) -> nw.LazyFrame[Any]:
    """Every row once, those with the same keys together."""
    if not lazy.implementation.is_polars():
        return each_once(lazy)
    return _rearranged(lazy, keys, keys, lambda _, rows: rows.unique())


def rows_of(lazy: nw.LazyFrame[Any], named: Any) -> nw.LazyFrame[Any]:
    """The rows of a few rankings, which a Polars frame names; engines other than Polars keep all of their requests.

    Where rows are made as they are read, these are kept, and their text is copied: as it stands it would hold on to that of
    all rows that were read with it.
    """
    import polars as pl
    import polars.selectors as cs

    asked = lazy.filter(
        nw.col("request").is_in(named["request"].unique().to_list())
    )  # files are asked for no other rows
    keys = named.columns
    if not lazy.implementation.is_polars() or (keys == ["request"] and _takes_slices(lazy)):
        return asked
    named = named.cast({key: kind for key, kind in lazy.to_native().collect_schema().items() if key in keys})
    if _takes_slices(lazy):
        found = asked.to_native().join(named.lazy(), on=keys, how="semi", nulls_equal=True)
    else:
        kept = (part.join(named, on=keys, how="semi", nulls_equal=True) for part in frames(lazy))
        found = pl.concat([rows.with_columns(cs.string() + "") for rows in kept]).lazy()
    of_rankings: nw.LazyFrame[Any] = nw.from_native(found)
    return of_rankings


def joined_apart(
    lazy: nw.LazyFrame[Any], other: nw.LazyFrame[Any], on: Sequence[str], keys: Sequence[str]
) -> nw.LazyFrame[Any]:
    """Rows with what another table says of them, both in files by the first of the columns `on`; rankings stand together."""
    first = list(on[:1])
    beside = Spilled(_parts(other), first, ceil((_height(lazy) + _height(other)) / SORTED))
    return _rearranged(
        lazy, first, keys, lambda i, rows: rows.join(beside.part(i), on=list(on), how="left"), beside.parts
    )


def _height(lazy: nw.LazyFrame[Any]) -> int:
    return int(to_polars(lazy.select(nw.len().alias("n")))["n"][0])


def _rearranged(
    lazy: nw.LazyFrame[Any],
    by: Sequence[str],
    keys: Sequence[str],
    make: Callable[[int, Any], Any],
    parts: int | None = None,
) -> nw.LazyFrame[Any]:
    """What is made of the rows, a part at a time by a hash of some of the `keys`; the rows of a ranking stand together."""
    parts = ceil(_height(lazy) / SORTED) if parts is None else parts
    if parts <= 1:
        native = _sorted(make(0, to_polars(lazy)), keys).lazy()
    else:
        spilled = Spilled(_parts(lazy), list(by), parts)
        native = spilled.rewritten(lambda i, rows: _in_runs(make(i, rows), list(keys)))
    found: nw.LazyFrame[Any] = nw.from_native(native)
    return found


def _in_runs(rows: Any, keys: list[str]) -> Any:
    """Rows with those of each ranking together, by the hash of what it is called: text is slow to sort."""
    hashes = rows.select(keys).hash_rows().to_numpy()
    order = np.argsort(hashes, kind="stable")
    found, hashes = rows[order], hashes[order]
    apart = int((hashes[1:] != hashes[:-1]).sum()) + (rows.height > 0)
    return found if len(first_of_runs(found, keys)) == apart else _sorted(rows, keys)


def _sorted(rows: Any, keys: Sequence[str]) -> Any:
    """Rows by ranking, those of each in the order in which they came: ties may be settled by it."""
    return rows.sort(*keys, nulls_last=True, maintain_order=True)


def by_score(lazy: nw.LazyFrame[Any], keys: Sequence[str]) -> nw.LazyFrame[Any]:
    """Rows with the place that their score has in their ranking as `rank`; on Polars some rankings at a time, as they stand."""
    place = nw.col("score").rank("ordinal", descending=True).over(*keys).cast(nw.Int64).alias("rank")
    if not lazy.implementation.is_polars():
        return lazy.with_columns(place)

    def ranked(columns: list[str] | None) -> Iterator[Any]:
        names = schema.names() if columns is None else columns
        wanted = dict.fromkeys([*keys, "score", *(name for name in names if name != "rank")])
        for rows, _ in _whole(lazy.select(*wanted), list(keys)):
            yield nw.from_native(rows).with_columns(place).select(*names).to_native()

    schema = lazy.head(0).with_columns(place).to_native().collect_schema()
    found: nw.LazyFrame[Any] = nw.from_native(table_of(ranked, schema))
    return found


def distinct(lazy: nw.LazyFrame[Any], column: str) -> int:
    """How many values a column has that mostly stand in runs, as requests do."""
    lazy = lazy.select(column)
    if not _takes_slices(lazy):
        return int(to_polars(each_once(lazy).select(nw.len().alias("n")))["n"][0])
    return sum(by_ranking(lazy, [column], lambda _, first: len(first)))


def repeated(
    lazy: nw.LazyFrame[Any],
    keys: Sequence[str],
    item: str = "item",
    asked: Asked = nothing,
    along: Make[Any] | None = None,
) -> tuple[int, dict[str, Any], Facts]:
    """How many items stand in a ranking several times, and the first of them with its ranking.

    Beside it what was `asked` of all rows, and the rows with those of a ranking together. Items
    are looked for within each ranking, some rankings at a time, and never among all rows.
    """
    import polars as pl

    named = [*keys, item]

    def several(rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        return rows.group_by(*named).agg(nw.len().alias("evenhand_rows")).filter(nw.col("evenhand_rows") > 1)

    def here(rows: Any, first: Any) -> tuple[int, Any, Any]:
        lengths = np.diff(first, append=rows.height)
        alike = len(lengths) and _twice(rows[item].hash().to_numpy(), lengths)
        found = to_polars(several(nw.from_native(rows).lazy())) if alike else None
        if found is None or not found.height:
            return 0, None, None if along is None else along(rows, first)
        return found.height, found.sort(*named).head(1), None

    if not hands_parts(lazy):
        found = several(lazy)
        count = int(to_polars(found.select(nw.len().alias("n")))["n"][0])
        first = to_polars(found.sort(*named).head(1)) if count else None
        return count, {} if first is None else first.row(0, named=True), Facts(None, summed(lazy, asked), lazy)
    counted, sums, lazy = with_sums(lazy, keys, here, asked)
    firsts = [first for count, first, _ in counted if count]
    first = pl.concat(firsts).sort(*named).row(0, named=True) if firsts else {}
    return sum(count for count, *_ in counted), first, Facts(None, sums, lazy, [made for *_, made in counted])


def first_of_runs(rows: Any, keys: list[str]) -> Any:
    """Where a new ranking begins in rows of whole rankings."""
    new = np.zeros(rows.height, dtype=bool)
    new[:1] = True
    for key in keys:
        new[1:] |= _changes(rows[key])
    return np.flatnonzero(new)


class _Scattered(Exception):  # noqa: N818
    """Rows of a ranking stand apart."""


def _whole(lazy: nw.LazyFrame[Any], keys: list[str]) -> Iterator[tuple[Any, Any]]:
    """All rows as frames of whole rankings, where the rows of a ranking are known to stand together; where each begins."""
    import polars as pl

    if _takes_slices(lazy):
        yield from _sliced(lazy, keys)
        return
    held: list[Any] = []
    for part in _parts(lazy):
        held.append(part)
        if sum(one.height for one in held) < BLOCK:
            continue
        rows = pl.concat(held, rechunk=True)
        first = first_of_runs(rows, keys)
        last = int(first[-1]) if len(first) else 0
        held = [rows[last:]]
        if last:
            yield rows[:last], first[:-1]
    rows = pl.concat(held, rechunk=True) if held else to_polars(lazy)
    yield rows, first_of_runs(rows, keys)


def _sliced(lazy: nw.LazyFrame[Any], keys: list[str]) -> Iterator[tuple[Any, Any]]:
    """The same where any part of the rows can be read: a ranking that goes on behind a part is read with the next."""
    start, size = 0, BLOCK
    while True:
        with engine_errors():
            rows = lazy.to_native().slice(start, size).collect(engine="streaming").rechunk()
        first = first_of_runs(rows, keys)
        if rows.height < size:
            yield rows, first
            return
        last = int(first[-1])
        start, size = start + last, BLOCK if last else 2 * size
        if last:
            yield rows[:last], first[:-1]


def _as_they_stand(lazy: nw.LazyFrame[Any], keys: list[str]) -> Iterator[tuple[Any, Any]]:
    """The same where that is not known: `_Scattered` is raised if they do not.

    That may be only after the last frame, so what was made of the frames counts once they came to an end.
    """
    import polars as pl

    heads: list[Any] = []
    for rows, first in _whole(lazy, keys):
        heads.append(rows.select(keys)[first])
        if heads[-1].is_duplicated().any():
            raise _Scattered
        yield rows, first
    if pl.concat(heads).is_duplicated().any():
        raise _Scattered


def _cut(rows: Any, keys: list[str]) -> Iterator[tuple[Any, Any]]:
    """Sorted rows as frames of whole rankings, and where each begins."""
    first = np.append(first_of_runs(rows, keys), rows.height)
    start = 0
    while start < rows.height or not start:
        here, there = np.searchsorted(first, [start, min(start + BLOCK, rows.height)]).tolist()
        stop = int(first[there])
        yield rows[start:stop], first[here:there] - start
        start = max(stop, 1)


def hands_parts(lazy: nw.LazyFrame[Any]) -> bool:
    """Whether the engine hands rows over in the order in which it reads them."""
    return bool(lazy.implementation.is_polars() or lazy.implementation.is_duckdb())


def frames(lazy: nw.LazyFrame[Any]) -> Generator[Any, None, None]:
    """The rows of any engine as Polars frames, one at least: some at a time from who can hand them over so."""
    here = lazy.implementation
    if hands_parts(lazy):
        some = False
        for part in _parts(lazy):
            yield part
            some = True
        if not some:
            yield to_polars(lazy)
    elif here.is_pyspark() or here.is_ibis():
        yield to_polars(lazy)
    else:
        held = lazy.collect()
        for start in range(0, max(1, len(held)), BLOCK):
            yield to_polars(held[start : start + BLOCK].lazy())


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
            # A relation of its own: DuckDB before 1.4 reads from none twice once it was left half read.
            again = native.project("*")
            read = next(getattr(again, name) for name in called if hasattr(again, name))
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


def _of_runs(rows: Any, first: Any, keys: list[str], order: str, item: str | None) -> Any:
    """Facts of rankings whose rows stand together, where nothing looks as if it stood in one of them twice.

    Places that rise (or fall) from row to row are distinct, and so is what has distinct hashes. Otherwise None: then the
    values themselves must be counted.
    """
    import polars as pl

    if not rows.height:
        return None
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
    return rows.select(keys)[first].hstack([pl.Series(name, values) for name, values in facts.items()])


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
