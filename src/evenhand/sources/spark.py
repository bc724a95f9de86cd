"""Spark: queries run in Spark SQL, whole groups are tallied on the executors, and Parquet files are read by the cluster."""

from __future__ import annotations

import functools
import importlib.util
import os
import pickle
import re
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
from evenhand.sources.files import common_kind, files_of
from evenhand.sources.formats import FORMATS
from evenhand.sources.inputs import record_place, scheme
from evenhand.sources.relation import Relation
from evenhand.sources.sql import quoted, translated

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
        return _relation(table, role, "a pyspark table", engine)


def _relation(table: Any, role: str, origin: str, engine: Engine | None) -> Relation:
    """A relation from a PySpark frame, with new names: Spark ignores case and splits at dots."""
    names = table.columns
    refuse_repeated(names, role)
    inner = [f"c{i}" for i in range(len(names))]
    renamed = table.toDF(*inner)
    kinds = nw.from_native(renamed).collect_schema()
    session = table.sparkSession
    spark = engine if isinstance(engine, SparkEngine) and engine.session is session else SparkEngine(session)
    schema = {name: kinds[at] for name, at in zip(names, inner, strict=True)}
    expressions = {name: quoted(at) for name, at in zip(names, inner, strict=True)}
    return Relation(spark, spark.named(renamed), schema, expressions, "pyarrow", origin)


def open_files(patterns: Sequence[str], role: str, master: str | None, engine: Engine | None = None) -> Relation:
    """A relation from Parquet files that Spark reads, on this machine or where only Spark can reach."""
    refuse_keys(role, *patterns)
    is_remote = any(map(scheme, patterns))
    if is_remote:
        for pattern in patterns:
            record_place(role, pattern)
        paths, kind = list(patterns), common_kind(patterns, role, unknown="parquet")
    else:
        paths, kind = files_of(patterns, role)
    if kind != "parquet":
        raise EvenhandError(f"{paths[0]!r} is not Parquet, and Spark reads nothing else there. {WITHOUT_SPARK}")
    if not is_remote and len({frozenset(FORMATS[kind].header(path)) for path in paths}) > 1:
        raise EvenhandError(f"{listing(paths)!r} has files with different columns. Pass files of one table.")
    return open_parquet(paths, role, master, engine)


def open_parquet(paths: Sequence[str], role: str, master: str | None, engine: Engine | None) -> Relation:
    with reading(f"{role}={listing(paths)!r}"):
        frame = session(master).read.parquet(*map(_uri, paths))
        return _relation(frame, role, listing(paths), engine)


WITHOUT_SPARK = "Leave engine='spark' out, or write it as Parquet."


def session(master: str | None = None) -> Any:
    """The Spark session of this process, on `master`; without one, the running session."""
    refuse_keys("master", master)
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
        raise EvenhandError(
            f"Spark does not start{where} ({type(error).__name__}). Check that Java is there (JAVA_HOME) and 17 or newer, that the master "
            "is up, and its address: spark://HOST:7077, yarn, k8s://HOST:443 or local[4]."
        ) from error
    spark.sparkContext.setLogLevel("OFF")
    return spark


def _uri(path: str) -> str:
    """A path for Spark: local files by `file://`, with a star in a name escaped."""
    return path if "://" in path else "file://" + re.sub(r"([\\{}\[\]*?])", r"\\\1", str(Path(path).absolute()))
