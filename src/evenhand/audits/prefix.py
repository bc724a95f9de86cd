"""Does every top of a ranking mirror the whole? Prefix metrics per request and on average, against chance."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from evenhand import metrics as _all_metrics  # noqa: F401  (fills the registry)
from evenhand.audits.assemble import Row, check_min_units, log, names_of, notes, provenance, row, suppressed, tidy
from evenhand.audits.prefix_curves import curves_of
from evenhand.audits.requests import RankingResult
from evenhand.cards import Ask, Floats, asks, needing
from evenhand.engine.placements import Placed, Unknown, tally_placements
from evenhand.errors import DataWarning, EvenhandError
from evenhand.findings import Findings
from evenhand.labels import match, no_label, several
from evenhand.metrics.prefix import lean_and_spread, template_of
from evenhand.metrics.template import Scores
from evenhand.tallies.placement import Placement
from evenhand.uncertainty.intervals import Interval, seed_of, stream
from evenhand.uncertainty.orders import Orders, draws_of, random_orders
from evenhand.uncertainty.requests import mean_interval
from evenhand.views.labels import view_labels
from evenhand.views.rankings import Rankings, Ties, open_rankings, system_of, view_rankings

QUESTION = "Does every top of the ranking mirror the whole?"
SIDED = ("ndd", "ndkl")
MANY = ("ndjs",)
NOBODY = 1e-12
"""A lean this small is the rounding of 0."""
EXTRA = ("p", "favoured", "p_favoured", "undefined")


def prefix(
    table: Any,
    *,
    group: Any,
    protected: Any = None,
    request: str = "request",
    item: str = "item",
    rank: str | None = "rank",
    score: str | None = None,
    system: str | None = None,
    by: str | Sequence[str] | None = None,
    ties: Ties = "raise",
    unknown: Unknown = "drop",
    chance: str | None = "permutation(999)",
    metrics: str | Sequence[str] | None = None,
    interval: str | None = "bootstrap(999)",
    level: float = 0.95,
    rng: int | np.random.Generator | None = None,
    min_units: int | None = None,
    nan_policy: Literal["raise", "omit"] = "raise",
) -> RankingResult:
    """How far the mix of labels near the top of each ranking is from the mix of the whole ranking.

    Parameters
    ----------
    table : one row per ranked item (any dataframe, or a path), or TREC runs.
    group : as `groups` of `eh.exposure`: column(s) of labels (several are combined), `eh.shares("a", "b")` for columns of
        shares, `{item: label}`, a table or a file of labels (also in the form of TREC judgments), a table of shares, or
        `eh.rollup(...)`. A missing label is unknown.
    protected : a label, or several taken together, for metrics of two sides; None compares all labels.
    request, item, rank : columns; `item` need not exist. `score` orders instead of `rank`, highest first.
    system, by : columns to slice by.
    ties : `"raise"`, or `"input_order"` to keep tied rows in the order of the table.
    unknown : unknown items keep their rank and count in no share (`"drop"`), are a label of their own (`"group"`), count
        as unprotected (`"unprotected"`), or are refused (`"raise"`).
    chance : random orders per composition, for `p`; None leaves chance levels out.
    metrics : `ndd`, `ndkl` with `protected`, else `ndjs`; also `ndr`, `pref_nd`, `pref_rd`, `pref_kl`, with parameters,
        and `"ndd@10"` for the first ten ranks.
    interval : `"bootstrap(999)"` over requests, or None. min_units : slices with fewer requests are suppressed.
    nan_policy : rows without a request, rank or score are refused, or left out and counted (`"omit"`).

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
    asked = asks(metrics if metrics is not None else SIDED if protected is not None else MANY, needing(Placement))
    how, draws = Interval.parse(interval, level), draws_of(chance)
    fewest, seed = check_min_units(min_units), seed_of(rng)
    if unknown not in ("drop", "group", "unprotected", "raise"):
        raise EvenhandError(f"unknown={unknown!r} is not known. Use 'drop', 'group', 'unprotected' or 'raise'.")
    log.info("checking the rankings")
    opened = open_rankings(table)
    named = item if item in opened.schema.names() else None
    labels = view_labels(group, opened, request=request, item=item, role="group")
    view = view_rankings(
        opened, request=request, item=named, rank=None if score is not None else rank, score=score, by=names_of(by),
        system=system or system_of(table, opened), ties=ties, nan_policy=nan_policy, carry=labels.carry(opened),
    )  # fmt: skip
    placed = tally_placements(view, labels, unknown)
    side = protected_labels(protected, placed.placement.groups, group)
    placement = placed.placement.protecting(side)
    _refuse_missing_side(asked, placement)
    log.info("measuring %s rankings", f"{len(placement):,}")
    found = [_measure(a, placement, draws, seed) for a in asked]
    rows = [
        made
        for s, where in enumerate(placed.slices)
        for made in _rows(placed, s, dict(zip(view.slice_names, where, strict=True)), found, how, seed, fewest)
    ]
    plan = {
        "audit": "prefix", "table": view.origin, "group": labels.origin if not isinstance(group, str) else group,
        "protected": side, "request": request, "item": named, "rank": rank if score is None else None, "score": score,
        "system": system, "by": list(names_of(by)) or None, "ties": ties, "unknown": unknown, "chance": chance,
        "metrics": [a.text for a in asked], "interval": interval, "level": level, "min_units": min_units,
        "nan_policy": nan_policy, "rng": seed,
    }  # fmt: skip
    facts = provenance(
        plan, rows=view.rows, dropped=view.dropped, seed=seed, level=level, **_facts(view, placed, found, draws)
    )
    words = {"unit": request, "group": group if isinstance(group, str) and group in opened.schema.names() else "group"}
    findings = Findings(
        "prefix", QUESTION, view.slice_names, tidy(rows, view.slice_names, EXTRA),
        curves_of(placed, placement, [(m.ask.text, m.scores) for m in found], view.slice_names, level, fewest), words, facts,
    )  # fmt: skip
    return RankingResult(findings, view.backend, lambda: _per_request(placed, view, found, fewest))


