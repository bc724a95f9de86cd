"""Who is exposed, and is it in proportion? Rankings, policies and recommendations against targets and relevance."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np

from evenhand.attention import parse
from evenhand.audits.declare import (
    OTHER_REQUESTS,
    By,
    Call,
    Count,
    CountableRankings,
    Labels,
    Level,
    Metrics,
    Seed,
    TableOrColumn,
    TableOrColumns,
    Takes,
    audit,
    log,
    pairs,
    refuse_many_slices,
)
from evenhand.audits.exposure import measures
from evenhand.audits.exposure.label_errors import (
    BOUNDS,
    RESAMPLED_ITEMS,
    answerable,
    corrected,
    corrected_claims,
    label_bounds,
    read_confusion,
)
from evenhand.audits.exposure.measures import (
    ExposureMetricSpec,
    ExposureTallies,
    claimed_sides,
    exposure_and_targets,
    exposure_claim,
)
from evenhand.audits.min_units import SmallGroups, merge_small_groups, suppressed
from evenhand.audits.requests import (
    IN_RANDOM_ORDER,
    RankingResult,
    draws_wanted,
    interval_facts,
    per_request,
    request_sums,
    rows_of,
    with_bounds,
)
from evenhand.cards import Floats, refuse_lacking
from evenhand.claims import Candidate, detectable_of
from evenhand.errors import EvenhandError, listing
from evenhand.findings import slice_words
from evenhand.intervals.requests import FEWEST, MANY, Reduced, blocks, crossed_draws, skewed_test, t_test
from evenhand.labels import UnknownOrBounds, counted_as, match, stream
from evenhand.report.words.text import percent, rounded_percent
from evenhand.sources.judged_rankings import UNJUDGED, JudgedRankings, MissingRelevance, open_judged_rankings
from evenhand.sources.rankings import Duplicates, Ties
from evenhand.sources.relation import row_slicing
from evenhand.sources.rollup import rollup
from evenhand.tallies.exposure import (
    Amortised,
    AttentionSpec,
    Exposure,
    GroupExposure,
    Policy,
    target_shares,
    two_sides,
)
from evenhand.tallies.ranked_lists import CrossedSums, ItemExposure, number_items
from evenhand.tallies.spectrum import Label


def exposure_claims(
    t: ExposureTallies, specs: Sequence[ExposureMetricSpec], names: Sequence[str], small: Sequence[bool], call: Call
) -> list[Candidate]:
    """Per slice, whether the exposure of the protected group (without one: of each) is above or below its target.

    Paired over requests (or clusters of them): received exposure less target share times all exposure. The p is the larger of
    two: Student's t, and that of random orders of the lists (few items near the top make t see too little spread). Of two
    groups one is asked.
    """
    if not t.policy.labels or not specs:
        return []
    tested: list[tuple[Candidate, float]] = []
    claims = []
    tally, target, browsing = exposure_and_targets(t, specs)
    for s, where in enumerate(t.sums.slices):
        part = t.sums.part(s)
        for side in () if small[s] else claimed_sides(t.policy):
            received, whole = tally.received[part][:, list(side)].sum(-1), tally.received[part].sum(-1)
            aim = target[part][:, list(side)].sum(-1)
            used = (whole > 0) & ~np.isnan(aim)
            off = t.sums.within.unit_sums(s, received - np.nan_to_num(aim) * whole, used)
            if len(off) < FEWEST:
                continue
            total = float(whole[used].sum())
            p, error = t_test(off)
            variance, third = (m[part][used].sum() for m in order_moments(t.sums, t.policy, side, browsing))
            p = max(p, skewed_test(float(off.sum()), float(variance), float(third))) if variance > 0 else p
            shares = float(received[used].sum()) / total, float(aim[used].mean())
            share, goal = (call.published(x, int(used.sum())) for x in shares)
            show = percent if rounded_percent(share) == rounded_percent(goal) else rounded_percent
            labels = dict(zip(names, where, strict=True))
            candidate = exposure_claim(t.policy, side, float(off.sum()), show(share), show(goal), p, labels)
            settles = _labels_to_settle(t, s, browsing, total * share, total * goal, total)
            if settles:  # missing labels leave the direction open
                so_far = f"{candidate.group} gets {show(share)} of the exposure as far as labels are known"
                candidate = replace(candidate, p=1.0, otherwise=f"{so_far}; {settles}")
            tested.append((candidate, math.nan if settles else max(error, math.sqrt(variance)) / total))
    for candidate, error in tested:
        otherwise = candidate.otherwise
        if not math.isnan(error):
            power = 100 * detectable_of(error, call.interval.level, len(tested))
            otherwise += f"; the test had 80% power for differences of {power:.2g} points or more"
        claims.append(replace(candidate, otherwise=otherwise))
    return claims


def _labels_to_settle(
    t: ExposureTallies, s: int, browsing: AttentionSpec, received: float, due: float, whole: float
) -> str:
    """Which labels would settle a direction that missing labels leave open; empty where they do not, or nobody asked."""
    if t.unlabelled is None:
        return ""
    part = t.sums.part(s)
    cells = t.unlabelled.within(t.sums.rankings_of(part))
    scale = (t.sums.weight[t.sums.request_of] * t.sums.share)[t.sums.rankings_of(part)]
    attention = np.sort(np.bincount(cells.items, cells.attended[browsing] * scale[cells.rankings]))[::-1]
    free, share, goal = attention.sum(), received / whole, due / whole
    if share == goal:
        return "missing labels leave it open whether that is more or less than its target"
    # with labels for the k items that get most, split as the known ones are, the rest may all be on one side
    left = free - np.append(0.0, np.cumsum(attention))
    off = np.abs(share - goal) * (whole + free)
    is_settled = left * (share if share > goal else 1 - share) < off
    if received > due and received > goal * (whole + free):
        return ""
    if received < due and received + free < goal * (whole + free):
        return ""
    most = int(np.argmax(is_settled)) if is_settled.any() else len(attention)
    items = "the unlabelled item" if most == 1 else f"the {most:,} unlabelled items"
    return (
        f"missing labels leave it open whether that is more or less than its target, and labels of {items} with most exposure "
        "would settle it if they split as the known ones do"
    )


def order_moments(
    sums: GroupExposure, policy: Policy, side: Sequence[int], browsing: AttentionSpec
) -> tuple[Floats, Floats]:
    """(Q,) variance and third central moment of a side's exposure over random orders of each list, weights applied.

    Lists are taken as if they held ranks 1 to n, and a cascade as if nobody stopped: more spread, never less.
    """
    by_group = policy.assign_unlabelled(sums.items)
    items, labelled = sums.items.sum(-1), by_group.sum(-1)
    weights = browsing.by_place(max(1, int(np.ceil(items.max(initial=1)))))
    powers = [np.append(0.0, np.cumsum(weights**k)) for k in (1, 2, 3)]
    n = np.round(items).astype(np.int64)
    first, second, cubed = (x[n] for x in powers)
    m = np.maximum(labelled, 3)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = by_group[:, list(side)].sum(-1) / labelled
        mean = first / n
        squares = (second - n * mean**2) * labelled / n
        cubes = (cubed - 3 * mean * second + 2 * n * mean**3) * labelled / n
    spread = share * (1 - share)
    variance = np.nan_to_num(squares * spread * m / (m - 1))
    third = np.nan_to_num(cubes * spread * (1 - 2 * share) * m**2 / ((m - 1) * (m - 2)))
    return (
        sums.weight**2 * sums.sum_per_request(variance * sums.share**2),
        sums.weight**3 * sums.sum_per_request(third * sums.share**3),
    )


__all__ = ["exposure", "rollup"]


def read_target(words: list[str]) -> Any:
    """A word, or `group=share,group=share`."""
    return pairs("target", ",".join(words), float) if "=" in words[0] or words[0].lstrip().startswith("{") else words[0]


Target = Annotated[Any, Takes("WORD|SHARES", read=read_target)]


def read_attention(words: list[str]) -> Any:
    """A model's text form, or the weights of ranks 1, 2, ...: one word each, or all in one."""
    parts = [p for word in words for p in word.strip().strip("[]").split(",")] if "(" not in words[0] else words
    try:
        return [float(part) for part in parts]
    except ValueError:
        if len(words) > 1:
            raise EvenhandError(
                f"--attention {' '.join(words)} cannot be read. Write a model, or a weight for each rank."
            ) from None
        return words[0]


