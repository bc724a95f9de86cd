"""Does an implementation compute what the definitions say? Exact vectors and laws, and the score of any tool.

The standard library only. `vectors.json` is plain data under CC0, made by the definitions in `conformance/` of the repository.
"""

from __future__ import annotations

from typing import Any

from evenhand_conformance.kit import Check, KitError, Score, contents, metrics, run, tools

__all__ = ["Check", "KitError", "Score", "__version__", "contents", "metrics", "run", "tools", "vectors"]
__version__ = "1.1.0"
"""The version of the vectors, which is that of the kit."""


def vectors(metric: str | None = None) -> list[dict[str, Any]]:
    """The vectors of a metric, or all of them, for the tests of another project."""
    return [vector for vector in contents()["vectors"] if metric in (None, vector["metric"])]
