"""Tests inside other people's packages: a file is collected only where its host is installed, which `make hosts` sees to."""

from importlib.util import find_spec
from pathlib import Path

import pytest

HOSTS = {
    "test_ir_measures.py": "ir_measures",
    "test_lenskit.py": "lenskit",
    "test_lenskit_study.py": "lenskit",
    "test_mlflow.py": "mlflow",
}

collect_ignore = [file for file, host in HOSTS.items() if find_spec(host) is None]


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if here in Path(item.path).parents:
            item.add_marker(pytest.mark.host)