Curve = Annotated[Any, Takes("MODEL|WEIGHTS", many=True, read=read_attention)]


def read_confusion_words(words: list[str]) -> Any:
    """A file, or `{true: {observed: share}}` as JSON."""
    text = " ".join(words)
    try:
        return json.loads(text) if text.lstrip().startswith("{") else text
    except json.JSONDecodeError as error:
        raise EvenhandError(f"--confusion {text!r} cannot be read. Write JSON, or name a file.") from error


ConfusionTable = Annotated[Any, Takes("FILE|JSON", read=read_confusion_words)]


OTHER_REQUESTS_AND_ITEMS = (
    "The interval is for other requests and other items like these: how far the number would move had both been drawn anew. "
    "It is wide rather than too short."
)


@audit(
    "exposure",
    question="Who is exposed, and is it in proportion?",
    charts=("exposure", "relevance", "systems", "intervals", "scatter"),
    default="awrf, log_dp, log_dp(per_item=True), eed; with relevance also log_eur, eel, eer",
    extra=("favoured", "undefined"),
    over="requests",
    stands_for=OTHER_REQUESTS,
    null="in random order",
)
def exposure(
    call: Call,
    rankings: CountableRankings,
    *,
    groups: TableOrColumns,
    relevance: TableOrColumn = None,
    protected: Labels = None,
    versus: Labels = None,
    attention: Curve = None,
    target: Target = "population",
    unknown: UnknownOrBounds = "drop",
    label_probability: str | None = None,
    confusion: ConfusionTable = None,
    missing_relevance: MissingRelevance = "zero",
    request: str | None = "request",
    item: str = "item",
    rank: str | None = "rank",
    score: str | None = None,
    sample: str | None = None,
    probability: str | None = None,
    weight: str | None = None,
    cluster: str | None = None,
    system: str | None = None,
    ties: Ties = "raise",
    duplicates: Duplicates = "raise",
    by: By = None,
    metrics: Metrics | None = None,
    interval: str | None = "bootstrap(999)",
    level: Level = 0.95,
    rng: Seed = None,
    min_units: Count | None = None,
    nan_policy: Literal["raise", "omit"] = "raise",
    chance: bool = True,
    resample: Literal["requests", "requests_and_items"] = "requests",
) -> RankingResult:
    """Exposure of groups in rankings: against a target, against each other, against relevance.

    Parameters
    ----------
    rankings : a table with one row per ranked item (any dataframe, or a path), TREC runs, `{request: {item: score}}`,
        or a LensKit ItemListCollection. `"trec-fair:FILE"` is a run of the TREC Fair track, which brings its own
        sample, weight and system; the same prefix works for files of `groups` and `relevance`. `"tally:rows.csv"`
        holds the rows of the query that `evenhand sql exposure` prints.
    groups : column(s) of `rankings` (several are combined); `eh.shares("a", "b")` for columns of shares; `{item:
        group}`; a table with item and group (or request, item and group); a table with one row per item and one
        column per group, of shares that add up to 1 (for counts: `eh.shares(of=table, counts=True)`); or
        `eh.rollup(...)`. Items without a group are unknown.
    relevance : a table with request, item and relevance; `{request: {item: relevance}}`; or a column of `rankings`.
    protected : label of the protected group, for metrics that compare two groups; several labels form one group.
    versus : label of the group that the protected one is compared with; "*" is everyone else, the default with two
        groups.
    attention : browsing model for all metrics, such as `"rbp(patience=0.8)"`; or a weight for each rank, `[1, 0.5,
        0.3]`; or a function of the rank (default: the usual model of each metric, table 1 of Raj et al.).
    target : the distribution that awrf aims at: group shares among all items (population), equal shares, shares in
        the ranking, shares among relevant items, or `{group: share}`.
    unknown : what to do with items without a group: keep their rank but leave them out of sums ("drop"), make them a
        group, count them as unprotected, raise an error, or drop them and add the range of the metric over all ways to
        label them (`"bounds"`: columns `least` and `most`).
    label_probability : column with the probability with which each item's label was drawn, of `rankings` or of the
        groups table, where only a sample of items was labelled.
    confusion : how often labels are wrong: `{true: {observed: share}}`, taken as known, or a table with true, observed
        and count of a labelled sample.
    missing_relevance : what to do with ranked items without a judgment: relevance zero, remove them from the list
        ("drop"), or raise an error.
    sample : column with the id of the draw, if rankings are drawn from a stochastic policy.
    probability : column with the probability of each draw (default: equal).
    request : column with the query or user id; None if the whole table is one ranking.
    item : column with the item id.
    weight : column with the weight of each request (default: equal).
    cluster : column with what requests share (user, session, topic); intervals and tests then move whole clusters.
    rank : column with the rank, 1 is best; None to order by score.
    score : column with the predicted utility, which iaa needs; without a rank, items are ordered by it, highest
        first.
    system : column with the name of the system, if there are several.
    by : column(s) to slice by.
    ties : what to do with tied ranks: `"raise"` an error, or keep the order of the table (`"input_order"`).
    duplicates : what to do with an item that a ranking lists twice: `"raise"` an error, or keep the first (`"first"`);
        stated ranks stay, and the rank of the second is empty.
    min_units : merge groups with fewer ranked items, and suppress slices with fewer requests or fewer items of a
        group.
    nan_policy : what to do with a missing score: `"raise"` an error, or count it as zero (`"omit"`).
    chance : also report what metrics would be on average if every list were in random order.
    resample : what intervals generalise to: other requests with the same items, or other requests and other items
        (metrics without relevance, attention by rank).

    Examples
    --------
    >>> import polars as pl
    >>> run = pl.DataFrame({"request": [1, 1, 1], "item": ["a", "b", "c"], "rank": [1, 2, 3]})
    >>> found = exposure(run, groups={"a": "m", "b": "f", "c": "m"}, protected="f", metrics="log_dp", interval=None)
    >>> round(found.frame["estimate"][0], 4)
    -0.4892
    """
    specs = _metrics_of(call.arguments)
    log.info("checking the rankings")
    tables = open_judged_rankings(
        rankings, groups=groups, relevance=relevance, missing=missing_relevance, by=row_slicing(by), ties=ties, duplicates=duplicates,
        unranked=any(a.needs(Amortised) for a in specs), nan_policy=nan_policy, request=request, item=item, rank=rank,
        label_probability=label_probability, score=score, sample=sample, probability=probability, weight=weight, cluster=cluster,
        system=system,
    )  # fmt: skip
    specs, call = _settle(specs, tables, call)
    return _result(tables, specs, call)


