"""The outcome test within lists: rows, claims and facts of neighbours, for scores that order one list only."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from evenhand.audits.assemble import notes
from evenhand.audits.outcome.rows import CANNOT_SAY
from evenhand.cards import MetricSpec
from evenhand.claims import Candidate, Claim, adjusted_detectable, direction_of
from evenhand.errors import EvenhandError
from evenhand.findings import Row, row
from evenhand.metrics.outcome import OrderGaps
from evenhand.report.words.outcome import power_text
from evenhand.sources.outcomes import Outcomes
from evenhand.tallies.candidates import PLACES, Neighbours

METRICS = ("order_gap", "order_gap(placed='above')")
"""The gap of a group right below the reference, and right above it, as `PLACES` has them."""

UNUSED = {"threshold": None, "weight": None, "covariance": None, "bins": 10}
"""What only scores that are comparable between lists have a use for, and how it is left out."""

CANNOT = (
    *CANNOT_SAY[:1],
    "Biases smaller than the step from one place to the next: the order alone does not show them.",
    "What a higher place does to outcomes by itself: where it raises them, a group ranked too low may go unnoticed.",
    CANNOT_SAY[2],
)


def check_arguments(arguments: Mapping[str, Any]) -> None:
    """Refuse lists that cannot be told from each other, and arguments that would change nothing."""
    if arguments["request"] is None:
        raise EvenhandError("kind='listwise' compares candidates of the same list. Name its column as request=.")
    if unused := [name for name, default in UNUSED.items() if arguments[name] != default]:
        raise EvenhandError(
            f"{unused[0]}= has no meaning for kind='listwise', which reads the order only. Leave it out."
        )


def order_rows(view: Outcomes, metrics: Sequence[MetricSpec], level: float) -> list[Row]:
    """A row per group and side of the reference; one that says which the reference is."""
    gaps = OrderGaps(Neighbours.from_table(view))
    (low, high), detectable = gaps.ends(level), gaps.detectable(level)
    home = view.names[view.reference]
    rows = [row({}, metrics[0].text, group=home, estimate=0.0, units=int(view.used[view.reference]), note="reference")]
    for g, name in enumerate(view.names):
        for spec in metrics if g != view.reference else ():
            side = PLACES.index(spec.params.get("placed", PLACES[0]))
            pairs = int(gaps.tally.pairs[side, g])
            small = "small_cell" if pairs and gaps.small[side, g] else ""
            rows.append(row(
                {}, spec.text, group=name, estimate=float(gaps.estimate[side, g]), low=float(low[side, g]),
                high=float(high[side, g]), units=pairs, se=float(gaps.error[side, g]), p=float(gaps.p[side, g]),
                detectable=float(detectable[side, g]), share_used=math.nan,
                note=notes(small if pairs else "no_pairs"),
            ))  # fmt: skip
    return rows


def order_claims(
    rows: Sequence[Row], by: Sequence[str], reference: str, level: float, *, points: bool
) -> dict[int, Candidate]:
    """Candidates by row: a group that does better right below the reference, or worse right above it."""
    tested = sum(math.isfinite(r.get("p", math.nan)) for r in rows)
    candidates = {}
    for i, r in enumerate(rows):
        if "p" not in r:  # the reference, or nothing to compare
            continue
        rated = f"the lists {'over' if 'above' in r['metric'] else 'under'}-rate {r['group']}"
        size = adjusted_detectable(r["detectable"], tested, level)
        power = "" if math.isnan(size) else f"; {power_text(size, points=points)}"
        otherwise = f"no significant sign that {rated}{power}"
        if math.isnan(r["p"]):
            otherwise = f"whether {rated} cannot be told"
        where = {name: r[name] for name in by}
        candidates[i] = Candidate(r["p"], direction_of(r["estimate"]), rated, otherwise, r["metric"], r["group"], where)
    return candidates


def deciding(claims: Mapping[int, Claim], by: Sequence[str]) -> dict[int, Claim]:
    """The claim of each group and slice that its smaller p makes: a group is ranked too low, or too high, not both."""
    first: dict[tuple[Any, ...], int] = {}
    for i, claim in sorted(claims.items(), key=lambda pair: (math.isnan(pair[1].p), pair[1].p)):
        first.setdefault((claim.group, *(claim.where[name] for name in by)), i)
    return {i: claims[i] for i in sorted(first.values())}


def facts(view: Outcomes, left: Sequence[str]) -> dict[str, Any]:
    """What was tested, and how, for provenance."""
    counts = dict(zip(view.names, view.used.astype(int).tolist(), strict=True))
    rates = {"outcomes": "0 or 1"} if tuple(view.outcome_ends) == (0.0, 1.0) else {}
    return {
        "kind": "listwise", **rates, "reference": view.names[view.reference],
        "groups": counts | dict.fromkeys(left, "suppressed"),
        "pairs": "a group's and a reference candidate with no other score of the list between theirs; those of a group with equal "
        "scores count as one, with their mean outcome",
        "errors": f"sums of pairs per {view.roles.cluster or view.roles.request!r}, as if there were no gap; normal; the interval "
        "inverts the test",
        "family": f"Holm over every group, {' and '.join(PLACES)} the reference, all slices",
        "detectable": "gap that the test would find with a chance of 80%", "cannot_say": list(CANNOT),
    }  # fmt: skip
