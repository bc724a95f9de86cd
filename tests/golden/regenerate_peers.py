"""Ask other tools for their numbers on tiny inputs, and write them to peers.json.

    python tests/golden/regenerate_peers.py [--folder peers] [tool ...]

Every group of packages that can share an environment gets one under --folder (kept and reused). Where a package does not
install, its old numbers stay and a line says so. Elliot and expeval are not on PyPI: their numbers are worked out from what
their source says, and marked "read".
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import warnings
from pathlib import Path

HERE = Path(__file__).parent
PEERS = HERE / "peers.json"

# torch first and exactly: its default build drags in gigabytes of CUDA packages.
ENVIRONMENTS = {
    "plain": [["holisticai==1.0.14", "inequality==1.1.2"]],
    "torch": [
        ["torch==2.13.0"],
        ["lenskit==2025.8.1", "recbole==1.2.1", "aif360==0.6.1"],
        ["--no-deps", "fairdiverse==1.0.0"],
    ],
    "misc": [["evidently==0.7.23", "concentrationMetrics==0.6.0"]],
}
TOOLS = {
    "plain": ("holisticai", "pysal"),
    "torch": ("lenskit", "recbole", "aif360", "fairdiverse"),
    "misc": ("evidently", "concentrationmetrics"),
}

AMOUNTS = ([0, 0, 0, 10], [1, 1, 1, 1], [1, 2, 3, 4], [0, 1, 1, 2, 6], [3, 3, 0, 9, 1, 0])
POSITIVE = ([1, 2, 3, 4, 10], [1, 1, 1, 1], [5, 2, 9])

SCORES = [
    [0.9, 0.8, 0.4, 0.2, 0.1],
    [0.7, 0.9, 0.1, 0.65, 0.3],
    [0.3, 0.2, 0.35, 0.25, 0.6],
    [0.2, 0.1, 0.7, 0.8, 0.5],
    [0.8, 0.7, 0.9, 0.1, 0.2],
    [1.0, 0.9, 0.3, 0.6, 0.4],
]
"""No ties at any cut: holisticai leaves those to numpy's argsort, whose order of equals differs between machines."""
GAPS = [
    [0.9, None, 0.4, 0.2, None],
    [None, 0.9, 0.1, 0.7, 0.3],
    [None, None, None, None, 0.6],
    [0.2, 0.1, 0.7, 0.8, 0.5],
    [0.8, 0.7, None, 0.1, 0.2],
    [1.0, 0.9, 0.3, 0.6, 0.4],
]
BITS = [[1, 0, 0, 1, 0], [1, 1, 0, 0, 0], [0, 0, 1, 1, 1], [1, 0, 0, 0, 0], [0, 0, 0, 1, 0], [1, 1, 1, 0, 0]]
TRUTH = [
    [0.7, 0.8, 0.4, 0.2, 0.9],
    [0.9, 0.85, 0.1, 0.2, 0.3],
    [0.3, 0.8, 0.2, 0.6, 0.1],
    [0.2, 0.1, 0.7, 0.8, 0.4],
    [0.6, 0.7, 0.9, 0.1, 0.2],
    [1.0, 0.9, 0.3, 0.6, 0.8],
]
GROUPS = ["a", "a", "a", "b", "b", "b"]
LISTS = [[1, 2], [1, 3], [1, 2], [4, 1], [2, 1]]
"""Two items for each of five users, out of six items."""
ITEMS = 6


def plain(value):
    value = float(value)
    return None if math.isnan(value) else "inf" if math.isinf(value) else value


def amounts(tool, package, version, call, metric, x, compute, **params):
    record = {
        "tool": tool,
        "package": package,
        "version": version,
        "call": call,
        "metric": metric,
        "x": x,
        "params": params,
    }
    try:
        return {**record, "value": plain(compute())}
    except (ValueError, ZeroDivisionError) as error:
        return {**record, "raises": type(error).__name__}


def installed(package):
    from importlib.metadata import version

    return version(package)


