"""Scores of users for items, whatever they come in: a dense matrix, a sparse one, a long table on any engine, or files.

Every form is handed on as blocks of users in ragged rows, so that nothing larger than a block is ever held beside the
caller's own data.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from evenhand.errors import EvenhandError, all_problems, listing
from evenhand.views.columns import slice_problems

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

BLOCK_CELLS = 1 << 19
"""Scores handled at a time: few enough to stay in cache."""

MATRIX_FILES = (".npz", ".npy")


@dataclass(frozen=True, slots=True)
class Facts:
    """What one pass over scores found: how many there are, their range, and whether all cells are there and 0 or 1."""

    rows: int
    cells: int
    low: float
    high: float
    masked: int = 0
    binary: bool = False


class Rows(NamedTuple):
    """Ragged rows end to end: row i holds cells `starts[i]` to `starts[i + 1]`, its items rising."""

    starts: Ints
    items: Ints
    values: Floats


class Thinning(NamedTuple):
    """Which rows are kept of a table with more than `after` values, given those of some users as rows end to end."""

    keep: Callable[[Ints, Floats], npt.NDArray[np.bool_]]
    after: int


class Sums(NamedTuple):
    """How many values every user has, and their sum."""

    cells: Floats
    total: Floats


@dataclass(frozen=True, slots=True)
class Block:
    """Users `first` onwards: their scores, and the truth where there is one; dense (users x items), or as rows.

    Where rows hold only scores that may be shown, `sums` are those of all.
    """

    first: int
    scores: Floats | Rows
    truth: Floats | Rows | None
    sums: Sums | None = None


@dataclass(frozen=True, slots=True)
class Apart:
    """What the scores of a long table are kept apart by: slice columns, and the column of the recommender."""

    by: tuple[str, ...] = ()
    system: str | None = None

    def __bool__(self) -> bool:
        return bool(self.by or self.system)

    @property
    def names(self) -> tuple[str, ...]:
        """The slice columns of the result; the system is always called system."""
        return (*self.by, *(["system"] if self.system is not None else []))

    @property
    def named(self) -> dict[str, tuple[str, str]]:
        """Our names of the slice columns, each with its role and the user's name."""
        found = {f"by_{i}": ("by", b) for i, b in enumerate(self.by)}
        return found | ({"system": ("system", self.system)} if self.system is not None else {})

    def check(self, own: Collection[str]) -> None:
        """Refuse slice columns that are named twice, or like a column of the result."""
        if problems := slice_problems(self.names, own):
            raise all_problems(problems, where="The call")


TOGETHER = Apart()
"""Nothing is kept apart."""


class Shown(Protocol):
    """What some users were shown: a row per user."""

    @property
    def rows(self) -> Ints: ...
    @property
    def lengths(self) -> Ints: ...
    @property
    def items(self) -> Ints: ...
    @property
    def values(self) -> Floats: ...


