"""What leaves the machine: labels that try to break a page, and cells too small to be shown."""

import json

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand.report import page as report
from evenhand.report.charts import registry as charts

EVIL = [
    "<script>alert(1)</script>", "]]>", "</script><img src=x onerror=alert(1)>", "\u202eRTL\u202c", "x" * 300, "😀",
    "new\nline", "\x1b[31mred", "line\u2028separator", "${7*7}", "<!--",
]  # fmt: skip
FEW = 10


def draw(seed=0):
    return np.random.default_rng(seed)


@pytest.fixture(scope="module")
def shouted():
    """An audit whose every slice has a hostile name."""
    table = pl.DataFrame({"u": range(220), "v": draw().integers(1, 50, 220), "s": EVIL * 20})
    return eh.inequality(table, unit="u", amount="v", population=None, by="s", interval=None, metrics="gini", rng=1)


def test_a_hostile_label_stays_text_in_the_page(shouted):
    page = report.html(shouted.findings)
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert "&lt;!--" in page


@pytest.mark.parametrize("kind", ["lorenz", "intervals"])
def test_no_label_breaks_a_chart_or_aborts_the_process(shouted, kind, tmp_path):
    assert charts.save(shouted.plot(kind), tmp_path / "chart.svg").read_text().startswith("<svg")


INHERITED = ["constructor", "toString", "__proto__", "hasOwnProperty", "valueOf"]


def drawn_by_pairs():
    table = pl.DataFrame(
        {
            "request": np.repeat(range(10), 10), "item": [f"i{i}" for i in range(10)] * 10, "g": INHERITED * 20,
            "rel": [1, 0] * 50, "score": [float(-i) for i in range(10)] * 10,
        }
    )  # fmt: skip
    return eh.pairwise(table, groups="g", relevance="rel", protected="constructor", versus="__proto__", interval=None)


def drawn_by_sources():
    table = pl.DataFrame({"u": range(100), "v": draw().integers(1, 50, 100), "s": INHERITED * 20})
    return eh.sources(table, unit="u", amount="v", source="s", population=None, interval=None)


@pytest.mark.parametrize(("made", "kind"), [(drawn_by_pairs, "pairs"), (drawn_by_sources, "sources")])
def test_labels_that_every_object_of_javascript_has_are_drawn_like_others(made, kind, tmp_path):
    drawing = charts.save(made().plot(kind), tmp_path / "chart.svg").read_text()
    assert all(label in drawing for label in INHERITED)


def test_a_label_cannot_break_the_lines_of_a_table_or_colour_the_terminal(shouted):
    text = shouted.to_text("table")
    assert "\x1b" not in text
    body = text.splitlines()[4 : 4 + len(EVIL)]
    assert all("gini" in line for line in body)
    assert max(map(len, body)) < 250


def outcomes():
    """Seven rows of a group whose scores reach no further than 0.123456 to 0.876543."""
    score = draw().random(900)
    score[-7:] = np.linspace(0.123456, 0.876543, 7)
    return pl.DataFrame(
        {
            "s": score, "y": draw(1).integers(0, 2, 900), "g": ["a"] * 500 + ["b"] * 393 + ["tiny"] * 7,
            "q": [i % 60 for i in range(900)],
        }
    )  # fmt: skip


@pytest.fixture(scope="module")
def tested():
    return eh.outcome_test(
        outcomes(), score="s", outcome="y", group="g", reference="a", request="q", bins=3, min_units=FEW
    )


def test_no_number_of_a_small_group_survives_an_outcome_test(tested):
    rows = [r for r in tested.findings.rows() if r["group"] == "tiny"]
    assert {"pooled_gap", "spline_gap", "base_rate", "equalized_odds_gap"} <= {r["metric"] for r in rows}
    for row in rows:
        numbers = [row[k] for k in ("estimate", "low", "high", "units", "se", "p", "p_adjusted", "detectable")]
        assert row["note"] == "suppressed"
        assert all(v is None or v != v for v in numbers), row


def test_the_size_of_a_small_group_is_not_in_the_saved_outcome_test(tested):
    saved = json.loads(tested.to_json())["provenance"]
    assert saved["groups"] == {"a": 500, "b": 393, "tiny": "suppressed"}
    assert "left_out" not in saved["scope"], "fewer than ten rows of a group lie outside"
    assert saved["scope"]["set_by"] is None
    curves = json.loads(tested.to_json())["curves"]
    assert "tiny" not in json.dumps(curves.pop("calibration"))
    for points in curves.values():
        at = [i for i, name in enumerate(points["group"]) if name == "tiny"]
        numbers = [column[i] for column in points.values() for i in at if isinstance(column[i], (int, float))]
        assert not numbers


def test_a_counterfactual_hides_the_same_groups(tested):
    found = tested.counterfactual(null_draws=20, rng=1)
    tiny = [r for r in found.findings.rows() if r["group"] == "tiny"]
    assert tiny
    assert {r["note"] for r in tiny} == {"suppressed"}
    assert all(v is None or v != v for r in tiny for v in (r["estimate"], r["p"], r["units"]))


def test_a_recommender_does_not_tell_the_size_of_a_small_group():
    groups = ["a"] * 55 + ["tiny"] * 5
    found = eh.recommender(draw().random((60, 8)), user_groups=groups, top=2, min_units=FEW, rng=1, interval=None)
    assert found.findings.provenance["groups"] == {"a": "suppressed", "tiny": "suppressed"}, "a subtraction would tell"


def test_with_min_units_no_request_of_a_ranking_is_shown_by_itself():
    table = pl.DataFrame(
        {
            "request": np.repeat([f"query{i}" for i in range(20)], 5),
            "rank": [1, 2, 3, 4, 5] * 20,
            "g": ["x", "y", "x", "y", "x"] * 20,
        }
    )
    told = eh.prefix(table, group="g", protected="x", rng=1, interval=None)
    quiet = eh.prefix(table, group="g", protected="x", rng=1, interval=None, min_units=2)
    assert "query7" in told.to_json()
    assert "query7" not in quiet.to_json()
    assert "query7" not in report.html(quiet.findings)
