"""Rankings that a database added up: the rows of `rankings_query`, checked as the table itself would have been."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from evenhand.cards import Floats
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
from evenhand.sources.engine import Cells
from evenhand.sources.judgments import MissingRelevance
from evenhand.sources.rankings import Rankings, Roles, bad_numbers, missing_words, name_problems
from evenhand.tallies.group_exposure import GroupExposure, RequiredSums
from evenhand.tallies.judged_requests import refuse_strangers
from evenhand.views.tally import Tally, open_tally


@dataclass(frozen=True)
class CountedRankings:
    """What a database added up.

    Attributes
    ----------
    view : the rankings as the table would have given them; there is nothing to query.
    cells : a row per ranking and group.
    group_items : how many items each group has; unknown : items that have none anywhere.
    judged : a row per request and group, what is judged and what an ideal order would give; unjudged : ranked items without.
    owned : a row per slice and group, how many items it has, where small groups are to be found.
    """

    view: Rankings
    cells: Any
    group_items: dict[Any, float]
    unknown: float
    judged: Any = None
    unjudged: int = 0
    owned: Any = None
    soft: bool = False

    @property
    def slices(self) -> tuple[str, ...]:
        return self.view.slices

    @property
    def dropped(self) -> Mapping[str, int]:
        return self.view.dropped

    @property
    def labels(self) -> Any:
        return SimpleNamespace(labels=tuple(whole(in_order(self.group_items))))

    def items_by_label(self, slices: Sequence[str]) -> list[tuple[tuple[tuple[Any, ...], Any], int]]:
        """Items of each label in each slice, or in all."""
        if not slices:
            sizes = self.group_items | ({None: self.unknown} if self.unknown else {})
            return [(((), label), int(items)) for label, items in sizes.items()]
        frame = self.owned.select(*slices, "group", "items_held")
        return [((tuple(row[:-2]), row[-2]), int(row[-1])) for row in frame.iter_rows()]

    def renamed(self, names: Mapping[Any, str]) -> CountedRankings:
        """Labels under other names; what gets the same is added up."""
        if not names:
            return self
        sizes: dict[Any, float] = {}
        for label, items in self.group_items.items():
            name = names.get(label, str(label))
            sizes[name] = sizes.get(name, 0.0) + items
        judged = None if self.judged is None else _joined(self.judged, names)
        return replace(self, cells=_joined(self.cells, names), group_items=sizes, judged=judged)

    def exposure(self, required: RequiredSums, labels: tuple[Any, ...]) -> GroupExposure:
        """The sums as the rows themselves would have given them."""
        sums = {f"a{i}": f"attention_{i}" for i in range(len(required.specs))}
        sums |= {f"g{i}": f"gain_{i}" for i in range(len(required.specs))}
        cells = _coded(self.cells.rename(sums, strict=False), labels)
        found = GroupExposure.from_cells(Cells(cells), self.slices, required, labels)
        return found if self.judged is None else self._with_judged(found, required, labels)

    def _with_judged(self, found: GroupExposure, required: RequiredSums, labels: tuple[Any, ...]) -> GroupExposure:
        import polars as pl

        at = found.requests.to_frame("request").with_row_index("at")
        cells = at.join(_coded(self.judged, labels), on="request", how="inner")
        known = np.zeros(len(found.requests), dtype=bool)
        known[cells["at"].to_numpy()] = True

        def dense(name: str) -> Floats:
            out = np.zeros((len(found.requests), len(labels) + 1))
            out[cells["at"].to_numpy(), cells["code"].to_numpy()] = cells[name].to_numpy()
            return out

        norms, specs = {}, required.among(required.due)
        if specs:
            squares = self.judged.group_by("request").agg(pl.col(f"x{j}").sum() for j in range(len(specs)))
            per = at.join(squares, on="request", how="left", maintain_order="left").fill_null(0.0)
            norms = {spec: per[f"x{j}"].cast(pl.Float64).to_numpy() for j, spec in enumerate(specs)}
        due = {spec: dense(f"t{j}") for j, spec in enumerate(specs)}
        found = replace(found, judged=known, worth=dense("worth"), relevant=dense("relevant"), due=due, due_norms=norms)
        refuse_strangers(found, self.judged["request"][0] if self.judged.height else None)
        return found

    def count_requests(self, _: Cells) -> dict[str, int]:
        """How many distinct requests are ranked, judged, and both."""
        ranked, judged = (frame.select("request").unique() for frame in (self.cells, self.judged))
        both = ranked.join(judged, on="request", how="semi")
        return {"ranked": ranked.height, "judged": judged.height, "both": both.height}

    def group_sizes(self, *, unknown: bool) -> Floats:
        """How many items of each label there are to be ranked; the last number is the unknown."""
        return np.array([*(self.group_items[g] for g in in_order(self.group_items)), self.unknown if unknown else 0.0])


def open_counted_rankings(
    tally: Tally, asked: Counting, *, nan_policy: str, missing: MissingRelevance
) -> CountedRankings:
    """The rows of a query, checked as the table would have been, and the sums."""
    import polars as pl

    roles = asked.roles
    if problems := name_problems(roles):
        raise all_problems(problems, where="The call")
    labels, numbers = rankings_columns(asked)
    counts = [c for c in numbers if c in ("items_held", "group_items", *COUNTS, *RELEVANCE) or c.startswith("missing_")]
    every, opened = open_tally(tally, [rankings_part(asked)], numbers, labels, counts)
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
        None, "", {}, opened.backend, opened.origin, roles.by, roles.keys, rows, int(facts["rankings"]),  # type: ignore[arg-type]
        int(facts["gaps"]), 0, roles.order, gone,
    )  # fmt: skip
    judged = every.filter(pl.col("part") == judged_part(asked)) if asked.judged else None
    if judged is not None:
        judged = judged.rename({"request_id": "request", "label": "group"})
    owned = every.filter(pl.col("part") == items_part(asked)).rename({**ids, "label": "group"}) if asked.few else None
    return CountedRankings(
        view, cells, sizes, float(facts["nameless_items"]), judged, int(facts.get("unjudged", 0)), owned
    )


def _coded(cells: Any, labels: tuple[Any, ...]) -> Any:
    """Cells with the place of their group among the labels, `code`."""
    import polars as pl

    place = {label: i for i, label in enumerate(labels)}
    codes = [len(place) if g is None else place[g] for g in cells["group"].to_list()]
    return cells.with_columns(pl.Series("code", codes, dtype=pl.Int64))


KEYS = re.compile(r"part|kind_.*|by_\d+|system|request|sample|group")
ADDED = re.compile(r"items|worth|relevant|[agtx]\d+")
"""Columns that tell cells apart, and those that are added up where cells are joined; others are the same, or ends."""


def _joined(cells: Any, names: Mapping[Any, str]) -> Any:
    import polars as pl

    words = {str(label): name for label, name in names.items()}
    named = cells.with_columns(pl.col("group").cast(pl.String).replace(words))
    keys = [c for c in cells.columns if KEYS.fullmatch(c)]
    least = [c for c in cells.columns if c.startswith("least_")]
    sums = [c for c in cells.columns if ADDED.fullmatch(c)]
    rest = [c for c in cells.columns if c not in (*keys, *least, *sums)]
    return named.group_by(keys).agg(
        pl.col(*sums).sum(), *(pl.col(c).min() for c in least), *(pl.col(c).max() for c in rest)
    )


def _refuse_judgments(facts: dict[str, Any], missing: MissingRelevance, *, apart: bool) -> None:
    """What would be refused of the column of relevance itself; `apart` : it is one of another table."""
    negative, infinite, twice = (int(facts[n]) for n in ("negative_relevance", "infinite_relevance", "twice_judged"))
    if negative or infinite:
        raise EvenhandError(
            f"relevance holds {negative:,} negative and {infinite:,} infinite numbers. Pass numbers of zero or more."
        )
    if twice and apart:
        raise EvenhandError(
            f"relevance judges {twice:,} pairs of request and item more than once. Keep one judgment for each."
        )
    if twice:
        raise EvenhandError(
            f"relevance gives {twice:,} pairs of request and item more than one relevance. Give each pair one."
        )
    if facts["unjudged"] and missing == "raise":
        raise EvenhandError(
            f"{int(facts['unjudged']):,} ranked items have no judgment. Add them to relevance, or pass "
            "missing_relevance='zero' or 'drop'."
        )


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
