"""`evenhand verify`: a saved result, made again from its plan and its inputs, and compared."""

from __future__ import annotations

import argparse
import contextlib
import glob
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.cli.options import add_no_progress, progress
from evenhand.errors import EvenhandError, listing, printable
from evenhand.report.words.text import counted

if TYPE_CHECKING:
    from evenhand.audits.declare import Audit
    from evenhand.findings import Findings

STANDARD_INPUT = "-"
SHOWN = 10
"""Differences that are printed; the rest are counted."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("result", metavar="RESULT.json", help="a saved result (--format json)")
    text = "the table that the result was made from, where it was a dataframe or has moved; ROLE=FILE for another role"
    parser.add_argument("--table", metavar="FILE", nargs="+", action="extend", default=[], help=text)
    add_no_progress(parser)


def run(args: argparse.Namespace) -> int:
    with progress("making the result again", quiet=args.no_progress):
        verified = _verified_result(args.result, args.table)
    sys.stdout.write(printable(str(verified)) + "\n")
    return 0 if verified.is_same else 1


@dataclass(frozen=True)
class Verified:
    """What came of making a result again: inputs and figures that are not as recorded, or how closely the figures agree."""

    inputs: Sequence[str]
    figures: Sequence[str]
    agreement: str
    notes: Sequence[str] = ()

    @property
    def is_same(self) -> bool:
        return not self.inputs and not self.figures

    def __str__(self) -> str:
        lines = [f"Another input: {text.rstrip('.')}." for text in self.inputs]
        lines += [f"Another number: {text.rstrip('.')}." for text in self.figures[:SHOWN]]
        if (rest := len(self.figures) - SHOWN) > 0:
            lines.append(f"{rest:,} more numbers differ.")
        if not self.figures:
            lines.append(self.agreement)
        return "\n".join([*lines, *self.notes])


def _verified_result(path: str, tables: Sequence[str]) -> Verified:
    from evenhand.audits.declare import find
    from evenhand.cli.audit import in_flags
    from evenhand.report.reproduce import differences, is_identical
    from evenhand.results import load

    saved = load(path).findings
    plan = dict(saved.provenance.get("plan") or {})
    if "audit" not in plan:
        raise EvenhandError(
            f"{path!r} holds no plan, so it cannot be made again. Verify a result that an audit gave, not one made from results."
        )
    audit = find(str(plan.pop("audit")))
    _refuse_damaged(saved.provenance, path)
    if unknown := [name for name in plan if name not in audit.taken(plan)]:
        raise EvenhandError(
            f"The plan of {path!r} names {listing(unknown)}, which {audit.name} does not take. {DAMAGED}"
        )
    passed = _passed(audit, tables)
    _refuse_lost(saved, passed)
    with _folder(path, _recorded(saved.provenance)) as moved:
        changed, missing, note = _compared(saved.provenance, passed, moved)
        plan = {name: _moved(value, moved) for name, value in {**plan, **passed}.items()}
        try:
            recomputed = _recompute(audit, plan, saved.provenance)
        except EvenhandError as error:
            if not changed:
                raise EvenhandError(_gone(missing) or in_flags(str(error), audit)) from error
            return Verified(changed, [f"none can be made of this input. {in_flags(str(error), audit)}"], "")
    return Verified(
        [*changed, *(f"{name} is not there" for name in missing), *_counted(saved, recomputed, passed)],
        differences(saved, recomputed),
        f"The same: {counted(len(saved), 'row')}, equal {'to the bit' if is_identical(saved, recomputed) else 'to nine digits'}.",
        [note, *_versions(saved.provenance, recomputed.provenance)],
    )


def _gone(files: Sequence[str]) -> str:
    """What to do about recorded files that are neither where they were nor with the result; empty where there are none."""
    if not files:
        return ""
    return (
        f"The result was made from {listing(files)}, which is neither there any more nor beside the result. "
        "Copy it beside the result, or pass --table FILE (ROLE=FILE for another role than the table)."
    )


def _passed(audit: Audit, words: Sequence[str]) -> dict[str, Any]:
    """The files of `--table` by the role that they take: the first table, or the role that stands before `=`."""
    by_role: dict[str, list[str]] = {}
    for word in words:
        role, equals, path = word.partition("=")
        is_role = bool(equals) and role in audit.parameters and not os.path.exists(word)
        by_role.setdefault(role if is_role else next(iter(audit.parameters)), []).append(path if is_role else word)
    absolute = {role: [os.path.abspath(path) for path in paths] for role, paths in by_role.items()}  # noqa: PTH100
    return {role: paths if len(paths) > 1 else paths[0] for role, paths in absolute.items()}


def _refuse_lost(saved: Findings, passed: Mapping[str, Any]) -> None:
    """Refuse a result of objects that its plan does not hold, unless files take their place."""
    objects = {**(saved.provenance.get("needed_again") or {})}
    plan = saved.provenance["plan"]
    objects |= {name: "what was piped in" for name, value in plan.items() if value == STANDARD_INPUT}
    objects |= {
        name: "sizes that are suppressed in it"
        for name, value in plan.items()
        if isinstance(value, Mapping) and "suppressed" in value.values()
    }
    lost = [f"{name} ({what})" for name, what in objects.items() if name not in passed]
    if lost:
        first = next(iter(objects))
        table = "--table FILE" if first == next(iter(list(plan)[1:]), "") else f"--table {first}=FILE"
        raise EvenhandError(f"The result does not hold its {listing(lost)}. Pass {table}, a file with the same rows.")


DAMAGED = "Pass the file as result.to_json(path) wrote it."


def _refuse_damaged(facts: Mapping[str, Any], path: str) -> None:
    """Refuse a record of what was read that is not as results write it."""
    inputs = facts.get("inputs") or []
    kinds = {"role": str, "name": str, "sha256": str, "bytes": int}
    is_known = isinstance(inputs, list) and all(
        isinstance(entry, dict)
        and "role" in entry
        and ("sha256" not in entry or {"name", "bytes"} <= entry.keys())
        and all(isinstance(entry[name], (kind, type(None))) for name, kind in kinds.items() if name in entry)
        for entry in inputs
    )
    if not is_known or not all(isinstance(facts.get(name) or {}, dict) for name in ("reading", "counterfactual")):
        raise EvenhandError(f"What {path!r} records of its inputs is damaged. {DAMAGED}")


def _hashed(facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [entry for entry in facts.get("inputs") or [] if entry.get("sha256")]


def _recorded(facts: Mapping[str, Any]) -> list[str]:
    return [entry["name"] for entry in _hashed(facts) if entry["name"] != STANDARD_INPUT]


@contextlib.contextmanager
def _folder(path: str, names: Sequence[str]) -> Iterator[dict[str, str]]:
    """Work where the files are: here, in the folder of the result or above it; absolute names may have a copy beside the result."""
    result_folder = Path(path).resolve().parent
    relative = [name for name in names if not Path(name).is_absolute()]
    folders = [Path.cwd(), result_folder, *result_folder.parents]
    with contextlib.chdir(max(folders, key=lambda folder: sum((folder / name).exists() for name in relative))):
        copies = {name: result_folder / Path(name).name for name in names if not os.path.exists(name)}
        yield {name: str(copy) for name, copy in copies.items() if copy.exists()}


def _moved(value: Any, moved: Mapping[str, str]) -> Any:
    """A value of the plan with the files that have moved where they are now."""
    if isinstance(value, list):
        return [_moved(part, moved) for part in value]
    if isinstance(value, str):
        for name, path in moved.items():  # the value, or a file in a text such as rollup('items.csv')
            value = path if value == name else value.replace(repr(name), repr(path))
    return value


def _recompute(audit: Audit, plan: Mapping[str, Any], facts: Mapping[str, Any]) -> Findings:
    from evenhand.cli.plan import Step

    recomputed = audit(**Step(audit, plan, dict(facts.get("reading") or {}), Path()).arguments)
    if then := facts.get("counterfactual"):
        recomputed = recomputed.counterfactual(**then)
    findings: Findings = recomputed.findings
    return findings


def _compared(
    facts: Mapping[str, Any], passed: Mapping[str, Any], moved: Mapping[str, str]
) -> tuple[list[str], list[str], str]:
    """The recorded inputs that have other bytes now, those that are missing, and how many are the same, in words."""
    from evenhand.sources.inputs import Input

    changed, missing, same = [], [], 0
    for entry in _hashed(facts):
        name = entry["name"]
        now = Input(entry["role"], name, _path_now(name, passed.get(entry["role"]), moved))
        now.hash()
        if now.sha256 == entry["sha256"]:
            same += 1
        elif now.size is None:
            missing.append(f"{now.role} {name!r}")
        else:
            was = f"SHA-256 {entry['sha256'][:12]}, {entry['bytes']:,} bytes"
            is_now = f"{str(now.sha256)[:12]}, {now.size:,} bytes"
            changed.append(f"{now.role} {now.path!r} has other bytes ({was} recorded; {is_now} now)")
    if not _hashed(facts):
        return [], [], "The result records no file, so only its numbers were compared."
    return changed, missing, f"{counted(same, 'file').capitalize()} with the recorded SHA-256."


def _path_now(name: str, passed: Any, moved: Mapping[str, str]) -> str:
    """Where a recorded file is: among the files that were passed (one of its name, or the only one), or where it was."""
    if passed is None:
        return moved.get(name, name)
    files = [
        f for word in (passed if isinstance(passed, list) else [passed]) for f in sorted(glob.glob(word)) or [word]
    ]
    return next((f for f in files if Path(f).name == Path(name).name), files[0] if len(files) == 1 else name)


def _counted(saved: Findings, recomputed: Findings, passed: Mapping[str, Any]) -> list[str]:
    """Roles that read more or fewer files than before, or dataframes with more or fewer rows."""
    words = []
    old, new = (f.provenance.get("inputs") or [] for f in (saved, recomputed))
    for role in dict.fromkeys(entry["role"] for entry in old):
        before, after = ([entry for entry in entries if entry["role"] == role] for entries in (old, new))
        if len(before) != len(after) and role not in passed:
            words.append(f"{role} has {counted(len(before), 'file')} recorded, {len(after):,} now")
        elif "name" not in before[0] and after and before[0]["rows"] != after[0]["rows"]:
            words.append(f"{role} has {before[0]['rows']:,} rows recorded, {after[0]['rows']:,} now")
        elif role not in passed:
            words += [text for b, a in zip(before, after, strict=True) if (text := _edited(role, b, a))]
    return words


def _edited(role: str, recorded: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """What the record of a file says that its bytes do not; a file of other bytes is told of elsewhere."""
    if now.get("sha256") and not recorded.get("sha256"):
        return f"{role} {recorded.get('name')!r} has no SHA-256 recorded"
    if now.get("sha256") != recorded.get("sha256"):
        return ""
    other = [name for name in ("bytes", "rows") if recorded.get(name) != now.get(name)]
    return f"{role} {recorded.get('name')!r} has other {' and '.join(other)} recorded than it has" if other else ""


def _versions(saved: Mapping[str, Any], recomputed: Mapping[str, Any]) -> list[str]:
    old, new = saved.get("versions") or {}, recomputed.get("versions") or {}
    other = [f"{name} {old[name]} (now {new[name]})" for name in old if new.get(name, old[name]) != old[name]]
    when = f" at {saved['computed_at']}" if saved.get("computed_at") else ""
    return [f"It was made{when} with other versions: {', '.join(other)}."] if other else []
