"""Sums over judged requests and whole ranked lists: exposure due, cascade attention, norms over items, sums item by item.

One stream over whole requests, lists in the order of their places, adds up all that a call needs. Chance levels need
the lists themselves, of which a sample is enough (`SampledLists`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenhand.cards import Floats, MetricSpec
from evenhand.errors import EvenhandError
from evenhand.sources.sql import exact_sum, select
from evenhand.tallies.exposure import Amortised, AttentionSpec, GroupExposure, RequiredSums
from evenhand.tallies.ragged import Bools, Ints, padded_cells, run_bounds, run_starts, similar_rows, starts_of, sums_by

if TYPE_CHECKING:
    from evenhand.sources.engine import Batch, Cells
    from evenhand.sources.judged_rankings import JudgedRankings


@dataclass(frozen=True)
class ItemAttention:
    """Attention and predicted utility of every item in every request, weighted: sparse (Q, I)."""

    attention: Any
    utility: Any

    def totals(self, part: slice) -> Amortised:
        return Amortised(self.attention[part].sum(0)[None, :], self.utility[part].sum(0)[None, :])

    def resampled(self, part: slice, times: Floats) -> Amortised:
        """Totals with every request taken so many times: `times` is (requests, draws)."""
        attention, utility = (np.asarray((x[part].T @ times).T) for x in (self.attention, self.utility))
        return Amortised(attention, utility)

    def cells(self, part: slice) -> int:
        return int(self.attention[part].nnz + self.utility[part].nnz)

    def each(self, ask: MetricSpec) -> Floats:
        """(Q,) the metric of each request alone, over the items that the request shows or scores."""
        values = np.full(self.attention.shape[0], np.nan)
        starts = self.attention.indptr.astype(np.int64)  # both tables have the same cells
        for rows in similar_rows(np.diff(starts), 1 << 20):  # 8 MB
            at, inside = padded_cells(starts, rows)
            attention, utility = (
                np.where(inside, np.append(table.data, 0.0)[at], 0.0) for table in (self.attention, self.utility)
            )
            values[rows] = ask.on(Amortised(attention, utility))
        return values


@dataclass(frozen=True)
class JudgedRequests:
    """What is due to an item of each grade in the ranked requests.

    Attributes
    ----------
    requests : (U,) rows with the distinct ranked requests.
    grades : columns `number` (of the request), `relevance`, `due_0`, ...
    """

    requests: Cells
    grades: Mapping[str, Any]


def judge_requests(
    tables: JudgedRankings, exposure: GroupExposure, required: RequiredSums
) -> tuple[GroupExposure, JudgedRequests]:
    """Exposure with the judgments of every request (zeros where there is none), by one query.

    The ideal policy ranks by falling relevance with ties in random order, so what is due to an item depends on its request
    and grade alone: counts of items by request, grade and group are enough.
    """
    which, requests = exposure.keys.take(exposure.request_starts[:-1]).numbered(["request"])
    groups, specs = len(exposure.labels), required.among(required.due)
    cells = tables.engine.cells(judged_query(tables, groups, tables.engine.bring(requests)))
    cells = cells.sorted_by(["number", "falling"])
    number, grade, items = cells.integers("number"), -cells.floats("falling"), cells.floats("items")
    bounds = run_bounds(number, grade)  # cells of one request and grade
    first = bounds[:-1]
    block = np.repeat(np.arange(len(first)), np.diff(bounds))
    many = np.rint(sums_by(block, items, len(first))).astype(np.int64)
    owner = number[first]
    due = [due_by_grade(spec, many, grade[first], owner) for spec in specs]
    at, shape = number * (groups + 1) + cells.integers("code"), (len(requests), groups + 1)

    def sums(values: npt.NDArray[Any]) -> Floats:
        return np.asarray(sums_by(at, items * values, shape[0] * shape[1]).reshape(shape)[which])

    norms = [sums_by(owner, many * t * t, len(requests))[which] for t in due]
    exposure = replace(
        exposure,
        judged=np.isin(which, owner),
        worth=sums(grade),
        relevant=sums(grade > 0),
        due={spec: sums(t[block]) for spec, t in zip(specs, due, strict=True)},
        due_norms=dict(zip(specs, norms, strict=True)),
    )
    columns = {f"due_{j}": t for j, t in enumerate(due)}
    return exposure, JudgedRequests(requests, {"number": owner, "relevance": grade[first], **columns})


def judged_query(tables: JudgedRankings, groups: int, numbers: str) -> str:
    """SQL of items by request, grade and group `code`, of the ranked requests in `numbers`."""
    items = exact_sum("judged.share") if tables.soft else "COUNT(*)"
    return f"""
    SELECT numbers.number, -counted.relevance AS falling, COALESCE(counted.label, {groups}) AS code, counted.items
    FROM (
        SELECT judged.request, judged.relevance, judged.label, CAST({items} AS DOUBLE) AS items
        FROM ({tables.judged_items}) AS judged
        GROUP BY judged.request, judged.relevance, judged.label
    ) AS counted
    JOIN {numbers} AS numbers ON numbers.request = counted.request
    """


def due_by_grade(spec: AttentionSpec, many: Ints, grade: Floats, request: Ints) -> Floats:
    """(blocks,) mean attention on the ranks of each request and grade, best grade first.

    `many` items are in each block. Items that tie have the same grade, so whoever stands where, the weights of their ranks
    are the same and each gets their mean.
    """
    if not len(many):
        return np.zeros(0)
    heads = run_bounds(request)
    going_on, survival = np.ones(len(many)), np.ones(len(many))
    for stopped_at, share in spec.attention.keeps().items():
        hit = grade > 0 if stopped_at is None else grade == stopped_at
        going_on = np.where(hit, share, going_on)
        survival = survival * share ** _above(np.where(hit, many, 0), heads).astype(np.float64)
    return survival * _mean_weights(spec, _above(many, heads), many, going_on)


def _above(many: Ints, heads: Ints) -> Ints:
    """(blocks,) items in better blocks of the same request; requests begin at `heads`."""
    before = np.cumsum(many) - many
    return np.asarray(before - np.repeat(before[heads[:-1]], np.diff(heads)))


def _mean_weights(spec: AttentionSpec, above: Ints, many: Ints, going_on: Floats) -> Floats:
    """(blocks,) mean weight of `many` ranks below `above`; a share of readers goes on each time.

    Blocks of the same ranks are worked out once: there are far fewer of them than items.
    """
    shares, share = np.unique(going_on, return_inverse=True)
    longest = int(many.max()) + 1
    distinct, which = np.unique((above * longest + many) * len(shares) + share.reshape(-1), return_inverse=True)
    first, sizes = np.divmod(distinct // len(shares), longest)
    ends = np.cumsum(sizes)
    within = np.arange(ends[-1]) - np.repeat(ends - sizes, sizes)
    weights = spec.by_place(int((first + sizes).max()))[np.repeat(first, sizes) + within]
    weights = weights * np.repeat(shares[distinct % len(shares)], sizes) ** within.astype(np.float64)
    return np.asarray((np.add.reduceat(weights, ends - sizes) / sizes)[which.reshape(-1)])


def refuse_strangers(exposure: GroupExposure, first_judged: Any) -> None:
    """Judgments of other requests than those ranked are a mistake in the ids, not a finding."""
    none = exposure.judged is not None and not exposure.judged.any()
    if none and first_judged is not None and len(exposure.requests):
        raise EvenhandError(
            f"relevance judges none of the ranked requests: it has {first_judged!r}, the rankings have "
            f"{exposure.requests[0]!r}. Use the same request ids in both."
        )


@dataclass(frozen=True)
class ListSums:
    """Sums over the lists of a batch; every part as rows of a sparse table.

    Attributes
    ----------
    cells : rankings times groups and one, plus the group; sums : by ("attention" or "gain", attention).
    requests : numbers of requests; norms : by attention, (n, 5) as `GroupExposure.norms`.
    items : by (attention, pooled), request, item, attention and utility.
    """

    cells: Ints
    sums: Mapping[tuple[str, AttentionSpec], Floats]
    requests: Ints
    norms: Mapping[AttentionSpec, Floats]
    items: Mapping[tuple[AttentionSpec, bool], tuple[Ints, Ints, Floats, Floats]]


def sum_lists(
    tables: JudgedRankings, exposure: GroupExposure, required: RequiredSums, judged: JudgedRequests | None, items: str
) -> list[ListSums]:
    """One stream over whole requests; `items` is a table of items and their numbers, or nothing."""
    keys = exposure.keys.with_column("ranking", np.arange(len(exposure.probability)))
    keys = keys.with_column("request_number", exposure.request_of)
    relevance = tables.judged is not None and any(not spec.is_by_rank for spec in required.specs)
    present = [name for name in ("shown", "score", "probability") if name in tables.types]
    chosen = {"request_number": "CAST(keys.request_number AS INTEGER)"} | {name: f"ranked.{name}" for name in present}
    joins = []
    if items:
        chosen["item"] = "items.number"
        joins.append(f"JOIN {items} AS items ON items.item = ranked.item")
    if judged is not None and required.items and required.due:
        numbers, due = tables.engine.bring(judged.requests), tables.engine.bring(judged.grades)
        chosen |= {f"due_{j}": f"COALESCE(due.due_{j}, 0)" for j in range(len(required.due))}
        joins.append(
            f"LEFT JOIN ({tables.judged}) AS target ON target.request = ranked.request AND target.item = ranked.item"
        )
        joins.append(f"LEFT JOIN {numbers} AS numbers ON numbers.request = ranked.request")
        joins.append(f"LEFT JOIN {due} AS due ON due.number = numbers.number AND due.relevance = target.relevance")
    groups = len(exposure.labels)
    text = _rows_query(tables, tables.engine.bring(keys), groups, chosen, joins, relevance=relevance)
    add = partial(_sum_batch, required=required, groups=groups, soft=tables.soft)
    return tables.engine.tallied(text, ["request_number"], ["ranking", "place"], add)


def _rows_query(
    tables: JudgedRankings, keys: str, groups: int, more: Mapping[str, str], joins: Sequence[str], *, relevance: bool
) -> str:
    """SQL of the rows of the rankings in the table `keys`, which numbers them; `more` columns come from `joins`."""
    # Narrow columns: all rows of the rankings are sorted, in memory where they fit.
    codes = {"ranking": "keys.ranking", "place": "ranked.place", "code": f"COALESCE(ranked.label, {groups})"}
    chosen = {name: f"CAST({code} AS INTEGER)" for name, code in codes.items()} | dict(more)
    if tables.soft:
        chosen["share"] = "ranked.share"
    if relevance:
        chosen["relevance"] = f"COALESCE({tables.relevance}, 0)"
    joined = "\n    ".join([f"JOIN {keys} AS keys ON {tables.same_ranking('ranked', 'keys')}", *joins])
    return f"""
    SELECT {select(chosen)}
    FROM {tables.source(relevance=relevance)}
    {joined}
    """


def _sum_batch(batch: Batch, required: RequiredSums, groups: int, *, soft: bool) -> ListSums:
    rows = ListRows.from_batch(batch, required, soft=soft)
    return ListSums(
        *rows.by_group(required, groups),
        batch.integers("request_number")[batch.starts[:-1]],
        {attention: rows.item_norms(attention, batch) for attention in required.among(required.items)},
        {key: rows.by_item(*key) for key in required.by_item},
    )


@dataclass(frozen=True)
class ListRows:
    """Rows of whole lists, by place; an item that is shared among groups has a row for each.

    Attributes
    ----------
    ranking, request, code : numbers of the ranking, the request and the group.
    weights : by attention, what is paid to each row's item; nothing to those in no list.
    first : whether a row is the first of its item in the list.
    item, relevance, score, probability : where there are any. due : by attention, what is due to the item.
    """

    ranking: Ints
    request: Ints
    code: Ints
    share: Floats
    shown: Floats
    weights: Mapping[AttentionSpec, Floats]
    first: Bools
    item: Ints | None
    relevance: Floats | None
    score: Floats | None
    probability: Floats
    due: Mapping[AttentionSpec, Floats] = field(default_factory=dict)

    @classmethod
    def from_batch(cls, batch: Batch, required: RequiredSums, *, soft: bool) -> ListRows:
        ranking, place, names = batch.integers("ranking"), batch.integers("place"), set(batch.names)

        def column(name: str) -> Floats | None:
            return batch.floats(name) if name in names else None

        shown, relevance, probability = column("shown"), column("relevance"), column("probability")
        seen = np.ones(len(batch), dtype=bool) if shown is None else shown > 0
        item = batch.integers("item") if "item" in names else None
        first = np.ones(len(batch), dtype=bool)
        if soft:  # rows of one item in one list follow each other, unless others that are in no list come between
            order = np.lexsort([np.arange(len(batch)), place if item is None else item, ~seen, ranking])
            named = place if item is None else item
            repeated = (np.diff(ranking[order]) == 0) & (np.diff(named[order]) == 0) & (np.diff(seen[order]) == 0)
            first[order[1:][repeated]] = False
        weights = list_attention(required.by_list, ranking, place, relevance, seen, first)
        targets = required.among(required.due) if "due_0" in names else []
        due = {attention: batch.floats(f"due_{j}") for j, attention in enumerate(targets)}
        return cls(
            ranking, batch.integers("request_number"), batch.integers("code"), batch.floats("share") if soft else np.ones(len(batch)),
            seen.astype(np.float64) if shown is None else shown, weights, first, item, relevance, column("score"),
            np.ones(len(batch)) if probability is None else probability, due,
        )  # fmt: skip

    def by_group(self, required: RequiredSums, groups: int) -> tuple[Ints, dict[tuple[str, AttentionSpec], Floats]]:
        """Sums of cascades by ranking and group; those by rank are the query's."""
        cells, at = np.unique(self.ranking * (groups + 1) + self.code, return_inverse=True)
        at = at.reshape(-1)
        sums = {}
        for attention in (spec for spec in required.specs if not spec.is_by_rank):
            parts = self.share * self.weights[attention]
            sums["attention", attention] = sums_by(at, parts, len(cells))
            if attention in required.gained and self.relevance is not None:
                sums["gain", attention] = sums_by(at, parts * self.relevance, len(cells))
        return cells, sums

    def item_norms(self, attention: AttentionSpec, batch: Batch) -> Floats:
        """(requests, 5) |e|^2 and e.e* over items, the sum over draws of a draw's |e|^2, the means of the first two over orders.

        Draws enter with their probability as it stands; who reads the norms divides by what a request's probabilities add up to.
        In random order every item of a list gets the mean of its weights, give or take their variance; a cascade has no such
        form, and its means are NaN.
        """
        assert self.item is not None  # noqa: S101  (asked for by the query)
        listed = self.first & (self.shown > 0)
        drawn = np.where(listed, self.probability * self.weights[attention], 0.0)
        lists, at = np.unique(self.ranking, return_inverse=True)
        sizes, sums = (sums_by(at, part, len(lists)) for part in (listed.astype(np.float64), drawn))
        means = (
            np.where(listed, (sums / np.maximum(sizes, 1))[at], 0.0)
            if attention.is_by_rank
            else np.full(len(drawn), np.nan)
        )
        order = np.lexsort([np.arange(len(drawn)), self.item, self.request])
        request, item = self.request[order], self.item[order]
        pairs = run_starts(request, item)  # the first row of each item of a request
        due = self.due[attention][order][pairs] if attention in self.due else np.zeros(len(pairs))
        owner = np.repeat(np.arange(batch.groups), np.diff(batch.starts))[order][pairs]
        exposure, expected, draw_squares, variances = (
            np.add.reduceat(part[order], pairs) for part in (drawn, means, drawn**2, drawn**2 - means**2)
        )
        parts = (exposure**2, exposure * due, draw_squares, expected**2 + variances, expected * due)
        return np.column_stack([sums_by(owner, part, batch.groups) for part in parts])

    def by_item(self, spec: AttentionSpec, pooled: bool) -> tuple[Ints, Ints, Floats, Floats]:  # noqa: FBT001
        """Request, item, attention and predicted utility of every row.

        Unless `pooled`, both are shares of their ranking; a ranking without attention or without utility is left out.
        """
        assert self.item is not None and self.score is not None  # noqa: S101, PT018  (asked for by the query)
        keep = self.first
        ranking, attention, utility = self.ranking[keep], self.weights[spec][keep], self.score[keep]
        request, item, probability = self.request[keep], self.item[keep], self.probability[keep]
        if not pooled:
            starts = run_bounds(ranking)
            sizes = np.diff(starts)
            whole = [
                np.repeat(np.add.reduceat(values, starts[:-1]), sizes) if len(values) else values
                for values in (attention, utility)
            ]
            defined = (whole[0] > 0) & (whole[1] > 0)
            attention, utility = (
                values[defined] / total[defined] for values, total in zip((attention, utility), whole, strict=True)
            )
            request, item, probability = request[defined], item[defined], probability[defined]
        return request, item, probability * attention, probability * utility


