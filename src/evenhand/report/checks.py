"""Rules on the rows of a result, what a check of them says, and its reports: JUnit XML and Markdown."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal
from xml.sax.saxutils import escape, quoteattr

from evenhand.errors import EvenhandError, printable
from evenhand.findings import Findings
from evenhand.report.table import escape_markdown
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
        return tuple(c for c in self.checks if not c.certain)

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


_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Gate:
    """A result and the checks that were made on it; `name` is what the plan calls it."""

    name: str
    findings: Findings
    checks: Checks


def junit(gates: Sequence[Gate]) -> str:
    """A test suite per result, a test case per check, with the value and its interval in its output."""

    def attribute(text: str) -> str:
        return quoteattr(_NOT_XML.sub(" ", text))

    def content(text: str) -> str:
        return escape(_NOT_XML.sub(" ", text))

    def case(gate: Gate, check: Check) -> str:
        name = f"{check.rule}{f' for {check.where}' if check.where else ''}"
        lead = f"<testcase classname={attribute(f'evenhand.{gate.findings.audit}')} name={attribute(name)}"
        if not check.passed:
            return f"{lead}>\n<failure message={attribute(check.found)}>{content(str(check))}</failure>\n</testcase>\n"
        return f"{lead}>\n<system-out>{content(check.found)}</system-out>\n</testcase>\n"

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
    return "\n".join(lines)
