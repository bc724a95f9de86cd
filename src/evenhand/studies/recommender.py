"""The recommender measures on a generated catalogue: what each says of four recommenders, and what it misses.

The source is a page of definitions, so there is no table of numbers to rerun. What it states about each measure (which
value is desired, and what a value shows) is put to the test on recommenders whose bias is known.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

import evenhand as eh
from evenhand.report.words.intervals import interval_text
from evenhand.studies.study import Claim, Figure, Row, Study, Table, result_from_rows, select
from evenhand.synthetic.catalogue import RECOMMENDERS

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

    @property
    def most_useful(self) -> str:
        """The recommender with the highest precision for the group that it serves worse."""
        return max(self.precision, key=lambda name: min(self.precision[name].values()))


def study(*, size: int | None = None, seed: int = 1) -> Study:
    """Measure four recommenders on a catalogue for `size` users."""
    users = 1_000 if size is None else size
    generated = eh.synthetic.catalogue(users, ITEMS, rng=seed)
    group = np.array(generated.groups)
    results, precision = {}, {}
    for name in RECOMMENDERS:
        log.info("the %s recommender", name)
        results[name] = eh.recommender(
            generated.scores[name], user_groups=generated.groups, versus="majority", protected="minority", relevant=generated.relevant,
            top=TOP, metrics=SHOWN, interval="bootstrap(199)", rng=seed,
        )  # fmt: skip
        best = np.argsort(-generated.scores[name], axis=1, kind="stable")[:, :TOP]
        hits = np.take_along_axis(generated.relevant, best, axis=1).mean(1)
        precision[name] = {label: float(hits[group == label].mean()) for label in ("majority", "minority")}
    m = Measured({name: {r["metric"]: r for r in select(result)} for name, result in results.items()}, precision)
    mad_sentence = results["personal"].only("mad").sentences()[0]
    return Study(
        name="recommender",
        title=TITLE,
        setting=f"A generated catalogue of {ITEMS} items and {users:,} users, 30% of them a minority with tastes of its own "
        f"(seed {seed}); {TOP} items for each user.",
        claims=(*_claims_on_groups(m, mad_sentence), *_claims_on_items(m)),
        tables=_tables(m),
        figures=_figures(results, seed),
        sentences=_sentences(m),
        caveats=(CAVEAT,),
    )


def _claims_on_groups(m: Measured, mad_sentence: str) -> list[Claim]:
    """Claims about MAD, total variation and precision ratio, which compare groups of users."""
    popular, personal = partial(m.value, name="popularity"), partial(m.value, name="personal")
    ratio, even = m.order("precision_ratio"), m.closest("precision_ratio", 1.0)
    place = ("lowest", "second lowest", "third lowest", "highest")[ratio.index("popularity")]
    served = m.precision["popularity"]
    return [
        Claim(
            "A large MAD shows differential treatment", "MAD", "differential treatment goes with a MAD away from 0",
            f"popularity: MAD {short(popular('mad'))}, while precision is {m.precisions('popularity')}", abs(popular("mad")) > 1e-9,
        ),
        Claim(
            "A positive MAD means that group a is scored higher", "MAD", "positive: a higher (the formula prints b - a)",
            f"a - b on the personal recommender: {personal('mad'):.3g}",
            math.isfinite(personal("mad")) and "majority minus minority" in mad_sentence,
        ),
        Claim(
            "A total variation of 0 is desired", "ETV", "0 = equal treatment",
            f"{m.listed('exposure_tv')}; precision ratios {m.listed('precision_ratio')}: the 0 goes with the {place} ratio",
            ratio[0] != "popularity",
        ),
        Claim(
            "Equal distributions give a total variation of 0", "ETV", "two equal groups give 0",
            f"random recommender: {m.value('exposure_tv', 'random'):.3g}, by chance alone {m.rows['random']['exposure_tv']['chance']:.3g}",
            m.value("exposure_tv", "random") < 0.01, counts="below 0.01",
        ),
        Claim(
            "The maximum of the total variation is 1", "ETV", "at most 1; the formula multiplies by n",
            f"as printed, personal would score {personal('exposure_tv') * ITEMS:.3g}", personal("exposure_tv") * ITEMS <= 1,
        ),
        Claim(
            "A lower precision ratio shows bias against group b", "APR", "below 1: against the minority",
            f"{m.listed('precision_ratio')}; popularity gives {m.precisions('popularity')}",
            popular("precision_ratio") < 1 and served["minority"] < served["majority"],
        ),
        Claim(
            "A precision ratio of 1 is desired", "APR", "1 = both served alike",
            f"closest to 1: {even}, whose precision is {m.precisions(even)}", even == m.most_useful,
        ),
    ]  # fmt: skip


def _claims_on_items(m: Measured) -> list[Claim]:
    """Claims about diversity, Gini index, entropy and popularity, which describe the items shown."""
    shown, gini = "recommendation_popularity", partial(m.value, "item_gini")
    factor = m.value(shown, "popularity") / m.value(shown, "random")
    pair = ("personal", "debiased")
    return [
        Claim(
            "An aggregate diversity of 1 is desired", "AD", "high: no rich-get-richer effect",
            f"{m.listed('aggregate_diversity')}; random comes first and is the least useful",
            m.order("aggregate_diversity")[-1] != "random",
        ),
        Claim(
            "Extreme inequality has a Gini index of 1", "Gini", "1 for extreme inequality",
            f"everybody is shown the same {TOP} of {ITEMS}: {gini('popularity'):.4f} = 1 - {TOP}/{ITEMS}",
            math.isclose(gini("popularity"), 1.0, abs_tol=1e-3), counts="above 0.999",
        ),
        Claim(
            "The same number of views for every item gives a Gini index of 0", "Gini", "0 for a uniform distribution",
            f"random picks: {gini('random'):.3g}; chance alone gives {m.rows['random']['item_gini']['chance']:.3g}",
            gini("random") < 0.01, counts="below 0.01",
        ),
        Claim(
            "Low entropy means certainty about what is shown", "EDE", "close to 0 = certainty",
            f"{m.listed('exposure_entropy')}; the list that never changes has ln {TOP} = {math.log(TOP):.3g}",
            m.order("exposure_entropy")[0] == "popularity",
        ),
        Claim(
            "A low recommendation popularity shows equal recommendation", "ARP", "low: items are shown equally",
            m.listed(shown), m.order(shown) == m.order("item_gini"),
        ),
        Claim(
            "The printed formula of ARP measures it", "ARP", "(1/n) sum of times shown over items",
            f"slots over items is the same whatever is shown; the four recommenders differ by a factor of {factor:.3g}", False,
        ),
        Claim(
            "The debiased recommender shows items more evenly than the personal one", "Gini, ARP, EDE", "(by construction)",
            f"Gini {m.listed('item_gini', *pair)}; ARP {m.listed(shown, *pair)}",
            gini("debiased") < gini("personal") and m.value(shown, "debiased") < m.value(shown, "personal"), is_ours=True,
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
