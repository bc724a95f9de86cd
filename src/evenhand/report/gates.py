"""Checks as reports of a build: JUnit XML for its test page, Markdown for its summary."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from evenhand.findings import Findings
from evenhand.report import table as tables
from evenhand.report.checks import Check, Checks
from evenhand.report.words.intervals import interval_text
from evenhand.report.words.sentences import sentences
from evenhand.report.words.text import number

MOST_ROWS = 30
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Gate:
    """A result and the checks that were made on it; `name` is what the plan calls it."""

    name: str
    findings: Findings
    checks: Checks


def junit(gates: Sequence[Gate]) -> str:
    """A test suite per result, a test case per check. An inconclusive check that passes says so in its output."""
    checks = [c for gate in gates for c in gate.checks.checks]
    failed = sum(not c.passed for c in checks)
    suites = "".join(map(_suite, gates))
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<testsuites name="evenhand" tests="{len(checks)}" failures="{failed}" errors="0">\n{suites}</testsuites>\n'
    )


def _suite(gate: Gate) -> str:
    cases = "".join(_case(gate, check) for check in gate.checks.checks)
    counts = f'tests="{len(gate.checks.checks)}" failures="{len(gate.checks.failed)}" errors="0" skipped="0"'
    return f"<testsuite name={_attribute(gate.name)} {counts}>\n{cases}</testsuite>\n"


def _case(gate: Gate, check: Check) -> str:
    name = f"{check.rule}{f' for {check.where}' if check.where else ''}"
    lead = f"<testcase classname={_attribute(f'evenhand.{gate.findings.audit}')} name={_attribute(name)}"
    if not check.passed:
        return f"{lead}>\n<failure message={_attribute(check.found)}>{_text(str(check))}</failure>\n</testcase>\n"
    return (
        f"{lead}/>\n"
        if check.certain
        else f"{lead}>\n<system-out>{_text(f'inconclusive: {check.found}')}</system-out>\n</testcase>\n"
    )


def _attribute(text: str) -> str:
    return quoteattr(_NOT_XML.sub(" ", text))


def _text(text: str) -> str:
    return escape(_NOT_XML.sub(" ", text))


def summary(gates: Sequence[Gate]) -> str:
    """The checks and then the sentences of every result, in Markdown."""
    return "\n".join(part for gate in gates for part in _section(gate))


def _section(gate: Gate) -> list[str]:
    checks = gate.checks.checks
    lines = [f"## {tables.escape_markdown(gate.name)}: {tables.escape_markdown(gate.findings.question)}", ""]
    if checks:
        failed, open_ = len(gate.checks.failed), len(gate.checks.inconclusive)
        verdict = f"{failed:,} of {len(checks):,} checks failed." if failed else f"All {len(checks):,} checks passed."
        doubt = f" {open_:,} {'is' if open_ == 1 else 'are'} inconclusive: the data are too few to say."
        rows = [["", "rule", "for", "estimate", "interval"], ["---"] * 5]
        for c in checks:
            mark = f"{'pass' if c.passed else '**FAIL**'}{'' if c.certain else ' (inconclusive)'}"
            where = tables.escape_markdown(c.where)
            rows.append([mark, f"`{c.rule}`", where, number(c.estimate), interval_text(c.low, c.high)])
        lines += [f"**{verdict}**{doubt if open_ else ''}", "", *(f"| {' | '.join(row)} |" for row in rows), ""]
    unique = list(dict.fromkeys(sentences(gate.findings)))
    lines += [f"- {tables.escape_markdown(line)}" for line in unique[:MOST_ROWS]]
    lines += [f"- and {len(unique) - MOST_ROWS:,} more"] if len(unique) > MOST_ROWS else []
    return [*lines, ""]
