"""The inequality paper's two use cases, on a generated platform: who gets seen, and which source makes the skew.

The platform is run as it is, with mechanisms switched off, and on a rewired graph, so that a finding can be seen to come
from what the paper says it comes from.
"""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.audits.criteria import criteria
from evenhand.audits.inequality import inequality
from evenhand.audits.sources import sources
from evenhand.metrics.shares import lorenz
from evenhand.results import Result
from evenhand.studies.inequality_figures import figures
from evenhand.studies.inequality_findings import (
    ATKINSON,
    FAMILIES,
    GINI,
    OUT_OF_NETWORK,
    RATIOS,
    TOP_1,
    TOP_10,
    Measures,
    claims,
    values,
)
from evenhand.studies.study import Claim, Study, Table
from evenhand.synthetic.platform import ENGAGEMENTS, Platform, platform
from evenhand.views.bins import log_bins

if TYPE_CHECKING:
    import polars as pl

SIZE = 50_000
BINS = 20
DRAWS = "percentile(199)"
"""As the paper made its error bars."""
log = logging.getLogger("evenhand")

EQUAL_FOLLOWERS = {"tail": math.inf, "pull": 0.0}
RANDOM = {"graph_suggestions": False}
SWITCHES: Mapping[str, Mapping[str, Any]] = {
    "random suggestions": RANDOM,
    "equal followers": EQUAL_FOLLOWERS,
    "no social proof": {"proof": 0.0},
    "rewired graph": {"rewired": True},
}
"""Mechanisms switched off, one at a time; everything else keeps its draws."""

CAVEATS = (
    "The platform is made up, and its default values were chosen with the paper in view: a yes means that these mechanics are "
    "enough to produce the finding. It does not confirm the paper, whose data nobody outside has.",
)
TITLE = "Who gets seen on a social platform, and which source makes the skew"


def study(*, size: int | None = None, seed: int = 1) -> Study:
    """Rerun use cases 1 and 2 of the inequality paper on a platform of `size` authors."""
    authors = SIZE if size is None else size
    log.info("a month with %s authors", f"{authors:,}")
    month = platform(authors, rng=seed)
    measured = measure(month, interval=DRAWS, seed=seed)
    found = claims(measured)
    split = sources(
        _log(month),
        unit="author_id",
        amount="impressions",
        source="source",
        population=_eligible(month),
        interval=DRAWS,
        rng=seed,
    )
    switched = {}
    for name, off in SWITCHES.items():
        log.info("the same month with %s", name)
        switched[name] = measure(platform(authors, rng=seed, **off), interval=None, seed=seed)
    runs = {"as it is": measured, **switched}
    skew = _split_skew(authors, seed, runs)
    tables = (
        _switch_table(found, switched),
        _source_table(split),
        _network_table(runs),
        skew,
        _criteria_table(month, seed),
    )
    return Study(
        name="inequality",
        title=TITLE,
        setting=f"A generated platform of {authors:,} authors (seed {seed}), of whom {_eligible(month).height:,} had a post displayed.",
        claims=found,
        tables=tables,
        figures=figures(measured, split, seed),
        sentences=(*_flips(found, switched), *_answer(split, skew)),
        caveats=CAVEATS,
    )


def _eligible(month: Platform) -> pl.DataFrame:
    """The paper's authors: at least one follower, and at least one post selected for display."""
    import polars as pl

    return month.authors.filter((pl.col("displays") > 0) & (pl.col("followers") > 0)).select("author_id", "followers")


def _log(month: Platform) -> pl.DataFrame:
    """The log with out-of-network sources also under one name."""
    import polars as pl

    together = (
        pl.when(pl.col("source").is_in(OUT_OF_NETWORK)).then(pl.lit("out_of_network")).otherwise(pl.col("source"))
    )
    return month.engagements.with_columns(network=together)


