"""`make claims`: in how many worlds where nothing is there does a result claim something all the same?

Every audit is asked of worlds in which its null holds by construction: sources, slices, groups, arms and systems are drawn alike.
A world counts as false where any claim of its result is made, or where its headline has a direction that no claim bears out.
The law of claims allows 5%. Sizes go from 30 to 2,000, tails from light to heavy, slices and groups from 2 to 20.
Exit 1 where an audit is above 5% by more than two Monte Carlo errors.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

import evenhand as eh
from evenhand.studies import experiment as experiment_study
from evenhand.studies import inequality as inequality_study
from evenhand.studies import outcome as outcome_study
from evenhand.studies import recommender as recommender_study
from evenhand.studies import response as response_study
from evenhand.studies.fair_ranking import AWRF, AWRF_EQUAL, Measured, Tasks
from evenhand.studies.fair_ranking import claims as fair_ranking_claims
from evenhand.studies.study import Claim as Finding
from evenhand.studies.study import Replicates, decide
from evenhand.studies.viewpoints import ALPHAS, METRICS, Point
from evenhand.studies.viewpoints import claims as viewpoints_claims
from evenhand.synthetic.viewpoints import SETS

ALLOWED = 0.05


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Findings of a study that have no answer in a null world: a yes or a no is a false claim."""

    claims: Sequence[eh.Claim]
    headline: str = ""

    @classmethod
    def from_findings(cls, findings: Iterable[Finding], *statements: str) -> Verdicts:
        """The findings whose statements begin so (default: all)."""
        listed = [f for f in findings if not statements or f.statement.startswith(statements)]
        return cls([eh.Claim(f"{f.statement}: {f.verdict}", "", made=f.holds is not None) for f in listed])


World = Callable[[np.random.Generator], "eh.Result | Verdicts"]

DIRECTED = re.compile(
    r"\b(more|less|fewer|higher|lower|most|least|above|below|better|worse|under-rates|over-rates|rose|fell|gains?|loses?|"
    r"favou?rs?|stands out)\b",
    re.IGNORECASE,
)
UNDECIDED = re.compile(
    r"\b(no|not|none|neither|nothing|cannot|as random order|about its target|power|or more|at least|more relevant)\b",
    re.IGNORECASE,
)
"""Words of a headline that says that nothing can be told, or that only names a quantity."""


def sizes(rng: np.random.Generator) -> int:
    """A number of units between 30 and 2,000, as often small as large."""
    return int(np.exp(rng.uniform(math.log(30), math.log(2000))))


def amounts(rng: np.random.Generator, n: int) -> np.ndarray:
    """Amounts from a light or a heavy law, whole or not, some of them zero."""
    laws = (
        lambda: rng.gamma(2.0, 1.0, n),
        lambda: rng.lognormal(0.0, 1.0, n),
        lambda: rng.lognormal(0.0, 1.8, n),
        lambda: rng.poisson(3.0, n).astype(float),
        lambda: rng.poisson(rng.lognormal(1.0, 1.0, n)).astype(float),
    )
    return laws[rng.integers(len(laws))]() + 0.0


def inequality(rng: np.random.Generator) -> eh.Result:
    """Slices of units that are drawn alike."""
    n, k = sizes(rng), int(rng.integers(2, 12))
    table = pl.DataFrame(
        {
            "unit": np.arange(n * k),
            "slice": np.repeat(np.arange(k), n).astype(str),
            "amount": np.concatenate(_alike(rng, n, k)),
        }
    )
    return eh.inequality(table, unit="unit", amount="amount", population=None, by="slice", rng=int(rng.integers(1e9)))


def criteria(rng: np.random.Generator) -> eh.Result:
    """Slices of units that are drawn alike, held against the paper's criteria."""
    n, k = sizes(rng), int(rng.integers(2, 21))
    table = pl.DataFrame(
        {
            "unit": np.arange(n * k),
            "slice": np.repeat(np.arange(k), n).astype(str),
            "amount": np.concatenate(_alike(rng, n, k)),
        }
    )
    return eh.criteria(table, unit="unit", amount="amount", population=None, by="slice", rng=int(rng.integers(1e9)))


