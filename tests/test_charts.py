"""Charts from Findings: what is drawn, that it stays readable and small, and that errors name what would work."""

import json
import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand import metrics
from evenhand.errors import EvenhandError
from evenhand.findings import Findings
from evenhand.metrics.inequality import FINE, corners, stops
from evenhand.report.charts.drawing import Kind, Panel, Picture, records
from evenhand.report.charts.inequality import Curve, curves
from evenhand.report.charts.registry import KINDS, draw, kinds_for, picture, save
from evenhand.report.charts.theme import SIZES
from made_findings import (
    HOSTILE,
    SOURCES,
    amounts,
    audited,
    binned,
    decomposed,
    findings_of,
    hostile,
    sources,
    undefined,
)

SHAPES = {
    "three slices": lambda: audited().findings,
    "no slices": lambda: audited(None).findings,
    "one slice": lambda: audited(("only",)).findings,
    "200 slices": lambda: audited(tuple(f"s{i}" for i in range(200)), units=50).findings,
    "one unit": lambda: audited(("a", "b"), units=1, interval=None).findings,
    "undefined": undefined,
    "sources": sources,
    "decompose": decomposed,
    "decompose by slice, multiplicative": lambda: decomposed(adding=False, slices=("a", "b")),
    "bins": binned,
    "hostile": hostile,
    "no rows": lambda: findings_of("inequality", [{"metric": "gini", "note": "empty"}]),
}


def data_of(chart):
    """All rows of data in a chart, whatever layer they are in."""
    found = []

    def walk(part):
        if isinstance(part, dict):
            found.extend(part.get("data", {}).get("values", []) if isinstance(part.get("data"), dict) else [])
            for rows in part.get("datasets", {}).values():
                found.extend(rows)
            for key, inner in part.items():
                if key not in ("data", "datasets"):
                    walk(inner)
        elif isinstance(part, list):
            for inner in part:
                walk(inner)

    walk(chart if isinstance(chart, dict) else chart.to_dict(validate=False))
    return found


@pytest.mark.parametrize("shape", SHAPES)
def test_every_kind_that_fits_draws_valid_json_with_few_points(shape):
    found = SHAPES[shape]()
    kinds = kinds_for(found)
    assert kinds, "something can always be drawn"
    for kind in kinds:
        drawn = kind.draw(found)
        for panel in drawn.panels:
            spec = panel.chart.to_dict()  # Altair checks it against the schema of Vega-Lite
            assert json.dumps(spec, allow_nan=False)
            assert len(data_of(spec)) <= 2 * SIZES.points, kind.name
        assert len({len(column) for column in drawn.table.values()}) == 1, "a table of one length"
        assert all(panel.height <= 1600 for panel in drawn.panels), kind.name


def test_the_kinds_are_those_that_the_audit_names_in_its_order():
    found = audited()
    assert found.kinds == [
        "lorenz",
        "top",
        "lorenz_log",
        "lorenz_annotated",
        "intervals",
        "scatter",
    ]  # no slice holds bins
    turned = replace(found.findings, charts=("intervals", "lorenz"))
    assert [kind.name for kind in kinds_for(turned)] == ["intervals", "lorenz"]
    assert picture(turned)[0].name == "intervals"


def test_findings_that_name_no_kinds_have_those_that_fit_any_result():
    old = replace(audited().findings, charts=())
    assert [kind.name for kind in kinds_for(old)] == ["intervals", "scatter"]
    assert picture(old, "lorenz")[0].name == "lorenz", "one that is asked for by name draws what is there"


def test_the_default_is_the_chart_made_for_the_audit():
    assert picture(audited().findings)[0].name == "lorenz"
    assert picture(sources())[0].name == "sources"
    assert picture(decomposed())[0].name == "decomposition"
    assert picture(findings_of("something_new", [{"metric": "x", "estimate": 1.0}]))[0].name == "intervals"


