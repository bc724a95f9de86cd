"""What the build of the site adds to the pages: output, pictures, tables of the cards, the reference."""

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
    import running
    import tables

    yield {"reference": reference, "running": running, "tables": tables}
    for name in ("reference", "running", "tables"):
        sys.modules.pop(name)


def test_what_a_block_prints_and_the_value_of_a_line_stand_below_it(site):
    page = "```python\nx = 20\nprint('one')\nx + 1\n```\n\nMore.\n\n```python\nx + 2\n```\n"
    text, files = site["running"].shown(page, "page")
    assert text.index("x = 20") < text.index("one\n21") < text.index("More.") < text.rindex("22")
    assert files == {}


def test_a_block_whose_output_the_page_states_itself_gets_no_second_one(site):
    text, _ = site["running"].shown("```python\nprint(1)\n```\n\n```text\n1\n```\n", "page")
    assert ".output" not in text


def test_a_block_of_a_host_is_shown_and_not_run(site):
    page = "```python lenskit\nraise SystemExit\n```\n\n```bash lenskit\nevenhand\n```\n\n## Next\n"
    text, _ = site["running"].shown(page, "page")
    assert text == page.replace(" lenskit", "")


def test_an_example_that_fails_fails_the_build(site):
    with pytest.raises(ZeroDivisionError):
        site["running"].shown("```python\n1 / 0\n```\n", "page")


def test_charts_and_reports_become_files_of_the_site(site):
    page = (
        "```python\nimport evenhand as eh\nimport polars as pl\nt = pl.DataFrame({'u': list('abcdef'), 'x': range(6)})\n"
        "r = eh.inequality(t, unit='u', amount='x', population=None, metrics='gini', interval=None)\n"
        "r.plot('lorenz')\nr.report('r.html')\n```\n"
    )
    text, files = site["running"].shown(page, "page")
    assert set(files) == {"figures/page-1.svg", "figures/page-r.html"}
    assert files["figures/page-1.svg"].startswith(b"<svg")
    assert all(f"]({name})" in text for name in files)


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
