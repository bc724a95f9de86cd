"""Search and recommendation systems of known bias: rankings, groups and judgments with the gaps that real ones have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenhand.errors import EvenhandError

if TYPE_CHECKING:
    import polars as pl

Floats = npt.NDArray[np.float64]
FACTORS = 8


@dataclass(frozen=True, slots=True)
class Maker:
    """How a system scores: relevance, popularity, noise, and a handicap of the protected group.

    The score of an item is `skill` times its standardised relevance, plus `popularity` times its standardised popularity,
    plus `noise` times a normal draw, minus `bias` for protected items (times its share where an item is shared out).
    `bias` below zero favours them; `temperature` is further noise that is drawn anew for every list.
    """

    bias: float = 0.0
    skill: float = 1.0
    popularity: float = 0.0
    noise: float = 0.5
    temperature: float = 0.0


@dataclass(frozen=True)
class Corpus:
    """Inputs of an audit, and the true bias of each system.

    Attributes
    ----------
    rankings : columns system, request, item, rank, score (predicted utility, zero or more); sample where lists are drawn.
    groups : columns item and group (missing where unknown); with `soft`, item, group, share.
    relevance : columns request, item, relevance: what was judged.
    scores : columns system, request, item, score: everything that was scored for the first requests, for `eh.pairwise`.
    bias : the handicap of each system, as `Maker.bias` has it.
    """

    rankings: pl.DataFrame
    groups: pl.DataFrame
    relevance: pl.DataFrame
    scores: pl.DataFrame
    bias: Mapping[str, float]


SYSTEMS: Mapping[str, Maker] = {
    "fair": Maker(),
    "biased": Maker(bias=1.0),
    "popular": Maker(popularity=1.0),
    "random": Maker(skill=0.0, noise=1.0),
}


def corpus(
    items: int = 1_000,
    requests: int = 200,
    *,
    systems: Mapping[str, Maker] | None = None,
    protected: float = 0.3,
    unknown: float = 0.1,
    soft: bool = False,
    merit: float = 0.0,
    candidates: int | None = None,
    relevant: int = 5,
    judged: float = 1.0,
    depth: int = 20,
    samples: int = 1,
    scored: int = 0,
    rng: int | np.random.Generator | None = None,
) -> Corpus:
    """Generate a task: `systems` rank `items` for `requests`, with a bias that is known.

    Parameters
    ----------
    systems : name to `Maker` (default: fair, biased, popular, random).
    protected, unknown : share of items of the protected group "P" (others: "U"), and of items without a group.
    soft : items have one to four authors and belong to groups in equal parts.
    merit : how much less relevant protected items are, in standard deviations: a difference that is no system's doing.
    candidates : re-ranking: each request has that many items to order, on average (default: all items).
    relevant : items that are relevant to a request; a third of the candidates at most.
    judged : share of the pairs of request and relevant item that somebody judged; the others count as not relevant.
    depth, samples : length of the lists, and lists drawn per request.
    scored : requests for which all scores are kept.

    >>> found = corpus(50, 3, rng=1)
    >>> found.rankings.columns, found.bias["biased"]
    (['system', 'request', 'item', 'rank', 'score'], 1.0)
    """
    makers = dict(SYSTEMS if systems is None else systems)
    shares = {"protected": protected, "unknown": unknown, "judged": judged}
    _check(items, requests, makers, candidates, depth, samples, shares)
    draw = np.random.default_rng(rng)
    share, groups = _groups(items, protected, unknown, soft, draw)
    popularity = draw.normal(size=items)
    taste = draw.normal(size=(requests, FACTORS)) @ draw.normal(size=(items, FACTORS)).T / np.sqrt(FACTORS)
    worth = taste + 0.5 * popularity - merit * share
    pool = _pools(requests, items, candidates, draw)
    truth = _relevant(worth, pool, relevant)
    return _filled(makers, worth, popularity, share, pool, truth, groups, judged, depth, samples, scored, draw)


def _check(
    items: Any, requests: Any, makers: Any, candidates: Any, depth: Any, samples: Any, shares: Mapping[str, Any]
) -> None:
    counts = {"items": items, "requests": requests, "depth": depth, "samples": samples, "candidates": candidates}
    for name, count in counts.items():
        whole = isinstance(count, int) and not isinstance(count, bool) and count >= 1
        if not whole and not (name == "candidates" and count is None):
            raise EvenhandError(f"{name}={count!r} is not a count. Pass a whole number of one or more.")
    for name, value in shares.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
            raise EvenhandError(f"{name}={value!r} is not a share. Pass a number from 0 to 1.")
    if not makers or not all(isinstance(m, Maker) for m in makers.values()):
        raise EvenhandError("systems does not map names to eh.synthetic.Maker. Pass {'name': Maker(bias=0.5)}.")
    if items * requests > 200_000_000:
        raise EvenhandError(f"{items:,} items times {requests:,} requests are too many. Pass fewer of either.")


def _groups(
    items: int, protected: float, unknown: float, soft: bool, draw: np.random.Generator  # noqa: FBT001
) -> tuple[Floats, pl.DataFrame]:  # fmt: skip
    """Share of each item that is protected, and the groups as an audit may see them."""
    import polars as pl

    names = [f"d{i}" for i in range(items)]
    hidden = draw.random(items) < unknown
    if not soft:
        is_protected = draw.random(items) < protected
        labels = np.where(is_protected, "P", "U").tolist()
        shown = [None if gone else label for label, gone in zip(labels, hidden.tolist(), strict=True)]
        return is_protected.astype(np.float64), pl.DataFrame(
            {"item": names, "group": shown}, schema_overrides={"group": pl.String}
        )
    authors = draw.integers(1, 5, items)
    leaning = np.clip(protected + 0.35 * draw.normal(size=items), 0, 1)  # authors of a paper are alike
    part = draw.binomial(authors, leaning) / authors
    parts = pl.DataFrame({"item": names, "P": part, "U": 1 - part}).filter(pl.Series(~hidden))
    long = parts.unpivot(["P", "U"], index="item", variable_name="group", value_name="share").filter(
        pl.col("share") > 0
    )
    return part, long


def _pools(requests: int, items: int, candidates: int | None, draw: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Which items each request may rank."""
    if candidates is None:
        return np.ones((requests, items), dtype=bool)
    sizes = np.clip(draw.poisson(candidates, requests), min(5, items), items)
    place = draw.random((requests, items)).argsort(1).argsort(1)
    return np.asarray(place < sizes[:, None])


