"""JSON arrays of objects, as web interfaces hand them out: made into JSON lines, which every engine reads."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path

from evenhand.errors import EvenhandError
from evenhand.sources.folders import lasting


@functools.cache
def as_lines(path: str, role: str) -> str:
    """The path of a file with the same objects, one per line; it is gone when Python ends."""
    try:
        rows = json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise EvenhandError(f"{role}={path!r} cannot be read ({error.strerror}). Pass the path of a file.") from error
    except ValueError as error:
        raise EvenhandError(
            f"{role}={path!r} is not JSON. Pass a JSON array of objects, or JSON lines (.jsonl)."
        ) from error
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise EvenhandError(f"{role}={path!r} is no array of objects. Pass [{{...}}, ...], or JSON lines (.jsonl).")
    copy = lasting() / f"{Path(path).stem}.jsonl"
    copy.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(copy)
