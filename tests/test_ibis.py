"""Ibis tables come through the same door as every other: nothing here is written for them."""

import ibis
import polars as pl
import pytest

import evenhand as eh

LOG = pl.DataFrame(
    {
        "author": list("aabcddeff"),
        "source": list("xyxxyxyxy"),
        "band": list("mmmnnnnnn"),
        "views": [5, 1, 2, 0, 3, 1, 4, 4, 9],
        "reach": [1, 1, 8, 3, 5, 5, 7, 2, 2],
    }
)
AUTHORS = pl.DataFrame({"author": list("abcdefg"), "band": list("mmnnnnm")})
CALL = dict(unit="author", amount="views", rng=1)
ASKS = {
    "slices": lambda t, everyone: eh.inequality(t, **CALL, population=10, by="source"),
    "a population table": lambda t, everyone: eh.inequality(t, **CALL, population=everyone),
    "bins": lambda t, everyone: eh.inequality(t, **CALL, population=None, by=eh.quantile_bins("reach", 2)),
    "sources": lambda t, everyone: eh.sources(t, **CALL, population=everyone, source="source"),
    "decompose": lambda t, everyone: eh.decompose(t, **CALL, population=None, group="band"),
}


@pytest.mark.parametrize("name", ASKS)
def test_an_ibis_table_gives_the_bytes_that_polars_gives(name):
    found = ASKS[name](ibis.memtable(LOG), ibis.memtable(AUTHORS))
    assert found.to_text("csv") == ASKS[name](LOG, AUTHORS).to_text("csv")
    assert type(found.frame).__module__.startswith("pyarrow")


def test_what_is_wrong_with_an_ibis_table_is_said():
    with pytest.raises(eh.EvenhandError, match="Did you mean 'author'"):
        eh.inequality(ibis.memtable(LOG), unit="auther", amount="views", population=None)
