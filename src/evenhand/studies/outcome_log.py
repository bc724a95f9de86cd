"""The outcome-test paper's questions on a user's table, whose truth is unknown.

What the test and the slots given again can answer is answered, group by group and slice by slice. Findings that compare an
answer with what is really so (true qualifications, who is biased) cannot be measured on a log, and that is said.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from evenhand.audits.outcome.outcome_test import outcome_test
from evenhand.audits.outcome.remedies import OutcomeResult
from evenhand.audits.outcome.rows import CANNOT_SAY
from evenhand.errors import EvenhandError, listing
from evenhand.findings import Row
from evenhand.intervals.difference import holm
from evenhand.report.words.text import number, p_text, percent
from evenhand.results import Result
from evenhand.studies.study import Claim, Figure, Study, Table

TITLE = "Equal opportunity for the equally qualified: the outcome test on a table of one's own"
CAVEATS = (
    "A yes or a no says what this table shows by the rule beside it. The paper speaks of other data: neither confirms nor "
    "refutes it. Who is really qualified stands in no table, so that what needs it cannot be measured.",
    f"What it cannot say: {'; '.join(f'{limit[0].lower()}{limit[1:].rstrip(chr(46))}' for limit in CANNOT_SAY)}.",
)
SURE = 0.05
FEWEST_BINS = 5
"""Bins from which on "in every bin" says something: a coin falls the same way four times in a row too often."""
NULL_DRAWS = 999
"""As many as it takes for a p that stays small when it is adjusted over a dozen groups."""
DIFFER = ("Outcomes differ at equal score along the scores", "4.2, fig. 7", "positive, significant")
MARGIN = ("Outcomes differ right above the threshold", "4.1, fig. 5", "positive, significant")
HIGHER = ("A group realises higher outcomes than the reference in every bin", "4, fig. 4, 6", "systematically higher")
SIZE = "Over all bins a group does better or worse than the reference at equal score"
PRINTED = (
    "The outcome rises with the slots given again, predicted and valued with the same rows",
    "by almost 1%",
)
LESS = ("The outcome changes less than the slots", "small compared to them")
RISE = "The rise is beyond chance (two folds)"
TRUTH = (
    ("Different qualifications alone are not taken for bias", "3.4, 5.4", "not by the outcome test", False),
    ("Precision takes them for bias", "5.4.2", "false positive", False),
    ("Equalised odds takes them for bias", "5.4.1", "false positive", False),
    ("Human bias is not sent to the algorithm", "5.1", "separate", False),
    ("The gap found is the gap that the true qualifications give", "4.1, 4.2", "(not stated)", True),
)
"""Findings that hold an answer against what is really so."""
NEEDS_TRUTH = "needs the truth (who is really qualified, how people treat whom), which no table holds"
log = logging.getLogger("evenhand")


@dataclass(frozen=True)
class Slots:
    """Reallocated slots: as in the paper, within a window, with two folds; or why not."""

    printed: Result | None = None
    bounded: Result | None = None
    honest: Result | None = None
    lost: str = ""


def on_data(data: Any, roles: Mapping[str, Any], seed: int) -> Study:
    """All figures and findings that a table allows, its columns named by role."""
    arguments = {role: value for role, value in roles.items() if value is not None}
    test = outcome_test(data, **arguments)
    slots = _slots(test, arguments, seed)
    answers = {"outcome_test": test, **({"counterfactual": slots.honest} if slots.honest else {})}
    return Study(
        "outcome", TITLE, _setting(test, seed), claims(test, slots), _tables(test, slots, arguments), _figures(test, slots),
        tuple(_key_sentences(test)), CAVEATS, results=answers,
    )  # fmt: skip


def _setting(test: OutcomeResult, seed: int) -> str:
    provenance = test.provenance
    many = provenance.get("rows")
    name = provenance["plan"].get("table")
    read = f"{many:,} rows" if many is not None else "Rows"
    where = f" of {name}" if isinstance(name, str) else ""
    return f"{read}{where}; others are compared with {test.findings.words.get('reference', 'nobody')!r} (seed {seed})."


def _slots(test: OutcomeResult, arguments: Mapping[str, Any], seed: int) -> Slots:
    if "weight" in arguments:
        return Slots(lost="a slot goes to one row, and a weight makes a row stand for several")
    if not test.evidence:
        return Slots(lost="there are no two groups to compare")
    if "treated" not in arguments and arguments.get("kind") != "classification" and "request" not in arguments:
        return Slots(lost="every row has its slot: the column of who was treated, or of the request, is not named")
    log.info("giving slots again")
    try:
        return Slots(
            test.counterfactual(folds=1, window=None, null_draws=0, rng=seed),
            test.counterfactual(folds=1, null_draws=0, rng=seed),
            test.counterfactual(null_draws=NULL_DRAWS, rng=seed),
        )
    except EvenhandError as error:
        return Slots(lost=str(error).partition(". ")[0])


def claims(test: OutcomeResult, slots: Slots) -> tuple[Claim, ...]:
    """The paper's findings, checked on this table; those that need the truth are left open."""
    ranking = test.provenance["plan"].get("kind", "ranking") == "ranking"
    return (
        _joint(test) if ranking else _marginal(test),
        _higher(test),
        _pooled(test),
        *_reallocated(slots, ranking=ranking),
        *(
            Claim(statement, where, stated, f"{_seen(test, statement)}{NEEDS_TRUTH}", None, is_ours=whose)
            for statement, where, stated, whose in TRUTH
        ),
    )


