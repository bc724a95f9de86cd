"""Selection rates and impact ratios: by definition, with intervals that hold, for categories and their intersections."""

import math

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand.intervals.kinds import ratio_interval, ratio_p, wilson_ends


def people(seed=0, n=400, rates=(0.3, 0.2)):
    rng = np.random.default_rng(seed)
    sex, race = rng.integers(0, 2, n), rng.integers(0, 3, n)
    hired = rng.random(n) < np.asarray(rates)[sex]
    return pl.DataFrame(
        {
            "sex": np.array(["F", "M"])[sex],
            "race": np.array(["A", "B", "W"])[race],
            "hired": hired.astype(int),
            "score": rng.random(n),
        }
    )


def ratios(result, category):
    return {
        r["group"]: r for r in result.findings.rows() if r["metric"] == "impact_ratio" and r["category"] == category
    }


def test_rates_and_ratios_are_those_of_the_definition_for_each_category_and_intersection():
    table = people()
    result = eh.impact(table, group=["sex", "race"], selected="hired")
    for name, columns in {"sex": ["sex"], "race": ["race"], "sex x race": ["sex", "race"]}.items():
        rates = {", ".join(key): part["hired"].mean() for key, part in table.group_by(columns)}
        found = ratios(result, name)
        assert found.keys() == rates.keys()
        for group, row in found.items():
            assert row["estimate"] == pytest.approx(rates[group] / max(rates.values()))
            assert (row["estimate"] == 1) == math.isnan(row["low"])
            assert math.isnan(row["low"]) or row["low"] < row["estimate"] < row["high"]


def test_scoring_rates_are_shares_above_the_median_of_all():
    table = pl.DataFrame({"sex": list("FFFMMM"), "score": [1.0, 2.0, 5.0, 3.0, 4.0, 6.0]})
    result = eh.impact(table, group="sex", score="score")
    assert result.provenance["median"] == 3.5
    rates = {r["group"]: r["estimate"] for r in result.findings.rows() if r["metric"] == "selection_rate"}
    assert rates == {"F": pytest.approx(1 / 3), "M": pytest.approx(2 / 3)}


def test_unknown_categories_are_counted_and_left_out():
    table = pl.DataFrame({"sex": ["F", "M", None, "M"], "hired": [1, 1, 1, 0]})
    result = eh.impact(table, group="sex", selected="hired")
    assert result.provenance["dropped"] == {"unknown sex": 1}
    assert {r["group"]: r["units"] for r in result.findings.rows()} == {"F": 1, "M": 2}


def test_small_categories_are_left_out_of_the_ratios_where_asked():
    table = pl.DataFrame({"race": ["A"] * 50 + ["B"] * 49 + ["C"], "hired": [1] * 10 + [0] * 89 + [1]})
    assert ratios(eh.impact(table, group="race", selected="hired"), "race")["A"]["estimate"] == pytest.approx(0.2)
    shown = eh.impact(table, group="race", selected="hired", min_share=0.02)
    assert ratios(shown, "race").keys() == {"A", "B"}
    assert ratios(shown, "race")["A"]["estimate"] == 1


def test_nobody_selected_is_undefined_and_nobody_of_one_category_has_an_interval():
    none = eh.impact(pl.DataFrame({"sex": ["F", "M"], "hired": [0, 0]}), group="sex", selected="hired")
    assert all(math.isnan(r["estimate"]) and r["note"] == "zero_denominator" for r in ratios(none, "sex").values())
    table = pl.DataFrame({"sex": ["F"] * 20 + ["M"] * 20, "hired": [0] * 20 + [1] * 10 + [0] * 10})
    row = ratios(eh.impact(table, group="sex", selected="hired"), "sex")["F"]
    assert (row["estimate"], row["low"]) == (0, 0)
    assert 0 < row["high"] < 0.5


@pytest.mark.parametrize(("selected", "score"), [(None, None), ("hired", "score")])
def test_one_of_selected_and_score_is_needed(selected, score):
    with pytest.raises(eh.EvenhandError, match="either selected"):
        eh.impact(people(), group="sex", selected=selected, score=score)


def test_selected_must_be_0_or_1():
    with pytest.raises(eh.EvenhandError, match="holds 2, and only 1"):
        eh.impact(pl.DataFrame({"sex": ["F", "M"], "hired": [0, 2]}), group="sex", selected="hired")


def test_intervals_cover_and_are_no_wider_than_needed():
    rng, n, truth = np.random.default_rng(3), 60, 0.15 / 0.3
    a, b = rng.binomial(n, 0.15, 1000), rng.binomial(n, 0.3, 1000)
    ends = np.array([ratio_interval(x, n, y, n, 0.95) for x, y in zip(a, b, strict=True) if y])
    covered = ((ends[:, 0] <= truth) & (truth <= ends[:, 1])).mean()
    assert 0.93 <= covered <= 0.97
    shares = np.stack(wilson_ends(a / n, n, 0.95), axis=1)
    assert 0.93 <= ((shares[:, 0] <= 0.15) & (shares[:, 1] >= 0.15)).mean() <= 0.975