def _metrics_of(arguments: Mapping[str, Any]) -> list[ExposureMetricSpec]:
    target, attention = arguments["target"], arguments["attention"]
    if isinstance(target, Mapping):
        target_shares(target, ())
    elif not isinstance(target, str) or target not in measures.TARGETS:
        raise EvenhandError(
            f"target={target!r} is unknown. Use {listing(map(repr, measures.TARGETS))}, or {{group: share}}."
        )
    specs = measures.parse_exposure_metrics(
        arguments["metrics"], None if attention is None else parse(attention), target
    )
    return _allowed(specs, arguments, {"labels"})


def _allowed(
    specs: Sequence[ExposureMetricSpec], arguments: Mapping[str, Any], has: set[str]
) -> list[ExposureMetricSpec]:
    """The metrics whose inputs are there; a metric that was named and lacks one is refused."""
    inputs = {"protected": {"sides"}, "score": {"scores"}, "relevance": {"relevance", "gains", "dues"}}
    has = has.union(*(reads for name, reads in inputs.items() if arguments[name] is not None))
    readable = [a for a in specs if arguments["metrics"] is not None or a.metric.reads(**a.params) <= has]
    refuse_lacking(readable, has)
    return readable


def _settle(
    specs: list[ExposureMetricSpec], tables: JudgedRankings, call: Call
) -> tuple[list[ExposureMetricSpec], Call]:
    """Metrics that these rankings allow, and the call, with attention functions as numbers."""
    if tables.soft:
        specs = _allowed(specs, call.arguments, set())
    if any(a.browsing.attention.numbers for a in specs):  # numbers can be read by engines and held by a plan
        depth, grades = tables.reach(), tables.grades
        model = parse(call.arguments["attention"]).in_numbers(depth, grades)
        specs = [
            replace(a, browsing=replace(a.browsing, attention=a.browsing.attention.in_numbers(depth, grades)))
            for a in specs
        ]
        call = replace(call, arguments={**call.arguments, "attention": model.as_word()})
    tables.refuse_grades(a.browsing.attention for a in specs)
    options = [name for name in ("label_probability", "confusion") if call.arguments[name] is not None]
    options += [BOUNDS] if call.arguments["unknown"] == "bounds" else []
    options += [RESAMPLED_ITEMS] if _resamples_items(call) else []
    if len(options) > 1:
        raise EvenhandError(f"{options[0]} cannot be combined with {options[1]}. Pass one of them.")
    if options == [BOUNDS] and tables.soft:
        raise EvenhandError("unknown='bounds' needs one label per item. With shares, pass unknown='drop'.")
    named = call.arguments["metrics"] is not None
    return answerable(specs, options[0], named=named) if options else specs, call


