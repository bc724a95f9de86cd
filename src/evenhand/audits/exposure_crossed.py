"""Resampling requests and items at once: intervals for requests and items like these, not for these items."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evenhand.audits.exposure_asks import Asked
from evenhand.audits.exposure_measures import measure
from evenhand.cards import Floats
from evenhand.engine.crossed import Crossed
from evenhand.engine.ledgers import Ledger, Policy
from evenhand.errors import EvenhandError

AT_ONCE = 16
"""Draws whose sums are made together."""


def refuse_uncrossed(asked: Sequence[Asked]) -> None:
    """Metrics of single items, or of the order of labels, have no meaning when items come twice or not at all."""
    lost = [a.ask.text for a in asked if a.placed or a.item_level]
    if lost:
        raise EvenhandError(
            f"metrics={lost[0]!r} cannot be resampled over items. Leave it out, or pass resample='requests'."
        )


def crossed_draws(
    asked: Sequence[Asked], crossed: Crossed, ledger: Ledger, policy: Policy, draws: int, rng: np.random.Generator
) -> Floats:
    """(slices, metrics, draws) the metrics on resamples of the requests of each slice and of all items."""
    found = np.full((len(ledger.slices), len(asked), draws), np.nan)
    chances = np.full(crossed.items, 1 / max(1, crossed.items))
    for start in range(0, draws, AT_ONCE):
        count = min(AT_ONCE, draws - start)
        counts = rng.multinomial(crossed.items, chances, count).T.astype(np.float64)
        for b, (drawn, sizes) in enumerate(crossed.drawn(ledger, counts)):
            picks = [_picks(ledger.part(s), rng) for s in range(len(ledger.slices))]
            for i, a in enumerate(asked):
                m = measure(a, drawn, policy, sizes)
                for s, times in enumerate(picks):
                    with np.errstate(divide="ignore", invalid="ignore"):
                        found[s, i, start + b] = m.value(_total(times, m.sums[ledger.part(s)]))
    return found


def _picks(part: slice, rng: np.random.Generator) -> Floats:
    requests = part.stop - part.start
    return (
        rng.multinomial(requests, np.full(requests, 1 / max(1, requests))).astype(np.float64)
        if requests
        else np.zeros(0)
    )


def _total(times: Floats, sums: Floats) -> Floats:
    return np.asarray(times @ np.nan_to_num(sums, posinf=0.0, neginf=0.0))
