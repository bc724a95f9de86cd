"""What an audit read: for each file its name, size, SHA-256 and rows, so that the same bytes can be recognised later.

And what may stand before a path, or in place of a table.

Files are hashed when the audit is done. `EVENHAND_HASH=off` leaves the hashes out.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evenhand.errors import EvenhandError


@dataclass
class Input:
    """A file, a table in a store or a database (no `path`), or a dataframe (no `name`).

    Attributes
    ----------
    name : what the caller called it. path : the file on this machine.
    """

    role: str
    name: str = ""
    path: str = ""
    rows: int | None = None
    columns: int | None = None
    size: int | None = None
    sha256: str | None = None
    state: tuple[int, int, int] | None = None
    """That of the file when it was opened; another one has other bytes."""
    facts: dict[str, Any] = field(default_factory=dict)
    """What else was settled in reading it, such as which column was taken."""

    def record(self) -> dict[str, Any]:
        if not self.name:
            return {"role": self.role, "rows": self.rows, "columns": self.columns, **self.facts}
        facts = {"bytes": self.size, "sha256": self.sha256, "rows": self.rows}
        return {"role": self.role, "name": self.name, **facts, **self.facts}

    def hash(self) -> None:
        """Fill in size and hash; no hash where the file cannot be read, or changed since it was opened."""
        with contextlib.suppress(OSError):
            now = file_state(self.path)
            opened = self.state or now
            self.size = opened[0]
            digest = None if os.environ.get("EVENHAND_HASH") == "off" else _sha256(self.path, now)
            self.sha256 = digest if now == opened == file_state(self.path) else None


@dataclass
class Inputs:
    """The inputs of a call, in the order in which they were opened."""

    entries: list[Input] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    """Rows of each file by the path that was read."""
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Further facts of inputs, by role or by the path that was read."""
    copies: dict[str, str] = field(default_factory=dict)
    """Files that are read in place of others."""
    dialects: dict[str, dict[str, Any]] = field(default_factory=dict)
    """How text files are written that are not plain, by name."""
    numerals: dict[str, dict[str, Any]] = field(default_factory=dict)
    """How the numbers of a text column are written that are not plain, by column."""
    read: list[str] = field(default_factory=list)
    """Files that were read into a dataframe, whose role is not known before it is opened."""

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Record what is opened inside; a call within another one adds to both."""
        outer = _current.get()
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)
            if outer is not None:
                outer.include(self)

    def include(self, other: Inputs) -> None:
        """Add the inputs of another call that are not among these."""
        self.rows |= other.rows
        self.facts |= other.facts
        self.dialects |= other.dialects
        self.numerals |= other.numerals
        present = {(entry.role, entry.name) for entry in self.entries if entry.name}
        self.entries += [e for e in other.entries if (e.role, e.name) not in present and e not in self.entries]

    def add(self, entries: Sequence[Input]) -> None:
        """Add inputs; a file that is opened twice counts once."""
        present = {(entry.role, entry.name) for entry in self.entries if entry.name}
        new = [entry for entry in entries if (entry.role, entry.name) not in present]
        for entry in new:
            if entry.path:
                with contextlib.suppress(OSError):
                    entry.state = file_state(entry.path)
        self.entries += new

    def records(self, rows: int | None = None) -> list[dict[str, Any]]:
        """Every input as plain data; `rows` are those of the first table, where nobody counted."""
        for entry in self.entries:
            if entry.path:
                entry.hash()
                entry.rows = self.rows.get(entry.path) if entry.rows is None else entry.rows
            entry.facts = {**self.facts.get(entry.role, {}), **self.facts.get(entry.path, {})}
        first = [entry for entry in self.entries if entry.role == self.entries[0].role]
        if len(first) == 1 and first[0].rows is None:
            first[0].rows = rows
        return [entry.record() for entry in self.entries]

    def original(self, path: str) -> str:
        """The file that a copy, or a copy of a copy, is read in place of."""
        while path in self.copies:
            path = self.copies[path]
        return path

    def reading(self) -> dict[str, Any]:
        """How text was read where it is not plain: files by name, columns of numbers by name."""
        return {key: value for key, value in (("files", self.dialects), ("columns", self.numerals)) if value}


_current: ContextVar[Inputs | None] = ContextVar("inputs", default=None)


def current() -> Inputs:
    """The inputs of the call that is recording; where none is, some that nobody reads."""
    return _current.get() or Inputs()


def record_files(role: str, names: Mapping[str, str]) -> None:
    """Record files that a role reads: what each is called, by its path."""
    current().add([Input(role, name, path) for path, name in names.items()])


def record_place(role: str, name: str) -> None:
    """Record a table whose bytes are elsewhere, or are not the table's alone: in a store, a database, on a cluster."""
    current().add([Input(role, name)])