def _alike(rng: np.random.Generator, n: int, k: int) -> list[np.ndarray]:
    """`k` samples of one law."""
    whole = amounts(rng, n * k)
    return list(whole.reshape(k, n))


def sources(rng: np.random.Generator) -> eh.Result:
    """Sources that are exchangeable: the columns of each unit are drawn alike."""
    n, k = sizes(rng), int(rng.integers(2, 6))
    level = rng.lognormal(0, 0.5, n) if rng.random() < 0.5 else np.ones(n)
    table = pl.concat(
        pl.DataFrame({"unit": np.arange(n), "source": f"s{i}", "amount": level * amount})
        for i, amount in enumerate(_alike(rng, n, k))
    )
    return eh.sources(table, unit="unit", amount="amount", source="source", population=None, rng=int(rng.integers(1e9)))


def decompose(rng: np.random.Generator) -> eh.Result:
    """Groups whose members are drawn alike."""
    n, k = sizes(rng), int(rng.integers(2, 8))
    table = pl.DataFrame(
        {"unit": np.arange(n), "group": rng.integers(k, size=n).astype(str), "amount": amounts(rng, n)}
    )
    return eh.decompose(table, unit="unit", amount="amount", group="group", population=None, rng=int(rng.integers(1e9)))


def experiment_units(rng: np.random.Generator) -> eh.Result:
    """Units in two or three arms that are treated alike."""
    n = sizes(rng)
    arms = np.array(["control", "new", "other"])[rng.integers(2 + (rng.random() < 0.5), size=n)]
    table = pl.DataFrame({"unit": np.arange(n), "arm": arms, "amount": amounts(rng, n)})
    return eh.experiment(
        table,
        unit="unit",
        amount="amount",
        arm="arm",
        randomized="unit",
        population=None,
        draws=199,
        rng=int(rng.integers(1e9)),
    )


def experiment_viewers(rng: np.random.Generator) -> eh.Result:
    """Viewers in two arms that see authors by the same law."""
    viewers, authors = sizes(rng), int(rng.integers(30, 200))
    appeal = rng.lognormal(0, 1, authors)
    views = rng.poisson(5, viewers) + 1
    viewer = np.repeat(np.arange(viewers), views)
    arm = np.where(rng.random(viewers) < 0.5, "control", "new")[viewer]
    table = pl.DataFrame(
        {"viewer": viewer, "author": rng.choice(authors, len(viewer), p=appeal / appeal.sum()), "arm": arm}
    )
    return eh.experiment(
        table,
        unit="author",
        amount=None,
        arm="arm",
        randomized="viewer",
        population=None,
        draws=199,
        rng=int(rng.integers(1e9)),
    )


def explain(rng: np.random.Generator) -> eh.Result:
    """Two periods of the same units, sources and groups alike, in which nothing changed."""
    n = sizes(rng)
    rows = [
        pl.DataFrame({"unit": np.arange(n), "period": period, "source": source, "amount": half})
        for source in ("a", "b")
        for period, half in zip(("before", "after"), np.split(amounts(rng, 2 * n), 2), strict=True)
    ]
    table = pl.concat(rows).with_columns(group=pl.col("unit") % 3)
    return eh.explain(
        table, unit="unit", amount="amount", arm="period", control="before", population=None, source="source", group="group",
        rng=int(rng.integers(1e9)),
    )  # fmt: skip


def network(rng: np.random.Generator) -> eh.Result:
    """A graph that is random but for everybody's numbers of followers, and a ranking that favours nobody."""
    people = min(sizes(rng), 400)
    appeal = rng.pareto(1.5, people) + 0.2
    reach = 2 + rng.poisson(6, people)
    follower = np.repeat(np.arange(people), reach)
    edges = pl.DataFrame({"follower": follower, "followed": rng.choice(people, len(follower), p=appeal / appeal.sum())})
    edges = edges.filter(pl.col("follower") != pl.col("followed")).unique(maintain_order=True)
    shown = edges.sample(fraction=rng.uniform(0.5, 3), with_replacement=True, seed=int(rng.integers(1e9)))
    log = shown.rename({"follower": "viewer", "followed": "author"})
    return eh.network(log, edges, unit="author", amount=None, viewer="viewer", draws=49, rng=int(rng.integers(1e9)))


