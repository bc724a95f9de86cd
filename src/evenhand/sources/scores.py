"""Scores of users for items, checked: a matrix, a sparse one, or a long table, with the truth, the catalogue and user groups.

Whatever they come in, they are one query: a row per user and item with whole-number codes for both.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt

from evenhand.cards import is_whole
from evenhand.errors import EvenhandError, listing, refuse_problems, suggestion
from evenhand.labels import listed, missing, whole
from evenhand.sources.engine import DuckDBEngine, Engine
from evenhand.sources.inputs import record_files, record_frame, record_rows
from evenhand.sources.labels import Labels, labels_from_columns, labels_from_mapping
from evenhand.sources.opening import native, open_table
from evenhand.sources.relation import (
    Periods,
    Relation,
    Type,
    fits_int64,
    in_periods,
    label_problems,
    missing_columns,
    relation_of,
    role_problems,
    slice_problems,
)
from evenhand.sources.sql import columns, count_where, double, quoted

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
            cells = self.data.tocoo()
            yield frame(cells.row, cells.col, cells.data)
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


REMEDY = "Pass a label per row, {user: label}, or a table of users and groups."


def labels_of_rows(user_groups: Any, users: int, *, user: str, group: str) -> Any:
    """The `owner` (numbered from 0) and `label` of each row of a matrix as a Polars frame; null is unknown."""
    import polars as pl

    rows = pl.DataFrame({"owner": np.arange(users)})
    if _is_table(user_groups):
        user_groups = open_table(user_groups, role="user_groups", columns=[user, group])
        if user not in user_groups.schema and group in user_groups.schema:  # a label per row, in a file
            in_order = user_groups.select({"label": user_groups.column(group)})
            user_groups = user_groups.engine.cells(in_order).frame["label"]
    if not isinstance(user_groups, (Mapping, Relation)):
        labels = plain_labels(_series(user_groups))
        if len(labels) != users:
            raise EvenhandError(f"user_groups has {len(labels):,} labels for {users:,} users. {REMEDY}")
        return rows.with_columns(labels.alias("label"))
    table = users_and_labels(user_groups, user=user, group=group)
    numbers = table["owner"].cast(pl.Int64, strict=False)
    outside = table["owner"].filter(~numbers.is_between(0, users - 1).fill_null(value=False)).to_list()
    if outside:
        raise EvenhandError(
            f"user_groups has users that scores has not: {listing(outside)}. Rows of scores are numbered from 0."
        )
    return rows.join(table.with_columns(numbers), on="owner", how="left", maintain_order="left")


def users_and_labels(user_groups: Any, *, user: str, group: str) -> Any:
    """Users and their groups as a Polars frame with columns `owner` and `label`, one row per user."""
    if isinstance(user_groups, Mapping):
        if any(isinstance(label, Mapping) for label in user_groups.values()):
            raise EvenhandError(f"user_groups shares users among groups, and each has one label here. {REMEDY}")
        return _owners(labels_from_mapping(user_groups, "user_groups"))
    if not _is_table(user_groups):
        raise EvenhandError(
            "user_groups has a label per row, but a long table has no order of users. Pass {user: label} or a table."
        )
    opened = open_table(user_groups, role="user_groups", columns=[user, group])
    refuse_problems(missing_columns(opened, [("user", user), ("group", group)], of="user_groups"))
    return labels_in_columns(opened, user, group)


def labels_in_columns(opened: Relation, user: str, group: str) -> Any:
    """Two columns of a table as users and their groups, those of nobody left out; a user with two labels is an error."""
    refuse_problems(label_problems("user", user, opened))
    opened = opened.with_whole_ids(user)
    return _owners(labels_from_columns(opened.with_column(user, *id_of(opened, user)), user, group, "user_groups"))


def _owners(labels: Labels) -> Any:
    frame = labels.relation.engine.cells(f"SELECT item AS owner, label FROM {labels.relation.name}").frame
    return frame.with_columns(plain_labels(frame["label"]))


def id_of(table: Relation, name: str) -> tuple[str, Type]:
    """SQL and type of a column of ids: whole numbers as BIGINT, text as text, NaN as NULL, so that ids of tables compare."""
    kind = table.schema[name]
    if kind.is_integer() and fits_int64(kind):
        return f"CAST({table.column(name)} AS BIGINT)", nw.Int64()
    return table.label(name), table.label_type(name)


def _series(labels: Any) -> Any:
    """Labels as a Polars series of one type."""
    import polars as pl

    try:
        return pl.Series([None if missing(label) else label for label in listed(labels)], strict=True)
    except TypeError as error:
        raise EvenhandError(
            "user_groups mixes values of different types. Make them all text, or all numbers."
        ) from error


def plain_labels(labels: Any) -> Any:
    """Labels with NaN as missing, categories as text, and whole numbers with gaps as whole numbers."""
    import polars as pl

    if labels.dtype in (pl.Categorical, pl.Enum):
        return labels.cast(pl.String)
    if not labels.dtype.is_float():
        return labels
    values = labels.fill_nan(None)
    fractions = any(isinstance(g, float) for g in whole(values.unique().to_list()))
    return values if fractions else values.cast(pl.Int64)


def _is_table(data: Any) -> bool:
    return isinstance(data, (str, Path, Relation)) or nw.from_native(data, pass_through=True) is not data


def group_column(user_groups: Any, names: list[str]) -> str | None:
    """The column of the scores that `user_groups` names, if it names one."""
    if not isinstance(user_groups, str):
        return None
    if user_groups in names:
        return user_groups
    if Path(user_groups).suffix:
        return None
    raise EvenhandError(
        f"user_groups={user_groups!r} is neither a column of scores nor a file. {suggestion(user_groups, names)}Columns: {listing(names)}."
    )


Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

MOST_ITEMS = 2**31
"""Items are counted one by one in some figures; more of them than this fit into no memory."""


@dataclass(frozen=True, slots=True)
class Facts:
    """How many rows and finite scores there are, their range, and whether all cells are there and 0 or 1."""

    rows: int = 0
    cells: int = 0
    low: float = np.inf
    high: float = -np.inf
    is_binary: bool = True


@dataclass(frozen=True, slots=True)
class SliceColumns:
    """Slice columns of a long table of scores, and the column of the recommender."""

    by: tuple[str, ...] = ()
    system: str | None = None
    periods: tuple[Periods, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.by or self.system)

    @property
    def names(self) -> tuple[str, ...]:
        """The slice columns of the result; the system is always called system."""
        return (*self.by, *(["system"] if self.system is not None else []))

    @property
    def roles(self) -> dict[str, tuple[str, str]]:
        """Our names of the slice columns, each with its role and the user's name."""
        named = {f"by_{i}": ("by", b) for i, b in enumerate(self.by)}
        return named | ({"system": ("system", self.system)} if self.system is not None else {})

    def check(self, result_columns: Collection[str]) -> None:
        refuse_problems(slice_problems(self.names, result_columns), where="The call")


