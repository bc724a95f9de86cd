"""What chance gives a recommender, and what its volume allows at all: against enumeration."""

import itertools

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand.cards import parse_metric
from evenhand.metrics.random_orders import gini_of_random_lists
from evenhand.tallies.crosstab import Crosstab


def slow_gini(counts):
    total = sum(abs(a - b) for a in counts for b in counts)
    return total / (2 * len(counts) * sum(counts))


def every_showing(lengths, items):
    """Times shown under every way to fill lists of these lengths."""
    choices = [list(itertools.combinations(range(items), k)) for k in lengths]
    for picked in itertools.product(*choices):
        yield np.bincount([i for one in picked for i in one], minlength=items)


@pytest.mark.parametrize(("lengths", "items"), [((1, 1), 3), ((2, 2, 2), 4), ((1, 3), 4), ((0, 2, 1), 5), ((4,), 4)])
def test_chance_and_range_of_item_gini_are_those_of_every_way_to_fill_the_lists(lengths, items):
    values = [slow_gini(c) for c in every_showing(lengths, items)]
    rows = [{"user": u, "item": str(i)} for u, k in enumerate(lengths) for i in range(k)]
    found = eh.recommender(pl.DataFrame(rows), score=None, items=items, metrics="item_gini", interval=None)
    row = next(iter(found.findings.rows()))
    assert row["chance"] == pytest.approx(np.mean(values))
    assert row["least"] == pytest.approx(min(values), abs=1e-12)
    assert row["most"] == pytest.approx(max(values))


def test_the_formula_books_example():
    assert gini_of_random_lists(np.array([0, 0, 0, 5.0]), 1_000) == pytest.approx(0.9851, abs=5e-4)


def test_no_chance_level_lies_below_what_is_attainable():
    rng = np.random.default_rng(1)
    for users, items, top in ((5, 1_000, 3), (40, 30, 2), (300, 20, 5)):
        row = next(
            iter(
                eh.recommender(rng.random((users, items)), top=top, metrics="item_gini", interval=None).findings.rows()
            )
        )
        assert row["least"] <= row["chance"] <= row["most"]
        assert row["least"] <= row["estimate"] <= row["most"]


def test_with_missing_scores_chance_fills_lists_with_what_each_user_has_a_score_for_and_no_range_is_given():
    matrix = np.array([[0.1, 0.2, np.nan, 0.4], [np.nan, 0.3, 0.5, 0.6], [0.2, np.nan, 0.1, np.nan]])
    choices = [list(itertools.combinations(np.flatnonzero(~np.isnan(row)), 2)) for row in matrix]
    every = [slow_gini(np.bincount(np.concatenate(picked), minlength=4)) for picked in itertools.product(*choices)]
    rows = [
        next(iter(eh.recommender(matrix, top=2, metrics="item_gini", interval=None, rng=seed).findings.rows()))
        for seed in (1, 2)
    ]
    assert rows[0]["chance"] == rows[1]["chance"] == pytest.approx(np.mean(every), abs=1e-12)
    assert np.isnan([rows[0]["least"], rows[0]["most"]]).all()


def test_deals_among_missing_scores_agree_with_the_exact_chance(monkeypatch):
    rng = np.random.default_rng(3)
    matrix = np.where(rng.random((12, 9)) < 0.4, np.nan, rng.random((12, 9)))
    call = {"top": 3, "metrics": "item_gini", "interval": None}
    exact = next(iter(eh.recommender(matrix, **call).findings.rows()))["chance"]
    monkeypatch.setattr("evenhand.metrics.random_orders.EXACT_STEPS", -1)
    assert next(iter(eh.recommender(matrix, **call).findings.rows()))["chance"] == pytest.approx(exact, abs=0.005)


def test_without_scores_there_is_no_difference_of_scores():
    rows = pl.DataFrame({"user": [1, 1, 2, 2], "item": ["a", "b", "a", "c"]})
    call = {"score": None, "user_groups": {1: "x", 2: "y"}, "interval": None}
    relevant = pl.DataFrame({"user": [1, 2], "item": ["a", "c"], "relevance": [1.0, 1.0]})
    told = set(eh.recommender(rows, relevant=relevant, **call).frame["metric"])
    assert not told & {"mad", "rmse_ratio", "mae_ratio"}
    with pytest.raises(eh.EvenhandError, match="score"):
        eh.recommender(rows, metrics="mad", **call)


@pytest.mark.parametrize("role", ["protected", "versus"])
def test_a_side_that_nobody_belongs_to_is_refused(role):
    with pytest.raises(eh.EvenhandError, match=f"{role}='q'"):
        eh.recommender([[1.0, 2.0], [2.0, 1.0]], user_groups=["x", "y"], top=1, **{role: "q"})


