"""Does a more relevant item stand above a less relevant one, whatever their groups? Pairs within and between groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import narwhals as nw
import numpy as np

from evenhand import metrics as _all_metrics  # noqa: F401  (fills the registry)
from evenhand.audits.assemble import check_min_units, log, names_of, notes, provenance, suppressed
from evenhand.audits.requests import Held, RankingResult
from evenhand.cards import Ask, Floats, asks, is_whole, needing
from evenhand.engine.ledgers import Unknown
from evenhand.engine.pairs import PairLedger, Sides, tally_pairs
from evenhand.engine.prepared import as_table
from evenhand.errors import EvenhandError
from evenhand.findings import Findings, Row, row, tidy
from evenhand.tallies.pairs import Pairs
from evenhand.uncertainty.intervals import Interval, percentile_ends, seed_of, stream
from evenhand.uncertainty.requests import together
from evenhand.views.judgments import MissingRelevance, view_judgments
from evenhand.views.labels import view_labels
from evenhand.views.rankings import open_rankings, system_of
from evenhand.views.scored import view_scored

QUESTION = "Does the more relevant item stand above, whatever the groups?"
METRICS = ("intra_acc", "inter_acc", "accuracy")
EXTRA = ("pairs",)
ANYONE = "*"

Average = Literal["pooled", "macro"]


def pairwise(
    scores: Any,
    *,
    groups: Any,
    relevance: Any,
    protected: Any,
    versus: Any = None,
    request: str = "request",
    item: str = "item",
    score: str = "score",
    system: str | None = None,
    by: str | Sequence[str] | None = None,
    average: Average = "pooled",
    metrics: str | Sequence[str] = METRICS,
    unknown: Unknown = "drop",
    missing_relevance: MissingRelevance = "zero",
    negatives: int | None = None,
    interval: str | None = "bootstrap(999)",
    level: float = 0.95,
    rng: int | np.random.Generator | None = None,
    min_units: int | None = None,
    nan_policy: Literal["raise", "omit"] = "omit",
) -> RankingResult:
    """Share of pairs of different relevance that the scores put in the right order, within and between groups.

    A tied score counts one half; pairs of equal relevance are not counted.

    Parameters
    ----------
    scores : one row per request and item that a model scored (any dataframe, or a path), a TREC run, or
        `{request: {item: score}}`. Pass all that was scored: a list cut at rank 10 has few pairs left.
    groups : as in `eh.exposure`; one label per item, or per request and item.
    relevance : a table request, item, relevance, `{request: {item: relevance}}`, or a column of `scores`.
    protected, versus : the two sides of intra_acc and inter_acc, a label or several taken together.
    average : all pairs count alike (`"pooled"`), or all requests do (`"macro"`).
    metrics : `intra_acc`, `inter_acc`, and `accuracy`: one row per ordered pair of groups, `group` `"P>U"`, and `"P>*"`
        against all.
    unknown : items without a group are left out, are a group, count as `versus`, or are refused.
    missing_relevance : a scored item that nobody judged has relevance zero (a negative), is left out, or is refused.
    negatives : draw that many less relevant items for each item, instead of counting every pair (the paper: 10,000). Draws
        are apart from request to request, so the interval over requests holds their error too.
    nan_policy : rows without a score are left out and counted, or refused.

    Examples
    --------
    >>> import polars as pl
    >>> table = pl.DataFrame({"request": [1] * 4, "item": list("abcd"), "score": [4, 3, 2, 1], "relevance": [1, 0, 1, 0]})
    >>> side = {"a": "U", "b": "U", "c": "P", "d": "P"}
    >>> pairwise(table, groups=side, relevance="relevance", protected="P", metrics="inter_acc").frame["estimate"][0]
    1.0
    """
    asked = asks(metrics, needing(Pairs))
    how, fewest, seed = Interval.parse(interval, level), check_min_units(min_units), seed_of(rng)
    _check_choices(average, unknown, missing_relevance, negatives)
    sided = next((a.text for a in asked if a.card.name != "accuracy"), None)
    if sided and protected is None:
        raise EvenhandError(f"metrics={sided!r} compares two groups. Pass protected= with one of them.")
    if unknown == "unprotected" and protected is None:
        raise EvenhandError("unknown='unprotected' needs two sides. Pass protected= with one of them.")
    log.info("checking the scores")
    opened = open_rankings(as_table(scores, request=request, item=item))
    found = view_labels(groups, opened, item=item, request=request)
    judgments = view_judgments(relevance, opened, request=request, item=item)
    if judgments is None:
        raise EvenhandError("relevance is not given. Pass a table request, item, relevance, or a column of the scores.")
    carry = found.carry(opened)
    if judgments.column is not None:
        carry["relevance"] = nw.col(judgments.column).cast(nw.Float64)
    view = view_scored(
        opened, request=request, item=item, score=score, by=names_of(by), system=system or system_of(scores, opened),
        nan_policy=nan_policy, carry=carry,
    )  # fmt: skip
    log.info("counting pairs")
    sides = Sides(protected, versus, unknown, sided)
    draws = stream(seed, "negatives")
    ledger = tally_pairs(view, found, judgments, missing_relevance, sides, negatives=negatives, rng=draws)
    figures = [figure for a in asked for figure in _figures(a, ledger.pairs)]
    rows = [
        made
        for s, where in enumerate(ledger.slices)
        for made in _rows(
            ledger, s, dict(zip(view.slice_names, where, strict=True)), figures, average, how, seed, fewest
        )
    ]
    plan = {
        "audit": "pairwise", "scores": view.origin, "groups": found.origin, "relevance": judgments.origin,
        "protected": protected, "versus": versus, "request": request, "item": item, "score": score, "system": system,
        "by": list(names_of(by)) or None, "average": average, "metrics": [a.text for a in asked], "unknown": unknown,
        "missing_relevance": missing_relevance, "negatives": negatives, "interval": interval, "level": level,
        "min_units": min_units, "nan_policy": nan_policy, "rng": seed,
    }  # fmt: skip
    facts = provenance(
        plan, rows=view.rows, dropped=view.dropped, seed=seed, level=level, average=average, **ledger.facts,
        interval="bootstrap over requests, percentile" + (", sampled negatives included" if negatives else ""),
    )  # fmt: skip
    words = {"unit": request}
    findings = Findings("pairwise", QUESTION, view.slice_names, tidy(rows, view.slice_names, EXTRA), {}, words, facts)
    return RankingResult(
        findings, view.backend, _per_request(ledger, view.slice_names, figures, fewest),
        lambda: _held(ledger, figures, average, fewest),
    )  # fmt: skip


def _check_choices(average: Any, unknown: Any, missing: Any, negatives: Any) -> None:
    if average not in ("pooled", "macro"):
        raise EvenhandError(f"average={average!r} is unknown. Use 'pooled' or 'macro'.")
    if unknown not in ("drop", "group", "unprotected", "raise"):
        raise EvenhandError(f"unknown={unknown!r} is unknown. Use 'drop', 'group', 'unprotected' or 'raise'.")
    if missing not in ("zero", "drop", "raise"):
        raise EvenhandError(f"missing_relevance={missing!r} is unknown. Use 'zero', 'drop' or 'raise'.")
    if negatives is not None and not is_whole(negatives, 1):
        raise EvenhandError(f"negatives={negatives!r} is not a number of items. Pass a whole number of one or more.")


@dataclass(frozen=True)
class Figure:
    """One row of a slice: a difference of accuracies, or one accuracy.

    Attributes
    ----------
    parts : (sign, wins of the tally, pairs of the tally) of the accuracies that make it up.
    """

    ask: Ask
    group: str | None
    parts: tuple[tuple[float, Floats, Floats], ...]

    def pairs(self, part: slice) -> float:
        return float(sum(pairs[part].sum() for _, _, pairs in self.parts))

    def each(self) -> Floats:
        """(Q,) the value of every request alone."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(sum(sign * wins / pairs for sign, wins, pairs in self.parts), dtype=np.float64)

    def sums(self, part: slice, average: Average) -> Floats:
        """(Q, 2 parts) what a resample of requests adds up: wins and pairs, or accuracies and whether there is one."""
        columns = []
        for _, wins, pairs in self.parts:
            won, all_pairs = wins[part], pairs[part]
            if average == "macro":
                there = all_pairs > 0
                won, all_pairs = np.divide(won, all_pairs, out=np.zeros_like(won), where=there), there.astype(float)
            columns += [won, all_pairs]
        return np.stack(columns, axis=-1)

    def value(self, totals: Floats) -> Floats:
        """(..., 2 parts) totals to the figure."""
        signs = np.array([sign for sign, _, _ in self.parts])
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray((signs * (totals[..., 0::2] / totals[..., 1::2])).sum(-1))


