"""Requests that share a user, a session or a topic: whole clusters are resampled, flipped and swapped."""

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand.cli import main
from evenhand.intervals.requests import flip_test

USERS, PER_USER, ITEMS = 30, 5, 10


def tastes(seed=1, users=USERS, per_user=PER_USER, taste=1.5, systems=("a",)):
    """Five requests of each user, who likes one group more or less; the same taste in all of them."""
    rng = np.random.default_rng(seed)
    rows = []
    for system in systems:
        liking = np.repeat(rng.normal(0, taste, users), per_user)
        scores = rng.normal(size=(users * per_user, ITEMS)) + liking[:, None] * (np.arange(ITEMS) < 4)
        order = np.argsort(-scores, axis=1)
        rows.append(
            pl.DataFrame(
                {
                    "system": system,
                    "request": np.repeat(np.arange(users * per_user), ITEMS),
                    "user": np.repeat([f"u{u}" for u in range(users)], per_user * ITEMS),
                    "item": order.ravel(),
                    "rank": np.tile(np.arange(1, ITEMS + 1), users * per_user),
                    "side": np.where(order.ravel() < 4, "f", "m"),
                    "score": -np.tile(np.arange(1.0, ITEMS + 1), users * per_user),
                }
            )
        )
    judged = rng.integers(0, 2, users * per_user * ITEMS)
    table = pl.concat(rows)
    return table.with_columns(good=pl.Series(judged[table["request"].to_numpy() * ITEMS + table["item"].to_numpy()]))


ASKS = {
    "exposure": lambda t, **more: eh.exposure(t, groups="side", protected="f", metrics=["awrf", "log_dp"], rng=1, **more),
    "prefix": lambda t, **more: eh.prefix(t, group="side", protected="f", metrics=["ndd", "ndkl"], rng=1, **more),
    "pairwise": lambda t, **more: eh.pairwise(t, groups="side", relevance="good", protected="f", metrics=["inter_acc"], rng=1, **more),
}  # fmt: skip


@pytest.mark.parametrize("name", ASKS)
def test_requests_of_a_user_are_resampled_together(name):
    alone, together = (ASKS[name](tastes(), **more).frame for more in ({}, {"cluster": "user"}))
    assert together["estimate"].to_list() == pytest.approx(alone["estimate"].to_list())
    ratio = (together["high"] - together["low"]) / (alone["high"] - alone["low"])
    assert ratio.min() > 1.1  # of five requests that are half alike


@pytest.mark.parametrize("name", ASKS)
def test_a_cluster_for_every_request_is_no_cluster(name):
    alone, each = (ASKS[name](tastes(), **more) for more in ({}, {"cluster": "request"}))
    for column in ("estimate", "low", "high", "units"):
        assert each.frame[column].to_list() == pytest.approx(alone.frame[column].to_list()), column


@pytest.mark.parametrize("name", ASKS)
def test_interval_and_words_say_what_is_resampled(name):
    result = ASKS[name](tastes(), cluster="user")
    assert "clusters of requests (user)" in result.provenance["interval"]
    assert "other users like these" in result.provenance["interval_for"]
    assert result.provenance["plan"]["cluster"] == "user"


@pytest.mark.parametrize("name", ASKS)
@pytest.mark.parametrize("users", [4, 12])
def test_few_clusters_carry_a_note_and_very_few_have_no_interval(name, users):
    frame = ASKS[name](tastes(users=users, per_user=10), cluster="user").frame
    assert all("few_clusters" in note for note in frame["note"])
    assert frame["low"].is_nan().all() == (users < 5)
    if name == "prefix":
        assert frame["p"].is_nan().all() == (users < 5)


@pytest.mark.parametrize("name", ASKS)
def test_a_request_in_two_clusters_is_refused(name):
    table = tastes().with_columns(user=pl.when(pl.col("rank") > 8, request=7).then(pl.lit("u9")).otherwise("user"))
    with pytest.raises(
        eh.EvenhandError, match=r"cluster='user' differs between rows of the same request in 1 requests \(first: 7\)"
    ):
        ASKS[name](table, cluster="user")


@pytest.mark.parametrize("name", ASKS)
def test_a_request_in_another_cluster_from_system_to_system_is_refused(name):
    table = tastes(systems=("a", "b")).with_columns(user=pl.when(system="b").then(pl.lit("u0")).otherwise("user"))
    with pytest.raises(eh.EvenhandError, match="Give each request one cluster"):
        ASKS[name](table, cluster="user", system="system")


