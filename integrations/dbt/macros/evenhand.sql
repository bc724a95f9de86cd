{# Made by integrations/generate.py from the query behind `evenhand inequality`; tests hold it against the conformance kit. #}
{# select * from ({{ evenhand.spectrum(ref('log'), 'author', 'views') }}) #}
{% macro spectrum(relation, unit, amount) %}
WITH per_unit AS (
  SELECT
    unit,
    CAST(SUM(amount_0) AS {{ dbt.type_float() }}) AS amount
  FROM (
    SELECT
      {{ unit }} AS unit,
      CASE
        WHEN CAST({{ amount }} AS {{ dbt.type_float() }}) <= CAST('Infinity' AS {{ dbt.type_float() }})
        THEN CAST({{ amount }} AS {{ dbt.type_float() }})
      END AS amount_0
    FROM {{ relation }}
  ) AS log
  GROUP BY
    unit
)
SELECT
  amount,
  COUNT(*) AS units
FROM per_unit
GROUP BY
  amount
{% endmacro %}

{# population: how many could have received something; none counts only those in the relation #}
{% macro gini(relation, unit, amount, population=none) %}
WITH ranked AS (
  SELECT
    amount,
    units,
    SUM(units) OVER (ORDER BY amount) AS units_up_to,
    SUM(units) OVER () AS units_seen
  FROM (
{{ evenhand.spectrum(relation, unit, amount) }}
) AS spectrum
)
SELECT
  CASE WHEN SUM(units * amount) > 0 AND MIN(amount) >= 0 AND COUNT(*) = COUNT(amount) AND MAX(units_seen) <= MAX({{ population if population is not none else 'units_seen' }}) THEN
    SUM((2 * (units_up_to + {{ population if population is not none else 'units_seen' }} - units_seen) - units - {{ population if population is not none else 'units_seen' }}) * units * amount) / (MAX({{ population if population is not none else 'units_seen' }}) * SUM(units * amount))
  END AS gini
FROM ranked
{% endmacro %}
