"""The ledger: sums per ranking, request and group, and the tallies of exposure that metrics read, made from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from evenhand.attention import Attention
from evenhand.cards import Floats
from evenhand.errors import EvenhandError
from evenhand.tallies.exposure import Amortised, Exposed, Exposure
from evenhand.tallies.requests import Requests

Ints = npt.NDArray[np.int64]
Unknown = Literal["drop", "group", "unprotected", "raise"]
UNKNOWN_LABEL = "unknown"


@dataclass(frozen=True)
class Look:
    """How far down and how closely readers look: a browsing model, and the rank at which a metric cuts."""

    attention: Attention
    cutoff: int | None = None

    def __str__(self) -> str:
        return str(self.attention) if self.cutoff is None else f"{self.attention}@{self.cutoff}"


@dataclass(frozen=True)
class Ledger:
    """Sums per ranking and group, rankings within requests within slices.

    The last column of every (R, G + 1) and (Q, G + 1) array belongs to items without a label.

    Attributes
    ----------
    slices : labels of the slices; slice s holds requests slice_starts[s] to slice_starts[s + 1].
    requests : (Q,) ids; request q holds rankings request_starts[q] to request_starts[q + 1].
    probability : (R,) of each draw, as given; weight : (Q,) of each request.
    labels : names of the G groups.
    items : (R, G + 1) number of items. attended, gained : by look, attention and attention times relevance.
    scores : predicted utility.
    judged : (Q,) whether anybody judged an item of the request; None where judgments were not asked for.
    worth, relevant, due : (Q, G + 1) what is judged; due_norms : (Q,) by look, squared target exposure over items.
    norms : (Q, 3) by look, |e|^2, e.e* and the draws' own squares, over items.
    """

    slices: list[tuple[Any, ...]]
    slice_starts: Ints
    requests: Any
    request_starts: Ints
    probability: Floats
    weight: Floats
    known_probability: bool
    labels: tuple[Any, ...]
    items: Floats
    attended: Mapping[Look, Floats]
    samples: Any = None
    gained: Mapping[Look, Floats] = field(default_factory=dict)
    scores: Floats | None = None
    judged: npt.NDArray[np.bool_] | None = None
    worth: Floats | None = None
    relevant: Floats | None = None
    due: Mapping[Look, Floats] = field(default_factory=dict)
    due_norms: Mapping[Look, Floats] = field(default_factory=dict)
    norms: Mapping[Look, Floats] = field(default_factory=dict)

    def of_judged(self) -> Ledger:
        """The same ledger with no weight on requests that nobody judged: what an ideal policy would do there is unknown."""
        return self if self.judged is None else replace(self, weight=np.where(self.judged, self.weight, 0.0))

    @property
    def within(self) -> Requests:
        """The requests within their slices, as every ranking audit has them."""
        return Requests(self.slices, self.slice_starts, self.requests)

    @cached_property
    def request_of(self) -> Ints:
        """(R,) the request of each ranking."""
        return np.repeat(np.arange(len(self.requests)), np.diff(self.request_starts))

    @cached_property
    def draws(self) -> Ints:
        """(Q,) rankings of each request."""
        return np.diff(self.request_starts)

    @cached_property
    def mass(self) -> Floats:
        """(Q,) what the probabilities of a request's rankings add up to."""
        return self.added(self.probability)

    @cached_property
    def share(self) -> Floats:
        """(R,) probability of each ranking given its request."""
        return np.asarray(self.probability / self.mass[self.request_of])

    def added(self, values: Floats) -> Floats:
        """Sums over the rankings of each request."""
        if not len(values):
            return np.zeros((0, *values.shape[1:]))
        return np.asarray(np.add.reduceat(values, self.request_starts[:-1], axis=0))

    def expected(self, values: Floats) -> Floats:
        """Means over the rankings of each request, by their probability."""
        share = self.share if values.ndim == 1 else self.share[:, None]
        return self.added(values * share)

    def part(self, s: int) -> slice:
        """Requests of a slice."""
        return slice(int(self.slice_starts[s]), int(self.slice_starts[s + 1]))

    def rankings_of(self, part: slice) -> slice:
        """Rankings of a run of requests."""
        return slice(int(self.request_starts[part.start]), int(self.request_starts[part.stop]))


@dataclass(frozen=True)
class Policy:
    """What becomes of unlabelled items, and who stands on which side.

    Attributes
    ----------
    labels : the groups that metrics see.
    protected, versus : indices into them; None where no side was named.
    onto : index of the group that unlabelled items count in, or None when they are left out.
    """

    unknown: Unknown
    labels: tuple[Any, ...]
    protected: tuple[int, ...] | None
    versus: tuple[int, ...] | None
    onto: int | None

    def settled(self, values: Floats) -> Floats:
        """(..., G) from (..., G + 1): the last column, of the unknown, dropped, kept or given to a side."""
        if self.unknown == "group":
            return values
        known = values[..., :-1]
        if self.onto is None:
            return known
        known = known.copy()
        known[..., self.onto] += values[..., -1]
        return known


def exposed(ledger: Ledger, policy: Policy, look: Look, target: Floats) -> Exposed:
    """One row per ranking, for metrics of single rankings; `target` is (G,), (Q, G) or (R, G)."""
    wanted = target[ledger.request_of] if target.ndim == 2 and len(target) == len(ledger.requests) else target
    items = ledger.items.sum(-1)
    return Exposed(policy.settled(ledger.attended[look]), wanted, items, policy.protected, policy.labels)


