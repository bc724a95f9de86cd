"""Does the order of systems survive another attention model, target, distance, cutoff or rule for the unknown?"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, product
from typing import Annotated, Any

import numpy as np

from evenhand.audits.compare import PairedTest, Systems
from evenhand.audits.declare import Audit, Call, Rankings, Seed, Takes, audit, find, log
from evenhand.audits.requests import RequestSums
from evenhand.cards import Floats
from evenhand.claims import Candidate
from evenhand.errors import EvenhandError, listing, suggestion
from evenhand.findings import COLUMNS, Points, Row, as_columns, tidy
from evenhand.metrics.agreement import both_known, fairness, places, tau_c, turned
from evenhand.results import Result

Setting = tuple[str, ...]
"""One choice of every varied argument."""
Key = tuple[Any, ...]
"""What systems are ordered by: labels of other slices, the metric, its group."""


@dataclass(frozen=True)
class Ordering:
    """The systems under one setting, by one metric: the row of each, how fair it is, and its sums per request, turned so that
    larger is fairer.
    """

    rows: Mapping[Any, Row]
    fairness: Mapping[Any, float]
    sums: Mapping[Any, RequestSums]


def orderings_of(table: Systems, *, by_position: bool) -> dict[Key, Ordering]:
    """The orders that one result gives, by metric, or by the position of the metric where metrics themselves are varied."""
    sums = table.request_sums()
    numbers = list(dict.fromkeys((metric, group) for _, metric, group in table.rows))
    orderings = {}
    for (where, metric, group), by_system in table.rows.items():
        fair = dict(zip(by_system, fairness(list(by_system.values())).tolist(), strict=True))
        first = next(iter(by_system.values()))
        of_systems = {
            system: replace(h, value=_fairer(h.value, first["better"], first["ideal"]))
            for system, h in sums.get((where, metric, group), {}).items()
        }
        key = (where, numbers.index((metric, group)), None) if by_position else (where, metric, group)
        orderings[key] = Ordering(by_system, fair, of_systems)
    return orderings


def _fairer(value: Callable[[Floats], Floats], better: str, ideal: Any) -> Callable[[Floats], Floats]:
    neutral = math.nan if ideal is None else ideal
    return lambda totals: turned(value(totals), better, neutral)


@dataclass(frozen=True)
class Pair:
    """Two systems by one metric: which is fairer under every setting.

    Attributes
    ----------
    p : (settings,) of systems swapped within requests.
    signs : (settings, 1 + draws) of second minus first in fairness: as measured, then on resampled requests.
    """

    key: Key
    first: Any
    second: Any
    p: Floats
    signs: Floats

    def candidate(self, settings: Sequence[str]) -> Candidate:
        """Whether one system is the fairer under every setting, or each is under some.

        The first needs the largest p of all settings. The second needs a significant difference each way, and settings were
        searched for both: the smallest p each way, times the number of settings.
        """
        by = f" by {self.key[1]}" if isinstance(self.key[1], str) else ""
        undecided = f"which of {self.first} and {self.second} is fairer{by} under all choices cannot be told"
        where = {"system": self.first, "versus": self.second}
        metric, group = str(self.key[1]), self.key[2]
        sign = self.signs[0, 0]
        if sign != 0 and (self.signs[:, 0] == sign).all():
            better, worse = (self.second, self.first) if sign > 0 else (self.first, self.second)
            text = f"{better} is fairer than {worse}{by} under all choices"
            return Candidate(float(self.p.max()), "higher", text, undecided, metric, group, where)
        ps = [np.where(self.signs[:, 0] == sign, self.p, np.nan) for sign in (-1, 1)]
        if any(np.isnan(p).all() for p in ps):
            return Candidate(1.0, "differs", "", undecided, metric, group, where)
        first, second = (settings[int(np.nanargmin(p))] for p in ps)
        text = f"{self.first} is fairer than {self.second}{by} under {first}, and less fair under {second}"
        p = min(1.0, len(settings) * max(float(np.nanmin(p)) for p in ps))
        return Candidate(p, "differs", text, undecided, metric, group, where)


@dataclass(frozen=True)
class Survival:
    """All orders, by setting and metric.

    Attributes
    ----------
    names, settings : the varied arguments, and every combination of their choices.
    orderings : (settings,) what each combination gave.
    """

    call: Call
    names: tuple[str, ...]
    settings: Sequence[Setting]
    orderings: Sequence[Mapping[Key, Ordering]]

    def rows(self, others: Sequence[str]) -> list[Row]:
        """A row per setting, metric and system, with its place and how far the order agrees with that of the first setting."""
        rows = []
        first: dict[Key, Floats] = {}
        for chosen, orderings in zip(self.settings, self.orderings, strict=True):
            for key, ordering in orderings.items():
                labels = dict(zip((*self.names, *others), (*chosen, *key[0]), strict=True))
                fair = np.array(list(ordering.fairness.values()))
                baseline = first.setdefault(key, fair)
                agree = tau_c(*both_known(baseline, fair)) if len(baseline) == len(fair) else np.nan
                for (system, r), place in zip(ordering.rows.items(), places(fair), strict=True):
                    cells = {name: r[name] for name in COLUMNS}
                    rows.append({**labels, "system": system, **cells, "rank": float(place), "tau_c": agree})
        return rows

    @cached_property
    def pairs(self) -> list[Pair]:
        """Every two systems by every metric that all settings have, of those that can be resampled under each."""
        compared = []
        for key, ordering in self.orderings[0].items():
            if all(key in o for o in self.orderings):
                systems = [s for s in ordering.sums if all(s in o[key].sums for o in self.orderings)]
                compared += [(key, a, b) for a, b in combinations(systems, 2)]
        tests = 2 * len(compared) * len(self.settings)
        test = PairedTest.for_call(self.call, None, self.call.interval.level, tests)
        return [self._pair(test, key, a, b) for key, a, b in compared]

    def _pair(self, test: PairedTest, key: Key, a: Any, b: Any) -> Pair:
        signs, ps = [], []
        for by_key in self.orderings:
            ordering = by_key[key]
            difference, _ = test.difference(ordering.sums[a], ordering.sums[b], key[0])
            lead = ordering.fairness[b] - ordering.fairness[a]
            chance = lead - difference.estimate  # differs from 0 where random order gives the two systems other values
            drawn = difference.resampled + (chance if math.isfinite(chance) else 0.0)
            # The swaps test the values: where chance decides which is fairer, they say nothing about it.
            ps.append(difference.p if np.sign(difference.estimate) == np.sign(lead) else 1.0)
            signs.append(np.sign(np.nan_to_num(np.append(lead, drawn), posinf=1, neginf=-1)))
        return Pair(key, a, b, np.nan_to_num(ps, nan=1.0), np.array(signs))

    def candidates(self) -> list[Candidate]:
        """What may be claimed: of every pair, and of the choice that moves the order most."""
        named = [", ".join(f"{n}={c}" for n, c in zip(self.names, s, strict=True)) for s in self.settings]
        pairs = [pair.candidate(named) for pair in self.pairs]
        return [*pairs, *self._most()] if pairs else []

    def _most(self) -> Iterator[Candidate]:
        """Whether one choice turns more pairs round than each other choice, on the same resampled requests."""
        moves = self.moved
        if len(moves) < 2:
            return
        order = sorted(moves, key=lambda name: -moves[name][0])
        top = order[0]
        if not moves[top][0]:
            return
        excess = np.array([moves[top] - moves[name] for name in order[1:]])[:, 1:]
        p = float((2 * (1 + (excess <= 0).sum(1)) / (1 + excess.shape[1])).max())
        shares = ", ".join(f"{name} {100 * moves[name][0]:.0f}%" for name in order)
        text = f"{top} moves it most (pairs turned round by another choice: {shares})"
        yield Candidate(
            min(1.0, p), "most", text, f"no choice moves it more than the others ({shares})", "", where={"choice": top}
        )

    @cached_property
    def moved(self) -> dict[str, Floats]:
        """Share of pairs that another choice of one argument turns round: as measured, then on resampled requests.

        Of the pairs that differ significantly under some setting (Bonferroni); nothing where there is none.
        """
        tests = max(1, len(self.pairs) * len(self.settings))
        differing = [pair for pair in self.pairs if pair.p.min() * tests <= 1 - self.call.interval.level]
        moves = {}
        for n, name in enumerate(self.names):
            steps = [
                (i, j) for i, j in combinations(range(len(self.settings)), 2)
                if [k for k, (x, y) in enumerate(zip(self.settings[i], self.settings[j], strict=True)) if x != y] == [n]
            ]  # fmt: skip
            if steps and differing:
                moves[name] = np.mean([pair.signs[i] != pair.signs[j] for pair in differing for i, j in steps], axis=0)
        return moves


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
    combinations: list[Setting] = []
    orderings = []
    for n, setting in enumerate(settings, 1):
        log.info("setting %s of %s", n, len(settings))
        result = repeated(table, **fixed, **setting)
        systems = Systems.from_result(result)
        combinations.append(
            tuple(", ".join(map(str, c)) if isinstance(c, (list, tuple)) else str(c) for c in setting.values())
        )
        orderings.append(orderings_of(systems, by_position="metrics" in vary))
    others, read = systems.others, result.provenance.get("rows")  # None where withheld
    slices = (*vary, *others, "system")
    survival = Survival(call, tuple(vary), combinations, orderings)
    columns = tidy(survival.rows(others), slices, call.audit.extra)
    claims = survival.candidates()
    facts = {"settings": len(settings), "moved": {name: float(share[0]) for name, share in survival.moved.items()}}
    curves = {"stability": _stability(columns, others)}
    return call.result(
        columns, backend=result.backend, read=read or 0, slices=slices, curves=curves, facts=facts, hides=read is None, claims=claims,
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
