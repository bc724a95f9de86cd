"""Worlds for `benchmarks.coverage` in which whole audits are asked: few requests, boundaries, other users, other viewers.

A design says how one sample is drawn and measured, and what its intervals are for: a value known by arithmetic, or what
samples of the same size give on average.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

import numpy as np
import polars as pl

import evenhand as eh

Rng = np.random.Generator
INTERVAL = "bootstrap(199)"


@dataclass(frozen=True)
class Design:
    """One sample measured: `ask(rng, interval)`; `known` holds true values by metric, others are means over samples.

    `why` is said beside a cell that falls short on purpose.
    """

    name: str
    ask: Callable[[Rng, str | None], Any]
    known: Mapping[str, float] = field(default_factory=dict)
    promised: float = 0.92


GROUPS = {i: "f" if i < 12 else "m" for i in range(30)}


def lists(rng: Rng, requests: int, *, tilt: float, pool: np.ndarray | None = None) -> pl.DataFrame:
    """Rankings of unequal length; group m is favoured by `tilt`, differently from request to request."""
    items = np.arange(30) if pool is None else pool
    long = np.minimum(4 + rng.poisson(rng.lognormal(1, 0.8, requests)), len(items))
    lean = tilt * (items % 30 >= 12) * rng.gamma(2, 0.5, (requests, 1))
    order = np.argsort(-(lean + rng.gumbel(size=(requests, len(items)))), axis=1)
    rank = np.concatenate([np.arange(1, n + 1) for n in long])
    request = np.repeat(np.arange(requests), long)
    item = items[order[request, rank - 1]]
    return pl.DataFrame({"request": request, "item": item, "rank": rank, "relevance": np.ones(len(rank))}).with_columns(
        group=pl.Series(np.where(item % 30 < 12, "f", "m"))
    )


def exposed(requests: int) -> Design:
    def ask(rng: Rng, interval: str | None) -> Any:
        call = {
            "groups": GROUPS,
            "protected": "f",
            "chance": False,
            "interval": interval,
            "rng": int(rng.integers(1 << 30)),
        }
        return eh.exposure(lists(rng, requests, tilt=1), metrics=["awrf", "log_dp", "eed"], **call)

    return Design(f"exposure, {requests} requests", ask, promised=0.92 if requests >= 20 else 0.0)


def fair(requests: int) -> Design:
    """A policy that is fair by arithmetic: six items in random order, three of each group, all as relevant."""
    groups, weight = {i: "f" if i < 3 else "m" for i in range(6)}, (0.5 ** np.arange(6)).sum()

    def ask(rng: Rng, interval: str | None) -> Any:
        order = np.argsort(rng.random((requests, 6)), axis=1).ravel()
        run = pl.DataFrame(
            {"request": np.repeat(np.arange(requests), 6), "item": order, "relevance": np.ones(len(order))}
        )
        run = run.with_columns(rank=pl.Series(np.tile(np.arange(1, 7), requests)))
        call = {"groups": groups, "relevance": "relevance", "chance": False, "rng": int(rng.integers(1 << 30))}
        return eh.exposure(run, metrics=["eel", "eed"], interval=interval, **call)

    return Design(f"fair policy, {requests} requests", ask, {"eel": 0.0, "eed": weight**2 / 2})


def crossed(requests: int) -> Design:
    """Items are drawn too, from a thousand."""

    def ask(rng: Rng, interval: str | None) -> Any:
        pool = rng.choice(990, 40, replace=False)
        run = lists(rng, requests, tilt=1, pool=pool)
        groups = {int(i): "f" if i % 30 < 12 else "m" for i in pool}
        call = {
            "groups": groups,
            "protected": "f",
            "chance": False,
            "target": {"f": 0.4, "m": 0.6},
            "resample": "requests_and_items",
        }
        return eh.exposure(run, metrics=["awrf", "log_dp"], interval=interval, rng=int(rng.integers(1 << 30)), **call)

    return Design(f"requests and items, {requests} requests of 40 items", ask)


def prefixes(requests: int) -> Design:
    def ask(rng: Rng, interval: str | None) -> Any:
        call = {
            "group": "group",
            "protected": "f",
            "chance": None,
            "interval": interval,
            "rng": int(rng.integers(1 << 30)),
        }
        return eh.prefix(lists(rng, requests, tilt=1), metrics=["ndd", "ndkl"], **call)

    return Design(f"prefix, {requests} requests", ask, promised=0.92 if requests >= 20 else 0.0)


def ordered(requests: int) -> Design:
    def ask(rng: Rng, interval: str | None) -> Any:
        run = lists(rng, requests, tilt=1)
        run = run.with_columns(score=-pl.col("rank") * 1.0, relevance=pl.Series(rng.integers(0, 2, len(run))))
        call = {"groups": "group", "relevance": "relevance", "protected": "f", "rng": int(rng.integers(1 << 30))}
        return eh.pairwise(run, metrics=["intra_acc", "inter_acc"], interval=interval, **call)

    return Design(f"pairwise, {requests} requests", ask)


CLUSTERED: dict[str, Callable[..., Any]] = {
    "exposure": lambda run, **call: eh.exposure(
        run, groups="group", protected="f", chance=False, metrics=["awrf", "log_dp", "eed"], **call
    ),
    "prefix": lambda run, **call: eh.prefix(
        run, group="group", protected="f", chance=None, metrics=["ndd", "ndkl"], **call
    ),
    "pairwise": lambda run, **call: eh.pairwise(
        run, groups="group", relevance="relevance", protected="f", metrics=["intra_acc", "inter_acc"], **call
    ),
}


def tastes(rng: Rng, sizes: np.ndarray, spread: float, items: int = 12) -> pl.DataFrame:
    """Rankings of users with so many requests each, who like group f more or less, in all of their requests."""
    user = np.repeat(np.arange(len(sizes)), sizes)
    liking = spread * rng.normal(size=(len(sizes), 1))[user] - 0.5
    is_f = np.arange(items) < items // 3
    relevance = (rng.random((len(user), items)) < 0.4).astype(int)
    order = np.argsort(-(liking * is_f + relevance + rng.gumbel(size=(len(user), items))), axis=1)
    rank = np.tile(np.arange(1, items + 1), len(user))
    return pl.DataFrame(
        {
            "request": np.repeat(np.arange(len(user)), items),
            "user": np.repeat(user, items),
            "item": order.ravel(),
            "rank": rank,
            "score": -rank.astype(float),
            "group": np.where(is_f, "f", "m")[order].ravel(),
            "relevance": np.take_along_axis(relevance, order, axis=1).ravel(),
        }
    )


def clustered(audit: str, users: int, *, cluster: bool = True) -> Design:
    """Five requests of each user, who has one taste."""

    def ask(rng: Rng, interval: str | None) -> Any:
        run = tastes(rng, np.full(users, 5), spread=1.0)
        call = {"cluster": "user"} if cluster else {}
        return CLUSTERED[audit](run, interval=interval, rng=int(rng.integers(1 << 30)), **call)

    words = "" if cluster else ", as if independent"
    return Design(
        f"{audit}, {users} users of 5 requests{words}", ask, promised=0.92 if users >= 20 and cluster else 0.0
    )


def unequal_clusters(audit: str, users: int) -> Design:
    """Users of one to forty requests, most of them few."""

    def ask(rng: Rng, interval: str | None) -> Any:
        sizes = np.minimum(1 + (rng.pareto(1.5, users) * 2).astype(int), 40)
        run = tastes(rng, sizes, spread=0.7)
        return CLUSTERED[audit](run, interval=interval, cluster="user", rng=int(rng.integers(1 << 30)))

    return Design(f"{audit}, {users} users of 1 to 40 requests", ask)


def shown(users: int) -> Design:
    """A shared catalogue: what as many other users would be shown."""
    return Design(f"recommender, {users} users", _shown(users, None))


def _shown(users: int, chance: str | None) -> Callable[[Rng, str | None], Any]:
    pull = np.log(1 / np.arange(1, 201) ** 0.8)

    def ask(rng: Rng, interval: str | None) -> Any:
        scores = pull + rng.gumbel(size=(users, 200))
        call = {
            "user_groups": ["a", "b"] * (users // 2),
            "top": 10,
            "chance": chance,
            "rng": int(rng.integers(1 << 30)),
        }
        return eh.recommender(
            scores, metrics=["exposure_tv", "item_gini", "aggregate_diversity"], interval=interval, **call
        )

    return ask


def no_distance(users: int) -> Design:
    """Two groups that are served alike: without noise their distance is zero."""
    return Design(
        f"recommender, {users} users, no true distance", _shown(users, "permutation(99)"), {"exposure_tv": 0.0}
    )


def parted(units: int, index: str, groups: str = "abc") -> Design:
    """Groups that differ in nothing, whose part between them is zero but for noise."""
    share = 1 / len(groups)
    whole = {"theil": 0.5, "gini": math.erf(0.5)}[index]
    inside = {"theil": 0.5, "gini": whole * share}[
        index
    ]  # Gini: each group's index by its shares of units and of the total

    def ask(rng: Rng, interval: str | None) -> Any:
        table = pl.DataFrame(
            {"u": np.arange(units), "n": rng.lognormal(0, 1, units), "g": rng.choice(list(groups), units)}
        )
        call = {"unit": "u", "amount": "n", "group": "g", "population": None, "interval": interval}
        return eh.decompose(
            table, **call, index=index, metrics=["total", "within", "between"], rng=int(rng.integers(1 << 30))
        )

    known = {"total": whole, "within": inside, "between": 0.0}
    return Design(f"decompose, {index}, {units} units, {len(groups)} groups alike", ask, known)


def split(units: int) -> Design:
    def ask(rng: Rng, interval: str | None) -> Any:
        amounts = np.concatenate([rng.lognormal(0, 1, units), rng.poisson(2, units)])
        table = pl.DataFrame({"u": np.tile(np.arange(units), 2), "s": np.repeat(["x", "y"], units), "n": amounts})
        call = {"unit": "u", "amount": "n", "source": "s", "population": None, "interval": interval}
        return eh.sources(
            table,
            **call,
            metrics=["share", "contribution", "contribution_share", "marginal"],
            rng=int(rng.integers(1 << 30)),
        )

    return Design(f"sources, {units} units", ask)


def twice(units: int, spreads: tuple[float, float]) -> Design:
    """The same units in two periods, lognormal amounts of these spreads."""

    def ask(rng: Rng, interval: str | None) -> Any:
        z = rng.normal(size=(2, units))
        z[1] = 0.7 * z[0] + np.sqrt(1 - 0.7**2) * z[1]
        amounts = np.exp(np.array(spreads)[:, None] * z).ravel()
        table = pl.DataFrame({"u": np.tile(np.arange(units), 2), "t": np.repeat([1, 2], units), "n": amounts})
        call = {"unit": "u", "amount": "n", "arm": "t", "control": 1, "randomized": None, "population": None}
        return eh.experiment(
            table, **call, metrics=list(known), draws=199, interval=interval and "auto", rng=int(rng.integers(1 << 30))
        )

    normal = NormalDist()
    values: dict[str, Callable[[float], float]] = {
        "gini": lambda s: math.erf(s / 2), "atkinson(epsilon=0.5)": lambda s: -math.exp(-(s**2) / 4),
        "top_share(p=0.1)": lambda s: -normal.cdf(normal.inv_cdf(0.9) - s), "equal_share": normal.cdf,
    }  # fmt: skip
    known = {name: value(spreads[1]) - value(spreads[0]) for name, value in values.items()}
    words = "nothing changed" if len(set(spreads)) == 1 else f"then {spreads[1]:g}"
    return Design(f"two periods of {units} units, lognormal {spreads[0]:g}, {words}", ask, known)


RATES = np.random.default_rng(1).lognormal(0, 1, 100)


def viewed(viewers: int) -> Design:
    """These authors, other viewers: tastes differ, some look a lot."""

    def ask(rng: Rng, interval: str | None) -> Any:
        taste = RATES * rng.lognormal(0, 0.7, (viewers, 100))
        views = rng.poisson((rng.lognormal(2.5, 0.6, (viewers, 1))) * taste / taste.sum(1, keepdims=True))
        viewer, author = np.nonzero(views)
        log = pl.DataFrame({"viewer": viewer, "author": author, "views": views[viewer, author]})
        call = {"unit": "author", "amount": "views", "population": 100, "within": "viewer", "interval": interval}
        return eh.inequality(log, metrics=["gini", "top_share(p=0.1)", "equal_share"], rng=1, **call)

    return Design(f"within viewers, {viewers} viewers", ask)


def both_drawn(viewers: int, authors: int) -> Design:
    """Other authors, and other viewers."""

    def ask(rng: Rng, interval: str | None) -> Any:
        taste = rng.lognormal(0, 1, authors) * rng.lognormal(0, 0.7, (viewers, authors))
        views = rng.poisson((rng.lognormal(3, 0.6, (viewers, 1))) * taste / taste.sum(1, keepdims=True))
        viewer, author = np.nonzero(views)
        log = pl.DataFrame({"viewer": viewer, "author": author, "views": views[viewer, author]})
        call = {
            "unit": "author",
            "amount": "views",
            "population": authors,
            "within": ["viewer", "author"],
            "interval": interval,
        }
        return eh.inequality(log, metrics=["gini", "top_share(p=0.1)", "equal_share"], rng=1, **call)

    return Design(f"both drawn, {viewers} viewers of {authors} authors", ask)


def outcomes(rows: int) -> Design:
    """No gap at equal score."""

    def ask(rng: Rng, interval: str | None) -> Any:
        score = rng.random(rows)
        group = np.where(rng.random(rows) < 0.3, "b", "a")
        table = pl.DataFrame(
            {"score": score, "group": group, "outcome": (rng.random(rows) < 0.1 + 0.6 * score).astype(int)}
        )
        return eh.outcome_test(
            table, score="score", outcome="outcome", group="group", reference="a", bins=5, metrics="pooled_gap"
        )

    return Design(f"outcome test, {rows} rows, no gap", ask, {"pooled_gap b": 0.0})


def requested(requests: int, *, gap: float, unequal: bool = False) -> Design:
    """Requests whose candidates share a shock, in which one group is common or rare; a gap at equal score, or none."""

    def ask(rng: Rng, interval: str | None) -> Any:
        size = (
            np.full(requests, 25)
            if not unequal
            else 5 + rng.multinomial(20 * requests, rng.dirichlet(np.ones(requests)))
        )
        q = np.repeat(np.arange(requests), size)
        group = np.where(rng.random(len(q)) < rng.beta(1, 1, requests)[q], "b", "a")
        score = rng.random(len(q))
        chance = 0.15 + 0.5 * score + gap * (group == "b") + rng.uniform(-0.15, 0.15, requests)[q]
        table = pl.DataFrame(
            {"score": score, "group": group, "q": q, "outcome": (rng.random(len(q)) < chance).astype(int)}
        )
        roles = {"score": "score", "outcome": "outcome", "group": "group", "reference": "a", "request": "q"}
        return eh.outcome_test(table, **roles, bins=5, metrics=["pooled_gap", "spline_gap"])

    sizes = "unequal " if unequal else ""
    name = f"outcome test, {requests} {sizes}requests, {f'gap of {gap:g}' if gap else 'no gap'}"
    return Design(name, ask, {"pooled_gap b": gap, "spline_gap b": gap})


CATALOGUE = ["aggregate_diversity", "item_gini", "exposure_entropy"]


def niches(users: int) -> Design:
    """Users who are each shown the five items of one of 100 niches: lists hardly overlap."""
    share = 1 / np.arange(1, 101)

    def ask(rng: Rng, interval: str | None) -> Any:
        niche = rng.choice(100, users, p=share / share.sum())
        table = pl.DataFrame(
            {"user": np.repeat(np.arange(users), 5), "item": (5 * niche[:, None] + np.arange(5)).ravel()}
        )
        return eh.recommender(table, score=None, items=500, metrics=CATALOGUE, interval=interval, rng=1)

    return Design(f"recommender, {users} users of 100 niches", ask)


def unequal_lists(users: int) -> Design:
    """Users who are shown 2 to 40 of 300 items."""

    def ask(rng: Rng, interval: str | None) -> Any:
        order = np.argsort(np.log(np.arange(1, 301)) - rng.gumbel(size=(users, 300)), axis=1)
        long = np.minimum(1 + rng.geometric(0.15, users), 300)
        items = np.concatenate([row[:n] for row, n in zip(order, long, strict=True)])
        table = pl.DataFrame({"user": np.repeat(np.arange(users), long), "item": items})
        return eh.recommender(table, score=None, items=300, metrics=CATALOGUE, interval=interval, rng=1)

    return Design(f"recommender, {users} users with unequal lists", ask)


def few_labels(requests: int, share: float, *, by_popularity: bool = False) -> Design:
    """A sample of a catalogue's labels: items and their groups stay, requests and label draws are others.

    The truth is what all labels say of 20,000 requests.
    """
    items, ranks = 1500, 10
    fixed = np.random.default_rng(19)
    is_f, pull = fixed.random(items) < 0.4, fixed.normal(0, 0.7, items)  # the top 1% of items get 6% of all places
    pull -= 0.4 * is_f
    drawn = np.clip(share * (np.exp(pull / 2) / np.exp(pull / 2).mean() if by_popularity else np.ones(items)), 0.01, 1)
    names, roles = np.where(is_f, "f", "m"), {"protected": "f", "chance": False}
    metrics = ["log_dp", "dp", "exposure_share", "eed", "awrf(distance='nd', signed=True)"]

    def run(rng: Rng, many: int) -> pl.DataFrame:
        order = np.argpartition(-(pull + rng.gumbel(size=(many, items))), ranks, axis=1)[:, :ranks]
        rank = np.tile(np.arange(1, ranks + 1), many)
        return pl.DataFrame({"request": np.repeat(np.arange(many), ranks), "item": order.ravel(), "rank": rank})

    def ask(rng: Rng, interval: str | None) -> Any:
        known = rng.random(items) < drawn
        labels = pl.DataFrame({"item": np.arange(items), "group": names, "p": drawn})
        labels = labels.with_columns(group=pl.when(pl.Series(known)).then(pl.col("group")))
        seed = int(rng.integers(1 << 30))
        return eh.exposure(
            run(rng, requests),
            groups=labels,
            label_probability="p",
            metrics=metrics,
            interval=interval,
            rng=seed,
            **roles,
        )

    everything = pl.concat(
        run(fixed, 1000).with_columns(request=pl.col("request") + 1000 * block) for block in range(20)
    )
    labels = pl.DataFrame({"item": np.arange(items), "group": names})
    whole = eh.exposure(everything, groups=labels, metrics=metrics, interval=None, **roles)
    known = {r["metric"]: r["estimate"] for r in whole.findings.rows()}
    of = "by popularity" if by_popularity else "at random"
    return Design(f"few labels, {share:.0%} {of}, {requests} requests", ask, known, promised=0.93)


FEW_LABELS = tuple(
    functools.partial(few_labels, requests, share, by_popularity=by_popularity)
    for requests in (60, 300)
    for share in (0.05, 0.1)
    for by_popularity in (False, True)
)
"""Designs whose truth is simulated, made when they are asked for: `--labels`."""


DESIGNS = (
    exposed(5), exposed(20), exposed(100), fair(20), fair(100), crossed(40), prefixes(5), prefixes(20), prefixes(100),
    ordered(20), ordered(100), shown(30), shown(180), no_distance(30), no_distance(180), parted(50, "theil"), parted(500, "theil"),
    parted(50, "gini"), parted(50, "gini", "abcdef"), parted(300, "gini"), split(50), split(500),
    viewed(30), viewed(60), viewed(120), both_drawn(30, 60), both_drawn(60, 200), outcomes(300),
    requested(20, gap=0), requested(20, gap=0.1), requested(40, gap=0, unequal=True), requested(100, gap=0.1), niches(60),
    unequal_lists(80),
    twice(25, (1.8, 1.8)), twice(50, (1.8, 1.8)), twice(300, (1.8, 1.8)), twice(50, (0.7, 0.7)), twice(50, (0.8, 1.2)),
    twice(300, (0.8, 1.2)), twice(300, (1.4, 1.8)),
    *(clustered(audit, users) for audit in CLUSTERED for users in (8, 20, 60)),
    *(clustered(audit, 60, cluster=False) for audit in CLUSTERED),
)  # fmt: skip


def skewed(requests: int) -> Design:
    """Some requests show hundreds of items and most a handful; who is favoured depends on how many."""
    groups = {i: "f" if i % 5 < 2 else "m" for i in range(300)}

    def ask(rng: Rng, interval: str | None) -> Any:
        long = np.minimum(2 + (rng.pareto(1.1, requests) * 4).astype(int), 300)
        request = np.repeat(np.arange(requests), long)
        lean = 0.4 * np.log(long) * (np.arange(300) % 5 >= 2)[:, None]
        order = np.argsort(-(lean.T + rng.gumbel(size=(requests, 300))), axis=1)
        rank = np.concatenate([np.arange(1, n + 1) for n in long])
        run = pl.DataFrame({"request": request, "item": order[request, rank - 1], "rank": rank})
        call = {"groups": groups, "protected": "f", "chance": False, "interval": interval}
        return eh.exposure(run, metrics=["awrf", "log_dp", "eed"], rng=int(rng.integers(1 << 30)), **call)

    return Design(f"requests of skewed sizes, {requests} requests", ask)


def catalogue(users: int) -> Design:
    """A catalogue of 60 items that everybody shares, tastes of two kinds, and two of five users in one group."""

    def ask(rng: Rng, interval: str | None) -> Any:
        kind = rng.integers(0, 2, users)
        pull = np.where(kind[:, None] == (np.arange(60) % 2), 1.0, 0.0) - 1.2 * np.log(np.arange(1, 61))
        group = np.where(rng.random(users) < 0.3 + 0.2 * kind, "b", "a")
        group[:2] = ["a", "b"]
        call = {"user_groups": list(group), "top": 5, "chance": None, "rng": int(rng.integers(1 << 30))}
        metrics = ["exposure_tv", *CATALOGUE]
        return eh.recommender(pull + rng.gumbel(size=(users, 60)), metrics=metrics, interval=interval, **call)

    return Design(f"shared catalogue of 60, {users} users", ask)


def amounts_by_request(requests: int) -> Design:
    """Outcomes that are skewed amounts, in requests of which a few are large."""

    def ask(rng: Rng, interval: str | None) -> Any:
        q = np.repeat(np.arange(requests), np.minimum(6 + (rng.pareto(1.5, requests) * 8).astype(int), 150))
        group = np.where(rng.random(len(q)) < rng.beta(2, 3, requests)[q], "b", "a")
        score = rng.gamma(2, 1, len(q))
        outcome = score + 0.5 * (group == "b") + rng.gamma(1, 1, requests)[q] + rng.gamma(1, 1, len(q))
        table = pl.DataFrame({"score": score, "group": group, "q": q, "outcome": outcome})
        roles = {"score": "score", "outcome": "outcome", "group": "group", "reference": "a", "cluster": "q"}
        return eh.outcome_test(table, **roles, bins=4, metrics=["pooled_gap", "spline_gap"])

    name = f"outcome test of amounts, {requests} requests of skewed sizes"
    return Design(name, ask, {"pooled_gap b": 0.5, "spline_gap b": 0.5})


def lookers(viewers: int) -> Design:
    """Viewers of whom a few look at most of everything, and authors many of whom nobody sees."""
    rates = np.random.default_rng(8).pareto(1.5, 150)

    def ask(rng: Rng, interval: str | None) -> Any:
        volume = rng.lognormal(2, 1.2, (viewers, 1))
        taste = rates * rng.gamma(0.5, 2, (viewers, 150))
        views = rng.poisson(volume * taste / taste.sum(1, keepdims=True))
        viewer, author = np.nonzero(views)
        log = pl.DataFrame({"viewer": viewer, "author": author, "views": views[viewer, author]})
        call = {"unit": "author", "amount": "views", "population": 150, "within": "viewer", "interval": interval}
        return eh.inequality(log, metrics=["gini", "top_share(p=0.1)", "equal_share"], rng=1, **call)

    return Design(f"within viewers of skewed volume, {viewers} viewers", ask)


def unlike(units: int) -> Design:
    """Three groups of unequal size, level and spread."""

    def ask(rng: Rng, interval: str | None) -> Any:
        g = rng.choice(3, units, p=[0.6, 0.3, 0.1])
        g[:3] = [0, 1, 2]
        table = pl.DataFrame({"u": np.arange(units), "g": g, "n": rng.lognormal(0.7 * g, 0.6 + 0.4 * g)})
        call = {"unit": "u", "amount": "n", "group": "g", "population": None, "interval": interval}
        return eh.decompose(table, **call, metrics=["total", "within", "between"], rng=int(rng.integers(1 << 30)))

    return Design(f"decompose, gini, {units} units, groups unlike", ask)


def streams(units: int) -> Design:
    """Two sources that go to different units: many zeros, one of them heavy."""

    def ask(rng: Rng, interval: str | None) -> Any:
        x = np.where(rng.random(units) < 0.5, 0.0, rng.lognormal(0, 1.3, units))
        table = pl.DataFrame(
            {
                "u": np.tile(np.arange(units), 2),
                "s": np.repeat(["x", "y"], units),
                "n": np.append(x, rng.gamma(1, 2, units)),
            }
        )
        call = {"unit": "u", "amount": "n", "source": "s", "population": None, "interval": interval}
        return eh.sources(
            table,
            **call,
            metrics=["share", "contribution", "contribution_share", "marginal"],
            rng=int(rng.integers(1 << 30)),
        )

    return Design(f"sources, {units} units, one of them heavy", ask)


DESIGNS_APART = (
    skewed(25), skewed(80), catalogue(50), catalogue(150), lookers(40), lookers(80), unlike(80), streams(80), streams(300),
    twice(60, (1.6, 1.6)), twice(60, (1.0, 1.3)), twice(150, (0.5, 0.9)),
    *(unequal_clusters(audit, 40) for audit in CLUSTERED),
    amounts_by_request(30), amounts_by_request(100),
)  # fmt: skip
"""Designs that were first looked at after the rules were set."""


@dataclass(frozen=True)
class Hits:
    """Of the intervals made, the share that holds the truth; the shares made and cautioned; and the median width.

    The width is over that of 1.96 true errors either side.
    """

    covered: float
    made: float
    cautioned: float
    width: float


def hits(design: Design, runs: int, seed: int) -> dict[str, Hits]:
    """How the intervals of every metric (and group) fare."""
    rng = np.random.default_rng([seed, *design.name.encode()])
    found: dict[str, list[tuple[float, float, float, bool]]] = {}
    for _ in range(runs):
        for r in design.ask(rng, INTERVAL).findings.rows():
            key = r["metric"] if r["group"] in (None, "f", "b vs a") else f"{r['metric']} {r['group']}"
            found.setdefault(key, []).append((r["estimate"], r["low"], r["high"], bool(r["note"])))
    out = {}
    for key, rows in found.items():
        estimate, low, high, noted = np.array(rows, dtype=float).T
        there = ~np.isnan(low)
        truth = design.known.get(key, float(np.nanmean(estimate)))
        held = (low <= truth + 1e-12) & (truth - 1e-12 <= high)
        if there.any():
            ideal = 2 * 1.96 * np.nanstd(estimate)
            width = float(np.median((high - low)[there]) / ideal) if ideal > 0 else math.nan
            out[key] = Hits(float(held[there].mean()), float(there.mean()), float(noted.mean()), width)
    return out
