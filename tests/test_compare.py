"""Two results against each other: right sign, honest level, clear refusals."""

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand.cli import main
from evenhand.intervals.kinds import difference, holm


def audit(x, **more):
    table = pl.DataFrame({"x": x})
    return eh.inequality(table, unit=None, amount="x", population=None, metrics=["gini", "mean"], rng=1, **more)


def test_the_difference_is_the_second_minus_the_first():
    rng = np.random.default_rng(0)
    pair = audit(rng.lognormal(0, 1, 3000)), audit(rng.lognormal(0, 0.5, 3000))
    found = eh.compare(*pair, independent=True).frame
    gini = found.row(0, named=True)
    assert gini["estimate"] == pytest.approx(gini["b"] - gini["a"])
    assert gini["high"] < 0
    assert gini["p"] < 1e-6
    assert gini["p_adjusted"] >= gini["p"]


def test_sentences_claims_and_methods_share_one_sign():
    rng = np.random.default_rng(0)
    even, uneven = audit(rng.lognormal(0, 0.1, 3000)), audit(rng.lognormal(0, 1, 3000))
    both = [eh.compare(even, uneven, independent=True), even.compare(uneven, independent=True)]
    for result in both:
        gini = result.frame.row(0, named=True)
        assert result.sentences()[0].startswith(
            f"Gini index is {gini['a']:.4f} in a and {gini['b']:.4f} in b: a difference of +{gini['estimate']:.4f}"
        )
        assert gini["estimate"] > 0
        assert (result.claims[0].text, result.claims[0].direction) == ("Gini index is higher in b than in a", "higher")
        assert [c.p_adjusted for c in result.claims] == result.frame["p_adjusted"].to_list()
    assert "2 of 2 numbers differ significantly" in both[0].headline


def test_no_claim_is_made_where_nothing_was_tested_or_nothing_differs():
    rng = np.random.default_rng(1)
    one, other = audit(rng.lognormal(0, 1, 300)), audit(rng.lognormal(0, 1, 300))
    assert eh.compare(one, other).claims == ()
    alike = eh.compare(one, other, independent=True)
    assert [(c.made, c.direction) for c in alike.claims] == [(False, "none")] * 2
    assert alike.headline.startswith("No statistically significant difference")
    assert all("not statistically significant" in sentence for sentence in alike.sentences())


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
    for _ in range(120):
        pair = [audit(rng.lognormal(0, 0.7, 400), interval="normal").only("gini") for _ in range(2)]
        rejected += eh.compare(*pair, independent=True).frame["p"][0] < 0.05
    assert 0 < rejected / 120 <= 0.1


def test_holm_leaves_undefined_out():
    assert np.isnan(holm([np.nan, 0.01])[0])
    assert holm([np.nan, 0.01])[1] == 0.01
    d = difference((np.array(1.0),) * 3, (np.array(1.0),) * 3, 0.95)
    assert float(d[3]) == 1.0
