"""Temporary folders, removed with their owner; those of killed processes by the next.

All folders of a process lie in one, which holds a file that the process keeps locked. The system lets go of the lock of a
killed process: the next one that makes a folder finds it free, and removes what was left. What is not surely left stays:
folders of other users, of other hosts on a shared disk, and wherever locks are refused.
"""

from __future__ import annotations

import os
import platform
import shutil
import stat
import sys
import weakref
from pathlib import Path
from tempfile import gettempdir, mkdtemp

from evenhand.errors import EvenhandError

PREFIX, LOCK = "evenhand-", ".evenhand-lock"


class Folder:
    """A directory of its own, which is gone with the last who holds it."""

    def __init__(self) -> None:
        try:
            self._root = _root()
            self.name = mkdtemp(dir=self._root.name)
        except OSError as error:
            raise EvenhandError(
                f"Temporary files are needed, and no folder can be made for them ({type(error).__name__}). "
                "Set TMPDIR to a folder that can be written to."
            ) from error
        self.remove = weakref.finalize(self, _remove, self.name, os.getpid())


_LASTING: list[Folder] = []


def lasting() -> Path:
    """A folder that stays until Python ends."""
    _LASTING.append(Folder())
    return Path(_LASTING[-1].name)


class _Root:
    """The folder of a process, which is there while any of its folders is."""

    def __init__(self) -> None:
        _remove_left(gettempdir())
        self.name = mkdtemp(prefix=PREFIX)
        weakref.finalize(self, _remove, self.name, os.getpid(), _locked(self.name))


_ROOTS: weakref.WeakValueDictionary[tuple[int, str], _Root] = weakref.WeakValueDictionary()


def _root() -> _Root:
    """That of this process, and not of one that it was forked from."""
    key = os.getpid(), gettempdir()
    root = _ROOTS.get(key)
    if root is None or not os.path.isdir(root.name):
        root = _ROOTS[key] = _Root()
    return root


def remove_all() -> None:
    """Remove every folder of this process, which is about to end."""
    for root in list(_ROOTS.values()):
        _remove(root.name, os.getpid())


def _remove(name: str, process: int, lock: int | None = None) -> None:
    """Remove a folder, its lock last: a process killed on the way leaves it to the next."""
    if process != os.getpid():
        return
    for inside in Path(name).glob("*"):
        if inside.name != LOCK:
            shutil.rmtree(inside, ignore_errors=True)
    shutil.rmtree(name, ignore_errors=True)
    if lock is not None:
        os.close(lock)


def _locked(name: str) -> int | None:
    """The descriptor of a new lock in a folder, renamed once it is locked; None without locks."""
    if sys.platform == "win32":
        return None
    import fcntl

    new = Path(name) / f"{LOCK}-new"
    try:
        descriptor = os.open(new, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(descriptor, platform.node().encode())
        new.rename(new.with_name(LOCK))
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _remove_left(directory: str) -> None:
    """Remove the folders in a directory that killed processes of this user left on this host."""
    if sys.platform == "win32" or not shutil.rmtree.avoids_symlink_attacks:
        return
    try:
        with os.scandir(directory) as entries:
            folders = [Path(e.path) for e in entries if e.name.startswith(PREFIX) and e.is_dir(follow_symlinks=False)]
    except OSError:
        return
    for name in folders:
        if (lock := _free(name / LOCK, name)) is not None:
            _remove(str(name), os.getpid(), lock)


def _free(path: Path, folder: Path) -> int | None:
    """The lock of a folder whose process is gone, now ours; None where that is not sure."""
    import fcntl

    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        lock_stat, folder_stat = os.fstat(descriptor), os.lstat(folder)
        is_regular = stat.S_ISREG(lock_stat.st_mode) and stat.S_ISDIR(folder_stat.st_mode)
        is_own = is_regular and {lock_stat.st_uid, folder_stat.st_uid} == {os.getuid()}
        if is_own and os.read(descriptor, 1 << 10) == platform.node().encode():
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(lock_stat, os.lstat(path)):  # nobody else removed it meanwhile
                return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None
