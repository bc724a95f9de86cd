"""What the inequality study reads: a log of who received what, with its columns by role, generated or one's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import narwhals as nw

from evenhand.audits.assemble import names_of
from evenhand.engine.populations import changing
from evenhand.errors import EvenhandError, all_problems, listing
from evenhand.labels import in_order, match, matches, several
from evenhand.studies.study import Table as Shown
from evenhand.synthetic.platform import ENGAGEMENTS, Platform
from evenhand.views.benefits import NanPolicy
from evenhand.views.columns import how_many
from evenhand.views.match import same_engine
from evenhand.views.tables import Table, missing_columns, open_table, to_polars

POOLED = "pooled"
"""All out-of-network sources together, where one of them can be named."""
USUAL = "misc"
"""The out-of-network source that the paper's figure 5 shows."""
OUT_OF_NETWORK = ("likes", "graph", USUAL)
NETWORK, INSIDE, OUTSIDE = "network", "in_network", "out_of_network"
MOST_SOURCES = 50


@dataclass(frozen=True)
class Log:
    """Who received what. The first of the amounts is what the paper calls impressions.

    Attributes
    ----------
    everyone : how many units there are, or a table of them, with `followers` where these are known of all.
    inside, outside : the sources in and out of network; none where nobody said.
    beside : the out-of-network source that figure 5 shows, or `pooled`.
    counted : who that is, in words.
    """

    table: Table
    unit: str
    amounts: tuple[str, ...]
    everyone: Any
    source: str | None = None
    followers: str | None = None
    inside: tuple[Any, ...] = ()
    outside: tuple[Any, ...] = ()
    beside: str = POOLED
    counted: str = ""
    nan_policy: NanPolicy = "raise"

    @property
    def first(self) -> str:
        return self.amounts[0]

    @cached_property
    def sources(self) -> list[Any]:
        """Every label of the source that is known."""
        return labels_of(self.table, self.source) if self.source is not None else []

    @property
    def networks(self) -> bool:
        """Whether there is something in network and something out of it."""
        return all(set(side) & set(self.sources) for side in (self.inside, self.outside))

    @property
    def followed(self) -> bool:
        """Whether the followers of everyone who counts are known."""
        return (
            self.followers is not None
            and isinstance(self.everyone, Table)
            and self.followers in self.everyone.schema.names()
        )

    @property
    def compared(self) -> tuple[Any, ...]:
        """The out-of-network sources of figure 5."""
        return self.outside if self.beside == POOLED else (match(self.beside, list(self.outside)),)

    @property
    def other(self) -> str:
        """What figure 5 calls its out-of-network side: the source itself, or what they are together."""
        return OUTSIDE if self.beside in (POOLED, INSIDE) else self.beside

    def by_network(self) -> Table:
        """The log with a column `network`: in_network, out_of_network, and what is neither under its own name."""
        return self._with_sides(self.outside, OUTSIDE)

    def in_figure_5(self) -> Table:
        """What figure 5 shows of the log, the two sides in a column `network`."""
        told = self._with_sides(self.compared, self.other)
        return told.of(told.lazy.filter(self._via.is_in([*self.inside, *self.compared])))

    @property
    def _via(self) -> nw.Expr:
        return self.table.col(str(self.source))

    def _with_sides(self, outside: Sequence[Any], called: str) -> Table:
        told = nw.when(self._via.is_in(list(outside))).then(nw.lit(called)).otherwise(self._via.cast(nw.String))
        told = nw.when(self._via.is_in(list(self.inside))).then(nw.lit(INSIDE)).otherwise(told)
        return replace(self.table, lazy=self.table.lazy.with_columns(told.alias(NETWORK)))

    def reached(self) -> Table:
        """The followers of every unit that got something from a source: a row for each of both."""
        amount, who = self.table.col(self.first), self.table.col(self.unit)
        via, size = self.table.col(str(self.source)), str(self.followers)
        got = self.table.lazy.filter(amount > 0)
        if size in self.table.schema.names():
            rows = got.select(who, via, self.table.col(size))
        else:
            people = same_engine(self.everyone.lazy.select(self.everyone.col(self.unit), self.everyone.col(size)), got)
            rows = got.select(who, via).join(people, on=self.table.called.get(self.unit, self.unit))
        rows = rows if self.nan_policy == "raise" else rows.drop_nulls(subset=[self.table.called.get(size, size)])
        keys = [self.table.called.get(str(name), str(name)) for name in (self.unit, self.source)]
        return self.table.of(rows.unique(subset=keys))

    def roles(self) -> Shown:
        """The columns by their roles."""
        rest = [s for s in self.sources if s not in (*self.inside, *self.outside)]
        told = {
            "unit": self.unit, "amount": listing(self.amounts), "source": self.source or "", "followers": self.followers or "",
            "in network": listing(self.inside), "out of network": listing(self.outside),
            "neither": listing(rest) if self.inside else "", "figure 5 shows": self.beside if self.networks else "",
        }  # fmt: skip
        return Shown("Columns and labels by role", ("role", "in the log"), tuple((k, v) for k, v in told.items() if v))


