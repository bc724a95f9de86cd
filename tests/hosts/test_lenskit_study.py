"""The fair-ranking study on ratings: four recommenders of LensKit, trained on a small file in each layout."""

import json

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand.cli import main
from evenhand.studies.fair_ranking import from_ratings
from rated import interactions, write, write_genders

SYSTEMS = ["user-user", "item-item", "implicit MF", "BPR"]


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    return from_ratings(write(tmp_path_factory.mktemp("tabs"), "tabs", interactions()), 7)


@pytest.mark.parametrize("layout", ["colons", "csv"])
def test_the_same_ratings_in_any_layout_give_the_same_lists_and_scores(layout, first, tmp_path):
    found = from_ratings(write(tmp_path, layout, interactions()), 7)
    for name in ("rankings", "scores"):
        mine, theirs = (getattr(task, name).sort("system", "request", "item") for task in (first, found))
        assert mine.drop("score").equals(theirs.drop("score"))
        np.testing.assert_allclose(mine["score"], theirs["score"], rtol=1e-5)


def test_lists_hold_what_the_user_did_not_train_on_and_pairs_hold_all_of_that(first):
    rated = pl.DataFrame(interactions(), schema=["request", "item", "rating"], orient="row").select("request", "item")
    test = first.relevance.select("request", "item")
    train = rated.join(test, on=["request", "item"], how="anti")
    for frame in (first.rankings, first.scores):
        assert frame["system"].unique(maintain_order=True).to_list() == SYSTEMS
        assert frame.join(train, on=["request", "item"]).height == 0
    ranks = first.rankings.sort("system", "request", "rank").group_by("system", "request").agg("rank")["rank"]
    assert all(r.to_list() == list(range(1, len(r) + 1)) for r in ranks)
    assert first.rankings["score"].min() >= 0
    per_user = first.scores.filter(pl.col("system") == "BPR").group_by("request").len()["len"].sum()
    assert per_user == 36 * train["item"].n_unique() - train.height + _never_trained(train, test)


def _never_trained(train, test):
    return test.join(train.select("item").unique(), on="item", how="anti").height


def test_popularity_stands_in_where_no_groups_are_named_and_says_so(first):
    assert (first.protected, first.versus) == ("tail", "head")
    assert "No groups were named" in first.about
    counts = pl.DataFrame(interactions(), schema=["u", "item", "r"], orient="row").group_by("item").len()
    held = (
        counts.join(first.groups.frame, on="item")
        .group_by("group")
        .agg(pl.col("len").sum(), pl.col("len").mean().alias("mean"))
    )
    shares = {g: n / counts["len"].sum() for g, n, _ in held.iter_rows()}
    assert all(0.2 < share < 0.47 for share in shares.values()), shares
    mean = dict(held.select("group", "mean").iter_rows())
    assert mean["tail"] < mean["middle"] < mean["head"]


def test_the_whole_study_runs_on_goodreads_with_genders_of_authors(tmp_path, capsys):
    books, authors = write_genders(tmp_path)
    path = write(tmp_path, "goodreads", interactions())
    words = ["study", "fair-ranking", "--ratings", str(path), "--groups", str(books), str(authors), "--no-progress"]
    assert main([*words, "--protected", "female", "--format", "json", "--html", str(tmp_path / "out.html")]) == 0
    told = json.loads(capsys.readouterr().out)
    assert "Protected: female" in told["setting"]
    values = next(rows for title, rows in told["tables"].items() if "letters" in title)
    assert sorted(row["system"] for row in values) == sorted(SYSTEMS)
    assert {"inter_acc", "intra_acc", "iaa", "eel"} <= {title.split()[0] for title in values[0]}
    assert (tmp_path / "out.html").exists()


def test_groups_in_shares_leave_out_what_needs_one_label(tmp_path, capsys):
    path = write(tmp_path, "csv", interactions())
    movies = tmp_path / "movies.csv"
    movies.write_text(
        "movieId,title,genres\n" + "\n".join(f"{i},x,{'Drama|War' if i % 3 else 'Drama'}" for i in range(1, 51))
    )
    words = [
        "study",
        "fair-ranking",
        "--ratings",
        str(path),
        "--groups",
        str(movies),
        "--group",
        "genres",
        "--no-progress",
    ]
    assert main(words) == 0
    assert "inter_acc" not in capsys.readouterr().out
    assert main([*words, "--protected", "Wart"]) == 2
    assert "Did you mean 'War'" in capsys.readouterr().err
    other = tmp_path / "other.csv"
    other.write_text("item,group\n900,a\n901,b\n")
    with pytest.raises(eh.EvenhandError, match=r"Fewer than two groups have rows.*of the same ids as the data"):
        from_ratings(path, 7, groups=other)
