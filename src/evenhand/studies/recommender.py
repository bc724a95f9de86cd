"""The recommender measures on a generated catalogue: what each says of four recommenders, and what it misses.

The source is a page of definitions, so there is no table of numbers to rerun. What it states about each measure (which
value is desired, and what a value shows) is put to the test on recommenders whose bias is known, or on scores of one's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl

import evenhand as eh
from evenhand.audits.declare import Label
from evenhand.audits.declare import Table as Data
from evenhand.errors import EvenhandError
from evenhand.report.words.text import interval_text
from evenhand.studies.study import (
    ALPHA,
    Claim,
    Evidence,
    Figure,
    Replicates,
    Row,
    Study,
    Table,
    certain,
    decide,
    on_own_data,
    read_table,
    result_from_rows,
    select,
    two_sides,
)
from evenhand.synthetic.corpus import RECOMMENDERS
from evenhand.tallies.crosstab import Crosstab

BATCHES = 16  # of users, left out one at a time
BETWEEN = ("mad", "exposure_tv", "precision_ratio", "recall_ratio", "f1_ratio")
ITEMS = 400  # of the generated catalogue
TOP = 10  # items in the list of each user
MOST_CELLS = 20_000_000  # users times items of a table: each recommender is a full matrix, 160 MB at this size
TITLE = "What recommender measures say, and what they miss"
SHOWN = ("mad", "exposure_tv", "exposure_kl(smoothing=1)", "precision_ratio", "recall_ratio", "f1_ratio", "aggregate_diversity",
         "item_gini", "exposure_entropy", "recommendation_popularity")  # fmt: skip
CAVEAT = (
    "The catalogue is made up: a no shows that a statement cannot hold in general, a yes only that these mechanics do not "
    "contradict it."
)
OWN = (
    "A yes or a no says whether a statement holds for these scores by the rule beside it; the recommenders beside personal are made "
    "from them."
)
MISSES = {
    "mad": "Compares scores, not lists: a list that is the same for all has no difference, whoever it suits.",
    "exposure_tv": "0 is reached by showing everybody the same, whoever it suits.",
    "exposure_kl(smoothing=1)": "As exposure_tv; without smoothing it is infinite where one group sees an item that the other never does.",
    "precision_ratio": "A ratio forgets the level: 1 is also reached by serving both groups badly.",
    "recall_ratio": "As precision_ratio; with as many hits, the group with fewer relevant items looks better served.",
    "f1_ratio": "As precision_ratio.",
    "aggregate_diversity": "One view is enough to count, and more users raise it.",
    "item_gini": "Blind to what is relevant.",
    "exposure_entropy": "As item_gini, on a scale that depends on the size of the catalogue.",
    "recommendation_popularity": "As item_gini; grows with the number of users, so it cannot be compared between audits.",
}
"""What follows from the definition of each measure, whatever the data."""


@dataclass(frozen=True)
class Case:
    """Scores of four recommenders, with relevance and groups of users; `versus` and `protected` are the source's groups a and b."""

    catalogue: eh.synthetic.Catalogue
    versus: str = "majority"
    protected: str = "minority"
    top: int = TOP

    @property
    def items(self) -> int:
        return int(self.catalogue.relevant.shape[1])

    @property
    def users(self) -> int:
        return len(self.catalogue.groups)

    def roles(self, name: str, mask: Any = slice(None)) -> dict[str, Any]:
        """The arguments of `eh.recommender`, and of its metrics, for one recommender and the users in a mask."""
        catalogue = self.catalogue
        return {
            "scores": catalogue.scores[name][mask], "user_groups": np.array(catalogue.groups)[mask].tolist(), "versus": self.versus,
            "protected": self.protected, "relevant": catalogue.relevant[mask], "top": self.top,
        }  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """Each metric by recommender; and the mean precision of each group of users, group a first: what the ratios leave out."""

    values: Mapping[str, Mapping[str, float]]
    precision: Mapping[str, Mapping[str, float]]

    def lead(self, name: str) -> float:
        a, b = self.precision[name].values()
        return a - b

    def value(self, metric: str, name: str) -> float:
        return self.values[name][metric]

    def listed(self, metric: str, *names: str) -> str:
        return ", ".join(f"{name} {short(self.value(metric, name))}" for name in names or RECOMMENDERS)

    def precisions(self, name: str) -> str:
        return " and ".join(f"{level:.3f} for {label}" for label, level in self.precision[name].items())

    def worst(self, name: str) -> float:
        return min(self.precision[name].values())


