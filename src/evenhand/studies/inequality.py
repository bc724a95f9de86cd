"""The inequality paper's two use cases: who gets seen, and which source makes the skew.

On a log of one's own, or on a generated platform. The platform is run as it is, with mechanisms switched off, and on a
rewired graph, so that a finding can be seen to come from what the paper says it comes from.
"""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from evenhand.audits.criteria import criteria
from evenhand.audits.declare import Columns, Labels, Takes
from evenhand.audits.declare import Table as Data
from evenhand.audits.inequality import inequality
from evenhand.audits.sources import sources
from evenhand.audits.units import sizes, units_of
from evenhand.errors import listing
from evenhand.metrics.shares import lorenz_curve
from evenhand.results import Result
from evenhand.sources.slicing import log_bins
from evenhand.studies.inequality_figures import figures
from evenhand.studies.inequality_findings import (
    ATKINSON,
    FAMILIES,
    FINDINGS,
    GINI,
    NEEDS,
    RATIOS,
    REACH,
    TOP_1,
    TOP_10,
    Measures,
    claims,
    values,
)
from evenhand.studies.inequality_log import NETWORK, USUAL, Log, log_of_data, log_of_platform
from evenhand.studies.study import Claim, Study, Table, on_own_data
from evenhand.synthetic.platform import Platform, platform

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
    out_of_network: Labels = None, figure_5: Beside = None, nan_policy: Literal["raise", "omit"] | None = None,
) -> Study:  # fmt: skip
    """Rerun use cases 1 and 2 of the inequality paper, on `size` generated authors or a log.

    What a finding or a figure needs and the log lacks is left out, and that is said.

    Parameters
    ----------
    data : log of who received what: Parquet, CSV or JSON lines, or a dataframe.
    unit : column with the id of who receives.
    amount : column with how much is received; several give one kind of engagement each, and the first is what the
        paper calls impressions; without one, rows are counted.
    source : column with the source of each amount.
    followers : column with the followers of a unit, in the log or in the population table.
    population : everyone who could have received something: a number, or a table of units; without one, those in the
        log.
    in_network : labels of the in-network sources (default: all that are not out of network).
    out_of_network : labels of the out-of-network sources (default: all that are not in network).
    figure_5 : the out-of-network source that figure 5 compares with in-network ranking (default: misc, as in the
        paper), or `pooled` for all of them.
    nan_policy : what to do with a missing amount, or a unit without followers: `"raise"` an error (the default), or
        `"omit"` the row.
    """
    roles = {
        "amount": amount, "source": source, "followers": followers, "population": population, "in_network": in_network,
        "out_of_network": out_of_network, "nan_policy": nan_policy,
    }  # fmt: skip
    if on_own_data(data, {"unit": unit}, roles, size):
        return _on_data(log_of_data(data, unit=str(unit), figure_5=figure_5, **roles), seed)
    return _on_platform(SIZE if size is None else size, seed, USUAL if figure_5 is None else figure_5)


def _on_data(events: Log, seed: int) -> Study:
    measured = measure(events, interval=DRAWS, seed=seed)
    drawn, lost = figures(measured, seed)
    left = _left_out(measured, lost)
    return Study(
        name="inequality",
        title=OWN_TITLE,
        setting=f"{measured.types.provenance['rows']:,} rows of {events.table.origin}. {measured.units:,} different "
        f"{events.unit!r} count: {events.counted}. {events.first!r} is taken for what the paper calls impressions (seed {seed}).",
        claims=claims(measured, all=False),
        tables=(
            events.roles(),
            *([_source_table(measured)] if "split" in measured.parts else []),
            _criteria_table(events, seed),
            *([left] if left.rows else []),
        ),
        figures=drawn,
        sentences=tuple(_skew(measured)) if "split" in measured.parts else (),
        caveats=(OWN, *([_left_out_words(left)] if left.rows else [])),
    )


def _left_out(m: Measures, lost: Mapping[str, str]) -> Table:
    """Findings and figures that the log does not allow, and the columns that they need."""
    every = [(finding.statement, finding.where, finding.lacks(m)) for finding in FINDINGS] + [
        (name, "", need) for name, need in lost.items()
    ]
    rows = tuple((what, where, NEEDS[need]) for what, where, need in every if need)
    return Table("Left out, and what it needs", ("finding or figure", "where", "needs"), rows)


def _left_out_words(left: Table) -> str:
    figures = [what for what, where, _ in left.rows if not where]
    findings = len(left.rows) - len(figures)
    parts = [*([f"{findings} of the paper's {len(FINDINGS)} findings"] if findings else []), *figures]
    return f"Left out, for the log does not hold what they need: {'; '.join(parts)}. See the table of what is left out."


