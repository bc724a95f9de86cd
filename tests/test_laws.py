"""Laws that hold for every metric, and those it claims on its card, checked over the whole registry."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

import strategies_ranking  # noqa: F401  more families
from evenhand import EvenhandError, UndefinedWarning, metrics
from evenhand.cards import REGISTRY
from evenhand.tallies.spectrum import Spectrum
from strategies import FAMILIES, every_metric, settings_of

LAWS = {"replication", "scale-free", "transfer", "weak-transfer", "two-sided", "antisymmetric", "symmetric"}
CODES = {
    "empty",
    "small_cell",
    "single_member",
    "zero_total",
    "zero_weight",
    "zero_denominator",
    "zero_over_zero",
    "zero_normalizer",
    "one_group_only",
    "group_absent",
    "no_labelled_items",
    "too_short",
    "no_relevant_in_group",
    "zero_utility",
    "no_pairs",
    "constant_input",
    "nothing_shown",
    "nobody_treated",
    "reference_absent",
    "no_common_support",
    "collinear",
    "nan_in_data",
    "satisfied",
}
ROUNDING = 1e-9

FEW = settings(max_examples=25, suppress_health_check=[HealthCheck.filter_too_much])


def every(**which):
    return pytest.mark.parametrize("metric", every_metric(**which), ids=lambda metric: metric.card.name)


def claiming(law):
    return every(law=law)


def family(metric):
    return FAMILIES[metric.card.needs]


def any_setting(metric):
    return st.sampled_from(settings_of(metric))


def any_number(metric):
    return st.sampled_from(settings_of(metric, switches=False))


def value_of(metric, tally, params):
    """The value; a setting that the metric refuses on this tally is no example."""
    try:
        return metric.on(tally, **params)
    except EvenhandError:
        reject()


def same(one, other):
    return one == pytest.approx(other, rel=ROUNDING, abs=1e-11, nan_ok=True)


# --- every metric -----------------------------------------------------------------------------------------------------


@every()
@FEW
@given(data=st.data())
def test_a_value_stays_inside_the_span_on_its_card_or_is_nan_with_a_reason_of_the_formula_book(metric, data):
    params, tally = data.draw(any_setting(metric)), data.draw(family(metric).tallies)
    value = value_of(metric, tally, params)
    if np.isnan(value).any():
        assert metric.card.reason(tally, **params) in CODES
    low, high = metric.span(**params)
    slack = 0 if metric.card.needs is Spectrum else 1e-12  # a normaliser rounds
    assert np.all(np.isnan(value) | ((low - slack <= value) & (value <= high + slack)))


@every(having="undefined")
@FEW
@given(data=st.data())
def test_what_nothing_can_be_said_about_is_nan_and_never_a_made_up_number(metric, data):
    params = data.draw(any_setting(metric))
    for reason, tally in family(metric).undefined.items():
        value = np.asarray(value_of(metric, tally, params)).ravel()
        if reason == "zero_total" and metric.card.at_zero is not None:
            assert (value == metric.card.at_zero).all()
            continue
        assert np.isnan(value).all(), reason
        assert metric.card.reason(tally, **params) == reason
        with pytest.warns(UndefinedWarning) as caught:
            assert math.isnan(metric(tally, **params))
        assert caught[0].message.reason == reason


@every(having="even")
@FEW
@given(data=st.data())
def test_equality_gives_the_ideal_on_its_card(metric, data):
    params = data.draw(any_setting(metric))
    ideal = metric.ideal(**params)
    if math.isnan(ideal):
        return  # the card names none
    assert value_of(metric, data.draw(family(metric).even), params) == pytest.approx(ideal, rel=1e-9, abs=1e-12)


@every(having="batch")
@FEW
@given(data=st.data())
def test_a_batch_of_replicates_equals_a_loop(metric, data):
    params = data.draw(any_setting(metric))
    together, apart = data.draw(family(metric).batch)
    np.testing.assert_allclose(
        value_of(metric, together, params),
        [value_of(metric, one, params).item() for one in apart],
        rtol=1e-9,
        atol=1e-11,
    )


@every(having="shards")
@FEW
@given(data=st.data())
def test_shards_merge_to_the_whole_in_either_order(metric, data):
    params = data.draw(any_setting(metric))
    one, other, whole = data.draw(family(metric).shards)
    expected = value_of(metric, whole, params)
    assert same(value_of(metric, one.merge(other), params), expected)
    assert same(value_of(metric, other.merge(one), params), expected)


@every(having="changes")
@FEW
@given(data=st.data())
def test_the_order_of_the_data_never_matters(metric, data):
    params = data.draw(any_setting(metric))
    if "order" not in family(metric).changes:
        return
    before, after = data.draw(family(metric).changes["order"])
    assert same(value_of(metric, before, params), value_of(metric, after, params))


# --- claimed on the card ----------------------------------------------------------------------------------------------


@claiming("replication")
@FEW
@given(data=st.data())
def test_cloning_the_population_changes_nothing(metric, data):
    params = data.draw(any_number(metric))
    before, after = data.draw(family(metric).changes["replication"])
    assert same(value_of(metric, after, params), value_of(metric, before, params))


@claiming("scale-free")
@FEW
@given(data=st.data())
def test_another_unit_of_measurement_changes_nothing(metric, data):
    params = data.draw(any_number(metric))
    before, after = data.draw(family(metric).changes["scale-free"])
    assert same(value_of(metric, after, params), value_of(metric, before, params))


def towards_equality(metric, params, before, after):
    """How much better `after` is, in the direction on the card."""
    sign = {"lower": 1.0, "higher": -1.0}[metric.better(**params)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedWarning)
        return sign * (metric(before, **params) - metric(after, **params))


@claiming("transfer")
@FEW
@given(data=st.data())
def test_a_gift_to_somebody_poorer_always_shows(metric, data):
    params = data.draw(any_number(metric))
    gain = towards_equality(metric, params, *data.draw(family(metric).changes["transfer"]))
    # A parameter may make a metric blind to some gifts (Atkinson at epsilon 0, or beyond 1 once somebody has nothing).
    assert gain > 0 if not params else math.isnan(gain) or gain >= -1e-12


@claiming("weak-transfer")
@FEW
@given(data=st.data())
def test_a_gift_to_somebody_poorer_never_looks_like_more_inequality(metric, data):
    params = data.draw(any_number(metric))
    assert towards_equality(metric, params, *data.draw(family(metric).changes["weak-transfer"])) >= -1e-12


@claiming("symmetric")
@FEW
@given(data=st.data())
def test_swapping_the_groups_changes_nothing(metric, data):
    params = data.draw(any_number(metric))
    before, after = data.draw(family(metric).changes["symmetric"])
    assert same(value_of(metric, after, params), value_of(metric, before, params))


@claiming("antisymmetric")
@FEW
@given(data=st.data())
def test_swapping_the_groups_turns_the_sign(metric, data):
    params = data.draw(any_number(metric))
    before, after = data.draw(family(metric).changes["antisymmetric"])
    assert same(value_of(metric, after, params), -value_of(metric, before, params))


@claiming("two-sided")
@FEW
@given(data=st.data())
def test_swapping_the_groups_inverts_the_ratio(metric, data):
    params = data.draw(any_number(metric))
    before, after = data.draw(family(metric).changes["two-sided"])
    with np.errstate(divide="ignore"):
        assert same(value_of(metric, after, params), 1 / value_of(metric, before, params))


@pytest.mark.parametrize("name", ["gini", "atkinson", "theil", "herfindahl"])
@given(data=st.data())
def test_one_more_with_nothing_never_looks_like_less_inequality(name, data):
    x = data.draw(st.lists(st.integers(0, 1000), min_size=2, max_size=20).filter(any))
    assert REGISTRY[name]([*x, 0]) >= REGISTRY[name](x) - 1e-12


# --- the cards themselves ---------------------------------------------------------------------------------------------


def test_every_tally_brings_its_strategy():
    """A new tally adds a `Family` to tests/strategies*.py; those of the outcome test are held against statsmodels and brute
    force instead."""
    without = {card.needs for card in metrics.cards()} - set(FAMILIES)
    assert {tally.__name__ for tally in without} <= {"Moments", "Rows", "Change", "Neighbours"}


def test_every_law_on_a_card_is_one_that_is_checked():
    assert {law for card in metrics.cards() for law in card.laws} <= LAWS


@pytest.mark.parametrize("card", list(metrics.cards()), ids=lambda card: card.name)
def test_a_card_says_all_that_a_reader_must_know(card):
    metric = REGISTRY[card.name]
    assert card.title
    assert card.symbol != card.name, "a symbol is what a paper writes, not the key again"
    assert card.asks.endswith("?")
    assert callable(card.otherwise) or card.otherwise == "" or card.otherwise in CODES
    low, high = metric.span()
    assert low < high
    assert math.isnan(metric.ideal()) or low <= metric.ideal() <= high
    assert metric.better() in ("lower", "higher", "ideal", "")
    assert metric.__doc__
    assert ">>>" in metric.__doc__, "a doctest that a reader can check by hand"


def test_laws_find_a_wrong_denominator():
    """The replication law alone would catch a Gini that divides by n - 1."""
    small, large = Spectrum.from_arrays([1, 2, 3]), Spectrum.from_arrays([1, 2, 3] * 5)
    assert not same(metrics.gini.on(small, corrected=True), metrics.gini.on(large, corrected=True))
