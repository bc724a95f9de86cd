"""Results in a real MLflow store: what is read back equals what was logged."""

import csv
import math
from pathlib import Path

import mlflow
import pandas as pd
import polars as pl
import pytest

import evenhand as eh
from evenhand.adapters.mlflow import Evaluator, read
from evenhand.findings import Findings, row, tidy
from evenhand.results import Result
from hosts.blocks import run_page

pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning")  # MLflow's own

LOG = pl.DataFrame(
    {
        "author": ["ana", "ana", "bo", "cy", "ana", "bo", "dee"],
        "source": ["a/b (new)", "graph", "a/b (new)", "a/b (new)", "graph", "graph", "a/b (new)"],
        "views": [52, 31, 7, 3, 44, 2, 1],
    }
)


@pytest.fixture(scope="module", autouse=True)
def store(tmp_path_factory):
    place = tmp_path_factory.mktemp("mlflow")
    mlflow.set_tracking_uri(f"sqlite:///{place / 'runs.db'}")
    mlflow.set_experiment(
        experiment_id=mlflow.create_experiment("audits", artifact_location=(place / "files").as_uri())
    )
    return place


@pytest.fixture(scope="module")
def result():
    return eh.inequality(
        LOG, unit="author", amount="views", population=10, by="source", rng=7, interval="bootstrap(99)",
        metrics=["gini", "top_share(p=0.01)", "share_ratio"],
    )  # fmt: skip


@pytest.fixture(scope="module")
def logged(result):
    with mlflow.start_run() as run:
        names = result.log_mlflow()
    return run.info.run_id, names


def test_numbers_read_back_equal_the_result(result, logged):
    run_id, names = logged
    stored = mlflow.get_run(run_id).data.metrics
    assert stored == pytest.approx(names, nan_ok=True, rel=0, abs=0)
    rows = list(result.findings.rows())
    gini = next(r for r in rows if r["metric"] == "gini" and r["source"] == "graph")
    assert stored["gini/source_graph"] == gini["estimate"]
    assert stored["gini/source_graph_low"] == gini["low"]
    assert stored["gini/source_graph_high"] == gini["high"]
    defined = [r for r in rows if not math.isnan(r["estimate"])]
    assert sorted(v for k, v in stored.items() if not k.endswith(("_low", "_high")) and not math.isnan(v)) == sorted(
        r["estimate"] for r in defined
    )


def test_names_are_legal_and_say_metric_and_slice(logged):
    assert "top_share_p_0.01/source_a_b_new" in logged[1]


def test_an_undefined_number_is_nan_in_the_store_not_zero(logged):
    assert math.isnan(mlflow.get_run(logged[0]).data.metrics["share_ratio/source_graph"])


def test_the_whole_result_comes_back_from_the_run(result, logged):
    again = read(logged[0])
    assert again.to_dict() == result.to_dict()
    assert read(logged[0], "inequality").to_json() == result.to_json()


def test_table_and_report_are_artifacts(result, logged, tmp_path):
    place = Path(
        mlflow.artifacts.download_artifacts(run_id=logged[0], artifact_path="evenhand", dst_path=str(tmp_path))
    )
    assert sorted(p.name for p in place.iterdir()) == ["inequality.csv", "inequality.html", "inequality.json"]
    with (place / "inequality.csv").open(encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    assert [float(r["estimate"] or "nan") for r in table] == pytest.approx(
        list(result.findings.columns["estimate"]), nan_ok=True, rel=0, abs=0
    )
    report = (place / "inequality.html").read_text(encoding="utf-8")
    assert report.lstrip().lower().startswith("<!doctype html")
    assert "top_share(p=0.01)" in report


def test_two_results_of_one_run_are_kept_apart_by_their_prefix(result):
    with mlflow.start_run() as run:
        pass
    with mlflow.start_run(run_id=run.info.run_id):
        result.log_mlflow(prefix="before_")
        result.only("gini").log_mlflow(prefix="after_")
    stored = mlflow.get_run(run.info.run_id).data.metrics
    assert stored["before_gini/source_graph"] == stored["after_gini/source_graph"]
    assert read(run.info.run_id, "inequality", prefix="after_").to_dict() == result.only("gini").to_dict()
    with pytest.raises(eh.EvenhandError, match=r"several results.*audit="):
        read(run.info.run_id)


def test_an_infinite_number_is_left_to_the_table(tmp_path):
    rows = [row({}, "log_dp", estimate=-math.inf, low=-math.inf, high=0.5)]
    made = Result(Findings("exposure", "Who is exposed?", (), tidy(rows, ())))
    with mlflow.start_run() as run:
        made.log_mlflow()
    assert mlflow.get_run(run.info.run_id).data.metrics == {"log_dp_high": 0.5}
    assert read(run.info.run_id).findings.columns["estimate"] == [-math.inf]


ASKED = {"audit": "inequality", "unit": "author", "amount": "views", "population": 10, "metrics": "gini", "rng": 7}


@pytest.mark.filterwarnings("ignore")  # of MLflow and what its evaluators import
def test_mlflow_finds_the_evaluator_by_its_entry_point_and_logs_the_audit_of_its_data():
    with mlflow.start_run() as run:
        evaluated = mlflow.models.evaluate(
            data=pd.DataFrame(LOG.to_dict(as_series=False)),
            predictions="views",
            model_type="ranker",
            evaluators="evenhand",
            evaluator_config=ASKED,
        )
    parameters = {name: value for name, value in ASKED.items() if name != "audit"}
    direct = eh.inequality(LOG, **parameters)
    assert evaluated.metrics["gini"] == direct.frame["estimate"][0]
    assert read(run.info.run_id).to_dict()["columns"] == direct.to_dict()["columns"]


@pytest.mark.filterwarnings("ignore")  # of MLflow and what its evaluators import
def test_what_a_model_predicts_is_a_column_of_the_audited_table():
    evaluated = mlflow.models.evaluate(
        model=lambda rows: rows["views"] ** 2, data=pd.DataFrame(LOG.to_dict(as_series=False)), model_type="ranker", evaluators="evenhand",
        evaluator_config=ASKED | {"amount": "prediction"},
    )  # fmt: skip
    squared = LOG.with_columns(prediction=pl.col("views") ** 2)
    direct = eh.inequality(squared, unit="author", amount="prediction", population=10, metrics="gini", rng=7)
    assert evaluated.metrics["gini"] == pytest.approx(direct.frame["estimate"][0])


def test_without_an_audit_the_evaluator_leaves_the_data_alone():
    assert not Evaluator.can_evaluate(model_type="ranker", evaluator_config=None)
    assert Evaluator.can_evaluate(model_type="ranker", evaluator_config=ASKED)


def test_the_example_of_the_page_runs(tmp_path):
    assert "gini" in run_page("mlflow", tmp_path)