def _rows(result: Result, *metrics: str) -> list[Row]:
    return [r for r in result.findings.rows() if r["metric"] in metrics]


def _who(result: Result, r: Row) -> str:
    """The group and the slice of a row, as far as it has them."""
    slice_ = result.findings.slice_label(r)
    return ", ".join(part for part in (r["group"], slice_) if part) or "all"


def _is_number(value: Any) -> bool:
    """Whether a cell of a row holds a number."""
    return value is not None and math.isfinite(value)


def _units(rows: Iterable[Row], what: str = "rows") -> str:
    return f"{sum(int(r['units'] or 0) for r in rows):,} {what}"


def _of_tests(result: Result, rows: Sequence[Row]) -> tuple[str, bool | None]:
    """Tests of all slices: which find something once all are counted."""
    tested = [r for r in rows if _is_number(r["p"])]
    if not tested:
        return _why(rows), None
    p = [(r["p_adjusted"] if _is_number(r["p_adjusted"]) else r["p"], r) for r in tested]
    hits = [_who(result, r) for value, r in p if value < SURE]
    if len(rows) == 1:
        return f"p = {p_text(tested[0]['p'])}", bool(hits)
    names = f": {listing(hits, 6)}" if hits else ""
    untested = f" ({len(rows) - len(tested)} cannot be tested)" if len(tested) < len(rows) else ""
    return (
        f"in {len(hits)} of {len(tested)} slices{untested}{names}; smallest adjusted p = {p_text(min(v for v, _ in p))}",
        bool(hits),
    )


def _why(rows: Sequence[Row]) -> str:
    noted = sorted({note.replace("_", " ") for r in rows for note in (r["note"] or "").split("; ") if note})
    return f"nothing to test ({', '.join(noted)})" if noted else "nothing to test"


def _joint(test: OutcomeResult) -> Claim:
    rows = _rows(test, "joint_test")
    measured, holds = _of_tests(test, rows)
    statement, where, stated = DIFFER
    return Claim(statement, where, stated, f"joint test {measured}", holds, counts="p below 5%", sample=_units(rows))


def _marginal(test: OutcomeResult) -> Claim:
    rows = _rows(test, "marginal_test")
    measured, holds = _of_tests(test, rows)
    statement, where, stated = MARGIN
    return Claim(
        statement, where, stated, f"test of the lowest bin {measured}", holds, counts="p below 5%", sample=_units(rows)
    )


def _higher(test: OutcomeResult) -> Claim:
    """In how many bins each group does better than the reference at the same score."""
    reference = test.findings.words.get("reference")
    means: dict[str, dict[tuple[str, Any], float]] = {}
    rows = [r for r in _rows(test, "mean_outcome") if _is_number(r["estimate"])]
    for r in rows:
        means.setdefault(r["group"], {})[test.findings.slice_label(r), r["bin"]] = r["estimate"]
    home = means.pop(str(reference), {})
    counted: dict[str, tuple[int, int]] = {}
    for group, by_bin in means.items():
        for slice_ in dict.fromkeys(where for where, _ in by_bin):
            both = [key for key in by_bin if key in home and key[0] == slice_]
            if both:
                name = f"{group}, {slice_}" if slice_ else group
                counted[name] = sum(by_bin[key] > home[key] for key in both), len(both)
    enough = [counts for counts in counted.values() if counts[1] >= FEWEST_BINS]
    ordered = sorted(counted.items(), key=lambda pair: -pair[1][0] / pair[1][1])
    text = listing([f"{name} in {higher} of {bins}" for name, (higher, bins) in ordered], 6)
    statement, where, stated = HIGHER
    return Claim(
        statement, where, stated, text or "no bin holds two groups", any(h == b for h, b in enough) if enough else None,
        counts=f"in all of {FEWEST_BINS} bins or more", sample=_units(rows),
    )  # fmt: skip


