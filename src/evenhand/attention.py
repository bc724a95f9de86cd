"""How attention falls with rank (table 3 of raj2022), and what an ideal ranking would give each item.

Every model is a frozen value with a text form (`"rbp(patience=0.8)"`) that is accepted wherever a model is. Weights are
multiplicative and never negative; ranks count from 1. Nothing is normalised here: metrics that compare shares do that.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evenhand.cards import Floats, is_whole, parse_call
from evenhand.errors import EvenhandError, listing, suggestion

Stop = float | Mapping[float, float] | Callable[[float], float]
"""Chance that a reader stops at a relevant item: one number, a number for each grade of relevance, or a function of it."""


@dataclass(frozen=True)
class Attention:
    """A browsing model: how attention falls with rank, and what readers do at relevant items above. Equal text, equal model.

    Attributes
    ----------
    text : its text form.
    at : the weight of a rank (from 1), before anybody stops at an item above.
    stop : chance that a reader stops at an item; None where the rank alone decides.
    numbers : makes the same model without Python functions, which neither an engine nor a plan can read, from a depth and the grades
        there are; None where it has no function.
    """

    text: str
    at: Callable[[Any], Any] = field(compare=False)
    stop: Stop | None = field(default=None, compare=False)
    numbers: Callable[[int, Floats], Attention] | None = field(default=None, compare=False)

    @property
    def needs_relevance(self) -> bool:
        return self.stop is not None

    def in_numbers(self, depth: int, grades: Floats) -> Attention:
        """This model with functions as numbers: at ranks down to `depth` and at these grades."""
        return self if self.numbers is None else self.numbers(depth, grades)

    def keeps(self) -> Mapping[float | None, float]:
        """Share of readers who go on past an item of each grade; None is any above zero."""
        if self.stop is None or callable(self.stop):
            return {}
        if isinstance(self.stop, Mapping):
            return {float(grade): 1.0 - chance for grade, chance in self.stop.items()}
        return {None: 1.0 - self.stop}

    def weights(self, n: int, relevance: Any = None) -> Floats:
        """Weights of ranks 1 to n; `relevance` is that of the items in rank order (last axis).

        >>> log().weights(4).round(4).tolist()
        [1.0, 1.0, 0.6309, 0.5]
        >>> cascade(patience=0.5, stop=0.5).weights(4, [1, 0, 1, 0]).tolist()
        [1.0, 0.25, 0.125, 0.03125]
        """
        if not is_whole(n, 0):
            raise EvenhandError(f"n={n!r} is not a length. Pass a whole number of zero or more.")
        base = np.asarray(self.at(np.arange(1.0, n + 1)), dtype=np.float64)
        if not self.needs_relevance:
            return base
        if relevance is None:
            raise EvenhandError(f"{self} needs the relevance of the ranked items. Pass relevance=, in rank order.")
        grades = sound_relevance(relevance)
        if grades.shape[-1] != n:
            raise EvenhandError(f"relevance has {grades.shape[-1]} entries for n={n} ranks. Pass one per rank.")
        return base * self.survival(grades)

    def survival(self, grades: Floats) -> Floats:
        """Share of readers who stopped at no item above: an exclusive product (last axis)."""
        if callable(self.stop):
            return self.in_numbers(0, grades).survival(grades)
        going_on = np.ones(grades.shape)
        for grade, share in self.keeps().items():
            at_grade = grades > 0 if grade is None else grades == grade
            going_on = np.where(at_grade, share, going_on)
        self.check_grades(grades)
        survival = np.ones(grades.shape)
        np.cumprod(going_on[..., :-1], axis=-1, out=survival[..., 1:])
        return survival

    def check_grades(self, grades: Floats) -> None:
        """Raise where a model with a stopping probability per grade does not name a grade."""
        shares = self.keeps()
        if None in shares:
            return
        missing = sorted(set(np.unique(grades[grades > 0]).tolist()) - {float(g) for g in shares if g is not None})
        if missing:
            listed = ", ".join(f"{g:g}" for g in missing[:10])
            raise EvenhandError(
                f"{self} says nothing about relevance {listed}. Add a stopping probability for each grade."
            )

    def __str__(self) -> str:
        return self.text

    def __reduce__(self) -> Any:
        """Models are pickled by their text; one with a function of the caller's is made into numbers first."""
        return parse, (self.text,)

    def as_word(self) -> str:
        """This model as a plan holds it."""
        return self.text


