# ruff: noqa: B023 (a verdict is reached before the loop that asks for it goes on)
"""The findings of the comparison of fair ranking metrics, tested on halves of the requests."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import evenhand as eh
from evenhand.studies.study import UNKNOWN, Claim, Replicates, decide, every

AWRF, AWRF_EQUAL = "awrf(distance='nd')", "awrf(distance='nd', target='equal')"
HIGH = 0.5  # a tau-c that counts as comparatively high
MANY = 0.1  # a share of lists without a value that counts as breaking down
APART = 0.05  # a difference of accuracies that counts

Pair = frozenset[str]
PAIR = frozenset(("eel", AWRF_EQUAL))
"""The two metrics that the paper names."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Measurements on one task.

    Attributes
    ----------
    taus : tau-c of every two metrics. lost : share of requests without a finite value, by metric.
    cut : inter-group accuracy from all scores and from the lists alone, where there are scores.
    """

    task: str
    systems: int
    taus: Mapping[Pair, float]
    lost: Mapping[str, float]
    cut: tuple[float, float] | None


@dataclass(frozen=True)
class Tasks:
    """All tasks, on all of their requests or on half of them."""

    measured: Sequence[Measured]

    def taus(self, pair: Pair) -> list[float]:
        """Tau-c of two metrics in every task; NaN where it is undefined."""
        return [m.taus.get(pair, math.nan) for m in self.measured]

    def least(self, pair: Pair) -> float:
        """The least tau-c of two metrics in any task; NaN where one is undefined."""
        return float(min(taus)) if not any(map(math.isnan, taus := self.taus(pair))) else math.nan

    def high(self, pairs: Sequence[Pair]) -> int:
        """How many pairs agree in every task."""
        return sum(self.least(pair) >= HIGH for pair in pairs)

    def once(self, pairs: Sequence[Pair]) -> list[Pair]:
        """Pairs that agree in some task."""
        return [pair for pair in pairs if max(self.taus(pair)) >= HIGH]

    def broken(self, pairs: Sequence[Pair]) -> float:
        """Of the pairs that agree in some task, the share that does not in another; NaN where none agrees."""
        once = self.once(pairs)
        return sum(self.least(pair) < HIGH for pair in once) / len(once) if once else math.nan

    def apart(self, task: int) -> float:
        """How far accuracy from the lists is from that from all scores."""
        cut = self.measured[task].cut
        return math.nan if cut is None else abs(cut[0] - cut[1])


Runs = Replicates[Tasks]


def claims(runs: Runs) -> tuple[Claim, ...]:
    """Every finding of the comparison, also those that do not come out."""
    return decide(
        (*_consensus(runs), *_closest(runs), _prefix_breaks(runs), _ratios_break(runs), _pairs_need_scores(runs))
    )


def _shared(tasks: Tasks) -> list[Pair]:
    """Pairs of metrics that have a tau-c in every task."""
    return [pair for pair in tasks.measured[0].taus if not math.isnan(tasks.least(pair))]


def _consensus(runs: Runs) -> list[Claim]:
    """Whether metrics agree on the order of systems, and whether those that agree once agree again."""
    whole, pairs = runs.whole, _shared(runs.whole)
    several = len(whole.measured) > 1
    where = "in every task" if several else "in the one experiment there is"
    once = whole.once(pairs)
    text = f"{sum(whole.least(p) < HIGH for p in once)} of {len(once)} pairs that agree in one task do not in another"
    return [
        Claim(
            "The metrics do not show clear consensus across data sets", "section 3.3", "no consensus",
            f"{whole.high(pairs)} of {len(pairs)} pairs of metrics have a tau-c of {HIGH} or more {where}",
            runs.above(lambda t: 0.5 - t.high(pairs) / len(pairs)) if pairs and several else UNKNOWN,
            counts=f"significantly fewer than half of the pairs reach {HIGH} in every task",
        ),
        Claim(
            "Metrics that agree in one experiment often do not agree on others", "section 3.3", "often",
            text if several else f"{len(once)} of {len(pairs)} pairs agree in the one experiment there is",
            runs.above(lambda t: t.broken(pairs), 0.5) if several else UNKNOWN, counts="significantly more than half of them",
        ),
    ]  # fmt: skip


def _closest(runs: Runs) -> list[Claim]:
    """Whether EEL and AWRF with an equal target agree most consistently over experiments."""
    whole, pairs = runs.whole, _shared(runs.whole)
    several, nothing = len(whole.measured) > 1, "the pair is undefined in some task"
    is_defined = several and PAIR in pairs
    taus = whole.taus(PAIR) if PAIR in pairs else []
    best = max(pairs, key=lambda p: (whole.least(p), sum(whole.taus(p))), default=PAIR)
    winner = f"{' and '.join(sorted(best))}, least tau-c {whole.least(best):.2f}" if best in pairs else nothing
    listed = ", ".join(f"{m.task} {t:.2f}" for m, t in zip(whole.measured, taus, strict=False)) or nothing
    others = [pair for pair in pairs if pair != PAIR]
    ahead = (runs.above(lambda t: t.least(PAIR) - t.least(other)) for other in others)
    positive = (runs.above(lambda t: t.taus(PAIR)[i]) for i in range(len(taus)))
    return [
        Claim(
            "The most consistently agreeing pair is EEL and AWRF with an equal target", "section 3.3", "this pair",
            winner if several else f"{winner}, of one experiment", every(ahead) if is_defined else UNKNOWN,
            counts="its least tau-c is significantly above that of each other pair",
        ),
        Claim(
            "EEL and AWRF with an equal target agree in all experiments", "section 3.3", "tau-c > 0", listed,
            every(positive) if is_defined else UNKNOWN, counts="significantly, in each of them",
        ),
        Claim(
            "Their agreement is comparatively high in three of the four", "section 3.3", "3 of 4",
            f"{sum(t >= HIGH for t in taus)} of {len(taus)} at {HIGH} or more",
            runs.above(lambda t: sorted(t.taus(PAIR))[-3], HIGH) if len(taus) == 4 else UNKNOWN,
            counts=f"the third highest tau-c is significantly above {HIGH}",
        ),
    ]  # fmt: skip


def _prefix_breaks(runs: Runs) -> Claim:
    tasks = runs.whole.measured
    listed = ", ".join(f"{m.task} {m.lost['pref']:.0%}" for m in tasks)
    few = [runs.above(lambda t: MANY - t.measured[i].lost["pref"]) for i in range(len(tasks))]
    return Claim(
        f"Prefix metrics ({eh.metrics.pref_nd.card.symbol}) break down on missing data and short lists", "sections 2.6 and 3.2",
        "excluded", f"lists without a value: {listed}", ~every(few),
        counts=f"significantly more than {MANY:.0%} in some task",
    )  # fmt: skip


def _ratios_break(runs: Runs) -> Claim:
    statement = "RUR is even more brittle than EUR"
    place = next((i for i, m in enumerate(runs.whole.measured) if "log_rur" in m.lost), None)
    if place is None:
        return Claim(statement, "section 2.6", "more", "needs one group per item", UNKNOWN)
    task = runs.whole.measured[place]
    text = f"requests without a finite value: logEUR {task.lost['log_eur']:.0%}, logRUR {task.lost['log_rur']:.0%} ({task.task})"
    more = runs.above(lambda t: t.measured[place].lost["log_rur"] - t.measured[place].lost["log_eur"])
    return Claim(statement, "section 2.6", "more", text, more, counts="significantly more, of the same requests")


def _pairs_need_scores(runs: Runs) -> Claim:
    statement, counts = (
        "Pairwise accuracy is not a function of the top list",
        f"they differ significantly by more than {APART}",
    )
    place = next((i for i, m in enumerate(runs.whole.measured) if m.cut is not None), None)
    if place is None:
        return Claim(statement, "section 3.2", "scores needed", "no scores to look at", UNKNOWN, counts=counts)
    whole, cut = runs.whole.measured[place].cut or (math.nan, math.nan)
    text = f"InterAcc {whole:.2f} from all scores, {'undefined' if math.isnan(cut) else f'{cut:.2f}'} from the lists"
    differs = runs.above(lambda t: t.apart(place), APART)
    return Claim(statement, "section 3.2", "scores needed", text, differs, counts=counts)