def test_an_unknown_kind_names_the_nearest_and_the_known_ones():
    with pytest.raises(EvenhandError, match=r"kind='lorentz' is not .* Did you mean 'lorenz'\? Known: .*intervals"):
        draw(audited().findings, "lorentz")


def test_a_kind_of_another_audit_says_why_and_what_would_work():
    with pytest.raises(
        EvenhandError,
        match=r"kind='sources' cannot draw this result: it is not a chart of inequality.*Kinds that can: lorenz",
    ):
        draw(audited().findings, "sources")


def test_a_result_without_curves_has_no_lorenz_chart():
    with pytest.raises(EvenhandError, match="has no Lorenz curve"):
        draw(undefined(), "lorenz")


def test_every_kind_has_a_title_and_a_docstring():
    for kind in KINDS.values():
        assert isinstance(kind, Kind)
        assert kind.title
        assert kind.draw.__doc__, kind.name


def test_names_of_columns_are_never_fields_or_expressions():
    spec = json.dumps(draw(hostile(), "lorenz").to_dict(), ensure_ascii=False)
    assert '"field": "series"' in spec
    assert f'"field": {json.dumps(HOSTILE)}' not in spec
    assert HOSTILE not in "".join(str(t) for t in _all(json.loads(spec), "calculate"))


def _all(part, key):
    if isinstance(part, dict):
        return ([part[key]] if key in part else []) + [x for v in part.values() for x in _all(v, key)]
    return [x for v in part for x in _all(v, key)] if isinstance(part, list) else []


def test_nan_and_infinity_become_nothing():
    values = records({"x": x} for x in [1.0, math.nan, math.inf, np.float64(2)]).to_dict()["values"]
    assert [row["x"] for row in values] == [1.0, None, None, 2.0]


def test_the_lorenz_chart_passes_through_the_polygon():
    found = audited(None, units=40).findings
    mine = curves(found)[0]
    for p in (0.1, 0.5, 0.9, 0.99):
        assert mine.at(p) == pytest.approx(metrics.lorenz(amounts(40, seed=0, spread=1)).at(p))
    assert 1 - 2 * mine.area == pytest.approx(found.columns["estimate"][0])


def test_curves_come_most_equal_first():
    areas = [c.area for c in curves(audited().findings)]
    assert areas == sorted(areas, reverse=True)


def test_thinning_keeps_the_ends_and_what_is_read_at_every_stop():
    x = np.random.default_rng(3).lognormal(0, 2, 200_000)
    whole = metrics.lorenz(x)
    keep = corners(whole.population, whole.share, 1000, FINE)
    assert len(keep) < 1300
    thin = Curve("", whole.population[keep], whole.share[keep])
    assert (thin.population[0], thin.population[-1]) == (0, 1)
    for top in FINE:
        held = metrics.top_share(x, top)
        assert 1 - thin.at(1 - top) == pytest.approx(held, abs=1e-12)
        assert thin.point(held) == pytest.approx(metrics.equivalent_to_top(x, top), abs=1e-9)


def test_thinning_keeps_where_holding_anything_begins():
    share = np.concatenate([np.zeros(5000), np.linspace(0, 1, 5001)[1:]])
    population = np.linspace(0, 1, len(share))
    keep = corners(population, share, 100)
    assert 4999 in keep


def test_many_slices_have_fewer_stops():
    assert len(stops(200, 30_000)) < len(stops(3, 30_000))
    assert 0.01 in stops(200, 30_000)
    assert 0.01 in stops(3, 30_000)


@pytest.mark.parametrize("units", [1, 2, 7, 400, 26_188, 10**8])
def test_the_smallest_step_is_one_unit(units):
    found = stops(1, units)
    assert found
    assert list(found) == sorted(set(found))
    assert units == 1 or min(found) * units == pytest.approx(1)
    assert all(size * units == pytest.approx(round(size * units)) for size in found if size * units < 10) or units == 1


