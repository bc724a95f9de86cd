"""Results of ranking audits: the frame, and beside it the value of every request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenhand.cards import Floats
from evenhand.results import Result, as_frame


@dataclass(frozen=True)
class Held:
    """One row of the frame, ready to be resampled: sums per request, and what their totals mean.

    Attributes
    ----------
    where : labels of the slice. metric, group : as in the frame. requests : (Q,) ids.
    sums : (Q, K) what a resample of requests adds up; `value` turns (..., K) totals into the metric.
    """

    where: tuple[Any, ...]
    metric: str
    group: str | None
    requests: Sequence[Any]
    sums: Floats
    value: Callable[[Floats], Floats]


@dataclass(frozen=True, repr=False)
class RankingResult(Result):
    """A result that also knows the value of each request; these stay in memory and are never written to JSON."""

    each: Callable[[], Mapping[str, Sequence[Any]]] | None = None
    hold: Callable[[], Sequence[Held]] | None = None

    @property
    def per_request(self) -> Any:
        """One row per slice, request and metric: request, system, metric, group, estimate, note."""
        columns = {} if self.each is None else self.each()
        return as_frame(columns, self.backend, (*self.findings.slices, "request"))

    def only(self, *metrics: str) -> RankingResult:
        """The same result with these metrics only, named as in the `metric` column."""
        each = self.each

        def chosen() -> Mapping[str, Sequence[Any]]:
            columns = {} if each is None else each()
            keep = [i for i, name in enumerate(columns.get("metric", ())) if name in metrics]
            return {name: [column[i] for i in keep] for name, column in columns.items()}

        return replace(self, findings=self.findings.only(*metrics), each=chosen)

    def held(self) -> list[Held]:
        """Every row of the frame by request; a metric whose audit keeps no sums is the mean over its requests."""
        known = set(self.findings.metrics())
        if self.hold is not None:
            return [h for h in self.hold() if h.metric in known]
        return means_of({} if self.each is None else self.each(), self.findings.slices)

    def compare(self, other: Result) -> Result:
        """This result minus another of the same question; paired where both rest on the same requests."""
        from evenhand.audits.compare import compare

        return compare(self, other)


def means_of(columns: Mapping[str, Sequence[Any]], slices: Sequence[str]) -> list[Held]:
    """The rows of a frame whose estimates are means over requests."""
    found: dict[tuple[Any, ...], list[int]] = {}
    keys = zip(*(columns.get(name, ()) for name in (*slices, "metric", "group")), strict=True)
    for i, key in enumerate(keys):
        found.setdefault(key, []).append(i)
    estimates = np.asarray(columns.get("estimate", ()), dtype=np.float64)
    return [
        Held(key[:-2], key[-2], key[-1], [columns["request"][i] for i in at], _mean_sums(estimates[at]), _mean)
        for key, at in found.items()
    ]


def _mean_sums(values: Floats) -> Floats:
    there = ~np.isnan(values)
    return np.stack([np.where(there, values, 0.0), there.astype(np.float64)], axis=1)


def _mean(total: Floats) -> Floats:
    return np.asarray(total[..., 0] / total[..., 1])
