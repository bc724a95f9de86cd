"""A frontier of policies on scored candidates: boosts, rankings, who gains and loses, unused headroom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from evenhand.allocation.frankwolfe import SearchResult
from evenhand.allocation.objectives import Objective
from evenhand.allocation.policies import Draw, Replayed, Stage
from evenhand.attention import Attention
from evenhand.cards import Floats
from evenhand.errors import EvenhandError, listing
from evenhand.metrics.shares import lorenz_curve
from evenhand.report.charts.lorenz_curves import corners
from evenhand.results import Result
from evenhand.sources.candidates import CandidateRows, open_candidates
from evenhand.sources.frames import native
from evenhand.sources.judged_rankings import Judgments
from evenhand.sources.labels import LabelColumns, Labels
from evenhand.sources.rankings import Rankings
from evenhand.tallies.ragged import Ints
from evenhand.tallies.slates import Slates
from evenhand.tallies.spectrum import Spectrum


@dataclass(frozen=True)
class Candidates:
    """The candidates of every request, and the table that they came from."""

    slates: Slates
    rows: CandidateRows

    @classmethod
    def from_scores(
        cls, scored: Rankings, labels: Labels | LabelColumns | None, judgments: Judgments | None, top: int, attention: Attention,
        *, gains: bool = True,
    ) -> Candidates:  # fmt: skip
        """Every candidate, sorted by request and falling score; equal scores by item id."""
        rows = open_candidates(scored, labels, judgments, gains=gains)
        return cls(Slates.from_candidates(rows, top, attention.weights(top)), rows)

    @property
    def providers(self) -> tuple[Any, ...]:
        return self.rows.providers

    @property
    def unowned(self) -> int:
        """Items that nobody was named for; each is its own provider."""
        return self.rows.unowned

    def table(self, slates: Slates, which: Ints, lists: Ints, **columns: Any) -> Any:
        """Lists (Q, top) of some requests as a frame of request, item, rank and constant columns."""
        filled = lists >= 0
        row, place = np.nonzero(filled)
        return self.rows.table(which[row], slates.item[lists[filled]], place + 1, **columns)

    def served_lists(self, served: Rankings) -> Ints:
        """(Q, top) the lists of rankings that are shown, as positions among the candidates."""
        slates = self.slates
        request, place, at = self.rows.places_of(served, slates.top, slates.starts, slates.item)
        lists = np.full((slates.requests, slates.top), -1, dtype=np.int64)
        lists[request, place - 1] = at
        return lists


Means = Literal["policy", "boosts"]


@dataclass(frozen=True)
class Part:
    """A part of the requests: which they are among all, and where policies are replayed on them."""

    which: Ints
    stage: Stage


@dataclass(frozen=True)
class Frontier:
    """Policies of all strengths, the first as ranked, and what they give on requests."""

    candidates: Candidates
    parts: Mapping[str, Part]
    policies: Sequence[SearchResult]
    objective: Objective
    _replayed: dict[tuple[float, str, str], Replayed] = field(default_factory=dict)

    @property
    def on(self) -> str:
        """The requests that a policy is judged by: held-out ones, or all where none were held out."""
        return "held_out" if "held_out" in self.parts else "learned"

    @property
    def absent(self) -> int:
        """Providers without a candidate in the learned requests."""
        slates = self.parts["learned"].stage.slates
        seen = np.bincount(slates.item, minlength=slates.owners.items).astype(np.float64)
        return int((slates.owners.per_provider(seen) == 0).sum())

    def at(self, strength: float) -> SearchResult:
        for policy in self.policies:
            if policy.strength == strength:
                return policy
        searched = listing(f"{policy.strength:g}" for policy in self.policies)
        raise EvenhandError(f"strength={strength!r} was not searched. Pass one of {searched}, or search again with it.")

    def draws(self, strength: float, means: str) -> tuple[Sequence[Draw], Floats]:
        """Draws of a policy, and the probability of each."""
        result = self.at(strength)
        if means == "policy":
            return result.policy.draws, result.policy.probability
        if means == "boosts":
            return [result.best_draw], np.ones(1)
        raise EvenhandError(f"by_means={means!r} is unknown. Use 'policy' or 'boosts'.")

    def replayed(self, strength: float, on: str, means: str) -> Replayed:
        key = (strength, on, means)
        if key not in self._replayed:
            self._replayed[key] = self.parts[on].stage.replay(*self.draws(strength, means))
        return self._replayed[key]

    def shares(self, strength: float, means: str = "policy") -> Floats:
        """(providers,) shares of all exposure."""
        received = self.replayed(strength, self.on, means).received
        return np.asarray(received / received.sum())

    def rankings(self, strength: float, means: str) -> Any:
        """Lists of all requests; of a policy, each draw with its probability."""
        import polars as pl

        draws, probability = self.draws(strength, means)
        tables = []
        for i, (draw, p) in enumerate(zip(draws, probability, strict=True)):
            drawn = {"sample": i, "probability": float(p)} if means == "policy" else {}
            for part in self.parts.values():
                lists = part.stage.lists(draw)
                tables.append(self.candidates.table(part.stage.slates, part.which, lists, **drawn))
        keys = ["request", *(["sample"] if means == "policy" else []), "rank"]
        return pl.concat(tables).sort(keys)

    def curves(self) -> dict[str, dict[str, list[Any]]]:
        """Lorenz polygons of every strength, and what each tenth of the providers gets."""
        lorenz: dict[str, list[Any]] = {"strength": [], "population": [], "share": []}
        tenths: dict[str, list[Any]] = {"strength": [], "tenth": [], "before": [], "after": []}
        before = self.shares(0.0)
        place = np.argsort(np.argsort(before, kind="stable"), kind="stable")
        tenth = place * min(10, len(before)) // len(before)
        many = int(tenth.max(initial=0)) + 1
        for policy in self.policies:
            after = self.shares(policy.strength)
            curve = lorenz_curve(Spectrum.from_arrays(after))
            points = corners(curve.population, curve.share, 120, ())
            lorenz["strength"] += [policy.strength] * len(points)
            lorenz["population"] += curve.population[points].tolist()
            lorenz["share"] += curve.share[points].tolist()
            tenths["strength"] += [policy.strength] * many
            tenths["tenth"] += list(range(1, many + 1))
            tenths["before"] += np.bincount(tenth, before, many).tolist()
            tenths["after"] += np.bincount(tenth, after, many).tolist()
        return {"before_after": lorenz, "movers": tenths}


@dataclass(frozen=True)
class Headroom:
    """How far a served ranking is from the frontier.

    Attributes
    ----------
    ndcg, gini : of the rankings that are served, on the requests that policies are judged by; `against` says what the
        relevance is measured by: scores or judgments.
    attainable_gini : what a policy of the same relevance gives. attainable_ndcg : what one of the same Gini keeps.
    """

    ndcg: float
    gini: float
    attainable_gini: float
    attainable_ndcg: float
    against: str

    @property
    def sentence(self) -> str:
        if self.attainable_gini >= self.gini - 5e-4:
            gini = f"(Gini {self.gini:.2f})"
            return f"No policy found here is more even than the served lists {gini} at the same relevance."
        return f"The same relevance allows a Gini of {self.attainable_gini:.2f} where it is {self.gini:.2f}."


Points = Sequence[tuple[float, float]]
"""(relevance kept, Gini index) of policies; a mixture of two keeps the mean relevance and is at least as even as the mean."""


def least_gini(points: Points, ndcg: float) -> float:
    """The least Gini index that mixing two policies attains without losing relevance.

    >>> round(least_gini([(1.0, 0.5), (0.9, 0.1)], 0.95), 4), least_gini([(1.0, 0.5), (0.9, 0.1)], 0.5)
    (0.3, 0.1)
    """
    mixed = (g + (h - g) * (u - ndcg) / (u - v) for u, g in points for v, h in points if u >= ndcg > v and h < g)
    return min([*mixed, *(g for u, g in points if u >= ndcg)], default=np.inf)


def headroom(points: Points, ndcg: float, gini: float, against: str) -> Headroom:
    """Gini and relevance that mixing policies attains, against those of the served lists."""
    turned = [(1 - g, 1 - u) for u, g in points]  # evenness as relevance, and loss as inequality
    attainable = 1 - least_gini(turned, 1 - gini)
    return Headroom(ndcg, gini, min(gini, least_gini(points, ndcg)), max(ndcg, attainable), against)


@dataclass(frozen=True, repr=False)
class RebalanceResult(Result):
    """A frontier, with its policies, boost tables, and who gains and loses."""

    frontier: Frontier | None = field(default=None, compare=False)
    left: Headroom | None = field(default=None, compare=False)

    @cached_property
    def _frontier(self) -> Frontier:
        if self.frontier is None:
            raise EvenhandError(
                "A saved result holds no policies. Search again, or keep the tables that it handed out."
            )
        return self.frontier

    def boosts(self, strength: float) -> Any:
        """One number per provider: sort candidates by score over the request's ideal gain, plus the boost of the provider.

        A table of `provider` and `boost`. The ideal gain of a request is that of its own best list (`eh.rerank` with
        `method="boosts"` does it). Boosts are 0 on average, so 0 suits who is not in the table; an item of several
        providers gets their boosts by their shares.
        """
        draw = self._frontier.at(strength).best_draw
        return self._handed(
            {"provider": list(self._frontier.candidates.providers), "boost": draw.boosts - draw.boosts.mean()}
        )

    def rankings(self, strength: float, by_means: Means = "policy") -> Any:
        """New lists: `request`, `item`, `rank`; of the policy also `sample` and `probability`, as `eh.exposure` reads them."""
        return native(self._frontier.rankings(strength, by_means), self.backend)

    def movers(self, strength: float, by_means: Means = "policy") -> Any:
        """Share of all exposure of each provider before and after, those who gain most first."""
        frontier = self._frontier
        before, after = frontier.shares(0.0), frontier.shares(strength, by_means)
        order = np.lexsort((np.arange(len(before)), -(after - before)))
        names = [frontier.candidates.providers[i] for i in order]
        return self._handed({"provider": names, "before": before[order], "after": after[order]})

    @property
    def headroom(self) -> Headroom:
        """Relevance and evenness that the rankings passed leave unused."""
        if self.left is None:
            raise EvenhandError("Nothing says what is served now. Pass rankings= with request, item and rank.")
        return self.left

    def _handed(self, columns: Mapping[str, Any]) -> Any:
        import polars as pl

        return native(pl.DataFrame(columns, strict=False), self.backend)
