"""Rules tested on the rows of results: pass, fail or inconclusive, with the errors of both sides and over all checks of a run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evenhand.errors import EvenhandError, unknown_name
from evenhand.findings import Findings, key_columns, label, read_number
from evenhand.intervals.kinds import holm, t_quantile
from evenhand.report.checks import INCONCLUSIVE, Check, Checks, Rule, Verdict, parse
from evenhand.report.words.experiment import has_wrong_split


@dataclass(frozen=True, slots=True)
class Subject:
    """A result to check: its rules, the earlier results that they may name, and what decides an inconclusive check."""

    findings: Findings
    rules: Sequence[str]
    baseline: Sequence[Findings] = ()
    inconclusive: str = "estimate"


def check(
    findings: Findings,
    rules: Sequence[str],
    *,
    baseline: Sequence[Findings] = (),
    inconclusive: str = "estimate",
    adjust: str | None = "holm",
) -> Checks:
    """Check each rule on every row of its metric; an undefined estimate fails."""
    return check_all([Subject(findings, rules, baseline, inconclusive)], adjust=adjust)[0]


def check_all(subjects: Sequence[Subject], *, adjust: str | None = "holm") -> list[Checks]:
    """Check the rules of several results; where inconclusive checks pass, all failures of the run are adjusted together."""
    if adjust not in ("holm", None):
        raise unknown_name("adjust", str(adjust), ("holm",), what="a way to adjust")
    every = [_checks_of(subject) if subject.rules else [] for subject in subjects]
    # "fail" demands that every rule be shown to hold, which needs no adjustment; "estimate" compares numbers.
    adjusted = iter(
        holm([c.p for s, checks in zip(subjects, every, strict=True) if s.inconclusive == "pass" for c in checks])
    )
    if adjust:
        every = [
            [_adjusted(c, float(next(adjusted))) for c in checks] if s.inconclusive == "pass" else checks
            for s, checks in zip(subjects, every, strict=True)
        ]
    return [Checks(tuple(checks)) for checks in every]


def _adjusted(check: Check, p: float) -> Check:
    """A check whose failure is not significant among all checks of a run is inconclusive, and so passes."""
    check = replace(check, p_adjusted=p)
    return replace(check, verdict="inconclusive", passed=True) if check.verdict == "fail" and p > check.alpha else check


def _checks_of(subject: Subject) -> list[Check]:
    findings, inconclusive = subject.findings, subject.inconclusive
    if inconclusive not in INCONCLUSIVE:
        raise unknown_name("inconclusive", str(inconclusive), INCONCLUSIVE, what="a way to decide")
    if "estimate" not in findings.columns:
        raise EvenhandError(
            f"A {findings.audit} result holds no estimates to check. Check the result of an audit with metrics."
        )
    rules = map(parse, subject.rules)
    checked = [c for rule in rules for c in _checks(findings, rule, subject.baseline, inconclusive)]
    return [*_split(findings), *checked]


def _split(findings: Findings) -> Iterator[Check]:
    """A failed check where the arms of an experiment are not split as intended: no number of it can be trusted."""
    if has_wrong_split(findings):
        p = float((findings.provenance.get("sample_ratio") or {}).get("p", math.nan))  # min_units may withhold it
        yield Check("p of the intended split >= 0.001", "", p, math.nan, math.nan, 0.001, "fail", passed=False)


def _checks(findings: Findings, rule: Rule, baseline: Sequence[Findings], inconclusive: str) -> Iterator[Check]:
    rows = list(findings.only(rule.metric).rows())
    names = key_columns(findings)
    usual = _baselines(findings, rule, rows, baseline) if rule.relative else [None] * len(rows)
    level = float(findings.provenance.get("level") or 0.95)
    for row, before in zip(rows, usual, strict=True):
        where = ", ".join(
            [*(f"{name}={label(row[name])}" for name in names if name != "group"), *filter(None, [row["group"]])]
        )
        estimate, low, high = (read_number(row[k]) for k in ("estimate", "low", "high"))
        bound = rule.at(read_number(before["estimate"]) if before else math.nan)
        distance = Distance.from_rows(rule, row, before)
        verdict: Verdict = (
            "fail" if math.isnan(estimate) else distance.verdict(rule) if not math.isnan(bound) else "inconclusive"
        )
        by_estimate = math.isnan(bound) or rule.holds(estimate, bound)
        passed = {"pass": True, "fail": False}.get(
            verdict, {"pass": True, "fail": False}.get(inconclusive, by_estimate)
        )
        if inconclusive == "estimate" and not math.isnan(estimate):
            passed = by_estimate  # numbers as printed; the verdict only says how sure they are
        difference = (
            (distance.value, distance.low, distance.high) if rule.relative and rule.step != "*" else (math.nan,) * 3
        )
        p = distance.p_of_failure(rule, level)
        yield Check(
            rule.text,
            where,
            estimate,
            low,
            high,
            bound,
            verdict,
            passed,
            p,
            alpha=(1 - level) / 2,
            difference=difference,
        )


@dataclass(frozen=True, slots=True)
class Distance:
    """An estimate less what the rule compares it with (nothing, or a multiple of the baseline), with the errors of both.

    The ends are those of a difference of two independent estimates whose intervals are known (MOVER; Zou & Donner 2008):
    d - sqrt((x - low_x)^2 + (high_y - y)^2), and alike above; too wide where both hold the same units. A side counts with no
    smaller an error than the other's, at its own number of units: a small sample that came out low also came out too sure.
    """

    value: float
    low: float
    high: float
    units: float
    limit: float

    @classmethod
    def from_rows(cls, rule: Rule, row: Mapping[str, Any], before: Mapping[str, Any] | None) -> Distance:
        if not rule.relative or before is None:
            estimate, low, high = (read_number(row[k]) for k in ("estimate", "low", "high"))
            return cls(estimate, low, high, _units(row), rule.bound)
        times = rule.by if rule.step == "*" else 1.0
        x, x_below, x_above = _arms(row)
        y, y_below, y_above = (times * value for value in _arms(before))
        scale = math.sqrt(
            _units(before) / _units(row)
        )  # how much wider the arms of the row would be with the baseline's units
        below = math.hypot(max(x_below, y_below * scale), max(y_above, x_above / scale))
        above = math.hypot(max(x_above, y_above * scale), max(y_below, x_below / scale))
        return cls(x - y, x - y - below, x - y + above, min(_units(row), _units(before)), rule.at(0.0))

    def verdict(self, rule: Rule) -> Verdict:
        sides = {rule.holds(x, self.limit) for x in (self.value, self.low, self.high) if not math.isnan(x)}
        return "inconclusive" if len(sides) > 1 else "pass" if True in sides else "fail"

    def p_of_failure(self, rule: Rule, level: float) -> float:
        """One-sided p of the rule: how likely such a value or a worse one is where it just holds."""
        from scipy.special import stdtr

        beyond = self.value - self.limit
        arm = self.value - self.low if rule.is_upper else self.high - self.value
        if not arm > 0:
            return math.nan
        t = (beyond if rule.is_upper else -beyond) / arm * float(t_quantile(level, self.units))
        return float(stdtr(max(self.units - 1, 1), -t))


def _units(row: Mapping[str, Any]) -> float:
    units = read_number(row.get("units"))
    return 1e9 if math.isnan(units) or units < 2 else units  # not known: a normal distribution


def _arms(row: Mapping[str, Any]) -> tuple[float, float, float]:
    """Estimate, and how far its interval reaches below and above it: nowhere where there is none.

    A Gini index of K units is multiplied by K / (K - 1), so that more units alone do not raise it (F1.1).
    """
    name, _, parameters = str(row["metric"]).partition("(")
    units = read_number(row.get("units"))
    times = units / (units - 1) if name == "gini" and "corrected" not in parameters and units > 1 else 1.0
    estimate, low, high = (times * read_number(row[k]) for k in ("estimate", "low", "high"))
    below, above = (0.0 if math.isnan(arm) else max(arm, 0.0) for arm in (estimate - low, high - estimate))
    return estimate, below, above


def _baselines(
    findings: Findings, rule: Rule, rows: Sequence[dict[str, Any]], baseline: Sequence[Findings]
) -> list[dict[str, Any] | None]:
    """The row of the baseline for each row; None for new rows."""
    if not baseline:
        raise EvenhandError(f"check={rule.text!r} needs a baseline. Pass baseline= a saved result.")
    earlier: dict[tuple[str, ...], dict[str, Any]] = {}
    for result in baseline:
        if "estimate" in result.columns:
            names = key_columns(result)
            earlier = {_key(result, row, names): row for row in result.rows()} | earlier
    names = key_columns(findings)
    usual = [earlier.get(_key(findings, row, names)) for row in rows]
    if all(row is None or math.isnan(read_number(row["estimate"])) for row in usual):
        raise EvenhandError(
            f"The baseline has no number for {rule.metric!r} in any of these slices. Save one with the same audit, metrics and slices."
        )
    return usual


def _key(findings: Findings, row: Mapping[str, Any], names: Sequence[str]) -> tuple[str, ...]:
    return (findings.audit, row["metric"], *(f"{name}={row[name]}" for name in sorted(names)))
