"""The outcome-test paper again: what it states comes out where the mechanics hold it, and not where it is wrong."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from evenhand.cli import main
from evenhand.studies import outcome
from evenhand.studies.study import Replicates, result_from_rows


@pytest.mark.slow
def test_the_study_says_what_comes_out_and_what_does_not(monkeypatch):
    monkeypatch.setattr(outcome, "WORLDS", 40)
    found = outcome.study(size=1_500, seed=7)
    assert {c.sample for c in found.claims} == {"", "1,500 requests", "40 worlds each"}
    verdicts = {c.statement: c.holds for c in found.claims}
    for start in (
        "One bar for both groups",
        "The marginal outcomes agree",
        "Precision can be equal",
        "The gap found is the gap",
        "A scoring bias is found",
        "Equalised odds can hold although",
    ):
        assert all(holds for says, holds in verdicts.items() if says.startswith(start)), start
    for start in (
        "Scores q for one group and 1 - q",
        "Re-ranked without the bias, men move up",
    ):
        assert not any(holds for says, holds in verdicts.items() if says.startswith(start)), start
    assert [f.name for f in found.figures] == ["figure-4", "figure-5", "figure-6", "figure-7", "slots"]
    assert found.to_html().count("<svg") == 5


def test_small_worlds_are_judged_by_four_measures():
    rates = outcome.rates_of({"bias": {"female": 1.0}}, 3, 1)
    assert rates.joint == rates.worlds == 3
    assert all(0 <= calls <= 3 for calls in rates.cells())


@pytest.fixture(scope="module")
def admissions(tmp_path_factory):
    """Students of whom one group is under-scored by a lot; only the admitted take the examination."""
    rng = np.random.default_rng(3)
    n = 4_000
    race = rng.choice(["a", "b"], n, p=[0.4, 0.6])
    merit = rng.normal(0, 1, n)
    marks = np.round(30 + 5 * (merit + rng.normal(0, 0.5, n)) - 5 * (race == "b"), 1)
    let_in = (marks >= 28).astype(int)
    passed = (rng.random(n) < 1 / (1 + np.exp(-2 * merit))).astype(float)
    table = pl.DataFrame(
        {
            "marks": marks, "passed": np.where(let_in, passed, np.nan), "race": race, "school": rng.integers(0, 200, n),
            "let_in": let_in, "sex": rng.choice(["f", "m"], n), "w": rng.integers(1, 4, n),
        }
    )  # fmt: skip
    path = tmp_path_factory.mktemp("own") / "students.csv"
    table.with_columns(pl.col("passed").fill_nan(None)).write_csv(path)
    return str(path)


def asked(path, *more, form="json"):
    words = ["study", "outcome", "--data", path, "--score", "marks", "--outcome", "passed", "--group", "race"]
    return [*words, "--no-progress", "--format", form, *more]


def test_a_table_of_ones_own_gives_all_figures_and_findings_in_one_command(admissions, tmp_path, capsys):
    page = tmp_path / "own.html"
    more = ["--reference", "a", "--treated", "let_in", "--request", "school", "--kind", "classification"]
    assert main(asked(admissions, *more, "--threshold", "28", "--html", str(page))) == 0
    found = json.loads(capsys.readouterr().out)
    verdicts = {f["finding"]: f for f in found["findings"]}
    assert verdicts["Outcomes differ right above the threshold"]["comes out"] == "yes"
    assert verdicts["Outcomes differ right above the threshold"]["sample"].endswith(" rows")
    assert verdicts[outcome.SIZE]["comes out"] == "yes"
    assert verdicts["With slots given again, some group's slots change beyond chance"]["comes out"] == "yes"
    text = page.read_text()
    assert text.count("<svg") == text.count("<figure>") == 4
    assert "neither confirms nor refutes" in text
    assert "confirmed" not in text


def test_what_a_table_does_not_hold_is_not_claimed():
    rng = np.random.default_rng(3)
    columns = {"score": rng.random(600), "outcome": rng.integers(0, 2, 600), "group": ["a", "b"] * 300}
    own = outcome.study(data=pl.DataFrame(columns), score="score", outcome="outcome", group="group")
    claim = next(c for c in own.claims if c.statement == outcome.BEYOND_CHANCE[0])
    assert "every row has its slot" in claim.measured
    assert claim.verdict == "cannot be told"


def test_roles_that_are_missing_or_without_a_table_are_refused_in_flags(admissions, capsys):
    for words, said in (
        (["study", "outcome", "--data", admissions, "--score", "marks"], "--data needs --outcome, --group as well"),
        (["study", "outcome", "--score", "marks"], "--score says how to read a table, and there is none"),
        (asked(admissions), "pass --nan-policy omit"),
        (asked(admissions, "--treated", "let_in", "--reference", "z"), "--reference z"),
        (asked(admissions, "--size", "10"), "--size is how much is generated"),
        (asked("none.csv"), "'none.csv' is not a file"),
    ):
        assert main(words) == 2
        assert said in capsys.readouterr().err


def test_where_the_bias_is_the_other_way_round_every_finding_says_no():
    jobs = outcome.notifications(600, {"female": 1.5}, 1)
    people = outcome.ranking(600, {"male": 1.5, "unknown": -1.5}, 2)
    told = {c.statement: c.holds for c in (*outcome.notification_claims(jobs, jobs), *outcome.ranking_claims(people))}
    is_no = [says for says, holds in told.items() if holds is False]
    for start in (
        "Men, under-scored",
        "The gap in the marginal",
        "Without the bias",
        "Women, under-scored",
        "Outcomes differ",
    ):
        assert any(says.startswith(start) for says in is_no), (start, told)
    assert told["The under-scored groups gain slots"] is False


def test_a_fair_marketplace_decides_nothing():
    fair = outcome.notifications(300, {}, 1)
    told = {c.statement: c.holds for c in outcome.notification_claims(fair, fair)}
    assert told["The gap in the marginal decile is positive and significant"] is None
    assert told["Without the bias men and unknown gain notifications, women lose them"] is None
    assert told["Men, under-scored, realise higher outcomes in every decile, the marginal one included"] is None


@pytest.mark.parametrize(("calls", "holds"), [(8, True), (30, False), (16, None)])
def test_rates_of_worlds_come_out_do_not_or_cannot_be_told(calls, holds):
    silent, loud = outcome.Rates(200, calls, calls, 100, 100), outcome.Rates(200, 180, 180, 180, 180)
    names = ("nothing", "other qualifications", "very other qualifications", "human bias")
    claims = outcome._measures({**dict.fromkeys(names, silent), "scoring bias": loud})
    assert [c.holds for c in claims] == [holds, holds, True, True, holds, True]
    flipped = outcome._measures(
        {**dict.fromkeys(names, replace(silent, precision=10, odds=10)), "scoring bias": silent}
    )
    assert [c.holds for c in flipped] == [holds, holds, False, False, False, False]


def test_a_rise_of_another_size_than_stated_is_a_no():
    def reallocated(rise, moved):
        rows = [
            {"metric": "outcome_relative_change", "estimate": rise},
            {"metric": "slots_relative_change", "estimate": moved},
        ]
        result = result_from_rows("outcome_test", "", (), [{**r, "group": None, "units": 1} for r in rows])
        return outcome.Reallocated(result, result)

    def told(*rises, moved=0.1):
        parts = [reallocated(rise, moved) for rise in rises]
        return [c.holds for c in outcome._outcome_rises(Replicates(parts[0], parts[1:]))]

    assert told(0.01, 0.0101, 0.0099, 0.01) == [True, True, True]
    assert told(0.5, 0.501, 0.499, 0.5) == [False, False, False]
    assert told(0.01, 0.2, -0.2, 0.01)[0] is None


def test_a_table_in_which_nothing_differs_says_no_where_it_is_large_and_nothing_where_it_is_small():
    rng = np.random.default_rng(1)

    def verdicts(rows):
        score = rng.random(rows)
        table = pl.DataFrame(
            {"s": score, "y": (rng.random(rows) < 0.5).astype(float), "g": rng.choice(["a", "b"], rows)}
        )
        own = outcome.study(data=table, score="s", outcome="y", group="g")
        return {c.statement: c.holds for c in own.claims}

    small, large = verdicts(300), verdicts(60_000)
    differ = "Outcomes differ at equal score along the scores"
    assert (small[differ], large[differ]) == (None, False)
