"""Least and most over all labelings of unlabelled items, against every labeling tried one by one."""

import itertools
import random

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand.intervals import label_errors as labelings

EXPOSURE = [
    "awrf", "awrf(distance='kl')", "awrf(distance='nd')", "awrf(distance='nd', signed=True)", "awrf(distance='rd')", "dp",
    "log_dp(per_item=True)", "exposure_share", "eed",
]  # fmt: skip
PREFIX = ["ndd", "ndkl", "ndjs", "ndr"]


def world(seed, *, shared, labels="ab", requests=2, ranks=4):
    """Rankings with some unlabelled items, which several requests may share."""
    rng = random.Random(seed)
    rows, groups = [], {f"extra{g}": g for g in labels}
    for q in range(requests):
        names = [f"i{rng.randint(0, 7)}" if shared else f"q{q}i{k}" for k in range(ranks)]
        for r, item in enumerate(dict.fromkeys(names), 1):
            rows.append((q, item, r))
            groups.setdefault(item, rng.choice(labels) if rng.random() < 0.6 else None)
    return pl.DataFrame(rows, schema=["request", "item", "rank"], orient="row"), groups


def all_values(audit, run, groups, labels, **arguments):
    """(labelings, metrics) estimates of every labeling."""
    missing = [item for item, label in groups.items() if label is None]
    return np.array([
        audit(run, {**groups, **dict(zip(missing, chosen, strict=True))}, **arguments)["estimate"].to_list()
        for chosen in itertools.product(labels, repeat=len(missing))
    ])  # fmt: skip


def agrees(frame, values):
    """Whether bounds are the ends of all values, or hold where the note says that they may not be reached."""
    for i, row in enumerate(frame.iter_rows(named=True)):
        least, most = np.nanmin(values[:, i]), np.nanmax(values[:, i])
        if "bound" in (row["note"] or "").split("; "):
            assert row["least"] <= least + 1e-9, row
            assert row["most"] >= most - 1e-9, row
        else:
            assert (row["least"], row["most"]) == pytest.approx((least, most), abs=1e-9), row


def exposed(run, groups, **arguments):
    arguments = {"protected": "a", "versus": "*", "metrics": EXPOSURE, "chance": False, "interval": None} | arguments
    return eh.exposure(run, groups=groups, **arguments).frame


@pytest.mark.parametrize("target", ["equal", "population", "ranking"])
@pytest.mark.parametrize(("seed", "shared", "labels"), [(1, False, "ab"), (2, True, "ab"), (3, True, "abc")])
def test_bounds_of_exposure_are_the_ends_over_all_labelings(seed, shared, labels, target):
    run, groups = world(seed, shared=shared, labels=labels)
    values = all_values(exposed, run, groups, labels, target=target)
    agrees(exposed(run, groups, target=target, unknown="bounds"), values)


@pytest.mark.parametrize(
    ("seed", "labels", "target"), [(4, "ab", "equal"), (5, "abc", "population"), (4, "ab", "ranking")]
)
def test_bounds_hold_where_labelings_are_too_many_to_try(monkeypatch, seed, labels, target):
    run, groups = world(seed, shared=True, labels=labels)
    values = all_values(exposed, run, groups, labels, target=target)
    from evenhand.audits.exposure import label_errors

    for module in (labelings, label_errors):
        monkeypatch.setattr(module, "MOST", 1)
    frame = exposed(run, groups, target=target, unknown="bounds")
    agrees(frame, values)
    assert "bound" in frame.filter(pl.col("metric") == "eed")["note"][0]


def prefixed(run, groups, **arguments):
    arguments = {"protected": "a", "metrics": PREFIX, "chance": None, "interval": None} | arguments
    return eh.prefix(run, group=groups, **arguments).frame


@pytest.mark.parametrize(("seed", "shared", "labels"), [(1, False, "ab"), (2, True, "ab"), (6, False, "abc")])
def test_bounds_of_prefix_metrics_are_the_ends_over_all_labelings(seed, shared, labels):
    run, groups = world(seed, shared=shared, labels=labels, ranks=5)
    agrees(prefixed(run, groups, unknown="bounds"), all_values(prefixed, run, groups, labels))


def test_the_estimate_is_that_of_drop_and_the_sentence_quotes_the_range():
    run, groups = world(2, shared=True)
    frame = exposed(run, groups, unknown="bounds")
    assert frame["estimate"].equals(exposed(run, groups, unknown="drop")["estimate"])
    result = eh.exposure(run, groups=groups, protected="a", unknown="bounds", metrics="awrf", interval=None, rng=1)
    assert "whatever the missing labels are" in result.sentences()[0]


def test_metrics_without_bounds_are_refused_in_words():
    run, groups = world(1, shared=False)
    with pytest.raises(eh.EvenhandError, match="has no bounds over labelings"):
        exposed(run, groups, metrics="eed(level='item')", unknown="bounds")
    with pytest.raises(eh.EvenhandError, match="needs one label per item"):
        exposed(run, {"q0i0": {"a": 0.5, "b": 0.5}}, unknown="bounds", metrics="awrf")
