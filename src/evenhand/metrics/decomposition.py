"""Where inequality comes from: groups of units, sources of their amounts; and where a change of it comes from.

By group, the Gini index splits into within + between + overlap, generalised entropy into within + between, and the
Atkinson index multiplies: 1 - A = (1 - within)(1 - between). By source (Lerman and Yitzhaki 1985) each source has a
contribution to the Gini index, and contributions add up to it.

A change is taken apart by Shapley values. Between two occasions lie worlds in which some players (kinds of units, groups,
sources) already have their later amounts and the others still their earlier ones. A player's part is the mean of what it
adds when players switch in random order.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal, get_args

import numpy as np

from evenhand.cards import Floats, Metric, MetricSpec
from evenhand.errors import EvenhandError, UndefinedWarning, unknown_name
from evenhand.metrics.inequality import atkinson, generalized_entropy, gini, theil
from evenhand.tallies.paired_amounts import Changes, side_of
from evenhand.tallies.ragged import Bools, Ints
from evenhand.tallies.sources import Ladder, Partition, Sources
from evenhand.tallies.spectrum import Spectra, Spectrum

Index = Literal["gini", "theil", "ge", "atkinson"]
INDICES: dict[str, Metric] = {"gini": gini, "theil": theil, "ge": generalized_entropy, "atkinson": atkinson}
TUNED = {"ge": "alpha", "atkinson": "epsilon"}
"""The one parameter that an index may take here."""


@dataclass(frozen=True, slots=True)
class Parts:
    """A decomposition by group as arrays: (...) for the whole, (..., G) for the groups. Leading axes are replicates."""

    total: Floats
    within: Floats
    between: Floats
    overlap: Floats
    index: Floats
    share: Floats
    population_share: Floats


@dataclass(frozen=True, slots=True)
class GroupPart:
    """One group: its own index, its share of the total and of the units."""

    index: float
    share: float
    population_share: float


@dataclass(frozen=True, slots=True)
class Decomposition:
    """How much of an index lies within groups and how much between them.

    `overlap` is what is left of the Gini index where the groups' ranges interleave; the other indices have none (0).
    """

    total: float
    within: float
    between: float
    overlap: float
    groups: Mapping[Any, GroupPart]


def decompose(x: Any, groups: Any, *, index: Index = "gini", weights: Any = None, **params: Any) -> Decomposition:
    """Split inequality into what lies within groups and what lies between them.

    `index="ge"` takes `alpha`, `index="atkinson"` takes `epsilon`.

    >>> found = decompose([1, 1, 3, 3], ["a", "a", "b", "b"])
    >>> found.total, found.within, found.between, found.overlap
    (0.25, 0.0, 0.25, 0.0)
    """
    chosen = checked_index(index, params)
    tally = Partition.from_arrays(x, groups, weights)
    figures = parts(tally, chosen, **params)
    if math.isnan(figures.total):
        code = tally.reason()
        warnings.warn(UndefinedWarning(f"The {index} index is undefined: {code}.", code), stacklevel=2)
    by_group = np.transpose([figures.index, figures.share, figures.population_share]).tolist()
    group_parts = {label: GroupPart(*part) for label, part in zip(tally.groups, by_group, strict=True)}
    total, within, between, overlap = map(float, (figures.total, figures.within, figures.between, figures.overlap))
    return Decomposition(total, within, between, overlap, group_parts)


def checked_index(index: str, params: Mapping[str, Any]) -> Index:
    if not isinstance(index, str) or index not in get_args(Index):
        raise unknown_name("index", str(index), list(INDICES), what="an index that decomposes")
    for name in params:
        if name != TUNED.get(index):
            takes = f"It takes {TUNED[index]}" if index in TUNED else "It takes no parameter"
            raise EvenhandError(f"index={index!r} has no parameter {name!r} in a decomposition. {takes}.")
    INDICES[index].checked(params)
    return index  # type: ignore[return-value]


def parts(p: Partition, index: Index, **params: float) -> Parts:
    """The decomposition of one partition, or of many replicates of it at once."""
    metric = INDICES[index]
    group_index, sizes, totals = _per_group(p, metric, params)
    size, total = sizes.sum(-1, keepdims=True), totals.sum(-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        share, population_share = totals / total, sizes / size
        means = np.where(sizes > 0, totals / sizes, 0.0)
        whole = metric.on(p.pooled, **params)
        if index == "gini":
            within = _summed(population_share * share * group_index, totals > 0)
            between = gini.on(_at_means(means, sizes))
            overlap = np.maximum(whole - within - between, 0.0)
        elif index == "atkinson":
            within = _summed(share * group_index, totals > 0)
            between = atkinson.on(_at_means(np.where(totals > 0, means * (1 - group_index), 0.0), sizes), **params)
            overlap = np.zeros_like(whole)
        else:
            alpha = params.get("alpha", 1.0)
            within = _summed(population_share ** (1 - alpha) * share**alpha * group_index, totals > 0)
            if alpha <= 0:
                within = np.where(((sizes > 0) & (totals == 0)).any(-1), np.inf, within)
            between = generalized_entropy.on(_at_means(means, sizes), alpha=alpha)
            overlap = np.zeros_like(whole)
    undefined = np.isnan(whole)
    within, between, overlap = (np.where(undefined, np.nan, part) for part in (within, between, overlap))
    return Parts(whole, within, between, overlap, group_index, share, population_share)


def _per_group(p: Partition, metric: Metric, params: Mapping[str, float]) -> tuple[Floats, Floats, Floats]:
    """Each group's index, size and total: (..., G)."""
    group_index, sizes, totals = np.zeros((3, *p.counts.shape[:-1], len(p)))
    if p.counts.ndim == 1:  # groups of similar width at a time: there may be many
        batches: Iterable[tuple[Any, Spectrum]] = Spectra(p.values, p.counts, p.starts, p.weights).batches(1 << 17)
    else:
        batches = ((g, p[g]) for g in range(len(p)))
    for at, s in batches:
        group_index[..., at], sizes[..., at], totals[..., at] = metric.on(s, **params), s.size, s.total
    return group_index, sizes, totals


