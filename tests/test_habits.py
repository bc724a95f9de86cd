"""Habits of pandas, Polars and fairlearn users; names for trackers; and what is said where an extra is missing."""

import importlib
import math
import re
import subprocess
import sys

import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenhand as eh
from evenhand.findings import Findings, row, tidy
from evenhand.report.table import tracked
from evenhand.results import Result

LOG = {
    "author": ["ana", "ana", "bo", "cy", "ana", "bo", "dee"],
    "source": ["follows", "graph", "follows", "follows", "graph", "graph", "follows"],
    "region": ["n", "n", "s", "s", "n", "s", "n"],
    "views": [52, 31, 7, 3, 44, 2, 1],
}
ASKED = dict(unit="author", amount="views", population=10, metrics=["gini", "theil"], interval=None)


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pl.LazyFrame], ids=["pandas", "polars", "lazy"])
def test_an_audit_works_at_the_end_of_a_pipe(library):
    piped = library(LOG).pipe(eh.inequality, **ASKED)
    assert piped.to_dict()["columns"] == eh.inequality(library(LOG), **ASKED).to_dict()["columns"]


def test_pivot_has_a_row_per_group_and_a_column_per_metric_in_the_callers_library():
    result = pd.DataFrame(LOG).pipe(eh.inequality, by="source", **ASKED)
    wide = result.pivot("source")
    assert isinstance(wide, pd.DataFrame)
    assert list(wide.columns) == ["source", "gini", "theil"]
    tall = result.frame.set_index(["source", "metric"])["estimate"]
    for source in ("follows", "graph"):
        assert wide.set_index("source").loc[source].to_dict() == tall[source].to_dict()


def test_pivot_by_group_leaves_out_what_belongs_to_no_group():
    members = pl.DataFrame(
        {"author": ["ana", "bo", "cy", "dee"], "region": ["n", "s", "s", "n"], "views": [9, 4, 3, 1]}
    )
    result = eh.decompose(members, unit="author", amount="views", group="region", population=None, interval=None)
    wide = result.pivot("group")
    assert isinstance(wide, pl.DataFrame)
    assert wide["group"].to_list() == ["n", "s"]
    assert "total" not in wide.columns
    assert wide["share"].to_list() == pytest.approx([10 / 17, 7 / 17])


def test_pivot_keeps_the_other_labels_so_that_no_two_numbers_share_a_cell():
    result = pl.DataFrame(LOG).pipe(
        eh.inequality,
        by=["source", "region"],
        unit="author",
        amount="views",
        population=None,
        metrics="mean",
        interval=None,
    )
    wide = result.pivot("region")
    assert wide.columns == ["region", "source", "mean"]
    assert len(wide) == len(result.frame)
    assert sorted(wide["mean"]) == sorted(result.frame["estimate"])


def test_pivot_shows_other_numbers_and_nan_where_a_metric_is_not_there():
    rows = [row({"s": "a"}, "x", estimate=1.0, low=0.5), row({"s": "b"}, "y", estimate=2.0)]
    result = Result(Findings("any", "?", ("s",), tidy(rows, ["s"])))
    low = result.pivot("s", values="low").to_dict(as_series=False)
    assert low["x"][0] == 0.5
    assert all(math.isnan(v) for v in (low["x"][1], low["y"][0], low["y"][1]))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (dict(by="sorce"), "Did you mean 'source'?"),
        (dict(by="group"), "No row of this result has a group. Pivot by one of: source."),
        (dict(by="source", values="units"), "values='units' is not a column of numbers"),
    ],
)
def test_a_pivot_that_cannot_be_is_refused_with_what_can(call, said):
    result = pl.DataFrame(LOG).pipe(eh.inequality, by="source", **ASKED)
    with pytest.raises(eh.EvenhandError, match=re.escape(said)):
        result.pivot(**call)


def test_a_result_is_markdown_and_latex():
    result = pl.DataFrame(LOG).pipe(eh.inequality, by="source", **ASKED)
    assert result.to_markdown().startswith("| source")
    assert r"\begin{tabular}" in result.to_latex()


# --- names for trackers ------------------------------------------------------------------------------------------------

LEGAL = re.compile(r"[/\w.\- ]+")
"""What MLflow takes on every system."""


def made(*rows, slices=("s",)):
    return Findings("any", "?", slices, tidy(rows, slices))


def test_names_hold_the_metric_the_slice_and_the_group():
    rows = [row({"s": "likes"}, "top_share(p=0.01)", group="women", estimate=0.7, low=0.6, high=0.8)]
    name = "top_share_p_0.01/s_likes/women"
    assert tracked(made(*rows)) == {name: 0.7, f"{name}_low": 0.6, f"{name}_high": 0.8}
    assert list(tracked(made(*rows), "run 1/")) == [f"run 1/{name}{end}" for end in ("", "_low", "_high")]


@given(st.lists(st.tuples(st.text(max_size=300), st.text(max_size=8)), min_size=1, max_size=8, unique=True))
def test_any_label_becomes_a_legal_name_and_no_row_is_lost(labels):
    rows = [row({"s": s}, m, estimate=float(i), low=float(i), high=float(i)) for i, (s, m) in enumerate(labels)]
    found = tracked(made(*rows))
    assert len(found) == 3 * len(rows)
    for name in found:
        assert LEGAL.fullmatch(name)
        assert len(name) <= 250
        assert not set(name.split("/")) & {"", ".", ".."}


def test_undefined_is_nan_and_infinite_is_left_out():
    rows = [row({"s": "a"}, "x"), row({"s": "b"}, "x", estimate=math.inf, low=1.0, high=math.inf)]
    found = tracked(made(*rows))
    assert list(found) == ["x/s_a", "x/s_b_low"]
    assert math.isnan(found["x/s_a"])


# --- extras that are not installed -------------------------------------------------------------------------------------

EXTRAS = {"ir_measures": "ir-measures", "lenskit": "lenskit", "mlflow": "mlflow"}


@pytest.mark.parametrize("host", EXTRAS)
def test_an_adapter_without_its_host_names_the_extra(host, monkeypatch):
    monkeypatch.setitem(sys.modules, host, None)
    monkeypatch.delitem(sys.modules, f"evenhand.adapters.{host}", raising=False)
    with pytest.raises(eh.EvenhandError, match=re.escape(f"pip install 'evenhand[{EXTRAS[host]}]'")) as raised:
        importlib.import_module(f"evenhand.adapters.{host}")
    assert isinstance(raised.value, ImportError)


def test_logging_without_mlflow_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(eh.EvenhandError, match=re.escape("pip install 'evenhand[mlflow]'")):
        pl.DataFrame(LOG).pipe(eh.inequality, **ASKED).log_mlflow()


def test_the_command_without_its_host_names_the_extra_and_exits_with_two(tmp_path):
    (tmp_path / "ir_measures.py").write_text("raise ModuleNotFoundError('ir_measures')")
    done = subprocess.run(
        [sys.executable, "-m", "evenhand.adapters.ir_measures", "qrels", "run", "AWRF@10"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == "ir_measures is not installed. Install it with: pip install 'evenhand[ir-measures]'.\n"
