"""Inequality of amounts."""

from conformance.cases import INFINITE, case, law

PLAIN = {"amounts": [1, 2, 3, 4, 10]}
ONE_HOLDER = {"amounts": [0, 0, 0, 10]}
EQUAL = {"amounts": [7, 7, 7]}
NOBODY = {"amounts": [0, 0, 0]}
NONE = {"amounts": []}
TIES = {"amounts": [2, 5, 2, 5, 2, 9, 0, 0]}
SINGLE = {"amounts": [5]}
WEIGHTED = {"amounts": [1, 4, 10], "weights": [3, 2, 1]}
ABSENT = {"amounts": [1, 4, 10, 99], "weights": [3, 2, 1, 0]}
LARGE = {"amounts": [1, 1000, 1000000, 1000000000]}
FRACTIONS = {"amounts": [0.1, 0.2, 0.3, 0.4, 1.5, 2.5]}
HUNDRED = {"amounts": [*range(1, 101)]}
POSITIVE = {"amounts": [1, 2, 3, 4]}

WHY = (
    (PLAIN, "five plain amounts"),
    (ONE_HOLDER, "one unit holds everything; a population form gives less than its upper end"),
    (EQUAL, "all equal: the ideal, exactly"),
    (TIES, "ties and zeros: units that tie must share their ranks"),
    (FRACTIONS, "amounts that binary floats cannot hold exactly"),
    (LARGE, "amounts over nine orders of magnitude: powers and sums must not lose digits"),
)
ALWAYS = (
    "mean",
    "reach",
    "gini",
    "hoover",
    "theil",
    "herfindahl",
    "top_share",
    "bottom_share",
    "equal_share",
    "equivalent_to_top",
    "percentile",
)

for name in ALWAYS:
    for given, why in WHY:
        case(name, why, given)
for name in ("percentile_ratio", "share_ratio", "palma"):
    for given, why in WHY[:1] + WHY[2:3] + WHY[4:]:
        case(name, why, given)
    case(name, "the bottom holds nothing: no number, and no epsilon to make one", ONE_HOLDER)
for name in (*ALWAYS, "percentile_ratio", "share_ratio", "palma", "atkinson", "generalized_entropy"):
    case(name, "there are no units", NONE)
    if name not in ("mean", "percentile", "reach"):
        case(name, "nobody received anything: inequality is undefined, not 0", NOBODY)
for name in ("mean", "percentile", "reach"):
    case(name, "nobody received anything: the number is 0 and it exists", NOBODY)

for name in ("gini", "hoover", "theil", "atkinson", "mean", "reach", "top_share", "percentile"):
    case(name, "a weight of 3 is three units", WEIGHTED)
    case(name, "a weight of 0 is nobody, however much they hold", ABSENT)

case("gini", "the mean over pairs of two different units divides by n - 1", ONE_HOLDER, corrected=True)
case("gini", "the same, on plain amounts", PLAIN, corrected=True)
case("gini", "one unit alone has no pair", SINGLE, corrected=True)
case("gini", "one unit alone is equal to itself", SINGLE)
case("gini", "the sum of 1 to 100: (n - 1) / 3n", HUNDRED)
case("herfindahl", "between 1/n and 1, stretched to 0 and 1", PLAIN, normalized=True)
case("herfindahl", "one holder is 1 either way", ONE_HOLDER, normalized=True)
case("herfindahl", "one unit alone leaves nothing to stretch", SINGLE, normalized=True)

for given, why in WHY:
    case("atkinson", why, given)
for epsilon, why in (
    (0.25, "a mild aversion"),
    (1, "the geometric mean"),
    (2, "the harmonic mean"),
    (3, "beyond the harmonic mean"),
):
    case("atkinson", why, PLAIN, epsilon=epsilon)
case("atkinson", "no aversion at all", PLAIN, epsilon=0)
case("atkinson", "the limit is one minus the least over the mean, not 1", PLAIN, epsilon=INFINITE)
case("atkinson", "a zero and an aversion of 1: the limit is 1, not an error", ONE_HOLDER, epsilon=1)
case("atkinson", "a zero and an aversion above 1", TIES, epsilon=2)
case("atkinson", "a large aversion must not overflow", LARGE, epsilon=30)
case("atkinson", "whole numbers and a whole aversion: no integer powers", POSITIVE, epsilon=2)

