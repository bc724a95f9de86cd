"""What was asked for: metrics with the attention and target that hold for each, and what must be added up for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from evenhand import metrics as _all_metrics  # noqa: F401  (fills the registry)
from evenhand.attention import Attention, parse
from evenhand.cards import MetricSpec, needing, parse_metrics
from evenhand.errors import EvenhandError
from evenhand.metrics.representation import Represented
from evenhand.tallies.exposure import Amortised, Exposed, Exposure, target_shares
from evenhand.tallies.group_exposure import AttentionSpec, RequiredSums
from evenhand.tallies.placement import Placement

TARGETS = ("population", "equal", "ranking", "relevant")
ALWAYS = ("awrf", "log_dp", "log_dp(per_item=True)", "eed")
WITH_RELEVANCE = ("log_eur", "eel", "eer")


@dataclass(frozen=True)
class ExposureMetricSpec(MetricSpec):
    """A metric as asked for, with the attention and target that hold for it."""

    browsing: AttentionSpec = AttentionSpec(parse("uniform"))  # noqa: RUF009  (frozen)
    target: Any = "population"

    @property
    def reads(self) -> frozenset[str]:
        """What the card says, and relevance where the attention or the target of this call asks for it."""
        own = self.metric.reads(**self.params)
        by_attention = not self.placed and self.browsing.attention.needs_relevance
        by_target = self.needs(Exposed) and isinstance(self.target, str) and self.target == "relevant"
        return own | {"relevance"} if by_attention or by_target else own

    def needs(self, tally: type) -> bool:
        return self.card.needs is tally

    @property
    def placed(self) -> bool:
        """Whether the metric reads labels in rank order, not attention."""
        return issubclass(self.card.needs, Placement)

    @property
    def item_level(self) -> bool:
        return bool(self.settled("level") == "item")

    @property
    def of_items(self) -> bool:
        """Whether it reads attention item by item, which cannot be added up by group."""
        return self.needs(Amortised) and self.item_level

    @property
    def norms(self) -> Literal["group", "item"] | None:
        """Which norms of each request the metric needs, if any."""
        if not self.needs(Exposure):
            return None
        if self.item_level:
            return "item"
        return "group" if self.settled("aggregate") == "per_request" or self.settled("unbiased") else None


def asked_for(
    metrics: str | Sequence[str] | None, attention: Attention | None, target: Any
) -> list[ExposureMetricSpec]:
    """The metrics asked for, or all that may be measured by default."""
    parsed = parse_metrics(
        (*ALWAYS, *WITH_RELEVANCE) if metrics is None else metrics,
        needing(Exposed, Exposure, Amortised, Placement, Represented),
    )
    return [_asked(a, attention, target) for a in parsed]


def _asked(ask: MetricSpec, attention: Attention | None, target: Any) -> ExposureMetricSpec:
    own = ask.params.get("attention")
    if own is None and attention is None:
        own = ask.settled("attention")
    chosen = parse(own) if own is not None else attention or parse("uniform")
    aim = ask.params.get("target") if ask.card.needs is Exposed else None
    aim = target if aim is None else aim
    if isinstance(aim, Mapping):
        target_shares(aim, ())
    elif aim not in TARGETS:
        raise EvenhandError(
            f"metrics={ask.text!r} names an unknown target. Use 'population', 'equal', 'ranking' or 'relevant'."
        )
    spec = ExposureMetricSpec(
        ask.text, ask.metric, ask.params, ask.cutoff, browsing=AttentionSpec(chosen, ask.cutoff), target=aim
    )
    if spec.needs(Exposure) and ask.settled("target") is not None:
        _check_own_target(spec)
    if spec.norms == "item" and ask.params.get("aggregate") == "before":
        raise EvenhandError(
            f"metrics={ask.text!r} cannot be taken before requests are joined. Leave aggregate out, or 'per_request'."
        )
    return spec


def _check_own_target(asked: ExposureMetricSpec) -> None:
    """A target of expected exposure is one of groups, known beforehand."""
    own = asked.settled("target")
    if isinstance(own, Mapping):
        target_shares(own, ())
    elif own not in ("equal", "population"):
        raise EvenhandError(
            f"metrics={asked.text!r} names an unknown target. Write {{group: share}}, 'equal' or 'population'; without, "
            "relevance decides."
        )
    if asked.item_level or asked.settled("unbiased"):
        raise EvenhandError(
            f"metrics={asked.text!r} aims at shares of groups. Leave level='item' and unbiased=True out, or the target."
        )


def required_by(asked: Sequence[ExposureMetricSpec]) -> RequiredSums:
    """The sums that these metrics need."""
    summed = [a for a in asked if not a.placed]
    specs = tuple(dict.fromkeys(a.browsing for a in summed))
    if not specs:
        specs = (AttentionSpec(parse("geometric(stop=0.5)")),)
    return RequiredSums(
        specs,
        gained=frozenset(a.browsing for a in summed if "gains" in a.reads),
        due=frozenset(a.browsing for a in summed if "dues" in a.reads),
        items=frozenset(a.browsing for a in summed if a.norms == "item"),
        scores=any(a.needs(Amortised) for a in summed),
        judged=any("relevance" in a.metric.reads(**a.params) or a.target == "relevant" for a in summed),
    )
