"""How ranking metrics respond to a known bias, to sparse labels and judgments, to short lists and small groups.

Raj et al. (2022, section 4) leave open "how metric values change in response to particular aspects of the data set or system
rankings". Here two systems rank the same requests, one of them with a handicap of the protected group; a metric responds
where it calls that one less fair. One thing is changed at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import evenhand as eh
from evenhand.studies.study import Claim, Evidence, Figure, Study, Table, decide, draw_rates, every, rate_above

if TYPE_CHECKING:
    import polars as pl

TITLE = "How fair ranking metrics respond to bias, sparsity, list length and group share"
METRICS = (
    "awrf", "fair", "pref_kl", "ndd", "ndkl", "ndr", "ndjs", "log_dp", "eed", "eel", "eer", "log_eur", "log_rur", "iaa"
)  # fmt: skip
WITHIN = ("ndd", "ndkl", "ndr", "ndjs")
"""Metrics that compare the top of a list with the same list."""
WORLDS = 12
"""Default size: 12 of 12 have an exact 95% interval above one half, and three seeds take less than a minute."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One kind of world: handicap, share of items with a label, of relevant items judged, length of lists, protected share."""

    bias: float = 0.25
    labelled: float = 1.0
    judged: float = 1.0
    depth: int = 20
    share: float = 0.3

    def world(self, seed: Sequence[int]) -> eh.synthetic.Corpus:
        """40 requests over 200 items, answered by a fair and a biased system of equal skill."""
        import numpy as np

        makers = {"fair": eh.synthetic.Maker(), "biased": eh.synthetic.Maker(bias=self.bias)}
        return eh.synthetic.corpus(
            200, 40, systems=makers, protected=self.share, unknown=1 - self.labelled, judged=self.judged, depth=self.depth,
            rng=np.random.default_rng([*seed]),
        )  # fmt: skip