def _on_platform(authors: int, seed: int, figure_5: str) -> Study:
    log.info("a month with %s authors", f"{authors:,}")
    month = platform(authors, rng=seed)
    events = log_of_platform(month, figure_5)
    measured = measure(events, interval=DRAWS, seed=seed)
    stated = claims(measured)
    everyone, switched = {"as it is": _gini_of_all(month)}, {}
    for name, off in SWITCHES.items():
        log.info("the same month with %s", name)
        other = platform(authors, rng=seed, **off)
        everyone[name] = _gini_of_all(other)
        switched[name] = measure(log_of_platform(other, figure_5), interval=None, seed=seed)
    skew = _split_skew(authors, seed, everyone)
    tables = (
        _switch_table(stated, switched),
        _source_table(measured),
        _network_table({"as it is": measured, **switched}),
        skew,
        _criteria_table(events, seed),
    )
    return Study(
        name="inequality",
        title=TITLE,
        setting=f"A generated platform of {authors:,} authors (seed {seed}), of whom {measured.units:,} had a post displayed.",
        claims=stated,
        tables=tables,
        figures=figures(measured, seed)[0],
        sentences=(*_flips(stated, switched), *_skew(measured), _structure(skew)),
        caveats=CAVEATS,
    )


def measure(events: Log, *, interval: str | None, seed: int) -> Measures:
    """Everything the findings are read from, as far as the log allows."""
    log.info("measuring %s", listing(events.amounts))
    common: dict[str, Any] = {
        "unit": events.unit, "population": events.everyone, "interval": interval, "rng": seed, "nan_policy": events.nan_policy,
    }  # fmt: skip
    first = {**common, "amount": events.first}
    types = inequality(events.table, amount=list(events.amounts), metrics=[*FAMILIES, *RATIOS, REACH], **common)
    parts: dict[str, Result] = {}
    if len(events.sources) > 1:
        log.info("measuring %s", events.source)
        metrics = [GINI, ATKINSON, TOP_1, TOP_10]
        parts["sources"] = inequality(events.table, by=events.source, metrics=metrics, **first)
        if interval is not None:
            parts["split"] = sources(events.table, source=str(events.source), **first)
        if events.followers is not None:
            parts["followers"] = inequality(
                events.reached(), unit=events.unit, amount=events.followers, by=events.source, population=None, metrics=["mean", GINI],
                interval=interval, rng=seed,
            )  # fmt: skip
    if events.networks:
        parts["networks"] = inequality(events.by_network(), by=NETWORK, metrics=[GINI], **first)
        if events.followed:
            bins = log_bins(str(events.followers), BINS)
            parts["bins"] = inequality(events.in_figure_5(), by=[NETWORK, bins], metrics=["mean", GINI], **first)
    return Measures(events, types, _crossings(events), parts)


def _crossings(events: Log) -> list[tuple[str, str]]:
    """Pairs of engagement types of which neither is more equal throughout."""
    read: dict[str, Any] = {"population": events.everyone, "nan_policy": events.nan_policy}
    prepared = units_of(events.table, unit=events.unit, amount=list(events.amounts), **read)
    spectra = {amount.name: prepared.slices(amount).spectra[0] for amount in prepared.log.amounts}
    curves = {str(name): lorenz_curve(s) for name, s in spectra.items() if not s.reason()}
    pairs = itertools.combinations(curves, 2)
    return [(a, b) for a, b in pairs if not curves[a].dominates(curves[b]) and not curves[b].dominates(curves[a])]


def _switch_table(stated: tuple[Claim, ...], switched: Mapping[str, Measures]) -> Table:
    others = [claims(m) for m in switched.values()]
    rows = tuple((c.statement, c.verdict, *(o[i].verdict for o in others)) for i, c in enumerate(stated))
    return Table("Does it still come out with a mechanism switched off?", ("finding", "as it is", *switched), rows)


def _flips(stated: tuple[Claim, ...], switched: Mapping[str, Measures]) -> list[str]:
    """The findings that come out as it is and no longer do with a mechanism switched off."""
    lines = []
    for name, m in switched.items():
        lost = [was.statement for was, now in zip(stated, claims(m), strict=True) if was.holds and now.holds is False]
        if lost:
            lines.append(f"With {name}, {len(lost)} of the findings no longer come out: {'; '.join(lost)}.")
    return lines


def _source_table(m: Measures) -> Table:
    names = ("share", "own_gini", "correlation", "contribution", "marginal")
    texts: dict[str, dict[str, str]] = {}
    for r in m.parts["split"].findings.rows():
        if r["group"] is not None:
            ends = f" ({r['low']:.4f} to {r['high']:.4f})" if r["metric"] == "marginal" else ""
            texts.setdefault(r["group"], {})[r["metric"]] = f"{r['estimate']:.4f}{ends}"
    rows = tuple((source, *(cells[name] for name in names)) for source, cells in sorted(texts.items()))
    return Table(
        f"Which source makes the skew: the Gini index of all {_words(m.log.first)} by source", ("source", *names), rows
    )


