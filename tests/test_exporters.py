"""Out to other tools: every number is in the text that Prometheus reads, and the dashboard asks for what is there."""

import json
import math
import re
import sqlite3

import polars as pl
import pytest

import evenhand as eh
from evenhand.findings import Findings, row, tidy
from evenhand.report.table import dashboard, open_metrics
from evenhand.results import Result

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABELS = r'(?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\n"])*",?)*'
SAMPLE = re.compile(rf"({NAME}){{({LABELS})}} (NaN|[-+]Inf|[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?)")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\n"])*)"')


def parsed(text):
    """(name, labels) -> number, by the grammar of OpenMetrics; families must not be interleaved, and the end is marked."""
    *lines, last, nothing = text.split("\n")
    assert (last, nothing) == ("# EOF", "")
    found, family, seen = {}, "", set()
    for line in lines:
        if line.startswith("# "):
            kind, name, _ = line[2:].split(" ", 2)
            assert kind in ("HELP", "TYPE")
            if name != family:
                assert name not in seen
                family = name
                seen.add(name)
            continue
        parts = SAMPLE.fullmatch(line)
        assert parts, line
        assert parts[1] == family
        pairs = LABEL.findall(parts[2])
        assert len({name for name, _ in pairs}) == len(pairs)
        labels = {k: re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m[1], m[1]), v) for k, v in pairs}
        key = (parts[1], tuple(sorted(labels.items())))
        assert key not in found
        found[key] = float(parts[3])
    return found


def audited(**more):
    log = pl.DataFrame(
        {"author": range(60), "source": ["home", 'say "x\\y"\n'] * 30, "views": [(7 * i) % 31 + 1 for i in range(60)]}
    )
    asked = {
        "unit": "author",
        "amount": "views",
        "population": None,
        "by": "source",
        "metrics": ["gini", "top_share(p=0.1)"],
        "rng": 1,
    }
    return eh.inequality(log, **{**asked, **more})


def test_every_number_is_told_with_its_labels():
    result = audited()
    found = parsed(result.to_text("openmetrics"))
    plan = result.provenance["plan_hash"]
    for r in result.findings.rows():
        labels = {"audit": "inequality", "metric": r["metric"], "plan": plan, "source": r["source"]}
        for column in ("estimate", "low", "high", "units"):
            assert found["evenhand_" + column, tuple(sorted(labels.items()))] == r[column]


def test_undefined_numbers_are_absent_and_infinite_ones_are_told():
    rows = [row({}, "log_dp", estimate=math.inf), row({}, "dp", estimate=math.nan)]
    found = parsed(open_metrics([Findings("exposure", "?", (), tidy(rows, ()))]))
    assert [(dict(labels)["metric"], value) for (_, labels), value in found.items()] == [("log_dp", math.inf)]


def test_slices_keep_their_names_where_the_format_allows():
    names = ("audit", "a b", "a-b", "1st", "größe")
    rows = [row(dict.fromkeys(names, "x"), "gini", estimate=0.5)]
    [(_, labels)] = parsed(open_metrics([Findings("inequality", "?", names, tidy(rows, names))]))
    assert {k for k, v in labels if v == "x"} == {"slice_audit", "a_b", "a_b_", "slice_1st", "gr__e"}


def test_rows_that_only_a_column_of_the_audit_tells_apart_have_it_as_a_label(tmp_path):
    rows = [row({}, "gap", group="F", estimate=i / 10, bin=i, p=0.5) for i in (1, 2, 3)]
    findings = Findings("outcome_test", "?", (), tidy(rows, (), ["bin", "p"]))
    kept = eh.history(tmp_path / "h.parquet").append(Result(findings), at="2026-11-16")
    for held in (findings, kept.latest()[0]):
        labels = [dict(labels) for name, labels in parsed(open_metrics([held])) if name == "evenhand_estimate"]
        assert [float(label["bin"]) for label in labels] == [1, 2, 3]
        assert all("p" not in label for label in labels)


def test_several_results_make_one_text():
    found = parsed(open_metrics([audited().findings, audited(by=None).findings]))
    assert sum(name == "evenhand_estimate" for name, _ in found) == 6


def test_a_history_exports_its_latest_day(tmp_path):
    kept = eh.history(tmp_path / "reach.parquet")
    kept.append(audited(interval=None), at="2026-11-15").append(audited(interval=None), at="2026-11-16")
    found = parsed(open_metrics(kept.latest()))
    assert len([key for key in found if key[0] == "evenhand_estimate"]) == 4
    [day] = [value for (name, _), value in found.items() if name == "evenhand_day_timestamp_seconds"]
    assert day == 1794787200  # 2026-11-16 00:00 UTC


def test_the_dashboard_asks_for_what_the_text_holds():
    result = audited()
    board = json.loads(result.to_text("grafana"))
    there = {
        (name, dict(labels)["audit"], dict(labels)["metric"]) for name, labels in parsed(result.to_text("openmetrics"))
    }
    asked = set()
    for panel in board["panels"]:
        for target in panel["targets"]:
            name, audit, metric = re.fullmatch(r'(\w+)\{audit="([^"]*)",metric="([^"]*)"\}', target["expr"]).groups()
            asked.add((name, audit, metric))
            assert "{{source}}" in target["legendFormat"]
    assert asked <= there
    assert {metric for _, _, metric in asked} == {"gini", "top_share(p=0.1)"}
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"]) == 2
    assert [p["fieldConfig"]["defaults"]["unit"] for p in board["panels"]] == ["none", "percentunit"]


def test_the_frame_goes_into_any_database(tmp_path):
    kept = eh.history(tmp_path / "reach.parquet").append(audited(interval=None), at="2026-11-16")
    with sqlite3.connect(tmp_path / "reach.sqlite") as base:
        kept.frame.to_pandas().to_sql("reach", base, index=False)
        assert base.execute("select count(*) from reach where metric = 'gini'").fetchone() == (2,)
    base.close()


def test_a_dashboard_of_nothing_has_no_panels():
    assert json.loads(dashboard([]))["panels"] == []
    with pytest.raises(eh.EvenhandError, match="format"):
        audited().to_text("prometheus")