def list_attention(
    specs: Sequence[AttentionSpec], ranking: Ints, place: Ints, relevance: Floats | None, seen: Any, first: Any
) -> dict[AttentionSpec, Floats]:
    """Attention on every row of lists by place; cascade readers may have stopped at items above.

    The share of readers who got past them is a product of powers, one for each grade, so that a reader who always stops (a
    power of zero) is no special case. Nobody looks at a row that is not `seen`; an item counts once, at its `first` row.
    """
    depth = int(place.max(initial=0))
    weights = {spec: np.where(seen, spec.by_place(depth).take(place - 1), 0.0) for spec in specs}
    cascades = [spec for spec in specs if not spec.is_by_rank]
    if not cascades or relevance is None or not len(place):
        return weights
    starts = run_bounds(ranking)
    sizes = np.diff(starts)
    for grade in sorted(
        {g for spec in cascades for g in spec.attention.keeps()}, key=lambda g: -1.0 if g is None else g
    ):
        hit = ((relevance > 0) if grade is None else (relevance == grade)) & seen
        stops = (hit & first).astype(np.int64)
        passed = np.cumsum(stops)
        passed -= np.repeat(passed[starts[:-1]] - stops[starts[:-1]], sizes)
        above = (passed - hit).astype(np.float64)  # every row of an item is behind its first
        for spec in cascades:
            if grade in spec.attention.keeps():
                weights[spec] = weights[spec] * spec.attention.keeps()[grade] ** above
    return weights


