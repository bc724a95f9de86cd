"""The outcome test by its definition: rows, design matrices and loops, no tally and no closed form."""

from __future__ import annotations

import math

import numpy as np


def edges(scores, bins):
    """Inverted-CDF quantiles d/B; equal edges merge, and the largest score is no edge."""
    ordered = sorted(scores)
    found = {ordered[max(1, -(-d * len(ordered) // bins)) - 1] for d in range(1, bins)}
    return sorted(e for e in found if e < ordered[-1])


def bin_of(score, inner):
    return sum(score > e for e in inner)


def regression(scores, outcomes, groups, reference, clusters=None):
    """OLS of the outcome on a constant, a dummy per other group, and the score if it varies.

    Gives {group: gap}, intercept, slope, and {kind: {group: standard error}}.
    """
    others = sorted(set(groups) - {reference})
    columns = [np.ones(len(scores)), *[np.array([float(g == o) for g in groups]) for o in others]]
    if len(set(scores)) > 1:
        columns.append(np.array(scores, float))
    x, y = np.column_stack(columns), np.array(outcomes, float)
    n, k = x.shape
    bread = np.linalg.inv(x.T @ x)
    beta = bread @ x.T @ y
    e = y - x @ beta
    errors = {"classical": bread * (e @ e) / (n - k)}
    errors["HC1"] = bread @ sum(np.outer(x[i], x[i]) * e[i] ** 2 for i in range(n)) @ bread * n / (n - k)
    if clusters is not None:
        names = sorted(set(clusters))
        sums = [sum(x[i] * e[i] for i in range(n) if clusters[i] == c) for c in names]
        factor = len(names) / (len(names) - 1) * (n - 1) / (n - k)
        errors["cluster"] = bread @ sum(np.outer(s, s) for s in sums) @ bread * factor
    gaps = {o: beta[1 + i] for i, o in enumerate(others)}
    slope = beta[-1] if len(set(scores)) > 1 else math.nan
    spread = {kind: {o: math.sqrt(v[1 + i, 1 + i]) for i, o in enumerate(others)} for kind, v in errors.items()}
    return gaps, beta[0], slope, spread


def line(part, reference, *, grouped=True):
    """The least-squares prediction of one bin as a function of a row; rows are dictionaries.

    Without the reference, or where score and group cannot be told apart, the bin predicts without group terms; a group that
    it lacks is predicted as the reference.
    """
    if not part:
        return lambda r: 0.0
    groups = sorted({r["group"] for r in part} - {reference}) if grouped else []
    if grouped and all(r["group"] != reference for r in part):
        return line(part, reference, grouped=False)
    varies = len({r["score"] for r in part}) > 1
    if groups and varies and len({(r["group"], r["score"]) for r in part}) == len(groups) + 1:
        return line(part, reference, grouped=False)

    def features(r):
        return [1.0, *(float(r["group"] == g) for g in groups), *([r["score"]] if varies else [])]

    beta = np.linalg.lstsq(np.array([features(r) for r in part]), np.array([r["y"] for r in part]), rcond=None)[0]
    return lambda r: float(np.array(features(r)) @ beta)


def predicted(rows, inner, reference, fitted, *, grouped=True):
    """Outcome that the row's bin regression predicts, fitted on the rows `fitted` of that bin."""
    lines = [
        line([r for r in fitted if bin_of(r["score"], inner) == b], reference, grouped=grouped)
        for b in range(len(inner) + 1)
    ]
    return [lines[bin_of(r["score"], inner)](r) for r in rows]


def reallocated(rows, hat):
    """Indices of the rows that get the slots: per request as many as were treated, highest prediction first."""
    chosen = []
    for q in sorted({r["query"] for r in rows}):
        mine = [i for i, r in enumerate(rows) if r["query"] == q]
        slots = sum(rows[i]["treated"] for i in mine)
        chosen.append(sorted(mine, key=lambda i: (-round(hat[i], 11), -rows[i]["score"], i))[:slots])
    return chosen


def ranked(rows):
    """Indices of all rows, request by request, best score first."""
    return [
        sorted((i for i, r in enumerate(rows) if r["query"] == q), key=lambda i: (-rows[i]["score"], i))
        for q in sorted({r["query"] for r in rows})
    ]


def counterfactual(rows, inner, reference, scope, lowest, fold_of, folds, recalibrated):
    """F5.5 and F5.6 with folds: worth, slots and places per group, as they are ("before") and given again ("after")."""
    rows = [r for r in rows if r["treated"] or r["score"] >= lowest]
    fitted = [r for r in rows if r["treated"] and scope[0] <= r["score"] <= scope[1]]
    worth, places = {"before": 0.0, "after": 0.0}, {"before": [], "after": []}
    for fold in range(folds):
        own = [r for r in fitted if fold_of[r["query"]] == fold]
        others = [r for r in fitted if fold_of[r["query"]] != fold] if folds > 1 else own
        mine = [r for r in rows if fold_of[r["query"]] == fold]
        value = predicted(mine, inner, reference, own)
        after = reallocated(mine, predicted(mine, inner, reference, others))
        if recalibrated:
            before = reallocated(mine, predicted(mine, inner, reference, others, grouped=False))
        else:
            before = ranked(mine)
        for side, lists in (("before", before), ("after", after)):
            for one in lists:
                for place, i in enumerate(one, start=1):
                    as_is = side == "before" and not recalibrated
                    if as_is and not mine[i]["treated"]:
                        continue
                    worth[side] += mine[i]["y"] if as_is and folds == 1 else value[i]
                    places[side].append((mine[i]["group"], place))
    return worth, places