def _summed(terms: Floats, counts: Any) -> Floats:
    """Sum over groups; one that received nothing has no index of its own and adds nothing."""
    return np.asarray(np.where(counts, terms, 0.0).sum(-1))


def _at_means(means: Floats, sizes: Floats) -> Spectrum:
    """Everybody at the value of their group."""
    order = np.argsort(means, axis=-1, kind="stable")
    return Spectrum(np.take_along_axis(means, order, -1), np.take_along_axis(sizes, order, -1))


def parts_influence(p: Partition, figures: Parts, index: Index, **params: float) -> dict[str, Floats]:
    """(C,) influence of a unit on total, within, between and overlap, up to a constant."""
    metric, g = INDICES[index], p.cell_group
    mean = float(p.pooled.total / p.pooled.size)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        total = p.unpooled(np.asarray(metric.linearised(p.pooled, figures.total, params)))
        inside: Any = [metric.linearised(p[i], figures.index[i], params) for i in range(len(p))]
        moves = {"total": total, "within": _within_moves(p, figures, index, np.concatenate(inside), params)}
        if index == "gini":
            moves["between"] = _between_gini_moves(figures, g, p.values, mean)
            moves["overlap"] = total - moves["within"] - moves["between"]
        elif index == "atkinson":
            equal_within = 1 - figures.within
            moves["between"] = total / equal_within - (1 - figures.total) * moves["within"] / equal_within**2
        else:
            moves["between"] = total - moves["within"]
    return moves


def _within_moves(p: Partition, figures: Parts, index: Index, own_moves: Floats, params: Mapping[str, float]) -> Floats:
    """A unit moves the weight of its group, its group's share, and its group's own index."""
    g, relative = p.cell_group, p.values / (p.pooled.total / p.pooled.size)
    group_index, share, people = figures.index[g], figures.share[g], figures.population_share[g]
    if index == "gini":
        moves = group_index * (share + people * relative) + share * own_moves
        fades = figures.within * (1 + relative)
    else:
        alpha = 1.0 if index in ("theil", "atkinson") else params.get("alpha", 1.0)
        ratio = share / people
        weight_moves = (1 - alpha) * ratio**alpha + alpha * ratio ** (alpha - 1) * relative
        moves = group_index * weight_moves + ratio**alpha * own_moves
        fades = figures.within * (1 - alpha + alpha * relative)
    return np.where(share > 0, moves, 0.0) - fades