def scatter(parts: Iterable[tuple[Ints, Floats]], rows: int, width: int) -> Floats:
    """(rows, width) values at the cells that each part names; zero elsewhere.

    >>> scatter([(np.array([3]), np.array([0.5]))], 2, 2).tolist()
    [[0.0, 0.0], [0.0, 0.5]]
    """
    table = np.zeros(rows * width)
    for cells, values in parts:
        table[cells] = values
    return table.reshape(rows, width)


def with_lists(exposure: GroupExposure, required: RequiredSums, parts: Sequence[ListSums]) -> GroupExposure:
    """The exposure of groups with the sums of cascades and the norms over items."""
    width = len(exposure.labels) + 1

    def sums(kind: str, spec: AttentionSpec) -> Floats:
        return scatter(((part.cells, part.sums[kind, spec]) for part in parts), len(exposure.probability), width)

    def norms(spec: AttentionSpec) -> Floats:
        values = np.zeros((len(exposure.requests), 5))
        for part in parts:
            values[part.requests] = part.norms[spec]
        return values

    attended = {s: exposure.attended[s] if s.is_by_rank else sums("attention", s) for s in required.specs}
    gained = {s: exposure.gained[s] if s.is_by_rank else sums("gain", s) for s in required.among(required.gained)}
    return replace(
        exposure, attended=attended, gained=gained, norms={s: norms(s) for s in required.among(required.items)}
    )


