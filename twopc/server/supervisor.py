"""Ends a server and removes all its files; also a process that outlives its parent.

`run_directory` calls this module when a server is stopped, and starts it as a script for every server: standard
input is then a pipe that only the parent can write. End of file means that the parent has ended in any way; a byte
before it means that the parent has already cleaned up. The process inherits the directory's lock, so that no sweep
interferes.

A process belongs to a data directory if it is called postgres and its working directory is there, as for every
server process, or if it was started on it and has not entered it yet. A pid read from a file is never sufficient
for sending a signal. This module must not import other modules of the package: it has to work even if they are
changed or removed meanwhile.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

_QUIT_TIMEOUT_S = 6.0  # the postmaster itself kills its children after five
_KILL_TIMEOUT_S = 30.0  # the kernel frees memory with a delay
_POLL_S = 0.002
_IPC_RMID = 0


def clear(directory: Path, sockets: Path) -> tuple[int, ...]:
    """End the server in a run directory, if one is running, remove the directory, and return the server's pids.

    Raises TimeoutError if processes survive SIGKILL; nothing is removed then.
    """
    data = directory / "data"
    pids = end_processes(data)
    remove_shared_memory(data)
    for path in (directory, sockets):
        with suppress(FileNotFoundError):
            shutil.rmtree(path)
    return pids


def processes_of(data: Path) -> list[psutil.Process]:
    """Return every live process of the server on `data`, without zombies."""
    place = os.path.realpath(data)
    results = []
    for process in psutil.process_iter():
        try:
            if process.name() == "postgres" and (
                process.cwd() == place or str(data) in process.cmdline()
            ):
                results.append(process)
        except (psutil.Error, OSError):
            continue  # the process has ended, is a zombie, or belongs to another user
    return results


def end_processes(data: Path) -> tuple[int, ...]:
    """Stop the server on `data` at once (immediate shutdown), by SIGKILL if that does not help.

    Returns the pids that were found; raises TimeoutError if some survive SIGKILL.
    """
    result = processes_of(data)
    if not result:
        return ()  # as after every orderly shutdown: no process is left that could start another
    # Only the postmaster still has the command line with which it was started.
    postmaster = [process for process in result if str(data) in _command_line(process)]
    for process in postmaster:
        _send(process, signal.SIGQUIT)
    if postmaster:
        _becomes_true(lambda: not any(map(_is_alive, result)), _QUIT_TIMEOUT_S)
    kill_processes(data)
    return tuple(process.pid for process in result)


def kill_processes(data: Path) -> None:
    """SIGKILL the postmaster on `data` and all its children; they have ended on return.

    Raises TimeoutError if some have not.
    """

    killed: set[psutil.Process] = set()

    def all_gone() -> bool:
        # Repeated until none is left: the postmaster may have forked between the search and the signal.
        left = processes_of(data)
        for process in left:
            _send(process, signal.SIGKILL)
        # A process that is exiting has no working directory by which it could be found, so its end is awaited.
        killed.update(left)
        return not left and not any(map(_is_alive, killed))

    if not _becomes_true(all_gone, _KILL_TIMEOUT_S):
        pids = ", ".join(str(process.pid) for process in killed if _is_alive(process))
        raise TimeoutError(f"processes {pids} of the server on {data} survive SIGKILL")


def remove_shared_memory(data: Path) -> None:
    """Remove the System V segment that a killed postmaster on `data` has left.

    A postmaster that is shut down removes the segment and `postmaster.pid`; after SIGKILL both stay, and a machine
    has only 4096 such segments. No process of that server may be alive.
    """
    try:
        key, segment = map(
            int, (data / "postmaster.pid").read_text(encoding="utf-8").splitlines()[6].split()
        )
    except (OSError, ValueError, IndexError):
        return  # shut down in order, or killed before it had a segment
    libc = ctypes.CDLL(None)
    if libc.shmget(ctypes.c_int(key), 0, 0) == segment:
        libc.shmctl(segment, _IPC_RMID, None)


def _command_line(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except (psutil.Error, OSError):
        return []


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _send(process: psutil.Process, number: signal.Signals) -> None:
    with suppress(psutil.NoSuchProcess):
        process.send_signal(number)  # psutil first compares the process's start time


def _becomes_true(look: Callable[[], bool], timeout_s: float) -> bool:
    """Wait as `polling.wait_for` does, which may not be importable."""
    never_set = threading.Event()
    end = time.monotonic() + timeout_s
    while not look():
        if time.monotonic() >= end:
            return False
        never_set.wait(_POLL_S)
    return True


def main(directory: str, lock: str, sockets: str) -> None:
    """Wait for the end of the parent, then remove the files that it left."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        # These signals are meant for the parent; only the parent's end matters here.
        signal.signal(number, signal.SIG_IGN)
    if os.read(0, 1):
        os._exit(0)  # without cleanup: the parent waits, and no buffers need to be written
    clear(Path(directory), Path(sockets))
    Path(lock).unlink(missing_ok=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
