"""Bias of ranks by a number rather than a label (kulshrestha2019): whether high values stand near the top.

The label of each item is read as a number, such as a leaning from -1 to 1, a price or an age.
"""

from __future__ import annotations

import math

import numpy as np

from evenhand.cards import Card, Floats, metric
from evenhand.errors import EvenhandError
from evenhand.metrics.prefix import Reference
from evenhand.tallies.placement import Batch, Placement

FAMILY = "ranks by a number"
WHEN = "the list has no labelled item"


def label_numbers(p: Placement) -> Floats:
    try:
        return np.array([float(label) for label in p.groups])
    except (TypeError, ValueError):
        odd = next(label for label in p.groups if not isinstance(label, (int, float)))
        raise EvenhandError(
            f"The labels hold {odd!r}, and this metric reads numbers. Pass a column of numbers, such as a leaning from -1 to 1."
        ) from None


def _rank_weights(b: Batch, depth: int | None) -> Floats:
    """(m, W) weight of each labelled rank in the mean over prefixes of the mean of each prefix; 0 elsewhere."""
    ranks = np.arange(b.width)
    seen = np.broadcast_to(b.seen, b.codes.shape)
    counted = (ranks < np.minimum(b.lengths, depth or b.width)[:, None]) & (seen > 0)
    per_prefix = counted / np.maximum(seen, 1) / np.maximum(counted.sum(1, keepdims=True), 1)
    return np.asarray(np.cumsum(per_prefix[:, ::-1], axis=1)[:, ::-1] * b.is_labelled)


def number_leans(p: Placement) -> tuple[Floats, Floats, Floats]:
    """(R, 1) ranking bias, its exact standard deviation and third central moment over random orders.

    Random orders of one list: a sum of weights times values in another order, whose moments are products of theirs.
    """
    numbers = label_numbers(p)
    moments = np.zeros((3, len(p), 1))
    for b in p.batches():
        labelled = b.is_labelled
        n = np.maximum(labelled.sum(1, keepdims=True), 1)
        values = np.where(labelled, numbers[b.codes] if len(numbers) else 0.0, 0.0)
        values = np.where(labelled, values - values.sum(1, keepdims=True) / n, 0.0)
        off = np.where(labelled, _rank_weights(b, p.depth) - 1 / n, 0.0)
        square, cube = ((off**k).sum(1) * (values**k).sum(1) for k in (2, 3))
        size = n[:, 0]
        moments[0, b.where, 0] = (off * values).sum(1)
        moments[1, b.where, 0] = np.sqrt(square / np.maximum(size - 1, 1))
        moments[2, b.where, 0] = cube * size / np.maximum((size - 1) * (size - 2), 1)
    lean, spread, third = moments
    return lean, spread, third


@metric(Card(
    name="ranking_bias", symbol="RB", title="Bias of ranks by a number", needs=Placement,
    span=(-math.inf, math.inf), ideal=0.0, better="ideal",
    asks="Is the mean of a number near the top of the list above that of the whole list?",
    undefined=WHEN, otherwise="no_labelled_items",
    says="Ranking bias: {estimate:number} on average over {units}{interval} (the mean at the top less that of the whole list)"
    "[; random order would give {chance:number}][ ({p:p})].",
    formula=r"\mathrm{RB}(r) = \frac1r \sum_{i=1}^{r} \frac1i \sum_{j \le i} s_j - \frac1N \sum_{j=1}^{N} s_j",
    example="[1, 0, -1] -> 0.5",
    variants=(
        "Output bias less input bias: the mean over prefixes of the mean of each prefix, less the mean of the whole list.",
        "ranking_bias@10 looks at the first ten prefixes and holds them against the whole list; reference='prefix' against the ten.",
        "A random order gives 0 on average, whatever the values. Means only: a list that mixes extremes at the top scores 0 too.",
    ),
    references=("kulshrestha2019", "draws2020"), per="ranking", family=FAMILY, reads=frozenset({"labels"}),
))  # fmt: skip
def ranking_bias(p: Placement, *, reference: Reference = "list") -> Floats:
    """Mean over prefixes of the mean label of each, less the mean of the whole list.

    >>> ranking_bias([1, 0, -1])
    0.5
    """
    return np.where(p.labelled > 0, number_leans(p)[0][:, 0], np.nan)


@ranking_bias.chance
def _(p: Placement, *, reference: Reference = "list") -> Floats:
    """In random order every prefix has the mean of the list on average."""
    return np.where(p.labelled > 0, 0.0, np.nan)


@metric(Card(
    name="output_bias", symbol="OB", title="Mean of a number near the top", needs=Placement,
    span=(-math.inf, math.inf), ideal=math.nan, better="",
    asks="What is the mean of a number in what is seen, if every prefix of the list is as likely to be all that is read?",
    undefined=WHEN, otherwise="no_labelled_items",
    says="Output bias: {estimate:number} on average over {units}{interval}[; random order would give {chance:number}].",
    formula=r"\mathrm{OB}(r) = \frac1r \sum_{i=1}^{r} \frac1i \sum_{j \le i} s_j", example="[1, 0, -1] -> 0.5",
    variants=("Chance is the input bias: the mean of the whole list.",),
    references=("kulshrestha2019",), per="ranking", family=FAMILY, reads=frozenset({"labels"}),
))  # fmt: skip
def output_bias(p: Placement, *, reference: Reference = "list") -> Floats:
    """Mean over prefixes of the mean label of each.

    >>> output_bias([1, 0, -1])
    0.5
    """
    return np.asarray(ranking_bias.on(p) + _list_means(p))


@output_bias.chance
def _(p: Placement, *, reference: Reference = "list") -> Floats:
    """In random order: the mean of the whole list."""
    return _list_means(p)


def _list_means(p: Placement) -> Floats:
    return np.asarray(
        np.divide(p.counts @ label_numbers(p), p.labelled, out=np.full(len(p), np.nan), where=p.labelled > 0)
    )
