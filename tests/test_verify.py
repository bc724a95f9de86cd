"""A saved result is made again from its plan and its inputs: the same, another number, other bytes, or not at all."""

import hashlib
import json
import os
import shutil
from datetime import datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

import evenhand as eh
from evenhand.cli import main
from evenhand.sources import inputs as recorded
from test_plans import CALLS, data  # noqa: F401  (a fixture)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log = pl.DataFrame({"who": list("abcde") * 20, "via": ["x", "y"] * 50, "views": range(100)})
    log.write_csv("log.csv")
    log.write_parquet("log.parquet")
    return tmp_path


def reach(table="log.csv", **more):
    how = {"unit": "who", "amount": "views", "population": None, "interval": "percentile(29)", "rng": 1, **more}
    return eh.inequality(table, **how)


def verify(capsys, *words):
    code = main(["verify", *map(str, words), "--no-progress"])
    out = capsys.readouterr()
    assert "Traceback" not in out.err
    assert "fault in evenhand" not in out.err
    return code, out.out + out.err


def test_every_file_that_was_read_is_recorded_with_its_hash(folder):
    for name in ("log.csv", "log.parquet"):
        (entry,) = reach(name).provenance["inputs"]
        content = Path(name).read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        assert entry == {"role": "table", "name": name, "bytes": len(content), "sha256": digest, "rows": 100}


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl", "arrow", "json", "csv.gz", "tsv"])
def test_a_glob_has_an_entry_for_each_file(ending, folder):
    import gzip

    log = pl.read_parquet("log.parquet")
    for i, part in enumerate((log[:30], log[30:100], log[:0])):
        path = f"part{i}.{ending}"
        if ending == "parquet":
            part.write_parquet(path)
        elif ending == "arrow":
            part.write_ipc(path)
        elif ending == "jsonl" and part.height:
            part.write_ndjson(path)
        elif ending == "json" and part.height:
            Path(path).write_text(json.dumps(part.to_dicts()))
        elif ending == "tsv":
            part.write_csv(path, separator="\t")
        elif ending == "csv":
            part.write_csv(path)
        elif ending == "csv.gz":
            Path(path).write_bytes(gzip.compress(part.write_csv().encode()))
    entries = reach(f"part*.{ending}").provenance["inputs"]
    assert [entry["name"] for entry in entries][:2] == [f"part0.{ending}", f"part1.{ending}"]
    assert [entry["rows"] for entry in entries][:2] == [30, 70]
    for entry in entries:
        assert entry["sha256"] == hashlib.sha256(Path(entry["name"]).read_bytes()).hexdigest()


def test_frames_have_rows_and_columns_only(folder):
    log = pl.read_parquet("log.parquet")
    for frame in (log, log.to_pandas(), log.to_arrow()):
        assert reach(frame).provenance["inputs"] == [{"role": "table", "rows": 100, "columns": 3}]
    assert reach(log.lazy()).provenance["inputs"][0]["rows"] == 100


def test_each_role_has_its_files(data, monkeypatch):  # noqa: F811
    monkeypatch.chdir(data)
    how = {"groups": "sides.csv", "relevance": "judged.csv", "metrics": "awrf", "interval": None}
    result = eh.exposure("ranked.csv", **how)
    entries = {entry["role"]: (entry["name"], entry["rows"]) for entry in result.provenance["inputs"]}
    assert entries == {"rankings": ("ranked.csv", 96), "groups": ("sides.csv", 30), "relevance": ("judged.csv", 96)}
    result = eh.recommender("scores.npy", user_groups="users.csv", top=2, metrics="mad", interval=None)
    assert {entry["role"]: entry["rows"] for entry in result.provenance["inputs"]} == {"scores": 12, "user_groups": 12}


def test_trec_files_are_recorded_under_their_roles(folder):
    Path("a.run").write_text("q1 Q0 d1 1 2.0 a\nq1 Q0 d2 2 1.0 a\n")
    Path("b.run").write_text("q1 Q0 d2 1 2.0 b\n\nq1 Q0 d1 2 1.0 b\nq1 Q0 d3 3 0.5 b\n")
    Path("judged").write_text("q1 0 d1 1\nq1 0 d2 0\n")
    result = eh.exposure("*.run", groups={"d1": "f", "d2": "m", "d3": "f"}, relevance="judged", interval=None)
    named = [(e["role"], e.get("name"), e["rows"]) for e in result.provenance["inputs"]]
    expected = {("rankings", "a.run", 2), ("rankings", "b.run", 3), ("relevance", "judged", 2), ("groups", None, 3)}
    assert set(named) == expected


def test_small_groups_hide_the_rows_of_the_input_too(folder):
    result = reach(by="via", min_units=6)
    assert result.provenance["rows"] is None
    assert [entry["rows"] for entry in result.provenance["inputs"]] == [None]


