"""Labels that are a sample, or partly wrong: exposure is corrected, and what cannot be is refused in words."""

import numpy as np
import polars as pl
import pytest

import evenhand as eh

METRICS = ["dp", "log_dp(per_item=True)", "exposure_share", "eed", "awrf(distance='nd', signed=True)"]
WRONG = {"f": {"f": 0.85, "m": 0.15}, "m": {"f": 0.15, "m": 0.85}}


def world(seed=1, items=60, requests=12, ranks=6):
    rng = np.random.default_rng(seed)
    groups = pl.DataFrame({"item": np.arange(items), "group": np.where(rng.random(items) < 0.4, "f", "m")})
    lists = [rng.choice(items, ranks, replace=False) for _ in range(requests)]
    rows = [(q, int(item), r) for q, listed in enumerate(lists) for r, item in enumerate(listed, 1)]
    return pl.DataFrame(rows, schema=["request", "item", "rank"], orient="row"), groups


def exposed(run, groups, **arguments):
    arguments = {"protected": "f", "metrics": METRICS, "chance": False, "interval": None} | arguments
    return eh.exposure(run, groups=groups, **arguments).frame["estimate"].to_list()


def test_labels_that_are_all_drawn_for_certain_change_nothing():
    run, groups = world()
    certain = groups.with_columns(p=pl.lit(1.0))
    assert exposed(run, certain, label_probability="p") == pytest.approx(exposed(run, groups))
    in_rows = run.join(certain, on="item")
    from_rows = eh.exposure(
        in_rows, groups="group", label_probability="p", protected="f", metrics=METRICS, chance=False, interval=None
    )
    plain = eh.exposure(in_rows, groups="group", protected="f", metrics=METRICS, chance=False, interval=None)
    assert from_rows.frame["estimate"].to_list() == pytest.approx(plain.frame["estimate"].to_list())


def test_exposure_of_a_sample_is_weighted_by_inverse_probability():
    run, groups = world()
    sample = groups.with_columns(p=pl.when(pl.col("group") == "f").then(0.5).otherwise(0.8))
    seen = (pl.col("item") % 3 > 0) | (pl.col("item") < 2)
    sample = sample.with_columns(group=pl.when(seen).then(pl.col("group")))
    share = exposed(run, sample, label_probability="p", metrics="exposure_share(attention='uniform')")[0]
    rows = run.join(sample, on="item").filter(pl.col("group").is_not_null())
    weighted = rows.with_columns(w=1 / pl.col("p"))
    f = weighted.filter(pl.col("group") == "f")["w"].sum()
    assert share == pytest.approx(f / weighted["w"].sum())


def test_exposure_of_true_groups_is_observed_exposure_times_the_inverse():
    run, groups = world(items=400, requests=60)
    share = exposed(run, groups, metrics="exposure_share")[0]
    corrected = exposed(run, groups, metrics="exposure_share", confusion=WRONG)[0]
    assert corrected == pytest.approx((share - 0.15) / 0.7)
    counts = pl.DataFrame({"true": ["f", "f", "m", "m"], "observed": ["f", "m", "f", "m"], "count": [85, 15, 15, 85]})
    assert exposed(run, groups, metrics="exposure_share", confusion=counts)[0] == pytest.approx(corrected)


def test_the_error_of_a_counted_confusion_widens_the_interval():
    run, groups = world(items=400, requests=60)
    counts = pl.DataFrame({"true": ["f", "f", "m", "m"], "observed": ["f", "m", "f", "m"], "count": [85, 15, 15, 85]})
    widths = []
    for confusion in (WRONG, counts):
        row = eh.exposure(run, groups=groups, protected="f", metrics="log_dp", confusion=confusion, rng=1).frame
        widths.append(row["high"][0] - row["low"][0])
    assert widths[1] > 1.1 * widths[0]


