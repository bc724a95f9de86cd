"""From rankings to exposure: joins and group-bys in the engine, down to a few sums per ranking and group.

Nothing but one row per ranking and group (and per request and group, for what is judged) leaves the engine; items never do,
except for item-level amortised attention.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import narwhals as nw
import numpy as np

from evenhand.cards import Floats
from evenhand.engine.attending import attended, ideal
from evenhand.engine.exposure_blocks import GRID, Judged, Ranked, cells_of
from evenhand.engine.labelled import Lookup
from evenhand.errors import EvenhandError
from evenhand.labels import in_order, whole
from evenhand.tallies.items import ItemAttention
from evenhand.tallies.ledger import Ledger, Look
from evenhand.views.batches import hands_parts
from evenhand.views.columns import flag
from evenhand.views.labels import Alignment, codes
from evenhand.views.tables import each_once, to_polars

MOST_CELLS = 400_000_000
"""Rankings times groups held at a time; more is refused with a remedy."""


@dataclass(frozen=True)
class Rows:
    """Checked rankings in an engine.

    Attributes
    ----------
    lazy : columns `slices`, request, item, rank (from 1, without gaps), and those of sample, score, probability, weight,
        relevance and group that the caller has. Where there is a column `shown`, a row with zero in it is in no list: an
        item that was only scored, or what keeps the place of a list without items.
    slices : names of the slice columns.
    """

    lazy: nw.LazyFrame[Any]
    slices: tuple[str, ...] = ()

    @property
    def columns(self) -> list[str]:
        return list(self.lazy.collect_schema().names())

    @property
    def listed(self) -> nw.LazyFrame[Any]:
        """The rows that stand in a list."""
        return self.lazy.filter(nw.col("shown") > 0) if "shown" in self.columns else self.lazy

    @property
    def requests(self) -> list[str]:
        """Columns that name one request of one slice."""
        return [*self.slices, "request"]

    @property
    def rankings(self) -> list[str]:
        """Columns that name one ranking."""
        return [*self.requests, "sample"] if "sample" in self.columns else self.requests


@dataclass(frozen=True)
class Wanted:
    """What the metrics of a call need to be added up."""

    looks: tuple[Look, ...]
    gained: frozenset[Look] = field(default_factory=frozenset)
    due: frozenset[Look] = field(default_factory=frozenset)
    items: frozenset[Look] = field(default_factory=frozenset)
    scores: bool = False
    judged: bool = False

    def at(self, chosen: frozenset[Look]) -> list[int]:
        return [i for i, look in enumerate(self.looks) if look in chosen]


def tally_exposures(
    rows: Rows,
    aligned: Alignment,
    judged: nw.LazyFrame[Any] | None,
    wanted: Wanted,
    labels: tuple[Any, ...],
    *,
    alike: bool = False,
) -> Ledger:
    """Every sum that the metrics need, per ranking, request and group of `labels`.

    `aligned` has columns item (and request, where labels differ from request to request), group, share. `judged` has columns
    request, item, relevance; the rows then have relevance too, and where `alike` they are all the judgments there are.
    """
    judged, looks = judged if wanted.judged else None, [wanted.looks[i] for i in wanted.at(wanted.due)]
    lookup = _lookup(rows, aligned, None if alike else judged, wanted, labels)
    if lookup is None:
        cells, said = _in_the_engine(rows, aligned, judged, wanted, labels)
    else:
        each = [name for name in ("probability", "weight") if name in rows.columns]
        ranked = Ranked.of(rows.rankings, wanted.looks, wanted.at(wanted.gained), scores=wanted.scores, each=each)
        due = [] if judged is None else [Judged.of(looks)]
        cells, *said = cells_of(rows.lazy, rows.rankings, lookup, [ranked, *(due if alike else [])])
        if judged is not None and not alike:
            said = cells_of(judged, ["request"], lookup, due)
    ledger = assembled(cells, rows, wanted, labels)
    if judged is None:
        return ledger
    ((worth, per),) = said
    found = with_judged(ledger, worth, per, looks)
    if found.judged is not None and not found.judged.any():
        refuse_strangers(found, to_polars(judged.select("request").head(1)))
    return found


def _lookup(
    rows: Rows, aligned: Alignment, judged: nw.LazyFrame[Any] | None, wanted: Wanted, labels: tuple[Any, ...]
) -> Lookup | None:
    """The labels, where blocks of rows can be added up with them: a label per item, attention by rank alone."""
    if not hands_parts(rows.lazy) or aligned.soft or "shown" in rows.columns:
        return None
    if any(look.attention.needs_relevance for look in wanted.looks):
        return None
    if "group" in rows.columns and (judged is None or "group" in judged.collect_schema().names()):
        return Lookup.carried(labels)
    if aligned.keys != ["item"]:
        return None
    return Lookup.of(aligned.frame, aligned.keys, "groups", labels)


def _in_the_engine(
    rows: Rows, aligned: Alignment, judged: nw.LazyFrame[Any] | None, wanted: Wanted, labels: tuple[Any, ...]
) -> tuple[Any, list[Any]]:
    """Cells of rankings, and those of judgments with their squares, as the engine adds them up."""
    by, looks = aligned.keys, [wanted.looks[i] for i in wanted.at(wanted.due)]
    cells = coded_cells(to_polars(_cells(rows, aligned, by, wanted)), labels)
    if judged is None:
        return cells, []
    ranked = each_once(rows.lazy.select("request"))
    target = ideal(judged.join(ranked, on="request", how="semi"), looks)
    joined, share = with_groups(target, aligned, by)
    sums = {"worth": share * nw.col("relevance"), "relevant": share * flag(nw.col("relevance") > 0)}
    sums |= {f"t{i}": share * nw.col(f"t{i}") for i in range(len(looks))}
    said = coded_cells(to_polars(added(joined, ["request", "group"], sums)), labels)
    squares = {f"x{i}": nw.col(f"t{i}") * nw.col(f"t{i}") for i in range(len(looks))}
    return cells, [(said, to_polars(added(target, ["request"], squares)) if looks else None)]


def _cells(rows: Rows, aligned: Alignment, by: list[str], wanted: Wanted) -> nw.LazyFrame[Any]:
    """One row per ranking and group: attention, relevance met, predicted utility, number of items."""
    names = rows.columns
    joined, share = with_groups(attended(rows.lazy, wanted.looks, rows.rankings), aligned, by)
    counted = not aligned.soft and "shown" not in names
    sums = {} if counted else {"items": share * nw.col("shown") if "shown" in names else share}
    sums |= {f"a{i}": share * nw.col(f"a{i}") for i in range(len(wanted.looks))}
    sums |= {f"g{i}": share * nw.col(f"a{i}") * nw.col("relevance") for i in wanted.at(wanted.gained)}
    if wanted.scores:
        sums["scores"] = share * nw.col("score")
    more = [nw.len().alias("items")] if counted else []
    for column in ("probability", "weight"):
        if column in names:
            more += [nw.col(column).max().alias(column), nw.col(column).min().alias(f"least_{column}")]
    return added(joined, [*rows.rankings, "group"], sums, *more)


def added(lazy: nw.LazyFrame[Any], keys: list[str], sums: Mapping[str, nw.Expr], *more: nw.Expr) -> nw.LazyFrame[Any]:
    """Sums by `keys` that do not depend on the order in which an engine adds up, beside what `more` aggregates.

    The part of a number on a coarse grid adds up without rounding; the rest is too small for its rounding to show.
    """
    lazy = lazy.with_columns(*(e.alias(f"x_{name}") for name, e in sums.items()))
    lazy = lazy.with_columns(*(((nw.col(f"x_{name}") * GRID).round() / GRID).alias(f"h_{name}") for name in sums))
    lazy = lazy.with_columns(*((nw.col(f"x_{name}") - nw.col(f"h_{name}")).alias(f"l_{name}") for name in sums))
    parts = [nw.col(f"{part}_{name}").sum() for name in sums for part in "hl"]
    found = lazy.group_by(*keys).agg(*parts, *more)
    found = found.with_columns(*((nw.col(f"h_{name}") + nw.col(f"l_{name}")).alias(name) for name in sums))
    return found.drop(*(f"{part}_{name}" for name in sums for part in "hl"))


def with_groups(lazy: nw.LazyFrame[Any], aligned: Alignment, by: list[str]) -> tuple[nw.LazyFrame[Any], nw.Expr]:
    """Rows with their groups, and the share of a row that is the group's; an item that is not listed is unknown."""
    if "group" in lazy.collect_schema().names():
        return lazy, nw.lit(1.0)
    if not aligned.soft:
        return lazy.join(aligned.lazy.select(*by, "group"), on=by, how="left"), nw.lit(1.0)
    joined = lazy.join(aligned.lazy.select(*by, "group", "share"), on=by, how="left")
    return joined.with_columns(nw.col("share").fill_null(1.0)), nw.col("share")


