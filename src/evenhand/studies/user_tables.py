"""What studies read instead of generating data: a table of the user's, its columns named by role."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from evenhand.audits.parameters import Takes
from evenhand.errors import EvenhandError, all_problems, listing
from evenhand.labels import matches

if TYPE_CHECKING:
    import polars as pl

File = Annotated[str | Path | None, Takes("FILE")]
Paths = Annotated[str | Path | Sequence[str | Path] | None, Takes("PATH", many=True)]
"""Files that a study reads instead of generating data; the command line takes its options from a study's signature."""


def on_own_data(data: Any, needed: Mapping[str, Any], more: Mapping[str, Any], size: int | None = None) -> bool:
    """Whether a study reads the user's table; refuses columns without a table and a table without its columns.

    >>> on_own_data("log.csv", {"unit": "author"}, {"by": None}), on_own_data(None, {"unit": None}, {"by": None})
    (True, False)
    """
    if data is None:
        if named := [f"{name}=" for name, value in {**needed, **more}.items() if value is not None]:
            raise EvenhandError(
                f"{listing(named)} says how to read a table, and there is none. Pass data= as well, or leave it out."
            )
        return False
    if lacking := [f"{name}=" for name, value in needed.items() if value is None]:
        raise EvenhandError(f"data= needs {listing(lacking)} as well: which columns to read. Name them.")
    if size is not None:
        raise EvenhandError("size= is how much is generated, and data= is read whole. Leave one of them out.")
    return True


def two_sides(sizes: Mapping[Any, float], protected: Any, versus: Any) -> tuple[Any, Any]:
    """The protected group and the one it is compared with: the smallest and the largest, unless others are named.

    >>> two_sides({"a": 5, "b": 2, "c": 9}, None, None), two_sides({"a": 5, "b": 2}, "a", None)
    (('b', 'c'), ('a', 'b'))
    """
    labels = sorted(sizes, key=lambda label: (sizes[label], str(label)))
    if len(labels) < 2:
        raise EvenhandError(
            "Fewer than two groups have rows in the data. Pass two groups or more, of the same ids as the data."
        )
    named = {"protected": protected, "versus": versus}
    first, second = (None if x is None else matches(role, x, labels)[0] for role, x in named.items())
    first = next(label for label in labels if label != second) if protected is None else first
    second = next(label for label in reversed(labels) if label != first) if versus is None else second
    if first == second:
        raise EvenhandError(f"protected={first!r} is also versus. Name two different groups.")
    return first, second


def read_table(
    data: Any, required: Sequence[tuple[str, str]], optional: Sequence[str] | None = (), numbers: Sequence[str] = (), *,
    role: str = "table", totals: Sequence[str] | None = None,
) -> tuple[pl.DataFrame, str]:  # fmt: skip
    """The named columns of any table that an audit reads, as a Polars frame, and what the table is called.

    `totals` are columns to add up by the others, so that a large log is never held row by row; `row_count` then counts rows.

    `required` has roles and their columns; `optional` columns are read where they exist (None: all columns); text in
    `numbers` becomes numbers.
    """
    # The one door that studies share with the audits: no public function returns the rows of a table.
    from evenhand.sources.opening import fetch, open_table
    from evenhand.sources.relation import missing_columns

    opened = open_table(data, role=role)
    if problems := missing_columns(opened, required):
        table = "the population table" if role == "population" else "the table"
        raise all_problems([problem.replace("the table", table) for problem in problems])
    named = [*(name for _, name in required), *(opened.schema if optional is None else optional)]
    present = [name for name in dict.fromkeys(named) if name in opened.schema]
    typed = opened.with_numbers(*(name for name in numbers if name in present))
    if totals is None:
        return fetch(typed, {name: typed.label(name) for name in present}).frame, opened.origin
    return _totals(typed, present, totals), opened.origin


def _totals(table: Any, columns: Sequence[str], totals: Sequence[str]) -> pl.DataFrame:
    """The sums of some columns by all others, added up in the engine, with `rows`: how many rows are in each.

    Missing and negative values are added up apart, so that whoever refuses or omits them still sees them.
    """
    import polars as pl

    keys = [name for name in columns if name not in totals]
    named = {f"key_{i}": table.label(name) for i, name in enumerate(keys)}
    for i, name in enumerate(totals):
        number = table.number(name)
        named |= {f"sign_{i}": f"CASE WHEN {number} IS NULL THEN 0 WHEN {number} < 0 THEN -1 ELSE 1 END"}
        total, whole = f"SUM({number})", f"COUNT(CASE WHEN {number} <> FLOOR({number}) THEN 1 END)"
        named |= {f"total_{i}": total, f"parts_{i}": whole}
    by = ", ".join(sql for name, sql in named.items() if name.startswith(("key", "sign")))
    frame: pl.DataFrame = table.engine.cells(f"{table.select({**named, 'row_count': 'COUNT(*)'})} GROUP BY {by}").frame
    columns_of = {name: pl.col(f"key_{i}") for i, name in enumerate(keys)}
    for i, name in enumerate(totals):
        is_whole = int(frame[f"parts_{i}"].sum() or 0) == 0
        columns_of[name] = pl.col(f"total_{i}").cast(pl.Int64 if is_whole else pl.Float64)
    return frame.select(**columns_of, row_count=pl.col("row_count").cast(pl.Int64))
