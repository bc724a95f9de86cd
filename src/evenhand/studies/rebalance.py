"""Is the frontier a frontier? Known re-rankers, each tuned over its grid, on generated markets.

The theory (Do and Usunier 2021, 2022) says that no policy is more even at the same relevance. So every setting of every
method is compared with the frontier of the same requests: none may lie below it. What is learned is also tried on requests
that nothing was learned from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import evenhand as eh
from evenhand.studies.study import (
    Claim,
    Evidence,
    Figure,
    File,
    Study,
    Table,
    above_zero,
    certain,
    decide,
    error_of,
    every,
    read_table,
    select,
)

TOP = 10
STRENGTHS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8)
MARKETS: Mapping[str, Mapping[str, Any]] = {
    "tastes differ": {"skew": 0.5, "taste": 1.5},
    "few stars": {"skew": 1.5, "taste": 0.7},
    "long tail": {"skew": 1.0, "taste": 1.0, "providers": 200},
}
MILD = tuple(s for s in STRENGTHS if s <= 0.1)  # where what was learned is held against other requests
TITLE = "The frontier of relevance and evenness, and where known re-rankers stand"


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
    """Compare re-rankers with the frontier on generated markets of `size` requests, or on a file of candidates.

    Parameters
    ----------
    data : table with columns request, item, provider and score.
    """
    requests = 400 if size is None else size
    if data:
        roles = [(name, name) for name in ("request", "item", "provider", "score")]
        tables = {str(data): read_table(data, roles, numbers=["score"])[0]}
    else:
        tables = {name: eh.synthetic.market(requests, rng=seed, **kind) for name, kind in MARKETS.items()}
    claims: list[Claim] = []
    shown: list[Table] = []
    drawn: list[Figure] = []
    for name, table in tables.items():
        search = partial(
            eh.rebalance, table, top=TOP, providers="provider", strength=STRENGTHS, interval=None, rng=seed
        )
        whole = search(holdout=0)
        half = search(interval="normal")
        settings = list(_settings(Market(table), whole))
        claims += _claims(name, whole, half, settings)
        shown.append(_table(name, whole, settings))
        caption = f"{Path(name).name}: relevance kept against the Gini index of exposure, by strength."
        drawn.append(Figure(f"frontier-{len(drawn) + 1}", caption, partial(whole.plot, "frontier")))
    setting = f"Candidates of {data}" if data else f"{len(MARKETS)} generated markets of {requests:,} requests"
    return Study(
        name="rebalance", title=TITLE, claims=decide(claims), tables=tuple(shown), figures=tuple(drawn),
        setting=f"{setting}, lists of {TOP} (seed {seed}); every method over a grid of strengths.",
    )  # fmt: skip


@dataclass(frozen=True)
class Market:
    """Scored candidates, with what lists of them give to users and to providers."""

    table: pl.DataFrame
    top: int = TOP

    @cached_property
    def candidates(self) -> pl.DataFrame:
        """The candidates request by request, best score first."""
        return self.table.sort("request", -pl.col("score"), "item")

    @cached_property
    def attention(self) -> np.ndarray[Any, Any]:
        return np.asarray(eh.attention.log(offset=1).weights(self.top))

    @cached_property
    def as_ranked(self) -> pl.DataFrame:
        best = self.candidates.group_by("request", maintain_order=True).head(self.top)
        ranks = pl.int_range(1, pl.len() + 1).over("request")
        return self._seen(best.select("request", "item", rank=ranks))

    def rerank(self, method: str, **how: Any) -> pl.DataFrame:
        lists: pl.DataFrame = eh.rerank(self.table, method=method, groups="provider", top=self.top, **how)
        return lists

    def _seen(self, lists: pl.DataFrame) -> pl.DataFrame:
        """Items of lists with their attention, and the gain that users have of them."""
        weights = pl.DataFrame({"rank": range(1, self.top + 1), "attention": self.attention})
        seen = lists.join(self.table, on=["request", "item"]).join(weights, on="rank")
        return seen.with_columns(gain=pl.col("score") * pl.col("attention"))

    @cached_property
    def ideal(self) -> dict[Any, float]:
        """The gain of the list by score alone, by request."""
        return dict(self.as_ranked.group_by("request").agg(pl.col("gain").sum()).iter_rows())

    def exposure(self, seen: pl.DataFrame) -> dict[Any, float]:
        """Exposure over its mean, by provider: 1 where everybody gets the same."""
        received = dict.fromkeys(self.table["provider"].unique().sort(), 0.0)
        received |= dict(seen.group_by("provider").agg(pl.col("attention").sum()).iter_rows())
        mean = sum(received.values()) / len(received)
        return {provider: amount / mean for provider, amount in received.items()}

    def judge(self, lists: pl.DataFrame) -> tuple[float, float]:
        """Mean nDCG against the order by score, and the Gini index of exposure over providers."""
        seen = self._seen(lists)
        gains = seen.group_by("request").agg(pl.col("gain").sum()).iter_rows()
        ndcg = [gain / self.ideal[request] for request, gain in gains if self.ideal[request] > 0]
        return float(np.mean(ndcg)), eh.metrics.gini(list(self.exposure(seen).values()))


def running(market: Market, strength: float) -> pl.DataFrame:
    """Request after request, by gain minus a price on the exposure that the provider has had so far."""
    had = dict.fromkeys(market.table["provider"].unique(), 0.0)
    lists = []
    for (request,), rows in market.candidates.group_by("request", maintain_order=True):
        mean = max(sum(had.values()) / len(had), 1e-9)
        price = np.array([had[p] / mean - 1.0 for p in rows["provider"]]) if any(had.values()) else 0.0
        gain = rows["score"].to_numpy() / (market.ideal[request] or np.inf)
        best = np.argsort(-gain + strength * price, kind="stable")[: market.top]
        for provider, attention in zip(rows["provider"][best], market.attention, strict=False):
            had[provider] += attention
        lists.append(rows.select("request", "item")[best].with_columns(rank=pl.int_range(1, len(best) + 1)))
    return pl.concat(lists)


def discounted(market: Market, strength: float) -> pl.DataFrame:
    """By gain minus a price on the exposure that the provider has as ranked: a popularity penalty."""
    exposure = market.exposure(market.as_ranked)
    return market.rerank("boosts", boosts={provider: -strength * x for provider, x in exposure.items()})


def calibrated(market: Market, strength: float) -> pl.DataFrame:
    return market.rerank(f"calibrated(strength={strength})", target=_equal_shares(market))


def det_const_sort(market: Market, _: float) -> pl.DataFrame:
    return market.rerank("det_const_sort", target=_equal_shares(market))


def _equal_shares(market: Market) -> dict[Any, float]:
    providers = market.table["provider"].unique()
    return dict.fromkeys(providers, 1 / len(providers))


METHODS: Mapping[str, tuple[Callable[[Market, float], pl.DataFrame], tuple[float, ...]]] = {
    "running exposure": (running, (0.001, 0.003, 0.01, 0.03, 0.1)),
    "popularity penalty": (discounted, (0.001, 0.003, 0.01, 0.03, 0.1)),
    "calibrated": (calibrated, (0.02, 0.05, 0.1, 0.3)),
    "det_const_sort": (det_const_sort, (0.0,)),
}


def _settings(market: Market, whole: eh.Result) -> Iterator[Setting]:
    value = partial(_value, whole, on="learned")
    points = [(value("ndcg", s), value("gini", s)) for s in (0.0, *STRENGTHS)]
    # No policy is worth more at a strength than what was found there plus the duality gap.
    bounds = {
        s: (1 - s) * ndcg + s * (1 - gini) + value("duality_gap", s)
        for s, (ndcg, gini) in zip(STRENGTHS, points[1:], strict=True)
    }
    for name, (method, grid) in METHODS.items():
        for strength in grid:
            ndcg, gini = market.judge(method(market, strength))
            excess = max((1 - s) * ndcg + s * (1 - gini) - bound for s, bound in bounds.items())
            yield Setting(name, strength, ndcg, gini, _attainable(points, ndcg), excess)


def _attainable(points: list[tuple[float, float]], ndcg: float) -> float:
    """The least Gini index that mixing two policies attains without losing relevance.

    >>> round(_attainable([(1.0, 0.5), (0.9, 0.1)], 0.95), 4)
    0.3
    """
    mixed = (g + (h - g) * (u - ndcg) / (u - v) for u, g in points for v, h in points if u >= ndcg > v and h < g)
    return min([*mixed, *(g for u, g in points if u >= ndcg)], default=np.inf)


def _value(result: eh.Result, metric: str, strength: float, on: str, means: str = "policy") -> float:
    return float(select(result, metric, strength=strength, on=on, by_means=means)[0]["estimate"])


def _claims(name: str, whole: eh.Result, half: eh.Result, settings: list[Setting]) -> list[Claim]:
    below = [s for s in settings if s.excess > 1e-9]
    above = [s.gini - s.attainable for s in settings]
    gaps = [_value(whole, "duality_gap", s, "learned") / s for s in STRENGTHS]
    moved = [_value(half, "gini", s, "held_out") - _value(half, "gini", s, "learned") for s in STRENGTHS]
    boosted = [_value(whole, "gini", s, "learned", "boosts") - _value(whole, "gini", s, "learned") for s in STRENGTHS]
    widest = max(boosted, key=abs)
    return [
        Claim(
            f"{name}: no tuned method lies below the frontier", "2110.15781", "Lorenz-efficient: none is more even at the same relevance",
            f"{len(settings)} settings, {len(below)} below; at the same nDCG they are less even than the frontier by "
            f"{np.median(above):+.3f} (median), {max(above):+.3f} at most",
            certain(not below),
        ),
        Claim(
            f"{name}: the search says how much is missing", "2204.06521", "none is more even by more than 0.001 at the same relevance",
            f"largest gap over strength: {max(gaps):.5f}", certain(max(gaps) <= 0.001), is_ours=True,
        ),
        Claim(
            f"{name}: what was learned holds on other requests", "held out", "Gini index within 0.03 of learned up to strength 0.1",
            f"held out less learned: {', '.join(f'{m:+.3f}' for m in moved[: len(MILD)])}; above: "
            f"{', '.join(f'{m:+.3f}' for m in moved[len(MILD) :])}",
            every(_stays(half, s) for s in MILD), counts="significantly within that range", is_ours=True,
        ),
        Claim(
            f"{name}: a boost table does what the policy does", "boosts", "Gini index within 0.02 of the policy's",
            f"boosts less policy, at most {widest:+.4f}", certain(abs(widest) <= 0.02), is_ours=True,
        ),
    ]  # fmt: skip


def _stays(half: eh.Result, strength: float, margin: float = 0.03) -> Evidence:
    """Whether the Gini index on other requests is within a margin of the learned one, by its interval over requests."""
    row = select(half, "gini", strength=strength, on="held_out", by_means="policy")[0]
    learned = _value(half, "gini", strength, "learned")
    moved, error = row["estimate"] - learned, error_of(row)
    return every((above_zero(margin + moved, error), above_zero(margin - moved, error)))


def _table(name: str, whole: eh.Result, settings: list[Setting]) -> Table:
    value = partial(_value, whole, on="learned")
    frontier = [
        ("frontier", f"{s:g}", f"{value('ndcg', s):.4f}", f"{value('gini', s):.4f}", "") for s in (0.0, *STRENGTHS)
    ]
    others = [(s.method, f"{s.value:g}", f"{s.ndcg:.4f}", f"{s.gini:.4f}", f"{s.attainable:.4f}") for s in settings]
    head = ("method", "setting", "nDCG kept", "Gini", "Gini of the frontier at the same nDCG")
    return Table(f"Market: {name}", head, (*frontier, *others))
