"""A verb from an audit's declaration: its parameters as options, the words that were typed as its arguments."""

from __future__ import annotations

import argparse
import re
import shlex
import typing
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from evenhand.audits.declare import Audit
from evenhand.audits.parameters import Parameter, bare, options
from evenhand.errors import EvenhandError
from evenhand.sources.tally_files import TALLY

ENGINES = ("duckdb", "polars", "spark")
"""What reads files; polars is the word of earlier plans for the local engine, which is DuckDB."""
NAMES = {"metrics": ("-m", "--metric"), "rng": ("--seed",), "cutoffs": ("--cutoff", "--cutoffs")}
"""Options that are not called like their parameter."""

ABOUT = {
    "interval": "bootstrap(999), percentile(999), normal or none",
    "level": "coverage of the interval",
    "rng": "seed of the random draws (default: drawn and recorded)",
}
"""Help on what every audit takes alike."""

HOW = ("metrics", "interval", "level", "rng", "min_units", "nan_policy")


class _Once(argparse.Action):
    """Keeps the words of an option; one that takes a single value may be given once."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        held = getattr(namespace, self.dest, [])
        if held and not self.metavar_many:
            parser.error(f"argument {option_string}: given twice, as {held[0]} and {values}. Give it once")
        setattr(namespace, self.dest, [*held, *(values if isinstance(values, list) else [values])])

    def __init__(self, *args: Any, many: bool = False, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self.metavar_many = many


def dest(name: str) -> str:
    """Where the words of a parameter are kept; no option of the output has such a name."""
    return f"of_{name}"


def flag(name: str, audit: Audit | None = None) -> str:
    """The option of a parameter as people type it."""
    called = (audit.parameters[name].takes.option if audit else "") or name
    return NAMES.get(name, (f"--{called.replace('_', '-')}",))[-1]


def add_audit(parser: argparse.ArgumentParser, audit: Audit) -> None:
    """Every parameter as an option, roles first; files and saved results by place."""
    roles, rules = parser.add_argument_group("roles"), parser.add_argument_group("rules")
    how = parser.add_argument_group("what and how")
    for parameter in audit.parameters.values():
        if parameter.positional:
            _add_place(parser, parameter)
        elif parameter.name in HOW:
            add_option(how, parameter, audit)
        else:
            add_option(rules if _is_rule(parameter) else roles, parameter, audit)
    first = next(iter(audit.parameters.values()))
    if first.takes.tally:
        rows = "in place of files: the rows of the query that evenhand sql prints"
        parser.add_argument("--tally", metavar="FILE", action="append", help=f"{rows}; may be repeated")
    if first.takes.table:
        add_engine(how)


def add_engine(group: Any) -> None:
    """What reads the files."""
    how = "what reads the files (default: duckdb; polars means the same)"
    group.add_argument("--engine", choices=ENGINES, default=ENGINES[0], help=how)
    group.add_argument("--master", metavar="URL", help="with --engine spark: the cluster, such as spark://host:7077")


def _is_rule(parameter: Parameter) -> bool:
    return not (parameter.takes.metavar or str in options(bare(parameter.hint)))


def _add_place(parser: argparse.ArgumentParser, parameter: Parameter) -> None:
    many = parameter.takes.table or parameter.takes.many
    must = parameter.required and not parameter.takes.tally
    count = ("+" if must else "*") if many else None if parameter.required else "?"
    said: dict[str, Any] = {"nargs": count} if count else {}
    text = parameter.takes.files or about(parameter)
    parser.add_argument(dest(parameter.name), metavar=parameter.takes.metavar or "FILE", help=text, **said)


def add_option(
    group: Any, parameter: Parameter, audit: Audit, *, required: bool | None = None, help: str = "", **more: Any
) -> None:
    """One parameter as an option; `help` and `more` go before what the parameter says of itself."""
    names = NAMES.get(parameter.name, (flag(parameter.name, audit),))
    common = {
        "dest": dest(parameter.name),
        "default": argparse.SUPPRESS,
        "required": parameter.required if required is None else required,
    }
    if {*options(bare(parameter.hint))} - {type(None)} == {bool}:
        group.add_argument(*names, action=argparse.BooleanOptionalAction, help=help or about(parameter), **common)
        return
    said = help or about(parameter)
    if parameter.name == "metrics":
        usual = audit.default or ", ".join(parameter.default or ())
        said = f"what to measure; evenhand metrics lists them all; may be repeated (default: {usual})"
    word = {"many": parameter.takes.many, "choices": _choices(parameter), "metavar": _metavar(parameter)}
    group.add_argument(*names, action=_Once, help=said, **common, **{**word, **more})


def _metavar(parameter: Parameter) -> str | None:
    """What help calls a word of the option."""
    if _choices(parameter):
        return None
    kinds = [k for o in options(bare(parameter.hint)) for k in _element(o)]
    if parameter.name == "metrics" or parameter.takes.metavar:
        return parameter.takes.metavar or "METRIC"
    if str not in kinds:
        return "N" if int in kinds else "X"
    return "COLUMN" if "column" in parameter.about else parameter.name.upper()


def _choices(parameter: Parameter) -> list[str] | None:
    """The words of a closed choice."""
    closed = [o for o in options(bare(parameter.hint)) if typing.get_origin(o) is Literal]
    if not closed:
        return None
    return [str(c) for o in closed for c in typing.get_args(o)] + (["none"] if parameter.says_none else [])


def about(parameter: Parameter) -> str:
    """The docstring's line, with the default, as somebody at a terminal reads it."""
    text = ABOUT.get(parameter.name, parameter.about).rstrip(".")
    often = "; may be repeated" if parameter.takes.many and "repeated" not in text else ""
    default = parameter.default
    shown = default not in (None, (), "") and not parameter.required and not isinstance(default, bool)
    return _shell_words(text + often + (f" (default: {default})" if shown and "default" not in text else ""))


