"""Files as people have them and ids as databases hand them out."""

from __future__ import annotations

import threading
import uuid

import duckdb
import numpy as np
import pandas as pd
import pytest

import evenhand as eh
from evenhand.report.files import write_whole
from evenhand.sources.opening import Files

CALL = {"unit": "u", "amount": "a", "metrics": ["gini"], "interval": None}


def gini_of(table, **more):
    return eh.inequality(table, **CALL, **{"population": None, **more}).findings.columns["estimate"]


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
def test_a_file_whose_lines_end_as_on_old_macs_is_read_beside_others(engine, tmp_path):
    (tmp_path / "1.csv").write_bytes(b"u,a\n1,1\n2,5\n")
    (tmp_path / "2.csv").write_bytes(b"u,a\r3,1\r4,100\r")
    assert gini_of(Files((str(tmp_path / "2.csv"),), engine)) == pytest.approx([99 / 202])
    both = Files((str(tmp_path / "*.csv"),), engine)
    assert gini_of(both) == pytest.approx(gini_of(pd.DataFrame({"u": [1, 2, 3, 4], "a": [1, 5, 1, 100]})))


def test_duckdb_reads_a_csv_in_a_folder_that_is_named_like_a_partition(tmp_path):
    folder = tmp_path / "day=1"
    folder.mkdir()
    (folder / "p.csv").write_text("u,a\n1,2\n2,5\n")
    assert gini_of(Files((str(folder / "p.csv"),), "duckdb"), population=5) == pytest.approx(
        gini_of(str(folder / "p.csv"), population=5)
    )


def test_duckdb_rounds_no_late_fraction_and_minds_no_late_word_in_a_column_nobody_asked_for(tmp_path):
    lines = (f"{i},{1 if i < 25_000 else 1.5},{i if i < 25_000 else 'abc'}\n" for i in range(30_000))
    (tmp_path / "late.csv").write_text("u,a,memo\n" + "".join(lines))
    path = str(tmp_path / "late.csv")
    assert gini_of(Files((path,), "duckdb")) == pytest.approx(gini_of(path), rel=1e-12)
    assert gini_of(path)[0] > 0.05


def test_ids_may_be_uuids_and_a_missing_one_is_missing():
    rng = np.random.default_rng(1)
    ids = [None if i == 7 else uuid.UUID(int=i // 10) for i in range(400)]
    table = pd.DataFrame(
        {"s": rng.random(400), "y": rng.integers(0, 2, 400), "g": rng.choice(["a", "b"], 400), "q": ids}
    )
    call = {"score": "s", "outcome": "y", "group": "g", "request": "q", "bins": 2}
    with pytest.raises(eh.EvenhandError, match="request='q' is missing in 1 rows"):
        eh.outcome_test(table, **call)
    assert eh.outcome_test(table, **call, nan_policy="omit").provenance["clusters"] == 40


def test_ids_of_a_population_may_be_decimals_without_a_digit_behind_the_point():
    connection = duckdb.connect()
    log = connection.sql("select (i % 7)::DECIMAL(18, 0) as u, i as a from range(50) t(i)")
    plain = connection.sql("select i % 7 as u, i as a from range(50) t(i)")
    everyone = connection.sql("select i as u from range(9) t(i)")
    assert gini_of(log, population=everyone) == pytest.approx(gini_of(plain, population=everyone))


def test_threads_that_write_files_with_long_alike_names_do_not_mix_them_up(tmp_path):
    wrong = []

    def work(k):
        path = tmp_path / f"{'r' * 60}_{k}.txt"
        for _ in range(60):
            write_whole(path, k * 50)
            wrong.extend([k] if path.read_text() != k * 50 else [])

    threads = [threading.Thread(target=work, args=(k,)) for k in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(list(tmp_path.iterdir())) == 4
