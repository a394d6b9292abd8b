"""The tour: a first conflict by hand, with instructions for two psql windows, and the detection of each step.

Steps are detected in the databases and the servers' logs, not by reading what was typed. Amounts are free: it only
matters that the row has changed. Independent of how anything is displayed.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twopc.errors import ConfigurationError
from twopc.server.cache import FileLock
from twopc.sim.up import parts
from twopc.sim.up.setup import remove
from twopc.sim.up.state import State
from twopc.sim.up.watch import TopologyState, TopologyWatch
from twopc.waits import link_prefix

_EVERY_S = 0.1
_PSQL_SESSIONS = """
select count(*) filter (where state <> 'idle in transaction'), count(*) filter (where state = 'idle in transaction'),
       count(*) filter (where state = 'idle in transaction (aborted)')
from pg_stat_activity where datname = current_database() and usename = %s and application_name = 'psql'
"""
_OPEN_THERE = "select count(*) from pg_stat_activity where application_name ~ %s and state = 'idle in transaction'"
_BALANCE = "select balance from public.account where id = 1"
_TAKE = "update account set balance = balance - {} where id = 1;"


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """The sessions of psql at a Subscriber."""

    there: int
    """Number of all sessions."""
    open: int
    """Number of sessions in a transaction."""
    aborted: int
    """Number of sessions in a failed transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TourLook:
    """One observation of the topology."""

    balances: dict[str, int]
    """Balance of account 1, by node."""
    windows: dict[str, Windows]
    """Sessions of psql, by Subscriber."""
    held: int
    """Number of the first Subscriber's links with an open transaction at the Publisher."""
    moment: TopologyState

    def everywhere(self) -> bool:
        """Whether all nodes have the same balance."""
        return len(set(self.balances.values())) == 1