def of_platform(month: Platform, beside: str = USUAL) -> Log:
    """A generated month. The paper's authors: at least one follower, and at least one post selected for display."""
    import polars as pl

    matches("figure_5", beside, [*OUT_OF_NETWORK, POOLED], of="the sources out of network")
    eligible = month.authors.filter((pl.col("displays") > 0) & (pl.col("followers") > 0))
    return Log(
        open_table(month.engagements), "author_id", ENGAGEMENTS, open_table(eligible.select("author_id", "followers")), "source",
        "followers", (INSIDE,), OUT_OF_NETWORK, beside,
    )  # fmt: skip


def of_data(
    data: Any,
    *,
    unit: str,
    amount: str | Sequence[str] | None,
    source: str | None,
    followers: str | None,
    population: Any,
    in_network: Any,
    out_of_network: Any,
    beside: str | None,
    nan_policy: NanPolicy | None,
) -> Log:
    """A log of one's own, its columns checked."""
    opened = open_table(data, role="data")
    amounts = names_of(amount)
    if len(set(amounts)) < len(amounts):
        raise EvenhandError(f"amount={listing(amounts)} names a column twice. Name every column once.")
    given = [("unit", unit), *(("amount", a) for a in amounts), *([("source", source)] if source is not None else [])]
    if problems := missing_columns(opened, given):
        raise all_problems(problems)
    if NETWORK in (unit, *amounts, followers):
        raise EvenhandError(
            f"The study adds a column {NETWORK!r}, and the log has one in another role. Rename it first."
        )
    opened = opened if nan_policy != "omit" else _with_amounts(opened, amounts)
    everyone, counted = _everyone(opened, unit, followers, population)
    _refuse_unknown_followers(opened, everyone, followers)
    if not amounts:
        opened, amounts = _counting_rows(opened)
    opened, policy = opened.numbers(*amounts, followers), nan_policy or "raise"
    found = Log(opened, unit, amounts, everyone, source, followers, counted=counted, nan_policy=policy)
    if followers is not None:
        if policy == "raise":
            _refuse_missing_followers(found)
        _refuse_changing_followers(found)
    if source is not None:
        found = _with_known_sources(found)
    if len(found.sources) > MOST_SOURCES:
        raise EvenhandError(
            f"source={source!r} has {len(found.sources):,} labels. Pass a column with at most {MOST_SOURCES}, one for each source."
        )
    _refuse_kinds_of_units(found)
    return _with_networks(found, several(in_network), several(out_of_network), beside)


def labels_of(table: Table, column: str) -> list[Any]:
    """The labels of a column, in order, without the missing."""
    found = to_polars(table.lazy.select(table.col(column).alias("label")).unique())
    return in_order(found["label"].drop_nulls().to_list())


def _counting_rows(opened: Table) -> tuple[Table, tuple[str]]:
    name = "rows"
    if name in opened.schema.names():
        raise EvenhandError(
            f"The table has a column {name!r}, and no amount= is named. Pass amount={name!r}, or rename it."
        )
    return replace(opened, lazy=opened.lazy.with_columns(nw.lit(1).alias(name))), (name,)


def _with_amounts(opened: Table, amounts: Sequence[str]) -> Table:
    """The rows that have one of the amounts: whose amounts are all missing is not known to have received nothing."""
    table = opened.numbers(*amounts)
    names = [table.called.get(a, a) for a in amounts]
    schema = table.lazy.collect_schema()
    there = [~nw.col(n).is_null() & (~nw.col(n).is_nan() if schema[n].is_float() else nw.lit(True)) for n in names]
    return table.of(table.lazy.filter(nw.any_horizontal(*there, ignore_nulls=True))) if there else table


def _everyone(opened: Table, unit: str, followers: str | None, population: Any) -> tuple[Any, str]:
    """Who counts, and that in words: without a population, whoever is in the log, in all of its slices."""
    if isinstance(population, Mapping):
        raise EvenhandError(
            "population gives a size per slice, and the study has several kinds of slices. Pass one number, or a table of units."
        )
    if isinstance(population, (int, float)):
        return population, "as many as the population says"
    if population is None:
        own = _people(opened, unit, followers)
        seen = own.of(own.lazy.unique(subset=[opened.called.get(unit, unit)]))
        return (
            seen,
            "those in the log; whoever received nothing and is not in it is missing, which makes it look more even",
        )
    table = open_table(population, role="population")
    if problems := missing_columns(table, [("unit", unit)]):
        raise all_problems([p.replace("column of the table", "column of the population table") for p in problems])
    return _people(table, unit, followers), "those of the population table"


