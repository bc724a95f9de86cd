"""How to make the same numbers again (the plan as a command, as Python, as a file), and what differs when they are.

A plan's keys are the parameters' own names, its values what Python takes; `rng` is the option --seed and `metrics` is -m,
every other option is called like its parameter.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from evenhand.findings import Findings, key_columns, plain

OPTIONS = {"metrics": "-m", "rng": "--seed"}

READING = ("engine", "master", "csv")
"""What a command and a plan say about how files are read; the rest of `reading` is what was found out."""


def ways(findings: Findings) -> list[tuple[str, str]]:
    """Introductions and texts to copy; none where the findings have no plan."""
    plan = dict(findings.provenance.get("plan") or {})
    audit = str(plan.pop("audit", ""))
    if not audit or not plan:
        return []
    objects = dict(findings.provenance.get("needed_again") or {})
    placed = findings.provenance.get("by_place", list(plan)[:1])
    then = findings.provenance.get("counterfactual")  # asked of the result of the audit
    after = f".counterfactual({', '.join(f'{k}={v!r}' for k, v in then.items())})" if then else ""
    lost = [k for k, v in plan.items() if isinstance(v, Mapping) and "suppressed" in v.values()]
    if objects or lost:
        parts = [f"{name} is {what}" for name, what in objects.items()]
        parts += [f"{name} holds sizes that are suppressed here" for name in lost]
        lead = f"In Python, where {' and '.join(parts)}:"
        return [(lead, python(audit, plan, {*objects, *lost}, placed) + after)]
    typed_command = findings.provenance.get("command")
    recorded = dict(findings.provenance.get("reading") or {})
    reading = {key: recorded[key] for key in READING if key in recorded}
    typed = {**plan, **then, **reading} if then else {**plan, **reading}
    typed = {findings.provenance.get("options", {}).get(name, name): value for name, value in typed.items()}
    texts = [
        ("On the command line:", str(typed_command or command("counterfactual" if then else audit, typed, placed))),
        ("In Python:", python(audit, plan, placed=placed) + after),
    ]
    if csv := reading.get("csv"):
        texts[1] = ("In Python:", python(audit, plan, placed=placed, csv=csv) + after)
    elif reading:
        table, named = placed[-1], plan[placed[-1]]
        files = named if isinstance(named, list) else [named]
        where = f", of a session on {reading['master']}" if "master" in reading else ""
        if all("://" in file or file.endswith((".parquet", ".pq")) for file in files):
            read = f"spark.read.parquet({', '.join(map(repr, files))})"
            texts[1] = (f"In Python, where {table} is {read}{where}:", python(audit, plan, {table}, placed) + after)
        else:
            texts[1] = ("In Python, on this machine:", texts[1][1])
    filed = plan_file({"audit": audit, **plan, **reading})
    return texts if then else [*texts, ("As a plan for `evenhand run plan.toml`:", filed)]


def command(audit: str, plan: Mapping[str, Any], placed: Sequence[str] | None = None) -> str:
    """The plan as words of the command line; those `placed` (the first entry, as a rule) stand by themselves.

    >>> command("inequality", {"table": "log.csv", "unit": None, "metrics": ["top_share(p=0.1)"], "rng": 7})
    "evenhand inequality log.csv --unit none -m 'top_share(p=0.1)' --seed 7"
    """
    words = ["evenhand", audit.replace("_", "-")]
    for key, value in plan.items():
        if key in (list(plan)[:1] if placed is None else placed):
            words += map(str, value if isinstance(value, list) else [value])
        else:
            words += _option(OPTIONS.get(key, f"--{key.replace('_', '-')}"), value)
    return shlex.join(words)


def _option(option: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [option if value else f"--no-{option.removeprefix('--')}"]
    words: list[str] = []
    for part in value if isinstance(value, list) else [value]:
        word = _word(part)
        words += [f"{option}={word}"] if word.startswith("-") else [option, word]
    return words


def _word(value: Any) -> str:
    if isinstance(value, Mapping):
        plain = not any(set(str(k)) & set(",={}") or str(k) != str(k).strip() for k in value)
        simple = plain and not any(isinstance(v, (list, Mapping)) for v in value.values())
        return ",".join(f"{k}={v}" for k, v in value.items()) if simple else json.dumps(value, ensure_ascii=False)
    return "none" if value is None else str(value)


def python(
    audit: str,
    plan: Mapping[str, Any],
    objects: set[str] | frozenset[str] = frozenset(),
    placed: Sequence[str] | None = None,
    csv: Mapping[str, str] | None = None,
) -> str:
    """The plan as a call; `objects` are called by their parameters' names.

    >>> print(python("inequality", {"table": "<a polars DataFrame>", "unit": "author", "population": None}, {"table"}))
    import evenhand as eh
    <BLANKLINE>
    eh.inequality(table, unit='author', population=None)
    """
    unnamed = list(plan)[:1] if placed is None else placed
    values = {key: key if key in objects else repr(value) for key, value in plan.items()}
    if csv:
        options = {**csv, **({"null": csv["null"].split("|")} if "null" in csv else {})}
        written = ", ".join(f"{name}={value!r}" for name, value in options.items())
        values |= {key: f"eh.read.csv({plan[key]!r}, {written})" for key in unnamed if isinstance(plan[key], str)}
    arguments = [value if key in unnamed else f"{key}={value}" for key, value in values.items()]
    return f"import evenhand as eh\n\neh.{audit}({', '.join(arguments)})"


def plan_file(plan: Mapping[str, Any]) -> str:
    """The plan as TOML; texts are quoted as JSON, which TOML reads, and TOML has no None but the word.

    >>> print(plan_file({"unit": None, "population": {"a": 3}}), end="")
    unit = "none"
    population = {"a" = 3}
    """
    return "".join(f"{key} = {_toml(value)}\n" for key, value in plan.items())


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(str(k), ensure_ascii=False)} = {_toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps("none" if value is None else value, ensure_ascii=False)


RELATIVE = 1e-9
"""How far numbers may be apart that another processor, or another order of rows, adds up: the contract of results."""
ABSOLUTE = 1e-12
"""The same for numbers near zero, where sums cancel out."""

NOT_COMPARED = frozenset({"inputs", "versions", "plan", "seed"})
"""Parts of the provenance with numbers that are compared elsewhere, or are not figures of the result."""


def differences(saved: Findings, recomputed: Findings) -> list[str]:
    """One sentence per figure that differs; of a result with fewer metrics, those that it has."""
    if set(saved.metrics()) < set(recomputed.metrics()):
        recomputed = recomputed.only(*saved.metrics())
    old, new = plain(saved.provenance), plain(recomputed.provenance)
    facts = {name: old[name] for name in old if name not in NOT_COMPARED and _has_numbers(old[name])}
    return [
        *_rows(saved, recomputed),
        *_parts(saved, recomputed),
        *(
            f"{name.replace('_', ' ')}: {value} recorded, {new.get(name)} now"
            for name, value in facts.items()
            if not is_same(value, new.get(name))
        ),
    ]


def _rows(saved: Findings, recomputed: Findings) -> Iterator[str]:
    """The cells of the frame that differ, each named by its metric and labels."""
    if list(saved.columns) != list(recomputed.columns) or len(saved) != len(recomputed):
        lost = ", ".join(sorted(set(saved.columns) ^ set(recomputed.columns)))
        only_one = f"; columns that only one has: {lost}" if lost else ""
        yield f"frame: {len(saved):,} rows recorded, {len(recomputed):,} now{only_one}"
        return
    keys = key_columns(saved) if "group" in saved.columns else saved.slices
    for old, new in zip(saved.rows(), recomputed.rows(), strict=True):
        labels = ", ".join(f"{k}={old[k]}" for k in keys if old[k] is not None)
        where = f"{old['metric']} ({labels})" if labels else old["metric"]
        for name in old:
            if not is_same(plain(old[name]), plain(new[name])):
                yield f"{where}: {name} {plain(old[name])} recorded, {plain(new[name])} now"


def _parts(saved: Findings, recomputed: Findings) -> Iterator[str]:
    old, new = saved.to_dict(), recomputed.to_dict()
    for name, points in old["curves"].items():
        if not is_same(points, new["curves"].get(name)):
            yield f"curve {name}: other points"
    pairs: Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]] = zip_longest(
        old["claims"], new["claims"], fillvalue={}
    )
    for claim, other in pairs:
        if not is_same(claim, other):
            text, p, p_now = claim.get("text") or other["text"], claim.get("p_adjusted"), other.get("p_adjusted")
            yield f"claim {text!r}: p {p} recorded, {p_now} now"
    for name in ("audit", "question", "slices", "words"):
        if old[name] != new[name]:
            yield f"{name}: {old[name]} recorded, {new[name]} now"


def is_same(old: Any, new: Any) -> bool:
    """Whether plain data agree: numbers to nine digits, labels as text.

    >>> is_same({"a": [1, 0.1 + 0.2, "x"]}, {"a": ["1", 0.3, "x"]}), is_same([0.3], [0.3001]), is_same([1], [1, 2])
    (True, False, False)
    """
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return old.keys() == new.keys() and all(is_same(old[key], new[key]) for key in old)
    if all(isinstance(value, Sequence) and not isinstance(value, str) for value in (old, new)):
        return len(old) == len(new) and all(map(is_same, old, new))
    if isinstance(old, (int, float)) and isinstance(new, (int, float)):
        return math.isclose(old, new, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    return old == new or (old is not None and new is not None and str(old) == str(new))


def is_identical(saved: Findings, recomputed: Findings) -> bool:
    columns, others = ({k: list(map(plain, c)) for k, c in f.columns.items()} for f in (saved, recomputed))
    return columns == others


def _has_numbers(value: Any) -> bool:
    """Whether a fact is a number, or holds nothing but numbers."""
    if isinstance(value, Mapping):
        return bool(value) and all(map(_has_numbers, value.values()))
    return isinstance(value, (int, float))
