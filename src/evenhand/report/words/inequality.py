"""Headlines of inequality: what the top gets, whether one source would raise inequality most, within or between groups."""

from __future__ import annotations

import math
from dataclasses import dataclass

from evenhand.cards import REGISTRY, parse_metric
from evenhand.claims import Claim
from evenhand.errors import plural
from evenhand.findings import Findings, read_number
from evenhand.metrics.inequality import TOP_UNITS
from evenhand.report.words.phrases import card_of
from evenhand.report.words.sentences import Headline, headline, metric_params
from evenhand.report.words.text import (
    FORMATS,
    Row,
    capitalized,
    fill,
    holders,
    interval,
    intervals,
    is_finite,
    named_slice,
    number,
    rounded_percent,
    slice_labels,
    word,
)


@dataclass(frozen=True, slots=True)
class _TopShare:
    """The share of the top of one slice; `named` is the slice with the names of its columns."""

    where: str
    named: str
    row: Row

    @property
    def share(self) -> float:
        return float(self.row["estimate"])

    @property
    def units(self) -> float:
        return read_number(self.row["units"])


@headline("inequality")
def _inequality(findings: Findings) -> Headline | None:
    metric, amount, shares = _top_shares(findings)
    large = [s for s in shares if not _few_at_the_top(metric, s.units)]
    if not large:
        return _gini(findings, amount)
    spec = parse_metric(metric, REGISTRY)
    params = metric_params(spec)
    top = float(params["p"])
    most, least = max(large, key=lambda s: s.share), min(large, key=lambda s: s.share)
    is_one_size = most.units == least.units
    count = f" ({number(round(top * most.units))} of {number(most.units)})" if is_one_size else ""

    def clause(value: str) -> str:
        fields = {**params, "units": f"{holders(findings)}{count}", "amount": amount, "value": value}
        return fill(spec.card.headline, params, fields)

    high, low = rounded_percent(most.share), rounded_percent(least.share)
    differ = least is not most and low != high
    if differ:
        text = capitalized(clause(f"from {low} ({least.where}) to {high} ({most.where})"))
    else:
        text = f"For {most.named}, {clause(high)}" if most.named else capitalized(clause(high))
    return Headline(f"{text}.", intervals(findings, {s.where: s.row for s in (most, least)}), metric)


def _gini(findings: Findings, amount: str) -> Headline | None:
    """The Gini index of the only slice, where no top has enough units."""
    rows = [r for r in findings.rows() if r["metric"] == "gini" and is_finite(r["estimate"])]
    if len(rows) != 1:
        return None
    text = f"The Gini index of {amount} over {holders(findings)} is {number(rows[0]['estimate'])}."
    return Headline(text, interval(findings, rows[0], number), row=rows[0])


def _few_at_the_top(metric: str, units: float) -> bool:
    """Whether the top is of so few units that it is no headline."""
    return units * float(metric_params(parse_metric(metric, REGISTRY))["p"]) < TOP_UNITS


def _top_shares(findings: Findings) -> tuple[str, str, list[_TopShare]]:
    """The first metric whose card has a headline, and enough units, for the first amount."""
    largest = max((read_number(r["units"]) for r in findings.rows()), default=0.0)
    names = [m for m in findings.metrics() if (card := card_of(m)) and card.headline]
    metric = next((m for m in names if not _few_at_the_top(m, largest)), names[0] if names else "")
    several = "amount" in findings.slices
    amount = str(findings.columns["amount"][0]) if several else word(findings, "amount", "it")
    shares = []
    for where, row in zip(slice_labels(findings), findings.rows(), strict=True):
        if row["metric"] == metric and is_finite(row["estimate"]) and (not several or row["amount"] == amount):
            name = where.removesuffix(f", {amount}") if several else where
            shares.append(_TopShare(name, named_slice(findings, row, without=("amount",)), row))
    return metric, amount.replace("_", " "), shares


