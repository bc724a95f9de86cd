"""Metric strings, unknown names, parameters checked against their types, and what a card resolves to."""

from __future__ import annotations

import json
import math
from typing import Annotated, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand import EvenhandError, UndefinedWarning, metrics
from evenhand.cards import (
    REGISTRY,
    Between,
    Card,
    Metric,
    check_value,
    metric,
    needing,
    parse_call,
    parse_metric,
    parse_metrics,
)
from evenhand.cli import main
from evenhand.tallies.spectrum import Spectrum

INEQUALITY = needing(Spectrum)


def sound(problem) -> str:
    """The message, after checking that it has the shape of all messages: a fact, then a remedy."""
    text = str(problem.value)
    assert (
        text[0].isupper() or "=" in text.split(" ")[0] or text.split(" ")[0] in REGISTRY or text.startswith("metrics")
    )
    assert text.rstrip().endswith(".")
    assert text.count(". ") + text.count("? ") >= 1, text
    return text


# --- reading a metric string ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name", "params", "cutoff"),
    [
        ("gini", "gini", {}, None),
        (" gini ", "gini", {}, None),
        ("gini()", "gini", {}, None),
        ("gini(corrected=True)", "gini", {"corrected": True}, None),
        ("top_share(0.05)", "top_share", {"p": 0.05}, None),
        ("top_share(p=5e-2)", "top_share", {"p": 0.05}, None),
        ("top_share( p = 0.05 )", "top_share", {"p": 0.05}, None),
        ("atkinson(epsilon=inf)", "atkinson", {"epsilon": math.inf}, None),
        ("generalized_entropy(alpha=-1)", "generalized_entropy", {"alpha": -1}, None),
        ("equivalent_to_top(0.1, inverted=True)", "equivalent_to_top", {"p": 0.1, "inverted": True}, None),
        ("percentile_ratio(upper=0.9, lower=0.1)", "percentile_ratio", {"upper": 0.9, "lower": 0.1}, None),
        ("awrf@10", "awrf", {}, 10),
        ("ndd(normalizer='published')@3", "ndd", {"normalizer": "published"}, 3),
    ],
)
def test_a_metric_string_is_read(text, name, params, cutoff):
    found = parse_metric(text)
    assert (found.text, found.card.name, dict(found.params), found.cutoff) == (text, name, params, cutoff)


@pytest.mark.parametrize(
    "text",
    [
        "", "()", "gini(", "gini)", "gini]", "1", "gini + 1", "gini.on", "a.b()", "gini(*[1])", "gini(**{})", "gini(x)",
        "gini(corrected=open('f'))", "gini(corrected=__import__('os'))", "lambda: 0", "gini; gini", "gini@", "gini@-1",
        "gini@1.5", "gini@@2", "gini\x00", "[gini]", "'gini'", "gini(corrected=True)(1)", "f'gini'", "gini(corrected:=True)",
        "gini(corrected={[]: 1})", "gini(" * 5000, "gini(corrected=" + "[" * 3000 + "]" * 3000 + ")", "gini(corrected=)@10",
        "top_share(0.1, p=0.2)",
    ],
)  # fmt: skip
def test_what_is_no_metric_string_is_refused_as_typed(text):
    with pytest.raises(EvenhandError) as problem:
        parse_metric(text)
    assert repr(text)[:150] in sound(problem), "long ones are cut"


@pytest.mark.parametrize("text", [None, 3, b"gini", ["gini"], metrics.gini])
def test_a_metric_that_is_not_text_is_refused(text):
    with pytest.raises(EvenhandError, match="not text"):
        parse_metric(text)


@given(st.text(max_size=40))
def test_no_text_whatsoever_gets_past_the_reader_except_as_a_metric_or_an_error(text):
    try:
        found = parse_metric(text)
    except EvenhandError:
        return
    assert found.metric is REGISTRY[found.card.name]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("ginni", "gini"),
        ("Ginni", "gini"),
        ("topshare", "top_share"),
        ("top_shares(p=0.1)", "top_share"),
        ("atkinsson", "atkinson"),
    ],
)
def test_an_unknown_name_is_an_error_with_the_nearest_one(typed, meant):
    with pytest.raises(EvenhandError) as problem:
        parse_metric(typed, INEQUALITY)
    text = sound(problem)
    assert f"metrics={typed!r} is not a known metric" in text
    assert f"Did you mean {meant!r}?" in text


def test_a_name_like_no_other_is_an_error_without_a_guess():
    with pytest.raises(EvenhandError) as problem:
        parse_metric("zzzzzz", INEQUALITY)
    assert "Did you mean" not in sound(problem)
    assert "gini" in str(problem.value)


