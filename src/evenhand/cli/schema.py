"""The JSON Schema of plan files, from the audits' declarations; for editors."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Annotated, Any, Literal

from evenhand.audits.declare import Audit, find, names
from evenhand.audits.parameters import Parameter, options
from evenhand.cards import Between
from evenhand.cli.plans import ANSWER_KEYS, PLAN_KEYS

KINDS: dict[Any, str] = {bool: "boolean", int: "integer", float: "number", str: "string"}
SEVERAL = ("check", "baseline", "outputs", "plot")
TEXTS = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}


def text() -> str:
    """The schema as JSON text."""
    return json.dumps(schema(), ensure_ascii=False, indent=1) + "\n"


def shipped() -> str:
    """The text of the schema that the package ships."""
    return (resources.files("evenhand") / "plan.schema.json").read_text(encoding="utf-8")


def schema() -> dict[str, Any]:
    """The schema of plans with one audit, by its name, or with several."""
    audits = [find(name) for name in names()]
    plannable = [audit for audit in audits if next(iter(audit.parameters.values())).takes.table]
    single = {audit.name: _audit(audit) for audit in plannable}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "evenhand plan",
        "description": "What `evenhand run` asks. Texts may hold variables such as ${DATE}.",
        "anyOf": [*({"$ref": f"#/definitions/{name}"} for name in single), {"$ref": "#/definitions/several"}],
        "definitions": {**single, "several": _several(audits)},
    }


def _audit(audit: Audit) -> dict[str, Any]:
    parameters = {name: _parameter(p) for name, p in audit.parameters.items()}
    words = sorted({audit.name, audit.name.replace("_", "-")})
    return {
        "type": "object",
        "description": audit.question,
        "properties": {"audit": {"enum": words}, **parameters, **_keys(ANSWER_KEYS), **_keys(PLAN_KEYS)},
        "required": ["audit", *(name for name, p in audit.parameters.items() if p.required)],
        "additionalProperties": False,
    }  # fmt: skip


def _several(audits: Sequence[Audit]) -> dict[str, Any]:
    """A plan with [[audits]]; each is checked when it runs, as shared keys may complete it."""
    shared: dict[str, Any] = {name: {} for audit in audits for name in audit.parameters} | _keys(ANSWER_KEYS)
    audit = {
        "type": "object",
        "properties": {"audit": {"enum": [a.name for a in audits]}, **shared},
        "required": ["audit"],
        "additionalProperties": False,
    }
    listed = {"type": "array", "minItems": 1, "items": audit, "description": PLAN_KEYS["audits"]}
    return {
        "type": "object",
        "properties": {**shared, **_keys(PLAN_KEYS), "audits": listed},
        "required": ["audits"],
        "additionalProperties": False,
    }


def _keys(keys: Mapping[str, str]) -> dict[str, Any]:
    special: dict[str, dict[str, Any]] = {
        "inconclusive": {"enum": ["estimate", "pass", "fail"]},
        "adjust": {"enum": ["holm", "none"]},
        "variables": {"type": "object"},
    }
    return {
        key: {**(TEXTS if key in SEVERAL else special.get(key, {"type": "string"})), "description": about}
        for key, about in keys.items()
        if key != "audits"
    }


def _parameter(parameter: Parameter) -> dict[str, Any]:
    """The schema of a parameter: its type hint, or text with a variable."""
    kinds = [] if parameter.takes.metavar else _kinds(parameter.hint)
    if kinds and parameter.says_none:
        kinds.append({"const": "none"})
    if kinds and {"type": "string"} not in kinds:
        kinds.append({"type": "string", "pattern": r"\$\{\w+\}"})
    about = {"description": parameter.about} if parameter.about else {}
    default = parameter.default
    defaults = {}
    if not parameter.required and default is not None:
        defaults = {"default": list(default) if isinstance(default, tuple) else default}
    return {**({} if not kinds else kinds[0] if len(kinds) == 1 else {"anyOf": kinds}), **about, **defaults}


def _kinds(hint: Any) -> list[dict[str, Any]]:
    """The schemas of a hint's alternatives; empty if anything is allowed."""
    schemas: list[dict[str, Any]] = []
    for option in options(hint):
        alternatives = _kind(option)
        if alternatives is None:
            return []
        schemas += [schema for schema in alternatives if schema not in schemas]
    return schemas


def _kind(option: Any) -> list[dict[str, Any]] | None:
    if typing.get_origin(option) is Annotated:
        inner, *more = typing.get_args(option)
        bounds = next((_bounds(m) for m in more if isinstance(m, Between)), {})
        return [{**schema, **bounds} for schema in _kinds(inner)] or None
    if typing.get_origin(option) is Literal:
        return [{"enum": list(typing.get_args(option))}]
    if typing.get_origin(option) is Sequence:
        inside = _kinds(typing.get_args(option)[0])
        return [{"type": "array", "items": inside[0] if len(inside) == 1 else {"anyOf": inside} if inside else {}}]
    if typing.get_origin(option) is Mapping or option is Mapping:
        return [{"type": "object"}]
    if option in (None, types.NoneType):
        return []
    if option in KINDS:
        return [{"type": KINDS[option]}]
    return [] if isinstance(option, type) and option is not object else None  # an object of Python is not for a plan


def _bounds(between: Between) -> dict[str, Any]:
    low, high = float(between.low), float(between.high)
    bounds: dict[str, Any] = {}
    if low != float("-inf"):
        bounds["exclusiveMinimum" if between.open_low else "minimum"] = low
    if high != float("inf"):
        bounds["exclusiveMaximum" if between.open_high else "maximum"] = high
    return bounds
