"""The recommender study: four recommenders whose bias is known, and what the measures make of them."""

import json
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand.cli import main
from evenhand.errors import EvenhandError
from evenhand.studies.recommender import (
    MISSES,
    SHOWN,
    Case,
    Measured,
    _alike,
    _alike_catalogue,
    _claims_on_groups,
    _claims_on_items,
    study,
)
from evenhand.studies.study import Replicates
from evenhand.synthetic.corpus import RECOMMENDERS, catalogue


@pytest.fixture(scope="module")
def found():
    return study(size=300, seed=3)


def verdict(found, start):
    return next(c.holds for c in found.claims if c.statement.startswith(start))


def test_the_popularity_list_is_the_same_for_all_and_serves_the_minority_worst():
    made = catalogue(400, 200, rng=1)
    shown = eh.recommender(made.scores["popularity"], top=10, interval=None).shown
    assert (shown == shown[0]).all()
    ratio = {
        name: eh.recommender(
            made.scores[name], user_groups=made.groups, protected="minority", relevant=made.relevant, top=10,
            metrics="precision_ratio", interval=None,
        ).frame["estimate"][0]
        for name in RECOMMENDERS
    }  # fmt: skip
    assert min(ratio, key=ratio.get) == "popularity"


def test_tastes_that_do_not_differ_are_served_alike_by_popularity():
    made = catalogue(600, 200, apart=0.0, rng=1)
    found = eh.recommender(
        made.scores["popularity"], user_groups=made.groups, protected="minority", relevant=made.relevant, top=10,
        metrics="precision_ratio", rng=1,
    ).frame.row(0, named=True)  # fmt: skip
    assert found["low"] < 1 < found["high"]


def test_the_study_says_what_does_not_come_out(found):
    assert not verdict(found, "A large MAD shows")
    assert not verdict(found, "A total variation of 0 is desired")
    assert not verdict(found, "Equal distributions give")
    assert not verdict(found, "The maximum of the total variation")
    assert not verdict(found, "An aggregate diversity of 1")
    assert not verdict(found, "The printed formula of ARP")
    assert verdict(found, "A lower precision ratio")
    assert verdict(found, "The debiased recommender")


def test_every_measure_has_a_row_and_what_it_misses(found):
    assert set(MISSES) == set(SHOWN)
    says, misses = found.tables
    assert [row[0] for row in misses.rows] == list(SHOWN)
    assert len(found.claims) == 18
    assert len(says.rows) == len(SHOWN) + 2


def test_figures_draw(found):
    for figure in found.figures:
        assert figure.draw().to_dict()


def test_the_command_prints_it(capsys):
    assert main(["study", "recommender", "--size", "100", "--format", "csv", "--seeds", "1", "--no-progress"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0] == "finding,where,stated,measured,comes out,counts if,in seeds,whose,sample"
    assert len(out.splitlines()) >= 15


def test_too_small_a_catalogue_is_refused():
    with pytest.raises(EvenhandError, match="too few"):
        catalogue(5, 100)


def test_the_same_seed_makes_the_same_catalogue():
    one, two = catalogue(50, 40, rng=5), catalogue(50, 40, rng=5)
    np.testing.assert_array_equal(one.scores["debiased"], two.scores["debiased"])


def planted(values, precision):
    """Measures that are the same in every batch."""
    by_name = {name: {metric: values.get((metric, name), 1.0) for metric in SHOWN} for name in RECOMMENDERS}
    return Replicates(Measured(by_name, precision), [Measured(by_name, precision)] * 4)


def test_every_verdict_says_no_in_a_planted_world():
    served = {name: {"majority": 0.2, "minority": 0.6} for name in RECOMMENDERS}  # the minority is served better
    served["debiased"] = {"majority": 0.9, "minority": 0.9}
    values = {
        ("item_gini", "debiased"): 2.0, ("item_gini", "popularity"): 0.5, ("recommendation_popularity", "debiased"): 0.5, ("exposure_entropy", "popularity"): 3.0,
        ("aggregate_diversity", "random"): 2.0, ("precision_ratio", "popularity"): 0.5, ("precision_ratio", "debiased"): 1.5,
    }  # fmt: skip
    findings = SimpleNamespace(rows=lambda: [{"metric": metric, "chance": 0.1} for metric in SHOWN])
    results = {name: SimpleNamespace(shown=np.ones((3, 4)), findings=findings) for name in RECOMMENDERS}
    reverse = planted(values, served)
    worse = {name: {"majority": 0.9, "minority": 0.1} for name in RECOMMENDERS}
    same = planted({("mad", "popularity"): 0.0, ("exposure_tv", "personal"): 0.9}, worse)
    worlds = [
        _claims_on_groups(reverse, results),
        _claims_on_groups(same, results),
        _claims_on_items(reverse, results),
        [_alike(_alike_catalogue(Case(catalogue(300, 400, rng=1)), 1, apart=0.9), 1)],
    ]
    told = {c.statement for claims in worlds for c in claims if c.holds is False}
    asked = {c.statement for claims in worlds for c in claims}
    assert asked - told == set()


def test_groups_that_are_alike_are_said_to_differ_in_nothing():
    assert _alike(_alike_catalogue(Case(catalogue(200, 100, rng=2)), 2), 2).holds


def scores_of(drawn, path):
    """The personal scores of a catalogue as a table, a tenth of them missing."""
    users, items = drawn.relevant.shape
    user, item = (index.ravel() for index in np.indices((users, items)))
    rows = {
        "reader": [f"u{u}" for u in user],
        "book": item,
        "predicted": drawn.scores["personal"].ravel(),
        "liked": drawn.relevant.ravel(),
        "sex": np.repeat(["m" if g == "majority" else "f" for g in drawn.groups], items),
    }
    pl.DataFrame(rows).sample(fraction=0.9, seed=1).write_parquet(path)
    return ["--data", str(path), "--user", "reader", "--item", "book", "--score", "predicted", "--group", "sex"]


def test_the_same_findings_are_asked_of_scores_of_ones_own(tmp_path, capsys):
    words = [
        "study",
        "recommender",
        *scores_of(catalogue(200, 60, rng=1), tmp_path / "scores.parquet"),
        "--no-progress",
    ]
    assert main([*words, "--relevance", "liked", "--top", "5", "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert len(answer["findings"]) == 18
    assert "Group a is m, group b is f." in answer["setting"]
    assert "for m" in answer["findings"][0]["measured"]
    assert main(words) == 2
    assert "--data needs --relevance as well" in capsys.readouterr().err
    assert main([*words, "--relevance", "liked", "--protected", "x"]) == 2
    assert "--protected x is no label" in capsys.readouterr().err
    assert main([*words, "--relevance", "liked", "--top", "60"]) == 2
    assert "--top 60 does not fit 60 items. Pass 1 to 59." in capsys.readouterr().err
