"""Writes the macros for DuckDB and dbt from the query that the local engine runs for a spectrum: `python integrations/generate.py`."""

from __future__ import annotations

import sys
from pathlib import Path

import sqlglot
from sqlglot import exp

from evenhand.audits.queries import sql

HERE = Path(__file__).parent
HEAD = "Made by integrations/generate.py from the query behind `evenhand inequality`; tests hold it against the conformance kit."
GINI = """\
WITH ranked AS (
  SELECT
    amount,
    units,
    SUM(units) OVER (ORDER BY amount) AS units_up_to,
    SUM(units) OVER () AS units_seen
  FROM {spectrum}
)
SELECT
  CASE WHEN SUM(units * amount) > 0 AND MIN(amount) >= 0 AND COUNT(*) = COUNT(amount) AND MAX(units_seen) <= MAX({size}) THEN
    SUM((2 * (units_up_to + {size} - units_seen) - units - {size}) * units * amount) / (MAX({size}) * SUM(units * amount))
  END AS gini
FROM ranked"""
"""Half the mean absolute difference over the mean; units that were never seen rank first, with nothing. NULL where there is none, where an
amount is missing or negative, and where more units were seen than there are."""


def spectrum() -> exp.Expression:
    """How many units have each amount: the part of the audit's query that is its tally."""
    text = sql("inequality", table="SOURCE", dialect="duckdb", unit="UNIT", amount="AMOUNT", population=None)
    whole = sqlglot.parse_one(text, read="duckdb")
    (answer,) = (cte.this for cte in whole.find_all(exp.CTE) if cte.alias == "answer_2")
    query = answer.args["from_"].this.this if "from_" in answer.args else answer.args["from"].this.this
    for name in query.find_all(exp.Identifier):
        name.set("quoted", name.name in ("UNIT", "AMOUNT", "raw_table"))
    return query


def filled(text: str, source: str, unit: str, amount: str) -> str:
    return text.replace('"raw_table"', source).replace('"UNIT"', unit).replace('"AMOUNT"', amount)


def duckdb() -> str:
    table = filled(spectrum().sql("duckdb", pretty=True), "QUERY_TABLE(source)", "unit_column", "amount_column")
    gini = GINI.format(
        spectrum="evenhand_spectrum(source, unit_column, amount_column)", size="COALESCE(population, units_seen)"
    )
    return (
        f"-- {HEAD}\n"
        f"-- FROM evenhand_spectrum('log', author, views);\n"
        f"CREATE OR REPLACE MACRO evenhand_spectrum(source, unit_column, amount_column) AS TABLE\n{table};\n\n"
        f"-- FROM evenhand_gini('log', author, views, population := 2000);   -- population: how many could have received something\n"
        f"CREATE OR REPLACE MACRO evenhand_gini(source, unit_column, amount_column, population := NULL) AS TABLE\n{gini};\n"
    )


def dbt() -> str:
    table = filled(spectrum().sql("duckdb", pretty=True), "{{ relation }}", "{{ unit }}", "{{ amount }}")
    table = table.replace("AS DOUBLE)", "AS {{ dbt.type_float() }})")
    size = "{{ population if population is not none else 'units_seen' }}"
    gini = GINI.format(spectrum="(\n{{ evenhand.spectrum(relation, unit, amount) }}\n) AS spectrum", size=size)
    return (
        f"{{# {HEAD} #}}\n"
        f"{{# select * from ({{{{ evenhand.spectrum(ref('log'), 'author', 'views') }}}}) #}}\n"
        f"{{% macro spectrum(relation, unit, amount) %}}\n{table}\n{{% endmacro %}}\n\n"
        f"{{# population: how many could have received something; none counts only those in the relation #}}\n"
        f"{{% macro gini(relation, unit, amount, population=none) %}}\n{gini}\n{{% endmacro %}}\n"
    )


FILES = {HERE / "duckdb" / "evenhand.sql": duckdb, HERE / "dbt" / "macros" / "evenhand.sql": dbt}

if __name__ == "__main__":
    stale = [path for path, make in FILES.items() if not path.exists() or path.read_text(encoding="utf-8") != make()]
    for path in stale if "--check" not in sys.argv else ():
        path.write_text(FILES[path](), encoding="utf-8")
    print(*(path.relative_to(HERE) for path in stale))
