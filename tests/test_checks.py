"""Rules against rows: what passes, what fails, what the data leave open, and how a build is told."""

import math
import xml.etree.ElementTree as ET

import polars as pl
import pytest

import evenhand as eh
from evenhand.findings import Findings, row, tidy
from evenhand.report.checks import Gate, check, junit, parse, summary
from evenhand.results import Result


def found(*rows, slices=("source",)):
    return Result(
        Findings("inequality", "How unevenly is it spread?", slices, tidy(rows, slices), words={"unit": "author"})
    )


def home(estimate, low=math.nan, high=math.nan, source="home"):
    return row({"source": source}, "gini", estimate=estimate, low=low, high=high)


@pytest.mark.parametrize(
    ("rule", "verdict"),
    [
        ("gini <= 0.7", "pass"), ("gini <= 0.5", "inconclusive"), ("gini <= 0.3", "fail"), ("gini >= 0.3", "pass"),
        ("gini > 0.5", "inconclusive"), ("gini >= 0.7", "fail"), ("gini < 60%", "inconclusive"), ("gini < 61 %", "pass"),
    ],
)  # fmt: skip
def test_the_interval_decides_between_pass_fail_and_inconclusive(rule, verdict):
    [one] = check(found(home(0.5, 0.4, 0.6)).findings, [rule]).checks
    assert one.verdict == verdict


@pytest.mark.parametrize(("how", "passed"), [("estimate", True), ("pass", True), ("fail", False)])
def test_what_the_data_leave_open_is_decided_as_one_chooses(how, passed):
    assert check(found(home(0.5, 0.4, 0.6)).findings, ["gini <= 0.55"], inconclusive=how).passed is passed


def test_by_default_the_estimate_decides_and_says_so():
    result = found(home(0.5, 0.4, 0.6))
    with pytest.warns(eh.DataWarning, match="1 check is inconclusive"):
        assert result.check("gini <= 0.55")
    with pytest.warns(eh.DataWarning):
        assert not result.check("gini <= 0.45")


def test_without_an_interval_the_estimate_is_all_there_is():
    [one] = found(home(0.5)).check("gini <= 0.55").checks
    assert (one.verdict, one.certain) == ("pass", True)


def test_an_undefined_number_fails_whatever_is_chosen():
    for how in ("estimate", "pass", "fail"):
        assert not found(home(math.nan)).check("gini <= 1", inconclusive=how)


@pytest.mark.parametrize(
    ("rule", "bound"),
    [
        ("gini <= baseline", 0.8), ("gini <= baseline + 0.01", 0.81), ("gini <= baseline+1%", 0.81), ("gini <= baseline - 0.3", 0.5),
        ("gini <= baseline * 1.1", 0.88), ("gini <= baseline * 90%", 0.72), ("gini <= 0.5", 0.5), ("gini <= -1.5e-2", -0.015),
    ],
)  # fmt: skip
def test_a_rule_may_name_the_baseline(rule, bound):
    assert parse(rule).at(0.8) == pytest.approx(bound)


def test_the_baseline_counts_as_a_constant_row_by_row(tmp_path):
    last = found(home(0.8, 0.1, 0.99), home(0.2, source="search"))
    last.to_json(tmp_path / "last.json")
    now = found(home(0.805, 0.803, 0.807), home(0.3, source="search"))
    for baseline in (last, tmp_path / "last.json", str(tmp_path / "last.json")):
        checks = now.check("gini <= baseline + 0.01", baseline=baseline)
        assert [c.verdict for c in checks.checks] == ["pass", "fail"]
        assert [c.bound for c in checks.checks] == pytest.approx([0.81, 0.21])
    assert "bound 0.2100" in str(checks)


def test_a_slice_that_the_baseline_does_not_have_is_inconclusive():
    now = found(home(0.8), home(0.9, source="new"))
    for how, passed in (("pass", True), ("fail", False)):
        checks = now.check("gini <= baseline + 0.1", baseline=found(home(0.8)), inconclusive=how)
        assert [c.verdict for c in checks.checks] == ["pass", "inconclusive"]
        assert checks.passed is passed
    assert "not in the baseline" in str(checks)


