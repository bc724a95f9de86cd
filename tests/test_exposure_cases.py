"""Every worked case about policies, expected exposure and amortised attention, through the audit."""

import math

import polars as pl
import pytest

import evenhand as eh
from golden_cases import cases, plain

POLICY = ["dp", "eur", "rur"]


def model_text(args):
    params = {k: args[k] for k in ("stop", "patience", "offset") if k in args}
    return f"{args['model']}({', '.join(f'{k}={v!r}' for k, v in params.items())})"


def table(requests):
    """Rankings and judgments of a case."""
    rows = [
        {
            "request": f"q{q}",
            "sample": s,
            "item": d,
            "rank": r,
            "probability": float(ranking["prob"]),
            "weight": float(one["prob"]),
        }
        for q, one in enumerate(requests)
        for s, ranking in enumerate(one["rankings"])
        for r, d in enumerate(ranking["items"], 1)
    ]
    return pl.DataFrame(rows), {f"q{q}": one["rel"] for q, one in enumerate(requests)}


def check(result, metric, expect, tol):
    (found,) = [r for r in result.findings.rows() if r["metric"] == metric]
    if isinstance(expect, dict) and "nan" in expect:
        assert math.isnan(found["estimate"])
        assert found["note"] == expect["nan"]
    elif isinstance(expect, dict) and "inf" in expect:
        assert found["estimate"] == math.inf * expect["inf"]
    else:
        assert found["estimate"] == pytest.approx(plain(expect), abs=tol, rel=0)
        assert found["note"] is None


@cases(POLICY)
def test_policies_give_the_values_of_the_reference_cases(case):
    args = plain(case["args"])
    rankings, relevance = table(args["requests"])
    metric = ("" if args.get("log", True) is False else "log_") + case["fn"]
    params = {k: args[k] for k in ("per_item", "epsilon", "as_printed") if k in args}
    metric += f"({', '.join(f'{k}={v!r}' for k, v in params.items())})" if params else ""
    result = eh.exposure(
        rankings, groups=args["groups"], relevance=relevance, protected=args["plus"], versus=args["minus"],
        attention=model_text(args), sample="sample", probability="probability", weight="weight", metrics=metric,
        interval=None,
    )  # fmt: skip
    check(result, metric, case["expect"], case["tol"])


@cases(["expected_exposure", "expected_exposure_many"])
def test_expected_exposure_gives_the_values_of_the_reference_cases(case):
    args = plain(case["args"])
    requests = args["requests"] if "requests" in args else [args["request"]]
    rankings, relevance = table(requests)
    groups = args.get("groups")
    params = {} if groups else {"level": "item"}
    params |= {k: args[k] for k in ("aggregate",) if k in args}
    inside = f"({', '.join(f'{k}={v!r}' for k, v in params.items())})" if params else ""
    result = eh.exposure(
        rankings, groups=groups or {}, relevance=relevance, attention=model_text(args), sample="sample",
        probability="probability", weight="weight", metrics=[k.lower() + inside for k in case["expect"]], interval=None,
    )  # fmt: skip
    for name, expect in case["expect"].items():
        check(result, name.lower() + inside, expect, case["tol"])


@cases(["iaa"])
def test_amortised_attention_gives_the_values_of_the_reference_cases(case):
    args = plain(case["args"])
    rows = []
    for q, ranking in enumerate(args["rankings"]):
        ranks = {d: r for r, d in enumerate(ranking["items"], 1)}
        for d in dict.fromkeys([*ranking["items"], *ranking["score"]]):
            rows.append({"request": q, "item": d, "rank": ranks.get(d), "score": float(ranking["score"].get(d, 0))})
    groups = args.get("groups")
    metric = f"iaa(level={'group' if groups else 'item'!r}, normalize={args.get('normalize', 'per_ranking')!r})"
    result = eh.exposure(
        pl.DataFrame(rows),
        groups=groups or {},
        score="score",
        attention=model_text(args),
        metrics=metric,
        interval=None,
    )
    check(result, metric, case["expect"], case["tol"])


def test_a_scored_item_that_is_not_shown_has_utility_and_no_attention():
    rows = pl.DataFrame({"request": [1, 1], "item": ["a", "b"], "rank": [1, None], "score": [1.0, 1.0]})
    for metric in ("iaa", "iaa(level='item')", "iaa(normalize='pooled')"):
        found = eh.exposure(rows, groups={"a": "x", "b": "y"}, score="score", metrics=metric, interval=None)
        assert found.frame["estimate"].to_list() == [pytest.approx(1.0)]