def _pooled(test: OutcomeResult) -> Claim:
    rows = [r for r in _rows(test, "pooled_gap") if "reference" not in (r["note"] or "").split("; ")]
    tested = sorted((r for r in rows if _is_number(r["p_adjusted"])), key=lambda r: float(r["p_adjusted"]))
    texts = [f"{_who(test, r)} {r['estimate']:+.4f} ({r['low']:+.4f} to {r['high']:+.4f})" for r in tested]
    return Claim(
        SIZE, "4.1, 4.2", "(not stated)", listing(texts, 4) if texts else _why(rows),
        any(r["p_adjusted"] < SURE for r in tested) if tested else None, counts="adjusted p below 5%", is_ours=True,
        sample=_units(_rows(test, "pooled_gap")),
    )  # fmt: skip


def _reallocated(slots: Slots, *, ranking: bool) -> tuple[Claim, ...]:
    moved = "mean_rank_change" if ranking else "slots_gained"
    where = "4.2" if ranking else "4.1"
    stated = "men up, women and unknown down" if ranking else "up, up, down"
    statement = "With slots given again, some group's " + (
        "mean rank changes beyond chance" if ranking else "slots change beyond chance"
    )
    if slots.honest is None or slots.printed is None or slots.bounded is None:
        return Claim(statement, where, stated, slots.lost, None), *_no_outcomes(slots.lost)
    changes = _rows(slots.honest, moved)
    sample = _units(_rows(slots.honest, "outcome_before"), "slots")
    p = dict(zip(map(id, changes), holm([r["p"] for r in changes]).tolist(), strict=True))
    tested = sorted((r for r in changes if _is_number(r["p"])), key=lambda r: float(r["p"]))
    bands = {_who(slots.honest, r): r for r in _rows(slots.honest, f"{moved}_null")}
    texts = [_move(slots.honest, r, bands) for r in tested]
    first = Claim(
        statement, where, stated, listing(texts, 4) if texts else _why(changes),
        any(p[id(r)] < SURE for r in tested) if tested else None, counts="p adjusted over groups below 5%", sample=sample,
    )  # fmt: skip
    return first, *_outcomes(slots.printed, slots.bounded, slots.honest, sample)


def _outcomes(printed: Result, bounded: Result, honest: Result, sample: str) -> tuple[Claim, ...]:
    """Claims on the outcome of all slots, which is constant if every candidate has a slot."""
    largest = max(
        (abs(r["estimate"]) for r in _rows(printed, "slots_relative_change") if r["estimate"] == r["estimate"]),
        default=0.0,
    )
    if not largest:
        return _no_outcomes("every candidate keeps a slot, so that the outcome of all slots stays as it is")
    plain, near = (
        [r["estimate"] for r in _rows(result, "outcome_relative_change") if _is_number(r["estimate"])]
        for result in (printed, bounded)
    )
    return (
        Claim(
            PRINTED[0], "4.1", PRINTED[1], f"{_percents(plain)}; from one bin below the bar only: {_percents(near)}",
            all(0 < v < 0.02 for v in plain) if plain else None, counts="0 to 2%", sample=sample,
        ),
        Claim(
            LESS[0], "4.1", LESS[1], f"{_percents(plain)} against {largest:.2%} at most",
            max(map(abs, plain)) < largest if plain else None, sample=sample,
        ),
        _rise(honest, sample),
    )  # fmt: skip


def _no_outcomes(lost: str) -> tuple[Claim, ...]:
    return (
        Claim(PRINTED[0], "4.1", PRINTED[1], lost, None),
        Claim(LESS[0], "4.1", LESS[1], lost, None),
        Claim(RISE, "4.1", "(not tested there)", lost, None, is_ours=True),
    )


def _move(result: Result, r: Row, bands: Mapping[str, Row]) -> str:
    band, digits = bands[_who(result, r)], 2 if r["metric"] == "mean_rank_change" else 0
    return f"{_who(result, r)} {r['estimate']:+,.{digits}f} (by chance {band['low']:+,.{digits}f} to {band['high']:+,.{digits}f})"


def _percents(values: Sequence[float]) -> str:
    if not values:
        return "undefined"
    return f"{values[0]:+.2%}" if len(values) == 1 else f"{min(values):+.2%} to {max(values):+.2%} over slices"


