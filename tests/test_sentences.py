"""Findings in sentences: from the card of a metric, whoever wrote it and whatever it is asked in; more only where rows need it."""

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import evenhand as eh
import evenhand.report
from evenhand.cards import REGISTRY, Card, metric
from evenhand.report import table as tables
from evenhand.report.charts.registry import draw
from evenhand.report.words import summary
from evenhand.report.words.phrases import PHRASES, card_of, metric_title
from evenhand.report.words.sentences import SentenceWriter, sentences, writer_for
from evenhand.tallies.spectrum import Spectrum
from made_findings import decomposed, findings_of

AUDITS = ("inequality", "exposure", "prefix", "pairwise", "recommender", "outcome_test", "counterfactual", "anything")


@pytest.fixture
def strange():
    """A metric that somebody registers, and that nothing but its card knows."""
    card = Card(
        name="eighth", symbol="E", title="An eighth", asks="Is it an eighth?", needs=Spectrum, span=(0, 1), ideal=0.0,
        better="lower", says="An eighth of {who} is {estimate:percent}{interval}.",
    )  # fmt: skip
    caches = (card_of, metric_title)
    metric(card)(lambda tally: np.float64(0.125))
    yield "eighth"
    del REGISTRY["eighth"]
    for cache in caches:
        cache.cache_clear()


@pytest.mark.parametrize("audit", AUDITS)
def test_a_strangers_metric_is_told_by_its_card_in_every_audit(strange, audit):
    row = {"metric": strange, "group": "f", "estimate": 0.125, "low": 0.1, "high": 0.2, "units": 3, "note": None}
    found = findings_of(audit, [row], extra=("bin", "p", "p_adjusted"))
    assert sentences(found) == ["An eighth of f is 12.5% (95% interval 10.0% to 20.0%)."]
    assert summary.every_sentence(found, 5) == []
    assert "An eighth" in str(
        draw(replace(found, columns={k: v for k, v in found.columns.items() if k != "bin"})).to_dict()
    )
    assert "0.125" in tables.render(found, "table")


def test_a_group_is_called_by_its_label_and_not_by_the_name_of_its_column():
    said = sentences(decomposed())
    assert "small gets 10.0% of all impressions." in said
    assert not any("country" in line for line in said)


@pytest.mark.parametrize("phrase", PHRASES)
def test_every_phrase_can_be_filled(phrase):
    audit, name = phrase
    row = {"metric": name, "group": "f", "estimate": 0.25, "units": 3, "bin": 2}
    words = {"unit": "author_id", "amount": "impressions", "index": "gini", "group": "country"}
    (said,) = sentences(findings_of(audit, [row], words=words, extra=("bin", "p")))
    assert any(number in said for number in ("25.0%", "0.25", "0.0025", "0.003"))
    assert "{" not in said
    assert "country" not in said


def test_writers_are_only_for_audits_that_say_more_than_their_rows():
    plain = findings_of("inequality", [{"metric": "gini", "estimate": 0.5}])
    writer_for(plain)
    audits = {
        "agreement",
        "alarms",
        "compare",
        "counterfactual",
        "experiment",
        "explain",
        "impact",
        "history",
        "network",
        "outcome_test",
        "prefix",
        "rebalance",
        "recommender",
        "sensitivity",
    }
    assert set(SentenceWriter.registry) == audits
    assert writer_for(plain).key_sentences(plain) == []
    assert writer_for(plain).side_tables(plain) == []


def test_an_undefined_row_says_why():
    row = {"metric": "gini", "note": "zero_total", "estimate": math.nan}
    assert sentences(findings_of("inequality", [row])) == [
        "Gini index (gini) is undefined: nobody received anything."
    ]  # fmt: skip


def test_intervals_are_printed_by_one_function():
    printed = re.compile(r"""(?<!scope)\[['"]low['"]\][^\n]*\} to \{|\} interval \{""")
    modules = Path(evenhand.report.__path__[0]).rglob("*.py")
    assert [path.name for path in modules if printed.search(path.read_text())] == []


@pytest.mark.parametrize("metric", ["equal_share", "equal_share(inverted=True)"])
def test_half_of_everything_is_never_said_to_go_to_one_unit_in_more_than_there_are(metric):
    table = pl.DataFrame({"author": list("abc"), "views": [1, 2, 97]})
    result = eh.inequality(table, unit="author", amount="views", population=None, metrics=metric, interval=None)
    assert result.sentences()[0].startswith("One author of 3 gets more than half of all views.")
    even = eh.inequality(table.with_columns(views=1), unit="author", amount="views", population=None, metrics=metric)
    assert even.sentences()[0].startswith("About one author in 2 gets half of all views")
