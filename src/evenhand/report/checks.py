"""Rules checked on the rows of a result (pass, fail or inconclusive), and their reports: JUnit XML and Markdown."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from xml.sax.saxutils import escape, quoteattr

from evenhand.errors import EvenhandError, printable, unknown_name
from evenhand.findings import Findings, key_columns, label
from evenhand.findings import number as read_number
from evenhand.report.table import escape_markdown
from evenhand.report.words.experiment import has_wrong_split
from evenhand.report.words.intervals import interval_text
from evenhand.report.words.sentences import sentences
from evenhand.report.words.text import number

Inconclusive = Literal["estimate", "pass", "fail"]
INCONCLUSIVE = ("estimate", "pass", "fail")
"""How a check counts whose interval includes the bound: by its estimate, or always as one of the two."""


@dataclass(frozen=True, slots=True)
class Check:
    """One rule checked on one row.

    Attributes
    ----------
    bound : the number that the rule comes to; NaN where the baseline has none for this row.
    verdict : "pass" or "fail" where the whole interval is on one side of the bound, else "inconclusive".
    passed : what counts for a build; of an inconclusive check, what was decided.
    """

    rule: str
    where: str
    estimate: float
    low: float
    high: float
    bound: float
    verdict: Literal["pass", "fail", "inconclusive"]
    passed: bool

    @property
    def certain(self) -> bool:
        """Whether the whole interval is on the same side of the bound."""
        return self.verdict != "inconclusive"

    def __str__(self) -> str:
        verdict = "pass" if self.passed else "FAIL"
        return f"{verdict}: {self.rule}{' for ' + self.where if self.where else ''}: {self.found}"

    @property
    def found(self) -> str:
        """The estimate, with the bound of a baseline and a remark where the check is inconclusive."""
        bound = f", bound {number(self.bound)}" if "baseline" in self.rule and not math.isnan(self.bound) else ""
        doubt = "" if self.certain else " (inconclusive: the interval includes the bound)"
        doubt = " (not in the baseline)" if math.isnan(self.bound) else doubt
        return f"{number(self.estimate)}{bound}{doubt}"


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
        return tuple(c for c in self.checks if not c.certain)

    @property
    def failed(self) -> tuple[Check, ...]:
        return tuple(c for c in self.checks if not c.passed)

    def __bool__(self) -> bool:
        return self.passed

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


def check(
    findings: Findings, rules: Sequence[str], *, baseline: Sequence[Findings] = (), inconclusive: str = "estimate"
) -> Checks:
    """Check each rule on every row of its metric; an undefined estimate fails, and a baseline counts as a constant."""
    if inconclusive not in INCONCLUSIVE:
        raise unknown_name("inconclusive", str(inconclusive), INCONCLUSIVE, what="a way to decide")
    if "estimate" not in findings.columns:
        raise EvenhandError(
            f"A {findings.audit} result holds no estimates to check. Check the result of an audit with metrics."
        )
    checked = [c for text in rules for c in _checks(findings, parse(text), baseline, inconclusive)]
    return Checks((*_split(findings), *checked))


def _split(findings: Findings) -> Iterator[Check]:
    """A failed check where the arms of an experiment are not split as intended: no number of it can be trusted."""
    if has_wrong_split(findings):
        p = float((findings.provenance.get("sample_ratio") or {}).get("p", math.nan))  # min_units may withhold it
        yield Check("p of the intended split >= 0.001", "", p, math.nan, math.nan, 0.001, "fail", passed=False)


def _checks(findings: Findings, rule: Rule, baseline: Sequence[Findings], inconclusive: str) -> Iterator[Check]:
    rows = list(findings.only(rule.metric).rows())
    names = key_columns(findings)
    usual = _baselines(findings, rule, rows, baseline) if rule.relative else [math.nan] * len(rows)
    for row, before in zip(rows, usual, strict=True):
        where = ", ".join(
            [*(f"{name}={label(row[name])}" for name in names if name != "group"), *filter(None, [row["group"]])]
        )
        estimate, low, high = (read_number(row[k]) for k in ("estimate", "low", "high"))
        bound = rule.at(before)
        verdict = _verdict(rule, estimate, low, high, bound)
        decided = {"pass": True, "fail": False}.get(inconclusive, math.isnan(bound) or rule.holds(estimate, bound))
        yield Check(
            rule.text, where, estimate, low, high, bound, verdict, {"pass": True, "fail": False}.get(verdict, decided)
        )


def _verdict(
    rule: Rule, estimate: float, low: float, high: float, bound: float
) -> Literal["pass", "fail", "inconclusive"]:
    if math.isnan(estimate):
        return "fail"
    if math.isnan(bound):
        return "inconclusive"
    sides = {rule.holds(x, bound) for x in (estimate, low, high) if not math.isnan(x)}
    return "inconclusive" if len(sides) > 1 else "pass" if True in sides else "fail"


def _baselines(
    findings: Findings, rule: Rule, rows: Sequence[dict[str, Any]], baseline: Sequence[Findings]
) -> list[float]:
    """The estimate of the baseline for each row; NaN for new rows."""
    if not baseline:
        raise EvenhandError(f"check={rule.text!r} needs a baseline. Pass baseline= a saved result.")
    estimates: dict[tuple[str, ...], float] = {}
    for result in baseline:
        if "estimate" in result.columns:
            names = key_columns(result)
            estimates = {_key(result, row, names): read_number(row["estimate"]) for row in result.rows()} | estimates
    names = key_columns(findings)
    usual = [estimates.get(_key(findings, row, names), math.nan) for row in rows]
    if all(map(math.isnan, usual)):
        raise EvenhandError(
            f"The baseline has no number for {rule.metric!r} in any of these slices. Save one with the same audit, metrics and slices."
        )
    return usual


def _key(findings: Findings, row: Mapping[str, Any], names: Sequence[str]) -> tuple[str, ...]:
    return (findings.audit, row["metric"], *(f"{name}={row[name]}" for name in sorted(names)))


_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Gate:
    """A result and the checks that were made on it; `name` is what the plan calls it."""

    name: str
    findings: Findings
    checks: Checks


def junit(gates: Sequence[Gate]) -> str:
    """A test suite per result, a test case per check. An inconclusive check that passes says so in its output."""

    def attribute(text: str) -> str:
        return quoteattr(_NOT_XML.sub(" ", text))

    def content(text: str) -> str:
        return escape(_NOT_XML.sub(" ", text))

    def case(gate: Gate, check: Check) -> str:
        name = f"{check.rule}{f' for {check.where}' if check.where else ''}"
        lead = f"<testcase classname={attribute(f'evenhand.{gate.findings.audit}')} name={attribute(name)}"
        if not check.passed:
            return f"{lead}>\n<failure message={attribute(check.found)}>{content(str(check))}</failure>\n</testcase>\n"
        if check.certain:
            return f"{lead}/>\n"
        return f"{lead}>\n<system-out>{content(f'inconclusive: {check.found}')}</system-out>\n</testcase>\n"

    def suite(gate: Gate) -> str:
        cases = "".join(case(gate, check) for check in gate.checks.checks)
        counts = f'tests="{len(gate.checks.checks)}" failures="{len(gate.checks.failed)}" errors="0" skipped="0"'
        return f"<testsuite name={attribute(gate.name)} {counts}>\n{cases}</testsuite>\n"

    checks = [c for gate in gates for c in gate.checks.checks]
    failed = sum(not c.passed for c in checks)
    suites = "".join(map(suite, gates))
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<testsuites name="evenhand" tests="{len(checks)}" failures="{failed}" errors="0">\n{suites}</testsuites>\n'
    )


def summary(gates: Sequence[Gate], most_sentences: int = 30) -> str:
    """The checks and then the sentences of every result, in Markdown."""
    lines: list[str] = []
    for gate in gates:
        checks = gate.checks.checks
        lines += [f"## {escape_markdown(gate.name)}: {escape_markdown(gate.findings.question)}", ""]
        if checks:
            failed, unsure = len(gate.checks.failed), len(gate.checks.inconclusive)
            verdict = (
                f"{failed:,} of {len(checks):,} checks failed." if failed else f"All {len(checks):,} checks passed."
            )
            doubt = f" {unsure:,} {'is' if unsure == 1 else 'are'} inconclusive: the interval includes the bound."
            rows = [["", "rule", "for", "estimate", "interval"], ["---"] * 5]
            for c in checks:
                mark = f"{'pass' if c.passed else '**FAIL**'}{'' if c.certain else ' (inconclusive)'}"
                ends = interval_text(c.low, c.high)
                rows.append([mark, f"`{c.rule}`", escape_markdown(c.where), number(c.estimate), ends])
            lines += [f"**{verdict}**{doubt if unsure else ''}", "", *(f"| {' | '.join(row)} |" for row in rows), ""]
        unique = list(dict.fromkeys(sentences(gate.findings)))
        lines += [f"- {escape_markdown(line)}" for line in unique[:most_sentences]]
        lines += [f"- and {len(unique) - most_sentences:,} more"] if len(unique) > most_sentences else []
        lines.append("")
    return "\n".join(lines)