def _tally(
    tables: JudgedRankings, specs: Sequence[ExposureMetricSpec], call: Call
) -> tuple[JudgedRankings, Sequence[ExposureMetricSpec], ExposureTallies, SmallGroups]:
    """Everything that the metrics need, added up, small groups merged; the engine is not asked again after this."""
    protected, versus = (call.arguments[name] for name in ("protected", "versus"))
    unknown, bounds = counted_as(call.arguments["unknown"]), call.arguments["unknown"] == "bounds"
    few = merge_small_groups(
        tables.labels.items_by_label, tables.slices, call.min_units, protected=protected, versus=versus, unknown=unknown
    )
    specs = [_retargeted(a, few.shares) for a in specs]
    tables = tables.renamed(few.renamed)
    sizes = tables.group_sizes(unknown=bounds or unknown in ("group", "unprotected"))
    labels, sizes, specs = _with_target_groups(tables.labels.labels, sizes, specs)
    two_sided = any(a.needs(Exposure) and "sides" in a.reads for a in specs)
    sides = two_sides(labels, few.side(protected), few.side(versus), needed=two_sided or unknown == "unprotected")
    policy = Policy.from_sides(unknown, labels, *sides)
    _refuse_many(tables.view.rankings, len(labels), specs, draws_wanted(call.interval))
    log.info("adding up exposure")
    sums, by_item = measures.add_up(tables, specs, labels)
    crossed = CrossedSums.from_rankings(tables, sums) if _resamples_items(call) else None
    unlabelled_items = round(float(sums.items[:, -1].sum()))
    if unknown == "raise" and unlabelled_items:
        raise EvenhandError(
            f"{unlabelled_items:,} ranked items have no group. Add them to groups, or pass unknown='drop' or 'group'."
        )
    placement = measures.placement_of(tables, sums, policy) if any(a.placed for a in specs) else None
    simulated = call.arguments["chance"] and tables.engine.has_rows and bool(policy.labels)
    simulated = simulated and any(a.in_random_order == "drawn" for a in specs)
    if simulated and len(labels) > MOST_DRAWN_GROUPS:
        raise EvenhandError(
            f"{len(labels):,} groups are too many to draw random orders of. Use broader groups, or pass chance=False."
        )
    lists = measures.lists_by_slice(tables, sums, specs, call.seed) if simulated else None
    unlabelled = None
    if bounds:
        unlabelled = ItemExposure.from_rankings(tables, sums, number_items(tables)[0], labelled=False)
    sampled, size_variance = None, np.zeros(len(labels))
    if tables.weighted:
        sampled = ItemExposure.from_rankings(tables, sums, number_items(tables)[0], labelled=True)
        size_variance[: len(tables.labels.labels)] = tables.size_variance()
    confusion = call.arguments["confusion"]
    errors = None if confusion is None else read_confusion(confusion, labels)
    tallies = ExposureTallies(
        sums, policy, sizes, placement, by_item, lists, crossed, unlabelled, sampled, size_variance, errors
    )
    return tables, specs, tallies, few


