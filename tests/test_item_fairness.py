"""Single items: measures by their definition on every way to fill small lists, and the ends that slots allow."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenhand as eh
from evenhand import EvenhandError
from evenhand import metrics as m
from evenhand.tallies.crosstab import Crosstab


def every_filling(items, lengths):
    """Times shown of each item, for every way to fill lists of these lengths."""
    for chosen in itertools.product(*(list(itertools.combinations(range(items), k)) for k in lengths)):
        yield np.bincount(list(itertools.chain(*chosen)), minlength=items), chosen


def crosstab(chosen, items):
    return Crosstab.from_arrays([[int(j in row) for j in range(items)] for row in chosen], threshold=0.5)


SLOW = {
    "jain_index": lambda c: c.sum() ** 2 / (len(c) * (c**2).sum()),
    "satisfied_items": lambda c: (c >= c.sum() // len(c)).mean(),
    "aggregate_diversity": lambda c: (c > 0).mean(),
    "exposure_entropy": lambda c: -sum(v / c.sum() * math.log(v / c.sum()) for v in c if v),
    "item_gini": lambda c: np.abs(c[:, None] - c[None, :]).sum() / (2 * len(c) * c.sum()),
}


@pytest.mark.parametrize("name", SLOW)
@pytest.mark.parametrize(
    ("items", "lengths"), [(3, (1, 2)), (4, (2, 2, 2)), (4, (1, 3, 2)), (5, (3, 3)), (3, (2, 2, 2, 2)), (4, (1,))]
)
def test_least_and_most_are_the_ends_of_every_way_to_fill_the_lists(name, items, lengths):
    found = [(SLOW[name](c.astype(float)), chosen) for c, chosen in every_filling(items, lengths)]
    values = [value for value, _ in found]
    metric = getattr(m, name)
    for value, chosen in found[:: max(1, len(found) // 5)]:
        tally = crosstab(chosen, items)
        assert metric(tally) == pytest.approx(value)
        assert metric.attainable_on(tally) == pytest.approx((min(values), max(values)))


def test_fewer_items_may_be_satisfied_than_a_list_is_long():
    """Rampisela et al. take k/n for the least; four lists of five over ten items can do with four."""
    tally = crosstab([(0, 1, 2, 3, 4 + u) for u in range(4)], 10)
    assert m.satisfied_items(tally) == 0.4
    assert m.satisfied_items.attainable_on(tally) == (0.4, 1.0)


def test_with_fewer_slots_than_items_everything_is_satisfied():
    assert m.satisfied_items.attainable_on(crosstab([(0,)], 4)) == (1.0, 1.0)


def test_the_correction_of_the_source_is_the_place_between_least_and_most():
    """Its Jain_our of times shown 2, 1, 1 in two lists of two: (8/9 - 2/3) / (8/9 - 2/3) = 1, and 0 for the same list twice."""
    for lists, place in ((((0, 1), (0, 2)), 1.0), (((0, 1), (0, 1)), 0.0)):
        table = [[int(j in row) for j in range(3)] for row in lists]
        (row,) = eh.recommender(
            np.array(table, dtype=float), threshold=0.5, metrics="jain_index", interval=None, chance=None
        ).findings.rows()
        assert (row["estimate"] - row["least"]) / (row["most"] - row["least"]) == pytest.approx(place)


@given(st.lists(st.permutations(range(6)).map(lambda row: row[:3]), min_size=1, max_size=6))
def test_disparity_user_by_user_tells_no_lists_of_one_length_apart_and_bounds_that_over_all_users(lists):
    blind = m.ii_disparity(lists, items=6)
    assert blind == pytest.approx(m.ii_disparity([[0, 1, 2]], items=6))
    assert m.ai_disparity(lists, items=6) <= blind + 1e-12


@pytest.mark.parametrize(
    ("lists", "items", "says"),
    [
        ([[0]], None, "size of a catalogue"),
        ([[3]], 3, "no item"),
        ([["a"]], 3, "no item"),
        ([[1, 1]], 3, "twice"),
        ([[0]], -1, "size"),
    ],
)
def test_lists_that_are_none_are_refused(lists, items, says):
    with pytest.raises(EvenhandError, match=says):
        m.ranked_gini(lists, items=items)


def test_attention_that_needs_relevance_is_refused():
    with pytest.raises(EvenhandError, match="needs relevance"):
        m.ai_disparity([[0]], items=2, attention="cascade")
