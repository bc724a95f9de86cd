"""Results of ranking audits: the frame, and beside it the value of every request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evenhand.results import Result, as_frame


@dataclass(frozen=True, repr=False)
class RankingResult(Result):
    """A result that also knows the value of each request; these stay in memory and are never written to JSON."""

    each: Callable[[], Mapping[str, Sequence[Any]]] | None = None

    @property
    def per_request(self) -> Any:
        """One row per slice, request and metric: request, system, metric, group, estimate, note."""
        columns = {} if self.each is None else self.each()
        return as_frame(columns, self.backend)

    def only(self, *metrics: str) -> RankingResult:
        """The same result with these metrics only, named as in the `metric` column."""
        each = self.each

        def chosen() -> Mapping[str, Sequence[Any]]:
            columns = {} if each is None else each()
            keep = [i for i, name in enumerate(columns.get("metric", ())) if name in metrics]
            return {name: [column[i] for i in keep] for name, column in columns.items()}

        return replace(self, findings=self.findings.only(*metrics), each=chosen)
