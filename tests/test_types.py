"""Types as a user's type checker sees them: misspelt names are errors, results are annotated, nothing public is Any."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import evenhand as eh

def spread(result: eh.Result) -> list[str]:
    return result.sentences()

table: object = None
reveal_type(eh.inequality(table, unit="a", amount="v", population=None))
reveal_type(eh.compare)
reveal_type(eh.read)
reveal_type(eh.exposure)
eh.compre
eh.metrics.ginni
eh.inequality(table, unit="a", population=None, nan_policy="skip")
eh.inequality(table, unit="a", populaton=None)
"""


@pytest.mark.slow
def test_a_misspelt_name_is_a_type_error_and_no_public_name_is_any(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    settings = ["--strict", "--cache-dir", str(tmp_path / "cache"), "--follow-imports=silent"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *settings, str(script)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[1],
    )
    said = done.stdout
    assert 'Module has no attribute "compre"' in said
    assert 'Module has no attribute "ginni"' in said
    assert 'Argument "nan_policy"' in said
    assert 'Unexpected keyword argument "populaton"' in said or 'Missing named argument "population"' in said
    revealed = [line for line in said.splitlines() if "Revealed type" in line]
    assert len(revealed) == 4
    assert "evenhand.results.Result" in revealed[0]
    assert not any('is "Any"' in line or "-> Any" in line for line in revealed)
