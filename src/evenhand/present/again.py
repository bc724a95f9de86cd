"""How to make the same numbers again: the plan of an audit as a command, as Python and as a plan file."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

from evenhand.findings import Findings

DEFAULTS = {"level": 0.95, "nan_policy": "raise"}
OPTIONS = {"metrics": "-m", "rng": "--seed"}
NOBODY_ELSE = "only units seen"
"""How a plan writes a population of None."""


def ways(findings: Findings) -> list[tuple[str, str]]:
    """Introductions and texts to copy; none where the findings have no plan."""
    plan = {k: v for k, v in dict(findings.provenance.get("plan") or {}).items() if v is not None}
    audit = str(plan.pop("audit", ""))
    if not audit or not plan:
        return []
    data = next(iter(plan))
    source = plan.pop(data)
    plan = {k: v for k, v in plan.items() if DEFAULTS.get(k) != v}
    held = _in_memory(source)
    given = findings.provenance.get("command")
    found = []
    if given or not held:
        found.append(("On the command line:", str(given or command(audit, source, plan))))
    lead = f"In Python, where {data} is {source}:" if held else "In Python:"
    found.append((lead, python(audit, data if held else repr(source), plan)))
    if not held:
        found.append(("As a plan for `evenhand run plan.toml`:", plan_file({"audit": audit, data: source, **plan})))
    return found


def _in_memory(source: Any) -> bool:
    """Whether the table was a dataframe ("a polars table") and not a file."""
    return not isinstance(source, (str, list)) or re.fullmatch(r"a \w+ table", str(source)) is not None


def command(audit: str, source: Any, plan: Mapping[str, Any]) -> str:
    """The plan as words of the command line.

    >>> command("inequality", "log.csv", {"unit": "author", "metrics": ["top_share(p=0.1)"], "rng": 7})
    "evenhand inequality log.csv --unit author -m 'top_share(p=0.1)' --seed 7"
    """
    words = ["evenhand", audit.replace("_", "-"), *(source if isinstance(source, list) else str(source).split(", "))]
    for key, value in plan.items():
        option = OPTIONS.get(key, f"--{key.replace('_', '-')}")
        if value is True:
            words.append(option)
        else:
            for part in value if isinstance(value, list) else [value]:
                words += [option, _word(part)]
    return shlex.join(words)


def _word(value: Any) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{k}={v}" for k, v in value.items())
    return "none" if value == NOBODY_ELSE else str(value)


def python(audit: str, source: str, plan: Mapping[str, Any]) -> str:
    """The plan as a call.

    >>> print(python("inequality", "table", {"unit": "author", "population": "only units seen"}))
    import evenhand as eh
    eh.inequality(table, unit='author', population=None)
    """
    arguments = [f"{k}={None if v == NOBODY_ELSE else v!r}" for k, v in plan.items()]
    return f"import evenhand as eh\n\neh.{audit}({', '.join([source, *arguments])})"


def plan_file(plan: Mapping[str, Any]) -> str:
    """The plan as TOML; texts are quoted as JSON, which TOML reads.

    >>> print(plan_file({"unit": "author", "population": {"a": 3}}), end="")
    unit = "author"
    population = {"a" = 3}
    """
    return "".join(f"{key} = {_toml(value)}\n" for key, value in plan.items())


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(str(k), ensure_ascii=False)} = {_toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps("none" if value == NOBODY_ELSE else value, ensure_ascii=False)
