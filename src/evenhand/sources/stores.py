"""Object stores, and tables of the formats Delta and Iceberg, each named by its path.

Polars reads all of them. Who may read an object store is told by the environment (`AWS_ACCESS_KEY_ID` and the like), never by
the path: paths stand in plans, reports and messages.
"""

from __future__ import annotations

import importlib.util
import os
import re
import warnings
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from evenhand.errors import EvenhandError, listing, without_keys

SCHEMES = {"s3": "AWS", "s3a": "AWS", "gs": "GOOGLE", "gcs": "GOOGLE", "az": "AZURE", "abfs": "AZURE", "abfss": "AZURE"}
"""How paths in object stores begin, and how the variables begin that hold the credentials."""

TABLES = {"delta": "deltalake", "iceberg": "pyiceberg"}
"""Table formats and the packages that read their logs."""

SPECIAL = (*TABLES, "parquet folder")
"""Kinds that an ending does not tell."""

_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<rest>.*)", re.DOTALL)


def scheme(path: str) -> str:
    """How a path in an object store begins; nothing for a path of this machine."""
    match = _URL.fullmatch(path)
    return match["scheme"].lower() if match else ""


def refuse_place(path: str, role: str) -> None:
    """Refuse a path of a store that is not read, or one that holds credentials."""
    match = _URL.fullmatch(path)
    if match is None:
        return
    begin = scheme(path)
    if begin not in SCHEMES:
        raise EvenhandError(
            f"{role} begins with {begin + '://'!r}, which is not read. Pass a file, or a path that begins with "
            f"{listing([f'{name}://' for name in SCHEMES])}."
        )
    if ":" in match["rest"].partition("/")[0] or without_keys(path) != path:
        raise EvenhandError(
            f"{role} has a path with credentials or a query in it. Leave them out, and set {SCHEMES[begin]}_... variables in "
            "the environment instead."
        )


def refuse_unreachable(paths: Sequence[str]) -> None:
    """Refuse a store that does not answer within seconds; each bucket is asked once."""
    buckets = {match["rest"].partition("/")[0]: path for path in paths if (match := _URL.fullmatch(path))}
    if buckets:  # it looks the region up, which is no business of the reader's
        warnings.filterwarnings("ignore", message=r"'\(default_\)region' not set")
    # who answers at all is then asked with the patience of Polars itself
    quick = {"max_retries": 1, "retry_timeout_ms": 3_000, "timeout": "5s", "connect_timeout": "3s"}
    for path in buckets.values():
        try:
            pl.scan_parquet(path, storage_options=quick).collect_schema()
        except (FileNotFoundError, pl.exceptions.PolarsError):  # the store is there, and no Parquet file
            continue
        except OSError as error:
            raise unreadable_place(path, error) from error


def special(path: str) -> str:
    """The kind of a table that is no file with a known ending: of `SPECIAL`, or nothing."""
    if path.endswith(".metadata.json"):
        return "iceberg"
    if scheme(path):
        if Path(path).suffix or any(c in path for c in "*?["):
            return ""
        try:
            pl.scan_ndjson(f"{path.rstrip('/')}/_delta_log/*.json", infer_schema_length=1).collect_schema()
        except (pl.exceptions.PolarsError, OSError):
            return "parquet folder"
        return "delta"
    if not os.path.isdir(path):
        return ""
    if os.path.isdir(os.path.join(path, ".hoodie")):  # noqa: PTH118
        raise EvenhandError(
            f"{path!r} is a Hudi table, which is not read. Read it with Spark and pass the Spark table."
        )
    if os.path.isdir(os.path.join(path, "_delta_log")):  # noqa: PTH118
        return "delta"
    return "iceberg" if list(Path(path).glob("metadata/*.metadata.json")) else ""


def scan_special(paths: Sequence[str], kind: str, role: str) -> tuple[pl.LazyFrame, str]:
    """A table that an ending does not tell as a lazy Polars table, and what it is called."""
    if kind == "parquet folder":
        return pl.scan_parquet([f"{path.rstrip('/')}/*.parquet" for path in paths]), listing(paths)
    if len(paths) > 1:
        raise EvenhandError(f"{role} has {len(paths)} {kind.capitalize()} tables. Pass one.")
    (path,) = paths
    if importlib.util.find_spec(TABLES[kind]) is None:
        raise EvenhandError(
            f"{path!r} is a table of the format {kind.capitalize()}, and {TABLES[kind]} is not installed. "
            f"Install it with: pip install 'evenhand[{kind}]'."
        )
    if kind == "iceberg":
        newest = _newest(path)
        os.environ.setdefault("POLARS_ICEBERG_PLANNER", "pyiceberg")  # else Polars warns that a plugin would be faster
        if not scheme(newest):
            return pl.scan_iceberg(Path(newest).resolve().as_uri()), f"{path} (Iceberg)"
        unread = {"AWS_ENDPOINT_URL": "s3.endpoint", "AWS_REGION": "s3.region"}  # PyIceberg does not look at these
        options = {name: os.environ[key] for key, name in unread.items() if os.environ.get(key)}
        return pl.scan_iceberg(newest, storage_options=options), f"{path} (Iceberg)"
    from deltalake import DeltaTable

    table = DeltaTable(path)
    return pl.scan_delta(table), f"{path} (Delta, version {table.version()})"


def _newest(path: str) -> str:
    """The file that says what an Iceberg table holds now."""
    if path.endswith(".metadata.json"):
        return path
    folder = Path(path) / "metadata"
    hint = folder / "version-hint.text"
    if hint.is_file() and (named := folder / f"v{hint.read_text(encoding='utf-8').strip()}.metadata.json").is_file():
        return str(named)
    numbered: dict[int, list[Path]] = {}
    for path_of_state in folder.glob("*.metadata.json"):
        version = re.match(r"v?(\d+)", path_of_state.name)
        numbered.setdefault(int(version[1]) if version else -1, []).append(path_of_state)
    newest = numbered[max(numbered)]
    if len(newest) > 1:
        raise EvenhandError(
            f"{path!r} has several newest states ({listing(sorted(p.name for p in newest))}). Pass the path of the "
            ".metadata.json file that your catalogue names."
        )
    return str(newest[0])


def unreadable_place(path: str, error: BaseException) -> EvenhandError:
    """The error for a place that cannot be read; a store's words may quote signatures."""
    begin = scheme(path)
    absent = ("expanded paths were empty", "NoSuchBucket", "NoSuchKey")  # in the words of Polars or of a store
    if isinstance(error, FileNotFoundError) or any(words in str(error) for words in absent):
        return EvenhandError(f"{path!r} is not there. Check bucket and path.")
    variables = f" and the {SCHEMES[begin]}_... variables of the environment" if begin in SCHEMES else ""
    return EvenhandError(f"{path!r} cannot be read ({type(error).__name__}). Check the path{variables}.")