MOST_DRAWN_GROUPS = 10_000
"""Random orders hold the shares of every kind of item in every group: 800 MB for as many kinds as groups."""


def _resamples_items(call: Call) -> bool:
    return call.arguments["resample"] == "requests_and_items" and call.interval.kind != "none"


def _with_target_groups(
    labels: Label, sizes: Floats, specs: Sequence[ExposureMetricSpec]
) -> tuple[tuple[Any, ...], Floats, list[ExposureMetricSpec]]:
    """Groups that only a target names are groups too: nobody in them was exposed."""
    specs = [_retargeted(a, lambda target: {match(g, labels): s for g, s in target.items()}) for a in specs]
    aims = [*(a.target for a in specs), *(a.settled("target") for a in specs if a.needs(Exposure))]
    named = dict.fromkeys(g for aim in aims if isinstance(aim, Mapping) for g in aim)
    more = [g for g in named if g not in labels]
    return (*labels, *more), np.concatenate([sizes[:-1], np.zeros(len(more)), sizes[-1:]]), specs


def _retargeted(a: ExposureMetricSpec, change: Callable[[Mapping[Any, float]], Any]) -> ExposureMetricSpec:
    """A metric with the groups of its targets changed, be they those of the call or its own."""
    target, params = a.target, dict(a.params)
    if isinstance(params.get("target"), Mapping):
        params["target"] = change(params["target"])
    return replace(a, target=change(target) if isinstance(target, Mapping) else target, params=params)


