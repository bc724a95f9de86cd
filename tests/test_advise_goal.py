"""Advice on exposure metrics: the paper's recommendation first, and what the data rule out."""

import pytest

import evenhand as eh
from evenhand.cli import main


@pytest.mark.parametrize(("goal", "first"), [("one_ranking", "awrf"), ("parity", "eed"), ("opportunity", "eel")])
def test_the_recommended_metric_comes_first(goal, first):
    found = eh.advise(goal=goal).frame
    assert found["metric"][0] == first
    assert found["advice"][0] == "recommended"


def test_equal_opportunity_takes_eel_and_eer_and_iaa_where_judgments_are_sparse():
    assert eh.advise(goal="opportunity").frame.filter(advice="recommended")["metric"].to_list() == ["eel", "eer"]
    assert eh.advise(goal="opportunity", sparse=True).frame.filter(advice="recommended")["metric"].to_list() == ["iaa"]


def test_the_data_say_whether_groups_are_shared_and_judgments_sparse():
    made = eh.synthetic.corpus(200, 20, soft=True, judged=0.2, rng=1)
    lists = made.rankings.filter(made.rankings["system"] == "fair").drop("system")
    found = eh.advise(lists, goal="opportunity", groups=made.groups, relevance=made.relevance)
    assert (
        found.frame["metric"][0] == "eel"
    )  # finds significantly more than the paper's choice, in simulations of such data
    assert found.headline.startswith("Use EEL: it finds a mild bias in ")
    assert "The paper names IAA" in found.headline
    papers = found.frame.filter(advice="the paper's choice")
    assert papers["metric"][0] == "iaa"
    assert "pass score=" in papers["reason"][0]
    assert found.provenance["soft_groups"] is True
    assert found.frame.filter(metric="log_eur")["advice"][0] == "not here"


def test_an_unknown_goal_is_refused(capsys):
    with pytest.raises(eh.EvenhandError, match="Did you mean 'parity'"):
        eh.advise(goal="parite")
    assert main(["advise", "--goal", "parity"]) == 0
    assert "eed" in capsys.readouterr().out


def test_advice_read_back_has_the_same_columns(tmp_path):
    said = eh.advise(balance="low", bias="low")
    said.to_json(tmp_path / "advice.json")
    assert eh.read.result(tmp_path / "advice.json").frame.equals(said.frame)


def test_reasons_cite_the_paper_as_its_opinion_and_say_where_the_rerun_differs():
    reasons = eh.advise(balance="low", bias="high").frame["reason"].to_list()
    assert "Table 5 of the paper" in reasons[0]
    assert "Our rerun of its simulation differs: nDKL rises more there" in reasons[0]
    assert "12 to 33%, nDD in 71 to 88%" in reasons[1]
    assert not any("hardly" in reason for reason in reasons)


def test_without_a_table_the_paper_is_answered_and_the_usual_simulation_stands_beside_it():
    found = eh.advise(goal="opportunity", sparse=True)
    assert found.frame["advice"].to_list()[0] == "recommended"
    assert not found.claims
    assert found.headline == f"Use IAA: it finds a mild bias in {100 * found.frame['found'][0]:.0f}% of simulations."


def test_the_shipped_responses_hold_every_metric_that_is_advised_on():
    from evenhand.audits.advise import Case, exposure_advice_for, responses_of

    for goal in ("one_ranking", "parity", "opportunity"):
        for metric, _, _ in exposure_advice_for(goal, Case()):
            assert responses_of(metric, {})[1] == 60
    assert responses_of("pref_kl", {"depth": 4.0}) == (0, 0)  # undefined on lists of five
    hits, worlds = responses_of("eed", {"labelled": 0.08, "depth": 18.0})
    assert hits / worlds < responses_of("eed", {})[0] / 60
