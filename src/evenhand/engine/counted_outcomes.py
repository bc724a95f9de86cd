"""Outcome tests that a database added up: the rows of `outcomes_query` as the view and the sums that the table would give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from evenhand.cards import Floats
from evenhand.engine.queries_outcomes import (
    SCOPE,
    flags_of,
    outcomes_columns,
    outcomes_labels,
    outcomes_part,
    refuse_clusters,
)
from evenhand.errors import all_problems
from evenhand.sources.outcomes import (
    Checked,
    CountedOutcomes,
    Missing,
    Outcomes,
    Roles,
    counted_outcomes,
    name_problems,
)
from evenhand.tallies.moments import POWERS, Ints, Moments
from evenhand.tallies.sources import significant
from evenhand.views.tally import Tally, open_tally


def view_counted_outcomes(
    held: Tally,
    roles: Roles,
    *,
    kind: str,
    bins: Any,
    edges: Sequence[Any],
    reference: Any,
    threshold: float | None,
    nan_policy: Missing,
    fewest: int = 0,
) -> Checked:
    """The rows of a query as the view that the table would have given."""
    import polars as pl

    if problems := name_problems(roles):
        raise all_problems(problems, where="The call")
    refuse_clusters(roles)
    part = outcomes_part(roles, kind, threshold, bins, fewest)
    numbers = outcomes_columns(roles, len(edges), fewest)
    counts = ["rows_read", *flags_of(roles), "used", "bin", "held", "above", "below"]
    frame, opened = open_tally(held, [part], numbers, outcomes_labels(roles), counts)
    frame = frame.rename({"rows_read": "rows"})
    facts = frame.filter(pl.col("reach") == "group")
    cells = frame.filter(pl.col("reach") != "group").with_columns(pl.col("bin").cast(pl.Int64))
    cells = _with_means(cells, edges) if fewest > 1 else cells
    return counted_outcomes(
        opened.backend, opened.origin, facts, CountedOutcomes(cells, tuple(edges)), roles, reference=reference,
        threshold=threshold, nan_policy=nan_policy,
    )  # fmt: skip


def _with_means(cells: Any, edges: Sequence[Any]) -> Any:
    """The same, ends and edges that are means in the digits that they have on any engine."""
    import polars as pl

    found = [f"edge_{k}" for k, edge in enumerate(edges) if isinstance(edge, Fraction)]
    told = {name: pl.Series(name, significant(cells[name].fill_null(0.0).to_numpy())) for name in (*SCOPE, *found)}
    mean = cells["reach"] == "shared"
    told |= {name: told[name].set(~mean, None).fill_null(cells[name]) for name in found}
    return cells.with_columns(told.values())


def _scope(view: Checked, reach: str) -> Any:
    """The cells of all scores, or of those that all groups share."""
    import polars as pl

    assert view.counted is not None  # noqa: S101  (its callers ask)
    return view.counted.cells.filter(pl.col("reach") == reach)


def reach_of(view: Checked, low: float, high: float) -> str:
    """What rows of a query with these scores are called."""
    return "all" if (low, high) == view.score_ends else "shared"


def _edges(cells: Any) -> Floats:
    """The fine edges, which every cell of a scope knows; equal ones where scores tie."""
    names = sorted((c for c in cells.columns if c.startswith("edge_")), key=lambda c: int(c.removeprefix("edge_")))
    return np.array([cells[name][0] for name in names] if cells.height else [], dtype=np.float64)


def counted_edges(view: Checked, reach: str) -> Floats:
    """The scores that the shares of the query stand for."""
    return _edges(_scope(view, reach))


def counted_ends(view: Checked) -> tuple[float, float]:
    """The ends of what is tested, where they are means."""
    cells = _scope(view, "all")
    return float(cells["scope_low"][0]), float(cells["scope_high"][0])


def counted_moments(view: Outcomes, edges: Floats, high: float, reach: str) -> Moments:
    """Sums per bin and group: the fine bins of the query merged into those with these edges."""
    cells = _scope(view, reach)
    fine = _edges(cells)
    codes = {label: i for i, label in enumerate(view.labels)}
    shape = (len(fine) + 1, len(codes))
    at = cells["bin"].to_numpy() * shape[1] + _coded(cells["label"], codes)

    def place(name: str, blank: float = 0.0) -> Floats:
        out = np.full(shape[0] * shape[1], blank)
        out[at] = cells[name].to_numpy()
        return out.reshape(shape)

    def powers(kind: str) -> Floats:
        sums = np.zeros((*shape, 5, 3))
        for i, j in POWERS:
            sums[..., i, j] = place(f"{kind}_{i}{j}")
        return sums

    origin = np.append(fine, high)
    origin[cells["bin"].to_numpy()] = cells["origin"].to_numpy()
    slope = np.zeros(shape)
    slope[cells["bin"].to_numpy()] = cells["slope"].to_numpy()[:, None]
    weighted = view.weighted
    tally = Moments(
        powers("sum"), origin, place("level"), slope, place("cell_low", np.inf), place("cell_high", -np.inf), place("above"),
        place("below"), squares=powers("square") if weighted else None, held=place("held") if weighted else None,
    )  # fmt: skip
    into = np.append(np.searchsorted(edges, fine), len(edges)).astype(np.int64)
    return tally.merged(into)


def _coded(labels: Any, codes: Mapping[Any, int]) -> Ints:
    return np.array([codes[label] for label in labels], dtype=np.int64)