def test_the_log_axis_is_linear_below_one_in_a_million():
    spec = draw(audited().findings, "lorenz_log").to_dict()
    scales = [s for s in _all(spec, "scale") if isinstance(s, dict) and s.get("type") == "symlog"]
    assert scales
    assert all(s["constant"] == 1e-6 and s["domain"] == [0, 1] for s in scales)
    assert any(a.get("values", [])[:2] == [0, 1e-6] for a in _all(spec, "axis") if isinstance(a, dict))


def test_a_crowd_of_curves_shows_its_extremes_in_colour():
    found = SHAPES["200 slices"]()
    first, *_, last = curves(found)
    domains = [
        s["domain"] for s in _all(draw(found, "lorenz").to_dict(), "scale") if isinstance(s.get("domain", [0])[0], str)
    ]
    assert domains
    assert all(d == [first.name, last.name] for d in domains)


def test_the_annotated_curve_says_what_its_letters_mean():
    table = picture(audited(None).findings, "lorenz_annotated")[1].table
    meaning = dict(zip(table["letter"], table["meaning"], strict=True))
    x = amounts(400, seed=0, spread=1)
    assert f"{metrics.gini(x):.4f}" in meaning["A"]
    assert f"{100 * metrics.top_share(x, 0.2):.1f}%" in meaning["d"]


def test_metrics_of_a_family_share_axes():
    titles = [p.title for p in picture(audited().findings, "intervals")[1].panels]
    assert titles == ["Inequality", "Tail shares", "Equivalences"]


def test_equivalences_are_turned_round_on_a_log_axis():
    found = audited().findings
    panel = picture(found, "intervals")[1].panels[2]
    spec = panel.chart.to_dict()
    assert any(s.get("type") == "log" for s in _all(spec, "scale") if isinstance(s, dict))
    drawn = {(r["label"], r["series"]): r["x"] for r in data_of(panel.chart) if "series" in r}
    for row in found.rows():
        if row["metric"] == "equal_share":
            assert drawn[row["source"], "Point of equal share"] == pytest.approx(1 - row["estimate"], rel=1e-6)


def test_what_was_asked_for_turned_round_is_not_turned_again():
    found = audited(metrics=("equal_share(inverted=True)",)).findings
    drawn = [r["x"] for r in data_of(picture(found, "intervals")[1].panels[0].chart) if "series" in r]
    assert sorted(set(drawn)) == pytest.approx(sorted(found.columns["estimate"]), rel=1e-6)


def test_rows_are_in_order_of_the_first_metric():
    found = audited().findings
    gini = {r["source"]: r["estimate"] for r in found.rows() if r["metric"] == "gini"}
    sorts = [s for s in _all(picture(found, "intervals")[1].panels[0].chart.to_dict(), "sort") if set(s) == set(gini)]
    assert sorts
    assert all(s == sorted(gini, key=lambda k: -gini[k]) for s in sorts)


def test_too_many_rows_are_cut_to_the_extremes_and_the_note_says_so():
    _, drawn = picture(SHAPES["200 slices"](), "intervals")
    labels = {r["label"] for r in data_of(drawn.panels[0].chart) if "label" in r}
    assert len(labels) == SIZES.rows
    assert f"{SIZES.rows} of 200 rows" in drawn.note
    assert len(drawn.table["metric"]) == 200 * 6


def test_an_undefined_number_says_why_and_is_not_a_dot():
    drawn = data_of(picture(undefined(), "intervals")[1].panels[0].chart)
    none = next(r for r in drawn if r["label"] == "none")
    assert none["x"] is None
    assert "nobody received anything" in none["why"]


def test_close_estimates_are_not_flattened_by_an_axis_from_zero():
    rows = [{"by": b, "metric": "gini", "estimate": v, "ideal": 0.0} for b, v in (("a", 0.951), ("b", 0.955))]
    spec = picture(findings_of("inequality", rows, slices=("by",)), "intervals")[1].panels[0].chart.to_dict()
    domain = next(s["domain"] for s in _all(spec, "scale") if isinstance(s.get("domain", [""])[0], float))
    assert domain[0] > 0.9
    assert domain[1] < 1


