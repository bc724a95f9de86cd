"""Rankings that a database added up: the rows of `rankings_query`, checked as the table itself would have been."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np

from evenhand.cards import Floats
from evenhand.engine.exposures import Rows, Wanted, assembled, coded_cells, refuse_strangers, with_judged
from evenhand.engine.labelled import renamed_rows
from evenhand.engine.queries_rankings import (
    COUNTS,
    RELEVANCE,
    Counting,
    items_part,
    judged_part,
    rankings_columns,
    rankings_part,
)
from evenhand.errors import EvenhandError, all_problems
from evenhand.labels import in_order, whole
from evenhand.tallies.ledger import Ledger
from evenhand.views.judgments import (
    MissingRelevance,
    refuse_repeated,
    refuse_several,
    refuse_unjudged,
    refuse_values,
)
from evenhand.views.rankings import Rankings, Roles, bad_numbers, missing_words, name_problems
from evenhand.views.tally import Tally, open_tally


@dataclass(frozen=True)
class CountedRankings:
    """What a database added up.

    Attributes
    ----------
    cells : a row per ranking and group, as `engine/exposures.py` collects them.
    sizes : how many items each group has; unknown : items that have none anywhere.
    judged : a row per request and group, what is judged and what an ideal order would give; unjudged : ranked items without.
    owned : a row per slice and group, how many items it has, where small groups are to be found.
    """

    cells: Any
    sizes: dict[Any, float]
    unknown: float
    judged: Any = None
    unjudged: int = 0
    owned: Any = None

    def items_by_label(self, slices: Sequence[str]) -> list[tuple[tuple[tuple[Any, ...], Any], int]]:
        """Items of each label in each slice, or in all."""
        if not slices:
            sizes = self.sizes | ({None: self.unknown} if self.unknown else {})
            return [(((), label), int(items)) for label, items in sizes.items()]
        frame = self.owned.select(*slices, "group", "items_held")
        return [((tuple(row[:-2]), row[-2]), int(row[-1])) for row in frame.iter_rows()]

    def renamed(self, names: Mapping[Any, str]) -> CountedRankings:
        """Labels under other names; what gets the same is added up."""
        sizes: dict[Any, float] = {}
        for label, items in self.sizes.items():
            name = names.get(label, str(label))
            sizes[name] = sizes.get(name, 0.0) + items
        judged = None if self.judged is None else _joined(self.judged, names)
        return replace(self, cells=_joined(self.cells, names), sizes=sizes, judged=judged)

    @property
    def judgments(self) -> nw.LazyFrame[Any] | None:
        """Which requests are judged, as a lazy table."""
        return None if self.judged is None else nw.from_native(self.judged).lazy()

    def ledger(self, rows: Rows, wanted: Wanted, labels: tuple[Any, ...]) -> Ledger:
        """The sums as the rows themselves would have given them."""
        found = assembled(coded_cells(self.cells, labels), rows, wanted, labels)
        if self.judged is None:
            return found
        import polars as pl

        looks = [wanted.looks[i] for i in wanted.at(wanted.due)]
        squares = [pl.col(f"x{j}").sum() for j in range(len(looks))]
        per = self.judged.group_by("request").agg(*squares) if looks else None
        found = with_judged(found, coded_cells(self.judged, labels), per, looks)
        refuse_strangers(found, self.judged)
        return found

    def group_sizes(self, *, unknown: bool) -> tuple[tuple[Any, ...], Floats]:
        """The labels, and how many items of each there are to be ranked; the last number is the unknown."""
        labels = in_order(self.sizes)
        return tuple(whole(labels)), np.array([*(self.sizes[g] for g in labels), self.unknown if unknown else 0.0])


def view_counted_rankings(
    held: Tally, asked: Counting, *, nan_policy: str, missing: MissingRelevance
) -> tuple[Rankings, CountedRankings]:
    """The rows of a query as the view that the table would have given, and the sums."""
    import polars as pl

    roles = asked.roles
    if problems := name_problems(roles):
        raise all_problems(problems, where="The call")
    labels, numbers = rankings_columns(asked)
    counts = [c for c in numbers if c in ("items_held", "group_items", *COUNTS, *RELEVANCE) or c.startswith("missing_")]
    every, opened = open_tally(held, [rankings_part(asked)], numbers, labels, counts)
    frame = every.filter(pl.col("part") == rankings_part(asked))
    facts = {name: value or 0 for name, value in frame.row(0, named=True).items()} if frame.height else {}
    rows = int(facts["rows_read"])
    dropped = {role: int(facts[f"missing_{role}"]) for role, _ in roles.named() if facts.get(f"missing_{role}")}
    problems = missing_words(dropped, roles, rows) if nan_policy == "raise" else []
    problems += bad_numbers(facts, roles) + _unsound(facts, roles, asked.groups)
    if problems:
        raise all_problems(problems, where="The table of rankings")
    if asked.relevance is not None:
        _refuse_judgments(facts, missing, apart=asked.relevance_in is not None)
    ids = {c: c.removesuffix("_id") for c in labels if c.endswith("_id")}
    ends = {f"most_{role}": role for role in ("probability", "weight") if getattr(roles, role) is not None}
    cells = frame.rename({**ids, "label": "group", "items_held": "items", **ends})
    sized = frame.filter(pl.col("label").is_not_null()).unique("label")
    sizes = {label: float(n) for label, n in sized.select("label", "group_items").iter_rows()}
    gone = {f"{getattr(roles, role)} is missing": count for role, count in dropped.items()}
    view = Rankings(
        nw.from_native(cells).lazy(), opened.backend, opened.origin, roles.by, roles.keys, rows, int(facts["rankings"]),
        int(facts["gaps"]), 0, roles.order, gone,
    )  # fmt: skip
    judged = every.filter(pl.col("part") == judged_part(asked)) if asked.judged else None
    if judged is not None:
        judged = judged.rename({"request_id": "request", "label": "group"})
    owned = every.filter(pl.col("part") == items_part(asked)).rename({**ids, "label": "group"}) if asked.few else None
    return view, CountedRankings(
        cells, sizes, float(facts["nameless_items"]), judged, int(facts.get("unjudged", 0)), owned
    )


KEYS = re.compile(r"part|kind_.*|by_\d+|system|request|sample|group")
ADDED = re.compile(r"items|worth|relevant|[agtx]\d+")
"""Columns that tell cells apart, and those that are added up where cells are joined; others are the same, or ends."""


def _joined(cells: Any, names: Mapping[Any, str]) -> Any:
    import polars as pl

    named = renamed_rows(nw.from_native(cells).lazy(), names).collect().to_native()
    keys = [c for c in cells.columns if KEYS.fullmatch(c)]
    least = [c for c in cells.columns if c.startswith("least_")]
    sums = [c for c in cells.columns if ADDED.fullmatch(c)]
    rest = [c for c in cells.columns if c not in (*keys, *least, *sums)]
    return named.group_by(keys).agg(
        pl.col(*sums).sum(), *(pl.col(c).min() for c in least), *(pl.col(c).max() for c in rest)
    )


def _refuse_judgments(facts: dict[str, Any], missing: MissingRelevance, *, apart: bool) -> None:
    """What would be refused of the column of relevance itself; `apart` : it is one of another table."""
    refuse_values(facts["negative_relevance"], facts["infinite_relevance"])
    (refuse_repeated if apart else refuse_several)(int(facts["twice_judged"]))
    refuse_unjudged(int(facts["unjudged"]), missing, "ranked items")


def _unsound(facts: dict[str, Any], roles: Roles, groups: str) -> list[str]:
    many = f"{int(facts['rankings']):,} rankings"
    problems = []
    if facts["twice"]:
        problems.append(
            f"{int(facts['twice']):,} of {many} list an item twice. Keep one row per item, or name by= or system=."
        )
    if facts["tied"]:
        problems.append(
            f"{roles.words(roles.order)} has ties in {int(facts['tied']):,} of {many}. Break them in a view."
        )
    late = facts["late"] > 1 and 2 * facts["late"] > facts["rankings"]
    if late or facts["deep"]:
        problems.append(
            f"{roles.words('rank')} does not count from 1 within each request. Count so in a view, or order by score."
        )
    if facts["clashes"]:
        problems.append(
            f"groups={groups!r} gives {int(facts['clashes']):,} items several labels in one request. Give each one."
        )
    return problems


def refuse_lists(what: str) -> EvenhandError:
    """That something needs the order of single items."""
    return EvenhandError(f"{what} needs the lists themselves, and a tally holds none. Leave it out, or pass the table.")
