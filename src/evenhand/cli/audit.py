"""Options from an audit's declaration, and the typed words as its arguments."""

from __future__ import annotations

import argparse
import ast
import contextlib
import re
import shlex
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from evenhand.audits.declare import Audit, Parameter, bare, find, options
from evenhand.cli.options import progress
from evenhand.errors import EvenhandError
from evenhand.sources.inputs import TALLY, split_kind

ENGINES = ("duckdb", "polars", "spark")
"""Engines that read files; polars is what earlier plans call the local engine, which is DuckDB."""
NAMES = {"metrics": ("-m", "--metric"), "rng": ("--seed",), "cutoffs": ("--cutoff", "--cutoffs")}
"""Options that are not called like their parameter."""

COMMON_HELP = {
    "interval": "bootstrap(999), percentile(999), normal or none",
    "level": "confidence level of the interval",
    "rng": "random seed (default: drawn and recorded)",
}
"""Help on the parameters that audits share, where their docstrings do not describe them."""
TYPED_HELP = {
    "attention": (r"; or a weight for each rank, .*? function of the rank", "; or the weight of each rank, repeated"),
    "cutoffs": (r" \(default: .*\)", ""),
    "rankings": (r": `?result\.headroom.*", ", to show how far they are from the frontier"),
    "vary": (r".*", "choice to try, as argument=value, such as attention=log, unknown=group or metrics=awrf@10"),
    "within": (r"With the unit column too, .*?, they", "With the unit column as well (repeat the option), they"),
}
"""Parts of docstrings that speak of Python, as patterns, and what to say on the command line instead."""

HOW = ("metrics", "interval", "level", "rng", "min_units", "nan_policy")


