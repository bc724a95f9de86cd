"""Findings to draw: real audits of small tables, and hand-made ones for shapes that are hard to come by."""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import replace

import numpy as np
import polars as pl

import evenhand as eh
from evenhand.claims import decide
from evenhand.findings import COLUMNS, Findings
from evenhand.results import difference_claims

HOSTILE = "</script><img src=x onerror=alert(1)>"
METRICS = (
    "gini",
    "atkinson(epsilon=0.5)",
    "top_share(p=0.01)",
    "top_share(p=0.1)",
    "equal_share",
    "equivalent_to_top(p=0.1)",
)


def amounts(units=400, seed=1, spread=1.5):
    """Whole-number amounts with a heavy tail and some zeros."""
    rng = np.random.default_rng(seed)
    return rng.poisson(rng.lognormal(0.5, spread, units))


@functools.cache
def audited(
    slices=("home", "search", "out of network"), units=400, by="source", unit="author_id", amount="impressions", **more
):
    """A real inequality audit of made-up amounts; `slices=None` for an unsliced one."""
    parts = [amounts(units, seed=i, spread=1 + 0.3 * (i % 4)) for i in range(len(slices or [0]))]
    table = {unit: list(range(units)) * len(parts), amount: np.concatenate(parts)}
    if slices:
        table[by] = [s for s in slices for _ in range(units)]
    chosen = {"metrics": METRICS, "interval": "normal", "rng": 7, **more}
    return eh.inequality(
        pl.DataFrame(table), unit=unit, amount=amount, population=None, by=by if slices else None, **chosen
    )


def findings_of(audit, rows, slices=(), words=None, question="What is asked?", extra=(), charts=()):
    """Findings from rows written by hand; what a row leaves out is absent."""
    blank = dict.fromkeys(("estimate", "low", "high", "chance", "ideal"), math.nan) | {
        "better": "",
        "undefined_draws": 0,
    }
    names = (*slices, *COLUMNS, *extra)
    columns = {name: [row.get(name, blank.get(name)) for row in rows] for name in names}
    facts = {
        "rows": 10,
        "dropped": {"no label": 2},
        "level": 0.95,
        "plan": {"audit": audit, "table": "a polars table", "unit": "u"},
    }
    findings = Findings(
        audit, question, slices, columns, {}, words or {"unit": "author_id", "amount": "impressions"}, facts, charts
    )
    if audit not in ("compare", "experiment") or "p" not in columns:
        return findings
    tested = [row for row in findings.rows() if row["p"] is not None]
    return replace(findings, claims=decide(difference_claims(tested, slices), 0.95))


SOURCES = {"home": (0.30, 0.05), "search": (0.12, -0.02), "friends": (-0.04, -0.03), "push": (0.01, 0.0)}


def sources():
    """Contributions that add up to a Gini index of 0.39, one of them negative."""
    rows = [{"metric": "gini", "estimate": 0.39, "low": 0.38, "high": 0.40}]
    for place, metric in enumerate(("contribution", "marginal")):
        rows += [{"metric": metric, "group": name, "estimate": v[place], "low": v[place] - 0.01, "high": v[place] + 0.01}
                 for name, v in SOURCES.items()]  # fmt: skip
    return findings_of("sources", rows, charts=("sources", "intervals", "scatter"))


def decomposed(*, adding=True, slices=()):
    """Parts of a total of 0.6, and three groups with their shares."""
    rows = []
    for where in slices or (None,):
        lead = {"by": where} if where else {}
        parts = {"total": 0.6, "within": 0.2, "between": 0.3, **({"overlap": 0.1} if adding else {})}
        rows += [{**lead, "metric": m, "estimate": v} for m, v in parts.items()]
        for group, share, size in (("small", 0.1, 0.6), ("medium", 0.3, 0.3), ("large", 0.6, 0.1)):
            numbers = {"index": 0.4, "share": share, "population_share": size}
            rows += [{**lead, "metric": m, "group": group, "estimate": v} for m, v in numbers.items()]
    words = {"unit": "author_id", "amount": "impressions", "group": "country", "index": "gini"}
    charts = ("decomposition", "intervals", "scatter")
    return findings_of("decompose", rows, slices=("by",) if slices else (), words=words, charts=charts)


def binned(edges=(0, 0, 1, 10, 100, 1000, 1_000_000), series=("ranking", "other")):
    """Gini and mean within bins of followers, with the edges in columns of their own; the lowest bin is zero."""
    rows = []
    for place, name in enumerate(series):
        for low, high in itertools.pairwise(edges):
            where = {
                "source": name,
                "followers": f"{low} to {high}",
                "followers_low": float(low),
                "followers_high": float(high),
            }
            for metric, value in (("gini", 0.9 - 0.1 * place - low / 1e7), ("mean", 1.0 + high / 2)):
                interval = {"low": value * 0.97, "high": value * 1.02}
                rows.append(
                    {**where, "metric": metric, "estimate": value, "units": 1 + int(1e6 / (high + 1)), **interval}
                )
    extra = ("followers_low", "followers_high")
    return findings_of("inequality", rows, ("source", "followers"), extra=extra, charts=("lorenz", "bins", "intervals"))


def undefined():
    """A result in which one slice has numbers, one has none and one is infinite."""
    rows = [
        {"by": "some", "metric": "gini", "estimate": 0.5, "low": 0.4, "high": 0.6, "units": 10},
        {"by": "none", "metric": "gini", "note": "zero_total", "units": 10},
        {"by": "some", "metric": "generalized_entropy(alpha=0)", "estimate": math.inf, "units": 10},
        {"by": "none", "metric": "generalized_entropy(alpha=0)", "note": "zero_total", "units": 10},
    ]
    return findings_of("inequality", rows, slices=("by",))


def hostile():
    """Markup, quotes, emoji and right-to-left text wherever a name can stand."""
    slices = (HOSTILE, "\"quoted\" & 'single'", "🦊 fox", "مرحبا", "a.b[0]:c", "{{braces}} ${x}")
    found = audited(slices, units=60, by=HOSTILE, unit=f"{HOSTILE}_id", amount="a.b[0]:c" + HOSTILE).findings
    provenance = {**found.provenance, "dropped": {HOSTILE: 3}, "plan": {**found.provenance["plan"], "table": HOSTILE}}
    notes = ["heavy_tail; " + HOSTILE] + [None] * (len(found) - 1)
    return Findings(found.audit, "Who? " + HOSTILE, found.slices, {**found.columns, "note": notes}, found.curves,
                    found.words, provenance, found.charts)  # fmt: skip
