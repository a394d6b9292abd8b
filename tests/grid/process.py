"""A coordinator in a process of its own, from outside: start it, hear it, let it go on, kill it.

Processes are forked from a clean one that has everything imported, so that a grid of hundreds takes
minutes. They are processes like any other: SIGKILL takes one with all its connections.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from types import TracebackType
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

#: Far longer than anything takes: whoever waits so long hangs.
_TIMEOUT_S = 60


class CoordinatorProcess:
    """One process; a context manager that leaves none behind."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.notes: list[Note] = []
        """What it has told so far."""
        self._ending = False
        self._wire, theirs = _context.Pipe()
        self._process = _context.Process(target=run, args=(task, theirs), daemon=True)
        self._process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def was_killed(self) -> bool:
        """It ended by SIGKILL."""
        return self._process.exitcode == -signal.SIGKILL

    @property
    def exit_code(self) -> int | None:
        """0 after an end in order, negative after a signal; None while it lives."""
        return self._process.exitcode

    @property
    def gid(self) -> str:
        """Of its global transaction; empty if none was begun."""
        return next((note.gid for note in self.notes if isinstance(note, Begun)), "")

    @property
    def answer(self) -> Answered | None:
        """What its application was told; None if it never was."""
        return next((note for note in self.notes if isinstance(note, Answered)), None)

    @property
    def points(self) -> list[str]:
        """The protocol points that it has reached, in order."""
        return [note.point for note in self.notes if isinstance(note, Reached)]

    @property
    def trace(self) -> list[Traced]:
        """What its machines have done, in order."""
        return [note for note in self.notes if isinstance(note, Traced)]

    def halted(self) -> bool:
        """Wait until it stands at its point; False if it has ended without coming there.

        A process that has done its work without coming there is told to end: it may on its way out.
        """
        note = self._hear(Halted, Waiting)
        if isinstance(note, Waiting):
            self._tell(END)
            note = self._hear(Halted)
        return note is not None

    def answered(self, outcome: str, times: int) -> None:
        """Wait until its workers have told this outcome so many times more."""
        while times:
            note = self._hear(Done)
            assert isinstance(note, Done), f"it ended: {self.notes[-1:]}"
            times -= note.outcome == outcome

    def stop(self) -> None:
        """Have its workers end what they are at, and no more."""
        self._wire.send(END)

    def go_on(self) -> None:
        """Let it go on from where it stands."""
        self._tell(GO_ON)

    def done(self) -> bool:
        """Wait until its work is done and it only recovers; False if it ended, or is ending."""
        return self._ending is False and self._hear(Waiting) is not None

    def recover(self) -> tuple[str, ...]:
        """Have it recover now, after `done`; returns the gids that it has settled."""
        self._tell(RECOVER)
        note = self._hear(Waiting)
        assert isinstance(note, Waiting), f"it ended: {self.notes[-1:]}"
        return note.settled

    def kill(self) -> None:
        """SIGKILL it."""
        os.kill(self.pid, signal.SIGKILL)
        self.ended()

    def end(self) -> None:
        """Have it end in order as soon as its work is done."""
        if not self._waits:
            self.done()
        if self._waits and not self._ending:
            self._tell(END)
        self.ended()

    def ended(self) -> None:
        """Wait until it is gone."""
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.is_alive():
            self._process.kill()
        self._process.join(_TIMEOUT_S)
        self._process.close()
        self._wire.close()

    def _hear(self, *until: type[Note]) -> Note | None:
        """Listen until a note of these kinds comes (any, if none is named); None at the end."""
        silent_s = 0
        while silent_s < _TIMEOUT_S:
            # In short turns: whoever stops both processes for a while must not make this one give up.
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
