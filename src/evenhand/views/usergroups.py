"""Which group each user belongs to: labels per row, a mapping, or a table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np

from evenhand.errors import EvenhandError, all_problems, listing, suggestion
from evenhand.labels import whole
from evenhand.sources.files import has_known_ending
from evenhand.views.columns import label, label_problems
from evenhand.views.labels import Alignment, few_rows, several_labels, view_labels
from evenhand.views.tables import Table, each_once, fits_int64, missing_columns, open_table, to_polars

REMEDY = "Pass a label per row, {user: label}, or a table of users and groups."


def labels_of_rows(user_groups: Any, users: int, *, user: str, group: str) -> Any:
    """The group of each row of a matrix; users are numbered from 0, and null is unknown."""
    import polars as pl

    if not _is_table(user_groups) and not isinstance(user_groups, Mapping):
        labels = clean(series("user_groups", user_groups))
        if len(labels) != users:
            raise EvenhandError(f"user_groups has {len(labels):,} labels for {users:,} users. {REMEDY}")
        return labels
    if not isinstance(user_groups, Mapping):
        names = (opened := open_table(user_groups, role="user_groups")).schema.names()
        if user not in names and group in names:
            return labels_of_rows(
                to_polars(opened.lazy.select(opened.col(group).alias("group")))["group"], users, user=user, group=group
            )
    table = table_of(user_groups, user=user, group=group)
    table = table if table.height else table.with_columns(pl.col("user").cast(pl.Int64, strict=False))
    if table.height and not table["user"].dtype.is_integer():
        raise EvenhandError("user_groups names users, but the rows of scores are numbered from 0. " + REMEDY)
    outside = table.filter((pl.col("user") < 0) | (pl.col("user") >= users))["user"].to_list()
    if outside:
        raise EvenhandError(
            f"user_groups has users that scores has not: {listing(outside)}. Rows of scores are numbered from 0."
        )
    rows = pl.DataFrame({"user": np.arange(users)})
    return rows.join(table.with_columns(pl.col("user").cast(pl.Int64)), on="user", how="left", maintain_order="left")[
        "group"
    ]


def table_of(user_groups: Any, *, user: str, group: str) -> Any:
    """Users and their groups as a Polars frame with columns `user` and `group`, one row per user."""
    if isinstance(user_groups, Mapping):
        return _of_mapping(user_groups)
    if not _is_table(user_groups):
        raise EvenhandError(
            "user_groups has a label per row, but a long table has no order of users. Pass {user: label} or a table."
        )
    opened = open_table(user_groups, role="user_groups")
    problems = missing_columns(opened, [("user", user), ("group", group)])
    if problems:
        raise all_problems([p.replace("column of the table", "column of user_groups") for p in problems])
    return users_and_groups(opened, user, group, "group")


def users_and_groups(opened: Table, user: str, group: str, role: str) -> Any:
    """Two columns of a table as users and their groups, those of nobody left out; a user with two labels is an error."""
    problems = [p for name, c in (("user", user), (role, group)) for p in label_problems(name, c, opened)]
    if problems:
        raise all_problems(problems, where="The call")
    opened = opened.whole_ids(user)
    pairs = opened.lazy.select(id_of(user, opened).alias("user"), label(group, opened).alias("group"))
    frame = few_rows(pairs)
    frame = to_polars(each_once(pairs)) if frame is None else frame
    frame = frame.drop_nulls("user") if frame["user"].null_count() else frame
    if frame["user"].n_unique() < frame.height:
        frame = frame.unique()
        again = frame["user"].filter(frame["user"].is_duplicated())
        if len(again):
            raise several_labels("user_groups", again.n_unique(), again.min())
    return frame.with_columns(clean(frame["group"]))


def _of_mapping(given: Mapping[Any, Any]) -> Any:
    """Labels of users, read as those of items are."""
    nobody = Table(nw.from_dict({"item": []}, backend="polars").lazy(), "polars", "")
    found = view_labels(given, nobody, item="item", role="user_groups")
    if found.soft or not isinstance(found, Alignment):
        raise EvenhandError(f"user_groups shares users among groups, and each has one label here. {REMEDY}")
    frame = found.frame.select("item", "group").rename({"item": "user"})
    return frame.with_columns(clean(frame["group"]))


def id_of(name: str, table: Table) -> nw.Expr:
    """A column of ids: whole numbers as int64, text as text, NaN as missing, so that ids of different tables compare."""
    dtype = table.schema[name]
    return table.col(name).cast(nw.Int64) if dtype.is_integer() and fits_int64(dtype) else label(name, table)


def series(role: str, values: Any) -> Any:
    """Plain values as a Polars series of one type."""
    import polars as pl

    if hasattr(values, "__narwhals_series__") or type(values).__module__.split(".")[0] in ("pandas", "pyarrow"):
        values = nw.from_native(values, series_only=True).to_list()
    elif isinstance(values, np.ndarray):
        values = values.tolist()
    try:
        return values if isinstance(values, pl.Series) else pl.Series(list(values), strict=True)
    except TypeError as error:
        raise EvenhandError(f"{role} mixes values of different types. Make them all text, or all numbers.") from error


def clean(labels: Any) -> Any:
    """Labels with NaN as missing, categories as text, and whole numbers with gaps as whole numbers."""
    import polars as pl

    if labels.dtype in (pl.Categorical, pl.Enum):
        return labels.cast(pl.String)
    if not labels.dtype.is_float():
        return labels
    known = labels.fill_nan(None)
    fractions = any(isinstance(g, float) for g in whole(known.unique().to_list()))
    return known if fractions else known.cast(pl.Int64)


def _is_table(data: Any) -> bool:
    if isinstance(data, (str, Path)):
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
