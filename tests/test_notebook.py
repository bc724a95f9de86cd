"""Results and charts in a notebook: complete, escaped, and without a network."""

import inspect
import re

import pytest

import evenhand as eh
from evenhand.results import Result
from made_findings import HOSTILE, audited, findings_of, hostile, undefined

FETCHES = re.compile(r"(?:src|href)=|@import|url\((?!#)|https?://(?!www\.w3\.org/)", re.IGNORECASE)


def test_a_cell_shows_the_sentence_the_picture_the_table_and_what_the_notes_mean():
    shown = Result(undefined())._repr_html_()
    assert "<svg" in shown
    assert "<table" in shown
    assert "zero_total: nobody received anything." in shown
    assert "The top 1% of authors (5 of 500)" in audited(units=500)._repr_html_()


@pytest.mark.parametrize("made", [lambda: audited(), lambda: Result(hostile())])
def test_a_cell_fetches_nothing_and_takes_no_label_for_markup(made):
    shown = made()._repr_html_()
    assert not FETCHES.search(re.sub(r">[^<]*<", "><", shown))
    assert HOSTILE not in shown
    assert "<script" not in shown


def test_a_chart_shows_itself_without_a_network():
    for kind in audited().kinds:
        bundle = audited().plot(kind)._repr_mimebundle_()
        assert bundle["image/svg+xml"].startswith("<svg")
        assert "text/html" not in bundle
        assert not FETCHES.search(bundle["image/svg+xml"])


def test_a_chart_is_still_altairs_to_change_and_to_save(tmp_path):
    changed = audited().plot().properties(title="ours")
    assert "ours" in changed._repr_mimebundle_()["image/svg+xml"]
    changed.save(tmp_path / "chart.svg")
    assert (tmp_path / "chart.svg").read_text(encoding="utf-8").startswith("<svg")


def test_a_result_that_cannot_be_drawn_is_a_table():
    found = findings_of("criteria", [{"metric": "gini", "estimate": 0.5}], charts=("bins",))
    shown = Result(found)._repr_html_()
    assert "<svg" not in shown
    assert "<table" in shown


def test_every_public_method_of_a_result_is_documented():
    public = [m for name, m in inspect.getmembers(eh.Result) if not name.startswith("_")]
    assert all(inspect.getdoc(m) for m in public)
