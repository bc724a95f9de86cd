"""What stands for many rows of an outcome test: scores counted by part, and rows spread over the scores."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand.tallies.rows import Rows
from evenhand.uncertainty import odds
from evenhand.views import rulers, sketch

MEASURES = [
    "pooled_gap",
    "joint_test",
    "outcome_gap",
    "mean_outcome",
    "base_rate",
]  # none that reads the rows one by one
ROLES = {"score": "s", "outcome": "y", "group": "g", "metrics": MEASURES}
RNG = np.random.default_rng(1)
ROWS = 3_000
NORMAL, GROUPS = RNG.normal(size=ROWS), RNG.choice(["a", "b", "c"], ROWS, p=[0.6, 0.3, 0.1])
SHAPES = {
    "normal": NORMAL,
    "whole": np.round(NORMAL * 100).astype(np.int64),
    "far_whole": np.r_[np.arange(ROWS - 9), [10**7 + i for i in range(9)]],
    "tied": np.round(NORMAL * 2),
    "single": NORMAL.astype(np.float32),
    "spike": np.where(NORMAL < 0, 0.0, NORMAL),
    "capped": np.minimum(NORMAL, 0.5),
    "skewed": np.exp(5 * NORMAL),
    "far": 1e6 + NORMAL / 1e3,
    "sorted": np.sort(np.exp(NORMAL)),
    "falling": -np.sort(np.exp(4 * NORMAL)),
    "apart": NORMAL + (GROUPS == "c") * 1.5,
    "constant": np.ones(ROWS),
}


def table(scores, groups=GROUPS):
    rng = np.random.default_rng(2)
    chance = 1 / (1 + np.exp(-NORMAL))
    return pl.DataFrame({"s": scores, "y": (rng.random(ROWS) < chance).astype(np.int8), "g": groups})


def frames(made, monkeypatch, **more):
    """The test of all rows at once, and in passes over them."""
    few = eh.outcome_test(made, **ROLES, **more)
    with monkeypatch.context() as patch:
        patch.setattr("evenhand.audits.outcome_test.FEW_ROWS", 0)
        patch.setattr(sketch, "PILOT", 64)
        many = eh.outcome_test(made, **ROLES, **more)
    return few, many


def assert_alike(few, many):
    assert few.findings.provenance["bins"] == many.findings.provenance["bins"]
    for one, other in zip(few.frame.iter_columns(), many.frame.iter_columns(), strict=True):
        if one.dtype.is_float():
            np.testing.assert_allclose(one.to_numpy(), other.to_numpy(), rtol=1e-7, atol=1e-9)
        else:
            assert one.to_list() == other.to_list()


@pytest.mark.parametrize("shape", SHAPES)
def test_edges_and_sums_are_those_of_sorted_rows(shape, monkeypatch):
    assert_alike(*frames(table(SHAPES[shape]), monkeypatch))


@pytest.mark.parametrize("bins", [1, 7, [-0.5, 0.2]])
@pytest.mark.parametrize("kind", ["ranking", "classification"])
def test_any_bins_of_either_kind_are_found(bins, kind, monkeypatch):
    assert_alike(*frames(table(SHAPES["apart"]), monkeypatch, bins=bins, kind=kind))


def test_groups_that_come_late_or_have_no_name_are_counted(monkeypatch):
    late = np.where(np.arange(ROWS) < 2_000, np.where(NORMAL > 0, 1, 2), RNG.choice([1, 2, 3, 4], ROWS))
    made = table(NORMAL, late).with_columns(g=pl.when(pl.col("g") != 4).then(pl.col("g")))
    assert_alike(*frames(made, monkeypatch))
    monkeypatch.setattr(sketch, "FEW_LABELS", 1)  # more than are compared with one after another
    assert_alike(*frames(made, monkeypatch))


def readings(monkeypatch):
    """What is read of the table after its first rows: the columns of each pass."""
    found, real = [], sketch.in_batches
    monkeypatch.setattr(sketch, "in_batches", lambda lazy: found.append(lazy.collect_schema().names()) or real(lazy))
    return found


def in_passes(made, monkeypatch, **more):
    monkeypatch.setattr("evenhand.audits.outcome_test.FEW_ROWS", 0)
    monkeypatch.setattr(sketch, "PILOT", 600)
    monkeypatch.setattr("evenhand.views.tables.BATCH", 500)
    engine = []
    for name in ("_around_mean", "quantiles_within"):
        monkeypatch.setattr(f"evenhand.engine.moments.{name}", lambda *_, name=name: engine.append(name))
    return eh.outcome_test(made, **ROLES, **more)


@pytest.mark.parametrize("bins", [10, [-0.5, 0.2]])
@pytest.mark.parametrize("shape", ["normal", "whole", "spike", "skewed"])
def test_rows_in_no_order_are_read_once(shape, bins, monkeypatch):
    few, found = eh.outcome_test(table(SHAPES[shape]), **ROLES, bins=bins), readings(monkeypatch)
    assert_alike(few, in_passes(table(SHAPES[shape]), monkeypatch, bins=bins))
    assert len(found) == 1


def test_where_edges_lie_elsewhere_than_the_first_rows_suggest_some_rows_are_read_again(monkeypatch):
    made = table(np.r_[NORMAL[:1_500], 1 + np.abs(NORMAL[1_500:]) / 2])
    few, found = eh.outcome_test(made, **ROLES), readings(monkeypatch)
    monkeypatch.setattr(sketch, "BEYOND", 1.0)
    monkeypatch.setattr(sketch, "MARGIN", 0.1)
    assert_alike(few, in_passes(made, monkeypatch))
    assert len(found) == 2


def test_where_the_first_rows_mislead_the_range_is_taken_from_rows_all_over_the_table(monkeypatch):
    few, found = eh.outcome_test(table(SHAPES["sorted"]), **ROLES), readings(monkeypatch)
    monkeypatch.setattr(sketch, "STRIDE", 2)
    assert_alike(few, in_passes(table(SHAPES["sorted"]), monkeypatch))
    assert len(found) == 3  # given up on; some rows; all


def test_where_too_many_rows_would_have_to_be_kept_they_are_counted_in_passes(monkeypatch):
    monkeypatch.setattr(sketch, "MOST_KEPT", -1)
    assert_alike(*frames(table(NORMAL), monkeypatch))
    monkeypatch.undo()
    monkeypatch.setattr(sketch, "MOST_GROUPS", 2)
    assert_alike(*frames(table(NORMAL), monkeypatch))


OUTCOMES = {
    "continuous": NORMAL * 2 + RNG.normal(size=ROWS),
    "floats of two values": (RNG.random(ROWS) < 0.4) * 1.0,
    "five": RNG.integers(10, 15, ROWS),
    "more later": np.r_[np.arange(1_000) % 2, np.arange(ROWS - 1_000) % 7 - 2.5],
    "truth values": RNG.random(ROWS) < 0.3,
}


@pytest.mark.parametrize("outcomes", OUTCOMES)
def test_outcomes_of_any_kind_are_added_up(outcomes, monkeypatch):
    assert_alike(*frames(table(SHAPES["spike"]).with_columns(y=pl.Series(OUTCOMES[outcomes])), monkeypatch))


@pytest.mark.parametrize("dtype", [pl.Categorical, pl.Enum(["a", "b", "c", "unknown", "nobody"])])
def test_categories_need_not_be_read_and_those_without_one_are_unknown(dtype, monkeypatch):
    named = pl.Series(np.where(NORMAL > 2, "unknown", GROUPS))
    made = table(NORMAL, named.set(pl.Series(NORMAL < -1.8), None))
    few, many = frames(made.with_columns(pl.col("g").cast(dtype)), monkeypatch)
    assert_alike(few, many)
    assert_alike(few, eh.outcome_test(made, **ROLES))


@pytest.mark.parametrize("wrong", [None, np.nan])
def test_a_missing_score_far_down_the_table_is_seen(wrong, monkeypatch):
    monkeypatch.setattr(sketch, "PILOT", 64)
    scores = pl.Series([*NORMAL[:-1].tolist(), wrong], strict=False)
    with pytest.raises(eh.EvenhandError, match="missing"):
        eh.outcome_test(table(scores), **ROLES)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
@pytest.mark.parametrize("shape", ["normal", "skewed", "spike", "falling"])
def test_a_part_never_falls_as_the_score_grows(shape, scale):
    scores = np.sort(SHAPES[shape] * scale)
    for some in (scores, scores[:100], scores[-100:], scores[:1]):
        ruler = rulers.Ruler.of(some, whole=False)
        parts = ruler.part(scores)
        assert np.all(np.diff(parts) >= 0)
        assert 0 <= parts.min() <= parts.max() < rulers.PARTS


@pytest.mark.parametrize("rare", [False, True])
def test_the_chance_of_odds_gaps_from_rows_spread_over_the_scores_is_that_of_all_rows(rare, monkeypatch):
    rng, many = np.random.default_rng(5), 12_000
    outcome = (rng.random(many) < (0.05 if rare else 0.5)).astype(float)
    rows = Rows.of(rng.normal(size=many), outcome=outcome, groups=(rng.random(many) < 0.3).astype(int))
    whole = odds.odds_gaps(rows, 1, 0, 0.95, [False, True])
    monkeypatch.setattr(odds, "SPREAD", 2_000)
    monkeypatch.setattr(odds, "FEWEST_SPREAD", 200)
    kept = len(range(many)[odds._spread(many, [int(outcome.sum())])])
    assert kept == (4_000 if rare else 2_000)
    for one, other in zip(odds.odds_gaps(rows, 1, 0, 0.95, [False, True]), whole, strict=True):
        assert (one.estimate, one.low, one.high) == (other.estimate, other.low, other.high)
        assert one.chance == pytest.approx(other.chance, rel=0.1)  # some four errors of its draws
