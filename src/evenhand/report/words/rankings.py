"""Headlines of rankings and lists: exposure and its target, shares near the top, relevant pairs, different lists."""

from __future__ import annotations

from typing import Any

from evenhand.findings import Findings
from evenhand.findings import number as read_number
from evenhand.report.words.headlines import Headline, has_interval, headline, interval, is_finite
from evenhand.report.words.intervals import interval_text
from evenhand.report.words.labels import Row, confidence_level, named_slice, points
from evenhand.report.words.sentences import SentenceWriter, sentence
from evenhand.report.words.text import capitalized, rounded_percent


def _lead(findings: Findings, point: Row) -> str:
    where = named_slice(findings, point)
    return f"For {where}, " if where else ""


@headline("exposure")
def _exposure(findings: Findings) -> Headline | None:
    """Exposure of the protected group (or of any) and its target, in the slice where they differ most."""
    defined = [p for p in points(findings, "exposure") if is_finite(p["exposure"]) and is_finite(p["target"])]
    protected = (findings.provenance.get("plan") or {}).get("protected")
    candidates = [p for p in defined if p["group"] == protected] or defined
    if not candidates:
        return None
    worst = max(candidates, key=lambda p: abs(p["exposure"] - p["target"]))
    close = has_interval(worst) and worst["low"] <= worst["target"] <= worst["high"]
    side = "about" if close else "above" if worst["exposure"] > worst["target"] else "below"
    text = (
        f"{_lead(findings, worst)}{worst['group']} gets {rounded_percent(worst['exposure'])} of the exposure, {side} its target of "
        f"{rounded_percent(worst['target'])}"
    )
    others = [p for p in candidates if p["group"] == worst["group"] and p is not worst]
    if others:
        best = min(others, key=lambda p: abs(p["exposure"] - p["target"]))
        text += f"; for {best['where']} it gets {rounded_percent(best['exposure'])}"
    return Headline(f"{text}.", interval(worst, confidence_level(findings)), "exposure", worst["where"])


@headline("prefix")
def _prefix(findings: Findings) -> Headline | None:
    """The share of the first group in the top 10 and in the whole list, in the slice where they differ most."""
    curve = points(findings, "prefix")
    by_slice: dict[str, list[dict[str, Any]]] = {}
    for p in curve:
        if p["group"] == curve[0]["group"]:
            by_slice.setdefault(p["where"], []).append(p)
    tops = [next((p for p in ranks if p["rank"] == 10), ranks[-1]) for ranks in by_slice.values()]
    defined = [p for p in tops if is_finite(p["share"]) and is_finite(p["overall"])]
    if not defined:
        return None
    worst = max(defined, key=lambda p: abs(p["share"] - p["overall"]))
    text = (
        f"{_lead(findings, worst)}{worst['group']} makes up {rounded_percent(worst['share'])} of the top {worst['rank']} and "
        f"{rounded_percent(worst['overall'])} of the whole list"
    )
    if not is_finite(worst["low"]):
        return Headline(f"{text}.", "", "prefix", worst["where"])
    band = f"Random order gives {interval_text(worst['low'], worst['high'], rounded_percent)}"
    return Headline(f"{text}: {against_random_order(worst)}.", band, "prefix", worst["where"])


def against_random_order(point: Row) -> str:
    """Whether a share near the top lies outside the band of random orders."""
    if point["share"] < read_number(point["low"]) - 1e-12:  # equal up to rounding is inside
        return "less than random order would give"
    above = point["share"] > read_number(point["high"]) + 1e-12
    return "more than random order would give" if above else "in line with random order"


@headline("pairwise")
def _pairwise(findings: Findings) -> Headline | None:
    """How often the more relevant item ranks higher, if it is of the protected group and if it is of the other."""
    protected = str((findings.provenance.get("plan") or {}).get("protected"))
    by_slice: dict[str, dict[str, Row]] = {}
    for r in findings.rows():
        if r["group"] is not None and ">" in str(r["group"]) and is_finite(r["estimate"]):
            by_slice.setdefault(findings.slice_label(r), {})[str(r["group"])] = r
    candidates = []
    for rows in by_slice.values():
        for pair, row in rows.items():
            group, _, other = pair.rpartition(">")
            reverse = rows.get(f"{other}>{group}")
            if group == protected and group != other and reverse is not None:
                candidates.append((row, reverse, other))
    if not candidates:
        return None
    row, reverse, other = max(candidates, key=lambda c: abs(c[0]["estimate"] - c[1]["estimate"]))
    text = (
        f"{_lead(findings, row)}the more relevant item ranks higher in {rounded_percent(row['estimate'])} of pairs if it is of "
        f"{protected}, and in {rounded_percent(reverse['estimate'])} if it is of {other}."
    )
    level = confidence_level(findings)
    ends = [f"{name} {interval(r, level)}" for name, r in ((protected, row), (other, reverse)) if has_interval(r)]
    return Headline(capitalized(text), "; ".join(ends))


@headline("recommender")
def _recommender(findings: Findings) -> Headline | None:
    """How far the lists of two groups differ, and with permuted labels: where the claim is made, the pair that exceeds it most."""
    rows = [r for r in findings.rows() if r["metric"] == "exposure_tv" and r["group"] and is_finite(r["estimate"])]
    tested = [(r, claim) for r in rows if (claim := findings.claim(r)) is not None]
    made = [r for r, claim in tested if claim.made]
    if not rows or (tested and not made and len(tested) > 1):
        claim = next((c for c in findings.claims if c.made), None)
        if claim is not None:
            return Headline(f"{capitalized(claim.text)}.")
        return Headline("No two groups are shown significantly different items.") if rows else None
    row = max(made or rows[:1], key=lambda r: r["estimate"] - read_number(r["chance"]))
    share, chance = rounded_percent(row["estimate"]), ""
    if is_finite(row["chance"]):
        chance = f"with permuted labels {rounded_percent(row['chance'])}"
    text = f"{share} of what {row['protected']} and {row['versus']} are shown differs; {chance}"
    if tested and not made:
        text = f"{tested[0][1].text}: {share} differs, {chance}"
    text = capitalized(f"{_lead(findings, row)}{text}".rstrip("; "))
    return Headline(f"{text}.", interval(row, confidence_level(findings)), "exposure_tv", row=row)


class _RecommenderSentences(SentenceWriter, audit="recommender"):
    def sentence(self, findings: Findings, row: Row, level: float) -> str:
        """One row as a sentence; what its test does not bear out is said."""
        claim = findings.claim(row)
        unclear = " Not statistically significant." if claim is not None and not claim.made else ""
        return sentence(findings, row, level) + unclear