def _between_gini_moves(figures: Parts, g: Any, x: Floats, mean: float) -> Floats:
    """The Gini index of group means moves with who is in which group and with each group's mean."""
    people = figures.population_share
    means = np.where(people > 0, figures.share / people, 0.0) * mean
    distinct, at = np.unique(means, return_inverse=True)
    mass = np.bincount(at, people)
    below, amount_below = np.cumsum(mass), np.cumsum(mass * distinct)
    rank = 2 * below - mass - 1  # 2 F - 1
    joins = (2 * (distinct * below - amount_below) - (figures.between + 1) * distinct) / mean
    moves: Floats = joins[at[g]] + (rank[at[g]] - figures.between) * (x - means[g]) / mean
    return moves


@dataclass(frozen=True, slots=True)
class SourceParts:
    """A decomposition by source as arrays: (...) for the whole, (..., K) for the sources."""

    gini: Floats
    share: Floats
    own_gini: Floats
    correlation: Floats
    contribution: Floats
    contribution_share: Floats
    marginal: Floats


@dataclass(frozen=True, slots=True)
class SourcePart:
    """What one source does to the Gini index.

    `contribution` = share x gini x correlation is its part of the index; `marginal` says what more of it would do:
    scaling the source up by 1% moves the index by 1% of `marginal`, and a negative one equalises.
    """

    share: float
    gini: float
    correlation: float
    contribution: float
    marginal: float


@dataclass(frozen=True, slots=True)
class SourceDecomposition:
    """The Gini index of units' totals, and what each source does to it; contributions add up to `total`."""

    total: float
    sources: Mapping[Any, SourcePart]


def decompose_sources(sources: Mapping[Any, Any]) -> SourceDecomposition:
    """Contribution of each source to the Gini index of units' totals (Lerman and Yitzhaki).

    >>> found = decompose_sources({"in_network": [1, 2, 3, 0], "out_of_network": [0, 0, 1, 9]})
    >>> found.total, found.sources["out_of_network"].contribution
    (0.40625, 0.4375)
    """
    tally = Sources.from_arrays(sources)
    figures = source_parts(tally)
    if math.isnan(figures.gini):
        code = tally.reason()
        warnings.warn(UndefinedWarning(f"The Gini index is undefined: {code}.", code), stacklevel=2)
    columns = (figures.share, figures.own_gini, figures.correlation, figures.contribution, figures.marginal)
    parts = (SourcePart(*row) for row in np.transpose(columns).tolist())
    return SourceDecomposition(float(figures.gini), dict(zip(tally.names, parts, strict=True)))


