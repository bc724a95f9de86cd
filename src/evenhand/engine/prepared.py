"""Rankings, groups and judgments brought together: one engine, comparable ids, relevance beside every ranked item."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import narwhals as nw
import numpy as np

from evenhand.attention import Attention
from evenhand.engine.counted_rankings import CountedRankings
from evenhand.engine.exposures import Rows, Wanted, with_groups
from evenhand.engine.gathered import gathered, is_apart
from evenhand.errors import EvenhandError
from evenhand.sources.item_lists import are_item_lists, judged_by, table_of
from evenhand.sources.trec_fair import fair_roles
from evenhand.tallies.ledger import Ledger
from evenhand.views.batches import distinct
from evenhand.views.beside import joined
from evenhand.views.columns import how_many, label, number
from evenhand.views.judgments import (
    Judgments,
    MissingRelevance,
    carried,
    count_unjudged,
    unjudged,
    unjudged_as_zero,
    view_judgments,
)
from evenhand.views.labels import Alignment, view_labels
from evenhand.views.match import matched_ids, same_engine
from evenhand.views.rankings import NUMBERS, Rankings, open_rankings, system_of, view_rankings
from evenhand.views.tables import Table, each_once, to_polars

LONG = 128
"""Items of a list for each group: of more, their sums are fewer bytes."""


@dataclass(frozen=True)
class Prepared:
    """Everything checked and joined, nothing added up yet.

    Attributes
    ----------
    view : the rankings as checked; rows : the same with relevance beside, ready to be added up.
    aligned : groups of items, in the engine of the rows; judged : judgments likewise, or None.
    """

    view: Rankings
    rows: Rows
    aligned: Alignment
    judged: nw.LazyFrame[Any] | None
    groups_origin: str
    relevance_origin: str | None
    dropped: Mapping[str, int] = field(default_factory=dict)
    unjudged: int = 0
    counted: CountedRankings | None = None
    """What a database added up already; the rows are then its cells."""
    alike: bool = False
    """Whether the judgments are those of the ranked rows, every one of them and once, and their labels too."""

    def near(self, wanted: Wanted, groups: int) -> Prepared:
        """The same with a label in place of every item: from a cluster or a database, lists of labels are brought here.

        Lists that are far longer than their sums stay there, to be added up.
        """
        rows, short = self.rows, self.view.rows <= LONG * groups * self.view.rankings
        odd = self.aligned.soft or wanted.scores or {"shown", "probability", "weight"} & set(rows.columns)
        if self.counted is not None or odd or not short or not is_apart(rows.lazy):
            return self
        asked, by = ["group"] if self.judged is None else ["group", "relevance"], self.aligned.keys
        lazy = gathered(with_groups(rows.lazy, self.aligned, by)[0], rows.rankings, asked, "rank")
        if lazy is None:
            return self
        near = replace(self, rows=replace(rows, lazy=lazy))
        if self.judged is None or not wanted.judged:
            return near
        judged = lazy if self.alike else gathered(with_groups(self.judged, self.aligned, by)[0], ["request"], asked)
        return self if judged is None else replace(near, judged=judged)

    def refuse_grades(self, models: Iterable[Attention]) -> None:
        """A cascade that names grades must name every one that is judged."""
        named = [m for m in models if m.needs_relevance and None not in m.keeps()]
        if named and self.judged is not None:
            grades = to_polars(each_once(self.judged.select("relevance")))["relevance"].to_numpy()
            for model in named:
                model.check_grades(grades)

    def reach(self) -> tuple[int, Any]:
        """The deepest rank that anything has or would have in an ideal ranking, and the grades of relevance."""
        depth = to_polars(self.rows.lazy.select(nw.col("rank").max()))["rank"][0] or 0
        if self.judged is None:
            return int(depth), np.zeros(0)
        many = (
            to_polars(self.judged.group_by("request").agg(nw.len().alias("n")).select(nw.col("n").max()))["n"][0] or 0
        )
        return max(int(depth), int(many)), to_polars(each_once(self.judged.select("relevance")))["relevance"].to_numpy()

    def counts(self, ledger: Ledger) -> dict[str, Any]:
        """What a reader should know about judgments, for provenance."""
        if self.judged is None:
            return {}
        found: dict[str, Any] = {"ranked_items_without_judgment": self.unjudged}
        ranked = ledger.requests.n_unique()
        if ledger.judged is not None:
            both = ledger.requests.filter(ledger.judged).n_unique()
        else:
            judged = each_once(self.judged.select("request"))
            judged = judged.join(each_once(self.rows.lazy.select("request")), on="request", how="semi")
            both = int(to_polars(judged.select(nw.len().alias("n")))["n"][0])
        everyone = ranked if self.alike else distinct(self.judged, "request")
        found |= {"requests_without_judgment": ranked - both, "judged_requests_without_ranking": everyone - both}
        if ledger.relevant is not None:
            found["requests_without_relevant_items"] = int((ledger.relevant.sum(-1) == 0).sum())
        return found


def prepare(
    rankings: Any,
    *,
    groups: Any,
    relevance: Any,
    missing: MissingRelevance,
    by: Sequence[str],
    ties: Any,
    unranked: bool,
    nan_policy: Any,
    **roles: Any,
) -> Prepared:
    """Open and check the three tables; with `unranked`, rows that have a score but no rank are kept for what they predict."""
    roles |= {role: column for role, column in fair_roles(rankings).items() if roles[role] is None}
    opened = open_rankings(as_table(rankings, request=roles["request"], item=roles["item"]))
    opened = opened.numbers(relevance, *(roles.get(role) for role in NUMBERS))
    if are_item_lists(relevance):
        relevance = judged_by(relevance, request=roles["request"], item=roles["item"])
    roles["system"] = roles["system"] or system_of(rankings, opened)
    found = view_labels(groups, opened, item=roles["item"], request=roles["request"])
    whole, (opened, scored) = opened, _split_unranked(opened, roles, wanted=unranked)
    also, asked = carried(relevance, opened)
    carry = found.carry(opened) | also

    def counted(of: Any) -> list[Any]:
        unknown = [how_many(of.col("group").is_null(), of).alias("unlabelled")] if "group" in carry else []
        return [*asked(of), *unknown]

    view = view_rankings(opened, by=by, ties=ties, nan_policy=nan_policy, carry=carry, asked=counted, **roles)
    judgments = view_judgments(
        relevance, whole, request=roles["request"], item=roles["item"], view=view if scored is None else None
    )
    _check_scores(view, roles["score"], wanted=unranked)
    lazy = view.lazy if scored is None else _with_unranked(view, scored, by, roles, carry)
    aligned, lazy = found.beside(lazy)
    judged, lazy, dropped, unjudged = _with_relevance(lazy, judgments, missing, view)
    origin = judgments.origin if judgments is not None else None
    gone = {**view.dropped, **dropped}
    same = judgments is not None and judgments.column is not None and scored is None and not view.dropped
    alike = same and view.single and not unjudged and not view.sums.get("unlabelled")
    rows = Rows(lazy, view.slices)
    return Prepared(view, rows, aligned, judged, found.origin, origin, gone, unjudged, alike=alike)


def as_table(rankings: Any, *, request: str = "request", item: str = "item") -> Any:
    """Mappings and LensKit collections as tables; everything else as it is."""
    if isinstance(rankings, Mapping):
        return _from_mapping(rankings)
    if are_item_lists(rankings):
        return table_of(rankings, request=request, item=item, role="rankings")
    return rankings


def _from_mapping(rankings: Mapping[Any, Any]) -> Any:
    """`{request: {item: score}}` ordered by score, or `{request: [item, ...]}` in rank order."""
    import polars as pl

    scored = all(isinstance(found, Mapping) for found in rankings.values())
    listed = all(isinstance(found, (list, tuple)) for found in rankings.values())
    if not scored and not listed:
        raise EvenhandError(
            "rankings is a mapping that cannot be read. Pass {request: {item: score}} or {request: [item, ...]}."
        )
    if scored and not all(
        isinstance(s, (int, float, np.number)) for found in rankings.values() for s in found.values()
    ):
        raise EvenhandError("rankings maps items to what is no score. Pass {request: {item: score}}, with numbers.")
    rows = [(q, d, place, s if scored else None) for q, found in rankings.items() for place, d, s in _placed(found)]
    columns = {"request": [r[0] for r in rows], "item": [r[1] for r in rows], "rank": [r[2] for r in rows]}
    empty = {} if rows else {"request": pl.String, "item": pl.String, "rank": pl.Int64}
    try:
        frame = pl.DataFrame(columns, schema_overrides=empty)
        return frame.with_columns(pl.Series("score", [r[3] for r in rows], dtype=pl.Float64)) if scored else frame
    except (TypeError, pl.exceptions.PolarsError) as error:
        raise EvenhandError("rankings mixes kinds of requests or items. Use one type of id for each.") from error


def _placed(found: Any) -> list[tuple[int, Any, float]]:
    if not isinstance(found, Mapping):
        return [(place, d, 0.0) for place, d in enumerate(found, 1)]
    ordered = sorted(found.items(), key=lambda pair: (-pair[1], str(pair[0])))
    return [(place, d, float(s)) for place, (d, s) in enumerate(ordered, 1)]


def _split_unranked(opened: Table, roles: Mapping[str, Any], *, wanted: bool) -> tuple[Table, Table | None]:
    """Rows without a rank apart from the others, where their score is of use."""
    rank, score, names = roles["rank"], roles["score"], opened.schema.names()
    if not wanted or rank not in names or score not in names:
        return opened, None
    absent = opened.col(rank).is_null()
    if opened.schema[rank].is_float():
        absent = absent | opened.col(rank).is_nan()
    if not int(to_polars(opened.lazy.select(how_many(absent).alias("n")))["n"][0] or 0):
        return opened, None
    ranked, only_scored = (replace(opened, lazy=opened.lazy.filter(rows)) for rows in (~absent, absent))
    return ranked, only_scored


def _with_unranked(
    view: Rankings, scored: Table, by: Sequence[str], roles: Mapping[str, Any], carry: Mapping[str, nw.Expr]
) -> nw.LazyFrame[Any]:
    """Ranked rows and those that were only scored, told apart by `shown`."""
    names = {role: roles[role] for role in ("system", "request", "sample", "item", "score", "probability", "weight")}
    chosen = [label(b, scored).alias(f"by_{i}") for i, b in enumerate(by)]
    for role, column in names.items():
        if column is not None:
            chosen.append((number if role in NUMBERS else label)(column, scored).alias(role))
    more = scored.lazy.select(*chosen, *(e.alias(k) for k, e in carry.items()))
    more = same_engine(more, view.lazy)
    order = view.lazy.collect_schema().names()
    unseen = more.with_columns(nw.lit(1).cast(nw.Int64).alias("rank"), nw.lit(0.0).alias("shown"))
    seen = view.lazy.with_columns(nw.lit(1.0).alias("shown"))
    return nw.concat([seen.select(*order, "shown"), unseen.select(*order, "shown")])


def _check_scores(view: Rankings, score: str | None, *, wanted: bool) -> None:
    if not wanted:
        return
    negative = int(to_polars(view.lazy.select(how_many(nw.col("score") < 0).alias("n")))["n"][0] or 0)
    if negative:
        raise EvenhandError(
            f"score={score!r} is negative in {negative:,} rows, so it cannot be shared out. Pass predicted utility of zero or more."
        )


def _with_relevance(
    lazy: nw.LazyFrame[Any], judgments: Judgments | None, missing: MissingRelevance, view: Rankings
) -> tuple[nw.LazyFrame[Any] | None, nw.LazyFrame[Any], dict[str, int], int]:
    """Relevance beside every ranked item, by the policy for those that nobody judged."""
    if judgments is None:
        return None, lazy, {}, 0
    judged, lazy = matched_ids(same_engine(judgments.lazy, lazy), lazy, ["request", "item"], role="relevance")
    if judgments.column is None:
        lazy = joined(lazy, judged, ["request", "item"], view.keys)
    lost = count_unjudged(lazy, judgments, missing, "ranked items")
    if missing != "drop":
        return judged, unjudged_as_zero(lazy) if lost else lazy, {}, lost
    gone = {"ranked items without a judgment": lost} if lost else {}
    return judged, _condensed(lazy, unjudged(), view.keys) if lost else lazy, gone, lost


def _condensed(lazy: nw.LazyFrame[Any], absent: nw.Expr, keys: Sequence[str]) -> nw.LazyFrame[Any]:
    """Lists without the items that nobody judged, ranks closed up.

    A list that loses all of its items keeps one row that is shown to nobody: the request was made, and nobody was exposed.
    """
    names = lazy.collect_schema().names()
    shown = nw.col("shown") if "shown" in names else nw.lit(1.0)
    count = how_many(~absent).over(*keys)
    lazy = lazy.with_columns(absent.alias("absent"), shown.alias("shown"), count.alias("judged"))
    placeholder = (nw.col("judged") == 0) & (nw.col("rank") == 1) & (nw.col("shown") > 0)
    lazy = lazy.filter(~nw.col("absent") | placeholder)
    zeroed = ["shown", "relevance", *(["score"] if "score" in names else [])]
    lazy = lazy.with_columns(
        *(nw.when(nw.col("absent")).then(nw.lit(0.0)).otherwise(nw.col(c)).alias(c) for c in zeroed)
    )
    place = nw.col("rank").rank("ordinal").over(*keys, "shown").cast(nw.Int64)
    return lazy.with_columns(place.alias("rank")).drop("absent", "judged")
