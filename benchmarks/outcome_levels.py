"""False alarms of the outcome test and of slots given again, in worlds whose scores treat all groups alike.

python -m benchmarks.outcome_levels 5000
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import evenhand as eh
from evenhand.intervals.kinds import holm
from evenhand.intervals.outcomes import with_flipped_signs
from evenhand.metrics.counterfactual import Reallocation, folded
from evenhand.metrics.outcome import gaps
from evenhand.metrics.outcome_joint import joint_test, spline
from evenhand.tallies.candidates import Candidates
from evenhand.tallies.moments import Moments

BINS = 10
AT_ONCE = 250
DRAWS = 99
CUT = ("estimate", "block", "freedom", "rows", "small", "likely", "welch_freedom")
Alarms = dict[str, float]


def independent(rng: np.random.Generator, worlds: int = 1) -> tuple[Any, Any, Any]:
    """2,000 candidates; the score is the chance of a good outcome, and one group is more qualified."""
    g = (rng.random((worlds, 2_000)) < 0.4) * 1
    s = np.clip(rng.beta(2, 2, g.shape) + 0.1 * g, 0.01, 0.99)
    return s, (rng.random(g.shape) < s) * 1.0, g


def clustered(rng: np.random.Generator, shock: float = 1.0) -> tuple[Any, Any, Any, Any]:
    """200 queries of 10; the outcomes of a query share a shock, and groups are concentrated in queries."""
    q = np.repeat(np.arange(200), 10)
    g = (rng.random(2_000) < rng.random(200)[q]) * 1
    s = np.clip(rng.beta(2, 2, 2_000) + 0.1 * g, 0.01, 0.99)
    chance = 1 / (1 + np.exp(-np.log(s / (1 - s)) - shock * rng.normal(size=200)[q]))
    return s, (rng.random(2_000) < chance) * 1.0, g, q


def binned(s: Any) -> Any:
    """The bin of each score, bins of equal numbers."""
    return np.searchsorted(np.quantile(s, np.arange(1, BINS) / BINS, method="inverted_cdf"), s)


def alarms_of(found: Any) -> Alarms:
    """Which statements of a world are made although nothing is wrong."""
    single = found.p[:, 1][found.tested[:, 1]]
    return {
        "joint": joint_test(found).p < 0.05,
        "one gap": float(np.mean(single < 0.05)),
        "any gap after Holm": bool(holm(single).min() < 0.05),
    }


def of_fair_scores(worlds: int, seed: int = 20) -> list[Alarms]:
    """Many worlds are tallied as one, bins after bins."""
    rng, alarms = np.random.default_rng(seed), []
    for _ in range(worlds // AT_ONCE):
        s, y, g = independent(rng, AT_ONCE)
        b = np.stack([binned(row) for row in s]) + BINS * np.arange(AT_ONCE)[:, None]
        m = Moments.from_arrays(s.ravel(), y.ravel(), b.ravel(), g.ravel(), shape=(AT_ONCE * BINS, 2))
        found = gaps(m, 0)
        parts = [slice(world * BINS, (world + 1) * BINS) for world in range(AT_ONCE)]
        alarms += [alarms_of(replace(found, **{name: getattr(found, name)[at] for name in CUT})) for at in parts]
    return alarms


def of_shared_shocks(worlds: int, seed: int = 21) -> list[Alarms]:
    """Outcomes of a request share a shock; errors are clustered by request."""
    rng, alarms = np.random.default_rng(seed), []
    for _ in range(worlds):
        s, y, g, q = clustered(rng)
        m = Moments.from_arrays(s, y, binned(s), g, shape=(BINS, 2), cluster=q)
        by_spline = with_flipped_signs(spline(m, 0, "cluster")).p[1] < 0.05
        alarms.append(alarms_of(gaps(m, 0, "cluster")) | {"spline": by_spline})
    return alarms


def fair_jobs(world: int) -> tuple[Any, Any, Any, Any]:
    """One of four kinds of worlds with fair scores; scores need not be on the scale of the outcome, nor outcomes be 0 or 1."""
    rng = np.random.default_rng([4, world])
    if world % 4 < 2:
        settings = {} if world % 4 else {"qualification": {"female": 0.8}, "shock": 0.5}
        frame = eh.synthetic.marketplace("notifications", requests=150, candidates=20, rng=rng, **settings)
        group = np.unique(frame["group"].to_numpy(), return_inverse=True)[1]
        return frame["request"].to_numpy(), frame["score"].to_numpy(), group, frame["outcome"].fill_null(0).to_numpy()
    request = np.repeat(np.arange(100), 15)
    group = rng.choice(2, 1_500, p=[0.6, 0.4])
    chance = np.clip(rng.beta(2, 2, 1_500) + 0.1 * group, 0.01, 0.99)
    if world % 4 == 2:
        return request, np.log(chance / (1 - chance)), group, (rng.random(1_500) < chance) * 1.0
    return request, chance, group, 10 * chance + 3 * rng.normal(size=1_500)


def of_slots_given_again(worlds: int) -> list[Alarms]:
    """Whether a rise of the outcome passes the upper end of its band of chance."""
    alarms = []
    for world in range(worlds):
        request, score, group, outcome = fair_jobs(world)
        bar = np.quantile(score, 0.75)
        inner = np.quantile(score[score >= bar], np.arange(1, 10) / 10, method="inverted_cdf")
        near = score >= 2 * bar - inner[0]
        c = Candidates.from_arrays(
            request[near], score[near], group[near], outcome[near], score[near] >= bar,
            edges=inner, groups=int(group.max()) + 1, reference=1, scope=(bar, np.inf),
        )  # fmt: skip
        rng = np.random.default_rng([5, world])
        plan = Reallocation(c, folded(c.requests, 2, rng), 2)
        seen, null = plan.change().outcome_change, plan.null(DRAWS, rng).outcome_change
        alarms.append({"rise": bool((1 + np.count_nonzero(null >= seen)) / (1 + DRAWS) <= 0.05)})
    return alarms


KINDS: dict[str, Callable[[int], list[Alarms]]] = {
    "fair scores": of_fair_scores,
    "outcomes that share shocks": of_shared_shocks,
    "slots given again": of_slots_given_again,
}


def rates(alarms: list[Alarms]) -> Alarms:
    """The share of worlds in which each statement is made."""
    return {name: float(np.mean([a[name] for a in alarms])) for name in alarms[0]}


if __name__ == "__main__":
    for kind, alarms in KINDS.items():
        print(kind, rates(alarms(int(sys.argv[1]) if len(sys.argv) > 1 else 500)), flush=True)
