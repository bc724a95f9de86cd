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


def selection_rates(of):
    if not any(of["total"]):
        raise Undefined("empty")
    return [frac(x) / frac(n) if n else None for x, n in zip(of["selected"], of["total"], strict=True)]


@defines("selection_rate")
def selection_rate(of, which=0):
    rate = selection_rates(of)[which]
    if rate is None:
        raise Undefined("empty")
    return rate


@defines("impact_ratio")
def impact_ratio(of, which=1):
    """Rate of a category over the highest rate of any."""
    rates = selection_rates(of)
    rate, highest = rates[which], max(r for r in rates if r is not None)
    if rate is None or not highest:
        raise Undefined("zero_denominator")
    return rate / highest


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


def rows_in(of):
    """Rows of one cell: those of the group, in the bin where one is named."""
    return [r for r in rows_of(of) if r[3] == of["of"] and ("at" not in of or r[2] == of["at"])]


def mean(values):
    if not values:
        raise Undefined("group_absent")
    return sum(values) / len(values)


@defines("mean_outcome")
@defines("base_rate")
@defines("precision")
def mean_outcome(of):
    return mean([y for _, y, _, _ in rows_in(of)])


@defines("calibration_gap")
def calibration_gap(of):
    return mean([y - s for s, y, _, _ in rows_in(of)])


@defines("lowest_bin")
def lowest_bin(of):
    rows = rows_of(of)
    if not rows:
        raise Undefined("empty")
    means = {b: mean([y for _, y, at, _ in rows if at == b]) for b in {r[2] for r in rows}}
    return Fraction(1 + min(means, key=lambda b: (means[b], b)))


def wald(rows, reference):
    """The squared gap of two groups over its robust variance (HC1); None where a side has too few rows or outcomes of a kind."""
    (other,) = {g for *_, g in rows} - {reference}
    for group in (other, reference):
        own = [y for _, y, _, g in rows if g == group]
        if len(own) < 30 or min(sum(y > 0 for y in own), sum(y < 1 for y in own)) < 5:
            return None
    varies = len({s for s, *_ in rows}) > 1
    design = [[Fraction(1), Fraction(g == other), *([s] if varies else [])] for s, _, _, g in rows]
    beta = least_squares(design, [y for _, y, _, _ in rows])
    left = [y - sum(a * b for a, b in zip(x, beta, strict=True)) for x, (_, y, _, _) in zip(design, rows, strict=True)]
    columns = list(zip(*design, strict=True))
    normal = [[sum(a * b for a, b in zip(c, d, strict=True)) for d in columns] for c in columns]
    pull = solve(normal, [Fraction(k == 1) for k in range(len(columns))])  # the second row of the inverse
    each = [sum(a * b for a, b in zip(pull, x, strict=True)) * e for x, e in zip(design, left, strict=True)]
    return beta[1] ** 2 / (sum(z * z for z in each) * Fraction(len(rows), len(rows) - len(columns)))


@defines("bin_test")
@defines("marginal_test")
def bin_test(of):
    found = wald([r for r in rows_of(of) if r[2] == of.get("at", 0)], of["reference"])
    if found is None:
        raise Undefined("small_cell")
    return found


@defines("joint_test")
def joint_test(of):
    rows = rows_of(of)
    found = [wald([r for r in rows if r[2] == b], of["reference"]) for b in sorted({r[2] for r in rows})]
    if all(one is None for one in found):
        raise Undefined("small_cell")
    return sum(one for one in found if one is not None)


@defines("equal_opportunity_gap")
def equal_opportunity_gap(of):
    """Largest difference, over scores and grades, in the share of those who reach the grade with at most that score."""
    rows = list(zip(map(frac, of["score"]), map(frac, of["outcome"]), of["group"], strict=True))
    worst = Fraction(0)
    for grade in sorted({y for _, y, _ in rows})[1:]:
        sides = [[s for s, y, g in rows if g == group and y >= grade] for group in (of["of"], of["reference"])]
        for s, _, _ in rows if all(sides) else ():
            mine, theirs = (Fraction(sum(x <= s for x in side), len(side)) for side in sides)
            worst = max(worst, abs(mine - theirs))
    return worst


@defines("order_gap")
def order_gap(of, placed="below"):
    """Mean outcome of `protected` minus `versus`, over neighbours of one request with the protected `placed` below or above."""
    levels = {}
    for s, y, g, q in zip(of["scores"], of["outcome"], of["groups"], of["requests"], strict=True):
        levels.setdefault((q, frac(s)), {}).setdefault(g, []).append(frac(y))
    upper, lower = (of["versus"], of["protected"]) if placed == "below" else (of["protected"], of["versus"])
    gaps = []
    for q, s in levels:
        next_score = max((t for r, t in levels if r == q and t < s), default=None)
        if next_score is not None and upper in levels[q, s] and lower in levels[q, next_score]:
            first, second = (sum(ys) / len(ys) for ys in (levels[q, s][upper], levels[q, next_score][lower]))
            gaps.append(second - first if placed == "below" else first - second)
    if not gaps:
        raise Undefined("no_pairs")
    return sum(gaps) / len(gaps)


def rate(of, outcome):
    shares = []
    for group in (of["of"], of["reference"]):
        given = zip(of["treated"], of["outcome"], of["group"], strict=True)
        held = [frac(t) for t, y, g in given if g == group and y == outcome]
        if not held:
            raise Undefined("zero_denominator")
        shares.append(sum(held) / len(held))
    return shares[0] - shares[1]


@defines("true_positive_rate_gap")
def true_positive_rate_gap(of):
    return rate(of, 1)


@defines("false_positive_rate_gap")
def false_positive_rate_gap(of):
    return rate(of, 0)


# Slots given again: `slots` and `rank` of one group and `outcome` of all, `before` and `after`; a list holds draws.


def part(name, when):
    return lambda of: frac(of[when][name])


for _figure, _name in (("slots", "slots"), ("mean_rank", "rank"), ("outcome", "outcome")):
    for _when in ("before", "after"):
        defines(f"{_figure}_{_when}")(part(_name, _when))


def difference(before, after):
    return after - before


def relative(before, after):
    if not before:
        raise Undefined("zero_denominator")
    return (after - before) / before


def median(values):
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def change(name, how):
    return lambda of: how(frac(of["before"][name]), frac(of["after"][name]))


def change_by_chance(name, how):
    def middle(of):
        pairs = zip(of["before"][name], of["after"][name], strict=True)
        return median([how(frac(a), frac(b)) for a, b in pairs])

    return middle


for _figure, _name, _how in (
    ("slots_gained", "slots", difference),
    ("mean_rank_change", "rank", difference),
    ("outcome_relative_change", "outcome", relative),
):
    defines(_figure)(change(_name, _how))
    defines(f"{_figure}_null")(change_by_chance(_name, _how))
defines("slots_relative_change")(change("slots", relative))
