"""What exposure, prefix and pairwise results claim: planted worlds where the claim must be made, and words without it."""

import re

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand.claims import adjusted_detectable
from evenhand.intervals.requests import skewed_test, t_test
from evenhand.metrics.prefix import lean_and_spread
from evenhand.tallies.placement import Placement


def lists(requests, push, seed=1, depth=10, protected=3, **more):
    """Lists of ten with three protected items, whose scores are lower by `push`; relevance knows nothing of groups."""
    rng = np.random.default_rng(seed)
    side = np.repeat(np.arange(depth) < protected, 1)
    score = rng.normal(size=(requests, depth)) - push * side
    rank = np.argsort(np.argsort(-score, axis=1), axis=1) + 1
    return pl.DataFrame(
        {
            "request": np.repeat(np.arange(requests), depth),
            "item": np.arange(requests * depth),
            "rank": rank.ravel(),
            "score": score.ravel(),
            "group": np.tile(np.where(side, "f", "m"), requests),
            "relevance": (rng.random(requests * depth) < 0.4).astype(float),
        }
    ).with_columns(**{name: pl.lit(value) for name, value in more.items()})


def test_a_group_that_is_pushed_down_gets_less_than_its_target_and_the_headline_says_so():
    result = eh.exposure(lists(60, 1.0), groups="group", protected="f", metrics=["awrf", "log_dp"], rng=1)
    (claim,) = result.claims
    assert (claim.made, claim.direction, claim.group) == (True, "lower", "f")
    assert result.headline == f"{claim.text}."
    assert "below its target of 30%" in claim.text


def test_a_group_that_is_favoured_is_above_its_target_in_the_slice_where_it_is():
    table = pl.concat([lists(60, 0.0, system="fair"), lists(60, -1.0, seed=2, system="new")])
    result = eh.exposure(table, groups="group", protected="f", system="system", metrics="awrf", rng=1)
    assert [(c.where["system"], c.direction) for c in result.claims] == [("fair", "none"), ("new", "higher")]
    assert result.headline.startswith("For system new, f gets ")
    assert "above its target of 30%" in result.headline
    assert result.headline.endswith("Statistically significant in 1 of the 2 slices.")


def test_lists_in_random_order_have_a_headline_without_direction():
    result = eh.exposure(lists(60, 0.0), groups="group", protected="f", metrics="awrf", rng=1)
    assert not any(claim.made for claim in result.claims)
    assert "not significantly different from its target of 30%" in result.headline
    assert "80% power for differences of" in result.headline


def test_few_requests_and_absent_targets_claim_nothing():
    result = eh.exposure(lists(4, 3.0), groups="group", protected="f", metrics="awrf", rng=1)
    assert result.claims == ()
    assert "below" not in result.headline
    assert "its target is 30%" in result.headline


def test_a_rare_group_without_a_single_item_on_top_is_not_called_short_of_exposure():
    """One item in twenty, 30 lists: not to head any of them is no wonder, but Student's t sees hardly any spread."""
    rng, false = np.random.default_rng(4), 0
    for _ in range(60):
        table = pl.DataFrame(
            {
                "request": np.repeat(np.arange(30), 10),
                "item": np.arange(300),
                "rank": np.tile(np.arange(1, 11), 30),
                "group": rng.permutation(np.repeat(["f", "m"], [15, 285])),
            }
        )
        found = eh.exposure(table, groups="group", protected="f", metrics="awrf", chance=False, interval=None)
        false += any(claim.made for claim in found.claims)
    assert false <= 6


def test_prefix_claims_who_stands_nearer_to_the_top_whatever_the_metrics():
    result = eh.prefix(lists(60, 1.0), group="group", protected="f", rng=1)
    (claim,) = result.claims
    assert (claim.text, claim.direction, claim.made) == (
        "f stands further from the top than random order gives", "lower", True,
    )  # fmt: skip
    assert result.headline.startswith("f stands further from the top than random order gives. It makes up ")
    assert "of the top 5 and 30% of the whole list." in result.headline
    *numbers, claimed = result.sentences()
    assert claimed == "f stands further from the top than random order gives."
    assert len(numbers) == 2
    assert not any("further" in sentence for sentence in numbers)


@pytest.mark.parametrize("depth", [2, 3, 10, 11, 40])
def test_no_headline_compares_a_list_with_itself(depth):
    result = eh.prefix(lists(40, 0.0, depth=depth, protected=min(3, depth - 1)), group="group", protected="f", rng=1)
    assert f"top {depth} " not in result.headline
    assert "30% to 30%" not in result.headline


