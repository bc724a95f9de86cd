"""`evenhand study`: the studies of papers, on generated data or on the user's files."""

from __future__ import annotations

import argparse
import functools
import importlib
import inspect
import sys
from typing import TYPE_CHECKING, Any

from evenhand.cli.options import add_no_progress, progress
from evenhand.errors import EvenhandError, printable
from evenhand.report.files import refuse_unwritable, write_whole

if TYPE_CHECKING:
    from evenhand.audits.declare import Audit, Parameter


STUDIES = {
    "experiment": "experiments with a known effect: false alarms and power of naive and of correct analyses",
    "fair-ranking": "fair ranking metrics on four tasks of known bias: do they agree on which system is fairer?",
    "inequality": "attention on a social platform: who gets seen, and which source drives the inequality",
    "outcome": "the outcome test on marketplaces of known bias, compared with other measures",
    "rebalance": "known re-rankers, tuned over their grids, compared with the frontier of relevance and evenness",
    "recommender": "four recommenders of known bias: what each measure shows, and what it misses",
    "response": "how ranking metrics respond to a known bias, sparse labels and judgments, list length and group share",
    "viewpoints": "viewpoint diversity in search results: four metrics against a known bias",
}
"""Each study is a module of evenhand.studies (dashes become underscores) with `study(*, size, seed, ...) -> Study`; None is its
default size. Its other parameters, the files and columns that it reads instead of generating data, are options here, described
by its docstring."""
GENERATED = {"size", "seed"}
"""Parameters of every study: they are for generated data."""
FILES = {"data", "ratings"}
"""Parameters that replace generated data; another seed hardly changes the study then."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from evenhand.cli.audit import ENGINES, add_option
    from evenhand.studies.study import FORMATS

    names = parser.add_subparsers(dest="name", required=True, metavar="NAME", title="studies")
    for name, summary in STUDIES.items():
        study = declared(name)
        sub = names.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        group = sub.add_argument_group("on your own data")
        for parameter in roles(study).values():
            nargs: dict[str, Any] = {"nargs": "+"} if parameter.takes.many else {}
            add_option(group, parameter, study, required=False, **nargs)
        if any(parameter.takes.table for parameter in roles(study).values()):
            text = "engine that reads a table of --data (default: duckdb; polars means the same)"
            group.add_argument("--engine", choices=ENGINES, help=text)
        text = "size of the generated data, or with --ratings the number of test users (default: depends on the study)"
        sub.add_argument("--size", type=int, default=None, help=text)
        sub.add_argument("--seed", type=int, default=1, help="first seed of generated data and draws (default: 1)")
        text = (
            "number of consecutive seeds to run, counting in how many each finding comes out (default: 3; on files: 1)"
        )
        sub.add_argument("--seeds", type=int, metavar="N", help=text)
        sub.add_argument("--format", choices=FORMATS, default="table", help="format of the answer (default: table)")
        sub.add_argument("--html", metavar="FILE", help="write one page with findings, tables and figures")
        add_no_progress(sub)


def run(args: argparse.Namespace) -> int:
    from evenhand.cli.audit import in_flags
    from evenhand.studies.study import over_seeds

    if args.html:
        refuse_unwritable([args.html])
    study = declared(args.name)
    arguments = _arguments(study, args)
    count = args.seeds if args.seeds is not None else 1 if FILES & arguments.keys() else 3
    if count < 1:
        raise EvenhandError(f"--seeds {count} is too few. Pass 1 or more.")
    with progress(f"study {args.name}", quiet=args.no_progress):
        try:
            result = over_seeds(
                lambda seed: study.function(size=args.size, seed=seed, **arguments), range(args.seed, args.seed + count)
            )
        except EvenhandError as error:
            raise EvenhandError(in_flags(str(error), study)) from error
        if args.html:
            write_whole(args.html, result.to_html())
    sys.stdout.write(printable(result.to_text(args.format)))
    if args.html:
        print(f"wrote {args.html}", file=sys.stderr)
    return 0


@functools.cache
def declared(name: str) -> Audit:
    """A study declared like an audit: by the signature and docstring of its function."""
    from evenhand.audits.declare import Audit

    class Declared(Audit):
        @functools.cached_property
        def signature(self) -> inspect.Signature:
            return inspect.signature(self.function)

    module = importlib.import_module(f"evenhand.studies.{name.replace('-', '_')}")
    return Declared(name, module.study, STUDIES[name], (), "", ())


def roles(study: Audit) -> dict[str, Parameter]:
    return {name: parameter for name, parameter in study.parameters.items() if name not in GENERATED}


def _arguments(study: Audit, args: argparse.Namespace) -> dict[str, Any]:
    from evenhand.cli.audit import read, source, typed_parameters

    taken, typed = roles(study), typed_parameters(args)
    arguments = {role: words if isinstance(words, bool) else read(taken[role], words) for role, words in typed.items()}
    if getattr(args, "engine", None):
        arguments |= {role: source(typed[role], args.engine) for role in arguments if taken[role].takes.table}
    return arguments
