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
from evenhand.report.words.text import p_text
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
NEGLIGIBLE = f"no if all gaps are significantly within {SMALL_GAP:.0%} of the mean outcome around 0"
MIN_BINS = 5  # for "in every bin" to say something: a coin falls the same way four times in a row too often
NULL_DRAWS = 999  # for a p that stays small when it is adjusted over a dozen groups
HIGHER = "A group realises higher outcomes than the reference in every bin"
SIZE = "Over all bins a group does better or worse than the reference at equal score"
BEYOND_CHANCE = ("The outcome rises with the slots given again, beyond chance (two folds)", "4.1", "by almost 1%")
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
class Move:
    """The change of a group, and the range in which it lies by chance alone."""

    change: Row
    band: Row

    @property
    def is_gain(self) -> Evidence:
        """Whether the change is above zero and above what chance gives; not so if it is below both."""
        change = float(self.change["estimate"])
        beyond = above_zero(change - self.band["estimate"], error_of(self.band))
        return Evidence(beyond.yes if change > 0 else 1.0, beyond.no if change < 0 else 1.0)


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
    claims = (*_differences(test, is_ranking=is_ranking), *_moves(slots, is_ranking=is_ranking))
    unknowable = (Claim(*finding[:3], NEEDS_TRUTH, UNKNOWN, is_ours=finding[3]) for finding in TRUTH)
    honest = None if isinstance(slots, str) else slots
    return Study(
        name="outcome",
        title=TITLE,
        setting=f"{read}{where}; others are compared with {reference!r} (seed {seed}).",
        claims=decide((*claims, *unknowable)),
        tables=_tables(test, honest),
        figures=_figures(test, honest),
        sentences=tuple(test.only(*tests).sentences()[:12]) if tests else (),
        caveats=(CAVEAT, f"What it cannot say: {limits}."),
        results={"outcome_test": test, **({"counterfactual": honest} if honest is not None else {})},
    )


def _reallocate(test: OutcomeResult, arguments: Mapping[str, Any], seed: int) -> eh.Result | str:
    if "weight" in arguments:
        return "a slot goes to one row, and a weight makes a row stand for several"
    if not test.evidence:
        return "there are no two groups to compare"
    if "treated" not in arguments and arguments.get("kind") != "classification" and "request" not in arguments:
        return "every row has its slot: the column of who was treated, or of the request, is not named"
    log.info("reallocating slots")
    try:
        return test.counterfactual(null_draws=NULL_DRAWS, rng=seed)
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
    by_group: dict[str, list[Row]] = {}
    for r in _tested(select(test, "outcome_gap")):
        by_group.setdefault(_who(test, r), []).append(r)
    texts, parts = [], []
    for who, rows in by_group.items():
        texts.append(f"{who} in {sum(r['estimate'] > 0 for r in rows)} of {len(rows)}")
        in_each = every(map(with_sign, rows))
        parts.append(in_each if len(rows) >= MIN_BINS else Evidence(1.0, in_each.no))
    return Claim(
        HIGHER, "4, fig. 4, 6", "systematically higher", listing(texts, 6) or "no bin holds two groups",
        ~every(~part for part in parts),
        counts=f"significantly in all of {MIN_BINS} bins or more; no if every group is significantly lower in a bin",
        sample=_units(select(test, "mean_outcome")),
    )  # fmt: skip


def _moves(slots: eh.Result | str, *, is_ranking: bool) -> tuple[Claim, Claim]:
    """Claims on slots given again: who moves, and how the outcome of all slots changes."""
    metric, moved = ("mean_rank_change", "mean rank changes") if is_ranking else ("slots_gained", "slots change")
    stated = ("4.2", "men up, women and unknown down") if is_ranking else ("4.1", "up, up, down")
    statement = (f"With slots given again, some group's {moved} beyond chance", *stated)
    if isinstance(slots, str):
        return Claim(*statement, slots, UNKNOWN), Claim(*BEYOND_CHANCE, slots, UNKNOWN)
    sample = _units(select(slots, "outcome_before"), "slots")
    changes, rises = _tested(select(slots, metric)), _tested(select(slots, "outcome_relative_change"))

    def band(r: Row) -> Row:
        null = select(slots, f"{r['metric']}_null", group=r["group"])
        return next(other for other in null if _who(slots, other) == _who(slots, r))

    def beside_chance(form: str) -> Callable[[Row], str]:
        return lambda r: f"{r['estimate']:{form}} (by chance {ends(band(r), form)})"

    return (
        Claim(
            *statement, _listed(slots, changes, beside_chance("+,.2f" if is_ranking else "+,.0f")),
            Evidence(yes=changes[0]["p"] * len(changes)) if changes else UNKNOWN, counts="p adjusted over groups below 5%",
            sample=sample,
        ),
        Claim(
            *BEYOND_CHANCE, _listed(slots, rises, beside_chance("+.2%")), ~every(~Move(r, band(r)).is_gain for r in rises),
            counts="above zero and above the band; no if below both", sample=sample,
        ),
    )  # fmt: skip


def _tables(test: OutcomeResult, honest: eh.Result | None) -> tuple[Table, ...]:
    columns = test.findings.curves["remedies"]
    names = [*test.findings.slices, "group", "source", "found", "change_scores", "change_product"]
    remedies = tuple(zip(*([str(v) for v in columns[name]] for name in names), strict=True))
    in_bins = ("mean_outcome", "outcome_gap")
    others = [metric for metric in test.findings.metrics() if metric not in in_bins]
    slots = "Slots given again to the highest predicted outcomes (two folds)"
    return (
        result_table("The groups, at equal score and as other measures see them", test, *others),
        result_table("Mean outcomes and gaps along the score", test, *in_bins),
        *([] if honest is None else [result_table(slots, honest)]),
        Table("Which team can fix which bias", tuple(n.replace("_", " ") for n in names), remedies),
    )


def _figures(test: OutcomeResult, honest: eh.Result | None) -> tuple[Figure, ...]:
    captions = {
        "outcomes": "Mean outcome by group along the score (figures 4 and 6 of the paper).",
        "gaps": "Gap to the reference at equal score (figures 5 and 7 of the paper).",
        "calibration": "Mean outcome against mean score.",
    }
    drawn = [Figure(kind, text, partial(test.plot, kind)) for kind, text in captions.items() if kind in test.kinds]
    slots = "Who gains and loses slots, with the band of chance."
    return (*drawn, *([] if honest is None else [Figure("slots", slots, partial(honest.plot, "slots"))]))
