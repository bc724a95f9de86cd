"""An audit is declared once: its signature lists the parameters, its docstring explains them, the register knows them all.

`@audit(...)` binds a call, checks every argument against the type hints, reads seed, interval and `min_units`, and keeps
the bound arguments as the plan. The command line, plan files, `evenhand run`, help texts and "Make it again" are made from
the register; nothing else lists audits or their parameters.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import importlib.util
import inspect
import json
import logging
import pkgutil
import platform
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from evenhand.audits.assemble import adjusted, bounded, untold
from evenhand.cards import Between, check_value, is_whole, shown
from evenhand.errors import EvenhandError, listing, unknown_name
from evenhand.findings import Findings, Row, plain, plan_hash, tidy
from evenhand.results import Result
from evenhand.uncertainty.intervals import Interval, seed_of

log = logging.getLogger("evenhand")
"""Stages of the work, for whoever shows progress."""

P = ParamSpec("P")
R = TypeVar("R")
Held = TypeVar("Held", bound=Result)


@dataclass(frozen=True)
class Takes:
    """How a parameter is given where its type alone does not say.

    Attributes
    ----------
    metavar : what help calls a word of it.
    many : several words make a list; one makes a single value.
    table : a table, a file or column names. Anything else is too much for a plan: it says that the object is needed again.
    files : which files it may be, for help.
    sizes : a mapping says how many there are of each, which a plan can hold.
    number : a word of digits is a whole number.
    option : what the option is called where it is not called like the parameter.
    read : reads the words of the command line, where none of this is enough.
    """

    metavar: str = ""
    many: bool = False
    table: bool = False
    files: str = ""
    sizes: bool = False
    number: bool = False
    option: str = ""
    read: Callable[[list[str]], Any] | None = None


def pairs(name: str, text: str, kind: type) -> dict[str, Any]:
    """`label=number,label=number` of the command line, or the same as JSON where labels hold commas or equal signs.

    >>> pairs("target", "f=0.5, m=0.5", float)
    {'f': 0.5, 'm': 0.5}
    """
    option = f"--{name.replace('_', '-')} {text!r}"
    try:
        if text.lstrip().startswith("{"):
            return {str(label): kind(value) for label, value in json.loads(text).items()}
        found = [part.rpartition("=") for part in text.split(",")]
        labels = [label.strip() for label, _, _ in found]
        if twice := sorted({label for label in labels if labels.count(label) > 1}):
            raise EvenhandError(f"{option} gives {listing(twice)} two numbers. Give each label one.")
        if not all(labels):
            raise ValueError(text)
        return {label: kind(value) for label, (_, _, value) in zip(labels, found, strict=True)}
    except (ValueError, TypeError, AttributeError) as error:
        if isinstance(error, EvenhandError):
            raise
        raise EvenhandError(f"{option} cannot be read. Write label=number,label=number.") from error


FILES = "Parquet, CSV or JSON lines (also .gz), or a glob in quotes"
RUNS = "Parquet, CSV or JSON lines (also .gz), or TREC runs; a glob in quotes"
Table = Annotated[Any, Takes("FILE", table=True, files=FILES)]
Rankings = Annotated[Any, Takes("FILE", table=True, files=RUNS)]
TableOrColumn = Annotated[Any, Takes("COLUMN|FILE", table=True)]
TableOrColumns = Annotated[Any, Takes("COLUMN|FILE", table=True, many=True)]
Label = Annotated[Any, Takes("LABEL")]
Labels = Annotated[Any, Takes("LABEL", many=True)]
Columns = str | Sequence[str] | None
Metrics = str | Sequence[str]
Seed = int | np.random.Generator | np.random.SeedSequence | None
Level = Annotated[float, Between(0, 1, open_low=True, open_high=True)]
Count = Annotated[int, Between(0, float("inf"))]


@dataclass(frozen=True)
class Parameter:
    """One parameter of an audit, as its signature, its hints and its docstring have it."""

    name: str
    hint: Any
    default: Any
    about: str
    positional: bool

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty

    @functools.cached_property
    def takes(self) -> Takes:
        if typing.get_origin(self.hint) is Annotated:
            return next((m for m in typing.get_args(self.hint)[1:] if isinstance(m, Takes)), Takes())
        return Takes(many=any(typing.get_origin(o) is Sequence for o in options(self.hint)))

    @property
    def names_column(self) -> bool:
        """Whether the parameter takes the name of a column."""
        return "column" in self.about and any(str in (o, *typing.get_args(o)) for o in options(bare(self.hint)))

    @property
    def says_none(self) -> bool:
        """Whether the word "none" stands for None: not where None is the default, which nobody needs to write."""
        return self.default is not None and (bool(self.takes.metavar) or type(None) in options(self.hint))

    def in_words(self, value: Any) -> Any:
        """An argument as a plan holds it: plain data that Python takes again, or an `Object`."""
        takes = self.takes
        listed = isinstance(value, (list, tuple, set, frozenset, np.ndarray))
        if takes.table and listed and not ((self.positional or takes.many) and _are_words(value)):
            return Object(_kind(value))  # labels of rows, ids: files and columns are named one by one
        if takes.table and isinstance(value, Mapping) and not (takes.sizes and _are_sizes(value)):
            return Object(f"a mapping of {len(value):,} entries")
        return in_words(value, table=takes.table)

    def check(self, value: Any) -> None:
        """Refuse a value that its type hint does not allow."""
        if isinstance(value, str) and re.fullmatch(r"<.*>", value) and self.takes.table:
            raise EvenhandError(
                f"{self.name}={value!r} stands for an object of the call that was recorded. Pass that object again."
            )
        if is_whole(value) and abs(int(value)) > LARGEST and self.name not in ("rng", "population"):
            raise EvenhandError(f"{self.name}={shown(value)} is too large a number. Pass one of at most {LARGEST:,}.")
        if self.takes.metavar == "LABEL" and not _may_be_label(value, many=self.takes.many):
            kinds = "a label, or a list of labels" if self.takes.many else "a label"
            raise EvenhandError(f"{self.name}={shown(value)} is no label. Pass {kinds}: text, a number or a date.")
        try:
            check_value(f"{self.name}=", value, self.hint, end="")
        except EvenhandError as error:
            if not self.names_column or isinstance(value, str):
                raise
            raise EvenhandError(
                f"{self.name}={shown(value)} is not a column name. Pass the name of a column as text."
            ) from error


def bare(hint: Any) -> Any:
    """A hint without what stands beside its type."""
    return typing.get_args(hint)[0] if typing.get_origin(hint) is Annotated else hint


LARGEST = 2**62
"""Whole numbers beyond this fit into no array; sizes and thresholds are far smaller."""


def _may_be_label(value: Any, *, many: bool) -> bool:
    """Whether this can be a label, or several: no mapping, and no list inside a list."""
    if isinstance(value, Mapping):
        return False
    if isinstance(value, (list, tuple, set, frozenset)):
        return many and all(not isinstance(one, (list, tuple, set, frozenset, Mapping)) for one in value)
    return True


def options(hint: Any) -> tuple[Any, ...]:
    """The alternatives of a union, or the hint alone."""
    return typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, _UNION) else (hint,)


_UNION = type(int | str)


@dataclass(frozen=True)
class Audit:
    """A question that can be asked of a table.

    Attributes
    ----------
    question : what it answers, in words. charts : kinds that its results can be drawn as, the first by default.
    default : which metrics are measured where none are named, in words; empty where the signature says it.
    extra : columns behind the standard ones.
    over : whom intervals are over (`"units"`, `"requests"`, `"rows"`), so that a note can say that they are few; rows of an
        outcome test have rules of their own for that. Empty where the audit has no intervals.
    stands_for : what the interval is for: a sentence for whoever reads the number.
    """

    name: str
    function: Callable[..., Any]
    question: str
    charts: tuple[str, ...]
    default: str
    extra: tuple[str, ...]
    over: str = ""
    stands_for: str = ""

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        """The signature that callers see: the call itself is not theirs to pass."""
        own = inspect.signature(self.function)
        return own.replace(parameters=list(own.parameters.values())[1:])

    @functools.cached_property
    def parameters(self) -> dict[str, Parameter]:
        hints = typing.get_type_hints(self.function, include_extras=True)
        about = described(self.function)
        return {
            name: Parameter(
                name, hints.get(name, Any), p.default, about.get(name, ""), p.kind is not inspect.Parameter.KEYWORD_ONLY
            )
            for name, p in self.signature.parameters.items()
        }

    @property
    def about(self) -> str:
        """What the audit measures: the first line of its docstring."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        made = self.call(*args, **keywords)
        by_place, by_name = [], {}
        for name, p in self.signature.parameters.items():
            value = made.arguments[name]
            if p.kind is inspect.Parameter.VAR_POSITIONAL:
                by_place += value
            elif p.kind is inspect.Parameter.KEYWORD_ONLY:
                by_name[name] = value
            else:
                by_place.append(value)
        return self.function(made, *by_place, **by_name)

    def _explained(self, error: TypeError) -> TypeError:
        """What Python says of arguments that do not fit, and where one is missing, what it is for."""
        lost = re.search(r"missing a required (?:keyword-only )?argument: '(\w+)'", str(error))
        about = self.parameters[lost[1]].about if lost and lost[1] in self.parameters else ""
        return TypeError(f"eh.{self.name}: {error}" + (f"\n{lost[1]}: {about}" if lost and about else ""))

    @property
    def _resamples(self) -> bool:
        """Whether `interval` is one of the plans that all audits share, or a choice of its own."""
        return "interval" in self.parameters and str in options(self.parameters["interval"].hint)

    def call(self, *args: Any, **keywords: Any) -> Call:
        """The arguments bound and checked, seed and interval read."""
        several = next(
            (n for n, p in self.signature.parameters.items() if p.kind is inspect.Parameter.VAR_POSITIONAL), ""
        )
        if several in keywords:  # as a plan has it
            args = (*args, keywords.pop(several))
        try:
            bound = self.signature.bind(*args, **keywords)
        except TypeError as error:
            raise self._explained(error) from None
        bound.apply_defaults()
        given = bound.arguments
        for name, value in given.items():
            for one in value if name == several else [value]:
                self.parameters[name].check(_as_python(one))
            given[name] = _as_python(value)
        return Call(
            self,
            given,
            Interval.parse(given["interval"] if self._resamples else "normal", given.get("level", 0.95)),
            seed_of(given["rng"]) if "rng" in given else None,
            int(given.get("min_units") or 0),
        )


