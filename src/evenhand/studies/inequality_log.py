"""The log of who received what, with its columns by role: generated, or the user's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from evenhand.audits.assemble import names_of
from evenhand.errors import EvenhandError, all_problems, listing
from evenhand.labels import in_order, match, matches, several
from evenhand.sources.columns import INTEGERS, TEXT
from evenhand.sources.logs import NanPolicy
from evenhand.sources.opening import open_table
from evenhand.sources.populations import units_with_several
from evenhand.sources.relation import Relation, relation_of
from evenhand.sources.roles import missing_columns
from evenhand.sources.sql import count_where, select, text
from evenhand.studies.study import Table as Shown
from evenhand.synthetic.platform import ENGAGEMENTS, Platform

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
    figure_5 : the out-of-network source that figure 5 shows, or `pooled`.
    counted : who that is, in words.
    """

    table: Relation
    unit: str
    amounts: tuple[str, ...]
    everyone: Any
    source: str | None = None
    followers: str | None = None
    inside: tuple[Any, ...] = ()
    outside: tuple[Any, ...] = ()
    figure_5: str = POOLED
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
            and isinstance(self.everyone, Relation)
            and self.followers in self.everyone.schema
        )

    @property
    def compared(self) -> tuple[Any, ...]:
        """The out-of-network sources of figure 5."""
        return self.outside if self.figure_5 == POOLED else (match(self.figure_5, list(self.outside)),)

    @property
    def other(self) -> str:
        """Label of figure 5's out-of-network side: the source, or out_of_network if pooled."""
        return OUTSIDE if self.figure_5 in (POOLED, INSIDE) else self.figure_5

    def by_network(self) -> Relation:
        """The log with a column `network`: in_network, out_of_network, or another source's name."""
        return self._with_sides(self.outside, OUTSIDE)

    def in_figure_5(self) -> Relation:
        """The rows of figure 5, its two sides in a column `network`."""
        return self._with_sides(self.compared, self.other).where(self._is_one_of([*self.inside, *self.compared]))

    @property
    def _source_text(self) -> str:
        return f"CAST({self.table.label(str(self.source))} AS VARCHAR)"

    def _is_one_of(self, sources: Sequence[Any]) -> str:
        """SQL of whether a row is from one of some sources."""
        named = [text(self._words[source]) for source in sources if source in self._words]
        return f"{self._source_text} IN ({', '.join(named)})" if named else "FALSE"

    @cached_property
    def _words(self) -> dict[Any, str]:
        """Every label of the source as the engine writes it."""
        chosen = {"label": self.table.label(str(self.source)), "words": self._source_text}
        cells = self.table.engine.cells(f"SELECT DISTINCT {select(chosen)} FROM {self.table.name}")
        return dict(zip(cells.values("label"), cells.values("words"), strict=True))

    def _with_sides(self, outside: Sequence[Any], called: str) -> Relation:
        side = f"""
            CASE WHEN {self._is_one_of(self.inside)} THEN {text(INSIDE)}
                WHEN {self._is_one_of(outside)} THEN {text(called)}
                ELSE {self._source_text} END
        """
        return self.table.with_column(NETWORK, side, TEXT)

    def reached(self) -> Relation:
        """The followers of every unit that got something from a source: a row for each of both."""
        table, size = self.table, str(self.followers)
        chosen = {"who": table.label(self.unit), "via": table.label(str(self.source))}
        got = f"{table.number(self.first)} > 0"
        if size in table.schema:
            owner = table
            rows = f"{table.select({**chosen, 'size': table.label(size)})} WHERE {got}"
        else:
            owner = self.everyone
            people = owner.select({"who": owner.label(self.unit), "size": owner.label(size)})
            rows = f"""
                SELECT shown.who, shown.via, people.size
                FROM ({table.select(chosen)} WHERE {got}) AS shown
                JOIN ({people}) AS people ON shown.who = people.who
            """
        known_only = "" if self.nan_policy == "raise" else "WHERE size IS NOT NULL"
        names = {self.unit: "who", str(self.source): "via", size: "MAX(size)"}
        query = f"SELECT {select(names)} FROM ({rows}) AS followed {known_only} GROUP BY who, via"
        kinds = {name: table.label_type(name) for name in (self.unit, str(self.source))} | {size: owner.schema[size]}
        return relation_of(table.engine, f"({query})", kinds, backend=table.backend, origin=table.origin)

    def roles(self) -> Shown:
        """The columns by their roles."""
        rest = [s for s in self.sources if s not in (*self.inside, *self.outside)]
        columns = {
            "unit": self.unit, "amount": listing(self.amounts), "source": self.source or "", "followers": self.followers or "",
            "in network": listing(self.inside), "out of network": listing(self.outside),
            "neither": listing(rest) if self.inside else "", "figure 5 shows": self.figure_5 if self.networks else "",
        }  # fmt: skip
        return Shown(
            "Columns and labels by role", ("role", "in the log"), tuple((k, v) for k, v in columns.items() if v)
        )


