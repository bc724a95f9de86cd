"""Rules against rows: what passes, what fails, what the data leave open, and how a build is told."""

import dataclasses
import math
import xml.etree.ElementTree as ET

import numpy as np
import polars as pl
import pytest
from benchmarks.gates import failures

import evenhand as eh
from evenhand.findings import Findings, row, tidy
from evenhand.gates import Gate, check, junit, parse, summary
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


def test_the_difference_from_a_baseline_has_the_errors_of_both(tmp_path):
    last = found(home(0.8, 0.7, 0.9), home(0.2, 0.19, 0.21, source="search"))
    last.to_json(tmp_path / "last.json")
    now = found(home(0.85, 0.84, 0.86), home(0.3, 0.29, 0.31, source="search"))
    for baseline in (last, tmp_path / "last.json", str(tmp_path / "last.json")):
        checks = now.check("gini <= baseline + 0.01", baseline=baseline, inconclusive="pass")
        assert [c.verdict for c in checks] == ["inconclusive", "fail"]
        assert [c.bound for c in checks] == pytest.approx([0.81, 0.21])
    assert checks.checks[0].difference[:2] == pytest.approx((0.05, 0.05 - math.hypot(0.1, 0.1)))
    assert "0.3 (0.29 to 0.31), bound 0.21, difference 0.1 (" in str(checks)
    assert now.check("gini <= baseline * 1.8", baseline=last, inconclusive="fail").checks[1].verdict == "pass"


def test_estimates_are_compared_as_printed():
    now, last = found(home(0.805, 0.7, 0.9)), found(home(0.8, 0.1, 0.99))
    for rule, passed in (("gini <= baseline + 0.01", True), ("gini <= baseline + 0.001", False)):
        with pytest.warns(eh.DataWarning):
            assert now.check(rule, baseline=last).passed is passed


def test_failures_are_adjusted_over_all_checks_where_doubt_passes():
    slices = [home(0.525, 0.504, 0.546, source=f"s{i}") for i in range(20)]
    result = found(*slices)
    assert not result.check("gini <= 0.5", inconclusive="pass", adjust=None)
    assert result.check("gini <= 0.5", "gini <= 0.6", inconclusive="pass")
    assert "not significant among so many checks" in str(result.check(["gini <= 0.5"], inconclusive="pass"))
    assert not found(home(0.8, 0.79, 0.81), *slices).check("gini <= 0.5", inconclusive="pass")
    with pytest.raises(eh.EvenhandError, match="adjust='bonferoni'"):
        result.check("gini <= 0.5", adjust="bonferoni")


@pytest.mark.parametrize(
    ("level", "z", "errors", "passed"),
    [(0.99, 2.5758, 2.65, True), (0.95, 1.96, 2.65, False), (0.8, 1.2816, 1.8, False)],
)
def test_the_level_of_a_result_is_that_of_its_checks(level, z, errors, passed):
    middle, half = 0.5 + errors * 0.01, z * 0.01
    result = found(*(home(middle, middle - half, middle + half, source=source) for source in "ab"))
    findings = dataclasses.replace(result.findings, provenance={"level": level})
    checks = Result(findings).check("gini <= 0.5", inconclusive="pass")
    assert bool(checks) is passed
    assert bool(Result(findings).check("gini <= 0.5", inconclusive="pass", adjust=None)) is False
    assert ("not significant among so many checks" in str(checks)) is passed


def test_more_units_alone_break_no_rule():
    def of(units, estimate):
        return found(
            row({"source": "home"}, "gini", estimate=estimate, low=estimate - 0.001, high=estimate + 0.001, units=units)
        )

    few, many = of(10, 0.45), of(1_000, 0.4995)  # 0.5 times (K - 1) / K
    assert many.check("gini <= baseline", baseline=few, inconclusive="pass")
    assert not many.check("gini <= baseline", baseline=of(1_000, 0.45), inconclusive="pass")


def test_builds_hardly_ever_fail_where_nothing_changed():
    rng = np.random.default_rng(4)
    adjusted, raw = failures("lognormal(0.7)", 300, 60, 12, rng)
    assert adjusted <= 1 / 12
    assert raw > adjusted


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
    assert failure.get("message") == "0.9 (0.88 to 0.92)"
    outs = [case.find("system-out") for case in cases]
    assert [out is not None for out in outs] == [True, False, True, True]
    assert "inconclusive" in outs[0].text


def test_the_summary_is_markdown_that_no_label_breaks():
    text = summary(gates())
    assert "**1 of 4 checks failed.** 1 is inconclusive" in text
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len(table) == 6
    assert all(line.replace("\\|", "").count("|") == 7 for line in table)
    assert "- For source home:" in text


def test_assert_within_fails_a_test_with_the_rules_that_do_not_hold():
    result = found(home(0.5, 0.45, 0.55), home(0.9, 0.88, 0.92, source="search"))
    eh.testing.assert_within(result, "gini <= 0.95", "gini > 0")
    with pytest.raises(
        AssertionError,
        match=r"1 of 2 checks failed\.\nFAIL: gini <= 0.8 for source=search: 0.9 \(0.88 to 0.92\)$",
    ):
        eh.testing.assert_within(result, "gini <= 0.8")
    with pytest.warns(eh.DataWarning, match="inconclusive") as told:
        eh.testing.assert_within(found(home(0.5, 0.4, 0.6)), "gini <= 0.55")
    assert told[0].filename == __file__
    eh.testing.assert_within(found(home(0.5, 0.4, 0.6)), "gini <= 0.55", inconclusive="pass")
    with pytest.raises(eh.EvenhandError, match="no rule"):
        eh.testing.assert_within(result)
    with pytest.raises(eh.EvenhandError, match="is no result"):
        eh.testing.assert_within(pl.DataFrame(), "gini <= 1")


def test_the_file_of_another_day_is_no_misspelling(tmp_path):
    (tmp_path / "2026-11-15.csv").write_text("author,views\na,1\n")
    call = {"unit": "author", "amount": "views", "population": None}
    with pytest.raises(eh.EvenhandError) as missing:
        eh.inequality(str(tmp_path / "2026-11-16.csv"), **call)
    assert "Did you mean" not in str(missing.value)
    (tmp_path / "views.csv").write_text("author,views\na,1\n")
    with pytest.raises(eh.EvenhandError, match=r"Did you mean 'views[.]csv'"):
        eh.inequality(str(tmp_path / "view.csv"), **call)
