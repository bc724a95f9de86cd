"""Plan files, and `evenhand plan`: a plan file from a command, whether plan files can be run, or the JSON Schema of plans.

A plan is TOML; it runs one audit, whose parameters are its keys, or several, each a table of `[[audits]]`; keys above those are
shared by every audit that takes them. `ANSWER_KEYS` say what to do with the answer. Variables are filled in, and keys are
checked against the audits' parameters.
"""

from __future__ import annotations

import argparse
import contextlib
import glob
import json
import os
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from evenhand.audits.declare import Audit, Call, find, names
from evenhand.cli.audit import ENGINES, audit_of, bind, from_plan, second_table, source
from evenhand.errors import EvenhandError, listing, suggestion, unknown_name
from evenhand.gates import INCONCLUSIVE
from evenhand.gates import parse as parse_rule
from evenhand.sources.inputs import scheme, split_kind

HEAD = "# evenhand run plan.toml\n"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--schema", action="store_true", help="print the JSON Schema of plans instead")
    parser.add_argument(
        "--check", action="store_true", help="check plan files instead: audits, keys and rules, no data"
    )
    text = "a verb with its options; with --check, plan files"
    parser.add_argument("words", metavar="VERB ...", nargs=argparse.REMAINDER, help=text)


def run(args: argparse.Namespace) -> int:
    if args.schema:
        sys.stdout.write(schema_text())
        return 0
    if args.check:
        return _check(args.words)
    if not args.words:
        raise EvenhandError(
            "evenhand plan needs a command to write as a plan, as in: evenhand plan inequality log.csv ..."
        )
    sys.stdout.write(HEAD + plan_of(args.words))
    return 0


def _check(names: Sequence[str]) -> int:
    """2 where a plan file could not be run whatever the data, with a line for each; every `${NAME}` counts as given."""
    if not names:
        raise EvenhandError("--check needs plan files. Name them, as in: evenhand plan --check plan.toml.")
    exit_code = 0
    for path in map(Path, names):
        try:
            raw = load(path)
            values = {name: name for name in variable_names(raw)}
            for step in plan(path, raw, values, datetime.now(UTC).date()).steps:
                step.audit.call(**step.parameters)
                for rule in step.answer.get("check", []):
                    parse_rule(rule)
        except EvenhandError as error:
            where = "" if str(path) in str(error) else f"{str(path)!r}: "
            print(f"evenhand: {where}{error}", file=sys.stderr)
            exit_code = 2
    return exit_code


def plan_of(words: list[str]) -> str:
    from evenhand import cli
    from evenhand.report.reproduce import plan_file

    typed = cli.parse(words)
    if not cli.is_audit(typed.verb):
        audits = ", ".join(verb for verb in cli.VERBS if cli.is_audit(verb))
        raise EvenhandError(f"{typed.verb!r} is not an audit, and a plan runs audits. Use one of: {audits}.")
    audit = audit_of(typed.verb)
    positional, by_name = bind(audit, typed)
    recorded, objects = audit.call(*positional, **by_name).recorded
    if objects:
        raise EvenhandError(f"A plan cannot hold {', '.join(objects)}. Name files instead.")
    if "rng" not in by_name:
        recorded.pop("rng", None)
    answer = {
        "check": typed.check, "baseline": typed.against, "inconclusive": typed.inconclusive,
        "adjust": typed.adjust if typed.adjust == "none" else None,
        "outputs": [path for path in (typed.html, typed.output) if path], "plot": typed.plot, "history": typed.history,
        "csv": getattr(typed, "csv", None), "junit": typed.junit, "summary": typed.summary,
    }  # fmt: skip
    return plan_file({**recorded, **{key: value for key, value in answer.items() if value}})


