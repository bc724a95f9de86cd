"""`evenhand look`: from a file to a command that works."""

import json
import shlex

import numpy as np
import polars as pl
import pytest

from evenhand.cli import main
from evenhand.synthetic import corpus, marketplace, platform, viewpoints
from look_tables import PUBLIC


def ranked(seed):
    shop = corpus(300, 30, unknown=0.0, rng=seed)
    return shop.rankings.drop("score").join(shop.groups.rename({"group": "seller size"}), on="item")


def invitations(seed):
    made = marketplace("ranking", requests=400, rng=seed).filter("treated")
    renamed = {"request": "viewer_id", "group": "gender", "outcome": "accepted"}
    return made.select("request", "group", pl.col("score").round(4), pl.col("outcome").cast(pl.Int64)).rename(renamed)


def searches(seed):
    made = viewpoints({"against": 6, "neutral": 8, "for": 6}, alpha=0.5, lists=12, favoured=["against"], rng=seed)
    return made.rename({"request": "query", "viewpoint": "stance"})


def scores(seed):
    rng = np.random.default_rng(seed)
    user, item = (index.ravel() for index in np.indices((40, 20)))
    return pl.DataFrame({"user": user, "item": item, "score": rng.normal(size=len(user))})


TABLES = {
    "engagements": (lambda: platform(2_000, rng=7).engagements, "inequality"),
    "searches": (lambda: searches(7), "prefix"),
    "ranked": (lambda: ranked(7), "exposure"),
    "invitations": (lambda: invitations(7), "outcome-test"),
    "scores": (lambda: scores(7), "recommender"),
    "repos": (
        lambda: pl.DataFrame({"full_name": [f"o/r{i}" for i in range(50)], "stargazers": range(50)}),
        "inequality",
    ),
}


@pytest.fixture(params=TABLES)
def file(request, tmp_path):
    made, verb = TABLES[request.param]
    path = tmp_path / f"{request.param} of today.csv"
    made().write_csv(path)
    return path, verb


def commands(text):
    return [shlex.split(line.strip())[1:] for line in text.splitlines() if line.startswith("   evenhand ")]


def test_every_command_it_proposes_works_as_it_stands(file, capsys):
    path, verb = file
    assert main(["look", str(path)]) == 0
    proposed = commands(capsys.readouterr().out)
    assert proposed[0][0] == verb, "the most likely question is first"
    for words in proposed:
        assert main([*words, "--format", "json", "--no-progress"]) == 0, words
        assert json.loads(capsys.readouterr().out)["columns"]["metric"]


def test_run_asks_the_most_likely_question_and_writes_the_report(file, tmp_path, capsys):
    path, verb = file
    report = tmp_path / "report.html"
    assert main(["look", str(path), "--run", "--html", str(report)]) == 0
    shown = capsys.readouterr()
    assert shown.err.startswith(f"$ evenhand {verb} ")
    assert shown.out.strip()
    assert 'class="verdict"' in report.read_text(encoding="utf-8")


def test_rankings_without_groups_name_the_file_that_is_lacking(tmp_path, capsys):
    path = tmp_path / "runs.parquet"
    corpus(300, 5, rng=1).rankings.drop("score").write_parquet(path)
    assert main(["look", str(path)]) == 0
    assert "GROUPS.csv is a file with a group for each item." in capsys.readouterr().out
    assert main(["look", str(path), "--run"]) == 2
    assert "These columns are not enough" in capsys.readouterr().err


def test_a_file_nobody_can_ask_anything_of_says_so(tmp_path, capsys):
    path = tmp_path / "dull.csv"
    path.write_text("x\n1.5\n2.5\n", encoding="utf-8")
    assert main(["look", str(path)]) == 0
    assert "No audit fits" in capsys.readouterr().out


def test_columns_of_types_that_no_role_reads_are_left_out(tmp_path, capsys):
    lags = pl.Series([1, 2, 3] * 4).cast(pl.Duration("us"))
    pl.DataFrame({"author": [1, 2, 3] * 4, "views": range(12), "lag": lags}).write_parquet(tmp_path / "log.parquet")
    assert main(["look", str(tmp_path / "log.parquet")]) == 0
    assert "2 columns, 12 rows" in capsys.readouterr().out


def test_population_is_explained_where_it_is_asked_for(tmp_path, capsys):
    path = tmp_path / "log.csv"
    path.write_text("author_id,views\n1,2\n2,3\n3,9\n", encoding="utf-8")
    main(["look", str(path)])
    out = capsys.readouterr().out
    assert "--population is how many could have received something" in out
    assert "none counts only those in the file" in out