def holisticai():
    import numpy as np
    from holisticai.bias import metrics as h

    a, b = (np.array([g == label for g in GROUPS], dtype=int) for label in "ab")
    single = {
        "aggregate_diversity": h.aggregate_diversity, "item_gini": h.gini_index, "exposure_entropy": h.exposure_entropy,
        "recommendation_popularity": h.avg_recommendation_popularity,
    }  # fmt: skip
    paired = {"exposure_tv": h.exposure_l1, "exposure_kl": h.exposure_kl}
    judged = {"precision_ratio": h.avg_precision_ratio, "recall_ratio": h.avg_recall_ratio, "f1_ratio": h.avg_f1_ratio}
    errors = {"rmse_ratio": h.recommender_rmse_ratio, "mae_ratio": h.recommender_mae_ratio}
    for name, rows in (("SCORES", SCORES), ("GAPS", GAPS), ("BITS", BITS)):
        scores, truth = np.array(rows, dtype=float), np.array(TRUTH)
        for cut in ({"top": 1}, {"top": 2}, {"top": 3}, {"thresh": 0.5}, {"thresh": 0.3}):
            for metric, function in single.items():
                yield _holistic(metric, function, name, cut, lambda f, c, s=scores: f(s, **c))
            for metric, function in paired.items():
                yield _holistic(metric, function, name, cut, lambda f, c, s=scores: f(a, b, s, **c), "groups")
            for metric, function in judged.items():
                yield _holistic(
                    metric, function, name, cut, lambda f, c, s=scores, t=truth: f(a, b, s, t, **c), "truth"
                )
        yield _holistic("mad", h.mad_score, name, {}, lambda f, c, s=scores: f(a, b, s, **c), "groups")
        for metric, function in errors.items():
            yield _holistic(metric, function, name, {}, lambda f, c, s=scores, t=truth: f(a, b, s, t, **c), "truth")
        normal = {"normalize": True}
        yield _holistic("mad", h.mad_score, name, normal, lambda f, c, s=scores: f(a, b, s, **c), "groups")
    for x in AMOUNTS:
        shown = (np.arange(max(x) + 1)[:, None] < np.array(x)).astype(float)  # it cannot take a single row
        about = (
            "holisticai",
            "holisticai",
            installed("holisticai"),
            "holisticai.bias.metrics.gini_index(0/1 matrix)",
            "gini",
            x,
        )
        yield amounts(*about, lambda s=shown: h.gini_index(s))


def _holistic(metric, function, name, cut, compute, needs=""):
    arguments = {
        "": "mat_pred",
        "groups": "group_a, group_b, mat_pred",
        "truth": "group_a, group_b, mat_pred, mat_true",
    }
    call = f"holisticai.bias.metrics.{function.__name__}({', '.join([arguments[needs], *(f'{k}={v}' for k, v in cut.items())])})"
    record = {
        "tool": "holisticai",
        "package": "holisticai",
        "version": installed("holisticai"),
        "call": call,
        "metric": metric,
    }
    given = cut if "top" in cut or "thresh" not in cut else {"top": None, **cut}
    ours = {"threshold" if k == "thresh" else k: v for k, v in cut.items()}
    return {**record, "scores": name, "needs": needs, "params": ours, "value": plain(compute(function, given))}


def pysal():
    import numpy as np
    from inequality.atkinson import Atkinson
    from inequality.gini import Gini
    from inequality.theil import Theil

    about = ("pysal", "inequality", installed("inequality"))
    for x in AMOUNTS:
        yield amounts(*about, "inequality.gini.Gini(x).g", "gini", x, lambda x=x: Gini(np.array(x)).g)
    for x in (*POSITIVE, [0, 0, 0, 10]):
        for epsilon in (0.5, 1.0, 2.0):
            call = lambda x=x, e=epsilon: Atkinson(np.array(x, dtype=float), e).A  # noqa: E731
            yield amounts(*about, f"inequality.atkinson.Atkinson(x, {epsilon}).A", "atkinson", x, call, epsilon=epsilon)
    for x in POSITIVE:
        yield amounts(*about, "inequality.theil.Theil(x).T", "theil", x, lambda x=x: Theil(np.array(x, dtype=float)).T)