def _metric(text: str) -> Any:
    return getattr(eh.metrics, text.partition("(")[0])


def study(
    *, size: int | None = None, seed: int = 1, data: Data = None, user: str | None = None, item: str | None = None,
    score: str | None = None, group: str | None = None, relevance: str | None = None, protected: Label = None, versus: Label = None,
    top: int | None = None,
) -> Study:  # fmt: skip
    """Measure four recommenders on a catalogue for `size` users, or on a table of scores.

    Parameters
    ----------
    data : table with one row per user and item that was scored.
    user : column with the user id.
    item : column with the item id.
    score : column with the score.
    group : column with the group of the user.
    relevance : column with the relevance of the item to the user; above 0 is relevant.
    protected : the protected group of users, group b of the source (default: the smallest).
    versus : the group that it is compared with, group a (default: the largest).
    top : items in the list of each user (default: 10).
    """
    columns = {"user": user, "item": item, "score": score, "group": group, "relevance": relevance}
    if on_own_data(data, columns, {"protected": protected, "versus": versus, "top": top}, size):
        named = {role: str(name) for role, name in columns.items()}
        sides = {"protected": protected, "versus": versus}
        case, where = case_of_data(data, named, sides, TOP if top is None else top, seed)
        return _on_case(case, seed, where, (OWN,))
    users = 1_000 if size is None else size
    where = f"A generated catalogue of {ITEMS} items and {users:,} users, 30% of them a minority with tastes of its own"
    return _on_case(Case(eh.synthetic.catalogue(users, ITEMS, rng=seed)), seed, where, (CAVEAT,), is_generated=True)


def _on_case(case: Case, seed: int, where: str, caveats: tuple[str, ...], *, is_generated: bool = False) -> Study:
    results = {}
    for name in RECOMMENDERS:
        results[name] = eh.recommender(**case.roles(name), metrics=SHOWN, interval="bootstrap(199)", rng=seed)
    batch = np.random.default_rng([seed, 2]).permutation(case.users) % BATCHES
    runs = Replicates(_measured(case), [_measured(case, batch != k) for k in range(BATCHES)])
    return Study(
        name="recommender",
        title=TITLE,
        setting=f"{where} (seed {seed}); {case.top} items for each user.",
        claims=decide((
            *_claims_on_groups(runs, results, case.items), _mad_sign(case),
            _alike(_alike_catalogue(case, seed) if is_generated else _permuted(case, seed), seed),
            *_claims_on_items(runs, results, case.top),
        )),
        tables=_tables(runs.whole, results),
        figures=(_figure(results, seed),),
        caveats=caveats,
    )  # fmt: skip


def _measured(case: Case, mask: Any = slice(None)) -> Measured:
    values, precision = {}, {}
    for name in RECOMMENDERS:
        tally = Crosstab.from_arrays(**case.roles(name, mask))
        values[name] = {m: float(_metric(m).on(tally, **({"smoothing": 1} if "(" in m else {}))) for m in SHOWN}
        means = (
            float(hits / users) for hits, users in zip(tally.sides("precision"), tally.sides("users"), strict=True)
        )
        precision[name] = dict(zip((case.versus, case.protected), means, strict=True))
    return Measured(values, precision)


