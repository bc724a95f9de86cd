"""The fair-ranking study: small, on generated tasks and on files in the track's form."""

import json

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand.cli import main
from evenhand.studies import fair_ranking
from evenhand.studies.fair_ranking import PAIR, Measured, Tasks, claims, study
from evenhand.studies.study import Replicates


@pytest.fixture(scope="module")
def small():
    return study(size=24, seed=3)


@pytest.mark.slow
def test_every_claim_has_a_verdict_and_every_task_a_table(small):
    assert len(small.claims) == 8
    titles = [t.title for t in small.tables]
    assert sum("values" in t for t in titles) == 4
    systems = {t.title.split(":")[0]: len(t.rows) for t in small.tables[:4]}
    assert systems == {"recommendation": 4, "rerank 2019": 14, "rerank 2020": 23, "ad hoc 2020": 5}
    assert "inter_acc →" in small.tables[0].head


@pytest.mark.slow
def test_the_page_has_a_figure_for_every_task(small):
    assert small.to_html().count("<svg") == 4


@pytest.fixture
def few_halves(monkeypatch):
    """Each half is one more run of the study, and what is read and written does not depend on how many there are."""
    monkeypatch.setattr(fair_ranking, "HALVES", 3)


def trec_files(folder, runs):
    rng = np.random.default_rng(1)
    folder.mkdir()
    queries = []
    for q in range(5):
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


def test_files_of_the_track_run_with_and_without_runs(few_halves, tmp_path, capsys):
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
    assert main(["study", "fair-ranking", "--rank", "place"]) == 2
    assert "--rank belongs to data of one's own" in capsys.readouterr().err
    with pytest.raises(eh.EvenhandError, match="too small"):
        study(size=3)


def experiment(path, seed):
    rng = np.random.default_rng(seed)
    rows = [
        (f"run{s}", f"q{q}", f"d{d}", r, "fmm"[d % 3], d % 2)
        for s in range(3)
        for q in range(4)
        for r, d in enumerate(np.argsort(rng.random(9) + 0.2 * s * (np.arange(9) % 3 == 0)).tolist()[:6], 1)
    ]
    pl.DataFrame(rows, schema=["system", "request", "item", "rank", "group", "relevance"], orient="row").write_csv(path)
    return str(path)


def test_agreement_is_compared_across_several_experiments_and_not_claimed_from_one(few_halves, tmp_path, capsys):
    one, two = experiment(tmp_path / "one.csv", 1), experiment(tmp_path / "two.csv", 2)
    words = ["study", "fair-ranking", "--format", "json", "--no-progress"]
    assert main([*words, "--data", one, "--data", two]) == 0
    found = json.loads(capsys.readouterr().out)
    across = [f for f in found["findings"] if f["where"] == "section 3.3"]
    assert across[0]["measured"].endswith("in every task")
    taus = found["tables"]["Kendall's tau-c between metrics, over systems"]
    assert {"one", "two"} <= set(taus[0])
    assert main([*words, "--data", one]) == 0
    alone = json.loads(capsys.readouterr().out)["findings"]
    assert {f["comes out"] for f in alone if f["where"] == "section 3.3"} == {"cannot be told"}


def test_columns_of_a_table_may_have_other_names_than_their_roles(few_halves, tmp_path, capsys):
    path = experiment(tmp_path / "one.csv", 1)
    names = {
        "system": "model",
        "request": "query",
        "item": "doc",
        "rank": "place",
        "group": "sex",
        "relevance": "grade",
    }
    (tmp_path / "other").mkdir()
    pl.read_csv(path).rename(names).write_csv(tmp_path / "other" / "one.csv")
    call = ["study", "fair-ranking", "--format", "csv", "--no-progress", "--data"]
    assert main([*call, path]) == 0
    plain = capsys.readouterr().out
    roles = [word for role, name in names.items() for word in (f"--{role}", name)]
    assert main([*call, str(tmp_path / "other" / "one.csv"), *roles]) == 0
    assert capsys.readouterr().out == plain
    assert main([*call, str(tmp_path / "other" / "one.csv"), *roles[:-2]]) == 2
    assert "lacks relevance" in capsys.readouterr().err


def test_tables_of_experiments_that_cannot_be_compared_are_refused(tmp_path, capsys):
    path = experiment(tmp_path / "one.csv", 1)
    table = pl.read_csv(path)
    table.drop("group").write_csv(tmp_path / "lacks.csv")
    table.filter(system="run0").write_csv(tmp_path / "single.csv")
    table.with_columns(group=pl.lit("f")).write_csv(tmp_path / "same.csv")
    for name, said in (("lacks", "lacks group"), ("single", "one system"), ("same", "Fewer than two groups")):
        assert main(["study", "fair-ranking", "--data", str(tmp_path / f"{name}.csv")]) == 2
        assert said in capsys.readouterr().err
    assert main(["study", "fair-ranking", "--data", path, "--protected", "x"]) == 2
    assert "--protected x is no label" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["study", "rebalance", "--data", path, "--data", path])
    assert "given twice" in capsys.readouterr().err


METRICS = ["eel", "awrf(distance='nd', target='equal')", "awrf(distance='nd')", "log_dp", "eed"]


def planted(tau, lost, cut, noise=0.0):
    """Four tasks whose numbers are known, with halves that differ by noise; `tau` is of the task and the pair."""
    rng = np.random.default_rng(1)
    pairs = [frozenset((a, b)) for i, a in enumerate(METRICS) for b in METRICS[:i]]

    def tasks(noise):
        def drawn(value):
            return float(value + noise * rng.normal())

        return Tasks(
            [
                Measured(
                    f"task {i}",
                    9,
                    {pair: drawn(tau(i, pair)) for pair in pairs},
                    {name: drawn(share) for name, share in lost.items()},
                    (drawn(cut[0]), drawn(cut[1])),
                )
                for i in range(4)
            ]
        )

    return Replicates(tasks(0.0), [tasks(noise) for _ in range(16)], is_halved=True)


def test_every_verdict_says_no_in_a_planted_world():
    """All metrics agree but the two that the paper names; prefix metrics have all values, and scores are not needed."""
    world = planted(
        lambda _, pair: -0.5 if pair == PAIR else 0.9, {"pref": 0.0, "log_eur": 0.4, "log_rur": 0.1}, (0.3, 0.3)
    )
    assert {c.statement: c.holds for c in claims(world)} == {c.statement: False for c in claims(world)}


def test_every_verdict_says_yes_in_a_planted_world():
    """The named two agree in all tasks, all others in the first one only."""
    world = planted(
        lambda i, pair: 0.9 if pair == PAIR or i == 0 else -0.2,
        {"pref": 0.3, "log_eur": 0.1, "log_rur": 0.4},
        (0.3, 0.1),
    )
    assert {c.holds for c in claims(world)} == {True}


def test_halves_that_differ_too_much_decide_nothing():
    world = planted(lambda *_: 0.6, {"pref": 0.12, "log_eur": 0.1, "log_rur": 0.2}, (0.3, 0.2), noise=0.3)
    assert {c.statement: c.holds for c in claims(world)} == {c.statement: None for c in claims(world)}