Condition = Callable[[TourLook, TourLook], bool]
"""A predicate of an earlier observation and the present one."""
Hint = tuple[Condition, str]
"""A condition for a mistake, and the text that helps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TourStep:
    """One step of the tour."""

    title: str
    types: tuple[tuple[int, str], ...]
    """Commands to type, each with the number of its window."""
    done: Condition
    explains: str
    hints: tuple[Hint, ...] = ()
    resolver: bool = True
    """Whether the resolver runs during the step."""


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Reserve a tour's folder, and remove it at the end.

    Raises:
        ConfigurationError: another tour uses it.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock.try_take(_lock_of(folder))
    if lock is None:
        raise ConfigurationError(
            f"another tour is under way in {folder}: end it, or choose another --state"
        )
    try:
        remove(folder)  # left by a tour that was killed
        yield
    finally:
        remove(folder)
        lock.release(remove=True)


def sweep(folder: Path) -> bool:
    """Remove the folder of a tour that was killed; return whether there was one."""
    if not folder.exists():
        return False
    lock = FileLock.try_take(_lock_of(folder))
    if lock is None:
        return False  # the tour is running
    remove(folder)
    lock.release(remove=True)
    return True


def _lock_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.lock")


class Tour:
    """The tour of a topology with two Subscribers.

    Args:
        state: a running topology, with two Subscribers of accounts.
        say: called with each line of text for the user.
    """

    def __init__(self, state: State, say: Callable[[str], None]) -> None:
        self._state = state
        self._say = say
        self.first, self.second = state.subscribers[:2]

    async def play(self, commands: dict[int, str]) -> None:
        """Play all steps; return when the last one was done.

        Args:
            commands: how each window is opened.
        """
        async with TopologyWatch(self._state) as eyes:
            steps = (*self._alone(commands), *self._against_each_other(), *self._in_doubt())
            for number, step in enumerate(steps, 1):
                await self._resolver(runs=step.resolver)
                before = await self._see(eyes)
                self._say(f"\n{number}/{len(steps)}  {step.title}\n")
                for window, text in step.types:
                    self._say(f"  {window}> {text}")
                self._say("")
                now = await self._until(eyes, step, before)
                self._say(f"  ✓ {step.explains.format(now=self._balances(now))}")
            await self._resolver(runs=True)

    async def _until(self, eyes: TopologyWatch, step: TourStep, before: TourLook) -> TourLook:
        given: set[str] = set()
        never = asyncio.Event()
        while True:
            now = await self._see(eyes)
            if step.done(before, now):
                return now
            for applies, hint in step.hints:
                if hint not in given and applies(before, now):
                    given.add(hint)
                    self._say(f"  ! {hint}")
            try:
                await asyncio.wait_for(never.wait(), _EVERY_S)
            except TimeoutError:
                continue

    async def _see(self, eyes: TopologyWatch) -> TourLook:
        names = (self._state.publisher, self.first, self.second)
        rows: dict[str, list[tuple[Any, ...]]] = {}
        for name in names:
            rows[name] = await eyes.rows(name, _BALANCE)
        windows = {}
        for name in names[1:]:
            ((busy, opened, aborted),) = await eyes.rows(name, _PSQL_SESSIONS, (eyes.role(name),))
            windows[name] = Windows(there=busy + opened, open=opened, aborted=aborted)
        ((held,),) = await eyes.rows(
            self._state.publisher, _OPEN_THERE, (f"^{re.escape(link_prefix(self.first))} [0-9]+$",)
        )
        return TourLook(
            balances={name: int(result[0][0]) for name, result in rows.items()},
            windows=windows,
            held=int(held),
            moment=await eyes.look(),
        )

    def _balances(self, now: TourLook) -> str:
        return ", ".join(f"{balance} at {name}" for name, balance in now.balances.items())

    async def _resolver(self, *, runs: bool) -> None:
        if runs:
            await asyncio.to_thread(parts.start, self._state)
        else:
            await asyncio.to_thread(parts.stop, self._state.folder, "resolver")

    def _refused(self, seen: TourLook) -> int:
        return sum(node.refused for node in seen.moment.nodes if node.name == self.second)

    def _committed_late(self) -> Hint:
        return (
            lambda _, now: bool(now.windows[self.first].open and now.held),
            "window 1 is in a transaction, so no other session can see it yet: commit;",
        )

    def _alone(self, commands: dict[int, str]) -> tuple[TourStep, ...]:
        """Return the steps in which only one window writes."""
        pub, one, two = self._state.publisher, self.first, self.second
        return (
            TourStep(
                title=f"Open two terminals beside this one: a psql at each Subscriber, {one} and {two}.",
                types=tuple(commands.items()),
                done=lambda _, now: all(window.there for window in now.windows.values()),
                explains=f"Two sessions. Both Subscribers hold a copy of the account; {pub} is the Publisher.",
            ),
            TourStep(
                title="Take something from Alice's account, as any program would.",
                types=((1, _TAKE.format(10)),),
                done=lambda before, now: _fewer(pub)(before, now) and now.everywhere(),
                hints=(self._committed_late(), _failed(one, 1)),
                explains=(
                    f"The change was at {pub} before your COMMIT was through; an agent has brought it to {two}: "
                    "{now}."
                ),
            ),
        )

    def _against_each_other(self) -> tuple[TourStep, ...]:
        """Return the steps in which both windows change the same row."""
        pub, one, two = self._state.publisher, self.first, self.second
        return (
            TourStep(
                title=(
                    "Now stop in the middle: change the row in a transaction, and do not commit. From here on "
                    "you have a minute, then the Publisher lets go: should that happen, begin; and again."
                ),
                types=((1, "begin;"), (1, _TAKE.format(10))),
                done=lambda _, now: bool(now.windows[one].open and now.held),
                hints=(
                    (
                        _fewer(pub),
                        "that was committed at once: say begin; first, then change the row again",
                    ),
                    _failed(one, 1),
                ),
                explains=f"Your session's link has the row locked at {pub}; no other session sees the change: {{now}}.",
            ),
            TourStep(
                title=f"Meanwhile Bob, at {two}, wants to change the same row.",
                types=((2, _TAKE.format(20)),),
                done=lambda _, now: any(f"of {two}" in each for each in now.moment.blocked),
                hints=(
                    (
                        lambda before, now: self._refused(now) > self._refused(before),
                        "Bob was refused already: window 1 has committed. Read on as if he had waited: "
                        "say begin; and change the row in window 1 again, then in window 2",
                    ),
                    _failed(two, 2),
                ),
                explains=f"Window 2 waits: no row is locked at {two}, but his link waits at {pub} for yours.",
            ),
            TourStep(
                title="Commit in window 1, and watch window 2.",
                types=((1, "commit;"),),
                done=lambda before, now: (
                    _fewer(pub)(before, now) and self._refused(now) > self._refused(before)
                ),
                explains=(
                    "Bob was refused (40001, version_mismatch): his copy was older than the Publisher's row. His "
                    "program would have written over your change. {now}."
                ),
            ),
            TourStep(
                title="His copy is up to date in a moment. Let Bob try again.",
                types=((2, _TAKE.format(20)),),
                done=lambda before, now: _fewer(pub)(before, now) and now.everywhere(),
                hints=(_failed(two, 2),),
                explains="Both changes are there, one after the other: {now}. Every program tries again like this.",
            ),
        )

    def _in_doubt(self) -> tuple[TourStep, ...]:
        """Return the steps without the resolver."""
        pub, one = self._state.publisher, self.first
        return (
            TourStep(
                title="Who finishes the Publisher's branch? The resolver; it is stopped now. Change the row once more.",
                types=((1, _TAKE.format(1)),),
                done=lambda before, now: _fewer(one)(before, now) and bool(now.moment.in_doubt),
                hints=(self._committed_late(), _failed(one, 1)),
                resolver=False,
                explains=(
                    f"You have your answer, and {pub} has not: its branch is prepared, its row locked, until a "
                    "resolver finds your COMMIT: {now}."
                ),
            ),
            TourStep(
                title="The resolver runs again. Nothing to type; or look, in a third terminal: twopc watch",
                types=(),
                done=lambda _, now: not now.moment.in_doubt and now.everywhere(),
                explains="Finished, from what your COMMIT has left at the Subscriber: {now}.",
            ),
        )


def _fewer(node: str) -> Condition:
    """Return the condition that the balance at a node has decreased."""
    return lambda before, now: now.balances[node] < before.balances[node]


def _failed(node: str, window: int) -> Hint:
    return (
        lambda _, now: bool(now.windows[node].aborted),
        f"the transaction in window {window} has failed and does nothing more: rollback; there, and again",
    )
