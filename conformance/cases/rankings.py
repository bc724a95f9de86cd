"""Rankings: prefixes, attention, FA*IR, requests, pairs."""

from conformance.cases import case, law


def ranked(text, protected="p"):
    """`"pu?u"`: one letter per rank, ? for an unknown label."""
    return {"labels": [None if letter == "?" else letter for letter in text], "protected": protected}


MIXED, FIRST, LAST, UNKNOWN = ranked("pupu"), ranked("ppuu"), ranked("uupp"), ranked("p?uup?u")
MINORITY, MAJORITY, LONG = ranked("upuupu"), ranked("pppupu"), ranked("puupuuup")
WHY = (
    (MIXED, "taking turns is not perfect: the first prefix has one side only"),
    (FIRST, "all protected first"),
    (LAST, "all protected last: the same distance where sides are treated alike"),
    (MINORITY, "a third is protected"),
    (MAJORITY, "a protected majority: the worst order is not 'all protected first'"),
    (UNKNOWN, "unknown items keep their rank and count in no share"),
)
NEVER = ((ranked(""), "an empty list"), (ranked("??"), "no label is known"), (ranked("uuu"), "one side only"))

for name in ("ndd", "ndr", "ndkl"):
    for given, why in (*WHY, *NEVER):
        case(name, why, given)
    case(name, "the sum alone", MINORITY, normalizer=None)
    case(name, "the exact worst order", MAJORITY, normalizer="max")
    case(name, "the published normaliser: 'all protected first'", MAJORITY, normalizer="published")
case("ndr", "only under-representation counts", FIRST, one_sided=True)
case("ndr", "only under-representation counts, protected last", LAST, one_sided=True)
case("ndkl", "without smoothing", MINORITY, smoothing=None)
for text, why in (
    ("aabbcc", "three labels in blocks"),
    ("abcabc", "three labels in turn"),
    ("abab", "two labels"),
    ("aab?c", "an unknown item"),
):
    given = {"labels": ranked(text)["labels"], "protected": None}
    case("ndjs", why, given)
    case("ndjs", f"{why}, over the worst order", given, normalizer="max")
    case("geyik_ndkl", f"{why}: natural logarithms and 1e-7 on every share", given)
case("geyik_ndkl", "without the epsilon", {"labels": ["a", "a", "b", "b"], "protected": None}, epsilon=0)
for given, why in NEVER:
    case("ndjs", why, {**given, "protected": None})
    case("geyik_ndkl", why, {**given, "protected": None})

for values, why in (
    ([1, 0, -1], "highest first"),
    ([-3, 2, 2, -1], "lowest first, a tie"),
    ([2, None, 1, 1], "an unknown item keeps its rank"),
    ([5], "one item"),
    ([None, None], "nothing is known"),
    ([], "an empty list"),
):
    for name in ("ranking_bias", "output_bias"):
        case(name, why, {"labels": values, "protected": None})

STEPS = ranked("p" * 12 + "u" * 18)
for name in ("pref_nd", "pref_rd", "pref_kl"):
    case(name, "12 protected items first of 30", STEPS)
    case(name, "12 protected items last of 30", ranked("u" * 18 + "p" * 12))
    case(name, "in turn: every tenth prefix mirrors the whole", ranked("pu" * 15))
    case(name, "prefixes of two, four, six", MINORITY, step=2)
    case(name, "discount log2(i + 1), as the authors' code has it", MINORITY, step=2, discount="log2(i+1)")
    case(name, "the sum alone", MINORITY, step=2, normalizer=None)
    case(name, "items after the last full step are never looked at", ranked("pupuuup"), step=3)
    case(name, "shorter than a step", MIXED)
    case(name, "exactly one step: the only prefix is the whole", ranked("pppppuuuuu"))
    for given, why in NEVER:
        case(name, why, given, step=2)
case("pref_rd", "only under-representation counts", MINORITY, step=2, one_sided=True)
case("pref_kl", "every label, none protected", {"labels": list("abcabc"), "protected": None}, step=2)

HALF, SKEWED = {"p": 0.5, "u": 0.5}, {"p": 0.2, "u": 0.8}
for distance in ("js", "kl", "tv", "nd", "rd"):
    case("awrf", f"{distance}, half and half", MIXED, target=HALF, distance=distance)
    case("awrf", f"{distance}, protected last", LAST, target=HALF, distance=distance)
    case("awrf", f"{distance}, an uneven target", LONG, target=SKEWED, distance=distance)
    case(
        "awrf",
        f"{distance}, unknown items take attention that belongs to no group",
        UNKNOWN,
        target=HALF,
        distance=distance,
    )
