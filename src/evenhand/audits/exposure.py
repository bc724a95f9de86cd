"""Who is exposed, and is it in proportion? Rankings, policies and recommendations against targets and relevance."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from evenhand.attention import parse
from evenhand.audits.assemble import check_min_units, log, names_of, provenance
from evenhand.audits.exposure_asks import Asked, asked_for, hard_only, needs_score, needs_sides, wanted_by
from evenhand.audits.exposure_rows import PerRequest, Setting, curves, held_sums, rows_of
from evenhand.audits.requests import RankingResult
from evenhand.engine.exposures import group_sizes, tally_exposures
from evenhand.engine.ledgers import Ledger, Policy, Unknown, policy_for, unlabelled
from evenhand.engine.prepared import prepare
from evenhand.errors import EvenhandError, listing
from evenhand.findings import Findings, tidy
from evenhand.labels import match
from evenhand.tallies.exposure import side_codes, target_shares
from evenhand.uncertainty.intervals import Interval, seed_of
from evenhand.views.groups import rollup
from evenhand.views.judgments import MissingRelevance
from evenhand.views.rankings import Ties

__all__ = ["exposure", "rollup"]

QUESTION = "Who is exposed, and is it in proportion?"
TARGETS = ("population", "equal", "ranking", "relevant")
EXTRA = ("favoured", "undefined")


def exposure(
    rankings: Any,
    *,
    groups: Any,
    relevance: Any = None,
    protected: Any = None,
    versus: Any = None,
    attention: Any = None,
    target: Any = "population",
    unknown: Unknown = "drop",
    missing_relevance: MissingRelevance = "zero",
    request: str = "request",
    item: str = "item",
    rank: str | None = "rank",
    score: str | None = None,
    sample: str | None = None,
    probability: str | None = None,
    weight: str | None = None,
    system: str | None = None,
    ties: Ties = "raise",
    by: str | Sequence[str] | None = None,
    metrics: str | Sequence[str] | None = None,
    interval: str | None = "bootstrap(999)",
    level: float = 0.95,
    rng: int | np.random.Generator | None = None,
    min_units: int | None = None,
    nan_policy: Literal["raise", "omit"] = "raise",
    chance: bool = True,
    resample: Literal["requests", "requests_and_items"] = "requests",
) -> RankingResult:
    """Exposure of groups in rankings: against a target, against each other, against relevance.

    Parameters
    ----------
    rankings : a table with one row per ranked item (any dataframe, or a path), TREC runs, `{request: {item: score}}`, or
        a LensKit ItemListCollection.
    groups : column(s) of `rankings` (several are combined), `eh.shares("a", "b")` for columns of shares, `{item: group}`, a
        table item -> group (or request, item -> group, as judgments), a table item x group with shares that add up to 1, or
        `eh.rollup(...)`. Items without a group are unknown.
    relevance : a table request, item, relevance, `{request: {item: relevance}}`, or a column of `rankings`.
    protected, versus : the two sides of two-group metrics, a label or several taken together; `versus` may be left out
        where one other group exists.
    attention : a browsing model for all metrics (default: each metric's own, table 1 of Raj et al.).
    target : what awrf aims at: the groups' shares of all items, equality, of the ranked list, of the relevant items, or
        `{group: share}`.
    unknown : unlabelled items keep their rank and are left out of sums ("drop"), form a group, count as unprotected, or raise.
    missing_relevance : a ranked item that nobody judged has relevance zero, is taken out of the list ("drop"), or raises.
    sample, probability : which draw of a stochastic policy a row belongs to, and how likely the draw is (default: equal).
    weight : weight of a request (default: equal).
    rank, score : `rank` orders; `score` beside it is the predicted utility that iaa needs. Without a rank, score orders.
    nan_policy : a missing score raises, or counts as zero ("omit").
    chance : whether to say what awrf and fair would be if each list stood in random order.
    resample : what intervals are for: requests like these with these items, or requests and items like these.

    Examples
    --------
    >>> import polars as pl
    >>> run = pl.DataFrame({"request": [1, 1, 1], "item": ["a", "b", "c"], "rank": [1, 2, 3]})
    >>> found = exposure(run, groups={"a": "m", "b": "f", "c": "m"}, protected="f", metrics="log_dp", interval=None)
    >>> round(found.frame["estimate"][0], 4)
    -0.4892
    """
    how, fewest, seed = Interval.parse(interval, level), check_min_units(min_units), seed_of(rng)
    _check_choices(target, unknown, missing_relevance, resample)
    default = None if attention is None else parse(attention)
    asked = asked_for(metrics, default, target, relevance=relevance is not None, protected=protected is not None)
    log.info("checking the rankings")
    roles = {
        "request": request, "item": item, "rank": rank, "score": score, "sample": sample, "probability": probability,
        "weight": weight, "system": system,
    }  # fmt: skip
    ready = prepare(
        rankings, groups=groups, relevance=relevance, missing=missing_relevance, by=names_of(by), ties=ties,
        unranked=needs_score(asked), nan_policy=nan_policy, **roles,
    )  # fmt: skip
    if metrics is None and ready.aligned.soft:
        asked = [a for a in asked if not hard_only([a])]
    ready.refuse_soft(hard_only(asked))
    ready.refuse_grades(a.look.attention for a in asked)
    labels, sizes = group_sizes(ready.rows, ready.aligned, unknown=unknown in ("group", "unprotected"))
    labels, sizes, asked = _with_target_groups(labels, sizes, asked)
    policy = _sides(labels, protected, versus, unknown, asked)
    log.info("adding up exposure")
    ledger = tally_exposures(ready.rows, ready.aligned, ready.judged, wanted_by(asked), labels)
    _refuse_unknown(ledger, unknown)
    log.info("measuring")
    setting = Setting(ready, ledger, policy, sizes, how, seed, fewest, chance=chance, both=resample != "requests")
    rows, measures = rows_of(setting, asked)
    names = ready.view.slice_names
    plan = {
        "audit": "exposure", "rankings": ready.view.origin, "groups": _words(groups, ready.groups_origin),
        "relevance": _words(relevance, ready.relevance_origin),
        "protected": protected, "versus": versus, "attention": None if default is None else str(default), "target": target,
        "unknown": unknown, "missing_relevance": missing_relevance if relevance is not None else None,
        **{k: v for k, v in roles.items() if v is not None}, "by": list(names_of(by)) or None, "ties": ties,
        "metrics": [a.ask.text for a in asked], "interval": interval, "level": level, "min_units": min_units,
        "resample": None if resample == "requests" else resample, "rng": seed,
    }  # fmt: skip
    facts = provenance(
        plan, rows=ready.view.rows, dropped=ready.dropped, seed=seed, level=level, **ready.view.facts(),
        interval=_interval_words(how, resample), requests=len(ledger.requests), **_group_facts(setting), **ready.facts(ledger),
    )  # fmt: skip
    words = {"unit": request, "amount": "exposure"}
    findings = Findings("exposure", QUESTION, names, tidy(rows, names, EXTRA), curves(setting, asked), words, facts)
    each, held = PerRequest.of(setting, measures), functools.partial(held_sums, setting, asked)
    return RankingResult(findings, ready.view.backend, each, held)


def _words(given: Any, origin: str | None) -> Any:
    """An argument as a plan can hold it: names and paths as typed, anything else by where it came from."""
    named = isinstance(given, str) or (isinstance(given, (list, tuple)) and all(isinstance(g, str) for g in given))
    return given if named else origin


def _check_choices(target: Any, unknown: Any, missing: Any, resample: Any) -> None:
    if resample not in ("requests", "requests_and_items"):
        raise EvenhandError(f"resample={resample!r} is unknown. Use 'requests' or 'requests_and_items'.")
    if not isinstance(target, Mapping) and target not in TARGETS:
        raise EvenhandError(f"target={target!r} is unknown. Use {listing(map(repr, TARGETS))}, or {{group: share}}.")
    if isinstance(target, Mapping):
        target_shares(target, ())
    if unknown not in ("drop", "group", "unprotected", "raise"):
        raise EvenhandError(f"unknown={unknown!r} is unknown. Use 'drop', 'group', 'unprotected' or 'raise'.")
    if missing not in ("zero", "drop", "raise"):
        raise EvenhandError(f"missing_relevance={missing!r} is unknown. Use 'zero', 'drop' or 'raise'.")


def _with_target_groups(
    labels: tuple[Any, ...], sizes: Any, asked: Sequence[Asked]
) -> tuple[tuple[Any, ...], Any, list[Asked]]:
    """Groups that only a target names are groups too: nobody in them was exposed."""
    found = [
        replace(a, target={match(g, labels): s for g, s in a.target.items()}) if isinstance(a.target, Mapping) else a
        for a in asked
    ]
    named = [g for a in found if isinstance(a.target, Mapping) for g in a.target]
    more = [g for g in dict.fromkeys(named) if g not in labels]
    return (*labels, *more), np.concatenate([sizes[:-1], np.zeros(len(more)), sizes[-1:]]), found


def _sides(labels: tuple[Any, ...], protected: Any, versus: Any, unknown: Unknown, asked: Sequence[Asked]) -> Policy:
    ours = None if protected is None else side_codes("protected", protected, labels)
    theirs = None if versus is None else side_codes("versus", versus, labels)
    two_sided = [a.ask.text for a in asked if needs_sides(a)]
    if ours is None and two_sided:
        raise EvenhandError(
            f"metrics={two_sided[0]!r} compares two groups. Pass protected=, one of: {listing(map(repr, labels))}."
        )
    if ours is not None and theirs is None:
        others = tuple(i for i in range(len(labels)) if i not in ours)
        theirs = others if len(others) <= 1 else None
        if theirs is None and (two_sided or unknown == "unprotected"):
            left = listing(repr(labels[i]) for i in others)
            raise EvenhandError(
                f"protected={protected!r} leaves several groups: {left}. Pass versus= with one of them."
            )
    if ours and theirs and set(ours) & set(theirs):
        raise EvenhandError(f"protected={protected!r} and versus={versus!r} overlap. Pass two different groups.")
    return policy_for(unknown, labels, ours, theirs)


def _refuse_unknown(ledger: Ledger, unknown: Unknown) -> None:
    count = round(float(ledger.items[:, -1].sum()))
    if unknown == "raise" and count:
        raise EvenhandError(
            f"{count:,} ranked items have no group. Add them to groups, or pass unknown='drop' or 'group'."
        )


def _group_facts(setting: Setting) -> dict[str, Any]:
    """Sizes of the groups, and how much attention went to items without one: nobody should have to ask."""
    ledger, policy = setting.ledger, setting.policy
    looks = {str(look): look for look in ledger.attended}
    share = {
        ", ".join(map(str, label)) or "all": {
            name: unlabelled(ledger, look, ledger.part(s)) for name, look in looks.items()
        }
        for s, label in enumerate(ledger.slices)
    }
    return {
        "group_sizes": {str(g): float(n) for g, n in zip(policy.labels, policy.settled(setting.sizes), strict=True)},
        "unlabelled_ranked_items": float(ledger.items[:, -1].sum()),
        "unlabelled_exposure": share,
    }


def _interval_words(how: Interval, resample: str) -> str:
    if how.kind == "none":
        return "none"
    kind = "normal, with the bootstrap error" if how.kind == "normal" else "percentile"
    over = "requests, for these items" if resample == "requests" else "requests and items"
    return f"bootstrap over {over}: {how.draws or 999:,} draws, {kind}"