def _claims_on_groups(runs: Replicates[Measured], results: Mapping[str, eh.Result], items: int = ITEMS) -> list[Claim]:
    m = runs.whole
    mad = m.value("mad", "popularity")
    is_worse = runs.above(lambda r: r.lead("popularity"))
    even = min(RECOMMENDERS, key=lambda name: abs(m.value("precision_ratio", name) - 1))
    useful = runs.largest(lambda r: {name: r.worst(name) for name in RECOMMENDERS}, even)
    tv, as_printed = m.value("exposure_tv", "random"), m.value("exposure_tv", "personal") * items
    return [
        Claim(
            "A large MAD shows differential treatment", "MAD", "differential treatment goes with a MAD away from 0",
            f"popularity: MAD {short(mad)}, while precision is {m.precisions('popularity')}",
            Evidence(yes=is_worse.yes) if abs(mad) > 1e-9 else Evidence(no=is_worse.yes),
            counts="group b is served significantly worse, and MAD is not 0",
        ),
        _zero_is_desired(runs, "A total variation of 0 is desired", "ETV", "exposure_tv"),
        _zero_is_desired(runs, "A KL divergence of 0 is desired", "EKL", "exposure_kl(smoothing=1)"),
        Claim(
            "Equal distributions give a total variation of 0", "ETV", "two equal groups give 0",
            f"random recommender: {tv:.3g}, by chance alone {_row(results, 'exposure_tv', 'random')['chance']:.3g}",
            ~runs.above(lambda r: r.value("exposure_tv", "random"), 0.01), counts="significantly below 0.01",
        ),
        Claim(
            "The maximum of the total variation is 1", "ETV", "at most 1; the formula multiplies by n",
            f"as printed, personal would score {as_printed:.3g}", certain(as_printed <= 1),
        ),
        _low_is_biased(runs, "precision", "APR", "precision_ratio"),
        _low_is_biased(runs, "recall", "ARR", "recall_ratio"),
        _low_is_biased(runs, "F1", "AF1", "f1_ratio"),
        Claim(
            "A precision ratio of 1 is desired", "APR", "1 = both served alike",
            f"closest to 1: {even}, whose precision is {m.precisions(even)}", useful,
            counts="that one serves its worse-served group significantly best",
        ),
    ]  # fmt: skip


def _low_is_biased(runs: Replicates[Measured], words: str, where: str, metric: str) -> Claim:
    m = runs.whole
    return Claim(
        f"A lower {words} ratio shows bias against group b", where, "below 1: against group b",
        f"{m.listed(metric)}; popularity gives {m.precisions('popularity')}",
        runs.all_above(lambda r: [1 - r.value(metric, "popularity"), r.lead("popularity")]),
        counts="both significant for the popularity list",
    )  # fmt: skip


def _zero_is_desired(runs: Replicates[Measured], statement: str, where: str, metric: str) -> Claim:
    """Whether the list that is the same for all, which scores 0, is not the one with the worst ratio."""
    m = runs.whole
    is_lowest = runs.largest(lambda r: {n: -r.value("precision_ratio", n) for n in RECOMMENDERS}, "popularity")
    return Claim(
        statement, where, "0 = equal treatment",
        f"{m.listed(metric)}; precision ratios {m.listed('precision_ratio')}",
        ~is_lowest,
        counts="no if the popularity list, which scores lowest, has the significantly lowest precision ratio",
    )  # fmt: skip


def _mad_sign(case: Case) -> Claim:
    roles = case.roles("personal")
    raised = roles["scores"] + (np.array(case.catalogue.groups) == case.versus)[:, None]
    mads = [eh.metrics.mad(**{**roles, "scores": scores}) for scores in (roles["scores"], raised)]
    return Claim(
        "A positive MAD means that group a is scored higher", "MAD", "positive: a higher (the formula prints b - a)",
        f"with 1 added to all scores of {case.versus}, MAD goes from {mads[0]:.3g} to {mads[1]:.3g}", certain(mads[1] > mads[0]),
    )  # fmt: skip


def _alike_catalogue(case: Case, seed: int, **catalogue: Any) -> Case:
    """A catalogue in which both groups have the same tastes and data."""
    shape: dict[str, Any] = {"apart": 0.0, "noise": 0.0, **catalogue}
    return replace(case, catalogue=eh.synthetic.catalogue(case.users, case.items, rng=seed, **shape))


def _permuted(case: Case, seed: int) -> Case:
    groups = np.random.default_rng([seed, 3]).permutation(case.catalogue.groups).tolist()
    return replace(case, catalogue=replace(case.catalogue, groups=groups))


