"""The most even exposure for a given loss of relevance: a policy, a boost table, and the frontier between the two."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Annotated, Any, Literal

import numpy as np

from evenhand.allocation.policies import (
    Atkinson,
    Draw,
    Evenness,
    Objective,
    Replayed,
    Search,
    SearchResult,
    Shares,
    Stage,
    Welfare,
)
from evenhand.attention import Attention, parse
from evenhand.audits.declare import Call, Level, Seed, Table, TableOrColumn, Takes, audit, log, pairs
from evenhand.cards import REGISTRY, Between, Floats, MetricSpec, parse_call, parse_metric
from evenhand.errors import EvenhandError, listing, unknown_name
from evenhand.findings import Row, notes, row
from evenhand.intervals.jackknife import jackknife_ends, random_buckets
from evenhand.intervals.kinds import MIN_UNITS
from evenhand.labels import stream
from evenhand.metrics.inequality import corners, lorenz_curve
from evenhand.results import Result
from evenhand.sources.candidates import CandidateRows, open_candidates
from evenhand.sources.judged_rankings import Judgments, carried, open_judgments
from evenhand.sources.labels import LabelColumns, Labels, columns_in, open_labels
from evenhand.sources.opening import native
from evenhand.sources.quantiles import significant
from evenhand.sources.rankings import Rankings, open_rankings, open_scores, ranking_table
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
class Frontier:
    """Policies of all strengths, the first as ranked, and what they give on requests."""

    candidates: Candidates
    stages: Mapping[str, Stage]
    policies: Sequence[SearchResult]
    _replayed: dict[tuple[float, str, str], Replayed] = field(default_factory=dict)

    @property
    def on(self) -> str:
        """The requests that a policy is judged by: held-out ones, or all where none were held out."""
        return "held_out" if "held_out" in self.stages else "learned"

    @property
    def absent(self) -> int:
        """Providers without a candidate in the learned requests."""
        slates = self.stages["learned"].slates
        seen = np.bincount(slates.item, minlength=slates.owners.items).astype(np.float64)
        return int((slates.owners.per_provider(seen) == 0).sum())

    def at(self, strength: float) -> SearchResult:
        for policy in self.policies:
            if policy.strength == strength:
                return policy
        searched = listing(f"{policy.strength:g}" for policy in self.policies)
        raise EvenhandError(f"strength={strength!r} was not searched. Pass one of {searched}, or search again with it.")

    def draws(self, strength: float, means: str) -> tuple[Sequence[Draw], Floats]:
        result = self.at(strength)
        if means == "policy":
            return result.policy.draws, result.policy.probability
        if means == "boosts":
            return [result.best_draw], np.ones(1)
        raise EvenhandError(f"by_means={means!r} is unknown. Use 'policy' or 'boosts'.")

    def replayed(self, strength: float, on: str, means: str) -> Replayed:
        key = (strength, on, means)
        if key not in self._replayed:
            self._replayed[key] = self.stages[on].replay(*self.draws(strength, means))
        return self._replayed[key]

    def shares(self, strength: float, means: str = "policy") -> Floats:
        received = self.replayed(strength, self.on, means).received
        return np.asarray(received / received.sum())

    def rankings(self, strength: float, means: str) -> Any:
        """Lists of all requests; of a policy, each draw with its probability."""
        import polars as pl

        draws, probability = self.draws(strength, means)
        tables = []
        for i, (draw, p) in enumerate(zip(draws, probability, strict=True)):
            drawn = {"sample": i, "probability": float(p)} if means == "policy" else {}
            for stage in self.stages.values():
                lists = stage.lists(draw)
                tables.append(self.candidates.table(stage.slates, stage.which, lists, **drawn))
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
    attainable_gini : what a policy of the same relevance gives.
    """

    ndcg: float
    gini: float
    attainable_gini: float
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
            {"provider": list(self._frontier.candidates.rows.providers), "boost": draw.boosts - draw.boosts.mean()}
        )

    def rankings(self, strength: float, by_means: Means = "policy") -> Any:
        """New lists: `request`, `item`, `rank`; of the policy also `sample` and `probability`, as `eh.exposure` reads them."""
        return native(self._frontier.rankings(strength, by_means), self.backend)

    def movers(self, strength: float, by_means: Means = "policy") -> Any:
        """Share of all exposure of each provider before and after, those who gain most first."""
        frontier = self._frontier
        before, after = frontier.shares(0.0), frontier.shares(strength, by_means)
        order = np.lexsort((np.arange(len(before)), -(after - before)))
        names = [frontier.candidates.rows.providers[i] for i in order]
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


