"""A metric that a stranger declares on a tally is measured by its function, and shown wherever metrics are shown."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand.cards import REGISTRY, Card, metric
from evenhand.cli import main
from evenhand.metrics.representation import Represented
from evenhand.tallies.exposure import Amortised, Exposed, Exposure
from evenhand.tallies.pairs import Pairs
from evenhand.tallies.placement import Placement

VALUE = 0.125
ITEMS = "abcdef"
TABLE = pl.DataFrame(
    {
        "request": np.repeat(["q1", "q2", "q3"], 6),
        "item": list(ITEMS) * 3,
        "rank": [1, 2, 3, 4, 5, 6, 2, 1, 4, 3, 6, 5, 6, 5, 4, 3, 2, 1],
        "score": [6.0, 5, 4, 3, 2, 1, 5, 6, 3, 4, 1, 2, 1, 2, 3, 4, 5, 6],
        "grade": [1, 0, 0, 1, 0, 1] * 3,
        "side": ["x", "y"] * 9,
    }
)
MORE = pl.concat([TABLE.filter(pl.col("rank") <= 6 - i).with_columns(pl.col("request") + str(i)) for i in range(3)])
"""Enough requests for an interval, and not all alike."""

TALLIES = {
    "placed": (Placement, "ranking", "prefix"),
    "placed_too": (Placement, "ranking", "exposure"),
    "represented": (Represented, "ranking", "exposure"),
    "exposed": (Exposed, "ranking", "exposure"),
    "exposure": (Exposure, "request", "exposure"),
    "amortised": (Amortised, "request", "exposure"),
    "paired": (Pairs, "population", "pairwise"),
    "paired_cells": (Pairs, "pair", "pairwise"),
}
OPTIONS = {
    "prefix": {"group": "side"},
    "exposure": {"groups": "side", "score": "score"},
    "pairwise": {"groups": "side", "relevance": "grade", "protected": "x"},
}


@pytest.fixture
def strangers():
    """Metrics that return 0.125 on every ranking tally; they are gone after the test."""
    before = dict(REGISTRY)

    def declare(name, needs, per, value=VALUE, reads=frozenset(), certain=False):
        card = Card(
            name=name, symbol=name, title=f"A stranger's {name}", asks="What does a stranger measure?", needs=needs,
            span=(0.0, 1.0), ideal=0.0, better="lower", per=per, family="seams", reads=reads, otherwise="undefined",
            says="The stranger found {estimate:number}{interval}.", certain=certain,
        )  # fmt: skip

        def function(t):
            return np.full(t.wins.shape[:-2], value) if isinstance(t, Pairs) else value

        function.__qualname__ = f"strangers.{name}"
        return metric(card)(function)

    yield declare
    REGISTRY.clear()
    REGISTRY.update(before)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "lists.csv"
    TABLE.write_csv(path)
    return str(path)


def words(options):
    return [w for name, value in options.items() for w in (f"--{name}", value)]


@pytest.mark.parametrize("name", TALLIES)
def test_a_metric_declared_on_a_tally_shows_in_frame_table_sentence_plan_and_command(strangers, table, capsys, name):
    needs, per, audit = TALLIES[name]
    strangers(name, needs, per, certain=True)
    result = getattr(eh, audit)(table, metrics=name, rng=1, **OPTIONS[audit])
    rows = list(result.findings.rows())
    assert rows
    assert {(r["metric"], r["estimate"], r["low"], r["high"], r["note"]) for r in rows} == {
        (name, VALUE, VALUE, VALUE, None)
    }
    assert set(result.per_request["estimate"]) == {VALUE}
    assert str(VALUE) in repr(result)
    told = {
        s.rpartition(": ")[2].partition("; ")[0].removesuffix(".")
        for s in result.sentences()
        if not s.startswith("x stands")
    }
    assert told == {"The stranger found 0.125 (95% interval 0.125 to 0.125)"}
    plan = result.provenance["plan"]
    assert plan["metrics"] == name
    again = getattr(eh, plan["audit"])(**{k: v for k, v in plan.items() if k != "audit"})
    assert again.to_dict()["columns"] == result.to_dict()["columns"]
    assert main([audit, table, "-m", name, "--seed", "1", *words(OPTIONS[audit]), "--format", "csv"]) == 0
    assert capsys.readouterr().out.count(f"{VALUE},{VALUE},{VALUE}") == len(rows)


@pytest.mark.parametrize(
    ("needs", "reads", "audit", "said"),
    [
        (Placement, "sides", "prefix", "compares two groups. Pass protected="),
        (Represented, "sides", "exposure", "compares two groups. Pass protected="),
        (Exposed, "sides", "exposure", "compares two groups. Pass protected="),
        (Exposure, "sides", "exposure", "compares two groups. Pass protected="),
        (Exposure, "relevance", "exposure", "needs relevance. Pass relevance="),
        (Exposure, "dues", "exposure", "makes due. Pass relevance="),
        (Amortised, "scores", "exposure", "needs predicted utilities. Pass score="),
        (Pairs, "sides", "pairwise", "compares two groups. Pass protected="),
    ],
)
def test_a_metric_that_lacks_what_its_card_reads_is_refused_in_the_same_words(strangers, needs, reads, audit, said):
    strangers("stranger", needs, "ranking" if issubclass(needs, Placement | Exposed) else "request", reads={reads})
    options = OPTIONS[audit] | ({"protected": None} if audit == "pairwise" else {})
    options.pop("score", None)
    with pytest.raises(eh.EvenhandError, match=f"metrics='stranger' .*{said}"):
        getattr(eh, audit)(TABLE, metrics="stranger", **options)


def test_a_metric_that_takes_sides_without_saying_so_is_not_given_empty_ones(strangers):
    card = strangers("stranger", Exposure, "request")
    card.function = lambda t: t.both(t.received)[0]
    with pytest.raises(eh.EvenhandError, match="compares two groups"):
        eh.exposure(TABLE, groups="side", metrics="stranger")


def test_a_metric_on_pairs_is_called_on_resamples_too(strangers):
    found = strangers("stranger", Pairs, "population", reads={"sides"})
    found.function = lambda t: 1 - t.accuracy(t.versus, t.protected)
    result = eh.pairwise(MORE, metrics=["stranger", "accuracy"], rng=1, **OPTIONS["pairwise"])
    mine, *cells = result.findings.rows()
    (other,) = (c for c in cells if c["group"] == "y>x")
    assert mine["estimate"] == pytest.approx(1 - other["estimate"])
    assert mine["low"] == pytest.approx(1 - other["high"])
    assert mine["group"] == "x"


@pytest.mark.parametrize(
    ("audit", "metrics"), [("prefix", "ndjs"), ("exposure", ["awrf", "eed"]), ("pairwise", ["inter_acc", "accuracy"])]
)
def test_normal_intervals_keep_to_the_span_of_the_card(audit, metrics):
    call = OPTIONS[audit] | {"metrics": metrics, "rng": 1}
    normal = getattr(eh, audit)(MORE, interval="normal", **call)
    usual = getattr(eh, audit)(MORE, interval="percentile(999)", **call)
    assert "normal" in normal.provenance["interval"]
    for mine, other in zip(normal.findings.rows(), usual.findings.rows(), strict=True):
        low, high = REGISTRY[mine["metric"]].span()
        assert low <= mine["low"] <= mine["estimate"] <= mine["high"] <= high
        assert (mine["low"], mine["high"]) != (other["low"], other["high"]) or mine["low"] == mine["high"]
