"""An audit from a plan file, for a build: exit code 1 when a check fails.

example plan.toml:
  audit = "inequality"
  table = "events.parquet"          # paths are relative to the plan
  unit = "author_id"
  amount = "impressions"
  population = "authors.parquet"    # or a number, or "none"
  by = "source"
  metrics = ["gini", "top_share(p=0.01)"]
  rng = 7
  check = ["gini <= 0.9"]

  evenhand run plan.toml --check 'top_share(p=0.01) <= 50%'
"""

from __future__ import annotations

import argparse
import tomllib
from pathlib import Path
from typing import Any

from evenhand.cli.options import add_output, finish, outputs, progress
from evenhand.errors import EvenhandError, listing, suggestion


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", metavar="PLAN.toml")
    add_output(parser, ["as for the audit"])


def run(args: argparse.Namespace) -> int:
    from evenhand.audits.declare import Audit, find
    from evenhand.cli.audit import from_plan

    path = Path(args.plan)
    plan = _load(path)
    audit: Audit = find(str(plan.pop("audit", None)).replace("-", "_"))  # as the verb is written
    args.check = [*_texts(plan.pop("check", [])), *args.check]
    known = audit.parameters
    for key in plan:
        if key not in known:
            raise EvenhandError(
                f"{str(path)!r} has {key!r}, which {audit.name} does not take. {suggestion(key, known)}"
                f"It takes: {listing(known, 40)}."
            )
    lacking = [name for name, p in known.items() if p.required and name not in plan]
    if lacking:
        raise EvenhandError(f"{str(path)!r} lacks {listing(lacking)}. Add a line for each.")
    arguments = {k: _beside(v, path.parent) for k, v in from_plan(audit, plan).items()}
    args.reads = [w for v in arguments.values() for w in (v if isinstance(v, list) else [v])]
    outputs(args)
    with progress("reading", quiet=args.no_progress):
        result = audit(**arguments)
    return finish(result, args)


def _load(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise EvenhandError(f"{str(path)!r} cannot be read ({error.strerror}). Pass the path of a plan.") from error
    except (ValueError, RecursionError) as error:  # also numbers of thousands of digits, and brackets without an end
        why = str(error) if isinstance(error, tomllib.TOMLDecodeError) else "a value that cannot be read"
        raise EvenhandError(f"{str(path)!r} is not TOML: {why}. See evenhand run --help for an example.") from error


def _texts(value: Any) -> list[str]:
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or not all(isinstance(v, str) for v in listed):
        raise EvenhandError(f"check={value!r} is no list of rules. Write check = ['gini <= 0.9'].")
    return listed


_FILES = (".parquet", ".pq", ".csv", ".tsv", ".jsonl", ".ndjson", ".gz", ".npz", ".npy", ".json", ".qrels", ".run")


def _beside(value: Any, folder: Path) -> Any:
    """Paths in a plan are relative to the plan."""
    if isinstance(value, str) and value.endswith(_FILES) and not Path(value).is_absolute():
        return str(folder / value)
    if isinstance(value, list) and value and all(isinstance(v, str) and v.endswith(_FILES) for v in value):
        return [_beside(v, folder) for v in value]
    return value
