"""Plan files: what is asked, in TOML; variables filled in, keys checked against the register of audits.

A plan asks one audit, with its parameters as keys of their own names, or several, each a table of `[[audits]]`; what stands
above those holds for each of them that takes it. `ENDINGS` are the keys that say what becomes of the answer.
"""

from __future__ import annotations

import glob
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from evenhand.audits.declare import Audit, Call, find
from evenhand.cli.audit import ENGINES, beside_table, from_plan, source
from evenhand.errors import EvenhandError, listing, suggestion, unknown_name
from evenhand.report.checks import INCONCLUSIVE
from evenhand.sources.files import split_kind
from evenhand.sources.stores import scheme

ENDINGS = {
    "name": "what to call this audit in a build",
    "check": "rules that must hold, such as 'gini <= 0.9' or 'gini <= baseline + 0.01'",
    "baseline": "saved result(s) that rules may name",
    "inconclusive": "what decides a check whose interval reaches the other side: estimate, pass or fail",
    "outputs": "files to write; the ending decides: .html, .csv, .tsv, .jsonl, .json, .md, .tex, .txt or .prom",
    "plot": "charts to write, as KIND=FILE.svg",
    "engine": "what reads the files: duckdb (polars means the same) or spark",
    "master": "with spark: the cluster, such as spark://host:7077",
}
"""Keys of an audit beside its parameters; a parameter of the same name comes first."""
WHOLE = {
    "audits": "several audits in one plan, each a table [[audits]]",
    "history": "the file that keeps the numbers of every day",
    "junit": "write the checks as JUnit XML",
    "summary": "write checks and findings as Markdown",
    "variables": "values of ${NAME} in this plan; --set NAME=VALUE overrides them",
}
"""Keys of a whole plan."""
FILES = frozenset({"baseline", "outputs", "plot", "history", "junit", "summary"})
"""Keys that hold paths, which are relative to the plan."""
DATED = {"DATE": r"\d{4}-\d\d-\d\d", "YEAR": r"\d{4}", "MONTH": r"\d\d", "DAY": r"\d\d"}
"""Variables that a day fills in, and what they look like."""
_VARIABLE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True)
class Step:
    """One audit of a plan: its arguments as typed, and what becomes of its answer."""

    audit: Audit
    typed: Mapping[str, Any]
    endings: Mapping[str, Any]
    folder: Path

    @property
    def name(self) -> str:
        return str(self.endings.get("name") or self.audit.name)

    @property
    def hash(self) -> str:
        """Tells this question from others, wherever the plan lies and whatever day it is asked of."""
        made: Call = self.audit.call(**from_plan(self.audit, self.typed))
        return made.hash

    @property
    def arguments(self) -> dict[str, Any]:
        """What the audit takes; paths from the plan's folder."""
        engine, master = self.endings.get("engine", ENGINES[0]), self.endings.get("master")
        found = {name: beside(value, self.folder) for name, value in from_plan(self.audit, self.typed).items()}
        for name, value in found.items():
            parameter = self.audit.parameters.get(name)
            words = value if isinstance(value, list) else [value]
            if parameter and parameter.positional and parameter.takes.table and isinstance(words[0], str):
                found[name] = source(words, engine, master)
            elif parameter:
                found[name] = beside_table(parameter, value, engine, master)
        return found


@dataclass(frozen=True)
class Plan:
    """A plan file with its variables filled in."""

    steps: tuple[Step, ...]
    whole: Mapping[str, Any] = field(default_factory=dict)


