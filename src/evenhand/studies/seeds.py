"""The same study with several seeds: a verdict of one draw is an anecdote."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from evenhand.errors import EvenhandError
from evenhand.studies.study import Claim, Study, Table

SEEDS = 3
"""How many seeds a study runs with unless told otherwise."""
log = logging.getLogger("evenhand")


def over_seeds(run: Callable[[int], Study], seeds: Sequence[int]) -> Study:
    """Run a study with every seed: tables and figures of the first, verdicts of all of them.

    >>> from evenhand.studies.recommender import study
    >>> found = over_seeds(lambda seed: study(size=100, seed=seed), [1, 2])
    >>> {claim.in_seeds for claim in found.claims} <= {"0 of 2", "1 of 2", "2 of 2"}
    True
    """
    if not seeds or len(set(seeds)) < len(seeds):
        raise EvenhandError(f"seeds={list(seeds)!r} names no seed, or one twice. Pass different seeds.")
    log.info("seed %s", seeds[0])
    first = run(seeds[0])
    if len(seeds) == 1:
        return first
    others: list[dict[str, Claim]] = []
    for seed in seeds[1:]:
        log.info("seed %s", seed)
        others.append({c.statement: c for c in run(seed).claims})  # the rest of a study is large
    every = [[c, *(other[c.statement] for other in others)] for c in first.claims]
    claims = tuple(replace(by_seed[0], runs=tuple(c.holds for c in by_seed)) for by_seed in every)
    setting = f"{first.setting} Verdicts of the seeds {_named(seeds)}; tables and figures are those of seed {seeds[0]}."
    moved = _by_seed(every, seeds)
    tables = (*first.tables, *([moved] if moved.rows else []))
    return replace(first, claims=claims, setting=setting, tables=tables, seeds=tuple(seeds))


def _named(seeds: Sequence[int]) -> str:
    whole = list(seeds) == list(range(seeds[0], seeds[0] + len(seeds)))
    return f"{seeds[0]} to {seeds[-1]}" if whole else ", ".join(map(str, seeds))


def _by_seed(every: Sequence[Sequence[Claim]], seeds: Sequence[int]) -> Table:
    """What was measured with every seed, for findings that come out in some of them only."""
    moved = [by_seed for by_seed in every if len({c.holds for c in by_seed}) > 1]
    rows = tuple((by_seed[0].statement, *(f"{c.verdict}: {c.measured}" for c in by_seed)) for by_seed in moved)
    return Table("Findings whose verdict depends on the seed", ("finding", *(f"seed {s}" for s in seeds)), rows)