Strength = Annotated[float, Between(0, 1)]


def _read_objective(words: list[str]) -> Any:
    is_shares = "=" in words[0].partition("(")[0] or words[0].startswith("{")
    return pairs("objective", words[0], float) if is_shares else words[0]


Served = Annotated[Any, Takes("FILE", table=True, option="served")]
Aim = Annotated[Any, Takes("NAME|LABEL=SHARE,..", read=_read_objective)]


@audit(
    "rebalance",
    question="What would a more even exposure cost in relevance?",
    charts=("frontier", "before_after", "movers"),
    extra=("undefined",),
    stands_for="The interval is for other requests like those held out, served by the same policy: how far the number would move "
    "had other requests come in. It is not for a policy learned anew.",
)
def rebalance(
    call: Call,
    scores: Table,
    *,
    top: Annotated[int, Between(1, 10_000)],
    providers: TableOrColumn = None,
    objective: Aim = "gini",
    strength: Strength | Sequence[Strength] = (0.02, 0.05, 0.1, 0.2, 0.5),
    attention: Any = "log(offset=1)",
    request: str = "request",
    item: str = "item",
    score: str = "score",
    holdout: Annotated[float, Between(0, 1, open_high=True)] = 0.5,
    iterations: Annotated[int, Between(1, 100_000)] = 200,
    relevance: TableOrColumn = None,
    rankings: Served = None,
    interval: Literal["normal"] | None = "normal",
    level: Level = 0.95,
    rng: Seed = None,
    nan_policy: Literal["raise", "omit"] = "raise",
) -> RebalanceResult:
    """The most even exposure of providers for each loss of relevance, learned on some requests and tried on others.

    Parameters
    ----------
    scores : candidates: one row per request and item with a score of zero or more, a table or a path.
    top : length of the lists.
    providers : who receives exposure: a column of `scores`, {item: provider}, a table of items and providers, or
        `eh.rollup(...)`; items without a provider, or all if left out, are their own provider.
    objective : what to make even: `"gini"`, `"atkinson(epsilon=0.5)"`, `"welfare(epsilon=1)"`, or {provider: share}.
    strength : weight of evenness against relevance, from 0 (as ranked) to 1; one or several.
    attention : browsing model: how attention falls with rank; the cascade depends on more than the rank and is
        refused.
    request : column with the request id.
    item : column with the item id.
    score : column with the score.
    holdout : share of requests held out for evaluation.
    iterations : maximum number of steps for each strength.
    relevance : relevance judgments of request and item, a table or a column of `scores`: adds rows `ndcg_relevance`, nDCG
        against all judgments, also of items that are no candidates.
    rankings : lists that are served now, a table with request, item and rank: `result.headroom` shows how far they
        are from the frontier.
    interval : `"normal"`, from a jackknife over held-out requests, or None.
    nan_policy : what to do with rows without a score: raise an error, or leave them out and count them.

    Examples
    --------
    >>> import polars as pl
    >>> table = pl.DataFrame(
    ...     {"request": [1, 1, 2, 2], "item": list("abab"), "score": [1.0, 0.9, 1.0, 0.9], "provider": list("xyxy")}
    ... )
    >>> found = rebalance(table, top=1, providers="provider", strength=0.9, holdout=0, interval=None, rng=1)
    >>> found.boosts(0.9)["provider"].to_list()
    ['x', 'y']
    """
    model = parse(attention)
    if model.needs_relevance:
        raise EvenhandError(f"attention={attention!r} depends on more than rank. Use log, geometric, rbp or uniform.")
    strengths = np.atleast_1d(np.asarray(strength, dtype=np.float64)).tolist()
    if not strengths or len(set(strengths)) < len(strengths):
        raise EvenhandError(f"strength={strength!r} names none, or one twice. Pass different numbers from 0 to 1.")
    log.info("checking the candidates")
    needed = [request, item, score, *columns_in(providers), *columns_in(relevance)]
    opened = ranking_table(scores, columns=needed, request=request, item=item).with_numbers(relevance)
    owners = None if providers is None else open_labels(providers, opened, item=item, request=request, role="providers")
    judgments = open_judgments(relevance, opened, request=request, item=item)
    carry = (owners.carry(opened) if owners is not None else {}) | carried(relevance, opened)
    view = open_scores(opened, request=request, item=item, score=score, nan_policy=nan_policy, carry=carry)
    candidates = Candidates.from_scores(view, owners, judgments, top, model)
    return _search(call, view, candidates, sorted({*strengths} - {0.0}))


