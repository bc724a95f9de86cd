"""The query of exposure: attention added up per ranking and group, and what is wrong with the rankings."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from evenhand.engine.dialects import Dialect
from evenhand.engine.queries import answered, doubles, flag, kinds_query, selected, slice_keys
from evenhand.sources.rankings import DEEPEST, Roles
from evenhand.tallies.group_exposure import AttentionSpec, RequiredSums
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


@dataclass(frozen=True)
class Counting:
    """What is asked of a table of rankings: its columns by role, that of the groups, that of relevance, and the sums.

    `truth` : columns that hold true and false. `few` : whether the items of each group are counted slice by slice.
    `relevance_in` : another table, whose column relevance is; requests and items are called there as in the rankings.
    """

    roles: Roles
    groups: str
    wanted: RequiredSums
    relevance: str | None = None
    truth: Collection[str] = ()
    few: bool = False
    relevance_in: str | None = None

    @property
    def due(self) -> list[AttentionSpec]:
        return [self.wanted.specs[i] for i in self.wanted.at(self.wanted.due)]

    @property
    def judged(self) -> bool:
        return self.relevance is not None and self.wanted.judged


def rankings_part(asked: Counting) -> str:
    """What a row of `rankings_query` is about."""
    wanted = asked.wanted
    named: dict[str, Any] = {"groups": asked.groups, "relevance": asked.relevance, "relevance_in": asked.relevance_in}
    named |= {"look": list(map(str, wanted.specs)), "due": list(map(str, asked.due))}
    named["min_units"] = "any" if asked.few else None
    named["gain"] = [str(wanted.specs[i]) for i in wanted.at(wanted.gained)]
    for role, column in asked.roles.named():
        named.setdefault(role, []).append(column)
    return part_of("exposure", named)


def judged_part(asked: Counting) -> str:
    """What a row is about that tells of the judgments of a request and a group."""
    return rankings_part(asked).replace("verb=exposure", "verb=relevance")


def items_part(asked: Counting) -> str:
    """What a row is about that says how many items a group has in a slice."""
    return rankings_part(asked).replace("verb=exposure", "verb=items")


RELEVANCE = ("unjudged", "negative_relevance", "infinite_relevance", "twice_judged")
"""What is wrong with relevance in the whole table; stands in every row."""


def rankings_columns(asked: Counting) -> tuple[list[str], list[str]]:
    """The labels and the numbers that a row of `rankings_query` has."""
    roles, wanted = asked.roles, asked.wanted
    numbers = ["items_held", "group_items", *(f"a{i}" for i in range(len(wanted.specs)))]
    numbers += [f"g{i}" for i in wanted.at(wanted.gained)]
    for role in ("probability", "weight"):
        numbers += [f"most_{role}", f"least_{role}"] if getattr(roles, role) is not None else []
    for role, _ in _checked(roles):
        numbers += [f"missing_{role}", *([f"low_{role}", f"high_{role}"] if role in _NUMBERS else [])]
    numbers += ["broken_rank"] if roles.rank is not None else []
    numbers += RELEVANCE if asked.relevance is not None else ()
    numbers += _judged_columns(asked) if asked.judged else []
    return [*_keys(roles), "label"], [*numbers, *COUNTS]


def _judged_columns(asked: Counting) -> list[str]:
    return ["worth", "relevant", *(f"{name}{j}" for name in "tx" for j in range(len(asked.due)))]


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


def rankings_query(d: Dialect, table: str, asked: Counting) -> str:
    """Attention, and attention times relevance, per ranking and group, with counts of what makes rankings unsound.

    Where relevance is asked for, also what is judged, and the exposure that an ideal order would give, per request and group.
    """
    roles, looks, relevance = asked.roles, asked.wanted.specs, asked.relevance
    keys, checked = _keys(roles), _checked(roles)
    chosen = [f"{d.label(b)} AS {key}" for key, b in zip(slice_keys(roles.by), roles.by, strict=True)]
    chosen += [f"{d.number(c) if role in _NUMBERS else d.label(c)} AS {_name(role)}" for role, c in checked]
    chosen.append(f"{d.as_text(d.label(asked.groups))} AS label")
    grade = "" if relevance is None else d.number(relevance, truth=relevance in asked.truth)
    apart = asked.relevance_in is not None
    chosen += [f"{grade} AS relevance_read"] if grade and not apart else []
    whole = [*keys, "item_id", "label", *(_name(role) for role, _ in checked if role in _NUMBERS)]
    beside = [*whole, *(["relevance_read"] if grade else [])]
    sound = [*whole, *(["grade AS relevance_read"] if apart else ["relevance_read"] if grade else [])]
    met = "tally_rows LEFT JOIN tally_pairs ON request_id = request_of AND item_id = item_of"
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
        *(_pairs(d, asked, grade) if grade else []),
        ("tally_sound", selected([*sound, f"{place} AS place"], met if apart else "tally_rows", where=there)),
        ("tally_lists", selected([*keys, *lists], "tally_sound", by=keys)),
        ("tally_facts", selected(facts, "tally_lists")),
        ("tally_missing", selected(_missing(roles), "tally_rows")),
        ("tally_clashes", selected([f"SUM({flag('labels > 1')}) AS clashes"], f"(\n{per_pair}\n  ) AS p")),
        ("tally_nameless", selected([f"SUM({flag('labelled = 0')}) AS nameless_items"], f"(\n{per_item}\n  ) AS p")),
        ("tally_sizes", selected(["label AS of_label", "COUNT(DISTINCT item_id) AS group_items"], "tally_sound", by=["label"])),
        ("tally_looks", selected([*beside, *(f"{_attention(d, look)} AS at_{i}" for i, look in enumerate(looks))], "tally_sound")),
        ("tally_cells", selected(_sums(asked, keys), "tally_looks", by=[*keys, "label"])),
        ("tally_kinds", kinds_query(d, table, {"label": asked.groups})),
    ]  # fmt: skip
    parts += _relevance(d, asked) if relevance is not None else []
    labels, numbers = rankings_columns(asked)
    about = d.word(rankings_part(asked))
    source = "tally_cells\n  LEFT JOIN tally_sizes ON label = of_label\n"
    every = [
        "facts",
        "missing",
        "clashes",
        "nameless",
        "kinds",
        *(["relevance", "twice"] if relevance is not None else []),
    ]
    source += "\n".join(f"  CROSS JOIN tally_{name}" for name in every)
    chosen = [f"{about} AS part", *(f"{name} AS read_{name}" for name in labels), "kind_label"]
    own = _judged_columns(asked) if asked.judged else []
    answers = [selected([*chosen, *doubles(d, {name: "NULL" if name in own else name for name in numbers})], source)]
    if asked.judged:
        mine = {"request_id": "request_of", "label": "label_of"}
        chosen = [
            f"{d.word(judged_part(asked))} AS part",
            *(f"{mine.get(name, 'NULL')} AS read_{name}" for name in labels),
        ]
        counted = doubles(d, {name: f"{name}_sum" if name in own else "NULL" for name in numbers})
        answers.append(selected([*chosen, "kind_label", *counted], "tally_judged CROSS JOIN tally_kinds"))
    if asked.few:
        slices = [key for key in keys if key not in ("request_id", "sample_id")]
        parts.append(
            ("tally_owned", selected([*slices, "label", "item_id"], "tally_sound", by=[*slices, "label", "item_id"]))
        )
        chosen = [f"{d.word(items_part(asked))} AS part"]
        chosen += [f"{name if name in (*slices, 'label') else 'NULL'} AS read_{name}" for name in labels]
        counted = doubles(d, {name: "COUNT(*)" if name == "items_held" else "NULL" for name in numbers})
        grouped = [*slices, "label", "kind_label"]
        answers.append(selected([*chosen, "kind_label", *counted], "tally_owned CROSS JOIN tally_kinds", by=grouped))
    return answered(d, parts, answers, labels, numbers, ["label"])


def _pairs(d: Dialect, asked: Counting, grade: str) -> list[tuple[str, str]]:
    """What is said of relevance, in the rankings or in a table of its own, and of each pair of a request and an item."""
    source, roles = "tally_rows", asked.roles
    chosen = ["request_id AS request_said", "item_id AS item_said", "relevance_read AS grade_said"]
    if asked.relevance_in is not None:
        source = f"{d.table(asked.relevance_in, 'relevance_in')} AS t"
        chosen = [
            f"{d.label(str(roles.request))} AS request_said",
            f"{d.label(str(roles.item))} AS item_said",
            f"{grade} AS grade_said",
        ]
    pair = ["request_said AS request_of", "item_said AS item_of", "MAX(grade_said) AS grade"]
    pair += ["MIN(grade_said) AS least_grade", "COUNT(*) AS times"]
    told = "grade_said IS NOT NULL AND request_said IS NOT NULL AND item_said IS NOT NULL"
    return [
        ("tally_said", selected(chosen, source)),
        ("tally_pairs", selected(pair, "tally_said", by=["request_said", "item_said"], where=told)),
    ]


def _relevance(d: Dialect, asked: Counting) -> list[tuple[str, str]]:
    """What is wrong with relevance; and judged pairs with the attention that each would get in an ideal order.

    Any one order by falling relevance will do: tied items get the mean of the ranks that they share. A pair has the label of
    its item, or, where labels depend on the request, the one that the item has there.
    """
    wrong = {"negative_relevance": "grade_said < 0", "infinite_relevance": "grade_said > 1.7e308"}
    several = "times > 1" if asked.relevance_in is not None else "grade <> least_grade"
    parts = [
        ("tally_wrong", selected([f"SUM({flag(test)}) AS {name}" for name, test in wrong.items()], "tally_said")),
        ("tally_unjudged", selected([f"SUM({flag('relevance_read IS NULL')}) AS unjudged"], "tally_sound")),
        ("tally_relevance", selected(["unjudged", *wrong], "tally_unjudged CROSS JOIN tally_wrong")),
        ("tally_twice", selected([f"SUM({flag(several)}) AS twice_judged"], "tally_pairs")),
    ]
    if not asked.judged:
        return parts
    named = ["item_id AS item_named", "MAX(label) AS label_named", "COUNT(DISTINCT label) AS labels_named"]
    there = ["request_id AS request_met", "item_id AS item_met", "MAX(label) AS label_met"]
    label = "CASE WHEN most_labels > 1 THEN label_met ELSE label_named END AS label_of"
    both = "tally_pairs\n  LEFT JOIN tally_named ON item_of = item_named"
    both += "\n  LEFT JOIN tally_met ON request_of = request_met AND item_of = item_met\n  CROSS JOIN tally_most"
    number = d.as_double("ROW_NUMBER() OVER (PARTITION BY request_of ORDER BY grade DESC)")
    parts += [
        ("tally_named", selected(named, "tally_sound", by=["item_id"], where="label IS NOT NULL")),
        ("tally_most", selected(["MAX(labels_named) AS most_labels"], "tally_named")),
        ("tally_met", selected(there, "tally_sound CROSS JOIN tally_most", by=["request_id", "item_id"], where="most_labels > 1")),
        ("tally_ideal", selected(["request_of", "grade", label, f"{number} AS place"], both)),
    ]  # fmt: skip
    looks = [f"{_attention(d, look)} AS w{j}" for j, look in enumerate(asked.due)]
    parts.append(("tally_weights", selected(["request_of", "label_of", "grade", *looks], "tally_ideal")))
    means = [f"AVG(w{j}) OVER (PARTITION BY request_of, grade) AS t{j}" for j in range(len(looks))]
    parts.append(("tally_due", selected(["p.*", *means], "tally_weights AS p")))
    sums = ["SUM(grade) AS worth_sum", f"SUM({flag('grade > 0')}) AS relevant_sum"]
    for j in range(len(looks)):
        sums += [f"SUM(t{j}) AS t{j}_sum", f"SUM(t{j} * t{j}) AS x{j}_sum"]
    parts.append(
        ("tally_judged", selected(["request_of", "label_of", *sums], "tally_due", by=["request_of", "label_of"]))
    )
    return parts


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


def _sums(asked: Counting, keys: Sequence[str]) -> list[str]:
    roles, wanted = asked.roles, asked.wanted
    found = [*keys, "label", "COUNT(*) AS items_held", *(f"SUM(at_{i}) AS a{i}" for i in range(len(wanted.specs)))]
    found += [f"SUM(at_{i} * COALESCE(relevance_read, 0)) AS g{i}" for i in wanted.at(wanted.gained)]
    for role in ("probability", "weight"):
        if getattr(roles, role) is not None:
            found += [f"MAX({role}_read) AS most_{role}", f"MIN({role}_read) AS least_{role}"]
    return found


def _attention(d: Dialect, look: AttentionSpec) -> str:
    """The formula of a look as a double."""
    formula = str(look.attention.at(Sql("place"), OPERATIONS))
    if look.cutoff is not None:
        formula = f"CASE WHEN place <= {look.cutoff} THEN {formula} ELSE 0 END"
    return d.as_double(formula)
