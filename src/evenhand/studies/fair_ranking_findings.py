"""The findings of the comparison of fair ranking metrics, checked against measurements."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import evenhand as eh
from evenhand.studies.study import Claim

AWRF, AWRF_EQUAL = "awrf(distance='nd')", "awrf(distance='nd', target='equal')"
HIGH = 0.5  # a tau-c that counts as comparatively high

Pair = frozenset[str]


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


def claims(tasks: Sequence[Measured]) -> tuple[Claim, ...]:
    """Every finding of the comparison, also those that do not come out."""
    pairs = [p for p in tasks[0].taus if all(p in m.taus and not math.isnan(m.taus[p]) for m in tasks)]
    shared = {p: [m.taus[p] for m in tasks] for p in pairs}
    return (
        *_consensus(tasks, shared),
        *_closest(tasks, shared),
        _prefix_breaks(tasks),
        _ratios_break(tasks),
        _pairs_need_scores(tasks),
    )


def _consensus(tasks: Sequence[Measured], shared: Mapping[Pair, Sequence[float]]) -> list[Claim]:
    """Whether metrics agree on the order of systems, and whether those that agree once agree again."""
    several = len(tasks) > 1
    high = sum(min(taus) >= HIGH for taus in shared.values())
    where = "in every task" if several else "in the one experiment there is"
    once = [taus for taus in shared.values() if max(taus) >= HIGH]
    broken = sum(min(taus) < HIGH for taus in once)
    text = f"{broken} of {len(once)} pairs that agree in one task do not in another"
    return [
        Claim(
            "The metrics do not show clear consensus across data sets", "section 3.3", "no consensus",
            f"{high} of {len(shared)} pairs of metrics have a tau-c of {HIGH} or more {where}",
            high < len(shared) / 2 if shared and several else None, counts=f"fewer than half of the pairs reach {HIGH} in every task",
        ),
        Claim(
            "Metrics that agree in one experiment often do not agree on others", "section 3.3", "often",
            text if several else f"{len(once)} of {len(shared)} pairs agree in the one experiment there is",
            broken > len(once) / 2 if once and several else None, counts="more than half of them",
        ),
    ]  # fmt: skip


def _closest(tasks: Sequence[Measured], shared: Mapping[Pair, Sequence[float]]) -> list[Claim]:
    """Whether EEL and AWRF with an equal target agree most consistently over experiments."""
    pair = frozenset(("eel", AWRF_EQUAL))
    taus, several = shared.get(pair, []), len(tasks) > 1
    nothing = "the pair is undefined in some task"
    best = max(shared, key=lambda p: (min(shared[p]), sum(shared[p])), default=pair)
    winner = f"{' and '.join(sorted(best))}, least tau-c {min(shared[best]):.2f}" if best in shared else nothing
    listed = ", ".join(f"{m.task} {t:.2f}" for m, t in zip(tasks, taus, strict=False)) or nothing
    high = sum(t >= HIGH for t in taus)
    is_defined = bool(taus) and several
    return [
        Claim(
            "The most consistently agreeing pair is EEL and AWRF with an equal target", "section 3.3", "this pair",
            winner if several else f"{winner}, of one experiment", best == pair if is_defined else None,
        ),
        Claim(
            "EEL and AWRF with an equal target agree in all experiments", "section 3.3", "tau-c > 0", listed,
            min(taus) > 0 if is_defined else None,
        ),
        Claim(
            "Their agreement is comparatively high in three of the four", "section 3.3", "3 of 4",
            f"{high} of {len(taus)} at {HIGH} or more", high >= 3 if len(taus) == 4 else None, counts=f"tau-c {HIGH} or more",
        ),
    ]  # fmt: skip


def _prefix_breaks(tasks: Sequence[Measured]) -> Claim:
    text = ", ".join(f"{m.task} {m.lost['pref']:.0%}" for m in tasks)
    return Claim(
        f"Prefix metrics ({eh.metrics.pref_nd.card.symbol}) break down on missing data and short lists", "sections 2.6 and 3.2",
        "excluded", f"lists without a value: {text}", max(m.lost["pref"] for m in tasks) > 0.1, counts="more than 10% in some task",
    )  # fmt: skip


def _ratios_break(tasks: Sequence[Measured]) -> Claim:
    with_ratios = [m for m in tasks if "log_rur" in m.lost]
    if not with_ratios:
        return Claim("RUR is even more brittle than EUR", "section 2.6", "more", "needs one group per item", None)
    eur, rur = with_ratios[0].lost["log_eur"], with_ratios[0].lost["log_rur"]
    text = f"requests without a finite value: logEUR {eur:.0%}, logRUR {rur:.0%} ({with_ratios[0].task})"
    return Claim("RUR is even more brittle than EUR", "section 2.6", "more", text, rur > eur)


def _pairs_need_scores(tasks: Sequence[Measured]) -> Claim:
    scored = next((m for m in tasks if m.cut is not None), None)
    statement = "Pairwise accuracy is not a function of the top list"
    if scored is None or scored.cut is None:
        return Claim(statement, "section 3.2", "scores needed", "no scores to look at", None)
    whole, cut = scored.cut
    listed = "undefined" if math.isnan(cut) else f"{cut:.2f}"
    differs = math.isnan(cut) or abs(whole - cut) > 0.05
    return Claim(
        statement, "section 3.2", "scores needed", f"InterAcc {whole:.2f} from all scores, {listed} from the lists", differs,
        counts="they differ by more than 0.05",
    )  # fmt: skip