@dataclass(frozen=True, slots=True)
class Slice:
    """One slice of the scores, with its users and items.

    Attributes
    ----------
    where : labels of the slice.
    users, items : where they stand among the ids of all slices, rising; their number in the slice is their place here.
    unlisted : items of the catalogue beyond those, which have no id.
    facts, truth_facts : of the scores and of the truth.
    """

    where: tuple[Any, ...]
    users: Ints
    items: Ints
    unlisted: int
    facts: Facts
    truth_facts: Facts | None

    @property
    def user_count(self) -> int:
        return len(self.users)

    @property
    def item_count(self) -> int:
        return len(self.items) + self.unlisted


@dataclass(frozen=True)
class Scores:
    """Checked scores: a query of all rows, and what its codes stand for.

    Attributes
    ----------
    query : rows of `owner` (a number for every slice and user, slices one after the other), `is_truth`, `item` (its place among
        all ids) and `value`, in no order.
    user_ids, item_ids : Polars series, in order.
    labels : the group of every user as a Polars series, null where unknown; None where no groups were named.
    """

    engine: Engine
    query: str
    slices: Sequence[Slice]
    user_ids: Any
    item_ids: Any
    labels: Any
    column_names: tuple[str, str]
    sliced_by: SliceColumns
    backend: str
    facts: Facts
    matrix: Matrix | None = None

    def group_codes(self) -> tuple[Ints, list[Any]]:
        """Which of the labels every user has, and these labels; -1 where the group is unknown."""
        import polars as pl

        distinct = self.labels.unique().drop_nulls()
        coded = pl.DataFrame({"label": distinct, "code": np.arange(len(distinct))})
        joined = self.labels.alias("label").to_frame().join(coded, on="label", how="left", maintain_order="left")
        return joined["code"].fill_null(-1).to_numpy(), distinct.to_list()

    def item_name(self, part: Slice, item: int) -> str:
        return str(self.item_ids[int(part.items[item])])

    def repeated(self, role: str, more: int, owner: int, item: int) -> EvenhandError:
        """That a user has several scores for an item, given how many too many and the first by its codes."""
        ends = np.cumsum([part.user_count for part in self.slices])
        at = int(np.searchsorted(ends, owner, side="right"))
        part = self.slices[at]
        user = self.user_ids[int(part.users[owner - (int(ends[at]) - part.user_count)])]
        return EvenhandError(
            f"{role} has {more:,} rows for a user and item that already had one (first: user {user!r}, item "
            f"{self.item_ids[item]!r}). "
            "Keep one row for each, or name the column that tells them apart: by or system."
        )

    def shown(self, lists: Iterable[Any]) -> Any:
        """Items shown to each user, slice by slice, as a table or matrix like the scores.

        `lists` are those of the users of a slice, end to end: their `lengths`, `items`, and each item's part of a slot (`parts`).
        """
        import polars as pl

        if self.matrix is not None:
            return self._shown_matrix(next(iter(lists)))
        user, item = self.column_names
        frames = []
        for part, shown in zip(self.slices, lists, strict=True):
            where = zip(self.sliced_by.names, part.where, strict=True)
            columns: dict[str, Any] = {name: [label] * len(shown.items) for name, label in where}
            columns[user] = self.user_ids.gather(np.repeat(part.users, shown.lengths))
            columns[item] = self._ids_of(part, shown.items)
            columns["shown"] = shown.parts
            frames.append(pl.DataFrame(columns))
        if not frames:
            frames = [pl.DataFrame({user: self.user_ids.head(0), item: self.item_ids.head(0), "shown": np.zeros(0)})]
        return native(pl.concat(frames, how="vertical_relaxed"), self.backend)

    def _ids_of(self, part: Slice, items: npt.NDArray[Any]) -> Any:
        beyond = items >= len(part.items)
        if not beyond.any():
            return self.item_ids.gather(part.items[items])
        places = np.append(part.items, len(self.item_ids))[np.where(beyond, len(part.items), items)]
        return self.item_ids.extend_constant(None, 1).gather(places)

    def _shown_matrix(self, lists: Any) -> Any:
        matrix: Any = self.matrix
        if matrix.is_sparse:
            from scipy.sparse import csr_array

            starts = np.append(0, np.cumsum(lists.lengths, dtype=np.int64))
            return csr_array((lists.parts, lists.items.astype(np.int64), starts), shape=matrix.shape)
        shown = np.zeros(matrix.shape)
        shown[np.repeat(np.arange(len(lists.lengths)), lists.lengths), lists.items] = lists.parts
        return shown