def test_the_test_is_the_pooled_score_test():
    pooled = (6 + 12) / 80
    z = (6 - 12) / 40 / math.sqrt(pooled * (1 - pooled) * 2 / 40)
    assert ratio_p(6, 40, 12, 40) == pytest.approx(math.erfc(abs(z) / math.sqrt(2)))


def test_worlds_without_a_difference_are_seldom_called_different():
    claimed = sum(
        any(c.made for c in eh.impact(people(seed, rates=(0.3, 0.3)), group=["sex", "race"], selected="hired").claims)
        for seed in range(60)
    )
    assert claimed <= 7  # 5% of 60 is 3; more than 7 has a chance of 1%


def test_the_words_draw_no_conclusion_beyond_the_tests(tmp_path):
    result = eh.impact(people(n=4000, rates=(0.3, 0.15)), group="sex", selected="hired")
    assert any(c.made for c in result.claims)
    text = " ".join([result.headline, *result.sentences()])
    assert "M" in text
    assert not any(word in text.lower() for word in ("discriminat", "adverse", "four-fifths", "unfair"))
    assert "Impact ratios" in result.report(tmp_path / "page.html", profile="ll144").read_text()


def test_min_units_suppresses_categories_and_what_would_give_them_away():
    table = people(n=2000)
    few = pl.DataFrame(
        {"sex": ["F"] * 3, "race": ["X"] * 3, "hired": [1, 0, 0], "score": [0.5] * 3}, schema=table.schema
    )
    result = eh.impact(pl.concat([table, few]), group=["sex", "race"], selected="hired", min_units=20)
    shown = {(r["category"], r["group"]) for r in result.findings.rows() if r["note"] != "suppressed"}
    assert ("race", "X") not in shown
    assert len([key for key in shown if key[0] == "race"]) == 2  # of A, B and W one is hidden too
    assert {("sex", "F"), ("sex", "M")} <= shown
    for sex in "FM":  # the intersections of a sex add up to it: none or two are hidden, and their labels with them
        assert len([1 for kind, group in shown if kind == "sex x race" and group.startswith(sex)]) <= (
            2 if sex == "F" else 3
        )
    text = " ".join([result.to_text("json"), *result.sentences()])
    assert "F, X" not in text
    assert result.provenance["rows"] is None
    assert all(
        r["selected"] is None or math.isnan(r["selected"]) for r in result.findings.rows() if r["note"] == "suppressed"
    )


def test_one_candidate_of_unknown_race_cannot_be_found_by_subtraction():
    table = pl.concat(
        [
            people(n=2000),
            pl.DataFrame({"sex": ["F"], "race": [None], "hired": [1], "score": [0.1]}, schema=people().schema),
        ]
    )
    result = eh.impact(table, group=["sex", "race"], selected="hired", min_units=20)
    shown = [
        r["group"]
        for r in result.findings.rows()
        if r["category"] == "sex x race" and r["metric"] == "selection_rate" and r["note"] != "suppressed"
    ]
    assert len([group for group in shown if group.startswith("F")]) <= 2  # F less the sum of all three would be the one


def test_sentences_say_the_ratio_and_its_test():
    lines = eh.impact(people(n=4000, rates=(0.15, 0.3)), group="sex", selected="hired").sentences()
    assert any("impact ratio to M 0." in line and line.endswith("F is selected less often than M.") for line in lines)
    assert any(line == "By sex: M has the highest rate in the data; ratios are to it." for line in lines)
    quiet = eh.impact(people(n=100, rates=(0.3, 0.3)), group="sex", selected="hired")
    assert "No category is selected significantly less often" in quiet.headline
    assert any("not selected significantly less often than" in line for line in quiet.sentences())


def test_a_ratio_denied_by_the_adjustment_only_shows_both_p():
    counts = {"A": (50, 100), "B": (34, 100), "C": (46, 100), "D": (47, 100)}
    rows = [(name, int(i < hired)) for name, (hired, of) in counts.items() for i in range(of)]
    result = eh.impact(pl.DataFrame(rows, schema=["race", "hired"], orient="row"), group="race", selected="hired")
    row = ratios(result, "race")["B"]
    claim = result.findings.claim(row)
    assert row["high"] < 1
    assert not claim.made
    (line,) = [x for x in result.sentences() if x.startswith("By race: B: impact ratio")]
    assert line.endswith(f"(p = {claim.p:.2g} by itself, p = {claim.p_adjusted:.2g} adjusted for 3 tests).")
