"""A coordinator process, seen from outside: start it, receive its notes, resume it, kill it.

Processes are forked from a server process that has imported everything, so that a grid of hundreds
takes minutes. They are ordinary processes: SIGKILL ends one with all its connections.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from typing import Self

from tests.grid.program import (
    END,
    GO_ON,
    RECOVER,
    Answered,
    Begun,
    Done,
    Halted,
    Note,
    Reached,
    Task,
    Traced,
    Waiting,
    run,
)

_context = multiprocessing.get_context("forkserver")
_PRELOAD = ["tests.grid.program", *(["pytest"] if "pytest" in sys.modules else [])]
_context.set_forkserver_preload(_PRELOAD)

#: Far longer than any operation takes.
_TIMEOUT_S = 60


class CoordinatorProcess:
    """A coordinator process; a context manager that leaves no process behind."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.notes: list[Note] = []
        """Notes received so far."""
        self._ending = False
        self._wire, theirs = _context.Pipe()
        self._process = _context.Process(target=run, args=(task, theirs), daemon=True)
        self._process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        """Return the process id."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def was_killed(self) -> bool:
        """Return whether the process ended by SIGKILL."""
        return self._process.exitcode == -signal.SIGKILL

    @property
    def exit_code(self) -> int | None:
        """Return 0 after a normal end, a negative number after a signal, None while it runs."""
        return self._process.exitcode

    @property
    def gid(self) -> str:
        """Return the gid of its global transaction; empty if none was begun."""
        return next((note.gid for note in self.notes if isinstance(note, Begun)), "")

    @property
    def answer(self) -> Answered | None:
        """Return the application's answer, or None."""
        return next((note for note in self.notes if isinstance(note, Answered)), None)

    @property
    def points(self) -> list[str]:
        """Return the protocol points that it has reached, in order."""
        return [note.point for note in self.notes if isinstance(note, Reached)]

    @property
    def trace(self) -> list[Traced]:
        """Return the steps of its machines, in order."""
        return [note for note in self.notes if isinstance(note, Traced)]

    def halted(self) -> bool:
        """Wait until the process halts at its point; return False if it ends without reaching it.

        A process that has done its work before the point is told to end: it may reach the point
        during shutdown.
        """
        note = self._hear(Halted, Waiting)
        if isinstance(note, Waiting):
            self._tell(END)
            note = self._hear(Halted)
        return note is not None

    def answered(self, outcome: str, times: int) -> None:
        """Wait until its workers have reported this outcome `times` more times."""
        while times:
            note = self._hear(Done)
            assert isinstance(note, Done), f"it ended: {self.notes[-1:]}"
            times -= note.outcome == outcome

    def stop(self) -> None:
        """Have its workers finish their current transactions, and stop."""
        self._wire.send(END)

    def go_on(self) -> None:
        """Resume it from its point."""
        self._tell(GO_ON)

    def done(self) -> bool:
        """Wait until its work is done; return False if the process has ended, or is ending."""
        return self._ending is False and self._hear(Waiting) is not None

    def recover(self) -> tuple[str, ...]:
        """Have it recover now, after `done`; return the gids that it has settled."""
        self._tell(RECOVER)
        note = self._hear(Waiting)
        assert isinstance(note, Waiting), f"it ended: {self.notes[-1:]}"
        return note.settled

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        os.kill(self.pid, signal.SIGKILL)
        self.ended()

    def end(self) -> None:
        """Have the process end normally as soon as its work is done."""
        if not self._waits:
            self.done()
        if self._waits and not self._ending:
            self._tell(END)
        self.ended()

    def ended(self) -> None:
        """Wait until the process has ended."""
        while self._hear() is not None:
            pass
        self._process.join(_TIMEOUT_S)
        if self._process.exitcode is None:
            raise TimeoutError(f"process {self.pid} does not end; it said {self.notes[-3:]}")

    @property
    def _waits(self) -> bool:
        return any(isinstance(note, Waiting) for note in self.notes)

    def _tell(self, word: str) -> None:
        self._ending = self._ending or word == END
        self._wire.send(word)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.is_alive():
            self._process.kill()
        self._process.join(_TIMEOUT_S)
        self._process.close()
        self._wire.close()

    def _hear(self, *until: type[Note]) -> Note | None:
        """Receive notes until one of these classes, or any if none is given; None at the end."""
        silent_s = 0
        while silent_s < _TIMEOUT_S:
            # Poll in short intervals: a stop of both processes must not count as a timeout.
            if not self._wire.poll(1):
                silent_s += 1
                continue
            try:
                note: Note = self._wire.recv()
            except (EOFError, ConnectionResetError):
                return None
            silent_s = 0
            self.notes.append(note)
            if not until or isinstance(note, until):
                return note
        raise TimeoutError(
            f"process {self.pid} says nothing for {_TIMEOUT_S} s; its last was {self.notes[-3:]}"
        )
