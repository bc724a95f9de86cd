"""Two tables that are to be joined: the same engine, and ids of the same kind."""

from __future__ import annotations

import importlib
from typing import Any

import narwhals as nw

from evenhand.errors import EvenhandError
from evenhand.views.columns import in_words
from evenhand.views.tables import engine_errors, to_polars
from evenhand.views.warehouses import put_there


def same_engine(lazy: nw.LazyFrame[Any], like: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    """A table in the engine (and session) of another one, so that the two can be joined."""
    here = like.implementation
    if lazy.implementation == here and _same_connection(lazy, like):
        return lazy
    frame = to_polars(lazy)
    moved: Any = frame.to_arrow()
    if here.is_polars():
        moved = frame
    elif here.is_duckdb():
        moved = _in_connection_of(like.to_native(), moved)
    elif here.is_pyspark():
        moved = like.to_native().sparkSession.createDataFrame(moved)
    elif here.is_pandas():
        moved = frame.to_pandas()
    elif here.is_ibis():
        with engine_errors():
            moved = put_there(frame, like.to_native())
    found: nw.LazyFrame[Any] = nw.from_native(moved).lazy()
    return found


def _same_connection(lazy: nw.LazyFrame[Any], like: nw.LazyFrame[Any]) -> bool:
    """Whether an engine will join the two; DuckDB says so only when asked to."""
    if like.implementation.is_ibis():
        return bool(lazy.to_native().get_backend() is like.to_native().get_backend())
    if not like.implementation.is_duckdb():
        return True
    try:
        lazy.to_native().limit(0).cross(like.to_native().limit(0)).fetchall()
    except Exception:  # noqa: BLE001  (the class depends on the version; any refusal means no)
        return False
    return True


def _in_connection_of(relation: Any, evenhand_brings_this_along: Any) -> Any:
    # DuckDB finds it among the variables of its caller, unless the owner has a table of that name: hence the name.
    _ = evenhand_brings_this_along
    return relation.query("evenhand_anchor", "select * from evenhand_brings_this_along")


def in_our_order(lazy: nw.LazyFrame[Any], column: str, name: str) -> nw.LazyFrame[Any]:
    """The table with another column that has the order of code points: of text in PostgreSQL, its bytes."""
    if lazy.implementation.is_ibis() and lazy.collect_schema()[column] == nw.String:
        table = lazy.to_native()
        if table.get_backend().name == "postgres":
            builtin = importlib.import_module("ibis").udf.scalar.builtin
            in_bytes = builtin(_encoded, name="convert_to", signature=(("string", "string"), "binary"))
            found: nw.LazyFrame[Any] = nw.from_native(table.mutate(**{name: in_bytes(table[column], "UTF8")}))
            return found
    return lazy.with_columns(nw.col(column).alias(name))


def _encoded(text: str, encoding: str) -> bytes:
    return text.encode(encoding)


def matched_ids(
    lazy: nw.LazyFrame[Any], rankings: nw.LazyFrame[Any], columns: list[str], *, role: str
) -> tuple[nw.LazyFrame[Any], nw.LazyFrame[Any]]:
    """Both tables with ids that can be compared: whole numbers become text where the other side has text."""
    mine, theirs = lazy.collect_schema(), rankings.collect_schema()
    for column in columns:
        a, b = mine[column], theirs[column]
        if a == b:
            continue
        if a.is_integer() and (b == nw.String or b.is_integer()):
            lazy = lazy.with_columns(nw.col(column).cast(b))
        elif a == nw.String and b.is_integer():
            rankings = rankings.with_columns(in_words(nw.col(column)).alias(column))
        else:
            raise EvenhandError(
                f"{column} holds {a} values in {role} and {b} in the rankings. Make them the same type, so that they can be joined."
            )
    return lazy, rankings