def _rankings(rng: np.random.Generator, groups: int, depth: int, systems: int) -> pl.DataFrame:
    """Lists in random order over items with groups, scores that order them, and relevance that knows neither."""
    requests = min(sizes(rng), 300)
    share = rng.dirichlet(np.full(groups, 3.0))
    tables = []
    for request in range(requests):
        label = rng.choice(groups, depth, p=share)
        for system in range(systems):
            order = rng.permutation(depth)
            tables.append(
                {
                    "system": np.full(depth, f"s{system}"),
                    "request": np.full(depth, request),
                    "item": request * depth + order,
                    "rank": np.arange(1, depth + 1),
                    "score": np.arange(depth, 0, -1.0),
                    "group": np.array([f"g{i}" for i in range(groups)])[label[order]],
                }
            )
    table = pl.DataFrame({name: np.concatenate([t[name] for t in tables]) for name in tables[0]})
    relevance = (rng.random(requests * depth) < 0.3).astype(float)
    return table.with_columns(relevance=pl.Series(relevance[table["item"].to_numpy()]))


def exposure(rng: np.random.Generator) -> eh.Result:
    """Lists in random order."""
    table = _rankings(rng, int(rng.integers(2, 5)), int(rng.integers(5, 30)), int(rng.integers(1, 4)))
    return eh.exposure(
        table,
        groups="group",
        relevance="relevance",
        protected="g0",
        versus="g1",
        system="system",
        rng=int(rng.integers(1e9)),
    )


def prefix(rng: np.random.Generator) -> eh.Result:
    """Lists in random order."""
    table = _rankings(rng, int(rng.integers(2, 4)), int(rng.integers(5, 30)), int(rng.integers(1, 5)))
    return eh.prefix(
        table.rename({"system": "engine"}),
        group="group",
        protected="g0",
        by="engine",
        metrics=["ndd", "ndkl"],
        rng=int(rng.integers(1e9)),
    )


def pairwise(rng: np.random.Generator) -> eh.Result:
    """Scores that know neither group nor relevance."""
    table = _rankings(rng, int(rng.integers(2, 4)), int(rng.integers(5, 30)), 1)
    return eh.pairwise(
        table, groups="group", relevance="relevance", protected="g0", versus="g1", rng=int(rng.integers(1e9))
    )


def _outcomes(rng: np.random.Generator, shift: float = 0.5) -> pl.DataFrame:
    """Candidates whose outcome depends on the score only; each group scores higher than the last by a `shift`."""
    n = max(200, 4 * sizes(rng))
    groups = int(rng.integers(2, 5))
    group = rng.choice(groups, n, p=rng.dirichlet(np.full(groups, 4.0)))
    score = 1 / (1 + np.exp(-(rng.normal(0, 1, n) + shift * group)))
    outcome = rng.random(n) < score if rng.random() < 0.7 else rng.random(n) < np.sqrt(score)
    return pl.DataFrame(
        {"score": score, "group": np.array([f"g{i}" for i in range(groups)])[group], "outcome": outcome.astype(int)}
    )


def outcome_test(rng: np.random.Generator) -> eh.Result:
    """The same outcomes at equal score; where rates are compared too (outcomes below the threshold are known), equal scores."""
    roles = {"score": "score", "outcome": "outcome", "group": "group", "reference": "g0"}
    if rng.random() < 0.6:
        return eh.outcome_test(_outcomes(rng), **roles)
    above = {"kind": "classification", "threshold": 0.5}
    if rng.random() < 0.5:
        return eh.outcome_test(_outcomes(rng, shift=0.0), **roles, **above)
    table = _outcomes(rng).with_columns(pl.when(pl.col("score") >= 0.5).then("outcome").alias("outcome"))
    return eh.outcome_test(table, **roles, **above)


