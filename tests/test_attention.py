"""Browsing models: their weights, their text form, and the exposure an ideal ranking would give."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand import attention
from evenhand.errors import EvenhandError
from evenhand.metrics import target_exposure
from oracles import exposure as slow

CASES = json.loads((Path(__file__).parent / "golden" / "cases.json").read_text())
CASES = CASES if isinstance(CASES, list) else CASES["cases"]

MODELS = [
    ("geometric", {"stop": 0.3}),
    ("log", {}),
    ("log", {"offset": 1}),
    ("rbp", {"patience": 0.8}),
    ("uniform", {}),
    ("cascade", {"patience": 0.8, "stop": 0.3}),
    ("cascade", {"patience": 1.0, "stop": 1.0}),
    ("cascade", {"patience": 0.7, "stop": {1: 0.25, 2: 0.75, 3: 1.0}}),
]
grades = st.lists(st.integers(0, 3), min_size=1, max_size=6)


def model_of(args):
    names = {"stop", "patience", "offset"}
    return attention.MODELS[args["model"]](**{k: v for k, v in args.items() if k in names})


@pytest.mark.parametrize("case", [c for c in CASES if c["fn"].startswith("weight_")], ids=lambda c: c["id"])
def test_weights_are_those_of_the_reference_cases(case):
    args = case["args"]
    named = {k: v for k, v in args.items() if k in ("stop", "patience", "offset")}
    model = attention.MODELS[case["fn"].removeprefix("weight_")](**named)
    n = args.get("n", len(args.get("rel", [])))
    assert model.weights(n, args.get("rel")).tolist() == pytest.approx(case["expect"], abs=case["tol"])


@pytest.mark.parametrize("case", [c for c in CASES if c["fn"] == "target_exposure"], ids=lambda c: c["id"])
def test_target_exposure_is_that_of_the_reference_cases(case):
    assert target_exposure(case["args"]["rel"], model_of(case["args"])) == pytest.approx(
        case["expect"], abs=case["tol"]
    )


@pytest.mark.parametrize(("name", "params"), MODELS)
@given(relevance=grades)
def test_weights_follow_the_definition(name, params, relevance):
    found = attention.MODELS[name](**params).weights(len(relevance), relevance)
    assert found.tolist() == pytest.approx(slow.weights(name, len(relevance), relevance, **params), abs=1e-14)


@pytest.mark.parametrize(("name", "params"), MODELS)
@given(relevance=grades)
def test_target_exposure_equals_the_mean_over_every_tied_ideal_ranking(name, params, relevance):
    judged = dict(enumerate(relevance))
    assert target_exposure(judged, attention.MODELS[name](**params)) == pytest.approx(
        slow.target_by_enumeration(judged, name, **params), abs=1e-12
    )


@pytest.mark.parametrize(("name", "params"), MODELS)
def test_the_text_form_reads_back_as_the_same_model(name, params):
    model = attention.MODELS[name](**params)
    assert attention.parse(str(model)) == model
    assert hash(attention.parse(str(model))) == hash(model)
    assert attention.parse(model) is model
    assert pickle.loads(pickle.dumps(model)) == model


def test_geometric_weights_of_a_long_list_add_up_to_one():
    assert attention.geometric(stop=0.2).weights(400).sum() == pytest.approx(1)


def test_cascade_over_many_rankings_at_once_equals_one_by_one():
    model = attention.cascade(patience=0.9, stop={1: 0.2, 2: 1})
    relevance = np.random.default_rng(1).integers(0, 3, (5, 7))
    assert np.array_equal(model.weights(7, relevance), [model.weights(7, row) for row in relevance])


def test_a_reader_who_always_stops_never_sees_what_is_below():
    assert attention.cascade(patience=1, stop=1).weights(4, [0, 1, 0, 1]).tolist() == [1, 1, 0, 0]


def test_an_empty_ranking_has_no_weights():
    assert attention.log().weights(0).tolist() == []
    assert attention.cascade().weights(0, []).tolist() == []
    assert target_exposure({}, "log") == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("logg", "Did you mean 'log'"),
        ("rbp(patience=1.5)", "from 0 to 1"),
        ("geometric(stop=0)", "above 0"),
        ("rbp(stop=0.5)", "Parameters of rbp: patience"),
        ("log(offset=-1)", "zero or more"),
        ("cascade(stop={})", "no grade"),
        ("cascade(stop={-1: 0.5})", "grade"),
        ("rbp(", "cannot be read"),
        (3, "not a model"),
    ],
)
def test_a_model_that_cannot_be_read_says_what_to_write(text, words):
    with pytest.raises(EvenhandError, match=words):
        attention.parse(text)


def test_cascade_without_relevance_is_refused():
    with pytest.raises(EvenhandError, match="needs the relevance"):
        attention.cascade().weights(3)
    with pytest.raises(EvenhandError, match="2 entries"):
        attention.cascade().weights(3, [1, 0])


@pytest.mark.parametrize("bad", [[-1], [float("nan")], [float("inf")], ["x"]])
def test_relevance_that_is_no_amount_is_refused(bad):
    with pytest.raises(EvenhandError, match="relevance"):
        target_exposure(dict(enumerate(bad)), "rbp")


def test_a_grade_without_a_stopping_probability_is_named():
    with pytest.raises(EvenhandError, match="relevance 2, 3"):
        attention.cascade(stop={1: 0.5}).weights(4, [0, 1, 2, 3])


@pytest.mark.parametrize("own", [[1, 0.5, 0.3], (1, 0.5, 0.3), np.array([1, 0.5, 0.3]), "curve([1, 0.5, 0.3])"])
def test_a_curve_of_one_s_own_weighs_its_ranks_and_no_other(own):
    model = attention.parse(own)
    assert model.weights(5).tolist() == [1.0, 0.5, 0.3, 0.0, 0.0]
    assert attention.parse(str(model)) == model
    assert model.as_word() == "curve([1.0, 0.5, 0.3])"


def test_a_function_of_the_rank_is_its_values():
    own = attention.parse(lambda rank: 1 / rank**2)
    assert own.weights(3).tolist() == [1.0, 0.25, 1 / 9]
    assert own.in_numbers(3, np.zeros(0)) == attention.curve([1, 1 / 4, 1 / 9])


def test_a_cascade_may_stop_by_a_function_of_the_grade():
    own, named = attention.cascade(0.8, lambda grade: grade / 4), attention.cascade(0.8, {1: 0.25, 2: 0.5, 3: 0.75})
    seen = [1, 0, 3, 2, 0, 1]
    assert own.weights(6, seen).tolist() == named.weights(6, seen).tolist()
    assert own.in_numbers(6, np.array([0, 1, 2, 3])) == named
    everywhere = attention.cascade(1, lambda _: 0.5)
    assert everywhere.weights(3, [0, 0, 1]).tolist() == [1.0, 0.5, 0.25]
    assert everywhere.in_numbers(3, np.array([2.0])) == attention.cascade(1, {0: 0.5, 2: 0.5})


@pytest.mark.parametrize(
    "own", [[], [1, -1], [1, float("nan")], ["a"], [[1]], [1.0] * 2_001, lambda _: -1.0, lambda _: "x"]
)
def test_curves_that_are_none_are_refused(own):
    with pytest.raises(EvenhandError, match="attention"):
        attention.parse(own).weights(3)


def test_a_function_that_gives_no_probability_is_refused():
    with pytest.raises(EvenhandError, match="from 0 to 1"):
        attention.cascade(0.8, lambda grade: grade).weights(2, [2, 1])