@headline("sources")
def _sources(findings: Findings) -> Headline | None:
    rows = {(findings.slice_label(r), r["group"]): r for r in findings.rows() if r["metric"] == "marginal"}
    by_slice: dict[str, Claim] = {}  # the last claim of a slice is about its largest marginal
    for claim in findings.claims:
        where = ", ".join(str(claim.where[name]) for name in findings.slices)
        by_slice[where] = claim
    if not by_slice:
        return None
    claim = next((claim for claim in by_slice.values() if claim.made), next(iter(by_slice.values())))
    made_count = sum(claim.made for claim in by_slice.values())
    if not made_count:
        where = "" if len(by_slice) == 1 else f" in any of {len(by_slice):,} slices"
        return Headline(f"No source stands out{where}.")
    row = next((r for r in rows.values() if claim.is_about(r)), None)
    if row is None:
        return Headline(f"{claim.text}.")
    show = FORMATS["per_1_percent"]
    text = f"{claim.text}: 1% more {word(findings, 'amount', 'of it')} from there would raise the Gini index by {show(row['estimate'])}"
    text += f"; one source stands out in {made_count:,} of {len(by_slice):,} slices" if len(by_slice) > 1 else ""
    return Headline(f"{text}.", interval(findings, row, show), row=row)


@headline("decompose")
def _decompose(findings: Findings) -> Headline | None:
    """How much of the inequality is within groups, between them and overlap, where parts add up; whether groups differ."""
    if findings.slices:
        return None
    size = {r["metric"]: read_number(r["estimate"]) for r in findings.rows() if r["group"] is None}
    total, within, between = (size.get(name, math.nan) for name in ("total", "within", "between"))
    overlap = size.get("overlap", 0.0)
    if not total > 0 or not math.isclose(within + between + overlap, total, rel_tol=1e-6, abs_tol=1e-6):
        return None
    shares = [
        f"{rounded_percent(within / total)} of the inequality is within {plural(word(findings, 'group', 'group'))}",
        f"{rounded_percent(between / total)} between them",
        *([f"{rounded_percent(overlap / total)} where they overlap"] if "overlap" in size else []),
    ]
    asserted = "".join(f"; {claim.text}" for claim in findings.claims if claim.metric == "between")
    return Headline(f"{', '.join(shares)}{asserted}.")


@headline("criteria")
def _criteria(findings: Findings) -> Headline | None:
    both = [r for r in findings.rows() if r.get("published") and r.get("measured")]
    if not both:
        return None
    same = sum(r["measured"] == r["published"] for r in both)
    undecided = sum(r["measured"] == "undecided" for r in both)
    judged = (
        f"{len(both):,} judgements of the paper were measured on these data: {same:,} come out the same, "
        f"{len(both) - same - undecided:,} otherwise, {undecided:,} undecided."
    )
    advice = _metric_to_use(findings)
    return Headline(advice, judged.removesuffix(".")) if advice else Headline(judged)


def _metric_to_use(findings: Findings) -> str:
    """One metric for these data, with its stability, effect and power, and the paper's where that is another one."""
    metric = findings.provenance.get("recommended")
    values = {(r["metric"], r["criterion"]): read_number(r["value"]) for r in findings.rows()}
    if not metric:
        return ""
    effect = "".join(f"; {c.text}" for c in findings.claims if c.metric == metric and not math.isnan(c.p))
    stable = values[metric, "stable"]
    wobble = "" if math.isnan(stable) else f"it varies by {100 * stable:.2g}% from sample to sample, and "
    shown = f"{rounded_percent(values[metric, 'power'])} of all {word(findings, 'amount', 'it')}"
    randomized = findings.words.get("randomized")
    compared = f"an experiment on these {plural(randomized)}" if randomized else "two samples like this"
    text = f"Use {metric}: {wobble}{compared} would show {shown} spread evenly (80% power){effect}."
    rival = values.get(("top_share", "power"), math.nan)  # rated highest in Table 2 of the paper
    if metric == "top_share" or math.isnan(rival):
        return text
    return f"{text} Table 2 of the paper favours top_share, which would show {rounded_percent(rival)}."