def item_attention(
    exposure: GroupExposure, key: tuple[AttentionSpec, bool], parts: Sequence[ListSums], items: int
) -> ItemAttention:
    """Weighted attention and predicted utility of every item in every request."""
    from scipy.sparse import csr_array

    columns_of = [np.concatenate([np.zeros(0), *(part.items[key][i] for part in parts)]) for i in range(4)]
    request, item = columns_of[0].astype(np.int64), columns_of[1].astype(np.int64)
    scale = (exposure.weight / exposure.mass)[request]
    shape = (len(exposure.requests), max(items, 1))
    tables = [csr_array((values * scale, (request, item)), shape=shape) for values in columns_of[2:]]
    return ItemAttention(*tables)


def number_items(tables: JudgedRankings, *, labelled: bool = False) -> tuple[str, int]:
    """A table of the ranked items with their `number`, in the order of their ids, and how many there are.

    With `labelled` also those that only have a label.
    """
    items = f"SELECT DISTINCT item FROM ({tables.rows}) AS ranked"
    if labelled:
        items += f" UNION SELECT item FROM ({tables.labelled_items}) AS labelled"
    query = f"SELECT item, ROW_NUMBER() OVER (ORDER BY item) - 1 AS number FROM ({items}) AS every_item"
    name = tables.engine.keep(query)
    return name, int(tables.engine.cells(f"SELECT COUNT(*) AS n FROM {name}").row()["n"])