@dataclass(frozen=True)
class Measured:
    """One metric on every ranking."""

    ask: Ask
    scores: Scores
    reasons: npt.NDArray[Any]
    orders: Orders | None
    lean: Floats
    spread: Floats
    sides: tuple[str, ...]

    @property
    def chances(self) -> Floats:
        return np.full_like(self.scores.values, np.nan) if self.orders is None else self.orders.means

    def favoured(self, rankings: Any) -> str | None:
        """Who stands higher than its share, on average over these rankings."""
        defined = rankings[~np.isnan(self.scores.values[rankings])]
        if not len(defined):
            return None
        mean = self.lean[defined].mean(0)
        return self.sides[int(mean.argmax())] if mean.max() > NOBODY else None

    def p_favoured(self, rankings: Any) -> float:
        """How likely random orders are to favour somebody this much: normal, exact variance, times the number of groups."""
        defined = rankings[~np.isnan(self.scores.values[rankings])]
        total = self.lean[defined].sum(0)
        if not len(defined) or total.max() <= NOBODY:
            return float("nan")
        error = float(np.sqrt((self.spread[defined, int(total.argmax())] ** 2).sum()))
        return min(1.0, len(total) * (1 - NormalDist().cdf(float(total.max()) / error)))


def _measure(a: Ask, p: Placement, draws: int, seed: int) -> Measured:
    p = p if a.cutoff is None else p.cut(a.cutoff)
    template = template_of(a.metric, p, a.params)
    scores = template.scores(p, chance=draws > 0)
    orders = random_orders(template, p, scores, draws, seed) if draws else None
    seen = p.sides() if p.protected is not None and p.rows is None else p
    sides = tuple(str(g) for g in seen.groups)
    return Measured(a, scores, template.reasons(p, scores.values), orders, *lean_and_spread(seen), sides)


def _rows(
    placed: Placed, s: int, labels: dict[str, Any], found: Sequence[Measured], how: Interval, seed: int, fewest: int
) -> list[Row]:
    """The means over the requests of one slice, a row per metric."""
    rankings, where = placed.rankings_of(s), placed.slices[s]
    rows = []
    for m in found:
        values = m.scores.values[rankings]
        defined = ~np.isnan(values)
        undefined = int((~defined).sum())
        mean, low, high, lost = mean_interval(values, how, stream(seed, "prefix", *where))
        if defined.sum() < 2:
            low = high = np.nan  # one request says nothing about others
        p = np.nan if m.orders is None else m.orders.p_of_mean(m.scores.values, rankings, stream(seed, "p", *where))
        reasons = Counter(m.reasons[rankings].tolist()) or Counter(["empty"])
        note = reasons.most_common(1)[0][0] if undefined == len(values) else ""
        made = row(
            labels, m.ask.text, estimate=mean, low=low, high=high,
            chance=float(m.chances[rankings][defined].mean()) if defined.any() else np.nan, ideal=m.ask.ideal,
            better=m.ask.better, units=len(rankings), undefined_draws=lost, p=p, favoured=m.favoured(rankings),
            p_favoured=m.p_favoured(rankings), undefined=undefined, note=notes(note or ("some_undefined" if undefined else "")),
        )  # fmt: skip
        if len(rankings) < fewest:
            made = suppressed(made) | {"p": np.nan, "favoured": None, "p_favoured": np.nan, "undefined": None}
        rows.append(made)
    return rows