def curve(values: Sequence[float] | Callable[[int], float]) -> Attention:
    """Attention from a weight for every rank (0 behind the last), or a function of the rank.

    Wherever a model is taken, the list or the function itself will do.

    >>> curve([1, 0.5, 0.3]).weights(4).tolist()
    [1.0, 0.5, 0.3, 0.0]
    >>> curve(lambda rank: 1 / rank).weights(3).round(4).tolist()
    [1.0, 0.5, 0.3333]
    """
    if callable(values):

        def numbers(depth: int, _: Floats) -> Attention:
            return curve([values(rank) for rank in range(1, depth + 1)] or [0.0])

        def at_ranks(ranks: Any) -> Any:
            return numbers(int(np.max(ranks, initial=0)), np.zeros(0)).at(ranks)

        name = getattr(values, "__name__", "of the rank")
        return Attention(f"function({name})", at_ranks, numbers=numbers)
    try:
        weights = [float(v) for v in values]
    except (TypeError, ValueError) as error:
        raise EvenhandError(f"attention={values!r} holds what is no number. Pass a weight for every rank.") from error
    if not all(0 <= v < math.inf for v in weights) or not weights:
        raise EvenhandError(
            "attention holds negative, infinite or missing weights, or none. Pass numbers of zero or more."
        )
    if len(weights) > 2_000:  # nobody looks further down, and they are joined as a table
        raise EvenhandError(
            f"attention has {len(weights):,} weights. Pass at most 2,000: ranks behind the last have none."
        )

    def at(ranks: Any) -> Any:
        place = np.asarray(ranks, dtype=np.int64) - 1
        inside = (place >= 0) & (place < len(weights))
        return np.where(inside, np.asarray(weights)[np.where(inside, place, 0)], 0.0)

    return Attention(f"curve({weights!r})", at)


def geometric(stop: float = 0.5) -> Attention:
    """A reader stops after each item with probability `stop`: weight stop (1 - stop)^(rank - 1).

    >>> geometric(stop=0.5).weights(3).tolist()
    [0.5, 0.25, 0.125]
    """
    stop = _share("geometric(stop=", stop, open_low=True)
    return Attention(f"geometric(stop={stop!r})", lambda rank: stop * (1.0 - stop) ** (rank - 1))


def log(offset: float = 0) -> Attention:
    """1 / log2(max(rank + offset, 2)): ranks 1 and 2 weigh 1; `offset=1` is that of DCG.

    >>> log(offset=1).weights(3).round(4).tolist()
    [1.0, 0.6309, 0.5]
    """
    if isinstance(offset, bool) or not isinstance(offset, (int, float, np.number)) or not 0 <= offset < math.inf:
        raise EvenhandError(f"log(offset={offset!r}) does not fit. Pass a number of zero or more.")
    return Attention(f"log(offset={offset!r})", lambda rank: 1.0 / np.log2(np.maximum(rank + offset, 2)))


def rbp(patience: float = 0.5) -> Attention:
    """A reader goes on to the next item with probability `patience`: weight patience^(rank - 1).

    The exponent counts from rank 1 as in the authors' programs; table 3 of the paper prints patience^rank.

    >>> rbp(patience=0.5).weights(3).tolist()
    [1.0, 0.5, 0.25]
    """
    patience = _share("rbp(patience=", patience)
    return Attention(f"rbp(patience={patience!r})", lambda rank: patience ** (rank - 1))


def cascade(patience: float = 0.5, stop: Stop = 0.5) -> Attention:
    """As rbp, and a reader who meets a relevant item stops there with probability `stop`.

    Only items above a rank take readers away from it. `stop` may be a number, for any relevance above zero, or
    `{grade: number}`, or a function of the grade; a grade of zero stops nobody unless a mapping lists it or the function
    says so.

    >>> cascade(patience=1, stop={1: 0.25, 2: 1}).weights(4, [1, 0, 2, 1]).tolist()
    [1.0, 0.75, 0.75, 0.0]
    """
    patience = _share("cascade(patience=", patience)
    numbers = None
    if callable(stop):
        of_grade = stop

        def numbers(_: int, grades: Floats) -> Attention:
            levels = np.unique(np.append(np.asarray(grades, dtype=np.float64), 0.0))
            try:
                stops = {grade: of_grade(grade) for grade in levels.tolist()}
            except Exception as error:
                raise EvenhandError(
                    f"stop= fails at one of the grades {listing(levels.tolist())} ({error}). Pass a function of every grade, 0 included."
                ) from error
            if stops[0.0] == 0 and len(stops) > 1:
                del stops[0.0]  # as where nothing is said of it
            return cascade(patience, stops)

        words: Any = stop
    elif isinstance(stop, Mapping):
        if not stop:
            raise EvenhandError("cascade(stop={}) has no grade. Pass {grade: probability}, or one number.")
        stop = {_grade(grade): _share("cascade(stop=", chance) for grade, chance in sorted(stop.items())}
        words = {(int(grade) if grade.is_integer() else grade): chance for grade, chance in stop.items()}
    else:
        stop = words = _share("cascade(stop=", stop)
    text = f"cascade(patience={patience!r}, stop={words!r})"
    return Attention(text, lambda rank: patience ** (rank - 1), stop, numbers)


