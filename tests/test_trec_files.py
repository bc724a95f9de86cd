"""TREC runs, judgments and label files as they are in the wild."""

from __future__ import annotations

import gzip
import warnings

import pytest

import evenhand as eh
from evenhand import DataWarning, EvenhandError


@pytest.fixture
def write(tmp_path):
    def make(name, text):
        path = tmp_path / name
        if name.endswith(".gz"):
            path.write_bytes(gzip.compress(text.encode()))
        else:
            path.write_text(text, encoding="utf-8")
        return str(path)

    return make


RUN = "q1 Q0 d1 1 3.0 tag\nq1 Q0 d2 2 2.5 tag\nq2 Q0 d1 1 -1e-3 tag\n"


def test_without_sound_ranks_a_run_is_ranked_by_score_and_ties_by_item_both_descending(write):
    with pytest.warns(DataWarning, match="in 1 of 1 requests"):
        run = eh.read.trec_run(write("a.run", "q Q0 a 1 2 t\nq Q0 c 3 1 t\nq Q0 b 2 2 t\nq Q0 d 3 1 t\n"))
    assert run["item"].to_list() == ["b", "a", "d", "c"]
    assert run["rank"].to_list() == [1, 2, 3, 4]
    assert run["tied"].all()


def test_ties_of_a_run_are_counted_in_provenance(write):
    run = write("a.run", "q Q0 a 1 2 t\nq Q0 b 2 2 t\nq Q0 c 3 1 t\n")
    labels = {"a": "x", "b": "y", "c": "y"}
    for table in (run, eh.read.trec_run(run)):
        assert eh.prefix(table, group=labels, rng=1).provenance["tied_rows"] == 2


@pytest.mark.parametrize("ending", ["a.run", "a.txt.gz", "input.bm25"])
def test_any_ending_that_is_no_tables_is_a_run(write, ending):
    result = eh.prefix(write(ending, RUN), group={"d1": "x", "d2": "y"}, rng=1)
    assert result.frame["units"].to_list() == [1]  # the other has one group only


def test_a_tag_may_hold_spaces_or_be_absent(write):
    assert eh.read.trec_run(write("a.run", "q Q0 d 1 1 my best  run \n"))["system"].to_list() == ["my best  run"]
    assert eh.read.trec_run(write("b.run", "q Q0 d 1 1\n"))["system"].to_list() == ["b.run"]


def test_windows_line_ends_tabs_blank_lines_and_a_byte_order_mark_are_fine(write):
    run = eh.read.trec_run(write("a.run", "\ufeffq1\tQ0\td1\t1\t3.0\ttag\r\n\r\nq1 Q0 d2 2 2.0 tag\r\n"))
    assert run.select("request", "item", "system").rows() == [("q1", "d1", "tag"), ("q1", "d2", "tag")]


def test_ranks_that_contradict_the_scores_are_not_believed_and_said(write):
    path = write("a.run", "q Q0 a 1 1.0 t\nq Q0 b 2 2.0 t\nr Q0 a 1 2.0 t\nr Q0 b 2 1.0 t\n")
    with pytest.warns(DataWarning, match="in 1 of 2 requests. The scores were used"):
        run = eh.read.trec_run(path)
    assert run.filter(request="q")["item"].to_list() == ["b", "a"]


def test_sound_ranks_hold_with_their_gaps_and_ties_of_scores(write):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = eh.read.trec_run(write("a.run", "q Q0 a 1 9 t\nq Q0 b 7 8 t\nq Q0 c 9 8 t\n"))
        zero = eh.read.trec_run(write("b.run", "q Q0 a 0 9 t\nq Q0 b 7 8 t\n"))
    assert run.select("item", "rank").rows() == [("a", 1), ("b", 7), ("c", 9)]
    assert zero["rank"].to_list() == [1, 8]


def test_words_in_the_second_field_are_no_draws_unless_items_repeat(write):
    run = eh.read.trec_run(write("a.run", "q pro a 1 3 t\nq con b 2 2 t\nq neutral c 3 1 t\n"))
    assert "sample" not in run.columns
    assert run["rank"].to_list() == [1, 2, 3]


