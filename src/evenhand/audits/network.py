"""Is it the algorithm or the network? Inequality of exposure split into followers, wiring and ranking."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from evenhand.audits.declare import (
    FILES,
    By,
    Call,
    Count,
    Level,
    Metrics,
    Seed,
    Table,
    Takes,
    audit,
    log,
    refuse_many_slices,
)
from evenhand.audits.min_units import enough, suppressed
from evenhand.cards import Between, Floats, MetricSpec, needing, parse_metrics
from evenhand.claims import Candidate, direction_of
from evenhand.errors import EvenhandError, all_problems
from evenhand.findings import Row, row
from evenhand.intervals.kinds import FEW_UNITS, MIN_UNITS, t_quantile
from evenhand.labels import stream, whole_labels
from evenhand.metrics.outcome import two_sided
from evenhand.report.words.phrases import metric_title
from evenhand.results import Result
from evenhand.sources.engine import Cells
from evenhand.sources.logs import Edges, Legend, NanPolicy, units_of
from evenhand.sources.opening import open_table
from evenhand.sources.relation import Bins, missing_columns, slicing
from evenhand.tallies.follows import Follows
from evenhand.tallies.ragged import Bools, Ints, starts_of
from evenhand.tallies.spectrum import Label, Spectrum

AT_ONCE = 1 << 22
"""Impressions drawn, and pairs of steps walked, at a time."""


def swap_once(source: Ints, target: Ints, people: int, rng: np.random.Generator) -> tuple[Ints, int]:
    """Targets after every edge was tried with one other: the two swap targets where that leaves a simple graph.

    A pair is refused if any edge that it has or would have is an edge that another pair has or would have: the rule is the same
    for the step back, so that all graphs with these degrees stay equally likely.
    """
    order = rng.permutation(len(source))
    half = len(order) // 2
    a, b = order[:half], order[half : 2 * half]
    keys = source * people + target
    changed = source[a] * people + target[b], source[b] * people + target[a]
    every = np.sort(np.concatenate([keys, *changed]))
    shared = np.unique(every[1:][every[1:] == every[:-1]])
    is_free = (source[a] != target[b]) & (source[b] != target[a])
    for edge in (*changed, keys[a], keys[b]):
        is_free &= ~np.isin(edge, shared)
    swapped = target.copy()
    swapped[a[is_free]], swapped[b[is_free]] = target[b[is_free]], target[a[is_free]]
    return swapped, int(is_free.sum())


def within_reach(starts: Ints, target: Ints, viewers: Ints, reach: int) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Batches of viewers, where the people that they could be shown start, and these people.

    With `reach` 2 also those followed by whom they follow, themselves excluded.
    """
    degree = np.diff(starts)
    if reach == 1:
        lengths = degree[viewers]
        picks = np.repeat(starts[viewers] - starts_of(lengths)[:-1], lengths) + np.arange(lengths.sum())
        yield viewers, starts_of(lengths), target[picks]
        return
    from scipy.sparse import coo_matrix, csr_matrix

    people = len(degree)
    graph = csr_matrix((np.ones(len(target), dtype=np.int8), target, starts), shape=(people, people))
    steps = np.bincount(np.repeat(np.arange(people), degree), degree[target], people) + degree
    batch = np.cumsum(steps[viewers]) // AT_ONCE
    for part in np.split(viewers, np.flatnonzero(np.diff(batch)) + 1):
        near = graph[part]
        both = coo_matrix(near + near.astype(np.int32) @ graph.astype(np.int32))
        is_other = both.col != part[both.row]
        order = np.lexsort((both.col[is_other], both.row[is_other]))
        lengths = np.bincount(both.row[is_other], minlength=len(part))
        yield part, starts_of(lengths), both.col[is_other][order].astype(np.int64)


