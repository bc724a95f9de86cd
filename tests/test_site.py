"""What the build of the site adds to the pages: tables of the cards, the reference."""

import re
import sys
from pathlib import Path

import pytest

import evenhand as eh
from evenhand import metrics  # noqa: F401  (fills the registry)
from evenhand.cards import REGISTRY

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture
def site(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "site"))
    import reference
    import tables

    yield {"reference": reference, "tables": tables}
    for name in ("reference", "tables"):
        sys.modules.pop(name)


def test_the_decision_page_lists_every_metric(site):
    made = site["tables"].filled((DOCS / "which-number.md").read_text(encoding="utf-8"))
    assert set(re.findall(r"^\| \[`(\w+)`\]", made, re.MULTILINE)) == set(REGISTRY)
    assert "<!-- table" not in made


def test_the_reference_has_every_public_name_and_every_parameter_of_every_audit(site):
    from evenhand.audits.declare import find, names

    page = "\n".join(site["reference"].pages().values())
    for name in set(eh.__all__) - {"__version__", "metrics"}:
        assert f"`eh.{name}`" in page, name
    for name in names():
        part = page.split(f"### `eh.{name}`\n", 1)[1].split("\n### ", 1)[0] if hasattr(eh, name) else ""
        assert all(f"| `{p}` |" in part for p in find(name).parameters) or not part, name


def test_the_command_line_has_every_verb_with_all_its_options(site):
    from evenhand.cli import VERBS

    page = site["reference"].pages()["commands.md"]
    assert all(f"## `evenhand {verb}`" in page for verb in VERBS)
    assert page.count("--min-units") > 5
