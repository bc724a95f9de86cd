"""What the comparison of fair ranking metrics states, held against what came out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evenhand.metrics.prefix import pref_nd
from evenhand.studies.study import Claim

AWRF, AWRF_EQUAL = "awrf(distance='nd')", "awrf(distance='nd', target='equal')"
HIGH = 0.5
"""A tau-c that is comparatively high."""

Pair = frozenset[str]


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured on one task.

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


def claims(found: Sequence[Measured]) -> tuple[Claim, ...]:
    """Every finding of the comparison, also those that do not come out."""
    shared = _shared(found)
    return (
        _no_consensus(found, shared),
        _not_consistent(found, shared),
        *_closest(found, shared),
        _prefix_breaks(found),
        _ratios_break(found),
        _pairs_need_scores(found),
    )


def _shared(found: Sequence[Measured]) -> dict[Pair, list[float]]:
    """tau-c of the pairs of metrics that every task has."""
    pairs = [p for p in found[0].taus if all(p in m.taus and not math.isnan(m.taus[p]) for m in found)]
    return {p: [m.taus[p] for m in found] for p in pairs}


def _no_consensus(found: Sequence[Measured], shared: Mapping[Pair, Sequence[float]]) -> Claim:
    high = sum(min(taus) >= HIGH for taus in shared.values())
    where = "in every task" if len(found) > 1 else "in the one experiment there is"
    said = f"{high} of {len(shared)} pairs of metrics have a tau-c of {HIGH} or more {where}"
    holds = high < len(shared) / 2 if shared and len(found) > 1 else None
    return Claim(
        "The metrics do not show clear consensus across data sets", "section 3.3", "no consensus", said, holds,
        counts=f"fewer than half of the pairs reach {HIGH} in every task",
    )  # fmt: skip


def _not_consistent(found: Sequence[Measured], shared: Mapping[Pair, Sequence[float]]) -> Claim:
    once = [taus for taus in shared.values() if max(taus) >= HIGH]
    broken = sum(min(taus) < HIGH for taus in once)
    said = f"{broken} of {len(once)} pairs that agree in one task do not in another"
    said = said if len(found) > 1 else f"{len(once)} of {len(shared)} pairs agree in the one experiment there is"
    holds = broken > len(once) / 2 if once and len(found) > 1 else None
    return Claim(
        "Metrics that agree in one experiment often do not agree on others", "section 3.3", "often", said, holds,
        counts="more than half of them",
    )  # fmt: skip


def _closest(found: Sequence[Measured], shared: Mapping[Pair, Sequence[float]]) -> list[Claim]:
    """Whether EEL and AWRF with an equal target agree most consistently: a question about several experiments."""
    pair = frozenset(("eel", AWRF_EQUAL))
    taus, several = shared.get(pair, []), len(found) > 1
    nothing = "the pair is undefined in some task"
    best = max(shared, key=lambda p: (min(shared[p]), sum(shared[p])), default=pair)
    winner = f"{' and '.join(sorted(best))}, least tau-c {min(shared[best]):.2f}" if best in shared else nothing
    listed = ", ".join(f"{m.task} {t:.2f}" for m, t in zip(found, taus, strict=False)) or nothing
    high = sum(t >= HIGH for t in taus)
    known = bool(taus) and several
    return [
        Claim(
            "The most consistently agreeing pair is EEL and AWRF with an equal target", "section 3.3", "this pair",
            winner if several else f"{winner}, of one experiment", best == pair if known else None,
        ),
        Claim(
            "EEL and AWRF with an equal target agree in all experiments", "section 3.3", "tau-c > 0", listed,
            min(taus) > 0 if known else None,
        ),
        Claim(
            "Their agreement is comparatively high in three of the four", "section 3.3", "3 of 4",
            f"{high} of {len(taus)} at {HIGH} or more", high >= 3 if len(taus) == 4 else None, counts=f"tau-c {HIGH} or more",
        ),
    ]  # fmt: skip


def _prefix_breaks(found: Sequence[Measured]) -> Claim:
    said = ", ".join(f"{m.task} {m.lost['pref']:.0%}" for m in found)
    return Claim(
        f"Prefix metrics ({pref_nd.card.symbol}) break down on missing data and short lists", "sections 2.6 and 3.2",
        "excluded", f"lists without a value: {said}", max(m.lost["pref"] for m in found) > 0.1, counts="more than 10% in some task",
    )  # fmt: skip


def _ratios_break(found: Sequence[Measured]) -> Claim:
    own = [m for m in found if "log_rur" in m.lost]
    if not own:
        return Claim("RUR is even more brittle than EUR", "section 2.6", "more", "needs one group per item", None)
    eur, rur = own[0].lost["log_eur"], own[0].lost["log_rur"]
    said = f"requests without a finite value: logEUR {eur:.0%}, logRUR {rur:.0%} ({own[0].task})"
    return Claim("RUR is even more brittle than EUR", "section 2.6", "more", said, rur > eur)


def _pairs_need_scores(found: Sequence[Measured]) -> Claim:
    own = next((m for m in found if m.cut is not None), None)
    says = "Pairwise accuracy is not a function of the top list"
    if own is None or own.cut is None:
        return Claim(says, "section 3.2", "scores needed", "no scores to look at", None)
    whole, cut = own.cut
    listed = "undefined" if math.isnan(cut) else f"{cut:.2f}"
    differs = math.isnan(cut) or abs(whole - cut) > 0.05
    return Claim(
        says, "section 3.2", "scores needed", f"InterAcc {whole:.2f} from all scores, {listed} from the lists", differs,
        counts="they differ by more than 0.05",
    )  # fmt: skip
