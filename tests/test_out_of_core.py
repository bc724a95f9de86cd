"""Units that are too many to be added up at once are taken a part at a time, and what that costs is told."""

from __future__ import annotations

import duckdb
import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand.engine import spectra as engine
from evenhand.tallies.spectrum import Spectrum
from evenhand.views.benefits import view_benefits

ASKED = ["gini", "atkinson(epsilon=0.5)", "top_share(p=0.01)", "percentile_ratio"]


@pytest.fixture
def cramped(monkeypatch):
    """An engine that holds a thousand rows at a time."""
    monkeypatch.setattr(engine, "BEYOND", 2_000)
    monkeypatch.setattr(engine, "AT_ONCE", 1_000)
    monkeypatch.setattr(engine, "MOST_UNITS", 1_000)


def paid(rows: int = 12_000, unit: type = int) -> pl.DataFrame:
    rng = np.random.default_rng(4)
    who = [unit(i) for i in (rng.integers(0, rows // 3, rows) - 500).tolist()]
    return pl.DataFrame(
        {
            "unit": who,
            "amount": rng.gamma(0.5, size=rows),
            "whole": rng.integers(0, 9, rows),
            "by": rng.choice(["x", "y"], rows),
        }
    )


def spread(table, **asked):
    return eh.inequality(table, unit="unit", population=None, by="by", metrics=ASKED, rng=1, **asked)


@pytest.mark.parametrize("unit", [int, str])
def test_amounts_in_bins_are_as_close_as_the_result_says(cramped, monkeypatch, unit):
    table = paid(unit=unit)
    parts = spread(table.lazy(), amount="amount", interval=None)
    monkeypatch.undo()
    exact = spread(table.lazy(), amount="amount", interval=None)
    short = np.array(exact.frame["estimate"]) - np.array(parts.frame["estimate"])
    (said,) = [float(word) for word in parts.provenance["amounts"].split() if "e-" in word]
    gini = np.array(exact.frame["metric"]) == "gini"
    assert np.all((short[gini] >= -1e-15) & (short[gini] <= said * 1.5))
    assert said < 1e-6
    assert np.allclose(short / np.array(exact.frame["estimate"]), 0, atol=2.0**-13)
    assert "amounts" not in exact.provenance


def test_whole_amounts_are_exact_however_many_units_there_are(cramped, monkeypatch):
    table = paid()
    duck = duckdb.from_arrow(table.to_arrow())
    parts = [spread(frame, amount="whole") for frame in (table.lazy(), duck)]
    monkeypatch.undo()
    exact = spread(table.lazy(), amount="whole")
    for one in parts:
        assert np.array_equal(one.frame["estimate"], exact.frame["estimate"])
        assert np.array_equal(one.frame["low"], exact.frame["low"])
        assert "amounts" not in one.provenance


def test_many_events_of_few_units_stay_exact(cramped):
    table = paid().with_columns(pl.col("unit") % 100)
    assert "amounts" not in spread(table.lazy(), amount="amount", interval=None).provenance


def test_no_gini_index_of_bins_is_too_low_by_more_than_the_bound():
    rng = np.random.default_rng(0)
    for width in (2.0**-2, 2.0**-6, 2.0**-12):
        x = np.concatenate([rng.gamma(2, size=3_000), 1 + width * rng.integers(0, 2, 3_000) * 0.999])
        binned = engine.Slices(((),), engine.Spectra.of([Spectrum.of(x).binned(width)]), width=width)
        lost = eh.metrics.gini(x) - float(eh.metrics.gini.on(binned.spectra[0]))
        assert 0 <= lost <= binned.short()
        assert binned.short() < 5 * lost  # and the bound is no empty word


@pytest.mark.parametrize("amount", ["amount", "whole", None])
@pytest.mark.parametrize("unit", [int, str])
def test_units_of_a_file_are_taken_share_by_share_and_nothing_changes(tmp_path, monkeypatch, amount, unit):
    table = paid(unit=unit)
    table.write_parquet(tmp_path / "log.parquet", row_group_size=1_000)
    exact = spread(table.lazy(), amount=amount)
    for size, value in (("HELD_UNITS", 1_500), ("LOOKED_AT", 2_000)):
        monkeypatch.setattr(engine, size, value)
    seen = []
    monkeypatch.setattr(
        engine, "_share_by_share", lambda *asked, made=engine._share_by_share: seen.append(1) or made(*asked)
    )
    for shares in (table, tmp_path / "log.parquet"):
        found = spread(shares, amount=amount)
        for column in ("estimate", "low", "high", "units"):
            assert np.array_equal(found.frame[column], exact.frame[column], equal_nan=True)
        assert "amounts" not in found.provenance
    assert len(seen) == 2


@pytest.mark.parametrize("order", ["shuffled", "sorted"])
@pytest.mark.parametrize("many", [50, 5_000, 100_000])
def test_how_many_units_there_are_is_told_beforehand(monkeypatch, order, many):
    monkeypatch.setattr(engine, "LOOKED_AT", 1 << 13)
    rng = np.random.default_rng(2)
    for unit in (rng.integers(0, many, 100_000), (many * rng.random(100_000) ** 3).astype(int)):
        table = pl.DataFrame({"u": np.sort(unit) if order == "sorted" else unit})
        view = view_benefits(table, unit="u", amount=None)
        assert 0.8 <= engine._may_be(view) / table["u"].n_unique() <= 4