def test_a_metric_of_another_question_is_told_apart_from_an_unknown_one():
    with pytest.raises(EvenhandError, match="does not fit this question"):
        parse_metric("gini", {name: found for name, found in INEQUALITY.items() if name != "gini"})


@pytest.mark.parametrize("cut", ["gini@0", "gini@00"])
def test_a_cut_at_rank_zero_is_refused(cut):
    with pytest.raises(EvenhandError, match="cuts at rank 0"):
        parse_metric(cut)


def test_a_cut_where_there_are_no_ranks_is_refused():
    with pytest.raises(EvenhandError, match="gini knows no ranks"):
        parse_metric("gini@10")


def test_several_metrics_are_read_in_order_and_one_alone_is_a_list_of_one():
    assert [a.text for a in parse_metrics(["gini", "top_share(p=0.1)"], INEQUALITY)] == ["gini", "top_share(p=0.1)"]
    assert [a.text for a in parse_metrics("gini", INEQUALITY)] == ["gini"]


def test_no_metric_at_all_is_refused():
    with pytest.raises(EvenhandError, match="metrics is empty"):
        parse_metrics([], INEQUALITY)


def test_the_same_metric_twice_is_refused_and_two_settings_of_it_are_not():
    with pytest.raises(EvenhandError, match="twice"):
        parse_metrics(["gini", "gini"], INEQUALITY)
    assert len(parse_metrics(["top_share(p=0.1)", "top_share(p=0.2)"], INEQUALITY)) == 2


def test_a_call_in_words_is_split_into_its_parts():
    assert parse_call("cascade(0.5, stop={0: 0.1, 1: 0.9})", role="attention") == (
        "cascade",
        [0.5],
        {"stop": {0: 0.1, 1: 0.9}},
    )
    assert parse_call("log", role="attention") == ("log", [], {})


# --- parameters -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "top_share(p=1.5)", "top_share(p=-0.1)", "top_share(p='a')", "top_share(p=None)", "top_share(p=True)", "top_share(p=[0.1])",
        "top_share(p=inf)", "top_share(q=0.1)", "top_share(0.1, 0.2)", "atkinson(epsilon=-1)", "atkinson(epsilon='inf')",
        "generalized_entropy(alpha=inf)", "gini(corrected=1)", "gini(corrected='yes')", "share_ratio(lower=-0.1)", "share_ratio(lower=1.1)",
        "percentile_ratio(upper=80)", "percentile(p=2)", "equal_share(inverted=0)", "top_share(p=0.1j)", "theil(alpha=1)",
    ],
)  # fmt: skip
def test_a_parameter_that_does_not_fit_is_refused(text):
    with pytest.raises(EvenhandError) as problem:
        parse_metric(text)
    sound(problem)


def test_an_unknown_parameter_is_an_error_that_lists_the_known_ones():
    with pytest.raises(EvenhandError, match=r"has no parameter 'q'\. Its parameters: upper, lower"):
        parse_metric("share_ratio(q=1)")
    with pytest.raises(EvenhandError, match="has no parameter 'eps'"):
        metrics.atkinson([1, 2], eps=1)


def test_parameters_are_checked_in_plain_calls_too():
    with pytest.raises(EvenhandError, match="outside"):
        metrics.top_share([1, 2], 1.5)
    with pytest.raises(EvenhandError, match="does not fit"):
        metrics.atkinson([1, 2], epsilon=math.nan)
    with pytest.raises(EvenhandError, match="by position"):
        metrics.gini([1, 2], 1, 2, 3)
    with pytest.raises(EvenhandError, match="twice"):
        metrics.top_share([1, 2], 0.1, p=0.2)
    with pytest.raises(EvenhandError, match="without data"):
        metrics.gini()
    with pytest.raises(EvenhandError, match="nan_policy"):
        metrics.gini([1, 2], nan_policy="ignore")


def test_numpy_numbers_are_numbers():
    assert metrics.top_share([1, 2], np.float32(0.5)) == metrics.top_share([1, 2], 0.5)
    assert metrics.top_share([1, 2], np.int64(1)) == 1


@pytest.mark.parametrize(
    ("hint", "fits", "refused"),
    [
        (float, [0.5, 3, np.float64(2)], ["1", None, True, math.nan, [1.0]]),
        (int, [3, 0, -1], [1.5, True, "1", None]),
        (bool, [True, False], [0, 1, "yes", None]),
        (str, ["a", ""], [1, None, b"a"]),
        (Literal["max", "min"], ["max"], ["mean", None, 1]),
        (Literal["max"] | None, ["max", None], ["mean", 0]),
        (float | None, [1.0, None], ["a", True]),
        (Annotated[float, Between(0, 1)], [0, 1, 0.5], [-1e-9, 1.1, math.inf, "a"]),
        (Annotated[float, Between(0, 1, open_low=True, open_high=True)], [0.5, 1e-9], [0, 1]),
    ],
)
def test_a_value_is_held_against_its_type_hint(hint, fits, refused):
    for value in fits:
        check_value("m(x=", value, hint)
    for value in refused:
        with pytest.raises(EvenhandError):
            check_value("m(x=", value, hint)


