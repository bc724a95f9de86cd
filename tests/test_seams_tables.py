"""A metric that somebody declares on a tally of tables is measured by its own function: in frame, table, sentence, plan and command."""

import json
import math
import shlex

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand.cards import REGISTRY, Card, metric
from evenhand.cli import main
from evenhand.report.reproduce import ways
from evenhand.tallies.crosstab import Crosstab
from evenhand.tallies.moments import Moments
from evenhand.tallies.spectrum import Spectrum

VALUE = 0.125


@pytest.fixture
def declare():
    """Declare metrics that are forgotten afterwards."""
    made = []

    def declared(tally, function, name="strange", **card):
        about = {"symbol": "S", "title": "Strange", "asks": "Is it strange?", "span": (0.0, 1.0), "ideal": 0.0}
        said = {"better": "lower", "says": "It is strange by {estimate:number}.", "family": "strange"}
        made.append(name)
        return metric(Card(name=name, needs=tally, **{**about, **said, **card}))(function)

    yield declared
    for name in made:
        REGISTRY.pop(name)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A small table for each family, in the folder where the test runs."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    pl.DataFrame({"who": list("aabbcd"), "views": [1, 2, 3, 4, 5, 6]}).write_csv("log.csv")
    np.save("scores.npy", rng.random((12, 6)))
    pl.DataFrame({"group": ["a", "b"] * 6}).write_csv("users.csv")
    people = pl.DataFrame({"s": rng.random(400).round(3), "g": ["f", "m"] * 200})
    people.with_columns(y=(pl.Series(rng.random(400)) < people["s"]).cast(int)).write_csv("people.csv")
    return tmp_path


CALLS = {
    Spectrum: lambda **how: eh.inequality("log.csv", unit="who", amount="views", population=None, rng=1, **how),
    Crosstab: lambda **how: eh.recommender("scores.npy", top=2, rng=1, **how),
    Moments: lambda **how: eh.outcome_test("people.csv", score="s", outcome="y", group="g", bins=4, **how),
}
TALLIES = pytest.mark.parametrize("tally", CALLS, ids=lambda tally: tally.__name__)


@TALLIES
def test_a_strangers_value_is_what_is_said_everywhere(tally, declare, files, capsys):
    declare(tally, lambda _: VALUE, certain=True)
    found = CALLS[tally](metrics=["strange"])
    assert found.frame["metric"].to_list() == ["strange"]
    assert found.frame["estimate"].to_list() == [VALUE]
    assert found.frame["better"].to_list() == ["lower"]
    assert "0.125" in found.to_text("table")
    assert found.sentences() == ["It is strange by 0.125."]
    plan = dict(json.loads(found.to_json())["provenance"]["plan"])
    assert plan["metrics"] == ["strange"]
    assert getattr(eh, plan.pop("audit"))(**plan).to_dict()["columns"] == found.to_dict()["columns"]
    typed = ways(found.findings)[0][1]
    assert main([*shlex.split(typed)[1:], "--format", "json", "--no-progress"]) == 0
    assert json.loads(capsys.readouterr().out)["columns"] == found.to_dict()["columns"]


@pytest.mark.parametrize("interval", ["bootstrap(49)", "percentile(49)", "normal", None])
@pytest.mark.parametrize("tally", [Spectrum, Crosstab], ids=lambda tally: tally.__name__)
@pytest.mark.parametrize("certain", [True, False])
def test_only_a_value_that_its_card_calls_certain_has_an_interval_without_width(
    tally, interval, certain, declare, files
):
    declare(tally, lambda _: VALUE, certain=certain)
    row = CALLS[tally](metrics="strange", interval=interval).frame.row(0, named=True)
    ends = [row["low"], row["high"]]
    assert ends == [VALUE] * 2 if certain and interval is not None else np.isnan(ends).all()
    assert (row["note"] is None) == (certain or interval is None)


def test_a_metric_over_groups_of_users_has_a_row_for_each_pair(declare, files):
    declare(Crosstab, lambda t: t.sides("users")[1] / 48, reads=frozenset({"users"}))
    found = eh.recommender("scores.npy", user_groups="users.csv", metrics="strange", rng=1).frame
    assert found["group"].to_list() == ["b vs a"]
    assert found["estimate"].to_list() == [VALUE]