def load(path: Path) -> dict[str, Any]:
    """The file as it is written."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise EvenhandError(f"{str(path)!r} cannot be read ({error.strerror}). Pass the path of a plan.") from error
    except (ValueError, RecursionError) as error:  # also numbers of thousands of digits, and brackets without an end
        raise EvenhandError(f"{str(path)!r} is not TOML: {error}. See evenhand run --help for an example.") from error


def plan(path: Path, raw: Mapping[str, Any], given: Mapping[str, str], at: date | None) -> Plan:
    """The steps of a plan for a day."""
    values = {**_variables(path, raw), **given, **(_dated(at) if at else {})}
    filled = {key: _fill(path, value, values) for key, value in raw.items() if key != "variables"}
    whole = {key: _placed(key, filled[key], path.parent) for key in WHOLE if key in filled and key != "audits"}
    rest = {key: value for key, value in filled.items() if key not in WHOLE}
    asked = filled.get("audits")
    if asked is None:
        return Plan((_step(path, rest),), whole)
    if not isinstance(asked, list) or not asked or not all(isinstance(one, Mapping) for one in asked):
        raise EvenhandError(f"{str(path)!r} has audits that are no tables. Write each below a line [[audits]].")
    if "audit" in rest:
        raise EvenhandError(f"{str(path)!r} names an audit above [[audits]]. Name each audit below a line [[audits]].")
    named = [_named(path, one) for one in asked]
    for key in rest:
        if key not in ENDINGS and not any(key in audit.parameters for audit in named):
            known = [*dict.fromkeys(n for audit in named for n in audit.parameters), *ENDINGS, *WHOLE]
            raise EvenhandError(
                f"{str(path)!r} has {key!r}, which no audit in it takes. {suggestion(key, known)}They take: {listing(known, 60)}."
            )
    shared = [{k: v for k, v in rest.items() if k in ENDINGS or k in audit.parameters} for audit in named]
    return Plan(tuple(_step(path, {**above, **one}) for above, one in zip(shared, asked, strict=True)), whole)


def _variables(path: Path, raw: Mapping[str, Any]) -> dict[str, str]:
    held = raw.get("variables", {})
    if not isinstance(held, Mapping) or any(isinstance(v, (Mapping, list)) for v in held.values()):
        raise EvenhandError(
            f"{str(path)!r} has variables that are no single values. Write [variables] and NAME = 'value' below it."
        )
    return {str(name): str(value) for name, value in held.items()}


def _dated(at: date) -> dict[str, str]:
    return {"DATE": at.isoformat(), "YEAR": f"{at.year:04}", "MONTH": f"{at.month:02}", "DAY": f"{at.day:02}"}


def _fill(path: Path, value: Any, values: Mapping[str, str]) -> Any:
    """A value with its variables filled in; one that is nothing but a variable may become a number."""
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
    filled = _VARIABLE.sub(lambda found: values[found[1]], value)
    if _VARIABLE.fullmatch(value) and re.fullmatch(r"[-+]?\d+", filled):
        return int(filled)
    return (
        float(filled) if _VARIABLE.fullmatch(value) and re.fullmatch(r"[-+]?\d*\.\d+(e[-+]?\d+)?", filled) else filled
    )


def _named(path: Path, asked: Mapping[str, Any]) -> Audit:
    if "audit" not in asked:
        raise EvenhandError(f"{str(path)!r} names no audit. Add a line such as audit = 'inequality'.")
    return find(str(asked["audit"]).replace("-", "_"))  # as the verb is written


def _step(path: Path, asked: Mapping[str, Any]) -> Step:
    audit = _named(path, asked)
    known = audit.taken(asked)
    for key in asked:
        if key not in known and key not in ENDINGS and key != "audit":
            several = [*known, *ENDINGS, *WHOLE]
            raise EvenhandError(
                f"{str(path)!r} has {key!r}, which {audit.name} does not take. {suggestion(key, several)}It takes: {listing(known, 40)}; "
                f"a plan also: {listing([*ENDINGS, *WHOLE], 40)}."
            )
    lacking = [name for name, p in known.items() if p.required and name not in {**asked, **asked.get("vary", {})}]
    if lacking:
        raise EvenhandError(f"{str(path)!r} lacks {listing(lacking)}, which {audit.name} needs. Add a line for each.")
    endings = {key: _placed(key, asked[key], path.parent) for key in ENDINGS if key in asked and key not in known}
    return Step(audit, {k: v for k, v in asked.items() if k in known}, endings, path.parent)


def _placed(key: str, value: Any, folder: Path) -> Any:
    """A key that says what becomes of the answer; lists of texts may be a single text, and paths are the plan's."""
    many = key in ("check", "baseline", "outputs", "plot")
    listed = [value] if isinstance(value, str) else value
    if many and not (isinstance(listed, list) and all(isinstance(v, str) for v in listed)):
        raise EvenhandError(f"{key}={value!r} is no list of texts. Write {key} = ['...', '...'].")
    if not many and not isinstance(value, str):
        raise EvenhandError(f"{key}={value!r} is no text. Write {key} = '...'.")
    if key == "engine" and value not in ENGINES:
        raise unknown_name("engine", value, ENGINES, what="an engine")
    if key == "inconclusive" and value not in INCONCLUSIVE:
        raise unknown_name("inconclusive", value, INCONCLUSIVE, what="a way to decide")
    if key == "plot":
        return [
            f"{kind}{equals}{folder / file if file else ''}"
            for kind, equals, file in (v.partition("=") for v in listed)
        ]
    if key in FILES:
        return [str(folder / v) for v in listed] if many else str(folder / value)
    return listed if many else value


