"""A result about rankings: it also holds what each request had to say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from evenhand.results import Result, as_frame


@dataclass(frozen=True, repr=False)
class RankedResult(Result):
    """A result whose numbers are means over requests; `per_request` has the values behind them."""

    requests: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    @property
    def per_request(self) -> Any:
        """One row per request, slice and metric: request, slice columns, system, metric, group, estimate, note, and more."""
        return as_frame(self.requests, self.backend)

    def only(self, *metrics: str) -> RankedResult:
        """The same result with these metrics only, named as in the `metric` column."""
        keep = [i for i, name in enumerate(self.requests.get("metric", ())) if name in metrics]
        requests = {name: [column[i] for i in keep] for name, column in self.requests.items()}
        return replace(self, findings=self.findings.only(*metrics), requests=requests)