def open_scores(
    scores: Any,
    relevant: Any,
    *,
    names: Mapping[str, str | None],
    items: Any,
    user_groups: Any,
    sliced_by: SliceColumns,
) -> Scores:
    """The scores and the truth, checked; `names` has the columns of a long table by their roles."""
    forms = {True: "matrix", False: "table"}
    if relevant is not None and is_matrix(scores) != is_matrix(relevant):
        raise EvenhandError(
            f"scores is a {forms[is_matrix(scores)]} and relevant a {forms[is_matrix(relevant)]}. Pass both in the same form."
        )
    if not is_matrix(scores):
        return _from_tables(scores, relevant, names, items, user_groups, sliced_by)
    if sliced_by:
        raise EvenhandError(
            "by and system name columns, and scores is a matrix, which has none. Pass a table of user, item and score, "
            "or call recommender once for each matrix."
        )
    if items is not None:
        raise EvenhandError("items is the number of columns of scores when that is a matrix. Leave items out.")
    return _from_matrices(scores, relevant, names, user_groups)


@dataclass(frozen=True)
class LongTable:
    """A checked long table: SQL of its users, items and values, and of the columns that it is sliced by."""

    relation: Relation
    role: str
    names: tuple[str, str]
    ids: Mapping[str, tuple[str, Type]]
    """SQL and type of `owner` and `item`."""
    value: str
    slices: Mapping[str, str]
    missing_word: str = "a missing one is null or NaN"

    @property
    def rows(self) -> str:
        """A query for owner, item, value and the slice columns."""
        ids = {name: expression for name, (expression, _) in self.ids.items()}
        return self.relation.select({**ids, "value": self.value, **self.slices})

    def with_text_ids(self, name: str) -> LongTable:
        """The table with users or items that are whole numbers as text."""
        expression, kind = self.ids[name]
        as_text = (f"CAST({expression} AS VARCHAR)", nw.String())
        return replace(self, ids={**self.ids, name: as_text}) if kind.is_integer() else self

    def distinct(self, name: str) -> Any:
        query = f"SELECT {name} FROM ({self.rows}) AS long_table GROUP BY {name}"
        return self.relation.engine.cells(query).frame[name]