def lenskit():
    import lenskit.data  # noqa: F401  (lenskit.stats cannot be imported before it)
    import numpy as np
    from lenskit.stats import gini

    for x in AMOUNTS:
        about = ("lenskit", "lenskit", installed("lenskit"), "lenskit.stats.gini(x)", "gini", x)
        yield amounts(*about, lambda x=x: gini(np.array(x, dtype=float)))


def recbole():
    import numpy as np
    from recbole.evaluator.metrics import GiniIndex, ItemCoverage, ShannonEntropy

    config = {"topk": [1], "metric_decimal_place": 12}
    about = ("recbole", "recbole", installed("recbole"))
    for x in AMOUNTS:
        shown = np.repeat(np.arange(1, len(x) + 1), x)[:, None]
        call = "GiniIndex.get_gini(item_matrix, num_items=n + 1)"
        yield amounts(*about, call, "gini", x, lambda s=shown, x=x: GiniIndex(config).get_gini(s, len(x) + 1))
    lists = np.array(LISTS)
    for metric, call, compute in (
        ("item_gini", "GiniIndex.get_gini", lambda: GiniIndex(config).get_gini(lists, ITEMS + 1)),
        (
            "aggregate_diversity",
            "ItemCoverage.get_coverage",
            lambda: ItemCoverage(config).get_coverage(lists, ITEMS + 1),
        ),
        ("exposure_entropy", "ShannonEntropy.get_entropy", lambda: ShannonEntropy(config).get_entropy(lists)),
    ):
        yield _of_lists(*about, f"recbole.evaluator.metrics.{call}", metric, compute())


def _of_lists(tool, package, version, call, metric, value):
    record = {"tool": tool, "package": package, "version": version, "call": call, "metric": metric}
    return {**record, "lists": "LISTS", "value": plain(value)}


def aif360():
    import numpy as np
    from aif360.sklearn.metrics import generalized_entropy_index

    about = ("aif360", "aif360", installed("aif360"))
    for x in POSITIVE:
        for alpha in (0, 1, 2):
            call = f"aif360.sklearn.metrics.generalized_entropy_index(x, {alpha})"
            value = lambda x=x, p=alpha: generalized_entropy_index(np.array(x, dtype=float), p)  # noqa: E731
            yield amounts(*about, call, "generalized_entropy", x, value, alpha=alpha)


def fairdiverse():
    import importlib.util
    from importlib.metadata import files

    import numpy as np

    # The package imports solvers that the metric does not need; its module of metrics stands alone.
    where = next(f for f in files("fairdiverse") if str(f) == "fairdiverse/recommendation/metric.py").locate()
    spec = importlib.util.spec_from_file_location("fairdiverse_metric", where)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    Gini = module.Gini
    for x in AMOUNTS:
        about = (
            "fairdiverse",
            "fairdiverse",
            installed("fairdiverse"),
            "fairdiverse.recommendation.metric.Gini(x)",
            "gini",
            x,
        )
        yield amounts(*about, lambda x=x: Gini(np.array(x, dtype=float)))


def evidently():
    import numpy as np
    import pandas as pd
    from evidently.legacy.metrics.recsys.popularity_bias import PopularityBias

    def gini(items):
        frame = pd.DataFrame({"rank": 1, "item": items})
        return PopularityBias(k=1).get_gini(1, frame, "rank", "item")

    about = (
        "evidently",
        "evidently",
        installed("evidently"),
        "PopularityBias(k=1).get_gini(1, recommendations, 'rank', 'item')",
    )
    for x in AMOUNTS:
        yield amounts(*about, "gini", x, lambda x=x: gini(np.repeat(np.arange(len(x)), x)))
    yield _of_lists(*about, "item_gini", gini([item for items in LISTS for item in items]))


