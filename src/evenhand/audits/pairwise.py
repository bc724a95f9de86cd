"""Does a more relevant item stand above a less relevant one, whatever their groups? Pairs within and between groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

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
    TableOrColumn,
    TableOrColumns,
    audit,
    log,
    refuse_many_slices,
)
from evenhand.audits.min_units import SmallGroups, merge_small_groups
from evenhand.audits.requests import RankingResult, interval_facts, per_request, refuse_one_sided, request_sums, rows_of
from evenhand.cards import Between, MetricSpec, needing, parse_metrics, refuse_lacking
from evenhand.claims import Candidate, direction_of
from evenhand.errors import EvenhandError
from evenhand.intervals.requests import Reduced, blocks, t_test
from evenhand.labels import Unknown, stream
from evenhand.report.words.text import rounded_percent
from evenhand.sources.judged_rankings import MissingRelevance, carried, open_judgments
from evenhand.sources.labels import columns_in, open_labels
from evenhand.sources.rankings import Duplicates, open_scores, sliced_table
from evenhand.sources.rankings import Rankings as ScoredRankings
from evenhand.sources.relation import row_slicing
from evenhand.tallies.pairs import ComparedGroups, PairCounts, Pairs
from evenhand.tallies.requests import Measured, measure_sums

METRICS = ("intra_acc", "inter_acc", "accuracy")
ANYONE = "*"
SCORE, RANK = "score", "rank"

Average = Literal["pooled", "macro"]


@audit(
    "pairwise",
    question="Does the more relevant item stand above, whatever the groups?",
    charts=("pairs", "intervals", "scatter"),
    extra=("pairs",),
    over="requests",
    stands_for=OTHER_REQUESTS,
)
def pairwise(
    call: Call,
    scores: Rankings,
    *,
    groups: TableOrColumns,
    relevance: TableOrColumn,
    protected: Labels,
    versus: Labels = None,
    request: str | None = "request",
    item: str = "item",
    score: str | None = "score",
    rank: str | None = None,
    cluster: str | None = None,
    system: str | None = None,
    by: By = None,
    average: Average = "pooled",
    metrics: Metrics = METRICS,
    unknown: Unknown = "drop",
    missing_relevance: MissingRelevance = "zero",
    duplicates: Duplicates = "raise",
    negatives: Annotated[int, Between(1, np.inf)] | None = None,
    interval: str | None = "bootstrap(999)",
    level: Level = 0.95,
    rng: Seed = None,
    min_units: Count | None = None,
    nan_policy: Literal["raise", "omit"] = "raise",
) -> RankingResult:
    """Share of pairs of different relevance that the scores put in the right order, within and between groups.

    A tied score counts one half; pairs of equal relevance are not counted.

    Parameters
    ----------
    scores : one row per request and item that a model scored (any dataframe, or a path), a TREC run, or `{request:
        {item: score}}`. Pass everything that was scored: a list cut at rank 10 has few pairs left.
    groups : as in `eh.exposure`; one label per item, or per request and item.
    relevance : a table with request, item and relevance; `{request: {item: relevance}}`; or a column of `scores`.
    protected : label of the protected group, for intra_acc and inter_acc; several labels form one group.
    versus : label of the group that the protected one is compared with; "*" is everyone else.
    request, item, cluster, system, by, min_units : as in `eh.exposure`.
    score : column with the score, highest first; None to order by rank.
    rank : column with the rank, 1 is best, to order by instead of the score; `"rank"` if there is no score column.
    average : average over all pairs (`"pooled"`), or first within each request (`"macro"`).
    metrics : `intra_acc`, `inter_acc`, and `accuracy`: one row per ordered pair of groups, `group` `"P>U"`, and
        `"P>*"` against all.
    unknown : what to do with items without a group: leave them out, make them a group, count them as `versus`, or
        raise an error.
    missing_relevance : what to do with scored items without a judgment: relevance zero (a negative), leave them out,
        or raise an error.
    duplicates : what to do with an item that a request scores twice: `"raise"` an error, or keep its best row (`"first"`).
    negatives : number of less relevant items to draw for each item, instead of counting every pair (the paper:
        10,000). Draws are independent between requests, so the interval includes their error.
    nan_policy : what to do with a missing score: `"raise"` an error, or leave the row out and count it (`"omit"`).

    Examples
    --------
    >>> import polars as pl
    >>> table = pl.DataFrame({"request": [1] * 4, "item": list("abcd"), "score": [4, 3, 2, 1], "relevance": [1, 0, 1, 0]})
    >>> side = {"a": "U", "b": "U", "c": "P", "d": "P"}
    >>> pairwise(table, groups=side, relevance="relevance", protected="P", metrics="inter_acc").frame["estimate"][0]
    1.0
    """
    specs = parse_metrics(metrics, needing(Pairs))
    has = {"relevance", "scores", "labels", "within", "between"}
    refuse_lacking(specs, has if protected is None else has | {"sides"})
    refuse_one_sided(unknown, protected)
    log.info("checking the scores")
    slices = row_slicing(by)
    columns = [score, rank, RANK, cluster, *columns_in(groups), *columns_in(relevance)]
    opened, request, system = sliced_table(
        scores, slices, columns=columns, request=request, item=item, system=system, duplicates=duplicates
    )
    opened = opened.with_numbers(relevance)
    labels = open_labels(groups, opened, item=item, request=request)
    ranked, column = _order(rank, score, opened.names)
    view = open_scores(
        opened, request=request, item=item, score=column, by=slices.columns, cluster=cluster, nan_policy=nan_policy, ranked=ranked,
        duplicates=duplicates,
        carry=labels.carry(opened) | carried(relevance, opened), system=system,
    )  # fmt: skip
    judgments = open_judgments(relevance, opened, request=request, item=item)
    if judgments is None:
        raise EvenhandError("relevance is not given. Pass a table request, item, relevance, or a column of the scores.")
    log.info("counting pairs")
    coded = labels.coded(view)
    few = merge_small_groups(
        coded.items_by_label, view.slices, call.min_units, protected=protected, versus=versus, unknown=unknown,
        in_columns=labels.soft and not coded.has_table,
    )  # fmt: skip
    if labels.soft:
        raise EvenhandError("groups gives shares, and pairs need one label per item. Pass one group for each item.")
    sides = ComparedGroups(few.side(protected), few.side(versus), unknown, any("sides" in a.reads for a in specs))
    counts = PairCounts.from_scores(
        view, coded.renamed(few.renamed), sides, judgments, missing_relevance, negatives=negatives,
        rng=stream(call.seed, "negatives"),
    )  # fmt: skip
    return _result(call, specs, view, counts, few, ordered_by=column)


def _result(
    call: Call, specs: Sequence[MetricSpec], view: ScoredRankings, counts: PairCounts, few: SmallGroups, *, ordered_by: str
) -> RankingResult:  # fmt: skip
    average: Average = call.arguments["average"]
    within, names = counts.within, view.slice_names
    refuse_many_slices("pairwise", len(within.slices))
    small = few.small(within)
    rngs = [stream(call.seed, "pairwise", *where) for where in within.slices]
    joined = [blocks(within.unit_count(s), rng) for s, rng in enumerate(rngs)]
    reduced = [Reduced.from_measured(m, within, joined) for a in specs for m in measured(a, counts, average)]
    sampled = ", sampled negatives included" if call.arguments["negatives"] else ""
    facts = {"average": average, "ordered_by": ordered_by, **few.facts(), **interval_facts(call, sampled)}
    words = {"unit": call.arguments["request"] or "ranking"}
    if counts.pairs.versus >= 0:
        words["versus"] = str(counts.pairs.groups[counts.pairs.versus])
    return call.result(
        rows_of(reduced, within, names, call, small, rngs=rngs), backend=view.backend, read=view.rows,
        dropped=view.dropped, slices=names, words=words, facts=facts, counts=counts.counts,
        claims=list(_claims(counts, average, names, small, call)), hides=few.leaves_out, of=RankingResult,
        each=per_request([r.measured for r in reduced], within, names, call.min_units),
        hold=lambda: request_sums([m for a in specs for m in measured(a, counts, average)], within, small),
    )  # fmt: skip


def _claims(
    counts: PairCounts, average: Average, names: Sequence[str], small: Sequence[bool], call: Call
) -> Iterator[Candidate]:
    """Per slice, whether a more relevant item ranks higher as often if it is of the protected group as if it is of the other.

    Requests (or their clusters) are independent, and the null that both shares are equal gives their errors.
    """
    t, within = counts.pairs, counts.within
    if t.protected < 0 or t.versus < 0:
        return
    protected, other = str(t.groups[t.protected]), str(t.groups[t.versus])
    weighed = t.equally_weighted() if average == "macro" else t
    for s, where in enumerate(within.slices):
        cells = [(t.protected, t.versus), (t.versus, t.protected)]
        (wins, pairs), (other_wins, other_pairs) = (
            (weighed.wins[within.part(s), i, j], weighed.pairs[within.part(s), i, j]) for i, j in cells
        )
        if small[s] or not pairs.sum() or not other_pairs.sum():
            continue
        both = (wins.sum() + other_wins.sum()) / (pairs.sum() + other_pairs.sum())
        off = (other_wins - both * other_pairs) / other_pairs.sum() - (wins - both * pairs) / pairs.sum()
        p, _ = t_test(within.unit_sums(s, off, (pairs > 0) | (other_pairs > 0)), imposed=True)
        share, other_share = (
            rounded_percent(call.published(float(w.sum() / n.sum()), len(w)))
            for w, n in ((wins, pairs), (other_wins, other_pairs))
        )
        ranks = "the more relevant item ranks higher"
        yield Candidate(
            p, direction_of(float(off.sum())),
            f"{ranks} {'less' if off.sum() > 0 else 'more'} often if it is of {protected} ({share} of pairs) than if it is of "
            f"{other} ({other_share})",
            f"{ranks} in {share} of pairs if it is of {protected} and in {other_share} if it is of {other}, not a statistically "
            "significant difference",
            "inter_acc", protected, dict(zip(names, where, strict=True)),
        )  # fmt: skip


def _order(rank: str | None, score: str | None, columns: Sequence[str]) -> tuple[bool, str]:
    """Whether ranks order (eq. 11 of Raj et al.) and not scores, and by which column."""
    if rank is not None or score is None:
        return True, rank or RANK
    ranked = score == SCORE and SCORE not in columns and RANK in columns
    return ranked, RANK if ranked else score


def measured(a: MetricSpec, counts: PairCounts, average: Average) -> Iterator[Measured]:
    """Rows of a metric: one for two sides, or one for every ordered pair of groups."""
    t = counts.pairs
    if a.card.per != "pair":
        within, between = "within" in a.reads, "between" in a.reads
        either = within or between
        side = str(t.groups[t.protected]) if t.protected >= 0 and "sides" in a.reads else None
        yield _of(a, t, side, t.count(within=within or not either, between=between or not either), counts, average)
        return
    many = range(len(t.groups))
    for i, j in [*((i, j) for i in many for j in many), *((i, None) for i in many)]:
        cell, other = t.cell(i, j), ANYONE if j is None else t.groups[j]
        yield _of(a, cell, f"{t.groups[i]}>{other}", cell.pairs[..., 0, 0], counts, average)


def _of(a: MetricSpec, t: Pairs, group: str | None, pair_counts: Any, counts: PairCounts, average: Average) -> Measured:
    """A metric on wins and pairs; where requests count alike, on each one's shares."""
    tally, within = t.equally_weighted() if average == "macro" else t, counts.within
    pairs = [float(pair_counts[within.part(s)].sum()) for s in range(len(within.slices))]
    return measure_sums(a, tally, each=t, group=group, cells=lambda s, _: {"pairs": pairs[s]})
