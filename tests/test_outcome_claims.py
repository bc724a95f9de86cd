"""What an outcome test and its counterfactual claim: in planted worlds what is there, in worlds without it nothing."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

import evenhand as eh

ROLES = {"score": "s", "outcome": "y", "group": "g", "reference": "a"}


def world(n=6000, *, gap=lambda s: 0 * s, groups=("a", "b"), seed=1, rise=lambda s: 0.1 + 0.7 * s) -> pl.DataFrame:
    """Outcomes follow the score along `rise`; those of b are better by `gap` of it."""
    rng = np.random.default_rng(seed)
    g, s = rng.choice(groups, n), rng.random(n)
    chance = np.clip(rise(s) + gap(s) * (g == "b"), 0, 1)
    return pl.DataFrame({"s": s, "g": g, "y": (rng.random(n) < chance) * 1, "q": np.arange(n) // 20})


def claim(result, metric, group=None, **where):
    (only,) = [
        c for c in result.claims if (c.metric, c.group) == (metric, group) and where.items() <= dict(c.where).items()
    ]
    return only


def algorithm(result, group="b"):
    (row,) = [r for r in result.remedies.iter_rows(named=True) if r["source"] == "algorithm" and r["group"] == group]
    return row


def test_a_gap_of_a_ranking_is_claimed_and_headline_and_remedies_read_the_claim():
    result = eh.outcome_test(world(gap=lambda s: 0.1), **ROLES)
    gap = claim(result, "pooled_gap", "b")
    assert (gap.made, gap.direction, gap.text) == (True, "higher", "the score under-rates b")
    assert claim(result, "joint_test").direction == "differs"
    assert gap.text in result.headline
    assert algorithm(result)["found"] == "found"
    assert algorithm(result)["p_adjusted"] == gap.p_adjusted
    assert sum(gap.text in text for text in result.sentences()) == 1  # variants are shown without a claim


def test_a_world_without_a_gap_says_how_large_a_gap_would_have_been_found():
    result = eh.outcome_test(world(), **ROLES)
    assert not any(c.made for c in result.claims)
    assert "80% power" in result.headline
    assert algorithm(result)["found"] == "not found"
    assert algorithm(result)["detectable"] > result.only("pooled_gap").frame["detectable"].drop_nans().max()
    assert not any("differ (" in text for text in result.sentences())


def test_groups_that_differ_in_opposite_directions_along_the_score_differ_without_a_gap():
    result = eh.outcome_test(world(gap=lambda s: np.where(s < 0.5, 0.15, -0.15)), **ROLES)
    assert claim(result, "joint_test").made
    assert not claim(result, "pooled_gap", "b").made
    assert "outcomes differ, though no group's own gap is significant" in result.headline


ABOVE = {"kind": "classification", "threshold": 0.4}


@pytest.mark.parametrize(("at_the_bar", "further_up", "found"), [(0.3, -0.03, "found"), (0.0, 0.15, "not found")])
def test_right_above_a_threshold_the_marginal_test_decides_what_can_be_remedied(at_the_bar, further_up, found):
    table = world(n=12_000, gap=lambda s: np.where(s < 0.46, at_the_bar, further_up))
    result = eh.outcome_test(table.filter(pl.col("s") >= 0.4), **ROLES, **ABOVE)
    gap = claim(result, "outcome_gap", "b", bin=1)
    assert gap.made == (found == "found")
    assert algorithm(result)["found"] == found
    assert ("under-rates b right above the threshold" in result.headline) == gap.made
    marginal = " ".join(text for text in result.sentences() if "right above the threshold" in text)
    assert ("outcomes differ" in marginal) == gap.made
    assert not [c for c in result.claims if c.metric == "pooled_gap"]


def test_with_several_groups_the_marginal_test_is_a_claim_of_its_own():
    table = world(n=12_000, gap=lambda s: 0.25, groups=("a", "b", "c"))
    result = eh.outcome_test(table, **ROLES, **ABOVE)
    assert claim(result, "marginal_test").made
    assert claim(result, "outcome_gap", "b").made
    assert not claim(result, "outcome_gap", "c").made


def test_without_a_test_nothing_can_be_told():
    table = world(n=600).with_columns(g=pl.when(pl.int_range(pl.len()) < 8).then(pl.lit("c")).otherwise("g"))
    result = eh.outcome_test(table, **ROLES, **ABOVE)
    assert algorithm(result, "c")["found"] == "cannot tell"
    assert claim(result, "outcome_gap", "c").text == (
        "whether the score under- or over-rates c right above the threshold cannot be told"
    )


@pytest.mark.parametrize(("shift", "often"), [(0.15, "more often"), (0.0, "")])
def test_who_is_treated_more_often_is_told_where_a_test_bears_it_out(shift, often):
    table = world().with_columns(s=pl.col("s") + shift * (pl.col("g") == "b"))
    result = eh.outcome_test(table, **ROLES, kind="classification", threshold=0.5)
    for metric, have in (("true_positive_rate_gap", "with"), ("false_positive_rate_gap", "without")):
        rate = claim(result, metric, "b")
        assert rate.made == bool(often)
        (text,) = [t for t in result.only(metric).sentences() if "of b" in t]
        assert f"mong those {have} the outcome" in text
        assert ("more often" in text, "no significant difference" in text) == (bool(often), not often)


def test_outcomes_that_fall_are_told_and_never_in_the_headline():
    result = eh.outcome_test(world(n=2000, rise=lambda s: 0.6 - 0.5 * s), **ROLES)
    fall = claim(result, "lowest_bin")
    assert fall.made
    assert fall.text not in result.headline
    assert any("a problem of the scoring beyond fairness" in text for text in result.sentences())


@pytest.mark.parametrize("how", [{}, {"request": "q"}])
def test_right_scores_are_not_said_to_fall_even_where_they_say_little(how):
    made = 0
    for seed in range(15):
        result = eh.outcome_test(
            world(n=1500, seed=seed, rise=lambda s: 0.3 + 0.02 * s), **ROLES, **how, metrics=["lowest_bin"]
        )
        made += claim(result, "lowest_bin").made
        assert "do not rise" not in result.headline
    assert made <= 3


def test_cautions_and_the_reference_are_said_once():
    table = world(n=1200, groups=("a", "a", "a", "a", "b"))
    sentences = eh.outcome_test(table, **ROLES).sentences()
    assert sum("reference group" in text for text in sentences) == 1
    assert sum(text.startswith("Caution for ") and "too few rows" in text for text in sentences) == 1


def test_one_family_holds_all_claims_of_a_result():
    table = world(gap=lambda s: 0.05).with_columns(part=pl.int_range(pl.len()) % 3)
    result = eh.outcome_test(table, **ROLES, by="part")
    p = sorted(c.p for c in result.claims if math.isfinite(c.p))
    assert min(c.p_adjusted for c in result.claims) == pytest.approx(min(1, p[0] * len(p)))
    for row in result.findings.rows():
        if found := result.findings.claim(row):
            assert row["p_adjusted"] == pytest.approx(found.p_adjusted, nan_ok=True)


def notifications(bias):
    jobs = eh.synthetic.marketplace("notifications", requests=400, bias={"male": bias}, rng=7)
    test = eh.outcome_test(
        jobs, score="score", outcome="outcome", group="group", treated="treated", request="request", reference="female",
        kind="classification", threshold=jobs.filter("treated")["score"].min(),
    )  # fmt: skip
    return test.counterfactual(rng=7)


def test_slots_that_a_group_would_gain_are_claimed():
    change = notifications(0.6)
    gain = claim(change, "slots_gained", "male")
    assert (gain.made, gain.direction, gain.text) == (True, "higher", "male would gain slots")
    assert claim(change, "outcome_relative_change").made
    assert "male would have" in change.headline
    assert "more slots" in change.headline
    assert not [c for c in change.claims if c.metric == "mean_rank_change"]


def test_without_bias_nobody_gains_and_enough_draws_are_made_for_a_small_p():
    change = notifications(0.0)
    assert not any(c.made for c in change.claims)
    assert change.headline == "Without the bias, no group would gain or lose significantly."
    draws = change.provenance["counterfactual"]["null_draws"]
    assert 2 / (draws + 1) * len(change.claims) < 0.01


def test_where_everybody_has_a_slot_the_ranks_are_claimed():
    table = world(gap=lambda s: 0.15)
    change = eh.outcome_test(table, **ROLES, request="q").counterfactual(rng=1)
    up = claim(change, "mean_rank_change", "b")
    assert (up.made, up.direction, up.text) == (True, "lower", "b would rank higher on average")
    assert "b would rank" in change.headline
    assert not [c for c in change.claims if c.metric == "slots_gained"]
