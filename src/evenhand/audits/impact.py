"""Who is selected? Selection rates of categories and intersections, and their ratios to the highest."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from typing import Annotated, Any, Literal

import numpy as np

from evenhand.audits.declare import Call, Count, Level, Table, audit, refuse_many_slices
from evenhand.audits.min_units import SUPPRESSED, hidden, suppressed
from evenhand.cards import Between
from evenhand.claims import Candidate
from evenhand.errors import EvenhandError, all_problems
from evenhand.findings import Row, label, row
from evenhand.intervals.kinds import ratio_interval, ratio_p, wilson_ends
from evenhand.metrics.selection import impact_ratio, selection_rate
from evenhand.results import Result
from evenhand.sources.opening import open_table
from evenhand.sources.relation import role_problems
from evenhand.tallies.selections import Cell, Selections, cells_of

Labels = tuple[Any, ...]
Counts = Mapping[Labels, tuple[float, float]]
"""Selected candidates and all candidates by the labels of their category."""
Kind = tuple[int, ...]
"""Columns that make a kind of category: one, or several that intersect."""
MinShare = Annotated[float, Between(0, 1)]


@audit(
    "impact",
    question="Is every category selected as often?",
    charts=("intervals",),
    extra=("versus", "selected", "share", "p", "p_adjusted"),
)
def impact(
    call: Call,
    table: Table,
    *,
    group: str | Sequence[str],
    selected: str | None = None,
    score: str | None = None,
    min_share: MinShare = 0.0,
    interval: Literal["auto"] | None = "auto",
    level: Level = 0.95,
    min_units: Count | None = None,
) -> Result:
    """Selection rates (or scoring rates) of each category and each intersection, and impact ratios, with intervals.

    One row per candidate. The impact ratio of a category is its rate over the highest rate among the categories of the same kind
    (column `category`: one column, or several that intersect). Rates have Wilson's interval, ratios Koopman's.

    Parameters
    ----------
    group : column of categories, such as sex; several are also crossed with each other.
    selected : column that is 1 for candidates who were selected and 0 for others.
    score : column of scores, instead: the rate is the share above the median of all candidates.
    min_share : leave categories with less than this share of candidates out of the ratios; their rates are still shown.
    interval : `"auto"`, or None.
    min_units : suppress categories with fewer candidates, and others where they could be found by subtraction.

    Examples
    --------
    >>> import polars as pl
    >>> people = pl.DataFrame({"sex": ["F"] * 40 + ["M"] * 40, "hired": [1] * 6 + [0] * 34 + [1] * 12 + [0] * 28})
    >>> impact(people, group="sex", selected="hired").frame.filter(metric="impact_ratio").select("group", "estimate").rows()
    [('F', 0.5), ('M', 1.0)]
    """
    columns = [group] if isinstance(group, str) else list(group)
    if (selected is None) == (score is None):
        raise EvenhandError("Pass either selected, a column of 0 and 1, or score, a column of numbers.")
    value = str(selected if score is None else score)
    opened = open_table(table, columns=[*columns, value]).with_numbers(value)
    role = "selected" if score is None else "score"
    if problems := role_problems(opened, [*(("group", name) for name in columns), (role, value)], (role,)):
        raise all_problems(problems)
    cells = cells_of(opened, columns, value)
    bar = _median(cells) if score is not None else _refuse_other_than_truths(cells, value)
    rows: list[Row] = []
    dropped: Counter[str] = Counter({f"no {role}": sum(n for _, v, n in cells if v is None)})
    kinds = [c for depth in range(1, len(columns) + 1) for c in combinations(range(len(columns)), depth)]
    tables = {chosen: _counts(cells, chosen, bar) for chosen in kinds}
    refuse_many_slices("impact", sum(map(len, tables.values())), "group")
    few = _few(tables, call.min_units)
    for chosen, counts in tables.items():
        name = " x ".join(columns[i] for i in chosen)
        dropped[f"unknown {name}"] = sum(int(n) for labels, (_, n) in counts.items() if None in labels)
        labelled = {k: v for k, v in counts.items() if None not in k}
        rows += _rows(name, labelled, few[chosen], min_share, interval and level)
    facts = {} if score is None else {"median": bar}
    return call.result(
        rows, backend=opened.backend, read=sum(n for *_, n in cells), dropped={k: n for k, n in dropped.items() if n},
        slices=["category"], facts=facts, claims=_claims(rows), words={"unit": "candidate"}, hides=any(few.values()),
    )  # fmt: skip


def _median(cells: Sequence[Cell]) -> float:
    """The median score of all candidates; the mean of the two in the middle where they are even in number."""
    pairs = sorted((v, n) for _, v, n in cells if v is not None)
    values, ends = np.array([v for v, _ in pairs]), np.cumsum([n for _, n in pairs])
    middle = [(ends[-1] - 1) // 2, ends[-1] // 2] if len(ends) else []
    return float(np.mean(values[np.searchsorted(ends, middle, side="right")])) if middle else math.nan


def _refuse_other_than_truths(cells: Sequence[Cell], column: str) -> float:
    other = sorted({v for _, v, _ in cells if v is not None} - {0.0, 1.0})
    if other:
        raise EvenhandError(
            f"selected={column!r} holds {other[0]:g}, and only 1 (selected) and 0 are read. Pass such a column, or score={column!r}."
        )
    return 0.5


def _counts(cells: Sequence[Cell], chosen: Sequence[int], bar: float) -> Counts:
    counts: dict[Labels, tuple[float, float]] = {}
    for labels, value, many in cells:
        if value is not None:
            key = tuple(labels[i] for i in chosen)
            selected, total = counts.get(key, (0.0, 0.0))
            counts[key] = (selected + many * (value > bar), total + many)
    return dict(sorted(counts.items(), key=lambda item: tuple(map(label, item[0]))))


def _few(tables: Mapping[Kind, Counts], fewest: int) -> dict[Kind, set[Labels]]:
    """Categories to suppress: small ones, and those that a sum with a shown category or the whole would give away.

    The categories of several columns that share all labels but one add up to a category of fewer columns.
    """
    few: dict[Kind, set[Labels]] = {chosen: set() for chosen in tables}
    size = -1
    while fewest > 1 and size < sum(map(len, few.values())):
        size = sum(map(len, few.values()))
        for chosen, counts in tables.items():
            for left_out in range(len(chosen)):
                sums: dict[Labels, list[Labels]] = {}
                for key in counts:
                    sums.setdefault(key[:left_out] + key[left_out + 1 :], []).append(key)
                for keys in sums.values():
                    hide = hidden([counts[k][1] for k in keys], fewest, already=[k in few[chosen] for k in keys])
                    few[chosen] |= {key for key, is_hidden in zip(keys, hide, strict=True) if is_hidden}
    return few


def _rows(name: str, counts: Counts, few: Collection[Labels], min_share: float, level: float | None) -> list[Row]:
    everyone = sum(total for _, total in counts.values())
    shares = {key: total / everyone for key, (_, total) in counts.items()}
    large = [key for key in counts if shares[key] >= min_share and key not in few]
    chosen = [counts[key] for key in large]
    tally = Selections.from_arrays([n for n, _ in chosen], total=[total for _, total in chosen]) if large else None
    top = max(large, key=lambda key: counts[key][0] / counts[key][1], default=None)
    rates, ratios = [], []
    for key, (selected, total) in counts.items():
        group = ", ".join(map(label, key))
        if key in few:  # that a cell of several columns is there at all tells of the few in it
            shown = group if len(key) == 1 else SUPPRESSED
            unnamed = row({"category": name}, "selection_rate", group=shown, selected=None, share=math.nan)
            rates.append(suppressed(unnamed))
            continue
        about = {"group": group, "units": int(total), "selected": int(selected), "share": shares[key]}
        rate = selection_rate([selected], total=[total])
        low, high = map(float, wilson_ends(selected / total, total, level)) if level else (math.nan, math.nan)
        small = None if key in large else "small_cell"
        rates.append(row({"category": name}, "selection_rate", estimate=rate, low=low, high=high, note=small, **about))
        if tally is None or key not in large or top is None:
            continue
        base, base_total = counts[top]
        ratio = float(impact_ratio.on(tally, which=large.index(key)))
        is_measured = level is not None and key != top and base > 0
        low, high = ratio_interval(selected, total, base, base_total, level or 0.95) if is_measured else (math.nan,) * 2
        # Any two of the categories might have been compared: the highest was found in the same data.
        p = min(1.0, ratio_p(selected, total, base, base_total) * len(large) / 2) if is_measured else math.nan
        note = None if base > 0 else "zero_denominator"
        ratios.append(
            row({"category": name}, "impact_ratio", estimate=ratio, low=low, high=high, ideal=1.0, better="higher", p=p,
                note=note, versus=", ".join(map(label, top)), influence=_influence(ratio, total, base, base_total), **about)
        )  # fmt: skip
    merged = {(r["group"], r["note"] == "suppressed"): r for r in rates}
    return [*merged.values(), *ratios]


def _influence(ratio: float, total: float, base: float, base_total: float) -> float:
    """What one candidate more or less changes in a ratio, at most."""
    return max(base_total / (total * base), ratio / base) if base > 0 else 0.0


def _claims(rows: Sequence[Row]) -> list[Candidate]:
    return [
        Candidate(
            r["p"], "lower", f"{r['group']} is selected less often than {r['versus']}",
            f"{r['group']} is not selected significantly less often than {r['versus']}",
            r["metric"], r["group"], {"category": r["category"]},
        )
        for r in rows
        if not math.isnan(r.get("p", math.nan))
    ]  # fmt: skip
