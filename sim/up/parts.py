"""The processes beside the servers: log reader, agents, resolver and clean-up; or merge agents.

Each is identified by its command line, which contains the folder and no secret.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from twopc.errors import ServerError
from twopc.server.polling import wait_for
from twopc.sim.merge.attachment import attach as attach_merge
from twopc.sim.operate import attach
from twopc.sim.up.state import State

_READY_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 15.0
#: Line that a process prints once signals stop it cleanly.
RUNS = "runs"
METRICS = "metrics"
CLEAN_UP = "clean-up"
MERGE_AGENT = "merge-agent"
_MODULE = "twopc.sim.up.process"
_TRACED = psutil.STATUS_TRACING_STOP
_SUSPENDED = (psutil.STATUS_STOPPED, _TRACED)


@dataclass(frozen=True, slots=True, order=True)
class TopologyPart:
    """One of the processes."""

    kind: str
    """``log-reader``, ``agent``, ``resolver``, ``clean-up``, ``merge-agent`` or ``metrics``."""
    node: str = ""
    """An agent's Subscriber; empty for other processes."""

    def __str__(self) -> str:
        return (
            f"{self.kind.replace('-', ' ')} of {self.node}"
            if self.node
            else self.kind.replace("-", " ")
        )

    @property
    def file(self) -> str:
        """Name of its log file in the folder."""
        return f"{self.kind}-{self.node}.log" if self.node else f"{self.kind}.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppedProcess:
    """A process that is suspended, by a signal (``kill -STOP``) or by a debugger."""

    process: str
    """Name of the process, in the form of ``str(TopologyPart)``."""
    pid: int
    remedy: str

    def __str__(self) -> str:
        return f"{self.process} (process {self.pid}): {self.remedy}"


def expected_parts(
    state: State, subscribed: Iterable[str], *, any_client: bool
) -> tuple[TopologyPart, ...]:
    """Return the processes that a topology needs.

    Args:
        subscribed: the Subscribers that changes are distributed to.
        any_client: whether any client may write at a Subscriber; without effect on merge replication.
    """
    needed = [TopologyPart(MERGE_AGENT if state.merges else "agent", name) for name in subscribed]
    if not state.merges:
        if needed:
            needed.insert(0, TopologyPart("log-reader"))
        if any_client:
            needed.append(TopologyPart("resolver"))
        needed.append(TopologyPart(CLEAN_UP))
    if state.metrics_port is not None:
        needed.append(TopologyPart(METRICS))
    return tuple(needed)


async def look(state: State) -> tuple[TopologyPart, ...]:
    """Return the processes that a topology needs now; its servers must run."""
    if state.merges:
        async with await attach_merge(state.dsns) as merging:
            return expected_parts(state, merging.subscribers, any_client=False)
    async with await attach(
        state.dsns, coordinator=state.name, newcomers=state.subscribers
    ) as topology:
        return expected_parts(
            state,
            await topology.agents.subscribers(),
            any_client=bool(await topology.any_client.subscribers()),
        )


def running(folder: Path) -> dict[TopologyPart, psutil.Process]:
    """Return the running processes of a folder, suspended ones included."""
    place = str(folder.absolute())
    results = {}
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
            if _MODULE not in words or process.status() == psutil.STATUS_ZOMBIE:
                continue
            at = words.index(_MODULE)
            if words[at + 1 : at + 2] == [place]:
                results[TopologyPart(words[at + 2], *words[at + 3 : at + 4])] = process
        except psutil.Error:
            continue  # ended meanwhile, or another user's
    return results


def stopped(alive: Mapping[TopologyPart, psutil.Process]) -> tuple[StoppedProcess, ...]:
    """Return the suspended processes."""
    results = []
    for part, process in sorted(alive.items(), key=lambda each: each[0]):
        try:
            status = process.status()
        except psutil.Error:
            continue  # ended meanwhile
        if status in _SUSPENDED:
            remedy = (
                "its debugger continues it"
                if status == _TRACED
                else f"`kill -CONT {process.pid}` or `twopc up` continues it"
            )
            results.append(StoppedProcess(process=str(part), pid=process.pid, remedy=remedy))
    return tuple(results)


def start(state: State) -> None:
    """Start missing processes and continue suspended ones; on return, signals stop each of them cleanly.

    Raises:
        ServerError: a process ended at once; contains the last line of its log.
    """
    alive, needed = running(state.folder), asyncio.run(look(state))
    for process in alive.values():
        _send(process, signal.SIGCONT)
    begun = [(part, _start(state.folder, part)) for part in needed if part not in alive]
    for part, process in begun:
        wording = state.folder / part.file

        def ready(message: Path = wording, process: subprocess.Popen[bytes] = process) -> bool:
            return (
                RUNS in message.read_text(encoding="utf-8", errors="replace").splitlines()
                or process.poll() is not None
            )

        wait_for(ready, what=f"the {part} to run", timeout_s=_READY_TIMEOUT_S)
        if process.poll() is not None:
            text = wording.read_text(errors="replace", encoding="utf-8").strip()
            raise ServerError(f"the {part} has ended: {text.splitlines()[-1] if text else wording}")


#: Child processes of this process, which must be reaped here.
_children: list[subprocess.Popen[bytes]] = []


def _start(folder: Path, part: TopologyPart) -> subprocess.Popen[bytes]:
    words = [str(folder.absolute()), part.kind, *([part.node] if part.node else [])]
    with (folder / part.file).open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", _MODULE, *words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # not interrupted by Ctrl-C at the terminal
            cwd="/",
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
    _children.append(process)
    return process


def stop(folder: Path, kind: str | None = None) -> None:
    """Stop the processes of a folder, or those of one kind, cleanly; kill those that do not end in time."""
    alive = [process for part, process in running(folder).items() if kind in (None, part.kind)]
    for process in alive:
        _send(process, signal.SIGTERM)
        _send(process, signal.SIGCONT)  # a suspended process handles SIGTERM only after SIGCONT
    _, late = psutil.wait_procs(alive, timeout=_STOP_TIMEOUT_S)
    for process in late:
        _send(process, signal.SIGKILL)
    psutil.wait_procs(late, timeout=_STOP_TIMEOUT_S)
    _children[:] = [child for child in _children if child.poll() is None]


def _send(process: psutil.Process, number: signal.Signals) -> None:
    try:
        process.send_signal(number)  # psutil first checks that the PID was not reused
    except psutil.NoSuchProcess:
        return
