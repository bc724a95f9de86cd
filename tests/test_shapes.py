"""The shapes that pictures are made of: what a field is called says how it is drawn, and what is absent is not drawn."""

import json
import math

import pytest

from evenhand.findings import COLUMNS, Findings
from evenhand.report.charts.registry import KINDS, draw, kinds_for
from evenhand.report.charts.shapes import Axis, cloud, in_rows, joined, lines, squares
from made_findings import HOSTILE


def layers(panel):
    spec = panel.chart.to_dict()
    return spec.get("layer", [spec])


def marks(panel):
    return [part["mark"] if isinstance(part["mark"], str) else part["mark"].get("style", part["mark"]["type"])
            for part in layers(panel)]  # fmt: skip


def test_only_fields_that_hold_something_are_drawn():
    bare = in_rows([{"label": "a", "x": 1.0, "low": math.nan, "chance": None}], "dot", x=Axis(), tips={})
    assert marks(bare) == ["point"]
    whole = {"label": "a", "x": 1.0, "low": 0.5, "high": 2.0, "chance": 0.4, "ideal": 0.0, "text": "1", "why": "no"}
    assert marks(in_rows([whole], "dot", x=Axis(), tips={})) == [
        "ideal",
        "range",
        "chance",
        "point",
        "halo",
        "aside",
        "value",
    ]


def test_an_interval_is_a_whisker_on_a_bar_and_the_bar_itself_in_a_span():
    row = {"label": "a", "x": 1.0, "low": 0.5, "high": 2.0}
    assert marks(in_rows([row], "bar", x=Axis(), tips={})) == ["bar", "whisker"]
    assert marks(in_rows([row], "span", x=Axis(), tips={})) == ["bar"]


def test_a_line_between_two_numbers_is_drawn_once_and_never_to_a_number_that_is_not_there():
    panel = joined(["a", "b"], ("of one", [0.1, 0.2]), ("of two", [0.3, math.nan]), x=Axis(), tips={})
    spec = panel.chart.to_dict()
    links = next(part for part in spec["layer"] if part["mark"].get("style") == "link")
    assert [row["label"] for row in links["data"]["values"]] == ["a"]


def test_every_layer_of_a_line_has_the_same_legend_or_none_is_drawn():
    rows = [{"series": s, "x": x, "y": x, "low": 0.0, "high": 1.0, "level": 0.5} for s in "ab" for x in (0.1, 0.2)]
    panel = lines(rows, x=Axis(), y=Axis(), tips={}, series=["a", "b"], legend="letters")
    legends = [part["encoding"]["color"]["legend"] for part in layers(panel)]
    assert len(legends) == 4
    assert all(legend["title"] == "letters" for legend in legends)


def test_points_that_are_not_sure_are_hollow_and_without_an_interval():
    rows = [{"x": x, "y": x, "low": 0.0, "high": 1.0, "sure": x > 0} for x in (0.0, 1.0, 2.0)]
    *_, last = layers(lines(rows, x=Axis(), y=Axis(), tips={}, line=False))
    assert last["mark"]["filled"] is False
    ranges = [
        part
        for part in layers(lines(rows, x=Axis(), y=Axis(), tips={}, line=False))
        if part["mark"].get("style") == "range"
    ]
    assert [len(part["data"]["values"]) for part in ranges] == [2]


def test_more_series_than_colours_are_a_crowd():
    names = [f"s{i}" for i in range(12)]
    rows = [{"series": s, "x": 1.0, "y": float(i)} for i, s in enumerate(names)]
    spec = json.dumps(lines(rows, x=Axis(), y=Axis(), tips={}, series=names).chart.to_dict())
    assert '"crowd"' in spec
    assert '"color"' not in spec


def test_a_cloud_names_few_points_and_squares_carry_their_numbers():
    rows = [{"label": f"p{i}", "x": float(i), "y": 0.0} for i in range(30)]
    assert len(layers(cloud(rows[:5], x=Axis(), y=Axis(), tips={}))) == 2
    assert len(layers(cloud(rows, x=Axis(), y=Axis(), tips={}))) == 1
    cell = [{"label": "a", "column": "b", "strength": 0.5, "text": "0.50"}]
    assert "0.50" in json.dumps(squares(cell, down=["a"], across=["b"], titles=(None, None), tips={}).chart.to_dict())


def curve_findings(kind):
    """Points of a curve in which every name is hostile."""
    who = [HOSTILE, "a.b[0]"]
    held = {
        "exposure": {
            "group": who, "exposure": [0.7, 0.3], "low": [0.6, 0.2], "high": [0.8, 0.4], "target": [0.5, 0.5],
            "items": [3, 4], "relevance": [0.4, 0.6],
        },
        "prefix": {
            "group": [HOSTILE] * 2, "rank": [1, 2], "share": [1.0, 0.5], "overall": [0.4, 0.4], "low": [0.0, 0.0],
            "high": [1.0, 1.0],
        },
        "strip": {"request": ["q"] * 2, "rank": [1, 2], "group": who},
        "differences": {
            "item": who, "versus": [HOSTILE] * 2, "protected": ["a.b[0]"] * 2, "versus_share": [0.1, 0.2],
            "protected_share": [0.2, 0.1],
        },
        "stability": {
            "metric": ["awrf"] * 2, "system": who, "best": [1, 1], "worst": [2, 2], "mean": [1.5, 1.5], "first": [1, 1],
            "settings": [2, 2],
        },
    }  # fmt: skip
    curve = {"relevance": "exposure"}.get(kind, kind)
    return Findings("made", "Who?", (), {name: [] for name in COLUMNS}, {curve: held[curve]}, charts=(kind,))


@pytest.mark.parametrize("kind", ["exposure", "relevance", "prefix", "strip", "differences", "stability"])
def test_words_of_the_data_are_values_and_never_fields_in_pictures_of_points(kind):
    found = curve_findings(kind)
    assert [k.name for k in kinds_for(found)] == [kind]
    spec = json.dumps(draw(found, kind).to_dict(), ensure_ascii=False)
    assert json.dumps(HOSTILE)[1:-1].split(" ")[0] in spec
    assert f'"field": {json.dumps(HOSTILE)}' not in spec
    assert '"field": "a.b[0]"' not in spec


def test_a_kind_says_what_it_misses():
    empty = Findings("made", "Who?", (), {name: [] for name in COLUMNS})
    without = [name for name, kind in KINDS.items() if not kind.problem(empty)]
    assert set(without) <= {"intervals"}
