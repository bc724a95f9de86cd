"""A table of rankings is checked before anything is measured; every problem at once, in words."""

from __future__ import annotations

import polars as pl
import pytest

import evenhand as eh
from evenhand import EvenhandError
from evenhand.sources.rankings import open_rankings, ranking_table
from ranked_tables import ENGINES, table

engines = pytest.mark.parametrize("engine", ENGINES)
SERP = table({"zoo": ["con", "pro", "con"], "tax": ["pro", "con"]})


def view_rankings(frame, **roles):
    return open_rankings(ranking_table(frame), **roles)


def rows(view, *columns):
    frame = view.engine.cells(view.sql).frame
    return frame.sort("request", "place").select(columns or ["request", "place"]).rows()


@engines
def test_ranks_are_taken_as_they_are(engine):
    view = view_rankings(ENGINES[engine](SERP), carry={"group": '"stance"'})
    assert rows(view, "request", "place", "group") == [
        ("tax", 1, "pro"),
        ("tax", 2, "con"),
        ("zoo", 1, "con"),
        ("zoo", 2, "pro"),
        ("zoo", 3, "con"),
    ]
    assert (view.rows, view.rankings, view.gaps, view.ties, view.ordered_by) == (5, 2, 0, 0, "rank")


@engines
def test_scores_order_where_there_is_no_rank(engine):
    scored = SERP.drop("rank").with_columns(score=pl.Series([0.1, 0.3, 0.2, 5.0, 6.0]))
    view = view_rankings(ENGINES[engine](scored), score="score")
    assert [item for _, _, item in rows(view, "request", "place", "item")] == [
        "tax-2",
        "tax-1",
        "zoo-2",
        "zoo-3",
        "zoo-1",
    ]
    assert view.ordered_by == "score"


@engines
def test_ties_are_refused_or_kept_in_the_order_of_the_rows(engine):
    tied = SERP.with_columns(rank=pl.Series([1, 1, 2, 1, 2]))
    with pytest.raises(
        EvenhandError, match=r"rank='rank' has ties in 1 of 2 rankings \(first: request 'zoo', rank 1\)"
    ):
        view_rankings(ENGINES[engine](tied))
    view = view_rankings(ENGINES[engine](tied), ties="input_order")
    assert [item for _, item in rows(view, "place", "item")] == ["tax-1", "tax-2", "zoo-1", "zoo-2", "zoo-3"]
    assert view.ties == 2


@engines
def test_tied_scores_keep_the_order_of_the_rows_on_request(engine):
    tied = SERP.drop("rank").with_columns(score=pl.Series([1.0, 2.0, 2.0, 1.0, 1.0]))
    view = view_rankings(ENGINES[engine](tied), score="score", ties="input_order")
    assert [item for _, item in rows(view, "place", "item")] == ["tax-1", "tax-2", "zoo-2", "zoo-3", "zoo-1"]


def test_breaking_ties_leaves_the_empty_ranks_of_other_rankings():
    frame = pl.DataFrame({"request": ["a", "a", "b", "b"], "item": ["x", "y", "x", "y"], "rank": [1, 1, 1, 3]})
    view = view_rankings(frame, ties="input_order")
    assert rows(view) == [("a", 1), ("a", 2), ("b", 1), ("b", 3)]


def test_empty_ranks_stay_empty_and_are_counted():
    view = view_rankings(SERP.with_columns(rank=pl.Series([1, 2, 5, 1, 2])))
    assert rows(view)[-1] == ("zoo", 5)
    assert view.counts()["rankings_with_empty_ranks"] == 1


@engines
def test_an_item_listed_twice_is_refused(engine):
    twice = SERP.with_columns(item=pl.lit("same"))
    with pytest.raises(
        EvenhandError, match=r"2 of 2 rankings list an item twice \(first: request 'tax', item 'same'\)"
    ):
        view_rankings(ENGINES[engine](twice))
    assert view_rankings(ENGINES[engine](twice), item=None).rankings == 2


