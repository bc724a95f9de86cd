"""Outcome tests that a database added up: the rows of `outcomes_query` as the view and the sums that the table would give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals as nw
import numpy as np

from evenhand.cards import Floats
from evenhand.engine.queries import slice_keys
from evenhand.engine.queries_outcomes import flags_of, outcomes_columns, outcomes_part
from evenhand.tallies.moments import POWERS, Moments
from evenhand.views.outcomes import Checked, CountedOutcomes, Missing, Outcomes, Roles, view_counted
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
) -> Checked:
    """The rows of a query as the view that the table would have given."""
    import polars as pl

    keys = slice_keys(roles.by)
    part = outcomes_part(roles, kind, threshold, bins)
    numbers = outcomes_columns(roles, len(edges))
    counts = ["rows_read", *flags_of(roles), "used", "bin", "held", "above", "below"]
    frame, opened = open_tally(held, [part], numbers, ["reach", *keys, "label"], counts)
    frame = frame.rename({"label": "group", "rows_read": "rows"})
    facts = frame.filter(pl.col("reach") == "group")
    cells = frame.filter(pl.col("reach") != "group").with_columns(pl.col("bin").cast(pl.Int64))
    nobody = facts.head(0).with_columns(pl.lit(0.0).alias("score"))
    return view_counted(
        nw.from_native(nobody).lazy(), opened.backend, opened.origin, facts, CountedOutcomes(cells, tuple(edges)), roles,
        reference=reference, threshold=threshold, nan_policy=nan_policy,
    )  # fmt: skip


def _scope(view: Checked, low: float, high: float) -> Any:
    """The cells of all scores, or of those that all groups share."""
    import polars as pl

    assert view.counted is not None  # noqa: S101  (its callers ask)
    every = (low, high) == view.score_ends
    return view.counted.cells.filter(pl.col("reach") == ("all" if every else "shared"))


def _edges(cells: Any) -> Floats:
    """The fine edges, which every cell of a scope knows; equal ones where scores tie."""
    names = sorted((c for c in cells.columns if c.startswith("edge_")), key=lambda c: int(c.removeprefix("edge_")))
    return np.array([cells[name][0] for name in names] if cells.height else [], dtype=np.float64)


def counted_edges(view: Checked, low: float, high: float) -> Floats:
    """The scores that the shares of the query stand for."""
    return _edges(_scope(view, low, high))


def counted_moments(view: Checked, edges: Floats, low: float, high: float) -> tuple[Outcomes, Moments]:
    """The view with its groups, and sums per bin and group: the fine bins of the query merged into those with these edges."""
    known = view if isinstance(view, Outcomes) else view.by_group()
    cells = _scope(view, low, high)
    fine = _edges(cells)
    codes = {label: i for i, label in enumerate(known.labels)}
    shape = (len(fine) + 1, len(codes))
    at = cells["bin"].to_numpy() * shape[1] + np.array([codes[g] for g in cells["group"]], dtype=np.int64)

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
    return known, tally.merged(into)
