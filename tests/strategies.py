"""What the law tests must know about a tally: how to make one, and how to do to it what a law speaks of.

Each tally type has one `Family` in `FAMILIES`, keyed by the type that a card `needs`; a metric on a known tally needs
nothing here. Parameters of metrics are tried at values read off their type hints.
"""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
from hypothesis import strategies as st

from evenhand.cards import REGISTRY, Between, Metric
from evenhand.tallies.slates import Gained, Judged, Reordered
from evenhand.tallies.spectrum import Spectrum


@dataclass(frozen=True, kw_only=True)
class Family:
    """One kind of tally under the laws.

    Attributes
    ----------
    tallies : tallies on which every metric of the family should be defined, or undefined with a reason.
    even : tallies of perfect equality, on which a metric takes the ideal of its card.
    undefined : tallies of which nothing can be said, with the reason they give.
    batch : several populations in one tally along a leading axis, and the same ones apart; None where there is no such axis.
    merge : two shards, and the tally of both together made in one go.
    changes : per law, pairs (before, after) of tallies between which the law compares the values.
    """

    tallies: st.SearchStrategy[Any]
    even: st.SearchStrategy[Any] | None = None
    undefined: Mapping[str, Any] = field(default_factory=dict)
    batch: st.SearchStrategy[tuple[Any, list[Any]]] | None = None
    shards: st.SearchStrategy[tuple[Any, Any, Any]] | None = None
    changes: Mapping[str, st.SearchStrategy[tuple[Any, Any]]] = field(default_factory=dict)


counts = st.lists(st.integers(0, 10_000), min_size=2, max_size=30).filter(any)
sparse = st.lists(st.sampled_from([0, 0, 0, 1, 1, 2, 7]), min_size=2, max_size=30).filter(any)
continuous = st.lists(st.floats(0, 1e6).map(lambda v: round(v, 3)), min_size=2, max_size=30).filter(any)
amounts = counts | sparse | continuous


@st.composite
def spectra(draw: Any) -> Spectrum:
    x = draw(amounts)
    weighted = draw(st.booleans())
    return Spectrum.from_arrays(
        x, weights=draw(st.lists(st.integers(1, 9), min_size=len(x), max_size=len(x))) if weighted else None
    )


@st.composite
def replicated(draw: Any) -> tuple[Spectrum, Spectrum]:
    x, times = draw(amounts), draw(st.integers(2, 7))
    return Spectrum.from_arrays(x), Spectrum.from_arrays(np.tile(x, times))


@st.composite
def scaled(draw: Any) -> tuple[Spectrum, Spectrum]:
    x, factor = draw(amounts), draw(st.sampled_from([1e-9, 0.01, 3, 1000, 1e12]))
    return Spectrum.from_arrays(x), Spectrum.from_arrays(np.asarray(x) * factor)


@st.composite
def reordered(draw: Any) -> tuple[Spectrum, Spectrum]:
    x = draw(amounts)
    return Spectrum.from_arrays(x), Spectrum.from_arrays(draw(st.permutations(x)))