def exposure(
    ledger: Ledger, policy: Policy, look: Look, sizes: Floats, norms: Literal["group", "item"] | None = None,
    shares: Floats | None = None,
) -> Exposure:  # fmt: skip
    """One row per request, weights applied: what a resample of requests adds up.

    `norms` are those of each request. With `shares` (G,) a group is due its share of all labelled exposure of the request,
    not what relevance says.
    """
    w = ledger.weight[:, None]
    received = ledger.expected(policy.settled(ledger.attended[look]))
    due = policy.settled(ledger.due[look]) if look in ledger.due else None
    if shares is not None:
        due = received.sum(-1, keepdims=True) * shares
    found = None
    if norms is not None:
        each = _item_norms(ledger, look) if norms == "item" else _group_norms(ledger, policy, look, received, due)
        found = np.column_stack([w * each, ledger.weight**2 * each[:, 3]])
    return Exposure(
        weight=ledger.weight,
        received=w * received,
        utility=None if ledger.worth is None else w * policy.settled(ledger.worth),
        gained=w * ledger.expected(policy.settled(ledger.gained[look])) if look in ledger.gained else None,
        due=None if due is None else w * due,
        norms=found,
        sizes=policy.settled(sizes),
        protected=policy.protected,
        versus=policy.versus,
    )


def _group_norms(ledger: Ledger, policy: Policy, look: Look, received: Floats, due: Floats | None) -> Floats:
    """(Q, 4) |e|^2, e.e*, |e*|^2 over groups, and what few draws add to the first."""
    target = np.zeros_like(received) if due is None else due
    own = ledger.expected((policy.settled(ledger.attended[look]) ** 2).sum(-1))
    square = (received**2).sum(-1)
    return np.column_stack([square, (received * target).sum(-1), (target**2).sum(-1), _excess(ledger, own - square)])


def _item_norms(ledger: Ledger, look: Look) -> Floats:
    """(Q, 4) the same over items."""
    found = ledger.norms[look]
    square, product = found[:, 0] / ledger.mass**2, found[:, 1] / ledger.mass
    own = found[:, 2] / ledger.mass  # with equal probabilities of 1: the mean over draws of a draw's square
    target = ledger.due_norms.get(look, np.zeros(len(ledger.requests)))
    return np.column_stack([square, product, target, _excess(ledger, own - square)])


def _excess(ledger: Ledger, spread: Floats) -> Floats:
    """(Q,) how much |e|^2 of a mean of S draws exceeds that of the policy, on average: the variance over S.

    Draws with known probabilities are the policy itself, and exceed nothing. A single draw says nothing: NaN.
    """
    if ledger.known_probability:
        return np.zeros_like(spread)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(ledger.draws > 1, spread / (ledger.draws - 1), np.nan)


def amortised(ledger: Ledger, policy: Policy, look: Look, *, pooled: bool) -> Amortised:
    """One row per request: attention and predicted utility of groups, as shares of each ranking unless `pooled`."""
    attention, utility = policy.settled(ledger.attended[look]), policy.settled(ledger.scores)  # type: ignore[arg-type]
    shown = bool(ledger.attended[look].any())
    if not pooled:
        with np.errstate(divide="ignore", invalid="ignore"):
            attention = attention / attention.sum(-1, keepdims=True)
            utility = utility / utility.sum(-1, keepdims=True)
        whole = np.isfinite(attention).all(-1) & np.isfinite(utility).all(-1)
        attention, utility = (np.where(whole[:, None], x, 0.0) for x in (attention, utility))
    w = ledger.weight[:, None]
    return Amortised(w * ledger.expected(attention), w * ledger.expected(utility), shown)


def targets(ledger: Ledger, policy: Policy, target: Any, sizes: Floats) -> Floats:
    """Shares to aim at: (G,) for the population, equality or given shares, (R, G) for each list's, (Q, G) for the relevant."""
    with np.errstate(divide="ignore", invalid="ignore"):
        if isinstance(target, Mapping):
            return np.array([float(target.get(g, 0.0)) for g in policy.labels])
        if target == "equal":
            return np.full(len(policy.labels), 1 / max(1, len(policy.labels)))
        if target == "population":
            found = policy.settled(sizes)
        elif target == "ranking":
            found = policy.settled(ledger.items)
        else:
            found = policy.settled(ledger.relevant)  # type: ignore[arg-type]
        return np.asarray(found / found.sum(-1, keepdims=True))


def unlabelled(ledger: Ledger, look: Look, part: slice) -> float:
    """Share of all attention in a slice that went to items without a label."""
    attended = ledger.expected(ledger.attended[look])[part] * ledger.weight[part][:, None]
    total = attended.sum()
    return float(attended[:, -1].sum() / total) if total else 0.0


def policy_for(
    unknown: Unknown, labels: Sequence[Any], protected: tuple[int, ...] | None, versus: tuple[int, ...] | None
) -> Policy:
    """Settle what happens to the unknown, given the sides."""
    if unknown == "group":
        return Policy(unknown, (*labels, UNKNOWN_LABEL), protected, versus, None)
    if unknown != "unprotected":
        return Policy(unknown, tuple(labels), protected, versus, None)
    if protected is None or versus is None or len(versus) != 1:
        raise EvenhandError(
            "unknown='unprotected' needs to know which group that is. Pass protected=, and versus= where several groups are left."
        )
    return Policy(unknown, tuple(labels), protected, versus, versus[0])
