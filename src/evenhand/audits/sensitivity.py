"""Does the order of systems survive another attention model, target, distance, cutoff or rule for the unknown?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Annotated, Any

import numpy as np

from evenhand.audits.assemble import Points, as_columns
from evenhand.audits.declare import Audit, Call, audit, find, log
from evenhand.audits.orders import Survival, orderings_of
from evenhand.audits.parameters import Rankings, Seed, Takes
from evenhand.audits.systems import Standing, standings
from evenhand.errors import EvenhandError, listing, suggestion
from evenhand.findings import COLUMNS, Row, tidy
from evenhand.metrics.agreement import both_known, places, tau_c
from evenhand.results import Result

REPEATED = ("exposure", "prefix", "pairwise")
"""Audits that say of several systems which is fairer."""


def choices_of(words: list[str]) -> Points:
    """`NAME=CHOICE` of the command line, once for each choice, or all of them as JSON."""
    by_argument: Points = {}
    for word in words:
        if word.lstrip().startswith("{"):
            try:
                by_argument |= dict(json.loads(word))
            except ValueError as error:
                raise EvenhandError(f"--vary {word!r} is no JSON. Write --vary NAME=CHOICE for each choice.") from error
            continue
        name, equals, choice = word.partition("=")
        if not equals or not name.strip():
            raise EvenhandError(f"--vary {word!r} names no choice. Write --vary attention=log --vary 'attention=rbp'.")
        by_argument.setdefault(name.strip().replace("-", "_"), []).append(choice)
    return by_argument


Vary = Annotated[Mapping[str, Sequence[Any]], Takes("NAME=CHOICE", many=True, read=choices_of)]
Of = Annotated[Any, Takes("VERB")]


@audit(
    "sensitivity",
    question="Does the order of the systems survive other choices?",
    charts=("stability", "intervals"),
    extra=("rank", "tau_c"),
)
def sensitivity(call: Call, /, of: Of, table: Rankings, *, vary: Vary, rng: Seed = None, **roles: Any) -> Result:
    """The same audit under every combination of choices: the varied arguments are slices, and every system has its `rank`.

    `rank` is the place of the system, 1 the fairest; `tau_c` says how far the order agrees with that of the first
    combination (1: the same order). Claimed of every two systems: that one is significantly fairer under all combinations, or
    that they change places; and which choice changes places most often, among systems that differ significantly.

    Parameters
    ----------
    of : the audit to repeat, `eh.exposure`, `eh.prefix` or `eh.pairwise`, or its name.
    table : the table that this audit reads.
    roles : its other arguments, including `system`.
    vary : choices to try, by argument: `{"attention": ["log", "rbp(patience=0.8)"], "unknown": ["drop", "group"]}`.
        Distances and cut-offs are choices of `metrics`: `{"metrics": ["awrf(distance='js')", "awrf@10"]}`.

    Examples
    --------
    >>> import polars as pl, evenhand as eh
    >>> run = pl.DataFrame({"run": list("aabb"), "request": [1] * 4, "item": list("xyyx"), "rank": [1, 2, 1, 2]})
    >>> found = eh.sensitivity(eh.exposure, run, groups={"x": "f", "y": "m"}, protected="f", system="run", metrics="awrf",
    ...                        target={"f": 0.7, "m": 0.3}, vary={"attention": ["geometric(stop=0.6)", "uniform"]})
    >>> found.frame["rank"].to_list()
    [1.0, 2.0, 1.0, 1.0]
    """
    name = of.as_word() if hasattr(of, "as_word") else of
    if not isinstance(name, str) or name not in REPEATED:
        raise EvenhandError(f"of={of!r} is no audit of several systems. Pass eh.exposure, eh.prefix or eh.pairwise.")
    repeated = find(name)
    settings = _settings(repeated, vary, roles)
    # Only the order of systems is read: no intervals unless asked for, and few draws for what chance gives.
    parameters = repeated.parameters
    quick = {"interval": None, "chance": True if name == "exposure" else "permutation(99)", "rng": call.seed}
    fixed = {k: v for k, v in quick.items() if k in parameters and k not in vary} | roles
    experiments: list[tuple[tuple[str, ...], Standing]] = []
    combinations: list[tuple[str, ...]] = []
    orderings = []
    backend: Any = "polars"
    read: int | None = None  # withheld
    others: tuple[str, ...] = ()
    for n, setting in enumerate(settings, 1):
        log.info("setting %s of %s", n, len(settings))
        result = repeated(table, **fixed, **setting)
        backend, read = result.backend, result.provenance.get("rows")
        others, several = standings([result])
        choices = tuple(", ".join(map(str, c)) if isinstance(c, (list, tuple)) else str(c) for c in setting.values())
        experiments += [(choices, standing) for standing in several]
        combinations.append(choices)
        orderings.append(orderings_of(result, by_position="metrics" in vary))
    slices = (*vary, *others, "system")
    columns = tidy(_rows(tuple(vary), others, experiments), slices, call.audit.extra)
    survival = Survival(call, tuple(vary), combinations, orderings)
    claims = survival.candidates()
    facts = {"settings": len(settings), "moved": {name: float(share[0]) for name, share in survival.moved.items()}}
    curves = {"stability": _stability(columns, others)}
    return call.result(
        columns, backend=backend, read=read or 0, slices=slices, curves=curves, facts=facts, hides=read is None, claims=claims,
    )  # fmt: skip


def _settings(audit: Audit, vary: Mapping[str, Any], roles: Mapping[str, Any]) -> list[dict[str, Any]]:
    arguments = list(audit.parameters)
    if not vary:
        raise EvenhandError("vary names nothing to vary. Pass {argument: [choice, choice, ...]}.")
    for name, choices in vary.items():
        if name not in arguments:
            raise EvenhandError(
                f"vary={name!r} is no argument of {audit.name}. {suggestion(str(name), arguments)}It takes: {listing(arguments, 40)}."
            )
        if name in roles:
            raise EvenhandError(f"{name} is both fixed and varied. Leave it out of one of them.")
        if isinstance(choices, (str, Mapping)) or not isinstance(choices, Sequence) or not choices:
            raise EvenhandError(f"vary[{name!r}]={choices!r} is not a list of choices. Pass a list of one or more.")
    settings = [dict(zip(vary, chosen, strict=True)) for chosen in product(*vary.values())]
    if len(settings) > 500:
        raise EvenhandError(f"vary makes {len(settings):,} combinations. Vary fewer choices: at most 500.")
    return settings


def _rows(
    names: tuple[str, ...], others: tuple[str, ...], experiments: Sequence[tuple[tuple[Any, ...], Standing]]
) -> list[Row]:
    rows = []
    first: dict[tuple[Any, ...], np.typing.NDArray[np.float64]] = {}
    for chosen, standing in experiments:
        labels = dict(zip((*names, *others), (*chosen, *standing.where), strict=True))
        for j, metric in enumerate(standing.metrics):
            fairness = standing.fairness[:, j]
            # Where the metric itself is varied, its variants are held against the first of them.
            baseline = first.setdefault((*standing.where, j if "metrics" in names else metric), fairness)
            agree = tau_c(*both_known(baseline, fairness)) if len(baseline) == len(fairness) else np.nan
            for i, (system, place) in enumerate(zip(standing.systems, places(fairness), strict=True)):
                if (i, j) in standing.rows:
                    cells = {name: standing.rows[i, j][name] for name in COLUMNS}
                    rows.append({**labels, "system": system, **cells, "rank": float(place), "tau_c": agree})
    return rows


def _stability(columns: Mapping[str, Sequence[Any]], others: tuple[str, ...]) -> Points:
    """Best, worst and mean place of each system over all settings, and how often it came first."""
    by_system: dict[tuple[Any, ...], list[float]] = {}
    keys = zip(*(columns[name] for name in (*others, "metric", "system")), strict=True)
    for key, place in zip(keys, columns["rank"], strict=True):
        by_system.setdefault(key, []).append(place)
    points = []
    for key, ranks in by_system.items():
        defined = [p for p in ranks if p == p]
        best, worst, mean = (min(defined), max(defined), float(np.mean(defined))) if defined else (np.nan,) * 3
        points.append((*key, best, worst, mean, sum(p == 1 for p in defined), len(ranks)))
    return as_columns((*others, "metric", "system", "best", "worst", "mean", "first", "settings"), points)
