"""The peers' own functions. Runs in their environment, so nothing of ours is imported here."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def loaded(path: str) -> np.ndarray:
    """The amounts as their owner has them, in memory already: whatever comes on top is the contestant's."""
    x = np.load(path, mmap_mode="r")
    x.max()
    return x


def gini_lenskit(path: str) -> Callable[[], float]:
    import lenskit.data  # noqa: F401  its stats module cannot be imported first
    from lenskit.stats import gini

    x = loaded(path)
    return lambda: float(gini(x))


def gini_pysal(path: str) -> Callable[[], float]:
    from inequality.gini import Gini

    x = loaded(path)
    return lambda: float(Gini(x).g)


def ndkl_fairranktune(path: str, part: int) -> Callable[[], list[float]]:
    """One ranking for each call, as its interface has it; building its frames is not timed."""
    import pandas as pd
    from FairRankTune.Metrics import NDKL

    codes = np.load(path)[:part]
    frame = pd.DataFrame({0: np.arange(codes.shape[1])})
    groups = [dict(enumerate(ranking)) for ranking in codes.tolist()]
    return lambda: [float(NDKL(frame, g)) for g in groups][:20]


def awrf_fairranktune(path: str, part: int) -> Callable[[], None]:
    """One ranking for each call; its AWRF has no target, so it gives no value to compare."""
    import pandas as pd
    from FairRankTune.Metrics import AWRF

    codes = np.load(path, mmap_mode="r")[:part]
    frame = pd.DataFrame({0: np.arange(codes.shape[1])})
    groups = [dict(enumerate(ranking)) for ranking in codes.tolist()]

    def go() -> None:
        for g in groups:
            AWRF(frame, g, 0.5, "MaxMinDiff")

    return go


def ndcg_lenskit(path: str, part: int) -> Callable[[], None]:
    """List by list, the items of the first label being relevant; building its lists is not timed."""
    from lenskit.data import ItemList
    from lenskit.metrics import NDCG

    codes = np.load(path, mmap_mode="r")[:part]
    ids, metric = np.arange(codes.shape[1]), NDCG()
    ranked = ItemList(item_ids=ids, ordered=True)
    relevant = [ItemList(item_ids=ids[ranking == 0]) for ranking in codes]

    def go() -> None:
        for test in relevant:
            metric.measure_list(ranked, test)

    return go


def recommender_holisticai(path: str) -> Callable[[], list[float]]:
    """Its twelve measures one by one, as its own table calls them."""
    from holisticai.bias import metrics as h

    held = np.load(path)
    scores, truth, b = held["scores"], held["truth"], held["group_b"].astype(int)
    a, top = 1 - b, 10

    def go() -> list[float]:
        pair, judged = (a, b, scores), (a, b, scores, truth)
        return [
            float(value)
            for value in (
                h.mad_score(*pair),
                h.exposure_l1(*pair, top=top),
                h.exposure_kl(*pair, top=top),
                h.avg_precision_ratio(*judged, top=top),
                h.avg_recall_ratio(*judged, top=top),
                h.avg_f1_ratio(*judged, top=top),
                h.recommender_rmse_ratio(*judged),
                h.recommender_mae_ratio(*judged),
                h.aggregate_diversity(scores, top=top),
                h.gini_index(scores, top=top),
                h.exposure_entropy(scores, top=top),
                h.avg_recommendation_popularity(scores, top=top),
            )
        ]

    return go
