"""Rankings for tests, in every dataframe library."""

from __future__ import annotations

import duckdb
import polars as pl

ENGINES = {
    "pandas": lambda df: df.to_pandas(),
    "polars": lambda df: df,
    "polars-lazy": lambda df: df.lazy(),
    "pyarrow": lambda df: df.to_arrow(),
    "duckdb": lambda df: duckdb.from_arrow(df.to_arrow()),
}


def table(lists, **more):
    """`{request: labels in rank order}` as a table request, item, rank, stance; `more` are constant columns."""
    rows = [(q, f"{q}-{i}", i, label) for q, labels in lists.items() for i, label in enumerate(labels, 1)]
    kinds = {type(label) for _, _, _, label in rows if label is not None}
    schema = {
        "request": pl.String,
        "item": pl.String,
        "rank": pl.Int64,
        "stance": pl.Int64 if kinds == {int} else pl.String,
    }
    return pl.DataFrame(rows, schema=schema, orient="row").with_columns(**{k: pl.lit(v) for k, v in more.items()})
