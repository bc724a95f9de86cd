# ruff: noqa: B023 (a verdict is reached before the loop that asks for it goes on)
"""The recommender measures on a generated catalogue: what each says of four recommenders, and what it misses.

The source is a page of definitions, so there is no table of numbers to rerun. What it states about each measure (which
value is desired, and what a value shows) is put to the test on recommenders whose bias is known.
"""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import evenhand as eh
from evenhand.report.words.intervals import interval_text
from evenhand.studies.study import (
    Claim,
    Figure,
    Replicates,
    Row,
    Study,
    Table,
    every,
    opposite,
    result_from_rows,
    select,
)
from evenhand.synthetic.catalogue import RECOMMENDERS

BATCHES = 8  # of users, left out one at a time
BETWEEN = ("mad", "exposure_tv", "precision_ratio", "recall_ratio", "f1_ratio")
ITEMS, TOP = 400, 10  # of the catalogue, and in the list of each user
TITLE = "What recommender measures say, and what they miss"
SHOWN = ("mad", "exposure_tv", "exposure_kl(smoothing=1)", "precision_ratio", "recall_ratio", "f1_ratio", "aggregate_diversity",
         "item_gini", "exposure_entropy", "recommendation_popularity")  # fmt: skip
CAVEAT = (
    "The catalogue is made up: a no shows that a statement cannot hold in general, a yes only that these mechanics do not "
    "contradict it."
)
log = logging.getLogger("evenhand")
MISSES = {
    "mad": "Compares scores, not lists: a list that is the same for all has no difference, whoever it suits.",
    "exposure_tv": "0 is reached by showing everybody the same. Tastes that differ raise it, and so does chance.",
    "exposure_kl(smoothing=1)": "As exposure_tv; without smoothing it is infinite for most pairs of groups.",
    "precision_ratio": "A ratio forgets the level: a recommender that serves both groups badly is even-handed.",
    "recall_ratio": "As precision_ratio; the group with fewer relevant items looks better served.",
    "f1_ratio": "As precision_ratio.",
    "aggregate_diversity": "One view is enough to count. Chance alone reaches 1, and more users raise it.",
    "item_gini": "Blind to what is relevant: the best value is that of random picks, not of good ones.",
    "exposure_entropy": "As item_gini, on a scale that depends on the size of the catalogue.",
    "recommendation_popularity": "As item_gini; grows with the number of users, so it cannot be compared between audits.",
}


@dataclass(frozen=True)
class Measured:
    """What was measured on every recommender.

    Attributes
    ----------
    rows : the row of each metric, by recommender and metric.
    precision : mean precision of each group of users, by recommender and group: what the ratios leave out.
    """

    rows: Mapping[str, Mapping[str, Row]]
    precision: Mapping[str, Mapping[str, float]]

    def value(self, metric: str, name: str) -> float:
        return float(self.rows[name][metric]["estimate"])

    def listed(self, metric: str, *names: str) -> str:
        return ", ".join(f"{name} {short(self.value(metric, name))}" for name in names or RECOMMENDERS)

    def order(self, metric: str) -> list[str]:
        """The recommenders, the one with the lowest value first."""
        return sorted(self.rows, key=lambda name: self.value(metric, name))

    def closest(self, metric: str, ideal: float) -> str:
        return min(self.rows, key=lambda name: abs(self.value(metric, name) - ideal))

    def preferred(self, metric: str) -> str:
        """The recommender that a measure calls best."""
        card = self.rows["random"][metric]
        if card["better"] == "ideal":
            return self.closest(metric, float(card["ideal"]))
        return self.order(metric)[0 if card["better"] == "lower" else -1]

    def precisions(self, name: str) -> str:
        level = self.precision[name]
        return f"{level['majority']:.3f} for the majority and {level['minority']:.3f} for the minority"

    def worst(self, name: str) -> float:
        """The precision for the group that a recommender serves worse."""
        return min(self.precision[name].values())

    @property
    def most_useful(self) -> str:
        """The recommender with the highest precision for the group that it serves worse."""
        return max(self.precision, key=lambda name: min(self.precision[name].values()))