def concentrationmetrics():
    import numpy as np
    from concentrationMetrics import Index

    about = ("concentrationmetrics", "concentrationMetrics", installed("concentrationMetrics"))
    for x in AMOUNTS:
        values = np.array(x, dtype=float)
        yield amounts(*about, "concentrationMetrics.Index().gini(x)", "gini", x, lambda v=values: Index().gini(v))
        yield amounts(*about, "concentrationMetrics.Index().hhi(x)", "herfindahl", x, lambda v=values: Index().hhi(v))


def read_from_source():
    """Elliot 0.3.1 (commit fc27efed): what its two formulas give, written out for these inputs."""
    about = {"tool": "elliot", "package": "elliot (GitHub)", "version": "0.3.1, fc27efed", "params": {}, "how": "read"}
    for x in AMOUNTS:
        n, total, ordered = len(x), sum(x), sorted(x)
        corrected = sum((2 * (i + 1) - n - 1) * v for i, v in enumerate(ordered)) / ((n - 1) * total)
        yield {**about, "call": "GiniIndex.eval()", "metric": "gini", "x": x, "value": 1 - corrected}
    flat = [item for items in LISTS for item in items]
    bits = {item: -math.log2(flat.count(item) / len(flat)) for item in flat}
    mean = sum(sum(bits[item] for item in items) / len(items) for items in LISTS) / len(LISTS)
    record = {k: v for k, v in about.items() if k != "params"} | {"lists": "LISTS"}
    yield {**record, "call": "ShannonEntropy.eval()", "metric": "exposure_entropy", "value": mean}
    yield {**record, "call": "ItemCoverage.eval()", "metric": "aggregate_diversity", "value": float(len(set(flat)))}


def python_of(folder, name):
    """The interpreter of an environment, made if it is not there; None where a package does not install."""
    home = Path(folder).resolve() / name
    python = home / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    if not (home / "complete").exists():
        for step in ENVIRONMENTS[name]:
            if subprocess.run([str(python), "-m", "pip", "install", "--quiet", *step], check=False).returncode:
                print(f"{' '.join(step)} does not install; old numbers stay", file=sys.stderr)
                return None
        (home / "complete").touch()
    return python


def measure(tools):
    """What the tools say, as JSON on standard output; runs inside the environment that holds them."""
    warnings.simplefilter("ignore")
    print(json.dumps([record for tool in tools for record in globals()[tool]()]))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tools", nargs="*", help="only these")
    parser.add_argument("--folder", default="peers")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        return measure(args.tools)
    records = {json.dumps(_key(r)): r for r in (json.loads(PEERS.read_text())["records"] if PEERS.exists() else [])}
    for name, tools in TOOLS.items():
        wanted = [t for t in tools if not args.tools or t in args.tools]
        python = python_of(args.folder, name) if wanted else None
        if python is None:
            continue
        answer = subprocess.run(
            [str(python), __file__, "--measure", *wanted], check=True, capture_output=True, text=True
        )
        records |= {json.dumps(_key(r)): r for r in json.loads(answer.stdout.splitlines()[-1])}
    records |= {json.dumps(_key(r)): r for r in read_from_source()}
    held = [records[key] for key in sorted(records)]
    inputs = {
        "SCORES": SCORES,
        "GAPS": GAPS,
        "BITS": BITS,
        "TRUTH": TRUTH,
        "GROUPS": GROUPS,
        "LISTS": LISTS,
        "ITEMS": ITEMS,
    }
    lines = ",\n".join(json.dumps(record) for record in held)
    PEERS.write_text(f'{{"inputs": {json.dumps(inputs)},\n"records": [\n{lines}\n]}}\n', encoding="utf-8")
    print(f"{len(held)} numbers of {len({r['tool'] for r in held})} tools in {PEERS.name}", file=sys.stderr)
    return None


def _key(record):
    return [
        record["tool"],
        record["metric"],
        record["call"],
        record.get("x"),
        record.get("scores"),
        record.get("lists"),
    ]


if __name__ == "__main__":
    main()
