"""Worlds of a network: a ranking that favours nobody, and a graph rewired with everybody's degrees kept."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from evenhand.tallies.ragged import Ints, starts_of

AT_ONCE = 1 << 22
"""Impressions drawn, and pairs of steps walked, at a time."""


def swap_once(source: Ints, target: Ints, people: int, rng: np.random.Generator) -> tuple[Ints, int]:
    """Targets after every edge was tried with one other: the two swap targets where that leaves a simple graph.

    A pair is refused if any edge that it has or would have is an edge that another pair has or would have: the rule is the same
    for the step back, so that all graphs with these degrees stay equally likely.
    """
    order = rng.permutation(len(source))
    half = len(order) // 2
    a, b = order[:half], order[half : 2 * half]
    keys = source * people + target
    changed = source[a] * people + target[b], source[b] * people + target[a]
    every = np.sort(np.concatenate([keys, *changed]))
    shared = np.unique(every[1:][every[1:] == every[:-1]])
    is_free = (source[a] != target[b]) & (source[b] != target[a])
    for edge in (*changed, keys[a], keys[b]):
        is_free &= ~np.isin(edge, shared)
    swapped = target.copy()
    swapped[a[is_free]], swapped[b[is_free]] = target[b[is_free]], target[a[is_free]]
    return swapped, int(is_free.sum())


def within_reach(starts: Ints, target: Ints, viewers: Ints, reach: int) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Batches of viewers, where the people that they could be shown start, and these people.

    With `reach` 2 also those followed by whom they follow, themselves excluded.
    """
    degree = np.diff(starts)
    if reach == 1:
        lengths = degree[viewers]
        picks = np.repeat(starts[viewers] - starts_of(lengths)[:-1], lengths) + np.arange(lengths.sum())
        yield viewers, starts_of(lengths), target[picks]
        return
    from scipy.sparse import coo_matrix, csr_matrix

    people = len(degree)
    graph = csr_matrix((np.ones(len(target), dtype=np.int8), target, starts), shape=(people, people))
    steps = np.bincount(np.repeat(np.arange(people), degree), degree[target], people) + degree
    batch = np.cumsum(steps[viewers]) // AT_ONCE
    for part in np.split(viewers, np.flatnonzero(np.diff(batch)) + 1):
        near = graph[part]
        both = coo_matrix(near + near.astype(np.int32) @ graph.astype(np.int32))
        is_other = both.col != part[both.row]
        order = np.lexsort((both.col[is_other], both.row[is_other]))
        lengths = np.bincount(both.row[is_other], minlength=len(part))
        yield part, starts_of(lengths), both.col[is_other][order].astype(np.int64)


def neutral(
    starts: Ints, shown: Ints, viewer: Ints, many: Ints, cell: Ints, shape: tuple[int, int], rng: np.random.Generator
) -> Ints:
    """(cells, people) impressions when each goes to anyone in reach with equal chance.

    `viewer` is the place of a viewer in `starts`, `many` its impressions, `cell` where they are counted.
    """
    totals = np.zeros(shape[0] * shape[1], dtype=np.int64)
    degree = np.diff(starts)
    for part in np.split(np.arange(len(viewer)), np.flatnonzero(np.diff(np.cumsum(many) // AT_ONCE)) + 1):
        at = np.repeat(part, many[part])
        pick = starts[viewer[at]] + (rng.random(len(at)) * degree[viewer[at]]).astype(np.int64)
        totals += np.bincount(cell[at] * shape[1] + shown[pick], minlength=len(totals))
    return totals.reshape(shape)
