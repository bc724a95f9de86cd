"""Which group each user belongs to: labels per row, a mapping, a table, or a column of the scores."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np

from evenhand.errors import EvenhandError, all_problems, listing, suggestion
from evenhand.labels import missing, whole
from evenhand.sources.files import has_known_ending
from evenhand.sources.labels import Labels, labels_from_columns, labels_from_mapping
from evenhand.sources.opening import open_table
from evenhand.sources.relation import Relation, Type, fits_int64
from evenhand.sources.roles import label_problems, missing_columns

REMEDY = "Pass a label per row, {user: label}, or a table of users and groups."


def labels_of_rows(user_groups: Any, users: int, *, user: str, group: str) -> Any:
    """The group of each row of a matrix as a Polars series; users are numbered from 0, and null is unknown."""
    import polars as pl

    if not _is_table(user_groups) and not isinstance(user_groups, Mapping):
        labels = plain_labels(series("user_groups", user_groups))
        if len(labels) != users:
            raise EvenhandError(f"user_groups has {len(labels):,} labels for {users:,} users. {REMEDY}")
        return labels
    if not isinstance(user_groups, Mapping):
        opened = open_table(user_groups, role="user_groups", columns=[user, group])
        if user not in opened.schema and group in opened.schema:
            in_order = opened.engine.cells(opened.select({"label": opened.column(group)})).frame["label"]
            return labels_of_rows(in_order, users, user=user, group=group)
        user_groups = opened
    table = users_and_labels(user_groups, user=user, group=group)
    table = table if table.height else table.with_columns(pl.col("owner").cast(pl.Int64, strict=False))
    if table.height and not table["owner"].dtype.is_integer():
        raise EvenhandError("user_groups names users, but the rows of scores are numbered from 0. " + REMEDY)
    outside = table.filter((pl.col("owner") < 0) | (pl.col("owner") >= users))["owner"].to_list()
    if outside:
        raise EvenhandError(
            f"user_groups has users that scores has not: {listing(outside)}. Rows of scores are numbered from 0."
        )
    rows, table = pl.DataFrame({"owner": np.arange(users)}), table.with_columns(pl.col("owner").cast(pl.Int64))
    return rows.join(table, on="owner", how="left", maintain_order="left")["label"]


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
    if problems := missing_columns(opened, [("user", user), ("group", group)], of="user_groups"):
        raise all_problems(problems)
    return labels_in_columns(opened, user, group)


def labels_in_columns(opened: Relation, user: str, group: str) -> Any:
    """Two columns of a table as users and their groups, those of nobody left out; a user with two labels is an error."""
    if problems := label_problems("user", user, opened):
        raise all_problems(problems)
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


def series(role: str, values: Any) -> Any:
    """Plain values as a Polars series of one type."""
    import polars as pl

    if hasattr(values, "__narwhals_series__") or type(values).__module__.split(".")[0] in ("pandas", "pyarrow"):
        values = nw.from_native(values, series_only=True).to_list()
    elif isinstance(values, np.ndarray):
        values = values.tolist()
    try:
        return (
            values
            if isinstance(values, pl.Series)
            else pl.Series([None if missing(v) else v for v in values], strict=True)
        )
    except TypeError as error:
        raise EvenhandError(f"{role} mixes values of different types. Make them all text, or all numbers.") from error


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
    if isinstance(data, (str, Path, Relation)):
        return True
    if isinstance(data, (list, tuple)):  # several files, as of any table; other lists have a label per row
        return bool(data) and all(isinstance(d, Path) or (isinstance(d, str) and has_known_ending(d)) for d in data)
    try:
        nw.from_native(data)
    except TypeError:
        return False
    return True


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
