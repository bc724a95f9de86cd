"""Does the order of systems survive another attention model, target, distance, cutoff or rule for the unknown?"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from evenhand.audits.declare import log, versions
from evenhand.audits.parameters import in_words
from evenhand.audits.systems import Standing, standings
from evenhand.errors import EvenhandError, listing, suggestion
from evenhand.findings import COLUMNS, Findings, Row, tidy
from evenhand.metrics.agreement import both_known, places, tau_c
from evenhand.results import Result

QUESTION = "Does the order of the systems survive other choices?"
CHARTS = ("stability", "intervals")
MOST_SETTINGS = 500


def sensitivity(audit: Callable[..., Result], table: Any, *, vary: Mapping[str, Sequence[Any]], **roles: Any) -> Result:
    """The same audit under every combination of choices: the varied arguments are slices, and every system has its `rank`.

    `rank` is the place of the system, 1 the fairest; `tau_c` says how far the order agrees with that of the first
    combination (1: the same order).

    Parameters
    ----------
    audit : `eh.exposure`, `eh.prefix` or `eh.pairwise`; table, roles : what it takes, `system` among them.
    vary : by argument, the choices to try: `{"attention": ["log", "rbp(patience=0.8)"], "unknown": ["drop", "group"]}`.
        Distances and cutoffs are choices of `metrics`: `{"metrics": ["awrf(distance='js')", "awrf@10"]}`.

    Examples
    --------
    >>> import polars as pl, evenhand as eh
    >>> run = pl.DataFrame({"run": list("aabb"), "request": [1] * 4, "item": list("xyyx"), "rank": [1, 2, 1, 2]})
    >>> found = eh.sensitivity(eh.exposure, run, groups={"x": "f", "y": "m"}, protected="f", system="run", metrics="awrf",
    ...                        target={"f": 0.7, "m": 0.3}, vary={"attention": ["geometric(stop=0.6)", "uniform"]})
    >>> found.frame["rank"].to_list()
    [1.0, 2.0, 1.0, 1.0]
    """
    settings = _settings(audit, vary, roles)
    fixed = _quick(audit, vary, roles)
    names = tuple(vary)
    found: list[tuple[tuple[Any, ...], Standing]] = []
    backend: Any = "polars"
    others: tuple[str, ...] = ()
    for n, setting in enumerate(settings, 1):
        log.info("setting %s of %s", n, len(settings))
        result = audit(table, **fixed, **setting)
        backend = result.backend
        others, several = standings([result])
        found += [(tuple(_words(setting[name]) for name in names), one) for one in several]
    columns = tidy(_rows(names, others, found), (*names, *others, "system"), ("rank", "tau_c"))
    facts = {
        "rows": 0, "dropped": {}, "seed": fixed.get("rng"), "settings": len(settings), "versions": versions(),
        "plan": {"of": audit.__name__, "vary": in_words(vary)},
    }  # fmt: skip
    slices, curves = (*names, *others, "system"), {"stability": _stability(columns, others)}
    return Result(Findings("sensitivity", QUESTION, slices, columns, curves, {}, facts, CHARTS), backend)


def _settings(audit: Any, vary: Any, roles: Mapping[str, Any]) -> list[dict[str, Any]]:
    if not callable(audit) or not hasattr(audit, "__name__"):
        raise EvenhandError(f"audit={audit!r} is not an audit. Pass eh.exposure, eh.prefix or eh.pairwise.")
    known = list(inspect.signature(audit).parameters)
    if not isinstance(vary, Mapping) or not vary:
        raise EvenhandError("vary names nothing to vary. Pass {argument: [choice, choice, ...]}.")
    for name, choices in vary.items():
        if name not in known:
            raise EvenhandError(
                f"vary={name!r} is no argument of {audit.__name__}. {suggestion(str(name), known)}It takes: {listing(known, 40)}."
            )
        if name in roles:
            raise EvenhandError(f"{name} is both fixed and varied. Leave it out of one of them.")
        if isinstance(choices, (str, Mapping)) or not isinstance(choices, Sequence) or not choices:
            raise EvenhandError(f"vary[{name!r}]={choices!r} is not a list of choices. Pass a list of one or more.")
    settings = [dict(zip(vary, chosen, strict=True)) for chosen in product(*vary.values())]
    if len(settings) > MOST_SETTINGS:
        raise EvenhandError(f"vary makes {len(settings):,} combinations. Vary fewer choices: at most {MOST_SETTINGS}.")
    return settings


def _quick(audit: Any, vary: Mapping[str, Any], roles: Mapping[str, Any]) -> dict[str, Any]:
    """The fixed arguments; intervals and chance levels are left out unless asked for, since only the order is read."""
    parameters = inspect.signature(audit).parameters
    quick: dict[str, Any] = {}
    if "interval" in parameters:
        quick["interval"] = None
    if "chance" in parameters:
        quick["chance"] = False if isinstance(parameters["chance"].default, bool) else None
    return {k: v for k, v in quick.items() if k not in vary} | dict(roles)


def _words(choice: Any) -> str:
    """A choice as a reader sees it in a column."""
    return ", ".join(map(str, choice)) if isinstance(choice, (list, tuple)) else str(choice)


def _rows(
    names: tuple[str, ...], others: tuple[str, ...], found: Sequence[tuple[tuple[Any, ...], Standing]]
) -> list[Row]:
    rows = []
    first: dict[tuple[Any, ...], np.typing.NDArray[np.float64]] = {}
    for chosen, one in found:
        labels = dict(zip((*names, *others), (*chosen, *one.where), strict=True))
        for j, metric in enumerate(one.metrics):
            fairness = one.fairness[:, j]
            # Where the metric itself is varied, its variants are held against the first of them.
            baseline = first.setdefault((*one.where, j if "metrics" in names else metric), fairness)
            agree = tau_c(*both_known(baseline, fairness)) if len(baseline) == len(fairness) else np.nan
            for i, (system, place) in enumerate(zip(one.systems, places(fairness), strict=True)):
                if (i, j) in one.rows:
                    own = {name: one.rows[i, j][name] for name in COLUMNS}
                    rows.append({**labels, "system": system, **own, "rank": float(place), "tau_c": agree})
    return rows


def _stability(columns: Mapping[str, Sequence[Any]], others: tuple[str, ...]) -> dict[str, list[Any]]:
    """Per system (and metric): best, worst and mean place over all settings, and in how many it came first."""
    held: dict[tuple[Any, ...], list[float]] = {}
    for key, place in _placed(columns, others):
        held.setdefault(key, []).append(place)
    names = (*others, "metric", "system", "best", "worst", "mean", "first", "settings")
    points: dict[str, list[Any]] = {name: [] for name in names}
    for key, own in held.items():
        known = [p for p in own if p == p]
        best, worst, mean = (min(known), max(known), float(np.mean(known))) if known else (np.nan,) * 3
        first = sum(p == 1 for p in known)
        for name, value in zip(names, (*key, best, worst, mean, first, len(own)), strict=True):
            points[name].append(value)
    return points


def _placed(columns: Mapping[str, Sequence[Any]], others: tuple[str, ...]) -> Iterator[tuple[tuple[Any, ...], float]]:
    keys = zip(*(columns[name] for name in (*others, "metric", "system")), strict=True)
    return zip(keys, columns["rank"], strict=True)
