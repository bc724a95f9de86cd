"""The outcome test within lists: neighbours by hand, what it claims, and what it refuses."""

import itertools

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand.metrics.outcome import OrderGaps
from evenhand.tallies.candidates import Neighbours

ROLES = {"score": "score", "outcome": "outcome", "group": "group", "request": "request", "reference": "m"}


def lists(rng, requests=60, length=6, bias=0.0, decimals=9):
    """Lists in the order of merit, f taken down by a `bias`; fewer decimals make ties."""
    n = requests * length
    request, group = np.repeat(np.arange(requests), length), rng.choice(["f", "m", "x"], n)
    merit = rng.normal(0, 0.1, n)
    score = (rng.normal(0, 5, requests)[request] + merit - bias * (group == "f")).round(decimals)
    return pl.DataFrame(
        {"request": request, "group": group, "score": score, "outcome": (rng.random(n) < 0.5 + merit).astype(int)}
    )


def neighbours(table, group, placed):
    """Gaps of one group to m by request, by a loop over every two levels of score."""
    gaps = {}
    for (request,), part in table.group_by("request"):
        levels = sorted(part["score"].unique(), reverse=True)
        for high, low in itertools.pairwise(levels):
            for upper, lower in (("m", group),) if placed == "below" else ((group, "m"),):
                a, b = (
                    part.filter((pl.col("score") == s) & (pl.col("group") == g))["outcome"]
                    for s, g in ((high, upper), (low, lower))
                )
                if len(a) and len(b):
                    gaps.setdefault(request, []).append((b.mean() - a.mean()) * (1 if placed == "below" else -1))
    return gaps


@pytest.mark.parametrize("decimals", [9, 1])
def test_gaps_and_errors_are_those_of_neighbours_counted_by_hand(decimals):
    table = lists(np.random.default_rng(3), decimals=decimals)
    result = eh.outcome_test(table, **ROLES, kind="listwise")
    for row in result.findings.rows():
        if row["group"] == "m":
            continue
        gaps = neighbours(table, row["group"], "above" if "above" in row["metric"] else "below")
        every = [gap for of_request in gaps.values() for gap in of_request]
        assert row["units"] == len(every)
        assert row["estimate"] == pytest.approx(np.mean(every))
        assert row["se"] == pytest.approx(np.sqrt(sum(sum(g) ** 2 for g in gaps.values())) / len(every))


def test_a_group_that_is_ranked_too_low_is_claimed_and_the_headline_says_so():
    result = eh.outcome_test(lists(np.random.default_rng(1), 600, bias=0.3), **ROLES, kind="listwise")
    assert [claim.text for claim in result.claims if claim.made] == ["the lists under-rate f"]
    assert result.headline.startswith("Where f ranks right below m, the outcome rate is ")
    assert result.remedies["found"].to_list()[::2] == ["found", "not found"]
    assert result.plot("intervals")


def test_an_order_by_merit_claims_nothing_and_names_the_power():
    result = eh.outcome_test(lists(np.random.default_rng(1), 300), **ROLES, kind="listwise")
    assert not any(claim.made for claim in result.claims)
    assert "80% power" in result.headline


def test_the_interval_holds_exactly_what_the_test_does_not_reject():
    table = lists(np.random.default_rng(5), 300, bias=0.05)
    rows = {name: table[name].to_list() for name in ("score", "outcome", "group", "request")}
    tally = Neighbours.from_arrays(
        rows["score"],
        outcome=rows["outcome"],
        groups=rows["group"],
        requests=rows["request"],
        protected="f",
        versus="m",
    )
    gaps = OrderGaps(tally)
    for end in gaps.ends(0.95):
        distance = tally.gap - end * tally.pairs
        squares = tally.gap_gap - 2 * end * tally.gap_pairs + end**2 * tally.pairs_pairs
        assert distance**2 / squares == pytest.approx(1.959964**2, rel=1e-6)


def test_scores_of_every_list_may_have_another_scale():
    table = lists(np.random.default_rng(2), 100)
    stretched = table.with_columns(score=pl.col("score") * (1 + pl.col("request") % 7) - 3 * pl.col("request"))
    frames = [eh.outcome_test(t, **ROLES, kind="listwise").frame for t in (table, stretched)]
    assert frames[0].equals(frames[1], null_equal=True)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"request": None}, "Name its column as request="),
        ({"weight": "outcome"}, "weight= has no meaning"),
        ({"bins": 5}, "bins= has no meaning"),
    ],
)
def test_what_the_order_has_no_use_for_is_refused(more, words):
    with pytest.raises(eh.EvenhandError, match=words):
        eh.outcome_test(lists(np.random.default_rng(0)), **(ROLES | more), kind="listwise")


def test_lists_of_one_group_have_no_neighbours():
    table = lists(np.random.default_rng(0)).with_columns(
        group=pl.when(pl.col("request") < 30).then(pl.lit("m")).otherwise(pl.lit("f"))
    )
    result = eh.outcome_test(table, **ROLES, kind="listwise")
    assert set(result.frame.filter(pl.col("group") == "f")["note"]) == {"no_pairs"}


def test_slices_suppression_and_a_chosen_metric_work_as_in_the_other_kinds():
    table = lists(np.random.default_rng(4), 200).with_columns(week=pl.col("request") % 2)
    result = eh.outcome_test(
        table, **ROLES, kind="listwise", by="week", metrics='order_gap(placed="above")', min_units=5
    )
    assert result.frame.height == 6
    assert all(claim.where["week"] in (0, 1) for claim in result.claims)
