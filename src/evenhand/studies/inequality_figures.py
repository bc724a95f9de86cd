"""Every figure of the inequality paper, drawn from our numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from evenhand.audits.inequality import inequality
from evenhand.findings import COLUMNS, Findings
from evenhand.results import Result
from evenhand.studies.inequality_findings import (
    ATKINSON,
    EQUAL,
    EQUIVALENT,
    FEWEST,
    GINI,
    RATIOS,
    TOP_1,
    TOP_10,
    Measures,
    values,
)
from evenhand.studies.study import Figure

FAMILIES = {
    "figure-2a": ("entropy metrics", (GINI, ATKINSON)),
    "figure-2b": ("ratio metrics", RATIOS),
    "figure-2c": ("tail shares", (TOP_1, TOP_10)),
    "figure-2d": ("equivalences", (EQUAL, EQUIVALENT)),
}


def figures(m: Measures, split: Result, seed: int) -> tuple[Figure, ...]:
    """Figures 1 to 7, and the sources of the skew."""
    types, by_source = _sorted(m.types, "amount"), _sorted(m.sources, "source")
    drawn = {
        "figure-1a": ("Lorenz curves of the engagement types", lambda: m.types.plot("lorenz")),
        "figure-1b": ("the same on a log axis, linear below one in a million", lambda: m.types.plot("lorenz_log")),
        **{name: (f"{what} by engagement type", _intervals(types, kept)) for name, (what, kept) in FAMILIES.items()},
        "figure-3a": ("entropy metrics of impressions by source", _intervals(by_source, (GINI, ATKINSON))),
        "figure-3b": ("tail shares of impressions by source", _intervals(by_source, (TOP_1, TOP_10))),
        "figure-4": (
            "followers of the authors whom a source reached, against its Gini index",
            lambda: _against(m).plot("scatter"),
        ),
        "figure-5-7": (
            "impressions by followers: mean, Gini index within bins, authors per bin",
            lambda: _two_networks(m.bins).plot("bins"),
        ),
        "figure-6": (
            "how to read a Lorenz curve (a sum of Poisson counts)",
            lambda: _example(seed).plot("lorenz_annotated"),
        ),
        "sources": ("which source makes the skew: contribution and marginal effect", lambda: split.plot("sources")),
    }
    return tuple(Figure(name, f"{_title(name)}: {caption}.", draw) for name, (caption, draw) in drawn.items())


def _title(name: str) -> str:
    """The paper's name of a figure.

    >>> _title("figure-5-7"), _title("sources")
    ('Figure 5, 7', 'Sources')
    """
    word, *numbers = name.split("-")
    return " ".join([word.capitalize(), ", ".join(numbers)]).strip()


def _intervals(result: Result, metrics: Iterable[str]) -> Any:
    return lambda: result.only(*metrics).plot("intervals")


def _rows_of(result: Result, keep: Any) -> Result:
    columns = result.findings.columns
    kept = {name: [column[i] for i in keep] for name, column in columns.items()}
    return replace(result, findings=replace(result.findings, columns=kept))


def _sorted(result: Result, key: str) -> Result:
    """The slices in the order of their Gini index, as the paper's figures have them."""
    order = values(result, GINI, key)
    labels = result.findings.columns[key]
    return _rows_of(result, sorted(range(len(labels)), key=lambda i: order[str(labels[i])]))


def _two_networks(bins: Result) -> Result:
    """In and out of network, in bins that hold enough authors for an interval."""
    rows = list(bins.findings.rows())
    return _rows_of(bins, [i for i, r in enumerate(rows) if r["network"] != "topics" and r["units"] >= FEWEST])


def _against(m: Measures) -> Result:
    """Figure 4's points: one row per source and quantity."""
    found = {
        "gini_of_impressions": values(m.sources, GINI, "source"),
        "mean_followers": values(m.followers, "mean", "source"),
        "gini_of_followers": values(m.followers, GINI, "source"),
    }
    rows = [(source, name, x) for name, by_source in found.items() for source, x in by_source.items()]
    columns: dict[str, list[Any]] = {"source": [r[0] for r in rows]} | {name: [None] * len(rows) for name in COLUMNS}
    columns |= {
        "metric": [r[1] for r in rows],
        "estimate": [r[2] for r in rows],
        "low": [math.nan] * len(rows),
        "high": [math.nan] * len(rows),
    }
    columns |= {"chance": [math.nan] * len(rows), "ideal": [math.nan] * len(rows), "better": [""] * len(rows)}
    columns |= {"units": [0] * len(rows), "undefined_draws": [0] * len(rows)}
    return Result(Findings("inequality", "Whom does a skewed source reach?", ("source",), columns))


def _example(seed: int) -> Result:
    import polars as pl

    rng = np.random.default_rng(seed)
    amounts = np.concatenate([rng.poisson(mean, 400) for mean in (2, 8, 30, 90)])
    table = pl.DataFrame({"amount": amounts})
    return inequality(table, unit=None, amount="amount", population=None, metrics=[GINI], interval=None, rng=seed)
