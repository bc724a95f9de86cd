"""The site: Sphinx with MyST. `make docs` builds it; MyST-NB runs the examples, and a warning fails the build."""

import os
import re
import sys
from importlib.metadata import version as installed
from pathlib import Path

from latex2mathml.converter import convert

from evenhand.report.charts.theme import DARK, LIGHT
from evenhand.report.pages import variables

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "site")]
import reference  # noqa: E402
import tables  # noqa: E402

project, author, copyright = "evenhand", "the evenhand authors", "the evenhand authors"
release = version = installed("evenhand")
extensions = ["myst_nb"]
exclude_patterns = ["site", "jupyter_execute", "upstream"]
nitpicky = True

html_theme = "furo"
html_title = "evenhand"
html_theme_options = {  # charts are drawn in the page's own colours, and so follow its light or dark setting
    "light_css_variables": {"color-brand-primary": "#00695c", "color-brand-content": "#00695c", **variables(LIGHT)},
    "dark_css_variables": {"color-brand-primary": "#4db6ac", "color-brand-content": "#4db6ac", **variables(DARK)},
}
html_static_path = ["site/static"]
html_css_files = ["site.css"]
html_favicon = "site/static/favicon.svg"
html_copy_source = html_show_sourcelink = html_show_sphinx = False
html_math_renderer = "mathml"
pygments_style, pygments_dark_style = "friendly", "github-dark"

myst_enable_extensions = ["dollarmath", "attrs_inline"]
myst_heading_anchors = 5
suppress_warnings = ["myst.header"]  # an included README starts at its own level

nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_output_stderr = "error"
os.environ["IPYTHONDIR"] = str(HERE / "site" / "ipython")  # its startup file says how charts and results are shown

NOTEBOOK = "---\nfile_format: mystnb\nkernelspec:\n  name: python3\n---\n\n"
EXAMPLE = re.compile(r"^```python\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
ROOT_PAGE = re.compile(r"^<!-- include: (\S+) -->$", re.MULTILINE)
ROOT_PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SUPPORT.md": "support.md",
    "SECURITY.md": "security.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
}
HOST = re.compile(r"^```(\w+) \w+$", re.MULTILINE)
"""A block that belongs to a host or an engine which this environment lacks: shown, never run."""


def read(app, name, source):
    """A page as MyST-NB wants it: its `python` blocks are cells; tables of the cards stand where comments ask for them."""
    text = tables.filled(source[0])
    cells = NOTEBOOK + EXAMPLE.sub(_cell, text) if EXAMPLE.search(text) else text
    source[0] = ROOT_PAGE.sub(_root_page, HOST.sub(r"```\1", cells))


def _cell(found):
    stated = found.string[found.end() :].startswith("\n```text\n")  # the page itself says what it prints
    tags = ":tags: [remove-output]\n" if stated else ""
    return f"```{{code-cell}} python\n{tags}{found[1]}```\n"


def _root_page(found):
    """A page of the repository's root, as it stands but for its links; what it shows is tested there."""
    text = (HERE.parent / found[1]).read_text(encoding="utf-8").replace("](docs/", "](")
    for name, page in ROOT_PAGES.items():
        text = text.replace(f"]({name}", f"]({page}")
    return re.sub(r"(!\[.*\]\()report.png\)", r"\1report.png){.only-light}\n\1report-dark.png){.only-dark}", text)


def write_reference(app):
    """Pages that are made from the package."""
    for name, text in reference.pages().items():
        page = HERE / name
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


def formula(visitor, node):
    """MathML, which browsers draw without any script."""
    from docutils import nodes

    block = isinstance(node, nodes.math_block)
    visitor.body.append(convert(node.astext(), display="block" if block else "inline"))
    raise nodes.SkipNode


def setup(app):
    os.environ["SITE"] = str(app.outdir)
    app.connect("builder-inited", write_reference)
    app.connect("source-read", read)
    app.add_html_math_renderer("mathml", (formula, None), (formula, None))
