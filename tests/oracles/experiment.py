"""Experiments the slow way: viewers one by one, every arm added up anew."""

import itertools

import numpy as np


def gini(x):
    x = np.asarray(x, dtype=float)
    return np.abs(x[:, None] - x[None, :]).sum() / (2 * len(x) * x.sum())


def totals(rows, viewers, units):
    """What each unit received from these viewers; rows are (viewer, unit, amount)."""
    return [sum(a for v, u, a in rows if u == unit and v in viewers) for unit in units]


def difference(rows, treated, control, units):
    return gini(totals(rows, treated, units)) - gini(totals(rows, control, units))


def every_reassignment(rows, treated, control, units):
    """The difference for every way to deal the viewers into arms of these sizes."""
    everyone = sorted(treated | control)
    ways = itertools.combinations(everyone, len(treated))
    return [difference(rows, set(way), set(everyone) - set(way), units) for way in ways]


def rarefied(rows, viewers, size, units):
    """The mean over all subsets of so many viewers."""
    return float(
        np.mean([gini(totals(rows, set(way), units)) for way in itertools.combinations(sorted(viewers), size)])
    )


def jackknife(rows, viewers, units):
    """Variance of the Gini index of an arm, each viewer left out once."""
    n = len(viewers)
    left = [gini(totals(rows, viewers - {v}, units)) for v in sorted(viewers)]
    return (n - 1) / n * float(((np.array(left) - np.mean(left)) ** 2).sum())
