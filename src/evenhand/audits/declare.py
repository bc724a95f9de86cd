"""An audit is declared once: its signature lists the parameters, its docstring explains them, the register knows them all.

`@audit(...)` binds a call, checks every argument against the type hints, reads seed, interval and `min_units`, and keeps
the bound arguments as the plan. The command line, plan files, `evenhand run`, help texts and "Make it again" are made from
the register; nothing else lists audits or their parameters.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import inspect
import json
import logging
import math
import pkgutil
import platform
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from evenhand.audits.min_units import SUPPRESSED, Rounding, grid_step, must_withhold, rounded, without_labels
from evenhand.cards import Between, check_value, is_whole, shown
from evenhand.claims import Candidate, decide
from evenhand.errors import EvenhandError, listing, plural, refuse_keys, unknown_name
from evenhand.findings import Findings, Row, adjusted, bounded, names_of, plain, plan_hash, tidy
from evenhand.intervals.kinds import Interval, seed_of
from evenhand.results import Result
from evenhand.sources.inputs import Inputs
from evenhand.sources.relation import Bins, Periods


@dataclass(frozen=True)
class Takes:
    """How a parameter is given where its type alone does not say.

    Attributes
    ----------
    metavar : what help calls a word of it.
    many : several words make a list; one makes a single value.
    table : a table, a file or column names. Anything else is too much for a plan: it says that the object is needed again.
    label : what stands in the data, whatever it looks like: it is no address, and holds no key.
    files : which files it may be, for help.
    tally : the rows of a query may take its place (`evenhand sql`).
    sizes : a mapping says how many there are of each, which a plan can hold.
    number : a word of digits is a whole number.
    option : what the option is called where it is not called like the parameter.
    named : an option of the command line, although callers may pass it by place.
    read : reads the words of the command line, where none of this is enough.
    """

    metavar: str = ""
    many: bool = False
    table: bool = False
    label: bool = False
    files: str = ""
    tally: bool = False
    sizes: bool = False
    number: bool = False
    option: str = ""
    named: bool = False
    read: Callable[[list[str]], Any] | None = None


def pairs(name: str, text: str, kind: type) -> dict[str, Any]:
    """`label=number,label=number` of the command line, or the same as JSON.

    >>> pairs("target", "f=0.5, m=0.5", float)
    {'f': 0.5, 'm': 0.5}
    """
    option = f"--{name.replace('_', '-')} {text!r}"
    try:
        if text.lstrip().startswith("{"):
            return {str(label): kind(value) for label, value in json.loads(text).items()}
        parts = [part.rpartition("=") for part in text.split(",")]
        labels = [label.strip() for label, _, _ in parts]
        if repeated := sorted({label for label in labels if labels.count(label) > 1}):
            raise EvenhandError(f"{option} gives {listing(repeated)} two numbers. Give each label one.")
        if not all(labels):
            raise ValueError(text)
        return {label: kind(value) for label, (_, _, value) in zip(labels, parts, strict=True)}
    except (ValueError, TypeError, AttributeError) as error:
        if isinstance(error, EvenhandError):
            raise
        raise EvenhandError(f"{option} cannot be read. Write label=number,label=number.") from error


FILES = "Parquet, CSV, JSON lines (also .gz) or Excel, or a glob in quotes"
RUNS = "Parquet, CSV, JSON lines (also .gz) or Excel, or TREC runs; a glob in quotes"
Table = Annotated[Any, Takes("FILE", table=True, files=FILES)]
Countable = Annotated[Any, Takes("FILE", table=True, files=FILES, tally=True)]
Rankings = Annotated[Any, Takes("FILE", table=True, files=RUNS)]
CountableRankings = Annotated[Any, Takes("FILE", table=True, files=RUNS, tally=True)]
TableOrColumn = Annotated[Any, Takes("COLUMN|FILE", table=True)]
TableOrColumns = Annotated[Any, Takes("COLUMN|FILE", table=True, many=True)]
Label = Annotated[Any, Takes("LABEL", label=True)]
Labels = Annotated[Any, Takes("LABEL", many=True, label=True)]
Columns = str | Sequence[str] | None
Metrics = str | Sequence[str]
Seed = int | np.random.Generator | np.random.SeedSequence | None
Level = Annotated[float, Between(0, 1, open_low=True, open_high=True)]
Count = Annotated[int, Between(0, float("inf"))]


def sizes(words: list[str]) -> Any:
    """A population as the command line writes it: a number, `slice=number,...`, or a path.

    >>> sizes(["1,000"]), sizes(["a=3,b=4"]), sizes(["authors.csv"])
    (1000, {'a': 3, 'b': 4}, 'authors.csv')
    """
    text = words[-1]
    if re.fullmatch(r"-?(\d+(_\d+)*|\d{1,3}(,\d{3})+)", text):
        return int(text.replace(",", ""))
    if re.fullmatch(r"-?[\d,]+", text):
        raise EvenhandError(
            f"--population {text!r} is not one number: a comma stands before every three digits, as in 1,000,000. "
            "Write one number, or slice=number,slice=number."
        )
    if "=" not in text or text.endswith((".parquet", ".csv", ".jsonl", ".gz")):
        return text
    return pairs("population", text, int)


By = Annotated[str | Bins | Periods | Sequence[str | Bins | Periods] | None, Takes("COLUMN", many=True)]
Population = Annotated[Any, Takes("N|FILE|SLICE=N,...|none", table=True, sizes=True, read=sizes)]


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

    @cached_property
    def takes(self) -> Takes:
        if typing.get_origin(self.hint) is Annotated:
            return next((m for m in typing.get_args(self.hint)[1:] if isinstance(m, Takes)), Takes())
        return Takes(many=any(typing.get_origin(o) is Sequence for o in options(self.hint)))

    @property
    def names_column(self) -> bool:
        return "column" in self.about and any(str in (o, *typing.get_args(o)) for o in options(bare(self.hint)))

    @property
    def says_none(self) -> bool:
        """Whether the word "none" means None."""
        offered, allowed = "none" in self.takes.metavar.split("|"), type(None) in options(self.hint)
        has_other_default = self.default is not None and (bool(self.takes.metavar) or allowed)
        return offered or has_other_default or (allowed and self.names_column)

    def in_words(self, value: Any) -> Any:
        """An argument as a plan holds it: plain data that Python takes again, or an `Object`."""
        takes = self.takes
        if takes.table and isinstance(value, (list, tuple, set, frozenset, np.ndarray)):
            names_files = all(isinstance(v, (str, Path)) or hasattr(type(v), "as_word") for v in value)
            if not ((self.positional or takes.many) and names_files):
                return Object(_kind(value))  # labels of rows, ids: files and columns are named one by one
        if takes.table and isinstance(value, Mapping):
            # How many there are of each is small, and says nothing about single units.
            are_sizes = value and all(is_whole(v) for v in value.values()) and len(value) <= 1_000
            if not (takes.sizes and are_sizes):
                return Object(f"a mapping of {len(value):,} entries")
        return in_words(value, table=takes.table)

    def check(self, value: Any) -> None:
        """Refuse a value that its type hint does not allow."""
        if isinstance(value, str) and re.fullmatch(r"<.*>", value) and self.takes.table:
            raise EvenhandError(
                f"{self.name}={value!r} stands for an object of the call that was recorded. Pass that object again."
            )
        largest = 2**62  # beyond this nothing fits into an array
        if is_whole(value) and abs(int(value)) > largest and self.name not in ("rng", "population"):
            raise EvenhandError(f"{self.name}={shown(value)} is too large a number. Pass one of at most {largest:,}.")
        if self.takes.metavar == "LABEL":
            lists, many = (list, tuple, set, frozenset), self.takes.many
            elements = value if many and isinstance(value, lists) else [value]
            if any(isinstance(element, (*lists, Mapping)) for element in elements):
                kinds = "a label, or a list of labels" if many else "a label"
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


def options(hint: Any) -> tuple[Any, ...]:
    """The alternatives of a union, or the hint alone."""
    return typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)


@dataclass(frozen=True)
class Object:
    """Placeholder in a plan for an object that it cannot hold."""

    what: str


def in_words(value: Any, *, table: bool = False) -> Any:
    """Plain data that Python takes again, or an `Object`; a table is one unless it is named."""
    value = as_python(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    attributes = getattr(value, "__dict__", {})  # an audit has its word in there; SQLFrame has a column of any name
    if (hasattr(type(value), "as_word") or "as_word" in attributes) and (word := value.as_word()) is not None:
        return word
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
    is_date = hasattr(type(value), "isoformat")
    return plain(value) if is_date and not table else Object(_kind(value))


def as_python(value: Any) -> Any:
    """A number of numpy as Python has it, also where it is an array without axes."""
    single = isinstance(value, (np.number, np.bool_)) or (isinstance(value, np.ndarray) and not value.ndim)
    return value.item() if single else value


def _kind(value: Any) -> str:
    library = type(value).__module__.split(".")[0].strip("_")
    kind = type(value).__name__ if library == "builtins" else f"{library} {type(value).__name__}"
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def same(value: Any, default: Any) -> bool:
    """Whether an argument is what it would have been anyway."""
    if type(value) is not type(default) and not (isinstance(value, (list, tuple)) and isinstance(default, tuple)):
        return False
    return list(value) == list(default) if isinstance(default, tuple) else bool(value == default)


log = logging.getLogger("evenhand")
"""Stages of the work, for whoever shows progress."""

P = ParamSpec("P")
R = TypeVar("R")
ResultT = TypeVar("ResultT", bound=Result)


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
    stands_for : what the interval is for: a sentence for whoever reads the number; `{units}` are the units by name.
    null : under what the column `chance` is the mean ("in random order"), by metric where they differ.
    """

    name: str
    function: Callable[..., Any]
    question: str = ""
    charts: tuple[str, ...] = ()
    default: str = ""
    extra: tuple[str, ...] = ()
    over: str = ""
    stands_for: str = ""
    null: str | Mapping[str, str] = ""

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        """The signature that callers see: the call itself is not theirs to pass."""
        full = inspect.signature(self.function)
        return full.replace(parameters=list(full.parameters.values())[1:])

    @functools.cached_property
    def parameters(self) -> dict[str, Parameter]:
        hints = typing.get_type_hints(self.function, include_extras=True)
        about = described(self.function)
        parameters = {
            name: Parameter(
                name, hints.get(name, Any), p.default, about.get(name, ""), p.kind is not inspect.Parameter.KEYWORD_ONLY
            )
            for name, p in self.signature.parameters.items()
        }
        return {name: replace(p, positional=p.positional and not p.takes.named) for name, p in parameters.items()}

    @functools.cached_property
    def repeats(self) -> str:
        """Name of the keywords that are handed on to the repeated audit; empty for most audits."""
        kinds = self.signature.parameters.items()
        return next((n for n, p in kinds if p.kind is inspect.Parameter.VAR_KEYWORD), "")

    def taken(self, arguments: Mapping[str, Any]) -> dict[str, Parameter]:
        """Its parameters; of an audit that repeats another, those of the other as well."""
        if not self.repeats:
            return self.parameters
        declared = {name: p for name, p in self.parameters.items() if name != self.repeats}
        other = find(in_words(arguments["of"])).parameters if "of" in arguments else {}
        return {**declared, **{name: p for name, p in other.items() if name not in declared and not p.positional}}

    @property
    def about(self) -> str:
        """First line of the docstring: what the audit measures."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        bound = self.bind(*args, **keywords)
        call = self._call_of(bound)
        with call.inputs.recording():
            with in_words_beyond_limits(self.name):
                result = self.function(call, *bound.args, **bound.kwargs)
            return self._with_whole(call, bound, result)

    def _with_whole(self, call: Call, bound: inspect.BoundArguments, result: Any) -> Any:
        """A result with slices, and how to make it without; under `min_units` one would give the other away."""
        by = call.arguments.get("by")
        if not by or call.min_units > 1 or not isinstance(result, Result) or "estimate" not in result.findings.columns:
            return result
        plan = result.findings.provenance["plan"]
        unsliced = {**bound.kwargs, "by": None, **{name: plan[name] for name in ("metrics", "rng") if name in plan}}
        return replace(result, _whole=functools.partial(self, *bound.args, **unsliced))

    def call(self, *args: Any, **keywords: Any) -> Call:
        """The arguments bound and checked, seed and interval read."""
        return self._call_of(self.bind(*args, **keywords))

    def bind(self, *args: Any, **keywords: Any) -> inspect.BoundArguments:
        """The arguments by parameter, checked against the type hints, defaults filled in."""
        signature = self.signature.parameters.items()
        several = next((n for n, p in signature if p.kind is inspect.Parameter.VAR_POSITIONAL), "")
        if several in keywords:  # as a plan has it
            args = (*args, keywords.pop(several))
        try:
            bound = self.signature.bind(*args, **keywords)
        except TypeError as error:
            lost = re.search(r"missing a required (?:keyword-only )?argument: '(\w+)'", str(error))
            about = self.parameters[lost[1]].about if lost and lost[1] in self.parameters else ""
            raise TypeError(f"eh.{self.name}: {error}" + (f"\n{lost[1]}: {about}" if lost and about else "")) from None
        for name, value in bound.arguments.items():
            word = value.as_word() if hasattr(type(value), "as_word") else value
            if not self.parameters[name].takes.label:
                refuse_keys(name, *(word if isinstance(word, (list, tuple)) else [word]))
            for element in value if name == several else [value]:
                self.parameters[name].check(as_python(element))
            bound.arguments[name] = as_python(value)
        bound.apply_defaults()
        return bound

    def _call_of(self, bound: inspect.BoundArguments) -> Call:
        values = dict(bound.arguments)
        values |= values.pop(self.repeats, {})
        # Where `interval` takes no text, it is a choice of the audit's own and not one of the plans that all share.
        resamples = "interval" in self.parameters and str in options(self.parameters["interval"].hint)
        return Call(
            self,
            values,
            Interval.parse(values["interval"] if resamples else "normal", values.get("level", 0.95)),
            seed_of(values["rng"]) if "rng" in values else None,
            int(values.get("min_units") or 0),
        )


@contextmanager
def in_words_beyond_limits(audit: str) -> Iterator[None]:
    """What no machine holds, or libraries give up on, as a sentence: numpy's and Python's errors, and panics of Polars."""
    try:
        yield
    except MemoryError as error:
        amount = re.search(r"allocate ([\d.]+ \wiB)", str(error))
        much = f"needs {amount[1]} of memory at once" if amount else "needs more memory than there is"
        raise EvenhandError(
            f"{audit} {much}: too many groups, slices or metrics at a time. Use broader groups, fewer slices or metrics, or "
            "interval=None."
        ) from error
    except RecursionError as error:
        raise EvenhandError(f"{audit}: the data or an argument is nested too deeply. Pass plain values.") from error
    except Exception:
        raise
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise EvenhandError(
            f"{audit}: Polars gave up on this table. Write it to Parquet, and pass the path."
        ) from error


def described(function: Callable[..., Any]) -> dict[str, str]:
    """Descriptions of parameters in a docstring, from lines `name, other : text`.

    "as in `eh.inequality`" takes the words of that audit.
    """
    doc = inspect.getdoc(function) or ""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\w[^\n]*\n-+\n|^>>> |\Z)", doc, re.DOTALL | re.MULTILINE)
    texts: dict[str, str] = {}
    for names, text in re.findall(
        r"^(\w[\w, ]*?) : (.*?)(?=^\w[\w, ]*? : |\Z)", section[1] if section else "", re.DOTALL | re.MULTILINE
    ):
        words = " ".join(text.split())
        for name in (n.strip() for n in names.split(",")):
            texts[name] = words
            if same := re.match(r"as in `eh\.(\w+)`", words):
                parameter = find(same[1]).parameters.get(name)
                texts[name] = parameter.about if parameter else words
    return texts


@dataclass(frozen=True)
class Call:
    """One call of an audit: what was passed, and what every audit makes of it.

    Attributes
    ----------
    interval, seed, min_units : `interval` and `level`, `rng` and `min_units`, read; the seed is drawn where none was given.
    settled : defaults that the data decided: part of the plan, not of its hash, since the question is the same.
    inputs : the files and tables that were read.
    """

    audit: Audit
    arguments: Mapping[str, Any]
    interval: Interval
    seed: Any
    min_units: int
    inputs: Inputs = field(default_factory=Inputs)
    settled: Mapping[str, Any] = field(default_factory=dict)

    @functools.cached_property
    def parameters(self) -> dict[str, Parameter]:
        return self.audit.taken(self.arguments)

    @property
    def recorded(self) -> tuple[dict[str, Any], dict[str, str]]:
        """The plan, and which of its arguments were objects that it cannot hold."""
        plan: dict[str, Any] = {"audit": self.audit.name}
        objects: dict[str, str] = {}
        for name, value in {**self.arguments, **self.settled}.items():
            parameter = self.parameters[name]
            if name == "rng":
                plan[name] = self.seed
            elif parameter.required or not same(value, parameter.default):
                plan[name] = parameter.in_words(value)
                if isinstance(plan[name], Object):
                    objects[name] = plan[name].what
                    plan[name] = f"<{plan[name].what}>"
        if isinstance(plan.get("population"), Mapping):
            plan["population"] = self._hidden_sizes(plan["population"], plan)
        return plan, objects

    def _hidden_sizes(self, sizes: Mapping[str, Any], plan: Mapping[str, Any]) -> dict[str, Any]:
        """Sizes of slices as published; of cells of several columns not even the labels of small ones."""
        published = hidden_sizes(sizes, self.min_units, parts="group" in plan)
        if len(names_of(self.arguments.get("by"))) < 2:
            return published
        return {SUPPRESSED if size == "suppressed" else label: size for label, size in published.items()}

    @property
    def hash(self) -> str:
        """Hash of the plan without data, seed and dates: the same question has the same hash."""
        plan: dict[str, Any] = {"audit": self.audit.name}
        for name, value in self.arguments.items():
            parameter = self.parameters[name]
            if parameter.required or not same(value, parameter.default):
                word = in_words(value, table=parameter.takes.table)
                data = parameter.takes.table and not (word is None or isinstance(word, (str, list)))
                plan[name] = "data" if data or isinstance(word, Object) else word
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
        rounding: Rounding | None = None,
    ) -> dict[str, Any]:
        """Rows read and dropped, facts of the audit, versions and plan.

        `counts` of what the audit met are told with the rows read, or not at all where `min_units` hides something.
        """
        plan, objects = self.recorded
        counted = {"rows": read, "dropped": dict(dropped), **counts}
        if hides or (self.min_units > 1 and must_withhold(counted, self.min_units, rows)):
            counted = {"rows": None, "withheld": WITHHELD}
        elif rounding:
            counted = rounding.counts(counted)
        record: dict[str, Any] = {**counted, "seed": self.seed}
        if "level" in self.arguments:
            record["level"] = self.arguments["level"]
        if self.audit.stands_for and self.interval.kind != "none":
            units = plural(self.arguments.get("unit") or "unit")
            record["interval_for"] = self.audit.stands_for.format(units=units)
        record |= facts
        if isinstance(sizes := record.get("population"), Mapping):
            record["population"] = self._hidden_sizes(sizes, plan)
        files = [value.reading for value in self.arguments.values() if hasattr(type(value), "reading")]
        if reading := {**(files[0] if files else {}), **self.inputs.reading()}:
            record["reading"] = reading
        record["inputs"] = self.inputs.records(read or None)
        if counted["rows"] is None:
            record["inputs"] = [{**entry, "rows": None} for entry in record["inputs"]]
        record["computed_at"] = now()
        if objects:
            record["needed_again"] = objects
        placed = [name for name in plan if name != "audit" and self.parameters[name].positional]
        if placed != list(plan)[1:2]:  # not simply the first of them, as of most audits
            record["by_place"] = placed
        options_of = {name: self.parameters[name].takes.option for name in plan if name != "audit"}
        if named := {name: option for name, option in options_of.items() if option}:
            record["options"] = named
        return {**record, "versions": versions(), "plan": plan, "plan_hash": self.hash}

    def published(self, figure: float, units: float) -> float:
        """A share or score about so many units as it may be said under `min_units`; as it is without."""
        return rounded(figure, grid_step(max(1.0, abs(figure)) / units)) if self.min_units > 1 and units else figure

    def rounding(self, rows: Sequence[Row] | Mapping[str, Sequence[Any]]) -> Rounding | None:
        """How the figures of these rows are published under `min_units`; None without."""
        if self.min_units <= 1:
            return None
        if isinstance(rows, Mapping):
            rows = [dict(zip(rows, cells, strict=True)) for cells in zip(*rows.values(), strict=True)]
        return Rounding.from_rows(rows, self.min_units)

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
        claims: Iterable[Candidate] = (),
        null: str = "",
        of: Callable[..., ResultT] = Result,  # type: ignore[assignment]
        **more: Any,
    ) -> ResultT:
        """The answer: rows in the public order (or ready columns), with where they come from.

        `read` rows of the table were read and `dropped` left out, by reason; `columns` are the slice columns of the frame
        where they are more than `slices` (edges of bins). `counts` say how many of something there are; they and the rows stay
        here where `min_units` hides something whose size would follow: a suppressed row, or what only the audit knows of
        (`hides`). `question` is asked in place of the audit's; `claims` are all that the result could assert; `null` takes the
        place of the audit's; `of` is the kind of result, made with `more`.
        """
        counts, facts, curves = dict(counts or {}), dict(facts or {}), dict(curves or {})
        rounding = self.rounding(rows)
        if not isinstance(rows, Mapping):
            has_intervals = bool(self.audit.over) and self.interval.kind != "none"
            rows = bounded(rows, self.audit.over) if has_intervals else rows
            if rounding:
                by = [name for name in slices if name not in ("system", "amount", "arm")]
                if len(by) > 1:
                    rows = without_labels(rows, by, [c for c in columns or by if c not in slices or c in by])
                curves = {name: rounding.points(points, slices, rows) for name, points in curves.items()}
                rows = [rounding.row(r) for r in rows]
            rows = tidy(adjusted(rows, self.audit.extra), slices if columns is None else columns, self.audit.extra)
        elif rounding:
            rows = rounding.columns(rows)
        if nulls := nulls_of(rows, null or self.audit.null):
            facts = {**facts, "chance": nulls}
        if rounding:
            facts, claims = rounding.facts(facts), map(rounding.claim, claims)
        provenance = self.provenance(read, dropped or {}, facts, counts, rows, hides=hides, rounding=rounding)
        findings = Findings(
            self.audit.name, question or self.audit.question, tuple(slices), rows, curves, dict(words or {}),
            provenance, self.audit.charts, decide(claims, float(provenance.get("level", self.interval.level))) if claims else (),
        )  # fmt: skip
        return of(findings, backend, **more)


MOST_SLICES = {
    "inequality": 100_000, "impact": 50_000, "prefix": 50_000, "exposure": 20_000, "pairwise": 20_000, "recommender": 5_000,
    "sources": 5_000, "decompose": 4_000, "criteria": 2_000, "experiment": 1_000, "network": 1_000,
}  # fmt: skip
"""What one core measures in about a minute: a slice takes 0.6 ms (inequality, ten units) to 30 ms (criteria)."""


def refuse_many_slices(audit: str, count: int, role: str = "by") -> None:
    if count > (most := MOST_SLICES[audit]):
        raise EvenhandError(
            f"{role} makes {count:,} slices, and {audit} measures at most {most:,}. Name columns with fewer values."
        )


def nulls_of(rows: Mapping[str, Sequence[Any]], null: str | Mapping[str, str]) -> dict[str, str]:
    """What `chance` is the mean under, for every metric that has it.

    >>> nulls_of({"metric": ["gini", "mean"], "chance": [0.2, math.nan]}, "at equal rates")
    {'gini': 'at equal rates'}
    """
    levels = zip(rows.get("metric", ()), rows.get("chance", ()), strict=False)
    levelled = dict.fromkeys(str(metric) for metric, chance in levels if chance is not None and math.isfinite(chance))
    texts = {m: null if isinstance(null, str) else null.get(re.split(r"\W", m)[0], "") for m in levelled}
    return {metric: text for metric, text in texts.items() if text}


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@functools.cache
def versions() -> dict[str, str]:
    by_package = {"python": platform.python_version()}
    for package in ("evenhand", "numpy", "narwhals", "polars"):
        try:
            by_package[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return by_package


def hidden_sizes(sizes: Mapping[str, Any], fewest: int, *, parts: bool = False) -> dict[str, Any]:
    """Sizes with small ones suppressed; all of them where they are parts of a known whole."""
    hide = parts and any(size < fewest for size in sizes.values())
    return {label: "suppressed" if hide or size < fewest else size for label, size in sizes.items()}


WITHHELD = "how many rows, units, items or requests there were: min_units hides something whose size would follow"

OTHER_UNITS = (
    "The interval is for other {units} like these: how far the number would move had others been drawn from where these come "
    "from. It is not for what these same {units} will get another time."
)
OTHER_REQUESTS = (
    "The interval is for other requests like these, answered with these same items: how far the number would move had other "
    "requests come in."
)

AUDITS: dict[str, Audit] = {}
"""The register: every audit that was loaded."""

TOOLS: dict[str, Audit] = {}
"""Functions that are declared like audits and hand back tables."""


def audit(name: str, **about: Any) -> Callable[[Callable[Concatenate[Call, P], R]], Callable[P, R]]:
    """Declare an audit, `about` it what `Audit` lists: the function takes the `Call` first, then what its callers pass."""
    return _declare(AUDITS, name, about)


def tool(name: str) -> Callable[[Callable[Concatenate[Call, P], R]], Callable[P, R]]:
    """Declare a function that is checked and called like an audit but returns a table."""
    return _declare(TOOLS, name, {})


def _declare(
    register: dict[str, Audit], name: str, about: Mapping[str, Any]
) -> Callable[[Callable[Concatenate[Call, P], R]], Callable[P, R]]:
    def declare(function: Callable[Concatenate[Call, P], R]) -> Callable[P, R]:
        declared = Audit(name, function, **about)
        register[name] = declared

        @functools.wraps(function)
        def call_audit(*args: P.args, **keywords: P.kwargs) -> R:
            return declared(*args, **keywords)  # type: ignore[no-any-return]

        call_audit.__signature__ = declared.signature  # type: ignore[attr-defined]
        call_audit.as_word = lambda: name  # type: ignore[attr-defined]  # an audit that is passed to another stands in its plan
        return call_audit

    return declare


def find(name: str) -> Audit:
    """The audit of this name, loaded from the module of the same name."""
    for module in _modules() if name not in AUDITS else ():
        if module.rpartition(".")[2] == name:
            importlib.import_module(module)
    if name not in AUDITS:
        raise unknown_name("audit", name, names(), what="an audit")
    return AUDITS[name]


def names() -> list[str]:
    """Names of all audits there are; every module of this package is loaded for it."""
    for module in _modules():
        importlib.import_module(module)
    return sorted(AUDITS)


def _modules() -> list[str]:
    from evenhand import audits

    return [module.name for module in pkgutil.walk_packages(audits.__path__, f"{audits.__name__}.")]
