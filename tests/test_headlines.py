"""The one sentence of every report: what a product manager can repeat, with the numbers of the rows behind it."""

from datetime import date, timedelta

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand.report import page as report
from evenhand.report.charts.registry import KINDS
from evenhand.report.charts.theme import SHAPES
from evenhand.report.words import summary
from evenhand.report.words.sentences import headline_for
from made_findings import findings_of

ARMS = ("arm", "treatment", "control_value", "raw", "chance", "volume_ratio", "p", "p_adjusted")


def arms(estimate, p, **more):
    row = {"arm": "new", "metric": "gini", "estimate": estimate, "low": estimate - 0.02, "high": estimate + 0.02}
    row |= {"treatment": 0.534, "control_value": 0.534 - estimate, "better": "lower", "p": p, "p_adjusted": p, **more}
    found = findings_of("experiment", [row], slices=("arm",), extra=ARMS[1:])
    found.words["amount"] = "views"
    return found


def drawn(findings, kind):
    return [panel.chart.to_dict(validate=False) for panel in KINDS[kind].draw(findings).panels]


@pytest.mark.parametrize(
    ("estimate", "p", "says"),
    [
        (
            -0.142,
            0.005,
            "The spread of views is more even in new than in control: Gini index 0.53 against 0.68 at equal volume.",
        ),
        (
            0.142,
            0.005,
            "The spread of views is less even in new than in control: Gini index 0.53 against 0.39 at equal volume.",
        ),
        (
            -0.01,
            0.6,
            "No statistically significant difference between new and control: Gini index 0.53 against 0.54 at equal volume.",
        ),
    ],
)
def test_an_experiment_says_whether_the_change_made_it_more_even(estimate, p, says):
    told = headline_for(arms(estimate, p))
    assert told.text == says
    assert f"difference of {estimate:+} (95% interval" in told.uncertainty


def test_a_difference_is_not_explained_as_if_it_were_a_level():
    assert all("means" not in said for _, said in summary.glossary(arms(-0.142, 0.005)))


def test_two_saved_results_are_called_by_their_files(tmp_path):
    rng = np.random.default_rng(1)
    for name, sigma in (("monday", 0.5), ("friday", 1.5)):
        log = pl.DataFrame({"author": range(300), "views": rng.lognormal(1, sigma, 300).round(2)})
        result = eh.inequality(log, unit="author", amount="views", population=None, metrics="gini", rng=1)
        (tmp_path / f"{name}.json").write_text(result.to_json())
    found = eh.compare(tmp_path / "friday.json", tmp_path / "monday.json", independent=True)
    one, other = found.frame.select("a", "b").row(0)
    assert found.sentences()[0].startswith(f"Gini index is {one:.4f} in friday and {other:.4f} in monday:")
    assert (
        headline_for(found.findings).text
        == f"The two differ significantly: Gini index is {one:.2f} in friday and {other:.2f} in monday."
    )


def test_two_live_results_are_called_by_the_argument_in_which_they_differ():
    log = pl.DataFrame({"author": range(30), "views": range(30), "likes": [1, 9] * 15})
    call = {"unit": "author", "population": None, "metrics": "gini", "interval": None}
    views, likes = (eh.inequality(log, amount=amount, **call) for amount in ("views", "likes"))
    assert "in amount views and" in eh.compare(views, likes).sentences()[0]


def test_gaps_of_outcomes_that_are_0_or_1_are_told_in_percentage_points():
    table = eh.synthetic.marketplace("ranking", requests=400, bias={"female": 0.5}, rng=7).filter("treated")
    table = table.rename({"outcome": "accepted"})
    call = {"score": "score", "group": "group", "reference": "male", "bins": 3}
    rates = eh.outcome_test(table, outcome="accepted", **call).findings
    gap = next(r for r in rates.rows() if r["metric"] == "pooled_gap" and r["group"] == "female")
    assert headline_for(rates).text.startswith(
        f"At equal score, the accepted rate is {100 * gap['estimate']:.1f} percentage points higher"
    )
    days = eh.outcome_test(table.with_columns(days=pl.col("accepted") * 12), outcome="days", **call).findings
    assert headline_for(days).text.startswith("At equal score, days is ")
    assert "percentage" not in headline_for(days).text


def test_amounts_of_several_kinds_do_not_share_a_sentence():
    log = pl.DataFrame(
        {"u": list(range(200)) * 2, "s": ["a"] * 200 + ["b"] * 200, "stars": [*range(400)], "forks": [5] * 399 + [900]}
    )
    found = eh.inequality(
        log, unit="u", amount=["stars", "forks"], by="s", population=None, metrics="top_share(p=0.1)", interval=None
    )
    assert "stars" in headline_for(found.findings).text
    assert "forks" not in headline_for(found.findings).text


@pytest.fixture(scope="module")
def days():
    rng, first = np.random.default_rng(3), date(2026, 9, 1)
    days = [first + timedelta(d) for d in (3, 0, 1, 2)]
    log = [
        pl.DataFrame(
            {"u": range(60), "s": ["home", "search"] * 30, "v": rng.lognormal(1, 1, 60).round(2), "day": [day] * 60}
        )
        for day in days
    ]
    return eh.inequality(
        pl.concat(log), unit="u", amount="v", by=["day", "s"], population=None, metrics="gini", rng=1
    ).findings


def test_days_are_lines_in_order_of_time(days):
    (spec,) = drawn(days, "intervals")
    line = next(layer for layer in spec["layer"] if layer["mark"]["type"] == "line")
    assert line["encoding"]["x"]["type"] == "temporal"
    seen = [v["x"] for v in spec["data"]["values"] if v["series"] == "home"]
    assert seen == sorted(seen) == [f"2026-09-0{d}" for d in (1, 2, 3, 4)]


@pytest.fixture(scope="module")
def two():
    log = pl.DataFrame({"u": [*range(50)] * 2, "s": ["a"] * 50 + ["b"] * 50, "v": [*range(50), *[1] * 49, 90]})
    return eh.inequality(log, unit="u", amount="v", by="s", population=None, interval=None).findings


@pytest.mark.parametrize("kind", ["lorenz", "top", "lorenz_log", "intervals"])
def test_series_have_a_shape_beside_their_colour(days, two, kind):
    layers = [layer for spec in drawn(days if kind == "intervals" else two, kind) for layer in spec["layer"]]
    shapes = [layer["encoding"]["shape"]["scale"]["range"] for layer in layers if "shape" in layer.get("encoding", {})]
    assert shapes
    assert all(told == list(SHAPES[:2]) for told in shapes)


def test_stretches_of_several_series_differ_in_more_than_colour():
    table = pl.DataFrame({"request": [1] * 6, "rank": range(1, 7), "side": ["a", "b", "c"] * 2})
    found = eh.prefix(table, group="side", metrics="ndjs", interval=None, chance=None).findings
    (spec,) = drawn(found, "strip")
    scale = next(layer["encoding"]["opacity"]["scale"] for layer in spec["layer"] if "opacity" in layer["encoding"])
    assert scale["type"] == "ordinal"
    assert scale["range"] == [1.0, 0.65, 0.3]


def test_what_a_hand_can_move_stands_outside_of_the_picture():
    found = eh.rebalance(
        eh.synthetic.market(20, 8, providers=5, items=40, rng=1),
        top=3,
        providers="provider",
        strength=0.2,
        iterations=5,
        rng=1,
    )
    page = report.html(found.findings)
    assert '<div id="spec-before_after-0-bound"></div>' in page
