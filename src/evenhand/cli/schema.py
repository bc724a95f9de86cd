"""The JSON Schema of plan files, made from the register of audits; shipped as `plan.schema.json` for editors."""

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
from evenhand.cli.plans import ENDINGS, WHOLE

KINDS: dict[Any, str] = {bool: "boolean", int: "integer", float: "number", str: "string"}
SEVERAL = ("check", "baseline", "outputs", "plot")
TEXTS = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}


def text() -> str:
    """The schema as it is shipped."""
    return json.dumps(schema(), ensure_ascii=False, indent=1) + "\n"


def shipped() -> str:
    """The schema that came with this package."""
    return (resources.files("evenhand") / "plan.schema.json").read_text(encoding="utf-8")


def schema() -> dict[str, Any]:
    """Plans of one audit, by its name, or of several."""
    audits = [find(name) for name in names()]
    single = {a.name: _audit(a) for a in audits if _can_be_planned(a)}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "evenhand plan",
        "description": "What `evenhand run` asks. Texts may hold variables such as ${DATE}.",
        "anyOf": [*({"$ref": f"#/definitions/{name}"} for name in single), {"$ref": "#/definitions/several"}],
        "definitions": {**single, "several": _several(audits)},
    }


def _can_be_planned(audit: Audit) -> bool:
    """Whether its arguments can stand in a file; results and functions cannot."""
    return next(iter(audit.parameters.values())).takes.table


def _audit(audit: Audit) -> dict[str, Any]:
    held = {name: _parameter(p) for name, p in audit.parameters.items()}
    words = sorted({audit.name, audit.name.replace("_", "-")})
    return {
        "type": "object",
        "description": audit.question,
        "properties": {"audit": {"enum": words}, **held, **_endings(ENDINGS), **_endings(WHOLE)},
        "required": ["audit", *(name for name, p in audit.parameters.items() if p.required)],
        "additionalProperties": False,
    }  # fmt: skip


def _several(audits: Sequence[Audit]) -> dict[str, Any]:
    """Each of the audits by itself is checked when it runs, since what stands above it may complete it."""
    known: dict[str, Any] = {name: {} for audit in audits for name in audit.parameters}
    one = {"type": "object", "properties": {"audit": {"enum": [a.name for a in audits]}, **known, **_endings(ENDINGS)}}
    listed = {"type": "array", "minItems": 1, "items": {**one, "required": ["audit"], "additionalProperties": False}}
    properties = {**known, **_endings(ENDINGS), **_endings(WHOLE), "audits": {**listed, "description": WHOLE["audits"]}}
    return {"type": "object", "properties": properties, "required": ["audits"], "additionalProperties": False}


def _endings(keys: Mapping[str, str]) -> dict[str, Any]:
    special: dict[str, dict[str, Any]] = {
        "inconclusive": {"enum": ["estimate", "pass", "fail"]},
        "variables": {"type": "object"},
    }
    return {
        key: {**(TEXTS if key in SEVERAL else special.get(key, {"type": "string"})), "description": about}
        for key, about in keys.items()
        if key != "audits"
    }


def _parameter(parameter: Parameter) -> dict[str, Any]:
    """What a plan may hold for a parameter: what its type hint says, or a text with a variable in it."""
    kinds = [] if parameter.takes.metavar else _kinds(parameter.hint)
    if kinds and parameter.says_none:
        kinds.append({"const": "none"})
    if kinds and {"type": "string"} not in kinds:
        kinds.append({"type": "string", "pattern": r"\$\{\w+\}"})
    about = {"description": parameter.about} if parameter.about else {}
    default = parameter.default
    shown = (
        {}
        if parameter.required or default is None
        else {"default": list(default) if isinstance(default, tuple) else default}
    )
    return {**({} if not kinds else kinds[0] if len(kinds) == 1 else {"anyOf": kinds}), **about, **shown}


def _kinds(hint: Any) -> list[dict[str, Any]]:
    """The schemas of a hint's alternatives; none where anything goes."""
    found: list[dict[str, Any]] = []
    for option in options(hint):
        one = _kind(option)
        if one is None:
            return []
        found += [o for o in one if o not in found]
    return found


def _kind(option: Any) -> list[dict[str, Any]] | None:
    if typing.get_origin(option) is Annotated:
        inner, *more = typing.get_args(option)
        held = _kinds(inner)
        bounds = next((m for m in more if isinstance(m, Between)), None)
        return [{**one, **(_bounds(bounds) if bounds else {})} for one in held] or None
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
    found: dict[str, Any] = {}
    if low != float("-inf"):
        found["exclusiveMinimum" if between.open_low else "minimum"] = low
    if high != float("inf"):
        found["exclusiveMaximum" if between.open_high else "maximum"] = high
    return found
