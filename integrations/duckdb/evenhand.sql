-- Made by integrations/generate.py from the query behind `evenhand inequality`; tests hold it against the conformance kit.
-- FROM evenhand_spectrum('log', author, views);
CREATE OR REPLACE MACRO evenhand_spectrum(source, unit_column, amount_column) AS TABLE
WITH per_unit AS (
  SELECT
    unit,
    CAST(SUM(amount_0) AS DOUBLE) AS amount
  FROM (
    SELECT
      unit_column AS unit,
      CASE
        WHEN CAST(amount_column AS DOUBLE) <= CAST('Infinity' AS DOUBLE)
        THEN CAST(amount_column AS DOUBLE)
      END AS amount_0
    FROM QUERY_TABLE(source)
  ) AS log
  GROUP BY
    unit
)
SELECT
  amount,
  COUNT(*) AS units
FROM per_unit
GROUP BY
  amount;

-- FROM evenhand_gini('log', author, views, population := 2000);   -- population: how many could have received something
CREATE OR REPLACE MACRO evenhand_gini(source, unit_column, amount_column, population := NULL) AS TABLE
WITH ranked AS (
  SELECT
    amount,
    units,
    SUM(units) OVER (ORDER BY amount) AS units_up_to,
    SUM(units) OVER () AS units_seen
  FROM evenhand_spectrum(source, unit_column, amount_column)
)
SELECT
  CASE WHEN SUM(units * amount) > 0 AND MIN(amount) >= 0 AND COUNT(*) = COUNT(amount) AND MAX(units_seen) <= MAX(COALESCE(population, units_seen)) THEN
    SUM((2 * (units_up_to + COALESCE(population, units_seen) - units_seen) - units - COALESCE(population, units_seen)) * units * amount) / (MAX(COALESCE(population, units_seen)) * SUM(units * amount))
  END AS gini
FROM ranked;
