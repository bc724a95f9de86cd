"""The study of experiments: every design runs, and the right analysis is told from the naive one."""

import numpy as np
import pytest

from evenhand.cli import main
from evenhand.studies.experiment import DESIGNS, NAIVE, RIGHT, independent_p, rates, study
from evenhand.synthetic.platform import trial


def test_the_trial_holds_the_share_and_the_effect_that_were_asked_for():
    frame = trial(400, 50, share=0.25, effect=1.0, rng=1)
    arms = frame.group_by("viewer").agg(arm="arm").explode("arm").unique()
    assert arms["viewer"].n_unique() == arms.height
    even = [frame.filter(arm=a)["author"].value_counts()["count"].std() for a in ("new", "control")]
    assert even[0] < even[1] / 3
    assert (arms["arm"] == "new").mean() == pytest.approx(0.25, abs=0.03)


def test_bingeing_viewers_return_to_few_authors():
    seen = {
        habit: trial(200, 100, habit=habit, views=40, rng=1).group_by("viewer").agg(top="author").explode("top")
        for habit in ("even", "bingeing")
    }
    most = {
        habit: np.mean([g["top"].value_counts()["count"].max() / g.height for _, g in frame.group_by("viewer")])
        for habit, frame in seen.items()
    }
    assert most["bingeing"] > 1.5 * most["even"]


def test_independent_samples_of_the_same_shape_are_alike():
    rng = np.random.default_rng(1)
    p = [independent_p(rng.lognormal(0, 0.5, 300), rng.lognormal(0, 0.5, 300)) for _ in range(100)]
    assert np.mean(np.array(p) <= 0.05) < 0.15


def test_a_small_arm_of_viewers_alarms_the_naive_analysis_only():
    (small,) = [d for d in DESIGNS if d.name == "viewers 10/90"]
    found = rates(small, 8, seed=3)
    assert found.false[NAIVE] > 0.7
    assert found.false[RIGHT] < 0.5


@pytest.mark.slow
def test_the_study_runs_and_says_what_comes_out(tmp_path, capsys):
    found = study(size=6, seed=2)
    assert len(found.tables[0].rows) == 2 * len(DESIGNS)
    assert "as two independent results" in found.to_text()
    assert (
        main(
            ["study", "experiment", "--size", "3", "--html", str(tmp_path / "s.html"), "--seeds", "1", "--no-progress"]
        )
        == 0
    )
    assert (tmp_path / "s.html").exists()