case("awrf", "no target named: all groups alike", MIXED, target="equal")
case("awrf", "the sign says who gets less", LAST, target=HALF, distance="nd", signed=True)
for attention in ("log", "log(offset=1)", "rbp(patience=0.8)", "uniform", "geometric(stop=0.2)"):
    case("awrf", f"attention {attention}", LONG, target=HALF, distance="tv", attention=attention)
case("awrf", "a group that the target leaves out: infinitely surprising", MIXED, target={"p": 1.0}, distance="kl")
case("awrf", "one group has all the attention: no ratio", ranked("ppp"), target=HALF, distance="rd")
case("awrf", "an empty ranking", ranked(""), target=HALF)
case("awrf", "no label is known", ranked("??"), target=HALF)

for text, p in (("u", 0.3), ("ppp", 0.5), ("puuuup", 0.5), ("uuuuuu", 0.2), ("p?u?up", 0.4), ("upupup", 0.5)):
    case("fair", "the mean chance of as few protected items", ranked(text), p=p)
for text in ("uuupuu", "uuuuup", "uuuuuuuuup", "pupupupupu", "uuu?uuup", "uuuuup?uuu"):
    for adjusted in (True, False):
        why = (
            "every prefix at a level at which fair rankings fail at most alpha in all"
            if adjusted
            else "every prefix at alpha"
        )
        case("fair_satisfied", why, ranked(text), p=0.5, adjusted=adjusted)
        case("fair_violation", f"{why}; the rank as shown", ranked(text), p=0.5, adjusted=adjusted)
case("fair_satisfied", "another share and level", ranked("uuuuuuuupu"), p=0.3, alpha=0.05)
for name in ("fair", "fair_satisfied", "fair_violation"):
    case(name, "an empty ranking", ranked(""), p=0.5)
    case(name, "no label is known", ranked("??"), p=0.5)

# --- requests ---------------------------------------------------------------------------------------------------------

GROUPS = {"a1": "A", "a2": "A", "b1": "B", "b2": "B"}


def requests(*made, groups=None, protected="A", versus="B"):
    return {"requests": list(made), "groups": groups or GROUPS, "protected": protected, "versus": versus}


def one(order, relevance=None, weight=1, **more):
    rankings = [{"probability": 1, "items": order.split()}] if isinstance(order, str) else order
    return {"weight": weight, "rankings": rankings, "relevance": relevance or {}, **more}


ALL = {"a1": 1, "a2": 1, "b1": 1, "b2": 1}
SOME = {"a1": 1, "a2": 0, "b1": 1, "b2": 0}
GRADED = {"a1": 2, "a2": 1, "b1": 1, "b2": 0}
POLICY = [
    {"probability": 0.5, "items": ["a1", "b1", "a2", "b2"]},
    {"probability": 0.5, "items": ["b1", "a1", "b2", "a2"]},
]
UNEVEN = [{"probability": 3, "items": ["a1", "a2", "b1", "b2"]}, {"probability": 1, "items": ["b2", "b1", "a2", "a1"]}]
WORLDS = (
    (requests(one("a1 a2 b1 b2", ALL)), "the protected group first"),
    (requests(one("b1 b2 a1 a2", SOME)), "the protected group last, half of each group relevant"),
    (requests(one(POLICY, SOME)), "a policy that takes turns"),
    (requests(one(UNEVEN, GRADED)), "probabilities that do not add up to 1, and grades of relevance"),
    (
        requests(one("a1 b1 b2 a2", SOME), one("b1 b2 a1", GRADED, weight=3)),
        "two requests of different weight, a shorter list",
    ),
    (
        requests(one("x1 a1 b1 b2", {"x1": 1, **SOME}), groups={**GROUPS, "x1": None}),
        "an item without a group takes a rank and belongs to nobody",
    ),
)
RATIOS = ("dp", "log_dp", "eur", "log_eur", "rur", "log_rur", "exposure_share")
for name in RATIOS:
    for given, why in WORLDS:
        case(name, why, given)
    case(name, "attention rbp", WORLDS[4][0], attention="rbp(patience=0.8)")
case("dp", "per item of the group", WORLDS[4][0], per_item=True)
case("log_dp", "per item of the group", WORLDS[4][0], per_item=True)
for given, why in WORLDS[:2]:
    case("dp", f"{why}; per item, discount log2(rank + 1)", given, per_item=True, attention="log(offset=1)")
    case("eur", f"{why}; discount log2(rank + 1)", given, attention="log(offset=1)")