@pytest.mark.parametrize(("users", "items", "missing"), [(12, 9, 0.4), (3, 5, 0.3), (30, 40, 0.9)])
def test_the_chance_among_missing_scores_is_that_of_every_pair_of_items_walked_by_itself(users, items, missing):
    from evenhand.metrics.random_orders import gini_of_offered_lists
    from evenhand.tallies.ragged import Ragged

    rng = np.random.default_rng(users)
    offered = rng.random((users, items)) >= missing
    slots = np.minimum(rng.integers(0, 4, users), offered.sum(1))
    apart = 0.0
    for i, j in itertools.combinations(range(items), 2):
        walk = np.array([1.0])  # the difference of the two, user by user
        for own, k in zip(offered, slots, strict=True):
            n = max(1, own.sum())
            one = k / n if own[i] != own[j] else k * (n - k) / (n * max(1, n - 1)) if own[i] else 0.0
            up, down = one * own[i], one * own[j]
            walk = np.convolve(walk, [down, 1 - up - down, up])
        apart += 2 * np.abs(np.arange(-users, users + 1)) @ walk
    odds = np.where(offered, (slots / np.maximum(offered.sum(1), 1))[:, None], np.nan)
    assert gini_of_offered_lists(Ragged.from_matrix(odds), items) == pytest.approx(
        apart / (2 * items * slots.sum()), abs=1e-12
    )


def test_items_that_nobody_is_shown_are_in_every_draw_of_a_measure_that_reads_each():
    rng = np.random.default_rng(5)
    scores = pl.DataFrame(
        {
            "user": np.repeat(np.arange(30), 4),
            "item": rng.permuted(np.tile(np.arange(12), (30, 1)), axis=1)[:, :4].ravel(),
            "score": rng.random(120),
        }
    )
    call = {"user_groups": {u: "ab"[u % 2] for u in range(30)}, "top": 2, "rng": 1, "interval": "percentile(99)"}
    few, many = (
        eh.recommender(
            scores, items=items, metrics=["exposure_kl(smoothing=0.5)", "item_gini", "exposure_tv"], **call
        ).frame
        for items in (12, 24)
    )
    assert few["high"][2] == many["high"][2]
    assert few["high"][0] > many["high"][0] > 0
    assert 1 - (1 - few["high"][1]) / 2 == pytest.approx(many["high"][1], abs=1e-12)


@pytest.mark.parametrize("metric", ["aggregate_diversity", "exposure_entropy", "item_gini"])
def test_what_a_value_loses_without_a_user_is_what_counting_without_them_gives(metric):
    rng = np.random.default_rng(6)
    scores = rng.random((25, 300)) ** 4 + rng.random(300)
    spec = parse_metric(metric)
    total = Crosstab.from_arrays(scores, top=4)
    lost = [spec.on(total) - spec.on(Crosstab.from_arrays(np.delete(scores, u, 0), top=4)) for u in range(25)]
    close = {"abs": 5e-4} if metric == "item_gini" else {"abs": 1e-12}  # moves of a user's own items are added up there
    assert spec.linearised(total, spec.on(total)) == pytest.approx(np.array(lost) - np.mean(lost), **close)


def niches(rng):
    """60 users, each shown all five items of one of 100 niches: the bootstrap's interval held in 0.77 of such samples."""
    niche = rng.choice(100, 60, p=(1 / np.arange(1, 101)) / (1 / np.arange(1, 101)).sum())
    return pl.DataFrame({"user": np.repeat(np.arange(60), 5), "item": (5 * niche[:, None] + np.arange(5)).ravel()})


def test_intervals_over_the_catalogue_hold_where_lists_hardly_overlap():
    rng = np.random.default_rng(7)
    call = {"score": None, "items": 500, "interval": "bootstrap(20)", "rng": 1}
    metrics = ["aggregate_diversity", "item_gini", "exposure_entropy"]
    frames = [eh.recommender(niches(rng), metrics=metrics, **call).frame for _ in range(80)]
    estimate, low, high = (np.array([frame[name] for frame in frames]) for name in ("estimate", "low", "high"))
    held = ((low <= estimate.mean(0)) & (estimate.mean(0) <= high)).mean(0)
    assert (held >= 0.87).all(), held
    width = np.median(high - low, axis=0) / (2 * 1.96 * estimate.std(0))
    assert (width <= 1.5).all(), width


def test_a_catalogue_that_no_single_user_widens_has_no_interval_and_says_why():
    scores = np.tile([[4.0, 3, 2, 1], [1, 2, 3, 4]], (20, 1))
    found = eh.recommender(scores, top=2, metrics="aggregate_diversity", rng=1)
    row = next(iter(found.findings.rows()))
    assert (row["estimate"], row["note"]) == (1.0, "no_lone_user")
    assert np.isnan([row["low"], row["high"]]).all()
    assert "leaving out any one user does not change it" in found.sentences()[1]
    bare = eh.recommender(scores, top=2, metrics="aggregate_diversity", interval=None)
    assert next(iter(bare.findings.rows()))["note"] is None
