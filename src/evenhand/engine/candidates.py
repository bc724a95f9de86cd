"""From a checked view to the candidates of every request, for allocations that are made again."""

from __future__ import annotations

import narwhals as nw
import numpy as np

from evenhand.cards import Floats
from evenhand.engine.moments import coded
from evenhand.tallies.candidates import Candidates
from evenhand.views.outcomes import Outcomes
from evenhand.views.tables import to_polars


def tally_candidates(view: Outcomes, edges: Floats, scope: tuple[float, float], lowest: float = -np.inf) -> Candidates:
    """Every row that holds a slot or is scored at least `lowest`; they leave the engine in five narrow columns.

    A new allocation needs the candidates of a request side by side, treated or not; a table without requests is one. Rows
    of groups of whom no outcome was ever seen are left out: nothing can be predicted for them.
    """
    names = view.lazy.collect_schema().names()
    rows = view.lazy.select(*(n for n in ("request", "score", "group", "outcome", "used") if n in names))
    if lowest > -np.inf:
        rows = rows.filter((nw.col("used") == 1) | (nw.col("score") >= lowest))
    frame = coded(to_polars(rows), view.labels).drop_nulls("code")
    if "request" in names:
        request = frame["request"].rank("dense").to_numpy()
    else:  # in an order of their own, so that the table's does not decide which part a row is dealt into
        frame = frame.sort("score", "code", "outcome", "used")
        request = np.zeros(frame.height, dtype=np.int64)
    return Candidates.of(
        request,
        frame["score"].to_numpy(),
        frame["code"].to_numpy(),
        frame["outcome"].fill_null(0.0).to_numpy(),
        frame["used"].to_numpy() == 1,
        edges=edges,
        groups=len(view.labels),
        reference=view.reference,
        scope=scope,
    )
