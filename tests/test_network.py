"""Followers, wiring, ranking: rewired graphs are simple, keep all degrees and are equally likely; planted worlds are found."""

import re
from collections import Counter

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand.audits.network import swap_once, within_reach
from evenhand.cli import main
from evenhand.tallies.ragged import starts_of

CALL = {"unit": "author", "amount": None, "viewer": "viewer", "rng": 1, "draws": 19}


def platform(seed, *, popular=0.0, bias=0.0, people=120):
    """A log and edges: who is followed follows a power law (`popular`), what is shown favours the followed (`bias`)."""
    rng = np.random.default_rng(seed)
    appeal = (rng.pareto(1.2, people) + 0.1) ** popular
    edges = [
        (v, t)
        for v in range(people)
        for t in rng.choice(people, 1 + rng.poisson(8), replace=False, p=appeal / appeal.sum())
        if t != v
    ]
    follows = pl.DataFrame(edges, schema=["follower", "followed"], orient="row")
    degree = np.bincount(follows["followed"], minlength=people)
    views = []
    for (v,), own in follows.group_by("follower", maintain_order=True):
        weight = (degree[own["followed"]] + 1.0) ** bias
        views += [(v, a) for a in rng.choice(own["followed"], 1 + rng.poisson(10), p=weight / weight.sum())]
    return pl.DataFrame(views, schema=["viewer", "author"], orient="row"), follows


def parts_of(result):
    return dict(result.frame.select("part", "estimate").rows())


def test_a_slice_without_impressions_has_no_rows_and_breaks_nothing():
    log = pl.DataFrame(
        {"u": ["a", "b", "a", "b"], "viewer": [1, 2, 1, 2], "n": [1, 2, 0, 0], "s": ["x", "x", "y", "y"]}
    )
    edges = pl.DataFrame({"follower": [1, 2], "followed": ["a", "b"]})
    found = eh.network(log, edges, unit="u", amount="n", viewer="viewer", by="s", draws=19, rng=1, interval=None)
    assert set(found.frame["s"]) == {"x"}


def test_swaps_keep_degrees_and_a_simple_graph():
    rng = np.random.default_rng(1)
    _, follows = platform(3)
    source, target = (follows.sort("follower", "followed")[c].to_numpy() for c in follows.columns)
    swapped = target
    for _ in range(30):
        swapped, accepted = swap_once(source, swapped, 120, rng)
        assert accepted > 0
    assert (np.bincount(swapped, minlength=120) == np.bincount(target, minlength=120)).all()
    assert (source != swapped).all()
    assert len(set(zip(source, swapped, strict=True))) == len(source)
    assert (swapped != target).mean() > 0.5


def test_all_graphs_with_these_degrees_are_equally_likely():
    source, target = np.array([0, 0, 1, 2, 3]), np.array([1, 2, 3, 0, 1])
    rng, seen = np.random.default_rng(2), Counter()
    for _ in range(50_000):
        target, _ = swap_once(source, target, 4, rng)
        seen[tuple(sorted(zip(source.tolist(), target.tolist(), strict=True)))] += 1
    counts = np.array(list(seen.values()))
    assert len(counts) > 2
    assert counts.min() / counts.max() > 0.9


def test_a_star_accepts_no_swap():
    source, target = np.arange(1, 6), np.zeros(5, dtype=np.int64)
    assert swap_once(source, target, 6, np.random.default_rng(1))[1] == 0


def test_two_steps_reach_whom_the_followed_follow():
    _, follows = platform(4, people=40)
    follows = follows.sort("follower", "followed")
    starts = starts_of(np.bincount(follows["follower"], minlength=40))
    near = {v: set(own["followed"]) for (v,), own in follows.group_by("follower")}
    viewers = np.array(sorted(near))
    for reach in (1, 2):
        ((batch, begin, shown),) = within_reach(starts, follows["followed"].to_numpy(), viewers, reach)
        for i, v in enumerate(batch.tolist()):
            expected = near[v] if reach == 1 else (near[v] | set().union(*(near.get(t, set()) for t in near[v]))) - {v}
            assert shown[begin[i] : begin[i + 1]].tolist() == sorted(expected)


def test_parts_add_up_and_observed_is_the_metric_of_the_log():
    views, follows = platform(5, popular=1, bias=1)
    found = parts_of(eh.network(views, follows, **CALL))
    assert found["followers"] + found["wiring"] + found["ranking"] == pytest.approx(found["observed"], abs=1e-12)
    authors = sorted(set(follows["followed"]) | set(views["author"]))
    amounts = dict(views.group_by("author").len().rows())
    assert found["observed"] == pytest.approx(eh.metrics.gini([amounts.get(a, 0) for a in authors]), abs=1e-12)


