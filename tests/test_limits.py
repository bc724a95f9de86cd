"""Beyond what is sensible or fits, every audit says so in a sentence; odd input is read or refused in words."""

from __future__ import annotations

import decimal
import gzip
import os
import resource
import signal
import subprocess
import sys
import time
from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pytest

import evenhand as eh
from evenhand.audits.declare import in_words_beyond_limits
from evenhand.report.charts import registry as charts

MANY = 100_000
IDS = [f"g{i}" for i in range(MANY)]
ONE_RANKING = pl.DataFrame(
    {"request": 1, "item": IDS, "rank": range(1, MANY + 1), "score": np.arange(MANY) * 1.0, "rel": 1, "g": IDS}
)
LOG = pl.DataFrame(
    {"u": range(MANY), "v": range(MANY), "g": IDS, "s": np.linspace(0, 1, MANY), "y": [0, 1] * (MANY // 2)}
)
UNITS = {"unit": "u", "amount": "v", "population": None, "interval": None, "rng": 1}
TOO_MANY = {
    "exposure": lambda: eh.exposure(ONE_RANKING, groups="g", interval=None, rng=1),
    "prefix": lambda: eh.prefix(ONE_RANKING, group="g", interval=None, rng=1),
    "pairwise": lambda: eh.pairwise(
        ONE_RANKING, groups="g", relevance="rel", protected="g1", versus="g2", interval=None
    ),
    "sources": lambda: eh.sources(LOG, source="g", **UNITS),
    "outcome_test": lambda: eh.outcome_test(LOG, score="s", outcome="y", group="g"),
    "recommender": lambda: eh.recommender(
        LOG.select(user="u", item=pl.col("u") % 50, score="s", group="g"),
        user_groups="group",
        top=1,
        interval=None,
        rng=1,
    ),
}


@pytest.mark.parametrize("audit", TOO_MANY)
def test_ids_taken_for_groups_are_refused_in_a_sentence(audit):
    with pytest.raises(eh.EvenhandError, match="too many") as refused:
        TOO_MANY[audit]()
    assert refused.value.__cause__ is None, "before anything is allocated"


class PanicException(BaseException):
    """What Polars raises when its own code gives up."""


@pytest.mark.parametrize(
    ("raised", "words"),
    [
        (MemoryError("Unable to allocate 14.9 GiB for an array"), "needs 14.9 GiB of memory"),
        (MemoryError(), "more memory than there is"),
        (RecursionError(), "nested too deeply"),
        (PanicException("index out of bounds"), "Polars gave up"),
    ],
)
def test_what_libraries_give_up_on_is_said_in_words_for_every_audit(raised, words):
    with pytest.raises(eh.EvenhandError, match=words), in_words_beyond_limits("exposure"):
        raise raised


def test_other_errors_pass_as_they_are():
    with pytest.raises(KeyboardInterrupt), in_words_beyond_limits("exposure"):
        raise KeyboardInterrupt


def test_deep_nesting_is_refused_in_words(tmp_path):
    path = tmp_path / "deep.jsonl"
    path.write_text('{"u": 1, "v": ' + "[" * 100_000 + "]" * 100_000 + "}\n")
    with pytest.raises(eh.EvenhandError):
        eh.inequality(str(path), unit="u", amount="v", population=None)
    with pytest.raises(eh.EvenhandError, match="cannot be read"):
        eh.inequality(LOG, metrics=f"top_share(p={'-' * 50_000}1)", **UNITS)


def test_a_packed_file_with_one_huge_field_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "huge.csv.gz"
    with gzip.open(path, "wb") as written:
        written.write(b'u,v\na,1\n"')
        for _ in range(200):
            written.write(b"x" * (1 << 20))
        written.write(b'",3\n')
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(eh.EvenhandError, match="a line of more than 16 MB"):
        eh.inequality(str(path), unit="u", amount="v", population=None, interval=None)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000, "kilobytes"


@pytest.mark.slow
def test_sigterm_ends_a_read_within_five_seconds(tmp_path):
    path = tmp_path / "log.csv"
    many = pl.DataFrame({"u": np.random.default_rng(0).integers(0, 10**7, 6_000_000), "v": 1})
    for part in range(4):
        many.write_csv(tmp_path / f"log{part}.csv")
    words = [sys.executable, "-m", "evenhand", "inequality", str(tmp_path / "log*.csv"), "--unit", "u", "--amount", "v"]
    started = subprocess.Popen([*words, "--population", "none"], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    time.sleep(4)
    assert started.poll() is None, f"{path} is read in less than four seconds"
    began = time.monotonic()
    os.kill(started.pid, signal.SIGTERM)
    assert started.wait(timeout=30) == 143
    assert time.monotonic() - began < 5


EMPTY_LOG = pl.DataFrame(schema={"u": pl.String, "v": pl.Int64, "g": pl.String, "arm": pl.String})
EMPTY_RANKING = pl.DataFrame(
    schema={
        "request": pl.String,
        "item": pl.String,
        "rank": pl.Int64,
        "score": pl.Float64,
        "g": pl.String,
        "rel": pl.Int64,
    }
)
EMPTY = {
    "inequality": lambda: eh.inequality(EMPTY_LOG, **UNITS),
    "sources": lambda: eh.sources(EMPTY_LOG, source="g", **UNITS),
    "decompose": lambda: eh.decompose(EMPTY_LOG, group="g", **UNITS),
    "exposure": lambda: eh.exposure(EMPTY_RANKING, groups="g", relevance="rel", interval=None, rng=1),
    "prefix": lambda: eh.prefix(EMPTY_RANKING, group="g", interval=None, rng=1),
    "pairwise": lambda: eh.pairwise(EMPTY_RANKING, groups="g", relevance="rel", protected="x", interval=None, rng=1),
    "recommender": lambda: eh.recommender(
        pl.DataFrame(schema={"user": pl.Int64, "item": pl.Int64, "score": pl.Float64}), top=2, interval=None, rng=1
    ),
    "experiment": lambda: eh.experiment(
        EMPTY_LOG, arm="arm", randomized="u", unit="u", amount="v", population=None, rng=1
    ),
    "outcome_test": lambda: eh.outcome_test(
        pl.DataFrame(schema={"s": pl.Float64, "y": pl.Int64, "g": pl.String}), score="s", outcome="y", group="g"
    ),
}


@pytest.mark.parametrize("audit", EMPTY)
def test_an_empty_table_makes_a_report_or_is_refused_in_words(audit, tmp_path):
    try:
        found = EMPTY[audit]()
    except eh.EvenhandError:
        return
    assert found.report(tmp_path / "r.html").read_text().startswith("<!doctype html>")
    assert found.sentences() is not None
    assert eh.Result(found.findings).to_json()


def test_answers_without_groups_are_pivoted_by_what_they_list():
    advice = eh.advise(balance="low")
    assert advice.pivot().columns[1:] == advice.frame["metric"].to_list()
    table = pl.DataFrame({"u": range(300), "v": np.random.default_rng(0).integers(1, 90, 300)})
    criteria = eh.criteria(table, unit="u", amount="v", population=None, draws=20, rng=1, metrics=["gini", "theil"])
    pivoted = criteria.pivot()
    assert pivoted.columns == ["criterion", "gini", "theil"]
    assert set(pivoted["criterion"]) == set(criteria.frame["criterion"])


def test_wide_whole_numbers_are_read_or_refused():
    ids = [1, 2, 3, 10**18]
    for kind in (pl.Decimal(20, 0), pl.UInt64):
        table = pl.DataFrame({"u": pl.Series(ids, dtype=kind), "v": pl.Series([1, 2, 3, 4], dtype=kind)})
        found = eh.inequality(table, unit="u", amount="v", population=None, interval=None, metrics="gini")
        assert found.frame["estimate"][0] == eh.metrics.gini([1, 2, 3, 4])
    with pytest.raises(eh.EvenhandError, match="unit='u' holds Int128 values"):
        eh.inequality(pl.DataFrame({"u": pl.Series(ids, dtype=pl.Int128)}), unit="u", population=None)


def test_decimal_users_are_read():
    users = [decimal.Decimal(x) for x in (1, 1, 2, 2, 3, 3)]
    table = pd.DataFrame(
        {"user": users, "item": [1, 2] * 3, "score": [0.1, 0.2, 0.3, 0.1, 0.5, 0.6], "group": list("aabbaa")}
    )
    plain = table.assign(user=[1, 1, 2, 2, 3, 3])
    call = {"user_groups": "group", "top": 1, "interval": None, "rng": 1}
    assert eh.recommender(table, **call).to_dict()["columns"] == eh.recommender(plain, **call).to_dict()["columns"]


@pytest.fixture(scope="module")
def coloured():
    table = pl.DataFrame({"u": range(60), "v": range(60), "g": ["\x1b[31mred", "\x1b[32mred", "red"] * 20})
    return eh.inequality(table, by="g", metrics="gini", **UNITS)


@pytest.mark.parametrize("format", ["table", "csv", "tsv", "markdown", "latex", "jsonl"])
def test_labels_of_escape_sequences_stay_distinct(coloured, format):
    text = coloured.to_text(format)
    assert "\x1b" not in text
    lines = [line.lower() for line in text.splitlines()]  # LaTeX has the title of a metric
    assert len({line.partition("gini")[0] for line in lines if "gini" in line and "red" in line}) == 3


def test_sentences_about_labels_of_escape_sequences_stay_distinct(coloured):
    assert len({sentence.partition(":")[0] for sentence in coloured.sentences()}) == 3


def test_a_line_end_in_a_column_name_breaks_no_chart_and_no_report(tmp_path):
    table = pl.DataFrame({"u\nx": range(60), "v\ny": range(60), "g\nz": ["a", "b", "c"] * 20})
    call = {"unit": "u\nx", "amount": "v\ny", "population": None, "by": "g\nz", "metrics": ["gini", "theil"], "rng": 1}
    found = eh.inequality(table, interval="percentile(49)", **call)
    for kind in found.kinds:
        assert charts.save(found.plot(kind), tmp_path / "chart.svg").read_text().startswith("<svg")
    assert found.report(tmp_path / "r.html").exists()


@pytest.mark.parametrize("content", ["   \n  \n\n", "\t", "\ufeff\n"])
def test_a_trec_file_of_white_space_is_refused(content, tmp_path):
    path = tmp_path / "white.run"
    path.write_text(content)
    for read in (eh.read.trec_run, eh.read.qrels, lambda p: eh.exposure(str(p), groups={"a": "b"}, interval=None)):
        with pytest.raises(eh.EvenhandError, match=r"white space|is empty"):
            read(path)


TEXT = ["a", None, "b", np.nan, "a", "b", None, "a"]
KINDS = {
    "object": pd.Series(TEXT, dtype=object), "category": pd.Series(TEXT, dtype="category"), "string": pd.Series(TEXT, dtype="string")
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_missing_labels_of_pandas_stay_missing(kind):
    labels = KINDS[kind]
    log = pd.DataFrame({"u": range(8), "v": range(1, 9), "g": labels})
    assert eh.inequality(log, by="g", metrics="gini", **UNITS).findings.columns["g"] == ["a", "b", None]
    ranked = pd.DataFrame({"request": 1, "item": list("abcdefgh"), "rank": range(1, 9)})
    given = {"rankings": ranked.assign(g=labels), "groups": "g"}
    listed = {"rankings": ranked, "groups": dict(zip(ranked["item"], labels, strict=True))}
    beside = {"rankings": ranked, "groups": pd.DataFrame({"item": ranked["item"], "group": labels})}
    for call in (given, listed, beside):
        found = eh.exposure(**call, interval=None, metrics="awrf", rng=1)
        assert found.findings.curves["exposure"]["group"] == ["a", "b"]
    scores = np.random.default_rng(0).random((8, 3))
    for groups in (labels, pd.DataFrame({"user": range(8), "group": labels})):
        table = scores if groups is labels else pd.DataFrame(
            {"user": np.repeat(range(8), 3), "item": list(range(3)) * 8, "score": scores.ravel()}
        )  # fmt: skip
        found = eh.recommender(table, user_groups=groups, top=1, interval=None, rng=1)
        assert found.provenance["groups"] == {"a": 3, "b": 2, "(unknown)": 3}


def test_a_viewer_with_more_impressions_than_a_person_has_is_refused():
    log = pl.DataFrame({"u": ["a", "b"], "viewer": [1, 2], "v": [10**12, 3]})
    edges = pl.DataFrame({"follower": [1, 2], "followed": ["a", "b"]})
    with pytest.raises(eh.EvenhandError, match="A viewer has 1,000,000,000,000 impressions"):
        eh.network(log, edges, unit="u", amount="v", viewer="viewer", rng=1)


def test_results_without_estimates_cannot_be_compared_and_say_so():
    log = pl.DataFrame({"u": range(30), "v": range(30)})
    found = eh.criteria(log, unit="u", amount="v", population=None, metrics=["gini"], draws=20, rng=1)
    with pytest.raises(eh.EvenhandError, match="hold no estimates to compare"):
        found.compare(found)


def test_infinite_estimates_have_an_undefined_difference():
    from evenhand.intervals.kinds import difference

    infinite = (np.array(np.inf), np.array(np.nan), np.array(np.nan))
    assert np.isnan(difference(infinite, infinite, 0.95)[0])


def test_a_curve_whose_slices_are_all_suppressed_is_not_among_the_charts():
    draw = np.random.default_rng(1)
    table = pl.DataFrame({"p": draw.random(40), "y": draw.integers(0, 2, 40), "g": ["a", "b"] * 20})
    found = eh.outcome_test(table, score="p", outcome="y", group="g", bins=3, min_units=50)
    assert "calibration" not in found.kinds


def test_headline_and_claims_hold_no_escape_sequences():
    draw = np.random.default_rng(1)
    table = pl.DataFrame({"u": range(80), "v": draw.integers(1, 9, 80), "arm": ["control", "new"] * 40})
    table = table.with_columns(s=pl.lit("\x1b[31m"))
    call = {
        "unit": "u",
        "amount": "v",
        "arm": "arm",
        "randomized": "u",
        "population": None,
        "metrics": ["gini"],
        "draws": 99,
    }
    found = eh.experiment(table, by="s", rng=1, **call)
    assert "\x1b" not in found.headline + "".join(claim.text for claim in found.claims)


def test_a_recommender_without_a_point_that_may_be_shown_has_no_lorenz_curve():
    draw = np.random.default_rng(1)
    rows = [(f"u{u}", f"i{i}", float(draw.random()), "mn"[u % 2]) for u in range(20) for i in range(4)]
    table = pl.DataFrame(rows, schema=["user", "item", "score", "s"], orient="row")
    found = eh.recommender(table, top=2, by="s", min_units=10, interval=None, chance=None)
    assert "lorenz" not in found.kinds


@pytest.mark.parametrize("randomized", ["u", None])
def test_ids_taken_for_arms_are_refused(randomized):
    table = pl.DataFrame({"u": range(2_000), "v": [1] * 2_000, "arm": range(2_000)})
    with pytest.raises(eh.EvenhandError, match=r"There are 2,000 arms, and at most 200 are compared\. Name the column"):
        eh.experiment(table, unit="u", amount="v", arm="arm", control=0, randomized=randomized, population=None)


def test_dates_in_messages_read_as_dates():
    days = pl.DataFrame({"u": [1, 2], "v": [1, 2], "arm": [date(2026, 11, 1)] * 2})
    with pytest.raises(eh.EvenhandError, match=r"There is only one arm: 2026-11-01\. Pass"):
        eh.experiment(days, unit="u", amount="v", arm="arm", randomized="u", population=None)


def test_more_slices_than_a_minute_measures_are_refused():
    table = pl.DataFrame({"u": range(4_002), "v": 1, "g": ["a", "b"] * 2_001, "s": np.arange(4_002) // 2})
    with pytest.raises(eh.EvenhandError, match=r"by makes 2,001 slices, and criteria measures at most 2,000\. Name"):
        eh.criteria(table, unit="u", amount="v", population=None, by="s")