@pytest.mark.parametrize("name", ASKS)
def test_a_cluster_that_is_no_column_or_missing_is_refused(name):
    with pytest.raises(eh.EvenhandError, match=r"cluster='usr' is not a column.*Did you mean 'user'"):
        ASKS[name](tastes(), cluster="usr")
    table = tastes().with_columns(user=pl.when(pl.col("request") > 3).then("user"))
    with pytest.raises(eh.EvenhandError, match="cluster='user' is missing in 40 of 1,500 rows"):
        ASKS[name](table, cluster="user")


def test_systems_are_compared_cluster_by_cluster():
    table = tastes(systems=("a", "b"), seed=3)
    alone, together = (
        eh.compare(eh.exposure(table, groups="side", protected="f", system="system", metrics="log_dp", rng=1, **more), rng=1)
        for more in ({}, {"cluster": "user"})
    )  # fmt: skip
    assert together.frame["estimate"][0] == pytest.approx(alone.frame["estimate"][0])
    assert together.frame["high"][0] - together.frame["low"][0] > 1.2 * (alone.frame["high"][0] - alone.frame["low"][0])
    assert "clusters (user)" in together.provenance["p"]
    few = table.filter(pl.col("user").is_in(["u1", "u2", "u3", "u4", "u5", "u6"]))
    ask = dict(groups="side", protected="f", system="system", metrics="log_dp", cluster="user")
    assert eh.compare(eh.exposure(few, **ask), rng=1).frame["note"][0] == "few_clusters"


def test_two_results_are_paired_by_the_clusters_that_both_have():
    results = [ASKS["exposure"](tastes(seed=s), cluster="user") for s in (1, 2)]
    assert eh.compare(*results, rng=1).frame["p"].is_not_nan().all()
    with pytest.raises(eh.EvenhandError, match="has cluster= and the other has not"):
        eh.compare(results[0], ASKS["exposure"](tastes(seed=2)), rng=1)
    other = ASKS["exposure"](tastes(seed=2).with_columns(user=pl.col("user") + "!"), cluster="user")
    with pytest.raises(eh.EvenhandError, match="150 requests are in other clusters"):
        eh.compare(results[0], other, rng=1)


def test_rows_and_names_change_no_p_of_a_clustered_metric():
    table, new = tastes(), {f"u{u}": f"user {(u * 7) % USERS}" for u in range(USERS)}
    renamed = table.sample(fraction=1, shuffle=True, seed=1).with_columns(
        user=pl.col("user").replace(new), request=1000 - pl.col("request")
    )
    frames = [ASKS["prefix"](t, cluster="user").frame for t in (table, renamed)]
    for column in ("p", "p_favoured"):
        assert frames[0][column].to_list() == pytest.approx(frames[1][column].to_list())


@pytest.mark.parametrize("size", [6, 9, 40])
def test_signs_are_flipped_exactly_where_there_are_few(size):
    rng = np.random.default_rng(size)
    p = [flip_test(rng.exponential(size=size) - 1, 999, np.random.default_rng(i)) for i in range(400)]
    assert np.mean(np.array(p) <= 0.05) <= 0.08
    assert flip_test(np.ones(6), 999, rng) == 1 / 64
    assert np.isnan(flip_test(np.ones(4), 999, rng))


def test_command_line_and_plan_take_clusters(tmp_path, capsys):
    tastes().write_csv(tmp_path / "runs.csv")
    words = [
        "exposure",
        str(tmp_path / "runs.csv"),
        "--groups",
        "side",
        "--protected",
        "f",
        "--cluster",
        "user",
        "--seed",
        "1",
    ]
    assert main([*words, "--format", "json", "--output", str(tmp_path / "r.json")]) == 0
    assert eh.read.result(tmp_path / "r.json").provenance["plan"]["cluster"] == "user"
    plan = f'audit = "prefix"\ntable = "{tmp_path / "runs.csv"}"\ngroup = "side"\nprotected = "f"\ncluster = "user"\nrng = 1\n'
    (tmp_path / "plan.toml").write_text(plan)
    assert main(["run", str(tmp_path / "plan.toml")]) == 0
    capsys.readouterr()
    assert main([*words[:-4], "--cluster", "usr"]) == 2
    assert "--cluster usr is not a column" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("name", ASKS)
def test_intervals_of_clusters_hold_what_other_users_would_give(name):
    truths = [
        ASKS[name](tastes(seed=10_000 + s, users=200), interval=None).frame["estimate"].to_list() for s in range(15)
    ]
    truth = np.mean(truths, axis=0)
    kept = []
    for seed in range(40):
        frame = ASKS[name](tastes(seed), cluster="user", interval="bootstrap(199)").frame
        kept.append((frame["low"].to_numpy() <= truth) & (truth <= frame["high"].to_numpy()))
    assert np.mean(kept, axis=0).min() >= 0.85  # 0.95 less three simulation errors
