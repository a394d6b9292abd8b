"""The processes of one data directory: found, ended, and what they leave in the kernel removed.

A process is one of them if it is called postgres and works in the data directory, as every server
process does, or was started on it and has not entered it yet. A pid read from a file is never
enough to send a signal. It must not know how a server is started.
"""

from __future__ import annotations

import ctypes
import os
import signal
from contextlib import suppress
from pathlib import Path

import psutil

from twopc.errors import ServerError
from twopc.server.waiting import wait_for

_QUIT_TIMEOUT_S = 6.0  # the postmaster itself kills its children after five
_KILL_TIMEOUT_S = 10.0
_IPC_RMID = 0


def processes_of(data: Path) -> list[psutil.Process]:
    """Every living process of the server on `data`; zombies do not count."""
    place = os.path.realpath(data)
    found = []
    for process in psutil.process_iter():
        try:
            if process.name() == "postgres" and (
                process.cwd() == place or str(data) in process.cmdline()
            ):
                found.append(process)
        except (psutil.Error, OSError):
            continue  # gone meanwhile, a zombie, or somebody else's
    return found


def end_processes(data: Path) -> tuple[int, ...]:
    """Stop the server on `data` at once (immediate shutdown), by force if that does not help.

    Returns the pids that were found; raises `ServerError` if some survive SIGKILL.
    """
    found = processes_of(data)
    pids = tuple(process.pid for process in found)
    postmaster = [p for p in found if p.pid == _postmaster_pid(data)]
    for process in postmaster:
        _send(process, signal.SIGQUIT)
    if postmaster:
        with suppress(TimeoutError):  # stopped or stuck: by force
            wait_for(
                lambda: not processes_of(data),
                what=f"the server on {data} to quit",
                timeout_s=_QUIT_TIMEOUT_S,
            )
    kill_processes(data)
    return pids


def kill_processes(data: Path) -> None:
    """SIGKILL the postmaster on `data` and all its children; they are gone on return.

    Raises `ServerError` if some are not.
    """

    def killed_all() -> bool:
        # Again until none is left: the postmaster may have forked between look and kill.
        left = processes_of(data)
        for process in left:
            _send(process, signal.SIGKILL)
        return not left

    try:
        wait_for(killed_all, what=f"the processes on {data} to die", timeout_s=_KILL_TIMEOUT_S)
    except TimeoutError as error:
        pids = ", ".join(str(process.pid) for process in processes_of(data))
        raise ServerError(
            f"server processes on {data} survive SIGKILL (pids {pids}): they hang in the kernel,"
            " mostly on a disk that does not answer; see to it, then run `twopc clean`"
        ) from error


def remove_shared_memory(data: Path) -> None:
    """Remove the System V segment that a killed postmaster on `data` has left.

    An orderly postmaster removes it and its `postmaster.pid`; after SIGKILL both stay, and a
    machine has only 4096 such segments. No process of that server may be alive.
    """
    try:
        key, segment = map(int, (data / "postmaster.pid").read_text().splitlines()[6].split())
    except (OSError, ValueError, IndexError):
        return  # stopped in order, or killed before it had a segment
    libc = ctypes.CDLL(None)
    if libc.shmget(ctypes.c_int(key), 0, 0) == segment:
        libc.shmctl(segment, _IPC_RMID, None)


def _postmaster_pid(data: Path) -> int:
    try:
        return int((data / "postmaster.pid").read_text().split("\n", 1)[0])
    except (OSError, ValueError):
        return 0


def _send(process: psutil.Process, number: signal.Signals) -> None:
    with suppress(psutil.NoSuchProcess):
        process.send_signal(number)  # psutil looks at the start time first