@st.composite
def transferred(draw: Any) -> tuple[Spectrum, Spectrum]:
    """Somebody gives to somebody poorer, and at most until both have the same."""
    x = draw(counts.filter(lambda v: max(v) - min(v) > 1))
    rich = draw(st.sampled_from([i for i, v in enumerate(x) if v - min(x) > 1]))
    poor = draw(st.sampled_from([i for i, v in enumerate(x) if x[rich] - v > 1]))
    given = draw(st.integers(1, (x[rich] - x[poor]) // 2))
    after = list(x)
    after[rich], after[poor] = x[rich] - given, x[poor] + given
    return Spectrum.from_arrays(x), Spectrum.from_arrays(after)


@st.composite
def batched(draw: Any) -> tuple[Spectrum, list[Spectrum]]:
    drawn = draw(spectra()).resample(4, np.random.default_rng(draw(st.integers(0, 99))))
    return drawn, [Spectrum(drawn.values, row, drawn.weights) for row in drawn.counts]


@st.composite
def sharded(draw: Any) -> tuple[Spectrum, Spectrum, Spectrum]:
    x, y = draw(amounts), draw(amounts)
    return Spectrum.from_arrays(x), Spectrum.from_arrays(y), Spectrum.from_arrays([*x, *y])


@st.composite
def new_orders(draw: Any) -> Reordered:
    before = draw(st.permutations(range(9)))
    return Reordered.from_arrays(draw(st.permutations(range(11)))[: draw(st.integers(1, 9))], before=before)


gains = st.lists(st.integers(0, 9), min_size=1, max_size=9).filter(any)

FAMILIES: dict[type, Family] = {
    Reordered: Family(
        tallies=new_orders(),
        even=st.builds(lambda n: Reordered.from_arrays(range(n), before=range(n)), st.integers(1, 9)),
        undefined={"empty": Reordered(np.zeros((1, 0), dtype=np.int64))},
    ),
    Gained: Family(
        tallies=gains.map(Gained.from_arrays),
        even=gains.map(lambda found: Gained.from_arrays(sorted(found, reverse=True))),
        undefined={"zero_utility": Gained.from_arrays([0, 0])},
    ),
    Judged: Family(
        tallies=st.builds(lambda shown, more: Judged.from_arrays(shown, judgments=shown + more), gains, gains),
        even=gains.map(lambda found: Judged.from_arrays(sorted(found, reverse=True))),
        undefined={"zero_normalizer": Judged.from_arrays([0, 0])},
    ),
    Spectrum: Family(
        tallies=spectra(),
        even=st.builds(lambda v, n: Spectrum.from_arrays([v] * n), st.floats(1e-6, 1e9), st.integers(2, 40)),
        undefined={
            "empty": Spectrum.from_arrays([]),
            "zero_total": Spectrum.from_arrays([0, 0, 0]),
            "zero_weight": Spectrum.from_arrays([1, 2], weights=[0, 0]),
            "nan_in_data": Spectrum.from_arrays([1, math.nan], nan_policy="propagate"),
        },
        batch=batched(),
        shards=sharded(),
        changes={
            "replication": replicated(),
            "scale-free": scaled(),
            "order": reordered(),
            "transfer": transferred(),
            "weak-transfer": transferred(),
        },
    ),
}


def settings_of(metric: Metric, *, switches: bool = True) -> list[dict[str, Any]]:
    """The default parameters, and each parameter moved through values that its type hint allows.

    The laws of a card speak of the metric at any number; a switch (a boolean or a choice) selects another form of it.
    """
    hints = {name: metric._hints.get(name, Any) for name in metric.parameters}
    needed = {n: _values(hints[n])[0] for n, p in metric.parameters.items() if p.default is p.empty}
    found: list[dict[str, Any]] = [needed]
    for name, hint in hints.items():
        if _base(hint) in (float, int) or switches:
            found += [{**needed, name: value} for value in _values(hint)]
    return found


OF_NUMBERS = {"output_bias", "ranking_bias"}
"""Metrics of labels that are numbers, which no strategy draws: tests/test_ranked_numbers.py has their definitions."""


def every_metric(*, law: str = "", having: str = "tallies") -> list[Metric]:
    """The metrics of the registry that have a family here: those that claim a law, or whose family has something."""
    known = [m for name, m in sorted(REGISTRY.items()) if m.card.needs in FAMILIES and name not in OF_NUMBERS]
    known = [metric for metric in known if getattr(FAMILIES[metric.card.needs], having) not in (None, {})]
    return [metric for metric in known if not law or law in metric.card.laws]


def _base(hint: Any) -> Any:
    return typing.get_args(hint)[0] if typing.get_origin(hint) is Annotated else hint


def _values(hint: Any) -> list[Any]:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return [value for option in typing.get_args(hint) for value in _values(option)]
    if typing.get_origin(hint) is Literal:
        return list(typing.get_args(hint))
    if hint is bool:
        return [True, False]
    if typing.get_origin(hint) is Annotated:
        tried = (-1.0, 0.0, 0.01, 0.1, 0.25, 0.5, 0.55, 0.9, 1.0, 2.0, 5.0, math.inf)
        base, *rules = typing.get_args(hint)
        kept = [value for value in tried if all(rule.holds(value) for rule in rules if isinstance(rule, Between))]
        return [int(value) for value in kept if value.is_integer()] if base is int else kept
    return []
