"""Does every top of a ranking mirror the whole? Prefix metrics per request and on average, against chance."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal

import numpy as np

from evenhand import metrics as _all_metrics  # noqa: F401  (fills the registry)
from evenhand.audits.declare import (
    OTHER_REQUESTS,
    By,
    Call,
    Count,
    Labels,
    Level,
    Metrics,
    Rankings,
    Seed,
    TableOrColumns,
    audit,
    log,
    refuse_many_slices,
)
from evenhand.audits.min_units import merge_small_groups
from evenhand.audits.requests import (
    IN_RANDOM_ORDER,
    RankingResult,
    interval_facts,
    per_request,
    refuse_one_sided,
    request_sums,
    rows_of,
    with_bounds,
)
from evenhand.cards import Floats, MetricSpec, needing, parse_metrics, refuse_lacking
from evenhand.claims import Candidate, direction_of
from evenhand.errors import DataWarning, EvenhandError
from evenhand.findings import Points, join_points, slice_words
from evenhand.intervals.label_errors import range_over_rankings
from evenhand.intervals.orders import Orders, parse_draws, random_orders
from evenhand.intervals.requests import Reduced, flip_test, skewed_test, t_test
from evenhand.labels import UnknownOrBounds, counted_as, match, no_label, several, stream
from evenhand.metrics.prefix import OF_NUMBERS as NUMBERS
from evenhand.metrics.prefix import Scores, lean_and_spread, looked_at, number_leans, reading_of, reasons_of, scores_of
from evenhand.metrics.prefix_terms import share_band
from evenhand.sources.labels import CodedLabels, LabelColumns, columns_in, open_labels
from evenhand.sources.labels import Labels as OpenedLabels
from evenhand.sources.rankings import Duplicates, Ties, open_rankings, sliced_table
from evenhand.sources.rankings import Rankings as RankingsView
from evenhand.sources.relation import row_slicing
from evenhand.sources.sql import columns as column_list
from evenhand.tallies.placement import Batch, LabelledRankings, Placement
from evenhand.tallies.ragged import Ints
from evenhand.tallies.requests import Measured, Requests, measure_rankings

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
    null="in random order",
)
def prefix(
    call: Call,
    table: Rankings,
    *,
    group: TableOrColumns,
    protected: Labels = None,
    request: str | None = "request",
    item: str = "item",
    rank: str | None = "rank",
    score: str | None = None,
    cluster: str | None = None,
    system: str | None = None,
    by: By = None,
    ties: Ties = "raise",
    duplicates: Duplicates = "raise",
    unknown: UnknownOrBounds = "drop",
    label_probability: str | None = None,
    confusion: Any = None,
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
    request : column with the query or user id; None if the whole table is one ranking.
    item : column with the item id; optional.
    rank : column with the rank, 1 is best.
    score : column with a score to order by instead of `rank`, highest first.
    cluster : column with what requests share (user, session, topic); intervals and tests then move whole clusters.
    system : column with the name of the system, if there are several.
    by : column(s) to slice by.
    ties : what to do with tied ranks: `"raise"` an error, or keep the order of the table (`"input_order"`).
    duplicates : what to do with an item that a ranking lists twice: `"raise"` an error, or keep the first (`"first"`);
        stated ranks stay, and the rank of the second is empty.
    unknown : what to do with items without a label: keep their rank but leave them out of shares (`"drop"`), make
        them a label (`"group"`), count them as `"unprotected"`, `"raise"` an error, or drop them and add the range of the
        metric over all ways to label them (`"bounds"`: columns `least` and `most`).
    label_probability : column with the probability with which each label was drawn; refused here: see `eh.exposure`.
    confusion : how often labels are wrong; refused here: see `eh.exposure`.
    chance : random orders per composition of a list, for `p`; None leaves chance levels out.
    metrics : `ndd`, `ndkl` with `protected`, else `ndjs`; also `ndr`, `pref_nd`, `pref_rd`, `pref_kl`, with
        parameters: `"ndd(target=0.3)"` compares each prefix with a share instead of the whole list, `"ndd@10"` takes
        the first ten ranks as the list, `"ndd(reference='list')@10"` compares the prefixes of those ten with the
        whole list. `ranking_bias` and `output_bias` read labels that are numbers (a leaning, a price).
    interval : `"bootstrap(999)"` over requests, or None.
    min_units : merge groups with fewer ranked items, and suppress slices with fewer requests or fewer items of a
        group.
    nan_policy : what to do with rows without a request, rank or score: `"raise"` an error, or leave them out and
        count them (`"omit"`).

    Returns
    -------
    A result with a row per metric and slice: the mean over requests, its interval (bootstrap over requests), `chance`
    (what a random order gives on average, exact), `p` (share of random orders at least as far from the whole; with
    `cluster`, of random signs of the clusters' means of value less chance),
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
    for option, value in (("label_probability", label_probability), ("confusion", confusion)):
        if value is not None:
            raise EvenhandError(
                f"{option}= cannot correct prefix metrics, which need the labels of single lists. Use eh.exposure with log_dp or "
                "exposure_share, or pass unknown='bounds'."
            )
    usual = ("ndd", "ndkl") if protected is not None else ("ndjs",)
    specs = parse_metrics(usual if metrics is None else metrics, needing(Placement))
    draws = parse_draws(chance)
    has = {"labels", *(["sides"] if protected is not None else [])}
    refuse_lacking(specs, has)
    refuse_one_sided(unknown, protected)
    log.info("checking the rankings")
    slices = row_slicing(by)
    columns = [rank, score, cluster, *columns_in(group)]
    opened, request, system = sliced_table(
        table, slices, columns=columns, request=request, item=item, system=system, duplicates=duplicates
    )
    labels = open_labels(group, opened, request=request, item=item, role="group")
    if labels.soft:
        refuse_lacking(specs, has - {"labels"})
    if unknown == "bounds" and (labels.soft or any(a.card.family == NUMBERS for a in specs)):
        raise EvenhandError("unknown='bounds' needs one label per item. With shares or numbers, pass unknown='drop'.")
    view = open_rankings(
        opened, request=request, item=item if item in opened.schema else None, rank=None if score is not None else rank,
        score=score, by=slices.columns, cluster=cluster, system=system, ties=ties,
        duplicates=duplicates, nan_policy=nan_policy, carry=labels.carry(opened),
    )  # fmt: skip
    group_name = group if isinstance(group, str) and group in opened.schema else "group"
    return _result(call, specs, draws, view, labels, group_name)


def _result(
    call: Call, specs: Sequence[MetricSpec], draws: int, view: RankingsView, labels: OpenedLabels | LabelColumns, group_name: str
) -> RankingResult:  # fmt: skip
    protected, unknown = call.arguments["protected"], counted_as(call.arguments["unknown"])
    coded = labels.coded(view, role="the labels")
    few = merge_small_groups(
        coded.items_by_label, view.slices, call.min_units, protected=protected, unknown=unknown,
        in_columns=labels.soft and not coded.has_table,
    )  # fmt: skip
    coded = coded.renamed(few.renamed)
    placed = LabelledRankings.from_rankings(view, coded, unknown)
    groups, small = placed.placement.groups, few.small(placed.within)
    refuse_many_slices("prefix", len(placed.within.slices))
    ranks, most = len(placed.placement.codes), 2**29  # every group is held against every rank
    if len(groups) * ranks > most or len(groups) * len(placed.placement) > most // 16:
        raise EvenhandError(
            f"group has {len(groups):,} different values on {ranks:,} ranks, too many to compare. Use broader groups, or a sample."
        )
    placement = placed.placement.protecting(protected_labels(few.side(protected), groups, call.arguments["group"]))
    log.info("measuring (rankings: %s)", f"{len(placement):,}")
    ordered = Ordered.all([few.rename_target(a) for a in specs], placement, draws, call.seed)
    measures = [o.measured(placed, call.seed) for o in ordered]
    names, within = view.slice_names, placed.within
    leaves_open = call.arguments["unknown"] == "bounds" and bool(placed.unlabelled.any())  # other labels, other claims
    if call.arguments["unknown"] == "bounds":
        shared = _shares_unlabelled(coded, view)
        every_label = (*placement.groups, *(g for g in coded.labels if g not in placement.groups))
        open_lists = placement.with_groups(every_label)
        bounds = [_bounds(o.ask, placed, open_lists, is_shared=shared) for o in ordered]
        measures = [with_bounds(m, of_metric) for m, of_metric in zip(measures, bounds, strict=True)]
    facts = {
        "ordered_by": view.ordered_by, "labels": [str(g) for g in groups][:100], "random_orders": draws, **few.facts(),
        **interval_facts(call), "chance": {a.text: IN_RANDOM_ORDER for a in specs if draws},
    }  # fmt: skip
    return call.result(
        rows_of([Reduced.from_measured(m, within) for m in measures], within, names, call, small), backend=view.backend,
        read=view.rows, dropped=view.dropped, slices=names, curves=_curves(placed, placement, ordered, names, call, small),
        words={"unit": call.arguments["request"] or "ranking", "group": group_name}, facts=facts,
        counts=_counts(view, placed, measures, unknown), hides=few.leaves_out, of=RankingResult,
        claims=list(_claims(ordered[0], placed, names, small)) if draws and not leaves_open else (),
        each=per_request(measures, within, names, call.min_units), hold=lambda: request_sums(measures, within, small),
    )  # fmt: skip


def _shares_unlabelled(coded: CodedLabels, view: RankingsView) -> bool:
    """Whether an item without a label stands in several rankings of a slice; rows without ids are items of their own."""
    if "item" not in view.types:
        return False
    names = column_list([*view.slices, "item"])
    repeated = f"SELECT {names} FROM ({coded.rows}) AS ranked WHERE label IS NULL GROUP BY {names} HAVING COUNT(*) > 1"
    return bool(view.engine.cells(f"SELECT COUNT(*) AS n FROM ({repeated}) AS repeated").row()["n"])


def _bounds(
    ask: MetricSpec, placed: LabelledRankings, placement: Placement, *, is_shared: bool
) -> Callable[[int], tuple[float, float, bool]]:
    """Least and most over all labelings by slice, each ranking labelled by itself, and whether a labeling reaches them."""
    ranges = range_over_rankings(ask, placement, placed.unlabelled_at)

    def of_slice(s: int) -> tuple[float, float, bool]:
        part = placed.within.part(s)
        return *ranges.part(part).mean(np.ones(placed.within.size(s))), bool(
            ranges.reached[part].all()
        ) and not is_shared

    return of_slice


LONGEST = 200_000
"""Ranks of a list whose random orders are drawn: more take half a minute for each metric, and twice as many more than twice that."""


@dataclass(frozen=True)
class Ordered:
    """One metric on every ranking, against random orders of it.

    Attributes
    ----------
    orders : what random orders give; None where nobody asked, or where the metric cannot be taken on orders quickly.
    lean, spread, third : (R, sides) how far each side is above its share, and its standard deviation and third moment by chance.
    """

    ask: MetricSpec
    scores: Scores
    reasons: Any
    orders: Orders | None
    lean: Floats
    spread: Floats
    third: Floats
    sides: tuple[str, ...]

    @classmethod
    def all(cls, metrics: Sequence[MetricSpec], placement: Placement, draws: int, seed: int) -> list[Ordered]:
        """Every metric, on the same random orders."""
        seen = [looked_at(a, placement) for a in metrics]
        ranks = max(int(p.lengths.max(initial=0)) for p in seen)
        if draws and ranks > LONGEST:
            raise EvenhandError(
                f"A ranking has {ranks:,} ranks, and random orders are drawn of {LONGEST:,} at most. "
                "Pass chance=None, or look at the top alone, as in 'ndd@1000'."
            )
        readings = [reading_of(a, p) for a, p in zip(metrics, seen, strict=True)]
        scores = [scores_of(a, p, r, chance=draws > 0) for a, p, r in zip(metrics, seen, readings, strict=True)]
        orders = [
            random_orders(r, s, draws, seed) if draws and r is not None else None
            for r, s in zip(readings, scores, strict=True)
        ]
        return [
            cls(a, s, reasons_of(a, p, s.values), o, *_leans(a, p))
            for a, p, s, o in zip(metrics, seen, scores, orders, strict=True)
        ]

    @property
    def chances(self) -> Floats:
        return self.scores.chances if self.orders is None else self.orders.means

    def measured(self, placed: LabelledRankings, seed: int) -> Measured:
        """The metric as a mean over requests, each of which has one ranking."""
        values, defined = self.scores.values, ~np.isnan(self.scores.values)
        parts = [placed.rankings_of(s) for s in range(len(placed.within.slices))]
        with_value = [part[defined[part]] for part in parts]

        def cells(s: int, _: float) -> dict[str, Any]:
            favoured, p_favoured = self.favoured(with_value[s], placed.within, s)
            return {"p": self.p(placed.within, s, seed), "favoured": favoured, "p_favoured": p_favoured}

        chance = np.array([self.chances[at].mean() if len(at) else np.nan for at in with_value])
        return measure_rankings(
            self.ask,
            values,
            self.reasons,
            placed.within,
            chance=chance,
            counted=defined,
            more=self.columns,
            cells=cells,
        )

    def p(self, within: Requests, s: int, seed: int) -> float:
        """Of the mean of a slice: against random orders, or where requests are clustered by flipping the clusters' signs."""
        if self.ask.card.family == NUMBERS:
            return self.p_of_lean(within.part(s), within, s, 0)
        if self.orders is None:
            return float("nan")
        if within.clusters is None:
            return self.orders.p_of_mean(np.arange(*within.starts[s : s + 2]))
        values = self.scores.values[within.part(s)]
        defined = ~np.isnan(values)
        above = values - self.chances[within.part(s)]
        sums, counts = (within.unit_sums(s, part, defined) for part in (above, np.ones(len(values))))
        return flip_test(sums / counts, self.orders.draws, stream(seed, "p"))

    def favoured(self, defined: Ints, within: Requests, s: int) -> tuple[str | None, float]:
        """Who stands higher than its share on average over these rankings, and the p of that as its claim is tested.

        Bonferroni over groups; of two groups one is asked.
        """
        total = self.lean[defined].sum(0)
        if not len(defined) or total.max() <= NOBODY:
            return None, float("nan")
        side = int(total.argmax())
        p = self.p_of_lean(defined, within, s, side)
        favoured = self.sides[side] if total.max() / len(defined) > NOBODY else None
        return favoured, p if len(total) == 2 else min(1.0, len(total) * p)

    def p_of_lean(self, rankings: Any, within: Requests, s: int, side: int) -> float:
        """The p that random orders put a side as far from its share, up or down; of clusters Student's t too."""
        lean, spread, third = (x[rankings, side] for x in (self.lean, self.spread, self.third))
        p = skewed_test(float(lean.sum()), float((spread**2).sum()), float(third.sum()))
        if within.clusters is None:
            return p
        part = within.part(s)
        by_cluster, _ = t_test(within.unit_sums(s, self.lean[part, side], ~np.isnan(self.scores.values[part])))
        return by_cluster if np.isnan(by_cluster) else max(p, by_cluster)

    def columns(self) -> Points:
        """Chance, p and who is favoured, ranking by ranking."""
        lean = self.lean
        best = lean.argmax(1) if lean.shape[1] else np.zeros(len(lean), dtype=np.int64)
        ahead = (lean.max(1, initial=0.0) > NOBODY) & ~np.isnan(self.scores.values)
        p = np.full(len(lean), np.nan) if self.orders is None else self.orders.p
        favoured = [self.sides[g] if yes else None for g, yes in zip(best.tolist(), ahead.tolist(), strict=True)]
        return {"chance": self.chances.tolist(), "p": p.tolist(), "favoured": favoured}


