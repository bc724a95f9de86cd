"""Outcomes at equal scores: least squares in fractions, solved by elimination, and small worlds of known qualifications.

Input of the outcome test: `score`, `outcome`, `bin` and `group` of every row, the `reference` group, and the `of` group (and
`at` bin) whose gap is asked for.
"""

from __future__ import annotations

from fractions import Fraction

from conformance.definitions import defines
from conformance.exact import Undefined, frac


def solve(matrix, right):
    """Gauss-Jordan in fractions; None where the columns cannot be told apart."""
    n = len(matrix)
    rows = [[*row, b] for row, b in zip(matrix, right, strict=True)]
    for i in range(n):
        at = next((r for r in range(i, n) if rows[r][i]), None)
        if at is None:
            return None
        rows[i], rows[at] = rows[at], rows[i]
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for r in range(n):
            if r != i and rows[r][i]:
                rows[r] = [x - rows[r][i] * y for x, y in zip(rows[r], rows[i], strict=True)]
    return [row[-1] for row in rows]


def least_squares(design, outcomes):
    columns = list(zip(*design, strict=True))
    normal = [[sum(a * b for a, b in zip(c, d, strict=True)) for d in columns] for c in columns]
    return solve(normal, [sum(a * y for a, y in zip(c, outcomes, strict=True)) for c in columns])


def rows_of(of):
    names = ("score", "outcome", "bin", "group")
    return [(frac(s), frac(y), b, g) for s, y, b, g in zip(*(of[n] for n in names), strict=True)]


def gap_in(rows, group, reference):
    """The coefficient of the group beside a constant, a dummy per other group, and the score where it varies."""
    groups = sorted({g for *_, g in rows} - {reference})
    if group not in groups or all(g != reference for *_, g in rows):
        raise Undefined("group_absent")
    varies = len({s for s, *_ in rows}) > 1
    design = [[Fraction(1), *(Fraction(g == o) for o in groups), *([s] if varies else [])] for s, _, _, g in rows]
    found = least_squares(design, [y for _, y, _, _ in rows])
    if found is None:
        raise Undefined("collinear")
    return found[1 + groups.index(group)]


@defines("outcome_gap")
def outcome_gap(of):
    return gap_in([r for r in rows_of(of) if r[2] == of["at"]], of["of"], of["reference"])


@defines("pooled_gap")
def pooled_gap(of):
    """The gaps of the bins that hold both, weighted by the group's rows there."""
    rows, total, many = rows_of(of), Fraction(0), 0
    for b in sorted({r[2] for r in rows}):
        here = [r for r in rows if r[2] == b]
        own = sum(g == of["of"] for *_, g in here)
        if own and any(g == of["reference"] for *_, g in here):
            total += own * gap_in(here, of["of"], of["reference"])
            many += own
    if not many:
        raise Undefined("group_absent")
    return total / many


@defines("spline_gap")
def spline_gap(of):
    """One gap over all scores, the score bending where a bin ends: at the highest score of each bin but the last."""
    rows = rows_of(of)
    groups = sorted({g for *_, g in rows} - {of["reference"]})
    if of["of"] not in groups or all(g != of["reference"] for *_, g in rows):
        raise Undefined("group_absent")
    ends = sorted({max(s for s, _, b, _ in rows if b == here) for here in {r[2] for r in rows}})[:-1]
    lowest = min(s for s, *_ in rows)
    knots = [end for end in ends if end > lowest]
    varies = len({s for s, *_ in rows}) > 1
    design = [
        [
            Fraction(1),
            *(Fraction(g == o) for o in groups),
            *([s] if varies else []),
            *(max(s - k, Fraction(0)) for k in knots),
        ]
        for s, _, _, g in rows
    ]
    found = least_squares(design, [y for _, y, _, _ in rows])
    if found is None:
        raise Undefined("collinear")
    return found[1 + groups.index(of["of"])]


@defines("average_outcome")
def average_outcome(of, bar=0):
    held = [(frac(q), frac(m)) for q, m in of["masses"] if frac(q) >= frac(bar)]
    if not sum(m for _, m in held):
        raise Undefined("nobody_treated")
    return sum(q * m for q, m in held) / sum(m for _, m in held)


@defines("marginal_outcome")
def marginal_outcome(of, bar=0):
    held = [frac(q) for q, m in of["masses"] if frac(q) >= frac(bar) and frac(m)]
    if not held:
        raise Undefined("nobody_treated")
    return min(held)


@defines("equalized_odds_gap")
def equalized_odds_gap(of):
    """Largest difference, over scores and outcomes, between two groups in the share that holds the score given the outcome."""
    worst = Fraction(0)
    for chance in (frac, lambda y: 1 - frac(y)):
        shares = []
        for rows in of["groups"].values():
            total = sum(frac(m) * chance(y) for m, _, y in rows)
            held = {}
            for m, s, y in rows:
                held[s] = held.get(s, 0) + frac(m) * chance(y)
            shares.append((held, total))
        if not any(total for _, total in shares):
            continue
        if not all(total for _, total in shares):
            raise Undefined("zero_denominator")
        for s in {s for held, _ in shares for s in held}:
            values = [held.get(s, 0) / total for held, total in shares]
            worst = max(worst, max(values) - min(values))
    return worst
