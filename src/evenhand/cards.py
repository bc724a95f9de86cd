"""What a metric is: a card that says what the number means, and a pure function on a tally.

A metric is declared once, with `@metric(Card(...))`. Docs, command line, audits and tests read the card; nothing else
lists metrics.
"""

from __future__ import annotations

import ast
import functools
import inspect
import math
import re
import types
import typing
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt

from evenhand.errors import EvenhandError, UndefinedWarning, listing, suggestion, unknown_name

Floats = npt.NDArray[np.float64]
LARGEST_TOTAL = 1e280
"""Amounts may add up to this much: products with the number of units stay below the largest float."""
Better = Literal["lower", "higher", "ideal", ""]


@dataclass(frozen=True, slots=True)
class Between:
    """The closed range a parameter must lie in; `open_low` and `open_high` leave an end out."""

    low: float
    high: float
    open_low: bool = False
    open_high: bool = False

    def holds(self, value: float) -> bool:
        above = value > self.low if self.open_low else value >= self.low
        below = value < self.high if self.open_high else value <= self.high
        return above and below

    def __str__(self) -> str:
        return f"{'(' if self.open_low else '['}{self.low:g}, {self.high:g}{')' if self.open_high else ']'}"


Fraction = Annotated[float, Between(0, 1)]
Positive = Annotated[float, Between(0, math.inf, open_low=True, open_high=True)]
NotNegative = Annotated[float, Between(0, math.inf, open_high=True)]


@dataclass(frozen=True, kw_only=True)
class Card:
    """All that a reader must know before quoting the number.

    Fields that may be functions are functions of the metric's parameters, where these decide: the ideal of
    `top_share(p=0.1)` is 0.1.
    """

    name: str  # the key that users type: "gini"
    title: str  # the one name in words: "Gini index"
    symbol: str = ""  # the abbreviation of its paper, where it has one: "G"
    asks: str  # the question that the number answers
    needs: type  # the tally that the metric reads
    per: Literal["population", "ranking", "request", "pair"] = "population"  # what has a value of its own
    span: tuple[float, float] | Callable[..., tuple[float, float]]
    ideal: float | Callable[..., float]
    better: Better | Callable[..., Better]
    at_zero: float | None = None  # the value where nobody received anything; None where there is none
    undefined: str = ""  # when there is no number, in words
    # Reason code where the tally itself is fine (`tally.reason()` gives the code where it is not), or a function of the
    # tally and the parameters that gives one code, or one for each ranking.
    otherwise: str | Callable[..., Any] = ""
    says: str = ""  # the sentence of a report
    headline: str = ""  # a clause that can be repeated in a meeting, with `{value}`; metrics with one lead a report
    formula: str = ""
    example: str = ""
    variants: tuple[str, ...] = ()  # what others do under this name
    references: tuple[str, ...] = ()
    laws: frozenset[str] = field(default_factory=frozenset)  # tests/test_laws.py checks them
    family: str = ""  # metrics of a family share an axis in charts
    reads: frozenset[str] | Callable[..., frozenset[str]] = frozenset()  # keys of NEEDS: what else the data must have
    shuffled: Literal["", "labels"] = ""  # what is permuted for the chance level, where no `@metric.chance` gives it
    # False where the linearised error is too rough to divide a draw by (a point read off the steep end of a curve). The
    # bootstrap then takes percentiles, and an end within one unit of the end of the span is that end.
    studentised: bool = True
    share_of_units: bool = False  # whether the value is a share of the units, whose interval is Wilson's
    # Whether the value reads single places in the order of units (a percentile), or hardly anything but its ends (a large
    # power), so that it reveals single units.
    local: bool | Callable[..., bool] = False
    quantiles: Callable[..., tuple[float, ...]] | None = None  # those it reads, where it reads nothing else
    caution: Callable[..., str] | None = None  # note code, or "", from `estimate`, `units` and parameters
    interval_units: float | Callable[..., float] = 0.0  # units below which an interval needs a caution
    certain: bool | Callable[..., bool] = False  # whether the parameters alone decide the value

    def reason(self, tally: Any, **params: Any) -> str:
        """The reason code for an undefined value on this tally."""
        code = tally.reason() if hasattr(tally, "reason") else ""
        return str(code or np.asarray(self._otherwise(tally, params)).reshape(-1)[0])

    def reasons(self, tally: Any, lost: npt.NDArray[np.bool_], **params: Any) -> npt.NDArray[Any]:
        """Reason code of every ranking or request where the value is `lost`, else nothing.

        Text is large, so it is made only where something is lost. `tally.reasons()` comes before what the card says.
        """
        if not lost.any():
            return np.zeros(lost.shape, dtype="<U1")
        first = tally.reasons() if hasattr(tally, "reasons") else np.array("")
        return np.where(lost, np.where(first == "", self._otherwise(tally, params), first), "")

    def _otherwise(self, tally: Any, params: Mapping[str, Any]) -> Any:
        code = self.otherwise(tally, **params) if callable(self.otherwise) else self.otherwise
        return "undefined" if isinstance(code, str) and not code else code