def test_scatter_sets_the_first_metric_against_the_others():
    found = audited(tuple("abcd")).only("gini", "top_share(p=0.01)").findings
    rows = data_of(draw(found, "scatter"))
    gini = {r["source"]: r["estimate"] for r in found.rows() if r["metric"] == "gini"}
    assert {r["label"]: r["x"] for r in rows} == pytest.approx(gini, rel=1e-6)


def test_scatter_needs_two_metrics_and_three_slices():
    with pytest.raises(EvenhandError, match="two metrics"):
        draw(audited(metrics=("gini",)).findings, "scatter")
    with pytest.raises(EvenhandError, match="three slices"):
        draw(audited(None).findings, "scatter")


def test_bars_of_sources_are_the_contributions_and_their_title_the_total():
    panels = picture(sources(), "sources")[1].panels
    bars = {r["label"]: r["x"] for r in data_of(panels[0].chart) if "label" in r}
    assert bars == {name: values[0] for name, values in SOURCES.items()}
    assert sum(bars.values()) == pytest.approx(0.39)
    assert "0.39" in panels[0].title


def test_a_source_that_lowers_the_total_has_a_colour_of_its_own():
    bars = {r["label"]: r["series"] for r in data_of(picture(sources(), "sources")[1].panels[0].chart) if "label" in r}
    assert bars["friends"] == "lowers"
    assert bars["home"] == "raises"


def test_bins_stand_at_their_geometric_middle_and_zero_at_the_foot():
    panel = picture(binned(), "bins")[1].panels[0]
    places = sorted({r["x"] for r in data_of(panel.chart)})
    assert places == pytest.approx([0, 0.5, math.sqrt(10), math.sqrt(1000), math.sqrt(1e5), math.sqrt(1e9)], rel=1e-6)
    assert any(s.get("type") == "symlog" for s in _all(panel.chart.to_dict(), "scale") if isinstance(s, dict))


def test_slices_that_are_plain_numbers_are_not_taken_for_bins():
    rows = [{"store": n, "metric": "gini", "estimate": 0.5} for n in range(9)]
    assert "bins" not in [k.name for k in kinds_for(findings_of("inequality", rows, slices=("store",)))]


def test_the_last_panel_of_bins_counts_units():
    panel = picture(binned(series=("one",)), "bins")[1].panels[-1]
    assert panel.title == "Authors per bin"
    assert max(r["units"] for r in data_of(panel.chart)) == 1 + int(1e6)


@pytest.mark.parametrize("ending", ["svg", "png", "html"])
def test_a_chart_is_saved_whole(tmp_path, ending):
    path = save(draw(audited().findings), tmp_path / f"curve.{ending}")
    start = {"svg": b"<svg", "png": b"\x89PNG", "html": b"<!doctype html>"}[ending]
    assert path.read_bytes().startswith(start)
    assert [p.name for p in tmp_path.iterdir()] == [f"curve.{ending}"]


def test_a_saved_svg_holds_its_labels_as_text(tmp_path):
    text = save(draw(audited().findings), tmp_path / "curve.svg").read_text()
    assert "out of network" in text
    assert "perfect equality" in text


def test_hostile_labels_are_text_in_an_svg(tmp_path):
    text = save(draw(hostile()), tmp_path / "curve.svg").read_text()
    assert "<img" not in text
    assert "&lt;img src=x" in text


def test_an_ending_that_is_no_picture_is_refused(tmp_path):
    with pytest.raises(EvenhandError, match=r"curve\.bmp.*\.svg, \.png, \.html"):
        save(draw(audited().findings), tmp_path / "curve.bmp")
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_place_leaves_nothing_behind(tmp_path):
    with pytest.raises(EvenhandError, match="cannot be written"):
        save(draw(audited().findings), tmp_path / "no" / "curve.svg")
    assert list(tmp_path.iterdir()) == []


