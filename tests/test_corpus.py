"""The generated corpora: reproducible, of the asked shape, and with the bias they claim."""

import polars as pl
import pytest

import evenhand as eh
from evenhand.synthetic import Maker


def test_same_seed_same_corpus_and_the_asked_shape():
    one, other = (eh.synthetic.corpus(200, 30, depth=10, scored=4, rng=3) for _ in range(2))
    assert one.rankings.equals(other.rankings)
    assert one.relevance.equals(other.relevance)
    assert one.rankings.height == 4 * 30 * 10
    assert one.scores.height == 4 * 4 * 200
    assert one.groups["group"].null_count() > 0
    assert one.relevance.height == 30 * 5


def test_a_larger_handicap_is_a_lower_share_of_exposure():
    systems = {f"b{b}": Maker(bias=b) for b in (-1.0, 0.0, 1.0, 2.0)}
    made = eh.synthetic.corpus(300, 150, systems=systems, rng=1)
    found = eh.exposure(
        made.rankings, groups=made.groups, protected="P", system="system", metrics="log_dp(per_item=True)", rng=1
    ).frame
    by_system = dict(zip(found["system"], found["estimate"], strict=True))
    assert by_system["b-1.0"] > by_system["b0.0"] > by_system["b1.0"] > by_system["b2.0"]
    fair = found.filter(system="b0.0").row(0, named=True)
    assert fair["low"] - 0.1 <= 0 <= fair["high"] + 0.1


def test_soft_groups_add_up_to_one_and_pools_are_reranked_whole():
    made = eh.synthetic.corpus(300, 40, soft=True, unknown=0.3, candidates=12, relevant=4, depth=100, rng=2)
    totals = made.groups["P"] + made.groups["U"]
    assert totals.to_list() == pytest.approx([1.0] * len(totals))
    assert len(totals) < 300
    sizes = made.rankings.group_by("system", "request").len()
    assert sizes["len"].min() >= 5
    assert sizes["len"].mean() == pytest.approx(12, abs=2)
    judged = made.relevance.group_by("request").agg(pl.len(), pl.col("relevance").sum())
    assert (judged["relevance"] <= 4).all()
    assert (judged["len"] > judged["relevance"]).all()


@pytest.mark.parametrize(
    "bad", [dict(items=0), dict(protected=2), dict(systems={}), dict(depth=1.5), dict(systems={"a": 3})]
)
def test_bad_shapes_are_refused(bad):
    with pytest.raises(eh.EvenhandError):
        eh.synthetic.corpus(**(dict(items=10, requests=2) | bad))