def _rise(honest: Result, sample: str) -> Claim:
    changes, bands = _rows(honest, "outcome_relative_change"), _rows(honest, "outcome_relative_change_null")
    texts, verdicts = [], []
    for change, band in zip(changes, bands, strict=True):
        if _is_number(change["p"]):
            who = honest.findings.slice_label(change)
            texts.append(
                f"{f'{who} ' if who else ''}{change['estimate']:+.2%}, by chance {band['low']:+.2%} to {band['high']:+.2%}"
            )
            verdicts.append(change["estimate"] > max(band["high"], 0))
    return Claim(
        RISE, "4.1", "(not tested there)", listing(texts, 4) if texts else _why(changes), any(verdicts) if verdicts else None,
        counts="above zero and above the band", is_ours=True, sample=sample,
    )  # fmt: skip


def _seen(test: OutcomeResult, statement: str) -> str:
    """A measure's values by group, for findings on whether it is right."""
    metrics = ("precision", "base_rate") if statement.startswith("Precision") else ("equalized_odds_gap",)
    if not statement.startswith(("Precision", "Equalised odds")):
        return ""
    rows = [r for r in _rows(test, *metrics) if _is_number(r["estimate"]) and r["note"] != "reference"]
    text = listing([f"{_who(test, r)} {r['estimate']:.3f}" for r in rows], 6)
    return f"{text}; whether that is a false alarm " if rows else ""


def _tables(test: OutcomeResult, slots: Slots, arguments: Mapping[str, Any]) -> tuple[Table, ...]:
    named = tuple((role, value if isinstance(value, str) else listing([value] if not isinstance(value, (list, tuple)) else value))
                  for role, value in arguments.items())  # fmt: skip
    return (
        Table("Columns by role", ("role", "column or value"), named),
        _groups(test),
        _bins(test),
        reach(test, slots.honest),
        *([_slot_table(slots)] if slots.honest else []),
        _remedies(test),
    )


def _cells(r: Row, *names: str) -> tuple[str, ...]:
    return tuple("" if r[n] is None or r[n] != r[n] else number(r[n]) for n in names)


def _groups(test: OutcomeResult) -> Table:
    """Every group beside the reference: what the test says, and what other measures do."""
    rows: dict[tuple[str, str], dict[str, Row]] = {}
    for r in test.findings.rows():
        if r["group"] is not None and r["bin"] is None:
            rows.setdefault((test.findings.slice_label(r), r["group"]), {})[r["metric"]] = r
    shown = ("pooled_gap", "pooled_gap(support='all')", "equalized_odds_gap", "equal_opportunity_gap",
             "true_positive_rate_gap", "false_positive_rate_gap")  # fmt: skip
    present = [m for m in shown if any(m in by_metric for by_metric in rows.values())]
    body = []
    for (where, group), by_metric in rows.items():
        average = by_metric.get("precision") or by_metric.get("base_rate")
        body.append(
            (
                *((where,) if test.findings.slices else ()), group,
                *(_cells(average, "units", "estimate") if average else ("", "")),
                *(_with_ends(by_metric.get(m)) for m in present),
            )
        )  # fmt: skip
    sliced = ("slice",) if test.findings.slices else ()
    head = (*sliced, "group", "rows", "mean outcome", *(m.replace("_", " ") for m in present))
    return Table("The groups, at equal score and as other measures see them", head, tuple(body))


def _with_ends(r: Row | None) -> str:
    if r is None or r["estimate"] != r["estimate"]:
        return (r["note"] or "").replace("_", " ") if r else ""
    if "reference" in (r["note"] or ""):
        return "reference"
    ends = f" ({number(r['low'])} to {number(r['high'])})" if _is_number(r["low"]) else ""
    return f"{number(r['estimate'])}{ends}"


def _bins(test: OutcomeResult) -> Table:
    means = {(_who(test, r), r["bin"]): r for r in _rows(test, "mean_outcome")}
    body = []
    for r in _rows(test, "outcome_gap"):
        mean = means.get((_who(test, r), r["bin"]))
        if mean is not None and r["bin"] == r["bin"]:
            place = (f"{r['bin']:.0f}", *_cells(r, "bin_low", "bin_high"), _who(test, r))
            body.append(
                (*place, *_cells(mean, "units", "estimate"), *_cells(r, "estimate", "low", "high", "p_adjusted"))
            )
    head = ("bin", "score above", "up to", "group", "rows", "mean outcome", "gap", "low", "high", "adjusted p")
    return Table("Mean outcomes and gaps along the score", head, tuple(body))


