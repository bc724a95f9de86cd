"""What an intruder, a damaged file or a gate met in a trial of the nightly path, each as a rule."""

import json

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand.cli import main


def amounts(seed, units=24):
    return np.random.default_rng(seed).integers(10, 900, units)


@pytest.fixture
def periods_of_units():
    rows = [(f"u{i}", int(v), arm) for arm, seed in (("control", 1), ("later", 2)) for i, v in enumerate(amounts(seed))]
    return pl.DataFrame(rows, schema=["author", "views", "arm"], orient="row")


def test_parts_of_a_change_are_rounded_as_the_metric_itself(periods_of_units):
    call = {"unit": "author", "amount": "views", "arm": "arm", "population": None, "min_units": 10, "rng": 1}
    frame = eh.explain(periods_of_units, **call).frame.filter(pl.col("note").fill_null("") != "suppressed")
    for column in ("estimate", "low", "high"):
        steps = frame[column].drop_nans().to_numpy() / 0.05  # at least one over the 24 units
        np.testing.assert_allclose(steps, steps.round(), atol=1e-9)


@pytest.fixture
def groups_of_units():
    sizes = {"big": 150, "mid": 40, "tiny": 4}
    rows = [(f"{g}{i}", g, "fm"[i % 2], int(v)) for g, n in sizes.items() for i, v in enumerate(amounts(3, n))]
    return pl.DataFrame(rows, schema=["author", "g", "sex", "views"], orient="row")


def test_a_suppressed_slice_fails_a_gate_only_where_every_rule_must_be_shown_to_hold(groups_of_units):
    call = {"unit": "author", "amount": "views", "population": None, "by": "g", "metrics": "gini", "rng": 1}
    result = eh.inequality(groups_of_units, **call, min_units=10)
    for inconclusive, passed in (("estimate", True), ("pass", True), ("fail", False)):
        checks = result.check("gini <= 0.9", inconclusive=inconclusive)
        assert checks.passed is passed
        assert "g=tiny: suppressed" in str(checks)
        assert not checks.doubt(inconclusive)


def test_a_label_writes_no_lines_into_the_log_of_a_build(groups_of_units):
    table = groups_of_units.with_columns(g=pl.col("g").replace("mid", "x\n::error file=a::forged\npass: all"))
    result = eh.inequality(table, unit="author", amount="views", population=None, by="g", metrics="gini", interval=None)
    lines = str(result.check("gini <= 0.1")).splitlines()
    assert all(line.startswith(("pass: gini", "FAIL: gini")) for line in lines)


def test_labels_of_suppressed_cells_are_in_no_record_of_the_population(groups_of_units):
    sizes = {("big", "f"): 80, ("big", "m"): 80, ("mid", "f"): 25, ("mid", "m"): 25, ("tiny", "f"): 3, ("tiny", "m"): 4}
    result = eh.inequality(
        groups_of_units,
        unit="author",
        amount="views",
        population=sizes,
        by=["g", "sex"],
        metrics="gini",
        min_units=10,
        rng=1,
    )
    assert "tiny" not in result.to_json()


def test_an_experiment_without_an_effect_says_so_after_a_comma(periods_of_units):
    table = periods_of_units.with_columns(author=pl.col("author") + pl.col("arm"))
    result = eh.experiment(
        table, unit="author", amount="views", arm="arm", randomized="author", population=None, metrics="gini", rng=1
    )
    assert "), not statistically significant." in result.sentences()[0]


@pytest.mark.parametrize("day", ["2025-13-45", "2025-02-30"])
def test_a_day_that_no_calendar_has_is_named_as_such(day):
    table = pl.DataFrame({"u": ["a", "b"], "d": ["2025-01-01", day]})
    with pytest.raises(eh.EvenhandError, match="'d' holds 1 texts that are none"):
        eh.inequality(table, unit="u", amount=None, population=None, by=eh.periods("d"))


def test_an_empty_table_of_selections_makes_a_report(tmp_path):
    table = pl.DataFrame({"g": pl.Series([], dtype=pl.String), "a": pl.Series([], dtype=pl.Int64)})
    eh.impact(table, group="g", selected="a").report(tmp_path / "r.html")
    assert (tmp_path / "r.html").stat().st_size > 0


def test_rows_without_a_date_and_the_period_that_is_checked_are_named(tmp_path, capsys):
    days = ["2025-01-03", "2025-02-03", None] * 8
    table = pl.DataFrame({"u": [f"u{i % 7}" for i in range(24)], "v": range(24), "d": days})
    table.write_csv(tmp_path / "t.csv")
    plan = 'audit = "inequality"\ntable = "t.csv"\nunit = "u"\namount = "v"\npopulation = "none"\nmetrics = "gini"\nrng = 1\n'
    (tmp_path / "p.toml").write_text(plan)
    words = ["run", str(tmp_path / "p.toml"), "--history", str(tmp_path / "h.parquet"), "--date", "d"]
    assert main([*words, "--check", "gini <= 0.99"]) == 0
    err = capsys.readouterr().err
    assert "rows without d are in no period and were left out" in err
    assert "checks are of the last, 2025-02-01" in err


@pytest.fixture
def saved(tmp_path):
    pl.DataFrame({"u": list("aabbc"), "v": [3, 1, 4, 1, 5]}).write_csv(tmp_path / "log.csv")
    eh.inequality(
        str(tmp_path / "log.csv"), unit="u", amount="v", population=None, metrics="gini", rng=1
    ).to_json(tmp_path / "r.json")  # fmt: skip
    return tmp_path / "r.json"


EDITS = {
    "no name": lambda facts: facts["inputs"][0].pop("name"),
    "no role": lambda facts: facts["inputs"][0].pop("role"),
    "inputs are a text": lambda facts: facts.update(inputs="x"),
    "inputs are texts": lambda facts: facts.update(inputs=["x"]),
    "a name that is a number": lambda facts: facts["inputs"][0].update(name=3),
    "a reading that is a text": lambda facts: facts.update(reading="x"),
    "a counterfactual that is a number": lambda facts: facts.update(counterfactual=3),
    "a plan with an unknown key": lambda facts: facts["plan"].update(nonsense=1),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_a_damaged_record_of_inputs_is_refused_in_words(saved, edit, capsys):
    data = json.loads(saved.read_text())
    edit(data["provenance"])
    saved.write_text(json.dumps(data))
    assert main(["verify", str(saved)]) == 2
    err = capsys.readouterr().err
    assert "fault in evenhand" not in err
    assert "Pass the file as result.to_json(path) wrote it." in err


@pytest.mark.parametrize("edit", [{"rows": 77}, {"bytes": 77}, {"sha256": None}], ids=str)
def test_a_record_that_its_input_contradicts_is_found(saved, edit, capsys):
    data = json.loads(saved.read_text())
    data["provenance"]["inputs"][0].update(edit)
    saved.write_text(json.dumps(data))
    assert main(["verify", str(saved)]) == 1
    assert "Another input: table" in capsys.readouterr().out
