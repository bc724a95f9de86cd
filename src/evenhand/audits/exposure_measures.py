"""From sums per ranking and request to one estimate per metric: values of each request, and what a resample adds up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.audits.exposure_asks import BY_UTILITY, TWO_SIDED, Asked
from evenhand.audits.exposure_items import ItemAttention
from evenhand.cards import Floats
from evenhand.engine.ledgers import Ledger, Policy, amortised, exposed, exposure, targets
from evenhand.metrics.expected import least_disparity
from evenhand.tallies.exposure import Amortised, Exposed, Exposure


@dataclass(frozen=True)
class Measure:
    """One metric over all requests.

    Attributes
    ----------
    sums : (Q, K) what a resample of requests adds up; `value` turns (..., K) totals into the metric.
    values : (Q,) the metric of each request alone.
    reasons : (Q,) why a request has none; empty text where it has.
    reason : the code for totals that give none.
    ideal : the metric's ideal on these totals, where the card cannot know it.
    gaps : (slices, G) by how much each group's share of attention is above its target, weighted.
    items : for item-level amortised attention, the sparse table that takes the place of the sums.
    """

    asked: Asked
    sums: Floats
    value: Callable[[Floats], Floats]
    values: Floats
    reasons: npt.NDArray[Any]
    reason: Callable[[Floats], str]
    ideal: Callable[[Floats], float]
    items: ItemAttention | None = None
    gaps: Floats | None = None

    @property
    def skips(self) -> bool:
        """Whether requests without a value are left out of the mean."""
        return self.asked.ask.card.per == "ranking"


def measure(asked: Asked, ledger: Ledger, policy: Policy, sizes: Floats) -> Measure:
    """A metric of exposure sums or of single rankings' exposure."""
    ask = asked.ask
    if ask.card.name == "awrf":
        tally = exposed(ledger, policy, asked.look, targets(ledger, policy, asked.target, sizes))
        values = ask.on(tally)
        gaps = ledger.expected(np.nan_to_num(tally.shares - tally.target)) * ledger.weight[:, None]
        slices = np.array([gaps[ledger.part(s)].sum(0) for s in range(len(ledger.slices))])
        return replace(of_rankings(asked, ledger, values, _lost(tally, values)), gaps=slices)
    if ask.card.needs is Amortised:
        return _of_sums(asked, amortised(ledger, policy, asked.look, pooled=ask.params.get("normalize") == "pooled"))
    return _of_sums(asked, exposure(ledger, policy, asked.look, sizes, asked.norms))


def _lost(tally: Exposed, values: Floats) -> npt.NDArray[Any]:
    """(R,) why a ranking has no value; text is large, so it is made only where some have none."""
    there = ~np.isnan(values)
    if there.all():
        return np.zeros(len(values), dtype="<U1")
    found = tally.reasons()
    found[there] = ""
    found[~there & (found == "")] = "zero_denominator"
    return found


def of_rankings(asked: Asked, ledger: Ledger, values: Floats, reasons: npt.NDArray[Any]) -> Measure:
    """A metric of single rankings: the mean over a request's draws, then over requests, of those that exist."""
    there = ~np.isnan(values)
    infinite = np.isinf(values)
    parts = [np.where(there & ~infinite, values, 0.0), there.astype(np.float64), infinite.astype(np.float64)]
    per_request = np.column_stack([ledger.expected(part) for part in parts])
    first = ledger.request_starts[:-1]

    def mean(total: Floats) -> Floats:
        found = total[..., 0] / total[..., 1]
        return np.where(total[..., 2] > 0, np.inf, found)

    with np.errstate(divide="ignore", invalid="ignore"):
        each = mean(per_request)
    lost = np.where(np.isnan(each), reasons[first], "") if len(first) else np.zeros(0, dtype="<U1")
    # Requests count once in the mean if any of their draws has a value.
    counted = np.where(per_request[:, 1:2] > 0, 1 / np.maximum(per_request[:, 1:2], 1e-300), 0.0)
    sums = per_request * counted * ledger.weight[:, None]
    weightless = len(each) > 0 and not ledger.weight.any()
    overall = "zero_weight" if weightless else next((str(r) for r in lost if r), "empty")
    return Measure(asked, sums, mean, each, lost, lambda _: overall, lambda _: asked.ask.ideal)


def of_items(asked: Asked, items: ItemAttention) -> Measure:
    """Amortised attention item by item, which brings its own way to be resampled."""
    values = items.values()
    lost = np.where(np.isnan(values), "zero_utility", "")
    nothing = np.zeros((len(values), 0))
    return Measure(
        asked, nothing, lambda _: np.array(np.nan), values, lost, lambda _: "", lambda _: asked.ask.ideal, items
    )


def _of_sums(asked: Asked, tally: Exposure | Amortised) -> Measure:
    ask = asked.ask
    values, sums = ask.on(tally), tally.stacked()
    form = tally.with_sums(sums.sum(0))  # what totals are laid out as, without a row per request

    def value(total: Floats) -> Floats:
        return ask.on(form.with_sums(total))

    def reason(total: Floats) -> str:
        return ask.card.reason(form.with_sums(total), **ask.params)

    def ideal(total: Floats) -> float:
        if ask.card.name != "eed" or asked.norms is not None or not isinstance(form, Exposure):
            return ask.ideal
        return float(least_disparity(form.with_sums(total)))

    return Measure(asked, sums, value, values, _reasons(asked, tally, values), reason, ideal)


def _reasons(asked: Asked, tally: Exposure | Amortised, values: Floats) -> npt.NDArray[Any]:
    """(Q,) reason codes where a request alone has no value."""
    lost = np.isnan(values)
    if not lost.any():
        return np.full(len(values), "", dtype="<U1")
    if isinstance(tally, Amortised):
        return np.where(lost, np.where(tally.attention.sum(-1) > 0, "zero_utility", "no_labelled_items"), "")
    code = "zero_over_zero" if asked.name in TWO_SIDED else asked.ask.card.reason(tally, **asked.ask.params)
    found = np.where(lost, code, "").astype("<U24")
    if asked.name in BY_UTILITY and tally.utility is not None:
        with np.errstate(divide="ignore", invalid="ignore"):
            ours, theirs = tally.both(tally.utility)
        found = np.where(lost & ~((ours > 0) & (theirs > 0)), "no_relevant_in_group", found)
    return np.where(lost & (tally.weight == 0), "zero_weight", found)
