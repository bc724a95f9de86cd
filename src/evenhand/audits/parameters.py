"""What a parameter of an audit takes, how it is checked, and how a plan records it.

Type hints say it: `Table`, `Columns`, `Labels`, `Metrics`, a `Literal`, a number `Between` two others. The command line, plan
files and "Make it again" read the same hints.
"""

from __future__ import annotations

import inspect
import json
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from evenhand.cards import Between, check_value, is_whole, shown
from evenhand.errors import EvenhandError, listing
from evenhand.findings import plain


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