def study(*, size: int | None = None, seed: int = 1) -> Study:
    """Measure four recommenders on a catalogue for `size` users."""
    users = 1_000 if size is None else size
    generated = eh.synthetic.catalogue(users, ITEMS, rng=seed)
    results = {name: _audit(generated, name, seed) for name in RECOMMENDERS}
    everybody = np.arange(users)
    log.info("the same without a batch of users, for its errors")
    without = [_measured(generated, everybody % BATCHES != k) for k in range(BATCHES)]
    runs = Replicates(_measured(generated, everybody >= 0, results), without)
    return Study(
        name="recommender",
        title=TITLE,
        setting=f"A generated catalogue of {ITEMS} items and {users:,} users, 30% of them a minority with tastes of its own "
        f"(seed {seed}); {TOP} items for each user.",
        claims=(*_claims_on_groups(runs), _mad_sign(generated), _alike(users, seed), *_claims_on_items(runs, results)),
        tables=_tables(runs.whole),
        figures=_figures(results, seed),
        sentences=_sentences(runs.whole),
        caveats=(CAVEAT,),
    )


def _audit(drawn: eh.synthetic.Catalogue, name: str, seed: int, metrics: Sequence[str] = SHOWN) -> eh.Result:
    log.info("the %s recommender", name)
    return eh.recommender(
        drawn.scores[name], user_groups=drawn.groups, versus="majority", protected="minority", relevant=drawn.relevant, top=TOP,
        metrics=metrics, interval="bootstrap(199)", rng=seed,
    )  # fmt: skip


def _measured(drawn: eh.synthetic.Catalogue, users: Any, results: Mapping[str, eh.Result] | None = None) -> Measured:
    """The measures on some of the users, from results where there are any."""
    groups = np.array(drawn.groups)[users]
    rows, precision = {}, {}
    for name in RECOMMENDERS:
        scores, relevant = drawn.scores[name][users], drawn.relevant[users]
        result = results[name] if results is not None else eh.recommender(
            scores, user_groups=groups.tolist(), versus="majority", protected="minority", relevant=relevant, top=TOP, metrics=SHOWN,
            interval=None, chance=None,
        )  # fmt: skip
        rows[name] = {r["metric"]: r for r in select(result)}
        best = np.argsort(-scores, axis=1, kind="stable")[:, :TOP]
        hits = np.take_along_axis(relevant, best, axis=1).mean(1)
        precision[name] = {label: float(hits[groups == label].mean()) for label in ("majority", "minority")}
    return Measured(rows, precision)


def _claims_on_groups(runs: Replicates[Measured]) -> list[Claim]:
    """Claims about MAD, exposure and ratios, which compare groups of users."""
    m = runs.whole
    mad = m.value("mad", "popularity")
    is_worse = runs.above(lambda r: r.precision["popularity"]["majority"] - r.precision["popularity"]["minority"])
    even = m.closest("precision_ratio", 1.0)
    others = [name for name in RECOMMENDERS if name != even]
    useful = [runs.above(lambda r: r.worst(even) - r.worst(name), of=len(others)) for name in others]
    tv, as_printed = m.value("exposure_tv", "random"), m.value("exposure_tv", "personal") * ITEMS
    return [
        Claim(
            "A large MAD shows differential treatment", "MAD", "differential treatment goes with a MAD away from 0",
            f"popularity: MAD {short(mad)}, while precision is {m.precisions('popularity')}", (abs(mad) > 1e-9) if is_worse else None,
            counts="the minority is served significantly worse, and MAD is not 0",
        ),
        _zero_is_desired(runs, "A total variation of 0 is desired", "ETV", "exposure_tv"),
        _zero_is_desired(runs, "A KL divergence of 0 is desired", "EKL", "exposure_kl(smoothing=1)"),
        Claim(
            "Equal distributions give a total variation of 0", "ETV", "two equal groups give 0",
            f"random recommender: {tv:.3g}, by chance alone {m.rows['random']['exposure_tv']['chance']:.3g}",
            opposite(runs.above(lambda r: r.value("exposure_tv", "random"), 0.01)), counts="significantly below 0.01",
        ),
        Claim(
            "The maximum of the total variation is 1", "ETV", "at most 1; the formula multiplies by n",
            f"as printed, personal would score {as_printed:.3g}", as_printed <= 1,
        ),
        *(
            Claim(
                f"A lower {words} ratio shows bias against group b", where, "below 1: against the minority",
                f"{m.listed(metric)}; popularity gives {m.precisions('popularity')}",
                every((runs.above(lambda r: 1 - r.value(metric, "popularity")), is_worse)),
                counts="both significant for the popularity list",
            )
            for words, where, metric in (
                ("precision", "APR", "precision_ratio"), ("recall", "ARR", "recall_ratio"), ("F1", "AF1", "f1_ratio"),
            )
        ),
        Claim(
            "A precision ratio of 1 is desired", "APR", "1 = both served alike",
            f"closest to 1: {even}, whose precision is {m.precisions(even)}", every(useful),
            counts="that one serves its worse-served group significantly best",
        ),
    ]  # fmt: skip