def _refuse_many(
    rankings: int, groups: int, specs: Sequence[ExposureMetricSpec], draws: int,
    most_numbers: int = 1_000_000_000, most_products: int = 200_000_000_000,
) -> None:  # fmt: skip
    """Refuse so many groups that sums exceed 8 GB or draws half a minute: ids taken for groups."""
    if rankings * (groups + 1) * measures.required_by(specs).arrays > most_numbers:
        raise EvenhandError(
            f"{rankings:,} rankings times {groups:,} groups are too many to hold. Use broader groups, or slice the rankings."
        )
    if min(rankings, MANY) * groups * 4 * len(specs) * draws > most_products:
        raise EvenhandError(
            f"{groups:,} groups in {rankings:,} rankings are too many to resample. Use broader groups, or pass interval=None."
        )


def _result(tables: JudgedRankings, specs: Sequence[ExposureMetricSpec], call: Call) -> RankingResult:
    tables, specs, tallies, few = _tally(tables, specs, call)
    view, sums, policy = tables.view, tallies.sums, tallies.policy
    within, names, small = sums.within, view.slice_names, few.small(sums.within)
    refuse_many_slices("exposure", len(within.slices))
    counts = _counts(tables, tallies, names, small)
    log.info("measuring")
    rngs = [stream(call.seed, "exposure", *where, "blocks") for where in sums.slices]
    joined = [blocks(within.unit_count(s), rng) for s, rng in enumerate(rngs)]
    chance = call.arguments["chance"]
    is_corrected = tallies.sampled is not None or tallies.confusion is not None
    asserted = corrected_claims if is_corrected else exposure_claims
    if is_corrected:
        measured = [corrected(a, tallies) for a in specs]
    else:
        measured = [measures.measure(a, tallies, chance=chance) for a in specs]
    if tallies.unlabelled is not None and policy.labels:
        bounds = [partial(label_bounds, a, tallies, tallies.unlabelled) for a in specs]
        measured = [with_bounds(m, of_metric) for m, of_metric in zip(measured, bounds, strict=True)]
    reduced = [Reduced.from_measured(m, within, joined) for m in measured]
    drawn = None
    if tallies.crossed is not None:
        rng = stream(call.seed, "exposure", "items")
        on_resample = lambda drawn, sizes: [measures.measured_on(a, drawn, policy, sizes) for a in specs]  # noqa: E731
        drawn = crossed_draws(on_resample, tallies.crossed, sums, draws_wanted(call.interval), rng)
    over = ", for these items" if call.arguments["resample"] == "requests" else " and items"
    facts = {"ordered_by": view.ordered_by, **interval_facts(call, over), **few.facts()}
    facts["chance"] = {a.text: IN_RANDOM_ORDER for a in specs if chance and a.in_random_order}
    if _resamples_items(call):
        facts["interval_for"] = OTHER_REQUESTS_AND_ITEMS
    if is_corrected:
        facts["chance"] = "none: corrected exposure is that of all lists together, and chance permutes single lists"
    words = {"unit": call.arguments["request"] or "ranking", "amount": "exposure"}
    if policy.versus:
        words["versus"] = ", ".join(str(policy.labels[i]) for i in policy.versus)
    lasting = replace(tallies, lists=None, crossed=None, unlabelled=None)  # enough for comparing systems
    rows = rows_of(reduced, within, names, call, small, drawn)
    if few.leaves_out:
        rows = [suppressed(r) if re.split(r"\W", r["metric"])[0] in ABSOLUTE else r for r in rows]
    return call.result(
        rows, backend=view.backend, read=view.rows, dropped=tables.dropped,
        slices=names, words=words,
        curves={} if is_corrected else measures.curves(tallies, specs, names, call, small), facts=facts, counts=counts,
        hides=few.leaves_out, claims=asserted(tallies, specs, names, small, call), of=RankingResult,
        each=per_request([r.measured for r in reduced], within, names, call.min_units),
        hold=None
        if is_corrected  # single requests have no corrected sums
        else lambda: request_sums([measures.measure(a, lasting, chance=False) for a in specs], within, small),
    )  # fmt: skip


