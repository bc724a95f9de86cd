"""Interval plans, random streams, and the arithmetic from draws to interval ends. No tally is known here."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import NormalDist
from typing import Any, Literal

import numpy as np

from evenhand.cards import Floats, is_whole, parse_call
from evenhand.errors import EvenhandError, unknown_name

Kind = Literal["bootstrap", "percentile", "normal", "none"]
KINDS = ("bootstrap", "percentile", "normal")
DEFAULT_DRAWS = 999
ROUNDING = 1e-12
"""(1 - 0.9) / 2 * 1000 is 49.99999999999999 in floating point and means the 50th draw."""


@dataclass(frozen=True, slots=True)
class Interval:
    """How an interval is made: studentised bootstrap, percentile bootstrap, normal with the linearised error, or none."""

    kind: Kind
    draws: int = 0
    level: float = 0.95

    @classmethod
    def parse(cls, text: str | None, level: float = 0.95) -> Interval:
        """Read `"bootstrap(999)"`, `"percentile(999)"`, `"normal"` or None.

        >>> Interval.parse("percentile(199)")
        Interval(kind='percentile', draws=199, level=0.95)
        """
        if isinstance(level, bool) or not isinstance(level, (int, float)) or not 0 < level < 1:
            raise EvenhandError(f"level={level!r} is not between 0 and 1. Pass a coverage such as 0.95.")
        if text is None or text == "none":
            return cls("none", 0, level)
        if not isinstance(text, str):
            raise EvenhandError(
                f"interval={text!r} is not text. Pass 'bootstrap(999)', 'percentile(999)', 'normal' or None."
            )
        name, args, keywords = parse_call(text, role="interval")
        if name not in KINDS:
            raise unknown_name("interval", text, KINDS, what="a known interval")
        if name == "normal":
            if args or keywords:
                raise EvenhandError(f"interval={text!r} takes no number of draws. Write 'normal'.")
            return cls("normal", 0, level)
        given = [*args, *keywords.values()]
        draws = given[0] if given else DEFAULT_DRAWS
        unclear = len(given) > 1 or not keywords.keys() <= {"draws"}
        if unclear or not is_whole(draws, 20, 1_000_000):
            raise EvenhandError(
                f"interval={text!r} needs a whole number of draws from 20 to 1,000,000. Write '{name}(999)'."
            )
        return cls(name, draws, level)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Estimates:
    """One metric over many slices: arrays of one entry per slice."""

    estimate: Floats
    low: Floats
    high: Floats
    undefined_draws: np.typing.NDArray[np.int64]

    @classmethod
    def blank(cls, slices: int) -> Estimates:
        nothing = np.full(slices, np.nan)
        return cls(nothing.copy(), nothing.copy(), nothing.copy(), np.zeros(slices, dtype=np.int64))


def seed_of(rng: int | np.random.Generator | np.random.SeedSequence | None) -> int:
    """A whole number that names the random choices of one call: as given, or drawn and then recorded."""
    if rng is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint32)[0])
    if isinstance(rng, np.random.Generator):
        return int(rng.integers(2**32))
    if isinstance(rng, np.random.SeedSequence):
        return int(rng.generate_state(1, np.uint32)[0])
    if is_whole(rng, 0):
        return int(rng)
    raise EvenhandError(f"rng={rng!r} is not a seed. Pass a whole number of zero or more, a numpy Generator, or None.")


def stream(seed: int, *labels: Any) -> np.random.Generator:
    """The random stream of one slice: it depends on the seed and the labels only, never on what else is computed."""
    digest = hashlib.blake2b(repr([_plain(label) for label in labels]).encode(), digest_size=8).digest()
    return np.random.default_rng(np.random.SeedSequence([seed, int.from_bytes(digest, "big")]))


def _plain(label: Any) -> Any:
    """A label as every engine means it: the same moment has several names of its time zone."""
    if isinstance(label, datetime) and label.tzinfo is not None:
        return label.astimezone(UTC).isoformat()
    return label.item() if isinstance(label, np.generic) else label


@dataclass(frozen=True, slots=True)
class Scale:
    """A scale on which errors are closer to symmetric and ends stay inside the span."""

    forward: Callable[[Floats], Floats]
    inverse: Callable[[Floats], Floats]
    slope: Callable[[Floats], Floats]

    @classmethod
    def fitting(cls, span: tuple[float, float]) -> Scale:
        """Logit for shares and indices in [0, 1], log for non-negative quantities, none otherwise."""
        if span == (0.0, 1.0):
            return cls(lambda x: np.log(x / (1 - x)), lambda y: 1 / (1 + np.exp(-y)), lambda x: 1 / (x * (1 - x)))
        if span == (0.0, math.inf):
            return cls(np.log, np.exp, lambda x: 1 / x)
        return cls(lambda x: x, lambda y: y, np.ones_like)


def percentile_ends(draws: Floats, level: float) -> tuple[Floats, Floats]:
    """Order statistics (B + 1) a / 2 and (B + 1)(1 - a / 2) of the defined draws, along the last axis."""
    ordered = np.sort(draws, axis=-1)  # NaN go last
    defined = (~np.isnan(ordered)).sum(-1)
    tail = (1 - level) / 2
    last = np.maximum(defined - 1, 0)
    place = (defined + 1) * tail * (1 + ROUNDING)
    low_at = np.clip(np.floor(place).astype(np.int64) - 1, 0, last)
    high_at = np.clip(defined - np.floor(place).astype(np.int64), 0, last)
    low, high = (np.take_along_axis(ordered, at[..., None], -1)[..., 0] for at in (low_at, high_at))
    return low, high


def centred_ends(estimate: Floats, draws: Floats, level: float, span: tuple[float, float]) -> tuple[Floats, Floats]:
    """Percentiles of the draws, moved so that their middle is the estimate, and kept inside the span.

    A measure of times shown reads noise as inequality, and a draw holds the noise twice: draws lie off the estimate, and
    their plain percentiles may not even hold it. What is wanted is how far the estimate moves with other units.
    """
    low, high = percentile_ends(draws, level)
    middle = np.nanmedian(draws, axis=-1)
    with np.errstate(invalid="ignore"):
        low, high = np.maximum(span[0], estimate + low - middle), np.minimum(span[1], estimate + high - middle)
    return np.where(np.isfinite(middle), low, np.nan), np.where(np.isfinite(middle), high, np.nan)


def normal_ends(estimate: Floats, error: Floats, level: float, span: tuple[float, float]) -> tuple[Floats, Floats]:
    """Estimate plus and minus a normal quantile times the error, on the scale that fits the span."""
    z = NormalDist().inv_cdf((1 + level) / 2)
    spread = np.full_like(estimate, z)
    return _on_scale(estimate, error, -spread, spread, span)


def drawn_ends(estimate: float, draws: Floats, interval: Interval, span: tuple[float, float]) -> tuple[float, float]:
    """Interval ends from draws of one estimate: their percentiles, or normal with their spread; never outside the span.

    >>> drawn_ends(0.01, np.array([0.0, 0.01, 0.04]), Interval("normal"), (0.0, 1.0))[0] > 0
    True
    """
    if np.isnan(estimate) or np.isnan(draws).all():
        return np.nan, np.nan
    if interval.kind != "normal":
        low, high = percentile_ends(draws[None, :], interval.level)
        return float(low[0]), float(high[0])
    there = draws[~np.isnan(draws)]
    error = float(there.std(ddof=1)) if len(there) > 1 and np.isfinite(there).all() else np.nan
    ends = normal_ends(np.array([estimate]), np.array([error]), interval.level, span)
    low, high = (np.clip(end, *span) for end in ends)  # the scale keeps to spans of shares and of amounts only
    return float(low[0]), float(high[0])


def studentised_ends(
    estimate: Floats,
    error: Floats,
    draws: Floats,
    draw_errors: Floats,
    centre: Floats,
    level: float,
    span: tuple[float, float],
) -> tuple[Floats, Floats]:
    """Bootstrap-t: each draw's distance from `centre` in units of its own error (last axis: draws)."""
    scale = Scale.fitting(span)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        distance = scale.forward(draws) - scale.forward(centre)[..., None]
        ratios = distance / (draw_errors * scale.slope(draws))
        # No spread within a draw: it says nothing about scale, only on which side it fell.
        side = np.where(draws > centre[..., None], np.inf, np.where(draws < centre[..., None], -np.inf, 0.0))
        ratios = np.where(np.isnan(ratios) & ~np.isnan(draws), side, ratios)
    t_low, t_high = percentile_ends(ratios, level)
    return _on_scale(estimate, error, -t_high, -t_low, span)


def _on_scale(
    estimate: Floats, error: Floats, low_t: Floats, high_t: Floats, span: tuple[float, float]
) -> tuple[Floats, Floats]:
    scale = Scale.fitting(span)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        middle, step = scale.forward(estimate), error * scale.slope(estimate)
        low, high = scale.inverse(middle + low_t * step), scale.inverse(middle + high_t * step)
    settled = (error == 0) | np.isin(estimate, span)  # at the end of the span, or no spread at all
    return np.where(settled, estimate, low), np.where(settled, estimate, high)