FACTORS: Mapping[str, tuple[float, ...]] = {
    "bias": (0.0, 0.25, 0.5, 1.0), "labelled": (1.0, 0.5, 0.1), "judged": (1.0, 0.3, 0.1), "depth": (5, 20, 50),
    "share": (0.1, 0.3, 0.5),
}  # fmt: skip
"""What is changed, one at a time, the rest as in `Setting`."""
WORDS = {
    "bias": "handicap of the protected, in standard deviations of relevance", "labelled": "share of items with a label",
    "judged": "share of relevant items that are judged", "depth": "length of the lists", "share": "share of protected items",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Response:
    """One metric in the worlds of one setting, and in how many of them it calls the biased system less fair."""

    hits: int
    worlds: int

    @property
    def responds(self) -> Evidence:
        """Whether the biased system is called less fair in more than half of the worlds."""
        return rate_above(self.hits, self.worlds, 0.5)


Responses = Mapping[tuple[Setting, str], Response]


def study(*, size: int | None = None, seed: int = 1) -> Study:
    """Rank the same requests with and without a bias, in `size` worlds for each of 12 settings (default: 12)."""
    worlds = WORLDS if size is None else size
    by_setting = responses(worlds, seed)
    return Study(
        name="response", title=TITLE, claims=claims(by_setting), tables=tuple(_tables(by_setting)),
        figures=_figures(by_setting),
        setting=f"{worlds:,} worlds for each of {len(settings())} settings, 40 requests over 200 items, two systems (seed {seed}).",
        caveats=("The two systems differ in bias only. Real ones differ in more, and a metric may respond to that as well.",),
    )  # fmt: skip


def changed_by(factor: str, level: float) -> Setting:
    changes: dict[str, Any] = {factor: level}
    return replace(Setting(), **changes)


def settings() -> list[Setting]:
    changed = (changed_by(name, level) for name, levels in FACTORS.items() for level in levels)
    return list(dict.fromkeys([Setting(), *changed]))


def responses(worlds: int, seed: int) -> dict[tuple[Setting, str], Response]:
    by_setting: dict[tuple[Setting, str], Response] = {}
    for n, setting in enumerate(settings()):
        by_setting |= {(setting, metric): r for metric, r in measured(setting, worlds, (seed, n)).items()}
    return by_setting


def measured(setting: Setting, worlds: int, seed: tuple[int, ...]) -> dict[str, Response]:
    import polars as pl

    corpora = [setting.world((*seed, i)) for i in range(worlds)]
    rankings, groups, judgments = (
        pl.concat([_renamed(table, i) for i, table in enumerate(tables)])
        for tables in zip(*((c.rankings, c.groups, c.relevance) for c in corpora), strict=True)
    )
    named = {m: f"fair(p={setting.share})" if m == "fair" else m for m in METRICS}
    frame = eh.exposure(
        rankings, groups=groups.drop("world"), relevance=judgments.drop("world"), protected="P", system="system", by="world",
        score="score", metrics=list(named.values()), interval=None, chance=False, rng=seed[0],
    ).frame  # fmt: skip
    by_metric = {}
    for metric, text in named.items():
        both = frame.filter(metric=text).pivot("system", index="world", values=["estimate", "ideal", "better"])
        by_metric[metric] = _response(both)
    return by_metric


def _renamed(table: pl.DataFrame, world: int) -> pl.DataFrame:
    import polars as pl

    ids = [pl.format(f"{world}-{{}}", name).alias(name) for name in ("request", "item") if name in table.columns]
    return table.with_columns(*ids, world=pl.lit(world))


def _response(both: pl.DataFrame) -> Response:
    """Hits among the worlds in which both systems have a value."""
    shown = both.drop_nans(["estimate_fair", "estimate_biased"]).drop_nulls(["estimate_fair", "estimate_biased"])
    fairness = [_fairness(shown, system) for system in ("fair", "biased")]
    return Response(int((fairness[1] < fairness[0]).sum()) if len(shown) else 0, len(shown))


def _fairness(both: pl.DataFrame, system: str) -> pl.Series:
    """Values turned so that larger is fairer; logs of ratios by distance from parity."""
    better, value = both[f"better_{system}"], both[f"estimate_{system}"]
    way = better[0] if len(better) else ""
    return -(value - both[f"ideal_{system}"]).abs() if way == "ideal" else value if way == "higher" else -value


def claims(by_setting: Responses) -> tuple[Claim, ...]:
    """What the paper recommends, held against how its metrics respond; and two checks of our own."""
    usual, biased = Setting(), [s for s in settings() if s.bias > 0]

    def responding(statement: str, metrics: Sequence[str], among: Sequence[Setting], *, is_ours: bool = False) -> Claim:
        parts = [by_setting[s, m].responds for m in metrics for s in among]
        many = sum(part.verdict() is True for part in parts)
        text = "; ".join(f"{m} {_share(by_setting[s, m])}" for m in metrics for s in among[:1])
        return Claim(
            statement, "section 4" if not is_ours else "", "recommended" if not is_ours else "responds",
            f"{many} of {len(parts)} settings; {'usual setting' if usual in among[:1] else 'first'}: {text}",
            every(parts), "in more than half of the worlds of every setting", is_ours,
            sample=f"{by_setting[usual, 'awrf'].worlds} worlds",
        )  # fmt: skip

    sparse = replace(usual, judged=0.1)
    return decide((
        responding("Single rankings: AWRF responds to bias in every setting", ("awrf",), biased),
        responding("Demographic parity: EED responds to bias in every setting", ("eed",), biased),
        responding("Equal opportunity: EEL responds to bias in every setting", ("eel",), biased),
        responding("Equal opportunity: EER responds to bias in every setting", ("eer",), biased),
        responding("Sparse judgments: IAA still responds with 10% judged", ("iaa",), [sparse]),
        responding("Metrics within a list (nDD, nDKL, nDR, nDJS) respond to who is left out of it", WITHIN, [usual], is_ours=True),
    ))  # fmt: skip


def _share(r: Response) -> str:
    return f"{100 * r.hits / r.worlds:.0f}%" if r.worlds else "undefined"


def _tables(by_setting: Responses) -> list[Table]:
    tables = []
    for factor, levels in FACTORS.items():
        rows = [(m, *(_share(by_setting[changed_by(factor, x), m]) for x in levels)) for m in METRICS]
        title = f"Worlds in which the biased system is called less fair, by {WORDS[factor]}"
        tables.append(Table(title, ("metric", *(f"{x:g}" for x in levels)), tuple(rows)))
    return tables


def _figures(by_setting: Responses) -> tuple[Figure, ...]:
    caption = "Share of worlds in which the biased system is called less fair"
    return tuple(
        Figure(f"response-{factor}-{x:g}", f"{caption}; {WORDS[factor]}: {x:g}.", partial(_draw, by_setting, changed_by(factor, x)))
        for factor, levels in FACTORS.items()
        for x in levels
    )  # fmt: skip


def _draw(by_setting: Responses, setting: Setting) -> Any:
    by_metric = {metric: by_setting[setting, metric] for metric in METRICS}
    rows = [
        {"measure": name, "metric": "worlds with a response", "hits": r.hits, "trials": r.worlds}
        for name, r in by_metric.items()
        if r.worlds
    ]
    return draw_rates("response", TITLE, rows)
