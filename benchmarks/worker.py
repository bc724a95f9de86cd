"""One contestant in a process of its own: told to go, it answers with time, memory and the value it found.

Runs in any environment (it imports nothing but what the task imports). One JSON object per line in, one per line out.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def memory(field: str) -> float | None:
    """Mebibytes of `VmRSS` (now) or `VmHWM` (peak since the last reset), where the system tells."""
    if not STATUS.exists():
        return None
    line = next((one for one in STATUS.read_text().splitlines() if one.startswith(field)), None)
    return None if line is None else int(line.split()[1]) / 1024


def cpu_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def measured(go: Any) -> dict[str, Any]:
    before = memory("VmRSS")
    with contextlib.suppress(OSError):
        RESET.write_text("5")  # forget the peak so far
    wall, cpu = time.perf_counter(), cpu_seconds()
    value = go()
    wall, cpu = time.perf_counter() - wall, cpu_seconds() - cpu
    peak = memory("VmHWM")
    extra = None if peak is None or before is None else max(0.0, peak - before)
    return {"wall": wall, "cpu": cpu, "extra_mib": extra, "value": value}


def main() -> None:
    answers = sys.stdout
    sys.stdout = sys.stderr  # whatever a library prints is not an answer
    first = json.loads(sys.stdin.readline())
    try:
        module, _, name = first["task"].partition(":")
        go = getattr(importlib.import_module(module), name)(**first["arguments"])
        print(json.dumps({"ready": True}), file=answers, flush=True)
        for _ in sys.stdin:
            print(json.dumps(measured(go)), file=answers, flush=True)
    except Exception as error:  # noqa: BLE001  the harness reports it and goes on
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), file=answers, flush=True)


if __name__ == "__main__":
    main()
