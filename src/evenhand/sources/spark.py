"""Spark: queries run in Spark SQL, whole groups are tallied on the executors, and files are read by the cluster.

Text is read as the local engine reads it: every column is text until a role asks for numbers. Spark's own reader takes whatever comes, so
that lines are looked at first, where they are, and those that the two would not read alike are refused.
"""

from __future__ import annotations

import csv
import functools
import importlib.util
import os
import pickle
import re
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import narwhals as nw
import polars as pl

from evenhand.errors import EvenhandError, listing, refuse_keys
from evenhand.sources.databases import RemoteEngine, polars_frame, signed
from evenhand.sources.engine import (
    Batch,
    Cells,
    Engine,
    frame_of,
    new_name,
    reading,
    refuse_repeated,
    unreadable,
    whole_groups,
)
from evenhand.sources.files import SPECIAL, common_kind, files_of
from evenhand.sources.formats import FORMATS, Format, JsonLines, Lot, Parquet, Separated, lots_of, shared_names
from evenhand.sources.frames import Column
from evenhand.sources.inputs import record_place, scheme
from evenhand.sources.relation import Relation
from evenhand.sources.sql import quoted, translated
from evenhand.sources.text_files import refuse_unreadable

T = TypeVar("T")


class SparkEngine(RemoteEngine):
    """A Spark session: queries run in Spark SQL, whole groups are tallied on the executors."""

    def __init__(self, session: Any) -> None:
        super().__init__()
        self.session = session

    def cells(self, query: str) -> Cells:
        with reading():
            return Cells(polars_frame(self._rows(query).toArrow()))

    def groups(self, query: str, key: Sequence[str], order: Sequence[str] = ()) -> Iterator[Batch]:
        with reading(explain=_explain_executors):
            for (pickled,) in self._mapped(query, key, order, lambda batch: batch).toLocalIterator():
                yield _unpacked(pickled)

    def tallied(self, query: str, key: Sequence[str], order: Sequence[str], partial: Callable[[Batch], T]) -> list[T]:
        with reading(explain=_explain_executors):
            answers = self._mapped(query, key, order, partial).toArrow()
            return [_unpacked(pickled) for pickled in answers.column(0).to_pylist()]

    def bring(self, frame: Any) -> str:
        with reading():
            rows = signed(frame_of(frame)).to_arrow(compat_level=pl.CompatLevel.oldest())
            return self.named(self.session.createDataFrame(rows))

    def keep(self, query: str) -> str:
        with reading():
            rows = self._rows(query).cache()
            self._undo.append(rows.unpersist)
            return self.named(rows)

    def view(self, query: str) -> str:
        with reading():
            return self.named(self._rows(query))

    def named(self, frame: Any) -> str:
        """The name under which queries find a Spark frame."""
        name = new_name()
        frame.createOrReplaceTempView(name)
        self._undo.append(functools.partial(self.session.catalog.dropTempView, name))
        return name

    def _rows(self, query: str) -> Any:
        return self.session.sql(translated(query, "spark"))

    def _mapped(self, query: str, key: Sequence[str], order: Sequence[str], partial: Callable[[Batch], Any]) -> Any:
        """A Spark frame of pickled answers, one row for each batch of whole groups."""
        from pyspark.sql import functions as fn

        rows = self._rows(query)
        sort = [fn.col(f"`{name}`").asc_nulls_last() for name in (*key, *order)]
        partitions = rows.repartition(*(fn.col(f"`{name}`") for name in key)).sortWithinPartitions(*sort)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on versions of pandas, which is not asked here
            return partitions.mapInArrow(_OnExecutor(tuple(key), tuple(order), partial), "answer binary")


def _explain_executors(error: BaseException) -> EvenhandError:
    """Whole groups are tallied by Python on the executors, which must have evenhand."""
    lacking = re.search(r"No module named '(\w+)", str(error))
    if lacking is None:
        return unreadable("table", error)
    return EvenhandError(
        f"Spark's executors have no Python package {lacking[1]!r}, and this audit counts whole groups there. Install evenhand "
        "in the Python of the executors, which PYSPARK_PYTHON names."
    )


@dataclass(frozen=True)
class _OnExecutor:
    """Applies `partial` to the sorted rows of a partition on an executor."""

    key: tuple[str, ...]
    order: tuple[str, ...]
    partial: Callable[[Batch], Any]

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in whole_groups(map(polars_frame, batches), self.key, self.key, self.order):
            try:
                answer = self.partial(batch)
            except EvenhandError as error:  # told by the driver, in its words and without Java's
                answer = error
            yield pa.RecordBatch.from_pydict({"answer": [pickle.dumps(answer)]})


def _unpacked(pickled: bytes) -> Any:
    answer = pickle.loads(bytes(pickled))  # noqa: S301  (written by our own executors)
    if isinstance(answer, EvenhandError):
        raise answer
    return answer


def open_frame(table: Any, role: str, engine: Engine | None = None) -> Relation:
    """A relation from a PySpark frame; in `engine` if that has the same session."""
    with reading(role):
        return _relation(table, table.columns, role, "a pyspark table", engine)


