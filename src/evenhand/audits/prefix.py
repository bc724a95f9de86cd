"""Does every top of a ranking mirror the whole? Prefix metrics per request and on average, against chance."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal

import numpy as np

from evenhand import metrics as _all_metrics  # noqa: F401  (fills the registry)
from evenhand.audits.assemble import names_of
from evenhand.audits.declare import (
    OTHER_REQUESTS,
    Call,
    Columns,
    Count,
    Labels,
    Level,
    Metrics,
    Rankings,
    Seed,
    TableOrColumns,
    audit,
    log,
)
from evenhand.audits.prefix_curves import curves_of
from evenhand.audits.requests import RankingResult, interval_words, per_request, refuse_one_sided, request_sums, rows_of
from evenhand.audits.small_groups import merge_small_groups
from evenhand.cards import Floats, MetricSpec, needing, parse_metrics, refuse_lacking
from evenhand.errors import DataWarning, EvenhandError
from evenhand.findings import slice_words
from evenhand.intervals.orders import Orders, draws_of, random_orders
from evenhand.intervals.requests import Reduced
from evenhand.labels import Unknown, match, no_label, several
from evenhand.metrics.prefix import lean_and_spread, looked_at, reading_of, reasons_of, scores_of
from evenhand.metrics.template import Scores
from evenhand.sources.labels import LabelColumns, columns_in, open_labels
from evenhand.sources.labels import Labels as OpenedLabels
from evenhand.sources.rankings import Rankings as RankingsView
from evenhand.sources.rankings import Ties, open_rankings, ranking_table, system_of
from evenhand.streams import stream
from evenhand.tallies.placed import Placed
from evenhand.tallies.placement import Placement
from evenhand.tallies.requests import Measured, of_rankings

SIDED = ("ndd", "ndkl")
MANY = ("ndjs",)
NOBODY = 1e-12
"""A lean this small is the rounding of 0."""


@audit(
    "prefix",
    question="Does every top of the ranking mirror the whole?",
    charts=("prefix", "requests", "strip", "intervals", "scatter"),
    default="ndd, ndkl; without protected ndjs",
    extra=("p", "p_adjusted", "favoured", "p_favoured", "undefined"),
    over="requests",
    stands_for=OTHER_REQUESTS,
)
def prefix(
    call: Call,
    table: Rankings,
    *,
    group: TableOrColumns,
    protected: Labels = None,
    request: str = "request",
    item: str = "item",
    rank: str | None = "rank",
    score: str | None = None,
    system: str | None = None,
    by: Columns = None,
    ties: Ties = "raise",
    unknown: Unknown = "drop",
    chance: str | None = "permutation(999)",
    metrics: Metrics | None = None,
    interval: str | None = "bootstrap(999)",
    level: Level = 0.95,
    rng: Seed = None,
    min_units: Count | None = None,
    nan_policy: Literal["raise", "omit"] = "raise",
) -> RankingResult:
    """How far the mix of labels near the top of each ranking is from the mix of the whole ranking.

    Parameters
    ----------
    table : one row per ranked item (any dataframe, or a path), or TREC runs.
    group : column(s) with the label of each item (several are combined); `eh.shares("a", "b")` for columns of shares;
        `{item: label}`; a table or file of labels (also TREC judgments); a table of shares; or `eh.rollup(...)`, as
        `groups` of `eh.exposure`. A missing label is unknown.
    protected : label of the protected group, for metrics that compare two groups; several labels form one group; None
        compares all labels.
    request : column with the query or user id.
    item : column with the item id; optional.
    rank : column with the rank, 1 is best.
    score : column with a score to order by instead of `rank`, highest first.
    system : column with the name of the system, if there are several.
    by : column(s) to slice by.
    ties : what to do with tied ranks: `"raise"` an error, or keep the order of the table (`"input_order"`).
    unknown : what to do with items without a label: keep their rank but leave them out of shares (`"drop"`), make
        them a label (`"group"`), count them as `"unprotected"`, or `"raise"` an error.
    chance : random orders per composition of a list, for `p`; None leaves chance levels out.
    metrics : `ndd`, `ndkl` with `protected`, else `ndjs`; also `ndr`, `pref_nd`, `pref_rd`, `pref_kl`, with
        parameters: `"ndd(target=0.3)"` compares each prefix with a share instead of the whole list, `"ndd@10"` takes
        the first ten ranks as the list, `"ndd(reference='list')@10"` compares the prefixes of those ten with the
        whole list.
    interval : `"bootstrap(999)"` over requests, or None.
    min_units : merge groups with fewer ranked items, and suppress slices with fewer requests or fewer items of a
        group.
    nan_policy : what to do with rows without a request, rank or score: `"raise"` an error, or leave them out and
        count them (`"omit"`).

    Returns
    -------
    A result with a row per metric and slice: the mean over requests, its interval (bootstrap over requests), `chance`
    (what a random order gives on average, exact), `p` (share of random orders at least as far from the whole),
    `favoured` (who stands higher than its share; `p_favoured`, how likely random orders are to favour somebody as much)
    and `undefined` (requests without a value). `.per_request` has every one.

    Examples
    --------
    >>> import polars as pl
    >>> serp = pl.DataFrame({"request": ["zoo"] * 4, "rank": [1, 2, 3, 4], "stance": ["con", "pro", "con", "pro"]})
    >>> found = prefix(serp, group="stance", protected="con", metrics="ndd", rng=1)
    >>> round(found.frame["estimate"][0], 4), round(found.frame["chance"][0], 4)
    (0.649, 0.766)
    """
    usual = SIDED if protected is not None else MANY
    specs = parse_metrics(usual if metrics is None else metrics, needing(Placement))
    draws = draws_of(chance)
    has = {"labels", *(["sides"] if protected is not None else [])}
    refuse_lacking(specs, has)
    refuse_one_sided(unknown, protected)
    log.info("checking the rankings")
    opened = ranking_table(table, columns=[request, item, rank, score, system, *names_of(by), *columns_in(group)])
    labels = open_labels(group, opened, request=request, item=item, role="group")
    if labels.soft:
        refuse_lacking(specs, has - {"labels"})
    view = open_rankings(
        opened, request=request, item=item if item in opened.schema else None, rank=None if score is not None else rank,
        score=score, by=names_of(by), system=system or system_of(table, opened), ties=ties, nan_policy=nan_policy,
        carry=labels.carry(opened),
    )  # fmt: skip
    return _result(
        call, specs, draws, view, labels, group if isinstance(group, str) and group in opened.schema else "group"
    )


def _result(
    call: Call,
    specs: Sequence[MetricSpec],
    draws: int,
    view: RankingsView,
    labels: OpenedLabels | LabelColumns,
    group_name: str,
) -> RankingResult:
    """Every metric on every ranking, against random orders, as rows, curves and facts."""
    protected, unknown = call.arguments["protected"], call.arguments["unknown"]
    labels.refuse_bad_rows(view)
    coded = labels.coded(view, role="the labels")
    few = merge_small_groups(
        coded.items_by_label, view.slices, call.min_units, protected=protected, unknown=unknown,
        in_columns=labels.soft and not coded.has_table,
    )  # fmt: skip
    placed = Placed.from_rankings(view, coded.renamed(few.called), unknown)
    _refuse_many(placed.placement)
    groups, small = placed.placement.groups, few.small(placed.within)
    placement = placed.placement.protecting(protected_labels(few.side(protected), groups, call.arguments["group"]))
    log.info("measuring %s rankings", f"{len(placement):,}")
    ordered = Ordered.all([few.rename_target(a) for a in specs], placement, draws, call.seed)
    measures = [o.measured(placed, call.seed) for o in ordered]
    names, within = view.slice_names, placed.within
    facts = {
        "ordered_by": view.ordered_by, "labels": [str(g) for g in groups][:100], "random_orders": draws, **few.facts(),
        "interval": interval_words(call.interval),
    }  # fmt: skip
    scores = [(o.ask.text, o.scores) for o in ordered]
    return call.result(
        rows_of([Reduced.from_measured(m, within) for m in measures], within, names, call, small), backend=view.backend,
        read=view.rows, dropped=view.dropped, slices=names,
        curves=curves_of(placed, placement, scores, names, call.interval.level, call.min_units, small),
        words={"unit": call.arguments["request"], "group": group_name}, facts=facts,
        counts=_counts(view, placed, measures, unknown), of=RankingResult,
        each=per_request(measures, within, names, small), hold=lambda: request_sums(measures, within, small),
    )  # fmt: skip


def _look(a: MetricSpec) -> tuple[Any, ...]:
    """Key of the part of a ranking that a metric sees: metrics with equal keys share a placement."""
    return a.cutoff, None if a.cutoff is None else a.settled("reference")


@dataclass(frozen=True)
class Leaning:
    """(R, groups) how far each of `sides` stands above its share, and the standard deviation of that by chance."""

    lean: Floats
    spread: Floats
    sides: tuple[str, ...]

    @classmethod
    def from_placement(cls, p: Placement) -> Leaning:
        seen = p.sides() if p.protected is not None and p.rows is None else p
        return cls(*lean_and_spread(seen), tuple(str(g) for g in seen.groups))


@dataclass(frozen=True)
class Ordered:
    """One metric on every ranking, against random orders of it.

    Attributes
    ----------
    leaning : who stands above their share.
    orders : what random orders give; None where nobody asked, or where the metric cannot be taken on orders quickly.
    """

    ask: MetricSpec
    scores: Scores
    reasons: Any
    orders: Orders | None
    leaning: Leaning

    @classmethod
    def all(cls, metrics: Sequence[MetricSpec], placement: Placement, draws: int, seed: int) -> list[Ordered]:
        """Every metric; those that see the same of the rankings share what is common to them."""
        looks = {_look(a): looked_at(a, placement) for a in metrics}
        if draws:
            _refuse_long(looks.values())
        leans = {look: Leaning.from_placement(p) for look, p in looks.items()}
        seen = [looks[_look(a)] for a in metrics]
        readings = [reading_of(a, p, draws) for a, p in zip(metrics, seen, strict=True)]
        scores = [scores_of(a, p, r, chance=draws > 0) for a, p, r in zip(metrics, seen, readings, strict=True)]
        both = enumerate(zip(readings, scores, strict=True))
        readable = {i: (r, s) for i, (r, s) in both if draws and r is not None}
        orders = dict(zip(readable, random_orders(list(readable.values()), draws, seed), strict=True))
        return [
            cls(a, s, reasons_of(a, p, s.values), orders.get(i), leans[_look(a)])
            for i, (a, p, s) in enumerate(zip(metrics, seen, scores, strict=True))
        ]

    @property
    def chances(self) -> Floats:
        return self.scores.chances if self.orders is None else self.orders.means

    def measured(self, placed: Placed, seed: int) -> Measured:
        """The metric as a mean over requests, each of which has one ranking."""
        values, defined = self.scores.values, ~np.isnan(self.scores.values)
        parts = [placed.rankings_of(s) for s in range(len(placed.slices))]
        with_value = [part[defined[part]] for part in parts]

        def cells(s: int, _: float) -> dict[str, Any]:
            rng = stream(seed, "p", *placed.slices[s])
            p = np.nan if self.orders is None else self.orders.p_of_mean(values, parts[s], rng)
            return {"p": p, "favoured": self.favoured(with_value[s]), "p_favoured": self.p_favoured(with_value[s])}

        chance = np.array([self.chances[at].mean() if len(at) else np.nan for at in with_value])
        return of_rankings(
            self.ask,
            values,
            self.reasons,
            placed.within,
            chance=chance,
            counted=defined,
            more=self.columns,
            cells=cells,
        )

    def favoured(self, defined: Any) -> str | None:
        """Who stands higher than its share, on average over these rankings."""
        if not len(defined):
            return None
        mean = self.leaning.lean[defined].mean(0)
        return self.leaning.sides[int(mean.argmax())] if mean.max() > NOBODY else None

    def p_favoured(self, defined: Any) -> float:
        """How likely random orders are to favour somebody this much: normal, exact variance, times the number of groups."""
        total = self.leaning.lean[defined].sum(0)
        if not len(defined) or total.max() <= NOBODY:
            return float("nan")
        error = float(np.sqrt((self.leaning.spread[defined, int(total.argmax())] ** 2).sum()))
        return min(1.0, len(total) * (1 - NormalDist().cdf(float(total.max()) / error)))

    def columns(self) -> dict[str, list[Any]]:
        """Chance, p and who is favoured, ranking by ranking."""
        lean = self.leaning.lean
        best = lean.argmax(1) if lean.shape[1] else np.zeros(len(lean), dtype=np.int64)
        ahead = (lean.max(1, initial=0.0) > NOBODY) & ~np.isnan(self.scores.values)
        p = np.full(len(lean), np.nan) if self.orders is None else self.orders.p
        return {
            "chance": self.chances.tolist(),
            "p": p.tolist(),
            "favoured": [
                self.leaning.sides[g] if yes else None for g, yes in zip(best.tolist(), ahead.tolist(), strict=True)
            ],
        }


MOST_WORK = 2**29
"""Ranks times groups that are gone through; every group is held against every rank."""


LONGEST_SHUFFLED = 200_000
"""Ranks of a list whose chance level is worked out: takes half a minute for each metric, and grows faster than the list."""


def _refuse_long(placements: Iterable[Placement]) -> None:
    """Stop before random orders of a very long list keep everybody waiting."""
    longest = max(int(p.lengths.max(initial=0)) for p in placements)
    if longest > LONGEST_SHUFFLED:
        raise EvenhandError(
            f"A ranking has {longest:,} ranks, and random orders are drawn of {LONGEST_SHUFFLED:,} at most. "
            "Pass chance=None, or look at the top alone, as in 'ndd@1000'."
        )


def _refuse_many(p: Placement) -> None:
    """Stop before a column of ids, taken for groups, keeps everybody waiting or fills the memory."""
    many, ranks = len(p.groups), len(p.codes)
    if many * ranks > MOST_WORK or many * len(p) > MOST_WORK // 16:
        raise EvenhandError(
            f"group has {many:,} different values on {ranks:,} ranks, too many to compare. Use broader groups, or a sample."
        )


def protected_labels(protected: Any, groups: tuple[Any, ...], group: Any) -> Any:
    """The protected labels as the table has them; text stands for a number or a boolean that reads the same.

    Labels that nobody has are refused as misspelt, unless others of them are there (a page of results need not hold every
    viewpoint) or the table holds one label only (then no metric of two sides exists).
    """
    if protected is None:
        return None
    matched = [match(label, groups) for label in several(protected)]
    lost = [label for label in matched if label not in groups]
    if lost and groups:
        fact = no_label("protected", lost, groups, of=f"group={group!r}" if isinstance(group, str) else "group")
        if len(lost) == len(matched) and len(groups) > 1:
            raise EvenhandError(fact)
        warnings.warn(DataWarning(fact), stacklevel=3)
    return matched


def _unlabelled_shares(view: RankingsView, placed: Placed) -> dict[str, float]:
    """Share of all ranked items in each slice that have no label, by the slice in words."""
    lengths, within = placed.placement.lengths, placed.within
    return {
        slice_words(view.slice_names, where): float(
            placed.unlabelled[within.part(s)].sum() / max(lengths[within.part(s)].sum(), 1)
        )
        for s, where in enumerate(within.slices)
    }


def _counts(view: RankingsView, placed: Placed, measures: Sequence[Measured], unknown: str) -> dict[str, Any]:
    """Unlabelled items and undefined requests, for provenance."""
    undefined = {
        m.ask.text: dict(Counter(code for code in m.reasons.tolist() if code))
        for m in measures
        if (m.reasons != "").any()
    }
    unlabelled = int(placed.unlabelled.sum())
    left_out = {} if unknown != "drop" else {"unlabelled_share": _unlabelled_shares(view, placed)}
    return {
        **view.counts(),
        **left_out,
        "unlabelled_items": unlabelled,
        "unlabelled_share_of_attention": _unlabelled_attention(placed),
        "undefined_requests": undefined,
    }


def _unlabelled_attention(placed: Placed) -> float:
    """Share of attention, 1 / log2(rank + 1), on items without a label and on empty ranks."""
    p = placed.placement
    if not (p.codes < 0).any():
        return 0.0
    lost = whole = 0.0
    for batch in p.batches():
        weight = 1 / np.log2(np.arange(batch.width) + 2)
        inside = np.arange(batch.width) < batch.lengths[:, None]
        lost += float(((inside & ~batch.is_labelled) @ weight).sum())
        whole += float((inside @ weight).sum())
    return lost / whole
