"""`evenhand recommender`, `evenhand metrics --compare`, and the pictures of a recommender result."""

import json

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand.cli import main
from evenhand.report.charts import registry as charts


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    matrix = rng.random((60, 20)) + np.linspace(1, 0, 20)
    groups = rng.choice([1, 2], 60)
    matrix[groups == 2, :3] -= 0.5
    np.savez(tmp_path / "scores.npz", matrix)
    users, items = np.nonzero(matrix > 0)
    pl.DataFrame({"user": users, "item": items, "score": matrix[users, items]}).write_parquet(
        tmp_path / "scores.parquet"
    )
    pl.DataFrame({"user": range(60), "group": groups}).write_csv(tmp_path / "users.csv")
    return tmp_path


def ask(*words, capsys):
    code = main([str(w) for w in words])
    out = capsys.readouterr()
    return code, out.out, out.err


def test_the_matrix_and_the_table_say_the_same(files, capsys):
    rest = [
        "--user-groups",
        files / "users.csv",
        "--protected",
        "2",
        "--top",
        5,
        "--seed",
        1,
        "--interval",
        "bootstrap(49)",
        "--format",
        "csv",
    ]
    code, matrix, err = ask("recommender", files / "scores.npz", *rest, "--no-progress", capsys=capsys)
    assert (code, err) == (0, "")
    code, table, _ = ask("recommender", files / "scores.parquet", *rest, "--no-progress", capsys=capsys)
    assert code == 0
    assert [r.split(",")[:3] for r in table.splitlines()] == [r.split(",")[:3] for r in matrix.splitlines()]
    assert "2 vs 1" in matrix
    code, duck, _ = ask(
        "recommender", files / "scores.parquet", *rest, "--engine", "duckdb", "--no-progress", capsys=capsys
    )
    assert duck == table


def test_a_check_decides_the_exit_code(files, capsys):
    rest = ["--top", 5, "-m", "item_gini", "--interval", "none", "--no-progress"]
    assert ask("recommender", files / "scores.npz", *rest, "--check", "item_gini <= 0.01", capsys=capsys)[0] == 1
    assert ask("recommender", files / "scores.npz", *rest, "--check", "item_gini <= 0.99", capsys=capsys)[0] == 0


def test_a_plan_gives_the_same_answer(files, capsys):
    plan = files / "plan.toml"
    plan.write_text(
        'audit = "recommender"\nscores = "scores.npz"\nuser_groups = "users.csv"\ntop = 5\nrng = 1\ninterval = "none"\n'
    )
    code, planned, _ = ask("run", plan, "--format", "csv", "--no-progress", capsys=capsys)
    assert code == 0
    typed = [
        "--user-groups",
        files / "users.csv",
        "--top",
        5,
        "--seed",
        1,
        "--interval",
        "none",
        "--format",
        "csv",
        "--no-progress",
    ]
    assert ask("recommender", files / "scores.npz", *typed, capsys=capsys)[1] == planned


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere.npz", "--top", "5"], "cannot be read"),
        (["{}/scores.npz", "--top", "0"], "--top 0 is not a number of items"),
        (["{}/scores.npz", "--top", "5", "--user-groups", "{}/nobody.csv"], "is not a file"),
        (["{}/scores.npz", "--top", "5", "--convention", "holistic"], "Known: elliot"),
        (["{}/scores.parquet", "--top", "5", "--score", "scor"], "Did you mean 'score'"),
        (["{}/scores.parquet", "--top", "5", "--user-groups", "gender"], "neither a column of scores nor a file"),
        (["{}/scores.parquet", "--top", "5", "--items", "3"], "smaller than"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(files, capsys, words, said):
    code, out, err = ask("recommender", *(w.replace("{}", str(files)) for w in words), "--no-progress", capsys=capsys)
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err


def test_which_gini_is_this(capsys):
    code, out, _ = ask("metrics", "gini", "--compare", capsys=capsys)
    assert code == 0
    assert "5 different answers" in out
    row = {line.split()[0]: line for line in out.splitlines()[:-1] if line.strip()}
    assert "0.75" in row["evenhand"]
    assert "0.8" in row["recbole"]
    assert "nan" in row["evidently"]
    assert "holisticai 1.0.14" in row["holisticai"]
    assert "--compare" in ask("metrics", "gini", capsys=capsys)[1]


def test_a_comparison_as_json_and_without_a_name(capsys):
    found = json.loads(ask("metrics", "gini", "--compare", "--format", "json", capsys=capsys)[1])
    assert {row["convention"]: row["values"]["[0, 0, 0, 10]"] for row in found}["elliot"] == 0.0
    code, _, err = ask("metrics", "--compare", capsys=capsys)
    assert code == 2
    assert "item_gini" in err


def result(files, **call):
    groups = pl.read_csv(files / "users.csv")["group"].to_list()
    matrix = np.load(files / "scores.npz")["arr_0"]
    return eh.recommender(matrix, user_groups=groups, top=5, rng=1, interval="bootstrap(29)", **call)


def test_every_kind_of_chart_draws(files):
    found = result(files)
    kinds = [kind.name for kind in charts.kinds_for(found.findings)]
    assert {"differences", "lorenz", "intervals"} <= set(kinds)
    for kind in kinds:
        assert found.plot(kind).to_dict()


def test_the_chart_of_differences_says_what_differs_most(files):
    found = result(files)
    _, drawn = charts.picture(found.findings, "differences")
    held = found.findings.curves["differences"]
    gaps = np.abs(np.array(held["versus_share"]) - np.array(held["protected_share"]))
    assert gaps.argmax() == 0
    assert held["item"][0] in ("0", "1", "2")
    assert drawn.table["item"][0] == held["item"][0]


def test_the_lorenz_curve_of_the_items_is_drawn(files):
    found = result(files)
    _, drawn = charts.picture(found.findings, "lorenz")
    counts = found.shown.sum(0)
    bottom = np.sort(counts)[: len(counts) // 2].sum() / counts.sum()
    assert float(drawn.table["share of the bottom 50%"][0].rstrip("%")) == pytest.approx(100 * bottom, abs=0.06)


def test_without_anything_shown_there_is_no_chart_of_it(files):
    found = eh.recommender(np.zeros((4, 3)), user_groups=list("aabb"), threshold=1.0, interval=None)
    kinds = [kind.name for kind in charts.kinds_for(found.findings)]
    assert "lorenz" not in kinds
    assert "differences" not in kinds


def test_a_report_is_one_page_that_holds_the_numbers(files, tmp_path):
    found = result(files)
    page = found.report(tmp_path / "bias.html").read_text(encoding="utf-8")
    assert "Total variation of exposure" in page
    assert "http://" not in page.split("<script", 1)[0]
