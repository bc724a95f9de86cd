"""Is the frontier a frontier? Re-rankers that people know, each tuned over its grid, on markets of known make.

The theory (Do and Usunier 2021, 2022) says that no policy is more even at the same relevance. So every setting of every
method is put beside the frontier of the same requests: none may lie below it. What is learned is also tried on requests that
nothing was learned from.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from evenhand.allocation.rerankers import boosted, calibrated, det_const_sort
from evenhand.audits.rebalance.frontier import RebalanceResult, least_gini
from evenhand.audits.rebalance.rebalance import rebalance
from evenhand.cards import Floats
from evenhand.metrics.inequality import gini
from evenhand.studies.study import Claim, Figure, File, Study, Table
from evenhand.synthetic.market import market
from evenhand.tallies.slates import Ints, Slates

SIZE = 400
TOP = 10
STRENGTHS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8)
MARKETS: Mapping[str, Mapping[str, float]] = {
    "tastes differ": {"skew": 0.5, "taste": 1.5},
    "few stars": {"skew": 1.5, "taste": 0.7},
    "long tail": {"skew": 1.0, "taste": 1.0, "providers": 200},
}
TITLE = "The frontier of relevance and evenness, and where known re-rankers stand"
NEAR = 0.001
log = logging.getLogger("evenhand")


@dataclass(frozen=True)
class Setting:
    """One setting of one method: relevance kept and Gini index, and where the frontier is.

    `attainable` is the Gini index of the frontier at the same relevance, on the line between two strengths; `excess` is how much
    more than a bound the setting is worth at some strength, which no setting can be.
    """

    method: str
    value: float
    ndcg: float
    gini: float
    attainable: float
    excess: float


def study(*, size: int | None = None, seed: int = 1, data: File = None) -> Study:
    """Put re-rankers beside the frontier on generated markets of `size` requests, or on a file of candidates.

    Parameters
    ----------
    data : table with the fields request, item, provider and score.
    """
    requests = SIZE if size is None else size
    tables: dict[str, Any] = {str(data): data} if data else {
        name: market(requests, rng=seed, **kind) for name, kind in MARKETS.items()  # type: ignore[arg-type]
    }  # fmt: skip
    claims: list[Claim] = []
    shown: list[Table] = []
    drawn: list[Figure] = []
    for name, table in tables.items():
        log.info("market %s", name)
        whole = rebalance(table, top=TOP, providers="provider", strength=STRENGTHS, holdout=0, interval=None, rng=seed)
        half = rebalance(table, top=TOP, providers="provider", strength=STRENGTHS, interval=None, rng=seed)
        settings = list(_settings(whole))
        claims += _claims(name, whole, half, settings)
        shown.append(_table(name, whole, settings))
        caption = f"{Path(name).name}: relevance kept against the Gini index of exposure, by strength."
        drawn.append(Figure(f"frontier-{len(drawn) + 1}", caption, partial(whole.plot, "frontier")))
    setting = f"Candidates of {data}" if data else f"{len(MARKETS)} generated markets of {requests:,} requests"
    return Study(
        name="rebalance", title=TITLE, claims=tuple(claims), tables=tuple(shown), figures=tuple(drawn),
        setting=f"{setting}, lists of {TOP} (seed {seed}); every method over a grid of strengths.",
        sentences=(
            "Methods that look at one list at a time (DetConstSort, calibrated lists) even out every list, which costs relevance "
            "that evening out over all requests does not.",
        ),
    )  # fmt: skip


def running(slates: Slates, strength: float) -> Ints:
    """Request after request, by gain less a price on the exposure that the provider has had so far."""
    owners = slates.owners
    had = np.zeros(owners.providers)
    lists = np.full((slates.requests, slates.top), -1, dtype=np.int64)
    for q in range(slates.requests):  # each request depends on those before it
        rows = np.arange(slates.starts[q], slates.starts[q + 1])
        price = owners.per_item(had / max(had.mean(), 1e-9) - 1.0) if had.any() else np.zeros(owners.items)
        best = rows[np.argsort(-slates.gain[rows] + strength * price[slates.item[rows]], kind="stable")][: slates.top]
        lists[q, : len(best)] = best
        is_shown = np.isin(owners.item, slates.item[best])
        weight = dict(zip(slates.item[best].tolist(), slates.attention.tolist(), strict=False))
        np.add.at(
            had, owners.provider[is_shown], [weight[i] for i in owners.item[is_shown].tolist()] * owners.share[is_shown]
        )
    return lists


def discounted(slates: Slates, strength: float) -> Ints:
    """By gain less a price on the share of exposure that the provider has as ranked: a popularity penalty."""
    before = slates.relative(slates.as_ranked)
    return boosted(slates, -strength * before)


def _even(slates: Slates) -> tuple[Ints, Floats]:
    codes = np.empty(slates.owners.items, dtype=np.int64)
    codes[slates.owners.item] = slates.owners.provider
    return codes, np.full(slates.owners.providers, 1 / slates.owners.providers)


METHODS: Mapping[str, tuple[Callable[[Slates, float], Ints], tuple[float, ...]]] = {
    "running exposure": (running, (0.001, 0.003, 0.01, 0.03, 0.1)),
    "popularity penalty": (discounted, (0.001, 0.003, 0.01, 0.03, 0.1)),
    "calibrated": (lambda s, strength: calibrated(s, *_even(s), strength), (0.02, 0.05, 0.1, 0.3)),
    "det_const_sort": (lambda s, _: det_const_sort(s, *_even(s)), (0.0,)),
}


def _settings(whole: RebalanceResult) -> Iterator[Setting]:
    frontier = whole.frontier
    assert frontier is not None  # noqa: S101  (a live result has one)
    stage = frontier.parts["learned"].stage
    every = [frontier.replayed(p.strength, "learned", "policy") for p in frontier.policies]
    points = [(float(np.nanmean(replay.each["ndcg"])), float(gini(replay.received))) for replay in every]
    for name, (method, grid) in METHODS.items():
        for strength in grid:
            outcome = stage.judged([method(stage.slates, strength)], np.ones(1))
            ndcg, uneven = float(np.nanmean(outcome.each["ndcg"])), float(gini(outcome.received))
            worth = [
                (1 - p.strength) * ndcg + p.strength * (1 - uneven) - p.bound for p in frontier.policies if p.strength
            ]
            yield Setting(name, strength, ndcg, uneven, least_gini(points, ndcg), max(worth))


def _value(result: RebalanceResult, metric: str, strength: float, on: str, means: str = "policy") -> float:
    return next(
        float(r["estimate"])
        for r in result.findings.rows()
        if (r["metric"], r["strength"], r["on"], r["by_means"]) == (metric, strength, on, means)
    )


def _claims(name: str, whole: RebalanceResult, half: RebalanceResult, settings: list[Setting]) -> list[Claim]:
    below = [s for s in settings if s.excess > 1e-9]
    above = [s.gini - s.attainable for s in settings]
    gaps = [_value(whole, "duality_gap", s, "learned") / s for s in STRENGTHS]
    moved = [_value(half, "gini", s, "held_out") - _value(half, "gini", s, "learned") for s in STRENGTHS]
    middle = [s for s in STRENGTHS if s <= 0.1]
    lost = [_value(whole, "gini", s, "learned", "boosts") - _value(whole, "gini", s, "learned") for s in STRENGTHS]
    return [
        Claim(
            f"{name}: no tuned method lies below the frontier", "2110.15781", "Lorenz-efficient: none is more even at the same relevance",
            f"{len(settings)} settings, {len(below)} below; at the same nDCG they are less even than the frontier by "
            f"{np.median(above):+.3f} (median), {max(above):+.3f} at most",
            not below,
        ),
        Claim(
            f"{name}: the search says how much is missing", "2204.06521", f"none is more even by more than {NEAR} at the same relevance",
            f"largest gap over strength: {max(gaps):.5f}", max(gaps) <= NEAR, is_ours=True,
        ),
        Claim(
            f"{name}: what was learned holds on other requests", "held out", "Gini index within 0.03 of learned up to strength 0.1",
            f"held out less learned: {', '.join(f'{m:+.3f}' for m in moved[: len(middle)])}; above: "
            f"{', '.join(f'{m:+.3f}' for m in moved[len(middle) :])}",
            max(abs(m) for m in moved[: len(middle)]) <= 0.03, is_ours=True,
        ),
        Claim(
            f"{name}: a boost table does what the policy does", "boosts", "Gini index within 0.02 of the policy's",
            f"boosts less policy, at most {max(lost):+.4f}", max(lost) <= 0.02, is_ours=True,
        ),
    ]  # fmt: skip


def _table(name: str, whole: RebalanceResult, settings: list[Setting]) -> Table:
    frontier = [
        (
            "frontier",
            f"{s:g}",
            f"{_value(whole, 'ndcg', s, 'learned'):.4f}",
            f"{_value(whole, 'gini', s, 'learned'):.4f}",
            "",
        )
        for s in (0.0, *STRENGTHS)
    ]
    others = [(s.method, f"{s.value:g}", f"{s.ndcg:.4f}", f"{s.gini:.4f}", f"{s.attainable:.4f}") for s in settings]
    head = ("method", "setting", "nDCG kept", "Gini", "Gini of the frontier at the same nDCG")
    return Table(f"Market: {name}", head, (*frontier, *others))
