"""Rankings that a database added up: the rows of `rankings_query`, checked as the table itself would have been."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np

from evenhand.cards import Floats
from evenhand.engine.queries_rankings import COUNTS, rankings_columns, rankings_part
from evenhand.errors import EvenhandError, all_problems
from evenhand.labels import in_order, whole
from evenhand.tallies.ledger import Look
from evenhand.views.rankings import Rankings, Roles, bad_numbers, missing_words
from evenhand.views.tally import Tally, open_tally


@dataclass(frozen=True)
class CountedRankings:
    """What a database added up.

    Attributes
    ----------
    cells : a row per ranking and group, as `engine/exposures.py` collects them.
    sizes : how many items each group has; unknown : items that have none anywhere.
    """

    cells: Any
    sizes: dict[Any, float]
    unknown: float

    def group_sizes(self, *, unknown: bool) -> tuple[tuple[Any, ...], Floats]:
        """The labels, and how many items of each there are to be ranked; the last number is the unknown."""
        labels = in_order(self.sizes)
        return tuple(whole(labels)), np.array([*(self.sizes[g] for g in labels), self.unknown if unknown else 0.0])


def view_counted_rankings(
    held: Tally, roles: Roles, groups: str, looks: Sequence[Look], *, nan_policy: str
) -> tuple[Rankings, CountedRankings]:
    """The rows of a query as the view that the table would have given, and the sums."""
    import polars as pl

    labels, numbers = rankings_columns(roles, looks)
    counts = [c for c in numbers if c in ("items_held", "group_items", *COUNTS) or c.startswith("missing_")]
    frame, opened = open_tally(held, [rankings_part(roles, groups, looks)], numbers, labels, counts)
    facts = {name: value or 0 for name, value in frame.row(0, named=True).items()} if frame.height else {}
    rows = int(facts["rows_read"])
    dropped = {role: int(facts[f"missing_{role}"]) for role, _ in roles.named() if facts.get(f"missing_{role}")}
    problems = missing_words(dropped, roles, rows) if nan_policy == "raise" else []
    problems += bad_numbers(facts, roles) + _unsound(facts, roles, groups)
    if problems:
        raise all_problems(problems, where="The table of rankings")
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
    return view, CountedRankings(cells, sizes, float(facts["nameless_items"]))


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
