"""Scores as a long table, one row per user and item, on any engine: read in runs of users, never whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import narwhals as nw
import numpy as np

from evenhand.errors import EvenhandError, all_problems, listing
from evenhand.labels import whole
from evenhand.views.batches import frames
from evenhand.views.columns import how_many, label, label_problems, number
from evenhand.views.numbering import Codes
from evenhand.views.scores import TOGETHER, Apart, Block, Facts, Scores, Shown, Sums, Thinning, spans
from evenhand.views.tables import Table, each_once, is_number, missing_columns, open_table, to_polars
from evenhand.views.usergroups import group_column, id_of, series, table_of, users_and_groups
from evenhand.views.walked import CannotThinError, Run, Runs, Walked

CATEGORIES = (nw.Categorical, nw.Enum)

READ_CELLS = 1 << 20
"""Scores that are brought into order at a time; of more, records lie in files."""


@dataclass(frozen=True)
class Long:
    """A checked long table with columns `user`, `item`, `value` and `slices`; without scores every row is worth 1.

    `coded` is the same where ids may also be categories, which are slow to put into words row by row.
    """

    lazy: nw.LazyFrame[Any]
    coded: nw.LazyFrame[Any]
    opened: Table
    role: str
    slices: tuple[str, ...] = ()
    named: tuple[str, str] = ("user", "item")
    thinning: Thinning | None = None

    @classmethod
    def of(
        cls, table: Any, role: str, user: str, item: str, value: str | None, slices: Mapping[str, tuple[str, str]]
    ) -> Long:
        opened = open_table(table, role=role).numbers(value).whole_ids(user, item)
        schema = opened.schema
        named = [("user", user), ("item", item)] + (
            [("score" if role == "scores" else "relevance", value)] if value else []
        )
        labels = [*named[:2], *slices.values()]
        problems = [
            p.replace("column of the table", f"column of {role}")
            for p in missing_columns(opened, [*named, *slices.values()])
        ]
        if len(problems) > 1 and user not in schema and item not in schema:
            problems.append(f"{role} may be a matrix with a row per user. Then pass its values: {role}.to_numpy().")
        if not problems and value and not is_number(schema[value]):
            problems.append(
                f"{named[2][0]}={value!r} holds {schema[value]} values, not numbers. Convert the column first."
            )
        problems = problems or [p for role, name in labels for p in label_problems(role, name, opened)]
        if problems:
            raise all_problems(problems, where="The call")
        worth = number(value, opened) if value else nw.lit(1.0)
        rows = opened.lazy.with_columns(worth.alias("evenhand_value"))
        ids = [id_of(name, opened) for name in (user, item)]
        coded = [
            opened.col(name) if opened.lazy.implementation.is_polars() and schema[name] in CATEGORIES else told
            for name, told in zip((user, item), ids, strict=True)
        ]
        lazy, as_coded = (
            rows.select(
                *(told.alias(own) for own, told in zip(("user", "item"), columns, strict=True)),
                nw.col("evenhand_value").alias("value"),
                *(label(column, opened).alias(name) for name, (_, column) in slices.items()),
            )
            for columns in (ids, coded)
        )
        return cls(lazy, as_coded, opened, role, tuple(slices), (user, item))

    def over(self, lazy: nw.LazyFrame[Any]) -> Long:
        """The same table with other rows."""
        return replace(self, lazy=lazy, coded=lazy)

    def within(self, label: Sequence[Any]) -> Long:
        """The rows of one slice."""
        held = self.lazy
        for name, value in zip(self.slices, label, strict=False):
            held = held.filter(nw.col(name).is_null() if value is None else nw.col(name) == value)
        return self._only(held)

    def of_users(self, users: Any) -> Long:
        """The rows of these users."""
        return self._only(nw.from_native(self._held.join(users.alias("user").to_frame(), on="user", how="semi")).lazy())

    def _only(self, lazy: nw.LazyFrame[Any]) -> Long:
        rows = lazy.select("user", "item", "value")
        return Long(rows, rows, self.opened, self.role)

    @cached_property
    def _held(self) -> Any:
        """The whole table in memory, for who needs it again and again beside a table of another engine."""
        return to_polars(self.lazy)

    @cached_property
    def labels(self) -> list[tuple[Any, ...]]:
        """The labels of all slices, in order, the missing ones last."""
        found = to_polars(each_once(self.lazy.select(*self.slices)))
        return [tuple(row) for row in found.sort(*self.slices, nulls_last=True).iter_rows()]

    def in_words(self, role: str) -> Long:
        """The same table with these ids as text."""
        return self.over(self.lazy.with_columns(nw.col(role).cast(nw.String)))

    @property
    def _here(self) -> bool:
        """Whether rows are read once, for everything; elsewhere, and of what is sliced first, the engine is asked for facts."""
        here = self.lazy.implementation
        return not (self.slices or here.is_pyspark() or here.is_ibis())

    @cached_property
    def _walked(self) -> Walked:
        try:
            return self._walk(self.thinning)
        except CannotThinError:
            pass
        return self._walk(None)

    def _walk(self, thinning: Thinning | None) -> Walked:
        with closing(
            frames(self.coded.select("user", "item", "value"))
        ) as rows:  # DuckDB reads no table twice at a time
            return Walked.of(rows, READ_CELLS, thinning)

    def walked(self) -> Walked:
        """All rows, which are then held by nobody else: who wants them again reads them again."""
        found = self._walked
        vars(self).pop("_walked")
        if found.records is None:
            return self.walked()
        vars(self)["_walked"] = found.without_rows()
        return found

    @cached_property
    def facts(self) -> Facts:
        """What one pass finds; a user or an item that is missing is an error."""
        return _facts(self._walked.facts if self._here else _asked(self.lazy), self.role, *self.named)

    @cached_property
    def user_ids(self) -> Any:
        """The users in order."""
        return (self._walked.users if self._here else to_polars(each_once(self.lazy.select("user")))["user"]).sort()

    @cached_property
    def item_ids(self) -> Any:
        """The items in order."""
        return (self._walked.items if self._here else to_polars(each_once(self.lazy.select("item")))["item"]).sort()


def _asked(lazy: nw.LazyFrame[Any]) -> dict[str, float]:
    """One pass that counts rows and what is missing, and finds the range."""
    value = nw.col("value")
    missing = value.is_null() | value.is_nan() | (value == float("-inf"))
    there = nw.col("there")
    asked = lazy.with_columns(nw.when(~missing).then(value).alias("there")).select(
        nw.len().alias("rows"),
        _count(nw.col("user").is_null(), "no_user"),
        _count(nw.col("item").is_null(), "no_item"),
        there.count().alias("cells"),
        _count(value == float("-inf"), "masked"),
        there.min().alias("low"),
        there.max().alias("high"),
        _count((there == 0) | (there == 1), "bits"),
    )
    return {k: float(v) if v is not None else 0.0 for k, v in to_polars(asked).row(0, named=True).items()}


def _facts(found: Mapping[str, float], role: str, user: str, item: str) -> Facts:
    problems = [
        f"{name}={column!r} is missing in {int(found[count]):,} rows of {role}. Remove these rows first."
        for name, column, count in (("user", user, "no_user"), ("item", item, "no_item"))
        if found[count]
    ]
    if found["high"] == np.inf:
        problems.append(f"{role} holds infinite values. Pass finite scores; a missing one is null or NaN.")
    if problems:
        raise all_problems(problems)
    rows, cells = int(found["rows"]), int(found["cells"])
    low, high = (found["low"], found["high"]) if cells else (np.inf, -np.inf)
    return Facts(rows, cells, low, high, int(found["masked"]), binary=found["bits"] == cells)


def _count(which: nw.Expr, name: str) -> nw.Expr:
    found: nw.Expr = how_many(which).alias(name)
    return found


@dataclass(frozen=True)
class TableScores:
    """Scores and truth as long tables. Users and items are numbered in the order of their ids.

    `listed` is the catalogue as far as it was given, `apart` what keeps the scores of one table apart.
    """

    scores: Long
    truth: Long | None
    user_ids: Any
    item_ids: Any
    unlisted: int
    labelled: Any
    columns: Mapping[str, str | None]
    listed: Any = None
    apart: Apart = TOGETHER

    @classmethod
    def of(
        cls,
        scores: Any,
        relevant: Any,
        *,
        columns: Mapping[str, str | None],
        items: Any,
        user_groups: Any,
        apart: Apart = TOGETHER,
        thinning: Thinning | None = None,
    ) -> TableScores:
        user, item = str(columns["user"]), str(columns["item"])
        long = Long.of(scores, "scores", user, item, columns["score"], apart.named)
        long = replace(long, thinning=None if relevant is not None else thinning)
        truth = None
        if relevant is not None:
            found = open_table(relevant, role="relevant")
            own = {name: role for name, role in apart.named.items() if role[0] == "by"}
            own = own if all(column in found.schema for _, column in own.values()) else {}
            given = {*apart.by} if own else set()
            truth = Long.of(found, "relevant", user, item, _relevance_column(found, columns, given), own)
        labelled = _labelled(user_groups, long, columns)
        listed = _listed(items, item)
        (long, truth), labelled, listed = _comparable((long, truth), labelled, listed)
        seen = [t.user_ids for t in (long, truth) if t is not None and t.facts]
        user_ids = _union("user", [*seen, *([labelled["user"]] if labelled is not None else [])])
        item_ids, unlisted = _catalogue(listed, [t.item_ids for t in (long, truth) if t is not None])
        return cls(long, truth, user_ids, item_ids, unlisted, labelled, columns, listed, apart)

    def parts(self) -> list[tuple[tuple[Any, ...], Scores]]:
        """Every slice under its labels."""
        if not self.apart:
            return [((), self)]
        labels = self.scores.labels
        told = zip(*(whole(column) for column in zip(*labels, strict=True)), strict=True)
        return [(where, self._part(label)) for where, label in zip(told, labels, strict=True)]

    def _part(self, label: tuple[Any, ...]) -> TableScores:
        """One slice, with its own users and items.

        Users are those with a row in it. Beside slice columns nothing else says who else belongs to one, unless the truth
        has these columns too. Between systems alone all who are listed count, as they do where there is but one.
        """
        long, truth, labelled = self.scores.within(label), self.truth, self.labelled
        own = long.user_ids
        if self.apart.by:
            if truth is not None:
                truth = truth.within(label) if truth.slices else truth.of_users(own)
                own = _union("user", [own, truth.user_ids])
            labelled = None if labelled is None else labelled.join(own.alias("user").to_frame(), on="user", how="semi")
        tables = [t for t in (long, truth) if t is not None]
        listed = [labelled["user"]] if labelled is not None else []
        user_ids = _union("user", [*(t.user_ids for t in tables), *listed])
        item_ids, unlisted = _catalogue(self.listed, [t.item_ids for t in tables])
        return TableScores(long, truth, user_ids, item_ids, unlisted, labelled, self.columns)

    def among(self, users: Any, items: Any, unlisted: int) -> TableScores:
        """The scores of some of its users, items numbered as in a catalogue of more."""
        scores, truth = self.scores, self.truth
        if len(users) < len(self.user_ids):
            scores, truth = scores.of_users(users), None if truth is None else truth.of_users(users)
        return TableScores(scores, truth, users, items, unlisted, self.labelled, self.columns)

    @property
    def users(self) -> int:
        return len(self.user_ids)

    @property
    def items(self) -> int:
        return len(self.item_ids) + self.unlisted

    @property
    def facts(self) -> Facts:
        found = self.scores.facts
        whole = found.cells == self.users * self.items
        return Facts(found.rows, found.cells, found.low, found.high, found.masked, binary=found.binary and whole)

    @property
    def truth_facts(self) -> Facts | None:
        if self.truth is None:
            return None
        found = self.truth.facts
        whole = found.cells == self.users * self.items
        return Facts(found.rows, found.cells, found.low, found.high, found.masked, binary=found.binary and whole)

    @property
    def origin(self) -> str:
        return self.scores.opened.origin

    @property
    def backend(self) -> str:
        return self.scores.opened.backend

    def places_of(self, users: Any) -> Codes:
        """The numbers of some users."""
        return _places(users, self.user_ids)

    def blocks(self) -> Iterator[Block]:
        tables = [table for table in (self.scores, self.truth) if table is not None]
        sizes = self.users, self.items
        read = []
        for table in tables:
            rows = table.walked()
            read.append(Runs(rows, self.places_of(rows.users), _places(rows.items, self.item_ids), sizes))
        runs = list(spans(np.sum([one.before for one in read], axis=0), READ_CELLS))
        sums = read[0].sums()
        for (start, _), *found in zip(runs, *(one.of(runs) for one in read), strict=True):
            yield from self._blocks_of(tables, found, start, sums)

    def _blocks_of(self, tables: Sequence[Long], runs: Sequence[Run], start: int, sums: Sums | None) -> Iterator[Block]:
        """The users of a run; a pair that comes twice is an error."""
        for table, run in zip(tables, runs, strict=True):
            if run.twice is not None:
                user, item, more = run.twice
                raise listed_twice(table.role, more, self.user_ids[start + user], self.item_ids[item])
        for first, last in spans(np.sum([run.starts for run in runs], axis=0)):
            found = [run.between(first, last) for run in runs]
            own = None if sums is None else Sums(*(part[start + first : start + last] for part in sums))
            yield Block(start + first, found[0], found[1] if len(found) > 1 else None, own)

    def labels(self, user_groups: Any) -> Any:
        """The group of every user, in the order of their ids."""
        del user_groups  # read when the view was made: it also says who the users are
        return self._labels

    @cached_property
    def _labels(self) -> Any:
        import polars as pl

        known = self.labelled  # nobody's ids may have any type
        known = known if known.height else known.with_columns(pl.col("user").cast(self.user_ids.dtype, strict=False))
        return pl.DataFrame({"user": self.user_ids}).join(known, on="user", how="left", maintain_order="left")["group"]

    def handed_out(self, shown: Iterator[tuple[tuple[Any, ...], Scores, Iterator[tuple[int, Shown]]]]) -> Any:
        """A table of slices, users and items with how much of a slot each got; an item that nobody has a score for has no id."""
        import polars as pl

        user, item = str(self.columns["user"]), str(self.columns["item"])
        parts = [
            pl.DataFrame(
                {
                    **{name: [one] * len(rows.items) for name, one in zip(self.apart.names, where, strict=True)},
                    user: part.user_ids.gather(first + rows.rows),
                    item: _ids_at(part.item_ids, rows.items),
                    "shown": rows.values,
                }
            )
            for where, part, blocks in shown
            if isinstance(part, TableScores)
            for first, rows in blocks
        ]
        frame = (
            pl.concat(parts, how="vertical_relaxed")
            if parts
            else pl.DataFrame({user: self.user_ids.head(0), item: self.item_ids.head(0), "shown": []})
        )
        return {"pandas": frame.to_pandas, "pyarrow": frame.to_arrow}.get(self.backend, lambda: frame)()


def listed_twice(role: str, more: int, user: Any, item: Any) -> EvenhandError:
    """That a user has several scores for an item."""
    return EvenhandError(
        f"{role} has {more:,} rows for a user and item that already had one (first: user {user!r}, item {item!r}). "
        "Keep one row for each, or name the column that tells them apart: by or system."
    )


def side_by_side(a: TableScores, b: TableScores) -> tuple[TableScores, TableScores]:
    """Two slices on the users that both have, and on the items that either has."""
    users = a.user_ids.filter(a.user_ids.is_in(b.user_ids.implode()))
    items = _union("item", [a.item_ids, b.item_ids])
    unlisted = max(0, max(a.items, b.items) - len(items))
    return a.among(users, items, unlisted), b.among(users, items, unlisted)


def _relevance_column(relevant: Table, columns: Mapping[str, str | None], by: set[str]) -> str | None:
    """The column that says how relevant: as named, or called `relevance` or like the scores; none if there is no other column."""
    names = list(relevant.schema.names())
    if columns["relevance"] is not None:
        return columns["relevance"]
    for name in ("relevance", columns["score"]):
        if name in names:
            return name
    rest = [n for n in names if n not in (columns["user"], columns["item"], *by)]
    if rest:
        raise EvenhandError(
            f"relevant has columns {listing(names)}, and none is called 'relevance'. Name it: relevance={rest[0]!r}."
        )
    return None


def _ids_at(ids: Any, places: Any) -> Any:
    """Ids of items by their number; none of items beyond those that there are scores of."""
    if not (beyond := places >= ids.len()).any():
        return ids.gather(places)
    return ids.extend_constant(None, 1).gather(np.where(beyond, ids.len(), places))


def _labelled(user_groups: Any, long: Long, columns: Mapping[str, str | None]) -> Any:
    """Users and groups as a frame, or None; the groups may be a column of the scores."""
    if user_groups is None:
        return None
    user, group = str(columns["user"]), str(columns["group"])
    column = group_column(user_groups, list(long.opened.schema.names()))
    if column is None:
        return table_of(user_groups, user=user, group=group)
    return users_and_groups(long.opened, user, column, "user_groups")


def _union(role: str, ids: list[Any]) -> Any:
    """All ids in order; ids of different types would never meet."""
    import polars as pl

    held = [s for s in ids if len(s)] or ids[:1]
    kinds = {s.dtype for s in held}
    if len(kinds) > 1:
        raise EvenhandError(
            f"{role} ids are of different types: {listing(sorted(map(str, kinds)))}. Make them the same type."
        )
    if len(held) == 1 and held[0].flags["SORTED_ASC"]:
        return held[0]  # each once, from where they were found
    return pl.concat(held).unique().sort()


def _comparable(
    tables: tuple[Long, Long | None], labelled: Any, listed: Any
) -> tuple[tuple[Long, Long | None], Any, Any]:
    """Ids that compare: whole numbers become text where a text file, which has nothing else, holds the same ids."""
    import polars as pl

    for role, frame in (("user", labelled), ("item", listed)):
        held = [t.lazy.collect_schema()[role] for t in tables if t is not None]
        other = frame[role].dtype if isinstance(frame, pl.DataFrame) and frame.height else None
        words = other == pl.String or nw.String in held
        if words and any(dtype.is_integer() for dtype in held):
            scores, truth = tables
            tables = (scores.in_words(role), truth.in_words(role) if truth is not None else None)
        if words and other is not None and other.is_integer():
            frame = frame.with_columns(pl.col(role).cast(pl.String))
        labelled, listed = (frame, listed) if role == "user" else (labelled, frame)
    return tables, labelled, listed


def _listed(items: Any, column: str) -> Any:
    """A catalogue as a frame with a column `item`; a number, and nothing, as they are."""
    if items is None or (isinstance(items, (int, np.integer)) and not isinstance(items, bool)):
        return items
    if isinstance(items, (list, tuple, set, frozenset, np.ndarray)):
        return series("items", list(items)).unique(maintain_order=True).alias("item").to_frame()
    opened = open_table(items, role="items").whole_ids(column)
    if problems := missing_columns(opened, [("item", column)]):
        raise all_problems([p.replace("column of the table", "column of items") for p in problems])
    return to_polars(each_once(opened.lazy.select(id_of(column, opened).alias("item")))).sort("item")


def _catalogue(listed: Any, seen: list[Any]) -> tuple[Any, int]:
    """The items in order and how many more there are: those seen, those listed, or as many as a number says."""
    everything = _union("item", seen)
    if listed is None:
        return everything, 0
    if isinstance(listed, (int, np.integer)):
        if listed < len(everything):
            raise EvenhandError(
                f"items={listed:,} is smaller than the {len(everything):,} items in the table. Pass the size of the catalogue."
            )
        if listed > MOST_ITEMS:
            raise EvenhandError(f"items={_digits(int(listed))} is too many. Pass at most {MOST_ITEMS:,} items.")
        return everything, int(listed) - len(everything)
    ids = listed["item"]
    _union("item", [ids, everything])
    outside = everything.filter(~everything.is_in(ids.implode()))
    if len(outside):
        raise EvenhandError(
            f"{len(outside):,} items of the table are not in items: {listing(outside.to_list())}. List the whole catalogue."
        )
    return ids, 0


MOST_ITEMS = 2**31
"""Items are counted one by one in some figures; more of them than this fit into no memory."""


def _digits(number: int) -> str:
    """A large number as it was typed, or how long it is."""
    return f"{number:,}" if number < 10**40 else "a number of more than 40 digits"


def _places(ids: Any, known: Any) -> Codes:
    """Where ids stand among those that are known, in whatever order."""
    import polars as pl

    if not len(ids):
        return np.zeros(0, dtype=np.int32)
    places = pl.DataFrame({"id": known, "place": np.arange(len(known), dtype=np.int32)})
    found = ids.alias("id").to_frame().join(places, on="id", how="left", maintain_order="left")
    return np.asarray(found["place"].to_numpy())
