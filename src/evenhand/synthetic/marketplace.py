"""Markets: candidates who are scored and treated by people (`marketplace`), and items of providers (`market`).

In a marketplace only mechanics are set: how qualified the groups are, what the algorithm sees of it, how it errs, and how people
treat those they are shown. Whether the algorithm is fair to a group follows from `bias` alone; how the groups fare follows
from all of it.
"""

from __future__ import annotations

import math
import typing
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np

from evenhand.cards import Between, Floats, check_value
from evenhand.errors import EvenhandError, all_problems, listing

if TYPE_CHECKING:
    import polars as pl


GROUPS = {"female": 0.45, "male": 0.45, "unknown": 0.1}
LEVEL = -0.5  # mean qualification, on the log-odds scale of an outcome; its standard deviation is 1
NOISE = 0.7  # standard deviation of what the algorithm sees around a qualification
TREATED = 0.25  # share of candidates who are notified
PART = 0.3  # what an application without attention is worth
DEPTH = 10.0  # mean number of places that a viewer looks at


def marketplace(
    kind: Literal["notifications", "ranking"] = "notifications",
    *,
    requests: Annotated[int, Between(1, 10**8)] = 500,
    candidates: Annotated[int, Between(1, 10_000)] = 40,
    groups: Mapping[str, float] = GROUPS,
    bias: Mapping[str, float] | None = None,
    qualification: Mapping[str, float] | None = None,
    human: Mapping[str, float] | None = None,
    shock: Annotated[float, Between(0, 5)] = 0.0,
    rng: int | np.random.Generator | None = None,
) -> pl.DataFrame:
    """Scored candidates of every request, with the outcomes of those who were notified or seen.

    A candidate has a qualification z, normal around the group's mean. The algorithm sees it with noise, knows the groups'
    means, and scores the outcome it expects: without `bias` its score is right on average for every group, whatever
    `qualification` and `human` are. A biased algorithm takes the evidence of a group for less than it is.

    Parameters
    ----------
    kind : "notifications": every candidate above a threshold is notified, about a quarter; the outcome is 0 without an
        application, 0.3 with one, 1 if it also gets a recruiter's attention. "ranking": candidates are ranked by score, the
        viewer looks ten places down on average, and the outcome is 0 or 1.
    requests, candidates : jobs or queries, and scored candidates of each.
    groups : share of each group.
    bias : how much the algorithm takes off a group's qualification (in its standard deviations), by group.
    qualification : how much a group's mean qualification differs, by group.
    human : share of its good outcomes that people's bias takes from a group (candidates who hold back, deciders with a
        taste). The algorithm has learned from such outcomes, so its scores expect them.
    shock : standard deviation of what all candidates of a request share and the algorithm does not know.

    Returns
    -------
    A Polars frame: request, candidate, group, score, rank, treated, outcome (null where nobody saw it), expected (the
    outcome that the true qualification promises, which no auditor sees).

    Examples
    --------
    >>> made = marketplace(requests=3, candidates=4, rng=1)
    >>> made.columns
    ['request', 'candidate', 'group', 'score', 'rank', 'treated', 'outcome', 'expected']
    """
    _check(locals())
    import polars as pl

    draw = np.random.default_rng(rng)
    names, shares = list(groups), np.array([float(v) for v in groups.values()])
    code = draw.choice(len(names), requests * candidates, p=shares / shares.sum())
    effects = ([(effect or {}).get(g, 0.0) for g in names] for effect in (bias, qualification, human))
    under_rated, difference, lost = (np.array(effect, dtype=np.float64)[code] for effect in effects)
    z = LEVEL + difference + draw.normal(size=len(code))
    seen = z + NOISE * draw.normal(size=len(code))
    shared = np.repeat(shock * draw.normal(size=requests), candidates)
    trust = 1 / (1 + NOISE**2)
    mean = LEVEL + difference + trust * (seen - LEVEL - difference) - under_rated
    worth = PART if kind == "notifications" else None
    score = _expected_outcome(mean, math.sqrt(trust * NOISE**2 + shock**2), 1 - lost, worth)
    order = np.argsort(-score.reshape(requests, candidates), axis=1, kind="stable")
    rank = (np.argsort(order, axis=1) + 1).ravel()
    if kind == "notifications":
        treated = score >= float(np.quantile(score, 1 - TREATED))
    else:
        treated = rank <= np.repeat(draw.geometric(1 / DEPTH, requests), candidates)
    frame = pl.DataFrame(
        {
            "request": np.repeat(np.arange(requests), candidates), "candidate": np.tile(np.arange(candidates), requests),
            "group": np.array(names)[code], "score": score, "rank": rank, "treated": treated,
            "outcome": _outcome(z + shared, 1 - lost, worth, draw), "expected": _outcome(z + shared, 1 - lost, worth),
        }
    )  # fmt: skip
    return frame.with_columns(pl.when(pl.col("treated")).then(pl.col("outcome")).alias("outcome"))


