"""A run directory: all files that one server leaves on this machine, and their removal.

It contains the data directory and the server log, and is in memory if it need not be durable and there is room: a
thousand files are copied there in 20 ms, on some disks in 800. The sockets are under ``/tmp``, because a socket's
path may have only 107 bytes. ``runs/<name>.lock`` in the cache is locked while parent or supervisor lives and
contains both paths; a process that finds it unlocked may remove them. This module must not depend on how a server
is started.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from twopc.errors import ServerError
from twopc.log import get_logger
from twopc.server import supervisor
from twopc.server.binaries import ServerUser, hand_over
from twopc.server.cache import FileLock, cache_directory

logger = get_logger(__name__)

#: File system in memory, if the machine has one.
_MEMORY = Path("/dev/shm")
#: A server takes 50 MB, and up to 300 MB more in use; a machine or container with less memory runs it on disk.
_MEMORY_BYTES_MIN = 2 * 1024**3
_SUPERVISOR_TIMEOUT_S = 10.0
_SOCKET_PATH_BYTES_MAX = 103  # macOS; Linux has 107


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A run directory whose owner had died and which `sweep` removed."""

    directory: Path
    pids: tuple[int, ...]
    """Process ids of the server processes that were still running."""


class RunDirectory:
    """A run directory of this process, with its supervisor."""

    def __init__(self, user: ServerUser | None, *, lasting: bool) -> None:
        """Create the directory; with `lasting`, on disk even if there is room in memory."""
        runs = cache_directory("runs")
        name = secrets.token_hex(5)
        self.path = runs / name if lasting or not _has_room(_MEMORY) else _MEMORY / f"twopc-{name}"
        self.sockets = _socket_parent() / f"twopc-{name}"
        lock = FileLock.try_take(runs / f"{name}.lock")
        if lock is None:
            raise ServerError(f"run directory {self.path} is in use: try again")
        self._lock = lock
        # Written before the directories are created, so that a sweep finds all of them.
        os.write(lock.fd, os.fsencode(f"{self.path}\0{self.sockets}"))
        try:
            for directory in (self.path, self.sockets):
                directory.mkdir(mode=0o700)
                hand_over(directory, user)
            self._supervisor, self._pipe = self._supervise()
        except BaseException:
            _clear(self.path, self.sockets)
            lock.release(remove=True)
            raise

    @property
    def data(self) -> Path:
        """The server's data directory."""
        return self.path / "data"

    @property
    def logfile(self) -> Path:
        """The server log."""
        return self.path / "log"

    @property
    def lockfile(self) -> Path:
        """The lock file that records the directory."""
        return self._lock.path

    @property
    def supervisor_pid(self) -> int:
        """Process id of the supervisor, which clears this directory when its owner dies."""
        return self._supervisor.pid

    def remove(self) -> None:
        """End all processes that still run in the directory and remove it."""
        _clear(self.path, self.sockets)
        self._lock.path.unlink(missing_ok=True)
        with suppress(BrokenPipeError):  # the supervisor was killed
            os.write(self._pipe, b".")
        self.let_go()
        try:
            self._supervisor.wait(timeout=_SUPERVISOR_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._supervisor.kill()
            self._supervisor.wait()

    def let_go(self) -> None:
        """Close pipe and lock in a forked child, whose parent still owns the directory."""
        os.close(self._pipe)
        self._lock.release()

    def _supervise(self) -> tuple[subprocess.Popen[bytes], int]:
        reading, writing = os.pipe()
        try:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    supervisor.__file__,
                    self.path,
                    self._lock.path,
                    self.sockets,
                ],
                stdin=reading,
                # Not the parent's: a process that reads them until end of file would wait for the supervisor too.
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(self._lock.fd,),
                start_new_session=True,  # a signal to the parent's process group must not reach the supervisor
                cwd="/",
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        except BaseException:
            os.close(writing)
            raise
        finally:
            os.close(reading)
        return process, writing


def _clear(directory: Path, sockets: Path) -> tuple[int, ...]:
    try:
        return supervisor.clear(directory, sockets)
    except TimeoutError as error:
        raise ServerError(
            f"{error}: they hang in the kernel, mostly on a disk that does not answer;"
            " see to it, then run `twopc clean`"
        ) from error


def sweep() -> list[Leftover]:
    """Clear every run directory of the current user whose owner and supervisor are dead, and return them.

    Directories in use are skipped: their locks are held.
    """
    swept = []
    for path in sorted(cache_directory("runs").glob("*.lock")):
        lock = FileLock.try_take(path, create=False)
        if lock is None:
            continue
        try:
            recorded = os.fsdecode(os.read(lock.fd, 8192))
            if recorded:  # otherwise the owner died before it had created the directories
                directory, sockets = map(Path, recorded.split("\0"))
                pids = _clear(directory, sockets)
                logger.info("leftover removed", directory=str(directory), pids=pids)
                swept.append(Leftover(directory=directory, pids=pids))
        except BaseException:
            lock.release()  # the file stays for the next sweep
            raise
        lock.release(remove=True)
    return swept


def _has_room(place: Path) -> bool:
    try:
        free = shutil.disk_usage(place).free
    except OSError:
        return False
    return free >= _MEMORY_BYTES_MIN and bool(
        psutil.virtual_memory().available >= _MEMORY_BYTES_MIN
    )


def _socket_parent() -> Path:
    parent = Path("/tmp") if os.access("/tmp", os.W_OK | os.X_OK) else Path(tempfile.gettempdir())
    longest = parent / "twopc-0123456789" / ".s.PGSQL.65535"
    if len(os.fsencode(longest)) > _SOCKET_PATH_BYTES_MAX:
        raise ServerError(
            f"a socket in {parent} would have a path of more than {_SOCKET_PATH_BYTES_MAX} bytes:"
            " set TMPDIR to a shorter one"
        )
    return parent
