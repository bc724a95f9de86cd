"""`evenhand run plan.toml`: the same audit from a file, with checks that decide the exit code."""

from __future__ import annotations

import argparse
import importlib
import inspect
import tomllib
from pathlib import Path
from typing import Any

from evenhand.cli.options import add_output, finish, outputs, progress
from evenhand.errors import EvenhandError, listing, suggestion, unknown_name

AUDITS = {
    "criteria": "evenhand.audits.criteria",
    "decompose": "evenhand.audits.decompose",
    "exposure": "evenhand.audits.exposure",
    "inequality": "evenhand.audits.inequality",
    "outcome_test": "evenhand.audits.outcome",
    "pairwise": "evenhand.audits.pairwise",
    "prefix": "evenhand.audits.prefix",
    "recommender": "evenhand.audits.recommender",
    "sources": "evenhand.audits.sources",
}

EXAMPLE = """\
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

  evenhand run plan.toml --check 'top_share(p=0.01) <= 50%'"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLE
    parser.add_argument("plan", metavar="PLAN.toml")
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    path = Path(args.plan)
    plan = _load(path)
    typed = str(plan.pop("audit", None))
    name = typed.replace("-", "_")  # as the verb is written
    if name not in AUDITS:
        raise unknown_name("audit", typed, sorted(AUDITS), what="an audit that a plan can name")
    args.check = [*_texts(plan.pop("check", [])), *args.check]
    function = getattr(importlib.import_module(AUDITS[name]), name)
    known = list(inspect.signature(function).parameters)
    for key in plan:
        if key not in known:
            raise EvenhandError(
                f"{str(path)!r} has {key!r}, which {name} does not take. {suggestion(key, known)}It takes: {listing(known, 40)}."
            )
    lacking = [
        n
        for n, p in inspect.signature(function).parameters.items()
        if p.default is inspect.Parameter.empty and n not in plan
    ]
    if lacking:
        raise EvenhandError(f"{str(path)!r} lacks {listing(lacking)}. Add a line for each.")
    table = _beside(plan.pop(known[0]), path.parent)
    arguments = {k: None if v == "none" else _beside(v, path.parent) for k, v in plan.items()}
    args.reads = [w for v in (table, *arguments.values()) for w in (v if isinstance(v, list) else [v])]
    outputs(args)
    with progress("reading", quiet=args.no_progress):
        result = function(table, **arguments)
    return finish(result, args)


def _load(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise EvenhandError(f"{str(path)!r} cannot be read ({error.strerror}). Pass the path of a plan.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise EvenhandError(f"{str(path)!r} is not TOML: {error}. See evenhand run --help for an example.") from error


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