def _zero_is_desired(runs: Replicates[Measured], statement: str, where: str, metric: str) -> Claim:
    """Whether the list that is the same for all, which scores 0, is not the one with the worst ratio."""
    m, others = runs.whole, [name for name in RECOMMENDERS if name != "popularity"]
    lower = [
        runs.above(lambda r: r.value("precision_ratio", n) - r.value("precision_ratio", "popularity"), of=len(others))
        for n in others
    ]
    return Claim(
        statement, where, "0 = equal treatment",
        f"{m.listed(metric)}; precision ratios {m.listed('precision_ratio')}",
        True if False in lower else opposite(every(lower)),
        counts="no if the popularity list, which scores lowest, has the significantly lowest precision ratio",
    )  # fmt: skip


def _mad_sign(drawn: eh.synthetic.Catalogue) -> Claim:
    """Whether higher scores for the majority, group a, make MAD larger."""
    majority = (np.array(drawn.groups) == "majority")[:, None]
    mads = [
        float(
            eh.recommender(
                scores,
                user_groups=drawn.groups,
                versus="majority",
                protected="minority",
                top=TOP,
                metrics="mad",
                interval=None,
            ).frame["estimate"][0]
        )
        for scores in (drawn.scores["personal"], drawn.scores["personal"] + majority)
    ]
    return Claim(
        "A positive MAD means that group a is scored higher", "MAD", "positive: a higher (the formula prints b - a)",
        f"with 1 added to all scores of the majority, MAD goes from {mads[0]:.3g} to {mads[1]:.3g}", mads[1] > mads[0],
    )  # fmt: skip


def _alike(users: int, seed: int, **catalogue: Any) -> Claim:
    """Whether the measures between groups claim anything where both groups have the same tastes and data."""
    drawn = eh.synthetic.catalogue(users, ITEMS, rng=seed, **{"apart": 0.0, "noise": 0.0, **catalogue})
    results = {name: _audit(drawn, name, seed, BETWEEN) for name in RECOMMENDERS}
    claimed = [f"{c.metric} of {name}" for name, result in results.items() for c in result.claims if c.made]
    return Claim(
        "Where the groups are alike, no measure between them claims a difference", "all", "(implied)",
        f"claimed: {', '.join(claimed)}" if claimed else f"nothing claimed of {len(RECOMMENDERS)} recommenders", not claimed, is_ours=True,
        counts="none of the results makes a claim; each does by chance in 5% of catalogues",
    )  # fmt: skip


