"""Who gets seen, and is it even-handed? Inequality and fairness audits for rankings and recommenders.

The public names are those of `__init__.pyi` beside this file, which type checkers read as well. They are loaded when first
used, so that `import evenhand` costs almost nothing.
"""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from types import ModuleType

__version__ = "0.1.0"

_STUB = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
_WHERE = {name: place for place, name in re.findall(r"^from (\S+) import (\w+) as \2$", _STUB, re.MULTILINE)}
"""Each public name with the module that it is imported from."""

__all__ = ["__version__", *sorted(_WHERE)]


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module 'evenhand' has no attribute {name!r}")
    place = _WHERE[name]
    whole = place in ("evenhand", "evenhand.audits")  # then the name is a module
    value: object = (
        importlib.import_module(f"{place}.{name}") if whole else getattr(importlib.import_module(place), name)
    )
    globals()[name] = value
    return value


class _Package(ModuleType):
    """A package whose public names win over folders of the same name: `eh.sources` is the audit, whatever was imported."""

    def __setattr__(self, name: str, value: object) -> None:
        is_folder = isinstance(value, ModuleType) and value.__name__ == f"{__name__}.{name}"
        if not (is_folder and _WHERE.get(name, __name__) != __name__):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    return sorted(__all__)