def open_long_table(
    table: Any, role: str, user: str, item: str, value: str | None, slices: Mapping[str, tuple[str, str]], more: Sequence[str] = (),
    periods: Sequence[Periods] = (),
) -> LongTable:  # fmt: skip
    """A long table with its roles checked; without a column of values every row is worth 1."""
    needed = [user, item, value, *(column for _, column in slices.values()), *more]
    opened = in_periods(open_table(table, role=role, columns=needed), periods)
    opened = opened.with_numbers(value).with_whole_ids(user, item)
    roles = [("user", user), ("item", item), *slices.values()]
    roles += [("score" if role == "scores" else "relevance", value)] if value else []
    problems = role_problems(opened, roles, ("score", "relevance"), of=role)
    if user not in opened.schema and item not in opened.schema:
        problems.append(f"{role} may be a matrix with a row per user. Then pass its values: {role}.to_numpy().")
    refuse_problems(problems, where="The call")
    ids = {"owner": id_of(opened, user), "item": id_of(opened, item)}
    labels = {name: opened.label(column) for name, (_, column) in slices.items()}
    return LongTable(opened, role, (user, item), ids, opened.number(value) if value else double(1), labels)


def _from_matrices(scores: Any, relevant: Any, names: Mapping[str, str | None], user_groups: Any) -> Scores:
    """Matrices as long tables of their cells; every row is a user and every column an item, whether or not they have a cell."""
    import polars as pl

    matrix = Matrix.from_data(scores, "scores")
    truth = None if relevant is None else Matrix.from_data(relevant, "relevant")
    if truth is not None and truth.shape != matrix.shape:
        raise EvenhandError(f"relevant has shape {truth.shape} and scores {matrix.shape}. Pass one truth per score.")
    engine, user, item = DuckDBEngine(), str(names["user"]), str(names["item"])
    tables = []
    for part, role in ((matrix, "scores"), (truth, "relevant")):
        if part is not None:
            cells = part.relation(engine)
            ids = {"owner": id_of(cells, "user"), "item": id_of(cells, "item")}
            tables.append(LongTable(cells, role, (user, item), ids, quoted("score"), {}, "NaN marks a missing one"))
    users = pl.DataFrame({"owner": np.arange(matrix.shape[0])})
    if user_groups is not None:
        users = labels_of_rows(user_groups, matrix.shape[0], user=user, group=str(names["group"]))
    catalogue = pl.Series("item", np.arange(matrix.shape[1]))
    opened = _sliced(tables[0], tables[1] if truth is not None else None, users, catalogue, SliceColumns())
    return replace(opened, matrix=matrix)


