"""The most even exposure for a given loss of relevance: a policy, a boost table, and the frontier between the two."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from evenhand import metrics as _all_metrics  # noqa: F401  (fills the registry)
from evenhand.allocation.frankwolfe import Search, SearchResult
from evenhand.allocation.objectives import Atkinson, Evenness, Objective, Shares, Welfare
from evenhand.allocation.replay import Replayed, Stage
from evenhand.attention import parse
from evenhand.audits.assemble import notes
from evenhand.audits.declare import Call, Level, Seed, Table, TableOrColumn, Takes, audit, log, pairs
from evenhand.audits.rebalance.frontier import Candidates, Frontier, Headroom, Part, RebalanceResult, headroom
from evenhand.cards import REGISTRY, Between, Floats, MetricSpec, parse_call, parse_metric
from evenhand.errors import EvenhandError, listing, unknown_name
from evenhand.findings import Row, row
from evenhand.intervals.jackknife import BUCKETS, FEWEST, buckets, jackknife_ends
from evenhand.sources.judgments import carried, open_judgments
from evenhand.sources.labels import columns_in, open_labels
from evenhand.sources.quantiles import significant
from evenhand.sources.rankings import Rankings, as_table, open_rankings, open_scores, ranking_table
from evenhand.streams import stream
from evenhand.tallies.spectrum import Spectrum

Strength = Annotated[float, Between(0, 1)]
CELLS = 4_000_000
"""Buckets times providers that are kept for intervals."""


def _read_objective(words: list[str]) -> Any:
    return (
        pairs("objective", words[0], float)
        if "=" in words[0].partition("(")[0] or words[0].startswith("{")
        else words[0]
    )


Served = Annotated[Any, Takes("FILE", table=True, option="served")]
Aim = Annotated[Any, Takes("NAME|LABEL=SHARE,..", read=_read_objective)]


@audit(
    "rebalance",
    question="What would a more even exposure cost in relevance?",
    charts=("frontier", "before_after", "movers"),
    extra=("least", "most"),
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
    relevance : relevance judgments of request and item, a table or a column of `scores`: adds rows `ndcg_relevance`.
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
    strengths = _strengths(strength)
    log.info("checking the candidates")
    needed = [request, item, score, *columns_in(providers), *columns_in(relevance)]
    opened = ranking_table(as_table(scores, request=request, item=item), columns=needed).with_numbers(relevance)
    owners = None if providers is None else open_labels(providers, opened, item=item, request=request, role="providers")
    judgments = open_judgments(relevance, opened, request=request, item=item)
    carry = (owners.carry(opened) if owners is not None else {}) | carried(relevance, opened)
    view = open_scores(opened, request=request, item=item, score=score, nan_policy=nan_policy, carry=carry)
    candidates = Candidates.from_scores(view, owners, judgments, top, model)
    return _search(call, view, candidates, strengths)


def _search(call: Call, view: Rankings, candidates: Candidates, strengths: list[float]) -> RebalanceResult:
    """Policies of all strengths, learned on some requests and tried on the others."""
    names = ("objective", "holdout", "iterations", "rankings", "request", "item", "top")
    objective, holdout, iterations, rankings, request, item, top = (call.arguments[name] for name in names)
    aim, target = _objective(objective, candidates)
    is_held_out = _held_out(candidates, holdout, call.seed)
    frontier = _frontier(candidates, is_held_out, aim, strengths, iterations, call.seed)
    if isinstance(aim, Welfare) and aim.epsilon >= 1 and (absent := frontier.absent):
        raise EvenhandError(
            f"{absent:,} providers have candidates in held-out requests only, and this objective has no value where somebody gets "
            "nothing. Pass holdout=0, or an epsilon below 1."
        )
    welfare = (str(objective), aim) if type(aim) is Welfare else None
    meters = {on: _meter(part, candidates, objective, welfare, target, call) for on, part in frontier.parts.items()}
    rows = _rows(frontier, meters)
    left = None
    if rankings is not None:
        lists = candidates.served_lists(open_rankings(ranking_table(rankings), request=request, item=item))
        left, more = _served(frontier, meters[frontier.on], lists)
        rows += more
    slates = candidates.slates
    facts = {
        "requests": slates.requests, "held_out_requests": int(is_held_out.sum()), "providers": len(candidates.providers),
        "items_without_provider": candidates.unowned, "candidates": len(slates.item), "top": top,
        "steps": {str(p.strength): p.steps for p in frontier.policies}, "tolerance": "0.001 of evenness at the same relevance",
        "interval": "none" if call.interval.kind == "none" else "t, with the error of a jackknife over held-out requests",
    }  # fmt: skip
    return call.result(
        rows, backend=view.backend, read=view.rows, dropped=view.dropped, slices=("strength", "on", "by_means"),
        curves=frontier.curves(), words={"unit": request, "holder": "provider", "amount": "exposure"}, facts=facts,
        of=RebalanceResult, frontier=frontier, left=left,
    )  # fmt: skip


def _strengths(strength: Any) -> list[float]:
    strengths = [float(s) for s in (strength if isinstance(strength, (list, tuple, np.ndarray)) else [strength])]
    if not strengths or len(set(strengths)) < len(strengths):
        raise EvenhandError(f"strength={strength!r} names none, or one twice. Pass different numbers from 0 to 1.")
    return sorted({*strengths} - {0.0})


def _objective(objective: Any, candidates: Candidates) -> tuple[Objective, Any]:
    """The objective to maximise, and target shares by provider where it has any."""
    if isinstance(objective, Mapping):
        target = _targets(objective, candidates)
        return Shares(target), target
    name, args, keywords = parse_call(objective, role="objective") if isinstance(objective, str) else ("", [], {})
    if name == "gini" and not args and not keywords:
        return Evenness(len(candidates.providers)), None
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
    provider_codes = {str(p): i for i, p in enumerate(candidates.providers)}
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


def _held_out(candidates: Candidates, holdout: float, seed: int) -> Any:
    """(Q,) which requests nothing is learned from: by their order among all ids, so that rows may come in any."""
    many = candidates.slates.requests
    count = min(int(holdout * many + 0.5), many - 1)
    is_held_out = np.zeros(many, dtype=bool)
    is_held_out[stream(seed, "holdout").permutation(many)[:count]] = True
    return is_held_out


def _frontier(
    candidates: Candidates, is_held_out: Any, aim: Objective, strengths: list[float], iterations: int, seed: int
) -> Frontier:
    most = max(20, min(BUCKETS, CELLS // max(1, candidates.slates.owners.items)))
    parts = {}
    for name, chosen in (("learned", ~is_held_out), ("held_out", is_held_out)):
        if chosen.any():
            which = np.flatnonzero(chosen)
            parts[name] = Part(
                which, Stage(candidates.slates.only(which), buckets(len(which), stream(seed, name), most))
            )
    search = Search(parts["learned"].stage.server, aim, iterations)
    policies: list[SearchResult] = [search.at(0.0), *search.frontier(strengths)]
    return Frontier(candidates, parts, policies, aim)


def _meter(part: Part, candidates: Candidates, objective: Any, welfare: Any, target: Any, call: Call) -> Meter:
    level = None if call.interval.kind == "none" else call.interval.level
    reach = None if target is None else part.stage.reach()
    return Meter(part.stage.bucket, level, spread_of(objective), candidates.providers, welfare, target, reach)


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
    part = frontier.parts[frontier.on]
    moved = lists[part.which] - (frontier.candidates.slates.starts[part.which] - part.stage.slates.starts[:-1])[:, None]
    served = part.stage.judged([np.where(lists[part.which] >= 0, moved, -1)], np.ones(1))
    against = "ndcg_relevance" if "ndcg_relevance" in served.each else "ndcg"
    labels = {"strength": None, "on": frontier.on, "by_means": "served"}
    rows = meter.rows(labels, served, "learned_from" if frontier.on == "learned" else "")
    every = [frontier.replayed(p.strength, frontier.on, "policy") for p in frontier.policies]
    points = [(float(np.nanmean(replay.each[against])), meter.gini(replay)) for replay in every]
    words = "judgments" if against == "ndcg_relevance" else "scores"
    left = headroom(points, float(np.nanmean(served.each[against])), meter.gini(served), words)
    rows.append(row(labels, "attainable_gini", estimate=left.attainable_gini, ideal=0.0, better="lower"))
    return left, rows


SPREAD = ("gini", "top_share(p=0.1)")
"""Inequality of exposure over providers, whatever was optimised."""

CARDS = {"ndcg_standard": "ndcg", "ndcg_relevance": "ndcg"}
"""Rows whose card has another name."""


@dataclass(frozen=True)
class Meter:
    """Turns what a policy gives into rows.

    Attributes
    ----------
    bucket : (Q,) which requests are left out together. level : of intervals; None for none.
    spread : inequality metrics of exposure. welfare : the objective as typed, where it is one without a card.
    target : (providers,) shares that were asked for, if any. reach : the least and the most that candidates allow.
    """

    bucket: Any
    level: float | None
    spread: Sequence[MetricSpec]
    providers: Sequence[Any]
    welfare: tuple[str, Welfare] | None = None
    target: Floats | None = None
    reach: tuple[Floats, Floats] | None = None

    def rows(self, labels: Mapping[str, Any], replay: Replayed, why_not: str) -> list[Row]:
        """Every metric of one policy; `why_not` is the note where there are no intervals."""
        listed = [self._mean(labels, name, values, why_not) for name, values in replay.each.items()]
        listed += [self._of_exposure(labels, a, replay, why_not) for a in self.spread]
        if self.welfare is not None:
            listed.append(self._of_welfare(labels, *self.welfare, replay, why_not))
        return listed + (self._shares(labels, replay, why_not) if self.target is not None else [])

    def _shares(self, labels: Mapping[str, Any], replay: Replayed, why_not: str) -> list[Row]:
        """Each provider's share of exposure beside its target, and what candidates allow."""
        shares, without = _shares(replay.exposure)
        target = np.zeros(len(shares)) if self.target is None else self.target
        least, most = (np.zeros(len(shares)), np.ones(len(shares))) if self.reach is None else self.reach
        off = (target < least - 1e-9) | (target > most + 1e-9)
        away = 0.5 * np.abs(without - target).sum(1)
        far = self._row(
            labels, "target_distance", float(0.5 * np.abs(shares - target).sum()), away, (0.0, 1.0), why_not, ideal=0.0,
            better="lower", also="out_of_reach" if off.any() else "",
        )  # fmt: skip
        each = [
            self._row(
                labels, "share", float(shares[g]), without[:, g], (0.0, 1.0), why_not, group=str(label),
                ideal=float(target[g]), better="ideal", least=float(least[g]), most=float(most[g]),
                also="out_of_reach" if off[g] else "",
            )
            for g, label in enumerate(self.providers)
        ]  # fmt: skip
        return [far, *each]

    def _of_welfare(
        self, labels: Mapping[str, Any], name: str, welfare: Welfare, replay: Replayed, why_not: str
    ) -> Row:
        """The additive welfare of exposure over its mean: 1 where all have the same; without an end below where somebody has none."""
        whole = replay.received
        rest = whole - replay.exposure
        without = np.array([welfare.value(np.maximum(x, 0.0) / x.mean()) for x in rest])
        return self._row(
            labels,
            name,
            welfare.value(whole / whole.mean()),
            without,
            (-np.inf, 1.0),
            why_not,
            ideal=1.0,
            better="higher",
        )

    def gini(self, replay: Replayed) -> float:
        return _on(self.spread[0], replay.received)

    def _mean(self, labels: Mapping[str, Any], name: str, values: Floats, why_not: str) -> Row:
        metric = REGISTRY[CARDS.get(name, name)]
        defined = ~np.isnan(values)
        bucket = self.bucket[defined]
        many = int(self.bucket.max(initial=-1)) + 1
        sums, counts = np.bincount(bucket, values[defined], many), np.bincount(bucket, minlength=many)
        with np.errstate(invalid="ignore", divide="ignore"):
            estimate = float(sums.sum() / counts.sum())
            without = (sums.sum() - sums) / (counts.sum() - counts)
        some = "some_undefined" if 0 < defined.sum() < len(values) else ""
        if not defined.any():
            some = "zero_utility"
        return self._row(
            labels, name, estimate, without, metric.span(), why_not, ideal=metric.ideal(), better=metric.better(),
            units=int(defined.sum()), also=some,
        )  # fmt: skip

    def _of_exposure(self, labels: Mapping[str, Any], a: MetricSpec, replay: Replayed, why_not: str) -> Row:
        whole = replay.received
        estimate = _on(a, whole)
        without = (
            np.array([_on(a, whole - part) for part in replay.exposure])
            if not why_not and self.level is not None
            else np.empty(0)
        )
        also = a.card.reason(Spectrum.from_arrays(whole), **a.params) if np.isnan(estimate) else a.caution(estimate)
        return self._row(labels, a.text, estimate, without, a.span, why_not, ideal=a.ideal, better=a.better, also=also)

    def _row(
        self, labels: Mapping[str, Any], name: str, estimate: float, without: Floats, span: tuple[float, float], why_not: str,
        also: str = "", **values: Any,
    ) -> Row:  # fmt: skip
        values.setdefault("units", len(self.bucket))
        low = high = np.nan
        if not why_not and self.level is not None and np.isfinite(estimate):
            low, high = jackknife_ends(estimate, without[np.isfinite(without)], self.level, span)
            why_not = "" if np.isfinite(low) else "few_requests" if values["units"] < FEWEST else "no_variation"
        return row(labels, name, estimate=estimate, low=low, high=high, note=notes(also, why_not), **values)


def _on(a: MetricSpec, exposure: Floats) -> float:
    return float(a.on(Spectrum.from_arrays(significant(np.maximum(exposure, 0.0)))))


def _shares(exposure: Floats) -> tuple[Floats, Floats]:
    """(providers,) shares of exposure, and (buckets, providers) those without each bucket."""
    whole = exposure.sum(0)
    rest = whole - exposure
    with np.errstate(invalid="ignore", divide="ignore"):
        return whole / whole.sum(), rest / rest.sum(1, keepdims=True)


def spread_of(objective: Any) -> list[MetricSpec]:
    """The inequality metrics of the frame: the two of every frontier, and the one that was optimised where it has a card."""
    more = [objective] if isinstance(objective, str) and objective.startswith("atkinson") else []
    return [parse_metric(text) for text in (*SPREAD, *more)]
