"""Tables and figures for papers, and what a notebook shows of errors and tables of systems."""

import re

import pytest

from evenhand.errors import EvenhandError
from evenhand.report.table import system_cells
from made_findings import audited


def test_latex_has_rules_names_and_one_bold_value_per_metric():
    result = audited()
    latex = result.to_latex(caption="Views & more", label="tab:views")
    assert r"\caption{Views \& more}" in latex
    assert r"\label{tab:views}" in latex
    assert all(rule in latex for rule in (r"\toprule", r"\midrule", r"\bottomrule", r"\end{table}"))
    assert "Gini index" in latex
    assert "gini &" not in latex
    assert latex.count(r"\bfseries") == len(result.findings.metrics())


def test_numbers_of_a_latex_table_hold_no_comma():
    large = audited(units=2000)
    rows = [line for line in large.to_latex().splitlines() if "Gini" in line]
    assert rows
    assert all(re.search(r"& 2000 ", row) for row in rows)


@pytest.mark.parametrize("ending", ["svg", "pdf", "png"])
def test_a_figure_has_the_size_that_was_asked_for(tmp_path, ending):
    path = audited().figure(tmp_path / f"f.{ending}", "lorenz", width_mm=84, height_mm=60, dpi=300)
    data = path.read_bytes()
    if ending == "svg":
        assert b'width="84.00mm" height="60.' in data
    elif ending == "pdf":
        box = re.search(rb"MediaBox ?\[([^\]]*)\]", data)
        assert float(box[1].split()[2]) == pytest.approx(84 / 25.4 * 72, abs=0.5)
    else:
        assert int.from_bytes(data[16:20], "big") == pytest.approx(84 / 25.4 * 300, abs=2)


def test_a_figure_says_what_it_cannot_be(tmp_path):
    with pytest.raises(EvenhandError, match=r"End its name in \.svg, \.png, \.pdf"):
        audited().figure(tmp_path / "f.jpg")
    with pytest.raises(EvenhandError, match="30 to 1000 mm"):
        audited().figure(tmp_path / "f.pdf", width_mm=5)
    assert not list(tmp_path.iterdir())


def test_a_chart_has_the_width_and_height_that_were_asked_for():
    spec = audited().plot("lorenz", width=300, height=200).to_dict()
    assert (spec["width"], spec["height"]) == (300, 200)
    with pytest.raises(EvenhandError, match="width=-1 is no length"):
        audited().plot("lorenz", width=-1)


def test_the_table_of_systems_ends_with_what_chance_gives():
    points = {"metric": ["awrf"] * 2, "group": [None] * 2, "better": ["lower"] * 2, "system": ["x", "y"], "value": [0.1, 0.2],
              "letters": ["a", "a"], "chance": [0.05, 0.06], "ideal": [0.0, 0.0]}  # fmt: skip
    head, rows = system_cells(points)
    assert head == ["system", "awrf ↓"]
    assert [[cell.text for cell in row] for row in rows] == [
        ["x", "0.1"],
        ["y", "0.2"],
        ["by chance", "0.05 to 0.06"],
    ]
    assert [row[1].is_best for row in rows] == [True, False, False]


def test_an_error_in_a_notebook_is_its_message():
    error = EvenhandError("The column is missing. Add it.")
    assert error._render_traceback_() == ["EvenhandError: The column is missing. Add it."]
