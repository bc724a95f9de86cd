"""The examples of docs/exposure.md run as printed."""

import re
from pathlib import Path

PAGE = (Path(__file__).parents[1] / "docs" / "exposure.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


def test_the_examples_of_the_page_run_as_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in BLOCKS:
        exec(compile(block, "docs/exposure.md", "exec"), names)
    assert (tmp_path / "exposure.html").stat().st_size > 100_000
    assert capsys.readouterr().out.count("\n") == len(names["result"].findings)
    import evenhand as eh

    assert eh.attention.cascade(patience=1, stop=0.5).weights(4, [1, 0, 1, 0]).tolist() == [1, 0.5, 0.5, 0.25]
    assert names["shared"].frame.height == 3
