"""What becomes of unlabelled items and who is on which side; the exposure that metrics read, made from sums by group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from evenhand.cards import Floats
from evenhand.errors import EvenhandError
from evenhand.tallies.exposure import Amortised, Exposed, Exposure
from evenhand.tallies.group_exposure import AttentionSpec, GroupExposure

Unknown = Literal["drop", "group", "unprotected", "raise"]
UNKNOWN_LABEL = "unknown"


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


def exposed(sums: GroupExposure, policy: Policy, attention: AttentionSpec, target: Floats) -> Exposed:
    """One row per ranking, for metrics of single rankings; `target` is (G,), (Q, G) or (R, G)."""
    aim = target[sums.request_of] if target.ndim == 2 and len(target) == len(sums.requests) else target
    items = sums.items.sum(-1)
    return Exposed(policy.settled(sums.attended[attention]), aim, items, policy.protected, policy.labels)


def exposure(
    sums: GroupExposure, policy: Policy, attention: AttentionSpec, sizes: Floats, norms: Literal["group", "item"] | None = None,
    shares: Floats | None = None,
) -> Exposure:  # fmt: skip
    """One row per request, weights applied: what a resample of requests adds up.

    `norms` are those of each request. With `shares` (G,) a group is due its share of all labelled exposure of the request,
    not what relevance says.
    """
    w = sums.weight[:, None]
    received = sums.expected(policy.settled(sums.attended[attention]))
    due = policy.settled(sums.due[attention]) if attention in sums.due else None
    if shares is not None:
        due = received.sum(-1, keepdims=True) * shares
    squares = None
    if norms is not None:
        each = _item_norms(sums, attention) if norms == "item" else _group_norms(sums, policy, attention, received, due)
        squares = np.column_stack([w * each, sums.weight**2 * each[:, 3]])
    return Exposure(
        weight=sums.weight,
        received=w * received,
        utility=None if sums.worth is None else w * policy.settled(sums.worth),
        gained=w * sums.expected(policy.settled(sums.gained[attention])) if attention in sums.gained else None,
        due=None if due is None else w * due,
        norms=squares,
        sizes=policy.settled(sizes),
        protected=policy.protected,
        versus=policy.versus,
    )


def _group_norms(
    sums: GroupExposure, policy: Policy, attention: AttentionSpec, received: Floats, due: Floats | None
) -> Floats:
    """(Q, 4) |e|^2, e.e*, |e*|^2 over groups, and what few draws add to the first."""
    target = np.zeros_like(received) if due is None else due
    own = sums.expected((policy.settled(sums.attended[attention]) ** 2).sum(-1))
    square = (received**2).sum(-1)
    return np.column_stack([square, (received * target).sum(-1), (target**2).sum(-1), _excess(sums, own - square)])


def _item_norms(sums: GroupExposure, attention: AttentionSpec) -> Floats:
    """(Q, 4) the same over items."""
    norms = sums.norms[attention]
    square, product = norms[:, 0] / sums.mass**2, norms[:, 1] / sums.mass
    own = norms[:, 2] / sums.mass  # with equal probabilities of 1: the mean over draws of a draw's square
    target = sums.due_norms.get(attention, np.zeros(len(sums.requests)))
    return np.column_stack([square, product, target, _excess(sums, own - square)])


def _excess(sums: GroupExposure, spread: Floats) -> Floats:
    """(Q,) how much |e|^2 of a mean of S draws exceeds that of the policy, on average: the variance over S.

    Draws with known probabilities are the policy itself, and exceed nothing. A single draw says nothing: NaN.
    """
    if sums.known_probability:
        return np.zeros_like(spread)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(sums.draws > 1, spread / (sums.draws - 1), np.nan)


def amortised(sums: GroupExposure, policy: Policy, attention: AttentionSpec, *, pooled: bool) -> Amortised:
    """One row per request: attention and predicted utility of groups, as shares of each ranking unless `pooled`."""
    received, utility = policy.settled(sums.attended[attention]), policy.settled(sums.scores)  # type: ignore[arg-type]
    shown = bool(sums.attended[attention].any())
    if not pooled:
        with np.errstate(divide="ignore", invalid="ignore"):
            received = received / received.sum(-1, keepdims=True)
            utility = utility / utility.sum(-1, keepdims=True)
        whole = np.isfinite(received).all(-1) & np.isfinite(utility).all(-1)
        received, utility = (np.where(whole[:, None], x, 0.0) for x in (received, utility))
    w = sums.weight[:, None]
    return Amortised(w * sums.expected(received), w * sums.expected(utility), shown)


def targets(sums: GroupExposure, policy: Policy, target: Any, sizes: Floats) -> Floats:
    """Shares to aim at: (G,) for the population, equality or given shares, (R, G) for each list's, (Q, G) for the relevant."""
    with np.errstate(divide="ignore", invalid="ignore"):
        if isinstance(target, Mapping):
            return np.array([float(target.get(g, 0.0)) for g in policy.labels])
        if target == "equal":
            return np.full(len(policy.labels), 1 / max(1, len(policy.labels)))
        if target == "population":
            amounts = policy.settled(sizes)
        elif target == "ranking":
            amounts = policy.settled(sums.items)
        else:
            amounts = policy.settled(sums.relevant)  # type: ignore[arg-type]
        return np.asarray(amounts / amounts.sum(-1, keepdims=True))


def unlabelled(sums: GroupExposure, attention: AttentionSpec, part: slice) -> float:
    """Share of all attention in a slice that went to items without a label."""
    attended = sums.expected(sums.attended[attention])[part] * sums.weight[part][:, None]
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
