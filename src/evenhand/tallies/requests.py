"""One metric over many requests: what every ranking audit makes of its tally."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np
import numpy.typing as npt

from evenhand.cards import Floats, MetricSpec
from evenhand.tallies.ragged import Ints, run_starts

if TYPE_CHECKING:
    from evenhand.sources.engine import Cells

Codes = npt.NDArray[Any]


@dataclass(frozen=True)
class Requests:
    """Requests within slices.

    Attributes
    ----------
    slices : labels of the slices; slice s holds requests starts[s] to starts[s + 1].
    ids : (Q,) what the requests are called.
    clusters : (Q,) code of what a request shares with others (user, topic), which `cluster_ids` names; None where each
        request is independent of the others.
    """

    slices: Sequence[tuple[Any, ...]]
    starts: Ints
    ids: Any
    clusters: Ints | None = None
    cluster_ids: Any = ()

    @classmethod
    def from_heads(cls, heads: Cells, slices: Sequence[str]) -> Requests:
        """From a sorted row per request (or ranking), and the columns that name its slice."""
        labels, starts = [()], np.zeros(1, dtype=np.int64)
        if slices:
            starts = np.flatnonzero(np.diff(heads.runs(slices), prepend=-1))
            labels = heads.take(starts).labels(slices)
        return cls(labels, np.append(starts, len(heads)), heads.column("request"), *cluster_codes(heads))

    def part(self, s: int) -> slice:
        return slice(int(self.starts[s]), int(self.starts[s + 1]))

    def size(self, s: int) -> int:
        return int(self.starts[s + 1] - self.starts[s])

    def listed(self) -> list[Any]:
        return list(self.ids.to_list() if hasattr(self.ids, "to_list") else self.ids)

    def units(self, s: int) -> Ints:
        """(n,) the independent unit of each request of a slice: its cluster, or the request itself."""
        if self.clusters is None:
            return np.arange(self.size(s))
        return np.unique(self.clusters[self.part(s)], return_inverse=True)[1].reshape(-1)

    def unit_count(self, s: int, counted: npt.NDArray[np.bool_] | None = None) -> int:
        """Independent units of a slice; those of the `counted` requests where (Q,) says which."""
        units = self.units(s) if counted is None else self.units(s)[counted[self.part(s)]]
        return len(np.unique(units))

    def unit_sums(self, s: int, values: Floats, counted: npt.NDArray[np.bool_] | None = None) -> Floats:
        """(units, ...) sums over the requests of each independent unit, from (n, ...) values of a slice's requests.

        Where (n,) `counted` is passed, requests that are not counted are left out, and units without any other.
        """
        if self.clusters is None:
            return values if counted is None else values[counted]
        units = self.units(s) if counted is None else self.units(s)[counted]
        order = np.argsort(units, kind="stable")
        starts = run_starts(units[order])
        values = (values if counted is None else values[counted])[order]
        return np.asarray(np.add.reduceat(values, starts, axis=0)) if len(values) else values

    def clusters_of(self, s: int) -> list[Any] | None:
        return None if self.clusters is None else [self.cluster_ids[c] for c in self.clusters[self.part(s)].tolist()]


def cluster_codes(heads: Cells) -> tuple[Ints | None, list[Any]]:
    """(Q,) the code of each request's cluster, and the clusters by code; None where requests have none."""
    if "cluster" not in heads.names:
        return None, []
    codes, clusters = heads.numbered(["cluster"])
    return np.asarray(codes), clusters.values("cluster")


def sort_heads(parts: Sequence[Cells], keys: Sequence[str]) -> tuple[Cells, Ints]:
    """The rows that name whole groups, from several batches, sorted; and the index of each."""
    heads = parts[0].followed_by(parts[1:])
    order = heads.order(keys)
    return heads.take(order), order


@dataclass(frozen=True)
class Summable:
    """A tally of sums, of which a resample of requests is a sum of rows.

    `axes` says how many axes each sum has behind those of requests and replicates; a sum may be None.
    """

    axes: ClassVar[Mapping[str, int]] = {}

    def _parts(self) -> dict[str, tuple[Floats, int]]:
        """The sums that there are, and at which axis each begins."""
        sums = {name: getattr(self, name) for name in self.axes}
        return {name: (x, x.ndim - self.axes[name]) for name, x in sums.items() if x is not None}

    def stacked(self) -> Floats:
        """(..., K) all sums side by side, for resampling."""
        parts = list(self._parts().values())
        lead = parts[0][0].shape[: parts[0][1]]
        flat = [x.reshape((*x.shape[:axis], math.prod(x.shape[axis:]))) for x, axis in parts]
        return np.concatenate([np.broadcast_to(x, (*lead, x.shape[-1])) for x in flat], axis=-1)

    def with_sums(self, sums: Floats) -> Self:
        """This tally with other sums, laid out as `stacked` lays them out."""
        at, parts = 0, {}
        for name, (x, axis) in self._parts().items():
            size = math.prod(x.shape[axis:])
            parts[name] = sums[..., at : at + size].reshape((*sums.shape[:-1], *x.shape[axis:]))
            at += size
        return replace(self, **parts)


