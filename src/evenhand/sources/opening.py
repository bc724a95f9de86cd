"""What the caller passed, as a relation: a dataframe of any library, files, a table of a database, a cluster's table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import narwhals as nw

from evenhand.errors import EvenhandError, listing
from evenhand.sources import databases, recorded
from evenhand.sources.columns import usable_names
from evenhand.sources.engine import Cells, DuckDBEngine, Engine, InEngine
from evenhand.sources.failures import reading
from evenhand.sources.files import STANDARD_INPUT, database_of, files_of
from evenhand.sources.formats import FORMATS, explain_files, read_files
from evenhand.sources.frames import library_of_frame, store_frame
from evenhand.sources.relation import Relation, relation_from_table
from evenhand.sources.sql import quoted
from evenhand.sources.stores import SPECIAL, scan_place, scan_special, scheme, unreadable_place
from evenhand.sources.tally_files import tally_of

EAGER = frozenset({"polars", "pandas", "pyarrow", "modin"})
"""Libraries that can hold a small frame; the others get theirs as PyArrow."""


@dataclass(frozen=True)
class Files:
    """Files with the engine that reads them, and the Spark master; a plan records the files."""

    paths: tuple[str, ...]
    engine: str = "duckdb"
    master: str | None = None

    @property
    def reading(self) -> dict[str, str]:
        """Arguments needed to read the files again, where only Spark may reach them."""
        named = {} if self.master is None else {"master": self.master}
        return {"engine": self.engine, **named} if self.engine == "spark" else {}

    def as_word(self) -> Any:
        return list(self.paths) if len(self.paths) > 1 else self.paths[0]


def open_table(
    table: Any, *, role: str = "table", columns: Sequence[Any] | None = None, same_engine_as: InEngine | None = None
) -> Relation:
    """A relation from a dataframe, a path, a glob, or several paths.

    Parameters
    ----------
    columns : the columns that will be read; others need not be fetched. None: all of them.
    same_engine_as : another relation or log, in whose engine this one is to be, so that the two can be joined.
    """
    if (
        same_engine_as is not None
        and isinstance(same_engine_as.engine, recorded.RecordingEngine)
        and isinstance(table, str)
    ):
        return same_engine_as.engine.table(table, role)
    opened = _opened(table, role, columns, same_engine_as.engine if same_engine_as is not None else None)
    return (
        opened
        if same_engine_as is None or opened.engine is same_engine_as.engine
        else _moved(opened, same_engine_as.engine)
    )


def _opened(table: Any, role: str, columns: Sequence[Any] | None, engine: Engine | None) -> Relation:
    if isinstance(table, Relation):
        return table
    if (tally := tally_of(table)) is not None:
        return recorded.open_tally(tally)
    if isinstance(table, Files):
        return _open_files(table.paths, role, columns, engine, table.engine, table.master)
    if isinstance(table, (str, Path)):
        return _open_files([str(table)], role, columns, engine)
    if isinstance(table, (list, tuple)) and table and all(isinstance(t, (str, Path)) for t in table):
        return _open_files([str(t) for t in table], role, columns, engine)
    return _open_frame(table, role, columns, engine)


def _moved(opened: Relation, engine: Engine) -> Relation:
    """A small table in another engine, by way of this process."""
    inner = dict(zip(opened.expressions, usable_names(list(opened.expressions)), strict=True))
    cells = opened.engine.cells(opened.select({inner[name]: sql for name, sql in opened.expressions.items()}))
    return replace(
        opened, engine=engine, name=engine.bring(cells), expressions={name: quoted(inner[name]) for name in inner}
    )


def _local(engine: Engine | None) -> DuckDBEngine:
    return engine if isinstance(engine, DuckDBEngine) else DuckDBEngine()


def _open_frame(table: Any, role: str, columns: Sequence[Any] | None, engine: Engine | None) -> Relation:
    library = library_of_frame(table)
    if library == "ibis" and databases.is_duckdb(table):
        table, library = databases.of_ibis(table), "duckdb"
    if library in ("pyspark", "ibis"):
        from evenhand.sources import remote

        return remote.open_frame(table, role, engine)
    local = _local(engine)
    with reading(role):
        if library == "sqlframe":
            library, table = "duckdb", databases.of_sqlframe(table, role)
        stored = store_frame(local, table, role, _choice(role, columns))
        backend = library if library in EAGER else "pyarrow"
        return _relation(relation_from_table(local, stored, backend=backend, origin=f"a {library} table"))


def _choice(role: str, columns: Sequence[Any] | None) -> Callable[[list[Any]], Collection[str]]:
    """Which columns of a table will be read; each must have one name of its own, as text."""

    def choose(names: list[Any]) -> Collection[str]:
        repeated = sorted({str(n) for n in names if names.count(n) > 1})
        if repeated or not all(isinstance(n, str) for n in names):
            raise EvenhandError(
                f"{role} has columns named {listing(repeated or names)}. Give every column one name of its own, as text."
            )
        return names if columns is None else [name for name in names if name in columns]

    return choose


def _relation(relation: Relation) -> Relation:
    """A relation of the local engine, which hands moments out in the zone that the table has."""
    zones = [getattr(kind, "time_zone", None) for kind in relation.schema.values() if kind == nw.Datetime]
    if isinstance(relation.engine, DuckDBEngine) and any(zones):
        relation.engine.use_zone(next(zone for zone in zones if zone))
    return relation


def _open_files(
    patterns: Sequence[str],
    role: str,
    columns: Sequence[Any] | None,
    engine: Engine | None,
    reader: str = "duckdb",
    master: str | None = None,
) -> Relation:
    if any(map(database_of, patterns)):
        if reader == "spark":
            raise EvenhandError(f"{patterns[0]!r} is read by DuckDB only. Leave engine={reader!r} out.")
        return _open_database(patterns, role, columns, _local(engine))
    if reader == "spark":
        from evenhand.sources import remote

        return remote.open_files(patterns, role, master, engine)
    paths, kind = files_of(patterns, role)
    origin = "standard input" if STANDARD_INPUT in patterns else listing(paths)
    local = _local(engine)
    if kind in SPECIAL or any(map(scheme, paths)):
        return _open_lazily(local, paths, kind, role, origin, columns)
    with reading(f"{role}={origin!r}", explain_files(paths, kind)):
        files = read_files(local, paths, kind, role, _choice(role, columns))
        facts = {"backend": "polars", "origin": origin, "is_text": FORMATS[kind].is_text, "lacking": files.lacking}
        return _relation(relation_from_table(local, files.table, **facts))


def _open_lazily(
    engine: DuckDBEngine, paths: Sequence[str], kind: str, role: str, origin: str, columns: Sequence[Any] | None
) -> Relation:
    """Object stores, Delta and Iceberg: read by Polars with their own libraries, the needed columns once."""
    with reading(role, lambda error: unreadable_place(paths[0], error)):
        if kind in SPECIAL:
            lazy, origin = scan_special(paths, kind, role)
        else:
            lazy = scan_place(paths, kind, role)
        stored = store_frame(engine, lazy, role, _choice(role, columns))
        is_text = kind in FORMATS and FORMATS[kind].is_text
        return _relation(relation_from_table(engine, stored, backend="polars", origin=origin, is_text=is_text))


def _open_database(words: Sequence[str], role: str, columns: Sequence[Any] | None, engine: DuckDBEngine) -> Relation:
    if len(words) > 1:
        raise EvenhandError(
            f"{role} names several tables, one of them in a database. Pass one, or a view on all of them."
        )
    with reading(role):
        stored = databases.attached_table(engine, words[0], role, _choice(role, columns))
        return _relation(relation_from_table(engine, stored, backend="pyarrow", origin=words[0]))


def fetch(relation: Relation, expressions: Mapping[str, str] | None = None, *, most: int | None = None) -> Cells:
    """All rows of a small relation, or the first so many (`most`)."""
    named = dict(expressions or relation.expressions)
    inner = [f"column_{i}" for i in range(len(named))]  # no engine quotes the empty name, and DuckDB minds no capitals
    query = relation.select(dict(zip(inner, named.values(), strict=True))) + (
        f" LIMIT {most}" if most is not None else ""
    )
    return Cells(relation.engine.cells(query).frame.rename(dict(zip(inner, named, strict=True))))
