"""The most even exposure for a given loss of relevance: a policy, a boost table, and the frontier between the two."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from evenhand import metrics as _all_metrics  # noqa: F401  (fills the registry)
from evenhand.allocation.frankwolfe import Search
from evenhand.allocation.objectives import Atkinson, Evenness, Objective, Shares, Welfare
from evenhand.allocation.policies import Replayed, Stage
from evenhand.attention import parse
from evenhand.audits.assemble import notes
from evenhand.audits.declare import Call, audit, log
from evenhand.audits.parameters import Level, Seed, Table, TableOrColumn, Takes, pairs
from evenhand.audits.rebalance.frontier import Candidates, Frontier, Headroom, Part, RebalanceResult, headroom
from evenhand.cards import REGISTRY, Between, Floats, MetricSpec, parse_call, parse_metric
from evenhand.errors import EvenhandError, listing, unknown_name
from evenhand.findings import Row, row
from evenhand.intervals.jackknife import jackknife_ends, random_buckets
from evenhand.intervals.kinds import MIN_UNITS
from evenhand.labels import stream
from evenhand.sources.judged_rankings import carried, open_judgments
from evenhand.sources.labels import columns_in, open_labels
from evenhand.sources.quantiles import significant
from evenhand.sources.rankings import Rankings, as_table, open_rankings, open_scores, ranking_table
from evenhand.tallies.ragged import Ints
from evenhand.tallies.spectrum import Spectrum

Strength = Annotated[float, Between(0, 1)]


def _read_objective(words: list[str]) -> Any:
    """An objective as typed: a name, or `LABEL=SHARE,...`."""
    is_shares = "=" in words[0].partition("(")[0] or words[0].startswith("{")
    return pairs("objective", words[0], float) if is_shares else words[0]


Served = Annotated[Any, Takes("FILE", table=True, option="served")]
Aim = Annotated[Any, Takes("NAME|LABEL=SHARE,..", read=_read_objective)]


@audit(
    "rebalance",
    question="What would a more even exposure cost in relevance?",
    charts=("frontier", "before_after", "movers"),
    extra=("least", "most", "undefined"),
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
    table = as_table(scores, request=request, item=item)
    opened = ranking_table(table, columns=needed, item=item).with_numbers(relevance)
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
    optimised = [objective] if isinstance(objective, str) and objective.startswith("atkinson") else []
    inequality = [parse_metric(text) for text in ("gini", "top_share(p=0.1)", *optimised)]
    welfare = (str(objective), aim) if type(aim) is Welfare else None
    meters = {}
    for on, part in frontier.parts.items():
        reach = None if target is None else part.stage.reach()
        meters[on] = Meter(part.stage.bucket, level, inequality, candidates.providers, welfare, target, reach)
    rows = _rows(frontier, meters)
    left = None
    if rankings is not None:
        served = ranking_table(rankings, columns=[request, item, "rank"], item=item)
        lists = candidates.served_lists(open_rankings(served, request=request, item=item))
        left, more = _served(frontier, meters[frontier.on], lists)
        rows += more
    slates, held_out = candidates.slates, frontier.parts.get("held_out")
    facts = {
        "requests": slates.requests, "held_out_requests": 0 if held_out is None else len(held_out.which),
        "providers": len(candidates.providers), "items_without_provider": candidates.unowned,
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
    parts = {}
    for name, which in (("learned", np.flatnonzero(~is_held_out)), ("held_out", np.flatnonzero(is_held_out))):
        if len(which):
            bucket = random_buckets(len(which), stream(seed, name), most)
            parts[name] = Part(which, Stage(candidates.slates.only(which), bucket))
    search = Search(parts["learned"].stage.server, aim, iterations)
    return Frontier(candidates, parts, [search.at(0.0), *search.frontier(strengths)], aim)


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


Figure = tuple[str, float, Floats, tuple[float, float], dict[str, Any], str]
"""Name of a number of a policy, the number, the same without each bucket, its span, further cells of its row, and its note."""


@dataclass(frozen=True)
class Meter:
    """Turns what a policy gives into rows.

    Attributes
    ----------
    bucket : (Q,) which requests are left out together. level : of intervals; None for none.
    inequality : metrics of exposure over providers. welfare : the objective as typed, where it is one without a card.
    target : (providers,) shares that were asked for, if any. reach : the least and the most that candidates allow.
    """

    bucket: Ints
    level: float | None
    inequality: Sequence[MetricSpec]
    providers: Sequence[Any]
    welfare: tuple[str, Welfare] | None = None
    target: Floats | None = None
    reach: tuple[Floats, Floats] | None = None

    def rows(self, labels: Mapping[str, Any], replay: Replayed, why_not: str) -> list[Row]:
        """Every metric of one policy; `why_not` is the note where there are no intervals."""
        has_interval = not why_not and self.level is not None
        figures = [self._mean(name, values) for name, values in replay.each.items()]
        figures += [self._inequality(a, replay, has_interval=has_interval) for a in self.inequality]
        figures += [] if self.welfare is None else [self._welfare(*self.welfare, replay)]
        figures += [] if self.target is None else self._shares(self.target, replay)
        rows = []
        for name, estimate, without, span, more, note in figures:
            cells = {"units": len(self.bucket)} | more
            low, high, missing = np.nan, np.nan, why_not
            if has_interval and self.level is not None and np.isfinite(estimate):
                low, high = jackknife_ends(estimate, without[np.isfinite(without)], self.level, span)
                few = cells["units"] < MIN_UNITS
                missing = "" if np.isfinite(low) else "few_requests" if few else "no_variation"
            rows.append(row(labels, name, estimate=estimate, low=low, high=high, note=notes(note, missing), **cells))
        return rows

    def gini(self, replay: Replayed) -> float:
        return _on(self.inequality[0], replay.received)

    def _mean(self, name: str, values: Floats) -> Figure:
        """The mean of a metric over requests."""
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
        return name, estimate, without, metric.span(), cells, note

    def _inequality(self, a: MetricSpec, replay: Replayed, *, has_interval: bool) -> Figure:
        whole = replay.received
        estimate = _on(a, whole)
        without = np.array([_on(a, whole - part) for part in replay.exposure] if has_interval else [])
        note = a.card.reason(Spectrum.from_arrays(whole), **a.params) if np.isnan(estimate) else a.caution(estimate)
        return a.text, estimate, without, a.span, {"ideal": a.ideal, "better": a.better}, note

    def _welfare(self, name: str, welfare: Welfare, replay: Replayed) -> Figure:
        """Additive welfare of exposure over its mean: 1 where all have the same."""
        whole = replay.received
        without = np.array([welfare.value(np.maximum(x, 0.0) / x.mean()) for x in whole - replay.exposure])
        cells = {"ideal": 1.0, "better": "higher"}
        return name, welfare.value(whole / whole.mean()), without, (-np.inf, 1.0), cells, ""

    def _shares(self, target: Floats, replay: Replayed) -> list[Figure]:
        """The distance from the target, and each provider's share with its target and reach."""
        whole, span = replay.received, (0.0, 1.0)
        rest = whole - replay.exposure
        with np.errstate(invalid="ignore", divide="ignore"):
            shares, without = whole / whole.sum(), rest / rest.sum(1, keepdims=True)
        least, most = (np.zeros(len(shares)), np.ones(len(shares))) if self.reach is None else self.reach
        notes_of = np.where((target < least - 1e-9) | (target > most + 1e-9), "out_of_reach", "")
        distance, away = (0.5 * np.abs(x - target).sum(-1) for x in (shares, without))
        cells = {"ideal": 0.0, "better": "lower"}
        figures: list[Figure] = [("target_distance", float(distance), away, span, cells, str(max(notes_of)))]
        for g, label in enumerate(self.providers):
            cells = {
                "group": str(label), "ideal": float(target[g]), "better": "ideal", "least": float(least[g]),
                "most": float(most[g]),
            }  # fmt: skip
            figures.append(("share", float(shares[g]), without[:, g], span, cells, str(notes_of[g])))
        return figures


def _on(a: MetricSpec, exposure: Floats) -> float:
    return float(a.on(Spectrum.from_arrays(significant(np.maximum(exposure, 0.0)))))
