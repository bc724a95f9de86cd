"""ranx: `pip install ranx`. Users are queries, items are documents."""

from __future__ import annotations

from conformance_parts import Question, graded, over_all_slots, ratio_of_sides, shown, version_of, zero_without_gain

version = version_of("ranx")

NAMES = {"precision_ratio": "precision", "recall_ratio": "recall", "f1_ratio": "f1"}


def adapter(question: Question) -> float:
    metric, data = question["metric"], question["input"]
    if question["parameters"] or metric not in ("ndcg", *NAMES):
        raise NotImplementedError
    from ranx import Qrels, Run, evaluate

    if metric == "ndcg":
        grades, listed = graded(data)
        qrels = {"q": {f"d{i}": int(g) for i, g in enumerate(grades)}}
        run = {"q": {f"d{i}": 1.0 - i / 100 for i in range(listed)}}
        return float(evaluate(Qrels(qrels), Run(run), f"ndcg@{listed}"))
    if data.get("top") is None:
        raise NotImplementedError
    run = {f"q{u}": {f"d{j}": 1.0 - r / 100 for r, j in enumerate(row)} for u, row in enumerate(shown(data))}
    qrels = {f"q{u}": {f"d{j}": int(y > 0) for j, y in enumerate(row)} for u, row in enumerate(data["relevant"])}
    values = evaluate(Qrels(qrels), Run(run), f"{NAMES[metric]}@{data['top']}", return_mean=False)
    return float(ratio_of_sides(data, list(values)))


_SHORT = "ranx divides precision by k also where a list is shorter than k"
REASONS = {
    "ndcg": [("ranx gives 0 where nothing is relevant", zero_without_gain)],
    "precision_ratio": [(_SHORT, over_all_slots)],
    "f1_ratio": [(_SHORT, over_all_slots)],
}