def measure(month: Platform, *, interval: str | None, seed: int) -> Measures:
    """Everything the findings are read from."""
    table, people = _log(month), _eligible(month)
    everyone = people.select("author_id")
    common: dict[str, Any] = {"unit": "author_id", "population": everyone, "interval": interval, "rng": seed}
    impressions = {**common, "amount": "impressions"}
    reached = table.join(people, on="author_id").select("author_id", "source", "followers")
    return Measures(
        everyone=_gini_of_all(month),
        types=inequality(table, amount=list(ENGAGEMENTS), metrics=[*FAMILIES, *RATIOS], **common),
        reach=_reach(table, everyone.height),
        crossings=_crossings(table, everyone.height),
        sources=inequality(table, by="source", metrics=[GINI, ATKINSON, TOP_1, TOP_10], **impressions),
        networks=inequality(table, by="network", metrics=[GINI, "mean"], **impressions),
        followers=inequality(
            reached,
            unit="author_id",
            amount="followers",
            by="source",
            population=None,
            metrics=["mean", GINI],
            interval=interval,
            rng=seed,
        ),
        bins=inequality(
            table,
            by=["network", log_bins("followers", BINS)],
            metrics=["mean", GINI],
            **{**impressions, "population": people},
        ),
    )


def _amounts(table: pl.DataFrame) -> dict[str, Any]:
    import polars as pl

    summed = table.group_by("author_id").agg(pl.col(ENGAGEMENTS).sum())
    return {name: summed[name].to_numpy() for name in ENGAGEMENTS}


def _reach(table: pl.DataFrame, authors: int) -> dict[str, float]:
    return {name: float(np.count_nonzero(x)) / authors for name, x in _amounts(table).items()}


def _crossings(table: pl.DataFrame, authors: int) -> list[tuple[str, str]]:
    """Pairs of engagement types of which neither is more equal throughout."""
    curves = {name: lorenz(np.pad(x, (0, authors - len(x)))) for name, x in _amounts(table).items()}
    pairs = itertools.combinations(curves, 2)
    return [(a, b) for a, b in pairs if not curves[a].dominates(curves[b]) and not curves[b].dominates(curves[a])]


def _switch_table(found: tuple[Claim, ...], switched: Mapping[str, Measures]) -> Table:
    others = [claims(m) for m in switched.values()]
    rows = tuple((c.says, c.verdict, *(o[i].verdict for o in others)) for i, c in enumerate(found))
    return Table("Does it still come out with a mechanism switched off?", ("finding", "as it is", *switched), rows)


def _flips(found: tuple[Claim, ...], switched: Mapping[str, Measures]) -> list[str]:
    """The findings that come out as it is and no longer do with a mechanism switched off."""
    lines = []
    for name, m in switched.items():
        lost = [was.says for was, now in zip(found, claims(m), strict=True) if was.holds and now.holds is False]
        if lost:
            lines.append(f"With {name}, {len(lost)} of the findings no longer come out: {'; '.join(lost)}.")
    return lines


def _source_table(split: Result) -> Table:
    names = ("share", "own_gini", "correlation", "contribution", "marginal")
    found: dict[str, dict[str, str]] = {}
    for r in split.findings.rows():
        if r["group"] is not None:
            ends = f" ({r['low']:.4f} to {r['high']:.4f})" if r["metric"] == "marginal" else ""
            found.setdefault(r["group"], {})[r["metric"]] = f"{r['estimate']:.4f}{ends}"
    rows = tuple((source, *(cells[name] for name in names)) for source, cells in sorted(found.items()))
    return Table("Which source makes the skew: the Gini index of all impressions by source", ("source", *names), rows)


def _network_table(runs: Mapping[str, Measures]) -> Table:
    """Sources and structure apart: the same ranking where the graph, or what suggestions know of it, is another."""
    rows = []
    for name, m in runs.items():
        found = values(m.networks, GINI, "network") | {"all": values(m.types, GINI, "amount")["impressions"]}
        rows.append(
            (name, *(f"{found.get(k, math.nan):.3f}" for k in ("all", "in_network", "out_of_network", "topics")))
        )
    head = ("platform", "all impressions", "in network", "out of network", "topics")
    return Table("The Gini index of impressions where something is switched off", head, tuple(rows))


