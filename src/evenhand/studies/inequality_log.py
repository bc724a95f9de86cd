"""The log of who received what, with its columns by role: generated, or the user's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

import evenhand as eh
from evenhand.errors import EvenhandError, listing
from evenhand.labels import in_order, match, matches, several
from evenhand.studies.study import read_table
from evenhand.synthetic.platform import ENGAGEMENTS

POOLED = "pooled"
"""All out-of-network sources together, where one of them can be named."""
USUAL = "misc"
"""The out-of-network source that the paper's figure 5 shows."""
OUT_OF_NETWORK = ("likes", "graph", USUAL)
NETWORK, INSIDE, OUTSIDE = "network", "in_network", "out_of_network"
MAX_SOURCES = 50  # a column with more labels holds ids, not sources


@dataclass(frozen=True)
class ByUnit:
    """What every unit got: by kind of amount, and by source; with its followers where these are known."""

    kinds: Mapping[str, Any]
    sources: Mapping[str, Any]
    followers: Any = None


@dataclass(frozen=True)
class Log:
    """Who received what. The first of the amounts is what the paper calls impressions."""

    table: pl.DataFrame
    unit: str
    amounts: tuple[str, ...]
    everyone: Any  # how many units there are, or a table of them, with `followers` if these are known of all
    source: str | None = None
    followers: str | None = None
    inside: tuple[Any, ...] = ()  # the sources in network; none if nobody said
    outside: tuple[Any, ...] = ()
    figure_5: str = POOLED  # the out-of-network source that figure 5 shows
    counted: str = ""  # who `everyone` is, in words
    origin: str = ""  # what the table is called
    later: str | None = None  # column with the first amount, counted until a later day

    @property
    def first(self) -> str:
        return self.amounts[0]

    @cached_property
    def sources(self) -> list[Any]:
        return in_order(self.table[self.source].drop_nulls().unique()) if self.source is not None else []

    @property
    def networks(self) -> bool:
        return all(set(side) & set(self.sources) for side in (self.inside, self.outside))

    @property
    def followed(self) -> bool:
        return isinstance(self.everyone, pl.DataFrame) and self.followers in self.everyone.columns

    @property
    def other(self) -> str:
        """Label of figure 5's out-of-network side: the source, or out_of_network if pooled."""
        return OUTSIDE if self.figure_5 in (POOLED, INSIDE) else self.figure_5

    def by_unit(self) -> ByUnit:
        kinds = [*self.amounts, *([] if self.later is None else [self.later])]
        rows, via = self.table.drop_nulls(self.unit), self.sources if len(self.sources) > 1 else []
        is_from = [pl.col(self.first).filter(pl.col(str(self.source)) == s).sum().alias(f"from {s}") for s in via]
        size = [pl.col(self.followers).max()] if self.followers in rows.columns else []
        totals, silent = rows.group_by(self.unit).agg(pl.col(kinds).sum(), *is_from, *size), 0
        if isinstance(self.everyone, pl.DataFrame):
            people = self.everyone.with_columns(pl.col(self.unit).cast(rows.schema[self.unit]))
            people = people.drop(str(self.followers), strict=False) if size else people
            totals = people.join(totals, on=self.unit, how="left")
        else:
            silent = max(0, int(self.everyone) - totals.height)  # who received nothing and is in no row
        totals = totals.sort(self.unit)  # batches of units must not depend on the order in which they arrive

        def amounts(name: str) -> Any:
            return np.pad(totals[name].cast(pl.Float64).fill_null(0).to_numpy(), (0, silent))

        followers = amounts(str(self.followers)) if self.followers in totals.columns else None
        return ByUnit({k: amounts(k) for k in kinds}, {str(s): amounts(f"from {s}") for s in via}, followers)

    def in_figure_5(self) -> pl.DataFrame:
        compared = self.outside if self.figure_5 == POOLED else (match(self.figure_5, list(self.outside)),)
        source = pl.col(str(self.source))
        side = pl.when(source.is_in(list(self.inside))).then(pl.lit(INSIDE)).when(source.is_in(list(compared)))
        return self.table.with_columns(side.then(pl.lit(self.other)).alias(NETWORK)).drop_nulls(NETWORK)

    def reached(self) -> pl.DataFrame:
        """The followers of every unit that got something from a source: a row per unit and source."""
        size = str(self.followers)
        shown = self.table.filter(pl.col(self.first) > 0)
        if size not in shown.columns:
            shown = shown.join(
                self.everyone.with_columns(pl.col(self.unit).cast(shown.schema[self.unit])), on=self.unit
            )
        return shown.group_by(self.unit, str(self.source)).agg(pl.col(size).max())


