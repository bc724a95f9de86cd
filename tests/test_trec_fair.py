"""Files of the TREC Fair Ranking track, from text to numbers."""

import json

import polars as pl
import pytest

import evenhand as eh
from evenhand.cli import main

QUERIES = [
    {
        "qid": 7,
        "query": "zoo",
        "frequency": 0.5,
        "documents": [{"doc_id": "d1", "relevance": 1}, {"doc_id": "d2", "relevance": 0}],
    },
    {
        "qid": 9,
        "query": "ark",
        "frequency": 0.5,
        "documents": [{"doc_id": "d3", "relevance": 1}, {"doc_id": "d4", "relevance": 1}],
    },
]
RUN = [
    {"q_num": "0.0", "qid": 7, "ranking": ["d1", "d2"]},
    {"q_num": "0.1", "qid": 9, "ranking": ["d3", "d4"]},
    {"q_num": "0.2", "qid": 7, "ranking": ["d2", "d1"]},
]
GROUPS = "d1,Advanced\nd2,Developing,Advanced\nd3,Advanced,,Developing\nd4,\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "queries.jsonl").write_text("".join(json.dumps(q) + "\n" for q in QUERIES))
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(r) + "\n" for r in RUN))
    (tmp_path / "groups.csv").write_text(GROUPS)
    (tmp_path / "sequence.csv").write_text("0.0,7\n0.1,9\n0.10,7\n")
    (tmp_path / "sequence.tsv").write_text("0,0,7\n0,1,9\n")
    return tmp_path


def test_queries_give_judged_pairs_in_the_order_of_the_file(folder):
    found = eh.read.trec_fair_queries(folder / "queries.jsonl")
    assert found.select("request", "item", "relevance", "rank").rows() == [
        ("7", "d1", 1.0, 1), ("7", "d2", 0.0, 2), ("9", "d3", 1.0, 1), ("9", "d4", 1.0, 2),
    ]  # fmt: skip
    assert found["frequency"].to_list() == [0.5] * 4


def test_a_document_without_a_relevance_stays_unjudged(folder):
    (folder / "open.jsonl").write_text(json.dumps({"qid": 1, "documents": [{"doc_id": "a"}, {"doc_id": "b"}]}) + "\n")
    assert eh.read.trec_fair_queries(folder / "open.jsonl")["relevance"].to_list() == [None, None]


def test_sequences_of_both_forms(folder):
    assert eh.read.trec_fair_sequence(folder / "sequence.csv").rows() == [(0, 0, "7"), (0, 1, "9"), (0, 10, "7")]
    assert eh.read.trec_fair_sequence(folder / "sequence.tsv").rows() == [(0, 0, "7"), (0, 1, "9")]


def test_ragged_groups_share_a_document_among_its_authors(folder):
    found = eh.read.trec_fair_groups(folder / "groups.csv").frame.sort("item", "group", nulls_last=True).rows()
    third = pytest.approx(1 / 3)
    assert found == [
        ("d1", "Advanced", 1.0), ("d2", "Advanced", 0.5), ("d2", "Developing", 0.5),
        ("d3", "Advanced", third), ("d3", "Developing", third), ("d3", None, third), ("d4", None, 1.0),
    ]  # fmt: skip


def test_every_ranking_of_a_sequence_counts_the_same(folder):
    run = eh.read.trec_fair_run(folder / "mine.jsonl")
    assert run.filter(pl.col("rank") == 1).select("system", "request", "sample", "item", "weight").rows() == [
        ("mine", "7", "0.0", "d1", 2), ("mine", "9", "0.1", "d3", 1), ("mine", "7", "0.2", "d2", 2),
    ]  # fmt: skip
    groups = {"d1": "a", "d2": "b", "d3": "a", "d4": "b"}
    result = eh.exposure(
        run,
        groups=groups,
        sample="sample",
        weight="weight",
        metrics="dp",
        protected="a",
        attention="rbp(patience=0.5)",
        interval=None,
    )
    assert result.frame["estimate"][0] == pytest.approx((1 + 0.5 + 1) / (0.5 + 1 + 0.5))


def test_the_command_line_reads_the_track_directly(folder, capsys):
    words = ["exposure", f"trec-fair:{folder}/mine.jsonl", "--groups", f"trec-fair:{folder}/groups.csv", "--relevance"]
    words += [
        f"trec-fair:{folder}/queries.jsonl",
        "--protected",
        "Developing",
        "-m",
        "awrf",
        "-m",
        "eel",
        "--format",
        "csv",
        "--seed",
        "1",
    ]
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("system,metric,group,estimate")
    assert [line.split(",")[1] for line in lines[1:]] == ["awrf", "eel"]


@pytest.mark.parametrize(
    ("reader", "text", "words"),
    [
        ("trec_fair_queries", '{"qid": 1, "docs": []}\n', "no key 'documents'"),
        ("trec_fair_queries", '{"qid": 1, "documents": [{"id": "a"}]}\n', "doc_id"),
        ("trec_fair_queries", "not json\n", "cannot be read"),
        ("trec_fair_sequence", "a,b,c,d\n", "two or three values"),
        ("trec_fair_sequence", "x.y,7\n", "whole numbers"),
        ("trec_fair_run", '{"qid": 1}\n', "no key 'ranking'"),
    ],
)
def test_a_file_of_another_kind_is_refused(tmp_path, reader, text, words):
    (tmp_path / "file.jsonl").write_text(text)
    with pytest.raises(eh.EvenhandError, match=words):
        getattr(eh.read, reader)(tmp_path / "file.jsonl")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(eh.EvenhandError, match="is not a file"):
        eh.read.trec_fair_groups(tmp_path / "nothing.csv")