class Scores(Protocol):
    """Checked scores. `user_ids` and `item_ids` are None where users and items are numbered from 0."""

    @property
    def users(self) -> int: ...
    @property
    def items(self) -> int: ...
    @property
    def facts(self) -> Facts: ...
    @property
    def truth_facts(self) -> Facts | None: ...
    @property
    def origin(self) -> str: ...
    @property
    def backend(self) -> str: ...

    def blocks(self) -> Iterator[Block]:
        """All users in order, a bounded number of scores at a time."""
        ...

    def labels(self, user_groups: Any) -> Any:
        """The group of every user, in order, as a Polars series; null is unknown."""
        ...

    def parts(self) -> list[tuple[tuple[Any, ...], Scores]]:
        """The scores of every slice under its labels; all of them under none where nothing is kept apart."""
        ...

    def handed_out(self, shown: Iterator[tuple[tuple[Any, ...], Scores, Iterator[tuple[int, Shown]]]]) -> Any:
        """What was shown to whom, slice by slice, in the form the scores came in."""
        ...


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
    role: str

    @classmethod
    def of(cls, data: Any, role: str) -> Matrix:
        origin = "a matrix"
        if isinstance(data, (str, Path)):
            data, origin = _load(str(data), role), str(data)
        if is_sparse(data):
            data = _sound(data, role)
            origin = "a sparse matrix" if origin == "a matrix" else origin
        else:
            data = _dense(data, role)
        if data.dtype.kind not in "uifb":
            raise EvenhandError(f"{role} holds {data.dtype} values, not numbers. Pass scores as numbers.")
        return cls(data, origin, role)

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.data.shape[0]), int(self.data.shape[1])

    @property
    def sparse(self) -> bool:
        return is_sparse(self.data)

    def rows(self, start: int, stop: int) -> Floats | Rows:
        """Some users, in float64."""
        if not self.sparse:
            return np.asarray(self.data[start:stop], dtype=np.float64)
        pointers = self.data.indptr[start : stop + 1].astype(np.int64)
        at = slice(int(pointers[0]), int(pointers[-1]))
        items, values = self.data.indices[at].astype(np.int64), self.data.data[at].astype(np.float64)
        if not self.data.has_sorted_indices:
            row = np.repeat(np.arange(stop - start), np.diff(pointers))
            order = np.argsort(row * self.shape[1] + items, kind="stable")
            items, values = items[order], values[order]
        return Rows(pointers - pointers[0], items, values)

    def spans(self, other: Matrix | None) -> Iterator[tuple[int, int]]:
        """Runs of users with a bounded number of scores between them."""
        users = self.shape[0]
        edges = np.zeros(users + 1, dtype=np.int64)
        for matrix in (self, other):
            if matrix is not None:
                edges += matrix.data.indptr if matrix.sparse else np.arange(users + 1) * matrix.shape[1]
        yield from spans(edges)

    def facts(self) -> Facts:
        """Range and kind of the scores, a block at a time."""
        cells, low, high, masked, bits = 0, np.inf, -np.inf, 0, True
        for start, stop in self.spans(None):
            raw = self._raw(start, stop)
            if raw.dtype.kind == "f":
                if np.isposinf(raw).any():
                    raise EvenhandError(
                        f"{self.role} holds infinite values. Pass finite scores; NaN marks a missing one."
                    )
                masked += int((raw == -np.inf).sum())
                raw = raw[np.isfinite(raw)]
            cells += raw.size
            if raw.size:
                low, high = min(low, float(raw.min())), max(high, float(raw.max()))
                bits = bits and bool(((raw == 0) | (raw == 1)).all())
        users, items = self.shape
        return Facts(cells, cells, low, high, masked, binary=bits and cells == users * items)

    def _raw(self, start: int, stop: int) -> Any:
        if not self.sparse:
            return np.asarray(self.data[start:stop])
        return self.data.data[int(self.data.indptr[start]) : int(self.data.indptr[stop])]


@dataclass(frozen=True)
class MatrixScores:
    """Scores as a matrix, with a truth of the same shape."""

    scores: Matrix
    truth: Matrix | None
    facts: Facts
    truth_facts: Facts | None
    columns: Mapping[str, str | None]
    backend: str = "polars"

    @classmethod
    def of(cls, scores: Any, relevant: Any, columns: Mapping[str, str | None]) -> MatrixScores:
        matrix = Matrix.of(scores, "scores")
        truth = None if relevant is None else Matrix.of(relevant, "relevant")
        if truth is not None and truth.shape != matrix.shape:
            raise EvenhandError(
                f"relevant has shape {truth.shape} and scores {matrix.shape}. Pass one truth per score."
            )
        return cls(matrix, truth, matrix.facts(), None if truth is None else truth.facts(), columns)

    @property
    def users(self) -> int:
        return self.scores.shape[0]

    @property
    def items(self) -> int:
        return self.scores.shape[1]

    @property
    def origin(self) -> str:
        return self.scores.origin

    def blocks(self) -> Iterator[Block]:
        for start, stop in self.scores.spans(self.truth):
            truth = None if self.truth is None else self.truth.rows(start, stop)
            yield Block(start, self.scores.rows(start, stop), truth)

    def labels(self, user_groups: Any) -> Any:
        from evenhand.views.usergroups import labels_of_rows

        return labels_of_rows(user_groups, self.users, user=str(self.columns["user"]), group=str(self.columns["group"]))

    def parts(self) -> list[tuple[tuple[Any, ...], Scores]]:
        return [((), self)]

    def handed_out(self, shown: Iterator[tuple[tuple[Any, ...], Scores, Iterator[tuple[int, Shown]]]]) -> Any:
        ((_, _, blocks),) = shown
        if not self.scores.sparse:
            out = np.zeros(self.scores.shape)
            for first, rows in blocks:
                out[first + rows.rows, rows.items] = rows.values
            return out
        from scipy.sparse import csr_array

        parts = [rows for _, rows in blocks]
        indptr = np.concatenate(
            [[0], np.cumsum(np.concatenate([p.lengths for p in parts] or [np.zeros(0, dtype=np.int64)]))]
        )
        return csr_array(
            (_joined([p.values for p in parts]), _joined([p.items for p in parts]).astype(np.int64), indptr),
            shape=self.scores.shape,
        )


