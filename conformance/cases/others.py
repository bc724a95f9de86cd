"""Recommenders, outcomes, and lists before and after."""

from conformance.cases import case, law

MATRIX = {
    "scores": [[0.9, 0.8, 0.1, 0.2], [0.9, 0.1, 0.8, 0.2], [0.3, 0.7, 0.6, 0.5], [0.4, 0.9, None, 0.1]],
    "user_groups": ["a", "a", "b", "b"],
    "protected": "b",
    "versus": "a",
    "top": 2,
    "relevant": [[1, 1, 0, 0], [1, 0, 0, 1], [0, 1, 1, 0], [0, 0, 1, 1]],
}
SAME_ITEM = {**MATRIX, "scores": [[1, 0, 0, 0]] * 4, "top": 1}
DISJOINT = {**MATRIX, "scores": [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]], "top": None, "threshold": 0.5}
TIED = {**MATRIX, "scores": [[0.5, 0.5, 0.5, 0.1]] * 4}
FEW = {
    **MATRIX,
    "scores": [[0.9, None, None, 0.2], [None, 0.4, None, None], [0.3, 0.7, 0.6, 0.5], [0.4, 0.9, 0.2, 0.1]],
}
EVEN = {**MATRIX, "scores": [[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0], [0, 1, 0, 1]], "top": None, "threshold": 0.5}
NOTHING = {**MATRIX, "top": None, "threshold": 5}
EMPTY = {**MATRIX, "scores": [], "user_groups": [], "relevant": []}
WHY = (
    (MATRIX, "two items each; one user misses a score"),
    (SAME_ITEM, "everybody is shown the same one item of four"),
    (DISJOINT, "the groups are shown different halves of the catalogue"),
    (TIED, "three items tie for two slots: the lower columns are shown"),
    (FEW, "missing scores are never shown, though slots stay empty"),
    (EVEN, "every item is shown equally often"),
)
CATALOGUE = ("aggregate_diversity", "item_gini", "exposure_entropy", "recommendation_popularity")
SIDES = ("exposure_tv", "exposure_kl", "mad", "precision_ratio", "recall_ratio", "f1_ratio", "mae_ratio", "rmse_ratio")
for name in (*CATALOGUE, *SIDES):
    for given, why in WHY:
        case(name, why, given)