def _relation(
    table: Any, names: Sequence[str], role: str, origin: str, engine: Engine | None = None, **facts: Any
) -> Relation:
    """A relation from a PySpark frame, with new names: Spark ignores case and splits at dots."""
    refuse_repeated(names, role)
    inner = [f"c{i}" for i in range(len(names))]
    renamed = table.toDF(*inner)
    kinds = nw.from_native(renamed).collect_schema()
    session = table.sparkSession
    spark = engine if isinstance(engine, SparkEngine) and engine.session is session else SparkEngine(session)
    schema = {name: kinds[at] for name, at in zip(names, inner, strict=True)}
    expressions = {name: quoted(at) for name, at in zip(names, inner, strict=True)}
    return Relation(spark, spark.named(renamed), schema, expressions, "pyarrow", origin, **facts)


def open_files(patterns: Sequence[str], role: str, master: str | None, engine: Engine | None = None) -> Relation:
    """A relation from files that Spark reads, on this machine or where only Spark can reach."""
    refuse_keys(role, *patterns)
    refuse_keys("master", master)
    is_remote = any(map(scheme, patterns))
    for pattern in patterns if is_remote else ():
        record_place(role, pattern)
    paths, kind = (
        (list(patterns), common_kind(patterns, role, unknown="parquet")) if is_remote else files_of(patterns, role)
    )
    form = None if kind in SPECIAL else FORMATS[kind]
    if not isinstance(form, READABLE):
        raise EvenhandError(f"{paths[0]!r} is read by Polars only. Leave engine='spark' out.")
    if isinstance(form, Separated) and not is_remote:
        for path in paths:
            refuse_unreadable(path, form.dialect(path), form.delimiter)
    lots = [Lot((), paths)]
    if form.is_uniform and not is_remote:
        lots = lots_of(paths, lambda path: [Column(name, nw.String()) for name in form.header(path)], form.variant)
    names, lacking = shared_names(lots)
    with reading(f"{role}={listing(paths)!r}"):
        frame, columns_read = _read_files(form, lots, names, master)
        return _relation(frame, columns_read, role, listing(paths), engine, is_text=form.is_text, lacking=lacking)


READABLE = (Parquet, Separated, JsonLines)
"""Formats that Spark reads."""


def session(master: str | None = None) -> Any:
    """The Spark session of this process, on `master`; without one, the running session."""
    if importlib.util.find_spec("pyspark") is None:
        raise EvenhandError("pyspark is not installed. Install it with: pip install 'evenhand[spark]'.")
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None and master not in (None, running.sparkContext.master):
        raise EvenhandError(
            f"A Spark session on {running.sparkContext.master!r} runs already. Leave master={master!r} out, or stop it first."
        )
    if (master or "local").startswith("local") and "PYSPARK_GATEWAY_PORT" not in os.environ:  # not by spark-submit
        # whole groups are tallied by Python, which needs evenhand
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("evenhand").config("spark.ui.showConsoleProgress", "false")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on versions of pandas, which is not asked here
            spark = (builder if master is None else builder.master(master)).getOrCreate()
    except Exception as error:
        where = "" if master is None else f" on {master!r}"
        if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
            raise EvenhandError(
                "Spark does not start because Java is missing. Install Java 17, or set JAVA_HOME."
            ) from error
        raise EvenhandError(
            f"Spark does not start{where} ({type(error).__name__}). Check that Java is 17 or newer, that the master is up, "
            "and its address: spark://HOST:7077, yarn, k8s://HOST:443 or local[4]."
        ) from error
    spark.sparkContext.setLogLevel("OFF")
    return spark


def _read_files(
    form: Format, lots: Sequence[Lot], names: Sequence[str], master: str | None
) -> tuple[Any, Sequence[str]]:
    """Files as one Spark table, and the names of its columns: `names`, if known here."""
    spark = session(master)
    if isinstance(form, JsonLines):
        frame = _read_json(spark, [path for lot in lots for path in lot.paths])
        return frame, frame.columns
    if isinstance(form, Separated):
        lots = [lot if lot.names else _with_header(spark, lot, form.delimiter) for lot in lots]
        names = names or lots[0].names
        return _union([_read_text(spark, lot, names, form.delimiter) for lot in lots]), names
    parts = [spark.read.parquet(*map(_uri, lot.paths)) for lot in lots]
    if len(parts) > 1:
        parts = [part.select(*(f"`{name}`" for name in names)) for part in parts]
    frame = _union(parts)
    return frame, frame.columns


def _union(parts: Sequence[Any]) -> Any:
    return functools.reduce(lambda a, b: a.unionByName(b), parts)


def _with_header(spark: Any, lot: Lot, delimiter: str) -> Lot:
    """Files that only the cluster can reach, with the columns of their shared header."""
    from pyspark.sql import functions as fn

    lines = _lines(spark, lot.paths)
    first = lines.first()
    if first is None:
        return lot
    place, same = fn.input_file_name(), fn.col("value") == first[0]
    files = lines.select(fn.count_distinct(place).alias("all"), fn.count_distinct(fn.when(same, place)).alias("same"))
    counts = files.toArrow().to_pylist()[0]
    if counts["all"] != counts["same"]:
        raise EvenhandError(f"{listing(lot.paths)!r} holds files with different headers. Pass files of one table.")
    names = next(csv.reader([first[0].removesuffix("\r")], delimiter=delimiter))
    refuse_repeated(names, repr(lot.paths[0]))
    return Lot([Column(name, nw.String()) for name in names], lot.paths)