def _from_tables(
    scores: Any, relevant: Any, names: Mapping[str, str | None], items: Any, user_groups: Any, sliced_by: SliceColumns
) -> Scores:
    user, item = str(names["user"]), str(names["item"])
    in_scores = [user_groups] if isinstance(user_groups, str) and "." not in user_groups else []
    table = open_long_table(
        scores, "scores", user, item, names["score"], sliced_by.roles, more=in_scores, periods=sliced_by.periods
    )
    truth = None
    if relevant is not None:
        opened = open_table(relevant, role="relevant", same_engine_as=table.relation)
        by = {name: role for name, role in sliced_by.roles.items() if role[0] == "by"}
        by = by if all(column in opened.schema for _, column in by.values()) else {}
        column = _relevance_column(opened, names, {*sliced_by.by} if by else set())
        truth = open_long_table(opened, "relevant", user, item, column, by, periods=sliced_by.periods)
    labelled, group = None, group_column(user_groups, table.relation.names)
    if group is not None:
        labelled = labels_in_columns(table.relation, user, group)
    elif user_groups is not None:
        labelled = users_and_labels(user_groups, user=user, group=str(names["group"]))
    if items is not None and not is_whole(items, 0, MOST_ITEMS):
        raise EvenhandError(
            f"items={items!r} is not the size of a catalogue. Pass how many items there are, at most {MOST_ITEMS:,}."
        )
    return _sliced(*_comparable(table, truth, labelled), items, sliced_by)


def _sliced(table: LongTable, truth: LongTable | None, labelled: Any, items: Any, sliced_by: SliceColumns) -> Scores:
    """Slices with their users and items, and the query of all rows with codes in place of ids.

    `labelled` is a frame of users (`owner`), with their `label` where groups were named; `items` the ids of the catalogue as a
    series, its size, or None where only what was seen counts.
    """
    import polars as pl

    engine = table.relation.engine
    where, slice_table = _slice_labels(table, sliced_by)
    rows = [_with_slice(table, sliced_by, slice_table)]
    facts = [_facts_of(table, rows[0])]
    members: dict[str, Any] = _members(engine, rows[0])
    ids = {name: [members[name]["id"].unique()] for name in members}
    if truth is not None:
        _facts_of(truth, f"SELECT 0 AS slice, * FROM ({truth.rows}) AS long_table")  # rows of no slice are refused too
        rows.append(_with_slice(truth, sliced_by, slice_table, members["owner"]))
        facts.append(_facts_of(truth, rows[1]))
        for name, of_truth in _members(engine, rows[1]).items():
            ids[name].append(truth.distinct(name))
            members[name] = _concatenated([members[name], of_truth])
    users = _union("user", [*ids["owner"], *([labelled["owner"]] if labelled is not None else [])])
    if labelled is not None:
        labelled = labelled.with_columns(pl.col("owner").cast(users.dtype, strict=False))
        if not sliced_by.by:
            slices = pl.DataFrame({"slice": np.arange(len(where), dtype=np.int32)})
            everyone = slices.join(labelled.select(id="owner"), how="cross")
            members["owner"] = _concatenated([members["owner"], everyone])
    catalogue, unlisted = _catalogue(items, ids["item"], members["item"], len(where))
    labels = None
    if labelled is not None and "label" in labelled.columns:
        labels = users.alias("owner").to_frame().join(labelled, on="owner", how="left", maintain_order="left")["label"]
    owners = _coded(members["owner"], users)
    user_places, item_places = _places(owners, len(where)), [np.arange(len(catalogue))] * len(where)
    if not isinstance(items, pl.Series):
        item_places = _places(_coded(members["item"], catalogue), len(where))
    totals = [sum(getattr(f, name) for f in facts[0].values()) for name in ("rows", "cells")]
    return Scores(
        engine, _query(engine, rows, owners, catalogue, several=len(where) > 1),
        _slices(where, user_places, item_places, unlisted, facts), users, catalogue, labels, table.names, sliced_by,
        table.relation.backend, Facts(*totals),
    )  # fmt: skip


def _coded(members: Any, ids: Any) -> Any:
    """Members of slices with their `place` among the ids, in order."""
    import polars as pl

    places = pl.DataFrame({"id": ids, "place": np.arange(len(ids))})
    members = members.with_columns(pl.col("id").cast(ids.dtype, strict=False)).unique()
    return members.join(places, on="id", how="inner").sort("slice", "place")


def _places(coded: Any, slices: int) -> list[Ints]:
    ends = np.searchsorted(coded["slice"].to_numpy(), np.arange(1, slices))
    return np.split(coded["place"].to_numpy(), ends) if slices else []


