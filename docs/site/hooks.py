"""What `make docs` adds to the pages of docs/: what their examples print and draw, formulas, and pages made from the package."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))
import reference
import running
import tables

ROOT = Path(__file__).parents[2]
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
LINK = re.compile(rf"\]\(({'|'.join(map(re.escape, PAGES))})")
FORMULA = re.compile(r'<div class="arithmatex">\\\[(.*?)\\\]</div>', re.DOTALL)


def on_files(files: Files, config, **_) -> Files:
    """Pages that are made from the package, and the repository's own pages that belong in the site."""
    made = reference.pages()
    for name, path in PAGES.items():
        text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
        made[path] = LINK.sub(lambda found: f"]({PAGES[found[1]]}", text)
    for path, text in made.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page, config, files: Files) -> str:
    """Examples with what they print and draw; tables from the cards where a page asks for them."""
    own = page.file.generated_by is None  # what CONTRIBUTING shows is pasted into the package, and tested there
    text, made = running.shown(markdown, page.file.name) if own else (markdown, {})
    for path, content in made.items():
        files.append(File.generated(config, path, content=content))
    return tables.filled(text)


def on_page_content(html: str, **_) -> str:
    """Formulas as MathML, which browsers draw without any script."""
    return FORMULA.sub(lambda found: _formula(found[1]), html)


def _formula(tex: str) -> str:
    written = tex.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    return f'<div class="formula">{convert(written, display="block")}</div>'
