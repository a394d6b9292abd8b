"""Tests of locks and of the cache directory, without a server."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.server.conftest import MakeChild
from twopc.errors import ServerError
from twopc.server.cache import CACHE_VARIABLE, FileLock, cache_directory
from twopc.server.cluster import _prune
from twopc.server.polling import wait_for


def test_lock_excludes(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = FileLock.try_take(path)
    assert lock is not None
    assert FileLock.try_take(path) is None
    assert FileLock.try_take(path, shared=True) is None
    with pytest.raises(ServerError, match=str(path)):
        FileLock.take(path, timeout_s=0.01)
    lock.release()
    again = FileLock.take(path, timeout_s=0.01)
    again.release(remove=True)
    assert not path.exists()


def test_shared_locks_go_together(tmp_path: Path) -> None:
    one = FileLock.take(tmp_path / "lock", shared=True, timeout_s=1)
    two = FileLock.take(tmp_path / "lock", shared=True, timeout_s=1)
    assert FileLock.try_take(tmp_path / "lock") is None
    one.release()
    two.release()


def test_lock_on_a_removed_file_is_none(tmp_path: Path) -> None:
    """A lock on a file that its holder has removed is not held by a process that waited for it."""
    path = tmp_path / "lock"
    first = FileLock.take(path, timeout_s=1)
    first.release(remove=True)
    second = FileLock.take(path, timeout_s=1)
    assert os.fstat(second.fd).st_ino == path.stat().st_ino
    second.release()
    assert FileLock.try_take(tmp_path / "none", create=False) is None
    assert not (tmp_path / "none").exists()


def test_lock_ends_with_its_process(tmp_path: Path, make_child: MakeChild) -> None:
    path = tmp_path / "lock"
    child = make_child(
        "import sys, pathlib\n"
        "from twopc.server.cache import FileLock\n"
        f"lock = FileLock.try_take(pathlib.Path({str(path)!r}))\n"
        "print('{}', flush=True)\n"
        "sys.stdin.read()\n"
    )
    assert child.said() == {}
    assert FileLock.try_take(path) is None
    child.kill()
    lock = FileLock.try_take(path)
    assert lock is not None
    lock.release()


def test_wait_for_says_what_it_saw() -> None:
    with pytest.raises(TimeoutError, match=r"waited 0.01 s for a miracle; last seen: \[\]"):
        wait_for(list, what="a miracle", timeout_s=0.01)


def test_unused_clusters_are_pruned(tmp_path: Path) -> None:
    month_ago = time.time() - 30 * 24 * 3600
    for name in ("old", "new", "in-use", "dead.partial"):
        (tmp_path / name).mkdir()
        if name != "new":
            os.utime(tmp_path / name, (month_ago, month_ago))
    lock = FileLock.take(tmp_path / "in-use.lock", shared=True, timeout_s=1)
    _prune(tmp_path)
    lock.release()
    assert {p.name for p in tmp_path.iterdir()} == {"new", "in-use", "in-use.lock"}


def test_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "a" / "b"))
    assert cache_directory("runs") == tmp_path / "a" / "b" / "runs"
    mode = (tmp_path / "a" / "b" / "runs").stat().st_mode & 0o777
    assert mode == (0o755 if os.geteuid() == 0 else 0o700)
    if os.geteuid() != 0:
        monkeypatch.delenv(CACHE_VARIABLE)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert cache_directory() == tmp_path / "twopc"
        monkeypatch.setenv("XDG_CACHE_HOME", "relative")
        monkeypatch.setenv("HOME", str(tmp_path))
        assert cache_directory() == tmp_path / ".cache" / "twopc"


def test_somebody_elses_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a directory away")
    (tmp_path / "cache").mkdir()
    os.chown(tmp_path / "cache", 65534, 65534)
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    with pytest.raises(ServerError, match="another user"):
        cache_directory()