def _figures(a: Ask, t: Pairs) -> list[Figure]:
    """The rows of a metric: two differences, or the whole table of groups by groups."""
    nothing = np.zeros(len(t.wins))

    def cell(sign: float, above: int, below: int) -> tuple[float, Floats, Floats]:
        if above < 0 or below < 0:
            return sign, nothing, nothing
        return sign, t.wins[:, above, below], t.pairs[:, above, below]

    ours, theirs = t.protected, t.versus
    if a.card.name == "intra_acc":
        return [Figure(a, _side(t, ours), (cell(1, theirs, theirs), cell(-1, ours, ours)))]
    if a.card.name == "inter_acc":
        return [Figure(a, _side(t, ours), (cell(1, theirs, ours), cell(-1, ours, theirs)))]
    many = range(len(t.groups))
    table = [Figure(a, f"{t.groups[i]}>{t.groups[j]}", (cell(1, i, j),)) for i in many for j in many]
    against_all = [
        Figure(a, f"{t.groups[i]}>{ANYONE}", ((1, t.wins[:, i].sum(-1), t.pairs[:, i].sum(-1)),)) for i in many
    ]
    return table + against_all


def _side(t: Pairs, code: int) -> str | None:
    return str(t.groups[code]) if code >= 0 else None


def _rows(
    ledger: PairLedger, s: int, labels: Mapping[str, Any], figures: Sequence[Figure], average: Average, how: Interval,
    seed: int, fewest: int,
) -> list[Row]:  # fmt: skip
    part = ledger.part(s)
    units = part.stop - part.start
    rows = []
    sums = [f.sums(part, average) for f in figures]
    drawn: Sequence[Floats | None] = [None] * len(figures)
    if how.kind != "none" and units > 1:  # one request says nothing about others
        drawn = together(sums, how.draws or 999, stream(seed, "pairwise", *ledger.slices[s]))
    for f, own, totals in zip(figures, sums, drawn, strict=True):
        estimate = float(f.value(own.sum(0)))
        draws = np.full(1, np.nan) if totals is None or np.isnan(estimate) else f.value(totals)
        low, high = percentile_ends(draws[None, :], how.level)
        made = row(
            labels, f.ask.text, group=f.group, estimate=estimate, low=float(low[0]), high=float(high[0]),
            ideal=f.ask.ideal, better=f.ask.better, units=units,
            undefined_draws=int(np.isnan(draws).sum()) if len(draws) > 1 else 0,
            pairs=f.pairs(part), note=notes("no_pairs" if np.isnan(estimate) else ""),
        )  # fmt: skip
        rows.append(suppressed(made) | {"pairs": None} if units < fewest else made)
    return rows


