"""Control of a child process from an event loop: call it, receive its halts, stop it, kill it.

Independent of scenarios, and of the actions of faults.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from typing import Any

from twopc.drivers.recovery import SettledBranch
from twopc.errors import ServerError
from twopc.sim.faults.call_server import END, CallReply, HaltNotice, ResumeOrder, SessionCall

_context = multiprocessing.get_context("forkserver")
_PRELOAD = [
    "twopc.sim.faults.call_server",
    "twopc.sim.faults.agents",
    *(["pytest"] if "pytest" in sys.modules else []),
]

#: Time allowed for a clean exit, before the process is killed.
_END_S = 15

#: Called while the process halts; returns how it resumes, or None if it is dead.
OnHalt = Callable[[HaltNotice], Awaitable[ResumeOrder | None]]


class DeadError(Exception):
    """The process has died, and does not answer."""


class RemoteProcess:
    """One process; `start` it once, and `end` or `kill` it.

    Args:
        serve: function that it runs with `setup`: of `twopc.sim.faults.call_server` or `twopc.sim.faults.agents`.
        on_halt: called when it halts at a point.
        settled: receives the branches that its recovery settles.
    """

    def __init__(
        self,
        serve: Callable[[Any, Connection, Connection], None],
        setup: Any,
        on_halt: OnHalt,
        settled: list[SettledBranch] | None = None,
    ) -> None:
        self._serve = serve
        self._setup = setup
        self._on_halt = on_halt
        self._settled = [] if settled is None else settled
        self._process: multiprocessing.context.ForkServerProcess | None = None
        self._calls: Connection
        self._halts: Connection
        self._number = 0
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._halting: set[asyncio.Task[None]] = set()
        self.is_alive = False
        self.is_stopped = False
        """Whether it is stopped by SIGSTOP."""

    @property
    def is_busy(self) -> bool:
        """Whether a call is not answered yet."""
        return bool(self._waiting)

    async def start(self) -> bool:
        """Start the process; return False if it has died before it was ready.

        Raises:
            ServerError: it cannot be started.
        """
        self._calls, other = _context.Pipe()
        self._halts, theirs_too = _context.Pipe()
        arguments = (self._setup, other, theirs_too)
        process = _context.Process(target=self._serve, args=arguments, daemon=True)
        await asyncio.to_thread(_launch, process)
        self._process, self.is_alive = process, True
        other.close()
        theirs_too.close()
        loop = asyncio.get_running_loop()
        ready = self._waiting[0] = loop.create_future()
        loop.add_reader(self._calls.fileno(), self._receive)
        loop.add_reader(self._halts.fileno(), self._receive_halt)
        try:
            await ready
        except DeadError:
            return False
        return True

    async def call(self, session: str, verb: str, *arguments: Any) -> Any:
        """Call a function of the process, and wait for its answer.

        Raises:
            DeadError: the process has died, and does not answer.
        """
        if not self.is_alive:
            raise DeadError
        self._number += 1
        answer = asyncio.get_running_loop().create_future()
        self._waiting[self._number] = answer
        number = self._number
        try:
            self._calls.send(SessionCall(number, session, verb, arguments))
        except (BrokenPipeError, ConnectionResetError):
            self._handle_exit()
        return await answer

    def _receive(self) -> None:
        try:
            note = self._calls.recv()
        except (EOFError, ConnectionResetError):
            self._handle_exit()
            return
        if isinstance(note, SettledBranch):
            self._settled.append(note)
            return
        assert isinstance(note, CallReply)
        answer = self._waiting.pop(note.number, None)
        if answer is None or answer.done():
            return  # the caller was cancelled
        if note.failure is not None:
            answer.set_exception(note.failure)
        else:
            answer.set_result(note.value)

    def _receive_halt(self) -> None:
        try:
            note: HaltNotice = self._halts.recv()
        except (EOFError, ConnectionResetError):
            asyncio.get_running_loop().remove_reader(self._halts.fileno())
            return
        task = asyncio.get_running_loop().create_task(
            self._handle_halt(note), name=f"at {note.point}"
        )
        self._halting.add(task)
        task.add_done_callback(self._halting.discard)

    async def _handle_halt(self, note: HaltNotice) -> None:
        try:
            word = await self._on_halt(note)
        except Exception as error:  # the process halts forever: report the error to waiting callers
            self._fail(error)
            return
        if word is not None and self.is_alive:
            self._halts.send(word)

    # -- ending ------------------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        """PID of the process."""
        assert self._process is not None and self._process.pid is not None
        return self._process.pid

    def stop(self) -> None:
        """Stop the process with SIGSTOP."""
        os.kill(self.pid, signal.SIGSTOP)
        self.is_stopped = True

    def go_on(self) -> None:
        """Resume the process with SIGCONT; no effect if it is not stopped."""
        if self.is_alive and self.is_stopped:
            os.kill(self.pid, signal.SIGCONT)
        self.is_stopped = False

    async def kill(self) -> None:
        """Kill the process with SIGKILL; waiting callers are not notified until `bury`."""
        if self._process is None:
            return
        if self.is_alive:
            self._stop_listening()
        self._process.kill()
        await asyncio.to_thread(self._process.join)
        self.is_alive = self.is_stopped = False

    def bury(self) -> None:
        """Raise DeadError in all waiting callers, and release the process."""
        self._fail(DeadError())
        if self._process is not None:
            if self._process.exitcode is None:
                self._process.kill()
                self._process.join()
            self._process.close()
            self._process = None
            self._calls.close()
            self._halts.close()

    async def end(self) -> None:
        """End the process cleanly if it is idle, otherwise kill it; idempotent."""
        if self._process is None:
            return
        self.go_on()
        if self.is_alive and not self.is_busy:
            self._stop_listening()
            self._calls.send(SessionCall(0, "", END))
            await asyncio.to_thread(self._process.join, _END_S)
        await self.kill()
        self.bury()

    def _stop_listening(self) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._calls.fileno())
        loop.remove_reader(self._halts.fileno())

    def _handle_exit(self) -> None:
        """Handle an unexpected end of the process, whose cause is on stderr."""
        if not self.is_alive:
            return
        self._stop_listening()
        self.is_alive = False
        self._fail(ServerError("a process has ended by itself; stderr tells why"))

    def _fail(self, error: Exception) -> None:
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(error)


def _launch(process: multiprocessing.context.ForkServerProcess) -> None:
    _context.set_forkserver_preload(_PRELOAD)
    process.start()