def _claims(
    first: Ordered, placed: LabelledRankings, names: Sequence[str], small: Sequence[bool]
) -> Iterator[Candidate]:
    """Per slice, whether the protected group (without one: each) is nearer to the top than random order gives.

    Tested are the rankings' leans, whose moments over random orders are exact; of clusters also by Student's t. Of two groups one
    is asked.
    """
    sides = range(len(first.sides))
    for s, where in enumerate(placed.within.slices):
        at = placed.rankings_of(s)
        at = at[~np.isnan(first.scores.values[at])]
        for g in sides[:1] if len(sides) == 2 else sides:
            lean, p = float(first.lean[at, g].sum()), first.p_of_lean(at, placed.within, s, g)
            if small[s] or not first.spread[at, g].any():
                continue
            side = first.sides[g]
            way = "nearer to" if lean > 0 else "further from"
            yield Candidate(
                p, direction_of(lean), f"{side} stands {way} the top than random order gives",
                f"{side} stands neither significantly nearer to nor further from the top than random order gives",
                "favoured", side, dict(zip(names, where, strict=True)),
            )  # fmt: skip


def _leans(a: MetricSpec, p: Placement) -> tuple[Floats, Floats, Floats, tuple[str, ...]]:
    if a.card.family == NUMBERS:
        return *number_leans(p), ("A higher value",)
    sides = p.sides() if p.protected is not None and p.rows is None else p
    return *lean_and_spread(sides), tuple(str(g) for g in sides.groups)