def test_a_range_is_written_as_mathematicians_do():
    assert str(Between(0, 1)) == "[0, 1]"
    assert str(Between(0, math.inf, open_low=True, open_high=True)) == "(0, inf)"


# --- cards ------------------------------------------------------------------------------------------------------------


def test_ideal_span_and_direction_follow_the_parameters():
    assert parse_metric("top_share(p=0.25)").ideal == 0.25
    assert parse_metric("top_share").ideal == 0.01
    assert parse_metric("share_ratio(upper=0.9, lower=0.4)").ideal == pytest.approx(0.25)
    assert (parse_metric("equal_share").better, parse_metric("equal_share(inverted=True)").better) == (
        "lower",
        "higher",
    )
    assert math.isnan(parse_metric("herfindahl").ideal)
    assert parse_metric("herfindahl(normalized=True)").ideal == 0
    assert parse_metric("gini").span == (0, 1)


def test_declaring_a_metric_takes_a_card_and_a_function():
    card = Card(
        name="test_range",
        symbol="R",
        title="Range",
        asks="How far is the top from the bottom?",
        needs=Spectrum,
        span=(0.0, math.inf),
        ideal=0.0,
        better="lower",
        undefined="there are no units",
    )
    try:

        @metric(card)
        def spread(s: Spectrum, *, times: float = 1.0) -> np.ndarray:
            return times * (s.values[..., -1] - s.values[..., 0]) if s.values.size else np.array(np.nan)

        assert spread([3, 9, 4]) == 6
        assert parse_metric("test_range(times=2)").on(Spectrum.from_arrays([3, 9])) == 12
        assert card in list(metrics.cards())
        with pytest.warns(UndefinedWarning) as caught:
            assert math.isnan(spread([]))
        assert caught[0].message.reason == "empty"
        with pytest.raises(EvenhandError, match="declared twice"):
            metric(card)(lambda s: s)
    finally:
        REGISTRY.pop("test_range", None)


def test_the_registry_lists_the_cards_by_name():
    names = [card.name for card in metrics.cards()]
    assert names == sorted(names)
    assert {"gini", "atkinson", "theil", "top_share", "equal_share", "palma"} <= set(names)


def test_the_gini_card_says_why_other_tools_give_other_numbers():
    told = " ".join(metrics.gini.card.variants)
    for number in ("0.75", "1.0", "0.8", "0.0", "nan"):
        assert number in told


def test_a_metric_introduces_itself():
    assert repr(metrics.gini) == "<metric gini: Gini index>"
    assert isinstance(metrics.gini, Metric)
    assert "mean absolute difference" in metrics.gini.__doc__


def test_a_tally_may_be_passed_in_place_of_amounts():
    assert metrics.gini(Spectrum.from_arrays([0, 0, 0, 10])) == 0.75
    with pytest.raises(EvenhandError):
        metrics.gini("gini")


def test_the_look_up_says_what_the_cards_of_ranking_metrics_say(capsys):
    assert main(["metrics", "--table", "--format", "json"]) == 0
    rows = {row["metric"]: row for row in json.loads(capsys.readouterr().out)}
    assert set(rows) == {n for n, m in REGISTRY.items() if hasattr(m.card.needs, "unlabelled")}
    needing = {n for n, row in rows.items() if row["relevance"].startswith("needed")}  # section 2.6 of Raj et al.
    assert {"eel", "eer", "eur", "rur", "log_eur", "log_rur", "intra_acc", "inter_acc", "accuracy"} <= needing
    assert not needing & {"awrf", "eed", "dp", "fair", "pref_nd", "ndd"}
    assert rows["iaa"]["relevance"] == "predicted scores"
    soft = {n for n, row in rows.items() if row["soft groups"] == "yes"}
    assert {"awrf", "iaa", "eed", "eel", "eer", "dp", "ndjs", "pref_kl"} <= soft
    assert not soft & {"ndd", "ndr", "ndkl", "pref_nd", "pref_rd", "fair", "intra_acc", "inter_acc", "eur", "rur"}
    assert rows["awrf"]["looks at"] == "each ranking"
    assert rows["eed"]["looks at"] == "all rankings together"
    assert rows["inter_acc"]["looks at"] == "pairs of items"
    assert all(row["breaks when"] for row in rows.values())
    assert main(["metrics", "gini", "--table"]) == 2