def test_all_problems_are_told_at_once():
    with pytest.raises(EvenhandError) as caught:
        view_rankings(SERP, request="reqest", item="itm", rank="rnk")
    said = str(caught.value)
    for part in ("Did you mean 'request'?", "Did you mean 'item'?", "Did you mean 'rank'?", "pass score="):
        assert part in said


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rank": pl.Series([0, 1, 2, 0, 1])}, "goes down to 0, but 1 is the best rank. Add 1 to it"),
        ({"rank": pl.Series([-1, 1, 2, 1, 2])}, "goes down to -1"),
        ({"rank": pl.Series([1.5, 1, 2, 1, 2])}, "is no whole number in 1 rows"),
        ({"rank": pl.Series([None, 1, 2, 1, 2])}, "is missing in 1 of 5 rows"),
        ({"rank": pl.Series([float("nan"), 1, 2, 1, 2])}, "is missing in 1 of 5 rows"),
        ({"rank": pl.Series(["a", "b", "c", "d", "e"])}, "holds text, not numbers"),
        ({"request": pl.Series([None, "a", "b", "c", "d"])}, "request='request' is missing"),
        ({"rank": pl.Series([11, 12, 13, 21, 22])}, "does not start at 1 in 2 of 2 rankings"),
        ({"rank": pl.Series([1, 2, 999_999, 1, 2])}, "goes far beyond the number of items"),
    ],
)
def test_impossible_values_are_refused_in_words(change, words):
    with pytest.raises(EvenhandError, match=words):
        view_rankings(SERP.with_columns(**change))


def test_rows_without_a_rank_are_left_out_and_counted_on_request():
    view = view_rankings(SERP.with_columns(rank=pl.Series([1, 2, None, 1, 2])), nan_policy="omit")
    assert (rows(view), view.dropped) == ([("tax", 1), ("tax", 2), ("zoo", 1), ("zoo", 2)], {"rank is missing": 1})


@pytest.mark.parametrize(
    ("role", "values", "words"),
    [
        ("weight", [-1.0] * 5, "weight='weight' is negative"),
        ("probability", [float("inf")] * 5, "probability='probability' is infinite"),
        ("score", [float("nan")] * 5, "score='score' is missing in 5 of 5"),
    ],
)
def test_weights_probabilities_and_scores_are_checked(role, values, words):
    with pytest.raises(EvenhandError, match=words):
        view_rankings(SERP.with_columns(pl.Series(role, values)), **{role: role})


def test_slices_and_systems_tell_rankings_apart():
    both = pl.concat([SERP.with_columns(engine=pl.lit(e), run=pl.lit("r")) for e in ("x", "y")])
    view = view_rankings(both, by=["engine"], system="run")
    assert (view.rankings, view.slices, view.slice_names) == (4, ("by_0", "system"), ("engine", "system"))


def test_a_slice_column_may_not_hide_a_column_of_the_result():
    with pytest.raises(EvenhandError, match="by='metric' is also a column of every result"):
        view_rankings(SERP.with_columns(metric=pl.lit(1)), by=["metric"])


def test_unknown_rules_are_refused():
    with pytest.raises(EvenhandError, match="ties='first' is unknown"):
        view_rankings(SERP, ties="first")
    with pytest.raises(EvenhandError, match="nan_policy='propagate' does not fit rankings"):
        view_rankings(SERP, nan_policy="propagate")


def test_the_callers_table_is_not_touched():
    before = SERP.clone()
    view_rankings(SERP, by=["stance"])
    assert SERP.equals(before)


def test_pandas_columns_of_plain_objects_hold_ranks_and_labels():
    import pandas as pd

    plain = {"request": ["q"] * 4, "item": [1, 2, 3, 4], "rank": [1, 2, 3, 4], "stance": [1, 0, None, 1]}
    call = {"group": "stance", "protected": 1, "metrics": "ndd", "rng": 1}
    mine = eh.prefix(pd.DataFrame(plain, dtype=object), **call).frame["estimate"][0]
    assert mine == eh.prefix(pl.DataFrame(plain), **call).frame["estimate"][0]
