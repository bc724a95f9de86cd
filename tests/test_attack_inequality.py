"""Hostile acceptance of the inequality path: hidden-case style checks against plain arithmetic."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import evenhand as eh

m = eh.metrics


def undefined(call):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        value = call()
    assert math.isnan(value)
    return [w.message.reason for w in seen if isinstance(w.message, eh.UndefinedWarning)]


def test_gini_of_huge_amounts_is_right():
    small = [0, 1, 3, 10, 10] * 10
    assert m.gini([1e275 * x for x in small]) == pytest.approx(m.gini(small), rel=1e-12)


@pytest.mark.parametrize("name", ["gini", "atkinson", "theil", "hoover", "mean", "top_share"])
def test_amounts_whose_sum_no_float_can_hold_are_refused(name):
    with pytest.raises(eh.EvenhandError, match="adds up to more than a number can hold"):
        getattr(m, name)([1e308, 1e308, 0.0])
    with pytest.raises(eh.EvenhandError, match="adds up to more than a number can hold"):
        getattr(m, name)([1e308, 1e308, 0.0], weights=[1, 1, 1])


@pytest.mark.parametrize("alpha", [-1e-8, 0.0, 1e-8, 0.5, 0.99999999, 1.0])
def test_generalised_entropy_survives_amounts_over_five_hundred_orders_apart(alpha):
    # mean = 1e270 * 3 / 6.5; the two others vanish beside it but their logarithms do not
    found = m.generalized_entropy([1e-270, 1.0, 1e270], alpha=alpha, weights=[0.5, 3, 3])
    logs = [math.log(x) - math.log(1e270 * 3 / 6.5) for x in (1e-270, 1.0, 1e270)]
    shares = [0.5 / 6.5, 3 / 6.5, 3 / 6.5]
    if alpha == 0:
        want = -sum(s * v for s, v in zip(shares, logs, strict=True))
    elif alpha == 1:
        want = logs[2]
    else:
        want = sum(s * math.expm1(alpha * v) for s, v in zip(shares, logs, strict=True)) / (alpha * (alpha - 1))
        if alpha > 0.9:
            want = math.expm1((alpha - 1) * logs[2]) / (alpha * (alpha - 1))
    assert found == pytest.approx(want, rel=1e-7)


def test_generalised_entropy_with_a_zero_is_finite_however_small_a_positive_alpha():
    assert m.generalized_entropy([0, 1], alpha=1e-10) == pytest.approx(5e9, rel=1e-6)
    assert m.generalized_entropy([0, 1], alpha=0) == math.inf
    assert m.generalized_entropy([1, 3], alpha=1e-10) == pytest.approx(m.generalized_entropy([1, 3], alpha=0), rel=1e-6)


@pytest.mark.parametrize("weights", [[0.5, 0.5], [0.25, 0.5]])
def test_corrections_for_a_total_weight_of_one_or_less_are_undefined(weights):
    assert undefined(lambda: m.gini([1, 2], weights=weights, corrected=True)) == ["single_member"]
    assert undefined(lambda: m.herfindahl([1, 2], weights=weights, normalized=True)) == ["single_member"]


@pytest.mark.parametrize(
    "x", [["1", "2"], {1: 5, 2: 7}, {1, 2}, [10**400], np.array(["1", "2"]), "12", b"12"], ids=lambda x: repr(x)[:12]
)
def test_what_is_not_an_array_of_numbers_is_refused(x):
    with pytest.raises(eh.EvenhandError, match="Pass a list or array"):
        m.gini(x)


def test_masked_amounts_are_refused():
    with pytest.raises(eh.EvenhandError, match="Pass a list or array"):
        m.gini(np.ma.array([1, 2, 3], mask=[False, True, False]))


def test_the_error_of_nothing_is_undefined_and_says_why():
    assert undefined(lambda: m.gini_se([])) == ["empty"]
    assert undefined(lambda: m.gini_se([0, 0])) == ["zero_total"]
    assert undefined(lambda: m.top_share_se([], 0.1)) == ["empty"]


def test_a_lorenz_curve_refuses_what_it_cannot_read():
    curve = m.lorenz([1, 2])
    with pytest.raises(eh.EvenhandError):
        curve.at("a")
    with pytest.raises(eh.EvenhandError):
        curve.dominates([1, 2])


def log_of(**columns):
    import polars as pl

    return pl.DataFrame(columns)


def audit(table, **more):
    asked = {"unit": "u", "amount": "x", "population": None, "metrics": ["gini", "mean"], "interval": None, "rng": 1}
    return eh.inequality(table, **(asked | more))


def test_slices_whose_every_amount_is_missing_stand_in_the_order_of_their_labels():
    labels = [f"g{i:02d}" for i in range(12)]
    table = log_of(u=list(range(12)), x=[math.nan] * 11 + [1.0], g=labels, s=["home"] * 12)
    frame = audit(table, by="g", nan_policy="propagate", metrics="gini").frame
    assert frame["g"].to_list() == labels
    found = eh.sources(table, unit="u", amount="x", source="s", by="g", population=None, metrics="gini",
                       interval=None, nan_policy="propagate").frame  # fmt: skip
    assert found["g"].to_list() == labels


@pytest.mark.parametrize("engine", ["polars", "lazy", "pandas", "arrow"])
def test_a_unit_called_nan_is_a_missing_unit_on_every_engine(engine):
    table = log_of(u=[1.0, math.nan, math.nan, 3.0], x=[1, 2, 2, 3])
    table = {"polars": table, "lazy": table.lazy(), "pandas": table.to_pandas(), "arrow": table.to_arrow()}[engine]
    with pytest.raises(eh.EvenhandError, match="unit='u' is missing in 2 rows"):
        audit(table)
    assert audit(table, nan_policy="omit").to_dict()["provenance"]["dropped"] == {"u is missing": 2}


@pytest.mark.parametrize("interval", ["normal", "bootstrap(99)", "percentile(99)"])
@pytest.mark.parametrize("scale", [1e270, 1e-270])
def test_intervals_of_a_mean_scale_with_the_amounts(interval, scale):
    amounts = [1.0, 2.0, 5.0, 9.0, 3.0, 4.0]
    units = list(range(6))
    one = audit(log_of(u=units, x=amounts), interval=interval).frame
    other = audit(log_of(u=units, x=[a * scale for a in amounts]), interval=interval).frame
    for column in ("estimate", "low", "high"):
        assert other[column][0] == pytest.approx(one[column][0], rel=1e-9)
        assert other[column][1] == pytest.approx(one[column][1] * scale, rel=1e-9)


def test_units_that_all_weigh_nothing_are_named_as_such():
    table = log_of(u=[1, 2, 3, 4], x=[1, 2, 3, 4], w=[0.0, 0.0, 1.0, 0.0], g=list("aabb"))
    for interval in (None, "normal", "bootstrap(20)"):
        frame = audit(table, weight="w", by="g", interval=interval).frame
        few = None if interval is None else "few_units"
        assert frame["note"].to_list() == ["zero_weight", "zero_weight", few, few]
        assert frame["estimate"].to_list()[2:] == [0.0, 3.0]


def test_weighted_units_have_no_chance_level():
    weighted = log_of(u=[1, 2], x=[3, 4], w=[0.5, 2.0])
    assert math.isnan(audit(weighted, weight="w", chance="events").frame["chance"][0])


def test_the_size_of_a_suppressed_slice_is_not_in_the_provenance():
    table = log_of(u=list(range(23)), x=list(range(23)), g=["big"] * 20 + ["few"] * 3)
    found = audit(table, by="g", population={"big": 300, "few": 4}, min_units=10).to_dict()["provenance"]
    assert found["population"] == {"big": 300, "few": "suppressed"}
    assert found["plan"]["population"] == {"big": 300, "few": "suppressed"}


@pytest.mark.parametrize("kind", ["bool", "date", "decimal"])
def test_pandas_columns_of_plain_objects_are_read_as_what_they_hold(kind):
    import datetime as dt
    from decimal import Decimal

    pd = pytest.importorskip("pandas")
    labels = {
        "bool": [True, None, False, True],
        "date": [dt.date(2020, 1, 2), None, dt.date(2019, 1, 2), dt.date(2020, 1, 2)],
        "decimal": [Decimal("1.5"), None, Decimal("0.5"), Decimal("1.5")],
    }[kind]
    table = {"u": [1, 2, 3, 4], "x": [1, 2, 3, 4], "g": labels}
    mine = audit(pd.DataFrame(table, dtype=None).astype({"g": object}), by="g").frame
    theirs = audit(log_of(**table), by="g").frame
    assert mine["estimate"].tolist() == theirs["estimate"].to_list()
    assert [str(x) for x in mine["g"][:4]] == [str(x) for x in theirs["g"].to_list()[:4]]


def sizes(result):
    return result.frame["units"].to_list()


def test_a_population_may_hold_plain_text_where_the_table_holds_categories():
    import polars as pl

    table, everyone = log_of(u=["a", "b"], x=[1, 2], h=["k", "m"]), log_of(u=["a", "b", "c"], h=["k", "m", "m"])
    coded = table.with_columns(pl.col("u", "h").cast(pl.Categorical))
    assert sizes(audit(coded, population=everyone, metrics="gini")) == [3]
    assert sizes(audit(coded, population=everyone, metrics="gini", by="h")) == [1, 2]
    coded_too = everyone.with_columns(pl.col("u", "h").cast(pl.Categorical))
    assert sizes(audit(table, population=coded_too, metrics="gini", by="h")) == [1, 2]
    assert sizes(audit(coded.drop("h"), population=coded_too, metrics="gini", by="h")) == [1, 2]


def test_nan_is_missing_in_a_population_too():
    table = log_of(u=[1.0, 2.0], x=[1, 2], g=[1.5, math.nan])
    everyone = log_of(u=[1.0, 2.0, 3.0, math.nan], g=[1.5, math.nan, math.nan, 1.5])
    assert sizes(audit(table, population=everyone, metrics="gini")) == [3]
    assert sizes(audit(table, population=everyone, metrics="gini", by="g")) == [1, 2]
    assert sizes(audit(table.drop("g"), population=everyone, metrics="gini", by="g")) == [1, 2]


@pytest.mark.parametrize("engine", ["polars", "pandas"])
def test_whole_and_broken_ids_are_told_apart_in_words(engine):
    table, everyone = log_of(u=[1, 2], x=[1, 2]), log_of(u=[1.0, 2.0, 3.0])
    if engine == "pandas":
        table, everyone = table.to_pandas(), everyone.to_pandas()
    with pytest.raises(eh.EvenhandError, match="Int64 values in the table and Float64 in population"):
        audit(table, population=everyone)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"metrics": "top_share(p=0.1, p=0.2)"}, "gives p twice"),
        ({"metrics": "gini@3"}, "knows no ranks"),
        ({"metrics": "GINII"}, "Did you mean 'gini'"),
        ({"amount": 5}, "amount=5 is not a column name"),
        ({"unit": ["u"]}, r"unit=\['u'\] is not a column name"),
        ({"weight": ["w"]}, r"weight=\['w'\] is not a column name"),
        ({"by": {"g": 1}}, "is not a column name"),
        ({"population": 10**400}, "population"),
        ({"amount": {"x": 1}}, "is not a column name"),
    ],
    ids=lambda x: repr(x)[:40],
)
def test_a_wrong_call_gets_one_sentence_of_fact(more, said):
    with pytest.raises(eh.EvenhandError, match=said):
        audit(log_of(u=[1, 2], x=[1, 2], g=["a", "b"], w=[1.0, 1.0]), **more)


def test_criteria_refuse_a_cut_ranking_too():
    with pytest.raises(eh.EvenhandError, match="knows no ranks"):
        eh.criteria(log_of(u=[1, 2], x=[1, 2]), unit="u", amount="x", population=None, metrics="gini@3")


def test_a_lazy_table_that_cannot_be_resolved_is_told_of_in_our_words():
    import polars as pl

    with pytest.raises(eh.EvenhandError, match="table cannot be read"):
        audit(log_of(u=[1], x=[1]).lazy().with_columns(pl.col("nope")))


def test_a_seed_sequence_is_a_seed():
    one, two = (audit(log_of(u=[1, 2], x=[1, 2]), rng=np.random.SeedSequence(3)).to_json() for _ in range(2))
    assert one == two


def test_a_file_of_a_header_alone_has_no_rows(tmp_path):
    (tmp_path / "t.csv").write_text("u,x\n")
    with pytest.raises(eh.EvenhandError, match="no rows"):
        audit(tmp_path / "t.csv")


def test_when_one_of_two_files_cannot_be_written_neither_is(tmp_path, capsys):
    from evenhand.cli import main

    (tmp_path / "t.csv").write_text("u,x\na,1\nb,2\n")
    words = ["inequality", str(tmp_path / "t.csv"), "--unit", "u", "--amount", "x", "--population", "none"]
    words += ["-m", "gini", "--interval", "none", "--html", str(tmp_path / "r.html")]
    assert main([*words, "--output", str(tmp_path / "no" / "o.csv")]) == 2
    assert "cannot be written" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["t.csv"]