def reach(test: Result, honest: Result | None, *, of: str = "") -> Table:
    """A table of the effects detectable with 80% power, next to those measured."""
    first = [r for r in _rows(test, "outcome_gap") if r["bin"] == 1 and "small_cell" not in (r["note"] or "")]
    body: list[tuple[str, ...]] = [
        (f"{what}, {_who(test, r)}", f"{r['estimate']:+.4f}", f"{r['detectable']:.4f}", f"{int(r['units']):,} rows")
        for what, rows in (("gap over all bins", _rows(test, "pooled_gap")), ("gap in the lowest bin", first))
        for r in rows
        if _is_number(r["detectable"])
    ]
    if honest is not None:
        body += _reach_of_slots(honest)
    head = ("of what", "measured", "found with a chance of 80% from", "rests on")
    return Table(f"What so much data can show{f': {of}' if of else ''}", head, tuple(body))


SEEN = 0.8416
TWO_SIDED, ONE_SIDED = 1.9600, 1.6449
"""Quantiles of the normal: 80%, 97.5% and 95%, the ends of bands at the usual level."""


def _reach_of_slots(honest: Result) -> list[tuple[str, ...]]:
    """Detectable changes of slots and outcome: 0.84 standard deviations beyond the null band."""
    bands = {_who(honest, r): r for r in _rows(honest, "slots_gained_null")}
    body: list[tuple[str, ...]] = []
    for r in _rows(honest, "slots_gained"):
        band = bands.get(_who(honest, r))
        if band is None or not r["units"]:
            continue
        half = (band["high"] - band["low"]) / 2
        change, seen = r["estimate"] / r["units"], half * (1 + SEEN / TWO_SIDED) / r["units"]
        body.append((f"slots, {_who(honest, r)}", f"{change:+.2%}", f"{seen:.2%}", f"{r['units']:,} slots"))
    changes = _rows(honest, "outcome_relative_change")
    for r, band in zip(changes, _rows(honest, "outcome_relative_change_null"), strict=False):
        if _is_number(band["high"]) and _is_number(r["estimate"]):
            seen = band["estimate"] + (band["high"] - band["estimate"]) * (1 + SEEN / ONE_SIDED)
            where = honest.findings.slice_label(r)
            body.append((f"outcome of all slots{f', {where}' if where else ''}", f"{r['estimate']:+.2%}",
                         f"{max(seen, 0):+.2%}", f"{r['units']:,} slots"))  # fmt: skip
    return body


def _slot_table(slots: Slots) -> Table:
    honest = slots.honest
    assert honest is not None  # noqa: S101  (asked for where there is one)
    metrics = ("slots_before", "slots_after", "slots_gained", "slots_relative_change", "mean_rank_change")
    rows: dict[str, dict[str, Row]] = {}
    for r in _rows(honest, *metrics):
        rows.setdefault(_who(honest, r), {})[r["metric"]] = r
    body = tuple(
        (who, *_cells(by_metric["slots_before"], "estimate"), *_cells(by_metric["slots_after"], "estimate"),
         percent(by_metric["slots_relative_change"]["estimate"]), *_cells(by_metric["slots_gained"], "p_adjusted"),
         *_cells(by_metric["mean_rank_change"], "estimate", "p_adjusted"))
        for who, by_metric in rows.items()
    )  # fmt: skip
    head = ("group", "slots", "given again", "change", "adjusted p", "change of the mean rank", "its adjusted p")
    return Table("Slots given again to the highest predicted outcomes (two folds)", head, body)


def _remedies(test: OutcomeResult) -> Table:
    columns = test.findings.curves["remedies"]
    names = [*test.findings.slices, "group", "source", "found", "change_scores", "change_product"]
    body = zip(*([str(v) for v in columns[name]] for name in names), strict=True)
    return Table("Which team can fix which bias", tuple(n.replace("_", " ") for n in names), tuple(body))


def _figures(test: OutcomeResult, slots: Slots) -> tuple[Figure, ...]:
    drawn = [
        Figure("outcomes", "Mean outcome by group along the score (figures 4 and 6 of the paper).", partial(test.plot, "outcomes")),
        Figure("gaps", "Gap to the reference at equal score (figures 5 and 7 of the paper).", partial(test.plot, "gaps")),
        Figure("calibration", "Mean outcome against mean score.", partial(test.plot, "calibration")),
    ]  # fmt: skip
    if slots.honest is not None:
        drawn.append(
            Figure("slots", "Who gains and loses slots, with the band of chance.", partial(slots.honest.plot, "slots"))
        )
    return tuple(f for f in drawn if f.name == "slots" or f.name in test.kinds)


def _key_sentences(test: OutcomeResult) -> list[str]:
    """The decisive tests in words."""
    present = [m for m in ("joint_test", "marginal_test", "pooled_gap") if m in test.findings.metrics()]
    return test.only(*present).sentences()[:12] if present else []
