"""The outcome-test paper's questions on a user's table, whose truth is unknown.

What the test and the reallocated slots can answer is answered, group by group and slice by slice. Findings that compare an
answer with what is really so (true qualifications, who is biased) cannot be told from a log, and that is said.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import evenhand as eh
from evenhand.errors import EvenhandError, listing
from evenhand.report.words.intervals import interval_text
from evenhand.report.words.text import p_text
from evenhand.studies.outcome_findings import Move
from evenhand.studies.study import (
    ALPHA,
    UNKNOWN,
    Claim,
    Evidence,
    Figure,
    Row,
    Study,
    Table,
    above_zero,
    certain,
    decide,
    ends,
    error_of,
    every,
    is_number,
    result_table,
    select,
    with_interval,
    with_sign,
)

if TYPE_CHECKING:
    from evenhand.audits.outcome.remedies import OutcomeResult

TITLE = "Equal opportunity for the equally qualified: the outcome test on a table of one's own"
CAVEAT = (
    "A yes or a no says what this table shows by the rule beside it. The paper speaks of other data: neither confirms nor "
    "refutes it. Who is really qualified stands in no table, so that what needs it cannot be told."
)
SMALL_GAP = 0.05  # of the mean outcome
NEGLIGIBLE = f"no if all intervals lie within {SMALL_GAP:.0%} of the mean outcome around 0"
MIN_BINS = 5  # for "in every bin" to say something: a coin falls the same way four times in a row too often
NULL_DRAWS = 999  # for a p that stays small when it is adjusted over a dozen groups
HIGHER = "A group realises higher outcomes than the reference in every bin"
SIZE = "Over all bins a group does better or worse than the reference at equal score"
RISES = ("The outcome rises with the slots given again, predicted and valued with the same rows", "4.1", "by almost 1%")
SMALLER = ("The outcome changes less than the slots", "4.1", "small compared to them")
BEYOND_CHANCE = ("The rise is beyond chance (two folds)", "4.1", "(not tested there)")
TRUTH = (
    ("Different qualifications alone are not taken for bias", "3.4, 5.4", "not by the outcome test", False),
    ("Precision takes them for bias", "5.4.2", "false positive", False),
    ("Equalised odds takes them for bias", "5.4.1", "false positive", False),
    ("Human bias is not sent to the algorithm", "5.1", "separate", False),
    ("The gap found is the gap that the true qualifications give", "4.1, 4.2", "(not stated)", True),
)
"""Findings that compare an answer with what is really so."""
NEEDS_TRUTH = "needs the truth (who is really qualified, how people treat whom), which no table holds"
log = logging.getLogger("evenhand")


@dataclass(frozen=True)
class Slots:
    """Reallocated slots: as in the paper, within a window, and with two folds."""

    printed: eh.Result
    bounded: eh.Result
    honest: eh.Result


def on_data(data: Any, roles: Mapping[str, Any], seed: int) -> Study:
    """All figures and findings that a table allows, its columns named by role."""
    arguments = {role: value for role, value in roles.items() if value is not None}
    test: OutcomeResult = eh.outcome_test(data, **arguments)
    slots = _reallocate(test, arguments, seed)
    is_ranking = arguments.get("kind", "ranking") == "ranking"
    facts, reference = test.provenance, test.findings.words.get("reference", "nobody")
    table = facts["plan"].get("table")
    read = "Rows" if facts.get("rows") is None else f"{facts['rows']:,} rows"
    where = f" of {table}" if isinstance(table, str) else ""
    limits = "; ".join(f"{limit[0].lower()}{limit[1:].rstrip('.')}" for limit in facts["cannot_say"])
    tests = [m for m in ("joint_test", "marginal_test", "pooled_gap") if m in test.findings.metrics()]
    return Study(
        name="outcome",
        title=TITLE,
        setting=f"{read}{where}; others are compared with {reference!r} (seed {seed}).",
        claims=decide(
            (
                *_differences(test, is_ranking=is_ranking),
                *_reallocated(slots, is_ranking=is_ranking),
                *_unknowable(test),
            )
        ),
        tables=_tables(test, slots.honest if isinstance(slots, Slots) else None),
        figures=_figures(test, slots),
        sentences=tuple(test.only(*tests).sentences()[:12]) if tests else (),
        caveats=(CAVEAT, f"What it cannot say: {limits}."),
        results={"outcome_test": test, **({"counterfactual": slots.honest} if isinstance(slots, Slots) else {})},
    )


def _reallocate(test: OutcomeResult, arguments: Mapping[str, Any], seed: int) -> Slots | str:
    """The slots given again, or why they cannot be."""
    if "weight" in arguments:
        return "a slot goes to one row, and a weight makes a row stand for several"
    if not test.evidence:
        return "there are no two groups to compare"
    if "treated" not in arguments and arguments.get("kind") != "classification" and "request" not in arguments:
        return "every row has its slot: the column of who was treated, or of the request, is not named"
    log.info("reallocating slots")
    try:
        return Slots(
            test.counterfactual(folds=1, window=None, null_draws=0, rng=seed),
            test.counterfactual(folds=1, null_draws=0, rng=seed),
            test.counterfactual(null_draws=NULL_DRAWS, rng=seed),
        )
    except EvenhandError as error:
        return str(error).partition(". ")[0]


def _who(result: eh.Result, r: Row) -> str:
    """The group and the slice of a row, as far as it has them."""
    return ", ".join(part for part in (r["group"], result.findings.slice_label(r)) if part) or "all"


def _units(rows: Iterable[Row], what: str = "rows") -> str:
    return f"{sum(int(r['units'] or 0) for r in rows):,} {what}"


def _tested(rows: Iterable[Row], p: str = "p") -> list[Row]:
    """The rows that have a p, the smallest first."""
    return sorted((r for r in rows if is_number(r[p])), key=lambda r: float(r[p]))


def _listed(result: eh.Result, rows: Sequence[Row], text: Callable[[Row], str]) -> str:
    """A text for each row that was tested."""
    return listing([f"{_who(result, r)} {text(r)}" for r in rows], 4) or "nothing to test"


def _differences(test: OutcomeResult, *, is_ranking: bool) -> tuple[Claim, ...]:
    """Claims on outcomes at equal score: all bins of a ranking or the lowest of a threshold, each bin, and the size."""
    if is_ranking:
        metric, name = "joint_test", "joint test"
        statement = ("Outcomes differ at equal score along the scores", "4.2, fig. 7", "positive, significant")
    else:
        metric, name = "marginal_test", "test of the lowest bin"
        statement = ("Outcomes differ right above the threshold", "4.1, fig. 5", "positive, significant")
    rows, gaps = select(test, metric), _tested(select(test, "pooled_gap"), "p_adjusted")
    measured, p = _in_slices(test, rows)
    near = gaps if is_ranking else _tested(select(test, "outcome_gap", bin=1))
    size = Evidence(min((r["p_adjusted"] for r in gaps), default=math.nan), _negligible(test, gaps))
    return (
        Claim(
            *statement, f"{name} {measured}", Evidence(p, _negligible(test, near)), counts=f"p below 5%; {NEGLIGIBLE}",
            sample=_units(rows),
        ),
        _higher(test),
        Claim(
            SIZE, "4.1, 4.2", "(not stated)", _listed(test, gaps, partial(with_interval, form="+.4f")), size,
            counts=f"adjusted p below 5%; {NEGLIGIBLE}", is_ours=True, sample=_units(select(test, "pooled_gap")),
        ),
    )  # fmt: skip


def _negligible(test: OutcomeResult, gaps: Sequence[Row]) -> float:
    """The p with which every gap is too small to matter."""
    means = [abs(r["estimate"]) for r in select(test, "mean_outcome") if is_number(r["estimate"])]
    if not means or not gaps:
        return math.nan
    bound = SMALL_GAP * sum(means) / len(means)
    within = ((bound + sign * r["estimate"], error_of(r)) for r in gaps for sign in (-1, 1))
    return every(above_zero(room, error) for room, error in within).yes


def _in_slices(result: eh.Result, rows: Sequence[Row]) -> tuple[str, float]:
    """The slices in which a test is significant, adjusted over all of them, in words; and the smallest p."""
    p = [(r["p_adjusted"] if is_number(r["p_adjusted"]) else r["p"], r) for r in _tested(rows)]
    if not p:
        return "has nothing to test", math.nan
    smallest = min(value for value, _ in p)
    if len(rows) == 1:
        return p_text(smallest), smallest
    hits = [_who(result, r) for value, r in p if value < ALPHA]
    names = f": {listing(hits, 6)}" if hits else ""
    return f"in {len(hits)} of {len(p)} slices{names}; smallest adjusted {p_text(smallest)}", smallest


def _higher(test: OutcomeResult) -> Claim:
    """In how many bins each group does better than the reference at the same score."""
    by_group: dict[str, list[Row]] = {}
    for r in select(test, "outcome_gap"):
        if is_number(r["p"]):
            by_group.setdefault(_who(test, r), []).append(r)
    texts, parts = [], []
    for who, rows in sorted(by_group.items(), key=lambda pair: -sum(r["estimate"] > 0 for r in pair[1]) / len(pair[1])):
        texts.append(f"{who} in {sum(r['estimate'] > 0 for r in rows)} of {len(rows)}")
        in_each = every(map(with_sign, rows))
        parts.append(in_each if len(rows) >= MIN_BINS else Evidence(1.0, in_each.no))
    return Claim(
        HIGHER, "4, fig. 4, 6", "systematically higher", listing(texts, 6) or "no bin holds two groups",
        ~every(~part for part in parts),
        counts=f"significantly in all of {MIN_BINS} bins or more; no if every group is significantly lower in a bin",
        sample=_units(select(test, "mean_outcome")),
    )  # fmt: skip


def _reallocated(slots: Slots | str, *, is_ranking: bool) -> tuple[Claim, ...]:
    """Claims on slots given again: who moves, and how the outcome of all slots changes."""
    metric, moved = ("mean_rank_change", "mean rank changes") if is_ranking else ("slots_gained", "slots change")
    stated = ("4.2", "men up, women and unknown down") if is_ranking else ("4.1", "up, up, down")
    statement = (f"With slots given again, some group's {moved} beyond chance", *stated)
    if isinstance(slots, str):
        return Claim(*statement, slots, UNKNOWN), *_no_outcomes(slots)
    honest = slots.honest
    changes = _tested(select(honest, metric))
    bands = {_who(honest, r): r for r in select(honest, f"{metric}_null")}
    form = "+,.2f" if is_ranking else "+,.0f"
    sample = _units(select(honest, "outcome_before"), "slots")
    texts = _listed(
        honest, changes, lambda r: f"{r['estimate']:{form}} (by chance {ends(bands[_who(honest, r)], form)})"
    )
    evidence = Evidence(yes=changes[0]["p"] * len(changes)) if changes else UNKNOWN
    first = Claim(*statement, texts, evidence, counts="p adjusted over groups below 5%", sample=sample)
    return first, *_outcomes(slots, sample)


def _outcomes(slots: Slots, sample: str) -> tuple[Claim, ...]:
    """Claims on the outcome of all slots, which is constant if every candidate has a slot."""
    changes = [abs(r["estimate"]) for r in select(slots.printed, "slots_relative_change")]
    largest = max((change for change in changes if change == change), default=0.0)
    if not largest:
        return _no_outcomes("every candidate keeps a slot, so that the outcome of all slots stays as it is")
    plain, near = (
        [r["estimate"] for r in select(result, "outcome_relative_change") if is_number(r["estimate"])]
        for result in (slots.printed, slots.bounded)
    )
    pairs = zip(*(select(slots.honest, f"outcome_relative_change{end}") for end in ("", "_null")), strict=True)
    bands = {_who(slots.honest, rise): band for rise, band in pairs if is_number(rise["p"])}
    rises = _tested(select(slots.honest, "outcome_relative_change"))
    texts = _listed(
        slots.honest, rises,
        lambda r: f"{r['estimate']:+.2%}, by chance {ends(bands[_who(slots.honest, r)], '+.2%')}",
    )  # fmt: skip
    return (
        Claim(
            *RISES, f"{_percents(plain)}; from one bin below the bar only: {_percents(near)}",
            certain(all(0 < v < 0.02 for v in plain) if plain else None), counts="0 to 2%", sample=sample,
        ),
        Claim(
            *SMALLER, f"{_percents(plain)} against {largest:.2%} at most",
            certain(max(map(abs, plain)) < largest if plain else None), sample=sample,
        ),
        Claim(
            *BEYOND_CHANCE, texts, ~every(~Move(r, bands[_who(slots.honest, r)]).is_gain for r in rises),
            counts="above zero and above the band; no if below both", is_ours=True, sample=sample,
        ),
    )  # fmt: skip


def _no_outcomes(why: str) -> tuple[Claim, ...]:
    return tuple(
        Claim(*statement, why, UNKNOWN, is_ours=statement is BEYOND_CHANCE)
        for statement in (RISES, SMALLER, BEYOND_CHANCE)
    )


def _percents(values: Sequence[float]) -> str:
    if not values:
        return "undefined"
    span = interval_text(min(values), max(values), "{:+.2%}".format)
    return f"{values[0]:+.2%}" if len(values) == 1 else f"{span} over slices"


def _unknowable(test: OutcomeResult) -> list[Claim]:
    """The findings that need the truth, with the values of the measures that they are about."""
    metrics = {"Precision": ("precision", "base_rate"), "Equalised": ("equalized_odds_gap",)}
    claims = []
    for statement, where, stated, is_ours in TRUTH:
        measures = metrics.get(statement.split()[0], ())
        rows = (
            [r for r in select(test, *measures) if is_number(r["estimate"]) and r["note"] != "reference"]
            if measures
            else []
        )
        text = listing([f"{_who(test, r)} {r['estimate']:.3f}" for r in rows], 6)
        seen = f"{text}; whether that is a false alarm " if rows else ""
        claims.append(Claim(statement, where, stated, f"{seen}{NEEDS_TRUTH}", UNKNOWN, is_ours=is_ours))
    return claims


def _tables(test: OutcomeResult, honest: eh.Result | None) -> tuple[Table, ...]:
    columns = test.findings.curves["remedies"]
    names = [*test.findings.slices, "group", "source", "found", "change_scores", "change_product"]
    remedies = tuple(zip(*([str(v) for v in columns[name]] for name in names), strict=True))
    in_bins = ("mean_outcome", "outcome_gap")
    others = [metric for metric in test.findings.metrics() if metric not in in_bins]
    moved = ("slots_before", "slots_after", "slots_relative_change", "mean_rank_change")
    slots = "Slots given again to the highest predicted outcomes (two folds)"
    return (
        result_table("The groups, at equal score and as other measures see them", test, *others),
        result_table("Mean outcomes and gaps along the score", test, *in_bins),
        reach(test, honest),
        *([] if honest is None else [result_table(slots, honest, *moved)]),
        Table("Which team can fix which bias", tuple(n.replace("_", " ") for n in names), remedies),
    )


def reach(test: eh.Result, honest: eh.Result | None, *, of: str = "") -> Table:
    """The effects detectable with 80% power, next to those measured."""
    first = [r for r in select(test, "outcome_gap", bin=1) if "small_cell" not in (r["note"] or "")]
    body: list[tuple[str, ...]] = [
        (f"{what}, {_who(test, r)}", f"{r['estimate']:+.4f}", f"{r['detectable']:.4f}", f"{int(r['units']):,} rows")
        for what, rows in (("gap over all bins", select(test, "pooled_gap")), ("gap in the lowest bin", first))
        for r in rows
        if is_number(r["detectable"])
    ]
    if honest is not None:
        body += _reach_of_slots(honest)
    head = ("of what", "measured", "found with a chance of 80% from", "rests on")
    return Table(f"What so much data can show{f': {of}' if of else ''}", head, tuple(body))


def _reach_of_slots(honest: eh.Result) -> list[tuple[str, ...]]:
    """Detectable changes of slots and outcome: 0.84 standard deviations beyond the null band."""
    power, two_sided, one_sided = 0.8416, 1.9600, 1.6449  # normal quantiles at 80%, 97.5% and 95%
    bands = {_who(honest, r): r for r in select(honest, "slots_gained_null")}
    body: list[tuple[str, ...]] = []
    for r in select(honest, "slots_gained"):
        band = bands.get(_who(honest, r))
        if band is None or not r["units"]:
            continue
        half = (band["high"] - band["low"]) / 2
        change, detectable = r["estimate"] / r["units"], half * (1 + power / two_sided) / r["units"]
        body.append((f"slots, {_who(honest, r)}", f"{change:+.2%}", f"{detectable:.2%}", f"{r['units']:,} slots"))
    changes = select(honest, "outcome_relative_change")
    for r, band in zip(changes, select(honest, "outcome_relative_change_null"), strict=False):
        if is_number(band["high"]) and is_number(r["estimate"]):
            detectable = band["estimate"] + (band["high"] - band["estimate"]) * (1 + power / one_sided)
            where = honest.findings.slice_label(r)
            body.append((f"outcome of all slots{f', {where}' if where else ''}", f"{r['estimate']:+.2%}",
                         f"{max(detectable, 0):+.2%}", f"{r['units']:,} slots"))  # fmt: skip
    return body


def _figures(test: OutcomeResult, slots: Slots | str) -> tuple[Figure, ...]:
    drawn = [
        Figure("outcomes", "Mean outcome by group along the score (figures 4 and 6 of the paper).", partial(test.plot, "outcomes")),
        Figure("gaps", "Gap to the reference at equal score (figures 5 and 7 of the paper).", partial(test.plot, "gaps")),
        Figure("calibration", "Mean outcome against mean score.", partial(test.plot, "calibration")),
    ]  # fmt: skip
    if isinstance(slots, Slots):
        drawn.append(
            Figure("slots", "Who gains and loses slots, with the band of chance.", partial(slots.honest.plot, "slots"))
        )
    return tuple(f for f in drawn if f.name == "slots" or f.name in test.kinds)
