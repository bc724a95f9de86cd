"""The worked cases of the formula book, and how to hold a value against what they expect."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from evenhand import EvenhandError, UndefinedWarning

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "golden" / "cases.json").read_text(encoding="utf-8"))[
    "cases"
]


def cases(functions: Iterable[str]) -> pytest.MarkDecorator:
    """Parametrise a test over the cases of these reference functions."""
    wanted = set(functions)
    chosen = [case for case in CASES if case["fn"] in wanted]
    assert {case["fn"] for case in chosen} == wanted, "a reference function without a case: check its spelling"
    return pytest.mark.parametrize("case", chosen, ids=[case["id"] for case in chosen])


def plain(value: Any) -> Any:
    """Arguments as the product takes them: `"1/3"` is a fraction, `labels_rle` a long list."""
    if isinstance(value, str) and "/" in value:
        return float(Fraction(value))
    if isinstance(value, list):
        return [plain(v) for v in value]
    return {k: plain(v) for k, v in value.items()} if isinstance(value, dict) else value


def holds(expect: Any, tolerance: float, compute: Callable[[], float]) -> None:
    """Assert that a computation gives the expected number, limit, undefined value with its reason, or error."""
    if isinstance(expect, dict) and "raises" in expect:
        with pytest.raises(EvenhandError):
            compute()
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value = compute()
    reasons = [w.message.reason for w in caught if isinstance(w.message, UndefinedWarning)]
    if isinstance(expect, dict) and "nan" in expect:
        assert math.isnan(value)
        assert reasons == [expect["nan"]]
        return
    assert not reasons
    if isinstance(expect, dict) and "inf" in expect:
        assert value == math.copysign(math.inf, expect["inf"])
    else:
        assert value == pytest.approx(plain(expect), abs=tolerance, rel=0)
