"""ir_measures: `pip install ir-measures`. Users are queries, items are documents."""

from __future__ import annotations

from conformance_parts import Question, graded, over_all_slots, ratio_of_sides, shown, version_of, zero_without_gain

version = version_of("ir_measures", "ir-measures")


def adapter(question: Question) -> float:
    metric, data = question["metric"], question["input"]
    if question["parameters"] or metric not in ("ndcg", "precision_ratio", "recall_ratio"):
        raise NotImplementedError
    import ir_measures
    from ir_measures import Qrel, ScoredDoc

    if metric == "ndcg":
        grades, listed = graded(data)
        measure = ir_measures.nDCG @ listed
        qrels = [Qrel("q", f"d{i}", int(g)) for i, g in enumerate(grades)]
        run = [ScoredDoc("q", f"d{i}", float(-i)) for i in range(listed)]
        return float(ir_measures.calc_aggregate([measure], qrels, run)[measure])
    if data.get("top") is None:
        raise NotImplementedError
    measure = (ir_measures.P if metric == "precision_ratio" else ir_measures.R) @ data["top"]
    run = [ScoredDoc(f"q{u}", f"d{j}", float(-r)) for u, row in enumerate(shown(data)) for r, j in enumerate(row)]
    qrels = [Qrel(f"q{u}", f"d{j}", int(y > 0)) for u, row in enumerate(data["relevant"]) for j, y in enumerate(row)]
    values = {value.query_id: value.value for value in ir_measures.iter_calc([measure], qrels, run)}
    return float(ratio_of_sides(data, [values[f"q{u}"] for u in range(len(data["scores"]))]))


REASONS = {
    "ndcg": [("trec_eval's nDCG is 0 where nothing is relevant", zero_without_gain)],
    "precision_ratio": [("P@k divides by k also where a list is shorter than k", over_all_slots)],
}