ANSWER_KEYS = {
    "name": "what to call this audit in a build",
    "check": "rules that must hold, such as 'gini <= 0.9' or 'gini <= baseline + 0.01'",
    "baseline": "saved result(s) that rules may name",
    "inconclusive": "what decides a check whose interval includes the limit: estimate, pass or fail",
    "adjust": "with inconclusive = 'pass': adjust failures over all checks of the run: holm or none",
    "outputs": "files to write; the ending decides: .html, .xlsx, .csv, .tsv, .jsonl, .json, .md, .tex, .txt or .prom",
    "plot": "charts to write, as KIND=FILE.svg",
    "engine": "engine that reads the files: duckdb (polars means the same) or spark",
    "master": "with spark: the cluster, such as spark://host:7077",
    "csv": "how CSV files are written, as in 'delimiter=;,decimal=comma'",
}
"""Keys of an audit that are not parameters; a parameter of the same name comes first."""
PLAN_KEYS = {
    "audits": "several audits in one plan, each a table [[audits]]",
    "history": "file that collects the numbers of every day",
    "junit": "write the checks as JUnit XML",
    "summary": "write checks and findings as Markdown",
    "variables": "values of ${NAME} in this plan; --set NAME=VALUE overrides them",
}
"""Keys of a whole plan."""
FILES = frozenset({"baseline", "outputs", "plot", "history", "junit", "summary"})
"""Keys with paths, which are relative to the plan."""
DATED = {"DATE": r"\d{4}-\d\d-\d\d", "YEAR": r"\d{4}", "MONTH": r"\d\d", "DAY": r"\d\d"}
"""Variables that a day fills in, and the pattern of their values."""
_VARIABLE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True)
class Step:
    audit: Audit
    written: Mapping[str, Any]
    answer: Mapping[str, Any]
    folder: Path
    undated: Mapping[str, Any] = field(default_factory=dict)  # as written, with ${DATE} and the like as they stand

    @property
    def name(self) -> str:
        return str(self.answer.get("name") or self.audit.name)

    @property
    def hash(self) -> str:
        """Identifies the question, whatever the folder of the plan and the day."""
        call: Call = self.audit.call(**from_plan(self.audit, self.undated or self.written))
        return call.hash

    @property
    def parameters(self) -> dict[str, Any]:
        """The arguments of the audit as written, with tables as words."""
        return from_plan(self.audit, self.written)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the audit, with paths resolved from the plan's folder."""
        engine = self.answer.get("engine", ENGINES[0])
        reading = (engine, self.answer.get("master"), self.answer.get("csv"))
        arguments = {name: resolve(value, self.folder) for name, value in self.parameters.items()}
        for name, value in arguments.items():
            parameter = self.audit.parameters.get(name)
            words = value if isinstance(value, list) else [value]
            if parameter and parameter.positional and parameter.takes.table and isinstance(words[0], str):
                arguments[name] = source(words, *reading)
            elif parameter:
                arguments[name] = second_table(parameter, value, *reading)
        return arguments


@dataclass(frozen=True)
class Plan:
    steps: tuple[Step, ...]
    whole: Mapping[str, Any] = field(default_factory=dict)