def _search(call: Call, view: Rankings, candidates: Candidates, strengths: list[float]) -> RebalanceResult:
    """Policies of all strengths, learned on some requests and tried on the others."""
    names = ("objective", "holdout", "iterations", "rankings", "request", "item", "top")
    objective, holdout, iterations, rankings, request, item, top = (call.arguments[name] for name in names)
    aim, target = _objective(objective, candidates)
    frontier = _learn(candidates, aim, strengths, holdout, iterations, call.seed)
    if isinstance(aim, Welfare) and aim.epsilon >= 1 and (absent := frontier.absent):
        raise EvenhandError(
            f"{absent:,} providers have candidates in held-out requests only, and this objective has no value where somebody gets "
            "nothing. Pass holdout=0, or an epsilon below 1."
        )
    level = None if call.interval.kind == "none" else call.interval.level
    metrics = _exposure_metrics(objective, aim, target)
    meters = {on: Meter(stage.bucket, level, metrics) for on, stage in frontier.stages.items()}
    rows = _rows(frontier, meters)
    left = None
    if rankings is not None:
        served = ranking_table(rankings, columns=[request, item, "rank"], item=item)
        lists = candidates.served_lists(open_rankings(served, request=request, item=item))
        left, more = _served(frontier, meters[frontier.on], lists)
        rows += more
    slates, held_out = candidates.slates, frontier.stages.get("held_out")
    facts = {
        "requests": slates.requests, "held_out_requests": 0 if held_out is None else len(held_out.which),
        "providers": len(candidates.rows.providers), "items_without_provider": candidates.rows.unowned,
        "candidates": len(slates.item), "top": top, "steps": {str(p.strength): p.steps for p in frontier.policies},
        "tolerance": "0.001 of evenness at the same relevance",
        "interval": "none" if level is None else "t, with the error of a jackknife over held-out requests",
    }  # fmt: skip
    return call.result(
        rows, backend=view.backend, read=view.rows, dropped=view.dropped, slices=("strength", "on", "by_means"),
        curves=frontier.curves(), words={"unit": request, "holder": "provider", "amount": "exposure"}, facts=facts,
        of=RebalanceResult, frontier=frontier, left=left,
    )  # fmt: skip


def _objective(objective: Any, candidates: Candidates) -> tuple[Objective, Any]:
    """The objective to maximise, and target shares by provider where it has any."""
    if isinstance(objective, Mapping):
        target = _targets(objective, candidates)
        return Shares(target), target
    name, args, keywords = parse_call(objective, role="objective") if isinstance(objective, str) else ("", [], {})
    if name == "gini" and not args and not keywords:
        return Evenness(len(candidates.rows.providers)), None
    kinds = {"atkinson": (Atkinson, 0.5), "welfare": (Welfare, 1.0)}
    if name not in kinds:
        raise unknown_name("objective", objective, ["gini", *kinds], what="an objective")
    kind, usual = kinds[name]
    epsilon = (args or [keywords.get("epsilon", usual)])[0]
    number = isinstance(epsilon, (int, float)) and not isinstance(epsilon, bool)
    if len(args) > 1 or keywords.keys() - {"epsilon"} or not number or not 0 < epsilon < math.inf:
        raise EvenhandError(f"objective={objective!r} needs one epsilon above 0. Write '{name}(epsilon={usual:g})'.")
    return kind(float(epsilon)), None