@pytest.mark.parametrize(
    "rule",
    ["gini", "gini <= ", "gini <= x", "gini = 1", "<= 1", "gini <= baseline +", "gini <= base + 1", "gini <= 1 2", ""],
)
def test_a_rule_that_cannot_be_read_is_refused(rule):
    with pytest.raises(eh.EvenhandError, match="cannot be read"):
        found(home(0.5)).check(rule)


def test_a_rule_needs_what_it_names():
    with pytest.raises(eh.EvenhandError, match="needs a baseline"):
        found(home(0.5)).check("gini <= baseline")
    with pytest.raises(eh.EvenhandError, match="no number for 'gini'"):
        found(home(0.5)).check("gini <= baseline", baseline=found(home(0.5, source="other")))
    with pytest.raises(eh.EvenhandError, match="Did you mean 'gini'"):
        found(home(0.5)).check("ginni <= 1")
    with pytest.raises(eh.EvenhandError, match="inconclusive='perhaps'"):
        found(home(0.5)).check("gini <= 1", inconclusive="perhaps")


def test_bins_of_a_score_are_held_against_their_own_baseline():
    def binned(*estimates):
        rows = [row({}, "outcome_gap", group="F", estimate=x, bin=i) for i, x in enumerate(estimates, start=1)]
        return Result(Findings("outcome_test", "?", (), tidy(rows, (), ["bin"])))

    checks = binned(0.1, 0.3).check("outcome_gap <= baseline + 0.05", baseline=binned(0.1, 0.1))
    assert [(c.where, c.verdict) for c in checks.checks] == [("bin=1, F", "pass"), ("bin=2, F", "fail")]


LABEL = 'a"<&>]]>\x07\n|*`b'


def gates():
    result = found(home(0.5, 0.4, 0.6, source=LABEL), home(0.9, 0.88, 0.92))
    return [Gate("reach", result.findings, check(result.findings, ["gini <= 0.55", "gini <= 0.95"]))]


def test_junit_has_a_case_per_check_whatever_the_labels_hold():
    tree = ET.fromstring(junit(gates()))
    [suite] = tree.findall("testsuite")
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == ("reach", "4", "1")
    cases = suite.findall("testcase")
    assert len({case.get("name") for case in cases}) == 4
    [failure] = suite.iter("failure")
    assert failure.get("message") == "0.9000"
    outs = [case.find("system-out") for case in cases]
    assert [out is not None for out in outs] == [True, False, False, False]
    assert "inconclusive" in outs[0].text


def test_the_summary_is_markdown_that_no_label_breaks():
    text = summary(gates())
    assert "**1 of 4 checks failed.** 1 is inconclusive" in text
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len(table) == 6
    assert all(line.replace("\\|", "").count("|") == 6 for line in table)
    assert "- For source home:" in text


def test_assert_within_fails_a_test_with_the_rules_that_do_not_hold():
    result = found(home(0.5, 0.45, 0.55), home(0.9, 0.88, 0.92, source="search"))
    eh.testing.assert_within(result, "gini <= 0.95", "gini > 0")
    with pytest.raises(AssertionError, match=r"1 of 2 checks failed\.\nFAIL: gini <= 0.8 for source=search: 0.9000$"):
        eh.testing.assert_within(result, "gini <= 0.8")
    with pytest.warns(eh.DataWarning, match="inconclusive") as told:
        eh.testing.assert_within(found(home(0.5, 0.4, 0.6)), "gini <= 0.55")
    assert told[0].filename == __file__
    eh.testing.assert_within(found(home(0.5, 0.4, 0.6)), "gini <= 0.55", inconclusive="pass")
    with pytest.raises(eh.EvenhandError, match="no rule"):
        eh.testing.assert_within(result)
    with pytest.raises(eh.EvenhandError, match="is no result"):
        eh.testing.assert_within(pl.DataFrame(), "gini <= 1")
