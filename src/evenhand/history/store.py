"""The file of a history: one row per day, plan, slice, metric and group, in Parquet, whole at every moment.

Rows are added under a lock, in a new file that takes the old one's place by a rename: a reader, a second writer or a kill at any
moment meets either all rows of an append or none. Columns are only ever added, and keep the type that they began with. The file
holds a hash of its own bytes, so that a damaged one is refused before anything reads numbers from it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.errors import EvenhandError
from evenhand.findings import COLUMNS, NUMBERS, Findings, label, plain
from evenhand.report.files import write_whole
from evenhand.report.words.history import HISTORY_COLUMNS

if TYPE_CHECKING:
    import polars as pl


@contextlib.contextmanager
def only_writer(target: Path, patience: float = 60.0) -> Iterator[None]:
    """Wait up to `patience` seconds until nobody else writes this file, then keep others out.

    The lock is on a hidden neighbour, since the file itself is replaced. The neighbour is removed by whoever holds it: one who
    was waiting for it then finds that its name leads elsewhere, and takes the new one.
    """
    lock_path = target.parent / f".{target.name[:60]}.lock"
    until = time.monotonic() + patience
    while (descriptor := _try_lock(lock_path)) is None:
        if time.monotonic() > until:
            raise EvenhandError(f"{str(target)!r} is being written by another process. Try again when that has ended.")
        time.sleep(0.02)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # where open files cannot be removed it stays, and holds nobody up
            lock_path.unlink()
        os.close(descriptor)


def _try_lock(lock_path: Path) -> int | None:
    """A descriptor that holds the lock, or nothing where somebody else does."""
    try:
        descriptor = os.open(lock_path, os.O_CREAT | os.O_RDWR, 0o666)
    except OSError as error:
        raise EvenhandError(
            f"{str(lock_path)!r} cannot be written ({error.strerror}). Pass a path in a folder that is writable."
        ) from error
    try:
        _lock(descriptor)
        if os.path.samestat(os.fstat(descriptor), lock_path.stat()):
            return descriptor
    except (BlockingIOError, PermissionError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


COUNTS = frozenset({"units", "undefined_draws"})
ABOUT, CHECKSUM = "evenhand-plans", "evenhand-sha256"
"""Where the file keeps what is known of each plan (its words, its slices, its question), and the hash of its bytes."""

MARK = re.compile(rb"sha256 of this file with zeros here: ([0-9a-f]{64})")
ZEROS = b"0" * 64


@dataclass(frozen=True)
class Stored:
    """Rows of a history as added, and the description of each plan by its hash."""

    rows: pl.DataFrame
    plans: Mapping[str, dict[str, Any]]


def read(path: Path) -> Stored | None:
    """All rows as they were added; nothing where there is no file yet."""
    import polars as pl

    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise EvenhandError(f"{str(path)!r} cannot be read ({error.strerror}). Pass the path of a history.") from error
    mark = MARK.search(content)
    if mark is None:
        raise EvenhandError(f"{str(path)!r} is not a history. Pass a path that holds one, or none yet.")
    if mark[1].decode() != _digest(content):
        raise EvenhandError(
            f"{str(path)!r} is damaged: its bytes are not those that were written. Take it from a backup."
        )
    return Stored(pl.read_parquet(content), json.loads(pl.read_parquet_metadata(content)[ABOUT]))


def _digest(content: bytes) -> str:
    """SHA-256 of the bytes with zeros in place of the digest that they hold."""
    return hashlib.sha256(MARK.sub(lambda mark: mark[0][:-64] + ZEROS, content, count=1)).hexdigest()


def _bytes(rows: pl.DataFrame, plans: Mapping[str, Any]) -> bytes:
    out = BytesIO()
    checksum = f"sha256 of this file with zeros here: {ZEROS.decode()}"
    described = json.dumps(plans, ensure_ascii=False)
    rows.write_parquet(out, compression="zstd", metadata={ABOUT: described, CHECKSUM: checksum})
    content = out.getvalue()
    digest = _digest(content).encode()
    return MARK.sub(lambda mark: mark[0][:-64] + digest, content, count=1)


@dataclass(frozen=True, slots=True)
class Entry:
    """The rows of one result for one day; `window` is how many days its table covers."""

    findings: Findings
    plan: str
    at: date
    window: int = 1


def add(path: Path, entries: Sequence[Entry], *, replace: bool) -> bool:
    """Add results for their days, all of them or none; whether the file changed.

    The same numbers again change nothing; others for the same plan and day are refused, unless they replace the old.
    """
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise EvenhandError(f"{str(path)!r} is in a folder that does not exist. Make the folder first.")
    with only_writer(target):
        stored = read(target)
        rows, plans = (None, {}) if stored is None else (stored.rows, dict(stored.plans))
        has_changed = False
        for entry in entries:
            new = _rows(entry.findings, entry.plan, entry.at)
            plans[entry.plan] = {**about(entry.findings), "window": entry.window}
            if rows is not None:
                earlier = rows.filter(is_of_day(entry.plan, entry.at))
                if earlier.height and _same(earlier, new):
                    continue
                if earlier.height and not replace:
                    raise EvenhandError(
                        f"{str(path)!r} holds other numbers for {entry.at} and this plan. Pass replace=True to put these in their place."
                    )
                new = _appended(rows.filter(~is_of_day(entry.plan, entry.at)), new, path)
            rows, has_changed = new, True
        if rows is not None and has_changed:
            write_whole(target, _bytes(rows, plans))
    return has_changed


def about(findings: Findings) -> dict[str, Any]:
    provenance = findings.provenance
    return {
        "audit": findings.audit, "question": findings.question, "slices": list(findings.slices),
        "words": dict(findings.words), "level": provenance.get("level", 0.95), "plan": plain(provenance.get("plan") or {}),
    }  # fmt: skip


def _rows(findings: Findings, plan: str, at: date) -> pl.DataFrame:
    import polars as pl

    taken = [name for name in findings.slices if name in HISTORY_COLUMNS]
    if taken:
        raise EvenhandError(f"{taken[0]!r} is also a column of every history. Rename that column of the table first.")
    columns = [
        _column(name, values, number=name not in findings.slices and _is_number(name, values))
        for name in dict.fromkeys([*findings.slices, *COLUMNS, *findings.columns])
        for values in [findings.columns.get(name, [None] * len(findings))]
    ]
    day_and_plan = (pl.lit(at, pl.Date).alias("at"), pl.lit(plan).alias("plan"), pl.lit(findings.audit).alias("audit"))
    return pl.DataFrame(columns).select(*day_and_plan, pl.all())


def _is_number(name: str, values: Sequence[Any]) -> bool:
    if name in COLUMNS:
        return name in NUMBERS or name in COUNTS
    present = [v for v in values if v is not None]
    return bool(present) and all(isinstance(plain(v), (int, float)) and not isinstance(v, bool) for v in present)


def _column(name: str, values: Sequence[Any], *, number: bool) -> pl.Series:
    """Numbers as such, missing where they are undefined; everything else is a label."""
    import polars as pl

    if number:
        return pl.Series(name, [None if v is None or v != v else float(v) for v in values], pl.Float64)
    return pl.Series(name, [None if v is None else label(v) for v in values], pl.String)


def columns(rows: pl.DataFrame, names: Sequence[str]) -> dict[str, list[Any]]:
    """Columns of findings from rows of a history; counts, which the file holds as numbers, are whole again."""
    values = {name: rows[name].to_list() for name in names}
    whole = {name: [None if v is None else int(v) for v in values[name]] for name in COUNTS if name in values}
    return {**values, **whole}


def extra_columns(rows: pl.DataFrame, slices: Sequence[str]) -> list[str]:
    """Columns beside those of every result in which anything stands."""
    standard = {*HISTORY_COLUMNS, *COLUMNS, *slices}
    return [name for name in rows.columns if name not in standard and rows[name].null_count() < rows.height]


def is_of_day(plan: str, at: date) -> pl.Expr:
    import polars as pl

    return (pl.col("plan") == plan) & (pl.col("at") == at)


def _same(earlier: pl.DataFrame, rows: pl.DataFrame) -> bool:
    """Whether two tables have equal rows in any order; a column of one is null in the other."""
    names = list(dict.fromkeys([*earlier.columns, *rows.columns]))

    def lines(table: pl.DataFrame) -> list[tuple[str, ...]]:
        columns = [table[n].to_list() if n in table.columns else [None] * table.height for n in names]
        return sorted(tuple(repr(v) for v in row) for row in zip(*columns, strict=True))

    return lines(earlier) == lines(rows)


def _appended(stored: pl.DataFrame, rows: pl.DataFrame, path: Path) -> pl.DataFrame:
    """New rows below the stored ones; a column of only one side is null in the other."""
    import polars as pl

    for name, kind in stored.schema.items():
        if name not in rows.columns or rows.schema[name] == kind:
            continue
        if kind == pl.String:
            rows = rows.with_columns(_column(name, rows[name].to_list(), number=False))
        elif rows[name].null_count() == rows.height:
            rows = rows.with_columns(pl.Series(name, [None] * rows.height, kind))
        else:
            raise EvenhandError(
                f"{name!r} holds numbers in {str(path)!r} and labels here. Use another file for this history."
            )
    return pl.concat([stored, rows], how="diagonal")