def test_the_time_of_computing_is_utc(folder):
    at = datetime.fromisoformat(reach().provenance["computed_at"])
    assert at.utcoffset() == timedelta(0)


def test_a_file_that_changes_while_it_is_hashed_has_no_hash(folder, monkeypatch):
    def hash_late(path, state):
        os.utime(path, (1, 1))
        return "0" * 64

    monkeypatch.setattr(recorded, "_sha256", hash_late)
    assert reach().provenance["inputs"][0]["sha256"] is None


def test_hashing_can_be_left_out(folder, monkeypatch, capsys):
    monkeypatch.setenv("EVENHAND_HASH", "off")
    reach().to_json("result.json")
    assert reach().provenance["inputs"][0]["sha256"] is None
    code, text = verify(capsys, "result.json")
    assert code == 0
    assert "records no file" in text


@pytest.mark.parametrize("name", CALLS)
def test_every_audit_can_be_verified(name, data, tmp_path, monkeypatch, capsys):  # noqa: F811
    monkeypatch.chdir(data)
    getattr(eh, name)(**CALLS[name][-1]).to_json(tmp_path / "r.json")
    code, text = verify(capsys, tmp_path / "r.json")
    assert (code, text.split(":")[0]) == (0, "The same"), text


def test_results_of_results_and_of_no_table_are_verified(folder, capsys):
    for name in ("monday", "friday"):
        reach(by="via", rng=len(name)).to_json(f"{name}.json")
    eh.compare("monday.json", "friday.json").to_json("compared.json")
    eh.advise(balance="medium", bias="high").to_json("advised.json")
    assert verify(capsys, "compared.json")[0] == verify(capsys, "advised.json")[0] == 0
    reach(by="via", rng=9).to_json("friday.json")
    code, text = verify(capsys, "compared.json")
    assert code == 1
    assert "results 'friday.json' has other bytes" in text


def test_a_counterfactual_is_verified(data, tmp_path, monkeypatch, capsys):  # noqa: F811
    monkeypatch.chdir(data)
    how = {"score": "s", "outcome": "y", "group": "g", "request": "job", "treated": "t", "bins": 3}
    test = eh.outcome_test("people.parquet", kind="classification", **how)
    test.counterfactual(rng=4, null_draws=20).to_json(tmp_path / "r.json")
    assert verify(capsys, tmp_path / "r.json")[0] == 0


def test_part_of_a_result_is_verified(folder, capsys):
    reach().only("gini").to_json("r.json")
    assert verify(capsys, "r.json")[0] == 0


def test_rounded_numbers_of_small_groups_are_verified(folder, capsys):
    reach(by="via", min_units=3).to_json("r.json")
    assert verify(capsys, "r.json")[0] == 0


def test_results_of_a_run_are_verified_in_another_folder(folder, monkeypatch, capsys):
    Path("plan.toml").write_text(
        "audit = 'inequality'\ntable = 'log.csv'\nunit = 'who'\namount = 'views'\npopulation = 'none'\noutputs = 'r.json'\n"
    )
    assert main(["run", "plan.toml", "--no-progress"]) == 0
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    capsys.readouterr()
    code, text = verify(capsys, "../r.json")
    assert (code, text) == (0, "The same: 3 rows, equal to the bit.\n1 file with the recorded SHA-256.\n")
    assert Path.cwd() == elsewhere


def test_files_are_found_beside_the_result_by_their_name(folder, tmp_path_factory, monkeypatch, capsys):
    reach(str(folder / "log.csv")).to_json("r.json")
    other = tmp_path_factory.mktemp("another machine")
    for name in ("r.json", "log.csv"):
        shutil.move(name, other / name)
    assert verify(capsys, other / "r.json")[0] == 0


def test_files_of_a_rollup_are_recorded_and_found_on_another_machine(folder, tmp_path_factory, monkeypatch, capsys):
    Path("data").mkdir()
    Path("data/ranked.csv").write_text("request,item,rank\n1,x,1\n1,y,2\n2,y,1\n2,x,2\n")
    Path("data/items.csv").write_text("item,provider\nx,ann\ny,bob\n")
    Path("data/makers.csv").write_text("provider,group\nann,f\nbob,m\n")
    groups = eh.rollup(str(folder / "data/items.csv"), "data/makers.csv")
    result = eh.exposure("data/ranked.csv", groups=groups, metrics="awrf", interval=None, rng=1)
    entries = {entry["role"]: (Path(entry["name"]).name, entry["rows"]) for entry in result.provenance["inputs"]}
    assert entries == {"rankings": ("ranked.csv", 4), "items": ("items.csv", 2), "providers": ("makers.csv", 2)}
    Path("out").mkdir()
    result.to_json("out/r.json")
    other = tmp_path_factory.mktemp("another machine") / "copy"
    shutil.move(folder, other)
    shutil.copy(other / "data/items.csv", other / "out")  # named by its whole path
    monkeypatch.chdir(other.parent)
    code, text = verify(capsys, other / "out/r.json")
    assert (code, text) == (0, "The same: 1 row, equal to the bit.\n3 files with the recorded SHA-256.\n")
    (other / "data/makers.csv").unlink()
    code, text = verify(capsys, other / "out/r.json")
    assert (code, "made from providers 'data/makers.csv', which is neither" in text) == (2, True)