def lists(
    rng: np.random.Generator, requests: int, length: int, *, bias: float = 0.0, spread: float = 0.08, rate: float = 0.4
) -> pl.DataFrame:
    """Lists in the order of merit, g1 taken down by a `bias`; every list has a scale of scores of its own.

    With no `spread` of merit all orders are equally good, the hardest case for a test of the order.
    """
    n = requests * length
    request, group = np.repeat(np.arange(requests), length), rng.integers(0, 2, n)
    merit, tie = rng.normal(0, spread, n), rng.normal(0, 1e-9, n)
    score = rng.normal(0, 5, requests)[request] + rng.lognormal(0, 1, requests)[request] * (
        merit - bias * (group == 1) + tie
    )
    outcome = (rng.random(n) < np.clip(rate + merit, 0, 1)).astype(int)
    return pl.DataFrame(
        {"request": request, "group": np.array(["g0", "g1"])[group], "score": score, "outcome": outcome}
    )


def outcome_listwise(rng: np.random.Generator) -> eh.Result:
    """Lists in the order of merit, or in any order where all have the same."""
    spread, rate = rng.choice([0.0, 0.0, 0.02, 0.08]), rng.choice([0.05, 0.2, 0.4])
    table = lists(rng, sizes(rng), int(rng.integers(3, 20)), spread=spread, rate=rate)
    roles = {"score": "score", "outcome": "outcome", "group": "group", "request": "request", "reference": "g0"}
    return eh.outcome_test(table, **roles, kind="listwise")


