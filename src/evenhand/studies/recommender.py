"""The recommender measures on a generated catalogue: what each says of four recommenders, and what it misses.

The source is a page of definitions, so there is no table of numbers to rerun. What it states about each measure (which
value is desired, and what a value shows) is put to the test on recommenders whose bias is known.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from evenhand.audits.recommender import recommender
from evenhand.findings import COLUMNS, Findings
from evenhand.results import Result
from evenhand.studies.study import Claim, Figure, Study, Table
from evenhand.synthetic.catalogue import RECOMMENDERS, Catalogue, catalogue

SIZE = 1_000
ITEMS = 400
TOP = 10
DRAWS = "bootstrap(199)"
TITLE = "What recommender measures say, and what they miss"
SHOWN = ("mad", "exposure_tv", "exposure_kl(smoothing=1)", "precision_ratio", "recall_ratio", "f1_ratio", "aggregate_diversity",
         "item_gini", "exposure_entropy", "recommendation_popularity")  # fmt: skip
CAVEAT = (
    "The catalogue is made up: a no shows that a statement cannot hold in general, a yes only that these mechanics do not "
    "contradict it."
)
log = logging.getLogger("evenhand")

Rows = Mapping[str, Mapping[str, Any]]
"""The rows of one recommender, by metric."""

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


def study(*, size: int | None = None, seed: int = 1) -> Study:
    """Measure four recommenders on a catalogue for `size` users."""
    users = SIZE if size is None else size
    generated = catalogue(users, ITEMS, rng=seed)
    results = {}
    for name in RECOMMENDERS:
        log.info("the %s recommender", name)
        results[name] = recommender(
            generated.scores[name], user_groups=generated.groups, versus="majority", protected="minority", relevant=generated.relevant,
            top=TOP, metrics=SHOWN, interval=DRAWS, rng=seed,
        )  # fmt: skip
    rows = {name: {r["metric"]: r for r in result.findings.rows()} for name, result in results.items()}
    level = {name: _precision(generated, name) for name in RECOMMENDERS}
    return Study(
        name="recommender",
        title=TITLE,
        setting=f"A generated catalogue of {ITEMS} items and {users:,} users, 30% of them a minority with tastes of its own "
        f"(seed {seed}); {TOP} items for each user.",
        claims=tuple(claims(rows, level, results)),
        tables=(_measures(rows, level), _missed(rows)),
        figures=_figures(results, seed),
        sentences=_sentences(rows, level),
        caveats=(CAVEAT,),
    )


def _precision(generated: Catalogue, name: str) -> dict[str, float]:
    """Mean precision of each group: what the ratios leave out."""
    best = np.argsort(-generated.scores[name], axis=1, kind="stable")[:, :TOP]
    hits = np.take_along_axis(generated.relevant, best, axis=1).mean(1)
    group = np.array(generated.groups)
    return {label: float(hits[group == label].mean()) for label in ("majority", "minority")}


def claims(
    rows: Mapping[str, Rows], level: Mapping[str, Mapping[str, float]], results: Mapping[str, Result]
) -> list[Claim]:
    """Every statement about a measure, and what it shows on recommenders of known bias."""
    return [*_claims_on_groups(rows, level, results), *_claims_on_items(rows)]


def _value(rows: Mapping[str, Rows], metric: str, name: str) -> float:
    return float(rows[name][metric]["estimate"])


def _each(rows: Mapping[str, Rows], metric: str, names: tuple[str, ...] = RECOMMENDERS) -> str:
    return ", ".join(f"{name} {_short(_value(rows, metric, name))}" for name in names)


def _claims_on_groups(
    rows: Mapping[str, Rows], level: Mapping[str, Mapping[str, float]], results: Mapping[str, Result]
) -> list[Claim]:
    """Claims about MAD, total variation and precision ratio, which compare groups of users."""
    value, each = partial(_value, rows), partial(_each, rows)
    even = _closest(rows, "precision_ratio", 1.0)
    return [
        Claim(
            "A large MAD shows differential treatment", "MAD", "differential treatment goes with a MAD away from 0",
            f"popularity: MAD {_short(value('mad', 'popularity'))}, while precision is {_levels(level['popularity'])}",
            abs(value("mad", "popularity")) > 1e-9,
        ),
        Claim(
            "A positive MAD means that group a is scored higher", "MAD", "positive: a higher (the formula prints b - a)",
            f"a - b on the personal recommender: {value('mad', 'personal'):.3g}", _sign(results["personal"], value("mad", "personal")),
        ),
        Claim(
            "A total variation of 0 is desired", "ETV", "0 = equal treatment",
            f"{each('exposure_tv')}; precision ratios {each('precision_ratio')}: the 0 goes with the {_rank(rows, 'popularity')} ratio",
            _worst(rows, "precision_ratio") != "popularity",
        ),
        Claim(
            "Equal distributions give a total variation of 0", "ETV", "two equal groups give 0",
            f"random recommender: {value('exposure_tv', 'random'):.3g}, by chance alone {rows['random']['exposure_tv']['chance']:.3g}",
            value("exposure_tv", "random") < 0.01, counts="below 0.01",
        ),
        Claim(
            "The maximum of the total variation is 1", "ETV", "at most 1; the formula multiplies by n",
            f"as printed, personal would score {value('exposure_tv', 'personal') * ITEMS:.3g}",
            value("exposure_tv", "personal") * ITEMS <= 1,
        ),
        Claim(
            "A lower precision ratio shows bias against group b", "APR", "below 1: against the minority",
            f"{each('precision_ratio')}; popularity gives {_levels(level['popularity'])}",
            value("precision_ratio", "popularity") < 1 and level["popularity"]["minority"] < level["popularity"]["majority"],
        ),
        Claim(
            "A precision ratio of 1 is desired", "APR", "1 = both served alike",
            f"closest to 1: {even}, whose precision is {_levels(level[even])}",
            even == max(level, key=lambda n: min(level[n].values())),
        ),
    ]  # fmt: skip


def _claims_on_items(rows: Mapping[str, Rows]) -> list[Claim]:
    """Claims about diversity, Gini index, entropy and popularity, which describe the items shown."""
    value, each = partial(_value, rows), partial(_each, rows)
    return [
        Claim(
            "An aggregate diversity of 1 is desired", "AD", "high: no rich-get-richer effect",
            f"{each('aggregate_diversity')}; random comes first and is the least useful",
            _most(rows, "aggregate_diversity") != "random",
        ),
        Claim(
            "Extreme inequality has a Gini index of 1", "Gini", "1 for extreme inequality",
            f"everybody is shown the same {TOP} of {ITEMS}: {value('item_gini', 'popularity'):.4f} = 1 - {TOP}/{ITEMS}",
            math.isclose(value("item_gini", "popularity"), 1.0, abs_tol=1e-3), counts="above 0.999",
        ),
        Claim(
            "The same number of views for every item gives a Gini index of 0", "Gini", "0 for a uniform distribution",
            f"random picks: {value('item_gini', 'random'):.3g}; chance alone gives {rows['random']['item_gini']['chance']:.3g}",
            value("item_gini", "random") < 0.01, counts="below 0.01",
        ),
        Claim(
            "Low entropy means certainty about what is shown", "EDE", "close to 0 = certainty",
            f"{each('exposure_entropy')}; the list that never changes has ln {TOP} = {math.log(TOP):.3g}",
            _most(rows, "exposure_entropy", lowest=True) == "popularity",
        ),
        Claim(
            "A low recommendation popularity shows equal recommendation", "ARP", "low: items are shown equally",
            each("recommendation_popularity"), _order(rows, "recommendation_popularity") == _order(rows, "item_gini"),
        ),
        Claim(
            "The printed formula of ARP measures it", "ARP", "(1/n) sum of times shown over items",
            f"slots over items is the same whatever is shown; the four recommenders differ by a factor of "
            f"{value('recommendation_popularity', 'popularity') / value('recommendation_popularity', 'random'):.3g}",
            False,
        ),
        Claim(
            "The debiased recommender shows items more evenly than the personal one", "Gini, ARP, EDE", "(by construction)",
            f"Gini {each('item_gini', ('personal', 'debiased'))}; ARP {each('recommendation_popularity', ('personal', 'debiased'))}",
            value("item_gini", "debiased") < value("item_gini", "personal")
            and value("recommendation_popularity", "debiased") < value("recommendation_popularity", "personal"),
            is_ours=True,
        ),
    ]  # fmt: skip


def _sign(result: Result, mad: float) -> bool:
    """Whether the sentence of the result names the group with the higher mean."""
    return math.isfinite(mad) and "majority minus minority" in result.only("mad").sentences()[0]


def _levels(level: Mapping[str, float]) -> str:
    return f"{level['majority']:.3f} for the majority and {level['minority']:.3f} for the minority"


def _most(rows: Mapping[str, Rows], metric: str, *, lowest: bool = False) -> str:
    return sorted(rows, key=lambda name: float(rows[name][metric]["estimate"]))[0 if lowest else -1]


def _rank(rows: Mapping[str, Rows], name: str) -> str:
    return ("lowest", "second lowest", "third lowest", "highest")[_order(rows, "precision_ratio").index(name)]


def _worst(rows: Mapping[str, Rows], metric: str) -> str:
    return _most(rows, metric, lowest=True)


def _order(rows: Mapping[str, Rows], metric: str) -> list[str]:
    return sorted(rows, key=lambda name: float(rows[name][metric]["estimate"]))


def _closest(rows: Mapping[str, Rows], metric: str, ideal: float) -> str:
    return min(rows, key=lambda name: abs(float(rows[name][metric]["estimate"]) - ideal))


def _measures(rows: Mapping[str, Rows], level: Mapping[str, Mapping[str, float]]) -> Table:
    body = [(metric, *(_with_interval(rows[name][metric]) for name in RECOMMENDERS)) for metric in SHOWN]
    body += [
        (f"precision, {label}", *(f"{level[name][label]:.3f}" for name in RECOMMENDERS))
        for label in ("majority", "minority")
    ]
    return Table("What each measure says (95% intervals over users)", ("measure", *RECOMMENDERS), tuple(body))


def _with_interval(row: Mapping[str, Any]) -> str:
    if math.isnan(row["low"]):
        return _short(row["estimate"])
    return f"{_short(row['estimate'])} ({_short(row['low'])} to {_short(row['high'])})"


def _short(value: float) -> str:
    """Three digits; what is left of equal sums is nothing."""
    return "0" if abs(value) < 1e-9 else f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def _missed(rows: Mapping[str, Rows]) -> Table:
    """Which recommender each measure prefers, and what it cannot see."""
    body = []
    for metric in SHOWN:
        better, ideal = rows["random"][metric]["better"], float(rows["random"][metric]["ideal"])
        if better == "ideal":
            best = _closest(rows, metric, ideal)
        else:
            best = _most(rows, metric, lowest=better == "lower")
        body.append((metric, best, MISSES[metric]))
    return Table("What each measure prefers, and what it misses", ("measure", "prefers", "misses"), tuple(body))


def _sentences(rows: Mapping[str, Rows], level: Mapping[str, Mapping[str, float]]) -> tuple[str, ...]:
    useful = max(level, key=lambda name: min(level[name].values()))
    random = [m for m in SHOWN if _missed(rows).rows[SHOWN.index(m)][1] == "random"]
    return (
        f"Precision is highest for the worse-served group under the {useful} recommender ({_levels(level[useful])}).",
        f"{len(random)} of {len(SHOWN)} measures prefer the random recommender: {', '.join(random)}. "
        "Read measures of spread beside a measure of use, never alone.",
        "Measures between groups of users say nothing about items, and the other way round: popularity has no difference of "
        "exposure between the groups and the largest Gini index.",
    )


def _figures(results: Mapping[str, Result], seed: int) -> tuple[Figure, ...]:
    measures = "Every measure under every recommender, with 95% intervals over users."
    differ = "Items that the two groups are shown differently by the personal recommender."
    spread = "How the {} recommender spreads slots over the catalogue."
    return (
        Figure("measures", measures, partial(_together(results, seed).plot, "intervals")),
        *(
            Figure(f"catalogue-{name}", spread.format(name), partial(r.plot, "catalogue"))
            for name, r in results.items()
        ),
        Figure("differences-personal", differ, partial(results["personal"].plot, "differences")),
    )


def _together(results: Mapping[str, Result], seed: int) -> Result:
    """The rows of all recommenders as slices of one result."""
    columns: dict[str, list[Any]] = {name: [] for name in ("recommender", *COLUMNS)}
    for name, result in results.items():
        for row in result.findings.rows():
            columns["recommender"].append(name)
            for column in COLUMNS:
                columns[column].append(row[column])
    columns["group"] = [None] * len(columns["group"])
    findings = Findings(
        "recommender",
        TITLE,
        ("recommender",),
        columns,
        {},
        {"unit": "user", "amount": "slots"},
        {"seed": seed, "level": 0.95},
    )
    return Result(findings)