_ENDS = (".parquet", ".pq", ".csv", ".tsv", ".jsonl", ".ndjson", ".gz", ".npz", ".npy", ".json", ".qrels", ".run")


def beside(value: Any, folder: Path) -> Any:
    """Paths in a plan are relative to the plan."""
    if isinstance(value, str) and value.endswith(_ENDS):
        kind, path = split_kind(value)
        return value if scheme(path) or Path(path).is_absolute() else f"{kind}{folder / path}"
    if isinstance(value, list) and value and all(isinstance(v, str) and v.endswith(_ENDS) for v in value):
        return [beside(v, folder) for v in value]
    return value


def days(path: Path, raw: Mapping[str, Any], given: Mapping[str, str]) -> list[date]:
    """The days for which every dated file of a plan is there."""
    values = {**_variables(path, raw), **given, **{name: f"${{{name}}}" for name in DATED}}
    read = [_read(one) for one in (raw, *(raw.get("audits") or [])) if isinstance(one, Mapping)]
    texts = [text for text in _texts(_fill(path, read, values)) if text.endswith(_ENDS)]
    found = [
        _days_of(split_kind(beside(text, path.parent))[1]) for text in texts if any(f"${{{n}}}" in text for n in DATED)
    ]
    if not found:
        raise EvenhandError(f"{str(path)!r} reads no file of a day. Write ${{DATE}} where the day stands in its path.")
    return sorted(set.intersection(*found))


def _read(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Of a plan, or an audit in it, what is read; the rest says what becomes of the answer."""
    return {key: value for key, value in asked.items() if key not in ENDINGS and key not in WHOLE}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (Mapping, list)):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(inner)


def _days_of(pattern: str) -> set[date]:
    """The days whose files are there, by a path with variables in it and, perhaps, a glob's stars."""
    names = glob.glob(_VARIABLE.sub("*", pattern), recursive=True)
    shape = _shape(pattern)
    found = set()
    for name in names:
        if parts := shape.fullmatch(name.replace(os.sep, "/")):
            held = parts.groupdict()
            text = held.get("DATE") or "-".join(held.get(n, "") for n in ("YEAR", "MONTH", "DAY"))
            try:
                found.add(date.fromisoformat(text))
            except ValueError:  # 2026-02-31, or a path without a day in it
                continue
    return found


def _shape(pattern: str) -> re.Pattern[str]:
    """What paths of a dated pattern look like; a variable that comes again must say the same."""
    seen: set[str] = set()

    def part(found: re.Match[str]) -> str:
        if name := found[1]:
            again = name in seen
            seen.add(name)
            return f"(?P={name})" if again else f"(?P<{name}>{DATED[name]})"
        return {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(found[0]) or re.escape(found[0])

    return re.compile(re.sub(r"\$\{(\w+)\}|\*\*/|\*\*|\*|\?|[^*?$]+|\$", part, pattern.replace(os.sep, "/")))


def variables(words: Sequence[str]) -> dict[str, str]:
    """`--set NAME=VALUE`, as often as it was typed."""
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not re.fullmatch(r"\w+", name):
            raise EvenhandError(f"--set {word!r} names no variable. Write --set NAME=VALUE.")
        found[name] = value
    return found
