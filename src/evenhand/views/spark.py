"""Parquet files read by Spark: by a cluster, or by this machine where no master is named."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evenhand.errors import EvenhandError


def session(master: str | None = None) -> Any:
    """The session of this process, on `master`; one that runs, or that spark-submit asked for, where none is named."""
    if importlib.util.find_spec("pyspark") is None:
        raise EvenhandError("pyspark is not installed. Install it with: pip install 'evenhand[spark]'.")
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None and master not in (None, running.sparkContext.master):
        raise EvenhandError(
            f"A Spark session on {running.sparkContext.master!r} runs already. Leave master={master!r} out, or stop it first."
        )
    builder = SparkSession.builder.appName("evenhand").config("spark.ui.showConsoleProgress", "false")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on versions of pandas, which is not asked here
            found = (builder if master is None else builder.master(master)).getOrCreate()
    except Exception as error:
        where = "" if master is None else f" on {master!r}"
        if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
            raise EvenhandError(
                "Spark does not start, for there is no Java. Install Java 17, or set JAVA_HOME."
            ) from error
        raise EvenhandError(
            f"Spark does not start{where} ({type(error).__name__}). Check that Java is 17 or newer, that the master is up, "
            "and its address: spark://HOST:7077, yarn, k8s://HOST:443 or local[4]."
        ) from error
    found.sparkContext.setLogLevel("OFF")
    return found


def read_parquet(lots: Sequence[Sequence[str]], columns: Sequence[str] | None, master: str | None) -> Any:
    """Files as one Spark table: lots that have the same columns, and of several lots the columns that all have."""
    spark = session(master)
    parts = [spark.read.parquet(*map(_place, lot)) for lot in lots]
    if columns is not None:
        parts = [part.select(*(f"`{name}`" for name in columns)) for part in parts]
    return functools.reduce(lambda a, b: a.unionByName(b), parts)


def _place(path: str) -> str:
    """A path as a cluster is told it, whose own paths may be in another file system; a star in a name here is no pattern."""
    return path if "://" in path else "file://" + re.sub(r"([\\{}\[\]*?])", r"\\\1", str(Path(path).absolute()))
