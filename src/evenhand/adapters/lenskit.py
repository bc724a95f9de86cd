"""evenhand's metrics for LensKit's `RunAnalysis`: list metrics, and metrics of a whole run.

    analysis.add_metric(AWRF(groups, n=10))
    analysis.add_metric(ProviderGini(providers, n=10))

Lists are read by rank, not in the order they are kept in. A list for which a metric does not exist is NaN and is left
out of means. Every value is that of the plain function in `eh.metrics`; runs also go straight into `eh.exposure`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from evenhand import metrics as plain
from evenhand.attention import Attention, parse
from evenhand.audits.exposure.exposure import exposure
from evenhand.errors import DataWarning, EvenhandError, MissingExtraError, UndefinedWarning
from evenhand.sources.labels import Labels, open_labels
from evenhand.sources.opening import open_table
from evenhand.sources.rollup import rollup
from evenhand.tallies.exposure import Exposed, side_codes, target_shares

try:
    import lenskit.data  # noqa: F401  (lenskit.metrics cannot be imported first)
    from lenskit.metrics import GlobalMetric, ListMetric
    from lenskit.metrics.ranking import RankingMetricBase
except ModuleNotFoundError as error:
    raise MissingExtraError("lenskit", "lenskit") from error

__all__ = ["AWRF", "EED", "EEL", "EER", "ExposureMetric", "ProviderGini"]


def aligned(groups: Any) -> Labels:
    """Labels from `{item: group}`, a table, shares or `eh.rollup(...)`."""
    import polars as pl

    nowhere = open_table(pl.DataFrame(schema={"item_id": pl.String}))
    labels = open_labels(groups, nowhere, item="item_id")
    if not isinstance(labels, Labels):
        raise EvenhandError(f"groups={groups!r} is not a file. Pass {{item: group}}, a table, or a path.")
    return labels


def ranked_ids(output: Any, n: int | None) -> list[Any]:
    ranks = output.ranks()
    if ranks is None:
        if not len(output):
            return []
        raise EvenhandError("A list has no ranks. Pass ordered lists: recommend() and ItemList.top_n() make them.")
    return list(output.ids()[np.argsort(ranks, kind="stable")][:n].tolist())


class GroupMetric(ListMetric, RankingMetricBase):
    """A list metric that knows the group of every item.

    Parameters
    ----------
    groups : the groups of items, in any form `eh.exposure` takes. Items without a group are unknown: they keep their rank.
    n : look at the first ranks only.
    """

    default = None  # a list without a value is left out of means, never zero

    def __init__(self, groups: Any, n: int | None = None, **params: Any) -> None:
        RankingMetricBase.__init__(self, n)
        self.params = params
        labels = aligned(groups)
        self.population = _shares(labels.frame)
        self.groups = _by_item(labels.frame)

    def gathered(self, amounts: Mapping[Any, float]) -> list[float]:
        sums = dict.fromkeys(self.population, 0.0)
        for item, amount in amounts.items():
            for group, share in self.groups.get(item, {}).items():
                sums[group] += amount * share
        return list(sums.values())

    def measure_list(self, output: Any, test: Any, /) -> float:
        items = ranked_ids(output, self.n)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UndefinedWarning)
            return self.value(items, test) if items else math.nan

    def value(self, items: list[Any], test: Any) -> float:
        raise NotImplementedError

    def summarize(self, values: Iterable[Any], /) -> dict[str, float | None]:
        """Mean, median and deviation of the lists that have a value, and how many have none."""
        plain_values = [v.as_py() if hasattr(v, "as_py") else v for v in values]
        defined = [v for v in plain_values if v is not None and not math.isnan(v)]
        summary: dict[str, float | None] = super().summarize(defined)
        return summary | {"undefined": float(len(plain_values) - len(defined))}


def _shares(frame: Any) -> dict[Any, float]:
    """Each group's share of all items that have one."""
    import polars as pl

    totals = frame.filter(pl.col("group").is_not_null()).group_by("group").agg(pl.col("share").sum()).sort("group")
    total = totals["share"].sum()
    return dict(totals.with_columns(pl.col("share") / total).iter_rows())


def _by_item(frame: Any) -> dict[Any, dict[Any, float]]:
    """The groups of each item with their shares of it; none where its group is unknown."""
    groups: dict[Any, dict[Any, float]] = {}
    for item, group, share in frame.select("item", "group", "share").iter_rows():
        groups.setdefault(item, {}).update({} if group is None else {group: share})
    return groups


def _attention(model: Attention, items: list[Any], test: Any) -> dict[Any, float]:
    """Attention on each item of a list; a test item has relevance 1."""
    relevant = set(test.ids().tolist()) if model.needs_relevance else set()
    grades = [float(i in relevant) for i in items] if model.needs_relevance else None
    return dict(zip(items, model.weights(len(items), grades).tolist(), strict=True))


