"""Does a recommender treat groups of users, and items, even-handedly? From scores to the measures of holisticai's page."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

import numpy as np

from evenhand import metrics as _all_metrics  # noqa: F401  (fills the registry)
from evenhand.audits.declare import (
    By,
    Call,
    Count,
    Labels,
    Level,
    Metrics,
    Seed,
    TableOrColumn,
    Takes,
    audit,
    hidden_sizes,
    log,
    refuse_many_slices,
)
from evenhand.audits.min_units import suppressed
from evenhand.cards import Floats, MetricSpec, lacks, needing, parse_call, parse_metrics, refuse_lacking
from evenhand.claims import Candidate, Direction, direction_of
from evenhand.errors import EvenhandError, listing
from evenhand.findings import Points, Row, join_points, notes, row, slice_words
from evenhand.intervals import crosstabs
from evenhand.intervals.crosstabs import PermutedPair, Question, Resampled, values
from evenhand.intervals.jackknife import influence_of_requests
from evenhand.intervals.kinds import Interval
from evenhand.labels import all_but, matches, one_or_several, several
from evenhand.metrics.recommender import lorenz_points
from evenhand.results import Result
from evenhand.sources.relation import row_slicing
from evenhand.sources.scores import Scores, Slice, SliceColumns, open_scores
from evenhand.tallies.crosstab import AT, Crosstab, Cut, Reading, ResampledLists, UserGroups, UserLists
from evenhand.tallies.ragged import Ints

Pair = tuple[int, int]

EVERY_ROW_SHOWN = "score=None says that every row is shown, so top and threshold have nothing to cut. Leave them out."
SCORES = "a matrix (.npz, .npy), or a table: Parquet, CSV, JSON lines (also .gz) or Excel"


@dataclass(frozen=True, repr=False)
class RecommenderResult(Result):
    """A result that can also say what was shown to whom."""

    show: Callable[[], Any] = field(default=lambda: None, compare=False)

    @property
    def shown(self) -> Any:
        """What was shown to whom, in the form the scores came in: 1, or a fraction of a slot under `ties="fractional"`.

        A matrix of the shape of a matrix; for a long table, its slices, users and items with a column `shown`.
        """
        return self.show()


OTHER_USERS = (
    "The interval is for as many other users like these, shown items of this same catalogue: how far the number would move "
    "had other users come. It is not for more users, to whom more of the catalogue would be shown."
)


@audit(
    "recommender",
    question="Does the recommender serve groups of users, and items, even-handedly?",
    charts=("differences", "lorenz", "intervals"),
    default="all that the input allows",
    extra=("protected", "versus", "p", "p_adjusted", "least", "most", "convention"),
    over="units",
    stands_for=OTHER_USERS,
    null={"item_gini": "with lists filled at random", "exposure_tv": "with user labels permuted"},
)
def recommender(
    call: Call,
    scores: Annotated[Any, Takes("SCORES", table=True, files=SCORES)],
    *,
    user_groups: TableOrColumn = None,
    protected: Labels = None,
    versus: Labels = None,
    relevant: Annotated[Any, Takes("FILE", table=True)] = None,
    top: int | None = None,
    threshold: float | None = None,
    ties: Literal["first", "last", "fractional"] = "first",
    true_top: int | None = None,
    true_threshold: float | None = None,
    normalize: bool = False,
    convention: str | None = None,
    items: int | None = None,
    user: str = "user",
    item: str = "item",
    score: str | None = "score",
    group: str = "group",
    relevance: str | None = None,
    system: str | None = None,
    by: By = None,
    metrics: Metrics | None = None,
    chance: str | None = "permutation(199)",
    interval: str | None = "bootstrap(999)",
    level: Level = 0.95,
    rng: Seed = None,
    min_units: Count | None = None,
) -> RecommenderResult:
    """Bias of a recommender between groups of users and over items, with intervals over users.

    Parameters
    ----------
    scores : users x items array (NaN is missing), scipy sparse matrix (entries not stored are missing), long table
        with user, item and score on any engine, or a path (.npz, .npy, Parquet, CSV, JSON lines). `score=None`: every
        row is shown.
    user_groups : a label per row of a matrix, {user: label}, a table of users and groups, or a column of the long
        table. Users in it count even if they have no score.
    protected : group of users that may be served worse (the source's group b); several labels form one group; left
        out, every pair of groups is compared.
    versus : group of users that it is compared with (the source's group a); several labels form one group; "*" is
        everyone else.
    relevant : the ground truth, in the same form as the scores. Relevant items are those of `true_top` or
        `true_threshold`, otherwise those above 0.
    top : show each user the items with the highest scores, this many. A missing score is never shown.
    threshold : show each user the items with at least this score.
    ties : which items tied at the last slot are shown: the first (lowest column or id), the last, or a fraction of
        each.
    true_top : number of items with the highest true value that are relevant, per user.
    true_threshold : lowest true value that is relevant.
    normalize : scale scores and ground truth jointly to [0, 1] first.
    convention : reproduce another tool's numbers, for example `"holisticai"`; see `evenhand metrics gini --compare`.
    items : number of items in the catalogue of a long table. Left out, only items seen count.
    user : column with the user id.
    item : column with the item id.
    score : column with the score; None if every row is shown.
    group : column with the group, in a table of users and groups.
    relevance : column with the relevance, in the ground truth (default: `relevance`, or the name of the score
        column).
    system : column with the name of the recommender, in a long table with several; each is measured separately.
    by : column(s) of a long table to slice by, such as country or week. A slice has the users and items with a row in
        it; groups and ground truth are shared (a ground truth with these columns is sliced too).
    metrics : metric strings (default: all that the input allows).
    chance : level of exposure metrics under randomly permuted user labels: `"permutation(199)"`, or None.
    interval : bootstrap over users within their groups: `"bootstrap(999)"`, `"percentile(999)"`, `"normal"` or None.
    min_units : suppress groups and slices with fewer users.

    Examples
    --------
    >>> scores = [[0.9, 0.8, 0.4], [0.7, 0.9, 0.1], [0.3, 0.2, 0.6], [0.2, 0.1, 0.7]]
    >>> found = recommender(scores, user_groups=["a", "a", "b", "b"], top=1, metrics=["exposure_tv", "mad"], interval=None)
    >>> found.frame["estimate"].round(4).to_list()
    [1.0, 0.2833]
    """
    deals = _permutations(chance)
    shown, true = Cut.checked(top, threshold, ties), Cut.checked(true_top, true_threshold, ties, prefix="true_")
    if score is None and shown.is_given:
        raise EvenhandError(EVERY_ROW_SHOWN)
    log.info("checking the scores")
    columns = {"user": user, "item": item, "score": score, "group": group, "relevance": relevance}
    slices = row_slicing(by)
    sliced_by = SliceColumns(slices.columns, system, slices.periods)
    sliced_by.check((*call.audit.extra, user, item, "shown"))
    opened = open_scores(scores, relevant, names=columns, items=items, user_groups=user_groups, sliced_by=sliced_by)
    return _result(call, opened, Reading(shown, true, normalize, listed=score is None), deals)


def _permutations(chance: str | None) -> int:
    if chance is None or chance == "none":
        return 0
    name, args, keywords = parse_call(chance, role="chance") if isinstance(chance, str) else ("", [], {})
    draws = args[0] if args else keywords.get("draws", 199)
    if name != "permutation" or isinstance(draws, bool) or not isinstance(draws, int) or not 20 <= draws <= 100_000:
        raise EvenhandError(
            f"chance={chance!r} cannot be read. Write 'permutation(199)' with 20 to 100,000 draws, or None."
        )
    return draws


def _result(call: Call, opened: Scores, plain: Reading, deals: int) -> RecommenderResult:
    """Every slice, measured; `plain` reads scores where no convention says otherwise."""
    names = ("convention", "user_groups", "relevant", "score", "metrics", "protected", "versus")
    convention, user_groups, relevant, score, metrics, protected, versus = (call.arguments[name] for name in names)
    refuse_many_slices("recommender", len(opened.slices))
    readings = [_under_convention(convention, plain, part) for part in opened.slices]
    shows = plain.shows or any(reading.shows for reading in readings)
    inputs = {
        "users": user_groups is not None, "truth": relevant is not None, "shown": shows, "scores": score is not None,
    }  # fmt: skip
    specs = _chosen_metrics(metrics, convention, {need for need, is_given in inputs.items() if is_given})
    sides, codes = _sides(opened, one_or_several(protected), one_or_several(versus))
    measure = Measure(call, opened, specs, sides, deals)
    measure.refuse_long()
    log.info("finding what %s users are shown", f"{sum(part.user_count for part in opened.slices):,}")
    lists, other = UserLists.per_slice(opened, readings), _other_lists(call, opened, plain)
    parts = [
        measure.part(part, codes[part.users], of_part, reading, unjudged)
        for part, of_part, reading, unjudged in zip(opened.slices, lists, readings, other, strict=True)
    ]
    missing = opened.facts.rows - opened.facts.cells

    def show() -> Any:
        if not shows:
            raise EvenhandError("Nothing says what was shown. Pass top or threshold to recommender.")
        if call.min_units > 1:
            raise EvenhandError(
                f"`shown` has the list of every single user, and min_units={call.min_units} shows nothing about fewer. Leave it out."
            )
        return opened.shown(part.total.counted_lists for part in parts)

    slices = opened.sliced_by.names
    rows = [r for p in parts for r in p.rows]
    return call.result(
        rows, backend=opened.backend, read=opened.facts.rows,
        dropped={"score is missing or -inf": missing} if missing else {}, slices=slices, curves=_curves(parts, slices),
        words={"unit": "user", "holder": "item", "amount": "slots"},
        facts={**_by_slice(parts, slices, "facts"), "convention": convention or "evenhand", "chance": _nulls(specs, deals)},
        counts=_by_slice(parts, slices, "counts"),
        hides=any("suppressed" in part.facts["groups"].values() for part in parts),
        claims=_claims(rows, slices, specs, call), of=RecommenderResult, show=show,
    )  # fmt: skip


def _nulls(specs: Sequence[MetricSpec], deals: int) -> dict[str, str]:
    """What each chance level is the mean under."""
    permuted = {a.text: "with permuted labels of users" for a in specs if deals and a.card.name == "exposure_tv"}
    return permuted | {a.text: "with lists filled at random" for a in specs if a.metric.has_chance}


def _other_lists(call: Call, opened: Scores, plain: Reading) -> Sequence[UserLists | None]:
    """Lists for metrics that judge nothing: holisticai then scales the scores without the truth."""
    convention = call.arguments["convention"]
    if convention != "holisticai" or not plain.normalize or call.arguments["relevant"] is None:
        return [None] * len(opened.slices)
    scores_only = replace(plain, scores_only=True)
    return UserLists.per_slice(opened, [_under_convention(convention, scores_only, part) for part in opened.slices])


def _by_slice(parts: Sequence[Part], slices: Sequence[str], name: Literal["facts", "counts"]) -> dict[str, Any]:
    """Facts or counts by slice; as they are where nothing is sliced."""
    by_slice: dict[str, dict[str, Any]] = {slice_words(slices, p.where): getattr(p, name) for p in parts}
    if list(by_slice) == ["all"]:
        return by_slice["all"]
    keys = dict.fromkeys(key for facts in by_slice.values() for key in facts)
    joined: dict[str, Any] = {key: {words: facts[key] for words, facts in by_slice.items()} for key in keys}
    if len(words := {*joined.get("interval", {}).values()}) == 1:
        joined["interval"] = words.pop()
    return joined


def _curves(parts: Sequence[Part], slices: Sequence[str]) -> dict[str, Points]:
    labelled = [(dict(zip(slices, p.where, strict=True)), p.curves) for p in parts]
    kinds = dict.fromkeys(kind for p in parts for kind in p.curves)
    return {
        kind: join_points((labels, curves[kind]) for labels, curves in labelled if kind in curves) for kind in kinds
    }


def _chosen_metrics(metrics: Any, convention: str | None, has: set[str]) -> tuple[MetricSpec, ...]:
    """The metrics asked for, or all that the input allows, under the convention asked for."""
    possible = needing(Crosstab)
    conventions = {name for m in possible.values() for name in m.conventions}
    if convention is not None and convention not in conventions:
        raise EvenhandError(f"convention={convention!r} is not known. Known: {listing(sorted(conventions), 40)}.")
    offered = [name for name, m in possible.items() if convention is None or convention in m.conventions]
    if metrics is None:
        specs = tuple(a for a in parse_metrics(offered, possible) if not lacks(a, has))
        if not specs:
            raise EvenhandError("There is nothing to measure. Pass top or threshold (what is shown), or user_groups.")
    else:
        specs = parse_metrics(metrics, possible)
        refuse_lacking(specs, has)
    for a in specs:
        if a.card.name not in offered and "convention" not in a.params:
            raise EvenhandError(f"metrics={a.text!r} is not computed by {convention}. It computes: {listing(offered)}.")
    if convention is None:
        return tuple(specs)
    return tuple(replace(a, params={**a.params, "convention": a.params.get("convention", convention)}) for a in specs)


def _under_convention(convention: str | None, reading: Reading, part: Slice) -> Reading:
    """As holisticai reads scores: it shows tied items from the last column, missing ones too, cuts the truth like the scores, and takes a
    matrix of nothing but 0 and 1, once normalised, as it stands.
    """
    if convention != "holisticai":
        return reading
    last = replace(reading.shown, ties="last")
    stands = Cut(threshold=1.0)
    as_given = reading.scale(part.facts, part.truth_facts) == (0.0, 1.0)
    shown = stands if as_given and part.facts.is_binary else last
    true = stands if as_given and part.truth_facts is not None and part.truth_facts.is_binary else last
    return replace(reading, shown=shown, true=true, fill=last.top is not None)


def _sides(opened: Scores, protected: Any, versus: Any) -> tuple[UserGroups, Ints]:
    """The groups of all users, whatever slice they are in, and the row of every user."""
    if opened.labels is None:
        if protected is not None or versus is not None:
            raise EvenhandError("protected and versus are groups of users. Pass user_groups, or leave them out.")
        return UserGroups((), {}, ()), np.zeros(len(opened.user_ids), dtype=np.int64)
    codes, labels = opened.group_codes()
    versus = all_but(versus, protected, labels)
    protected, versus = (
        matches(role, several(side), labels, of="user_groups")
        if len(labels) > 1 and side is not None
        else several(side)
        for role, side in (("protected", protected), ("versus", versus))
    )
    if not protected and not versus and len(labels) * (len(labels) - 1) > 2 * MOST_PAIRS:
        raise EvenhandError(
            f"user_groups has {len(labels):,} different values, too many to compare two by two. Use broader groups, or pass "
            "protected= and versus=."
        )
    sides = UserGroups.from_labels(labels, protected, versus)
    if sides.rows.keys() and set(protected) & set(versus):
        raise EvenhandError("protected and versus share a group. Put each group on one side.")
    rows = np.array([*(sides.rows.get(label, sides.unknown) for label in labels), sides.unknown], dtype=np.int64)
    return sides, rows[codes]


@dataclass(frozen=True)
class Part:
    """One slice, measured."""

    slice: Slice
    total: Crosstab
    rows: list[Row]
    curves: dict[str, Points]
    facts: dict[str, Any]
    counts: dict[str, Any]

    @property
    def where(self) -> tuple[Any, ...]:
        return self.slice.where


@dataclass(frozen=True)
class Measure:
    """How every slice is measured.

    Attributes
    ----------
    deals : how often labels of users are permuted, for chance levels.
    """

    call: Call
    opened: Scores
    metrics: Sequence[MetricSpec]
    sides: UserGroups
    deals: int

    def questions(self) -> list[Question]:
        sides = self.sides
        return [Question(a, pair) for a in self.metrics for pair in (sides.pairs if "users" in a.reads else (None,))]

    def labels(self, pair: Pair | None) -> dict[str, Any]:
        """Cells of a row that name the groups it compares."""
        if pair is None:
            return {"protected": None, "versus": None}
        versus, protected = (self.sides.name(side) for side in pair)
        return {"group": f"{protected} vs {versus}", "protected": protected, "versus": versus}

    def refuse_long(self) -> None:
        """Refuse more pairs of groups than can be compared in about a minute."""
        pairs, items = len(self.sides.pairs), max((part.item_count for part in self.opened.slices), default=0)
        is_drawn = self.deals > 0 or self.call.interval.kind != "none"
        if is_drawn and pairs > 1 and pairs * items > MOST_COMPARISONS:
            raise EvenhandError(
                f"user_groups has {len(self.sides.names):,} groups, and {pairs:,} pairs of them over {items:,} items would take "
                "many minutes. Pass protected= and versus= (versus='*' takes all others together), fewer groups, or chance=None "
                "and interval=None."
            )

    def part(self, part: Slice, codes: Ints, lists: UserLists, reading: Reading, other_lists: UserLists | None) -> Part:
        """Rows, curves and facts of a slice; metrics that judge nothing read `other_lists`, if any."""
        call, sides, items = self.call, self.sides, part.item_count
        names, slots = [*sides.names, "(unknown)", "(nobody)"], _most_slots(part, reading)
        resampled = crosstabs.resampled_users(codes, names, call.interval, call.seed, items, slots, part.where)
        permuted = {
            pair: PermutedPair.from_codes(
                codes, pair, self.deals, call.seed, items, slots, (*part.where, *map(sides.name, pair))
            )
            for pair in sides.pairs
        }
        cells = dict(zip(self.opened.sliced_by.names, part.where, strict=True))

        def measured(lists: UserLists) -> tuple[Crosstab, list[Row]]:
            everywhere = reading.allows_any_item(part)
            total = Crosstab.from_lists(lists, codes, sides.groups, items, cut=reading.shows, everywhere=everywhere)
            replicates = ResampledLists(lists, resampled) if resampled else None
            return total, self._rows(total, replicates, permuted, cells)

        total, rows = measured(lists)
        if other_lists is not None:
            judging = {a.text for a in self.metrics if "truth" in a.reads}
            pairs = zip(rows, measured(other_lists)[1], strict=True)
            rows = [judged if judged["metric"] in judging else unjudged for judged, unjudged in pairs]
        users = total.mark("users")
        sizes = {name: int(users[i]) for i, name in enumerate(sides.names)}
        unknown = int(users[sides.unknown]) if sides.names else 0
        facts = {
            "items": None if part.where and part.user_count < call.min_units else items,
            "groups": hidden_sizes(
                {**sizes, **({"(unknown)": unknown} if unknown else {})}, call.min_units, parts=True
            ),
            "interval": _interval_words(call.interval, resampled, self.metrics),
        }
        counts = {
            "users": part.user_count, "users_with_ties": int(lists.tied.sum()),
            "users_shown_nothing": int((users - total.mark("viewers")).sum()),
            "slots": float((total.counts if reading.shows else total.mark("cells")).sum()),
        }  # fmt: skip
        return Part(part, total, rows, self._part_curves(total, part), facts, counts)

    def _rows(
        self, total: Crosstab, replicates: ResampledLists | None, permuted: Mapping[Pair, PermutedPair],
        cells: Mapping[str, Any],
    ) -> list[Row]:  # fmt: skip
        """A row per metric, and per pair of groups where the metric compares two."""
        questions, lists, call = self.questions(), total.counted_lists, self.call
        draws = [np.full(1, np.nan)] * len(questions) if replicates is None else values(replicates, total, questions)
        users, is_tied = total.mark("users"), lists.tied.any()
        few = [0 < n < call.min_units for n in users.tolist()]  # nobody has the labels that stand for none
        rows, claimed = [], claimed_metrics(self.metrics)
        for q, drawn, chance in zip(questions, draws, _chances(total, questions, permuted), strict=True):
            a, tally = q.ask, total if q.pair is None else total.between(*q.pair)
            estimate = float(q.on(total))
            tied = "ties_at_cut" if is_tied and "shown" in a.reads else ""
            group_users = [int(users.sum())] if q.pair is None else [int(users[g]) for g in q.pair]
            gives_away = q.pair is None and any(few)  # all users less those of the large groups
            shown_users = None if gives_away else sum(group_users)
            ends = crosstabs.ends(q, total, estimate, drawn, call.interval, min(group_users), chance)
            cautions = _cautions(a, estimate, ends, tied, call.interval)
            note = a.card.reason(tally, **a.params) if np.isnan(estimate) else cautions
            is_claimed = q.pair is not None and a.text in claimed and not np.isnan(estimate)
            p = _p(q, permuted[q.pair], lists, estimate, chance) if q.pair and is_claimed else None
            least, most = a.metric.attainable_on(tally, **a.params)
            r = row(
                cells, a.text, estimate=estimate, low=ends[0], high=ends[1], chance=_mean_chance(a, chance), p=p,
                ideal=a.ideal, better=a.better, units=shown_users, rests_on=min(group_users), note=note, least=least, most=most,
                undefined_draws=0 if replicates is None else int(np.isnan(drawn).sum()),
                convention=a.params.get("convention"), **self.labels(q.pair),
            )  # fmt: skip
            if call.min_units > 1 and q.pair and a.card.name in MEANS:
                r["influence"] = _influence(q, permuted[q.pair], lists, estimate)
            small = sum(group_users) < call.min_units if q.pair is None else any(few[g] for g in q.pair)
            rows.append(suppressed(r) | {"p": None, "least": math.nan, "most": math.nan} if small else r)
        return rows

    def _part_curves(self, total: Crosstab, part: Slice) -> dict[str, Points]:
        """Lorenz curve of times shown, and items whose share differs most between two groups."""
        curves: dict[str, Points] = {}
        users, fewest, pairs = total.mark("users"), self.call.min_units, self.sides.pairs
        if not total.cut or not any("shown" in a.reads for a in self.metrics):
            return curves
        if total.popularity.any() and users.sum() >= fewest:
            curves["lorenz"] = lorenz_points(total, fewest=fewest)
        if not pairs or min(users[list(pairs[0])]) < max(1, fewest):
            return curves
        shown = total.between(*pairs[0]).exposure()
        a, b = (counts / counts.sum() if counts.sum() else counts for counts in shown)
        shareable = np.all([(counts == 0) | (counts >= fewest) for counts in shown], axis=0)  # others tell of few users
        gap = np.where(shareable, np.abs(a - b), 0.0)
        widest = np.argsort(-gap, kind="stable")[:30]  # as many as a picture can name
        widest = widest[gap[widest] > 0]
        versus, protected = (self.sides.name(side) for side in pairs[0])
        curves["differences"] = {
            "item": [self.opened.item_name(part, int(i)) for i in widest],
            "versus_share": a[widest].tolist(), "protected_share": b[widest].tolist(),
            "versus": [versus] * len(widest), "protected": [protected] * len(widest),
        }  # fmt: skip
        return curves


MOST_PAIRS = 5_000
"""Pairs of groups with rows of their own, those of 100 groups: more are ids taken for groups."""

MOST_COMPARISONS = 20_000_000
"""Pairs of groups times items that are compared under all draws in about a minute."""


def _cautions(a: MetricSpec, estimate: float, ends: tuple[float, float], tied: str, how: Interval) -> str | None:
    """Notes on a defined value: ties, what makes it or its interval infinite, and why there is no interval."""
    still = "no_lone_user" if a.smooth and math.isnan(ends[0]) and how.kind != "none" else ""
    open_end = "infinite_draws" if math.isinf(ends[1]) and math.isfinite(estimate) else ""
    return notes(a.caution(estimate), tied, still, open_end)


def _mean_chance(a: MetricSpec, chance: Floats | float) -> float:
    """The mean by chance; none of a metric without an upper end, whose mean would be infinite."""
    draws = np.atleast_1d(chance)
    draws = draws[~np.isnan(draws)]
    return float(draws.mean()) if len(draws) and (np.ndim(chance) == 0 or np.isfinite(a.span[1])) else math.nan


def _chances(
    total: Crosstab, questions: Sequence[Question], permuted: Mapping[Pair, PermutedPair]
) -> list[Floats | float]:
    """Chance level of each question: a number, draws under permuted labels, or NaN."""
    chances = [q.ask.by_chance(total if q.pair is None else total.between(*q.pair)) for q in questions]
    for pair, users in permuted.items():
        at = [i for i, q in enumerate(questions) if q.ask.card.shuffled and q.pair == pair]
        if at and (lists := users.lists(total.counted_lists)):
            for i, draws in zip(at, values(lists, total, [questions[i] for i in at]), strict=True):
                chances[i] = draws
    return chances


MEANS = {
    "mad": ("score", "cells"), "precision_ratio": ("precision", "viewers"), "recall_ratio": ("recall", "seekers"),
    "f1_ratio": ("f1", "either"), "rmse_ratio": ("square", "rated"), "mae_ratio": ("absolute", "rated"),
}  # fmt: skip
"""What each metric averages over users, and over how many; those of lists over all users unless some are skipped."""

QUALITY = {
    "precision_ratio": "mean precision", "recall_ratio": "mean recall", "f1_ratio": "mean F1", "rmse_ratio": "RMSE",
    "mae_ratio": "mean absolute error",
}  # fmt: skip
"""How well users are served, in words; a result claims something about the first of them only."""


def claimed_metrics(metrics: Sequence[MetricSpec]) -> dict[str, str]:
    """The metrics that claims are about, by their text: what is shown, scores, and one measure of quality."""
    first = {a.card.name: a.text for a in reversed(metrics)}
    quality = next((name for name in QUALITY if name in first), None)
    return {first[name]: name for name in ("exposure_tv", "mad", quality) if name in first}


def _p(q: Question, users: PermutedPair, lists: UserLists, estimate: float, chance: Floats | float) -> float | None:
    """Two-sided p of a claim about two groups: by permuted labels of their users."""
    name = q.ask.card.name
    if name == "exposure_tv":
        return users.p_of_distance(estimate, np.asarray(chance)) if np.ndim(chance) else None
    p = users.p_of_means(*_averaged(q.ask, users, lists))
    return None if math.isnan(p) else p


def _averaged(a: MetricSpec, users: PermutedPair, lists: UserLists) -> list[Floats]:
    mark, over = MEANS[a.card.name]
    over = "users" if a.settled("zero_division") == 0 else over
    return [lists.marks[users.users, AT[column]] for column in (mark, over)]


def _influence(q: Question, users: PermutedPair, lists: UserLists, estimate: float) -> float:
    """The largest change that leaving out one user makes to a difference or ratio of two means."""
    sums = np.column_stack(_averaged(q.ask, users, lists))
    sides = sums[users.is_second], sums[~users.is_second]
    with np.errstate(all="ignore"):
        moves = [influence_of_requests(lambda total: total[..., 0] / total[..., 1], side) for side in sides]
        means = [float(side[:, 0].sum() / side[:, 1].sum()) for side in sides]
    if q.ask.card.name == "mad":
        return max(moves)
    return max((abs(estimate) * move / abs(mean) for move, mean in zip(moves, means, strict=True) if mean), default=0.0)


def _claims(rows: Sequence[Row], slices: Sequence[str], metrics: Sequence[MetricSpec], call: Call) -> list[Candidate]:
    candidates, names = [], claimed_metrics(metrics)
    for r in rows:
        if r.get("p") is None:
            continue
        a, b, name = r["versus"], r["protected"], names[r["metric"]]
        above = r["estimate"] > r["ideal"]
        if name == "exposure_tv":
            direction: Direction = "differs"
            text, subject = f"{b} and {a} are shown different items", f"what {b} and {a} are shown"
        elif name == "mad":
            direction = direction_of(r["estimate"])
            high, low = (a, b) if above else (b, a)
            text = (
                f"scores are higher for {high} than for {low}, by {abs(call.published(r['estimate'], r['units'])):.3g}"
            )
            subject = f"the scores of {b} and {a}"
        else:
            direction, what = direction_of(r["estimate"] - r["ideal"]), QUALITY[name]
            high, low = (b, a) if above == (r["convention"] is None) else (a, b)  # other tools have a over b
            text, subject = f"{what} is higher for {high} than for {low}", f"the {what} of {b} and {a}"
        otherwise = f"no significant difference between {subject}"
        where = {s: r[s] for s in slices}
        candidates.append(Candidate(r["p"], direction, text, otherwise, r["metric"], r["group"], where))
    return candidates


def _most_slots(part: Slice, reading: Reading) -> float:
    return float(min(part.facts.cells, part.user_count * (reading.shown.top or part.item_count)))


def _interval_words(how: Interval, resampled: Resampled | None, metrics: Sequence[MetricSpec]) -> str:
    if resampled is None:
        return "none"
    unfit = f" ({how.draws:,} would not fit)" if resampled.draws < how.draws else ""
    jackknife = "".join(f"; {a.text}: jackknife over users" for a in metrics if a.smooth)
    return f"{'normal' if unfit else how.kind}, {resampled.draws:,} draws of users within their group{unfit}{jackknife}"