def uniform() -> Attention:
    """Every rank gets the same attention."""
    return Attention("uniform()", lambda rank: rank * 0 + 1.0)


MODELS: dict[str, Callable[..., Attention]] = {
    "geometric": geometric,
    "log": log,
    "rbp": rbp,
    "cascade": cascade,
    "uniform": uniform,
    "curve": curve,
}


def parse(attention: Any) -> Attention:
    """A model from its text form, from weights or a function of one's own, or as it is.

    >>> str(parse("rbp(patience=0.8)"))
    'rbp(patience=0.8)'
    """
    if isinstance(attention, Attention):
        return attention
    if isinstance(attention, (list, tuple, np.ndarray)) or callable(attention):
        return curve(attention)
    if not isinstance(attention, str):
        raise EvenhandError(
            f"attention={attention!r} is not a model. Pass text such as 'geometric(stop=0.5)', a weight for every rank, or "
            "eh.attention.log()."
        )
    name, args, keywords = parse_call(attention, role="attention")
    if name not in MODELS:
        near = suggestion(name, MODELS)
        raise EvenhandError(f"attention={attention!r} is not a known model. {near}Known: {listing(sorted(MODELS))}.")
    try:
        return MODELS[name](*args, **keywords)
    except TypeError as error:
        names = ", ".join(inspect.signature(MODELS[name]).parameters) or "none"
        raise EvenhandError(f"attention={attention!r} does not fit. Parameters of {name}: {names}.") from error


def target_weights(relevance: Any, attention: Attention, cutoff: int | None = None) -> Floats:
    """Mean attention on each item over all rankings by falling relevance, ties in random order.

    Items that tie have the same grade, so whoever stands where in a tied block, the weights of its ranks are the same;
    each item gets their mean. This holds for every model, also for the cascade with graded stopping.
    """
    grades = sound_relevance(relevance)
    if grades.ndim != 1:
        raise EvenhandError(f"relevance has shape {grades.shape}. Pass one number per item.")
    order = np.argsort(-grades, kind="stable")
    weights = attention.weights(len(grades), grades[order])
    if cutoff is not None:
        weights = np.where(np.arange(len(weights)) < cutoff, weights, 0.0)
    _, block = np.unique(-grades, return_inverse=True)
    share = np.bincount(block, minlength=1).astype(np.float64)
    total = np.bincount(block[order], weights, minlength=len(share))
    return np.asarray((total / np.maximum(share, 1))[block])


def sound_relevance(relevance: Any) -> Floats:
    """Relevance as floats; negative, NaN and infinite ones are refused."""
    try:
        grades = np.asarray(relevance, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise EvenhandError("relevance must be numbers. Pass one number of zero or more per item.") from error
    if not grades.ndim:
        raise EvenhandError(f"relevance={relevance!r} is one number. Pass one per item, in rank order.")
    if not np.isfinite(grades).all() or (grades < 0).any():
        raise EvenhandError("relevance holds negative, NaN or infinite numbers. Pass numbers of zero or more.")
    return grades


def _share(where: str, value: Any, *, open_low: bool = False) -> float:
    number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if not number or not (0 < value <= 1 or (value == 0 and not open_low)):
        raise EvenhandError(
            f"{where}{value!r}) does not fit. Pass a number {'above 0 and at most 1' if open_low else 'from 0 to 1'}."
        )
    return float(value)


def _grade(value: Any) -> float:
    if isinstance(value, str):  # the keys of a plan file are text
        try:
            value = float(value)
        except ValueError:
            value = -1.0
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 <= value < math.inf:
        raise EvenhandError(f"cascade(stop={{{value!r}: ...}}) has no such grade. Pass grades of zero or more.")
    return float(value)
