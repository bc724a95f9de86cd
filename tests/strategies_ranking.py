"""The families of tallies behind rankings and recommendations; importing this fills `FAMILIES`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from evenhand.metrics.representation import Represented
from evenhand.tallies.crosstab import Crosstab, Lists
from evenhand.tallies.exposure import Amortised, Exposed, Exposure
from evenhand.tallies.pairs import Pairs
from evenhand.tallies.placement import Placement
from evenhand.tallies.selections import Qualifications, ScoredGroups, Selections
from strategies import FAMILIES, Family

labels = st.lists(st.sampled_from(["p", "u", "u", None]), min_size=1, max_size=40)
several = st.lists(st.sampled_from(["p", "u", "v", None]), min_size=1, max_size=40)
shares = st.floats(0, 10).map(lambda v: round(v, 3))


def end_to_end(rankings: list[list[str | None]]) -> Placement:
    """Several rankings in one tally."""
    codes = [{"p": 0, "u": 1, None: -1}[label] for ranking in rankings for label in ranking]
    starts = np.concatenate([[0], np.cumsum([len(r) for r in rankings])])
    return Placement(np.array(codes, dtype=np.int64), starts, ("p", "u"), (0,))


@st.composite
def rankings_together(draw: Any) -> tuple[Placement, list[Placement]]:
    rankings = draw(st.lists(labels, min_size=1, max_size=6))
    return end_to_end(rankings), [end_to_end([r]) for r in rankings]


def amounts(groups: int) -> st.SearchStrategy[list[float]]:
    return st.lists(shares, min_size=groups, max_size=groups)


@st.composite
def exposures(draw: Any) -> Exposure:
    groups = draw(st.integers(2, 4))
    received, utility, gained, due = (draw(amounts(groups)) for _ in range(4))
    sizes = draw(st.lists(st.integers(1, 9), min_size=groups, max_size=groups))
    return Exposure.from_arrays(received, utility, gained, due, sizes)


def sides_swapped(t: Exposure) -> tuple[Exposure, Exposure]:
    return t, replace(t, protected=t.versus, versus=t.protected)


@st.composite
def matrices(draw: Any) -> tuple[list[list[float]], list[str], list[list[int]]]:
    users, items = draw(st.integers(2, 6)), draw(st.integers(2, 6))
    scores = [[draw(st.sampled_from([0.1, 0.2, 0.4, 0.7, 0.9])) for _ in range(items)] for _ in range(users)]
    truth = [[draw(st.integers(0, 1)) for _ in range(items)] for _ in range(users)]
    groups = ["a", "b", *(draw(st.sampled_from("ab")) for _ in range(users - 2))]
    return scores, groups, truth


def crosstab(of: tuple[Any, Any, Any], protected: str = "b") -> Crosstab:
    scores, groups, truth = of
    return Crosstab.from_arrays(
        scores, groups, protected, "b" if protected == "a" else "a", relevant=truth, threshold=0.3, true_threshold=0.5
    )


@st.composite
def judged_pairs(draw: Any) -> Pairs:
    n = draw(st.integers(2, 15))
    scores, relevance = (draw(st.lists(st.integers(0, 4), min_size=n, max_size=n)) for _ in range(2))
    groups = draw(st.lists(st.sampled_from("PU"), min_size=n, max_size=n).filter(lambda g: len(set(g)) == 2))
    return Pairs.from_arrays(scores, relevance, groups, protected="P")


masses = st.dictionaries(st.sampled_from([0.2, 0.4, 0.6, 0.8, 1.0]), st.integers(0, 5), min_size=1)
scored = st.lists(
    st.tuples(st.integers(1, 9), st.sampled_from([0.2, 0.5, 0.8]), st.sampled_from([0.1, 0.5, 0.9])),
    min_size=1,
    max_size=4,
)

FAMILIES |= {
    Placement: Family(
        tallies=st.builds(lambda x: Placement.from_arrays(x, protected="p"), labels),
        undefined={
            "empty": Placement.from_arrays([], protected="p"),
            "no_labelled_items": Placement.from_arrays([None, None], protected="p"),
            "one_group_only": Placement.from_arrays(["p", "p"], protected="p"),
        },
        batch=rankings_together(),
    ),
    Represented: Family(
        tallies=st.builds(lambda x: Represented.from_arrays(x, protected="p"), labels),
        undefined={"empty": Represented.from_arrays([], protected="p")},
    ),
    Exposed: Family(
        tallies=st.builds(
            lambda x, p: Exposed.from_arrays(
                x, target={"p": p / 10, "u": 0.5 - p / 20, "v": 0.5 - p / 20}, protected="p"
            ),
            several,
            st.integers(1, 9),
        ),
        undefined={"no_labelled_items": Exposed.from_arrays([None], target={"p": 0.5, "u": 0.5}, protected="p")},
    ),
    Exposure: Family(
        tallies=exposures(),
        changes={"antisymmetric": exposures().map(sides_swapped), "two-sided": exposures().map(sides_swapped)},
    ),
    Amortised: Family(
        tallies=st.integers(2, 4).flatmap(lambda g: st.builds(Amortised.from_arrays, amounts(g), amounts(g)))
    ),
    Crosstab: Family(
        tallies=matrices().map(crosstab),
        changes={"symmetric": matrices().map(lambda m: (crosstab(m, "a"), crosstab(m, "b")))},
    ),
    Lists: Family(
        tallies=st.lists(st.permutations(range(5)).map(lambda row: row[:3]), min_size=1, max_size=6).map(
            lambda rows: Lists.from_arrays(rows, items=5)
        ),
        undefined={"empty": Lists.from_arrays([], items=3)},
    ),
    Pairs: Family(tallies=judged_pairs()),
    Qualifications: Family(tallies=masses.map(Qualifications.from_arrays)),
    Selections: Family(
        tallies=st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), min_size=2, max_size=5).map(
            lambda pairs: Selections.from_arrays([x for x, _ in pairs], total=[x + n for x, n in pairs])
        )
    ),
    ScoredGroups: Family(tallies=st.builds(lambda x, y: ScoredGroups.from_arrays({"O": x, "X": y}), scored, scored)),
}