def test_a_negative_share_is_undefined_and_a_singular_matrix_refused():
    run, groups = world()
    rare = {"f": {"f": 0.55, "m": 0.45}, "m": {"f": 0.45, "m": 0.55}}
    only = groups.with_columns(group=pl.when(pl.col("item") < 3).then(pl.lit("f")).otherwise(pl.lit("m")))
    result = eh.exposure(run, groups=only, protected="f", metrics="dp", confusion=rare, interval=None)
    assert np.isnan(result.frame["estimate"][0])
    assert result.frame["note"][0] == "confusion_too_large"
    with pytest.raises(eh.EvenhandError, match="cannot be inverted"):
        exposed(run, groups, confusion={"f": {"f": 0.5, "m": 0.5}, "m": {"f": 0.5, "m": 0.5}})


def test_what_needs_the_labels_of_single_lists_is_refused():
    run, groups = world()
    for arguments in ({"confusion": WRONG}, {"label_probability": "p"}):
        sampled = groups.with_columns(p=pl.lit(0.5)) if "label_probability" in arguments else groups
        with pytest.raises(eh.EvenhandError, match="needs the labels of single lists"):
            exposed(run, sampled, metrics="awrf", **arguments)
        with pytest.raises(eh.EvenhandError, match="cannot correct prefix metrics"):
            eh.prefix(run, group=groups, protected="f", **arguments)
    with pytest.raises(eh.EvenhandError, match="Pass one of them"):
        exposed(run, groups, confusion=WRONG, unknown="bounds")
    with pytest.raises(eh.EvenhandError, match="missing, 0 or not a probability"):
        exposed(run, groups.with_columns(p=pl.lit(0.0)), label_probability="p")


def test_sentences_say_how_many_labels_would_settle_it():
    run, groups = world(items=400, requests=60)
    sample = groups.with_columns(p=pl.lit(0.2), group=pl.when(pl.col("item") % 5 == 0).then(pl.col("group")))
    headline = eh.exposure(run, groups=sample, label_probability="p", protected="f", metrics="log_dp", rng=1).headline
    assert "labels" in headline
    partly = groups.with_columns(group=pl.when(pl.col("item") % 2 == 0).then(pl.col("group")))
    headline = eh.exposure(
        run, groups=partly, unknown="bounds", protected="f", target="equal", metrics="awrf", rng=1
    ).headline
    assert "leave it open" in headline
    assert "would settle it" in headline


def test_a_confusion_in_a_file_works_in_plans_and_on_the_command_line(tmp_path, capsys):
    from evenhand.cli import main

    run, groups = world(items=400, requests=60)
    counts = pl.DataFrame({"true": ["f", "f", "m", "m"], "observed": ["f", "m", "f", "m"], "count": [85, 15, 15, 85]})
    paths = {name: str(tmp_path / f"{name}.csv") for name in ("run", "groups", "counts")}
    for name, table in (("run", run), ("groups", groups), ("counts", counts)):
        table.write_csv(paths[name])
    call = {"groups": paths["groups"], "protected": "f", "metrics": "log_dp", "confusion": paths["counts"], "rng": 1}
    result = eh.exposure(paths["run"], **call)
    plan = dict(result.provenance["plan"])
    assert getattr(eh, plan.pop("audit"))(**plan).frame.equals(result.frame, null_equal=True)
    words = ["exposure", paths["run"], "--groups", paths["groups"], "--confusion", paths["counts"], "--protected", "f"]
    assert main([*words, "-m", "log_dp", "--seed", "1", "--format", "csv"]) == 0
    assert f"{result.frame['estimate'][0]:.6f}"[:7] in capsys.readouterr().out
    assert result.frame["chance"].is_nan().all()
    assert result.provenance["chance"].startswith("none")


def test_labelled_items_that_nobody_ranked_widen_the_interval_of_a_target():
    run, groups = world(items=60, requests=20)
    sample = groups.with_columns(p=pl.lit(0.5), group=pl.when(pl.col("item") % 2 == 0).then(pl.col("group")))
    more = pl.DataFrame({"item": np.arange(1000, 1040), "group": ["f", "m"] * 20, "p": [0.05] * 40})
    widths = []
    for labels in (sample, pl.concat([sample, more])):
        row = eh.exposure(
            run, groups=labels, label_probability="p", protected="f", metrics="awrf(distance='nd', signed=True)", rng=1
        ).frame
        widths.append(row["high"][0] - row["low"][0])
    assert widths[1] > widths[0]
