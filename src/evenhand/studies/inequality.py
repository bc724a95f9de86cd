"""The inequality paper's two use cases: who gets seen, and which source makes the skew.

On a log of one's own, or on a generated platform. The platform is run as it is, with mechanisms switched off, and on a
rewired graph, so that a finding can be seen to come from what the paper says it comes from.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

import numpy as np
import polars as pl

import evenhand as eh
from evenhand.audits.declare import Columns, Labels, Takes, sizes
from evenhand.audits.declare import Table as Data
from evenhand.studies.inequality_findings import (
    ATKINSON,
    EQUAL,
    EQUIVALENT,
    FAMILIES,
    GINI,
    MIN_UNITS,
    RATIOS,
    REACH,
    TOP_1,
    TOP_10,
    Measures,
    claims,
    replicates,
    values,
    words,
)
from evenhand.studies.inequality_log import NETWORK, POOLED, USUAL, ByUnit, Log, log_of_data, log_of_platform
from evenhand.studies.study import Claim, Figure, Study, Table, on_own_data, result_from_rows, result_table, select

SIZE = 50_000
BINS = 20
DRAWS = "percentile(199)"
"""As the paper made its error bars."""

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
OWN = (
    "A yes or a no says whether the finding comes out of this log by the rule beside it. The paper speaks of another platform: "
    "neither confirms nor refutes it, and nothing here says what causes it."
)
Everyone = Annotated[Any, Takes("N|FILE|none", table=True, sizes=True, read=sizes)]
Beside = Annotated[str | None, Takes("SOURCE|pooled")]
TITLE = "Who gets seen on a social platform, and which source makes the skew"
OWN_TITLE = "Who gets how much, and which source makes the skew"


def study(
    *, size: int | None = None, seed: int = 1, data: Data = None, unit: str | None = None, amount: Columns = None,
    source: str | None = None, followers: str | None = None, population: Everyone = None, in_network: Labels = None,
    out_of_network: Labels = None, figure_5: Beside = None, later: str | None = None,
) -> Study:  # fmt: skip
    """Rerun use cases 1 and 2 of the inequality paper, on `size` generated authors or a log.

    A finding says what it needs and the log lacks; a figure that needs it is left out.

    Parameters
    ----------
    data : log of who received what: Parquet, CSV or JSON lines, or a dataframe.
    unit : column with the id of who receives.
    amount : column with how much is received; several give one kind of engagement each, and the first is what the
        paper calls impressions.
    source : column with the source of each amount.
    followers : column with the followers of a unit, in the log or in the population table.
    population : everyone who could have received something: a number, or a table of units; without one, those in the
        log.
    in_network : labels of the in-network sources (default: all that are not out of network).
    out_of_network : labels of the out-of-network sources (default: all that are not in network).
    figure_5 : the out-of-network source that figure 5 compares with in-network ranking (default: misc, as in the
        paper), or `pooled` for all of them.
    later : column with the first amount counted until a later day, for the paper's first note.
    """
    needed: dict[str, Any] = {"unit": unit, "amount": amount}
    roles = {
        "source": source, "followers": followers, "population": population, "in_network": in_network,
        "out_of_network": out_of_network, "later": later,
    }  # fmt: skip
    if on_own_data(data, needed, roles, size):
        return _on_data(log_of_data(data, figure_5=figure_5, **needed, **roles), seed)
    return _on_platform(SIZE if size is None else size, seed, USUAL if figure_5 is None else figure_5)


def _on_data(events: Log, seed: int) -> Study:
    measured = measure(events, interval=DRAWS, seed=seed)
    has_split = "split" in measured.parts
    return Study(
        name="inequality",
        title=OWN_TITLE,
        setting=f"{events.table.height:,} rows of {events.origin}. {measured.units:,} different "
        f"{events.unit!r} count: {events.counted}. {events.first!r} is taken for what the paper calls impressions (seed {seed}).",
        claims=claims(measured),
        tables=(*([_source_table(measured)] if has_split else []), _criteria_table(events, seed)),
        figures=figures(measured, seed),
        sentences=tuple(_skew(measured)) if has_split else (),
        caveats=(OWN,),
    )


def _on_platform(authors: int, seed: int, figure_5: str) -> Study:
    month = eh.synthetic.platform(authors, rng=seed)
    events = log_of_platform(month, figure_5)
    measured = measure(events, interval=DRAWS, seed=seed)
    stated = claims(measured)
    total_gini, switched = {"as it is": _gini_of_all(month)}, {}
    for name, off in SWITCHES.items():
        other = eh.synthetic.platform(authors, rng=seed, **off)
        total_gini[name] = _gini_of_all(other)
        switched[name] = measure(log_of_platform(other, figure_5), interval=None, seed=seed)
    table_of_switches, flips = _switches(stated, {name: claims(m) for name, m in switched.items()})
    causes, sentence = _causes(authors, seed, total_gini)
    tables = (table_of_switches, _source_table(measured), causes, _criteria_table(events, seed))
    return Study(
        name="inequality",
        title=TITLE,
        setting=f"A generated platform of {authors:,} authors (seed {seed}), of whom {measured.units:,} had a post displayed.",
        claims=stated,
        tables=tables,
        figures=figures(measured, seed),
        sentences=(*flips, *_skew(measured), sentence),
        caveats=CAVEATS,
    )


def measure(events: Log, *, interval: str | None, seed: int) -> Measures:
    """Everything the findings are read from, as far as the log allows."""
    common: dict[str, Any] = {
        "unit": events.unit,
        "population": events.everyone,
        "interval": interval,
        "rng": seed,
    }
    first = {**common, "amount": events.first}
    types = eh.inequality(events.table, amount=list(events.amounts), metrics=[*FAMILIES, *RATIOS, REACH], **common)
    parts: dict[str, eh.Result] = {}
    if len(events.sources) > 1:
        metrics = [GINI, ATKINSON, TOP_1, TOP_10]
        parts["sources"] = eh.inequality(events.table, by=events.source, metrics=metrics, **first)
        if interval is not None:
            parts["split"] = eh.sources(events.table, source=str(events.source), **first)
        if events.followers is not None:
            parts["followers"] = eh.inequality(
                events.reached(), unit=events.unit, amount=events.followers, by=events.source, population=None, metrics=["mean", GINI],
                interval=interval, rng=seed,
            )  # fmt: skip
    if events.networks and events.followed:
        bins = eh.log_bins(str(events.followers), BINS)
        parts["bins"] = eh.inequality(events.in_figure_5(), by=[NETWORK, bins], metrics=["mean", GINI, REACH], **first)
    by_unit = events.by_unit()
    return Measures(events, types, _crossings(by_unit, events.amounts), parts, replicates(by_unit, seed))


def _crossings(by_unit: ByUnit, amounts: Sequence[str]) -> list[tuple[str, str]]:
    curves = {name: eh.metrics.lorenz(by_unit.kinds[name]) for name in amounts if by_unit.kinds[name].sum() > 0}
    pairs = itertools.combinations(curves, 2)
    return [(a, b) for a, b in pairs if not curves[a].dominates(curves[b]) and not curves[b].dominates(curves[a])]


def _switches(stated: Sequence[Claim], switched: Mapping[str, Sequence[Claim]]) -> tuple[Table, list[str]]:
    """The verdicts with each mechanism switched off, and sentences on findings that no longer come out."""
    verdicts = tuple((c.statement, c.verdict, *(o[i].verdict for o in switched.values())) for i, c in enumerate(stated))
    sentences = []
    for name, others in switched.items():
        lost = [was.statement for was, now in zip(stated, others, strict=True) if was.holds and now.holds is False]
        if lost:
            sentences.append(f"With {name}, {len(lost)} of the findings no longer come out: {'; '.join(lost)}.")
    title = "Does it still come out with a mechanism switched off?"
    return Table(title, ("finding", "as it is", *switched), verdicts), sentences


def _source_table(m: Measures) -> Table:
    title = f"Which source makes the skew: the Gini index of all {words(m.log.first)} by source"
    return result_table(title, m.parts["split"])


def _causes(authors: int, seed: int, total_gini: Mapping[str, float]) -> tuple[Table, str]:
    """The Gini index of all impressions as a sum of what its causes add, as a table and a sentence.

    From a platform of equal followers and random suggestions, both are switched on in either order and their effects
    averaged over the two orders (Shapley); what the wiring adds is the step from the rewired graph to the graph itself.
    """
    base, wired = ({**EQUAL_FOLLOWERS, **RANDOM}, {"rewired": True, **RANDOM})
    neither, followers_only = (_gini_of_all(eh.synthetic.platform(authors, rng=seed, **off)) for off in (base, wired))
    suggestions_only, both = total_gini["equal followers"], total_gini["rewired graph"]
    by_followers = ((followers_only - neither) + (both - suggestions_only)) / 2
    by_suggestions = ((suggestions_only - neither) + (both - followers_only)) / 2
    total = total_gini["as it is"]
    rows = (
        ("posts, appeal and attention alone (equal followers, random suggestions)", f"{neither:.4f}"),
        ("unequal followers", f"{by_followers:+.4f}"),
        ("suggestions that follow the graph", f"{by_suggestions:+.4f}"),
        ("who follows whom, beyond how many (graph against rewired graph)", f"{total - both:+.4f}"),
        ("all impressions as it is", f"{total:.4f}"),
    )
    title = "Source or structure: what adds up to the Gini index of all impressions, over all authors"
    return Table(title, ("cause", "Gini index"), rows), (
        f"Source or structure? Unequal followers add {by_followers:+.4f}, suggestions that follow the graph "
        f"{by_suggestions:+.4f}, and the wiring beyond how many follow whom {total - both:+.4f}."
    )


def _gini_of_all(month: eh.synthetic.Platform) -> float:
    result = eh.inequality(
        month.engagements, unit="author_id", amount="impressions", population=month.authors.height, metrics=[GINI], interval=None
    )  # fmt: skip
    return float(result.frame["estimate"][0])


def _criteria_table(events: Log, seed: int) -> Table:
    roles: dict[str, Any] = {"unit": events.unit, "amount": list(events.amounts), "population": events.everyone}
    criteria = eh.criteria(events.table, **roles, rng=seed)
    return result_table("Table 2: the criteria, measured", criteria)


def _skew(m: Measures) -> list[str]:
    claims = [claim.text for claim in m.parts["split"].claims if claim.made]
    return [f"Which source makes the skew? {'; '.join(claims) or m.parts['split'].headline.removesuffix('.')}."]


def figures(m: Measures, seed: int) -> tuple[Figure, ...]:
    """The paper's figures that the log allows."""
    drawn = []
    for name, (needs, caption, draw) in _catalogue(m, seed).items():
        word, *numbers = name.split("-")
        title = " ".join([word.capitalize(), ", ".join(numbers)]).strip()  # figure-5-7: "Figure 5, 7"
        if m.has.issuperset(needs):
            drawn.append(Figure(name, f"{title}: {caption}.", draw))
    return tuple(drawn)


def _catalogue(m: Measures, seed: int) -> dict[str, tuple[Sequence[str], str, Callable[[], Any]]]:
    """Every figure by name: what the log must have, the caption, and how it is drawn."""
    first, by = words(m.log.first), "of the engagement types"
    other = "all suggestions together" if m.log.figure_5 == POOLED else m.log.figure_5
    bins = select(m.parts["bins"]) if "bins" in m.parts else []
    large = [i for i, r in enumerate(bins) if r["units"] >= MIN_UNITS]  # enough authors for an interval
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
            lambda: _with_rows(m.parts["bins"], large).plot("bins"),
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


def _with_rows(result: eh.Result, positions: Sequence[int]) -> eh.Result:
    columns = {name: [column[i] for i in positions] for name, column in result.findings.columns.items()}
    return replace(result, findings=replace(result.findings, columns=columns))


def _against(m: Measures) -> eh.Result:
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