def coded_cells(cells: Any, labels: tuple[Any, ...]) -> Any:
    """Cells with the place of their group among the labels, `code`."""
    import polars as pl

    return cells.with_columns(pl.Series("code", codes(cells["group"], labels)))


def assembled(cells: Any, rows: Rows, wanted: Wanted, labels: tuple[Any, ...]) -> Ledger:
    """Cells in the order of their keys as dense arrays, rankings within requests within slices."""
    cells = cells.sort(rows.rankings, nulls_last=True)
    ranking = _runs(cells, rows.rankings)
    request = ranking if rows.rankings == rows.requests else _runs(cells, rows.requests)
    part = _runs(cells, list(rows.slices)) if rows.slices else None
    rankings, groups = int(ranking[-1]) + 1 if len(ranking) else 0, len(labels)
    if rankings * (groups + 1) > MOST_CELLS:
        raise EvenhandError(
            f"{rankings:,} rankings times {groups:,} groups are too many to hold. Use broader groups, or slice the rankings."
        )
    code = cells["code"].to_numpy()

    def dense(name: str) -> Floats:
        out = np.zeros((rankings, groups + 1))
        out[ranking, code] = cells[name].to_numpy()
        return out

    first = np.flatnonzero(np.diff(ranking, prepend=-1)) if len(ranking) else np.zeros(0, dtype=np.int64)
    starts = _starts(request[first])
    heads = first[starts[:-1]]
    return Ledger(
        slices=[tuple(row) for row in cells.select(rows.slices)[heads].unique(maintain_order=True).iter_rows()]
        if rows.slices
        else [()],
        slice_starts=np.array([0, len(heads)]) if part is None else _starts(part[heads]),
        requests=cells["request"][heads],
        request_starts=starts,
        probability=_one_each(cells, "probability", first, rankings, "draw"),
        weight=_one_each(cells, "weight", heads, len(heads), "request"),
        known_probability="probability" in cells.columns,
        labels=labels,
        samples=cells["sample"][first] if "sample" in cells.columns else None,
        items=dense("items"),
        attended={look: dense(f"a{i}") for i, look in enumerate(wanted.looks)},
        gained={wanted.looks[i]: dense(f"g{i}") for i in wanted.at(wanted.gained)},
        scores=dense("scores") if wanted.scores else None,
    )


