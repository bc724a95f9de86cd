"""The recommender study: four recommenders whose bias is known, and what the measures make of them."""

import numpy as np
import pytest

import evenhand as eh
from evenhand.cli import main
from evenhand.errors import EvenhandError
from evenhand.studies.recommender import MISSES, SHOWN, study
from evenhand.synthetic.catalogue import RECOMMENDERS, catalogue


@pytest.fixture(scope="module")
def found():
    return study(size=300, seed=3)


def verdict(found, start):
    return next(c.holds for c in found.claims if c.statement.startswith(start))


def test_the_popularity_list_is_the_same_for_all_and_serves_the_minority_worst():
    made = catalogue(400, 200, rng=1)
    shown = eh.recommender(made.scores["popularity"], top=10, interval=None).shown
    assert (shown == shown[0]).all()
    ratio = {
        name: eh.recommender(
            made.scores[name], user_groups=made.groups, protected="minority", relevant=made.relevant, top=10,
            metrics="precision_ratio", interval=None,
        ).frame["estimate"][0]
        for name in RECOMMENDERS
    }  # fmt: skip
    assert min(ratio, key=ratio.get) == "popularity"


def test_tastes_that_do_not_differ_are_served_alike_by_popularity():
    made = catalogue(600, 200, apart=0.0, rng=1)
    found = eh.recommender(
        made.scores["popularity"], user_groups=made.groups, protected="minority", relevant=made.relevant, top=10,
        metrics="precision_ratio", rng=1,
    ).frame.row(0, named=True)  # fmt: skip
    assert found["low"] < 1 < found["high"]


def test_the_study_says_what_does_not_come_out(found):
    assert not verdict(found, "A large MAD shows")
    assert not verdict(found, "A total variation of 0 is desired")
    assert not verdict(found, "Equal distributions give")
    assert not verdict(found, "The maximum of the total variation")
    assert not verdict(found, "An aggregate diversity of 1")
    assert not verdict(found, "The printed formula of ARP")
    assert verdict(found, "A lower precision ratio")
    assert verdict(found, "The debiased recommender")


def test_every_measure_has_a_row_and_what_it_misses(found):
    assert set(MISSES) == set(SHOWN)
    says, misses = found.tables
    assert [row[0] for row in misses.rows] == list(SHOWN)
    assert {row[1] for row in misses.rows} <= set(RECOMMENDERS)
    assert len(says.rows) == len(SHOWN) + 2


def test_figures_draw(found):
    for figure in found.figures:
        assert figure.draw().to_dict()


def test_the_command_prints_it(capsys):
    assert main(["study", "recommender", "--size", "100", "--format", "csv", "--seeds", "1", "--no-progress"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0] == "finding,where,stated,measured,comes out,counts if,in seeds,whose,sample"
    assert len(out.splitlines()) >= 15


def test_too_small_a_catalogue_is_refused():
    with pytest.raises(EvenhandError, match="too few"):
        catalogue(5, 100)


def test_the_same_seed_makes_the_same_catalogue():
    one, two = catalogue(50, 40, rng=5), catalogue(50, 40, rng=5)
    np.testing.assert_array_equal(one.scores["debiased"], two.scores["debiased"])
