"""Amounts of units on two occasions: as pairs, or by source and group where single units matter (`Changes`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.cards import Floats
from evenhand.errors import EvenhandError
from evenhand.labels import rows_in_order
from evenhand.sources.logs import varying
from evenhand.sources.quantiles import significant
from evenhand.sources.sql import columns, quoted
from evenhand.tallies.ragged import Ints, sorted_runs
from evenhand.tallies.sources import coded_sources
from evenhand.tallies.spectrum import (
    Label,
    SlicedTallies,
    Spectrum,
    bin_codes,
    refuse_changing_weights,
)

if TYPE_CHECKING:
    from evenhand.sources.engine import Cells
    from evenhand.sources.logs import Amount, Log

MANY = 1 << 13
"""Bins of pairs above which wider ones are taken: units are then so many that draws differ by less than their noise."""


@dataclass(frozen=True)
class Side:
    """One occasion: which cells of the pairs fall into which cell of its spectrum."""

    values: Floats
    weights: Floats | None
    cell: Ints
    order: Ints
    starts: Ints

    def spectrum(self, counts: Floats) -> Spectrum:
        return Spectrum(self.values, joined(counts, self.order, self.starts), self.weights)


@dataclass(frozen=True)
class PairedAmounts:
    """How many units received each pair of amounts.

    Attributes
    ----------
    first, second : (K,) amounts on either occasion, none negative.
    counts : (K,) units with that pair.
    weights : (K,) weight of each unit in the cell, or None when every unit counts once.
    """

    first: Floats
    second: Floats
    counts: Floats
    weights: Floats | None = None

    @classmethod
    def from_arrays(cls, first: Any, second: Any = None, counts: Any = None, weights: Any = None) -> PairedAmounts:
        """Tally two amounts for each unit, or one (then the second is nothing).

        >>> PairedAmounts.from_arrays([1, 0, 1], [2, 2, 2]).counts.tolist()
        [1.0, 2.0]
        """
        first = np.asarray(first, dtype=np.float64)
        second = np.zeros(len(first)) if second is None else np.asarray(second, dtype=np.float64)
        counts = np.ones(len(first)) if counts is None else np.asarray(counts, dtype=np.float64)
        weights = None if weights is None else np.asarray(weights, dtype=np.float64)
        order, starts = sorted_runs(*((first, second) if weights is None else (first, second, weights)))
        at = order[starts]
        return cls(first[at], second[at], joined(counts, order, starts), None if weights is None else weights[at])

    def merge(self, other: PairedAmounts) -> PairedAmounts:
        """Add a shard with other units; the order of shards never matters."""
        return self.pool(other)[0]

    def padded(self, units: float) -> PairedAmounts:
        return self.merge(PairedAmounts.from_arrays([0.0], [0.0], [units])) if units else self

    def pool(self, other: PairedAmounts) -> tuple[PairedAmounts, Floats]:
        """Both tallies as one, and how many units of each of its cells come from this one."""
        keys = [np.concatenate([self.first, other.first]), np.concatenate([self.second, other.second])]
        if self.weights is not None or other.weights is not None:
            keys.append(
                np.concatenate([np.ones(len(t.first)) if t.weights is None else t.weights for t in (self, other)])
            )
        counts = np.concatenate([self.counts, other.counts])
        first_counts = np.concatenate([self.counts, np.zeros(len(other.counts))])
        order, starts = sorted_runs(*keys)
        at = order[starts]
        both = PairedAmounts(
            keys[0][at], keys[1][at], joined(counts, order, starts), keys[2][at] if len(keys) > 2 else None
        )
        return both, joined(first_counts, order, starts)

    @property
    def units(self) -> float:
        return float(self.counts.sum())

    @property
    def has_second(self) -> bool:
        return bool(self.second.any())

    @cached_property
    def sides(self) -> tuple[Side, Side]:
        """How either occasion is read off the pairs."""
        return side_of(self.first, self.weights), side_of(self.second, self.weights)

    def binned(self) -> tuple[PairedAmounts, Ints, Ints]:
        """Units on a grid of both amounts, cells at their means; and order and starts for `joined`.

        Weighted tallies and those of up to 1,000 cells stay as they are; what is measured on a tally is exact in any case.
        """
        if self.weights is not None or len(self.first) <= 1_000:
            same = np.arange(len(self.first))
            return self, same, same
        width = 2.0**-5 if self.has_second else 2.0**-6  # relative; a grid of both amounts has many more cells
        order, starts = sorted_runs(bin_codes(self.first, width), bin_codes(self.second, width))
        while len(starts) > MANY and width < 1 / 8:
            width *= 2
            order, starts = sorted_runs(bin_codes(self.first, width), bin_codes(self.second, width))
        counts = joined(self.counts, order, starts)
        means = [joined(x * self.counts, order, starts) / counts for x in (self.first, self.second)]
        return PairedAmounts(means[0], means[1], counts), order, starts

    def mirrored(self) -> tuple[PairedAmounts, Floats, Floats]:
        """Every pair with the larger amount first, then every one with it second; units of the former, and of both.

        Swaps within units change nothing else, bins included, so that a test by swaps is exact.

        >>> both, larger_first, sizes = PairedAmounts.from_arrays([1, 5, 5], [5, 1, 1]).mirrored()
        >>> both.first.tolist(), larger_first.tolist(), sizes.tolist()
        ([5.0, 1.0], [2.0], [3.0])
        """
        is_larger_first = self.first >= self.second
        high, low = np.maximum(self.first, self.second), np.minimum(self.first, self.second)
        parts = [
            PairedAmounts(high[at], low[at], self.counts[at], None if self.weights is None else self.weights[at])
            for at in (is_larger_first, ~is_larger_first)
        ]
        unordered, larger_first = parts[0].pool(parts[1])
        narrow, order, starts = unordered.binned()
        both = PairedAmounts(
            np.append(narrow.first, narrow.second), np.append(narrow.second, narrow.first), np.tile(narrow.counts, 2),
            None if narrow.weights is None else np.tile(narrow.weights, 2),
        )  # fmt: skip
        return both, joined(larger_first, order, starts), narrow.counts

    def resample(self, draws: int, rng: np.random.Generator) -> Floats:
        """Counts of whole populations drawn with replacement: units keep their pair."""
        size = round(self.units)
        if not size:
            return np.zeros((draws, len(self.first)))
        return rng.multinomial(size, self.counts / self.counts.sum(), draws).astype(np.float64)

    def split(self, size: int, draws: int, rng: np.random.Generator) -> Floats:
        """Counts of `size` units drawn without replacement: who would be in an arm of that size."""
        counts = self.counts.astype(np.int64)
        return rng.multivariate_hypergeometric(counts, size, draws, method="marginals").astype(np.float64)


class PairedSlices(SlicedTallies[PairedAmounts]):
    """Pairs of amounts per slice."""

    @staticmethod
    def before_query(log: Log, amount: Amount, before: Log, past: Amount, ids: tuple[str, str]) -> str:
        """SQL of units by pair of amounts, now and before; `ids` are patterns to compare ids by."""
        weights = ", now.weight, now.least_weight" if log.weight is not None else ""
        return f"""
            WITH now AS (
                {log.sums(amount, [*log.keys, "unit"])}
            ),
            past AS (
                {replace(before, weight=None).sums(past, ["unit"])}
            ),
            per_unit AS (
                SELECT {columns([*log.keys, "unit"], table="now")}, now.amount AS first_amount,
                    COALESCE(past.amount, 0) AS second_amount{weights}
                FROM now LEFT JOIN past ON {ids[1].format("now.unit")} = {ids[0].format("past.unit")}
            )
            {_counted(log, ["first_amount", "second_amount"])}
        """

    @classmethod
    def of_arms(cls, log: Log, amount: Amount, arms: Cells, arm: int, control: int) -> PairedSlices:
        """Amounts of each unit in one arm and in another; zero in an arm that it is not in."""
        parts = {"first_amount": f"occasion = {arm}", "second_amount": f"occasion = {control}"}
        per_unit = _per_unit(log, amount, log.engine.bring(arms), "", parts, log.keys)
        return cls.from_cells(log, (amount, amount), log.engine.cells(per_unit + _counted(log, list(parts))))

    @classmethod
    def with_past(
        cls, log: Log, amount: Amount, before: Log, past: Amount, ids: tuple[str, str] = ("{}", "{}")
    ) -> PairedSlices:
        """Amounts of each unit during the experiment and before, in the slices of the experiment."""
        return cls.from_cells(log, (amount, past), log.engine.cells(cls.before_query(log, amount, before, past, ids)))

    @classmethod
    def from_cells(cls, log: Log, amounts: tuple[Amount, Amount], cells: Cells) -> PairedSlices:
        """Float amounts are rounded, and cells that then agree are merged."""
        if log.weight is not None:
            refuse_changing_weights(cells, log.weight)
        codes, labels = cells.codes(log.keys)
        first, second = (
            cells.floats(name) if amount.integer else significant(cells.floats(name))
            for name, amount in zip(("first_amount", "second_amount"), amounts, strict=True)
        )
        units = cells.floats("units")
        weights = cells.floats("weight") if log.weight is not None else None
        tallies = []
        for code in range(len(labels)):
            rows = np.flatnonzero(codes == code)
            own_weights = None if weights is None else weights[rows]
            tallies.append(PairedAmounts.from_arrays(first[rows], second[rows], units[rows], own_weights))
        return cls(tuple(labels), tuple(tallies), log.broken(amounts[0]))


def _per_unit(log: Log, amount: Amount, arms: str, sources: str, parts: Mapping[str, str], keys: Sequence[str]) -> str:
    """SQL of `per_unit`: parts of what each unit received, each with its condition on `occasion` and `source_code`.

    `arms` and `sources` are tables of labels with their codes; without sources all have the code 0.
    """
    by_source = f"JOIN {sources} AS sources ON log.source IS NOT DISTINCT FROM sources.label" if sources else ""
    rows = f"""
        SELECT log.*, arms.code AS occasion, {"sources.code" if sources else "0"} AS source_code
        FROM {log.source} JOIN {arms} AS arms ON log.arm = arms.arm {by_source}
    """
    kind = "BIGINT" if amount.integer else "DOUBLE"
    sums = ", ".join(
        f"CAST(SUM(CASE WHEN {condition} THEN amount ELSE 0 END) AS {kind}) AS {name}"
        for name, condition in parts.items()
    )
    weights = ", MAX(weight) AS weight, MIN(least_weight) AS least_weight" if log.weight is not None else ""
    return f"""
        WITH sums AS ({replace(log, sql=rows).sums(amount, [*log.keys, "unit", "occasion", "source_code"])}),
        per_unit AS (
            SELECT {columns([*keys, "unit"])}, {sums}{weights}
            FROM sums
            GROUP BY {columns([*keys, "unit"])}
        )
    """


def _counted(log: Log, parts: Sequence[str]) -> str:
    weights = ["weight", "least_weight"] if log.weight is not None else []
    cells = columns([*log.keys, *parts, *weights])
    return f"SELECT {cells}, COUNT(*) AS units FROM per_unit GROUP BY {cells}"


def arms_of(log: Log) -> tuple[Cells, tuple[Any, ...]]:
    """The arms of a log with the code of each, and their labels in the order of the codes."""
    arms = log.engine.cells(f"SELECT DISTINCT arm FROM {log.source}")
    codes, labels = arms.codes(["arm"])
    return arms.with_column("code", codes), tuple(label[0] for label in labels)


def refuse_several_arms(log: Log, key: str) -> None:
    """Refuse units that have rows in several arms: they were not what was randomised."""
    if several := varying(log, f"SELECT unit, {quoted(key)} FROM {log.source}", key):
        raise EvenhandError(
            f"{several:,} units (unit={log.unit!r}) have rows in several arms, so they were not what was randomised. "
            "Name the column that was as randomized, or pass None if nothing was."
        )


def joined(counts: Floats, order: Ints, starts: Ints) -> Floats:
    """Counts added up where cells were joined."""
    return np.add.reduceat(counts[..., order], starts, axis=-1) if len(starts) else counts[..., :0]


def side_of(values: Floats, weights: Floats | None) -> Side:
    order, starts = sorted_runs(*((values,) if weights is None else (values, weights)))
    cell = np.empty(len(values), dtype=np.int64)
    cell[order] = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(values)))
    at = order[starts]
    return Side(values[at], None if weights is None else weights[at], cell, order, starts)


OCCASIONS = ("before", "after")


@dataclass(frozen=True)
class Changes:
    """How many units received each combination of amounts on two occasions.

    Attributes
    ----------
    sources, groups : their labels.
    before, after : (C, S) amounts from each source.
    group : (C,) code of the units' group.
    counts : (C,) units. weights : (C,) weight of each unit, or None where every unit counts once.
    """

    sources: tuple[Any, ...]
    groups: tuple[Any, ...]
    before: Floats
    after: Floats
    group: Ints
    counts: Floats
    weights: Floats | None = None

    @cached_property
    def totals(self) -> tuple[Floats, Floats]:
        """(C,) what a unit of each cell received before and after."""
        return self.before.sum(-1), self.after.sum(-1)

    @property
    def kind(self) -> Ints:
        """(C,) 0 for units that entered (nothing before), 1 for those that left, 2 for those that stayed."""
        before, after = self.totals
        return np.where((before == 0) & (after > 0), 0, np.where((before > 0) & (after == 0), 1, 2))

    @property
    def pairs(self) -> PairedAmounts:
        """Units by both totals; the later occasion is the first of the pair, as differences are later minus earlier."""
        before, after = self.totals
        return PairedAmounts.from_arrays(after, before, self.counts, self.weights)

    def merged(self, sources: Ints, source_names: Sequence[Any], groups: Ints, group_names: Sequence[Any]) -> Changes:
        """These units with sources and groups under other codes, several of which may be the same."""
        sums = [np.zeros((len(self.counts), len(source_names))) for _ in OCCASIONS]
        for k, code in enumerate(sources):
            sums[0][:, code] += self.before[:, k]
            sums[1][:, code] += self.after[:, k]
        return replace(
            self, sources=tuple(source_names), groups=tuple(group_names), before=sums[0], after=sums[1],
            group=groups[self.group],
        )  # fmt: skip

    def thinned(self, shares: tuple[float, float], rng: np.random.Generator) -> tuple[Changes, Changes, Ints]:
        """Every unit as it is, and with each event kept by chance; and the cell that each cell of the two comes from."""
        unit = np.repeat(np.arange(len(self.counts)), self.counts.astype(np.int64))
        amounts = [
            x[unit] if share == 1 else rng.binomial(x[unit].astype(np.int64), share).astype(np.float64)
            for x, share in zip((self.before, self.after), shares, strict=True)
        ]
        order, starts = sorted_runs(*np.column_stack([unit, *amounts]).T)
        at = order[starts]
        cells = unit[at]
        whole = replace(
            self, before=self.before[cells], after=self.after[cells], group=self.group[cells],
            counts=np.diff(starts, append=len(order)).astype(np.float64),
            weights=None if self.weights is None else self.weights[cells],
        )  # fmt: skip
        return whole, replace(whole, before=amounts[0][at], after=amounts[1][at]), cells

    @classmethod
    def from_log(cls, log: Log, amount: Amount, arms: Cells) -> Changes:
        """The units of a log with the marks `arm` and, where sources are told apart, `source`; groups are its slices."""
        sources, names = coded_sources(log, "source") if "source" in log.types else (None, [None])
        tables = log.engine.bring(arms), "" if sources is None else log.engine.bring(sources)
        parts = {
            f"{name}_{k}": f"occasion = {i} AND source_code = {k}"
            for i, name in enumerate(OCCASIONS)
            for k in range(len(names))
        }
        per_unit = _per_unit(log, amount, *tables, parts, log.keys)
        cells = log.engine.cells(per_unit + _counted(log, list(parts)))
        if log.weight is not None:
            refuse_changing_weights(cells, log.weight)
        before, after = (
            np.column_stack([cells.floats(f"{name}_{k}") for k in range(len(names))]) for name in OCCASIONS
        )
        if not amount.integer:
            before, after = significant(before), significant(after)
        codes, labels = cells.codes(log.keys)
        weights = cells.floats("weight") if log.weight is not None else np.ones(len(cells))
        order = np.lexsort(
            [weights, *after.T[::-1], *before.T[::-1], codes]
        )  # draws follow the order of cells, engines do not
        return cls(
            tuple(names), tuple(labels), before[order], after[order], np.asarray(codes)[order], cells.floats("units")[order],
            None if log.weight is None else weights[order],
        )  # fmt: skip

    @property
    def seen(self) -> dict[Label, float]:
        """How many units each group has."""
        return dict(zip(self.groups, np.bincount(self.group, self.counts, len(self.groups)).tolist(), strict=True))

    def padded(self, sizes: Mapping[Label, int]) -> Changes:
        """These units and those nobody saw, to as many as `sizes` has for every group."""
        seen, labels = self.seen, list(sizes)
        ordered = [labels[i] for i in rows_in_order(labels)]  # draws follow the order of cells
        groups = (*self.groups, *(label for label in ordered if label not in seen))
        lacking = {label: sizes[label] - seen.get(label, 0.0) for label in ordered}
        unseen = {groups.index(label): n for label, n in lacking.items() if n > 0}
        if not unseen:
            return self
        nothing = np.zeros((len(unseen), len(self.sources)))
        return replace(
            self, groups=groups, before=np.concatenate([self.before, nothing]), after=np.concatenate([self.after, nothing]),
            group=np.concatenate([self.group, list(unseen)]), counts=np.concatenate([self.counts, list(unseen.values())]),
        )  # fmt: skip


def has_shared_units(log: Log) -> bool:
    """Whether some unit has rows in several arms; a log of one arm has nobody to share."""
    return varying(log, f"SELECT unit, arm FROM {log.source}", "arm") > 0


def unit_ids(
    log: Log, amount: Amount, arms: Cells, after: Floats, before: Floats, most: int
) -> list[tuple[Any, float, float, int]]:
    """Ids of units with these pairs of amounts, in the order of the pairs, at most so many: id, before, after, place of the pair.

    Sums of floats depend on the order of rows in their last digits, so that pairs match within 1e-9 of themselves.
    """
    near = 1e-9
    ends = {
        f"{end}_{name}": x * (1 + sign * near)
        for name, x in (("before", before), ("after", after))
        for end, sign in (("least", -1), ("most", 1))
    }
    pairs = arms.from_columns({"place": np.arange(len(after)), **ends})
    parts = {name: f"occasion = {i}" for i, name in enumerate(OCCASIONS)}
    between = " AND ".join(f"{name} BETWEEN pairs.least_{name} AND pairs.most_{name}" for name in OCCASIONS)
    cells = log.engine.cells(f"""
        {_per_unit(log, amount, log.engine.bring(arms), "", parts, [])}
        SELECT unit, before, after, place
        FROM per_unit JOIN {log.engine.bring(pairs)} AS pairs ON {between}
        ORDER BY place, unit
        LIMIT {most}
    """)
    ids = [label for (label,) in cells.labels(["unit"])]
    amounts = [cells.floats(name).tolist() for name in OCCASIONS]
    return list(zip(ids, *amounts, cells.integers("place").tolist(), strict=True))