def _runs(cells: Any, keys: list[str]) -> Any:
    """(rows,) number of the run of equal keys that each row stands in."""
    column = cells[keys[0]] if len(keys) == 1 else cells.select(keys).to_struct("key")
    return column.rle_id().to_numpy().astype(np.int64)


def _starts(runs: Any) -> Any:
    return np.append(np.flatnonzero(np.diff(runs, prepend=-1)), len(runs)).astype(np.int64)


def _one_each(cells: Any, name: str, at: Any, length: int, what: str) -> Floats:
    """One number per ranking or request, from a column that must not vary within it."""
    if name not in cells.columns:
        return np.ones(length)
    values = cells[name].to_numpy()
    highest = np.maximum.reduceat(values, at) if len(at) else np.zeros(0)
    lowest = np.minimum.reduceat(cells[f"least_{name}"].to_numpy(), at) if len(at) else np.zeros(0)
    varying = int((highest != lowest).sum())
    if varying:
        raise EvenhandError(
            f"{name} differs between rows of the same {what} in {varying:,} of {length:,}. Give each {what} one {name}."
        )
    return np.asarray(highest, dtype=np.float64)


def with_judged(ledger: Ledger, cells: Any, per: Any, looks: Sequence[Look]) -> Ledger:
    """The ledger with relevance, relevant items and exposure under the ideal policy per request and group.

    They are given as cells by request and group (`worth`, `relevant`, `t0`...) and squares `per` request (`x0`...); requests
    without a judgment have zeros.
    """
    import polars as pl

    at = ledger.requests.to_frame("request").with_row_index("at")
    cells = at.join(cells, on="request", how="inner")
    known = np.zeros(len(ledger.requests), dtype=bool)
    known[cells["at"].to_numpy()] = True
    code = cells["code"].to_numpy()

    def dense(name: str) -> Floats:
        out = np.zeros((len(ledger.requests), len(ledger.labels) + 1))
        out[cells["at"].to_numpy(), code] = cells[name].to_numpy()
        return out

    norms = {}
    if looks:
        per = at.join(per, on="request", how="left", maintain_order="left").fill_null(0.0)
        norms = {look: per[f"x{i}"].cast(pl.Float64).to_numpy() for i, look in enumerate(looks)}
    due = {look: dense(f"t{i}") for i, look in enumerate(looks)}
    return replace(
        ledger, judged=known, worth=dense("worth"), relevant=dense("relevant"), due=due, due_norms=norms
    )  # fmt: skip