def _network_table(runs: Mapping[str, Measures]) -> Table:
    """The Gini index by source under the same ranking, with other graphs or suggestions."""
    rows = []
    for name, m in runs.items():
        ginis = values(m.parts["networks"], GINI, NETWORK) | {"all": values(m.types, GINI, "amount")["impressions"]}
        rows.append(
            (name, *(f"{ginis.get(k, math.nan):.3f}" for k in ("all", "in_network", "out_of_network", "topics")))
        )
    head = ("platform", "all impressions", "in network", "out of network", "topics")
    return Table("The Gini index of impressions where something is switched off", head, tuple(rows))


def _split_skew(authors: int, seed: int, everyone: Mapping[str, float]) -> Table:
    """The Gini index of all impressions as a sum of what its causes add.

    From a platform of equal followers and random suggestions, both are switched on in either order and their effects
    averaged over the two orders (Shapley); what the wiring adds is the way from the rewired graph to the graph itself.
    """
    log.info("splitting sources from structure")
    base, wired = ({**EQUAL_FOLLOWERS, **RANDOM}, {"rewired": True, **RANDOM})
    neither, followers_only = (_gini_of_all(platform(authors, rng=seed, **off)) for off in (base, wired))
    suggestions_only, both = everyone["equal followers"], everyone["rewired graph"]
    by_followers = ((followers_only - neither) + (both - suggestions_only)) / 2
    by_suggestions = ((suggestions_only - neither) + (both - followers_only)) / 2
    total = everyone["as it is"]
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
    """The Gini index of all impressions over all authors, whether displayed or not."""
    result = inequality(
        month.engagements, unit="author_id", amount="impressions", population=month.authors.height, metrics=[GINI], interval=None
    )  # fmt: skip
    return float(result.findings.columns["estimate"][0])


def _criteria_table(events: Log, seed: int) -> Table:
    """The paper's Table 2, measured, with the authors' judgement where it differs."""
    log.info("the criteria of Table 2")
    read: dict[str, Any] = {"population": events.everyone, "nan_policy": events.nan_policy}
    result = criteria(events.table, unit=events.unit, amount=list(events.amounts), **read, rng=seed)
    cells: dict[str, dict[str, str]] = {}
    for r in result.findings.rows():
        if r["published"]:
            cells.setdefault(r["metric"], {})[r["criterion"]] = _cell(r)
    head = list(dict.fromkeys(name for by_criterion in cells.values() for name in by_criterion))
    rows = tuple((metric, *(by.get(name, "") for name in head)) for metric, by in cells.items())
    return Table("Table 2: the criteria, measured", ("metric", *head), rows)


def _cell(r: Mapping[str, Any]) -> str:
    if not r["measured"]:
        is_judged = r["note"] == "judgement"
        return f"{r['published']} (judged)" if is_judged else f"not measured (paper: {r['published']})"
    return str(r["measured"]) if r["measured"] == r["published"] else f"{r['measured']} (paper: {r['published']})"


def _skew(m: Measures) -> list[str]:
    """Which source makes the skew, as far as the intervals tell."""
    rows = list(m.parts["split"].findings.rows())
    share, contribution = (
        {r["group"]: r["estimate"] for r in rows if r["metric"] == name} for name in ("share", "contribution")
    )
    marginal = {r["group"]: r for r in rows if r["metric"] == "marginal" and not math.isnan(r["estimate"])}
    if not marginal:
        return []
    largest = max(contribution, key=lambda k: contribution[k])
    why = ", because it shows most" if all(share[largest] > x for k, x in share.items() if k != largest) else ""
    sentences = [f"{_words(largest).capitalize()} contributes most ({contribution[largest]:.3f}){why}"]
    raises = [r for r in marginal.values() if r["low"] > 0]  # a sign inside the interval says nothing
    evens = sorted(_words(r["group"]) for r in marginal.values() if r["high"] < 0)
    if raises:
        most = max(raises, key=lambda r: r["estimate"])
        sentences.append(
            f"1% more of {_words(most['group'])} raises the Gini index fastest (by {most['estimate'] / 100:+.6f})"
        )
    if evens:
        sentences.append(f"more of {' or '.join(evens)} lowers it")
    unclear = sorted(_words(r["group"]) for r in marginal.values() if not (r["low"] > 0 or r["high"] < 0))
    if unclear:
        sentences.append(f"what more of {' or '.join(unclear)} would do cannot be told from nothing")
    return [f"Which source makes the skew? {'; '.join(sentences)}."]


def _words(label: Any) -> str:
    return str(label).replace("_", " ")


def _structure(skew: Table) -> str:
    parts = {row[0]: row[1] for row in skew.rows}
    return (
        f"Source or structure? Unequal followers add {parts['unequal followers']}, suggestions that follow the graph "
        f"{parts['suggestions that follow the graph']}, and the wiring beyond how many follow whom "
        f"{parts['who follows whom, beyond how many (graph against rewired graph)']}."
    )