NEEDS = {
    "sides": ("compares two groups", "protected= with one label, or several taken together"),
    "relevance": ("needs relevance", "relevance= with a table or a column"),
    "gains": ("needs the relevance that readers meet", "relevance= with a table or a column"),
    "dues": ("needs the exposure that relevance makes due", "relevance= with a table or a column"),
    "scores": ("needs predicted utilities", "score= with their column"),
    "labels": ("needs one label per item, not shares", "groups with one label per item"),
    "within": ("compares pairs within groups", "scores to eh.pairwise"),
    "between": ("compares pairs between groups", "scores to eh.pairwise"),
    "users": ("compares groups of users", "user_groups"),
    "truth": ("needs to know what is relevant", "relevant"),
    "shown": ("needs to know what is shown", "top or threshold"),
}
"""What metrics may read beside their tally: what is said of one that lacks it, and what to pass."""


@dataclass(frozen=True, kw_only=True)
class Convention:
    """How another tool computes a metric of this name."""

    tool: str  # with its version
    does: str  # what it does differently
    function: Callable[..., Any]  # its number on our tally
    ideal: float | None = None
    better: Better | None = None
    fixed: Mapping[str, Any] = field(default_factory=dict)  # parameters that the tool does not let choose


@functools.cache
def _parameter_names(function: Callable[..., Any]) -> frozenset[str]:
    return frozenset(inspect.signature(function).parameters)


_ignore_undefined = functools.partial(np.errstate, divide="ignore", invalid="ignore", over="ignore")
"""0 / 0 is how a metric says that it is undefined."""