def spans(edges: Ints, most: int = 0) -> Iterator[tuple[int, int]]:
    """Runs of users, given how many scores come before each: at least one user, at most so many scores (or a block)."""
    users, start = len(edges) - 1, 0
    while start < users:
        stop = int(np.searchsorted(edges, edges[start] + (most or BLOCK_CELLS), side="right")) - 1
        stop = min(max(stop, start + 1), users)
        yield start, stop
        start = stop


def _joined(parts: list[Floats] | list[Ints]) -> Any:
    return np.concatenate(parts) if parts else np.zeros(0)


def _dense(data: Any, role: str) -> Any:
    if isinstance(data, np.ma.MaskedArray):
        data = np.ma.filled(data.astype(np.float64), np.nan)
    try:
        matrix = np.asarray(data)
        if matrix.dtype.kind == "O":
            matrix = np.array(
                [[np.nan if v is None else float(v) for v in row] for row in matrix.tolist()], dtype=np.float64
            )
    except (TypeError, ValueError) as error:
        raise EvenhandError(
            f"{role} must be a matrix of numbers. Pass one row per user and one column per item."
        ) from error
    if matrix.ndim != 2:
        raise EvenhandError(
            f"{role} has shape {matrix.shape}. Pass two dimensions: one row per user and one column per item."
        )
    return matrix


def _sound(matrix: Any, role: str) -> Any:
    """A sparse matrix by rows whose places lie inside it: scipy believes whatever it is given."""
    try:
        found = matrix.tocsr()
        found.check_format(full_check=True)
    except (ValueError, TypeError, IndexError) as error:
        raise EvenhandError(
            f"{role} is a sparse matrix with places that are not in it. Build it again, with scipy.sparse.csr_array."
        ) from error
    return found


def _load(path: str, role: str) -> Any:
    """A matrix from .npy, from .npz with one array or one called after its role, or from scipy's save_npz."""
    try:
        if path.endswith(".npy"):
            return np.load(path, allow_pickle=False, mmap_mode="r")
        with np.load(path, allow_pickle=False) as held:
            names = list(held.files)
            if {"format", "shape", "data"} <= set(names):
                from scipy.sparse import load_npz

                return load_npz(path)
            if role in names or len(names) == 1:
                return held[role if role in names else names[0]]
    except (OSError, ValueError, EOFError, TypeError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise EvenhandError(
            f"{role}={path!r} cannot be read ({error}). Write it with numpy.savez or scipy.sparse.save_npz."
        ) from error
    raise EvenhandError(f"{role}={path!r} holds several arrays: {listing(names)}. Call one of them {role!r}.")


def view_scores(
    scores: Any,
    relevant: Any,
    *,
    columns: Mapping[str, str | None],
    items: Any,
    user_groups: Any,
    apart: Apart = TOGETHER,
    thinning: Thinning | None = None,
) -> Scores:
    """The scores and the truth, checked; `columns` names the roles of a long table, `apart` what it is sliced by.

    `thinning` says which scores of a long table are wanted at all, where that is known and there are many.
    """
    if is_matrix(scores):
        if apart:
            raise EvenhandError(
                "by and system name columns, and scores is a matrix, which has none. Pass a table of user, item and score, "
                "or call recommender once for each matrix."
            )
        if relevant is not None and not is_matrix(relevant):
            raise EvenhandError("scores is a matrix and relevant a table. Pass both in the same form.")
        if items is not None:
            raise EvenhandError("items is the number of columns of scores when that is a matrix. Leave items out.")
        return MatrixScores.of(scores, relevant, columns)
    if relevant is not None and is_matrix(relevant):
        raise EvenhandError("scores is a table and relevant a matrix. Pass both in the same form.")
    from evenhand.views.scoretables import TableScores

    return TableScores.of(
        scores, relevant, columns=columns, items=items, user_groups=user_groups, apart=apart, thinning=thinning
    )