@dataclass(frozen=True)
class SampledLists:
    """Whole rankings, best rank first, padded at the end.

    Attributes
    ----------
    at : (m,) which rankings they are.
    ranks : (m, n) rank of each item; 0 past the end.
    kinds : (m, n) which row of `shares` each item has; shares : (K, G + 1) of groups, the last unknown.
    relevance : (m, n).
    """

    at: Ints
    ranks: Floats
    kinds: Ints
    shares: Floats
    relevance: Floats

    @classmethod
    def from_rankings(
        cls, tables: JudgedRankings, exposure: GroupExposure, chosen: Ints, *, relevance: bool
    ) -> SampledLists:
        """The rankings with these numbers, repeats included; `relevance` says whether to read it."""
        distinct, times = np.unique(chosen, return_inverse=True)
        groups = len(exposure.labels)
        keys = tables.engine.bring(exposure.keys.take(distinct).with_column("ranking", np.arange(len(distinct))))
        more = {"shown": "ranked.shown"} if "shown" in tables.types else {}
        rows = tables.engine.cells(_rows_query(tables, keys, groups, more, [], relevance=relevance))
        if more:
            rows = rows.take(np.flatnonzero(rows.floats("shown") > 0))
        rows = rows.sorted_by(["ranking", "place", "code"])
        at, place, code = (rows.integers(name) for name in ("ranking", "place", "code"))
        slot = rows.runs(["ranking", "place"])  # rows of one item
        slot = slot - slot[np.searchsorted(at, at)]
        shape = (len(distinct), int(slot.max(initial=-1)) + 1)
        ranks, grades = np.zeros(shape), np.zeros(shape)
        ranks[at, slot] = place
        if relevance:
            grades[at, slot] = rows.floats("relevance")
        if tables.soft:
            kinds = np.arange(ranks.size).reshape(shape)
            shares = np.zeros((ranks.size, groups + 1))
            shares[kinds[at, slot], code] = rows.floats("share")
        else:
            kinds = np.full(shape, groups, dtype=np.int64)
            kinds[at, slot] = code
            present, kinds = np.unique(kinds, return_inverse=True)  # of many groups, lists hold a few
            kinds, shares = kinds.reshape(shape), np.zeros((len(present), groups + 1))
            shares[np.arange(len(present)), present] = 1.0
        times = times.reshape(-1)
        return cls(chosen, ranks[times], kinds[times], shares, grades[times])

    def part(self, rows: slice) -> SampledLists:
        return replace(
            self, at=self.at[rows], ranks=self.ranks[rows], kinds=self.kinds[rows], relevance=self.relevance[rows]
        )