def load(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise EvenhandError(f"{str(path)!r} cannot be read ({error.strerror}). Pass the path of a plan.") from error
    except (ValueError, RecursionError) as error:  # also numbers of thousands of digits, and brackets without an end
        raise EvenhandError(f"{str(path)!r} is not TOML: {error}. See evenhand run --help for an example.") from error


def variable_names(raw: Mapping[str, Any]) -> set[str]:
    """Variables of a plan that neither a day nor the plan itself gives."""
    return set(_VARIABLE.findall(str(raw))) - {*DATED, *raw.get("variables", ())}


def plan(path: Path, raw: Mapping[str, Any], values: Mapping[str, str], at: date | None) -> Plan:
    """The steps of a plan, with variables filled in for a day."""
    dates = dict(zip(DATED, (at.isoformat(), *at.isoformat().split("-")), strict=True)) if at else {}
    values = {**_variables(path, raw), **values, **dates}
    filled = {key: _fill(path, value, values) for key, value in raw.items() if key != "variables"}
    names = {name: f"${{{name}}}" for name in DATED if name in values}
    undated = {key: _fill(path, value, {**values, **names}) for key, value in raw.items() if key != "variables"}
    whole = {key: _checked(key, filled[key], path.parent) for key in PLAN_KEYS if key in filled and key != "audits"}
    steps = _steps(path, filled)
    if undated != filled:
        steps = [replace(step, undated=other.written) for step, other in zip(steps, _steps(path, undated), strict=True)]
    return Plan(tuple(steps), whole)


def _steps(path: Path, filled: Mapping[str, Any]) -> list[Step]:
    shared = {key: value for key, value in filled.items() if key not in PLAN_KEYS}
    tables = filled.get("audits")
    if tables is None:
        return [_step(path, shared)]
    if not isinstance(tables, list) or not tables or not all(isinstance(table, Mapping) for table in tables):
        raise EvenhandError(f"{str(path)!r} has audits that are not tables. Write each audit below a line [[audits]].")
    if "audit" in shared:
        raise EvenhandError(f"{str(path)!r} names an audit above [[audits]]. Name each audit below a line [[audits]].")
    audits = [_audit(path, table) for table in tables]
    keys = [*dict.fromkeys(name for audit in audits for name in audit.parameters), *ANSWER_KEYS, *PLAN_KEYS]
    for key in shared:
        if key not in keys:
            raise EvenhandError(
                f"{str(path)!r} has {key!r}, which no audit in it takes. {suggestion(key, keys)}They take: {listing(keys, 60)}."
            )
    steps = []
    for audit, table in zip(audits, tables, strict=True):
        taken = {key: value for key, value in shared.items() if key in ANSWER_KEYS or key in audit.parameters}
        steps.append(_step(path, {**taken, **table}))
    return steps


def _variables(path: Path, raw: Mapping[str, Any]) -> dict[str, str]:
    table = raw.get("variables", {})
    if not isinstance(table, Mapping) or any(isinstance(v, (Mapping, list)) for v in table.values()):
        raise EvenhandError(
            f"{str(path)!r} has variables that are not single values. Write [variables] and NAME = 'value' below it."
        )
    return {str(name): str(value) for name, value in table.items()}


def _fill(path: Path, value: Any, values: Mapping[str, str]) -> Any:
    """A value with its variables filled in; a value that is one variable may become a number."""
    if isinstance(value, Mapping):
        return {k: _fill(path, v, values) for k, v in value.items()}
    if isinstance(value, list):
        return [_fill(path, v, values) for v in value]
    if not isinstance(value, str):
        return value
    for name in _VARIABLE.findall(value):
        if name not in values:
            remedy = "Pass --at 2026-11-16" if name in DATED else f"Pass --set {name}=VALUE"
            raise EvenhandError(
                f"{str(path)!r} uses ${{{name}}}, which has no value. {suggestion(name, values)}{remedy}, or give it one below [variables]."
            )
    filled = _VARIABLE.sub(lambda match: values[match[1]], value)
    if _VARIABLE.fullmatch(value) and re.fullmatch(r"[-+]?\d+", filled):
        return int(filled)
    if _VARIABLE.fullmatch(value) and re.fullmatch(r"[-+]?\d*\.\d+(e[-+]?\d+)?", filled):
        return float(filled)
    return filled


def _audit(path: Path, table: Mapping[str, Any]) -> Audit:
    if "audit" not in table:
        raise EvenhandError(f"{str(path)!r} does not say which audit to run. Add a line such as audit = 'inequality'.")
    return find(str(table["audit"]).replace("-", "_"))  # as the verb is written


def _step(path: Path, table: Mapping[str, Any]) -> Step:
    audit = _audit(path, table)
    parameters = audit.taken(table)
    for key in table:
        if key not in parameters and key not in ANSWER_KEYS and key != "audit":
            keys = [*parameters, *ANSWER_KEYS, *PLAN_KEYS]
            raise EvenhandError(
                f"{str(path)!r} has {key!r}, which {audit.name} does not take. {suggestion(key, keys)}It takes: {listing(parameters, 40)}; "
                f"a plan also: {listing([*ANSWER_KEYS, *PLAN_KEYS], 40)}."
            )
    passed = {**table, **table.get("vary", {})}
    missing = [name for name, parameter in parameters.items() if parameter.required and name not in passed]
    if missing:
        raise EvenhandError(f"{str(path)!r} lacks {listing(missing)}, which {audit.name} needs. Add a line for each.")
    answer = {
        key: _checked(key, table[key], path.parent) for key in ANSWER_KEYS if key in table and key not in parameters
    }
    return Step(audit, {k: v for k, v in table.items() if k in parameters}, answer, path.parent)


def _checked(key: str, value: Any, folder: Path) -> Any:
    """The value of an answer key: a single text may stand for a list, and paths are resolved."""
    many = key in ("check", "baseline", "outputs", "plot")
    listed = [value] if isinstance(value, str) else value
    if many and not (isinstance(listed, list) and all(isinstance(v, str) for v in listed)):
        raise EvenhandError(f"{key}={value!r} is not a list of strings. Write {key} = ['...', '...'].")
    if key == "csv" and isinstance(value, Mapping):
        return dict(value)
    if not many and not isinstance(value, str):
        raise EvenhandError(f"{key}={value!r} is not a string. Write {key} = '...'.")
    if key == "engine" and value not in ENGINES:
        raise unknown_name("engine", value, ENGINES, what="an engine")
    if key == "inconclusive" and value not in INCONCLUSIVE:
        raise unknown_name("inconclusive", value, INCONCLUSIVE, what="a way to decide")
    if key == "adjust" and value not in ("holm", "none"):
        raise unknown_name("adjust", value, ("holm", "none"), what="a way to adjust")
    if key == "plot":
        return [
            f"{kind}{equals}{folder / file if file else ''}"
            for kind, equals, file in (v.partition("=") for v in listed)
        ]
    if key in FILES:
        return [str(folder / v) for v in listed] if many else str(folder / value)
    return listed if many else value


def _is_file(value: Any) -> bool:
    """Whether a value of a plan ends as files do that audits read."""
    from evenhand.sources.formats import known_endings

    others = (".gz", ".zst", ".json", ".npz", ".npy", ".qrels", ".run", ".xlsx", ".xlsm")
    return isinstance(value, str) and value.endswith((*known_endings(), *others))


def resolve(value: Any, folder: Path) -> Any:
    """A value of a plan; paths are relative to the plan."""
    if _is_file(value):
        kind, path = split_kind(value)
        return value if scheme(path) or Path(path).is_absolute() else f"{kind}{folder / path}"
    if isinstance(value, list) and value and all(map(_is_file, value)):
        return [resolve(v, folder) for v in value]
    return value


def days(path: Path, raw: Mapping[str, Any], values: Mapping[str, str]) -> list[date]:
    """The days for which every dated file of a plan exists."""
    values = {**_variables(path, raw), **values, **{name: f"${{{name}}}" for name in DATED}}
    tables = [table for table in (raw, *(raw.get("audits") or [])) if isinstance(table, Mapping)]
    not_read = {*ANSWER_KEYS, *PLAN_KEYS}
    arguments = [value for table in tables for key, value in table.items() if key not in not_read]
    patterns = [
        split_kind(resolve(text, path.parent))[1]
        for text in _texts(_fill(path, arguments, values))
        if _is_file(text) and any(f"${{{name}}}" in text for name in DATED)
    ]
    if not patterns:
        raise EvenhandError(f"{str(path)!r} reads no dated file. Write ${{DATE}} in the path where the date goes.")
    return sorted(set.intersection(*map(_days_of, patterns)))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (Mapping, list)):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(inner)


