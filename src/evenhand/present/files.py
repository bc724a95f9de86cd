"""Output files appear whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO

from evenhand.errors import EvenhandError


def write_whole(path: str | Path, content: str | bytes) -> Path:
    """Write a file so that no reader, and no interruption, ever sees half of it.

    The bytes go to a file without a name where the system has those (a killed process then leaves nothing behind), to a
    hidden neighbour elsewhere; a rename puts the whole file in place.
    """
    target = Path(path)
    data = content.encode() if isinstance(content, str) else content
    try:
        with _unnamed(target) as (handle, name):
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
            name().replace(target)
    except OSError as error:
        raise _unwritable(path, error.strerror or str(error)) from error
    return target


def refuse_unwritable(paths: Iterable[str | Path], inputs: Iterable[str | Path] = ()) -> None:
    """Find a path that cannot be written, or must not be, before the first of several files is."""
    taken = {Path(path).resolve() for path in inputs}
    for path in paths:
        if (whole := Path(path).resolve()) in taken:
            raise EvenhandError(f"{str(path)!r} is read or written by this command already. Write to another file.")
        taken.add(whole)
        folder = Path(path).parent
        if not folder.is_dir():
            raise _unwritable(path, os.strerror(errno.ENOENT))
        if Path(path).is_dir():
            raise _unwritable(path, os.strerror(errno.EISDIR))
        if not os.access(folder, os.W_OK):
            raise _unwritable(path, os.strerror(errno.EACCES))


def _unwritable(path: str | Path, why: str) -> EvenhandError:
    return EvenhandError(
        f"{str(path)!r} cannot be written ({why}). Pass a path in a folder that exists and is writable."
    )


@contextlib.contextmanager
def _unnamed(target: Path) -> Iterator[tuple[IO[bytes], Callable[[], Path]]]:
    """An open file beside the target, and a function that gives it a hidden name there."""
    hidden = target.parent / f".{target.name}.{os.getpid()}.part"
    descriptor = _without_a_name(target.parent)
    if descriptor is None:
        with hidden.open("wb") as handle:
            try:
                yield handle, lambda: hidden
            finally:
                hidden.unlink(missing_ok=True)
        return
    with os.fdopen(descriptor, "wb") as handle:

        def link() -> Path:
            hidden.unlink(missing_ok=True)
            folder = os.open("/proc/self/fd", os.O_RDONLY)  # with a folder given, Python follows the link to the file
            try:
                os.link(str(handle.fileno()), hidden, src_dir_fd=folder, follow_symlinks=True)
            finally:
                os.close(folder)
            return hidden

        try:
            yield handle, link
        finally:
            hidden.unlink(missing_ok=True)  # still there only if it could not be put in place


def _without_a_name(folder: Path) -> int | None:
    """A descriptor of a file that exists in no folder yet; None where the file system has no such thing."""
    if not hasattr(os, "O_TMPFILE") or not Path("/proc/self/fd").exists():
        return None
    try:
        return os.open(folder, os.O_TMPFILE | os.O_WRONLY, 0o666)
    except OSError:
        return None