@dataclass(frozen=True)
class ItemExposure:
    """Cells of rankings times items (and groups): the labelled items, the unlabelled ones, or all.

    Attributes
    ----------
    rankings, items : (n,) number of the ranking and of the item of each cell; cells are in the order of both.
    codes : (n,) group of the item, the number of groups where it has no label. share : (n,) 1 over the inclusion probability of
        its label.
    attended : by attention, (n,).
    """

    rankings: Ints
    items: Ints
    codes: Ints
    share: Floats
    attended: Mapping[AttentionSpec, Floats]

    @classmethod
    def from_rankings(
        cls, tables: JudgedRankings, sums: GroupExposure, items: str, *, labelled: bool | None = None
    ) -> ItemExposure:
        """The cells of items that have a label, of those that have none, or of all; `items` is a table with their numbers."""
        specs = list(sums.attended)
        weights = {f"attention_{i}": spec.by_place(tables.depth) for i, spec in enumerate(specs)}
        attention = tables.engine.bring({"place": np.arange(1, tables.depth + 1, dtype=np.int64), **weights})
        keys = tables.engine.bring(sums.keys.with_column("ranking", np.arange(len(sums.probability))))
        chosen = {
            "ranking": "keys.ranking",
            "item": "items.number",
            "code": f"COALESCE(ranked.label, {len(sums.labels)})",
        }
        added = {"share": "MAX(ranked.share)"} | {name: exact_sum(f"attention.{name}") for name in weights}
        shown = " AND ranked.shown > 0" if "shown" in tables.types else ""
        chosen_labels = {True: "ranked.label IS NOT NULL", False: "ranked.label IS NULL", None: "TRUE"}[labelled]
        cells = tables.engine.cells(f"""
            SELECT {select(chosen | added)}
            FROM {tables.ranked} AS ranked
            JOIN {keys} AS keys ON {tables.same_ranking("ranked", "keys")}
            JOIN {attention} AS attention ON attention.place = ranked.place
            JOIN {items} AS items ON items.item = ranked.item
            WHERE {chosen_labels}{shown}
            GROUP BY keys.ranking, items.number, ranked.label
        """).sorted_by(["ranking", "item", "code"])
        attended = {spec: cells.floats(name) for spec, name in zip(specs, weights, strict=True)}
        return cls(
            cells.integers("ranking"), cells.integers("item"), cells.integers("code"), cells.floats("share"), attended
        )

    def within(self, rankings: slice) -> ItemExposure:
        """The cells of a run of rankings, which are numbered from its start, and items from 0."""
        low, high = np.searchsorted(self.rankings, [rankings.start, rankings.stop])
        at = slice(int(low), int(high))
        items = np.unique(self.items[at], return_inverse=True)[1].reshape(-1)
        attended = {spec: values[at] for spec, values in self.attended.items()}
        return ItemExposure(self.rankings[at] - rankings.start, items, self.codes[at], self.share[at], attended)

    @property
    def many(self) -> int:
        return int(self.items.max(initial=-1)) + 1

    @property
    def are_shared(self) -> bool:
        """Whether an item stands in several rankings."""
        return len(self.items) > self.many


