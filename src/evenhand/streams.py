"""Random streams: one for each slice, made from the seed and the labels of the slice."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any

import numpy as np


def stream(seed: int, *labels: Any) -> np.random.Generator:
    """Generator that depends on the seed and the labels only, never on what else is computed."""
    digest = hashlib.blake2b(repr([_plain(label) for label in labels]).encode(), digest_size=8).digest()
    return np.random.default_rng(np.random.SeedSequence([seed, int.from_bytes(digest, "big")]))


def _plain(label: Any) -> Any:
    """A label as every engine means it: the same moment has several names of its time zone."""
    if isinstance(label, datetime) and label.tzinfo is not None:
        return label.astimezone(UTC).isoformat()
    return label.item() if isinstance(label, np.generic) else label
