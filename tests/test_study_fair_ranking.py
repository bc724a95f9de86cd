"""The fair-ranking study: small, on generated tasks and on files in the track's form."""

import json

import numpy as np
import pytest

import evenhand as eh
from evenhand.cli import main
from evenhand.studies.fair_ranking import study


@pytest.fixture(scope="module")
def small():
    return study(size=24, seed=3)


@pytest.mark.slow
def test_every_claim_has_a_verdict_and_every_task_a_table(small):
    assert len(small.claims) == 8
    titles = [t.title for t in small.tables]
    assert sum("values" in t for t in titles) == 4
    assert any("Against the truth" in t for t in titles)
    systems = {t.title.split(":")[0]: len(t.rows) for t in small.tables[:4]}
    assert systems == {"recommendation": 4, "rerank 2019": 14, "rerank 2020": 23, "ad hoc 2020": 5}
    assert "inter_acc →" in small.tables[0].head


@pytest.mark.slow
def test_the_study_is_written_whole(small, tmp_path):
    written = small.write(tmp_path / "study")
    assert (tmp_path / "study" / "index.html").exists()
    assert len([p for p in written if p.suffix == ".svg"]) == 5


def trec_files(folder, runs):
    rng = np.random.default_rng(1)
    folder.mkdir()
    queries = []
    for q in range(12):
        documents = [{"doc_id": f"d{q}-{i}", "relevance": int(rng.random() < 0.5)} for i in range(8)]
        queries.append({"qid": q, "query": "x", "frequency": 1.0, "documents": documents})
    (folder / "eval-sample.jsonl").write_text("\n".join(map(json.dumps, queries)))
    lines = [
        f"{d['doc_id']},{','.join(rng.choice(['Advanced', 'Developing', 'Advanced', ''], 2))}"
        for query in queries
        for d in query["documents"][:6]
    ]
    (folder / "article-level.csv").write_text("\n".join(lines))
    for name in runs:
        lists = [
            {
                "q_num": f"0.{q['qid']}",
                "qid": q["qid"],
                "ranking": rng.permutation([d["doc_id"] for d in q["documents"]]).tolist(),
            }
            for q in queries
        ]
        (folder / f"{name}.json").write_text("\n".join(map(json.dumps, lists)))
    return folder


def test_files_of_the_track_run_with_and_without_runs(tmp_path, capsys):
    assert main(["study", "fair-ranking", "--data", str(trec_files(tmp_path / "a", [])), "--no-progress"]) == 0
    assert "by relevance" in capsys.readouterr().out
    assert (
        main(
            ["study", "fair-ranking", "--data", str(trec_files(tmp_path / "b", ["one", "two", "six"])), "--no-progress"]
        )
        == 0
    )
    assert "six" in capsys.readouterr().out


def test_bad_input_is_refused(tmp_path, capsys):
    assert main(["study", "fair-ranking", "--data", str(tmp_path / "none")]) == 2
    assert main(["study", "fair-ranking", "--data", str(tmp_path)]) == 2
    assert main(["study", "inequality", "--data", str(tmp_path)]) == 2
    assert "generates its own" in capsys.readouterr().err
    with pytest.raises(eh.EvenhandError, match="too small"):
        study(size=3)