def _shell_words(text: str) -> str:
    """A line of a docstring without Python's quotes and ticks; percent signs as argparse wants them."""
    for old, new in (("`", ""), ('"', ""), ("eh.", ""), ("None", "none"), ("True", "true"), ("%", "%%")):
        text = text.replace(old, new)
    return text


def call(audit: Audit, args: argparse.Namespace) -> Any:
    """Ask the audit what the words of the command line ask."""
    by_place, by_name = bind(audit, args)
    return audit(*by_place, **by_name)


def bind(audit: Audit, args: argparse.Namespace) -> tuple[list[Any], dict[str, Any]]:
    """The words of the command line as the audit's arguments, by place and by name."""
    by_place: list[Any] = []
    by_name: dict[str, Any] = {}
    for name, parameter in audit.parameters.items():
        typed = getattr(args, dest(name), None)
        if parameter.positional:
            by_place += _placed(parameter, typed, args)
        elif typed is not None:
            value = typed if isinstance(typed, bool) else read(parameter, typed)
            by_name[name] = beside_table(parameter, value, getattr(args, "engine", ""), getattr(args, "master", None))
    return by_place, by_name


def _placed(parameter: Parameter, typed: Any, args: argparse.Namespace) -> list[Any]:
    if parameter.takes.tally:
        counted = getattr(args, "tally", None) or []
        if bool(typed) == bool(counted):
            found = "Both files and --tally were given" if typed else "No file was given"
            raise EvenhandError(f"{found}. Pass the files of the table, or --tally with the rows of a query.")
        typed = typed or [f"{TALLY}{path}" for path in counted]
    if not typed:
        return []
    words = typed if isinstance(typed, list) else [typed]
    if parameter.takes.table:
        return [source(words, args.engine, getattr(args, "master", None))]
    return [read(parameter, [word]) for word in words]