class Resampler(Protocol):
    """Gives the value and draws of a metric whose sums would be too large to hold."""

    def value(self, part: slice) -> float: ...
    def reason(self, part: slice) -> str: ...
    def draws(self, part: slice, draws: int, rng: np.random.Generator) -> Floats | None: ...


@dataclass(frozen=True)
class Measured:
    """One metric over all requests.

    Attributes
    ----------
    sums : (Q, K) what a resample of requests adds up; `value` turns (..., K) totals into the metric.
    values : (Q,) the metric of each request alone; `reasons` : (Q,) why it has none, empty text where it has.
    reason : the code for a slice, given its number and totals, that has no value.
    ideal : the metric's ideal on totals.
    group : the group that the metric looks at, if it looks at one.
    chance : (slices,) mean of the metric under its null. floor : (slices,) what an ideal policy would score on as few requests.
    counted : (Q,) requests that an interval rests on; None: all of them.
    left_out : why the other requests are not part of the value, as a note; none where they are.
    resampler : takes the place of the sums, where there is one.
    more : further columns of `.per_request`, (Q,) each, made when somebody looks.
    cells : further cells of the row of a slice, given its number and estimate; `code` is one more code of its note.
    """

    ask: MetricSpec
    sums: Floats
    value: Callable[[Floats], Floats]
    values: Floats
    reasons: Codes
    reason: Callable[[int, Floats], str]
    ideal: Callable[[Floats], float]
    group: str | None = None
    chance: Floats | None = None
    floor: Floats | None = None
    counted: npt.NDArray[np.bool_] | None = None
    left_out: str = ""
    resampler: Resampler | None = None
    more: Callable[[], Mapping[str, Sequence[Any]]] = field(default=dict)
    cells: Callable[[int, float], Mapping[str, Any]] = field(default=lambda *_: {})

    @property
    def skips(self) -> bool:
        """Whether requests without a value are left out of the mean."""
        return self.ask.card.per == "ranking"


def share_texts(codes: Codes) -> Codes:
    """Reason codes as references to a few texts: numpy would store each at full length."""
    if not (codes != "").any():
        return np.broadcast_to(np.array("", object), codes.shape)
    distinct, which = np.unique(codes, return_inverse=True)
    return np.asarray(distinct.astype(object)[which.reshape(codes.shape)])


def measure_sums(ask: MetricSpec, tally: Summable, *, each: Any = None, **fields: Any) -> Measured:
    """A metric of sums over requests; `each` is the tally of single requests where it differs."""
    single = tally if each is None else each
    values, sums = ask.on(single), tally.stacked()
    values = np.broadcast_to(values, (len(sums),))
    form = tally.with_sums(sums.sum(0))  # what totals are laid out as, without a row per request

    def value(total: Floats) -> Floats:
        return np.broadcast_to(ask.on(form.with_sums(total)), total.shape[:-1])

    def reason(_: int, total: Floats) -> str:
        return ask.card.reason(form.with_sums(total), **ask.params)

    def ideal(total: Floats) -> float:
        return ask.metric.ideal_on(form.with_sums(total), **ask.params)

    reasons = share_texts(ask.card.reasons(single, np.isnan(values), **ask.params))
    return Measured(ask, sums, value, values, reasons, reason, ideal, **fields)


def measure_rankings(
    ask: MetricSpec,
    values: Floats,
    reasons: Codes,
    within: Requests,
    *,
    expected: Callable[[Floats], Floats] = np.asarray,
    first: Ints | None = None,
    weight: Floats | None = None,
    **fields: Any,
) -> Measured:
    """A metric of single rankings: the mean over a request's draws, then over requests.

    `expected` takes means over the draws of each request, `first` is the first draw of each; by default every request has
    one ranking, and all weigh the same.
    """
    defined, infinite = ~np.isnan(values), np.isinf(values)
    parts = (np.where(defined & ~infinite, values, 0.0), defined.astype(np.float64), infinite.astype(np.float64))
    per_request = np.column_stack([expected(part) for part in parts])
    each = mean_of(per_request)
    lost = np.where(np.isnan(each), reasons if first is None else reasons[first], "") if len(each) else reasons[:0]
    weighed = np.ones(len(each)) if weight is None else weight
    # Requests count once in the mean if any of their draws has a value.
    counted = np.where(per_request[:, 1:2] > 0, 1 / np.maximum(per_request[:, 1:2], 1e-300), 0.0)
    sums = per_request * counted * weighed[:, None]

    def reason(s: int, _: Floats) -> str:
        part = within.part(s)
        if len(weighed[part]) and not weighed[part].any():
            return "zero_weight"
        codes = Counter(code for code in lost[part].tolist() if code)
        return str(codes.most_common(1)[0][0]) if codes else "empty"

    return Measured(ask, sums, mean_of, each, share_texts(lost), reason, lambda _: ask.ideal, **fields)


def mean_of(total: Floats) -> Floats:
    """Totals (sum, number, infinite ones) to the mean: infinite where one of the values is."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(total[..., 2] > 0, np.inf, total[..., 0] / total[..., 1])