def _targets(shares: Mapping[Any, Any], candidates: Candidates) -> Any:
    provider_codes = {str(p): i for i, p in enumerate(candidates.rows.providers)}
    numbers = all(isinstance(v, (int, float)) and not isinstance(v, bool) and v >= 0 for v in shares.values())
    if not numbers or abs(sum(shares.values()) - 1) > 1e-6:
        raise EvenhandError(f"objective={dict(shares)!r} has shares that do not add up to 1. Pass {{provider: share}}.")
    strange = [str(p) for p in shares if str(p) not in provider_codes]
    missing = [p for p in provider_codes if p not in {str(s) for s in shares}]
    if strange or missing:
        raise EvenhandError(
            f"objective names {listing(strange) or 'nobody'} who has no candidate, and lacks {listing(missing) or 'nobody'}. "
            "Give every provider a share; pass groups as providers= to aim at groups."
        )
    target = np.zeros(len(provider_codes))
    for label, value in shares.items():
        target[provider_codes[str(label)]] = value
    return target / target.sum()


def _learn(
    candidates: Candidates, aim: Objective, strengths: list[float], holdout: float, iterations: int, seed: int
) -> Frontier:
    """Policies learned on the requests that are not held out.

    Requests are held out by their order among all ids, so that rows may come in any order.
    """
    requests = candidates.slates.requests
    is_held_out = np.zeros(requests, dtype=bool)
    count = min(int(holdout * requests + 0.5), requests - 1)
    is_held_out[stream(seed, "holdout").permutation(requests)[:count]] = True
    # 100 buckets for the jackknife, fewer where exposure by bucket and item would take more than 32 MB.
    most = max(20, min(100, 4_000_000 // max(1, candidates.slates.owners.items)))
    stages = {}
    for name, which in (("learned", np.flatnonzero(~is_held_out)), ("held_out", np.flatnonzero(is_held_out))):
        if len(which):
            bucket = random_buckets(len(which), stream(seed, name), most)
            stages[name] = Stage(candidates.slates.only(which), which, bucket)
    search = Search(stages["learned"].server, aim, iterations)
    return Frontier(candidates, stages, [search.at(0.0), *search.frontier(strengths)])


def _rows(frontier: Frontier, meters: Mapping[str, Meter]) -> list[Row]:
    rows: list[Row] = []
    for p in frontier.policies:
        for on, meter in meters.items():
            for means in ("policy", "boosts"):
                labels = {"strength": p.strength, "on": on, "by_means": means}
                rows += meter.rows(
                    labels, frontier.replayed(p.strength, on, means), "learned_from" if on == "learned" else ""
                )
                if on == "learned" and means == "policy":
                    note = notes("" if meter.level is None else "no_interval", "" if p.converged else "not_converged")
                    rows.append(row(labels, "duality_gap", estimate=p.gap, ideal=0.0, better="lower", note=note))
    return rows


def _served(frontier: Frontier, meter: Meter, lists: Any) -> tuple[Headroom, list[Row]]:
    """Headroom and rows of the served lists, on the requests that policies are judged by."""
    stage = frontier.stages[frontier.on]
    moved = lists[stage.which] - (frontier.candidates.slates.starts[stage.which] - stage.slates.starts[:-1])[:, None]
    served = stage.judged([np.where(lists[stage.which] >= 0, moved, -1)], np.ones(1))
    against = "ndcg_relevance" if "ndcg_relevance" in served.each else "ndcg"
    labels = {"strength": None, "on": frontier.on, "by_means": "served"}
    rows = meter.rows(labels, served, "learned_from" if frontier.on == "learned" else "")
    every = [frontier.replayed(p.strength, frontier.on, "policy") for p in frontier.policies]
    gini = meter.metrics[0].value
    points = [(float(np.nanmean(replay.each[against])), gini(replay.received)) for replay in every]
    words = "judgments" if against == "ndcg_relevance" else "scores"
    ndcg, uneven = float(np.nanmean(served.each[against])), gini(served.received)
    left = Headroom(ndcg, uneven, min(uneven, least_gini(points, ndcg)), words)
    rows.append(row(labels, "attainable_gini", estimate=left.attainable_gini, ideal=0.0, better="lower"))
    return left, rows


@dataclass(frozen=True)
class ExposureMetric:
    """A number of what every provider receives; `spec` where it has a card."""

    name: str
    value: Callable[[Floats], float]
    span: tuple[float, float]
    ideal: float
    better: str
    spec: MetricSpec | None = None

    def note(self, exposure: Floats, estimate: float) -> str:
        if self.spec is None:
            return ""
        if np.isnan(estimate):
            return self.spec.card.reason(Spectrum.from_arrays(exposure), **self.spec.params)
        return self.spec.caution(estimate)


def _exposure_metrics(objective: Any, aim: Objective, target: Floats | None) -> list[ExposureMetric]:
    """Gini first; the objective itself where it is another."""
    optimised = [objective] if type(aim) is Atkinson else []
    specs = [parse_metric(text) for text in ("gini", "top_share(p=0.1)", *optimised)]
    metrics = [ExposureMetric(a.text, partial(_on, a), a.span, a.ideal, a.better, a) for a in specs]
    if type(aim) is Welfare:
        value = partial(_welfare, aim)
        metrics.append(ExposureMetric(str(objective), value, (-np.inf, 1.0), 1.0, "higher"))
    if target is not None:
        distance = partial(_distance, target)
        metrics.append(ExposureMetric("target_distance", distance, (0.0, 1.0), 0.0, "lower"))
    return metrics


def _on(a: MetricSpec, exposure: Floats) -> float:
    return float(a.on(Spectrum.from_arrays(significant(np.maximum(exposure, 0.0)))))


def _welfare(welfare: Welfare, exposure: Floats) -> float:
    """Additive welfare of exposure over its mean: 1 where all have the same."""
    return welfare.value(np.maximum(exposure, 0.0) / exposure.mean())


def _distance(target: Floats, exposure: Floats) -> float:
    return float(0.5 * np.abs(exposure / exposure.sum() - target).sum())


@dataclass(frozen=True)
class Meter:
    """Turns what a policy gives into rows.

    Attributes
    ----------
    bucket : (Q,) which requests are left out together. level : of intervals; None for none.
    metrics : of exposure over providers, the Gini index first.
    """

    bucket: Ints
    level: float | None
    metrics: Sequence[ExposureMetric]

    def rows(self, labels: Mapping[str, Any], replay: Replayed, why_not: str) -> list[Row]:
        """Every metric of one policy; `why_not` is the note where there are no intervals."""
        whole, rows = replay.received, []
        for name, values in replay.each.items():
            estimate, without, span, cells, note = self._mean(name, values)
            rows.append(self._row(labels, name, estimate, without, span, why_not, note, **cells))
        for metric in self.metrics:
            estimate = metric.value(whole)
            has_interval = not why_not and self.level is not None
            without = np.array([metric.value(whole - part) for part in replay.exposure] if has_interval else [])
            cells = {"ideal": metric.ideal, "better": metric.better, "units": len(self.bucket)}
            note = metric.note(whole, estimate)
            rows.append(self._row(labels, metric.name, estimate, without, metric.span, why_not, note, **cells))
        return rows

    def _row(
        self, labels: Mapping[str, Any], name: str, estimate: float, without: Floats, span: tuple[float, float],
        why_not: str, note: str, **cells: Any,
    ) -> Row:  # fmt: skip
        """A number of a policy, with an interval from the same number without each bucket."""
        low, high, missing = np.nan, np.nan, why_not
        if not why_not and self.level is not None and np.isfinite(estimate):
            low, high = jackknife_ends(estimate, without[np.isfinite(without)], self.level, span)
            few = cells["units"] < MIN_UNITS
            missing = "" if np.isfinite(low) else "few_requests" if few else "no_variation"
        return row(labels, name, estimate=estimate, low=low, high=high, note=notes(note, missing), **cells)

    def _mean(self, name: str, values: Floats) -> tuple[float, Floats, tuple[float, float], dict[str, Any], str]:
        """The mean over requests, that without each bucket, its span, cells of its row, and its note."""
        metric = REGISTRY["ndcg" if name == "ndcg_standard" else name]
        defined = ~np.isnan(values)
        buckets = int(self.bucket.max(initial=-1)) + 1
        sums = np.bincount(self.bucket[defined], values[defined], buckets)
        counts = np.bincount(self.bucket[defined], minlength=buckets)
        with np.errstate(invalid="ignore", divide="ignore"):
            estimate = float(sums.sum() / counts.sum())
            without = (sums.sum() - sums) / (counts.sum() - counts)
        note = str(metric.card.otherwise) if not defined.any() else "" if defined.all() else "some_undefined"
        cells = {"ideal": metric.ideal(), "better": metric.better(), "units": int(defined.sum())}
        cells["undefined"] = int((~defined).sum())
        return estimate, without, metric.span(), cells, note
