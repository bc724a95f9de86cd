"""Outcome tests that a database added up: the rows of `outcomes_query` as the view and the sums that the table would give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import narwhals as nw
import numpy as np

from evenhand.cards import Floats
from evenhand.engine.queries_clusters import PAIRS
from evenhand.engine.queries_outcomes import SCOPE, flags_of, outcomes_columns, outcomes_labels, outcomes_part
from evenhand.errors import EvenhandError, all_problems
from evenhand.tallies.cluster_squares import ClusterSquares
from evenhand.tallies.clusters import FLIPPED, LINEAR, SUMS, Clusters
from evenhand.tallies.moments import POWERS, Ints, Moments
from evenhand.tallies.sources import significant
from evenhand.views.outcomes import Checked, CountedOutcomes, Missing, Outcomes, Roles, name_problems, view_counted
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
    part = outcomes_part(roles, kind, threshold, bins, fewest)
    numbers = outcomes_columns(roles, len(edges), fewest)
    counts = ["rows_read", *flags_of(roles), "used", "bin", "held", "above", "below"]
    frame, opened = open_tally(held, [part], numbers, outcomes_labels(roles), counts)
    frame = frame.rename({"label": "group", "rows_read": "rows"})
    facts = frame.filter(pl.col("reach") == "group")
    cells = frame.filter(pl.col("reach") != "group").with_columns(pl.col("bin").cast(pl.Int64))
    cells = _with_means(cells, edges) if fewest > 1 else cells
    nobody = facts.head(0).with_columns(pl.lit(0.0).alias("score"))
    return view_counted(
        nw.from_native(nobody).lazy(), opened.backend, opened.origin, facts, CountedOutcomes(cells, tuple(edges)), roles,
        reference=reference, threshold=threshold, nan_policy=nan_policy,
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


def counted_moments(view: Checked, edges: Floats, high: float, reach: str) -> tuple[Outcomes, Moments]:
    """The view with its groups, and sums per bin and group: the fine bins of the query merged into those with these edges."""
    known = view if isinstance(view, Outcomes) else view.by_group()
    cells = _scope(view, reach)
    fine = _edges(cells)
    codes = {label: i for i, label in enumerate(known.labels)}
    shape = (len(fine) + 1, len(codes))
    at = cells["bin"].to_numpy() * shape[1] + _coded(cells["group"], codes)

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
    if view.roles.clustered:
        tally = replace(tally, clusters=_clusters(view, reach, codes, shape))
    into = np.append(np.searchsorted(edges, fine), len(edges)).astype(np.int64)
    merged = tally.merged(into)
    if isinstance(merged.clusters, ClusterSquares):
        _refuse_few(merged.clusters, known)
    return known, merged


def _refuse_few(found: ClusterSquares, known: Outcomes) -> None:
    """Clusters that somebody would look at one by one, where the query added them up for being many."""
    own = found.steps[known.reference].sum(0)
    if np.any((own > 0) & (own <= FLIPPED)):
        raise EvenhandError(
            f"The reference has {int(own[own > 0].min()):,} clusters in one of the bins, so few that each of them is looked at, and the "
            "query adds up clusters because there are many in all. Pass fewer bins or another reference, or the table."
        )


def _clusters(view: Checked, reach: str, codes: Mapping[Any, int], shape: tuple[int, int]) -> Clusters | ClusterSquares:
    """The sums of clusters, or their products, over fine bins."""
    import polars as pl

    assert view.counted is not None  # noqa: S101  (its callers ask)
    bins, groups = shape
    kinds = {
        kind: view.counted.cells.filter(pl.col("reach") == f"{reach} {kind}")
        for kind in ("clusters", "products", "steps", "any")
    }
    listed = kinds["clusters"]
    if listed.height or not kinds["any"].height:
        listed = listed.with_columns(pl.Series("code", _coded(listed["group"], codes)))
        listed = listed.sort("cluster", "code", "bin")
        each = tuple(listed[f"sum_{i}{j}"].to_numpy() for i, j in LINEAR)
        place = listed["bin"].to_numpy() * groups + listed["code"].to_numpy()
        return Clusters(listed["cluster"].rle_id().to_numpy().astype(np.int64), place, each, bins, groups)
    products = kinds["products"]
    one = products["bin"].to_numpy() * groups + _coded(products["group"], codes)
    other = products["bin_2"].cast(pl.Int64).to_numpy() * groups + _coded(products["label_2"], codes)
    cross = np.zeros((bins * groups, SUMS, bins * groups, SUMS))
    for i, j in PAIRS:
        values = products[f"product_{i}{j}"].to_numpy()
        cross[one, i, other, j] = values
        cross[other, j, one, i] = values
    steps = np.zeros((groups + 1, bins + 1, bins), dtype=np.int64)
    for kind in ("steps", "any"):
        rows = kinds[kind]
        group = _coded(rows["group"], codes) if kind == "steps" else np.full(rows.height, groups)
        before = (rows["bin_2"] + 1).fill_null(0).cast(pl.Int64).to_numpy()
        steps[group, before, rows["bin"].to_numpy()] = rows["held"].to_numpy().astype(np.int64)
    sums = np.zeros((bins * groups, SUMS))
    cells = view.counted.cells.filter(pl.col("reach") == reach)
    at = cells["bin"].to_numpy() * groups + _coded(cells["group"], codes)
    for k, (i, j) in enumerate(LINEAR):
        sums[at, k] = cells[f"sum_{i}{j}"].to_numpy()
    return ClusterSquares(cross, sums, steps, int(steps[-1, 0].sum()))


def _coded(labels: Any, codes: Mapping[Any, int]) -> Ints:
    return np.array([codes[label] for label in labels], dtype=np.int64)