def described(function: Callable[..., Any]) -> dict[str, str]:
    """What the docstring says of each parameter: lines `name, other : text`, and what is indented below.

    "as in `eh.inequality`" takes the words of that audit.
    """
    doc = inspect.getdoc(function) or ""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\w[^\n]*\n-+\n|^>>> |\Z)", doc, re.DOTALL | re.MULTILINE)
    found: dict[str, str] = {}
    for names, text in re.findall(
        r"^(\w[\w, ]*?) : (.*?)(?=^\w[\w, ]*? : |\Z)", section[1] if section else "", re.DOTALL | re.MULTILINE
    ):
        words = " ".join(text.split())
        for name in (n.strip() for n in names.split(",")):
            found[name] = words
            if same := re.match(r"as in `eh\.(\w+)`", words):
                there = find(same[1]).parameters.get(name)
                found[name] = there.about if there else words
    return found


@dataclass(frozen=True)
class Call:
    """One call of an audit: what was passed, and what every audit makes of it.

    Attributes
    ----------
    interval, seed, fewest : `interval` and `level`, `rng` and `min_units`, read; the seed is drawn where none was given.
    """

    audit: Audit
    arguments: Mapping[str, Any]
    interval: Interval
    seed: Any
    fewest: int

    @property
    def recorded(self) -> tuple[dict[str, Any], dict[str, str]]:
        """The plan, and which of its arguments were objects that it cannot hold."""
        plan: dict[str, Any] = {"audit": self.audit.name}
        objects: dict[str, str] = {}
        for name, value in self.arguments.items():
            parameter = self.audit.parameters[name]
            if name == "rng":
                plan[name] = self.seed
            elif parameter.required or not _same(value, parameter.default):
                plan[name] = parameter.in_words(value)
                if isinstance(plan[name], Object):
                    objects[name] = plan[name].what
                    plan[name] = f"<{plan[name].what}>"
        if isinstance(plan.get("population"), Mapping):
            plan["population"] = hidden_sizes(plan["population"], self.fewest, parts="group" in plan)
        return plan, objects

    @property
    def hash(self) -> str:
        """Tells this plan from others whatever data it is asked of: sizes, objects, the seed and dates are left out."""
        plan: dict[str, Any] = {"audit": self.audit.name}
        for name, value in self.arguments.items():
            parameter = self.audit.parameters[name]
            if parameter.required or not _same(value, parameter.default):
                told = in_words(value, table=parameter.takes.table)
                data = parameter.takes.table and not (told is None or isinstance(told, (str, list)))
                plan[name] = "data" if data or isinstance(told, Object) else told
        return plan_hash(plan)

    def provenance(
        self,
        read: int,
        dropped: Mapping[str, int],
        facts: Mapping[str, Any],
        counts: Mapping[str, Any],
        rows: Sequence[Row] | Mapping[str, Sequence[Any]],
        *,
        hides: bool = False,
    ) -> dict[str, Any]:
        """Where the numbers come from: what was read and left out, what the audit has to say of it, versions and plan.

        `counts` of what the audit met are told with the rows read, or not at all where `min_units` hides something.
        """
        plan, objects = self.recorded
        counted = {"rows": read, "dropped": dict(dropped), **counts}
        if hides or untold(counted, self.fewest, rows):
            counted = {"rows": None, "withheld": WITHHELD}
        told = {**counted, "seed": self.seed}
        if "level" in self.arguments:
            told["level"] = self.arguments["level"]
        if self.audit.stands_for and self.interval.kind != "none":
            told["interval_for"] = self.audit.stands_for
        told |= dict(facts)
        if isinstance(told.get("population"), Mapping):
            told["population"] = hidden_sizes(told["population"], self.fewest, parts="group" in plan)
        if objects:
            told["needed_again"] = objects
        placed = [name for name in plan if name != "audit" and self.audit.parameters[name].positional]
        if placed != list(plan)[1:2]:  # not simply the first of them, as of most audits
            told["by_place"] = placed
        parameters = self.audit.parameters
        if named := {n: parameters[n].takes.option for n in plan if n in parameters and parameters[n].takes.option}:
            told["options"] = named
        return {**told, "versions": versions(), "plan": plan, "plan_hash": self.hash}

    def result(
        self,
        rows: Sequence[Row] | Mapping[str, Sequence[Any]],
        *,
        backend: Any,
        read: int = 0,
        dropped: Mapping[str, int] | None = None,
        slices: Sequence[str] = (),
        columns: Sequence[str] | None = None,
        curves: Mapping[str, Any] | None = None,
        words: Mapping[str, str] | None = None,
        facts: Mapping[str, Any] | None = None,
        counts: Mapping[str, Any] | None = None,
        hides: bool = False,
        question: str = "",
        of: Callable[..., Held] = Result,  # type: ignore[assignment]
        **more: Any,
    ) -> Held:
        """The answer: rows in the public order (or ready columns), with where they come from.

        `read` rows of the table were read and `dropped` left out, by reason; `columns` are the slice columns of the frame
        where they are more than `slices` (edges of bins). `counts` say how many of something there are; they and the rows stay
        here where `min_units` hides something whose size would follow: a suppressed row, or what only the audit knows of
        (`hides`). `question` is asked in place of the audit's; `of` is the kind of result, made with `more`.
        """
        if not isinstance(rows, Mapping):
            sure = bool(self.audit.over) and self.interval.kind != "none"
            rows = adjusted(bounded(rows, self.audit.over, sure=sure), self.audit.extra)
            rows = tidy(rows, slices if columns is None else columns, self.audit.extra)
        findings = Findings(
            self.audit.name, question or self.audit.question, tuple(slices), rows, dict(curves or {}), dict(words or {}),
            self.provenance(read, dropped or {}, facts or {}, counts or {}, rows, hides=hides), self.audit.charts,
        )  # fmt: skip
        return of(findings, backend, **more)


