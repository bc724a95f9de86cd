"""Rankings of viewpoints with a known bias: section 4 of Draws et al. (2020)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from evenhand.errors import EvenhandError, unknown_name

LABELS = (-3, -2, -1, 0, 1, 2, 3)
SETS: dict[str, dict[Any, int]] = {
    "S1": dict(zip(LABELS, (100,) * 7, strict=True)),
    "S2": dict(zip(LABELS, (80, 80, 80, 115, 115, 115, 115), strict=True)),
    "S3": dict(zip(LABELS, (60, 60, 60, 130, 130, 130, 130), strict=True)),
}
"""Table 4: 700 documents each, from balanced to skewed towards support."""

OPPOSING = (-3, -2, -1)


def viewpoint_weights(alpha: float) -> tuple[float, float]:
    """Weights of the first side and of all others when drawing; alpha < 0 favours the first.

    >>> viewpoint_weights(-0.8)
    (1.8001, 0.20009999999999994)
    """
    if isinstance(alpha, bool) or not isinstance(alpha, (int, float)) or not -1 <= alpha <= 1:
        raise EvenhandError(f"alpha={alpha!r} is not a ranking bias. Pass a number from -1 to 1.")
    return 1.0001 - alpha, 1.0001 + alpha


def viewpoints(
    set: str | Mapping[Any, int],
    *,
    alpha: float,
    lists: int,
    kind: Literal["binomial", "multinomial"] = "binomial",
    favoured: int | Sequence[Any] | None = None,
    rng: int | np.random.Generator | None = None,
) -> Any:
    """Lists of viewpoints drawn one by one, without replacement, with a bias of `alpha`.

    Parameters
    ----------
    set : "S1", "S2" or "S3" of the paper, or `{viewpoint: documents}`.
    alpha : from -1 (the first side stands on top) over 0 (no bias) to 1 (it stands at the bottom).
    kind : "binomial", the opposing viewpoints -3, -2, -1 together are the first side; "multinomial", one of them, chosen
        anew for each list.
    favoured : the first side instead: its viewpoints, or how many viewpoints to choose at random for each list.

    Returns
    -------
    Polars frame with columns request, rank, viewpoint.

    >>> viewpoints({"con": 1, "pro": 1}, alpha=-1, lists=1, favoured=["con"], rng=1)["viewpoint"].to_list()
    ['con', 'pro']
    """
    import polars as pl

    counts = sizes(set)
    codes = viewpoint_codes(counts, alpha=alpha, lists=lists, kind=kind, favoured=favoured, rng=rng)
    depth = codes.shape[1]
    labels = pl.Series(list(counts))
    return pl.DataFrame(
        {
            "request": np.repeat(np.arange(1, lists + 1), depth),
            "rank": np.tile(np.arange(1, depth + 1), lists),
            "viewpoint": labels.gather(codes.ravel().astype(np.int64)),
        }
    )


def sizes(set: str | Mapping[Any, int]) -> dict[Any, int]:
    if isinstance(set, str):
        if set not in SETS:
            raise unknown_name("set", set, list(SETS), what="a set of the paper")
        return SETS[set]
    if not isinstance(set, Mapping) or not all(isinstance(n, int) and n > 0 for n in set.values()) or len(set) < 2:
        raise EvenhandError(f"set={set!r} is not a set of documents. Pass 'S1', 'S2', 'S3' or {{viewpoint: how many}}.")
    return dict(set)


def viewpoint_codes(
    counts: Mapping[Any, int],
    *,
    alpha: float,
    lists: int,
    kind: Literal["binomial", "multinomial"] = "binomial",
    favoured: int | Sequence[Any] | None = None,
    rng: int | np.random.Generator | None = None,
) -> npt.NDArray[Any]:
    """(lists, documents) positions of the viewpoints in `counts`, in rank order.

    Drawing without replacement by weight is sorting by Exp(1) / weight.
    """
    if isinstance(lists, bool) or not isinstance(lists, int) or lists < 1:
        raise EvenhandError(f"lists={lists!r} is not a number of lists. Pass 1 or more.")
    stream = np.random.default_rng(rng)
    first, others = viewpoint_weights(alpha)
    slots = np.repeat(np.arange(len(counts)), list(counts.values()))
    chosen = _first_sides(list(counts), lists, kind, favoured, stream)
    weights = np.where(chosen, first, others)
    keys = stream.standard_exponential((lists, len(slots))) / weights[:, slots]
    return slots[np.argsort(keys, axis=1)].astype(np.int8 if len(counts) < 128 else np.int32)


def _first_sides(
    labels: list[Any], lists: int, kind: str, favoured: int | Sequence[Any] | None, rng: np.random.Generator
) -> npt.NDArray[np.bool_]:
    """(lists, viewpoints) which viewpoints the bias is about."""
    if kind not in ("binomial", "multinomial"):
        raise unknown_name("kind", str(kind), ["binomial", "multinomial"], what="a kind of simulation")
    if isinstance(favoured, int) and not isinstance(favoured, bool):
        if not 0 < favoured < len(labels):
            raise EvenhandError(
                f"favoured={favoured} of {len(labels)} viewpoints is no side. Pass 1 to {len(labels) - 1}."
            )
        return _some(np.ones(len(labels), dtype=bool), lists, favoured, rng)
    if isinstance(favoured, bool):
        raise EvenhandError(f"favoured={favoured!r} is no side. Pass viewpoints, or how many to choose.")
    side_labels: tuple[Any, ...] = OPPOSING if favoured is None else tuple(favoured)
    unknown = [label for label in side_labels if label not in labels]
    if unknown:
        raise EvenhandError(f"favoured={unknown[0]!r} is not a viewpoint of the set. Pass some of {labels}.")
    side = np.array([label in side_labels for label in labels])
    if kind == "binomial" or favoured is not None:
        return np.broadcast_to(side, (lists, len(labels)))
    return _some(side, lists, 1, rng)


def _some(among: npt.NDArray[np.bool_], lists: int, many: int, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    luck = np.where(among, rng.random((lists, len(among))), np.inf)
    return np.asarray(luck.argsort(axis=1).argsort(axis=1) < many)