ABSOLUTE = frozenset({"eed", "eel", "eer", "target_norm"})
"""Metrics of exposure itself and not of shares: the exposure of all ranks is known, so they tell what a left out group got."""


def _counts(tables: JudgedRankings, t: ExposureTallies, names: Sequence[str], small: Sequence[bool]) -> dict[str, Any]:
    sums, policy = t.sums, t.policy
    attention_specs = {str(spec): spec for spec in sums.attended}
    sizes = {str(g): float(n) for g, n in zip(policy.labels, policy.assign_unlabelled(t.sizes), strict=True)}
    counts: dict[str, Any] = {
        **tables.view.counts(),
        "requests": len(sums.requests),
        "group_sizes": dict.fromkeys(sizes, "suppressed") if all(small) and small else sizes,
        "unlabelled_ranked_items": float(sums.items[:, -1].sum()),
        "unlabelled_exposure": {
            ", ".join(map(str, where)) or "all": {
                name: sums.unlabelled_share(spec, sums.part(s)) for name, spec in attention_specs.items()
            }
            for s, where in enumerate(sums.slices)
            if not small[s]
        },
    }
    if policy.unknown == "drop" and not tables.weighted:
        items = [sums.items[sums.rankings_of(sums.part(s))] for s in range(len(sums.slices))]
        counts["unlabelled_share"] = {
            slice_words(names, where): float(n[:, -1].sum()) / float(n.sum()) if n.sum() else 0.0
            for where, n in zip(sums.slices, items, strict=True)
        }
    if tables.judged is not None:
        counts["ranked_items_without_judgment"] = sums.unjudged + tables.dropped.get(UNJUDGED, 0)
        if sums.judged is not None and sums.relevant is not None:
            counts["requests_without_judgment"] = int((~sums.judged).sum())
            counts["requests_without_relevant_items"] = int((sums.relevant.sum(-1) == 0).sum())
    return counts