def test_the_neutral_world_is_its_simulation():
    views, follows = platform(6, popular=1, bias=1)
    found = parts_of(eh.network(views, follows, **CALL | {"draws": 99}))
    rng, near = np.random.default_rng(1), {v: own["followed"].to_numpy() for (v,), own in follows.group_by("follower")}
    authors = sorted(set(follows["followed"]) | set(views["author"]))
    values = []
    for _ in range(200):
        shown = np.concatenate([rng.choice(near[v], n) for v, n in views.group_by("viewer").len().rows()])
        values.append(eh.metrics.gini(np.bincount(shown, minlength=120)[authors]))
    expected = found["observed"] - np.mean(values)
    assert found["ranking"] == pytest.approx(expected, abs=4 * np.std(values) / np.sqrt(99))


@pytest.mark.slow
@pytest.mark.parametrize(("world", "nothing"), [({"popular": 1.0}, "ranking"), ({"bias": 2.0}, "wiring")])
def test_what_was_not_planted_covers_zero(world, nothing):
    covered = 0
    for seed in range(20):
        found = eh.network(*platform(50 + seed, **world), **CALL | {"rng": seed})
        low, high = found.frame.filter(part=nothing).select("low", "high").row(0)
        covered += low <= 0 <= high
    assert covered >= 18


def test_a_ranking_that_favours_the_popular_is_found():
    found = eh.network(*platform(7, bias=2.0), **CALL)
    made = {c.where["part"]: c.made for c in found.claims}
    assert made == {"wiring": False, "ranking": True}
    assert "the ranking raises the Gini index" in found.headline


def test_repeated_edges_loops_and_viewers_without_edges_are_counted():
    views, follows = platform(8)
    base = eh.network(views, follows, **CALL)
    more = pl.concat([follows, follows.head(3), pl.DataFrame({"follower": [1, 2], "followed": [1, 2]})])
    lost = pl.concat([views, pl.DataFrame({"viewer": [999] * 5, "author": [0] * 5})])
    found = eh.network(lost, more, **CALL)
    assert parts_of(found) == parts_of(base)
    counts = [found.provenance[name] for name in ("edges_repeated", "edges_to_oneself", "viewers_without_edges")]
    assert counts == [3, 2, 1]


def test_slices_of_the_log_and_bins_of_followers():
    views, follows = platform(9)
    views = views.with_columns(source=pl.Series(["home", "search"] * len(views)).head(len(views)))
    found = eh.network(views, follows, **CALL, by=["source", eh.log_bins("followers", 2)], metrics=["gini", "hoover"])
    assert found.frame.select("source", "followers").n_unique() == 4
    for _, rows in found.frame.group_by("source", "followers", "metric"):
        parts = dict(rows.select("part", "estimate").rows())
        assert parts["followers"] + parts["wiring"] + parts["ranking"] == pytest.approx(parts["observed"], abs=1e-12)
    assert found.kinds[0] == "layers"
    found.plot()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"follower": "nobody"}, "nobody"),
        ({"by": eh.log_bins("age", 3)}, "bins another number"),
        ({"amount": "hours"}, "holds fractions"),
        ({"reach": 3}, "reach"),
    ],
)
def test_bad_calls_are_refused_in_words(changes, words):
    views, follows = platform(1, people=30)
    with pytest.raises(eh.EvenhandError, match=words):
        eh.network(views.with_columns(hours=pl.lit(0.5)), follows, **CALL | changes)


def test_edges_of_other_people_are_refused():
    views, follows = platform(1, people=30)
    with pytest.raises(eh.EvenhandError, match="No viewer of the log follows anyone"):
        eh.network(views, follows + 1000, **CALL)
    with pytest.raises(eh.EvenhandError, match="edges has no rows"):
        eh.network(views, follows.head(0), **CALL)


def test_the_command_line(tmp_path, capsys):
    views, follows = platform(1, people=40)
    views.write_csv(tmp_path / "views.csv")
    follows.write_csv(tmp_path / "follows.csv")
    words = ["network", str(tmp_path / "views.csv"), "--edges", str(tmp_path / "follows.csv"), "--unit", "author"]
    assert main([*words, "--amount", "none", "--viewer", "viewer", "--draws", "9", "--seed", "1"]) == 0
    assert "ranking" in capsys.readouterr().out


def test_a_part_that_was_not_tested_is_a_number_and_no_verb():
    follows = pl.DataFrame({"follower": ["v", "v", "w", "w"], "followed": ["a", "b", "a", "b"]})
    views = pl.DataFrame({"viewer": ["v", "w"] * 10, "author": ["a"] * 20})
    result = eh.network(views, follows, unit="author", amount=None, viewer="viewer", draws=9, interval=None, rng=1)
    text = " ".join(result.sentences())
    assert "Part of the ranking: +" in text
    assert not re.search(r"\b(adds|raises|lowers)\b", f"{text} {result.headline}")