class AWRF(GroupMetric):
    """Distance between a list's attention per group and the target: `eh.metrics.awrf`.

    `target` is the groups' share of all items ("population"), "equal", or `{group: share}`; `distance`, `attention`,
    `protected` and `signed` are those of the plain function.
    """

    def __init__(
        self, groups: Any, n: int | None = None, *, target: Any = "population", attention: Any = "geometric(stop=0.5)",
        protected: Any = None, **params: Any,
    ) -> None:  # fmt: skip
        super().__init__(groups, n, **params)
        chosen = self.population if isinstance(target, str) and target == "population" else target
        shares = target_shares(chosen, list(self.population))
        self.population = {g: self.population.get(g, 0.0) for g in shares}
        self.target = np.array(list(shares.values()))
        self.attention = parse(attention)
        self.protected = None if protected is None else side_codes("protected", protected, list(shares))

    def value(self, items: list[Any], test: Any) -> float:
        received = np.array(self.gathered(_attention(self.attention, items, test)))
        tally = Exposed(received, self.target, np.array(float(len(items))), self.protected)
        return plain.awrf(tally, **self.params)


class EED(GroupMetric):
    """Expected exposure disparity of a list, on groups.

    A value per list, averaged (Diaz et al.). For exposure averaged over all lists first, use `ExposureMetric("eed", ...)`.
    """

    metric: Any = plain.eed
    due = False

    def __init__(self, groups: Any, n: int | None = None, *, attention: Any = "rbp(patience=0.5)") -> None:
        super().__init__(groups, n)
        self.attention = parse(attention)

    def value(self, items: list[Any], test: Any) -> float:
        if self.due and not len(test):  # nobody judged anything for this user
            return math.nan
        received = self.gathered(_attention(self.attention, items, test))
        if not self.due:
            return float(self.metric(received))
        due = plain.target_exposure(dict.fromkeys(test.ids().tolist(), 1.0), self.attention)
        return float(self.metric(received, due=self.gathered(due)))


class EEL(EED):
    """Expected exposure loss of a list: distance from exposure under an ideal ranking."""

    metric = plain.eel
    due = True


class EER(EED):
    """Expected exposure relevance of a list: alignment with exposure under an ideal ranking."""

    metric = plain.eer
    due = True


class ExposureMetric(GlobalMetric):
    """Any metric of `eh.exposure` over a run: `ExposureMetric("log_dp", groups, protected="f")`.

    Test items have relevance 1. Further arguments are those of `eh.exposure`.
    """

    def __init__(self, metric: str, groups: Any, **arguments: Any) -> None:
        self.metric = metric
        self.arguments = {"groups": aligned(groups), "interval": None, "chance": False} | arguments

    @property
    def label(self) -> str:
        return self.metric

    def measure_run(self, output: Any, test: Any, /) -> float:
        result = exposure(output, relevance=test, metrics=self.metric, **self.arguments)
        return float(result.findings.columns["estimate"][0])


class ProviderGini(GlobalMetric):
    """Gini index of attention over providers in a whole run, those never shown included.

    Parameters
    ----------
    providers : `{item: provider}`, `{item: [provider, ...]}` (equal parts), or a table with columns item_id and provider.
    n : look at the first ranks only.
    attention : how attention falls with rank; `"uniform"` counts how often a provider is shown.
    population : how many providers there are, where `providers` does not hold all of them.
    corrected : whether to divide by n - 1 instead of n.
    """

    def __init__(
        self, providers: Any, n: int | None = None, *, attention: Any = "geometric(stop=0.5)", population: int | None = None,
        corrected: bool = False,
    ) -> None:  # fmt: skip
        table = providers if isinstance(providers, Mapping) else open_table(providers, role="providers")
        item = "item" if isinstance(table, Mapping) or "item" in table.schema else "item_id"
        owners = rollup(table, item=item, group="provider").frame
        self.owners, self.providers = _by_item(owners), list(_shares(owners))
        self.n, self.attention, self.population, self.corrected = n, parse(attention), population, corrected
        if population is not None and population < len(self.providers):
            raise EvenhandError(
                f"population={population} is smaller than the {len(self.providers):,} providers known. Pass all of them."
            )

    @property
    def label(self) -> str:
        return "ProviderGini" if self.n is None else f"ProviderGini@{self.n}"

    def amounts(self, output: Any) -> dict[Any, float]:
        """Attention on each provider, zero for those never shown."""
        received, unowned = dict.fromkeys(self.providers, 0.0), set()
        for ranking in output.lists():
            items = ranked_ids(ranking, self.n)
            for item, attention in zip(items, self.attention.weights(len(items)).tolist(), strict=True):
                if item not in self.owners:
                    unowned.add(item)
                for provider, share in self.owners.get(item, {}).items():
                    received[provider] += attention * share
        if unowned:
            warnings.warn(
                DataWarning(f"{len(unowned):,} items shown have no provider; they were left out."), stacklevel=2
            )
        return received

    def measure_run(self, output: Any, test: Any, /) -> float:  # noqa: ARG002
        received = list(self.amounts(output).values())
        unseen = 0 if self.population is None else self.population - len(received)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UndefinedWarning)
            return float(plain.gini([*received, *[0.0] * unseen], corrected=self.corrected))
