"""Every figure of the inequality paper, drawn from our numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
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
from evenhand.studies.inequality_log import POOLED
from evenhand.studies.study import Figure

FAMILIES = {
    "figure-2a": ((), "entropy metrics", (GINI, ATKINSON)),
    "figure-2b": (("ratios",), "ratio metrics", RATIOS),
    "figure-2c": ((), "tail shares", (TOP_1, TOP_10)),
    "figure-2d": ((), "equivalences", (EQUAL, EQUIVALENT)),
}


@dataclass(frozen=True, slots=True)
class Drawn:
    """A figure and what a log must hold for it to be drawn."""

    needs: tuple[str, ...]
    caption: str
    draw: Callable[[], Any]


def figures(m: Measures, seed: int) -> tuple[tuple[Figure, ...], dict[str, str]]:
    """The paper's figures that the log allows, and the missing need of each other one by title."""
    types, first, by = _sorted(m.types, "amount"), m.log.first.replace("_", " "), "of the engagement types"
    other = "all suggestions together" if m.log.figure_5 == POOLED else m.log.figure_5
    every = {
        "figure-1a": Drawn((), f"Lorenz curves {by}", lambda: m.types.plot("lorenz")),
        "figure-1b": Drawn((), "the same on a log axis, linear below one in a million", lambda: m.types.plot("lorenz_log")),
        **{name: Drawn(needs, f"{what} {by}", _intervals(types, chosen)) for name, (needs, what, chosen) in FAMILIES.items()},
        "figure-3a": Drawn(("sources",), f"entropy metrics of {first} by source", _by_source(m, (GINI, ATKINSON))),
        "figure-3b": Drawn(("sources",), f"tail shares of {first} by source", _by_source(m, (TOP_1, TOP_10))),
        "figure-4": Drawn(
            ("sources", "followers"),
            "followers of the authors whom a source reached, against its Gini index",
            lambda: _against(m).plot("scatter"),
        ),
        "figure-5-7": Drawn(
            ("bins",),
            f"{first} by followers, in network and {other}: mean, Gini index within bins, authors per bin",
            lambda: _large(m.parts["bins"]).plot("bins"),
        ),
        "figure-6": Drawn(
            (),
            "how to read a Lorenz curve (an example: a sum of Poisson counts)",
            lambda: _example(seed).plot("lorenz_annotated"),
        ),
        "sources": Drawn(
            ("sources",), "which source makes the skew: contribution and marginal effect", lambda: m.parts["split"].plot("sources")
        ),
    }  # fmt: skip
    lost = {name: next((need for need in drawn.needs if need not in m.has), "") for name, drawn in every.items()}
    chosen = (
        Figure(name, f"{_title(name)}: {drawn.caption}.", drawn.draw) for name, drawn in every.items() if not lost[name]
    )
    return tuple(chosen), {_title(name): need for name, need in lost.items() if need}


def _by_source(m: Measures, metrics: Iterable[str]) -> Any:
    return lambda: _sorted(m.sources, str(m.log.source)).only(*metrics).plot("intervals")


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
    selected = {name: [column[i] for i in keep] for name, column in columns.items()}
    return replace(result, findings=replace(result.findings, columns=selected))


def _sorted(result: Result, key: str) -> Result:
    """The slices in the order of their Gini index, as the paper's figures have them."""
    order = {name: (math.isnan(x), x) for name, x in values(result, GINI, key).items()}
    labels = result.findings.columns[key]
    return _rows_of(result, sorted(range(len(labels)), key=lambda i: order[str(labels[i])]))


def _large(bins: Result) -> Result:
    """Bins that hold enough authors for an interval."""
    return _rows_of(bins, [i for i, r in enumerate(bins.findings.rows()) if r["units"] >= FEWEST])


def _against(m: Measures) -> Result:
    """Figure 4's points: one row per source and quantity."""
    followers, source = m.parts["followers"], str(m.log.source)
    quantities = {
        f"gini_of_{m.log.first}": m.by_source(GINI),
        f"mean_{m.log.followers}": values(followers, "mean", source),
        f"gini_of_{m.log.followers}": values(followers, GINI, source),
    }
    rows = [
        (via, name, by_source[via])
        for name, by_source in quantities.items()
        for via in quantities[f"mean_{m.log.followers}"]
    ]
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