for given, why in WHY:
    case("generalized_entropy", why, given, alpha=2)
    case("generalized_entropy", why, given)
for alpha, why in (
    (0, "Theil L, the mean log deviation"),
    (-1, "weight on the bottom"),
    (0.5, "between L and T"),
    (3, "weight on the top"),
):
    case("generalized_entropy", why, PLAIN, alpha=alpha)
case(
    "generalized_entropy",
    "ten times as much leaves the mean log deviation",
    {"amounts": [10, 20, 30, 40, 100]},
    alpha=0,
)
case("generalized_entropy", "a zero makes the mean log deviation infinite", ONE_HOLDER, alpha=0)
case("generalized_entropy", "counts in thousands must not overflow", {"amounts": [1000, 2000, 3000, 4000, 10000]})

for p, why in (
    (0.1, "half of the richest unit"),
    (0.2, "one whole unit"),
    (0.5, "two and a half units"),
    (0, "nobody"),
    (1, "everybody"),
):
    case("top_share", why, PLAIN, p=p)
    case("bottom_share", why.replace("richest", "poorest"), PLAIN, p=p)
case("top_share", "0.55 of 100 units are 55 units, though the float is a little more", HUNDRED, p=0.55)
case("bottom_share", "the same from below", HUNDRED, p=0.55)
for p, why in (
    (0.2, "the first of five"),
    (0.21, "just beyond it"),
    (0.8, "the fourth"),
    (1, "the largest"),
    (0, "the smallest"),
):
    case("percentile", why, PLAIN, p=p)
case("percentile", "0.55 of 100 units are 55 units", HUNDRED, p=0.55)
case("percentile_ratio", "nine tenths over one tenth", HUNDRED, upper=0.9, lower=0.1)
case("percentile_ratio", "the 80th over the 20th of ties: the lower one is 0", TIES)
case("share_ratio", "top tenth over bottom tenth", HUNDRED, upper=0.9, lower=0.1)
case("equivalent_to_top", "the bottom needed for the top 1%", HUNDRED, p=0.01)
case("equivalent_to_top", "read from the top", PLAIN, p=0.1, inverted=True)
case("equal_share", "read from the top", PLAIN, inverted=True)

# --- laws -------------------------------------------------------------------------------------------------------------

FREE_OF_SCALE = (
    "atkinson", "bottom_share", "equal_share", "equivalent_to_top", "generalized_entropy", "gini", "herfindahl", "hoover", "palma",
    "percentile_ratio", "reach", "share_ratio", "theil", "top_share",
)  # fmt: skip
REPLICATES = (*(n for n in FREE_OF_SCALE if n != "herfindahl"), "mean", "percentile")
BEFORE = {"amounts": [1, 2, 2, 5, 8, 9, 12, 20, 31, 60]}
SHUFFLED = {"amounts": [60, 2, 9, 1, 31, 5, 2, 20, 12, 8]}
for name in FREE_OF_SCALE:
    law(name, "scale-free", "equal", BEFORE, {"amounts": [a * 1000 for a in BEFORE["amounts"]]})
for name in REPLICATES:
    law(name, "replication", "equal", BEFORE, {"amounts": BEFORE["amounts"] * 3})
for name in (*FREE_OF_SCALE, "mean", "percentile"):
    law(name, "order", "equal", BEFORE, SHUFFLED)
GIFT = {"amounts": [1, 5, 2, 5, 8, 9, 12, 20, 31, 57]}
for name in ("atkinson", "generalized_entropy", "gini", "herfindahl", "theil"):
    law(name, "transfer", "falls", BEFORE, GIFT)
for name in ("hoover", "top_share"):
    law(name, "weak-transfer", "falls_or_stays", BEFORE, GIFT)
law("bottom_share", "weak-transfer", "rises_or_stays", BEFORE, GIFT)
for name in ("gini", "atkinson", "theil", "herfindahl"):
    relation = "falls_or_stays"
    law(name, "one more with nothing", relation, {"amounts": [*BEFORE["amounts"], 0]}, BEFORE)
