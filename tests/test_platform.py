"""The generated platform: mechanics that hold for every seed, and nothing about how unequal it must come out."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import evenhand as eh
from evenhand.errors import EvenhandError
from evenhand.synthetic.platform import (
    ENGAGEMENTS,
    SOURCES,
    Accounts,
    Graph,
    Lists,
    Ranking,
    World,
    follower_graph,
    home,
    suggested,
)

SMALL = 3_000
platform = eh.synthetic.platform


@pytest.fixture(scope="module")
def month():
    return platform(SMALL, rng=5)


def streams(seed):
    return lambda block: np.random.default_rng([seed, block])


def small_graph(homophily=0.5, size=400):
    rng = np.random.default_rng(0)
    community = np.sort(rng.integers(0, 4, size))
    return community, follower_graph(
        community, rng.integers(1, 30, size), rng.random(size) + 0.1, homophily, streams(1)
    )


def test_the_same_seed_gives_the_same_tables(month):
    again = platform(SMALL, rng=5)
    assert_frame_equal(again.authors, month.authors)
    assert_frame_equal(again.engagements, month.engagements)


def test_another_seed_gives_another_platform(month):
    assert not platform(SMALL, rng=6).engagements.equals(month.engagements)


def test_a_generator_is_a_seed_too():
    one, other = (platform(100, rng=np.random.default_rng(3)).engagements for _ in range(2))
    assert_frame_equal(one, other)


def test_there_is_a_row_for_every_author_and_one_per_source_that_showed_him(month):
    assert month.authors["author_id"].to_list() == list(range(SMALL))
    assert month.engagements.select("author_id", "source").is_duplicated().sum() == 0
    assert set(month.engagements["source"]) == set(SOURCES)
    assert tuple(month.engagements.columns) == ("author_id", "source", *ENGAGEMENTS)
    assert month.engagements["impressions"].min() == 1


def test_every_author_has_a_follower_and_a_post(month):
    assert month.authors["followers"].min() == 1
    assert month.authors["posts"].min() >= 1


def test_no_engagement_comes_without_an_impression_and_no_impression_without_a_display(month):
    log = month.engagements
    assert log.filter(pl.any_horizontal(pl.col(ENGAGEMENTS[1:]) > pl.col("impressions"))).is_empty()
    seen = log.group_by("author_id").agg(pl.col("impressions").sum()).join(month.authors, on="author_id")
    assert seen.filter(pl.col("impressions") > pl.col("displays")).is_empty()


def test_many_authors_get_nothing_from_a_source(month):
    reached = month.engagements.filter(source="likes").height
    assert reached < SMALL / 2


def test_a_graph_answers_who_follows_whom():
    _, graph = small_graph()
    edges = {
        (v, a) for v in range(graph.size) for a in graph.followed.values[slice(*graph.followed.starts[[v, v + 1]])]
    }
    back = {
        (v, a) for a in range(graph.size) for v in graph.followers.values[slice(*graph.followers.starts[[a, a + 1]])]
    }
    assert edges == back
    viewers, authors = (x.ravel() for x in np.meshgrid(np.arange(graph.size), np.arange(graph.size)))
    assert {
        (v, a) for v, a in zip(viewers[graph.has(viewers, authors)], authors[graph.has(viewers, authors)], strict=True)
    } == edges
    assert not any(v == a for v, a in edges)


def test_homophily_is_the_share_of_followers_from_the_own_community_above_chance():
    shares = []
    for homophily in (0.0, 1.0):
        community, graph = small_graph(homophily)
        authors = np.repeat(np.arange(graph.size), graph.followers.lengths)
        shares.append(np.mean(community[authors] == community[graph.followers.values]))
    assert shares[0] == pytest.approx(0.25, abs=0.06)
    assert shares[1] > 0.99


def test_rewiring_keeps_how_many_and_forgets_whom():
    community, graph = small_graph(1.0, size=2_000)
    rewired = graph.rewired(np.random.default_rng(2))
    lost = graph.followers.lengths - rewired.followers.lengths
    assert lost.min() >= 0
    assert lost.sum() < 0.02 * len(graph.keys)
    authors = np.repeat(np.arange(graph.size), rewired.followers.lengths)
    assert np.mean(community[authors] == community[rewired.followers.values]) < 0.4


def test_one_of_a_list_is_a_member_and_an_empty_list_has_none():
    lists = Lists.from_lengths([2, 0, 1], np.array([7, 8, 9]))
    rows = np.tile([0, 1, 2, -1], 50)
    drawn = lists.one_of(rows, np.random.default_rng(0))
    assert set(drawn[rows == 0]) == {7, 8}
    assert set(drawn[rows == 2]) == {9}
    assert set(drawn[(rows == 1) | (rows == -1)]) == {-1}
    assert Lists.from_lengths([0], np.array([], int)).one_of(np.array([0]), np.random.default_rng(0)).tolist() == [-1]


def test_an_edge_named_twice_counts_once():
    edges = np.array([[0, 1], [0, 2], [1, 0]])
    graph = Graph.from_edges((edges[:, 0] << 32) | edges[:, 1], 3)
    assert graph.followers.lengths.tolist() == [2, 1, 0]
    assert platform(10, rng=1).authors["followers"].max() <= 9


def test_suggestions_are_for_those_who_do_not_follow_the_author_yet():
    size = 12
    everybody = np.array([(a << 32) | v for a in range(size) for v in range(size) if v != a])
    ones = np.ones(size)
    accounts = Accounts(np.zeros(size, int), ones.astype(int), 0 * ones, 100 * ones, np.zeros(size, int))
    ranking = Ranking(mix=dict.fromkeys(SOURCES, 1), sharpness=1, proof=0.5, graph_suggestions=True)
    world = World(
        accounts,
        Graph.from_edges(everybody, size),
        [ranking],
        np.zeros(size, int),
        lambda name, block: streams(3)(len(name)),
    )
    seen = home(world, 0.3 * ones, 0.1 * ones)
    shown = {source: suggested(world, source, seen).sum() for source in SOURCES[1:]}
    assert shown == {"likes": 0, "graph": 0, "misc": 0, "topics": pytest.approx(size * 100 / len(SOURCES))}


def test_a_post_is_displayed_to_a_viewer_once_at_most(monkeypatch):
    monkeypatch.setitem(platform.__globals__, "ATTENTION", 1e5)
    busy = platform(300, rng=1, mix={"in_network": 1}).authors
    assert busy["displays"].sum() < 1.02 * (busy["followers"] * busy["posts"]).sum()


def test_a_source_left_out_of_the_mix_shows_nothing():
    assert set(platform(500, rng=1, mix={"in_network": 1, "graph": 1}).engagements["source"]) == {"in_network", "graph"}


def test_without_a_tail_everybody_has_the_same_number_of_followers():
    followers = platform(SMALL, rng=1, tail=math.inf, pull=0).authors["followers"]
    assert followers.min() >= 10  # following the same author twice counts once
    assert followers.max() == 25


def test_a_heavier_tail_moves_followers_to_the_top():
    top = [
        eh.metrics.top_share(platform(SMALL, rng=1, tail=t, pull=0).authors["followers"], p=0.01) for t in (1.1, 3.0)
    ]
    assert top[0] > 2 * top[1]


def test_switching_a_mechanism_off_leaves_the_rest_of_the_month_as_it_was(month):
    off = platform(SMALL, rng=5, graph_suggestions=False)
    assert off.authors["followers"].equals(month.authors["followers"])
    likes = [
        m.engagements.filter(pl.col("likes") > 0, source="in_network").select("author_id", "likes")
        for m in (month, off)
    ]
    assert_frame_equal(*likes)


def test_random_suggestions_reach_nearly_everybody(month):
    off = platform(SMALL, rng=5, graph_suggestions=False)
    reached = [m.engagements.filter(source="graph").height / SMALL for m in (month, off)]
    assert reached[0] < 0.5
    assert reached[1] > 0.95


def test_two_arms_split_the_viewers_and_only_the_changed_arm_changes(month):
    both = platform(SMALL, rng=5, change={"mix": {"in_network": 1}}).engagements
    assert both.columns[:3] == ["author_id", "source", "arm"]
    treated = both.filter(arm="treatment")
    assert set(treated["source"]) == {"in_network"}
    assert set(both.filter(arm="control")["source"]) == set(SOURCES)


def test_arms_without_a_change_differ_by_chance_only():
    both = platform(SMALL, rng=5, change={}).engagements
    totals = dict(both.group_by("arm").agg(pl.col("impressions").sum()).rows())
    assert totals["treatment"] / totals["control"] == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ({"authors": 3}, "authors=3"),
        ({"tail": 0.0}, "tail=0.0"),
        ({"mix": {"in_netwrok": 1}}, "in_netwrok"),
        ({"mix": {}}, "mix={}"),
        ({"proof": -1}, "proof=-1"),
        ({"change": {"sharpnes": 2}}, "Did you mean 'sharpness'"),
        ({"rng": -1}, "rng=-1"),
    ],
)
def test_bad_parameters_are_named_as_typed(call, words):
    with pytest.raises(EvenhandError) as problem:
        platform(**({"authors": 100} | call))
    assert words in str(problem.value)


def test_all_bad_parameters_are_reported_at_once():
    with pytest.raises(EvenhandError) as problem:
        platform(2, tail=-1, sharpness=-2)
    assert all(word in str(problem.value) for word in ("authors=2", "tail=-1", "sharpness=-2"))
