"""Two results against each other: right sign, honest level, clear refusals."""

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand.cli import main
from evenhand.uncertainty.difference import difference, holm


def audit(x, **more):
    table = pl.DataFrame({"x": x})
    return eh.inequality(table, unit=None, amount="x", population=None, metrics=["gini", "mean"], rng=1, **more)


def test_the_difference_is_the_first_minus_the_second():
    rng = np.random.default_rng(0)
    found = eh.compare(audit(rng.lognormal(0, 1, 3000)), audit(rng.lognormal(0, 0.5, 3000))).frame
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
    found = eh.compare(audit(x), one).frame
    assert found["note"].to_list() == [None, "absent from b"]
    assert found["p"][0] == 1.0


def test_saved_results_compare_on_the_command_line(tmp_path, capsys):
    audit(np.arange(1, 100)).to_json(tmp_path / "a.json")
    audit(np.arange(1, 50)).to_json(tmp_path / "b.json")
    assert main(["compare", str(tmp_path / "a.json"), str(tmp_path / "b.json"), "--format", "csv"]) == 0
    assert "p_adjusted" in capsys.readouterr().out
    assert main(["compare", str(tmp_path / "a.json"), str(tmp_path / "none.json")]) == 2


@pytest.mark.slow
def test_equal_populations_differ_at_the_nominal_rate():
    rng = np.random.default_rng(3)
    rejected = 0
    for _ in range(400):
        pair = [audit(rng.lognormal(0, 0.7, 400), interval="normal").only("gini") for _ in range(2)]
        rejected += eh.compare(*pair).frame["p"][0] < 0.05
    assert 0.025 < rejected / 400 < 0.085


def test_holm_leaves_undefined_out():
    assert np.isnan(holm([np.nan, 0.01])[0])
    assert holm([np.nan, 0.01])[1] == 0.01
    d = difference((np.array(1.0),) * 3, (np.array(1.0),) * 3, 0.95)
    assert float(d[3]) == 1.0
