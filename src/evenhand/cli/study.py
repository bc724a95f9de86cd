"""A paper's study, rerun: each stated finding beside what comes out.

example:
  evenhand study inequality --folder study-inequality
  evenhand study inequality --data log.parquet --unit author --amount views --amount likes --source via --followers followers
  evenhand study viewpoints --seeds 10 --html viewpoints.html
  evenhand study outcome --data jobs.parquet --score score --outcome applied --group gender --request job --html bar.html
  evenhand study fair-ranking --data trec-fair-2019       on files of the TREC Fair Ranking track
  evenhand study fair-ranking --data 2019 --data 2020.parquet --ratings u.data     agreement across experiments
  evenhand study fair-ranking --ratings ml-100k/u.data    four recommenders of LensKit learn from ratings (extra: lenskit)
  evenhand study fair-ranking --ratings goodreads_interactions.json.gz --groups book-gender.csv --protected female
"""

from __future__ import annotations

import argparse
import functools
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from evenhand.cli.options import progress
from evenhand.errors import EvenhandError, listing, printable
from evenhand.report.files import refuse_unwritable, write_whole

if TYPE_CHECKING:
    from evenhand.audits.declare import Audit
    from evenhand.audits.parameters import Parameter
    from evenhand.studies.study import Study

STUDIES = {
    "experiment": "experiments whose effect is known: false alarms and power of naive and of right analyses",
    "fair-ranking": "fair ranking metrics on four tasks of known bias: do they agree on which system is fairer?",
    "inequality": "attention on a social platform: who gets seen, and which source makes the skew",
    "outcome": "the outcome test on marketplaces whose bias is known, and what other measures say of them",
    "rebalance": "known re-rankers, tuned over their grids, beside the frontier of relevance and evenness",
    "recommender": "four recommenders whose bias is known: what each measure says of them, and what it misses",
    "viewpoints": "viewpoint diversity in search results: four metrics against a known bias",
}
"""Each study is a module of evenhand.studies (dashes become underscores) with `study(*, size, seed, ...) -> Study`; with size
None it chooses its own. What else its signature takes, the files and columns that it reads instead of drawing, are its options
here, in the words of its docstring."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from evenhand.studies.study import FORMATS

    known = "\n".join(f"  {name:<12} {about}" for name, about in STUDIES.items())
    parser.epilog = f"studies:\n{known}\n\n{parser.epilog}"
    parser.add_argument("name", choices=STUDIES, metavar="NAME", help=", ".join(STUDIES))
    parser.add_argument(
        "--size",
        type=int,
        default=None,
        help="how much data is generated, or with --ratings how many users are tested (default: the study's own)",
    )
    _add_roles(parser)
    parser.add_argument(
        "--seed", type=int, default=1, help="first seed of the generated data and the draws (default: 1)"
    )
    parser.add_argument(
        "--seeds", type=int, metavar="N",
        help="run with N seeds in a row and count in how many each finding comes out (default: 3; on files: 1)",
    )  # fmt: skip
    parser.add_argument("--format", choices=FORMATS, default="table", help="form of the answer (default: table)")
    parser.add_argument("--html", metavar="FILE", help="write one page with findings, tables and figures")
    parser.add_argument("--folder", metavar="FOLDER", help="write the figures, the findings and a page with all of it")
    parser.add_argument("--no-progress", action="store_true", help="no progress on standard error")


def run(args: argparse.Namespace) -> int:
    from evenhand.studies.seeds import SEEDS

    if args.folder and os.path.isfile(args.folder):
        raise EvenhandError(f"{args.folder!r} is a file. Pass the name of a folder, which need not exist.")
    if args.html:
        refuse_unwritable([args.html])
    study = declared(args.name)
    given = _given(study, args)
    many = args.seeds if args.seeds is not None else 1 if FILES & given.keys() else SEEDS
    if many < 1:
        raise EvenhandError(f"--seeds {many} is no number of seeds. Pass 1 or more.")
    with progress(f"study {args.name}", quiet=args.no_progress):
        seeds = range(args.seed, args.seed + many)
        found = _asked(study, lambda seed: study.function(size=args.size, seed=seed, **given), seeds)
        written = found.write(args.folder) if args.folder else []
        written += [write_whole(args.html, found.to_html())] if args.html else []
    sys.stdout.write(printable(found.to_text(args.format)))
    for path in written:
        print(f"wrote {path}", file=sys.stderr)
    return 0


FILES = {"data", "ratings"}
"""What a study reads instead of drawing: another seed hardly changes it."""


GENERATED = {"size", "seed"}
"""What every study takes: it is for data that are generated."""


@functools.cache
def declared(name: str) -> Audit:
    """A study as audits are declared: its signature lists what it takes, its docstring explains it."""
    from evenhand.audits.declare import Audit

    class Declared(Audit):
        @functools.cached_property
        def signature(self) -> inspect.Signature:
            return inspect.signature(self.function)

    module = importlib.import_module(f"evenhand.studies.{name.replace('-', '_')}")
    return Declared(name, module.study, STUDIES[name], (), "", ())


def roles(study: Audit) -> dict[str, Parameter]:
    """What a study reads instead of drawing."""
    return {name: parameter for name, parameter in study.parameters.items() if name not in GENERATED}


def _add_roles(parser: argparse.ArgumentParser) -> None:
    """What any of the studies reads, an option each."""
    from evenhand.cli.audit import ENGINES, about, add_option

    takers: dict[str, dict[str, Parameter]] = {}
    for name in STUDIES:
        for role, parameter in roles(declared(name)).items():
            takers.setdefault(role, {})[name] = parameter
    own = parser.add_argument_group("on data of one's own, by study")
    for by_study in takers.values():
        one = max(by_study.values(), key=lambda parameter: parameter.takes.many)
        told: dict[str, list[str]] = {}
        for name, parameter in by_study.items():
            told.setdefault(about(parameter), []).append(name)
        said = "; ".join(f"{', '.join(names)}: {text}" for text, names in told.items())
        words: dict[str, Any] = {"nargs": "+"} if one.takes.many else {}
        add_option(own, one, declared(next(iter(by_study))), required=False, help=said, **words)
    own.add_argument(
        "--engine", choices=ENGINES, help="what reads a table of --data (default: duckdb; polars means the same)"
    )


def _given(study: Audit, args: argparse.Namespace) -> dict[str, Any]:
    """The words of the command line as the study takes them; what it does not take is refused."""
    from evenhand.cli.audit import flag, read, source

    taken = roles(study)
    typed = {key.removeprefix("of_"): words for key, words in vars(args).items() if key.startswith("of_")}
    if lost := [flag(role) for role in typed if role not in taken]:
        takes = f"it takes {listing(map(flag, taken))}" if taken else "it generates its own data"
        raise EvenhandError(f"{listing(lost)} does not fit the study {study.name}: {takes}. Leave it out.")
    for role, words in typed.items():
        if isinstance(words, list) and len(words) > 1 and not taken[role].takes.many:
            raise EvenhandError(
                f"{flag(role)} is given {len(words)} times, and the study {study.name} takes one. Give it once."
            )
    given = {role: words if isinstance(words, bool) else read(taken[role], words) for role, words in typed.items()}
    if args.engine:
        tables = [role for role in given if taken[role].takes.table]
        if not tables:
            raise EvenhandError(f"--engine reads a table by roles, and the study {study.name} has none. Leave it out.")
        given |= {role: source(typed[role], args.engine) for role in tables}
    return given


def _asked(study: Audit, run: Callable[[int], Study], seeds: Sequence[int]) -> Study:
    """The study, and where it refuses something, that in words of the command line."""
    from evenhand.cli.audit import in_flags
    from evenhand.studies.seeds import over_seeds

    try:
        return over_seeds(run, seeds)
    except EvenhandError as error:
        raise EvenhandError(in_flags(str(error), study)) from error