@functools.cache
def versions() -> dict[str, str]:
    """What the numbers were made with."""
    found = {"python": platform.python_version()}
    for package in ("evenhand", "numpy", "narwhals", "polars"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def hidden_sizes(sizes: Mapping[str, Any], fewest: int, *, parts: bool = False) -> dict[str, Any]:
    """Sizes of slices or groups, without those of suppressed ones; parts of a whole that is shown are then all left out."""
    hide = parts and any(size < fewest for size in sizes.values())
    return {label: "suppressed" if hide or size < fewest else size for label, size in sizes.items()}


@dataclass(frozen=True)
class Object:
    """What stands in a plan for something that it cannot hold."""

    what: str


def in_words(value: Any, *, table: bool = False) -> Any:
    """Plain data that Python takes again, or an `Object`; a table is one unless it is named."""
    value = _as_python(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if hasattr(value, "as_word"):
        return value.as_word()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, (list, tuple, set, frozenset)):
        each = [in_words(v) for v in value]
        return Object(_kind(value)) if any(isinstance(e, Object) for e in each) else each
    if isinstance(value, Mapping):
        pairs = {str(k): in_words(v) for k, v in value.items()}
        return Object("a mapping") if any(isinstance(e, Object) for e in pairs.values()) else pairs
    if isinstance(value, np.ndarray) and not table:
        return value.tolist()
    return plain(value) if not table and _is_moment(value) else Object(_kind(value))


def _as_python(value: Any) -> Any:
    """A number of numpy as Python has it, also where it is an array without axes."""
    single = isinstance(value, (np.number, np.bool_)) or (isinstance(value, np.ndarray) and not value.ndim)
    return value.item() if single else value


def _are_words(values: Any) -> bool:
    return all(isinstance(v, (str, Path)) or hasattr(v, "as_word") for v in values)


def _are_sizes(values: Mapping[Any, Any]) -> bool:
    """Whether this says how many there are of each: small, and nothing about single units."""
    return bool(values) and all(is_whole(v) for v in values.values()) and len(values) <= 1_000


def _is_moment(value: Any) -> bool:
    return hasattr(value, "isoformat")


def _kind(value: Any) -> str:
    """What a caller would call this object."""
    library = type(value).__module__.split(".")[0].strip("_")
    kind = type(value).__name__ if library == "builtins" else f"{library} {type(value).__name__}"
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def _same(value: Any, default: Any) -> bool:
    """Whether an argument is what it would have been anyway."""
    if type(value) is not type(default) and not (isinstance(value, (list, tuple)) and isinstance(default, tuple)):
        return False
    return list(value) == list(default) if isinstance(default, tuple) else bool(value == default)


WITHHELD = "how many rows, units, items or requests there were: min_units hides something whose size would follow"

OTHER_UNITS = (
    "The interval is for other units like these: how far the number would move had others been drawn from where these come "
    "from. It is not for what these same units will get another time."
)
OTHER_REQUESTS = (
    "The interval is for other requests like these, answered with these same items: how far the number would move had other "
    "requests come in."
)

AUDITS: dict[str, Audit] = {}
"""The register: every audit that was loaded."""

TOOLS: dict[str, Audit] = {}
"""Functions that are declared like audits and hand back tables."""


def audit(
    name: str,
    *,
    question: str,
    charts: Sequence[str] = (),
    default: str = "",
    extra: Sequence[str] = (),
    over: str = "",
    stands_for: str = "",
) -> Callable[[Callable[Concatenate[Call, P], R]], Callable[P, R]]:
    """Declare an audit: the decorated function takes the `Call` first, then what its callers pass."""
    return _declare(AUDITS, name, question, tuple(charts), default, tuple(extra), over, stands_for)


def tool(name: str) -> Callable[[Callable[Concatenate[Call, P], R]], Callable[P, R]]:
    """Declare a function that is checked and called like an audit but answers with a table and not with a result."""
    return _declare(TOOLS, name, "", (), "", ())


def _declare(
    register: dict[str, Audit], name: str, *about: Any
) -> Callable[[Callable[Concatenate[Call, P], R]], Callable[P, R]]:
    def declare(function: Callable[Concatenate[Call, P], R]) -> Callable[P, R]:
        declared = Audit(name, function, *about)
        register[name] = declared

        @functools.wraps(function)
        def asked(*args: P.args, **keywords: P.kwargs) -> R:
            return declared(*args, **keywords)  # type: ignore[no-any-return]

        asked.__signature__ = declared.signature  # type: ignore[attr-defined]
        return asked

    return declare


def find(name: str) -> Audit:
    """The audit of this name, loaded from the module that has its name."""
    if name not in AUDITS and importlib.util.find_spec(f"evenhand.audits.{name}"):
        importlib.import_module(f"evenhand.audits.{name}")
    if name not in AUDITS:
        raise unknown_name("audit", name, names(), what="an audit")
    return AUDITS[name]


def names() -> list[str]:
    """Names of all audits there are; every module of this package is loaded for it."""
    from evenhand import audits

    for module in pkgutil.iter_modules(audits.__path__):
        importlib.import_module(f"evenhand.audits.{module.name}")
    return sorted(AUDITS)
