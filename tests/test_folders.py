"""Temporary folders: gone with who holds them, and those of a killed process with the next one that needs any."""

import contextlib
import gc
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

import evenhand
from evenhand.sources import folders
from evenhand.sources.folders import LOCK, Folder

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="folders are locked where there is flock")

HOLDS = """
import sys, time
from pathlib import Path
from evenhand.sources.folders import Folder, lasting
held = Folder()
(Path(held.name) / "rows").write_text("some")
print(held.name, flush=True)
{then}
"""


@pytest.fixture
def place(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@contextlib.contextmanager
def holding(place, then="time.sleep(600)"):
    """Another process that holds a folder, and where."""
    environment = {**os.environ, "TMPDIR": str(place), "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS.format(then=then)], env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process, Path(process.stdout.readline().strip()).parent
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def names(place):
    return sorted(p.name for p in place.iterdir())


def test_a_folder_is_gone_with_its_last_holder(place):
    first, second = Folder(), Folder()
    (root,) = place.iterdir()
    assert Path(first.name).parent == Path(second.name).parent == root
    assert root.stat().st_mode & 0o777 == 0o700
    del first
    gc.collect()
    assert names(root) == sorted([LOCK, Path(second.name).name])
    second.remove()
    assert names(root) == [LOCK]
    del second
    gc.collect()
    assert names(place) == []


def test_what_a_killed_process_left_is_removed_by_the_next_one(place):
    with holding(place) as (alive, kept), holding(place) as (killed, left):
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert left.is_dir()
        own = Folder()
        assert not left.exists()
        assert alive.poll() is None
        assert kept.is_dir()
        assert len(names(place)) == 2
        del own
    gc.collect()
    assert names(place) == [kept.name]


def test_a_process_that_ends_leaves_nothing(place):
    for then in ("lasting()", "raise SystemExit(3)", "1 / 0"):
        with holding(place, then) as (process, _):
            process.wait()
            assert names(place) == []


def test_the_command_line_leaves_nothing_when_it_is_told_to_end(place):
    environment = {**os.environ, "TMPDIR": str(place), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "evenhand", "recommender", "-", "--top", "1"]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        process.stdin.write(b"user,item,score\n" + b"1,2,3\n" * 400_000)  # and then it waits for more
        process.stdin.flush()
        while not list(place.glob("*/*/standard input.csv")) and process.poll() is None:
            time.sleep(0.01)
        ended = None
        while ended is None:  # what comes just before Python begins to wait is heard after it
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                ended = process.wait(timeout=5)
        assert ended == 143
    assert names(place) == []


def test_a_forked_process_does_not_remove_what_it_was_forked_from(place):
    then = "import os; child = os.fork(); child and os.waitpid(child, 0); child and print(Path(held.name).exists(), flush=True)"
    with holding(place, then) as (process, _):
        assert process.stdout.readline().strip() == "True"
        process.wait()
        assert names(place) == []


def left_behind(place, name, host=None):
    folder = place / name
    folder.mkdir()
    (folder / "rows").mkdir()
    (folder / LOCK).write_text(platform.node() if host is None else host)
    return folder


def test_what_is_not_surely_left_stays(place, tmp_path_factory, monkeypatch):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    left_behind(place, "evenhand-other", host="another host")
    left_behind(place, "mine")
    (place / "evenhand-notes").mkdir()
    (place / "evenhand-file").write_text("")
    (place / "evenhand-link").symlink_to(left_behind(elsewhere, "evenhand-linked"))
    linked = place / "evenhand-lock-is-a-link"
    linked.mkdir()
    (linked / LOCK).symlink_to(elsewhere / "evenhand-linked" / LOCK)
    os.mkfifo(place / "evenhand-notes" / LOCK)
    there = names(place)
    left = left_behind(place, "evenhand-left")
    (left / "rows" / "link").symlink_to(elsewhere)
    (left / "link").symlink_to(elsewhere)
    Folder().remove()
    gc.collect()
    assert names(place) == there
    assert names(elsewhere / "evenhand-linked") == sorted([LOCK, "rows"])
    left = left_behind(place, "evenhand-of-somebody-else")
    monkeypatch.setattr(folders.os, "getuid", lambda: os.geteuid() + 1)
    Folder().remove()
    assert left.is_dir()


def test_where_locks_are_refused_nothing_is_removed(place, monkeypatch):
    import fcntl

    def refused(*_):
        raise OSError(37, "No locks available")

    left = left_behind(place, "evenhand-left")
    monkeypatch.setattr(fcntl, "flock", refused)
    held = Folder()
    assert left.is_dir()
    own = Path(held.name)
    assert own.is_dir()
    held.remove()
    assert not own.exists()


def test_where_no_folder_can_be_made_it_is_said(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
    with pytest.raises(evenhand.EvenhandError, match=r"no folder can be made for them \(\w+\)\. Set TMPDIR"):
        Folder()


def test_temporary_folders_are_made_in_one_place():
    source = Path(evenhand.__file__).parent
    code = {p.name: [line for line in p.read_text().splitlines() if ">>>" not in line] for p in source.rglob("*.py")}
    words = ("mkdtemp(", "TemporaryDirectory(")
    assert [name for name, lines in code.items() if any(w in line for line in lines for w in words)] == ["folders.py"]