def test_a_table_that_is_gone_cannot_be_verified_and_one_that_moved_can(folder, capsys):
    reach().to_json("r.json")
    Path("log.csv").rename("moved.csv")
    code, text = verify(capsys, "r.json")
    assert code == 2
    assert "made from table 'log.csv', which is neither there any more nor beside the result. Copy it" in text
    assert verify(capsys, "r.json", "--table", "moved.csv")[0] == 0


def test_other_bytes_are_named_even_where_the_numbers_are_the_same(folder, capsys):
    reach().to_json("r.json")
    Path("log.csv").write_text(Path("log.csv").read_text() + "\n")
    code, text = verify(capsys, "r.json")
    assert code == 1
    assert "Another input: table 'log.csv' has other bytes (SHA-256 " in text
    assert "Another number" not in text


def test_other_numbers_are_named(folder, capsys):
    reach(by="via").to_json("r.json")
    saved = json.loads(Path("r.json").read_text())
    saved["columns"]["estimate"][0] += 1e-6
    Path("forged.json").write_text(json.dumps(saved))
    code, text = verify(capsys, "forged.json")
    assert code == 1
    assert text.startswith("Another number: gini (via=x): estimate ")
    saved["columns"]["estimate"][0] += 1e-14 - 1e-6
    Path("forged.json").write_text(json.dumps(saved))
    assert verify(capsys, "forged.json")[0] == 0


@pytest.mark.parametrize("part", ["curves", "claims", "rows", "question"])
def test_everything_that_a_page_shows_is_compared(part, folder, capsys):
    reach(by="via").to_json("r.json")
    saved = json.loads(Path("r.json").read_text())
    if part == "curves":
        saved["curves"]["lorenz"]["share"][3] += 0.01
    elif part == "claims":
        made = {
            "text": "x is higher",
            "metric": "gini",
            "direction": "higher",
            "p_adjusted": 0.01,
            "p": 0.01,
            "made": True,
        }
        saved["claims"].append(made)
    elif part == "rows":
        saved["provenance"]["rows"] = 99
    else:
        saved["question"] = "Is it fair?"
    Path("r.json").write_text(json.dumps(saved))
    assert verify(capsys, "r.json")[0] == 1


def test_a_new_file_of_a_glob_is_named(folder, capsys):
    shutil.copy("log.csv", "log2.csv")
    reach("log*.csv").to_json("r.json")
    assert verify(capsys, "r.json")[0] == 0
    shutil.copy("log.csv", "log3.csv")
    code, text = verify(capsys, "r.json")
    assert code == 1
    assert "table has 2 files recorded, 3 now" in text
    Path("log3.csv").unlink()
    Path("log2.csv").unlink()
    code, text = verify(capsys, "r.json")
    assert code == 1
    assert "table 'log2.csv' is not there" in text


def test_a_result_of_a_frame_needs_its_table(folder, capsys):
    reach(pl.read_csv("log.csv"), population=pl.DataFrame({"who": list("abcdef")})).to_json("r.json")
    code, text = verify(capsys, "r.json")
    assert code == 2
    assert "its table (a polars DataFrame), population (a polars DataFrame). Pass --table FILE" in text
    pl.DataFrame({"who": list("abcdef")}).write_csv("everyone.csv")
    assert verify(capsys, "r.json", "--table", "log.csv", "population=everyone.csv")[0] == 0
    pl.read_csv("log.csv")[:99].write_csv("short.csv")
    code, text = verify(capsys, "r.json", "--table", "short.csv", "population=everyone.csv")
    assert code == 1
    assert "table has 100 rows recorded, 99 now" in text


def test_another_version_is_named(folder, capsys):
    reach().to_json("r.json")
    saved = json.loads(Path("r.json").read_text())
    saved["provenance"]["versions"]["evenhand"] = "0.0.1"
    Path("r.json").write_text(json.dumps(saved))
    code, text = verify(capsys, "r.json")
    assert code == 0
    assert "with other versions: evenhand 0.0.1 (now " in text


def test_what_holds_no_plan_cannot_be_verified(folder, capsys):
    a, b = reach(by="via", rng=1), reach(by="via", rng=2)
    a.compare(b).to_json("r.json")
    code, text = verify(capsys, "r.json")
    assert code == 2
    assert "holds no plan" in text
    Path("r.json").write_text("[1]")
    assert verify(capsys, "r.json")[0] == 2
    assert verify(capsys, "nowhere.json")[0] == 2
