"""Names say what a thing is: words that tell a story are kept out of modules, parameters and variables."""

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "evenhand"
# fmt: off
NARRATIVE = frozenset({
    "found", "held", "told", "said", "says", "asked", "asks", "known", "one", "made", "here", "there",
    "apart", "beside", "again", "twice", "own", "given", "wanted", "kept", "theirs", "mine", "ours", "alone",
    "together", "elsewhere", "aside", "whom",
})
# fmt: on
CONTRACT = {
    ("cards.py", "asks"),
    ("cards.py", "says"),
    ("summary.py", "asks"),
    ("corpus.py", "apart"),
    ("claims.py", "made"),
}
"""Names that users rely on: fields of a card and of a claim, a parameter of eh.synthetic.catalogue."""


def stored(tree):
    """Names that code assigns to or takes as parameters, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno


def test_no_name_tells_a_story():
    odd = [
        f"{path.relative_to(SOURCE)}:{line}: {name}"
        for path in sorted(SOURCE.rglob("*.py"))
        for name, line in stored(ast.parse(path.read_text(encoding="utf-8")))
        if name.strip("_") in NARRATIVE and (path.name, name) not in CONTRACT
    ]
    assert not odd, "\n".join(odd)


def test_no_module_tells_a_story():
    modules = {part for path in SOURCE.rglob("*.py") for part in path.relative_to(SOURCE).with_suffix("").parts}
    assert not {m for m in modules if set(m.split("_")) & NARRATIVE}