def test_files_are_told_apart_by_what_their_names_do_not_share(write, tmp_path):
    for name in ("input.run0.gz", "input.run1.gz"):
        write(name, RUN)
    assert eh.read.trec_runs(str(tmp_path / "*.gz"))["system"].unique().sort().to_list() == ["run0", "run1"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("q Q0 d 1 1 t\nq Q0 d 2 0 t\n", r"lists an item twice in 1 requests \(first: request 'q', item 'd'\)"),
        ("q Q0 d 1 1 t\nq Q0 e\n", r"has 3 fields in line 2 \('q Q0 e'\); a run has six"),
        ("q 0 d 1\n", "looks like judgments: read it with eh.read.qrels"),
        ("q Q0 d 1 high t\n", r"the score is not a number \(first: line 1\)"),
        ("q Q0 d 1 nan t\n", "the score is not a number"),
        ("", "is empty"),
    ],
)
def test_broken_runs_are_refused_with_the_line(write, text, words):
    with pytest.raises(EvenhandError, match=words):
        eh.read.trec_run(write("a.run", text))


def test_a_missing_run_suggests_the_nearest_file(write):
    path = write("bm25.run", RUN)
    with pytest.raises(EvenhandError, match=r"matches no file\. Did you mean 'bm25\.run'"):
        eh.read.trec_runs(path.replace("bm25", "bm26"))


def test_samples_of_a_stochastic_ranker_stand_in_the_second_field(write):
    run = eh.read.trec_run(write("a.run", "q 1 a 1 2 t\nq 1 b 2 1 t\nq 2 b 1 2 t\nq 2 a 2 1 t\n"))
    assert run.select("sample", "item").rows() == [("1", "a"), ("1", "b"), ("2", "b"), ("2", "a")]


def test_runs_are_told_apart_by_file(write, tmp_path):
    write("a.run", RUN)
    write("b.run", RUN.replace("tag", "other"))
    assert eh.read.trec_runs(str(tmp_path / "*.run"))["system"].unique().sort().to_list() == ["a", "b"]
    result = eh.prefix(str(tmp_path / "*.run"), group={"d1": "x", "d2": "y"}, rng=1)
    assert result.frame["system"].to_list() == ["a", "b"]
    assert set(result.per_request["system"]) == {"a", "b"}


def test_judgments_are_numbers_and_each_pair_counts_once(write):
    path = write("a.qrels", "q 0 d 1\nq 0 d 1\nq 0 e 0\n")
    assert eh.read.qrels(path).rows() == [("q", "d", 1), ("q", "e", 0)]
    assert eh.read.qrels(write("b.qrels", "q 0 d 0.5\n"))["relevance"].to_list() == [0.5]
    assert eh.read.qrels(write("c.qrels", "q 1 d 0\nq 2 e 0\n")).columns == [
        "request",
        "item",
        "relevance",
        "iteration",
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("q 0 d 1\nq 0 d 2\n", "different judgments for 1 pairs"),
        ("q 0 d con\n", "the relevance is not a number .* eh.read.labels"),
        ("q Q0 d 1 2.0 t\n", "looks like a run: read it with eh.read.trec_run"),
    ],
)
def test_broken_judgments_are_refused(write, text, words):
    with pytest.raises(EvenhandError, match=words):
        eh.read.qrels(write("a.qrels", text))


def test_labels_in_the_form_of_judgments_belong_to_a_request_and_an_item(write):
    run = write("a.run", "q1 Q0 d1 1 2 t\nq1 Q0 d2 2 1 t\nq2 Q0 d1 1 2 t\nq2 Q0 d2 2 1 t\n")
    labels = write("stance.qrels", "q1 0 d1 con\nq1 0 d2 pro\nq2 0 d1 pro\nq2 0 d2 con\n")
    each = eh.prefix(run, group=labels, protected="con", metrics="ndd", rng=1).per_request
    assert each["favoured"].to_list() == ["con", "pro"]
    grades = eh.read.qrels(write("grades.qrels", "q1 0 d1 1\nq1 0 d2 0\nq2 0 d1 0\nq2 0 d2 1\n"))
    assert eh.prefix(run, group=grades, protected=1, metrics="ndd", rng=1).per_request["favoured"].to_list() == [
        "1",
        "0",
    ]
