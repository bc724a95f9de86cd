"""The inequality study on a small platform: the table is complete, honest about what fails, and flips with the mechanism."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import polars as pl
import pytest

from evenhand.cli import main
from evenhand.errors import EvenhandError
from evenhand.studies.inequality import SWITCHES, measure, study
from evenhand.studies.inequality_findings import (
    FINDINGS,
    alike,
    claims,
    out_of_network_is_more_skewed,
)
from evenhand.studies.inequality_log import log_of_platform
from evenhand.studies.study import HEAD, Claim, Study, Table, certain
from evenhand.synthetic.platform import platform

SMALL = 3_000


@pytest.fixture(scope="module")
def found():
    return study(size=SMALL, seed=3)


def verdicts(seed, **off):
    return {
        c.statement: c.holds
        for c in claims(measure(log_of_platform(platform(20_000, rng=seed, **off)), interval=None, seed=seed))
    }


def table(found, start):
    return next(t for t in found.tables if t.title.startswith(start))


def test_every_stated_finding_has_a_row_with_a_measurement_and_a_verdict(found):
    assert len(found.claims) == len(FINDINGS)
    assert all(c.measured and c.where and c.verdict in ("yes", "no", "cannot be told") for c in found.claims)


def test_what_does_not_come_out_is_printed_as_such(found):
    rows = list(csv.DictReader(io.StringIO(found.to_text("csv"))))
    clicks = next(r for r in rows if r["finding"].startswith("Profile clicks"))
    assert clicks["comes out"] == "no"
    assert " no, " in found.to_text()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_core_findings_come_out_whatever_the_seed(seed):
    holds = verdicts(seed)
    for start in (
        "Impressions reach", "80/20", "All metric families", "Within bins, out-of-network", "Authors in general",
        "Out of network, a smaller",
    ):  # fmt: skip
        assert next(v for says, v in holds.items() if says.startswith(start)), start
    for start in ("Quotes are", "Out-of-network"):  # 20,000 authors cannot always tell, all findings taken together
        assert next(v for says, v in holds.items() if says.startswith(start)) is not False, start


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_findings_flip_when_their_mechanism_is_switched_off(seed):
    holds, off = verdicts(seed), verdicts(seed, **SWITCHES["random suggestions"])
    for says in (
        "Out-of-network suggestions are more skewed than in-network ranking",
        "Within bins, out-of-network is much more skewed for authors with few followers",
    ):
        assert holds[says] is not False
        assert off[says] is False


def test_the_flips_are_said_in_words(found):
    assert any(line.startswith("With random suggestions") for line in found.sentences)


def cells(found, title):
    shown = table(found, title)
    return [dict(zip(shown.head, row, strict=True)) for row in shown.rows]


def test_contributions_of_the_sources_add_up_to_the_gini_index(found):
    rows = cells(found, "Which source")
    by_metric = {
        m: sum(float(r["estimate"]) for r in rows if r["metric"] == m) for m in ("gini", "contribution", "marginal")
    }
    assert by_metric["contribution"] == pytest.approx(by_metric["gini"], abs=2e-3)
    assert by_metric["marginal"] == pytest.approx(0, abs=5e-4)


def test_sources_and_structure_add_up_to_the_gini_index(found):
    *parts, total = (float(row[1]) for row in table(found, "Source or structure").rows)
    assert sum(parts) == pytest.approx(total, abs=3e-4)


def test_table_2_stands_beside_the_paper_s_judgement(found):
    rows = {(r["metric"], r["criterion"]): r for r in cells(found, "Table 2")}
    population = rows["equal_share", "population"]
    assert (population["measured"], population["published"]) == ("yes", "no")
    assert rows["top_share", "interpretable"]["published"] == "high"


def planted(units=600, *, kinds=None, sources=None, followers=None):
    """Verdicts on a log in which units get what functions of their number say, by kind and source."""
    who, kinds = np.arange(units), kinds or {"views": lambda u, s: np.ones(units)}
    sources = sources or ["home", "misc"]
    rows = [
        pl.DataFrame({"who": who, "via": via, **{k: np.asarray(f(who, via), dtype=float) for k, f in kinds.items()}})
        for via in sources
    ]
    fans = {"fans": (np.ones(units) if followers is None else followers).astype(int)}
    log = pl.concat(rows).join(pl.DataFrame({"who": who, **fans}), on="who")
    own = study(
        data=log, unit="who", amount=list(kinds), source="via", followers="fans", in_network="home", seed=1,
        later="later" if "later" in kinds else None,
    )  # fmt: skip
    return {c.statement: c for c in own.claims}


def test_every_finding_says_no_in_a_planted_world():
    """Even amounts, sources in reverse, and accounts on which followers act the other way round."""
    rng = np.random.default_rng(1)
    few = np.arange(600) % 10 == 0
    fans = np.exp(rng.uniform(0, 7, 600)).round() + 1

    def skewed(u, via):
        return rng.pareto(1.2, 600) * 50

    even = planted(
        kinds={
            "views": lambda u, s: few * 9.0,
            "profile_clicks": lambda u, s: few * skewed(u, s),
            "likes": skewed,
            "retweets": lambda u, s: 1.0 + u % 3,
            "quotes": lambda u, s: 5.0 + u % 2,
            "later": lambda u, s: skewed(u, s) ** 2,
        }
    )
    shaped = {
        "home": lambda u: 300 + skewed(u, "") * (fans > 30),
        "search": lambda u: 1.0 + u % 2,
        "misc": lambda u: 1e4 / fans + (fans > 30) * skewed(u, "") * 50,
    }
    reverse = planted(kinds={"views": lambda u, s: shaped[s](u), "likes": skewed}, sources=list(shaped), followers=fans)
    u = np.arange(600)
    halves = {
        "home": fans * few * 20,  # few are reached, in proportion to their followers
        "misc": (1.0 + u % 3)
        * np.where(fans > 30, u % 2, 1),  # all small accounts are reached, and every other large one
        "search": 3.0 * (u % 5 < 2),
        "topics": np.where(u < 6, 400.0, 6.0),
    }
    kinds = {
        "views": lambda u, s: halves[s],
        "likes": lambda u, s: halves["search"],
        "replies": lambda u, s: halves["topics"],
    }
    other = planted(kinds=kinds, sources=list(halves), followers=fans)
    plain = planted(kinds={"views": lambda u, s: few * 9.0, "likes": lambda u, s: 5.0 + u % 2})
    zeros = {
        "views": lambda u, s: 50.0 * (u % 5 < 2) if s == "misc" else u * 0 + 1,
        "likes": lambda u, s: np.where(u < 60, 45, 6),
    }
    every_other = {"views": lambda u, s: u % 2 * 9.0, "likes": lambda u, s: 5.0 + 0 * u}
    large = {"views": lambda u, s: np.where((fans > 30) & (s == "misc"), few * 90.0, 5.0)}
    tops = {"home": 1.0 + u % 3, "search": 3.0 * (u % 5 < 1), "topics": np.where(u % 20 == 0, 120.0, 6.0)}
    worlds = (
        even, reverse, other, plain, planted(kinds=zeros), planted(kinds=every_other), planted(kinds=large, followers=fans),
        planted(kinds={"views": lambda u, s: tops[s]}, sources=list(tops)),
    )  # fmt: skip
    told = {says for world in worlds for says, claim in world.items() if claim.holds is False}
    asked = {says for world in worlds for says in world}
    assert asked - told == set(), "\n".join(f"{s}: {w[s].measured}" for s in asked - told for w in worlds if s in w)


def test_a_finding_about_sources_that_are_off_cannot_be_measured():
    month = measure(log_of_platform(platform(500, rng=1, mix={"in_network": 1})), interval=None, seed=1)
    assert out_of_network_is_more_skewed(month).verdict == "cannot be told"


def test_orders_are_alike_by_their_pairs():
    assert alike({"a": 1, "b": 2, "c": 3}, {"a": 10, "b": 30, "c": 20}) == pytest.approx(2 / 3)


def test_the_same_seed_gives_the_same_study():
    assert study(size=300, seed=3).to_text("json") == study(size=300, seed=3).to_text("json")


def test_the_findings_can_be_read_by_other_programs(found):
    assert found.frame.columns == list(HEAD)
    assert json.loads(found.to_text("json"))["study"] == "inequality"
    with pytest.raises(EvenhandError, match="format='latexx'"):
        found.to_text("latexx")


@pytest.mark.slow
def test_every_figure_of_the_paper_is_drawn_on_the_page(found):
    paper = {f"figure-{n}" for n in ("1a", "1b", "2a", "2b", "2c", "2d", "3a", "3b", "4", "5-7", "6")}
    assert paper | {"sources"} == {figure.name for figure in found.figures}
    page = found.to_html()
    assert page.count("<figure>") == len(paper) + 1
    assert page.count("<svg") == len(paper) + 1


def test_labels_cannot_break_the_page():
    claim = Claim("<script>alert(1)</script>", "x|y", "a", "b", certain(True))
    odd = Study("odd", "<b>", "&", (claim,), (Table("<i>", ("h",), (("<u>",),)),))
    page = odd.to_html()
    assert "<script>alert" not in page
    assert "<u>" not in page


def test_the_command_prints_the_findings_and_says_what_it_wrote(capsys, tmp_path):
    assert main(["study", "inequality", "--size", "300", "--seeds", "1", "--format", "csv", "--no-progress"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0] == ",".join(HEAD)
    assert len(out.splitlines()) == 1 + len(FINDINGS)


ROLES = {"unit": "who", "amount": ["views", "likes", "quotes"], "source": "via", "followers": "fans"}
SIDES = {"in_network": "in_network", "out_of_network": ["likes", "graph", "misc"]}


@pytest.fixture(scope="module")
def month():
    """The month of `found` as a log of one's own: other names, every row in two halves, followers in the log."""
    made = platform(SMALL, rng=3)
    names = {"author_id": "who", "source": "via", "followers": "fans", "impressions": "views"}
    everyone = made.authors.filter((pl.col("displays") > 0) & (pl.col("followers") > 0)).select(
        "author_id", "followers"
    )
    rows = made.engagements.join(everyone, on="author_id")
    amounts = [c for c in rows.columns if c not in ("author_id", "source", "followers")]
    part = rows.with_columns(pl.col(amounts) // 2)
    rest = rows.with_columns(*(pl.col(c) - pl.col(c) // 2 for c in amounts))
    return pl.concat([part, rest]).rename(names), everyone.rename({"author_id": "who", "followers": "fans"})


def told(study):
    return {c.statement: (c.measured.replace("views", "impressions"), c.holds) for c in study.claims}


def test_a_log_of_one_s_own_is_asked_the_same_and_answers_the_same(found, month):
    log, everyone = month
    amounts = ["views", "profile_clicks", "likes", "retweets", "replies", "quotes"]
    own = study(data=log, seed=3, population=everyone, **{**ROLES, "amount": amounts}, **SIDES)
    assert told(own) == told(found)
    assert [f.name for f in own.figures] == [f.name for f in found.figures]
    assert "misc" in json.dumps(next(f for f in own.figures if f.name == "figure-5-7").draw().to_dict())
    assert table(own, "Which source").rows == table(found, "Which source").rows


@pytest.fixture(scope="module")
def own(month):
    return study(data=month[0], **ROLES, **SIDES)


def test_nothing_is_said_of_a_generated_platform_on_one_s_own_log(own):
    text = own.to_text()
    assert not any(word in text for word in ("made up", "generated", "switched", "mechani"))


def test_what_the_log_cannot_be_asked_says_what_it_needs(month):
    own = study(data=month[0], unit="who", amount="views", population=5_000)
    asked = {c.statement for c in own.claims if not c.measured.startswith("needs ")}
    assert asked == {
        "All engagement types have a Gini index above 0.95", "The top 1% hold more than 70% of every type",
        "Bootstrap errors are too small to be seen",
    }  # fmt: skip
    assert "figure-3a" not in {f.name for f in own.figures}
    assert "5,000 different 'who' count" in own.setting


def test_a_number_of_units_says_nothing_of_their_followers(month):
    own = study(data=month[0], population=5_000, **ROLES, **SIDES)
    names = {f.name for f in own.figures}
    assert "figure-4" in names
    assert "figure-5-7" not in names


def test_figure_5_shows_one_source_as_the_paper_does_or_all_of_them(own, month):
    log, _ = month
    pooled = study(data=log, **ROLES, **SIDES, figure_5="pooled")
    says = "Authors in general get more impressions from in-network ranking than from suggestions"
    means = log.group_by("via").agg(pl.col("views").sum()).with_columns(pl.col("views") / log["who"].n_unique())
    by = dict(means.iter_rows())
    outside = sum(by[s] for s in SIDES["out_of_network"])
    assert f"mean {by['in_network']:,.0f} against {by['misc']:,.0f} (misc)" in told(own)[says][0]
    assert f"mean {by['in_network']:,.0f} against {outside:,.0f} (out of network)" in told(pooled)[says][0]


def test_a_sign_inside_the_interval_raises_nothing():
    rows = [(k % 11 * (k % 3), "xy"[k % 2], 1) for k in range(200)]
    log = pl.DataFrame(rows, schema=["who", "via", "n"], orient="row")
    own = study(data=log, unit="who", source="via", amount="n")
    assert "raises" not in own.sentences[0]
    assert "No source stands out" in own.sentences[0]
    drawn = next(f for f in own.figures if f.name == "sources").draw().to_dict()
    assert "faint: not significant" in json.dumps(drawn)


def test_the_command_reads_a_log_and_answers_as_json(month, tmp_path, capsys):
    log = tmp_path / "log.csv"
    month[0].gather_every(9).write_csv(log)
    asked = ["--unit", "who", "--amount", "views", "--amount", "likes", "--source", "via", "--followers", "fans"]
    call = ["study", "inequality", "--data", str(log), *asked, "--in-network", "in_network", "--no-progress"]
    assert main([*call, "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["study"] == "inequality"
    assert len(answer["findings"]) == len(FINDINGS)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--unit", "whom", "--amount", "views"], "--unit whom is not a column"),
        ([], "--data needs --unit, --amount as well"),
        (["--unit", "who", "--amount", "views", "--followers", "fan"], "--followers fan is not a column"),
        (["--unit", "who", "--amount", "views", "--in-network", "x"], "Pass --source"),
        (
            ["--unit", "who", "--amount", "views", "--source", "via", "--in-network", "in-network"],
            "is no label of the labels",
        ),
        (
            ["--unit", "who", "--amount", "views", "--source", "via", "--in-network", "misc", "--figure-5", "grph"],
            "Labels:",
        ),
        (["--unit", "who", "--amount", "views", "--size", "500"], "Leave one of them out"),
        (["--unit", "who", "--amount", "views", "--population", "a=3"], "Pass one number"),
    ],
)
def test_what_a_log_lacks_is_bad_input_in_words_of_the_command_line(month, tmp_path, capsys, asked, said):
    month[0].head(400).write_parquet(tmp_path / "log.parquet")
    assert main(["study", "inequality", "--data", str(tmp_path / "log.parquet"), *asked, "--no-progress"]) == 2
    assert said in capsys.readouterr().err


def test_rows_with_something_missing_are_refused(month):
    log = month[0].with_columns(
        pl.when(pl.col("who") == month[0]["who"][5]).then(None).otherwise(pl.col("fans")).alias("fans"),
        pl.when(pl.int_range(pl.len()) == 0).then(None).otherwise(pl.col("views")).alias("views"),
    )
    with pytest.raises(EvenhandError, match=r"^amount='views' is missing in 1 rows; followers='fans' is missing in"):
        study(data=log, **ROLES)
    with pytest.raises(EvenhandError, match=r"^followers='fans' is missing"):
        study(data=month[0].drop("fans"), population=log.select("who", "fans").unique(), **ROLES)


def test_roles_without_a_log_are_refused(capsys):
    assert main(["study", "inequality", "--unit", "who", "--no-progress"]) == 2
    assert "Pass --data" in capsys.readouterr().err


def test_an_unknown_study_is_bad_usage(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["study", "inequalty"])
    assert stop.value.code == 2
    assert "inequality" in capsys.readouterr().err


def test_a_size_too_small_is_bad_input_without_a_traceback(capsys):
    assert main(["study", "inequality", "--size", "2"]) == 2
    assert "authors=2" in capsys.readouterr().err


def small_log(**columns):
    rows = {"who": [k % 60 for k in range(240)], "via": ["xyz"[(k + k // 60) % 3] for k in range(240)], "n": range(240)}
    return pl.DataFrame({**rows, **columns})


@pytest.mark.parametrize(
    ("columns", "asked", "said"),
    [
        ({"via": ["x", None] * 120}, {"source": "via"}, "source='via' is missing in 120 rows"),
        ({"fans": range(240)}, {"followers": "fans"}, "more than one number for 60 units"),
        ({"via": ["x", "y"] * 120}, {"source": "via"}, "says what a unit is"),
    ],
)
def test_a_log_that_leaves_open_what_is_meant_is_refused(columns, asked, said):
    with pytest.raises(EvenhandError, match=said):
        study(data=small_log(**columns), unit="who", amount="n", **asked)


def test_of_intervals_that_overlap_nobody_says_which_is_more_skewed():
    own = study(data=small_log(), unit="who", amount="n", source="via", in_network="x")
    claim = next(c for c in own.claims if c.statement.startswith("Out-of-network"))
    assert claim.verdict == "cannot be told"


def test_nothing_is_read_off_a_handful_of_units():
    own = study(data=pl.DataFrame({"who": ["a"], "n": [3]}), unit="who", amount="n")
    assert {c.verdict for c in own.claims} == {"cannot be told"}
    assert own.claims[0].measured == "fewer than 30 units"


def test_the_word_none_of_the_command_line_is_no_population(tmp_path, capsys):
    small_log().write_csv(tmp_path / "log.csv")
    asked = [
        "study",
        "inequality",
        "--data",
        str(tmp_path / "log.csv"),
        "--unit",
        "who",
        "--amount",
        "n",
        "--no-progress",
    ]
    assert main([*asked, "--population", "none"]) == 0
    assert "60 different 'who' count: those in the log" in " ".join(capsys.readouterr().out.split())
    with pytest.raises(EvenhandError):
        study(data=small_log(), unit="who", amount="n", population="none")