def _held(ledger: PairLedger, figures: Sequence[Figure], average: Average, fewest: int) -> list[Held]:
    """The sums of every request, for comparing systems."""
    parts = [(where, ledger.part(s)) for s, where in enumerate(ledger.slices)]
    return [
        Held(where, f.ask.text, f.group, ledger.requests[part], f.sums(part, average), f.value)
        for where, part in parts
        if part.stop - part.start >= fewest
        for f in figures
    ]


def _per_request(
    ledger: PairLedger, names: Sequence[str], figures: Sequence[Figure], fewest: int
) -> Callable[[], Mapping[str, Sequence[Any]]]:
    """Columns of every request's value, made when somebody looks; suppressed slices have none."""

    def columns() -> dict[str, list[Any]]:
        sizes = np.diff(ledger.starts)
        slice_of = np.repeat(np.arange(len(sizes)), sizes)
        shown = np.flatnonzero(sizes[slice_of] >= fewest)
        found: dict[str, list[Any]] = {"request": [ledger.requests[i] for i in shown] * len(figures)}
        for i, name in enumerate(names):
            found[name] = [ledger.slices[s][i] for s in slice_of[shown]] * len(figures)
        found.setdefault("system", [None] * len(found["request"]))
        found["metric"] = [f.ask.text for f in figures for _ in shown]
        found["group"] = [f.group for f in figures for _ in shown]
        values = [v for f in figures for v in f.each()[shown].tolist()]
        found["estimate"] = values
        found["note"] = ["no_pairs" if v != v else None for v in values]
        return found

    return columns