def _check(arguments: dict[str, Any]) -> None:
    import polars as pl

    hints = typing.get_type_hints(marketplace, localns={"pl": pl}, include_extras=True)
    problems = []
    for name, value in arguments.items():
        if name in ("rng", "groups", "bias", "qualification", "human"):
            continue
        try:
            check_value(f"marketplace({name}=", value, hints[name])
        except EvenhandError as problem:
            problems.append(str(problem))
    shares = arguments["groups"]
    is_mapping = isinstance(shares, Mapping)
    if not is_mapping or any(not v >= 0 for v in shares.values()) or not sum(shares.values()) > 0:
        problems.append(f"groups={shares!r} gives no shares. Pass {{group: share}} with shares of zero or more.")
        shares = {}
    for role in ("bias", "qualification", "human"):
        named = arguments[role] or {}
        odd = [g for g in named if g not in shares]
        if odd and shares:
            problems.append(
                f"{role} names {listing(map(repr, odd))}, which groups does not. Groups: {listing(shares)}."
            )
        if role == "human" and any(not 0 <= v <= 1 for v in named.values()):
            problems.append(f"human={named!r} takes a share outside [0, 1]. Pass shares.")
    if problems:
        raise all_problems(problems, where="The call")


def _expected_outcome(mean: Floats, unsure: float, keep: Floats, part: float | None) -> Floats:
    """The outcome expected where the qualification is normal around `mean`, exact to 1e-9."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(24)
    outcomes = (_outcome(mean + unsure * x, keep, part) for x in nodes)
    return np.asarray(sum(w * outcome for w, outcome in zip(weights / weights.sum(), outcomes, strict=True)))


def _outcome(z: Floats, keep: Floats, part: float | None, draw: np.random.Generator | None = None) -> Floats:
    """Expected or drawn outcomes: connections, or applications that get attention or `part`."""
    applied = 1 / (1 + np.exp(-z)) * keep
    attended = (
        1 / (1 + np.exp(-(z - 1.5))) if part is not None else np.ones_like(z)
    )  # attention is rarer by 1.5 deviations
    if draw is None:
        return np.asarray(applied * (part + (1 - part) * attended) if part is not None else applied)
    sent = draw.random(z.shape) < applied
    noticed = draw.random(z.shape) < attended if part is not None else True
    return np.where(sent, np.where(noticed, 1.0, part or 0.0), 0.0)


def market(
    requests: Annotated[int, Between(1, 10**7)] = 500,
    candidates: Annotated[int, Between(1, 100_000)] = 60,
    *,
    providers: Annotated[int, Between(2, 10**6)] = 50,
    items: Annotated[int, Between(1, 10**7)] = 600,
    skew: Annotated[float, Between(0, 10)] = 1.0,
    taste: Annotated[float, Between(0, 10)] = 1.0,
    rng: int | np.random.Generator | None = None,
) -> pl.DataFrame:
    """Candidates of every request with provider, score and relevance.

    Columns `request`, `item`, `provider`, `score` in (0, 1), `relevance` 0 or 1.

    A provider has a reputation, normal with standard deviation `skew`; an item adds an appeal of its own, and a request a
    `taste` for it. The score is the chance that the item is relevant, so scores are right on average. The larger `skew` is
    beside `taste`, the more do a few providers head every list, and the dearer it is to change that.

    >>> made = market(3, 5, providers=4, items=20, rng=1)
    >>> made.height, made.columns
    (15, ['request', 'item', 'provider', 'score', 'relevance'])
    """
    import polars as pl

    draws = np.random.default_rng(rng)
    many = min(candidates, items)
    provider = np.concatenate([np.arange(providers), draws.integers(0, providers, max(0, items - providers))])[:items]
    appeal = skew * draws.normal(size=providers)[provider] + 0.5 * draws.normal(size=items)
    # the `many` smallest of random keys: a sample without replacement for each request
    item = np.argpartition(draws.random((requests, items)), many - 1, axis=1)[:, :many]
    logit = appeal[item] + taste * draws.normal(size=item.shape) - 1.0
    score = 1 / (1 + np.exp(-logit))
    relevant = draws.random(item.shape) < score
    return pl.DataFrame(
        {
            "request": np.repeat(np.arange(requests), many), "item": item.ravel(), "provider": provider[item].ravel(),
            "score": score.ravel(), "relevance": relevant.ravel().astype(np.int64),
        }
    )  # fmt: skip
