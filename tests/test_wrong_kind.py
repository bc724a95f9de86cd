"""Plain functions given things of the wrong kind refuse them in words, and take numpy's own numbers."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import evenhand as eh
from evenhand import metrics as m

LABELS = [1, 0, 0, 1]
SCORES = [[0.9, 0.1], [0.2, 0.8]]

WRONG = {
    "text in place of numbers": lambda: m.kendall_tau_c(["a", "b"], [1, 2]),
    "text that reads as numbers": lambda: m.decompose_sources({"a": ["1", "2"]}),
    "rows of different length": lambda: m.decompose([[1, 2], [3]], ["a", "b"]),
    "groups that are lists": lambda: m.decompose([1, 2], [["a"], ["b"]]),
    "an index that is no name": lambda: m.decompose([1, 2], ["a", "b"], index=5),
    "a protected mapping": lambda: m.ndd(LABELS, protected={}),
    "a protected list of lists": lambda: m.ndd(LABELS, protected=[["a"]]),
    "a normalizer that is an array": lambda: m.ndd(LABELS, protected=1, normalizer=np.zeros((2, 2))),
    "a distance that is a list": lambda: m.pref(LABELS, distance=["nd"], protected=1),
    "a target of text": lambda: m.pref(LABELS, distance="kl", step=2, target={0: "x", 1: "y"}),
    "one number in place of labels of users": lambda: m.mad(SCORES, user_groups=5),
    "labels of users that are lists": lambda: m.mad(SCORES, user_groups=[["a"], ["b"]]),
    "a group that is a number": lambda: m.equalized_odds_gap({"a": 1, "b": [(1, 1, 1)]}),
    "relevance that is a list": lambda: m.target_exposure({"a": [1, 2]}, "log"),
    "relevance that is one number": lambda: eh.attention.cascade(0.5, 0.5).weights(3, relevance=5),
    "shares of different shapes": lambda: eh.distances.nd([], [0.5, 0.5]),
    "a number no float holds": lambda: eh.distances.kl([10**400], [1]),
    "a path that is none": lambda: eh.read.result(None),
    "a run that is a number": lambda: eh.read.trec_run(5),
    "runs that are a number": lambda: eh.read.trec_runs(5),
}


@pytest.mark.parametrize("call", WRONG.values(), ids=WRONG)
def test_what_is_of_the_wrong_kind_is_refused(call):
    with pytest.raises(eh.EvenhandError):
        call()


def test_parameters_may_be_numbers_of_numpy():
    assert m.pref(LABELS * 5, protected=1, step=np.int64(10)) == m.pref(LABELS * 5, protected=1, step=10)
    assert m.gini([1, 2], corrected=np.True_) == m.gini([1, 2], corrected=True)


def test_counts_may_be_numbers_of_numpy():
    table = pl.DataFrame({"u": range(40), "v": range(40), "f": range(1, 41)})
    call = {"unit": "u", "amount": "v", "population": None, "rng": np.int64(1)}
    for by in (eh.log_bins("f", np.int64(3)), eh.quantile_bins("f", np.uint8(3))):
        found = eh.inequality(table, **call, by=by, min_units=np.int64(2), interval=None)
        assert json.loads(found.to_json())["provenance"]["plan"]["min_units"] == 2
    drawn = eh.criteria(table, **call, metrics="gini", draws=np.int64(20))
    assert json.loads(drawn.to_json())["provenance"]["plan"]["draws"] == 20
    rows = table.with_columns(s=pl.col("v") / 40, y=pl.col("u") % 2, g=pl.col("u") // 2 % 2)
    fitted = eh.OutcomeRecalibrator(bins=np.int64(2)).fit(rows["s"], rows["g"], rows["y"])
    assert json.loads(fitted.to_json())["bins"] == 2
    tested = eh.outcome_test(rows, score="s", outcome="y", group="g", bins=2)
    again = tested.counterfactual(folds=np.int64(2), null_draws=np.int64(20), rng=1)
    assert json.loads(again.to_json())["provenance"]["counterfactual"]["null_draws"] == 20


@pytest.mark.parametrize("labels", [pa.array(["a", "b"]), pa.chunked_array([["a"], ["b"]])], ids=["array", "chunked"])
def test_groups_may_be_columns_of_pyarrow(labels):
    assert m.mad(SCORES, user_groups=labels) == m.mad(SCORES, user_groups=["a", "b"])
    assert list(m.decompose([1, 2], labels).groups) == ["a", "b"]


@pytest.mark.parametrize("side", [np.array([-2, -1]), pl.Series([-2, -1]), pd.Series([-2, -1]), range(-2, 0)], ids=type)
def test_several_protected_labels_may_come_in_whatever_holds_them(side):
    labels = [-1, 2, 0, -2, 3]
    table = pl.DataFrame({"request": ["q"] * 5, "item": range(5), "rank": [1, 2, 3, 4, 5], "stance": labels})
    call = {"metrics": "ndd", "interval": None, "chance": None}
    wanted = m.ndd(labels, protected=[-2, -1])
    assert m.ndd(labels, protected=side) == wanted
    assert eh.prefix(table, group="stance", protected=side, **call).frame["estimate"][0] == wanted
    scores = np.eye(5)
    found = eh.recommender(scores, user_groups=labels, protected=side, versus=[0, 2, 3], metrics="mad", interval=None)
    assert found.frame["group"].to_list() == ["-2, -1 vs 0, 2, 3"]
