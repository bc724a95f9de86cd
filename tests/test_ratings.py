"""Ratings files in the layouts of MovieLens and GoodReads, their groups, and the split: all that needs no LensKit."""

import sys

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand.cli import main
from evenhand.sources.trec import item_groups, ratings
from evenhand.studies.fair_ranking import HELD_OUT, held_out
from rated import LAYOUTS, interactions, write, write_genders


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_pairs_once(layout, tmp_path):
    rows = interactions()
    found = ratings(write(tmp_path, layout, [*rows, *rows[:7]]))
    expected = sorted((u, i) for u, i, _ in rows)
    users = found["user"].cast(pl.String).str.strip_chars_start("u0").cast(pl.Int64)
    assert sorted(zip(users, found["item"].cast(pl.Int64), strict=True)) == expected


def test_a_header_and_types_behind_colons_are_read(tmp_path):
    path = tmp_path / "ml-100k.inter"
    path.write_text("user_id:token\titem_id:token\trating:float\n1\t7\t3\n2\t8\t4\n")
    assert ratings(path).rows() == [(1, 7), (2, 8)]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("uid,iid\n1,2\n", "no column named user, user_id, userid"),
        ('{"a":1', "cannot be read"),
        ("", "is empty"),
        ("user_id,item_id\n1,\n2,3\n", "in 1 lines"),
    ],
)
def test_files_that_are_no_ratings_are_refused(text, says, tmp_path):
    path = tmp_path / "ratings.csv"
    path.write_text(text)
    with pytest.raises(eh.EvenhandError, match=says):
        ratings(path)
    with pytest.raises(eh.EvenhandError, match=r"Did you mean 'ratings.csv'"):
        ratings(tmp_path / "rating.csv")
    with pytest.raises(eh.EvenhandError, match="is not a file"):
        ratings(tmp_path)


def told(found):
    return {item: group for item, group, _ in found.frame.iter_rows() if group is not None}


def test_books_get_the_gender_of_their_authors_where_it_is_known_and_one(tmp_path):
    found = item_groups(write_genders(tmp_path))
    genders = told(found)
    assert not found.soft
    assert genders["17"] == genders["3"] == "female"
    assert genders["4"] == "male"
    assert not {"1", "2", "16", "5"} & set(genders)  # unknown, ambiguous, absent author, authors of both


def test_one_file_of_groups_may_hold_labels_or_genres(tmp_path):
    path = tmp_path / "groups.csv"
    path.write_text("book_id,title,gender\n1,x,female\n2,y,unknown\n3,z,male\n")
    assert told(item_groups(path)) == {1: "female", 3: "male"}
    path.write_text("movieId,title,genres\n1,x,Drama|War\n2,y,(no genres listed)\n3,z,Drama\n")
    soft = item_groups(path, group="genres")
    assert soft.soft
    assert sorted(soft.frame.drop_nulls("group").iter_rows()) == [(1, "Drama", 0.5), (1, "War", 0.5), (3, "Drama", 1.0)]
    path.write_text("item,title,country\n1,x,y\n")
    with pytest.raises(eh.EvenhandError, match="Name the column of labels with group="):
        item_groups(path)
    with pytest.raises(eh.EvenhandError, match="Did you mean 'country'"):
        item_groups(path, group="contry")


def test_five_interactions_of_each_user_are_held_out_whatever_the_order_of_the_file(tmp_path):
    rows = interactions()
    split = held_out(ratings(write(tmp_path, "tabs", rows)), 30, seed=3)
    assert split.test.group_by("user").len()["len"].to_list() == [HELD_OUT] * 30
    assert split.train.height + split.test.height == len(rows)
    assert split.train.join(split.test, on=["user", "item"]).height == 0
    mixed = [rows[i] for i in np.random.default_rng(0).permutation(len(rows))]
    again = held_out(ratings(write(tmp_path, "tabs", mixed)), 30, seed=3)
    assert again.test.rows() == split.test.rows()
    with pytest.raises(eh.EvenhandError, match="20 are needed"):
        held_out(ratings(write(tmp_path, "tabs", interactions(users=8))), 30, seed=3)


def test_without_lenskit_one_sentence_names_the_extra(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "lenskit", None)
    path = str(write(tmp_path, "tabs", interactions()))
    assert main(["study", "fair-ranking", "--ratings", path, "--no-progress"]) == 2
    assert capsys.readouterr().err == (
        "evenhand: lenskit is not installed. Install it with: pip install 'evenhand[lenskit]'.\n"
    )
    assert main(["study", "fair-ranking", "--groups", path]) == 2
    assert "belongs to a file of ratings" in capsys.readouterr().err
    assert main(["study", "fair-ranking", "--ratings", path, "--data", str(tmp_path)]) == 2