@dataclass(frozen=True)
class CrossedSums:
    """The exposure of groups item by item, for resamples of items: sparse tables with a column per item.

    Attributes
    ----------
    items : rankings times groups and one, how much of each item there is; attended : by attention, what is paid to it.
    sizes : of groups, one row for each and one.
    """

    items: Any
    attended: Mapping[AttentionSpec, Any]
    sizes: Any

    @classmethod
    def from_rankings(cls, tables: JudgedRankings, sums: GroupExposure) -> CrossedSums:
        if not tables.engine.has_rows:
            raise EvenhandError(
                "resample='requests_and_items' needs the rows themselves, and a tally holds none. Pass resample='requests'."
            )
        most_rows = 20_000_000  # some 2 GB of sums item by item
        if tables.view.rows > most_rows:
            raise EvenhandError(
                f"{tables.view.rows:,} rows are too many to resample items in memory (at most {most_rows:,}). "
                "Pass resample='requests'."
            )
        name, many = number_items(tables, labelled=True)
        width = len(sums.labels) + 1
        cells = ItemExposure.from_rankings(tables, sums, name)
        sized = tables.engine.cells(
            f"""
            SELECT items.number, COALESCE(sized.label, {width - 1}) AS code, sized.share
            FROM (SELECT DISTINCT item, label, share FROM ({tables.labelled_items}) AS labelled) AS sized
            JOIN {name} AS items ON items.item = sized.item
            """
        )
        rows, shape = cells.rankings * width + cells.codes, (len(sums.probability) * width, many)
        return cls(
            _sparse(rows, cells.items, cells.share, shape),
            {spec: _sparse(rows, cells.items, cells.share * x, shape) for spec, x in cells.attended.items()},
            _sparse(sized.integers("code"), sized.integers("number"), sized.floats("share"), (width, many)),
        )

    def drawn(self, exposure: GroupExposure, counts: npt.NDArray[Any]) -> list[tuple[GroupExposure, Floats]]:
        """Exposure and group sizes for each column of (I, draws) item counts."""
        shape = (counts.shape[1], len(exposure.probability), len(exposure.labels) + 1)
        items = (self.items @ counts).T.reshape(shape)
        attended = {spec: (table @ counts).T.reshape(shape) for spec, table in self.attended.items()}
        sizes = (self.sizes @ counts).T
        return [
            (replace(exposure, items=items[b], attended={spec: x[b] for spec, x in attended.items()}), sizes[b])
            for b in range(shape[0])
        ]


def _sparse(rows: Ints, items: Ints, values: Floats, shape: tuple[int, int]) -> Any:
    from scipy.sparse import csr_array

    order = np.lexsort([items, rows])  # so that sums have the same last bits whatever the order was
    edges = starts_of(np.bincount(rows, minlength=shape[0]))
    return csr_array((values[order], items[order], edges), shape=shape)
