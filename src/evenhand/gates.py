"""Rules tested on the rows of results: pass, fail or inconclusive, with the errors of both sides and over all checks of a run."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from evenhand.errors import EvenhandError, printable, unknown_name
from evenhand.findings import Findings, key_columns, label, read_number
from evenhand.intervals.kinds import holm, t_quantile
from evenhand.report.table import escape_markdown
from evenhand.report.words.experiment import has_wrong_split
from evenhand.report.words.sentences import sentences
from evenhand.report.words.text import interval_text, number

Inconclusive = Literal["estimate", "pass", "fail"]
INCONCLUSIVE = ("estimate", "pass", "fail")
"""How a check counts whose interval includes the bound: by its estimate, or always as one of the two."""


Adjust = Literal["holm"]
Verdict = Literal["pass", "fail", "inconclusive"]


@dataclass(frozen=True, slots=True)
class Check:
    """One rule checked on one row.

    Attributes
    ----------
    bound : the number that the rule comes to; NaN where the baseline has none for this row.
    verdict : "pass" or "fail" where the whole interval is on one side of the bound (of its difference from a baseline, with the
        errors of both), else "inconclusive".
    passed : what counts for a build; of an inconclusive check, what was decided.
    p : one-sided, of such an estimate or a worse one where the rule just holds; NaN without an interval.
    p_adjusted : over all checks of the run, where `inconclusive` is "pass".
    alpha : one-sided p at which a rule is broken: the whole interval of the result's level is then on the wrong side.
    difference : of the estimate from the baseline, with its interval; NaN where the rule names none.
    """

    rule: str
    where: str
    estimate: float
    low: float
    high: float
    bound: float
    verdict: Verdict
    passed: bool
    p: float = math.nan
    p_adjusted: float = math.nan
    alpha: float = 0.025
    difference: tuple[float, float, float] = (math.nan, math.nan, math.nan)

    @property
    def certain(self) -> bool:
        """Whether the whole interval is on the same side of the bound."""
        return self.verdict != "inconclusive"

    def __str__(self) -> str:
        verdict = "pass" if self.passed else "FAIL"
        return f"{verdict}: {self.rule}{' for ' + self.where if self.where else ''}: {self.found}"

    @property
    def found(self) -> str:
        """The estimate with its interval, the bound of a baseline, and a remark where the check is inconclusive."""
        if math.isnan(self.estimate) and not self.certain:
            return "suppressed, since it is about too few"
        ends = interval_text(self.low, self.high)
        value = f"{number(self.estimate)}{f' ({ends})' if ends else ''}"
        if "baseline" in self.rule and math.isnan(self.bound):
            return f"{value} (not in the baseline)"
        bound = f", bound {number(self.bound)}" if "baseline" in self.rule else ""
        difference, lower, upper = self.difference
        if not math.isnan(lower + upper):
            bound += f", difference {number(difference)} ({interval_text(lower, upper)})"
        what = "the interval includes the bound"
        if self.p < self.alpha < self.p_adjusted:
            what = "not significant among so many checks"
        return f"{value}{bound}{'' if self.certain else f' (inconclusive: {what})'}"


@dataclass(frozen=True, slots=True)
class Checks:
    """All rules on all rows they concern."""

    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        return all(c.passed for c in self.checks)

    @property
    def inconclusive(self) -> tuple[Check, ...]:
        """Checks whose interval includes the bound."""
        return tuple(c for c in self.checks if not c.certain and not math.isnan(c.estimate))

    @property
    def failed(self) -> tuple[Check, ...]:
        return tuple(c for c in self.checks if not c.passed)

    def __bool__(self) -> bool:
        return self.passed

    def __iter__(self) -> Iterator[Check]:
        return iter(self.checks)

    def __len__(self) -> int:
        return len(self.checks)

    def __str__(self) -> str:
        return printable("\n".join(map(str, self.checks)))

    def doubt(self, inconclusive: str = "estimate") -> str:
        """A warning that some checks are inconclusive and were decided by the estimate; empty elsewhere."""
        many = len(self.inconclusive)
        if not many or inconclusive != "estimate":
            return ""
        which = "1 check is" if many == 1 else f"{many:,} checks are"
        return (
            f"{which} inconclusive: the interval includes the bound, and the estimate decided. "
            "Choose inconclusive='pass' or 'fail' to decide otherwise."
        )


_SIGNS: dict[str, Callable[[float, float], bool]] = {
    "<=": lambda x, b: x <= b, ">=": lambda x, b: x >= b, "<": lambda x, b: x < b, ">": lambda x, b: x > b
}  # fmt: skip
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_RULE = re.compile(
    rf"\s*(?P<metric>.+?)\s*(?P<sign><=|>=|<|>)\s*"
    rf"(?:(?P<bound>{_NUMBER})\s*(?P<percent>%?)|baseline\s*(?:(?P<step>[-+*])\s*(?P<by>{_NUMBER})\s*(?P<share>%?))?)\s*"
)


@dataclass(frozen=True, slots=True)
class Rule:
    """`metric sign bound`; the bound is a number, or the baseline and a step from it."""

    text: str
    metric: str
    holds: Callable[[float, float], bool]
    bound: float
    step: str
    by: float

    @property
    def is_upper(self) -> bool:
        """Whether the rule keeps a number from growing."""
        return "<" in self.text.removeprefix(self.metric)

    @property
    def relative(self) -> bool:
        """Whether the bound is that of a baseline."""
        return math.isnan(self.bound)

    def at(self, baseline: float) -> float:
        """The bound, given the number of the baseline."""
        if not self.relative:
            return self.bound
        return baseline * self.by if self.step == "*" else baseline + (-self.by if self.step == "-" else self.by)


def parse(text: str) -> Rule:
    """A rule as somebody types it.

    >>> parse("top_share(p=0.01) <= 50%").bound, parse("gini <= baseline + 0.01").at(0.8)
    (0.5, 0.81)
    """
    match = _RULE.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise EvenhandError(
            f"check={text!r} cannot be read. Write a metric, a sign and a number, as in 'gini <= 0.9' or 'gini <= baseline + 0.01'."
        )
    bound = math.nan if match["bound"] is None else float(match["bound"]) / (100 if match["percent"] else 1)
    step = match["step"] or ""
    by = float(match["by"]) / (100 if match["share"] else 1) if step else 0.0
    return Rule(text.strip(), match["metric"], _SIGNS[match["sign"]], bound, step, by)


@dataclass(frozen=True, slots=True)
class Gate:
    """A result and the checks that were made on it; `name` is what the plan calls it."""

    name: str
    findings: Findings
    checks: Checks


def junit(gates: Sequence[Gate]) -> str:
    """A test suite per result, a test case per check, with the value and its interval in its output."""

    def counted(checks: Sequence[Check]) -> dict[str, str]:
        return {"tests": str(len(checks)), "failures": str(sum(not c.passed for c in checks)), "errors": "0"}

    root = Element("testsuites", {"name": "evenhand", **counted([c for gate in gates for c in gate.checks])})
    for gate in gates:
        facts = {"name": _in_xml(gate.name), **counted(gate.checks.checks), "skipped": "0"}
        suite = SubElement(root, "testsuite", facts)
        for check in gate.checks:
            name = f"{check.rule}{f' for {check.where}' if check.where else ''}"
            case = SubElement(suite, "testcase", classname=f"evenhand.{gate.findings.audit}", name=_in_xml(name))
            if check.passed:
                SubElement(case, "system-out").text = _in_xml(check.found)
            else:
                SubElement(case, "failure", message=_in_xml(check.found)).text = _in_xml(str(check))
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n'


def _in_xml(text: str) -> str:
    """Text without characters that XML cannot hold."""
    return re.sub("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", " ", text)


def summary(gates: Sequence[Gate], most_sentences: int = 30) -> str:
    """The checks and then the sentences of every result, in Markdown."""
    lines: list[str] = []
    for gate in gates:
        checks = gate.checks.checks
        lines += [f"## {escape_markdown(gate.name)}: {escape_markdown(gate.findings.question)}", ""]
        if checks:
            failed, unsure = len(gate.checks.failed), len(gate.checks.inconclusive)
            verdict = f"{failed:,} of {len(checks):,} checks failed."
            if not failed:
                verdict = f"All {len(checks):,} checks passed."
            doubt = f" {unsure:,} {'is' if unsure == 1 else 'are'} inconclusive: the interval includes the bound."
            rows = [["", "rule", "for", "estimate", "interval", "bound"], ["---"] * 6]
            for c in checks:
                mark = f"{'pass' if c.passed else '**FAIL**'}{'' if c.certain else ' (inconclusive)'}"
                ends = interval_text(c.low, c.high)
                rows.append([mark, f"`{c.rule}`", escape_markdown(c.where), number(c.estimate), ends, number(c.bound)])
            lines += [f"**{verdict}**{doubt if unsure else ''}", "", *(f"| {' | '.join(row)} |" for row in rows), ""]
        unique = list(dict.fromkeys(sentences(gate.findings)))
        lines += [f"- {escape_markdown(line)}" for line in unique[:most_sentences]]
        lines += [f"- and {len(unique) - most_sentences:,} more"] if len(unique) > most_sentences else []
        lines.append("")
    return printable("\n".join(lines))


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
        where = " ".join(where.splitlines())  # a label must not write lines of a build's log
        estimate, low, high = (read_number(row[k]) for k in ("estimate", "low", "high"))
        bound = rule.at(read_number(before["estimate"]) if before else math.nan)
        distance = Distance.from_rows(rule, row, before)
        verdict: Verdict = "inconclusive" if math.isnan(bound) else distance.verdict(rule)
        if row["note"] == "suppressed":  # nobody may know, so it holds unless every rule must be shown to hold
            verdict, passed = "inconclusive", inconclusive != "fail"
        elif math.isnan(estimate):
            verdict, passed = "fail", False
        elif inconclusive == "estimate":  # numbers as printed; the verdict only says how sure they are
            passed = math.isnan(bound) or rule.holds(estimate, bound)
        else:
            passed = verdict == "pass" or (verdict == "inconclusive" and inconclusive == "pass")
        check = Check(rule.text, where, estimate, low, high, bound, verdict, passed, distance.p_of_failure(rule, level))
        if rule.relative and rule.step != "*":
            check = replace(check, difference=(distance.value, distance.low, distance.high))
        yield replace(check, alpha=(1 - level) / 2)


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
        # how much wider the arms of the row would be with the baseline's units
        scale = math.sqrt(_units(before) / _units(row))
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
