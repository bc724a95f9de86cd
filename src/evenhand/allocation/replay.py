"""Replay of lists on a set of requests: relevance, exposure, distance from the old lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evenhand.allocation.policies import Draw
from evenhand.allocation.serving import Server
from evenhand.attention import log
from evenhand.cards import Floats
from evenhand.metrics.reorder import least_promoted, ndcg, ndcg_relevance, rank_biased_overlap
from evenhand.tallies.ragged import Ints
from evenhand.tallies.slates import Gained, Judged, Reordered, Slates


@dataclass(frozen=True)
class Replayed:
    """Metrics and exposure under a policy.

    Attributes
    ----------
    each : by metric, (Q,) the value of every request, NaN where it has none.
    exposure : (buckets, providers) exposure from each bucket of requests.
    """

    each: dict[str, Floats]
    exposure: Floats

    @property
    def received(self) -> Floats:
        """(providers,) exposure from all requests."""
        return np.asarray(self.exposure.sum(0))


class Stage:
    """Requests on which policies are replayed; `bucket` groups them for the jackknife."""

    def __init__(self, slates: Slates, bucket: Ints) -> None:
        self.slates, self.bucket = slates, bucket
        self.server = Server(slates)
        self.standard = log(offset=1).weights(slates.top)

    @property
    def buckets(self) -> int:
        return int(self.bucket.max(initial=-1)) + 1

    def lists(self, draw: Draw) -> Ints:
        return self.server.fill(self.slates.owners.per_item(draw.boosts))

    def replay(self, draws: Sequence[Draw], probability: Floats) -> Replayed:
        """The expectation over the draws of a policy."""
        return self.judged([self.lists(draw) for draw in draws], probability)

    def judged(self, lists: Sequence[Ints], probability: Floats) -> Replayed:
        """The expectation over lists that are shown with these probabilities."""
        parts = list(zip(probability, map(self._replay_lists, lists), strict=True))
        each = {name: np.asarray(sum(p * part.each[name] for p, part in parts)) for name in parts[0][1].each}
        return Replayed(each, np.asarray(sum(p * part.exposure for p, part in parts)))

    def _replay_lists(self, lists: Ints) -> Replayed:
        slates = self.slates
        moved = Reordered(np.where(lists >= 0, lists - slates.starts[:-1, None] + 1, 0))
        each = {"ndcg": ndcg.on(Gained(slates.value(lists, slates.score), slates.ideal))}
        if not np.array_equal(self.standard, slates.attention):
            padded = np.append(slates.score, 0.0)
            best = padded[slates.as_ranked] @ self.standard
            each["ndcg_standard"] = ndcg.on(Gained(padded[lists] @ self.standard, best))
        if slates.relevance is not None and slates.most_relevant is not None:
            judged = Judged(slates.value(lists, slates.relevance), slates.most_relevant)
            each["ndcg_relevance"] = ndcg_relevance.on(judged)
        each["rank_biased_overlap"] = rank_biased_overlap.on(moved)
        each["least_promoted"] = least_promoted.on(moved)
        return Replayed(each, self._exposure(lists))

    def reach(self) -> tuple[Floats, Floats]:
        """(providers,) least and largest share of exposure that any lists give to each."""
        slates, owners = self.slates, self.slates.owners
        ends = np.empty((2, owners.providers))
        for end, boost in zip(ends, (-np.finfo(np.float32).max, np.finfo(np.float32).max), strict=True):
            for p in range(owners.providers):
                boosts = np.zeros(owners.providers)
                boosts[p] = boost  # last or first, whatever the scores
                received = slates.received(self.server.fill(owners.per_item(boosts)))
                end[p] = received[p] / received.sum()
        return ends[0], ends[1]

    def _exposure(self, lists: Ints) -> Floats:
        slates = self.slates
        filled = lists >= 0
        cell = self.bucket[:, None] * slates.owners.items + slates.item[np.where(filled, lists, 0)]
        attention = np.broadcast_to(slates.attention, lists.shape)
        counts = np.bincount(cell[filled], attention[filled], self.buckets * slates.owners.items)
        cells = np.asarray(counts, dtype=np.float64).reshape(self.buckets, slates.owners.items)
        return slates.owners.per_provider(cells)