def test_pairwise_claims_whose_relevant_items_are_ranked_lower():
    result = eh.pairwise(lists(80, 1.5), groups="group", relevance="relevance", protected="f", rng=1)
    (claim,) = result.claims
    assert (claim.metric, claim.direction, claim.made) == ("inter_acc", "higher", True)
    assert result.headline.startswith("The more relevant item ranks higher less often if it is of f (")
    quiet = eh.pairwise(lists(80, 0.0), groups="group", relevance="relevance", protected="f", rng=1)
    assert not quiet.claims[0].made
    assert "not a statistically significant difference" in quiet.headline


@pytest.mark.parametrize(("size", "members", "rankings"), [(20, 1, 1), (10, 1, 3), (10, 3, 5), (20, 2, 5)])
def test_the_p_of_a_lean_is_at_most_uniform_for_few_short_lists(size, members, rankings):
    rng = np.random.default_rng(0)
    labels = np.repeat(["a", "b"], [members, size - members])
    orders = [lean_and_spread(Placement.from_arrays(list(rng.permutation(labels)))) for _ in range(400)]
    lean = np.array([order[0][0, 0] for order in orders])
    variance, third = orders[0][1][0, 0] ** 2, orders[0][2][0, 0]
    assert third == pytest.approx((lean**3).mean(), abs=5 * (lean**3).std() / 20)
    sums = lean[rng.integers(0, 400, (2000, rankings))].sum(1)
    p = np.array([skewed_test(s, rankings * variance, rankings * third) for s in sums])
    assert (p <= 0.05).mean() <= 0.065


def test_tests_of_sums_know_their_edges():
    assert np.isnan(t_test(np.ones(4))[0])
    assert t_test(np.ones(12))[0] == 0.0
    assert t_test(np.ones(9))[0] == 2 / 2**9  # no surer than all flips of nine signs
    assert t_test(np.zeros(9))[0] == 1.0
    assert np.isnan(skewed_test(1.0, 0.0, 0.0))
    assert skewed_test(-3.0, 1.0, 1.0) == 0.0  # below where the law ends


def test_gaps_in_ranks_are_said_once_and_infinite_ratios_name_the_side_that_has_nothing():
    table = lists(30, 0.0).with_columns(rank=pl.col("rank") * 2 - 1)
    said = " ".join(eh.prefix(table, group="group", protected="f", rng=1).sentences())
    assert said.count("30 of 30 rankings have gaps in their ranks") == 1
    shown = lists(30, 0.0).filter(pl.col("group") == "m")
    call = {"groups": "group", "target": {"f": 0.5, "m": 0.5}, "interval": None, "metrics": "log_dp"}
    none, all_of_it = (eh.exposure(shown, protected=p, versus=v, **call).sentences()[0] for p, v in ("fm", "mf"))
    assert none.endswith("m has something and f has nothing.")
    assert all_of_it.endswith("m has something and f has nothing.")


def test_cards_state_the_range_of_every_parameter_that_changes_it():
    assert eh.metrics.awrf.other_spans() == {
        (0.0, np.inf): ["distance='kl'", "distance='rd'"],
        (-1.0, 1.0): ["signed=True"],
    }
    assert eh.metrics.fair.other_spans() == {}


def test_power_is_that_of_the_adjusted_test():
    """With ten slices the difference that can be found is larger than with one, as Holm's first step is."""
    rng = np.random.default_rng(5)
    rows = [
        (f"s{s}", q, 10 * q + i, r, "fm"[i % 2])
        for s in range(10)
        for q in range(40)
        for r, i in enumerate(rng.permutation(10).tolist(), 1)
    ]
    table = pl.DataFrame(rows, schema=["system", "request", "item", "rank", "group"], orient="row")

    def points(part):
        claims = eh.exposure(part, groups="group", protected="f", system="system", metrics="awrf", rng=1).claims
        return float(re.search(r"power for differences of ([\d.]+) points", claims[0].text)[1])

    ratio = points(table) / points(table.filter(pl.col("system") == "s0"))
    assert ratio == pytest.approx(adjusted_detectable(1.0, 10, 0.95), rel=0.05)


def test_the_favoured_column_has_the_p_of_its_claim():
    rng = np.random.default_rng(3)
    lists = [(q, r, "con" if i < 2 else "pro") for q in range(30) for r, i in enumerate(rng.permutation(9).tolist(), 1)]
    table = pl.DataFrame(lists, schema=["request", "rank", "stance"], orient="row")
    result = eh.prefix(table, group="stance", protected="con", metrics="ndd", rng=1)
    assert result.frame["p_favoured"][0] == pytest.approx(result.claims[0].p)
