"""State that the sessions of a test share: the observer of its topology, the recorder, and the time limit.

Independent of what sessions do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from twopc.errors import ConfigurationError
from twopc.sim.sessions.waits import LOOK_EVERY_S, ObservedClient, Observer, RepeatedLook, Wait
from twopc.sim.testing.recording import Recorder

if TYPE_CHECKING:
    from twopc.sim.testing.faults import TestFaults
    from twopc.sim.testing.live import LiveSession


class NotEndedError(AssertionError):
    """A statement has neither ended nor been blocked within the test's time limit."""


class Surroundings:
    """State that all sessions of one test share."""

    def __init__(self, observer: Observer, recorder: Recorder, *, timeout_s: float) -> None:
        self.observer = observer
        self.recorder = recorder
        self.timeout_s = timeout_s
        self.sessions: dict[str, LiveSession] = {}
        self.watched: dict[str, ObservedClient] = {}
        self.faults: TestFaults | None = None
        """Faults of the test; None if there are none. With faults, the coordinator runs in a process of its own."""

    def free_name(self, name: str, node: str) -> str:
        """Return the name of a new session: the given name, or one made of its node's.

        Raises:
            ConfigurationError: another session has the name.
        """
        taken = self.sessions
        if name in taken:
            raise ConfigurationError(
                f"there is a session {name!r} already: give this one another name"
            )
        return name or next(
            each for each in (node, *(f"{node}#{n}" for n in range(2, 1000))) if each not in taken
        )

    async def leave(self) -> None:
        """Close every session. All are stopped first, since a lock may be released only when no other session waits
        for it.
        """
        sessions = [*self.sessions.values()]
        async with AsyncExitStack() as stack:
            stack.callback(self.sessions.clear)
            for session in sessions:
                stack.push_async_callback(session.close)
            for session in sessions:
                await session.stop()

    def clients(self) -> list[ObservedClient]:
        """Return all sessions and observed applications."""
        return [each.client for each in self.sessions.values()] + list(self.watched.values())

    async def wait_of(self, name: str) -> Wait | None:
        """Return the current wait of a session; None if it does not wait."""
        return (await self.observer.look(self.clients())).waits.get(name)

    def words(self, wait: Wait) -> str:
        """Return a wait as text: the holder, the holder's statement, and its process.

        ``waits at pub for clerk (a row of account); clerk.2: update account …, process 4711``
        """
        held = self.sessions.get(wait.on)
        step = f"{held.lock_step}: {held.lock_text}" if held is not None and held.lock_step else ""
        process = f"process {wait.pid}" if wait.pid else f"branch {wait.gid}" if wait.gid else ""
        more = ", ".join(part for part in (step, process) if part and part != wait.holder)
        text = f"waits at {wait.node} for {wait.holder} ({wait.lock})"
        return f"{text}; {more}" if more else text

    async def until_blocked(
        self, client: Callable[[], ObservedClient], is_over: Callable[[], bool], what: str
    ) -> Wait | None:
        """Wait until a client's work is over (return None) or provably waits: the same wait was observed twice.

        Raises:
            NotEndedError: neither within the time limit.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + self.timeout_s
        never = loop.create_future()
        looked = RepeatedLook()
        while not is_over():
            await asyncio.wait({never}, timeout=LOOK_EVERY_S)
            if is_over():
                break
            seen = (await self.observer.look(self.clients())).waits.get(client().name)
            if is_over():
                break
            if looked.confirms(seen) and seen is not None:
                return seen
            if loop.time() > until:
                raise NotEndedError(
                    f"{what} has neither ended nor waits for a lock after {self.timeout_s:g} s"
                )
        return None
