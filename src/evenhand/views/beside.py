"""What a long table says of the rows of another: looked up by request and item, while either is read a part at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt

from evenhand.views import batches
from evenhand.views.batches import first_of_runs, frames, joined_apart
from evenhand.views.places import Places
from evenhand.views.spilled import table_of
from evenhand.views.tables import row_count

Ints = npt.NDArray[np.int64]

MOST_HELD = 1 << 25
"""Rows that are held, in 12 to 16 bytes each."""


def joined(
    lazy: nw.LazyFrame[Any], other: nw.LazyFrame[Any], on: Sequence[str], keys: Sequence[str]
) -> nw.LazyFrame[Any]:
    """Rows with what another table says of a request and an item: `on` these, its third column. No pair is in it twice."""
    many, rows = map(row_count, (other, lazy)) if lazy.implementation.is_polars() else (0, 0)
    if not many or many + rows <= batches.SORTED:
        return lazy.join(other, on=list(on), how="left")
    held = Beside.of(other, list(on), many) if many <= MOST_HELD else None
    if held is None:
        return joined_apart(lazy, other, on, keys)
    return _with_column(lazy, held.name, held.values_of_all(lazy, rows))


def _with_column(lazy: nw.LazyFrame[Any], name: str, said: npt.NDArray[Any]) -> nw.LazyFrame[Any]:
    """The rows with a number beside each, as they are read; what is not a number is missing."""
    import polars as pl

    schema = lazy.to_native().collect_schema()
    schema[name] = pl.Float64()

    def beside(columns: list[str] | None) -> Iterator[Any]:
        names = schema.names() if columns is None else columns
        wanted, start, block = [c for c in names if c != name], 0, batches.BLOCK
        values = pl.Series(name, said)
        bare = (values.slice(i, block).to_frame() for i in range(0, len(values), block))
        for rows in frames(lazy.select(*wanted)) if wanted else bare:
            own = values.slice(start, rows.height)
            start += rows.height
            yield rows.with_columns(own.cast(pl.Float64).fill_nan(None)).select(names)

    found: nw.LazyFrame[Any] = nw.from_native(table_of(beside, schema))
    return found


@dataclass(frozen=True)
class Beside:
    """A table of requests and items, those of a request together.

    Attributes
    ----------
    on : the columns of requests and of items; name : what is said of them.
    requests : where each stands; its rows are those from `starts[i]` up to `starts[i + 1]`.
    items : (n,) hashes, which tell apart the items of one request: of a billion pairs of items that are compared so, the
        chance that one is taken for the same is below 1e-10.
    values : (n,) what is said.
    """

    on: list[str]
    name: str
    requests: Places
    starts: Ints
    items: npt.NDArray[np.uint64]
    values: npt.NDArray[Any]

    @classmethod
    def of(cls, other: nw.LazyFrame[Any], on: list[str], many: int) -> Beside | None:
        """None where the rows of a request stand apart."""
        import polars as pl

        (name,) = (c for c in other.collect_schema().names() if c not in on)
        heads, firsts, start = list[Any](), list[Ints](), 0
        items, values = np.empty(many, dtype=np.uint64), np.zeros(many, dtype=np.float32)
        for rows in frames(other.select(*on, name)):
            first, here = first_of_runs(rows, on[:1]), slice(start, start + rows.height)
            heads.append(rows.select(on[0])[first])
            firsts.append(first + start)
            items[here] = rows[on[1]].hash().to_numpy()
            said = rows[name].to_numpy()
            with np.errstate(over="ignore"):
                if values.dtype == np.float32 and (said.astype(np.float32) != said).any():
                    values = values.astype(np.float64)
            values[here] = said
            start = here.stop
        found, starts = pl.concat(heads), np.concatenate(firsts)
        goes_on = np.append(True, found[on[0]].ne_missing(found[on[0]].shift(1)).to_numpy()[1:])  # from frame to frame
        found, starts = found.filter(pl.Series(goes_on)), np.append(starts[goes_on], many)
        if found.is_duplicated().any():
            return None
        return cls(on, name, Places.of(found), starts, items, values)

    def values_of_all(self, lazy: nw.LazyFrame[Any], many: int) -> npt.NDArray[Any]:
        """(many,) what is said of each row, in their order."""
        said, start = np.empty(many, dtype=self.values.dtype), 0
        for rows in frames(lazy.select(*self.on)):
            said[start : start + rows.height] = self.values_of(rows)
            start += rows.height
        return said

    def values_of(self, rows: Any) -> npt.NDArray[Any]:
        """(rows,) what is said of requests and items, not a number where nothing is."""
        import polars as pl

        first = first_of_runs(rows, self.on[:1])
        at = self.requests.of_rows(rows.select(self.on[0])[first])
        known = np.flatnonzero(at < len(self.starts) - 1)
        start, stop = self.starts[at[known]], self.starts[at[known] + 1]
        there = np.repeat(start - np.cumsum(stop - start) + (stop - start), stop - start)
        there += np.arange(len(there))
        theirs, ours = self.items[there], rows[self.on[1]].hash().to_numpy()
        for factor in count(0x9E3779B97F4A7C15, 2):  # an odd factor keeps requests apart
            of = np.arange(len(first), dtype=np.uint64) * np.uint64(factor)
            keys = pl.Series("key", theirs ^ np.repeat(of[known], stop - start))
            if keys.n_unique() == len(keys):
                break
        asked = pl.DataFrame({"key": ours ^ np.repeat(of, np.diff(first, append=rows.height))})
        said = pl.DataFrame({"key": keys, "said": self.values[there]})
        found = asked.join(said, on="key", how="left", maintain_order="left")["said"]
        return np.asarray(found.to_numpy())  # what is missing is not a number
