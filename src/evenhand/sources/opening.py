"""What the caller passed, as a relation: a dataframe of any library, files, a table of a database, a cluster's table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from evenhand.errors import EvenhandError, listing
from evenhand.sources import databases
from evenhand.sources.engine import Cells, DuckDBEngine, Engine, InEngine
from evenhand.sources.failures import reading
from evenhand.sources.files import STANDARD_INPUT, database_of, files_of
from evenhand.sources.formats import FORMATS, explain_files, read_files
from evenhand.sources.relation import Relation, relation_of, schema_of
from evenhand.sources.sql import quoted
from evenhand.sources.stores import SPECIAL, scan_special, scheme, unreadable_place

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
        """What it takes to read them again, where no other engine may reach them."""
        named = {} if self.master is None else {"master": self.master}
        return {"engine": self.engine, **named} if self.engine == "spark" else {}

    def as_word(self) -> Any:
        return list(self.paths) if len(self.paths) > 1 else self.paths[0]


def open_table(
    table: Any, *, role: str = "table", columns: Sequence[Any] | None = None, beside: InEngine | None = None
) -> Relation:
    """A relation from a dataframe, a path, a glob, or several paths.

    Parameters
    ----------
    columns : the columns that will be read; others need not be fetched. None: all of them.
    beside : another relation or log, in whose engine this one is to be, so that the two can be joined.
    """
    opened = _opened(table, role, columns, beside.engine if beside is not None else None)
    return opened if beside is None or opened.engine is beside.engine else _moved(opened, beside.engine)


def _opened(table: Any, role: str, columns: Sequence[Any] | None, engine: Engine | None) -> Relation:
    if isinstance(table, Relation):
        return table
    if isinstance(table, Files):
        return _open_files(table.paths, role, columns, engine, table.engine, table.master)
    if isinstance(table, (str, Path)):
        return _open_files([str(table)], role, columns, engine)
    if isinstance(table, (list, tuple)) and table and all(isinstance(t, (str, Path)) for t in table):
        return _open_files([str(t) for t in table], role, columns, engine)
    return _open_frame(table, role, columns, engine)


def _moved(opened: Relation, engine: Engine) -> Relation:
    """A small table in another engine, by way of this process."""
    frame = opened.engine.cells(opened.select(dict(opened.expressions))).frame
    return relation_of(
        engine, engine.bring(frame), opened.schema, backend=opened.backend, origin=opened.origin, is_text=opened.is_text
    )


def _local(engine: Engine | None) -> DuckDBEngine:
    return engine if isinstance(engine, DuckDBEngine) else DuckDBEngine()


def _open_frame(table: Any, role: str, columns: Sequence[Any] | None, engine: Engine | None) -> Relation:
    library = type(table).__module__.split(".")[0].lstrip("_")
    if library == "ibis" and databases.is_duckdb(table):
        table, library = databases.of_ibis(table), "duckdb"
    if library in ("pyspark", "ibis"):
        from evenhand.sources import remote

        return remote.open_frame(table, role, engine)
    local = _local(engine)
    with reading(role):
        if library == "sqlframe":
            table = databases.of_sqlframe(table, role)
        names = _names_of(table, role)
        _refuse_names(names, role)
        needed = _needed(names, columns)
        name, owner_names, backend = _registered(local, table, names, needed)
        word = f"a {backend_word(table)} table"
        return _relation(local, name, owner_names, backend, word, every_column=tuple(names))


def backend_word(table: Any) -> str:
    """What the library of a frame is called."""
    library = type(table).__module__.split(".")[0].lstrip("_")
    return {"sqlframe": "duckdb"}.get(library, library)


def _names_of(table: Any, role: str) -> list[Any]:
    """The columns of a frame, by whatever it calls them."""
    import narwhals as nw

    library = backend_word(table)
    if library in ("pandas", "modin", "duckdb"):
        if not hasattr(table, "columns"):
            raise _no_frame(table, role)
        return list(table.columns)
    if library == "pyarrow":
        if not hasattr(table, "column_names") and not hasattr(table, "schema"):
            raise _no_frame(table, role)
        return list(table.schema.names)
    try:
        return list(nw.from_native(table).collect_schema().names())
    except TypeError as error:
        if hasattr(table, "__arrow_c_stream__"):
            import polars as pl

            return list(pl.DataFrame(table).columns)
        raise _no_frame(table, role) from error


def _no_frame(table: Any, role: str) -> EvenhandError:
    return EvenhandError(
        f"{role} is of type {type(table).__name__}, which is not a dataframe. "
        "Pass a pandas, Polars, PyArrow, DuckDB or PySpark table, or a path to Parquet, CSV or JSON lines."
    )


def _refuse_names(names: Sequence[Any], role: str) -> None:
    twice = sorted({str(n) for n in names if names.count(n) > 1})
    if twice or not all(isinstance(n, str) for n in names):
        raise EvenhandError(
            f"{role} has columns named {listing(twice or names)}. Give every column one name of its own, as text."
        )


def _needed(names: Sequence[str], columns: Sequence[Any] | None) -> list[str]:
    """The columns to be fetched: those that were named, or all where none of these is there."""
    chosen = [name for name in names if columns is None or name in columns]
    return chosen or list(names)


def _registered(
    engine: DuckDBEngine, table: Any, names: Sequence[str], needed: Sequence[str]
) -> tuple[str, Sequence[str], str]:
    """The name of a frame in the engine, the columns that it has there in their order, and the library of its owner."""
    import polars as pl

    library = backend_word(table)
    if library == "pandas":
        return engine.register(_plain_pandas(table[list(needed)])), needed, library
    if library == "duckdb":
        from evenhand.sources.engine import one_shot

        chosen = table.project(", ".join(map(quoted, needed)))
        return engine.keep(f"SELECT * FROM {engine.register(one_shot(chosen))}"), needed, "pyarrow"
    if isinstance(table, pl.LazyFrame):
        return engine.ingest(table, needed), needed, "polars"
    if isinstance(table, pl.DataFrame):
        return engine.register(_plain_polars(table.select(pl.selectors.by_name(*needed)))), needed, "polars"
    if library == "pyarrow" and hasattr(table, "select"):
        return engine.register(table.select(list(needed))), needed, "pyarrow"
    frame = _collected(table).select(pl.selectors.by_name(*needed))
    return engine.register(_plain_polars(frame)), needed, library if library in EAGER else "pyarrow"


def _collected(table: Any) -> Any:
    """Any other frame as a Polars one."""
    import narwhals as nw
    import polars as pl

    if hasattr(table, "__arrow_c_stream__"):
        return pl.DataFrame(table)
    frame = nw.from_native(table)
    lazy = frame if isinstance(frame, nw.LazyFrame) else frame.lazy()
    return pl.from_arrow(lazy.collect("pyarrow").to_native())


def _plain_polars(frame: Any) -> Any:
    """A frame of types that DuckDB reads: categories as text, wide numbers as far as 64 bits hold them."""
    import polars as pl

    casts: dict[str, Any] = {}
    for name, kind in frame.schema.items():
        if isinstance(kind, (pl.Categorical, pl.Enum)):
            casts[name] = pl.String
        elif kind in (pl.Int128, pl.UInt128):
            casts[name] = (
                pl.Int64
                if frame[name].cast(pl.Int64, strict=False).null_count() == frame[name].null_count()
                else pl.Float64
            )
    return frame.with_columns(pl.selectors.by_name(name).cast(kind) for name, kind in casts.items()) if casts else frame


def _plain_pandas(frame: Any) -> Any:
    """A frame whose columns of plain objects (True and None, whole numbers, dates, decimals) are read as what they hold."""
    import pandas as pd

    half = [c for c, kind in frame.dtypes.items() if kind == "float16"]
    frame = frame.astype(dict.fromkeys(half, "float32")) if half else frame
    for name in (c for c, kind in frame.dtypes.items() if isinstance(kind, pd.CategoricalDtype)):
        frame = frame.assign(**{name: frame[name].astype(frame[name].cat.categories.dtype)})
    for name in (c for c, kind in frame.dtypes.items() if kind == object):
        values = frame[name]
        inferred = pd.api.types.infer_dtype(values, skipna=True)
        if inferred == "boolean":
            frame = frame.assign(**{name: values.astype("boolean")})
        elif inferred == "integer":
            frame = frame.assign(**{name: values.astype("Int64")})
        elif inferred == "floating":
            frame = frame.assign(**{name: values.astype("float64")})
        elif all(isinstance(value, UUID) for value in values.dropna()):  # as database drivers hand out ids
            frame = frame.assign(**{name: values.map(str, na_action="ignore")})
    return frame


def _relation(
    engine: DuckDBEngine, name: str, owner_names: Sequence[str], backend: str, origin: str, **facts: Any
) -> Relation:
    """A relation of the local engine; DuckDB minds no capitals, so columns are addressed by their place."""
    types = engine.types(f"SELECT * FROM {name}")
    kinds = schema_of(types)
    inner = dict(zip(owner_names, types, strict=True))
    schema = {owner: kinds[there] for owner, there in inner.items()}
    expressions = {owner: quoted(there) for owner, there in inner.items()}
    return Relation(engine, name, schema, expressions, backend, origin, **facts)


def _open_files(
    patterns: Sequence[str],
    role: str,
    columns: Sequence[Any] | None,
    engine: Engine | None,
    asked: str = "duckdb",
    master: str | None = None,
) -> Relation:
    if any(map(database_of, patterns)):
        if asked == "spark":
            raise EvenhandError(f"{patterns[0]!r} is read by DuckDB only. Leave engine={asked!r} out.")
        return _open_database(patterns, role, _local(engine))
    if asked == "spark":
        from evenhand.sources import remote

        return remote.open_files(patterns, role, master, engine)
    paths, kind = files_of(patterns, role)
    origin = "standard input" if STANDARD_INPUT in patterns else listing(paths)
    local = _local(engine)
    if kind in SPECIAL or any(map(scheme, paths)):
        return _open_lazily(local, paths, kind, role, origin, columns)
    form = FORMATS[kind]
    with reading(f"{role}={origin!r}", explain_files(paths, kind)):
        needed = [c for c in columns if isinstance(c, str)] if columns is not None else None
        name, lacking = read_files(local, paths, kind, needed)
        types = local.types(f"SELECT * FROM {name}")
        return _relation(local, name, list(types), "polars", origin, is_text=form.is_text, lacking=lacking)


def _open_lazily(
    engine: DuckDBEngine, paths: Sequence[str], kind: str, role: str, origin: str, columns: Sequence[Any] | None
) -> Relation:
    """Object stores, Delta and Iceberg: read by Polars with their own libraries, the needed columns once."""
    import polars as pl

    with reading(role, lambda error: unreadable_place(paths[0], error)):
        if kind in SPECIAL:
            lazy, origin = scan_special(paths, kind, role)
        elif kind == "parquet":
            lazy = pl.scan_parquet(list(paths))
        elif kind == "jsonl":
            lazy = pl.scan_ndjson(list(paths))
        else:
            lazy = pl.scan_csv(list(paths), separator="," if kind == "csv" else "\t", infer_schema=False)
        names = lazy.collect_schema().names()
        needed = _needed(names, columns)
        is_text = kind in FORMATS and FORMATS[kind].is_text
        facts = {"is_text": is_text, "every_column": tuple(names)}
        return _relation(engine, engine.ingest(lazy, needed), needed, "polars", origin, **facts)


def _open_database(words: Sequence[str], role: str, engine: DuckDBEngine) -> Relation:
    if len(words) > 1:
        raise EvenhandError(
            f"{role} names several tables, one of them in a database. Pass one, or a view on all of them."
        )
    with reading(role):
        name = databases.attached(engine, words[0], role)
        return _relation(engine, name, list(engine.types(f"SELECT * FROM {name}")), "pyarrow", words[0])


def fetch(relation: Relation, expressions: Mapping[str, str] | None = None) -> Cells:
    """All rows of a small relation."""
    return relation.engine.cells(relation.select(dict(expressions or relation.expressions)))
