"""Two results against each other: right sign, honest level, clear refusals."""

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand.cli import main
from evenhand.intervals.difference import difference, holm


def audit(x, **more):
    table = pl.DataFrame({"x": x})
    return eh.inequality(table, unit=None, amount="x", population=None, metrics=["gini", "mean"], rng=1, **more)


def test_the_difference_is_the_first_minus_the_second():
    rng = np.random.default_rng(0)
    pair = audit(rng.lognormal(0, 1, 3000)), audit(rng.lognormal(0, 0.5, 3000))
    found = eh.compare(*pair, independent=True).frame
    gini = found.row(0, named=True)
    assert gini["estimate"] == pytest.approx(gini["a"] - gini["b"])
    assert gini["low"] > 0
    assert gini["p"] < 1e-6
    assert gini["p_adjusted"] >= gini["p"]


def test_results_of_different_questions_are_refused():
    x = [1, 2, 3]
    sliced = eh.inequality(
        pl.DataFrame({"x": x, "s": list("aab")}), unit=None, amount="x", by="s", population=None, interval=None
    )
    with pytest.raises(eh.EvenhandError, match="different questions"):
        eh.compare(audit(x), sliced)
    with pytest.raises(eh.EvenhandError, match="b=3 does not fit"):
        eh.compare(audit(x), 3)


def test_rows_of_one_side_only_are_kept_and_said():
    x = np.arange(1, 200)
    one = audit(x).only("gini")
    found = eh.compare(audit(x), one, independent=True).frame
    assert found["note"].to_list() == [None, "absent from b"]
    assert found["p"][0] == 1.0


def test_saved_results_compare_on_the_command_line(tmp_path, capsys):
    audit(np.arange(1, 100)).to_json(tmp_path / "a.json")
    audit(np.arange(1, 50)).to_json(tmp_path / "b.json")
    words = ["compare", str(tmp_path / "a.json"), str(tmp_path / "b.json"), "--format", "csv"]
    assert main(words) == 0
    assert "may_share_units" in capsys.readouterr().out
    assert main([*words, "--independent"]) == 0
    assert "may_share_units" not in capsys.readouterr().out
    assert main(["compare", str(tmp_path / "a.json"), str(tmp_path / "none.json")]) == 2


def test_a_difference_of_results_that_may_share_units_has_no_interval_and_points_to_experiment():
    rng = np.random.default_rng(1)
    pair = audit(rng.lognormal(0, 1, 500)), audit(rng.lognormal(0, 0.5, 500))
    found = eh.compare(*pair)
    assert found.frame["note"].str.contains("may_share_units").all()
    assert found.frame.select(pl.col("low", "high", "p", "p_adjusted").is_nan().all()).row(0) == (True,) * 4
    assert found.frame["estimate"].to_list() == eh.compare(*pair, independent=True).frame["estimate"].to_list()
    assert "eh.experiment" in found.sentences()[-1]
    assert pair[0].compare(pair[1]).frame["p"].is_nan().all()
    assert not pair[0].compare(pair[1], independent=True).frame["p"].is_nan().any()


def test_without_an_error_on_both_sides_there_is_no_p():
    x = np.random.default_rng(1).lognormal(0, 1, 100)
    other_level = eh.compare(audit(x), audit(x * 2, level=0.9), independent=True).frame
    assert other_level["note"].str.contains("other_level").all()
    assert other_level["p"].is_nan().all()
    without = eh.compare(audit(x), audit(x, interval=None), independent=True).frame
    assert without["p"].is_nan().all()
    alone = eh.compare(audit(x), audit([3.0]), independent=True).frame
    assert alone["p"].is_nan().all()


@pytest.mark.slow
def test_equal_populations_differ_at_the_nominal_rate():
    rng = np.random.default_rng(3)
    rejected = 0
    for _ in range(400):
        pair = [audit(rng.lognormal(0, 0.7, 400), interval="normal").only("gini") for _ in range(2)]
        rejected += eh.compare(*pair, independent=True).frame["p"][0] < 0.05
    assert 0.025 < rejected / 400 < 0.085


def test_holm_leaves_undefined_out():
    assert np.isnan(holm([np.nan, 0.01])[0])
    assert holm([np.nan, 0.01])[1] == 0.01
    d = difference((np.array(1.0),) * 3, (np.array(1.0),) * 3, 0.95)
    assert float(d[3]) == 1.0
