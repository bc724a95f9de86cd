"""Users x items matrices, dense or sparse, as tables of user, item and score."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np

from evenhand.errors import EvenhandError, listing
from evenhand.sources.engine import DuckDBEngine
from evenhand.sources.inputs import record_files, record_frame, record_rows
from evenhand.sources.relation import Relation, relation_of

MATRIX_FILES = (".npz", ".npy")

BATCH_CELLS = 1 << 19
"""Cells of a matrix that are made rows of at a time: few enough to stay in cache."""


def is_matrix(data: Any) -> bool:
    """Whether the data are a users x items matrix (and not a long table)."""
    if isinstance(data, (str, Path)):
        return str(data).endswith(MATRIX_FILES)
    if is_sparse(data) or isinstance(data, np.ndarray):
        return True
    return isinstance(data, (list, tuple)) and not (len(data) > 0 and isinstance(data[0], (str, Path)))


def is_sparse(data: Any) -> bool:
    """Whether this is a scipy sparse matrix or array; scipy is not loaded to find out."""
    return type(data).__module__.startswith("scipy.sparse")


@dataclass(frozen=True)
class Matrix:
    """One users x items matrix, dense (NaN is missing) or sparse by rows (what is not stored is missing)."""

    data: Any
    origin: str

    @classmethod
    def from_data(cls, data: Any, role: str) -> Matrix:
        """A matrix from arrays, nested lists, a sparse matrix or a file of one."""
        origin = "a matrix"
        if isinstance(data, (str, Path)):
            data, origin = _load(str(data), role), str(data)
            record_files(role, {origin: origin})
            record_rows(origin, data.shape[0])
        if is_sparse(data):
            data = _checked_sparse(data, role)
            origin = "a sparse matrix" if origin == "a matrix" else origin
        else:
            data = dense_matrix(data, role)
        if origin in ("a matrix", "a sparse matrix"):
            record_frame(role, *map(int, data.shape))
        return cls(data, origin)

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.data.shape[0]), int(self.data.shape[1])

    @property
    def is_sparse(self) -> bool:
        return is_sparse(self.data)

    def relation(self, engine: DuckDBEngine) -> Relation:
        """A relation of its cells that are not missing: columns user, item and score."""
        schema = {"user": nw.Int32(), "item": nw.Int32(), "score": nw.Float64()}
        return relation_of(engine, engine.collect(self._frames()), schema, backend="polars", origin=self.origin)

    def _frames(self) -> Iterator[Any]:
        """Cells as frames, those that are missing left out; the first one is empty, so that there always is one."""
        import polars as pl

        def frame(users: Any, items: Any, values: Any) -> Any:
            values = values.astype(np.float64)
            is_present = ~np.isnan(values)
            ids = {"user": users[is_present].astype(np.int32), "item": items[is_present].astype(np.int32)}
            return pl.DataFrame({**ids, "score": values[is_present]})

        users, items = self.shape
        yield frame(*np.zeros((3, 0)))
        if self.is_sparse:
            for first in range(0, len(self.data.data), BATCH_CELLS):
                at = slice(first, first + BATCH_CELLS)
                values = self.data.data[at]
                owners = np.searchsorted(self.data.indptr, np.arange(first, first + len(values)), side="right") - 1
                yield frame(owners, self.data.indices[at], values)
            return
        step = max(1, BATCH_CELLS // max(1, items))
        for first in range(0, users if items else 0, step):
            block = np.asarray(self.data[first : first + step])
            owners = np.repeat(np.arange(first, first + len(block)), items)
            yield frame(owners, np.tile(np.arange(items), len(block)), block.reshape(-1))


def dense_matrix(data: Any, role: str) -> Any:
    """Arrays or nested lists as a users x items array; None is missing."""
    if isinstance(data, np.ma.MaskedArray):
        data = np.ma.filled(data.astype(np.float64), np.nan)
    try:
        matrix = np.asarray(data)
        if matrix.dtype.kind == "O":
            rows = [[np.nan if value is None else float(value) for value in row] for row in matrix.tolist()]
            matrix = np.array(rows, dtype=np.float64)
    except (TypeError, ValueError):
        matrix = np.zeros(0, dtype=str)
    if matrix.dtype.kind not in "uifb":
        raise EvenhandError(f"{role} must be a matrix of numbers. Pass one row per user and one column per item.")
    if matrix.ndim != 2:
        raise EvenhandError(
            f"{role} has shape {matrix.shape}. Pass two dimensions: one row per user and one column per item."
        )
    return matrix


def _checked_sparse(matrix: Any, role: str) -> Any:
    """A sparse matrix by rows whose places lie inside it: scipy believes whatever it is given."""
    try:
        by_rows = matrix.tocsr()
        by_rows.check_format(full_check=True)
    except (ValueError, TypeError, IndexError) as error:
        raise EvenhandError(
            f"{role} is a sparse matrix with places that are not in it. Build it again, with scipy.sparse.csr_array."
        ) from error
    if by_rows.dtype.kind not in "uifb":
        raise EvenhandError(f"{role} holds {by_rows.dtype} values, not numbers. Pass scores as numbers.")
    return by_rows


def _load(path: str, role: str) -> Any:
    """A matrix from .npy, from .npz with one array or one called after its role, or from scipy's save_npz."""
    try:
        if path.endswith(".npy"):
            return np.load(path, allow_pickle=False, mmap_mode="r")
        with np.load(path, allow_pickle=False) as arrays:
            names = list(arrays.files)
            if {"format", "shape", "data"} <= set(names):
                from scipy.sparse import load_npz

                return load_npz(path)
            if role in names or len(names) == 1:
                return arrays[role if role in names else names[0]]
    except (OSError, ValueError, EOFError, TypeError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise EvenhandError(
            f"{role}={path!r} cannot be read ({error}). Write it with numpy.savez or scipy.sparse.save_npz."
        ) from error
    raise EvenhandError(f"{role}={path!r} holds several arrays: {listing(names)}. Call one of them {role!r}.")
