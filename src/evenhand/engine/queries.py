"""Queries whose few rows are a tally: what `engine/` counts, for a database that only its owner can reach.

Written in the SQL that databases share. An alias is never called like a column that its own query reads (ClickHouse would
take the alias), and every column of the table is named after `t`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from evenhand.engine.dialects import Dialect
from evenhand.views.tally import CHECKS, NOTHING, OFFSET, part_of


def flag(condition: str) -> str:
    """1 where it holds, 0 where it does not or cannot be told."""
    return f"CASE WHEN {condition} THEN 1 ELSE 0 END"


def selected(
    columns: Sequence[str], source: str, *, by: Sequence[str] = (), where: str = "", indent: str = "  "
) -> str:
    """One SELECT, a line for each column."""
    lines = [f"{indent}SELECT", ",\n".join(f"{indent}  {c}" for c in columns), f"{indent}FROM {source}"]
    lines += [f"{indent}WHERE {where}"] if where else []
    lines += [f"{indent}GROUP BY {', '.join(by)}"] if by else []
    return "\n".join(lines)


def answered(
    d: Dialect,
    parts: Sequence[tuple[str, str]],
    answers: Sequence[str],
    labels: Sequence[str],
    numbers: Sequence[str],
    kinds: Sequence[str] = (),
) -> str:
    """Named queries, one after the other, and the rows of the `answers`, which can be checked wherever they are read.

    An answer has the column `part`, the labels as `read_LABEL`, the types that are known already as `kind_LABEL`, and the
    numbers. Labels leave as text beside the name of their type. `row_check` is a sum over the columns of a row, `rows_told` and
    `check_told` are the number of rows and the sum over them: a row that was changed, lost or repeated is noticed.
    """
    told = [f"{d.as_text(f'read_{name}')} AS {name}" for name in labels]
    told += [f"{d.kind_of(f'read_{name}')} AS kind_{name}" for name in labels if name not in kinds]
    terms = [f"COALESCE({d.long.format(d.as_text(f'read_{name}'))} + 1, 0)" for name in labels]
    terms += [f"COALESCE(LN({OFFSET!r} + ABS({name})) + SIGN({name}), {NOTHING!r})" for name in numbers]
    check = "\n    + ".join(f"{k} * {term}" for k, term in enumerate(terms, 1))
    said = [f"kind_{name}" for name in kinds]
    parts = [
        *parts,
        ("tally_answer", "\n  UNION ALL\n".join(answers)),
        ("tally_checked", selected(["part", *told, *said, *numbers, f"{check} AS {CHECKS[0]}"], "tally_answer")),
    ]
    last = selected(
        ["r.*", f"COUNT(*) OVER () AS {CHECKS[1]}", f"SUM({CHECKS[0]}) OVER () AS {CHECKS[2]}"],
        "tally_checked AS r",
        indent="",
    )
    return "WITH " + ",\n".join(f"{name} AS (\n{query}\n)" for name, query in parts) + f"\n{last}\n"


def doubles(d: Dialect, columns: Mapping[str, str]) -> list[str]:
    """Numbers of an answer by name."""
    return [f"{d.as_double(value)} AS {name}" for name, value in columns.items()]


def kinds_query(d: Dialect, table: str, columns: Mapping[str, str]) -> str:
    """The types of columns of labels, by role."""
    chosen = [f"MAX({d.kind_of(d.column(column))}) AS kind_{role}" for role, column in columns.items()]
    return selected(chosen, f"{d.table(table)} AS t")


FAULTS = ("missing", "negative", "fractions")
"""What is counted beside the amounts: rows without one, rows below zero, rows that are no whole number."""


def units_query(
    d: Dialect,
    table: str,
    *,
    unit: str | None,
    amounts: Sequence[str | None],
    by: Sequence[str] = (),
    weight: str | None = None,
    source: str | None = None,
    names: Sequence[str] = (),
    truth: Collection[str] = (),
    everyone: Everyone | None = None,
) -> str:
    """How many units of each slice received each amount; with `source`, each vector of amounts from the sources of `names`."""
    keys = slice_keys(by)
    chosen = [f"{d.label(column)} AS {key}" for key, column in zip(keys, by, strict=True)]
    chosen += [f"{d.label(unit)} AS unit"] if unit is not None else []
    chosen += [f"{d.number(a, truth=a in truth)} AS amount_{i}" for i, a in enumerate(amounts) if a is not None]
    chosen += [f"{d.number(weight)} AS weight_read"] if weight is not None else []
    chosen += [f"{d.as_text(d.label(source))} AS source"] if source is not None else []
    parts = [("tally_rows", selected(chosen or ["1 AS one"], f"{d.table(table)} AS t"))]
    sent = [*(f"source = {d.word(name)}" for name in names), "source IS NULL"] if source is not None else []
    parts.append(("tally_units", _units(d, keys, unit, amounts, weight, sent)))
    varying = unit is not None and bool(keys)
    if varying:
        parts.append(("tally_labels", _labels_of_units(keys)))
    kinds = ["source"] if source is not None else []
    if source is not None:
        parts.append(("tally_kinds", kinds_query(d, table, {"source": source})))
    answers = []
    for i, amount in enumerate(amounts):
        about = d.word(units_part(unit, amount, by, weight, source, names))
        answers.append(_cells(d, about, i, keys, weight, len(sent), kinds, varying=varying))
    numbers = units_columns(by, weight=weight is not None, sources=len(sent), varying=varying)
    if everyone is not None:
        parts += _population(d, everyone, str(unit), by)
        answers.append(_sizes(d, everyone, str(unit), by, numbers, kinds))
    return answered(d, parts, answers, keys, numbers, kinds)


@dataclass(frozen=True)
class Everyone:
    """A table of all units in the same database, and which of the slice columns it holds."""

    table: str
    held: tuple[str, ...] = ()


def everyone_part(everyone: Everyone, unit: str) -> str:
    """What a row is about that says how many units there are."""
    return part_of("population", {"population": everyone.table, "unit": unit, "by": everyone.held})


OUTSIDE = "rows_read"
"""Where such a row says how many units received something and are not there."""


def _population(d: Dialect, everyone: Everyone, unit: str, by: Sequence[str]) -> list[tuple[str, str]]:
    """All units, each once, with the slices that their table knows; and those who received something but are not among them."""
    keys = [f"by_{by.index(b)}" for b in everyone.held]
    chosen = [f"{d.label(b)} AS {key}" for key, b in zip(keys, everyone.held, strict=True)] + [
        f"{d.label(unit)} AS unit"
    ]
    rows = selected(chosen, f"{d.table(everyone.table, 'population')} AS t", indent="    ")
    own = ["unit", *keys]
    once = selected(own, f"(\n{rows}\n  ) AS p", by=own, where="unit IS NOT NULL")
    inside = selected([*own, "1 AS inside"], "tally_everyone", indent="    ")
    seen = selected([*own, "0 AS inside"], "tally_units", where="unit IS NOT NULL", indent="    ")
    both = selected(["MAX(inside) AS found"], f"(\n{inside}\n    UNION ALL\n{seen}\n  ) AS p", by=own)
    return [
        ("tally_everyone", once),
        ("tally_both", both),
        ("tally_outside", selected([f"SUM({flag('found = 0')}) AS outside"], "tally_both")),
    ]


def _sizes(
    d: Dialect, everyone: Everyone, unit: str, by: Sequence[str], numbers: Sequence[str], kinds: Sequence[str]
) -> str:
    """How many units each slice has, as rows of the same columns."""
    held = {f"by_{by.index(b)}" for b in everyone.held}
    keys = slice_keys(by)
    chosen = [f"{d.word(everyone_part(everyone, unit))} AS part"]
    chosen += [f"{key if key in held else 'NULL'} AS read_{key}" for key in keys]
    chosen += [f"{d.as_text('NULL')} AS kind_{kind}" for kind in kinds]
    own = {"units_held": "COUNT(*)", OUTSIDE: "MAX(outside)"}
    chosen += doubles(d, {name: own.get(name, "NULL") for name in numbers})
    return selected(chosen, "tally_everyone CROSS JOIN tally_outside", by=[key for key in keys if key in held])


def slice_keys(by: Sequence[str]) -> list[str]:
    return [f"by_{i}" for i in range(len(by))]


def units_part(
    unit: str | None,
    amount: str | None,
    by: Sequence[str],
    weight: str | None,
    source: str | None,
    names: Sequence[str],
) -> str:
    """What a row of `units_query` is about."""
    roles = {"unit": unit, "amount": amount, "weight": weight, "by": by, "source": source, "name": names}
    return part_of("inequality" if source is None else "sources", roles)


def units_columns(by: Sequence[str], *, weight: bool, sources: int, varying: bool) -> list[str]:
    """The columns of numbers that a row of `units_query` has."""
    found = ["amount", *(f"{kind}_{k}" for k in range(sources) for kind in ("from", "from_rows"))]
    found += ["weight", "least_weight", "no_weight"] if weight else []
    found += ["nameless", "units_held", "rows_read", *FAULTS]
    return found + [f"labels_{i}" for i in range(len(by)) if varying]


def _units(
    d: Dialect,
    keys: Sequence[str],
    unit: str | None,
    amounts: Sequence[str | None],
    weight: str | None,
    sent: Sequence[str],
) -> str:
    """A row per slice and unit: what it received, and what is wrong with its rows. Where no column names units, a row is one."""
    grouped = unit is not None

    def total(expression: str) -> str:
        return f"SUM({expression})" if grouped else expression

    one = "COUNT(*)" if grouped else "1"
    nameless = f"MAX({flag('unit IS NULL')})" if grouped else "0"
    chosen = [*keys, *(["unit"] if grouped else []), f"{nameless} AS lost", f"{one} AS held"]
    for i, amount in enumerate(amounts):
        a = f"amount_{i}"
        tests = (f"{a} IS NULL", f"{a} < 0", f"{a} <> FLOOR({a})")
        chosen.append(f"{d.as_double(one) if amount is None else total(a)} AS total_{i}")
        chosen += [
            f"{'0' if amount is None else total(flag(test))} AS {name}_{i}"
            for name, test in zip(FAULTS, tests, strict=True)
        ]
    if weight is not None:
        most, least = ("MAX(weight_read)", "MIN(weight_read)") if grouped else ("weight_read", "weight_read")
        chosen += [
            f"{most} AS weight_most",
            f"{least} AS weight_least",
            f"{total(flag('weight_read IS NULL'))} AS weightless",
        ]
    value = "1" if amounts[0] is None else "amount_0"
    for k, test in enumerate(sent):
        chosen.append(f"{total(d.as_double(f'CASE WHEN {test} THEN {value} ELSE 0 END'))} AS sent_{k}")
        chosen.append(f"{total(flag(test))} AS sent_rows_{k}")
    return selected(chosen, "tally_rows", by=[*keys, "unit"] if grouped else ())


def _labels_of_units(keys: Sequence[str]) -> str:
    """The most labels of each slice column that one unit has: where it is one, the label belongs to the unit."""
    each = [f"COUNT(DISTINCT {key}) + MAX({flag(f'{key} IS NULL')}) AS many_{i}" for i, key in enumerate(keys)]
    inner = selected(each, "tally_units", by=["unit"], where="unit IS NOT NULL", indent="    ")
    return selected([f"MAX(many_{i}) AS most_{i}" for i in range(len(keys))], f"(\n{inner}\n  ) AS u")


def _cells(
    d: Dialect, about: str, i: int, keys: Sequence[str], weight: str | None, sources: int, kinds: Sequence[str], *, varying: bool
) -> str:  # fmt: skip
    """A row per slice and amount: how many units hold it, how many rows they have, and what is wrong with these."""
    chosen = [f"{about} AS part", *(f"{key} AS read_{key}" for key in keys)]
    chosen += [f"MAX(kind_{kind}) AS kind_{kind}" for kind in kinds]
    own, by = {"amount": f"total_{i}"}, [*keys, f"total_{i}"]
    for k in range(sources):
        own |= {f"from_{k}": f"sent_{k}", f"from_rows_{k}": f"SUM(sent_rows_{k})"}
        by.append(f"sent_{k}")
    if weight is not None:
        own |= {"weight": "weight_most", "least_weight": "weight_least", "no_weight": "SUM(weightless)"}
        by += ["weight_most", "weight_least"]
    own |= {"nameless": "lost", "units_held": "COUNT(*)", "rows_read": "SUM(held)"}
    own |= {name: f"SUM({name}_{i})" for name in FAULTS}
    own |= {f"labels_{j}": f"MAX(most_{j})" for j in range(len(keys)) if varying}
    source = (
        "tally_units" + (" CROSS JOIN tally_labels" if varying else "") + (" CROSS JOIN tally_kinds" if kinds else "")
    )
    return selected([*chosen, *doubles(d, own)], source, by=[*by, "lost"])
