"""Metrics that read the order of labels, prefix metrics and fair, through the door of exposure."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from evenhand.audits.exposure_asks import Asked
from evenhand.audits.exposure_measures import Measure, of_rankings
from evenhand.cards import Floats
from evenhand.engine.ledgers import Ledger, Policy, targets
from evenhand.engine.placements import UNKNOWN_LABEL, tally_placements
from evenhand.engine.prepared import Prepared
from evenhand.errors import EvenhandError
from evenhand.metrics.prefix import template_of
from evenhand.metrics.representation import Represented, fair_chance
from evenhand.tallies.placement import UNKNOWN, Placement


class Placer:
    """Labels in rank order for the rankings of a ledger, made once and only if somebody asks."""

    def __init__(self, ready: Prepared, ledger: Ledger, policy: Policy, sizes: Floats) -> None:
        self.ready, self.ledger, self.policy, self.sizes = ready, ledger, policy, sizes

    @cached_property
    def placement(self) -> Placement:
        rows, policy = self.ready.rows, self.policy
        view = replace(self.ready.view, lazy=rows.listed)
        unknown = "group" if policy.unknown == "unprotected" else policy.unknown
        placed = tally_placements(
            view, self.ready.aligned, unknown, groups=self.ledger.labels, some_labelled=False
        ).placement
        if policy.onto is not None:
            placed = _merged(placed, UNKNOWN_LABEL, policy.labels[policy.onto])
        lengths = np.zeros(len(self.ledger.probability), dtype=np.int64)  # also of lists that hold no item
        lengths[self.ledger.items.sum(-1) > 0] = placed.lengths
        placed = replace(placed, starts=np.concatenate([[0], np.cumsum(lengths)]))
        sides = None if policy.protected is None else [policy.labels[i] for i in policy.protected]
        return placed.protecting(sides or None)

    def measure(self, asked: Asked, *, chance: bool) -> tuple[Measure, Floats]:
        """A metric of every ranking, and what a random order would give each."""
        p = self.placement if asked.look.cutoff is None else self.placement.cut(asked.look.cutoff)
        if asked.ask.card.needs is Represented:
            return self._fair(asked, p, chance=chance)
        template = template_of(asked.ask.metric, p, asked.ask.params)
        if template.difference.sided and p.protected is None:
            raise EvenhandError(
                f"metrics={asked.ask.text!r} compares two sides. Pass protected= with one label, or several."
            )
        scores = template.scores(p, chance=chance)
        measured = of_rankings(asked, self.ledger, scores.values, template.reasons(p, scores.values))
        return measured, scores.chances

    def _fair(self, asked: Asked, p: Placement, *, chance: bool) -> tuple[Measure, Floats]:
        if p.protected is None:
            raise EvenhandError(f"metrics={asked.ask.text!r} looks at one group. Pass protected= with its label.")
        share = asked.ask.params.get("p")
        share = self._target_share(asked) if share is None else share
        values = asked.ask.metric.on(p, **{**asked.ask.params, "p": share})
        without = np.where(p.sides().known > 0, "satisfied", "no_labelled_items")
        reasons = np.where(np.isnan(values), np.where(p.lengths == 0, "empty", without), "")
        chances = fair_chance(p, share) if chance and asked.name == "fair" else np.full(len(values), np.nan)
        return of_rankings(asked, self.ledger, values, reasons), chances

    def _target_share(self, asked: Asked) -> float:
        """The protected group's share of the target, where there is one target for all lists."""
        aim: Any = targets(self.ledger, self.policy, asked.target, self.sizes)
        if aim.ndim != 1:
            raise EvenhandError(
                f"metrics={asked.ask.text!r} needs one share for all lists. Write '{asked.name}(p=0.5)', or pass target= "
                "'population' or 'equal'."
            )
        return float(np.nan_to_num(aim[list(self.policy.protected or ())].sum()))


def _merged(placed: Placement, label: Any, into: Any) -> Placement:
    """The same rankings with the items of one label counted under another."""
    if label not in placed.groups:
        return placed
    groups = tuple(dict.fromkeys(into if g == label else g for g in placed.groups))
    code = np.array([groups.index(into if g == label else g) for g in placed.groups] + [UNKNOWN], dtype=np.int32)
    return replace(placed, codes=code[placed.codes], groups=groups)