def _slices(
    where: Sequence[tuple[Any, ...]], user_places: Sequence[Ints], item_places: Sequence[Ints], unlisted: Sequence[int],
    facts: Sequence[Mapping[int, Facts]],
) -> list[Slice]:  # fmt: skip
    slices = []
    for i, (labels, users, items) in enumerate(zip(where, user_places, item_places, strict=True)):
        cells = len(users) * (len(items) + unlisted[i])
        of_slice = [f.get(i, Facts()) for f in facts]
        of_slice = [replace(f, is_binary=f.is_binary and f.cells == cells) for f in of_slice]
        slices.append(Slice(labels, users, items, unlisted[i], of_slice[0], of_slice[1] if len(facts) > 1 else None))
    return slices


def _query(engine: Engine, rows: Sequence[str], owners: Any, catalogue: Any, *, several: bool) -> str:
    """All rows of scores and truth, with the codes of their owners and items."""
    import polars as pl

    owner_codes = engine.bring(owners.select("slice", "id", pl.int_range(pl.len(), dtype=pl.Int32).alias("code")))
    item_codes = engine.bring({"id": catalogue, "code": np.arange(len(catalogue), dtype=np.int32)})
    # One slice needs no condition on it, from which an optimizer might conclude that owners meet things.
    in_slice = "owners.slice = scores.slice AND " if several else ""
    union = "\n            UNION ALL ".join(
        f"SELECT slice, owner, item, value, {flag} AS is_truth FROM ({part}) AS {name}"
        for part, flag, name in zip(rows, ("FALSE", "TRUE"), ("scored", "relevant"), strict=False)
    )
    return f"""
        SELECT owners.code AS owner, scores.is_truth, things.code AS item, scores.value
        FROM (
            {union}
        ) AS scores
        JOIN {owner_codes} AS owners ON {in_slice}owners.id = scores.owner
        JOIN {item_codes} AS things ON things.id = scores.item
    """


def _slice_labels(table: LongTable, sliced_by: SliceColumns) -> tuple[list[tuple[Any, ...]], str]:
    """The labels of all slices, in order, the missing ones last, and the name of a table with their codes."""
    import polars as pl

    if not sliced_by:
        return [()], ""
    listed = columns(table.slices)
    engine = table.relation.engine
    frame = engine.cells(f"SELECT {listed} FROM ({table.rows}) AS long_table GROUP BY {listed}").frame
    frame = frame.sort(list(table.slices), nulls_last=True)
    name = engine.bring(frame.with_columns(pl.int_range(pl.len(), dtype=pl.Int32).alias("slice")))
    where = zip(*(whole(frame[column].to_list()) for column in table.slices), strict=True)
    return list(where), name


def _with_slice(table: LongTable, sliced_by: SliceColumns, slice_table: str, members: Any = None) -> str:
    """Rows with the code of their slice.

    A truth without the slice columns is in the slices of its users (`members`), or in all where systems alone are sliced by.
    """
    join = ""
    if table.slices:
        matching = " AND ".join(f"long_table.{quoted(c)} IS NOT DISTINCT FROM slices.{quoted(c)}" for c in table.slices)
        join = f" JOIN {slice_table} AS slices ON {matching}"
    elif sliced_by.by:
        join = f" JOIN {table.relation.engine.bring(members)} AS slices ON slices.id = long_table.owner"
    elif sliced_by:
        join = f" CROSS JOIN {slice_table} AS slices"
    number = "slices.slice" if sliced_by else "0 AS slice"
    return (
        f"SELECT {number}, long_table.owner, long_table.item, long_table.value FROM ({table.rows}) AS long_table{join}"
    )


def _members(engine: Engine, rows: str) -> dict[str, Any]:
    """The users and the items of every slice, as frames of `slice` and `id`."""
    import polars as pl

    members = {}
    for name in ("owner", "item"):
        query = f"SELECT slice, {name} AS id FROM ({rows}) AS sliced GROUP BY slice, {name}"
        members[name] = engine.cells(query).frame.with_columns(pl.col("slice").cast(pl.Int32))
    return members


def _concatenated(frames: Sequence[Any]) -> Any:
    """Frames of `slice` and `id`, those without rows left out: nobody's ids may have any type."""
    import polars as pl

    filled = [frame for frame in frames if frame.height] or [frames[0]]
    return pl.concat(filled) if len({frame.schema["id"] for frame in filled}) == 1 else filled[0]