def test_what_is_proposed_can_be_typed_although_a_unit_is_missing(tmp_path, capsys):
    path = tmp_path / "log.csv"
    pl.DataFrame({"author": ["a", "b", None, "a"], "views": [3, 4, 5, 1]}).write_csv(path)
    assert main(["look", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "--population none --nan-policy omit" in shown
    assert "Rows without author are left out." in shown
    assert main(["look", str(path), "--run"]) == 0


def test_columns_without_a_name_or_with_capitals_alone_between_them_are_read(tmp_path, capsys):
    path = tmp_path / "index.csv"
    path.write_text(",Views,views,author\n0,1,7,a\n1,2,8,b\n2,3,9,c\n", encoding="utf-8")
    assert main(["look", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "4 columns, 3 rows" in shown
    assert [line.split()[0] for line in shown.splitlines()[4:7]] == ["Views", "views", "author"]


def options(words):
    return {(word, words[i + 1]) for i, word in enumerate(words[:-1]) if word.startswith("--")}


@pytest.mark.parametrize("name", PUBLIC)
def test_tables_like_public_ones_get_the_right_question_and_the_command_runs(name, tmp_path, capsys):
    make, expected = PUBLIC[name]
    path = tmp_path / f"{name}.csv"
    make().write_csv(path)
    assert main(["look", str(path)]) == 0
    words, right = commands(capsys.readouterr().out)[0], shlex.split(expected)
    assert words[0] == right[0]
    assert options(right) <= options(words)
    assert main([*words, "--format", "json", "--no-progress"]) == 0


def test_trec_files_are_recognised(tmp_path, capsys):
    run, judged = tmp_path / "input.bm25", tmp_path / "qrels.robust"
    run.write_text("301 Q0 FT911-1 1 9.5 bm25\n301 Q0 FT911-2 2 8.5 bm25\n", encoding="utf-8")
    judged.write_text("301 0 FT911-1 1\n301 0 FT911-2 0\n", encoding="utf-8")
    assert main(["look", str(run)]) == 0
    shown = capsys.readouterr().out
    assert "A TREC file of rankings (a run)" in shown
    assert commands(shown) == [["exposure", str(run), "--groups", "GROUPS.csv"]]
    assert main(["look", str(judged)]) == 0
    shown = capsys.readouterr().out
    assert "A TREC file of judgments" in shown
    assert commands(shown) == [["exposure", "RUN", "--groups", "GROUPS.csv", "--relevance", str(judged)]]


def test_trec_files_without_a_header_are_recognised_though_they_end_in_tsv(tmp_path, capsys):
    run, judged, groups = tmp_path / "run.tsv", tmp_path / "qrels.tsv", tmp_path / "groups.csv"
    run.write_text(
        "".join(f"{q}\tQ0\td{d}\t{d}\t{9 - d}\tbm25\n" for q in (301, 302) for d in (1, 2, 3)), encoding="utf-8"
    )
    judged.write_text("".join(f"{q}\t0\td{d}\t{d % 2}\n" for q in (301, 302) for d in (1, 2, 3)), encoding="utf-8")
    groups.write_text("doc_id,gender\nd1,f\nd2,m\nd3,f\n", encoding="utf-8")
    assert main(["look", str(run)]) == main(["look", str(judged)]) == 0
    right = (
        ["exposure", str(run), "--groups", "GROUPS.csv"],
        ["exposure", "RUN", "--groups", "GROUPS.csv", "--relevance", str(judged)],
    )
    assert commands(capsys.readouterr().out) == list(right)
    words = ["exposure", str(run), "--groups", str(groups), "--relevance", str(judged), "--protected", "f"]
    assert main([*words, "--interval", "none", "--no-progress"]) == 0


def test_labels_of_items_belong_beside_rankings(tmp_path, capsys):
    path = tmp_path / "labels.csv"
    pl.DataFrame({"track_id": [f"t{i}" for i in range(60)], "gender": ["f", "m", "m"] * 20}).write_csv(path)
    assert main(["look", str(path)]) == 0
    assert commands(capsys.readouterr().out) == [["exposure", "RUN", "--groups", str(path), "--item", "track_id"]]


def test_lists_of_items_are_rankings(tmp_path, capsys):
    path = tmp_path / "lists.parquet"
    lists = [[{"movie": f"m{(u + i) % 30}", "rating": 5.0 - i} for i in range(6)] for u in range(40)]
    pl.DataFrame({"user_id": range(40), "recommendations": lists}).write_parquet(path)
    assert main(["look", str(path)]) == 0
    words = ["exposure", str(path), "--groups", "GROUPS.csv", "--request", "user_id", "--item", "movie"]
    assert commands(capsys.readouterr().out)[0] == words


def test_ranks_from_zero_are_pointed_out_and_are_no_amount(tmp_path, capsys):
    path = tmp_path / "playlists.csv"
    rows = [(p, i, f"t{(p * 7 + i) % 50}", f"Artist {(p + i) % 20}") for p in range(30) for i in range(10)]
    pl.DataFrame(rows, schema=["pid", "pos", "track_uri", "artist_name"], orient="row").write_csv(path)
    assert main(["look", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "pos runs from 0" in shown
    assert commands(shown)[0][2:6] == ["--unit", "artist_name", "--amount", "none"]


def test_ids_behind_repeated_names_are_pointed_out(tmp_path, capsys):
    path = tmp_path / "papers.csv"
    PUBLIC["papers"][0]().rename({"paper_id": "key"}).write_csv(path)
    main(["look", str(path)])
    assert "title repeats in 10 rows, so key tells the units apart." in capsys.readouterr().out


def test_a_column_that_is_nearly_a_number_is_not_swapped_in_silence(tmp_path, capsys):
    path = tmp_path / "videos.parquet"
    views = [str(n) for n in range(100, 597)] + ["not known"] * 3
    pl.DataFrame({"channel": [f"c{i % 50}" for i in range(500)], "Views": views, "Likes": range(500)}).write_parquet(
        path
    )
    main(["look", str(path)])
    shown = capsys.readouterr().out
    assert "Views is nearly a number: 3 of 500 values are 'not known'." in shown
    assert "Views was not taken: 3 of 500 values are 'not known'." in shown


def test_ranks_are_ranks_where_they_run_from_one_without_repeats(tmp_path, capsys):
    path = tmp_path / "slots.csv"
    rows = [(f"i{k % 7}", k % 3 + 1, ("x", "y")[k % 2]) for k in range(90)]
    pl.DataFrame(rows, schema=["item_id", "position", "kind"], orient="row").write_csv(path)
    main(["look", str(path)])
    assert commands(capsys.readouterr().out)[0][0] == "inequality"
