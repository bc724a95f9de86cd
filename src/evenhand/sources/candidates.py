"""Scored candidates of every request and who provides them, as one query with whole-number codes; and lists back as tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.errors import EvenhandError
from evenhand.sources.engine import Engine
from evenhand.sources.judged_rankings import KEYS, Judgments
from evenhand.sources.labels import CodedLabels, LabelColumns, Labels
from evenhand.sources.rankings import Rankings
from evenhand.sources.relation import Type, comparable
from evenhand.sources.sql import count_where

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class CandidateRows:
    """Candidates: a query of all rows, and what its codes stand for.

    Attributes
    ----------
    query : rows of `request` and `item` (codes), `score`, `cost` (its negative) and `relevance`, in no order.
    request_ids, item_ids : Polars series, by code. providers : labels, by code.
    owned, owners, shares : one entry per item and provider: their codes, and the part of the item that is the provider's.
    unowned : items that nobody was named for; each is its own provider.
    judged : a query of all judgments above zero, candidates or not: `request` (codes), `relevance`, and how many `items` have it;
        None without judgments.
    """

    engine: Engine
    query: str
    request_ids: Any
    item_ids: Any
    providers: tuple[Any, ...]
    owned: Ints
    owners: Ints
    shares: Floats
    unowned: int
    judged: str | None

    def table(self, requests: Ints, items: Ints, places: Ints, **columns: Any) -> Any:
        """A Polars frame of request, item and rank, given codes and places, and of what is the same for all rows."""
        import polars as pl

        return pl.DataFrame(
            {
                "request": self.request_ids.gather(requests),
                "item": self.item_ids.gather(items),
                "rank": places,
                **{name: np.full(len(places), value) for name, value in columns.items()},
            }
        )

    def places_of(self, served: Rankings, top: int, starts: Ints, items: Ints) -> tuple[Ints, Ints, Ints]:
        """Ranked lists as arrays: request codes, ranks from 1, and where the item stands among the candidates.

        `starts` and `items` are the candidates: where those of each request begin, and their item codes.
        """
        import polars as pl

        query = f"SELECT request, item, place FROM {served.source} WHERE place <= {top}"
        ids: dict[Any, Any] = {"request": self.request_ids.dtype, "item": self.item_ids.dtype}
        frame = served.engine.cells(query).frame.cast(ids, strict=False)
        many = len(starts) - 1
        request = np.repeat(np.arange(many), np.diff(starts))
        candidates = pl.DataFrame(
            {
                "request": self.request_ids.gather(request),
                "item": self.item_ids.gather(items),
                "at": np.arange(len(items)),
                "code": request,
            }
        )
        ranked = frame.filter(pl.col("request").is_in(self.request_ids.implode()))
        joined = ranked.join(candidates, on=["request", "item"], how="left")
        strange = int(joined["at"].is_null().sum())
        absent = many - ranked["request"].n_unique()
        if strange or absent:
            raise EvenhandError(
                f"rankings lacks {absent:,} of the {many:,} requests of scores and ranks {strange:,} items that are no "
                "candidates of their request. Pass a list for every request, from the candidates that were scored."
            )
        return joined["code"].to_numpy(), joined["place"].to_numpy(), joined["at"].to_numpy()


def open_candidates(
    scored: Rankings, labels: Labels | LabelColumns | None, judgments: Judgments | None, *, gains: bool = True
) -> CandidateRows:
    """Checked scores with providers and judgments joined; scores are `gains`, of which none may be negative, unless only their
    order counts.
    """
    coded = None
    if labels is not None:
        coded = labels.coded(scored)
        if "request" in coded.items.keys:
            raise EvenhandError(
                "providers gives some items several providers, one per request. Give each item one, or pass eh.rollup(...)."
            )
    rows = scored.sql if judgments is None else judgments.join(scored.sql, scored.types)
    _check_gains(scored.engine, rows, gains=gains)
    ids, names, joins = {}, {}, []
    for key in KEYS:
        expression = _comparable_id(key, scored.types, coded, judgments)
        query = f"SELECT {expression} AS id FROM ({rows}) AS scored GROUP BY {expression}"
        ids[key] = scored.engine.cells(query).frame["id"].sort()
        codes = np.arange(len(ids[key]), dtype=np.int32)
        names[key] = scored.engine.bring({"id": ids[key], "code": codes})
        joins.append(f"JOIN {names[key]} AS {key}s ON {key}s.id = {expression}")
    relevance = "CAST(NULL AS DOUBLE)" if judgments is None else "scored.relevance"
    query = f"""
        SELECT requests.code AS request, items.code AS item, scored.score AS score, -scored.score AS cost,
               {relevance} AS relevance
        FROM ({rows}) AS scored
        {joins[0]}
        {joins[1]}
    """
    owned = _owned(coded, ids["item"], names["item"], scored.engine)
    judged = None if judgments is None else _judged(judgments, ids["request"], names["request"])
    return CandidateRows(scored.engine, query, ids["request"], ids["item"], *owned, judged)


def _judged(judgments: Judgments, requests: Any, request_codes: str) -> str:
    """A query of how many items of each request have each relevance above zero, whether they are candidates or not."""
    import polars as pl

    request = "CAST(judged.request AS VARCHAR)" if requests.dtype == pl.String else "judged.request"
    return f"""
        SELECT requests.code AS request, judged.relevance AS relevance, COUNT(*) AS items
        FROM ({judgments.sql}) AS judged
        JOIN {request_codes} AS requests ON requests.id = {request}
        WHERE judged.relevance > 0
        GROUP BY requests.code, judged.relevance
    """


def _comparable_id(key: str, types: Mapping[str, Type], coded: CodedLabels | None, judgments: Judgments | None) -> str:
    """SQL of an id of the scores: as text where labels or judgments have text, so that all of them compare."""
    others = [("groups", coded.items.types)] if coded is not None and key in coded.items.keys else []
    others += [("relevance", judgments.types)] if judgments is not None else []
    patterns = [comparable(other_types[key], types[key], column=key, role=role)[1] for role, other_types in others]
    return next((pattern for pattern in patterns if pattern != "{}"), "{}").format(f"scored.{key}")


def _check_gains(engine: Engine, rows: str, *, gains: bool) -> None:
    aggregates = f"COUNT(*) AS n, {count_where('score < 0')} AS below, MIN(score) AS least"
    facts = engine.cells(f"SELECT {aggregates} FROM ({rows}) AS scored").row()
    if not facts["n"]:
        raise EvenhandError("scores holds no candidate. Pass one row per request and item with a score.")
    if gains and facts["below"]:
        raise EvenhandError(
            f"score is below zero in {int(facts['below']):,} of {facts['n']:,} rows (least: {facts['least']:g}). Pass gains of "
            "zero or more: a probability, an expected rating, or the score less its least value."
        )


def _owned(
    coded: CodedLabels | None, items: Any, item_codes: str, engine: Engine
) -> tuple[tuple[Any, ...], Ints, Ints, Floats, int]:
    """The labels of providers; whose each item is, by code, and by which share; how many items own themselves."""
    import polars as pl

    every_item = np.arange(len(items))
    if coded is None:
        return tuple(items.to_list()), every_item, every_item, np.ones(len(items)), 0
    is_text = items.dtype == pl.String
    item = "CAST(labelled.item AS VARCHAR)" if is_text else "labelled.item"
    pairs = engine.cells(f"""
        SELECT items.code AS item, labelled.label AS label, SUM(labelled.share) AS share
        FROM ({coded.items.sql}) AS labelled
        JOIN {item_codes} AS items ON items.id = {item}
        WHERE labelled.label IS NOT NULL AND labelled.share > 0
        GROUP BY items.code, labelled.label
    """).frame
    labels = pl.Series("provider", coded.labels).gather(pairs["label"])
    distinct = labels.unique().sort()
    places = pl.DataFrame({"provider": distinct, "code": np.arange(len(distinct))})
    pairs = pairs.with_columns(labels).join(places, on="provider", how="left").sort("item", "code")
    unowned = np.setdiff1d(every_item, pairs["item"].to_numpy())
    owned = np.concatenate([pairs["item"].cast(pl.Int64).to_numpy(), unowned])
    owners = np.concatenate([pairs["code"].to_numpy(), len(distinct) + np.arange(len(unowned))])
    shares = np.concatenate([pairs["share"].to_numpy(), np.ones(len(unowned))])
    more = (str(i) if distinct.dtype == pl.String else i for i in items.gather(unowned).to_list())
    return (*distinct.to_list(), *more), owned, owners, shares, len(unowned)