SHORT = {**FEW, "relevant": [[1, 1, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]}
for name in ("precision_ratio", "recall_ratio", "f1_ratio"):
    case(name, "a list shorter than its slots: precision is of what was shown", SHORT)
for name in (*CATALOGUE[1:], "exposure_tv", "exposure_kl"):
    case(name, "nothing is shown to anybody", NOTHING)
case("aggregate_diversity", "nothing is shown to anybody: that is none of it", NOTHING)
case("item_gini", "over pairs of different items", SAME_ITEM, corrected=True)
case("exposure_entropy", "in bits", EVEN, base=2)
case("exposure_entropy", "over its largest value", MATRIX, normalized=True)
case("exposure_kl", "one count more for every item", DISJOINT, smoothing=1)
for name in CATALOGUE:
    law(name, "order", "equal", MATRIX, {**MATRIX, "scores": MATRIX["scores"][::-1]})
SWAPPED = {**MATRIX, "protected": "a", "versus": "b"}
law("exposure_tv", "symmetric", "equal", MATRIX, SWAPPED)
law("mad", "antisymmetric", "negates", MATRIX, SWAPPED)
for name in SIDES[3:]:
    law(name, "two-sided", "inverts", MATRIX, SWAPPED)

SINGLE_ITEMS = ("jain_index", "satisfied_items", "count_disparity")
PILED = {"scores": [[int(j < 4 or j == 4 + u) for j in range(10)] for u in range(4)], "threshold": 0.5}
for name in SINGLE_ITEMS:
    for given, why in WHY:
        case(name, why, given)
    case(name, "four items on every list of five, ten items: fewer than five reach the equal deal of two", PILED)
    case(name, "nothing is shown to anybody", NOTHING)
    law(name, "order", "equal", MATRIX, {**MATRIX, "scores": MATRIX["scores"][::-1]})
ALIKE, TURNS = {"lists": [[0, 1], [0, 1], [0, 1]], "items": 3}, {"lists": [[0, 1], [1, 2], [2, 0]], "items": 3}
for name in ("ai_disparity", "ii_disparity", "ranked_gini"):
    case(name, "everybody is shown the same list", ALIKE)
    case(name, "every item stands at every rank once", TURNS)
    case(name, "lists of different lengths", {"lists": [[3], [1, 0, 2], []], "items": 5})
    case(name, "discount log2(rank + 1)", {"lists": [[0, 1, 2], [0, 2, 1]], "items": 4}, attention="log(offset=1)")
    case(name, "patience 0.85", {"lists": [[0, 1, 2], [0, 2, 1]], "items": 4}, attention="rbp(patience=0.85)")
    case(name, "there are no users", {"lists": [], "items": 3})
case("ranked_gini", "nothing is shown to anybody", {"lists": [[], []], "items": 3})
law("ii_disparity", "blind to who is shown what", "equal", ALIKE, TURNS)
law("ai_disparity", "the same list for all is most", "falls", ALIKE, TURNS)

# --- outcomes ---------------------------------------------------------------------------------------------------------

TEST = {
    "score": [1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6, 5],
    "outcome": [1, 2, 3, 1.5, 2.5, 3.5, 4, 4, 6, 5, 6, 6, 4],
    "bin": [0] * 6 + [1] * 7,
    "group": ["F"] * 3 + ["M"] * 3 + ["F"] * 3 + ["M"] * 3 + ["X"],
    "reference": "F",
}
for group in ("M", "X"):
    for name in ("pooled_gap", "spline_gap"):
        case(name, f"the gap of {group} to F over both bins", {**TEST, "of": group})
case("outcome_gap", "parallel lines, half a point apart", {**TEST, "of": "M", "at": 0})
case("outcome_gap", "three groups share one slope", {**TEST, "of": "M", "at": 1})
case("outcome_gap", "a group of one row", {**TEST, "of": "X", "at": 1})
case("outcome_gap", "the group is not in the bin", {**TEST, "of": "X", "at": 0})
FLAT = {
    "score": [2, 2, 2, 2],
    "outcome": [0, 1, 1, 1],
    "bin": [0] * 4,
    "group": ["F", "F", "M", "M"],
    "reference": "F",
    "of": "M",
}
case("outcome_gap", "one score only: the difference of the means", {**FLAT, "at": 0})
case("pooled_gap", "one score only", FLAT)
case("spline_gap", "one score only", FLAT)
CONFOUNDED = {**FLAT, "score": [1, 1, 2, 2]}
case("outcome_gap", "score and group cannot be told apart", {**CONFOUNDED, "at": 0})
case("spline_gap", "score and group cannot be told apart", CONFOUNDED)
TWO = {
    "score": [1, 2, 1, 2, 3, 4, 3, 4, 4],
    "outcome": [0, 1, 1, 1, 0, 1, 1, 0, 1],
    "bin": [0] * 4 + [1] * 5,
    "group": ["F", "F", "M", "M", "F", "F", "M", "M", "M"],
    "reference": "F",
    "of": "M",
}
case("outcome_gap", "a yes-or-no outcome", {**TWO, "at": 1})
case("pooled_gap", "weighted by the rows of the group, not of the bin", TWO)
case("spline_gap", "bends at the end of the first bin", TWO)
law("pooled_gap", "antisymmetric", "negates", {**FLAT}, {**FLAT, "reference": "M", "of": "F"})
law("spline_gap", "antisymmetric", "negates", TWO, {**TWO, "reference": "M", "of": "F"})

HIRED = {"selected": [12, 6, 0, 3], "total": [40, 40, 10, 4]}
for which in range(4):
    case("selection_rate", f"category {which}", HIRED, which=which)
    case("impact_ratio", f"category {which}, against the highest rate", HIRED, which=which)
case("impact_ratio", "nobody was selected", {"selected": [0, 0], "total": [5, 5]}, which=1)
law("impact_ratio", "scale-free", "equal", HIRED, {"selected": [24, 12, 0, 6], "total": [80, 80, 20, 8]})

LESS = {"masses": [[0.6, 2], [0.8, 1], [1, 1]]}
MORE = {"masses": [[0.6, 4], [0.8, 5], [1, 3]]}
for name in ("average_outcome", "marginal_outcome"):
    case(name, "figure 1 of Yu and Saint-Jacques, group X", LESS, bar=0.6)
    case(name, "the same bar for the other group: averages differ, margins do not", MORE, bar=0.6)
    case(name, "a higher bar", MORE, bar=0.7)
    case(name, "nobody is above the bar", LESS, bar=2)
case("equalized_odds_gap", "no gap, and yet X is under-scored at every score",
     {"groups": {"O": [[25, 0.8, 0.8], [25, 0.2, 0.2]], "X": [[32, 0.8, 1], [2, 0.8, 0], [16, 0.2, 0.5]]}})  # fmt: skip
case("equalized_odds_gap", "perfect scores, different qualifications: a gap",
     {"groups": {"O": [[4, 0.6, 0.6], [5, 0.8, 0.8], [3, 1, 1]], "X": [[2, 0.6, 0.6], [1, 0.8, 0.8], [1, 1, 1]]}})  # fmt: skip
case("equalized_odds_gap", "a group without failures", {"groups": {"O": [[1, 0.5, 1]], "X": [[1, 0.5, 0.5]]}})

for name in ("base_rate", "precision", "calibration_gap"):
    for group in ("F", "M", "X"):
        case(name, f"group {group} over both bins", {**TEST, "of": group})
for at, group in ((0, "F"), (1, "M"), (1, "X")):
    case("mean_outcome", f"group {group} in bin {at}", {**TEST, "of": group, "at": at})
case("mean_outcome", "the group is not in the bin", {**TEST, "of": "X", "at": 0})
case("lowest_bin", "outcomes rise with the score", {**TEST, "of": "F"})
case("lowest_bin", "the second bin has the lowest outcomes", {**TWO, "outcome": [1, 1, 1, 1, 0, 1, 1, 0, 1]})
case("lowest_bin", "bins that tie: the first of them", {**TWO, "outcome": [1] * 9})
MANY = {
    "score": [1] * 80 + [2, 3] * 40,
    "outcome": ([0, 1] * 20 + [0, 1, 1, 1] * 10) * 2,
    "bin": [0] * 80 + [1] * 80,
    "group": (["F"] * 40 + ["M"] * 40) * 2,
    "reference": "F",
    "of": "M",
}
ALIKE = {**MANY, "outcome": [0, 1] * 80}
THIN = {name: column[20:60] if isinstance(column, list) else column for name, column in MANY.items()}
for name in ("bin_test", "joint_test", "marginal_test"):
    case(name, "half against three quarters", MANY)
    case(name, "no difference at all in the first bin", {**ALIKE, "score": [1] * 160})
    case(name, "20 rows on a side are too few to be tested", THIN)
case("bin_test", "the score varies in the bin", {**MANY, "at": 1})
SCORED = {
    "score": [1, 2, 3, 4, 5],
    "outcome": [1, 1, 1, 1, 0],
    "group": ["F", "F", "M", "M", "M"],
    "reference": "F",
    "of": "M",
}
case("equal_opportunity_gap", "all good ones of M are scored above all of F", SCORED)
case("equal_opportunity_gap", "scored alike", {**SCORED, "score": [1, 2, 1, 2, 5]})
case(
    "equal_opportunity_gap", "grades: those who reach 1, and those who reach 2", {**SCORED, "outcome": [1, 2, 2, 1, 0]}
)
LISTED = {
    "scores": [9, 8, 7, 6, 0.4, 0.3, 0.2, 0.1], "outcome": [0, 1, 0, 1, 1, 0, 1, 1], "requests": ["a"] * 4 + ["b"] * 4,
    "groups": ["M", "F", "M", "F", "F", "M", "F", "F"], "protected": "F", "versus": "M",
}  # fmt: skip
for why, data in (
    ("neighbours of two lists whose scores have other scales", LISTED),
    (
        "equal scores have no order: one level, with the mean of each group",
        {**LISTED, "scores": [9, 8, 8, 6, 3, 2, 2, 1]},
    ),
    ("graded outcomes", {**LISTED, "outcome": [0, 2, 1, 2, 3, 0, 1, 5]}),
    ("every list has one group", {**LISTED, "groups": ["M"] * 4 + ["F"] * 4}),
):
    case("order_gap", why, data)
    case("order_gap", f"{why}; right above", data, placed="above")
RATES = {
    "score": [1, 2, 3, 4] * 3, "outcome": [1, 1, 1, 1, 0, 0, 0, 0, 1, 0, 1, 0], "treated": [0, 1, 1, 1, 0, 1, 0, 0, 1, 1, 0, 0],
    "group": ["M", "M", "F", "F"] * 3, "reference": "F", "of": "M",
}  # fmt: skip
for name in ("true_positive_rate_gap", "false_positive_rate_gap"):
    case(name, "the group is treated less or more often", RATES)
    case(name, "everybody is treated", {**RATES, "treated": [1] * 12})
    case(name, "the other side", {**RATES, "reference": "M", "of": "F"})
    case(name, "nobody of the group has this outcome", {**RATES, "outcome": [int(name[0] == "f")] * 12})
HELD, GIVEN = {"slots": 10, "rank": 2, "outcome": 6}, {"slots": 12, "rank": 2.5, "outcome": 6.6}
NONE_HELD = {"slots": 0, "rank": 1, "outcome": 0}
for name in ("slots", "mean_rank", "outcome"):
    for when in ("before", "after"):
        case(f"{name}_{when}", "two slots more, half a place lower", {"before": HELD, "after": GIVEN})
        case(f"{name}_{when}", "nothing changes", {"before": HELD, "after": HELD})
        case(f"{name}_{when}", "the other way round", {"before": GIVEN, "after": HELD})
for name in ("slots_gained", "slots_relative_change", "mean_rank_change", "outcome_relative_change"):
    case(name, "two slots more, half a place lower", {"before": HELD, "after": GIVEN})
    case(name, "nothing changes", {"before": HELD, "after": HELD})
    case(name, "the other way round", {"before": GIVEN, "after": HELD})
for name in ("slots_relative_change", "outcome_relative_change"):
    case(name, "there was nothing before", {"before": NONE_HELD, "after": GIVEN})
DRAWS = {"slots": [10, 10, 10], "rank": [2, 2, 2], "outcome": [4, 4, 4]}
for name in ("slots_gained_null", "mean_rank_change_null", "outcome_relative_change_null"):
    case(
        name,
        "the middle of three draws",
        {"before": DRAWS, "after": {"slots": [9, 11, 12], "rank": [3, 2, 1.5], "outcome": [4, 5, 6]}},
    )
    case(name, "draws that change nothing", {"before": DRAWS, "after": DRAWS})
    case(name, "between two draws", {when: {k: v[:2] for k, v in {**DRAWS, **more}.items()} for when, more in
         (("before", {}), ("after", {"slots": [11, 14, 0], "rank": [1, 2, 0], "outcome": [5, 6, 0]}))})  # fmt: skip

# --- lists ------------------------------------------------------------------------------------------------------------

for gains, why in (
    ([1, 3], "the better item second"),
    ([3, 2, 1, 0], "the best order"),
    ([0, 0, 1], "one relevant item, last"),
    ([0, 0], "no gain at all"),
):
    case("ndcg", why, {"gains": gains})
case("ndcg", "a better candidate was left out", {"gains": [1, 0], "candidates": [3, 1, 0]})
case("ndcg", "another attention", {"gains": [1, 3, 2]}, attention="rbp(patience=0.8)")
case("ndcg_relevance", "relevant items that are no candidates count", {"gains": [0, 1], "judgments": [1, 1, 0]})
case("ndcg_relevance", "nothing relevant was shown", {"gains": [0, 0], "judgments": [2, 1]})
case("ndcg_relevance", "fewer judged than shown", {"gains": [0, 3, 0], "judgments": [3]})
case("ndcg_relevance", "nothing is relevant", {"gains": [0, 0], "judgments": [0]})
SAME, TURNED = (
    {"after": ["a", "b", "c"], "before": ["a", "b", "c", "d"]},
    {"after": ["a", "b", "c"], "before": ["b", "a", "c"]},
)
NEW, NO_LIST = {"after": ["a", "d", "b"], "before": ["a", "b", "c", "d", "e"]}, {"after": [], "before": ["a"]}
for name in ("rank_biased_overlap", "least_promoted"):
    case(name, "nothing changed", SAME)
    case(name, "the first two trade places", TURNED)
    case(name, "one item comes from below", NEW)
    case(name, "there is no list", NO_LIST)
case("rank_biased_overlap", "a less patient reader", TURNED, patience=0.5)
law("rank_biased_overlap", "identity is most", "falls_or_stays", SAME, TURNED)