def test_a_kind_declared_twice_is_refused():
    from evenhand.report.charts.drawing import chart

    with pytest.raises(EvenhandError, match="declared twice"):
        chart("lorenz", title="again")(lambda findings: Picture((Panel(None),), {}))


def test_findings_read_back_from_json_draw_the_same():
    found = audited().findings
    again = Findings.from_dict(json.loads(json.dumps(found.to_dict())))
    for kind in kinds_for(found):
        mine, theirs = (draw(f, kind.name).to_dict(validate=False) for f in (found, again))
        assert mine == theirs, kind.name


def test_a_family_that_is_infinite_throughout_has_no_empty_frame():
    rows = [{"metric": "gini", "estimate": 0.5}, {"metric": "generalized_entropy(alpha=0)", "estimate": math.inf}]
    drawn = KINDS["intervals"].draw(findings_of("inequality", rows))
    assert [panel.title for panel in drawn.panels] == ["Gini index"]
    assert "infinite values are in the table only" in drawn.note


def test_days_stand_in_the_order_of_time_and_not_of_size():
    days = ["2026-03-02", "2026-03-10", "2026-02-27"]
    rows = [{"day": day, "metric": "gini", "estimate": e} for day, e in zip(days, (0.5, 0.9, 0.7), strict=True)]
    (panel,) = KINDS["intervals"].draw(findings_of("inequality", rows, slices=("day",))).panels
    spec = panel.chart.to_dict()
    assert [point["x"] for point in spec["data"]["values"]] == sorted(days)
    assert {layer["encoding"]["x"]["type"] for layer in spec["layer"] if "x" in layer["encoding"]} <= {"temporal"}


def ratios(**columns):
    table = pl.DataFrame({"who": range(40), **columns})
    asked = ["percentile_ratio", "share_ratio"]
    return eh.inequality(table, unit="who", amount=list(columns), population=None, metrics=asked, interval=None)


def test_ratios_far_apart_stand_on_a_log_axis_and_words_are_not_struck_through():
    found = ratios(views=[1] * 9 + [10] * 29 + [10_000] * 2, likes=[0] * 35 + [1, 2, 3, 4, 5])
    assert max(found.frame["estimate"].drop_nans()) / min(found.frame["estimate"].drop_nans()) > 30
    drawn = picture(found.findings, "intervals")[1].panels[0].chart
    assert any(s.get("type") == "log" for s in _all(drawn.to_dict(), "scale"))
    rows = data_of(drawn)
    assert any(row["why"] for row in rows)
    assert all(row.get("ideal") is None for row in rows if row["why"])


def test_chance_levels_far_off_do_not_crowd_the_estimates():
    rng = np.random.default_rng(2)
    table = pl.DataFrame({"who": range(500), **{n: rng.pareto(0.6, 500).astype(int) for n in ("a", "b", "c")}})
    found = eh.inequality(
        table, unit="who", amount=["a", "b", "c"], population=5_000, metrics="gini", chance="events", rng=1
    )
    assert (found.frame["estimate"] > 0.95).all()
    assert (found.frame["chance"] < 0.6).all()
    spec = picture(found.findings, "intervals")[1].panels[0].chart.to_dict()
    low, high = next(s["domain"] for s in _all(spec, "scale") if isinstance(s.get("domain", [""])[0], float))
    assert low > 0.8
    assert high <= 1


def test_what_leaves_nothing_is_said_in_words_on_a_log_axis():
    table = pl.DataFrame({"who": range(20), "a": [0] * 19 + [5], "b": range(1, 21)})
    asked = ["equivalent_to_top(p=0.1)", "equal_share"]
    found = eh.inequality(table, unit="who", amount=["a", "b"], population=None, metrics=asked, interval=None)
    spec = picture(found.findings, "intervals")[1].panels[0].chart.to_dict()
    assert any(s.get("type") == "log" for s in _all(spec, "scale"))
    assert "not on a log axis" in json.dumps(spec)