def log_of_platform(month: Platform, figure_5: str = USUAL) -> Log:
    """The log of a generated month, of authors with followers and a displayed post."""
    import polars as pl

    matches("figure_5", figure_5, [*OUT_OF_NETWORK, POOLED], of="the sources out of network")
    eligible = month.authors.filter((pl.col("displays") > 0) & (pl.col("followers") > 0))
    engagements = open_table(month.engagements)
    everyone = open_table(eligible.select("author_id", "followers"), same_engine_as=engagements)
    return Log(
        engagements, "author_id", ENGAGEMENTS, everyone, "source", "followers", (INSIDE,), OUT_OF_NETWORK, figure_5
    )


def log_of_data(
    data: Any,
    *,
    unit: str,
    amount: str | Sequence[str] | None,
    source: str | None,
    followers: str | None,
    population: Any,
    in_network: Any,
    out_of_network: Any,
    figure_5: str | None,
    nan_policy: NanPolicy | None,
) -> Log:
    """A log of one's own, its columns checked."""
    opened = open_table(data, role="data")
    amounts = names_of(amount)
    if len(set(amounts)) < len(amounts):
        raise EvenhandError(f"amount={listing(amounts)} names a column twice. Name every column once.")
    named = [("unit", unit), *(("amount", a) for a in amounts), *([("source", source)] if source is not None else [])]
    if problems := missing_columns(opened, named):
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
    opened, policy = opened.with_numbers(*amounts, followers), nan_policy or "raise"
    checked = Log(opened, unit, amounts, everyone, source, followers, counted=counted, nan_policy=policy)
    if followers is not None:
        if policy == "raise":
            _refuse_missing_followers(checked)
        _refuse_changing_followers(checked)
    if source is not None:
        checked = _with_known_sources(checked)
    if len(checked.sources) > MOST_SOURCES:
        raise EvenhandError(
            f"source={source!r} has {len(checked.sources):,} labels. Pass a column with at most {MOST_SOURCES}, one for each source."
        )
    _refuse_kinds_of_units(checked)
    return _with_networks(checked, several(in_network), several(out_of_network), figure_5)


def labels_of(table: Relation, column: str) -> list[Any]:
    """The labels of a column, in order, without the missing."""
    cells = table.engine.cells(f"SELECT DISTINCT {table.label(column)} AS label FROM {table.name}")
    return in_order(label for label in cells.values("label") if label is not None)


def _counting_rows(opened: Relation) -> tuple[Relation, tuple[str]]:
    name = "rows"
    if name in opened.schema:
        raise EvenhandError(
            f"The table has a column {name!r}, and no amount= is named. Pass amount={name!r}, or rename it."
        )
    return opened.with_column(name, "1", INTEGERS), (name,)


def _with_amounts(opened: Relation, amounts: Sequence[str]) -> Relation:
    """The rows with at least one amount; rows without any do not mean that nothing was received."""
    table = opened.with_numbers(*amounts)
    present = [f"{table.label(a)} IS NOT NULL" for a in amounts]
    return table.where(" OR ".join(present)) if present else table


def _everyone(opened: Relation, unit: str, followers: str | None, population: Any) -> tuple[Any, str]:
    """The population, by default the units in the log, and a description of it."""
    if isinstance(population, Mapping):
        raise EvenhandError(
            "population gives a size per slice, and the study has several kinds of slices. Pass one number, or a table of units."
        )
    if isinstance(population, (int, float)):
        return population, "as many as the population says"
    if population is None:
        return (
            _once_each(_people(opened, unit, followers), unit),
            "those in the log; whoever received nothing and is not in it is missing, which makes it look more even",
        )
    table = open_table(population, role="population", same_engine_as=opened)
    if problems := missing_columns(table, [("unit", unit)]):
        raise all_problems([p.replace("column of the table", "column of the population table") for p in problems])
    return _people(table, unit, followers), "those of the population table"


def _once_each(people: Relation, unit: str) -> Relation:
    """One row for each unit."""
    chosen = {name: f"MAX({people.label(name)})" for name in people.schema if name != unit}
    query = f"SELECT {select({unit: people.label(unit), **chosen})} FROM {people.name} GROUP BY {people.label(unit)}"
    kinds = {name: people.label_type(name) for name in people.schema}
    return relation_of(people.engine, f"({query})", kinds, backend=people.backend, origin=people.origin)