def _relevant(worth: Floats, pool: npt.NDArray[np.bool_], relevant: int) -> npt.NDArray[np.bool_]:
    """The items of a request's pool that are worth most to it."""
    inside = np.where(pool, worth, -np.inf)
    place = (-inside).argsort(1, kind="stable").argsort(1, kind="stable")
    most = np.minimum(relevant, np.maximum(1, pool.sum(1) // 3))
    return np.asarray(place < most[:, None])


def _filled(
    makers: Mapping[str, Maker], worth: Floats, popularity: Floats, share: Floats, pool: Any, truth: Any,
    groups: pl.DataFrame, judged: float, depth: int, samples: int, scored: int, draw: np.random.Generator,
) -> Corpus:  # fmt: skip
    import polars as pl

    rankings, scores = [], []
    standard = (worth - worth.mean()) / worth.std()
    for name, m in makers.items():
        fixed = m.skill * standard + m.popularity * popularity - m.bias * share
        fixed = fixed + m.noise * draw.normal(size=worth.shape)
        for sample in range(samples):
            value = fixed + (m.temperature * draw.normal(size=worth.shape) if m.temperature else 0.0)
            lists = _lists(np.where(pool, value, -np.inf), depth).with_columns(pl.lit(name).alias("system"))
            rankings.append(lists.with_columns(pl.lit(sample + 1).alias("sample")) if samples > 1 else lists)
        q, d = np.nonzero(pool[:scored])
        scores.append(_table(q, d).with_columns(pl.lit(name).alias("system"), pl.Series("score", fixed[q, d])))
    judged_relevant = truth & (draw.random(truth.shape) < judged)
    # Where there is a pool, all of it was looked at; in a whole catalogue only what was found relevant is known.
    looked = pool & (~truth | judged_relevant) if not pool.all() else judged_relevant
    q, d = np.nonzero(looked)
    order = ["system", "request", *(["sample"] if samples > 1 else []), "item", "rank", "score"]
    return Corpus(
        pl.concat(rankings).select(order), groups,
        _table(q, d).with_columns(pl.Series("relevance", judged_relevant[q, d].astype(np.int64))),
        pl.concat(scores).select("system", "request", "item", "score"), {name: m.bias for name, m in makers.items()},
    )  # fmt: skip


def _lists(value: Floats, depth: int) -> pl.DataFrame:
    """Best items of every request with rank and predicted utility (logistic of the score)."""
    import polars as pl

    requests, items = value.shape
    depth = min(depth, items)
    best = (
        np.argpartition(-value, depth - 1, axis=1)[:, :depth]
        if depth < items
        else np.tile(np.arange(items), (requests, 1))
    )
    best_values = np.take_along_axis(value, best, 1)
    order = np.argsort(-best_values, axis=1, kind="stable")
    best, best_values = np.take_along_axis(best, order, 1), np.take_along_axis(best_values, order, 1)
    q, place = np.nonzero(np.isfinite(best_values))
    table = _table(q, best[q, place])
    return table.with_columns(
        pl.Series("rank", place + 1), pl.Series("score", 1 / (1 + np.exp(-best_values[q, place])))
    )


def _table(request: Any, item: Any) -> pl.DataFrame:
    import polars as pl

    frame = pl.DataFrame({"request": request, "item": item})
    return frame.with_columns(pl.format("q{}", "request").alias("request"), pl.format("d{}", "item").alias("item"))
