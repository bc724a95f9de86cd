"""From a table of who received what to one spectrum per slice: a group-by per unit, then a collapse to counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np

from evenhand.cards import Floats
from evenhand.errors import EvenhandError
from evenhand.labels import NUMERAL, order, whole
from evenhand.tallies.amounts import run_starts
from evenhand.tallies.spectrum import Spectra, Spectrum, bin_codes
from evenhand.views.benefits import Amount, Benefits
from evenhand.views.tables import FEW_ROWS, each_once, engine_errors, to_polars

HELD_UNITS = 1 << 24
"""Units (in all slices) that are added up at once where Polars can tell beforehand that there are more."""

LOOKED_AT = 1 << 19
"""Rows from all over a table that tell how many units it has, about."""

RUNS = 8
"""Places that these rows are from."""

BEYOND = 1 << 27
"""Rows of other tables up to which units are always added up at once."""

AT_ONCE = 1 << 25
"""Rows of a part where units are taken a part at a time."""

MOST_UNITS = 1 << 25
"""Up to about so many units (in all slices) are added up at once, and every amount is kept."""

NARROW = 2.0**-14
"""Relative width of the bins that amounts of more units are kept in."""

DIGITS = 12
"""Float amounts are rounded to this many significant digits: their sums depend on row order in the last bits."""

Label = tuple[Any, ...]


@dataclass(frozen=True)
class Slices:
    """Spectra with the labels of their slices, in the order of the labels, and the slices that hold a NaN."""

    labels: tuple[Label, ...]
    spectra: Spectra
    broken: frozenset[Label] = frozenset()
    width: float = 0.0
    """Relative width of the bins that amounts were kept in, each at its mean; 0 where every amount was kept."""

    def short(self) -> float:
        """The most by which a Gini index of bins is too low, over all slices.

        Bins do not overlap, so what they lose is the Gini index inside each, times its shares of units and of the amount;
        and inside bins of a relative width w no Gini index exceeds w/4.
        """
        each = [self.spectra[i] for i in range(len(self.spectra))] if self.width else []
        shares = [float((s.counts**2 * s.values).sum() / (s.size * s.total)) for s in each if s.total > 0]
        return self.width / 4 * max(shares, default=0.0)


def rows_in_order(labels: Sequence[Label]) -> list[int]:
    """Where each slice goes so that labels rise.

    >>> rows_in_order([("b",), (None,), ("a",)])
    [2, 0, 1]
    """
    return sorted(range(len(labels)), key=lambda i: [order(v) for v in labels[i]])


def sorted_by_label(frame: Any, keys: Sequence[str]) -> Any:
    """Rows of a Polars frame in the order of their labels: text that is a number by its size, the missing last."""
    import polars as pl

    places: list[Any] = []
    for key in keys:
        if frame.schema[key] == pl.String:
            numeral = pl.when(pl.col(key).str.contains(f"^{NUMERAL}$")).then(pl.col(key)).cast(pl.Float64)
            places += [pl.col(key).is_null(), numeral]
        places.append(pl.col(key))
    return frame.sort(places, nulls_last=True)


def whole_labels(labels: Sequence[Label]) -> tuple[Label, ...]:
    """Labels of slices, column by column as their owner wrote them.

    >>> whole_labels([(1.0, 0.5), (2.0, 1.0), (None, 1.0)])
    ((1, 0.5), (2, 1.0), (None, 1.0))
    """
    columns = [whole(column) for column in zip(*labels, strict=True)]
    return tuple(zip(*columns, strict=True)) if columns else tuple(labels)


def tally_slices(view: Benefits, amount: Amount, *, bins: bool = False) -> Slices:
    """How many units of each slice received each amount. One row per cell leaves the engine, no unit and no event.

    Units that are too many to be added up at once are taken a part at a time: where amounts are whole, or `bins` of others will do.
    """
    if view.counted is None:
        lazy, broken = sound_rows(view, amount)
        if (shares := _shares(view, amount)) > 1:
            return _ordered(_share_by_share(lazy, view, amount, shares), view, broken)
        count = -(-view.rows // AT_ONCE)
        able = bins if not amount.integer else not lazy.implementation.is_pyspark()  # which holds any number of units
        large = view.rows > BEYOND and view.unit is not None and view.weight is None and able
        if large and (parts := unit_parts(lazy, count)) and (found := _in_parts(parts, view, amount, broken)):
            return found
        cells = _collapsed(_per_unit(lazy, view, amount), view)
    else:
        cells = view.counted.cells[amount.column]
        broken = view.counted.broken[amount.column] if view.nan_policy == "propagate" else frozenset()
    if view.weight is not None and view.unit is not None:
        refuse_changing_weights(cells, view)
    return _ordered(cells, view, broken)


def _shares(view: Benefits, amount: Amount) -> int:
    """Into how many shares units are cut so that each is of no more than can be added up at once; 1 where nobody can tell."""
    told = view.anywhere and view.unit is not None and view.weight is None and not amount.missing
    if not told or view.rows <= HELD_UNITS or (view.rows > BEYOND and not amount.integer):
        return 1
    return math.ceil(_may_be(view) / HELD_UNITS)


def _may_be(view: Benefits) -> float:
    """About how many units of slices there are, rather too many than too few.

    Rows from all over the table say how many they have, half of them and a quarter: with each doubling they grow by less, and on
    it goes by as much less each time up to all rows.
    """
    import polars as pl

    native, run = nw.to_native(view.lazy.select(*view.keys, "unit")), min(LOOKED_AT, view.rows) // RUNS
    starts = np.linspace(0, view.rows - run, RUNS).astype(int).tolist()
    with engine_errors():
        some = [native.slice(start, run).collect(engine="streaming").hash_rows() for start in starts]
    quarter, half, whole = (sum(pl.concat(some[i::n]).n_unique() for i in range(n)) / n for n in (4, 2, 1))
    before, last = math.log2(half / quarter), math.log2(whole / half)
    less = min(1.0, last / before) if before > 0 else 0.0
    doublings = math.log2(view.rows / (run * RUNS))
    growth = doublings if less == 1 else less * (1 - less**doublings) / (1 - less)
    return float(min(view.rows, whole * 2.0 ** (last * growth)))


def _share_by_share(lazy: nw.LazyFrame[Any], view: Benefits, amount: Amount, shares: int) -> Any:
    """Cells of one share of the units after another. The first tells how many more can be taken together."""
    import polars as pl

    native, key = nw.to_native(lazy), pl.col("unit").hash(0) % shares

    def cells(own: Any) -> Any:
        return _collapsed(_per_unit(nw.from_native(native.filter(own)).lazy(), view, amount), view)

    found = [cells(key == 0)]
    step = max(1, HELD_UNITS // max(1, int(found[0]["units"].sum())))
    last = math.ceil((shares - 1) / step)
    return pl.concat(found + [cells((key + (step - 1)) // step == part) for part in range(1, last + 1)])


def unit_parts(lazy: nw.LazyFrame[Any], count: int) -> list[nw.LazyFrame[Any]]:
    """The rows cut into parts of about as many units each, none of them in two; nothing where the engine cannot tell units apart so.

    A cluster takes them all: each part would be one more reading.
    """
    if lazy.implementation.is_pyspark():
        return [lazy]
    if lazy.implementation.is_polars():
        import polars as pl

        native, key = nw.to_native(lazy), pl.col("unit").hash(0) % count
        return [nw.from_native(native.filter(key == i)).lazy() for i in range(count)]
    if not lazy.collect_schema()["unit"].is_integer():
        return []
    unit = nw.col("unit")
    return [lazy.filter((unit % count + count) % count == i) for i in range(count)]  # a remainder may be negative


def _in_parts(
    parts: Sequence[nw.LazyFrame[Any]], view: Benefits, amount: Amount, broken: frozenset[Label]
) -> Slices | None:
    """Cells of the parts, added up; None where the first shows that the units are few enough to be taken at once.

    Whole amounts are kept as they are. Others are kept in narrow bins, for hardly any two of so many agree.
    """
    import polars as pl

    keys = [*view.keys, "amount" if amount.integer else "bin"]
    found: Any = None
    for part in parts:
        per_unit = _per_unit(part, view, amount)
        cells = _collapsed(per_unit, view) if amount.integer else _in_bins(per_unit, keys)
        if found is None and int(cells["units"].sum()) * len(parts) <= MOST_UNITS:
            return None
        found = cells if found is None else pl.concat([found, cells]).group_by(keys).agg(pl.exclude(keys).sum())
    if amount.integer:
        return _ordered(found, view, broken)
    cells = found.with_columns(amount=found["held"] / found["units"])
    return replace(_ordered(cells, view, broken), width=NARROW)


def _in_bins(per_unit: nw.LazyFrame[Any], keys: Sequence[str]) -> Any:
    """How many units of each slice lie in each bin of amounts, and what they hold."""
    import polars as pl

    if per_unit.implementation.is_pyspark():
        return to_polars(_in_bins_on_spark(per_unit, keys))
    units = to_polars(per_unit)
    bins = bin_codes(units["amount"].to_numpy(), NARROW)
    rows = units.lazy().with_columns(pl.Series("bin", bins)).group_by(keys)
    return rows.agg(pl.col("amount").sum().alias("held"), pl.len().cast(pl.Int64).alias("units")).collect(
        engine="streaming"
    )


def _in_bins_on_spark(per_unit: nw.LazyFrame[Any], keys: Sequence[str]) -> nw.LazyFrame[Any]:
    """The same on a cluster, `bin_codes` in its words: no unit and no amount of one leaves it."""
    from pyspark.sql import functions as fn

    amount, steps = fn.col("amount"), round(1 / NARROW)
    power = fn.floor(fn.log2(amount))
    rest = amount / fn.pow(fn.lit(2.0), power)  # a logarithm close to a whole number may be on its other side
    power = power + fn.when(rest >= 2, 1).when(rest < 1, -1).otherwise(0)
    step = fn.floor((amount / fn.pow(fn.lit(2.0), power) - 1) * steps)
    code = fn.when(amount > 0, (power + 1) * steps + step).otherwise(np.iinfo(np.int64).min)
    rows = per_unit.to_native().withColumn("bin", code.cast("bigint")).groupBy(*keys)
    found: nw.LazyFrame[Any] = nw.from_native(rows.agg(fn.sum("amount").alias("held"), fn.count("*").alias("units")))
    return found


def sound_rows(view: Benefits, amount: Amount) -> tuple[nw.LazyFrame[Any], frozenset[Label]]:
    """Rows whose amount is known, and the slices that a missing one spoils."""
    if not amount.missing:
        return view.lazy, frozenset()
    sound = ~missing(view.lazy, amount)
    spoilt = view.nan_policy == "propagate"
    broken = frozenset(_labels(view.lazy.filter(~sound), view.keys)) if spoilt else frozenset()
    return view.lazy.filter(sound), broken


def missing(lazy: nw.LazyFrame[Any], amount: Amount) -> nw.Expr:
    column = nw.col(amount.column)
    return column.is_null() | column.is_nan() if lazy.collect_schema()[amount.column].is_float() else column.is_null()


def _per_unit(lazy: nw.LazyFrame[Any], view: Benefits, amount: Amount) -> nw.LazyFrame[Any]:
    """One row per slice and unit: what it received in all."""
    wanted = nw.Int64 if amount.integer else nw.Float64
    if view.unit is None:
        value = nw.lit(1).cast(nw.Int64) if amount.name is None else nw.col(amount.column).cast(wanted)
        return lazy.with_columns(value.alias("amount"))
    return added_up(lazy, view, amount, [*view.keys, "unit"])


def added_up(lazy: nw.LazyFrame[Any], view: Benefits, amount: Amount, keys: Sequence[str]) -> nw.LazyFrame[Any]:
    """One row per keys with what was received in all, and the highest and lowest weight where there are weights."""
    wanted = nw.Int64 if amount.integer else nw.Float64
    received = nw.len() if amount.name is None else nw.col(amount.column).sum()
    aggregated = [received.alias("amount")]
    if view.weight is not None:
        aggregated += [nw.col("weight").max().alias("weight"), nw.col("weight").min().alias("least_weight")]
    # Cast before the sum, or what is wide wraps; and after it, for engines count and add up in types of their own.
    if amount.name is not None and lazy.collect_schema()[amount.column] != wanted:
        lazy = lazy.with_columns(nw.col(amount.column).cast(wanted))
    summed = lazy.group_by(*keys).agg(*aggregated)
    return summed if _added_as(summed, amount) else summed.with_columns(nw.col("amount").cast(wanted))


def _added_as(summed: nw.LazyFrame[Any], amount: Amount) -> bool:
    """Whether sums are of the type of what was added up: Polars keeps it, where DuckDB answers decimals."""
    return amount.name is not None and summed.implementation.is_polars()


def _collapsed(per_unit: nw.LazyFrame[Any], view: Benefits) -> Any:
    """How many units hold each amount, as a Polars frame."""
    import polars as pl

    keys = [*view.keys, "amount"]
    if view.weight is not None:
        keys += ["weight"] if view.unit is None else ["weight", "least_weight"]
    found = to_polars(per_unit.group_by(*keys).agg(nw.len().alias("units")), few=view.rows <= FEW_ROWS)
    return found.with_columns(pl.col("units").cast(pl.Int64))


def refuse_changing_weights(cells: Any, view: Benefits) -> None:
    changing = int(cells.filter(cells["weight"] != cells["least_weight"])["units"].sum())
    if changing:
        raise EvenhandError(
            f"weight={view.weight!r} differs between rows of the same unit for {changing:,} units. Give each unit one weight."
        )


def _labels(lazy: nw.LazyFrame[Any], keys: list[str]) -> list[Label]:
    if not keys:
        return [()] if to_polars(lazy.select(nw.len().alias("n")))["n"][0] else []
    return [tuple(row) for row in to_polars(each_once(lazy.select(*keys))).iter_rows()]


def _ordered(cells: Any, view: Benefits, broken: frozenset[Label]) -> Slices:
    """Cells sorted by slice and amount, float amounts rounded and joined where they then agree."""
    keys, labels, places = view.keys, [()], np.zeros(cells.height, dtype=np.uint32)
    if keys:
        slices = sorted_by_label(cells.select(keys).unique(), keys).with_row_index("slice")
        labels = [tuple(row) for row in slices.select(keys).iter_rows()]
        cells = cells.join(slices, on=keys, how="left", nulls_equal=True, maintain_order="left")
        places = cells["slice"].to_numpy()
    values, units = cells["amount"].to_numpy(), cells["units"].to_numpy().astype(np.float64)
    values = rounded(values) if values.dtype.kind == "f" else values.astype(np.float64)
    by = [places, values]
    if view.weight is not None:
        by.append(cells["weight"].to_numpy())
        # A slice without any weight is kept, so that it can say why it has no number.
        weightless = np.bincount(places, by[-1], len(labels)) == 0
        kept = (by[-1] > 0) | weightless[places]
        by, units = [column[kept] for column in by], units[kept]
    rising = np.lexsort(by[::-1]) if view.weight is not None else _rising(places, values)
    by, units = [column[rising] for column in by], units[rising]
    starts = run_starts(*by)
    places, values, *weights = (column[starts] for column in by)
    joined = np.add.reduceat(units, starts) if len(starts) else units
    spectra = Spectra(values, joined, np.searchsorted(places, np.arange(len(labels) + 1)).astype(np.int64), *weights)
    known = set(labels)
    lost = [label for label in broken if label not in known]
    if lost:  # slices whose every amount is missing
        nobody = Spectrum(np.zeros(0), np.zeros(0))
        every = [*labels, *lost]
        order = rows_in_order(every)
        spectra = Spectra.of([spectra[i] if i < len(labels) else nobody for i in order])
        labels = [every[i] for i in order]
    return Slices(tuple(labels), spectra, broken)


def _rising(places: Any, values: Floats) -> Any:
    """The order of cells by slice and amount, those that agree in any order: narrow numbers are put in order in one pass."""
    order = np.argsort(values)
    if not places.any():
        return order
    narrow = places[order].astype(np.min_scalar_type(places.max()))
    return order[np.argsort(narrow, kind="stable")]


def rounded(values: Floats, digits: int = DIGITS) -> Floats:
    """Floats to `digits` significant decimal digits, so that sums that differ in the last bits tie again.

    >>> rounded(np.array([0.1 + 0.2, 0.0, 123456789.123456])).tolist()
    [0.3, 0.0, 123456789.123]
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        places = digits - 1 - np.floor(np.log10(np.where(values > 0, values, 1.0)))
        scale = 10.0 ** np.abs(places)
        found = np.where(places >= 0, np.round(values * scale) / scale, np.round(values / scale) * scale)
    return np.where((values > 0) & np.isfinite(found) & (np.abs(places) <= 300), found, values)