def log_of_platform(month: eh.synthetic.Platform, figure_5: str = USUAL) -> Log:
    """The log of a generated month, of authors with followers and a displayed post."""
    matches("figure_5", figure_5, [*OUT_OF_NETWORK, POOLED], of="the sources out of network")
    eligible = month.authors.filter((pl.col("displays") > 0) & (pl.col("followers") > 0))
    everyone = eligible.select("author_id", "followers")
    sides: dict[str, Any] = {"inside": (INSIDE,), "outside": OUT_OF_NETWORK, "figure_5": figure_5}
    return Log(month.engagements, "author_id", ENGAGEMENTS, everyone, "source", "followers", **sides)


def log_of_data(
    data: Any, *, unit: str, amount: str | Sequence[str], source: str | None, followers: str | None, population: Any,
    in_network: Any, out_of_network: Any, figure_5: str | None, later: str | None = None,
) -> Log:  # fmt: skip
    amounts = (amount,) if isinstance(amount, str) else tuple(amount)
    if len(set(amounts)) < len(amounts):
        raise EvenhandError(f"amount={listing(amounts)} names a column twice. Name every column once.")
    if NETWORK in (unit, *amounts, followers):
        raise EvenhandError(
            f"The study adds a column {NETWORK!r}, and the log has one in another role. Rename it first."
        )
    sized = [] if followers is None else [followers]
    people = _people(population, unit, sized)
    roles = [("unit", unit), *(("amount", name) for name in amounts), *([("source", source)] if source else [])]
    roles += [("later", later)] if later else []
    if followers is not None and (people is None or followers not in people.columns):
        roles.append(("followers", followers))
    numbers = [*amounts, *([] if later is None else [later]), *sized]
    table, origin = read_table(data, roles, sized, numbers, role="data")
    lost = {
        name: f"{role}={name!r} is missing in {n:,} rows" for role, name in roles if (n := table[name].null_count())
    }
    if lost:
        raise EvenhandError(f"{'; '.join(lost.values())}. Fill or drop these rows first.")
    everyone, counted = population, "as many as the population says"
    if people is not None:
        everyone, counted = people, "those of the population table"
    elif population is None:
        everyone = table.group_by(unit).agg(pl.col(c).max() for c in sized)
        counted = (
            "those in the log; whoever received nothing and is not in it is missing, which makes it look more even"
        )
    log = Log(table, unit, amounts, everyone, source, followers, counted=counted, origin=origin, later=later)
    _check_followers(log)
    _check_sources(log)
    return _with_networks(log, several(in_network), several(out_of_network), figure_5)


def _people(population: Any, unit: str, sized: Sequence[str]) -> pl.DataFrame | None:
    """The units of a population table, with their followers if it has them; None if it is no table."""
    if isinstance(population, Mapping):
        raise EvenhandError(
            "population gives a size per slice, and the study has several kinds of slices. Pass one number, or a table of units."
        )
    if population is None or isinstance(population, (int, float)):
        return None
    return read_table(population, [("unit", unit)], sized, sized, role="population")[0]


def _check_followers(log: Log) -> None:
    name = str(log.followers)
    for table in (log.table, log.everyone):
        if log.followers is None or not isinstance(table, pl.DataFrame) or name not in table.columns:
            continue
        if lost := table[name].null_count():
            raise EvenhandError(f"followers={name!r} is missing in {lost:,} rows. Fill or drop these rows first.")
        if varying := _varying(table, log.unit, name):
            raise EvenhandError(
                f"followers={name!r} has more than one number for {varying:,} units. Keep one for each, such as the last."
            )


def _varying(table: pl.DataFrame, unit: str, name: str) -> int:
    counts = table.group_by(unit).agg(pl.col(name).n_unique().alias("n"))
    return int((counts["n"] > 1).sum())


def _check_sources(log: Log) -> None:
    if log.source is None:
        return
    if len(log.sources) > MAX_SOURCES:
        raise EvenhandError(
            f"source={log.source!r} has {len(log.sources):,} labels. Pass a column with at most {MAX_SOURCES}, one for each source."
        )
    # A source that never varies within a unit is a kind of unit, and nobody knows how many of each kind there are.
    is_kind = len(log.sources) > 1 and not _varying(log.table, log.unit, str(log.source))
    if is_kind and isinstance(log.everyone, pl.DataFrame):
        raise EvenhandError(
            f"source={log.source!r} is the same in all rows of every unit: it says what a unit is, not where an amount came "
            "from. Leave source= out, and compare kinds of units with eh.inequality(by=...)."
        )


def _with_networks(log: Log, inside: Sequence[Any], outside: Sequence[Any], figure_5: str | None) -> Log:
    """The log with sources in and out of network; if one side is named, the other is the rest."""
    if not inside and not outside:
        if figure_5 is not None:
            raise EvenhandError("figure_5 compares a source with those in network. Name them with in_network=.")
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
