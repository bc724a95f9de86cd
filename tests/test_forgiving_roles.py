"""Columns and words that people use: doc_id in a table of groups, AWRF for awrf, --amount none."""

import polars as pl
import pytest

import evenhand as eh
from evenhand.cli import main
from evenhand.errors import DataWarning

RUN = pl.DataFrame({"request": [1, 1, 1, 2, 2, 2], "item": list("abcabc"), "rank": [1, 2, 3, 3, 2, 1]})
GROUPS = pl.DataFrame({"item": list("abc"), "group": ["x", "y", "y"]})
JUDGED = pl.DataFrame({"request": [1, 1, 2], "item": list("abb"), "relevance": [1, 0, 1]})


def exposure(rankings=RUN, *, metrics="awrf", groups=GROUPS, **more):
    return eh.exposure(rankings, groups=groups, metrics=metrics, interval=None, rng=1, **more)


def item_of(result, role):
    return next(entry["item"] for entry in result.provenance["inputs"] if entry["role"] == role)


@pytest.mark.parametrize("name", ["item", "item_id", "doc_id", "docid", "docno", "id"])
def test_items_of_second_tables_may_have_their_usual_names_and_provenance_says_which(name):
    result = exposure(groups=GROUPS.rename({"item": name}), relevance=JUDGED.rename({"item": name}), metrics="eel")
    expected = exposure(relevance=JUDGED, metrics="eel")
    assert result.frame["estimate"].to_list() == pytest.approx(expected.frame["estimate"].to_list(), nan_ok=True)
    assert item_of(result, "groups") == item_of(result, "relevance") == name


def test_the_column_that_was_named_comes_before_usual_names():
    groups = GROUPS.with_columns(doc=pl.col("item"), item=pl.col("item").reverse()).select("doc", "group", "item")
    result = exposure(RUN.rename({"item": "doc"}), item="doc", groups=groups.drop("item"))
    assert item_of(result, "groups") == "doc"
    assert result.frame["estimate"].to_list() == exposure().frame["estimate"].to_list()


def test_a_table_of_groups_without_any_column_of_items_is_refused_with_the_names_that_work():
    with pytest.raises(eh.EvenhandError, match=r"nor item, item_id, doc_id, docid, docno, id.*rename the one"):
        exposure(groups=GROUPS.rename({"item": "paper"}))


def test_rankings_with_another_name_for_items_say_what_to_pass():
    with pytest.raises(eh.EvenhandError, match=r"If 'docno' holds the items, pass item='docno'"):
        exposure(RUN.rename({"item": "docno"}))


def test_a_roll_up_on_the_command_line_takes_the_item_column_of_the_rankings(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    RUN.rename({"item": "paper"}).write_csv("run.csv")
    pl.DataFrame({"paper": list("abc"), "provider": list("pqr")}).write_csv("items.csv")
    pl.DataFrame({"provider": list("pqr"), "group": ["x", "y", "y"]}).write_csv("people.csv")
    words = ["exposure", "run.csv", "--item", "paper", "--groups", "rollup(items.csv, people.csv)", "-m", "awrf"]
    assert main([*words, "--seed", "1", "--format", "json"]) == 0
    shown = capsys.readouterr().out
    assert '"item": "paper"' in shown
    assert eh.rollup("items.csv", "people.csv", item="paper").frame.height == 3


def test_grades_that_are_words_are_listed_and_refused():
    judged = JUDGED.with_columns(relevance=pl.Series(["good", "bad", "fair"]))
    with pytest.raises(eh.EvenhandError, match=r"is text: 'bad', 'fair', 'good'. Replace each grade by a number"):
        exposure(relevance=judged)
    with pytest.raises(eh.EvenhandError, match="is text: 'bad', 'good'"):
        exposure(RUN.with_columns(grade=pl.Series(["good", "bad"] * 3)), relevance="grade")


def test_metric_names_are_read_in_any_case():
    log = pl.DataFrame({"author": [1, 2, 3], "views": [1, 2, 30]})
    result = eh.inequality(
        log, unit="author", amount="views", population=None, metrics=["Gini", "TOP_SHARE(p=0.5)"], rng=1
    )
    assert result.frame["metric"].to_list() == ["gini", "top_share(p=0.5)"]
    assert result.only("GINI").frame.height == 1
    assert result.check("Gini <= 0.9").passed
    assert exposure(metrics="AWRF@2").frame["metric"].to_list() == ["awrf@2"]
    parts = eh.decompose(
        log.with_columns(side=pl.Series(["a", "b", "b"])), unit="author", amount="views", group="side",
        population=None, metrics="Within", rng=1,
    )  # fmt: skip
    assert parts.frame["metric"].to_list() == ["within"]
    with pytest.raises(eh.EvenhandError, match="names 'gini' twice"):
        eh.inequality(log, unit="author", amount="views", population=None, metrics=["gini", "Gini"], rng=1)


def test_amount_none_counts_rows(tmp_path, capsys):
    path = tmp_path / "log.csv"
    path.write_text("author,views\na,1\na,2\nb,3\n", encoding="utf-8")
    words = ["inequality", str(path), "--unit", "author", "--population", "none", "-m", "gini", "--interval", "none"]
    assert main([*words, "--amount", "none", "--format", "csv"]) == 0
    assert main([*words, "--format", "csv"]) == 0
    first, second = capsys.readouterr().out.split("metric", 2)[1:]
    assert first == second


def test_provenance_says_whether_ranks_of_a_run_are_as_stated(tmp_path):
    stated, rising = tmp_path / "stated.run", tmp_path / "rising.run"
    stated.write_text("1 Q0 a 1 3 t\n1 Q0 b 2 2 t\n", encoding="utf-8")
    rising.write_text("1 Q0 a 1 1 t\n1 Q0 b 2 2 t\n2 Q0 a 1 2 t\n2 Q0 b 2 1 t\n", encoding="utf-8")
    assert exposure(str(stated)).provenance["inputs"][0]["ranks"] == "as stated"
    with pytest.warns(DataWarning, match="in 1 of 2 requests"):
        result = exposure(str(rising))
    assert result.provenance["inputs"][0]["ranks"] == "recomputed from scores in 1 of 2 rankings"