def _people(table: Relation, unit: str, followers: str | None) -> Relation:
    """The columns of unit and followers only: any other would be taken for a slice."""
    sized = [followers] if followers is not None and followers in table.schema else []
    return table.with_numbers(*sized).only(unit, *sized)


def _refuse_unknown_followers(opened: Relation, everyone: Any, followers: str | None) -> None:
    in_population = isinstance(everyone, Relation) and followers in everyone.schema
    if (
        followers is not None
        and not in_population
        and (problems := missing_columns(opened, [("followers", followers)]))
    ):
        raise all_problems(problems)


def _with_followers(log: Log) -> list[Relation]:
    """The tables that have the followers of units."""
    tables = (log.table, log.everyone)
    return [table for table in tables if isinstance(table, Relation) and log.followers in table.schema]


def _refuse_missing_followers(log: Log) -> None:
    name = str(log.followers)
    for table in _with_followers(log):
        lost = int(table.facts({"n": count_where(f"{table.label(name)} IS NULL")})["n"])
        if lost:
            raise EvenhandError(
                f"followers={name!r} is missing (null or NaN) in {lost:,} rows. Fill them, or pass nan_policy='omit'."
            )


def _refuse_changing_followers(log: Log) -> None:
    """Refuse units with several numbers of followers: nobody knows which one counts."""
    name = str(log.followers)
    for table in _with_followers(log):
        if count := _varying(table, log.unit, name):
            raise EvenhandError(
                f"followers={name!r} has more than one number for {count:,} units. Keep one for each, such as the last."
            )


def _varying(table: Relation, unit: str, name: str) -> int:
    """How many units have several values in a column, the missing left out."""
    pairs = (
        f"{table.select({'unit': table.label(unit), 'value': table.label(name)})} WHERE {table.label(name)} IS NOT NULL"
    )
    query = f"SELECT COUNT(*) AS n FROM ({units_with_several(pairs, ['value'])}) AS several"
    return int(table.engine.cells(query).row()["n"])


def _with_known_sources(log: Log) -> Log:
    """The log without rows of no source; it is refused with them unless they are to be omitted."""
    via = log.table.label(str(log.source))
    if log.nan_policy == "omit":
        return replace(log, table=log.table.where(f"{via} IS NOT NULL"))
    lost = int(log.table.facts({"n": count_where(f"{via} IS NULL")})["n"])
    if lost:
        raise EvenhandError(
            f"source={log.source!r} is missing in {lost:,} rows. Give them a source, or pass nan_policy='omit'."
        )
    return log


def _refuse_kinds_of_units(log: Log) -> None:
    """Refuse a source that never varies within a unit: it is a kind of unit, of unknown size."""
    if len(log.sources) < 2 or not isinstance(log.everyone, Relation):
        return
    if not _varying(log.table, log.unit, str(log.source)):
        raise EvenhandError(
            f"source={log.source!r} is the same in all rows of every unit: it says what a unit is, not where an amount came "
            "from. Leave source= out, and compare kinds of units with eh.inequality(by=...)."
        )


def _with_networks(log: Log, inside: Sequence[Any], outside: Sequence[Any], figure_5: str | None) -> Log:
    """The log with sources in and out of network; if one side is named, the other is the rest."""
    if not inside and not outside:
        if figure_5 is not None:
            raise EvenhandError("figure_5 sets a source beside those in network. Name them with in_network=.")
        return log
    if log.source is None:
        raise EvenhandError("in_network and out_of_network are labels of a source. Pass source= with its column too.")
    sources, of = log.sources, f"the labels of {log.source!r}"
    named = {"in_network": inside, "out_of_network": outside}
    sides = {role: matches(role, labels, sources, of=of) if labels else [] for role, labels in named.items()}
    if on_both_sides := [label for label in sides["in_network"] if label in sides["out_of_network"]]:
        raise EvenhandError(f"{listing(on_both_sides)} is both in and out of network. Name every source once.")
    inner = sides["in_network"] or [s for s in sources if s not in sides["out_of_network"]]
    outer = sides["out_of_network"] or [s for s in sources if s not in inner]
    if not inner or not outer:
        raise EvenhandError("Every source is on one side of the network. Leave a source for the other side.")
    chosen = figure_5 or (USUAL if USUAL in outer else str(outer[0]) if len(outer) == 1 else POOLED)
    if chosen != POOLED:
        matches("figure_5", chosen, [*outer, POOLED], of="the sources out of network")
    return replace(log, inside=tuple(inner), outside=tuple(outer), figure_5=chosen)