def counterfactual(rng: np.random.Generator) -> eh.Result:
    """The same outcomes at equal score, reallocated."""
    table = _outcomes(rng)
    table = table.with_columns(request=pl.int_range(pl.len()) // 20)
    test = eh.outcome_test(table, score="score", outcome="outcome", group="group", reference="g0", request="request")
    return test.counterfactual(rng=int(rng.integers(1e9)))


def recommender(rng: np.random.Generator) -> eh.Result:
    """Users whose labels know nothing of their scores."""
    users, items, groups = min(sizes(rng), 400), int(rng.integers(20, 60)), int(rng.integers(2, 5))
    scores = rng.lognormal(0, 1, (users, 1)) * (rng.random((users, items)) + rng.random(items))
    group = rng.choice(groups, users, p=rng.dirichlet(np.full(groups, 2.0)))
    group[:2] = [0, 1]
    scores[group == 2, 0] = scores.max() + 1  # the third group differs from the first two, which are still alike
    labels = np.array([f"g{i}" for i in range(groups)])[group]
    relevant = (rng.random((users, items)) < 0.2 * rng.random((users, 1))).astype(float)
    pair = {"versus": "g0", "protected": "g1"} if groups > 2 else {}
    return eh.recommender(
        scores, user_groups=labels, relevant=relevant, top=5, interval=None, rng=int(rng.integers(1e9)), **pair
    )


def compare_systems(rng: np.random.Generator) -> eh.Result:
    """Two systems that order the same items at random."""
    table = _rankings(rng, 2, int(rng.integers(5, 30)), 2)
    results = [
        eh.exposure(part, groups="group", protected="g0", metrics=["awrf", "log_dp"], rng=int(rng.integers(1e9)))
        for part in table.partition_by("system", maintain_order=True)
    ]
    return eh.compare(*results)


def agreement(rng: np.random.Generator) -> eh.Result:
    """Metrics that know nothing of each other: each is measured on rankings of its own, by systems that are alike."""
    systems = int(rng.integers(5, 15))
    results = [
        eh.exposure(
            _rankings(rng, 2, 10, systems), groups="group", protected="g0", system="system", metrics=metric, interval=None, rng=1
        )
        for metric in ("awrf", "log_dp", "eed")
    ]  # fmt: skip
    return eh.agreement(*results, rng=int(rng.integers(1e9)))


def compare_independent(rng: np.random.Generator) -> eh.Result:
    """Two logs of other units, drawn alike."""
    n = sizes(rng)
    results = [
        eh.inequality(
            pl.DataFrame({"unit": np.arange(n), "amount": amount}), unit="unit", amount="amount", population=None,
            rng=int(rng.integers(1e9)),
        )
        for amount in _alike(rng, n, 2)
    ]  # fmt: skip
    return eh.compare(*results, independent=True)


def experiment_periods(rng: np.random.Generator) -> eh.Result:
    """Units whose amounts in two periods are exchangeable."""
    n = sizes(rng)
    level = rng.lognormal(0, 0.5, n) if rng.random() < 0.5 else np.ones(n)
    table = pl.concat(
        pl.DataFrame({"unit": np.arange(n), "period": name, "amount": level * amount})
        for name, amount in zip(("before", "after"), _alike(rng, n, 2), strict=True)
    )
    return eh.experiment(
        table, unit="unit", amount="amount", arm="period", randomized=None, control="before", population=None, draws=199,
        rng=int(rng.integers(1e9)),
    )  # fmt: skip


def advise(rng: np.random.Generator) -> Verdicts:
    """Which metric finds more biased lists depends on the lists, so no world is null: false is what other draws reverse."""
    table = _rankings(rng, 2, int(rng.integers(5, 30)), 1)
    bias = ("low", "medium", "high")[rng.integers(3)]
    first, second = (
        eh.advise(table, group="group", protected="g0", bias=bias, rng=int(rng.integers(1e9))) for _ in range(2)
    )
    other = {(c.metric, c.group, str(c.where)): c.direction for c in second.claims if c.made}
    opposite = {"higher": "lower", "lower": "higher"}
    turned = [
        c
        for c in first.claims
        if c.made and other.get((c.metric, c.group, str(c.where))) == opposite.get(c.direction, "")
    ]
    return Verdicts(turned)


def sensitivity(rng: np.random.Generator) -> eh.Result:
    """Systems whose lists are drawn alike, under four combinations of choices."""
    table = _rankings(rng, 2, int(rng.integers(5, 30)), int(rng.integers(2, 5)))
    choices = {"attention": ["log", "rbp(patience=0.8)"], "target": ["population", "equal"]}
    return eh.sensitivity(
        eh.exposure,
        table,
        groups="group",
        protected="g0",
        system="system",
        metrics="awrf",
        vary=choices,
        rng=int(rng.integers(1e9)),
    )


def study_inequality(rng: np.random.Generator) -> Verdicts:
    """Sources and kinds of engagement that are exchangeable: none is more skewed than another."""
    n = max(100, sizes(rng))
    heavy = rng.lognormal(0, 0.5, n) if rng.random() < 0.5 else np.ones(n)
    kinds, sources = ("views", "quotes", "retweets", "profile_clicks"), ("in_network", "misc", "other")
    drawn = iter(_alike(rng, n, len(kinds) * len(sources)))
    table = pl.concat(
        pl.DataFrame({"unit": np.arange(n), "via": via, **{kind: heavy * next(drawn) for kind in kinds}})
        for via in sources
    )
    study = inequality_study.study(
        data=table,
        unit="unit",
        amount=list(kinds),
        source="via",
        in_network=["in_network"],
        seed=int(rng.integers(1e9)),
    )
    return Verdicts.from_findings(
        study.claims,
        "Quotes are",
        "Sharing to",
        "Profile clicks are",
        "Out-of-network suggestions are",
        "Miscellaneous",
    )


def study_outcome(rng: np.random.Generator) -> Verdicts:
    """The same outcomes at equal score."""
    study = outcome_study.study(data=_outcomes(rng), score="score", outcome="outcome", group="group", reference="g0")
    wrong = [f for f in study.claims if f.holds]  # no bias, or one too small to matter, is the truth here
    return Verdicts.from_findings(wrong)


def study_recommender(rng: np.random.Generator) -> Verdicts:
    """Users whose groups know nothing of their scores: neither group is served worse."""
    users, items = min(max(sizes(rng), 60), 300), 40
    scores = rng.random((users, items)) + rng.random(items)
    user, item = (index.ravel() for index in np.indices((users, items)))
    columns = {
        "user": user, "item": item, "score": scores.ravel(), "relevance": rng.random(users * items) < 0.2 * scores.ravel(),
        "group": np.where(rng.permutation(users) < users // 3, "b", "a")[user],
    }  # fmt: skip
    table = pl.DataFrame(columns).cast({"relevance": pl.Float64})
    study = recommender_study.study(data=table, **{role: role for role in columns}, seed=int(rng.integers(1e9)))
    return Verdicts.from_findings(
        study.claims, "A large MAD", "A total variation of 0", "A KL divergence", "A lower precision", "A lower recall", "A lower F1"
    )  # fmt: skip


def study_marketplaces(rng: np.random.Generator) -> Verdicts:
    """Marketplaces of fair scores, as the outcome study generates them."""
    seed = int(rng.integers(1e9))
    jobs = outcome_study.notifications(150, {}, seed)
    people = outcome_study.ranking(150, {}, seed + 1)
    findings = decide((*outcome_study.notification_claims(jobs, jobs), *outcome_study.ranking_claims(people)))
    return Verdicts.from_findings(
        findings,
        "Men,",
        "The gap in the marginal",
        "Without the bias",
        "Women,",
        "Outcomes differ",
        "The under-scored",
        "Re-ranked",
    )


def study_experiment(rng: np.random.Generator) -> Verdicts:
    """Analyses on the bounds of their rules: 5% of false alarms, half of them, and no more power than is asked."""
    runs = 200
    naive, right = rng.random((2, len(experiment_study.DESIGNS), 2, runs))
    rates = {
        d.name: experiment_study.Rates(
            np.stack([naive[i, 0] < 0.5, right[i, 0] < 0.05], 1), np.stack([naive[i, 1] < 0.4, right[i, 1] < power], 1)
        )
        for i, (d, power) in enumerate(zip(experiment_study.DESIGNS, (0.8, 0.8, 0.8, 0.8, 0.8, 0.4), strict=True))
    }
    findings = decide(experiment_study.claims(rates, runs))
    false = [f for f in findings if experiment_study.RARE not in f.statement or f.holds is False]
    return Verdicts.from_findings(false)


def study_response(rng: np.random.Generator) -> Verdicts:
    """Metrics that call either system less fair as often as the other."""
    worlds = response_study.WORLDS
    keys = [(setting, metric) for setting in response_study.settings() for metric in response_study.METRICS]
    hits = rng.binomial(worlds, 0.5, len(keys)).tolist()
    responses = {key: response_study.Response(many, worlds) for key, many in zip(keys, hits, strict=True)}
    return Verdicts.from_findings(response_study.claims(responses))


def study_viewpoints(rng: np.random.Generator) -> Verdicts:
    """Values of all metrics on all sets that do not depend on bias, set or metric."""
    lists, batches = 100, 20

    def point() -> Point:
        values = rng.lognormal(0, 0.5, lists)
        without = tuple(Point(float(values[np.arange(lists) % batches != k].mean()), 1.0, 0.05) for k in range(batches))
        return Point(float(values.mean()), 1.0, 0.05, without)

    points = {(metric, name, alpha): point() for metric in METRICS for name in SETS for alpha in ALPHAS}
    findings = [f for f in viewpoints_claims(points) if not f.is_ours]
    return Verdicts.from_findings(
        findings, "Each metric is lowest", "A favoured minority", "At bias +1 a more", "Curves are steeper", "nDD gives", "nDKL",
        "Even more", "nDR", "For low", "For medium", "For high",
    )  # fmt: skip


def study_fair_ranking(rng: np.random.Generator) -> Verdicts:
    """Systems that are alike, by metrics that know nothing of each other; shares and accuracies at the bounds of their rules."""
    metrics, tasks, requests = (AWRF, AWRF_EQUAL, "log_dp", "eed", "eel", "eer"), 4, 150
    values = [rng.normal(size=(len(metrics), int(rng.integers(4, 20)), requests)) for _ in range(tasks)]
    lost = [rng.random((requests, 3)) < 0.1 for _ in range(tasks)]
    cut = rng.normal((0.3, 0.35), 0.1, (requests, 2))

    def measured(task: int, mask: np.ndarray) -> Measured:
        means = values[task][:, :, mask].mean(-1)
        pairs = [(i, j) for i in range(len(metrics)) for j in range(i)]
        taus = {frozenset((metrics[i], metrics[j])): eh.metrics.kendall_tau_c(means[i], means[j]) for i, j in pairs}
        shares = dict(zip(("pref", "log_eur", "log_rur"), lost[task][mask].mean(0).tolist(), strict=True))
        both = cut[mask].mean(0)
        return Measured(f"task {task}", means.shape[1], taus, shares, (float(both[0]), float(both[1])))

    halves = [rng.permutation(requests) < requests // 2 for _ in range(12)]
    runs = [Tasks([measured(task, mask) for task in range(tasks)]) for mask in (np.ones(requests, dtype=bool), *halves)]
    findings = fair_ranking_claims(Replicates(runs[0], runs[1:], is_halved=True))
    return Verdicts.from_findings(
        findings, "The most consistently", "EEL and", "Prefix metrics", "RUR is", "Pairwise accuracy"
    )


WORLDS: dict[str, World] = {
    "inequality": inequality,
    "sources": sources,
    "decompose": decompose,
    "explain": explain,
    "network": network,
    "experiment, units randomised": experiment_units,
    "experiment, viewers randomised": experiment_viewers,
    "exposure": exposure,
    "prefix": prefix,
    "pairwise": pairwise,
    "outcome_test": outcome_test,
    "outcome_test, listwise": outcome_listwise,
    "counterfactual": counterfactual,
    "recommender": recommender,
    "compare, two systems": compare_systems,
    "agreement": agreement,
    "criteria": criteria,
    "compare, other units": compare_independent,
    "experiment, two periods": experiment_periods,
    "advise": advise,
    "sensitivity": sensitivity,
    "study inequality": study_inequality,
    "study outcome": study_outcome,
    "study outcome, marketplaces": study_marketplaces,
    "study recommender": study_recommender,
    "study experiment": study_experiment,
    "study response": study_response,
    "study viewpoints": study_viewpoints,
    "study fair-ranking": study_fair_ranking,
}


@dataclass(frozen=True, slots=True)
class Tally:
    """How many worlds of an audit made a false claim, or have a headline that says more than its claims."""

    audit: str
    worlds: int
    claimed: int
    overstated: int
    examples: tuple[str, ...]

    @property
    def share(self) -> float:
        return max(self.claimed, self.overstated) / self.worlds

    @property
    def holds(self) -> bool:
        """Whether the share is at most 5%, within two Monte Carlo errors."""
        return self.share <= ALLOWED + 2 * math.sqrt(ALLOWED * (1 - ALLOWED) / self.worlds)


def overstates(result: eh.Result | Verdicts) -> bool:
    """Whether the headline has a direction though no claim is made."""
    directed = DIRECTED.search(result.headline) and not UNDECIDED.search(result.headline)
    return bool(directed) and not any(claim.made for claim in result.claims)


def count(audit: str, worlds: int, seed: int) -> Tally:
    """Ask one audit of so many null worlds."""
    claimed = overstated = 0
    examples: list[str] = []
    for i in range(worlds):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = WORLDS[audit](np.random.default_rng([seed, i]))
        false = [claim for claim in result.claims if claim.made]
        claimed += bool(false)
        overstated += overstates(result)
        examples += [claim.text for claim in false[:1]] + [result.headline] * overstates(result)
    return Tally(audit, worlds, claimed, overstated, tuple(examples[:3]))


def main() -> int:
    """Print the table; 1 where an audit claims too much."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="40 worlds for each audit")
    parser.add_argument("--worlds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("audits", nargs="*", help="audits to ask; all without any")
    arguments = parser.parse_args()
    worlds = 40 if arguments.quick else arguments.worlds
    wrong = 0
    print("| audit | worlds | with a false claim | headline beyond its claims | |\n|---|---|---|---|---|")
    for audit in arguments.audits or WORLDS:
        tally = count(audit, worlds, arguments.seed)
        wrong += not tally.holds
        verdict = "" if tally.holds else f"TOO MANY: {'; '.join(tally.examples)}"
        print(
            f"| {audit} | {worlds} | {tally.claimed / worlds:.1%} | {tally.overstated / worlds:.1%} | {verdict} |",
            flush=True,
        )
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
