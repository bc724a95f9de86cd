"""A paper's study, rerun: each stated finding beside what comes out.

example:
  evenhand study inequality --folder study-inequality
  evenhand study viewpoints --seeds 10 --html viewpoints.html
  evenhand study fair-ranking --data trec-fair-2019       on files of the TREC Fair Ranking track
  evenhand study fair-ranking --data 2019 --data 2020.parquet --ratings u.data     agreement across experiments
  evenhand study fair-ranking --ratings ml-100k/u.data    four recommenders of LensKit learn from ratings (extra: lenskit)
  evenhand study fair-ranking --ratings goodreads_interactions.json.gz --groups book-gender.csv --protected female
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import os
import sys
from types import ModuleType
from typing import Any

from evenhand.cli.options import progress
from evenhand.errors import EvenhandError, listing, printable
from evenhand.present.files import refuse_unwritable, write_whole

STUDIES = {
    "experiment": "experiments whose effect is known: false alarms and power of naive and of right analyses",
    "fair-ranking": "fair ranking metrics on four tasks of known bias: do they agree on which system is fairer?",
    "inequality": "attention on a social platform: who gets seen, and which source makes the skew",
    "outcome": "the outcome test on marketplaces whose bias is known, and what other measures say of them",
    "rebalance": "known re-rankers, tuned over their grids, beside the frontier of relevance and evenness",
    "recommender": "four recommenders whose bias is known: what each measure says of them, and what it misses",
    "viewpoints": "viewpoint diversity in search results: four metrics against a known bias",
}
"""Each study is a module of evenhand.studies (dashes become underscores) with `study(*, size, seed) -> Study`; with size
None it chooses its own."""


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
    parser.add_argument(
        "--data", metavar="PATH", action="append",
        help="run on this instead of generated data (fair-ranking: a folder of the TREC Fair track or a table with columns system, "
        "request, item, rank, group and relevance, repeated for several experiments; rebalance: a file)",
    )  # fmt: skip
    asked = parser.add_argument_group("fair-ranking on ratings (needs the extra lenskit)")
    asked.add_argument(
        "--ratings",
        metavar="FILE",
        help="MovieLens (u.data, ratings.dat, ratings.csv) or GoodReads interactions (JSON lines, .gz)",
    )
    asked.add_argument(
        "--groups", metavar="FILE", nargs="+",
        help="group of every item; or two files, items to authors and authors to groups (default: thirds by popularity)",
    )  # fmt: skip
    asked.add_argument("--group", metavar="COLUMN", help="column of labels (default: group, gender, or the only one)")
    asked.add_argument("--protected", metavar="LABEL", help="the protected group (default: the smallest)")
    asked.add_argument("--versus", metavar="LABEL", help="the group it is compared with (default: the largest)")
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
    from evenhand.studies.seeds import SEEDS, over_seeds

    if args.folder and os.path.isfile(args.folder):
        raise EvenhandError(f"{args.folder!r} is a file. Pass the name of a folder, which need not exist.")
    if args.html:
        refuse_unwritable([args.html])
    module = importlib.import_module(f"evenhand.studies.{args.name.replace('-', '_')}")
    data = _data(module, args)
    many = args.seeds if args.seeds is not None else 1 if FILES & data.keys() else SEEDS
    if many < 1:
        raise EvenhandError(f"--seeds {many} is no number of seeds. Pass 1 or more.")
    with progress(f"study {args.name}", quiet=args.no_progress):
        seeds = range(args.seed, args.seed + many)
        found = over_seeds(lambda seed: module.study(size=args.size, seed=seed, **data), seeds)
        written = found.write(args.folder) if args.folder else []
        written += [write_whole(args.html, found.to_html())] if args.html else []
    sys.stdout.write(printable(found.to_text(args.format)))
    for path in written:
        print(f"wrote {path}", file=sys.stderr)
    return 0


FILES = {"data", "ratings"}
"""What a study reads instead of drawing: another seed hardly changes it."""


def _data(module: ModuleType, args: argparse.Namespace) -> dict[str, Any]:
    words = ("data", "ratings", "groups", "group", "protected", "versus")
    given = {word: getattr(args, word) for word in words if getattr(args, word) is not None}
    lost = [f"--{word}" for word in given if word not in inspect.signature(module.study).parameters]
    if lost:
        raise EvenhandError(f"{listing(lost)} does not fit the study {args.name}: it generates its own. Leave it out.")
    if "data" in given and "Sequence" not in str(inspect.signature(module.study).parameters["data"].annotation):
        if len(given["data"]) > 1:
            raise EvenhandError(
                f"--data is given {len(given['data'])} times, and the study {args.name} takes one. Give it once."
            )
        given["data"] = given["data"][0]
    return given