def record_frame(role: str, rows: int | None, columns: int) -> None:
    """Record a dataframe, or the files that it was just read from."""
    inputs = current()
    files, inputs.read = inputs.read, []
    inputs.add([Input(role, path, path) for path in files] or [Input(role, rows=rows, columns=columns)])


def record_reading(path: str, rows: int) -> None:
    """Record a file that is read into a dataframe; the role is that of the dataframe."""
    current().read.append(path)
    current().rows[path] = rows


def record_facts(role_or_path: str, **facts: Any) -> None:
    """Record what was settled in reading the tables of a role, or one file."""
    current().facts.setdefault(role_or_path, {}).update(facts)


def record_dialect(path: str, dialect: Mapping[str, Any]) -> None:
    inputs = current()
    name = inputs.original(path)
    names = {entry.path: entry.name for entry in inputs.entries}
    inputs.dialects[names.get(name, name)] = dict(dialect)


def record_rows(path: str, rows: int) -> None:
    current().rows[current().original(path)] = rows


def is_recording() -> bool:
    return _current.get() is not None


def file_state(path: str) -> tuple[int, int, int]:
    """Size, time of the last change, and identity of a file: another one has other bytes."""
    stat = Path(path).stat()
    return stat.st_size, stat.st_mtime_ns, stat.st_ino


@functools.lru_cache(maxsize=1024)  # audits that repeat others, and plans of several, read a file again and again
def _sha256(path: str, state: tuple[int, int, int]) -> str:
    with Path(path).open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<rest>.*)", re.DOTALL)


def scheme(path: str) -> str:
    """How a path in an object store begins; nothing for a path of this machine."""
    match = URL.fullmatch(path)
    return match["scheme"].lower() if match else ""


FAIR, TALLY = "trec-fair:", "tally:"
"""What may stand before a path: a file of the TREC Fair track, or the rows of a query in place of its table."""


def split_kind(word: str) -> tuple[str, str]:
    """The prefix of a path (`kind:path`), if any, and the path.

    >>> split_kind("tally:rows.csv"), split_kind("log.csv")
    (('tally:', 'rows.csv'), ('', 'log.csv'))
    """
    kind = next((kind for kind in (FAIR, TALLY) if word.startswith(kind)), "")
    return kind, word.removeprefix(kind)


def paths_after(prefix: str, table: Any) -> list[str] | None:
    """The paths of an argument without a prefix such as `tally:`; None if none has it."""
    words = [table] if isinstance(table, str) else getattr(table, "paths", table)
    has_prefix = (
        [isinstance(w, str) and w.startswith(prefix) for w in words] if isinstance(words, (list, tuple)) else []
    )
    if not any(has_prefix):
        return None
    if not all(has_prefix):
        raise EvenhandError(f"Paths with {prefix} are mixed with others. Put {prefix} before each, or before none.")
    return [word.removeprefix(prefix) for word in words]


@dataclass(frozen=True)
class Tally:
    """The rows of one query or of several: dataframes, or paths of them."""

    rows: tuple[Any, ...]


@dataclass(frozen=True)
class TallyFile(Tally):
    """Rows in files, which a plan can name."""

    def as_word(self) -> Any:
        words = [f"{TALLY}{os.fspath(path)}" for path in self.rows]
        return words[0] if len(words) == 1 else words


def tally(*rows: Any) -> Tally:
    """The rows of queries that `evenhand sql` printed, to be passed as the audit's table.

    Each of `rows` is a path (CSV, Parquet, JSON lines) or a dataframe:
    `eh.inequality(eh.read.tally("rows.csv"), unit=..., ...)`.
    """
    return TallyFile(rows) if all(isinstance(each, (str, Path)) for each in rows) else Tally(rows)


def tally_of(table: Any) -> Tally | None:
    """The tally in an argument, an object or `"tally:rows.csv"`; None for a table."""
    if isinstance(table, Tally):
        return table
    paths = paths_after(TALLY, table)
    return None if paths is None else tally(*paths)