def _facts_of(table: LongTable, rows: str) -> dict[int, Facts]:
    """Facts of every slice, by its code, in one query; missing users and items and infinite scores are refused."""
    finite = f"CASE WHEN value > {double(-np.inf)} THEN value END"
    cells = table.relation.engine.cells(f"""
        SELECT slice,
               COUNT(*) AS row_count,
               {count_where("owner IS NULL")} AS no_user,
               {count_where("item IS NULL")} AS no_item,
               COUNT({finite}) AS cell_count,
               COALESCE(MIN({finite}), {double(np.inf)}) AS low,
               COALESCE(MAX({finite}), {double(-np.inf)}) AS high,
               {count_where("value = 0 OR value = 1")} AS bits
        FROM ({rows}) AS sliced
        GROUP BY slice
    """)
    lacking = [
        (role, name, int(cells.integers(f"no_{role}").sum()))
        for role, name in zip(("user", "item"), table.names, strict=True)
    ]
    problems = [
        f"{role}={name!r} is missing in {count:,} rows of {table.role}. Remove these rows first."
        for role, name, count in lacking
        if count
    ]
    if (cells.floats("high") == np.inf).any():
        problems.append(f"{table.role} holds infinite values. Pass finite scores; {table.missing_word}.")
    refuse_problems(problems)
    names = ("slice", "row_count", "cell_count", "low", "high", "bits")
    return {
        int(number): Facts(int(row_count), int(count), float(low), float(high), is_binary=bits == count)
        for number, row_count, count, low, high, bits in cells.labels(names)
    }


def _relevance_column(relevant: Relation, names: Mapping[str, str | None], by: set[str]) -> str | None:
    """The column that says how relevant: as named, or called `relevance` or like the scores; none if there is no other column."""
    if names["relevance"] is not None:
        return names["relevance"]
    for name in ("relevance", names["score"]):
        if name in relevant.schema:
            return name
    rest = [n for n in relevant.schema if n not in (names["user"], names["item"], *by)]
    if rest:
        raise EvenhandError(
            f"relevant has columns {listing(relevant.schema)}, and none is called 'relevance'. Name it: relevance={rest[0]!r}."
        )
    return None


def _union(role: str, ids: list[Any]) -> Any:
    """All ids in order; ids of different types would never meet."""
    import polars as pl

    filled = [s for s in ids if len(s)] or ids[:1]
    kinds = {s.dtype for s in filled}
    if len(kinds) > 1:
        raise EvenhandError(
            f"{role} ids are of different types: {listing(sorted(map(str, kinds)))}. Make them the same type."
        )
    return pl.concat([s.alias("id") for s in filled]).unique().sort()


def _comparable(table: LongTable, truth: LongTable | None, labelled: Any) -> tuple[LongTable, LongTable | None, Any]:
    """Ids that compare: whole numbers become text where a text file, which has nothing else, holds the same ids."""
    import polars as pl

    for name in ("owner", "item"):
        kind = labelled["owner"].dtype if name == "owner" and labelled is not None and labelled.height else None
        if kind != pl.String and nw.String not in [t.ids[name][1] for t in (table, truth) if t is not None]:
            continue
        table, truth = table.with_text_ids(name), None if truth is None else truth.with_text_ids(name)
        if kind is not None and kind.is_integer():
            labelled = labelled.with_columns(pl.col("owner").cast(pl.String))
    return table, truth, labelled


def _catalogue(items: Any, seen: list[Any], members: Any, slices: int) -> tuple[Any, list[int]]:
    """The ids of items in order, and how many items of each slice's catalogue have none."""
    if items is not None and not is_whole(items):
        return items, [0] * slices
    everything = _union("item", seen)
    if items is None:
        return everything, [0] * slices
    if items < len(everything):
        raise EvenhandError(
            f"items={items:,} is smaller than the {len(everything):,} items in the table. Pass the size of the catalogue."
        )
    counts = dict(members.unique().group_by("slice").len().iter_rows())
    return everything, [int(items) - counts.get(i, 0) for i in range(slices)]