class _Append(argparse.Action):
    """Collects the words of an option; one that takes a single value may be passed once."""

    def __init__(self, *args: Any, many: bool = False, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self.many = many

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        earlier = getattr(namespace, self.dest, [])
        if earlier and not self.many:
            parser.error(f"argument {option_string}: given twice, as {earlier[0]} and {values}. Give it once")
        setattr(namespace, self.dest, [*earlier, *(values if isinstance(values, list) else [values])])


def dest(name: str) -> str:
    """The attribute of a parsed parameter; no option of the output has such a name."""
    return f"of_{name}"


def typed_parameters(args: argparse.Namespace) -> dict[str, Any]:
    return {key.removeprefix("of_"): words for key, words in vars(args).items() if key.startswith("of_")}


def flag(name: str, audit: Audit | None = None) -> str:
    option = (audit.parameters[name].takes.option if audit else "") or name
    return NAMES.get(name, (f"--{option.replace('_', '-')}",))[-1]


def add_audit(parser: argparse.ArgumentParser, audit: Audit) -> None:
    """Add every parameter as an option, roles first; files and saved results are positional."""
    roles, rules = parser.add_argument_group("roles"), parser.add_argument_group("rules")
    how = parser.add_argument_group("metrics and method")
    for parameter in audit.parameters.values():
        if parameter.positional:
            _add_positional(parser, parameter)
        elif parameter.name in HOW:
            add_option(how, parameter, audit)
        else:
            takes_text = parameter.takes.metavar or str in options(bare(parameter.hint))
            add_option(roles if takes_text else rules, parameter, audit)
    first = next(iter(audit.parameters.values()))
    if first.takes.tally:
        text = "instead of files: the rows of the query that evenhand sql prints; may be repeated"
        parser.add_argument("--tally", metavar="FILE", action="append", help=text)
    if first.takes.table:
        add_engine(how)


def add_engine(group: Any) -> None:
    text = "engine that reads the files (default: duckdb; polars means the same)"
    group.add_argument("--engine", choices=ENGINES, default=ENGINES[0], help=text)
    group.add_argument("--master", metavar="URL", help="with --engine spark: the cluster, such as spark://host:7077")
    add_csv(group)


def add_csv(group: Any) -> None:
    text = (
        "how CSV files are written, where it is not found out, such as "
        "'delimiter=;,decimal=comma,thousands=dot,encoding=latin-1,null=N/A|-'"
    )
    group.add_argument("--csv", metavar="OPTIONS", help=text)


def _add_positional(parser: argparse.ArgumentParser, parameter: Parameter) -> None:
    takes = parameter.takes
    nargs: dict[str, Any] = {}
    if takes.table or takes.many:
        nargs = {"nargs": "+" if parameter.required and not takes.tally else "*"}
    elif not parameter.required:
        nargs = {"nargs": "?"}
    parser.add_argument(
        dest(parameter.name), metavar=takes.metavar or "FILE", help=takes.files or describe(parameter), **nargs
    )


def add_option(
    group: Any, parameter: Parameter, audit: Audit, *, required: bool | None = None, help: str = "", **more: Any
) -> None:
    """Add one parameter as an option; `help` and `more` override its declaration."""
    names = NAMES.get(parameter.name, (flag(parameter.name, audit),))
    text = help or describe(parameter)
    common = {
        "dest": dest(parameter.name),
        "default": argparse.SUPPRESS,
        "required": parameter.required if required is None else required,
    }
    if {*options(bare(parameter.hint))} - {type(None)} == {bool}:
        group.add_argument(*names, action=argparse.BooleanOptionalAction, help=text, **common)
        return
    if parameter.name == "metrics":
        default = audit.default or ", ".join(parameter.default or ())
        text = f"metric to compute; evenhand metrics lists them all; may be repeated (default: {default})"
    word = {"many": parameter.takes.many, "choices": _choices(parameter), "metavar": _metavar(parameter)}
    group.add_argument(*names, action=_Append, help=text, **common, **{**word, **more})


def _metavar(parameter: Parameter) -> str | None:
    if _choices(parameter):
        return None
    kinds = _kinds(parameter)
    if parameter.name == "metrics" or parameter.takes.metavar:
        return parameter.takes.metavar or "METRIC"
    if str not in kinds:
        return "N" if int in kinds else "X"
    return "COLUMN" if "column" in parameter.about else parameter.name.upper()


def _choices(parameter: Parameter) -> list[str] | None:
    closed = [o for o in options(bare(parameter.hint)) if typing.get_origin(o) is Literal]
    if not closed:
        return None
    return [str(c) for o in closed for c in typing.get_args(o)] + (["none"] if parameter.says_none else [])


def describe(parameter: Parameter) -> str:
    """A parameter's docstring and default in words of the command line, as argparse help."""
    text, default = (parameter.about or COMMON_HELP.get(parameter.name, "")).rstrip("."), parameter.default
    if parameter.name in TYPED_HELP:
        pattern, words = TYPED_HELP[parameter.name]
        text = re.sub(pattern, words, text, count=1)
    text = re.sub(r"\{(\w+): (number|share)\}", r"\1=\2,...", text)
    text = re.sub(r"(, or|[,;])? ?`?\{\w+: (\{[^}]*\}|[^{}]*)\}`?", "", text)  # a mapping cannot be typed
    if default is None:
        text = re.sub(r"; `?None`? (is|means) ([^;]+)$", r" (default: \2)", text)
    if parameter.takes.many and "repeated" not in text:
        text += "; may be repeated"
    has_default = default not in (None, (), "") and not parameter.required and not isinstance(default, bool)
    if has_default and "default" not in text:
        text += f" (default: {', '.join(map(str, default)) if isinstance(default, tuple) else default})"
    for old, new in (("`", ""), ('"', ""), ("eh.", ""), ("None", "none"), ("True", "true"), ("%", "%%")):
        text = text.replace(old, new)
    return text


def audit_of(verb: str) -> Audit:
    return find(verb.replace("-", "_"))


@contextlib.contextmanager
def reading(audit: Audit, args: argparse.Namespace) -> Iterator[None]:
    """Show progress while an audit runs; its errors speak of options."""
    try:
        with progress("reading", quiet=args.no_progress):
            yield
    except EvenhandError as error:
        raise EvenhandError(in_flags(str(error), audit)) from error


def call(audit: Audit, args: argparse.Namespace) -> Any:
    positional, by_name = bind(audit, args)
    return audit(*positional, **by_name)


def bind(audit: Audit, args: argparse.Namespace) -> tuple[list[Any], dict[str, Any]]:
    positional: list[Any] = []
    by_name: dict[str, Any] = {}
    for name, parameter in audit.parameters.items():
        words = getattr(args, dest(name), None)
        if parameter.positional:
            positional += _bind_positional(parameter, words, args)
        elif words is not None:
            value = words if isinstance(words, bool) else read(parameter, words)
            by_name[name] = second_table(parameter, value, *engine_of(args))
    return positional, by_name


def _bind_positional(parameter: Parameter, typed: Any, args: argparse.Namespace) -> list[Any]:
    if parameter.takes.tally:
        tallies = getattr(args, "tally", None) or []
        if bool(typed) == bool(tallies):
            fact = "Both files and --tally were given" if typed else "No file was given"
            raise EvenhandError(f"{fact}. Pass the files of the table, or --tally with the rows of a query.")
        typed = typed or [f"{TALLY}{path}" for path in tallies]
    if not typed:
        return []
    words = typed if isinstance(typed, list) else [typed]
    if parameter.takes.table:
        return [source(words, *engine_of(args))]
    return [read(parameter, [word]) for word in words]


def engine_of(args: argparse.Namespace) -> tuple[str, str | None, str | None]:
    return getattr(args, "engine", ""), getattr(args, "master", None), getattr(args, "csv", None)


def source(
    files: Sequence[str], engine: str, master: str | None = None, csv: str | Mapping[str, str] | None = None
) -> Any:
    """Paths as an audit takes them, with the cluster that reads them for --engine spark, or how their text is written."""
    from evenhand.sources.opening import Files
    from evenhand.sources.text_files import CsvOptions

    if master is not None and engine != "spark":
        raise EvenhandError(
            f"--master {master} only works with --engine spark. Add --engine spark, or leave --master out."
        )
    if engine == "spark" and csv:
        raise EvenhandError(
            "--csv is for files that DuckDB reads. Leave --engine spark out, or write the table as Parquet."
        )
    if (engine == "spark" or csv) and not files[0].endswith((".npz", ".npy")) and not split_kind(files[0])[0]:
        options = CsvOptions.parse(csv) if isinstance(csv, str) else CsvOptions.from_words(**csv) if csv else None
        return Files(tuple(files), engine, master, options)
    return list(files) if len(files) > 1 else files[0]


def second_table(parameter: Parameter, value: Any, engine: str, master: str | None, csv: Any = None) -> Any:
    """An argument; a second Parquet table is read by Spark too, as it may be as large, and CSV as --csv says."""
    if not (parameter.takes.table and isinstance(value, str)):
        return value
    is_text = bool(csv) and re.search(r"\.(csv|tsv)(\.gz|\.zst)?$", value.lower())
    is_large = engine == "spark" and value.endswith((".parquet", ".pq"))
    return source([value], engine, master, csv) if is_large or is_text else value


def read(parameter: Parameter, words: Sequence[str]) -> Any:
    takes = parameter.takes
    if len(words) == 1 and words[0].lower() == "none" and parameter.says_none:
        return None
    if takes.read is not None:
        return takes.read(list(words))
    kinds = _kinds(parameter)
    numeric = any(k in (int, float) for k in kinds) and str not in kinds
    parts = [part for word in words for part in (word.split(",") if numeric and takes.many else [word])]
    values = [_value(parameter.name, part, kinds, number=takes.number) for part in parts]
    return values[0] if len(values) == 1 else values


def _kinds(parameter: Parameter) -> list[Any]:
    """The types that a word of the option may have; of a list, those of its members."""
    nested = (Sequence, Annotated)
    hints = options(bare(parameter.hint))
    return [bare(typing.get_args(hint)[0] if typing.get_origin(hint) in nested else hint) for hint in hints]


def _value(name: str, text: str, kinds: Sequence[Any], *, number: bool) -> Any:
    if number and text.strip().isdecimal():
        return int(text)
    if str in kinds or not any(k in (int, float) for k in kinds):
        return text
    with contextlib.suppress(ValueError):
        if int in kinds and text.strip().lstrip("+-").replace("_", "").isdecimal():
            return int(text)
        if float in kinds:
            return float(text)
    kind = "a number" if float in kinds else "a whole number"
    raise EvenhandError(f"{flag(name)} {text!r} is not {kind}. Write {kind}.")


def in_flags(message: str, audit: Audit) -> str:
    """An audit's message with options instead of Python arguments.

    >>> from evenhand.audits.declare import find
    >>> in_flags("unit='autor' is not a column. Pass nan_policy='omit' or population=None.", find("inequality"))
    '--unit autor is not a column. Pass --nan-policy omit or --population none.'
    >>> in_flags("table='log.csv' has no rows.", find("inequality"))
    "'log.csv' has no rows."
    """
    names = "|".join(sorted(audit.parameters, key=len, reverse=True))
    argument = re.compile(rf"""(?<![\w.('"])({names})=('(?:[^'\\]|\\.)*'|"[^"]*"|[-\w][-\w.,]*\w|\w|)""")

    def option(match: re.Match[str]) -> str:
        if audit.parameters[match[1]].positional:  # files are typed without an option
            return match[2] or match[1]
        name, value = flag(match[1], audit), match[2]
        if value in ("True", "False"):
            return name if value == "True" else f"--no-{name.removeprefix('--')}"
        word = shlex.quote(value[1:-1]) if value[:1] in "'\"" and value else "none" if value == "None" else value
        return f"{name} {word}".rstrip()

    words = re.sub(r"eh\.read\.csv\(path, null=(.*?)\)(?=\.)", _null_option, message)
    return argument.sub(option, words).replace(" None", " none")


def _null_option(match: re.Match[str]) -> str:
    """The words for a missing value as an option, as in --csv 'null=TBD|?'."""
    words = ast.literal_eval(match[1])
    return f"--csv {shlex.quote('null=' + (words if isinstance(words, str) else '|'.join(words)))}"


def from_plan(audit: Audit, plan: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a plan file as the audit takes them; "none" is None, which TOML lacks."""
    parameters = audit.taken(plan)
    return {
        name: None if isinstance(value, str) and value == "none" and parameters[name].says_none else value
        for name, value in plan.items()
    }