def source_parts(s: Sources) -> SourceParts:
    r"""The decomposition by source of one population, or of many replicates at once.

    .. math:: C_k = \frac{2\,\mathrm{cov}(x_k, F)}{\mu} = S_k G_k R_k,\quad
              R_k = \frac{\mathrm{cov}(x_k, F)}{\mathrm{cov}(x_k, F_k)},\quad M_k = C_k - S_k G

    F is the mid-rank of the unit's total over n, F_k that of its amount from source k.
    """
    units = s.units[..., None]
    amounts = _over_units(s, s.counts)
    tilted = _over_units(s, s.counts * _distance(s.counts, s.by_total))
    ranked_amounts = [
        (s.counts * _distance(s.counts, rungs) * s.amounts[:, k]).sum(-1) for k, rungs in enumerate(s.by_source)
    ]
    own_tilted = np.stack(ranked_amounts, axis=-1)
    total = amounts.sum(-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        share, own_gini = amounts / total, own_tilted / (units * amounts)
        contribution = np.where(own_tilted > 0, tilted, 0.0) / (units * total)
        correlation = np.where(own_tilted > 0, tilted / own_tilted, np.nan)
        index = contribution.sum(-1, keepdims=True)
        part = contribution / np.where(index > 0, index, np.nan)
    return SourceParts(index[..., 0], share, own_gini, correlation, contribution, part, contribution - share * index)


def _over_units(s: Sources, mass: Floats) -> Floats:
    """Sum over cells of a mass times the amount from each source: (..., K)."""
    return np.stack([(mass * s.amounts[:, k]).sum(-1) for k in range(len(s))], axis=-1)


def _distance(counts: Floats, rungs: Ladder) -> Floats:
    """Units below a cell's amount minus units above it: 2 n (F - 1/2), a whole number."""
    if not len(rungs.steps):
        return np.zeros_like(counts)
    mass = np.add.reduceat(counts[..., rungs.order], rungs.steps, axis=-1)
    reach = np.cumsum(mass, axis=-1)
    out = np.empty_like(counts)
    out[..., rungs.order] = (2 * reach - mass - reach[..., -1:])[..., rungs.step]
    return out


def source_influence(s: Sources, figures: SourceParts) -> dict[str, Floats]:
    """(..., C) or (..., C, K) influence of a unit on every figure, up to a constant."""
    moves = influence_by_total(s, figures)
    share, own_gini, correlation = (f[..., None, :] for f in (figures.share, figures.own_gini, figures.correlation))
    with np.errstate(divide="ignore", invalid="ignore"):
        means = (_over_units(s, s.counts) / s.units[..., None])[..., None, :]
        own_moved = [
            _rank_moves(s, s.amounts[:, k], rungs, _distance(s.counts, rungs)) for k, rungs in enumerate(s.by_source)
        ]
        moves["own_gini"] = (np.stack(own_moved, axis=-1) - own_gini * s.amounts) / means
        product = share * moves["own_gini"] + own_gini * moves["share"]
        moves["correlation"] = (moves["contribution"] - correlation * product) / (share * own_gini)
    return moves


def influence_by_total(s: Sources, figures: SourceParts) -> dict[str, Floats]:
    """Influence on the figures that rank units by their totals only."""
    distance, totals = _distance(s.counts, s.by_total), s.totals[:, None]
    share, contribution, part = (
        f[..., None, :] for f in (figures.share, figures.contribution, figures.contribution_share)
    )
    gini = figures.gini[..., None, None]
    moved = np.stack([_rank_moves(s, x, s.by_total, distance) for x in s.amounts.T], axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = (_over_units(s, s.counts).sum(-1) / s.units)[..., None, None]
        of_index = (moved.sum(-1, keepdims=True) - gini * totals) / mean
        of_share = (s.amounts - share * totals) / mean
        moves = (moved - contribution * totals) / mean
        return {
            "gini": of_index[..., 0], "share": of_share, "contribution": moves,
            "contribution_share": (moves - part * of_index) / gini,
            "marginal": moves - share * of_index - gini * of_share,
        }  # fmt: skip


def _rank_moves(s: Sources, x: Floats, rungs: Ladder, distance: Floats) -> Floats:
    """Influence of a unit on 2 cov(x, F), by its own term and by the ranks of others."""
    amounts = np.add.reduceat((s.counts * x)[..., rungs.order], rungs.steps, axis=-1)
    above = np.empty_like(distance)
    above[..., rungs.order] = (amounts.sum(-1, keepdims=True) - np.cumsum(amounts, axis=-1) + amounts / 2)[
        ..., rungs.step
    ]
    return (x * distance + 2 * above) / s.units[..., None]


def marginal_tilt(s: Sources, figures: SourceParts) -> Floats:
    """(C,) what an amount of a unit adds to the marginal of the source that it comes from.

    It depends on the unit's total only, so an amount that changes sources within its unit moves two marginals and nothing else.

    >>> s = Sources.from_arrays({"a": [1, 2, 3, 0], "b": [0, 0, 1, 9]})
    >>> figures = source_parts(s)
    >>> bool(np.allclose(s.counts * marginal_tilt(s, figures) @ s.amounts, figures.marginal))
    True
    """
    units = float(s.units)
    return (_distance(s.counts, s.by_total) / units - float(figures.gini)) / (s.counts @ s.totals)


MOST_PLAYERS = 12
"""Players up to which all worlds are measured; beyond, random orders are walked."""

ORDERS = 200
"""Random orders where there are more players, each also walked backwards."""

EXACT = 4_000
"""Different amounts up to which each is left out once; of more, as many are, and between them the value is interpolated."""


@dataclass(frozen=True)
class Worlds:
    """Which players have switched in each world, and how much each world counts for each player's part.

    Attributes
    ----------
    switched : (worlds, players); the first world is the earlier occasion, the last one the later.
    shares : (players, worlds) of the Shapley value; they add up to -1 for the first world and 1 for the last.
    steps : (orders, players, 2) the worlds before and after each player switches; None where all worlds are measured.
    """

    switched: Bools
    shares: Floats
    steps: Ints | None = None

    @classmethod
    def between(cls, players: int, rng: np.random.Generator) -> Worlds:
        """All worlds of few players, those on random walks of many."""
        return cls._all(players) if players <= MOST_PLAYERS else cls._walked(players, rng)

    @classmethod
    def _all(cls, players: int) -> Worlds:
        sets = [set(s) for size in range(players + 1) for s in combinations(range(players), size)]
        switched = np.array([[i in s for i in range(players)] for s in sets], dtype=bool)
        size = switched.sum(1)
        factorial = np.array([math.factorial(n) for n in range(players + 1)], dtype=np.float64)
        joins = factorial[np.maximum(size - 1, 0)] * factorial[players - size] / factorial[players]
        stays = factorial[size] * factorial[np.maximum(players - size - 1, 0)] / factorial[players]
        return cls(switched, np.where(switched, joins[:, None], -stays[:, None]).T)

    @classmethod
    def _walked(cls, players: int, rng: np.random.Generator) -> Worlds:
        one_way = [rng.permutation(players) for _ in range(ORDERS)]
        orders = [order for forward in one_way for order in (forward, forward[::-1])]
        paths = np.zeros((len(orders), players + 1, players), dtype=bool)
        for k, order in enumerate(orders):
            for i, player in enumerate(order):
                paths[k, i + 1 :, player] = True
        switched, world = np.unique(paths.reshape(-1, players), axis=0, return_inverse=True)  # in order: none, ..., all
        world = world.reshape(len(orders), players + 1)
        steps = np.empty((len(orders), players, 2), dtype=np.int64)
        np.put_along_axis(steps[..., 0], np.array(orders), world[:, :-1], 1)
        np.put_along_axis(steps[..., 1], np.array(orders), world[:, 1:], 1)
        shares = np.zeros((players, len(switched)))
        for sign, at in ((-1.0, steps[..., 0]), (1.0, steps[..., 1])):
            np.add.at(shares, (np.arange(players)[None, :], at), sign / len(orders))
        return cls(switched, shares, steps)

    def sampling_error(self, values: Floats) -> Floats:
        """(players,) standard error of the parts because only some orders were walked; zero where all were."""
        if self.steps is None:
            return np.zeros(len(self.shares))
        gains = values[self.steps[..., 1]] - values[self.steps[..., 0]]
        return np.asarray(gains.reshape(ORDERS, 2, -1).mean(1).std(0, ddof=1) / math.sqrt(ORDERS))


def amounts_of_units(tally: Changes, code: Ints, worlds: Worlds) -> list[Floats]:
    """(C,) amounts in every world where players are sets of units, given the player of each cell."""
    before, after = tally.totals
    return [np.where(switched[code], after, before) for switched in worlds.switched]


def amounts_of_sources(tally: Changes, worlds: Worlds) -> list[Floats]:
    """(C,) amounts in every world where players are the sources."""
    return [np.where(switched, tally.after, tally.before).sum(-1) for switched in worlds.switched]


def values_without(values: Floats, counts: Floats, weights: Floats | None, spec: MetricSpec) -> Floats:
    """(C,) the metric without one unit of each cell.

    >>> from evenhand.cards import parse_metric
    >>> values_without(np.array([0.0, 1.0, 3.0]), np.ones(3), None, parse_metric("gini")).round(4).tolist()
    [0.25, 0.5, 0.5]
    """
    side = side_of(values, weights)
    whole = side.spectrum(counts)
    every = np.arange(len(whole.values))
    cells = every
    if len(every) > EXACT:
        spread = np.linspace(0, len(every) - 1, EXACT // 2).astype(np.int64)
        cells = np.unique(np.concatenate([spread, every[-EXACT // 2 :]]))  # the largest one by one
    without = np.empty(len(cells))
    step = max(1, (1 << 21) // len(every))
    for start in range(0, len(cells), step):
        at = cells[start : start + step]
        fewer = np.repeat(whole.counts[None], len(at), 0)
        fewer[np.arange(len(at)), at] -= 1
        without[start : start + step] = spec.on(Spectrum(whole.values, fewer, whole.weights))
    return np.interp(every, cells, without)[side.cell]


def largest_first(effects: Floats, counts: Floats, units: int) -> list[tuple[int, int]]:
    """Cells with the largest effects, and how many units of each, until there are so many units."""
    taken: list[tuple[int, int]] = []
    for cell in np.lexsort((np.arange(len(effects)), -np.abs(np.nan_to_num(effects)))).tolist():
        if units <= 0:
            break
        taken.append((cell, min(units, int(counts[cell]))))
        units -= taken[-1][1]
    return taken
