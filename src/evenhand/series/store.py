"""The file of a history: one row per day, plan, slice, metric and group, in Parquet, whole at every moment.

Rows are added under a lock, in a new file that takes the old one's place by a rename: a reader, a second writer or a kill at any
moment meets either all rows of an append or none. Columns are only ever added, and keep the type that they began with.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from datetime import date
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.errors import EvenhandError
from evenhand.findings import COLUMNS, NUMBERS, Findings, label, plain
from evenhand.present.files import write_whole
from evenhand.series.locks import only_writer

if TYPE_CHECKING:
    import pyarrow as pa

FIRST = ("at", "plan", "audit")
"""Columns before those of the frame: the day, the hash of the plan, the question."""
COUNTS = frozenset({"units", "undefined_draws"})
ABOUT = b"evenhand"
"""Where the file keeps what is known of each plan: its words, its slices, its question."""


def read(path: Path) -> pa.Table | None:
    """All rows as they were added; nothing where there is no file yet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # One thread: a command that ends while Arrow is still starting its pool is aborted by the C++ run time.
        table = pq.ParquetFile(pa.BufferReader(path.read_bytes())).read(use_threads=False)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise EvenhandError(f"{str(path)!r} cannot be read ({error.strerror}). Pass the path of a history.") from error
    except pa.ArrowInvalid as error:
        raise _foreign(path) from error
    if not set(FIRST) | set(COLUMNS) <= set(table.column_names):
        raise _foreign(path)
    return table


def _foreign(path: Path) -> EvenhandError:
    return EvenhandError(f"{str(path)!r} is not a history. Pass a path that holds one, or none yet.")


def plans(table: pa.Table) -> dict[str, dict[str, Any]]:
    """What is known of each plan, by its hash, in the order they were first used."""
    held = (table.schema.metadata or {}).get(ABOUT)
    return dict(json.loads(held)) if held else {}


def by_day(table: pa.Table, *, newest_first: bool = False) -> pa.Table:
    """The same rows in order of time; those of one day stay as they are."""
    import numpy as np

    days = table["at"].to_numpy().astype("datetime64[D]").astype(np.int64)
    return table.take(np.argsort(-days if newest_first else days, kind="stable"))


def add(path: Path, findings: Findings, plan: str, at: date, *, replace: bool) -> bool:
    """Add the rows of one result for one day; whether the file changed.

    The same numbers again change nothing; others for the same plan and day are refused, unless they replace the old.
    """
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise EvenhandError(f"{str(path)!r} is in a folder that does not exist. Make the folder first.")
    rows = _table(findings, plan, at)
    with only_writer(target):
        held = read(target)
        if held is not None:
            there = rows_of(held, plan, at)
            if there.num_rows and _same(there, rows):
                return False
            if there.num_rows and not replace:
                raise EvenhandError(
                    f"{str(path)!r} holds other numbers for {at} and this plan. Pass replace=True to put these in their place."
                )
            rows = _under(_without(held, plan, at), rows, path)
        write_whole(target, _bytes(rows, {**(plans(held) if held is not None else {}), plan: about(findings)}))
    return True


def about(findings: Findings) -> dict[str, Any]:
    """What the rows alone do not say."""
    held = findings.provenance
    return {
        "audit": findings.audit, "question": findings.question, "slices": list(findings.slices),
        "words": dict(findings.words), "level": held.get("level", 0.95), "plan": plain(held.get("plan") or {}),
    }  # fmt: skip


def _table(findings: Findings, plan: str, at: date) -> pa.Table:
    """The rows of a result with their day and plan, in the types of a history."""
    import pyarrow as pa

    taken = [name for name in findings.slices if name in FIRST]
    if taken:
        raise EvenhandError(f"{taken[0]!r} is also a column of every history. Rename that column of the table first.")
    n = len(findings)
    columns = {"at": pa.array([at] * n, pa.date32()), "plan": pa.array([plan] * n, pa.string()),
               "audit": pa.array([findings.audit] * n, pa.string())}  # fmt: skip
    for name in dict.fromkeys([*findings.slices, *COLUMNS, *findings.columns]):
        values = findings.columns.get(name, [None] * n)
        columns[name] = _column(values, number=name not in findings.slices and _is_number(name, values))
    return pa.table(columns)


def _is_number(name: str, values: Sequence[Any]) -> bool:
    if name in COLUMNS:
        return name in NUMBERS or name in COUNTS
    known = [v for v in values if v is not None]
    return bool(known) and all(isinstance(plain(v), (int, float)) and not isinstance(v, bool) for v in known)


def _column(values: Sequence[Any], *, number: bool) -> pa.Array:
    """Numbers as such, missing where they are undefined; everything else is a label."""
    import pyarrow as pa

    if number:
        return pa.array([None if v is None or v != v else float(v) for v in values], pa.float64())
    return pa.array([None if v is None else label(v) for v in values], pa.string())


def rows_of(table: pa.Table, plan: str, at: date) -> pa.Table:
    return table.filter(_here(table, plan, at))


def _without(table: pa.Table, plan: str, at: date) -> pa.Table:
    import pyarrow.compute as pc

    return table.filter(pc.invert(_here(table, plan, at)))


def _here(table: pa.Table, plan: str, at: date) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.and_(pc.equal(table["plan"], plan), pc.equal(table["at"], pa.scalar(at, pa.date32())))


def _same(held: pa.Table, rows: pa.Table) -> bool:
    """Whether two tables say the same, whatever the order of their rows; columns that only one has are empty in the other."""
    names = list(dict.fromkeys([*held.column_names, *rows.column_names]))

    def told(table: pa.Table) -> list[tuple[str, ...]]:
        columns = [table[n].to_pylist() if n in table.column_names else [None] * table.num_rows for n in names]
        return sorted(tuple(repr(v) for v in row) for row in zip(*columns, strict=True))

    return told(held) == told(rows)


def _under(held: pa.Table, rows: pa.Table, path: Path) -> pa.Table:
    """The new rows below the old ones; a column that is new to either side is missing in the other."""
    import pyarrow as pa

    for field in held.schema:
        if field.name not in rows.column_names or rows.schema.field(field.name).type == field.type:
            continue
        place, column = rows.column_names.index(field.name), rows[field.name]
        if field.type == pa.string():
            column = _column(column.to_pylist(), number=False)
        elif column.null_count == len(column):
            column = pa.nulls(len(column), field.type)
        else:
            raise EvenhandError(
                f"{field.name!r} holds numbers in {str(path)!r} and labels here. Use another file for this history."
            )
        rows = rows.set_column(place, field.name, column)
    return pa.concat_tables([held, rows], promote_options="default")


def _bytes(table: pa.Table, known: Mapping[str, Any]) -> bytes:
    import pyarrow.parquet as pq

    described = {**(table.schema.metadata or {}), ABOUT: json.dumps(known, ensure_ascii=False).encode()}
    out = BytesIO()
    pq.write_table(table.replace_schema_metadata(described), out, compression="zstd")
    return out.getvalue()
