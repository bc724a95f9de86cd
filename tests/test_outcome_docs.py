"""The examples of docs/outcome.md run as printed, with the numbers they state."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "outcome.md"


def test_every_example_of_the_page_runs(capsys):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 3
    exec(compile("\n".join(blocks), str(PAGE), "exec"), {})
    assert "under-rates female" in capsys.readouterr().out
