"""The pages under docs/: examples run, and what is generated is up to date."""

import doctest
import importlib.util
import re
import sys
import warnings
from pathlib import Path

import pytest

from evenhand import metrics
from evenhand.cards import REGISTRY

DOCS = Path(__file__).parents[1] / "docs"
ERRATA = (DOCS / "errata.md").read_text(encoding="utf-8")


def generator():
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(name, **names):
    """The results of the examples of a page; fences are no part of what they print."""
    text = re.sub(r"^```.*$", "", (DOCS / name).read_text(encoding="utf-8"), flags=re.MULTILINE)
    test = doctest.DocTestParser().get_doctest(text, names, name, name, 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    return runner.run(test)


def test_every_example_of_the_errata_comes_out():
    found = run("errata.md")
    assert found.attempted >= 40
    assert found.failed == 0


@pytest.mark.parametrize("source", ["000", "001", "002", "003", "004"])
def test_every_source_has_its_part(source):
    assert re.search(rf"^## {source} · ", ERRATA, re.MULTILINE)


@pytest.mark.parametrize(
    "word",
    [
        "factor ½", "1 − 1/K", "1 − min/mean", "from j = 0", "P(V ≤ V_a)", "appendix", "(0, 100)", "Note 3", "Table 2",
        "4.2.2", "Steeper", "Smoothing", "normaliser", "nDR", "absolute values", "Note a", "expands its probability", "γ^L(d)",
        "cascade", "1/g", "[−1, 1]", "non-decreasing", "EED", "all protected items last", "false negative", "PYMK", "≥",
        "Impressed or scored", "by construction", "MAD", "factor n", "ARP", "b / a on the page", "n − 1 in the program",
    ],
)  # fmt: skip
def test_every_known_error_is_told(word):
    assert word in ERRATA


def test_the_page_of_metrics_is_up_to_date():
    for name, content in generator().metrics_pages().items():
        assert (DOCS / name).read_text(encoding="utf-8") == content, "run: python docs/generate.py"


def test_the_page_of_metrics_has_every_card_with_what_the_reader_needs():
    for name, metric in REGISTRY.items():
        page = (DOCS / generator().page_of(metric)).read_text(encoding="utf-8")
        part = page.split(f"## `{name}`", 1)[1].split("\n## ", 1)[0]
        assert metric.card.asks in part
        for heading in ("Range", "Undefined", "Example"):
            assert heading in part, (name, heading)
        for convention in metric.conventions:
            assert convention in part


def test_every_example_on_the_page_of_metrics_runs():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = {}
        for metric in REGISTRY.values():
            names |= vars(sys.modules[metric.function.__module__])
        results = [run(page.name, **{**names, **vars(metrics)}) for page in DOCS.glob("metrics-*.md")]
    assert sum(r.attempted for r in results) >= len(REGISTRY)
    assert sum(r.failed for r in results) == 0
