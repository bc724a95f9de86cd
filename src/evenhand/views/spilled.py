"""Rows that stand apart and belong together, brought together in files of their own: memory stays that of one part of them.

The files are in the directory for temporary files, and are gone when nobody can read the rows any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.errors import EvenhandError
from evenhand.sources.folders import Folder


class Spilled:
    """Rows in parts by a hash of some columns, so that rows alike in these are in the same part: a file each, appended to."""

    def __init__(self, frames: Iterable[Any], by: Sequence[str], parts: int) -> None:
        self.folder = Folder()
        self.parts = parts
        self._sizes: list[list[int]] = [[] for _ in range(parts)]
        for frame in frames:
            part = (frame.select(by).hash_rows().to_numpy() % np.uint64(parts)).astype(np.int64)
            edges = np.searchsorted(np.sort(part), np.arange(parts + 1)).tolist()
            frame = frame[np.argsort(part, kind="stable")]
            for i in range(parts):
                self._sizes[i].append(_append(frame[edges[i] : edges[i + 1]], self._file(i)))

    def _file(self, part: int) -> Path:
        return Path(self.folder.name) / f"{part}.arrows"

    def part(self, number: int) -> Any:
        """A Polars frame of the rows of one part, in the order in which they came."""
        import polars as pl

        with self._file(number).open("rb") as file:
            return pl.concat([pl.read_ipc_stream(file.read(size)) for size in self._sizes[number]])

    def rewritten(self, make: Callable[[int, Any], Any]) -> Any:
        """A lazy Polars table of what is made of each part, given its number and rows."""
        kept = Folder()
        files = [Path(kept.name) / f"{i}.arrow" for i in range(self.parts)]
        for i, file in enumerate(files):
            _write(make(i, self.part(i)), file)
        self.folder.remove()
        return _scanned(kept, files)


class Records:
    """Records one after the other: in memory while there are few, else in a file."""

    def __init__(self, kind: np.dtype[Any], most: int) -> None:
        self.kind, self.most, self.size = kind, most, 0
        self._held: list[npt.NDArray[Any]] = []
        self._folder: Folder | None = None

    def append(self, records: npt.NDArray[Any]) -> None:
        self._held.append(records)
        self.size += len(records)
        if self.size > self.most:
            self._folder = self._folder or Folder()
            self._write()

    def between(self, first: int, last: int) -> npt.NDArray[Any]:
        """Some of them."""
        if self._folder is not None:
            size = self.kind.itemsize
            return np.fromfile(self._file, self.kind, last - first, offset=first * size)
        if len(self._held) != 1:
            self._held = [np.concatenate([np.zeros(0, self.kind), *self._held])]
        return self._held[0][first:last]

    def _write(self) -> None:
        try:
            with self._file.open("ab") as file:
                for held in self._held:
                    file.write(held.data)
        except OSError as error:
            raise EvenhandError(
                f"So many rows are numbered in temporary files, and {gettempdir()!r} has no room for them ({type(error).__name__}). "
                "Set TMPDIR to a folder with more room."
            ) from error
        self._held = []

    @property
    def _file(self) -> Path:
        return Path(getattr(self._folder, "name", "")) / "records"


def _append(frame: Any, file: Path) -> int:
    """How many bytes were added to the file."""
    with _room(), file.open("ab") as opened:
        start = opened.tell()
        frame.write_ipc_stream(opened, compression="uncompressed")
        return opened.tell() - start


def _write(frame: Any, file: Path) -> None:
    with _room():
        frame.write_ipc(file, compression="uncompressed")


@contextmanager
def _room() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise EvenhandError(
            f"Rows of a ranking stand apart, and {gettempdir()!r} has no room to bring them together ({type(error).__name__}). "
            "Sort the table by request, or set TMPDIR to a folder with more room."
        ) from error


def _scanned(kept: Folder, files: Sequence[Path]) -> Any:
    """A lazy table of all files, which lie in `kept` for as long as it is there."""
    import polars as pl

    def frames(columns: list[str] | None) -> Iterator[Any]:
        _ = kept
        return (pl.read_ipc(file, columns=columns) for file in files)

    return table_of(frames, pl.read_ipc_schema(files[0]))


def table_of(frames: Callable[[list[str] | None], Iterable[Any]], schema: Any) -> Any:
    """A lazy Polars table of frames that are made one after another, given the columns that somebody wants of them."""
    from polars.io.plugins import register_io_source

    def source(columns: list[str] | None, predicate: Any, rows: int | None, size: int | None) -> Iterator[Any]:
        for held in frames(columns):
            for found in held.iter_slices(size or 250_000):
                found = found if predicate is None else found.filter(predicate)
                yield found if rows is None else found.head(rows)
                rows = None if rows is None else rows - min(rows, found.height)
                if rows == 0:
                    return

    return register_io_source(source, schema=schema)