def _days_of(pattern: str) -> set[date]:
    """The days whose files exist, by a path with variables and, perhaps, a glob's stars."""
    regex = _regex(pattern)
    dates = set()
    for path in glob.glob(_VARIABLE.sub("*", pattern), recursive=True):
        if match := regex.fullmatch(path.replace(os.sep, "/")):
            parts = match.groupdict()
            text = parts.get("DATE") or "-".join(parts.get(name, "") for name in ("YEAR", "MONTH", "DAY"))
            with contextlib.suppress(ValueError):  # 2026-02-31, or a path without a day in it
                dates.add(date.fromisoformat(text))
    return dates


def _regex(pattern: str) -> re.Pattern[str]:
    """A dated glob as a regular expression; a variable that occurs twice must have one value."""
    seen: set[str] = set()

    def part(match: re.Match[str]) -> str:
        if name := match[1]:
            is_repeated = name in seen
            seen.add(name)
            return f"(?P={name})" if is_repeated else f"(?P<{name}>{DATED[name]})"
        return {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(match[0]) or re.escape(match[0])

    return re.compile(re.sub(r"\$\{(\w+)\}|\*\*/|\*\*|\*|\?|[^*?$]+|\$", part, pattern.replace(os.sep, "/")))


def variables(words: Sequence[str]) -> dict[str, str]:
    values = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not re.fullmatch(r"\w+", name):
            raise EvenhandError(f"--set {word!r} is not NAME=VALUE. Write --set NAME=VALUE.")
        values[name] = value
    return values


def schema_text() -> str:
    """The JSON Schema of plans for editors: every key with what it means; `evenhand plan --check` reads the values."""
    audits = [find(name) for name in names()]
    plannable = [audit for audit in audits if next(iter(audit.parameters.values())).takes.table]
    single = {audit.name: _audit_schema(audit) for audit in plannable}
    shared: dict[str, Any] = {name: {} for audit in audits for name in audit.parameters} | _key_schemas(ANSWER_KEYS)
    each = _object_schema({"audit": {"enum": [audit.name for audit in audits]}, **shared}, ["audit"])
    listed = {"type": "array", "minItems": 1, "items": each}
    # shared keys may complete an audit, so each is checked when it runs
    single["several"] = _object_schema({**shared, **_key_schemas(PLAN_KEYS), "audits": listed}, ["audits"])
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "evenhand plan",
        "description": "What `evenhand run` asks. Texts may hold variables such as ${DATE}.",
        "anyOf": [{"$ref": f"#/definitions/{name}"} for name in single],
        "definitions": single,
    }
    return json.dumps(schema, ensure_ascii=False, indent=1) + "\n"


def _audit_schema(audit: Audit) -> dict[str, Any]:
    words = sorted({audit.name, audit.name.replace("_", "-")})
    about = {name: {"description": parameter.about} for name, parameter in audit.parameters.items()}
    keys = {"audit": {"enum": words}, **about, **_key_schemas(ANSWER_KEYS), **_key_schemas(PLAN_KEYS)}
    required = ["audit", *(name for name, parameter in audit.parameters.items() if parameter.required)]
    return {"description": audit.question, **_object_schema(keys, required)}


def _object_schema(properties: Mapping[str, Any], required: Sequence[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _key_schemas(keys: Mapping[str, str]) -> dict[str, Any]:
    return {key: {"description": about} for key, about in keys.items() if key != "audits"}
