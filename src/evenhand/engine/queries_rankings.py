"""The query of exposure: attention added up per ranking and group, and what is wrong with the rankings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from evenhand.engine.dialects import Dialect
from evenhand.engine.queries import answered, doubles, flag, kinds_query, selected, slice_keys
from evenhand.tallies.ledger import Look
from evenhand.views.rankings import DEEPEST, Roles
from evenhand.views.tally import part_of

COUNTS = ("rankings", "tied", "gaps", "late", "deep", "twice", "rows_read", "clashes", "nameless_items")
"""What holds for the whole table and stands in every row."""


SMALLEST = -700.0
"""The logarithm of a number that is as good as zero."""


@dataclass(frozen=True)
class Sql:
    """A number of a query, which formulas of `attention.py` reckon with as with any other."""

    text: str

    def __add__(self, other: Any) -> Sql:
        return Sql(f"({self} + {other})")

    def __sub__(self, other: Any) -> Sql:
        return Sql(f"({self} - {other})")

    def __mul__(self, other: Any) -> Sql:
        return Sql(f"{self} * {other}")

    def __rmul__(self, other: Any) -> Sql:
        return Sql(f"{other} * {self}")

    def __rtruediv__(self, other: Any) -> Sql:
        return Sql(f"{other} / ({self})")

    def __rpow__(self, other: Any) -> Sql:
        if not 0 < other < 1:
            return Sql(f"POWER({other}, {self})")
        return Sql(
            f"POWER({other}, LEAST({self}, {int(SMALLEST / math.log(other))}))"
        )  # PostgreSQL refuses to underflow

    def __str__(self) -> str:
        return self.text


def _looked_up(rank: Sql, values: Sequence[float]) -> Sql:
    known = " ".join(f"WHEN {i} THEN {value}" for i, value in enumerate(values, 1) if value)
    return Sql(f"CASE {rank} {known} ELSE 0 END" if known else "0")


OPERATIONS = SimpleNamespace(
    log2=lambda x: Sql(f"(LN({x}) / LN(2.0))"), at_least=lambda x, low: Sql(f"GREATEST({x}, {low})"), looked_up=_looked_up
)  # fmt: skip


def rankings_part(roles: Roles, groups: str, looks: Sequence[Look]) -> str:
    """What a row of `rankings_query` is about."""
    named: dict[str, Any] = {"groups": groups, "look": [str(look) for look in looks]}
    for role, column in roles.named():
        named.setdefault(role, []).append(column)
    return part_of("exposure", named)


def rankings_columns(roles: Roles, looks: Sequence[Look]) -> tuple[list[str], list[str]]:
    """The labels and the numbers that a row of `rankings_query` has."""
    numbers = ["items_held", "group_items", *(f"a{i}" for i in range(len(looks)))]
    for role in ("probability", "weight"):
        numbers += [f"most_{role}", f"least_{role}"] if getattr(roles, role) is not None else []
    for role, _ in _checked(roles):
        numbers += [f"missing_{role}", *([f"low_{role}", f"high_{role}"] if role in _NUMBERS else [])]
    broken = ["broken_rank"] if roles.rank is not None else []
    return [*_keys(roles), "label"], [*numbers, *broken, *COUNTS]


_NUMBERS = ("rank", "score", "probability", "weight")


def _checked(roles: Roles) -> list[tuple[str, str]]:
    return [(role, column) for role, column in roles.named() if role != "by"]


def _keys(roles: Roles) -> list[str]:
    """What a ranking is called by in the query; some of our own names are words of SQL."""
    return [
        *slice_keys(roles.by),
        *(f"{role}_id" for role in ("system", "request", "sample") if getattr(roles, role) is not None),
    ]


def _name(role: str) -> str:
    return f"{role}_read" if role in _NUMBERS else f"{role}_id"


def rankings_query(d: Dialect, table: str, roles: Roles, groups: str, looks: Sequence[Look]) -> str:
    """Attention per ranking and group for each of `looks`, with counts of what makes rankings unsound."""
    keys, checked = _keys(roles), _checked(roles)
    chosen = [f"{d.label(b)} AS {key}" for key, b in zip(slice_keys(roles.by), roles.by, strict=True)]
    chosen += [f"{d.number(c) if role in _NUMBERS else d.label(c)} AS {_name(role)}" for role, c in checked]
    chosen.append(f"{d.as_text(d.label(groups))} AS label")
    whole = [*keys, "item_id", "label", *(_name(role) for role, _ in checked if role in _NUMBERS)]
    there = " AND ".join(f"{_name(role)} IS NOT NULL" for role, _ in checked)
    order = roles.order + "_read"
    numbered = f"ROW_NUMBER() OVER (PARTITION BY {', '.join(keys)} ORDER BY {order} DESC)"
    place = order if roles.rank is not None else d.as_double(numbered)
    lists = [
        "COUNT(*) AS n", f"COUNT(DISTINCT {order}) AS places", f"MIN({order}) AS best", f"MAX({order}) AS deepest",
        "COUNT(DISTINCT item_id) AS items",
    ]  # fmt: skip
    ranked = roles.rank is not None
    unsound = {
        "tied": "n <> places", "gaps": "n = places AND deepest <> n", "late": "best > 1",
        "deep": f"deepest > 2 * n + {DEEPEST}", "twice": "n <> items",
    }  # fmt: skip
    facts = ["COUNT(*) AS rankings"]
    facts += [
        f"{f'SUM({flag(test)})' if ranked or name in ('tied', 'twice') else '0'} AS {name}"
        for name, test in unsound.items()
    ]
    per_item = selected(
        ["item_id", f"MAX({flag('label IS NOT NULL')}) AS labelled"], "tally_sound", by=["item_id"], indent="    "
    )
    per_pair = selected(["COUNT(DISTINCT label) AS labels"], "tally_sound", by=["request_id", "item_id"], indent="    ")
    parts = [
        ("tally_rows", selected(chosen, f"{d.table(table)} AS t")),
        ("tally_sound", selected([*whole, f"{place} AS place"], "tally_rows", where=there)),
        ("tally_lists", selected([*keys, *lists], "tally_sound", by=keys)),
        ("tally_facts", selected(facts, "tally_lists")),
        ("tally_missing", selected(_missing(roles), "tally_rows")),
        ("tally_clashes", selected([f"SUM({flag('labels > 1')}) AS clashes"], f"(\n{per_pair}\n  ) AS p")),
        ("tally_nameless", selected([f"SUM({flag('labelled = 0')}) AS nameless_items"], f"(\n{per_item}\n  ) AS p")),
        ("tally_sizes", selected(["label AS of_label", "COUNT(DISTINCT item_id) AS group_items"], "tally_sound", by=["label"])),
        ("tally_looks", selected([*whole, *(f"{_attention(d, look)} AS at_{i}" for i, look in enumerate(looks))], "tally_sound")),
        ("tally_cells", selected(_sums(roles, keys, len(looks)), "tally_looks", by=[*keys, "label"])),
        ("tally_kinds", kinds_query(d, table, {"label": groups})),
    ]  # fmt: skip
    labels, numbers = rankings_columns(roles, looks)
    about = d.word(rankings_part(roles, groups, looks))
    source = "tally_cells\n  LEFT JOIN tally_sizes ON label = of_label\n"
    every = ("facts", "missing", "clashes", "nameless", "kinds")
    source += "\n".join(f"  CROSS JOIN tally_{name}" for name in every)
    chosen = [f"{about} AS part", *(f"{name} AS read_{name}" for name in labels), "kind_label"]
    answer = selected([*chosen, *doubles(d, {name: name for name in numbers})], source)
    return answered(d, parts, [answer], labels, numbers, ["label"])


def _missing(roles: Roles) -> list[str]:
    found = ["COUNT(*) AS rows_read"]
    for role, _ in _checked(roles):
        name = _name(role)
        found.append(f"SUM({flag(f'{name} IS NULL')}) AS missing_{role}")
        found += [f"MIN({name}) AS low_{role}", f"MAX({name}) AS high_{role}"] if role in _NUMBERS else []
    return [
        *found,
        *([f"SUM({flag('rank_read <> FLOOR(rank_read)')}) AS broken_rank"] if roles.rank is not None else []),
    ]


def _sums(roles: Roles, keys: Sequence[str], looks: int) -> list[str]:
    found = [*keys, "label", "COUNT(*) AS items_held", *(f"SUM(at_{i}) AS a{i}" for i in range(looks))]
    for role in ("probability", "weight"):
        if getattr(roles, role) is not None:
            found += [f"MAX({role}_read) AS most_{role}", f"MIN({role}_read) AS least_{role}"]
    return found


def _attention(d: Dialect, look: Look) -> str:
    """The formula of a look as a double."""
    formula = str(look.attention.at(Sql("place"), OPERATIONS))
    if look.cutoff is not None:
        formula = f"CASE WHEN place <= {look.cutoff} THEN {formula} ELSE 0 END"
    return d.as_double(formula)