def _alike(case: Case, seed: int) -> Claim:
    claims = [
        (name, claim)
        for name in RECOMMENDERS
        for claim in eh.recommender(
            **case.roles(name), metrics=BETWEEN, interval=None, chance="permutation(1999)", rng=seed
        ).claims
    ]
    claimed = [f"{claim.metric} of {name}" for name, claim in claims if claim.p_adjusted * len(RECOMMENDERS) <= ALPHA]
    p = len(RECOMMENDERS) * min(claim.p_adjusted for _, claim in claims)
    return Claim(
        "Where the groups are alike, no measure between them claims a difference", "all", "(implied)",
        f"claimed: {', '.join(claimed)}" if claimed else f"nothing claimed of {len(RECOMMENDERS)} recommenders",
        Evidence(no=p) if claimed else certain(True), is_ours=True, counts="no recommender's result makes a claim, tested together",
    )  # fmt: skip


def _claims_on_items(runs: Replicates[Measured], results: Mapping[str, Any], top: int = TOP) -> list[Claim]:
    m, shown, gini = runs.whole, "recommendation_popularity", partial(runs.whole.value, "item_gini")
    items = np.asarray(results["random"].shown).shape[-1]
    printed = {name: float(np.asarray(result.shown).sum()) / items for name, result in results.items()}
    pair, by_gini = ("personal", "debiased"), sorted(RECOMMENDERS, key=gini)

    def by_name(metric: str, sign: int = 1) -> Callable[[Measured], dict[str, float]]:
        return lambda r: {name: sign * r.value(metric, name) for name in RECOMMENDERS}

    return [
        Claim(
            "An aggregate diversity of 1 is desired", "AD", "high: no rich-get-richer effect", m.listed("aggregate_diversity"),
            ~runs.largest(by_name("aggregate_diversity"), "random"), counts="no if random picks have significantly the highest",
        ),
        Claim(
            "Extreme inequality has a Gini index of 1", "Gini", "1 for extreme inequality",
            f"popularity: {gini('popularity'):.4f}; the same {top} of {items} for everybody give {1 - top / items:.4f}",
            certain(math.isclose(gini("popularity"), 1.0, abs_tol=1e-3)), counts="above 0.999",
        ),
        Claim(
            "The same number of views for every item gives a Gini index of 0", "Gini", "0 for a uniform distribution",
            f"random picks: {gini('random'):.3g}; chance alone gives {_row(results, 'item_gini', 'random')['chance']:.3g}",
            ~runs.above(lambda r: r.value("item_gini", "random"), 0.01), counts="significantly below 0.01",
        ),
        Claim(
            "Low entropy means certainty about what is shown", "EDE", "close to 0 = certainty",
            f"{m.listed('exposure_entropy')}; a list that never changes has ln {top} = {math.log(top):.3g}",
            runs.largest(by_name("exposure_entropy", -1), "popularity"), counts="popularity has significantly the lowest",
        ),
        Claim(
            "A low recommendation popularity shows equal recommendation", "ARP", "low: items are shown equally",
            m.listed(shown), runs.all_above(lambda r: np.diff([r.value(shown, name) for name in by_gini]).tolist()),
            counts="in the order of the Gini index, significantly",
        ),
        Claim(
            "The printed formula of ARP measures it", "ARP", "(1/n) sum of times shown over items",
            f"slots over items: {', '.join(f'{name} {short(x)}' for name, x in printed.items())}", certain(len(set(printed.values())) > 1),
            counts="it differs between the recommenders",
        ),
        Claim(
            "The debiased recommender shows items more evenly than the personal one", "Gini, ARP, EDE", "(by construction)",
            f"Gini {m.listed('item_gini', *pair)}; ARP {m.listed(shown, *pair)}",
            runs.all_above(lambda r: [r.value(k, "personal") - r.value(k, "debiased") for k in ("item_gini", shown)]), is_ours=True,
        ),
    ]  # fmt: skip


def short(value: float) -> str:
    """Three digits; what is left of equal sums is nothing."""
    return "0" if abs(value) < 1e-9 else f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def _row(results: Mapping[str, eh.Result], metric: str, name: str) -> Row:
    return select(results[name], metric)[0]


def _with(estimate: str, interval: str) -> str:
    return f"{estimate} ({interval})" if interval else estimate