def protected_labels(protected: Any, groups: tuple[Any, ...], group: Any) -> Any:
    """The protected labels as the table has them.

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


def _counts(view: RankingsView, placed: LabelledRankings, measures: Sequence[Measured], unknown: str) -> dict[str, Any]:
    lengths, within = placed.placement.lengths, placed.within
    counts = view.counts()
    if unknown == "drop":
        counts["unlabelled_share"] = {
            slice_words(view.slice_names, where): float(placed.unlabelled[part].sum() / max(lengths[part].sum(), 1))
            for where, part in ((where, within.part(s)) for s, where in enumerate(within.slices))
        }
    undefined = {m.ask.text: dict(Counter(code for code in m.reasons.tolist() if code)) for m in measures}
    return {
        **counts,
        "unlabelled_items": int(placed.unlabelled.sum()),
        "unlabelled_share_of_attention": _unlabelled_attention(placed),
        "undefined_requests": {metric: codes for metric, codes in undefined.items() if codes},
    }


def _unlabelled_attention(placed: LabelledRankings) -> float:
    """Share of attention, 1 / log2(rank + 1), on items without a label and on empty ranks."""
    p = placed.placement
    is_lost = p.codes < 0
    if not is_lost.any():
        return 0.0
    ranks = np.arange(len(p.codes)) - np.repeat(p.starts[:-1], p.lengths)
    attention = 1 / np.log2(ranks + 2)
    return float(attention[is_lost].sum() / attention.sum())


def _curves(
    placed: LabelledRankings, p: Placement, ordered: Sequence[Ordered], names: Sequence[str], call: Call, small: Sequence[bool]
) -> dict[str, Points]:  # fmt: skip
    """Points for charts: shares by rank with a chance band, values of requests, label strips.

    Slices with too few requests are left out. One request is fewer than any `min_units` above 1: then none is shown.
    """
    requests = {} if call.min_units > 1 else {"requests": _requests(placed, ordered, names)}
    if p.rows is not None:
        return requests
    sides = p.sides() if p.protected is not None else p
    shown = [
        s
        for s in range(len(placed.within.slices))
        if placed.within.starts[s + 1] > placed.within.starts[s] and not small[s]
    ]
    by_slice = (
        (dict(zip(names, placed.within.slices[s], strict=True)), placed.rankings_of(s)) for s in shown[:12]
    )  # more pictures side by side cannot be read
    level, fewest = call.interval.level, call.min_units
    shares = join_points((labels, _shares(sides.take(rankings), level, fewest)) for labels, rankings in by_slice)
    strips = {"strip": _strips(placed, p, ordered[0].scores.values, names, shown)} if requests else {}
    return {"prefix": shares, **requests, **strips}


def _shares(p: Placement, level: float, fewest: int) -> Points:
    """Mean share of each group in the first i ranks, its overall share and its chance band."""
    depth = int(p.lengths.max(initial=0))
    largest = np.argsort(-p.counts.sum(0), kind="stable")[:8]  # more lines cannot be told apart
    chosen = largest if p.protected is None else np.arange(2)
    totals = {g: np.zeros((4, depth)) for g in chosen.tolist()}
    for b in p.batches():
        for g, total in totals.items():
            for row, part in enumerate(_sums(b, p.counts[b.where], g)):
                total[row, : b.width] += part
    ranks = _thinned(depth, 120)
    points: Points = {"group": [], "rank": [], "share": [], "overall": [], "low": [], "high": [], "rankings": []}
    for g, total in totals.items():
        at = ranks[total[0, ranks] >= max(1, fewest)]
        many, share, overall, spread = total[:, at]
        share, overall = share / many, overall / many
        low, high = _band(p, g, at, overall, np.sqrt(spread) / many, level)
        points["group"] += [str(p.groups[g])] * len(at)
        columns = {"rank": at + 1, "share": share, "overall": overall, "low": low, "high": high, "rankings": many}
        for name, column in columns.items():
            points[name] += column.tolist()
    return points


def _sums(b: Batch, counts: Floats, g: int) -> tuple[Any, ...]:
    """By rank: number of lists, sums of share so far and overall, and the variance of the share."""
    sizes = counts.sum(1)[:, None]
    q = counts[:, g, None] / np.maximum(sizes, 1)
    spread = q * (1 - q) / np.maximum(sizes - 1, 1)
    reached = (np.arange(b.width) < b.lengths[:, None]) & (b.seen > 0)
    seen = np.maximum(b.seen, 1)
    parts = (1, b.cum_counts(g) / seen, q, spread * (sizes - b.seen) / seen)
    return tuple(np.where(reached, part, 0).sum(0) for part in parts)


def _band(p: Placement, g: int, at: Ints, overall: Floats, error: Floats, level: float) -> tuple[Floats, Floats]:
    """Exact for a single list (hypergeometric), normal for the mean of several."""
    if len(p) == 1:
        labelled = np.cumsum(p.codes >= 0, dtype=np.int64)[at]
        return share_band(int(p.counts[0, g]), int(p.labelled[0]), labelled, level)
    z = NormalDist().inv_cdf((1 + level) / 2)
    return np.clip(overall - z * error, 0, 1), np.clip(overall + z * error, 0, 1)


def _thinned(depth: int, most: int) -> Ints:
    """All near ranks and ever fewer of the far ones, the last one always."""
    if depth <= most:
        return np.arange(depth)
    near = np.arange(most // 2)
    far = np.unique(np.geomspace(len(near), depth - 1, most - len(near)).round().astype(np.int64))
    return np.concatenate([near, far])


def _requests(placed: LabelledRankings, ordered: Sequence[Ordered], names: Sequence[str], most: int = 150) -> Points:
    """Value and chance level of each request, ordered by value; an even selection of many."""
    parts: list[tuple[dict[str, Any], Points]] = []
    for o in ordered:
        for s, labels in enumerate(placed.within.slices):
            values, rankings = o.scores.values, placed.rankings_of(s)
            rankings = rankings[~np.isnan(values[rankings])]
            if not len(rankings):
                continue
            descending = rankings[np.argsort(-values[rankings], kind="stable")]
            many = min(max(2, most // max(1, len(placed.within.slices))), len(descending))
            selected = descending[np.unique(np.linspace(0, len(descending) - 1, many).round().astype(np.int64))]
            points = {
                "metric": [o.ask.text] * len(selected),
                "request": [str(name) for name in placed.within.ids.gather(selected).to_list()],
                "estimate": values[selected].tolist(),
                "chance": o.scores.chances[selected].tolist(),
                "items": placed.placement.labelled[selected].tolist(),
            }
            parts.append((dict(zip(names, labels, strict=True)), points))
    return join_points(parts)


def _strips(
    placed: LabelledRankings, p: Placement, values: Floats, names: Sequence[str], shown: list[int], most: int = 40
) -> Points:
    """Labels rank by rank; of many rankings those with the highest and lowest values."""
    rankings = np.concatenate([placed.rankings_of(s) for s in shown]) if shown else np.zeros(0, dtype=np.int64)
    descending = rankings[np.argsort(-values[rankings], kind="stable")]  # undefined ones last
    if len(descending) > most:
        descending = np.concatenate([descending[: most // 2], descending[-(most // 2) :]])
    slice_of = np.repeat(np.arange(len(placed.within.slices)), np.diff(placed.within.starts))
    parts: list[tuple[dict[str, Any], Points]] = []
    for i in descending.tolist():
        codes = p.codes[p.starts[i] : p.starts[i + 1]][:100]  # a strip has no room for more
        points: Points = {
            "request": [str(placed.within.ids[i])] * len(codes),
            "rank": list(range(1, len(codes) + 1)),
            "group": [None if c < 0 else str(p.groups[c]) for c in codes.tolist()],
        }
        parts.append((dict(zip(names, placed.within.slices[slice_of[i]], strict=True)), points))
    return join_points(parts)