def _claims_on_items(runs: Replicates[Measured], results: Mapping[str, Any]) -> list[Claim]:
    """Claims about diversity, Gini index, entropy and popularity, which describe the items shown."""
    m, shown, gini = runs.whole, "recommendation_popularity", partial(runs.whole.value, "item_gini")
    printed = {name: float(np.asarray(result.shown).sum()) / ITEMS for name, result in results.items()}
    pair, by_gini = ("personal", "debiased"), m.order("item_gini")

    def ahead(metric: str, name: str) -> bool | None:
        """Whether a recommender has a significantly higher value than each of the others."""
        rest = [other for other in RECOMMENDERS if other != name]
        return every(
            runs.above(lambda r: r.value(metric, name) - r.value(metric, other), of=len(rest)) for other in rest
        )

    def less(metric: str, low: str, high: str, of: int) -> bool | None:
        return runs.above(lambda r: r.value(metric, high) - r.value(metric, low), of=of)

    low_entropy = [less("exposure_entropy", "popularity", name, of=3) for name in RECOMMENDERS if name != "popularity"]
    return [
        Claim(
            "An aggregate diversity of 1 is desired", "AD", "high: no rich-get-richer effect", m.listed("aggregate_diversity"),
            opposite(ahead("aggregate_diversity", "random")), counts="no if random picks have significantly the highest",
        ),
        Claim(
            "Extreme inequality has a Gini index of 1", "Gini", "1 for extreme inequality",
            f"everybody is shown the same {TOP} of {ITEMS}: {gini('popularity'):.4f} = 1 - {TOP}/{ITEMS}",
            math.isclose(gini("popularity"), 1.0, abs_tol=1e-3), counts="above 0.999",
        ),
        Claim(
            "The same number of views for every item gives a Gini index of 0", "Gini", "0 for a uniform distribution",
            f"random picks: {gini('random'):.3g}; chance alone gives {m.rows['random']['item_gini']['chance']:.3g}",
            opposite(runs.above(lambda r: r.value("item_gini", "random"), 0.01)), counts="significantly below 0.01",
        ),
        Claim(
            "Low entropy means certainty about what is shown", "EDE", "close to 0 = certainty",
            f"{m.listed('exposure_entropy')}; the list that never changes has ln {TOP} = {math.log(TOP):.3g}",
            every(low_entropy), counts="the list that never changes has significantly the lowest",
        ),
        Claim(
            "A low recommendation popularity shows equal recommendation", "ARP", "low: items are shown equally",
            m.listed(shown), every(less(shown, a, b, of=3) for a, b in itertools.pairwise(by_gini)),
            counts="in the order of the Gini index, significantly",
        ),
        Claim(
            "The printed formula of ARP measures it", "ARP", "(1/n) sum of times shown over items",
            f"slots over items: {', '.join(f'{name} {short(x)}' for name, x in printed.items())}", len(set(printed.values())) > 1,
            counts="it differs between the recommenders",
        ),
        Claim(
            "The debiased recommender shows items more evenly than the personal one", "Gini, ARP, EDE", "(by construction)",
            f"Gini {m.listed('item_gini', *pair)}; ARP {m.listed(shown, *pair)}",
            every(less(metric, "debiased", "personal", of=2) for metric in ("item_gini", shown)), is_ours=True,
        ),
    ]  # fmt: skip


def short(value: float) -> str:
    """Three digits; what is left of equal sums is nothing."""
    return "0" if abs(value) < 1e-9 else f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def _tables(m: Measured) -> tuple[Table, Table]:
    """What each measure says of each recommender; and what it prefers, with what it misses."""
    values = []
    for metric in SHOWN:
        texts = {
            name: interval_text(m.rows[name][metric]["low"], m.rows[name][metric]["high"], short)
            for name in RECOMMENDERS
        }
        cells = (
            f"{short(m.value(metric, n))} ({text})" if text else short(m.value(metric, n)) for n, text in texts.items()
        )
        values.append((metric, *cells))
    values += [
        (f"precision, {label}", *(f"{m.precision[name][label]:.3f}" for name in RECOMMENDERS))
        for label in ("majority", "minority")
    ]
    prefers = tuple((metric, m.preferred(metric), MISSES[metric]) for metric in SHOWN)
    return (
        Table("What each measure says (95% intervals over users)", ("measure", *RECOMMENDERS), tuple(values)),
        Table("What each measure prefers, and what it misses", ("measure", "prefers", "misses"), prefers),
    )


def _sentences(m: Measured) -> tuple[str, ...]:
    random = [metric for metric in SHOWN if m.preferred(metric) == "random"]
    return (
        f"Precision is highest for the worse-served group under the {m.most_useful} recommender ({m.precisions(m.most_useful)}).",
        f"{len(random)} of {len(SHOWN)} measures prefer the random recommender: {', '.join(random)}. "
        "Read measures of spread beside a measure of use, never alone.",
        "Measures between groups of users say nothing about items, and the other way round: popularity has no difference of "
        "exposure between the groups and the largest Gini index.",
    )


def _figures(results: Mapping[str, eh.Result], seed: int) -> tuple[Figure, ...]:
    rows = [{**r, "recommender": name, "group": None} for name, result in results.items() for r in select(result)]
    merged = result_from_rows(
        "recommender", TITLE, ("recommender",), rows, words={"unit": "user", "amount": "slots"},
        provenance={"seed": seed, "level": 0.95},
    )  # fmt: skip
    measures = "Every measure under every recommender, with 95% intervals over users."
    differ = "Items that the two groups are shown differently by the personal recommender."
    spread = "How the {} recommender spreads slots over the catalogue."
    return (
        Figure("measures", measures, partial(merged.plot, "intervals")),
        *(
            Figure(f"catalogue-{name}", spread.format(name), partial(r.plot, "catalogue"))
            for name, r in results.items()
        ),
        Figure("differences-personal", differ, partial(results["personal"].plot, "differences")),
    )
