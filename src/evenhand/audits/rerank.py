"""Re-rankers that people know, on any table of scores: boosts, FA*IR, DetConstSort, calibrated lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np

from evenhand.allocation.rerankers import boosted, calibrated, det_const_sort, fa_star_ir
from evenhand.attention import log as logarithmic
from evenhand.attention import parse
from evenhand.audits.declare import Call, Labels, Table, TableOrColumn, Takes, pairs, tool
from evenhand.audits.rebalance import Candidates
from evenhand.cards import Between, Floats, parse_call
from evenhand.errors import EvenhandError, listing, unknown_name
from evenhand.labels import several
from evenhand.metrics.representation import fair_table
from evenhand.sources.labels import columns_in, open_labels
from evenhand.sources.opening import fetch, native, open_table
from evenhand.sources.rankings import open_scores, ranking_table
from evenhand.sources.relation import is_number
from evenhand.tallies.ragged import Ints

METHODS: Mapping[str, Mapping[str, Any]] = {
    "boosts": {}, "fa_star_ir": {"p": None, "alpha": 0.1}, "det_const_sort": {}, "calibrated": {"strength": 0.5},
}  # fmt: skip
"""The numbers of each re-ranker with their defaults; None where there is none."""

Shares = Annotated[Any, Takes("LABEL=SHARE,..", read=lambda words: pairs("target", words[0], float))]


@tool("rerank")
def rerank(
    call: Call,
    scores: Table,
    *,
    method: str,
    top: Annotated[int, Between(1, 10_000)],
    groups: TableOrColumn = None,
    boosts: TableOrColumn = None,
    protected: Labels = None,
    target: Shares = None,
    attention: Any = "log(offset=1)",
    request: str = "request",
    item: str = "item",
    score: str = "score",
    nan_policy: Literal["raise", "omit"] = "raise",
) -> Any:
    """New lists from scores, by a re-ranker that people know: a table of request, item and rank.

    Parameters
    ----------
    scores : candidates: one row per request and item with a score, a table or a path.
    method : `"boosts"`, `"fa_star_ir(p=0.3, alpha=0.1)"`, `"det_const_sort"` or `"calibrated(strength=0.5)"`.
    top : length of the lists.
    groups : group of each item (with boosts: its provider): a column of `scores`, {item: group}, or a table of items
        and groups.
    boosts : table of `provider` and `boost`, as `eh.rebalance` returns it, or {provider: boost}; other providers have
        boost 0.
    protected : label(s) of the protected group, for fa_star_ir; items without a label are not protected.
    target : {group: share} that det_const_sort and calibrated aim at.
    attention : browsing model: how attention falls with rank, for the ideal gain that boosts are added to.
    request : column with the request id.
    item : column with the item id.
    score : column with the score.
    nan_policy : what to do with rows without a score: raise an error, or leave them out.

    Examples
    --------
    >>> import polars as pl
    >>> table = pl.DataFrame({"request": [1] * 3, "item": list("abc"), "score": [3.0, 2.0, 1.0], "g": list("xxy")})
    >>> rerank(table, method="det_const_sort", top=2, groups="g", target={"x": 0.5, "y": 0.5})["item"].to_list()
    ['a', 'c']
    """
    name, args, keywords = parse_call(method, role="method")
    if name not in METHODS:
        raise unknown_name("method", method, list(METHODS), what="a known re-ranker")
    model = parse(attention) if name == "boosts" else logarithmic(offset=1)
    needed = [request, item, score, *columns_in(groups)]
    opened = ranking_table(scores, columns=needed, request=request, item=item)
    owners = None if groups is None else open_labels(groups, opened, item=item, request=request)
    carry = {} if owners is None else owners.carry(opened)
    view = open_scores(opened, request=request, item=item, score=score, nan_policy=nan_policy, carry=carry)
    candidates = Candidates.from_scores(view, owners, None, top, model, gains=name == "boosts")
    if owners is None and name != "boosts":
        raise EvenhandError(f"method={method!r} needs to know the group of each item. Pass groups=.")
    if name in ("det_const_sort", "calibrated"):
        codes, shares = _target(candidates, target, method)
    numbers = _numbers(method, name, args, keywords)
    if name == "boosts":
        lists = boosted(candidates.slates, _boosts(boosts, candidates))
    elif name == "fa_star_ir":
        lists = _fair(candidates, protected, *numbers)
    elif name == "det_const_sort":
        lists = det_const_sort(candidates.slates, codes, shares)
    else:
        lists = calibrated(candidates.slates, codes, shares, *numbers)
    return native(candidates.table(candidates.slates, np.arange(candidates.slates.requests), lists), view.backend)


def _numbers(method: str, name: str, args: list[Any], keywords: Mapping[str, Any]) -> list[float]:
    """The numbers of a method, in order; all of them shares between 0 and 1."""
    defaults = METHODS[name]
    numbers = dict(zip(defaults, args, strict=False)) | dict(keywords)
    missing = [n for n, default in defaults.items() if default is None and n not in numbers]
    wrong = [n for n, v in numbers.items() if isinstance(v, bool) or not isinstance(v, (int, float)) or not 0 <= v <= 1]
    if len(args) > len(defaults) or numbers.keys() - defaults.keys() or missing or wrong:
        raise EvenhandError(f"method={method!r} does not fit. Its numbers, from 0 to 1: {listing(defaults) or 'none'}.")
    return [float(numbers.get(n, default)) for n, default in defaults.items()]


def _groups(candidates: Candidates, method: str) -> Ints:
    """(items,) the one group of each item."""
    owners = candidates.slates.owners
    if len(owners.item) > owners.items or (owners.share < 1).any():
        raise EvenhandError(
            f"method={method!r} needs one group per item, not shares. Pass groups with one label per item."
        )
    codes = np.empty(owners.items, dtype=np.int64)
    codes[owners.item] = owners.provider
    return codes


def _fair(candidates: Candidates, protected: Any, p: float, alpha: float) -> Ints:
    if protected is None:
        raise EvenhandError(
            "method='fa_star_ir' needs to know who is protected. Pass protected= with one label or several."
        )
    protected_labels = {str(label) for label in several(protected)}
    labels = [str(label) for label in candidates.rows.providers]
    if strange := sorted(protected_labels - set(labels)):
        raise EvenhandError(
            f"protected={listing(strange)} is the label of no candidate. Labels: {listing(sorted(set(labels)))}."
        )
    side = np.array([0 if label in protected_labels else 1 for label in labels])
    tables = {k: np.array(fair_table(int(k), p, alpha).table) for k in np.unique(candidates.slates.lengths)}
    return fa_star_ir(candidates.slates, side[_groups(candidates, "fa_star_ir")], lambda k: tables[k])


def _target(candidates: Candidates, target: Any, method: str) -> tuple[Ints, Floats]:
    """Group codes of items and the share of each group; groups without an item stand last."""
    if candidates.rows.unowned:
        raise EvenhandError(
            f"{candidates.rows.unowned:,} items have no group, and method={method!r} needs one of each. Add them to groups."
        )
    numbers = isinstance(target, Mapping) and all(isinstance(v, (int, float)) and v >= 0 for v in target.values())
    if not numbers or abs(sum(target.values()) - 1) > 1e-6:
        raise EvenhandError(f"target={target!r} does not fit. Pass {{group: share}} with shares that add up to 1.")
    shares = {str(label): float(share) for label, share in target.items()}
    labels = [str(label) for label in candidates.rows.providers]
    if missing := [label for label in labels if label not in shares]:
        raise EvenhandError(f"target says nothing of {listing(missing)}. Give every group a share, zero if none.")
    in_order = dict.fromkeys([*labels, *shares])
    return _groups(candidates, method), np.array([shares[label] for label in in_order])


def _boosts(boosts: Any, candidates: Candidates) -> Floats:
    """(providers,) the boost of each; who is not in the table has none."""
    if boosts is None:
        raise EvenhandError(
            "method='boosts' needs boosts. Pass the table of result.boosts(strength), or {provider: boost}."
        )
    if isinstance(boosts, Mapping):
        by_provider = dict(boosts)
    else:
        table = open_table(boosts, role="boosts", columns=["provider", "boost"]).with_numbers("boost")
        names = table.names
        if not {"provider", "boost"} <= set(names) or not is_number(table.schema["boost"]):
            raise EvenhandError(
                f"boosts has the columns {listing(names)}. Pass a table of provider and boost, a number."
            )
        cells = fetch(table, {"provider": table.column("provider"), "boost": table.column("boost")})
        by_provider = dict(zip(cells.values("provider"), cells.values("boost"), strict=True))
        if len(by_provider) < len(cells):
            raise EvenhandError("boosts names a provider twice. Give each one boost.")
    words = {str(label): value for label, value in by_provider.items()}
    if not words.keys() & {str(p) for p in candidates.rows.providers}:
        raise EvenhandError(
            "boosts and the candidates have no provider in common. Pass groups= with the provider of each item."
        )
    values = np.array([float(words.get(str(p), 0.0)) for p in candidates.rows.providers])
    if not np.isfinite(values).all():
        raise EvenhandError("boosts holds missing or infinite numbers. Pass a finite boost for each provider.")
    return values