def _tables(m: Measured, results: Mapping[str, eh.Result]) -> tuple[Table, Table]:
    values = []
    for metric in SHOWN:
        rows = [_row(results, metric, name) for name in RECOMMENDERS]
        texts = [interval_text(r["low"], r["high"], short) for r in rows]
        values.append((metric, *(_with(short(r["estimate"]), text) for r, text in zip(rows, texts, strict=True))))
    values += [
        (f"precision, {label}", *(f"{m.precision[name][label]:.3f}" for name in RECOMMENDERS))
        for label in m.precision["random"]
    ]
    return (
        Table("What each measure says (95% intervals over users)", ("measure", *RECOMMENDERS), tuple(values)),
        Table("What each measure misses", ("measure", "misses"), tuple(MISSES.items())),
    )


def _figure(results: Mapping[str, eh.Result], seed: int) -> Figure:
    rows = [{**r, "recommender": name, "group": None} for name, result in results.items() for r in select(result)]
    merged = result_from_rows(
        "recommender", TITLE, ("recommender",), rows, words={"unit": "user", "amount": "slots"},
        provenance={"seed": seed, "level": 0.95},
    )  # fmt: skip
    caption = "Every measure under every recommender, with 95% intervals over users."
    return Figure("measures", caption, partial(merged.plot, "intervals"))


def case_of_data(
    data: Any, columns: Mapping[str, str], sides: Mapping[str, Any], top: int, seed: int
) -> tuple[Case, str]:
    """The scores of a table as `personal`, with three recommenders made from them; and what they are, in words."""
    numbers = [columns["score"], columns["relevance"]]
    table, origin = read_table(data, list(columns.items()), numbers=numbers)
    table = table.select(**{role: pl.col(name) for role, name in columns.items()}).drop_nulls(["user", "item", "group"])
    users = table.group_by("group").agg(pl.col("user").n_unique())
    b, a = two_sides(dict(users.iter_rows()), **sides)
    table = table.filter(pl.col("group").is_in([a, b]))
    users = table.group_by("user", maintain_order=True).agg(pl.col("group").unique())
    items = table["item"].unique(maintain_order=True)
    if table.select("user", "item").is_duplicated().any():
        raise EvenhandError("The table scores an item twice for a user. Give each user and item one row.")
    if (users["group"].list.len() > 1).any():
        raise EvenhandError("The table gives a user two groups. Give each user one.")
    if (cells := users.height * len(items)) > MOST_CELLS:
        raise EvenhandError(
            f"{users.height:,} users times {len(items):,} items are {cells:,} scores, and the study holds {MOST_CELLS:,} at most. "
            "Pass a sample of the users."
        )
    if not 0 < top < len(items):
        raise EvenhandError(f"top={top} does not fit {len(items):,} items. Pass 1 to {len(items) - 1:,}.")
    groups = users["group"].list.first().cast(pl.String).to_list()
    words = (
        f"{origin}: {users.height:,} users and {len(items):,} items. Group a is {a}, group b is {b}. The recommender personal has the "
        "table's scores, popularity their mean by item (the same for all), debiased the scores less that mean, random draws"
    )
    return Case(_catalogue_of(table, users["user"], items, groups, seed), str(a), str(b), top), words


def _catalogue_of(
    table: pl.DataFrame, users: pl.Series, items: pl.Series, groups: list[str], seed: int
) -> eh.synthetic.Catalogue:
    """Full matrices of a table; what was not scored stays missing in all of them."""
    row = table["user"].replace_strict(users, np.arange(len(users))).to_numpy()
    column = table["item"].replace_strict(items, np.arange(len(items))).to_numpy()
    predicted, relevant = np.full((len(users), len(items)), np.nan), np.zeros((len(users), len(items)))
    predicted[row, column] = table["score"].cast(pl.Float64).to_numpy()
    relevant[row, column] = table["relevance"].cast(pl.Float64).fill_null(0.0).to_numpy() > 0
    is_scored = ~np.isnan(predicted)
    means = np.nansum(predicted, axis=0) / np.maximum(is_scored.sum(0), 1)
    scores = {
        "popularity": np.broadcast_to(means, predicted.shape),
        "random": np.random.default_rng([seed, 1]).random(predicted.shape),
        "personal": predicted,
        "debiased": predicted - means,
    }
    scores = {name: np.where(is_scored, scores[name], np.nan) for name in RECOMMENDERS}
    return eh.synthetic.Catalogue(groups, relevant, means, scores)