class Metric:
    """A card and its function. Call it with arrays for a float; audits call `.on(tally)`."""

    def __init__(self, card: Card, function: Callable[..., Any]) -> None:
        self.card = card
        self.function = function
        self.conventions: dict[str, Convention] = {}  # by the name that `convention=` selects
        self._influence: Callable[..., Any] | None = None
        self._chance: Callable[..., Any] | None = None
        self._ideal: Callable[..., Any] | None = None
        self._attainable: Callable[..., tuple[float, float]] | None = None
        functools.update_wrapper(self, function)

    def __repr__(self) -> str:
        return f"<metric {self.card.name}: {self.card.title}>"

    @functools.cached_property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """The metric's own parameters: every argument of the function but the tally."""
        return dict(list(inspect.signature(self.function).parameters.items())[1:])

    @functools.cached_property
    def _hints(self) -> dict[str, Any]:
        return typing.get_type_hints(self.function, include_extras=True)

    # What may be declared beside the value: each takes the same tally and parameters as the metric's function.

    def influence(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Register the linearisation: what one more unit in each cell does to the value (mean zero)."""
        self._influence = function
        return function

    def chance(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Register the chance level: the value that no bias at all would give."""
        self._chance = function
        return function

    def ideally(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Register the ideal where the tally decides it."""
        self._ideal = function
        return function

    def attainable(self, function: Callable[..., tuple[float, float]]) -> Callable[..., tuple[float, float]]:
        """Register the least and the most that the volume of a tally allows."""
        self._attainable = function
        return function

    def on(self, tally: Any, *, convention: Any = None, **params: Any) -> Floats:
        """The value on a tally; leading axes of the tally (replicates, slices) are kept."""
        function = self.function if convention is None else self.conventions[convention].function
        with _ignore_undefined():
            return np.asarray(function(tally, **params), dtype=np.float64)

    @property
    def has_chance(self) -> bool:
        return self._chance is not None

    def by_chance(self, tally: Any, **params: Any) -> Any:
        """Chance level on this tally, the value without any bias; NaN where none is declared.

        A convention has one only where the declared function takes it.
        """
        if self._chance is None or ("convention" in params and "convention" not in _parameter_names(self._chance)):
            return np.nan
        with _ignore_undefined():
            return self._chance(tally, **params)

    def attainable_on(self, tally: Any, **params: Any) -> tuple[float, float]:
        """Least and most value that this tally's volume allows; NaN where it sets no bounds."""
        if self._attainable is None or "convention" in params:
            return math.nan, math.nan
        return self._attainable(tally, **params)

    def ideal_on(self, tally: Any, **params: Any) -> float:
        """The ideal on this tally; what the card says where the tally plays no part in it."""
        if self._ideal is None or "convention" in params:
            return self.ideal(**params)
        with _ignore_undefined():
            return float(self._ideal(tally, **params))

    def smooth(self, params: Mapping[str, Any]) -> bool:
        """Whether the value has a linearisation; a percentile, for example, has none.

        A convention has one only where the declared function takes it.
        """
        if self._influence is None:
            return False
        return "convention" not in params or "convention" in _parameter_names(self._influence)

    def linearised(self, tally: Any, estimate: Floats, params: Mapping[str, Any]) -> Floats | None:
        """Influence of one unit in each cell on the value, or None without a linearisation."""
        if self._influence is None or not self.smooth(params):
            return None
        with _ignore_undefined():
            return np.asarray(self._influence(tally, estimate, **params))

    def __call__(self, *args: Any, **keywords: Any) -> float:
        """Value for plain arrays; undefined is NaN with an `UndefinedWarning` and its `.reason`."""
        from_arrays: Callable[..., Any] = self.card.needs.from_arrays  # type: ignore[attr-defined]
        first, *others = inspect.signature(from_arrays).parameters
        names = list(self.parameters)
        if not args and first not in keywords:
            raise EvenhandError(f"{self.card.name} was called without data. Pass {first} first.")
        if len(args) > len(names) + 1:
            raise EvenhandError(
                f"{self.card.name} takes at most {len(names) + 1} arguments by position. Name the others."
            )
        data = args[0] if args else keywords.pop(first)
        by_position = dict(zip(names, args[1:], strict=False))
        if repeated := by_position.keys() & keywords.keys():
            raise EvenhandError(f"{self.card.name} was given {listing(repeated)} twice. Give each parameter once.")
        keywords.update(by_position)
        if keywords.get("convention", "") is None:
            del keywords["convention"]
        params = self.checked({k: v for k, v in keywords.items() if k in names or k not in others})
        both = keywords | params
        for_tally = {name: both[name] for name in others if name in both}  # `attention` goes to both
        tally = data if isinstance(data, self.card.needs) else from_arrays(data, **for_tally)
        value = float(self.on(tally, **params).item())
        if math.isnan(value):
            code = self.card.reason(tally, **params)
            warnings.warn(UndefinedWarning(f"{self.card.name} is undefined: {code}.", code), stacklevel=2)
        return value

    def checked(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters, each checked against the type and range in the function's signature."""
        metric_params = {name: value for name, value in params.items() if name != "convention"}
        convention = params.get("convention")
        fixed: Mapping[str, Any] = {} if convention is None else self._check_convention(convention, metric_params)
        for name, value in metric_params.items():
            if name not in self.parameters:
                names = listing(self.parameters) or "none"
                raise EvenhandError(f"{self.card.name} has no parameter {name!r}. Its parameters: {names}.")
            check_value(f"{self.card.name}({name}=", value, self._hints.get(name, Any))
        return {**params, **fixed}

    def _check_convention(self, convention: Any, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """The parameters that the convention fixes; one that the tool does not have is refused."""
        name = self.card.name
        if not self.conventions:
            raise EvenhandError(f"{name} has no other convention. Leave convention={convention!r} out.")
        if convention not in self.conventions:
            choices = sorted(self.conventions)
            raise unknown_name("convention", str(convention), choices, what=f"a known convention of {name}")
        chosen = self.conventions[convention]
        accepted = inspect.signature(chosen.function).parameters
        takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in accepted.values())
        if extra := [] if takes_any else [n for n in params if n not in accepted]:
            raise EvenhandError(
                f"{name}(convention={convention!r}) takes no {listing(extra)}: the tool has none. Leave it out."
            )
        return chosen.fixed

    def resolved(self, field: str, params: Mapping[str, Any]) -> Any:
        """A field of the convention, or else of the card, for these parameters."""
        value = getattr(self.conventions.get(params.get("convention", "")), field, None)
        if value is None:
            value = getattr(self.card, field)
        if not callable(value):
            return value
        defaults = {n: p.default for n, p in self.parameters.items()}
        names = _parameter_names(value)
        return value(**{n: v for n, v in {**defaults, **params}.items() if n in names})

    def ideal(self, **params: Any) -> float:
        return float(self.resolved("ideal", params))

    def better(self, **params: Any) -> str:
        return str(self.resolved("better", params))

    def reads(self, **params: Any) -> frozenset[str]:
        return frozenset(self.resolved("reads", params))

    def span(self, **params: Any) -> tuple[float, float]:
        low, high = self.resolved("span", params)
        return float(low), float(high)

    def other_spans(self) -> dict[tuple[float, float], list[str]]:
        """Ranges that single parameters give and the defaults do not, each with those parameters as typed."""
        spans: dict[tuple[float, float], list[str]] = {}
        for name in self.parameters if callable(self.card.span) else ():
            for value in _choices(self._hints.get(name)):
                if (span := self.span(**{name: value})) != self.span():
                    spans.setdefault(span, []).append(f"{name}={value!r}")
        return spans


def _choices(hint: Any) -> list[Any]:
    """All values that a hint allows, where they can be listed.

    >>> _choices(Literal["max"] | None), _choices(bool), _choices(float)
    (['max', None], [True, False], [])
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return list(arguments)
    if origin in (typing.Union, types.UnionType):
        return [value for option in arguments for value in _choices(option)]
    return [True, False] if hint is bool else [None] if hint is types.NoneType else []


def metric(card: Card) -> Callable[[Callable[..., Any]], Metric]:
    """Declare a metric: the decorated function reads one tally and nothing else."""

    def declare(function: Callable[..., Any]) -> Metric:
        earlier = REGISTRY.get(card.name)
        # The same function again is its module run again, as doctests do.
        if earlier and _qualified_name(earlier.function) != _qualified_name(function):
            raise EvenhandError(f"The metric {card.name!r} is declared twice. Give one of them another name.")
        REGISTRY[card.name] = Metric(card, function)
        return REGISTRY[card.name]

    return declare


def _qualified_name(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}"


REGISTRY: dict[str, Metric] = {}


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """A metric with its parameters and cutoff, as typed in `text`.

    With `neighbours` above 1 that many neighbouring amounts are replaced by their mean.
    """

    text: str
    metric: Metric
    params: Mapping[str, Any]
    cutoff: int | None = None
    neighbours: int = 1

    @property
    def card(self) -> Card:
        return self.metric.card

    @property
    def ideal(self) -> float:
        return self.metric.ideal(**self.params)

    @property
    def better(self) -> str:
        return self.metric.better(**self.params)

    @property
    def span(self) -> tuple[float, float]:
        return self.metric.span(**self.params)

    @property
    def reads(self) -> frozenset[str]:
        return self.metric.reads(**self.params)

    def caution(self, estimate: float, units: float = math.inf) -> str:
        """The note code of an estimate of so many units that must be read with care."""
        if self.card.caution is None or "convention" in self.params:
            return ""
        facts = {**self.params, "estimate": estimate, "units": units}
        return str(self.metric.resolved("caution", facts))

    @property
    def interval_units(self) -> float:
        return float(self.metric.resolved("interval_units", self.params))

    @property
    def local(self) -> bool:
        return bool(self.metric.resolved("local", self.params))

    @property
    def quantiles(self) -> tuple[float, ...]:
        if self.card.quantiles is None or "convention" in self.params:
            return ()
        return tuple(self.metric.resolved("quantiles", self.params))

    @property
    def certain(self) -> bool:
        return "convention" not in self.params and bool(self.metric.resolved("certain", self.params))

    @property
    def smooth(self) -> bool:
        return self.metric.smooth(self.params)

    def coarse(self, fewest: int) -> MetricSpec:
        """This metric on neighbours grouped by `fewest`, where it would reveal single units."""
        return replace(self, neighbours=fewest) if self.local and fewest > 1 else self

    def on(self, tally: Any) -> Floats:
        return self.metric.on(tally.coarse(self.neighbours) if self.neighbours > 1 else tally, **self.params)

    def settled(self, name: str) -> Any:
        """A parameter as given, or by default; None where the metric has none of that name."""
        parameter = self.metric.parameters.get(name)
        return self.params.get(name, None if parameter is None else parameter.default)

    def by_chance(self, tally: Any) -> Any:
        return self.metric.by_chance(tally, **self.params)

    def linearised(self, tally: Any, estimate: Floats) -> Floats | None:
        return self.metric.linearised(tally, estimate, self.params)


def lowercase_name(text: str) -> str:
    """A metric string with its name in lower case: papers write AWRF, NDKL, Gini.

    >>> lowercase_name("AWRF(distance='js')@10"), lowercase_name("Top_Share(p=0.1)")
    ("awrf(distance='js')@10", 'top_share(p=0.1)')
    """
    return re.sub(r"^[^(@]+", lambda name: name[0].lower(), text)


def parse_metric(text: str, metrics: Mapping[str, Metric] | None = None) -> MetricSpec:
    """Parse a metric string such as `"atkinson(epsilon=0.5)"` or `"awrf@10"`; the name in any case.

    `metrics` holds those that fit the question at hand (default: all of them).
    """
    choices = REGISTRY if metrics is None else metrics
    if not isinstance(text, str):
        raise EvenhandError(f"metrics={text!r} is not text. Pass names such as 'gini' or 'top_share(p=0.01)'.")
    typed, text = text, lowercase_name(text)
    body, cutoff = text.strip(), None
    if cut := re.fullmatch(r"(.*)@(\d+)", body):
        body, cutoff = cut[1], int(cut[2])
        if cutoff < 1:
            raise EvenhandError(f"metrics={typed!r} cuts at rank 0. Cut at 1 or deeper.")
    name, args, keywords = parse_call(body, role="metrics", typed=typed)
    if name not in choices:
        if name in REGISTRY:
            raise EvenhandError(
                f"metrics={typed!r} does not fit this question: it needs {REGISTRY[name].card.needs.__name__.lower()} data. "
                f"Known here: {listing(sorted(choices), 40)}."
            )
        raise unknown_name("metrics", typed, sorted(choices), what="a known metric")
    chosen = choices[name]
    if cutoff is not None and chosen.card.per in ("population", "pair"):
        raise EvenhandError(f"metrics={typed!r} cuts at rank {cutoff}, but {name} knows no ranks. Write {body!r}.")
    if len(args) > len(chosen.parameters):
        raise EvenhandError(
            f"metrics={typed!r} has too many values. Its parameters: {listing(chosen.parameters) or 'none'}."
        )
    by_place = dict(zip(chosen.parameters, args, strict=False))
    if repeated := by_place.keys() & keywords.keys():
        raise EvenhandError(f"metrics={typed!r} gives {listing(repeated)} twice. Give each parameter once.")
    params = by_place | keywords
    return MetricSpec(text, chosen, chosen.checked(params), cutoff)


def parse_metrics(texts: str | Sequence[str], metrics: Mapping[str, Metric]) -> tuple[MetricSpec, ...]:
    """Parse several metric strings; the same text twice is one row too many and refused."""
    listed: list[Any] = list(texts) if isinstance(texts, (list, tuple)) else [texts]
    if not listed:
        raise EvenhandError(f"metrics is empty. Name at least one of: {listing(sorted(metrics), 40)}.")
    parsed = tuple(parse_metric(text, metrics) for text in listed)
    seen = [a.text for a in parsed]
    repeated = sorted({t for t in seen if seen.count(t) > 1})
    if repeated:
        raise EvenhandError(f"metrics names {listing(map(repr, repeated))} twice. Name each metric once.")
    return parsed


def lacks(spec: MetricSpec, has: AbstractSet[str]) -> str:
    """Error message for a metric that reads what the call does not have; empty where it has all."""
    missing = sorted(spec.reads - has, key=list(NEEDS).index)
    if not missing:
        return ""
    fact, remedy = NEEDS[missing[0]]
    return f"metrics={spec.text!r} {fact}. Pass {remedy}, or leave the metric out."


def refuse_lacking(specs: Sequence[MetricSpec], has: AbstractSet[str]) -> None:
    """Refuse the first metric that reads what this call does not have: one text for all audits."""
    for spec in specs:
        if problem := lacks(spec, has):
            raise EvenhandError(problem)


EXAMPLES = {
    "metrics": "top_share(p=0.01)",
    "interval": "bootstrap(999)",
    "chance": "permutation(999)",
    "by": "log_bins('followers', 20)",
    "index": "ge(alpha=2)",
    "attention": "rbp(patience=0.8)",
}
"""How each role that takes a call is written."""


MOST_LETTERS = 10_000
"""Letters of a metric or an attention model: Python takes minutes over a call with tens of thousands of signs."""


def parse_call(text: str, *, role: str, typed: str | None = None) -> tuple[str, list[Any], dict[str, Any]]:
    """Split `"name(1, key=2)"` into its parts; values are Python literals, `inf` included.

    >>> parse_call("rbp(patience=0.8)", role="attention")
    ('rbp', [], {'patience': 0.8})
    """
    typed, example = typed or text, EXAMPLES.get(role, EXAMPLES["metrics"])
    problem = EvenhandError(f"{role}={typed!r} cannot be read. Write a name, with parameters if needed: {example!r}.")
    if len(text) > MOST_LETTERS:
        raise problem
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:  # the last two: brackets nested too deep
        raise problem from error
    if isinstance(node, ast.Name):
        return node.id, [], {}
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise problem
    names = [k.arg for k in node.keywords]
    if None in names:  # **options
        raise problem
    if repeated := {k for k in names if names.count(k) > 1}:
        raise EvenhandError(f"{role}={typed!r} gives {listing(repeated)} twice. Give each parameter once.")

    def value(part: ast.expr) -> Any:
        if isinstance(part, ast.Name) and part.id in ("inf", "infinity"):
            return math.inf
        try:
            return ast.literal_eval(part)
        except (ValueError, TypeError, MemoryError, RecursionError) as error:
            raise problem from error

    return node.func.id, [value(a) for a in node.args], {str(k.arg): value(k.value) for k in node.keywords}


def check_value(where: str, value: Any, hint: Any, *, end: str = ")") -> None:
    """Raise where a value does not fit a type hint.

    Hints are numbers with ranges, choices, booleans, text, and lists of them. `where` and `end` stand before and behind the
    value in the message, which shows it as it was typed.
    """
    if (problem := _problem(value, hint)) is not None:
        part, words = problem
        raise EvenhandError(f"{where}{shown(part)}{end} {words}")


def _problem(value: Any, hint: Any) -> tuple[Any, str] | None:
    """What does not fit a hint (the value, or an element of it) and in which way, in words; None where all fits."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        problem = _problem(value, arguments[0])
        rule = next((rule for rule in arguments[1:] if isinstance(rule, Between)), None)
        if problem is not None or rule is None or rule.holds(value):
            return problem
        return value, f"is outside {rule}. Pass a number in that range."
    if origin in (typing.Union, types.UnionType):
        problems = [_problem(value, option) for option in arguments]
        if None in problems:
            return None
        # a number outside its range says more than a wrong type
        return next((p for p in problems if p is not None and "outside" in p[1]), problems[0])
    if (expected := _misfit(value, hint)) is not None:
        choices = [c for c in arguments if isinstance(c, str)] if origin is Literal else []
        near = suggestion(value, choices) if isinstance(value, str) else ""
        return value, f"does not fit. {near}Pass {expected}."
    elements = value if origin is Sequence else ()
    plain = (element.item() if isinstance(element, np.generic) else element for element in elements)
    return next((problem for element in plain if (problem := _problem(element, arguments[0]))), None)


def _misfit(value: Any, hint: Any) -> str | None:
    """What a plain hint asks for, in words, where the value is something else."""
    is_number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    plain: dict[Any, tuple[bool, str]] = {
        None: (value is None, "None"),
        types.NoneType: (value is None, "None"),
        bool: (isinstance(value, (bool, np.bool_)), "True or False"),
        int: (is_whole(value), "a whole number"),
        float: (is_number and value == value, "a number"),  # NaN differs from itself; whole numbers may be huge
        str: (isinstance(value, str), "text"),
        Sequence: (isinstance(value, (list, tuple, np.ndarray)), "a list"),
        Mapping: (isinstance(value, Mapping), "a mapping"),
    }
    kind = typing.get_origin(hint) or hint
    if kind is Literal:
        choices = typing.get_args(hint)
        fits = isinstance(value, (str, bool, int, float)) and value in choices
        expected = f"one of {listing(map(repr, choices))}"
    elif kind in plain:
        fits, expected = plain[kind]
    elif isinstance(hint, type) and hint is not Any:
        fits, expected = isinstance(value, hint), f"a {hint.__name__}"
    else:
        return None
    return None if fits else expected


def shown(value: Any, most: int = 80) -> str:
    """A value as it was typed, cut where it is long; of what nobody types, its kind.

    >>> shown("x" * 200)[-12:]
    "xxxxxxxx...'"
    """
    text = f"<{type(value).__name__}>" if "\n" in repr(value) else repr(value)
    return text if len(text) <= most else f"{text[: most - 4]}...{text[-1]}"


def is_whole(value: Any, least: float = -math.inf, most: float = math.inf) -> bool:
    """Whether this is an integer of Python or numpy from `least` to `most`; booleans are not."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and bool(least <= value <= most)


def needing(*tallies: type) -> dict[str, Metric]:
    return {name: m for name, m in REGISTRY.items() if m.card.needs in tallies}


def cards() -> Iterator[Card]:
    """Every card in the registry, by name."""
    return (REGISTRY[name].card for name in sorted(REGISTRY))