def _per_request(placed: Placed, view: Rankings, found: Sequence[Measured], fewest: int) -> dict[str, list[Any]]:
    """One row per metric and request, requests in the order of the slices; suppressed slices have none."""
    sizes = np.diff(placed.starts)
    slice_of = np.repeat(np.arange(len(placed.slices)), sizes)
    shown = np.flatnonzero(sizes[slice_of] >= fewest) if len(slice_of) else np.zeros(0, dtype=np.int64)
    where = [placed.slices[s] for s in slice_of[shown]]
    requests = [placed.requests[i] for i in shown]
    columns: dict[str, list[Any]] = {"request": requests * len(found)}
    for i, name in enumerate(view.slice_names):
        columns[name] = [labels[i] for labels in where] * len(found)
    if "system" not in columns:
        columns["system"] = [None] * (len(shown) * len(found))
    columns["metric"] = [m.ask.text for m in found for _ in shown]
    columns["group"] = [None] * (len(shown) * len(found))
    columns["estimate"] = [v for m in found for v in m.scores.values[shown].tolist()]
    columns["note"] = [code or None for m in found for code in m.reasons[shown].tolist()]
    columns["chance"] = [v for m in found for v in m.chances[shown].tolist()]
    ps = [np.full(len(placed.requests), np.nan) if m.orders is None else m.orders.p for m in found]
    columns["p"] = [v for p in ps for v in p[shown].tolist()]
    columns["favoured"] = [v for m in found for v in _favoured_each(m, shown)]
    return columns


def _favoured_each(m: Measured, shown: Any) -> list[str | None]:
    best = m.lean[shown].argmax(1) if m.lean.shape[1] else np.zeros(len(shown), dtype=np.int64)
    ahead = m.lean[shown].max(1, initial=0.0) > NOBODY
    there = ahead & ~np.isnan(m.scores.values[shown])
    return [m.sides[g] if yes else None for g, yes in zip(best.tolist(), there.tolist(), strict=True)]


def protected_labels(protected: Any, groups: tuple[Any, ...], group: Any) -> Any:
    """The protected labels as the table has them; text stands for a number or a boolean that reads the same.

    Labels that nobody has are refused as misspelt, unless others of them are there (a page of results need not hold every
    viewpoint) or the table holds one label only (then no metric of two sides exists).
    """
    if protected is None:
        return None
    found = [match(label, groups) for label in several(protected)]
    lost = [label for label in found if label not in groups]
    if lost and groups:
        said = no_label("protected", lost, groups, of=f"group={group!r}" if isinstance(group, str) else "group")
        if len(lost) == len(found) and len(groups) > 1:
            raise EvenhandError(said)
        warnings.warn(DataWarning(said), stacklevel=3)
    return found


def _refuse_missing_side(asked: Sequence[Ask], p: Placement) -> None:
    """Metrics of two sides need to know which one is protected, and labels rather than shares."""
    for a in asked:
        template = template_of(a.metric, p, a.params)
        if template.difference.sided and p.protected is None:
            raise EvenhandError(
                f"metrics={a.text!r} compares two sides. Pass protected= with one label, or several taken together; "
                "or ask for 'ndjs', which compares all labels."
            )
        if template.difference.sided and p.rows is not None:
            raise EvenhandError(f"metrics={a.text!r} needs one label per item, not shares. Use 'ndjs' or 'pref_kl'.")


def _facts(view: Rankings, placed: Placed, found: Sequence[Measured], draws: int) -> dict[str, Any]:
    """What a reader of the numbers should know about the data behind them."""
    undefined = {
        m.ask.text: dict(Counter(code for code in m.reasons.tolist() if code)) for m in found if (m.reasons != "").any()
    }
    unlabelled = int(placed.unlabelled.sum())
    return {
        **view.facts(),
        "labels": [str(g) for g in placed.placement.groups][:100],
        "unlabelled_items": unlabelled,
        "unlabelled_share_of_attention": _unlabelled_attention(placed),
        "undefined_requests": undefined,
        "interval": "bootstrap over requests, percentile",
        "random_orders": draws,
    }


def _unlabelled_attention(placed: Placed) -> float:
    """Share of attention, 1 / log2(rank + 1), on items without a label and on empty ranks."""
    p = placed.placement
    ranks = np.arange(len(p.codes)) - np.repeat(p.starts[:-1], p.lengths)
    weight = 1 / np.log2(ranks + 2)
    return float(weight[p.codes < 0].sum() / weight.sum()) if len(weight) else 0.0