def source(files: Sequence[str], engine: str, master: str | None = None) -> Any:
    """Files as an audit takes them: paths, with the cluster that reads them where it is not this machine."""
    if master is not None and engine != "spark":
        raise EvenhandError(f"--master {master} is a cluster of Spark. Add --engine spark, or leave it out.")
    if engine == "spark" and not files[0].endswith((".npz", ".npy")):
        from evenhand.sources.opening import Files

        return Files(tuple(files), engine, master)
    return list(files) if len(files) > 1 else files[0]


def beside_table(parameter: Parameter, value: Any, engine: str, master: str | None) -> Any:
    """A table beside the first: what a cluster joins may be as large, and is read where it can be."""
    large = engine == "spark" and parameter.takes.table and isinstance(value, str)
    return source([value], engine, master) if large and value.endswith((".parquet", ".pq")) else value


def read(parameter: Parameter, words: Sequence[str]) -> Any:
    """The words of one option as the value that the audit takes."""
    takes = parameter.takes
    if len(words) == 1 and words[0].lower() == "none" and parameter.says_none:
        return None
    if takes.read is not None:
        return takes.read(list(words))
    kinds = [k for o in options(bare(parameter.hint)) for k in _element(o)]
    numeric = any(k in (int, float) for k in kinds) and str not in kinds
    parts = [part for word in words for part in (word.split(",") if numeric and takes.many else [word])]
    values = [_value(parameter.name, part, kinds, number=takes.number) for part in parts]
    return values[0] if len(values) == 1 else values


def _element(option: Any) -> tuple[Any, ...]:
    """The type, or that of the members of a list."""
    inside = typing.get_args(option)[0] if typing.get_origin(option) in (Sequence, Annotated) else option
    return (bare(inside),)


def _value(name: str, text: str, kinds: Sequence[Any], *, number: bool) -> Any:
    if number and text.strip().isdecimal():
        return int(text)
    if str in kinds or not any(k in (int, float) for k in kinds):
        return text
    try:
        return (
            int(text)
            if int in kinds and text.strip().lstrip("+-").replace("_", "").isdecimal()
            else _float(text, kinds)
        )
    except ValueError as error:
        what = "a number" if float in kinds else "a whole number"
        raise EvenhandError(f"{flag(name)} {text!r} is not {what}. Write {what}.") from error


def _float(text: str, kinds: Sequence[Any]) -> float:
    if float not in kinds:
        raise ValueError(text)
    return float(text)


def in_flags(message: str, audit: Audit) -> str:
    """An audit's message as somebody at a terminal types it: options for arguments.

    >>> from evenhand.audits.declare import find
    >>> in_flags("unit='autor' is not a column. Pass nan_policy='omit' or population=None.", find("inequality"))
    '--unit autor is not a column. Pass --nan-policy omit or --population none.'
    >>> in_flags("table='log.csv' has no rows.", find("inequality"))
    "'log.csv' has no rows."
    """
    names = "|".join(sorted(audit.parameters, key=len, reverse=True))
    argument = re.compile(rf"""(?<![\w.('"])({names})=('(?:[^'\\]|\\.)*'|"[^"]*"|[-\w][-\w.,]*\w|\w|)""")

    def option(found: re.Match[str]) -> str:
        if audit.parameters[found[1]].positional:  # files stand by themselves, no option names them
            return found[2] or found[1]
        name, value = flag(found[1], audit), found[2]
        if value in ("True", "False"):
            return name if value == "True" else f"--no-{name.removeprefix('--')}"
        word = shlex.quote(value[1:-1]) if value[:1] in "'\"" and value else "none" if value == "None" else value
        return f"{name} {word}".rstrip()

    return argument.sub(option, message).replace(" None", " none")


def from_plan(audit: Audit, plan: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a plan file as the audit takes them: TOML has no None, so the word stands for it."""
    known = audit.taken(plan)
    return {
        name: None if isinstance(value, str) and value == "none" and known[name].says_none else value
        for name, value in plan.items()
    }