def refuse_strangers(ledger: Ledger, judged: Any) -> None:
    """Judgments of other requests than those ranked are a mistake in the ids, not a finding."""
    none = ledger.judged is not None and not ledger.judged.any()
    if none and judged.height and len(ledger.requests):
        raise EvenhandError(
            f"relevance judges none of the ranked requests: it has {judged['request'][0]!r}, the rankings have "
            f"{ledger.requests[0]!r}. Use the same request ids in both."
        )


def item_norms(rows: Rows, judged: nw.LazyFrame[Any] | None, wanted: Wanted) -> dict[Look, Any]:
    """Per request: |e|^2 and e.e* over items, and the sum over draws of the square of a draw's exposure.

    Draws enter with their probability as it stands; the ledger divides by what a request's probabilities add up to.
    """
    at = wanted.at(wanted.items)
    chance = nw.col("probability") if "probability" in rows.columns else nw.lit(1.0)
    looked = attended(rows.lazy, wanted.looks, rows.rankings)
    parts = looked.with_columns(*((chance * nw.col(f"a{i}")).alias(f"e{i}") for i in at))
    by_item = {f"e{i}": nw.col(f"e{i}") for i in at} | {f"q{i}": nw.col(f"e{i}") * nw.col(f"e{i}") for i in at}
    per_item = added(parts, [*rows.requests, "item"], by_item)
    due = [i for i in at if wanted.looks[i] in wanted.due]
    if judged is not None and due:
        target = ideal(judged, [wanted.looks[i] for i in due])
        target = target.select("request", "item", *(nw.col(f"t{j}").alias(f"t_{i}") for j, i in enumerate(due)))
        per_item = per_item.join(target, on=["request", "item"], how="left")
        per_item = per_item.with_columns(*(nw.col(f"t_{i}").fill_null(0.0) for i in due))
    else:
        per_item = per_item.with_columns(*(nw.lit(0.0).alias(f"t_{i}") for i in at))
    sums = {f"n{i}": nw.col(f"e{i}") * nw.col(f"e{i}") for i in at}
    sums |= {f"d{i}": nw.col(f"e{i}") * nw.col(f"t_{i}") for i in at} | {f"q{i}": nw.col(f"q{i}") for i in at}
    found = to_polars(added(per_item, rows.requests, sums)).sort(rows.requests, nulls_last=True)
    return {wanted.looks[i]: found.select(f"n{i}", f"d{i}", f"q{i}").to_numpy() for i in at}


