"""What was asked for: metrics with the attention and target that hold for each, and what must be added up for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evenhand import metrics as _all_metrics  # noqa: F401  (fills the registry)
from evenhand.attention import Attention, parse
from evenhand.cards import Ask, asks, needing
from evenhand.engine.attending import Look
from evenhand.engine.exposures import Wanted
from evenhand.errors import EvenhandError, listing
from evenhand.metrics.representation import Represented
from evenhand.tallies.exposure import Amortised, Exposed, Exposure, target_shares
from evenhand.tallies.placement import Placement

TWO_SIDED = frozenset({"dp", "log_dp", "eur", "log_eur", "rur", "log_rur"})
BY_UTILITY = frozenset({"eur", "log_eur", "rur", "log_rur"})
BY_TARGET = frozenset({"eel", "eer", "target_norm"})
EXPECTED = frozenset({"eed", *BY_TARGET})

ALWAYS = ("awrf", "log_dp", "log_dp(per_item=True)", "eed")
WITH_RELEVANCE = ("log_eur", "eel", "eer")


@dataclass(frozen=True)
class Asked:
    """A metric as asked for, with the attention and target that hold for it."""

    ask: Ask
    look: Look
    target: Any

    @property
    def name(self) -> str:
        return self.ask.card.name

    @property
    def placed(self) -> bool:
        """Whether the metric reads labels in rank order, not attention."""
        return issubclass(self.ask.card.needs, Placement)

    @property
    def item_level(self) -> bool:
        return bool(self.ask.params.get("level", "group") == "item")

    @property
    def norms(self) -> Any:
        """Which norms of each request the metric needs, if any."""
        if self.name not in EXPECTED:
            return None
        if self.item_level:
            return "item"
        return "group" if self.ask.params.get("aggregate") == "per_request" or self.ask.params.get("unbiased") else None

    @property
    def needs_relevance(self) -> bool:
        by_attention = not self.placed and self.look.attention.needs_relevance
        return (
            self.name in BY_UTILITY | BY_TARGET or by_attention or (self.name == "awrf" and self.target == "relevant")
        )


def asked_for(
    metrics: str | Sequence[str] | None, attention: Attention | None, target: Any, *, relevance: bool, protected: bool
) -> list[Asked]:
    """The metrics asked for, or those that the input allows."""
    if metrics is None:
        metrics = [
            m for m in (*ALWAYS, *(WITH_RELEVANCE if relevance else ())) if protected or not m.startswith("log_")
        ]
    parsed = asks(metrics, needing(Exposed, Exposure, Amortised, Placement, Represented))
    found = [_asked(a, attention, target) for a in parsed]
    lacking = [a.ask.text for a in found if a.needs_relevance]
    if lacking and not relevance:
        raise EvenhandError(f"metrics={lacking[0]!r} needs relevance. Pass relevance= with a table or a column.")
    return found


def _asked(ask: Ask, attention: Attention | None, target: Any) -> Asked:
    own = ask.params.get("attention")
    if own is None and attention is None and "attention" in ask.metric.parameters:
        own = ask.metric.parameters["attention"].default
    chosen = parse(own) if own is not None else attention or parse("uniform")
    aim = ask.params.get("target") if ask.card.name == "awrf" else None
    aim = target if aim is None else aim
    if isinstance(aim, dict):
        target_shares(aim, ())
    elif aim not in ("population", "equal", "ranking", "relevant"):
        raise EvenhandError(
            f"metrics={ask.text!r} names an unknown target. Use 'population', 'equal', 'ranking' or 'relevant'."
        )
    if ask.card.name in EXPECTED and ask.params.get("level") == "item" and ask.params.get("aggregate") == "before":
        raise EvenhandError(
            f"metrics={ask.text!r} cannot be taken before requests are joined. Leave aggregate out, or 'per_request'."
        )
    return Asked(ask, Look(chosen, ask.cutoff), aim)


def needs_sides(asked: Asked) -> bool:
    """Whether the metric compares the protected group with another one."""
    return asked.name in TWO_SIDED


def needs_score(asked: Sequence[Asked]) -> bool:
    return any(a.ask.card.needs is Amortised for a in asked)


def hard_only(asked: Sequence[Asked]) -> list[str]:
    """Metrics that need one label per item."""
    soft_fine = {"ndjs", "pref_kl"}
    return [a.ask.text for a in asked if a.name in BY_UTILITY or (a.placed and a.name not in soft_fine)]


def wanted_by(asked: Sequence[Asked]) -> Wanted:
    """The sums that these metrics need."""
    summed = [a for a in asked if not a.placed]
    looks = tuple(dict.fromkeys(a.look for a in summed))
    if not looks:
        looks = (Look(parse("geometric(stop=0.5)")),)
    return Wanted(
        looks,
        gained=frozenset(a.look for a in summed if a.name in ("rur", "log_rur")),
        due=frozenset(a.look for a in summed if a.name in BY_TARGET),
        items=frozenset(a.look for a in summed if a.name in EXPECTED and a.item_level),
        scores=needs_score(asked),
        judged=any(a.name in BY_UTILITY | BY_TARGET or a.target == "relevant" for a in summed),
    )


def texts(asked: Sequence[Asked]) -> str:
    return listing(a.ask.text for a in asked)