def neutral(
    starts: Ints, shown: Ints, viewer: Ints, many: Ints, cell: Ints, shape: tuple[int, int], rng: np.random.Generator
) -> Ints:
    """(cells, people) impressions when each goes to anyone in reach with equal chance.

    `viewer` is the place of a viewer in `starts`, `many` its impressions, `cell` where they are counted.
    """
    totals = np.zeros(shape[0] * shape[1], dtype=np.int64)
    degree = np.diff(starts)
    for part in np.split(np.arange(len(viewer)), np.flatnonzero(np.diff(np.cumsum(many) // AT_ONCE)) + 1):
        at = np.repeat(part, many[part])
        pick = starts[viewer[at]] + (rng.random(len(at)) * degree[viewer[at]]).astype(np.int64)
        totals += np.bincount(cell[at] * shape[1] + shown[pick], minlength=len(totals))
    return totals.reshape(shape)


PARTS = ("observed", "followers", "wiring", "ranking")
FOLLOWERS = "followers"
"""Units may be cut into bins of this, although no table holds it: the number of their followers."""

SWEEPS = 20
"""Times that every edge is tried with another before the first rewired graph: ten swaps an edge."""

MOST_IMPRESSIONS = 10_000_000
"""Of one viewer and slice: drawn at once, 0.3 GB. More are no impressions of a person."""
BUCKETS = 30
"""Parts of the viewers that are left out in turn, for intervals."""

LEFT_OUT = 5
"""Draws of each neutral world in which parts of the viewers are left out."""

EdgeTable = Annotated[Any, Takes("FILE", table=True, files=FILES, named=True)]
Draws = Annotated[int, Between(9, 10_000)]
Steps = Annotated[int, Between(1, 2)]


@audit(
    "network",
    question="Is it the ranking or the network?",
    charts=("layers", "intervals"),
    extra=("p", "p_adjusted"),
    stands_for="The interval is for other viewers like these, shown these same {units}.",
)
def network(
    call: Call,
    table: Table,
    edges: EdgeTable,
    *,
    unit: str,
    amount: str | None,
    viewer: str,
    follower: str = "follower",
    followed: str = "followed",
    reach: Steps = 1,
    by: By = None,
    metrics: Metrics = "gini",
    draws: Draws = 99,
    interval: Literal["auto"] | None = "auto",
    level: Level = 0.95,
    rng: Seed = None,
    min_units: Count | None = None,
    nan_policy: NanPolicy = "raise",
) -> Result:
    """Inequality of exposure over authors, split into what followers, wiring and ranking make of it.

    `observed` = `followers` + `wiring` + `ranking` (column `part`). `followers`: every viewer has as many impressions as in the
    log, each of somebody in reach with equal chance, on a graph rewired with everybody's numbers of followers and followees
    kept. `wiring`: what the real graph adds to that. `ranking`: what the log adds to a neutral ranking on the real graph.

    Parameters
    ----------
    table : a log of impressions: viewer, author, amount.
    edges : a table of who follows whom; repeated edges and those to oneself are left out and counted.
    unit : column with the id of who is shown (an author).
    amount : column with the number of impressions, or None to count rows.
    viewer : column of the log with the id of who sees; the same ids as in `edges`.
    follower, followed : columns of `edges`.
    reach : who could be shown: 1, those whom the viewer follows; 2, also those whom these follow.
    by : slice columns of the log (a source), or bins of authors by their followers: `eh.log_bins("followers", 5)`.
    draws : draws of each neutral world.
    interval : `"auto"` (leaving out parts of the viewers, and the error of the draws), or None.
    min_units : suppress slices with fewer units that received anything.
    metrics, level, rng, nan_policy : as in `eh.inequality`.

    Examples
    --------
    >>> import polars as pl
    >>> follows = pl.DataFrame({"follower": ["v", "v", "w", "w"], "followed": ["a", "b", "a", "b"]})
    >>> views = pl.DataFrame({"viewer": ["v", "w"] * 10, "author": ["a"] * 20})
    >>> found = network(views, follows, unit="author", amount=None, viewer="viewer", draws=9, interval=None, rng=1)
    >>> found.frame.select("part", "estimate").row(0)
    ('observed', 0.5)
    """
    specs = [a.coarse(call.min_units) for a in parse_metrics(metrics, needing(Spectrum))]
    slices, bins = _slices(by)
    read = units_of(
        table, unit=unit, amount=amount, population=None, by=slices, nan_policy=nan_policy, marks={"viewer": viewer}
    )
    whole = read.log.amounts[0]
    if not whole.integer:
        raise EvenhandError(f"amount={amount!r} holds fractions. Pass whole impressions, or None to count rows.")
    arcs = open_table(edges, role="edges", columns=[follower, followed], same_engine_as=read.log)
    if problems := missing_columns(arcs, [("follower", follower), ("followed", followed)], of="edges"):
        raise all_problems(problems)
    log.info("reading edges")
    graph = Follows.from_tables(read.log, whole, arcs, follower, followed)
    seen, lost = _seen(graph, read.log, whole, call.seed)
    legend, authors = _author_bins(graph, read.log.engine, bins)
    log.info("drawing neutral worlds")
    measure = Measure(specs, list(authors.values()), seen.buckets)
    worlds, swapped = _worlds(graph, seen, reach, draws, measure, call.seed)
    observed = seen.observed.reshape(len(seen.labels), seen.buckets, -1).sum(1)
    names = (*read.by, *([FOLLOWERS] if bins else []))
    rows: list[Row] = []
    for i, where in enumerate(seen.labels):
        for k, (name, members) in enumerate(authors.items()):
            labels = whole_labels([(*where, *([name] if bins else []))])[0]
            amounts = observed[i][members]
            rows += _rows(
                legend.cells(names, labels), (i, k), amounts, measure, worlds, call, level if interval else None
            )
    facts = {
        "reach": reach, "interval": "leaving out parts of the viewers in turn (jackknife), with the error of the draws"
        if interval else "none", "swaps": swapped,
    }  # fmt: skip
    counts = {"edges_repeated": graph.repeated, "edges_to_oneself": graph.loops, "viewers_without_edges": lost}
    words = {"unit": unit, "amount": amount or "rows"}
    return call.result(
        rows, claims=_claims(rows, (*names,)), backend=read.log.backend, read=read.log.rows, dropped=read.log.dropped,
        slices=(*names, "part"), columns=(*legend.columns(names), "part"), words=words, facts=facts, counts=counts,
    )  # fmt: skip


def _slices(by: Any) -> tuple[list[str], Bins | None]:
    """Slices of the log, and bins of authors by their followers."""
    sliced = slicing(by)
    if any(b.column != FOLLOWERS for b in sliced.bins) or len(sliced.bins) > 1:
        raise EvenhandError(
            f"by={by!r} bins another number than {FOLLOWERS!r}. Bin authors by their followers: eh.log_bins('{FOLLOWERS}', 5)."
        )
    bins = next(iter(sliced.bins), None)
    return [text for text in sliced.words if text != str(bins)], bins


@dataclass(frozen=True)
class Seen:
    """Impressions of viewers with edges: `viewer`, slice (`part`) and `bucket` of viewers of each row, and how many it has.

    `observed` are (slices x buckets, people) amounts received.
    """

    labels: list[Label]
    viewers: Ints
    viewer: Ints
    many: Ints
    part: Ints
    bucket: Ints
    buckets: int
    observed: Ints


def _seen(graph: Follows, read: Any, amount: Any, seed: Any) -> tuple[Seen, int]:
    """What viewers with edges saw, in random buckets of viewers; and how many viewers have none."""
    labels, part, viewer, many = graph.impressions(read, amount)
    refuse_many_slices("network", len(labels))
    has_edges = graph.out_degree[viewer] > 0
    lost = len(np.unique(viewer[~has_edges]))
    part, viewer, many = part[has_edges], viewer[has_edges], many[has_edges]
    viewers, place = np.unique(viewer, return_inverse=True)
    if not len(viewers):
        raise EvenhandError(
            "No viewer of the log follows anyone in edges. Pass edges of the same people: the ids must be the same."
        )
    if many.max() > MOST_IMPRESSIONS:
        raise EvenhandError(
            f"A viewer has {many.max():,} impressions in amount={amount!r}, and each is drawn anew. Pass a column that counts "
            f"impressions, at most {MOST_IMPRESSIONS:,} per viewer, or None to count rows."
        )
    buckets = max(1, min(BUCKETS, len(viewers)))
    dealt = stream(seed, "network", "buckets").permutation(len(viewers)) % buckets
    table = Cells.from_columns({"viewer": viewers, "bucket": dealt})
    slices, codes, bucket, author, amounts = graph.received(read, amount, table)
    at = np.array([labels.index(label) for label in slices], dtype=np.int64)[codes]
    cells = (at * buckets + bucket) * graph.people + author
    observed = np.bincount(cells, amounts, len(labels) * buckets * graph.people).astype(np.int64)
    shape = len(labels) * buckets, graph.people
    return Seen(list(labels), viewers, place, many, part, dealt[place], buckets, observed.reshape(shape)), lost


def _author_bins(graph: Follows, engine: Any, bins: Bins | None) -> tuple[Legend, dict[Any, Bools]]:
    """Which people are units, by bin of their followers where bins are wanted."""
    if bins is None:
        return Legend(), {None: graph.is_unit}
    values = engine.bring(Cells.from_columns({"value": graph.in_degree[graph.is_unit].astype(np.float64)}))
    edges = Edges.from_values(engine, values, bins)
    codes = np.searchsorted(edges.inner, graph.in_degree)
    members = {name: graph.is_unit & (codes == code) for code, name in enumerate(edges.names)}
    return Legend({FOLLOWERS: edges}), members


@dataclass(frozen=True)
class Measure:
    """Every metric of every slice and bin of authors; a world of a million authors is measured and forgotten."""

    specs: Sequence[MetricSpec]
    members: Sequence[Bools]
    buckets: int

    def values(self, totals: Any) -> Floats:
        """(slices, bins, metrics) for amounts (slices, people)."""
        return np.array([[self._of(x[members]) for members in self.members] for x in totals])

    def without(self, by_bucket: Any) -> Floats:
        """(buckets, slices, bins, metrics) without each bucket of viewers, for amounts (slices, buckets, people)."""
        whole = by_bucket.sum(1)
        return np.array([self.values(whole - by_bucket[:, b]) for b in range(self.buckets)])

    def _of(self, amounts: Any) -> list[float]:
        spectrum = Spectrum.from_arrays(amounts)
        return [float(a.on(spectrum)) for a in self.specs]


@dataclass(frozen=True)
class World:
    """(draws, slices, bins, metrics) values, and (few draws, buckets, ...) those without each bucket of viewers."""

    values: Floats
    without: Floats


def _worlds(
    graph: Follows, seen: Seen, reach: int, draws: int, measure: Measure, seed: Any
) -> tuple[dict[str, World], str]:
    """The log, neutral rankings on the real graph and on rewired ones; and how the rewiring went."""
    rng = stream(seed, "network", "worlds")
    slices, people = len(seen.labels), graph.people
    observed = seen.observed.reshape(slices, seen.buckets, people)
    worlds = {"observed": World(measure.values(observed.sum(1))[None], measure.without(observed)[None])}

    def measured(batches: Sequence[tuple[Ints, Ints, Ints]], number: int) -> tuple[Floats, list[Floats]]:
        """One draw, by bucket while `number` is small."""
        by_bucket = number < LEFT_OUT
        cell = seen.part * seen.buckets + seen.bucket if by_bucket else seen.part
        shape = (slices * seen.buckets if by_bucket else slices, people)
        totals, first = np.zeros(shape, dtype=np.int64), 0
        for viewers, starts, shown in batches:
            rows = np.flatnonzero((seen.viewer >= first) & (seen.viewer < first + len(viewers)))
            totals += neutral(starts, shown, seen.viewer[rows] - first, seen.many[rows], cell[rows], shape, rng)
            first += len(viewers)
        if not by_bucket:
            return measure.values(totals), []
        parts = totals.reshape(slices, seen.buckets, people)
        return measure.values(parts.sum(1)), [measure.without(parts)]

    real = list(within_reach(graph.starts, graph.followed, seen.viewers, reach))
    worlds["real"] = _world([measured(real, i) for i in range(draws)])
    source, target = np.repeat(np.arange(people), graph.out_degree), graph.followed
    many = draws if len(source) <= 1_000_000 else min(draws, max(2 * LEFT_OUT, 50_000_000 // len(source)))
    rewired, tried, swapped = [], 0, 0
    for i in range(many):
        for _ in range(SWEEPS if i == 0 else 2):
            target, accepted = swap_once(source, target, people, rng)
            tried, swapped = tried + len(source) // 2, swapped + accepted
        rewired.append(measured(list(within_reach(graph.starts, target, seen.viewers, reach)), i))
    worlds["rewired"] = _world(rewired)
    return worlds, f"{swapped:,} of {tried:,} tried were possible; {many:,} rewired graphs"


def _world(drawn: Sequence[tuple[Floats, list[Floats]]]) -> World:
    left = [x for _, without in drawn for x in without]
    return World(np.array([values for values, _ in drawn]), np.array(left))


def _rows(
    cells: Mapping[str, Any], at: tuple[int, int], amounts: Any, measure: Measure, worlds: Mapping[str, World], call: Call,
    level: float | None,
) -> list[Row]:  # fmt: skip
    rows, buckets = [], measure.buckets
    spectrum = Spectrum.from_arrays(amounts)
    few = float(spectrum.receivers) < enough(call.min_units, measure.specs)
    for i, a in enumerate(measure.specs):
        values = [world.values[:, *at, i] for world in worlds.values()]
        estimate = _parts(np.array([v.mean() for v in values]))
        low = high = p = np.full(4, np.nan)
        if level is not None and buckets >= MIN_UNITS:
            error = _errors([world.without[..., *at, i] for world in worlds.values()], values)
            step = t_quantile(level, buckets) * error
            with np.errstate(divide="ignore", invalid="ignore"):
                low, high, p = estimate - step, estimate + step, two_sided(estimate / error, buckets - 1)
        why = a.card.reason(spectrum, **a.params) if math.isnan(estimate[0]) else ""
        note = why or ("" if level is None or buckets >= FEW_UNITS else "few_units")
        for k, name in enumerate(PARTS):
            ends = [float(np.clip(x[k], *a.span) if k < 2 else x[k]) for x in (low, high)]
            whole = {"ideal": a.ideal, "better": a.better} if k == 0 else {}
            r = row(
                {**cells, "part": name}, a.text, estimate=float(estimate[k]), low=ends[0], high=ends[1], units=len(amounts),
                p=float(p[k]) if k >= 2 else math.nan, note=note or None, **whole,
            )  # fmt: skip
            rows.append(suppressed(r) | {"p": math.nan} if few else r)
    return rows


def _parts(values: Floats) -> Floats:
    """Observed, followers, wiring and ranking, from the metric in the log, the real and the rewired graph."""
    observed, real, rewired = values
    return np.array([observed, rewired, real - rewired, observed - real]) + 0.0  # -0.0 is zero


def _errors(without: Sequence[Floats], values: Sequence[Floats]) -> Floats:
    """(parts,) standard errors for other viewers and other draws.

    The jackknife over buckets of viewers counts the chance of single impressions about twice (it is quadratic in a metric of counts);
    what it makes of it in draws of the real graph is taken off, and what these draws vary by is put in its place.
    """
    spread = _jackknife(_parts(np.array([x.mean(0) for x in without])))
    real = without[1]
    of_draws = (_jackknife(real).mean() - _jackknife(real.mean(0))) * len(real) / (len(real) - 1)
    times = np.array([1.0, 1 / len(real), 2 / len(real), 1 + 1 / len(real)])  # single draws in each part
    noise = [v.var(ddof=1) for v in values[1:]]
    means = [v / len(of_world) for v, of_world in zip(noise, values[1:], strict=True)]
    drawn = np.array([noise[0], means[1], means[0] + means[1], noise[0] + means[0]])
    return np.asarray(np.sqrt(np.maximum(spread - times * of_draws, 0.0) + drawn))


def _jackknife(left: Floats) -> Floats:
    """Variance of what (..., buckets) values without each bucket stand for."""
    buckets = left.shape[-1]
    return np.asarray((buckets - 1) / buckets * ((left - left.mean(-1, keepdims=True)) ** 2).sum(-1))


def _claims(rows: Sequence[Row], names: Sequence[str]) -> Iterator[Candidate]:
    subject = {"wiring": "who follows whom", "ranking": "the ranking"}
    for r in rows:
        if r["part"] in subject and not math.isnan(r["p"]):
            where = {name: r[name] for name in (*names, "part")}
            lead = f"for {', '.join(str(r[name]) for name in names)}, " if names else ""
            title, who = metric_title(r["metric"]), subject[r["part"]]
            verb = "raises" if r["estimate"] > 0 else "lowers"
            yield Candidate(
                r["p"], direction_of(r["estimate"]), f"{lead}{who} {verb} the {title}",
                f"{lead}whether {who} raises or lowers the {title} is unclear", r["metric"], None, where,
            )  # fmt: skip