def _people(table: Table, unit: str, followers: str | None) -> Table:
    """Units with their followers where the table has them, and nothing else: any more would be taken for slices."""
    sized = [followers] if followers in table.schema.names() and followers is not None else []
    as_number = table.numbers(*sized)
    return replace(as_number, lazy=as_number.lazy.select(*(table.col(name) for name in (unit, *sized))))


def _refuse_unknown_followers(opened: Table, everyone: Any, followers: str | None) -> None:
    held = isinstance(everyone, Table) and followers in everyone.schema.names()
    if followers is not None and not held and (problems := missing_columns(opened, [("followers", followers)])):
        raise all_problems(problems)


def _refuse_missing_followers(given: Log) -> None:
    name = str(given.followers)
    for table in (given.table, given.everyone):
        if isinstance(table, Table) and name in table.schema.names():
            own = table.col(name)
            missing = own.is_null() | own.is_nan() if table.schema[name].is_float() else own.is_null()
            lost = to_polars(table.lazy.select(how_many(missing).alias("n")))["n"][0]
            if lost:
                raise EvenhandError(
                    f"followers={name!r} is missing (null or NaN) in {lost:,} rows. Fill them, or pass nan_policy='omit'."
                )


def _refuse_changing_followers(given: Log) -> None:
    """One number for every unit, in the log and in the population: of two nobody can say which it had."""
    name = str(given.followers)
    for table in (given.table, given.everyone):
        if (
            isinstance(table, Table)
            and name in table.schema.names()
            and (count := changing(_pairs(table, given.unit, name)))
        ):
            raise EvenhandError(
                f"followers={name!r} has more than one number for {count:,} units. Keep one for each, such as the last."
            )


def _pairs(table: Table, unit: str, name: str) -> nw.LazyFrame[Any]:
    """Which units have which values of a column, without the missing."""
    value = table.col(name)
    there = ~value.is_null() & ~value.is_nan() if table.schema[name].is_float() else ~value.is_null()
    return table.lazy.filter(there).select(table.col(unit).alias("unit"), value.alias("value")).unique()


def _with_known_sources(given: Log) -> Log:
    """The log without rows of no source; it is refused with them unless they are to be omitted."""
    via = given.table.col(str(given.source))
    if given.nan_policy == "omit":
        return replace(given, table=given.table.of(given.table.lazy.filter(~via.is_null())))
    lost = to_polars(given.table.lazy.select(how_many(via.is_null()).alias("n")))["n"][0]
    if lost:
        raise EvenhandError(
            f"source={given.source!r} is missing in {lost:,} rows. Give them a source, or pass nan_policy='omit'."
        )
    return given


def _refuse_kinds_of_units(given: Log) -> None:
    """A source that never varies within a unit is a kind of unit, of which nobody says how many there are."""
    if len(given.sources) < 2 or not isinstance(given.everyone, Table):
        return
    if not changing(_pairs(given.table, given.unit, str(given.source))):
        raise EvenhandError(
            f"source={given.source!r} is the same in all rows of every unit: it says what a unit is, not where an amount came "
            "from. Leave source= out, and compare kinds of units with eh.inequality(by=...)."
        )


def _with_networks(found: Log, inside: Sequence[Any], outside: Sequence[Any], beside: str | None) -> Log:
    """The log with its sources in and out of network; where one side is named, the other is the rest."""
    if not inside and not outside:
        if beside is not None:
            raise EvenhandError("figure_5 sets a source beside those in network. Name them with in_network=.")
        return found
    if found.source is None:
        raise EvenhandError("in_network and out_of_network are labels of a source. Pass source= with its column too.")
    known, of = found.sources, f"the labels of {found.source!r}"
    asked = {"in_network": inside, "out_of_network": outside}
    sides = {role: matches(role, labels, known, of=of) if labels else [] for role, labels in asked.items()}
    if twice := [label for label in sides["in_network"] if label in sides["out_of_network"]]:
        raise EvenhandError(f"{listing(twice)} is both in and out of network. Name every source once.")
    inner = sides["in_network"] or [s for s in known if s not in sides["out_of_network"]]
    outer = sides["out_of_network"] or [s for s in known if s not in inner]
    if not inner or not outer:
        raise EvenhandError("Every source is on one side of the network. Leave a source for the other side.")
    chosen = beside or (USUAL if USUAL in outer else str(outer[0]) if len(outer) == 1 else POOLED)
    if chosen != POOLED:
        matches("figure_5", chosen, [*outer, POOLED], of="the sources out of network")
    return replace(found, inside=tuple(inner), outside=tuple(outer), beside=chosen)