@pytest.mark.parametrize(
    ("reads", "given", "said"),
    [
        ("users", {"top": 2}, "compares groups of users. Pass user_groups"),
        ("truth", {"top": 2}, "needs to know what is relevant. Pass relevant"),
        ("shown", {}, "needs to know what is shown. Pass top or threshold"),
    ],
)
def test_what_a_call_lacks_is_refused_with_one_text_and_left_out_where_nothing_is_named(
    reads, given, said, declare, files
):
    declare(Crosstab, lambda _: VALUE, reads=frozenset({reads}))
    with pytest.raises(eh.EvenhandError, match=f"metrics='strange' {said}, or leave the metric out"):
        eh.recommender("scores.npy", metrics="strange", **given)
    grouped = {**given, "user_groups": "users.csv"} if reads != "users" else given
    assert "strange" not in eh.recommender("scores.npy", **grouped, interval=None).frame["metric"].to_list()


def test_a_strangers_metric_is_among_all_that_the_input_allows_and_no_convention_claims_it(declare, files):
    declare(Crosstab, lambda _: VALUE)
    assert "strange" in eh.recommender("scores.npy", top=2, interval=None).frame["metric"].to_list()
    found = eh.recommender("scores.npy", top=2, convention="recbole", interval=None)
    assert "strange" not in found.frame["metric"].to_list()
    with pytest.raises(eh.EvenhandError, match="not computed by recbole"):
        eh.recommender("scores.npy", top=2, convention="recbole", metrics="strange")


def test_chance_is_what_the_metric_says_or_what_labels_dealt_out_give(declare, files):
    declare(Crosstab, lambda _: VALUE).chance(lambda _: 0.5)
    assert CALLS[Crosstab](metrics="strange").frame["chance"].to_list() == [0.5]
    declare(
        Crosstab,
        lambda t: t.exposure()[0][..., 0] / 24,
        "dealt",
        reads=frozenset({"users", "shown"}),
        shuffled="labels",
    )
    row = eh.recommender(
        "scores.npy", user_groups="users.csv", top=2, metrics="dealt", chance="permutation(49)", rng=1
    ).frame.row(0, named=True)
    shown = eh.recommender("scores.npy", top=2, interval=None).shown[:, 0]
    assert row["estimate"] == shown[::2].sum() / 24
    assert row["chance"] == pytest.approx(shown.sum() / 48, abs=1.5 / 24)
    assert math.isnan(row["p"])  # only what a claim is about is tested


def test_the_spread_of_slots_is_right_in_every_draw_whatever_metric_reads_it(declare, files):
    declare(Crosstab, lambda t: t.spread.sum(-1) / t.mark("viewers").sum(-1))
    row = eh.recommender("scores.npy", threshold=0.5, metrics="strange", rng=1).frame.row(0, named=True)
    assert row["estimate"] == pytest.approx(1.0, abs=1e-12)
    assert "no_variation" in row["note"]  # it is 1 in every draw


def test_a_metric_of_binned_rows_may_speak_of_groups_and_of_bins(declare, files):
    declare(Moments, lambda m, reference: m.rows.sum(0) / m.rows.sum() - reference)
    declare(Moments, lambda m: m.mean_outcome, "outcomes")
    found = CALLS[Moments](metrics=["strange", "outcomes", "pooled_gap"]).frame
    whole = CALLS[Moments]().frame
    strange, outcomes = found.filter(metric="strange"), found.filter(metric="outcomes")
    assert strange["group"].to_list() == ["f", "m"]
    assert strange["estimate"].sum() == pytest.approx(1.0)
    same = ["group", "bin", "bin_low", "bin_high", "estimate", "units"]
    assert outcomes[same].equals(whole.filter(metric="mean_outcome")[same])
    adjusted = ("p_adjusted",)  # over the claims of each result
    pooled, expected = (f.filter(metric="pooled_gap").drop(adjusted) for f in (found, whole))
    assert pooled.equals(expected)


def test_an_undefined_value_of_a_stranger_has_its_reason(declare, files):
    declare(Moments, lambda m: np.full(m.rows.shape[-1], np.nan), otherwise="zero_denominator")
    declare(Crosstab, lambda _: np.nan, "lost", otherwise="nothing_shown")
    assert CALLS[Moments](metrics="strange").frame["note"].to_list() == ["zero_denominator"] * 2
    assert CALLS[Crosstab](metrics="lost").frame["note"].to_list() == ["nothing_shown"]
    apart = pl.DataFrame({"s": [0.1, 0.2, 0.8, 0.9], "y": [0, 1, 0, 1], "g": ["f", "f", "m", "m"]})
    found = eh.outcome_test(apart, score="s", outcome="y", group="g", metrics="strange")
    assert found.frame["note"].to_list() == ["no_common_support"]
