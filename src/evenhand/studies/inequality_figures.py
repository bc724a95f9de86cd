"""Every figure of the inequality paper, drawn from our numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl

import evenhand as eh
from evenhand.studies.inequality_findings import (
    ATKINSON,
    EQUAL,
    EQUIVALENT,
    GINI,
    MIN_UNITS,
    RATIOS,
    TOP_1,
    TOP_10,
    Measures,
    values,
    words,
)
from evenhand.studies.inequality_log import POOLED
from evenhand.studies.study import Figure, result_from_rows, select

Draw = Callable[[], Any]


def figures(m: Measures, seed: int) -> tuple[tuple[Figure, ...], dict[str, str]]:
    """The paper's figures that the log allows; and for every other one, by title, what it needs."""
    drawn, left_out = [], {}
    for name, (needs, caption, draw) in _catalogue(m, seed).items():
        word, *numbers = name.split("-")
        title = " ".join([word.capitalize(), ", ".join(numbers)]).strip()  # figure-5-7: "Figure 5, 7"
        if lost := next((need for need in needs if need not in m.has), ""):
            left_out[title] = lost
        else:
            drawn.append(Figure(name, f"{title}: {caption}.", draw))
    return tuple(drawn), left_out


def _catalogue(m: Measures, seed: int) -> dict[str, tuple[Sequence[str], str, Draw]]:
    """Every figure by name: what the log must have, the caption, and how it is drawn."""
    first, by = words(m.log.first), "of the engagement types"
    other = "all suggestions together" if m.log.figure_5 == POOLED else m.log.figure_5
    types = partial(_intervals, m.types, "amount")
    sources = lambda *metrics: _intervals(m.sources, str(m.log.source), *metrics)  # noqa: E731
    return {
        "figure-1a": ((), f"Lorenz curves {by}", lambda: m.types.plot("lorenz")),
        "figure-1b": ((), "the same on a log axis, linear below one in a million", lambda: m.types.plot("lorenz_log")),
        "figure-2a": ((), f"entropy metrics {by}", partial(types, GINI, ATKINSON)),
        "figure-2b": (("ratios",), f"ratio metrics {by}", partial(types, *RATIOS)),
        "figure-2c": ((), f"tail shares {by}", partial(types, TOP_1, TOP_10)),
        "figure-2d": ((), f"equivalences {by}", partial(types, EQUAL, EQUIVALENT)),
        "figure-3a": (("sources",), f"entropy metrics of {first} by source", partial(sources, GINI, ATKINSON)),
        "figure-3b": (("sources",), f"tail shares of {first} by source", partial(sources, TOP_1, TOP_10)),
        "figure-4": (
            ("sources", "followers"),
            "followers of the authors whom a source reached, against its Gini index",
            lambda: _against(m).plot("scatter"),
        ),
        "figure-5-7": (
            ("bins",),
            f"{first} by followers, in network and {other}: mean, Gini index within bins, authors per bin",
            lambda: _large(m.parts["bins"]).plot("bins"),
        ),
        "figure-6": (
            (),
            "how to read a Lorenz curve (an example: a sum of Poisson counts)",
            lambda: _example(seed).plot("lorenz_annotated"),
        ),
        "sources": (
            ("sources",),
            "which source makes the skew: contribution and marginal effect",
            lambda: m.parts["split"].plot("sources"),
        ),
    }


def _intervals(result: eh.Result, key: str, *metrics: str) -> Any:
    """Intervals of the slices in the order of their Gini index, as the paper's figures have them."""
    ginis = {name: (math.isnan(x), x) for name, x in values(result, GINI, key).items()}
    labels = [str(r[key]) for r in select(result)]
    return (
        _with_rows(result, sorted(range(len(labels)), key=lambda i: ginis[labels[i]])).only(*metrics).plot("intervals")
    )


def _large(bins: eh.Result) -> eh.Result:
    """Bins that hold enough authors for an interval."""
    return _with_rows(bins, [i for i, r in enumerate(select(bins)) if r["units"] >= MIN_UNITS])


def _with_rows(result: eh.Result, positions: Sequence[int]) -> eh.Result:
    columns = {name: [column[i] for i in positions] for name, column in result.findings.columns.items()}
    return replace(result, findings=replace(result.findings, columns=columns))


def _against(m: Measures) -> eh.Result:
    """Figure 4's points: one row per source and quantity."""
    followers, source, size = m.parts["followers"], str(m.log.source), m.log.followers
    means = values(followers, "mean", source)
    quantities = {
        f"gini_of_{m.log.first}": m.by_source(GINI),
        f"mean_{size}": means,
        f"gini_of_{size}": values(followers, GINI, source),
    }
    rows = [
        {"source": via, "metric": name, "estimate": by_source[via], "units": 0}
        for name, by_source in quantities.items()
        for via in means
    ]
    return result_from_rows("inequality", "Whom does a skewed source reach?", ("source",), rows)


def _example(seed: int) -> eh.Result:
    rng = np.random.default_rng(seed)
    amounts = np.concatenate([rng.poisson(mean, 400) for mean in (2, 8, 30, 90)])
    table = pl.DataFrame({"amount": amounts})
    return eh.inequality(table, unit=None, amount="amount", population=None, metrics=[GINI], interval=None, rng=seed)