def _read_text(spark: Any, lot: Lot, names: Sequence[str], delimiter: str) -> Any:
    """Files of separated text as a Spark table of text: the columns `names`, in this order."""
    from pyspark.sql import functions as fn

    _refuse_strange(_lines(spark, lot.paths), lot, delimiter)
    inner = [f"c{i}" for i in range(len(lot.names))]  # Spark minds no capitals in names
    schema = ", ".join(f"{name} string" for name in inner)
    # no field is this: with nothing for NULL, the empty text in quotes would be missing too
    reader = spark.read.schema(schema).options(header=True, escape='"', nullValue="\x01 evenhand: nothing \x01")
    lines = reader.csv(list(map(_uri, lot.paths)), sep=delimiter)
    lines = lines.where(fn.coalesce(*inner, fn.lit(None)).isNotNull())
    return lines.select(*(fn.col(inner[lot.names.index(name)]).alias(f"n{i}") for i, name in enumerate(names)))


def _read_json(spark: Any, paths: Sequence[str]) -> Any:
    """JSON lines as a Spark table of text; 1e3 and 2.50 become 1000.0 and 2.5, as in DuckDB."""
    from pyspark.sql import functions as fn
    from pyspark.sql.types import ArrayType, DoubleType, StringType, StructField, StructType

    corrupt = "evenhand cannot read"  # the column in which Spark puts lines that are no JSON
    reader = spark.read.options(columnNameOfCorruptRecord=corrupt, lineSep="\n")
    places = list(map(_uri, paths))
    schema = reader.json(places).schema
    if corrupt in schema.names:
        raise EvenhandError(
            f"{listing(paths)!r} has lines without a JSON object. Write one object per line, null where a value is missing."
        )
    nested = {field.name for field in schema if isinstance(field.dataType, (ArrayType, StructType))}
    text = [field if field.name in nested else StructField(field.name, StringType()) for field in schema]
    inner = [f"c{i}" for i in range(len(text))]
    lines = reader.schema(StructType(text)).json(places).toDF(*inner)

    def written(field: Any, at: str) -> Any:
        number = fn.col(at).try_cast("double")
        whole = (number == fn.rint(number)) & (fn.abs(number) < 1e15)
        short = fn.regexp_replace(at, r"^(-?[0-9]+\.[0-9]*[1-9])0+$", "$1")
        point = fn.concat(number.cast("bigint").cast("string"), fn.lit(".0"))
        plain = fn.when(fn.col(at).rlike(r"^-?[0-9]+$"), fn.col(at)).when(whole, point).otherwise(short)
        return plain if isinstance(field.dataType, DoubleType) else fn.col(at)

    return lines.select(*(written(field, at).alias(field.name) for field, at in zip(schema, inner, strict=True)))


def _lines(spark: Any, paths: Sequence[str]) -> Any:
    return spark.read.text(list(map(_uri, paths)), lineSep="\n")


def _refuse_strange(lines: Any, lot: Lot, separator: str) -> None:
    """Refuse lines that DuckDB does not read, or that Spark would read in another way."""
    from pyspark.sql import functions as fn

    line = fn.regexp_replace("value", "\r$", "")
    outside = fn.regexp_replace(line, '"[^"]*+"', "")
    field = f'(?:"[^"\r]*+(?:""[^"\r]*+)*+"|[^"\r{separator}]*+)'
    flags = {
        "coded": ~fn.is_valid_utf8("value"),
        "wide": fn.length(outside) - fn.length(fn.replace(outside, fn.lit(separator), fn.lit(""))) >= len(lot.names),
        "odd": ~line.rlike(f"^{field}(?:{separator}{field})*+$")
        | (line.rlike(r"^[\x00-\x20]+$") & ~line.rlike(f"^{separator}+$")),
    }
    aggregates = lines.select(*(fn.max(flag.cast("int")).alias(name) for name, flag in flags.items()))
    has = aggregates.toArrow().to_pylist()[0]
    if has["coded"]:
        raise EvenhandError(f"{listing(lot.paths)!r} is not UTF-8 text. Save it as UTF-8.")
    if has["odd"]:
        raise EvenhandError(
            f"{listing(lot.paths)!r} has fields over several lines, quotes inside a field, lines of blanks or carriage returns, which "
            "Spark does not read as the other engines do. Write it as Parquet, or leave engine='spark' out."
        )
    if has["wide"]:
        raise EvenhandError(
            f"{listing(lot.paths)!r} has lines with more fields than its header. Put quotes around fields that hold the separator."
        )


def _uri(path: str) -> str:
    """A path for Spark: local files by `file://`, with a star in a name escaped."""
    return path if "://" in path else "file://" + re.sub(r"([\\{}\[\]*?])", r"\\\1", str(Path(path).absolute()))