def tally_items(rows: Rows, look: Look, ledger: Ledger, *, pooled: bool) -> ItemAttention:
    """Attention and predicted utility of every item in every request, times the weight of the request.

    Unless `pooled`, both are shares of their ranking; a ranking without attention or without utility is left out.
    """
    from scipy.sparse import csr_array

    lazy = attended(rows.lazy, [look], rows.rankings)
    chance = nw.col("probability") if "probability" in rows.columns else nw.lit(1.0)
    attention, utility = nw.col("a0"), nw.col("score")
    if not pooled:
        lazy = lazy.with_columns(
            nw.col("a0").sum().over(*rows.rankings).alias("all_attention"),
            nw.col("score").sum().over(*rows.rankings).alias("all_utility"),
        ).filter((nw.col("all_attention") > 0) & (nw.col("all_utility") > 0))
        attention, utility = attention / nw.col("all_attention"), utility / nw.col("all_utility")
    sums = {"attention": chance * attention, "utility": chance * utility}
    cells = to_polars(added(lazy, [*rows.requests, "item"], sums)).sort([*rows.requests, "item"], nulls_last=True)
    keys = request_keys(ledger, rows).with_row_index("at")
    at = cells.join(keys, on=rows.requests, how="left", nulls_equal=True, maintain_order="left")["at"].to_numpy()
    items = cells["item"].rank("dense").to_numpy().astype(np.int64) - 1
    shape = (len(ledger.requests), int(items.max(initial=0)) + 1)
    scale = (ledger.weight / ledger.mass)[at]
    parts = [csr_array((cells[name].to_numpy() * scale, (at, items)), shape=shape) for name in ("attention", "utility")]
    return ItemAttention(*parts)


def request_keys(ledger: Ledger, rows: Rows) -> Any:
    """The slice labels and ids of all requests, as a Polars frame."""
    import polars as pl

    at = np.repeat(np.arange(len(ledger.slices)), np.diff(ledger.slice_starts))
    columns = {n: pl.Series(n, [label[i] for label in ledger.slices])[at] for i, n in enumerate(rows.slices)}
    return pl.DataFrame({**columns, "request": ledger.requests})


def ranking_keys(ledger: Ledger, rows: Rows) -> Any:
    """The same for all rankings, with the name of their draw where there are several."""
    found = request_keys(ledger, rows)[ledger.request_of]
    return found if ledger.samples is None else found.with_columns(ledger.samples.alias("sample"))


def group_sizes(rows: Rows, aligned: Alignment, *, unknown: bool) -> tuple[tuple[Any, ...], Floats]:
    """The labels, and how many items of each there are to be ranked; the last number is the unknown.

    Items that are ranked but not in the table of groups are counted only when `unknown` asks for it: it takes another pass.
    """
    universe = each_once(aligned.lazy.select("item", "group", "share")) if "request" in aligned.keys else aligned.lazy
    found = to_polars(universe.group_by("group").agg(nw.col("share").sum()))
    sizes = {g: float(n) for g, n in found.select("group", "share").iter_rows()}
    sizes = dict.fromkeys(aligned.named, 0.0) | sizes
    missing = sizes.pop(None, 0.0)
    if unknown:
        ranked = each_once(rows.lazy.select("item"))
        absent = ranked.join(each_once(aligned.lazy.select("item")), on="item", how="anti").select(nw.len().alias("n"))
        missing += float(to_polars(absent)["n"][0])
    labels = in_order(sizes)
    return tuple(whole(labels)), np.array([*(sizes[g] for g in labels), missing])