TWICE = requests(one("a1 b1 b2 a2", SOME), one("b1 b2 a1 a2", ALL))
case("dp", "two rankings, discount log2(rank + 1)", TWICE, per_item=True, attention="log(offset=1)")
case("eur", "two rankings, discount log2(rank + 1)", TWICE, attention="log(offset=1)")
HIDDEN = requests(one("b1 b2", SOME))
for name in RATIOS:
    case(name, "the protected group is never shown: a limit, not an error", HIDDEN)
for name in ("eur", "log_eur", "rur", "log_rur"):
    case(name, "the protected group has nothing relevant", requests(one("a1 b1", {"a1": 0, "a2": 0, "b1": 1, "b2": 1})))
for name in ("dp", "log_dp", "exposure_share"):
    case(name, "nobody with a group is shown", requests(one("x1", SOME), groups={**GROUPS, "x1": None}))

for name in ("eed", "eer", "eel", "target_norm"):
    for given, why in WORLDS:
        case(name, why, given)
    case(name, "item by item", WORLDS[3][0], level="item")
    case(name, "item by item, averaged over requests", WORLDS[4][0], level="item")
    case(name, "each request on its own", WORLDS[4][0], aggregate="per_request")
    case(name, "attention log", WORLDS[2][0], attention="log")
    case(name, "a reader who stops at relevant items", WORLDS[3][0], attention="cascade(patience=0.5, stop=0.5)")

SCORED = (
    (requests(one("a1 b1", scores={"a1": 3, "b1": 1})), "one ranking: nothing can be made up for"),
    (
        requests(one("a1 b1", scores={"a1": 1, "b1": 1}), one("b1 a1", scores={"a1": 1, "b1": 1})),
        "taking turns makes up for it",
    ),
    (
        requests(
            one("a1 a2 b1 b2", scores={"a1": 5, "a2": 0, "b1": 3, "b2": 2}), one("b2 a1", scores={"a1": 1, "b2": 4})
        ),
        "uneven worth",
    ),
)
for given, why in SCORED:
    case("iaa", why, given)
    case("iaa", f"{why}; added up before shares are taken", given, normalize="pooled")
    case("iaa", f"{why}; item by item", given, level="item")
for given, why in SCORED:
    case("iaa", f"{why}; item by item, discount log2(rank + 1)", given, level="item", attention="log(offset=1)")
case("iaa", "every predicted score is zero", requests(one("a1 b1", scores={"a1": 0, "b1": 0})))

SWAPPED = {**WORLDS[4][0], "protected": "B", "versus": "A"}
for name in ("dp", "eur", "rur"):
    law(name, "two-sided", "inverts", WORLDS[4][0], SWAPPED)
    law(f"log_{name}", "antisymmetric", "negates", WORLDS[4][0], SWAPPED)
for name in (*RATIOS, "eed", "eel", "eer"):
    law(name, "order", "equal", WORLDS[4][0], {**WORLDS[4][0], "requests": WORLDS[4][0]["requests"][::-1]})
for name in ("ndd", "ndkl"):
    law(name, "symmetric", "equal", MINORITY, {**MINORITY, "protected": "u"}, normalizer="max")
for name in ("ndd", "ndkl", "ndjs"):
    more = {"normalizer": "max"}
    law(name, "nothing is worse than the worst", "falls_or_stays", LAST, MIXED, **more)

# --- pairs ------------------------------------------------------------------------------------------------------------


def pairs(scores, relevance, groups, requests=None):
    given = {"scores": scores, "relevance": relevance, "groups": list(groups), "protected": "P"}
    return {**given, "requests": requests} if requests else given


PAIRED = (
    (pairs([4, 3, 2, 1], [1, 0, 1, 0], "UUPP"), "one pair in four is wrong"),
    (pairs([1, 2, 3, 4], [1, 1, 0, 0], "UPUP"), "every pair is wrong"),
    (pairs([2, 2, 2, 1], [1, 0, 0, 1], "PUPU"), "ties in score are half right"),
    (pairs([5, 4, 3, 2, 1, 6], [3, 2, 1, 0, 2, 1], "PUPUPU"), "grades: any two that differ are a pair"),
    (
        pairs([3, 2, 1, 3, 2, 1], [1, 0, 1, 0, 1, 0], "PUUUPP", [1, 1, 1, 2, 2, 2]),
        "items of different requests are no pairs",
    ),
)
for given, why in PAIRED:
    case("accuracy", why, given)
    case("inter_acc", why, given)
    case("intra_acc", why, given)
case("accuracy", "no two items differ in relevance", pairs([1, 2], [1, 1], "PU"))
law("accuracy", "order", "equal", PAIRED[3][0], pairs([6, 1, 2, 3, 4, 5], [1, 2, 0, 1, 2, 3], "UPUPUP"))
