"""Our measures inside ir_measures: parsed by it, computed through its own calls and command, equal to the plain functions."""

import json
import math
import os
import subprocess
import sys
import warnings

import ir_measures
import numpy as np
import pytest

import evenhand as eh
from evenhand.adapters.ir_measures import AWRF, EED, EEL, EER, FAIR, Mean, nDD, nDJS, nDKL, provider
from hosts.blocks import run_page, upstream

GROUPS = {f"d{i:02}": "f" if i % 3 == 0 else "m" for i in range(38)}
RANKED = 12


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A run of twenty queries with ties, judgments with groups in their second field, and the groups as a file."""
    place, rng = tmp_path_factory.mktemp("trec"), np.random.default_rng(5)
    run, qrels = [], []
    for q in range(20):
        docs = rng.choice(40, RANKED, replace=False)
        run += [f"q{q} Q0 d{d:02} {r} {round(float(10 - r // 2), 1)} tag" for r, d in enumerate(docs, 1)]
        qrels += [
            f"q{q} {GROUPS.get(f'd{d:02}', -1)} d{d:02} {int(rng.integers(-1, 3))}" for d in rng.choice(40, 15, False)
        ]
    qrels.append("q99 f d00 1")
    (place / "run").write_text("\n".join(run) + "\n")
    (place / "qrels").write_text("\n".join(qrels) + "\n")
    (place / "docs.csv").write_text("doc_id,group\n" + "".join(f"{d},{g}\n" for d, g in GROUPS.items()))
    return place


@pytest.fixture(scope="module")
def read(files):
    qrels = list(ir_measures.read_trec_qrels(str(files / "qrels")))
    run = list(ir_measures.read_trec_run(str(files / "run")))
    return qrels, run


def ranking(run, query):
    """Documents by falling score, then falling id, as trec_eval orders them."""
    return [d.doc_id for d in sorted(run, key=lambda d: (d.score, d.doc_id), reverse=True) if d.query_id == query]


def values(measure, qrels, run):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", eh.UndefinedWarning)
        return {m.query_id: m.value for m in ir_measures.iter_calc([measure], qrels, run)}


SHARE = {g: sum(v == g for v in GROUPS.values()) / len(GROUPS) for g in "fm"}
PLAIN = {
    "awrf": (AWRF(groups=GROUPS) @ 10, lambda x: eh.metrics.awrf(x[:10], target=SHARE)),
    "awrf to a target": (
        AWRF(groups=GROUPS, target={"f": 0.5, "m": 0.5}, distance="tv", attention="log"),
        lambda x: eh.metrics.awrf(x, target={"f": 0.5, "m": 0.5}, distance="tv", attention="log"),
    ),
    "fair": (FAIR(groups=GROUPS, protected="f", p=0.4), lambda x: eh.metrics.fair(x, protected="f", p=0.4)),
    "ndd": (nDD(groups=GROUPS, protected="f") @ 10, lambda x: eh.metrics.ndd(x[:10], protected="f")),
    "ndkl": (nDKL(groups=GROUPS, protected="f"), lambda x: eh.metrics.ndkl(x, protected="f")),
    "ndjs": (nDJS(groups=GROUPS, normalizer="max") @ 5, lambda x: eh.metrics.ndjs(x[:5], normalizer="max")),
}


@pytest.mark.filterwarnings("ignore::evenhand.UndefinedWarning")
@pytest.mark.parametrize("name", PLAIN)
def test_measures_of_one_ranking_equal_the_plain_functions(name, read):
    measure, plain = PLAIN[name]
    found = values(measure, *read)
    assert set(found) == {f"q{q}" for q in range(20)} | {"q99"}
    for query, value in found.items():
        labels = [GROUPS.get(d) for d in ranking(read[1], query)]
        assert value == pytest.approx(plain(labels) if labels else math.nan, rel=1e-12, nan_ok=True)


@pytest.mark.parametrize("level", ["group", "item"])
def test_expected_exposure_equals_the_plain_functions(level, read):
    qrels, run = read
    found = [values(m(groups=GROUPS, level=level), qrels, run) for m in (EED, EEL, EER)]
    for query in {q.query_id for q in qrels} - {"q99"}:
        relevance = {q.doc_id: max(q.relevance, 0) for q in qrels if q.query_id == query}
        given = {d: 0.5**i for i, d in enumerate(ranking(run, query))}
        due = eh.metrics.target_exposure(relevance, "rbp(patience=0.5)")
        keys = ["f", "m"] if level == "group" else sorted({*given, *due})
        e, aim = (
            [sum(v for d, v in x.items() if (GROUPS.get(d) if level == "group" else d) == k) for k in keys]
            for x in (given, due)
        )
        plain = eh.metrics.eed(e), eh.metrics.eel(e, due=aim), eh.metrics.eer(e, due=aim)
        assert [f[query] for f in found] == pytest.approx(plain, rel=1e-12)


def test_text_with_a_file_and_a_cutoff_parses_and_reads_back(files):
    text = f"AWRF(groups='{files / 'docs.csv'}')@10"
    measure = ir_measures.parse_measure(text)
    assert str(measure) == text
    assert ir_measures.parse_measure(str(measure)) == measure
    assert measure != ir_measures.parse_measure("AWRF@10")


def test_a_file_of_groups_says_the_same_as_a_dictionary(files, read):
    by_file = values(AWRF(groups=str(files / "docs.csv")) @ 10, *read)
    assert by_file == pytest.approx(values(AWRF(groups=GROUPS) @ 10, *read), nan_ok=True)


def test_without_groups_the_second_field_of_the_qrels_gives_them(read):
    judged = {q.doc_id: None if q.iteration == "-1" else q.iteration for q in read[0]}
    assert values(AWRF @ 10, *read) == pytest.approx(values(AWRF(groups=judged) @ 10, *read), nan_ok=True)


def test_queries_without_a_value_are_left_out_of_the_mean_and_counted(read):
    measure = AWRF(groups=GROUPS) @ 10
    with pytest.warns(eh.UndefinedWarning, match="undefined for 1 of 21 queries"):
        mean = ir_measures.calc_aggregate([measure], *read)[measure]
    defined = [v for v in values(measure, *read).values() if not math.isnan(v)]
    assert isinstance(mean, Mean)
    assert (mean.queries, mean.skipped) == (20, 1)
    assert mean == pytest.approx(sum(defined) / 20)


def test_a_list_of_one_group_only_is_undefined_not_zero():
    qrels = [ir_measures.Qrel("q", d, 1, g) for d, g in (("a", "f"), ("b", "f"), ("c", "m"))]
    run = [ir_measures.ScoredDoc("q", "a", 2.0), ir_measures.ScoredDoc("q", "b", 1.0)]
    assert math.isnan(values(nDD(protected="f"), qrels, run)["q"])


def test_measures_stand_beside_those_of_the_host(read):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", eh.UndefinedWarning)
        found = ir_measures.calc_aggregate([AWRF(groups=GROUPS) @ 10, ir_measures.nDCG @ 10, EEL(groups=GROUPS)], *read)
        alone = ir_measures.calc_aggregate([ir_measures.nDCG @ 10], *read)
    assert found[ir_measures.nDCG @ 10] == alone[ir_measures.nDCG @ 10]
    assert provider.supports(EEL)
    assert not provider.supports(ir_measures.nDCG)


def command(files, *words):
    line = [sys.executable, "-m", "evenhand.adapters.ir_measures", *words]
    return subprocess.run(line, cwd=files, capture_output=True, text=True, env={**os.environ, "COLUMNS": "200"})


def test_the_command_prints_what_that_of_the_host_prints(files, read):
    done = command(files, "qrels", "run", "AWRF(groups='docs.csv')@10", "nDCG@10", "--places", "-1")
    printed = dict(line.split("\t") for line in done.stdout.splitlines())
    theirs = subprocess.run(
        [sys.executable, "-m", "ir_measures", "qrels", "run", "nDCG@10", "--places", "-1"],
        cwd=files, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0
    assert f"nDCG@10\t{printed['nDCG@10']}\n" == theirs.stdout
    defined = [v for v in values(AWRF(groups=GROUPS) @ 10, *read).values() if not math.isnan(v)]
    assert float(printed["AWRF(groups='docs.csv')@10"]) == pytest.approx(sum(defined) / 20)
    assert done.stderr.splitlines() == [
        "AWRF(groups='docs.csv')@10 is undefined for 1 of 21 queries; its mean leaves them out."
    ]


def test_the_command_takes_the_options_of_the_host(files, read):
    done = command(files, "qrels", "run", "FAIR(protected='f')@10", "-q", "-n", "-o", "jsonl")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert {r["query_id"] for r in rows} == {q.query_id for q in read[0]}


@pytest.mark.parametrize(
    ("measure", "said"),
    [
        ("AWRF(gruops='docs.csv')", "Did you mean 'groups'?"),
        ("AWRF(groups='dogs.csv')", "Did you mean 'docs.csv'?"),
        ("AWRF(distance='ks')", "one of 'js', 'kl', 'tv', 'nd', 'rd'"),
        ("nDD(groups='docs.csv')@10", "Pass protected="),
        ("AWRF(unknown=3)", "Pass a value of type str"),
    ],
)
def test_bad_input_is_a_sentence_on_stderr_and_exit_code_two(files, measure, said):
    done = command(files, "qrels", "run", measure)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_qrels_without_groups_are_refused_with_the_two_ways_out():
    qrels, run = [ir_measures.Qrel("q", "a", 1)], [ir_measures.ScoredDoc("q", "a", 1.0)]
    with pytest.raises(eh.EvenhandError, match=r"groups='docs.csv'.*second field"):
        values(AWRF, qrels, run)


def test_the_example_of_the_page_runs(tmp_path):
    assert "AWRF" in run_page("ir_measures", tmp_path)


def test_the_loop_drafted_for_ir_measures_makes_the_measures_known():
    code = f"import ir_measures\n{upstream('ir_measures')}\nprint(repr(ir_measures.parse_measure('AWRF@10')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("AWRF"), done.stderr
