"""Scores corrected so that they mean the same for every group; scikit-learn's conventions; JSON in and out."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand.cli import main


def world(rows, seed, bias=0.12):
    rng = np.random.default_rng(seed)
    groups = rng.choice(["a", "b"], rows)
    scores = rng.beta(2, 2, rows)
    chance = np.clip(0.1 + 0.7 * scores + bias * (groups == "b"), 0, 1)
    return scores, groups, (rng.random(rows) < chance) * 1.0


def rejected(bias, fitted, worlds=40, rows=4_000):
    """Share of worlds in which the outcome test on new rows rejects: the scores as they are, and corrected ones."""
    found = []
    for seed in range(worlds):
        fair = eh.OutcomeRecalibrator().fit(*world(fitted, [seed, 1], bias))
        s, g, y = world(rows, [seed, 2], bias)
        gain = fair.evaluate(s, g, y)
        found.append((gain.p_before < 0.05, gain.p_after < 0.05))
    return np.mean(found, axis=0)


def test_corrected_scores_pass_the_test_that_the_old_ones_fail():
    """At a 5% level 2 of 40 worlds fail by chance, and 6 or more once in 70 times."""
    before, after = rejected(0.12, fitted=20_000)
    assert before == 1
    assert after <= 5 / 40


def test_scores_that_were_right_stay_right():
    before, after = rejected(0.0, fitted=4_000)
    assert after <= before + 2 / 40


def test_what_the_correction_costs_and_gains_is_told_on_rows_held_back():
    s, g, y = world(8_000, 2)
    fair = eh.OutcomeRecalibrator().fit(*world(40_000, 1))
    gain = fair.evaluate(s, g, y)
    assert gain.gap_after < 0.03 < 0.1 < gain.gap_before
    assert gain.top_after >= gain.top_before - 0.01
    assert "8,000 rows held back" in str(gain)
    table = pl.DataFrame({"s": fair.transform(s, g), "g": g, "y": y})
    test = eh.outcome_test(table, score="s", outcome="y", group="g", kind="classification")
    assert test.only("joint_test").findings.columns["p"][0] == pytest.approx(gain.p_after)


def test_within_a_group_a_better_score_is_never_corrected_below_a_worse_one():
    noisy = eh.OutcomeRecalibrator(bins=20).fit(*world(300, 3))
    grid = np.linspace(-0.5, 1.5, 400)
    for g in ("a", "b", "never seen"):
        assert (np.diff(noisy.transform(grid, [g] * 400)) >= -1e-12).all()


def test_outcomes_that_are_a_line_are_found_exactly():
    s = np.tile(np.linspace(0, 1, 50), 2)
    g = np.repeat(["a", "b"], 50)
    fair = eh.OutcomeRecalibrator(bins=5).fit(s, g, 2 * s + 0.5 * (g == "b"))
    np.testing.assert_allclose(fair.transform([0.0, 0.5, 1.0], ["a", "b", "a"]), [0.0, 1.5, 2.0], atol=1e-9)


def test_what_was_learned_survives_json(tmp_path):
    fair = eh.OutcomeRecalibrator(bins=4).fit(*world(500, 4))
    s, g, _ = world(50, 5)
    path = tmp_path / "fair.json"
    text = fair.to_json(path)
    json.loads(text)
    for again in (eh.OutcomeRecalibrator.from_json(text), eh.OutcomeRecalibrator.from_json(path)):
        np.testing.assert_array_equal(again.transform(s, g), fair.transform(s, g))
        assert again.get_params() == fair.get_params()


def test_it_follows_the_conventions_of_scikit_learn():
    made = eh.OutcomeRecalibrator(bins=3)
    assert made.set_params(bins=5) is made
    assert made.get_params() == {"bins": 5, "reference": None}
    s, g, y = world(200, 6)
    assert made.fit(s, g, y) is made
    np.testing.assert_array_equal(made.fit_transform(s, g, y), made.transform(s, g))
    assert made.groups_ == ["a", "b"]


def test_weights_count_as_rows_do_and_clusters_as_one():
    s, g, y = world(4_000, 5)
    plain = eh.OutcomeRecalibrator().fit(s, g, y)
    alike = eh.OutcomeRecalibrator().fit(s, g, y, weights=np.full(len(s), 2.5))
    assert np.allclose(plain.transform(s, g), alike.transform(s, g), atol=1e-12)
    w = np.where(y == 1, 3.0, 1.0)
    weighted = eh.OutcomeRecalibrator().fit(s, g, y, weights=w).transform(s, g)
    assert np.average(weighted, weights=w) == pytest.approx(np.average(y, weights=w), abs=0.01)
    # A row copied five times is one row: its copies tell nothing new, and only clusters say so.
    few = world(300, 6, bias=0.0)
    copied = [np.repeat(x, 5) for x in few]
    moved = [
        np.ptp([m.transform([0.5], [label])[0] for label in "ab"])
        for m in (
            eh.OutcomeRecalibrator(bins=3).fit(*copied),
            eh.OutcomeRecalibrator(bins=3).fit(*copied, clusters=np.repeat(np.arange(300), 5)),
        )
    ]
    assert moved[1] <= moved[0]
    gain = plain.evaluate(s, g, y, weights=np.ones(len(s)), clusters=np.arange(len(s)) // 4)
    assert gain.gap_before == pytest.approx(plain.evaluate(s, g, y).gap_before)


def test_a_missing_group_is_a_group_of_its_own():
    s, g, y = world(400, 7)
    labels = [None if i % 5 == 0 else x for i, x in enumerate(g)]
    assert "unknown" in eh.OutcomeRecalibrator().fit(s, labels, y).groups_


@pytest.mark.parametrize(
    "call",
    [
        lambda: eh.OutcomeRecalibrator().transform([0.1], ["a"]),
        lambda: eh.OutcomeRecalibrator(bins=0).fit([0.1], ["a"], [1]),
        lambda: eh.OutcomeRecalibrator().fit([0.1, 0.2], ["a"], [1]),
        lambda: eh.OutcomeRecalibrator().fit([float("nan")], ["a"], [1]),
        lambda: eh.OutcomeRecalibrator().fit(["x"], ["a"], [1]),
        lambda: eh.OutcomeRecalibrator().fit([0.1, 0.2], ["a", "b"], [1, 0], weights=[1, 0]),
        lambda: eh.OutcomeRecalibrator().fit([0.1, 0.2], ["a", "b"], [1, 0], weights=[1]),
        lambda: eh.OutcomeRecalibrator().fit([0.1, 0.2], ["a", "b"], [1, 0], clusters=[1, None]),
        lambda: eh.OutcomeRecalibrator(reference="z").fit([0.1], ["a"], [1]),
        lambda: eh.OutcomeRecalibrator().fit([1e155, 2e155], ["a", "b"], [1, 0]),
        lambda: eh.OutcomeRecalibrator().fit([0.1, 0.2], ["a", "b"], [0, 1e-200]),
        lambda: eh.OutcomeRecalibrator().fit(range(1_200), range(1_200), [0, 1] * 600),
        lambda: eh.OutcomeRecalibrator().set_params(depth=3),
        lambda: eh.OutcomeRecalibrator.from_json("{}"),
        lambda: eh.OutcomeRecalibrator.from_json("nowhere.json"),
    ],
)
def test_bad_calls_are_refused(call):
    with pytest.raises(eh.EvenhandError):
        call()


@pytest.fixture
def files(tmp_path):
    """Rows to learn from, and others to correct."""
    rng = np.random.default_rng(3)
    g = rng.choice(["f", "m"], 3_000)
    s = rng.random(3_000).round(6)
    y = (rng.random(3_000) < np.clip(s + 0.2 * (g == "f"), 0, 1)) * 1
    frame = pl.DataFrame({"id": range(3_000), "s": s, "g": g, "y": y})
    frame[:2_000].write_csv(tmp_path / "seen.csv")
    frame[2_000:].drop("y").write_parquet(tmp_path / "new.parquet")
    return tmp_path


def test_the_verb_learns_writes_and_applies_as_python_does(files, capsys):
    roles = ["--score", "s", "--group", "g"]
    model, out = str(files / "fair.json"), files / "out.parquet"
    assert main(["recalibrate", str(files / "seen.csv"), *roles, "--outcome", "y", "--model", model]) == 0
    assert main(["recalibrate", str(files / "new.parquet"), *roles, "--model", model, "--output", str(out)]) == 0
    old, new, got = pl.read_csv(files / "seen.csv"), pl.read_parquet(files / "new.parquet"), pl.read_parquet(out)
    fair = eh.OutcomeRecalibrator().fit(old["s"], old["g"], old["y"])
    assert got["recalibrated"].to_list() == pytest.approx(fair.transform(new["s"], new["g"]).tolist(), rel=1e-12)
    assert got.drop("recalibrated").equals(new)
    capsys.readouterr()
    assert main(["recalibrate", str(files / "new.parquet"), *roles, "--model", model]) == 0
    assert capsys.readouterr().out.startswith("id,s,g,recalibrated\n")
    learn = ["recalibrate", str(files / "seen.csv"), *roles, "--outcome", "y", "--model", model]
    assert main([*learn, "--weight", "s", "--cluster", "id"]) == 0
    again = eh.OutcomeRecalibrator().fit(old["s"], old["g"], old["y"], weights=old["s"], clusters=old["id"])
    assert eh.OutcomeRecalibrator.from_json(model).curves_ == again.curves_


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["new.parquet", "--score", "x", "--group", "g", "--model", "fair.json"], "--score 'x' is not a column"),
        (["new.parquet", "--score", "g", "--group", "g", "--model", "fair.json"], "must be numbers"),
        (["new.parquet", "--score", "s", "--group", "g", "--model", "fair.json", "--cluster", "id"], "are for learning"),
        (["new.parquet", "--score", "s", "--group", "g", "--model", "nowhere.json"], "no saved recalibrator"),
        (["seen.csv", "--score", "s", "--group", "g", "--outcome", "y", "--model", "seen.csv"], "seen.csv"),
        (["seen.csv", "--score", "s", "--group", "g", "--outcome", "y", "--model", "m.json", "--output", "x.csv"], "second command"),
        (["seen.csv", "--score", "s", "--group", "g", "--outcome", "y", "--model", "m.json", "--bins", "0"], "bins=0"),
    ],
)  # fmt: skip
def test_the_verb_says_what_is_wrong_and_writes_nothing(files, monkeypatch, capsys, words, said):
    monkeypatch.chdir(files)
    if "nowhere.json" not in words and "--outcome" not in words:
        main(["recalibrate", "seen.csv", "--score", "s", "--group", "g", "--outcome", "y", "--model", "fair.json"])
    before = sorted(p.name for p in files.iterdir())
    capsys.readouterr()
    assert main(["recalibrate", *words]) == 2
    assert said in capsys.readouterr().err
    assert sorted(p.name for p in files.iterdir()) == before
