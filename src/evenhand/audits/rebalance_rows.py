"""Rows of a frontier: relevance kept, inequality and distance from the old lists, on learned and held-out requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand.allocation.objectives import Welfare
from evenhand.allocation.replay import Replayed
from evenhand.audits.assemble import notes
from evenhand.cards import REGISTRY, Floats, MetricSpec, parse_metric
from evenhand.findings import Row, row
from evenhand.intervals.jackknife import FEWEST, jackknife_ends
from evenhand.tallies.sources import significant
from evenhand.tallies.spectrum import Spectrum

SPREAD = ("gini", "top_share(p=0.1)")
"""Inequality of exposure over providers, whatever was optimised."""

CARDS = {"ndcg_standard": "ndcg", "ndcg_relevance": "ndcg"}
"""Rows whose card has another name."""


@dataclass(frozen=True)
class Meter:
    """Turns what a policy gives into rows.

    Attributes
    ----------
    bucket : (Q,) which requests are left out together. level : of intervals; None for none.
    spread : inequality metrics of exposure. welfare : the objective as typed, where it is one without a card.
    target : (providers,) shares that were asked for, if any. reach : the least and the most that candidates allow.
    """

    bucket: Any
    level: float | None
    spread: Sequence[MetricSpec]
    providers: Sequence[Any]
    welfare: tuple[str, Welfare] | None = None
    target: Floats | None = None
    reach: tuple[Floats, Floats] | None = None

    def rows(self, labels: Mapping[str, Any], found: Replayed, why_not: str) -> list[Row]:
        """Every metric of one policy; `why_not` is the note where there are no intervals."""
        made = [self._mean(labels, name, values, why_not) for name, values in found.each.items()]
        made += [self._of_exposure(labels, a, found, why_not) for a in self.spread]
        if self.welfare is not None:
            made.append(self._of_welfare(labels, *self.welfare, found, why_not))
        return made + (self._shares(labels, found, why_not) if self.target is not None else [])

    def _shares(self, labels: Mapping[str, Any], found: Replayed, why_not: str) -> list[Row]:
        """Each provider's share of exposure beside its target, and what candidates allow."""
        shares, without = _shares(found.exposure)
        target = np.zeros(len(shares)) if self.target is None else self.target
        least, most = (np.zeros(len(shares)), np.ones(len(shares))) if self.reach is None else self.reach
        off = (target < least - 1e-9) | (target > most + 1e-9)
        away = 0.5 * np.abs(without - target).sum(1)
        far = self._row(
            labels, "target_distance", float(0.5 * np.abs(shares - target).sum()), away, (0.0, 1.0), why_not, ideal=0.0,
            better="lower", also="out_of_reach" if off.any() else "",
        )  # fmt: skip
        each = [
            self._row(
                labels, "share", float(shares[g]), without[:, g], (0.0, 1.0), why_not, group=str(label),
                ideal=float(target[g]), better="ideal", least=float(least[g]), most=float(most[g]),
                also="out_of_reach" if off[g] else "",
            )
            for g, label in enumerate(self.providers)
        ]  # fmt: skip
        return [far, *each]

    def _of_welfare(self, labels: Mapping[str, Any], name: str, welfare: Welfare, found: Replayed, why_not: str) -> Row:
        """The additive welfare of exposure over its mean: 1 where all have the same; without an end below where somebody has none."""
        whole = found.received
        rest = whole - found.exposure
        without = np.array([welfare.value(np.maximum(x, 0.0) / x.mean()) for x in rest])
        return self._row(
            labels,
            name,
            welfare.value(whole / whole.mean()),
            without,
            (-np.inf, 1.0),
            why_not,
            ideal=1.0,
            better="higher",
        )

    def gini(self, found: Replayed) -> float:
        return _on(self.spread[0], found.received)

    def _mean(self, labels: Mapping[str, Any], name: str, values: Floats, why_not: str) -> Row:
        metric = REGISTRY[CARDS.get(name, name)]
        known = ~np.isnan(values)
        held = self.bucket[known]
        many = int(self.bucket.max(initial=-1)) + 1
        sums, counts = np.bincount(held, values[known], many), np.bincount(held, minlength=many)
        with np.errstate(invalid="ignore", divide="ignore"):
            estimate = float(sums.sum() / counts.sum())
            without = (sums.sum() - sums) / (counts.sum() - counts)
        some = "some_undefined" if 0 < known.sum() < len(values) else ""
        if not known.any():
            some = "zero_utility"
        return self._row(
            labels, name, estimate, without, metric.span(), why_not, ideal=metric.ideal(), better=metric.better(),
            units=int(known.sum()), also=some,
        )  # fmt: skip

    def _of_exposure(self, labels: Mapping[str, Any], a: MetricSpec, found: Replayed, why_not: str) -> Row:
        whole = found.received
        estimate = _on(a, whole)
        without = (
            np.array([_on(a, whole - part) for part in found.exposure])
            if not why_not and self.level is not None
            else np.empty(0)
        )
        also = a.card.reason(Spectrum.of(whole), **a.params) if np.isnan(estimate) else a.caution(estimate)
        return self._row(labels, a.text, estimate, without, a.span, why_not, ideal=a.ideal, better=a.better, also=also)

    def _row(
        self, labels: Mapping[str, Any], name: str, estimate: float, without: Floats, span: tuple[float, float], why_not: str,
        also: str = "", **values: Any,
    ) -> Row:  # fmt: skip
        values.setdefault("units", len(self.bucket))
        low = high = np.nan
        if not why_not and self.level is not None and np.isfinite(estimate):
            low, high = jackknife_ends(estimate, without[np.isfinite(without)], self.level, span)
            why_not = "" if np.isfinite(low) else "few_requests" if values["units"] < FEWEST else "no_variation"
        return row(labels, name, estimate=estimate, low=low, high=high, note=notes(also, why_not), **values)


def _on(a: MetricSpec, exposure: Floats) -> float:
    return float(a.on(Spectrum.of(significant(np.maximum(exposure, 0.0)))))


def _shares(exposure: Floats) -> tuple[Floats, Floats]:
    """(providers,) shares of exposure, and (buckets, providers) those without each bucket."""
    whole = exposure.sum(0)
    rest = whole - exposure
    with np.errstate(invalid="ignore", divide="ignore"):
        return whole / whole.sum(), rest / rest.sum(1, keepdims=True)


def spread_of(objective: Any) -> list[MetricSpec]:
    """The inequality metrics of the frame: the two of every frontier, and the one that was optimised where it has a card."""
    more = [objective] if isinstance(objective, str) and objective.startswith("atkinson") else []
    return [parse_metric(text) for text in (*SPREAD, *more)]
