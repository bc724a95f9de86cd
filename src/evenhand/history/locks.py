"""One writer at a time; a killed one holds nothing up, since the system itself lets go of its lock."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from evenhand.errors import EvenhandError


@contextlib.contextmanager
def only_writer(target: Path, patience: float = 60.0) -> Iterator[None]:
    """Wait up to `patience` seconds until nobody else writes this file, then keep others out.

    The lock is on a hidden neighbour, since the file itself is replaced. The neighbour is removed by whoever holds it: one who
    was waiting for it then finds that its name leads elsewhere, and takes the new one.
    """
    lock_path = target.parent / f".{target.name[:60]}.lock"
    until = time.monotonic() + patience
    while (descriptor := _try_lock(lock_path)) is None:
        if time.monotonic() > until:
            raise EvenhandError(f"{str(target)!r} is being written by another process. Try again when that has ended.")
        time.sleep(0.02)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # where open files cannot be removed it stays, and holds nobody up
            lock_path.unlink()
        os.close(descriptor)


def _try_lock(lock_path: Path) -> int | None:
    """A descriptor that holds the lock, or nothing where somebody else does."""
    try:
        descriptor = os.open(lock_path, os.O_CREAT | os.O_RDWR, 0o666)
    except OSError as error:
        raise EvenhandError(
            f"{str(lock_path)!r} cannot be written ({error.strerror}). Pass a path in a folder that is writable."
        ) from error
    try:
        _lock(descriptor)
        if os.path.samestat(os.fstat(descriptor), lock_path.stat()):
            return descriptor
    except (BlockingIOError, PermissionError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