def _split_skew(authors: int, seed: int, runs: Mapping[str, Measures]) -> Table:
    """The Gini index of all impressions as a sum of what its causes add.

    From a platform of equal followers and random suggestions, both are switched on in either order and their effects
    averaged over the two orders (Shapley); what the wiring adds is the way from the rewired graph to the graph itself.
    """
    log.info("splitting sources from structure")
    base, wired = ({**EQUAL_FOLLOWERS, **RANDOM}, {"rewired": True, **RANDOM})
    neither, followers_only = (_gini_of_all(platform(authors, rng=seed, **off)) for off in (base, wired))
    suggestions_only, both = runs["equal followers"].everyone, runs["rewired graph"].everyone
    by_followers = ((followers_only - neither) + (both - suggestions_only)) / 2
    by_suggestions = ((suggestions_only - neither) + (both - followers_only)) / 2
    total = runs["as it is"].everyone
    rows = (
        ("posts, appeal and attention alone (equal followers, random suggestions)", f"{neither:.4f}"),
        ("unequal followers", f"{by_followers:+.4f}"),
        ("suggestions that follow the graph", f"{by_suggestions:+.4f}"),
        ("who follows whom, beyond how many (graph against rewired graph)", f"{total - both:+.4f}"),
        ("all impressions as it is", f"{total:.4f}"),
    )
    return Table(
        "Source or structure: what adds up to the Gini index of all impressions, over all authors",
        ("cause", "Gini index"),
        rows,
    )


def _gini_of_all(month: Platform) -> float:
    """The Gini index of all impressions over all authors, displayed or not: platforms differ in whom they display."""
    found = inequality(
        month.engagements, unit="author_id", amount="impressions", population=month.authors.height, metrics=[GINI], interval=None
    )  # fmt: skip
    return float(found.findings.columns["estimate"][0])


def _criteria_table(month: Platform, seed: int) -> Table:
    """The paper's Table 2: what was measured on the engagement types, and the authors' judgement where it differs."""
    log.info("the criteria of Table 2")
    found = criteria(
        month.engagements,
        unit="author_id",
        amount=list(ENGAGEMENTS),
        population=_eligible(month).select("author_id"),
        rng=seed,
    )
    cells: dict[str, dict[str, str]] = {}
    for r in found.findings.rows():
        if r["published"]:
            cells.setdefault(r["metric"], {})[r["criterion"]] = _beside(r["measured"], r["published"])
    head = list(dict.fromkeys(name for by_criterion in cells.values() for name in by_criterion))
    rows = tuple((metric, *(by.get(name, "") for name in head)) for metric, by in cells.items())
    return Table("Table 2: the criteria, measured", ("metric", *head), rows)


def _beside(measured: str | None, published: str) -> str:
    if not measured:
        return f"{published} (judged)"
    return measured if measured == published else f"{measured} (paper: {published})"


def _answer(split: Result, skew: Table) -> list[str]:
    found = [r for r in split.findings.rows() if r["metric"] == "marginal"]
    marginal = {r["group"]: r["estimate"] for r in found}
    contribution = {r["group"]: r["estimate"] for r in split.findings.rows() if r["metric"] == "contribution"}
    largest, worst = max(contribution, key=lambda k: contribution[k]), max(marginal, key=lambda k: marginal[k])
    evens = sorted(r["group"] for r in found if r["high"] < 0)  # a sign inside the interval says nothing
    lines = [
        f"Which source makes the skew? {largest.replace('_', ' ').capitalize()} contributes most ({contribution[largest]:.3f}), "
        f"because it shows most; but 1% more of {worst} raises the Gini index fastest "
        f"(by {marginal[worst] / 100:+.6f}), and more of {' or '.join(evens).replace('_', ' ') or 'none'} lowers it.",
    ]
    parts = {row[0]: row[1] for row in skew.rows}
    lines.append(
        f"Source or structure? Unequal followers add {parts['unequal followers']}, suggestions that follow the graph "
        f"{parts['suggestions that follow the graph']}, and the wiring beyond how many follow whom "
        f"{parts['who follows whom, beyond how many (graph against rewired graph)']}."
    )
    return lines
