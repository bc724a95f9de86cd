"""What units received on two occasions, by source and group, and who they are where single units matter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.cards import Floats
from evenhand.errors import EvenhandError
from evenhand.sources.sql import columns
from evenhand.tallies.paired_amounts import PairedAmounts
from evenhand.tallies.ragged import Ints, run_starts
from evenhand.tallies.slices import Slices, refuse_weights, rounded
from evenhand.tallies.sources import MOST_SOURCES
from evenhand.tallies.spectrum import Spectra, collapse

if TYPE_CHECKING:
    from evenhand.sources.engine import Cells
    from evenhand.sources.logs import Amount, Log

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
        keys = np.column_stack([unit, *amounts])
        order = np.lexsort(keys.T[::-1])
        starts = run_starts(*keys[order].T)
        at = order[starts]
        cells = unit[at]
        whole = replace(
            self, before=self.before[cells], after=self.after[cells], group=self.group[cells],
            counts=np.diff(starts, append=len(order)).astype(np.float64),
            weights=None if self.weights is None else self.weights[cells],
        )  # fmt: skip
        return whole, replace(whole, before=amounts[0][at], after=amounts[1][at]), cells

    @staticmethod
    def query(log: Log, amount: Amount, arms: str, sources: str, count: int) -> str:
        """SQL of units by vector of amounts; `arms` and `sources` are tables of labels with their codes."""
        parts = [f"{name}_{k}" for name in OCCASIONS for k in range(count)]
        kind = "BIGINT" if amount.integer else "DOUBLE"
        sums = ", ".join(
            f"CAST(SUM(CASE WHEN occasion = {i} AND source_code = {k} THEN amount ELSE 0 END) AS {kind}) AS {name}_{k}"
            for i, name in enumerate(OCCASIONS)
            for k in range(count)
        )
        weights = ["weight", "least_weight"] if log.weight is not None else []
        extremes = ", MAX(weight) AS weight, MIN(least_weight) AS least_weight" if weights else ""
        cells = columns([*log.keys, *parts, *weights])
        return f"""
            WITH sums AS ({_sums(log, amount, arms, sources)}),
            per_unit AS (
                SELECT {columns([*log.keys, "unit"])}, {sums}{extremes}
                FROM sums
                GROUP BY {columns([*log.keys, "unit"])}
            )
            SELECT {cells}, COUNT(*) AS units FROM per_unit GROUP BY {cells}
        """

    @classmethod
    def from_log(cls, log: Log, amount: Amount, arms: Cells) -> Changes:
        """The units of a log with the marks `arm` and, where sources are told apart, `source`; groups are its slices."""
        sources, names = _coded(log, "source") if "source" in log.types else (None, (None,))
        tables = log.engine.bring(arms), "" if sources is None else log.engine.bring(sources)
        cells = log.engine.cells(cls.query(log, amount, *tables, len(names)))
        if log.weight is not None:
            several = cells.floats("weight") != cells.floats("least_weight")
            refuse_weights(int(cells.integers("units")[several].sum()), log.weight)
        before, after = (
            np.column_stack([cells.floats(f"{name}_{k}") for k in range(len(names))]) for name in OCCASIONS
        )
        if not amount.integer:
            before, after = rounded(before), rounded(after)
        codes, labels = cells.codes(log.keys)
        weights = cells.floats("weight") if log.weight is not None else np.ones(len(cells))
        order = np.lexsort(
            [weights, *after.T[::-1], *before.T[::-1], codes]
        )  # draws follow the order of cells, engines do not
        return cls(
            names, tuple(labels), before[order], after[order], np.asarray(codes)[order], cells.floats("units")[order],
            None if log.weight is None else weights[order],
        )  # fmt: skip

    @property
    def slices(self) -> Slices:
        """Groups as slices of what was received in all; how many units each has is what counts."""
        received = self.totals[0] + self.totals[1]
        members = [self.group == g for g in range(len(self.groups))]
        spectra = [
            collapse(received[m], self.counts[m], None if self.weights is None else self.weights[m]) for m in members
        ]
        return Slices(self.groups, Spectra.from_spectra(spectra))

    def among(self, everyone: Slices) -> Changes:
        """These units and those nobody saw: `everyone` says how many each group has in all."""
        seen = dict(zip(self.groups, np.bincount(self.group, self.counts, len(self.groups)).tolist(), strict=True))
        groups = (*self.groups, *(label for label in everyone.labels if label not in seen))
        sizes = zip(everyone.labels, everyone.spectra.units.tolist(), strict=True)
        unseen = {groups.index(label): n - seen.get(label, 0.0) for label, n in sizes if n > seen.get(label, 0.0)}
        if not unseen:
            return self
        nothing = np.zeros((len(unseen), len(self.sources)))
        return replace(
            self, groups=groups, before=np.concatenate([self.before, nothing]), after=np.concatenate([self.after, nothing]),
            group=np.concatenate([self.group, list(unseen)]), counts=np.concatenate([self.counts, list(unseen.values())]),
        )  # fmt: skip


def has_shared_units(log: Log) -> bool:
    """Whether some unit has rows in several arms; a log of one arm has nobody to share."""
    several = f"SELECT unit FROM {log.source} GROUP BY unit HAVING COUNT(DISTINCT arm) > 1"
    return bool(log.engine.cells(f"SELECT COUNT(*) AS units FROM ({several}) AS several").row()["units"])


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
    sums = ", ".join(
        f"CAST(SUM(CASE WHEN occasion = {i} THEN amount ELSE 0 END) AS DOUBLE) AS {name}"
        for i, name in enumerate(OCCASIONS)
    )
    between = " AND ".join(f"{name} BETWEEN pairs.least_{name} AND pairs.most_{name}" for name in OCCASIONS)
    cells = log.engine.cells(f"""
        WITH sums AS ({_sums(log, amount, log.engine.bring(arms), "")}),
        per_unit AS (SELECT unit, {sums} FROM sums GROUP BY unit)
        SELECT unit, before, after, place
        FROM per_unit JOIN {log.engine.bring(pairs)} AS pairs ON {between}
        ORDER BY place, unit
        LIMIT {most}
    """)
    ids = [label for (label,) in cells.labels(["unit"])]
    return list(
        zip(
            ids,
            cells.floats("before").tolist(),
            cells.floats("after").tolist(),
            cells.integers("place").tolist(),
            strict=True,
        )
    )


def _sums(log: Log, amount: Amount, arms: str, sources: str) -> str:
    """SQL of what each unit received on each occasion, by source."""
    by_source = f"JOIN {sources} AS sources ON log.source = sources.label" if sources else ""
    rows = f"""
        SELECT log.*, arms.code AS occasion, {"sources.code" if sources else "0"} AS source_code
        FROM {log.source} JOIN {arms} AS arms ON log.arm = arms.arm {by_source}
    """
    return replace(log, sql=rows).sums(amount, [*log.keys, "unit", "occasion", "source_code"])


def _coded(log: Log, mark: str) -> tuple[Cells, tuple[Any, ...]]:
    """The labels of a mark with the code of each."""
    distinct = log.engine.cells(f"SELECT DISTINCT {mark} AS label FROM {log.source} LIMIT {MOST_SOURCES + 1}")
    if len(distinct) > MOST_SOURCES:
        raise EvenhandError(
            f"{mark} has more than {MOST_SOURCES} different values, too many to tell apart. Group them into fewer."
        )
    codes, labels = distinct.codes(["label"])
    return distinct.with_column("code", codes), tuple(label for (label,) in labels)
