"""A coordinator in a process of its own, which a test arms, halts, kills and listens to.

It does what an application would do with one global transaction, and tells what happened as it happens:
what it has said before it is killed arrives. It must not look at the databases, nor judge.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Final

import psycopg

from twopc.drivers import ParticipantAddress, Points, PostgresCoordinator
from twopc.errors import InDoubtError, RejectedError, ResultLostError, TwopcError
from twopc.protocol.effects import Effect
from twopc.protocol.events import Event
from twopc.together import together

COMMIT: Final = "commit"
ROLLBACK: Final = "rollback"
NO_PUBLISHER: Final = "no from the Publisher"
NO_SUBSCRIBER: Final = "no from the Subscriber"
ENDINGS: Final = (COMMIT, NO_PUBLISHER, NO_SUBSCRIBER, ROLLBACK)

#: Not of the grid: PREPARE waits until somebody opens a gate, here or at the Publisher.
GATED_HERE: Final = "PREPARE waits at the Subscriber"
GATED_THERE: Final = "PREPARE waits at the Publisher"
GATED_UNSEEN: Final = (
    "PREPARE waits in a session that nobody can find, and that does not look after its client"
)

CHANGE: Final = "update account set balance = balance + 1 where id = {}"
#: The Publisher knows no kind 0, and finds out when it prepares.
ENTER: Final = "insert into entry (id, kind, amount) values ({0}, {1}, 1)"
_MORE: Final = {
    # The same number twice, in a table of the Subscriber's own that finds out when it prepares.
    NO_SUBSCRIBER: ("insert into only_here (number) values (1), (1)",),
    GATED_HERE: ("insert into gated_here values ({})",),
    GATED_THERE: ("insert into gated values ({})",),
    GATED_UNSEEN: (
        "set application_name = 'anybody'",
        "set client_connection_check_interval = 0",
        "insert into gated_here values ({})",
    ),
}

#: Points of the application, beside those of the drivers.
WORKED: Final = "application.worked"
ANSWERED: Final = "application.answered"

GO_ON: Final = "go on"
RECOVER: Final = "recover"
END: Final = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a process is to do."""

    coordinator: str
    distribution: str = field(repr=False)
    publisher: ParticipantAddress
    subscriber: ParticipantAddress
    row: int = 0
    """The account that it changes and the entry that it makes; 0: it only recovers."""
    warm_row: int = 0
    """An account for transactions before that one, so that every connection is there and known."""
    ending: str = COMMIT
    commit: str = "presumed_abort"
    shipping: str = "eager"
    isolation: str = ""
    """``repeatable read`` or ``serializable``; empty: the database's default."""
    arm: str = ""
    """For ``TWOPC_ARM``."""
    halt: str = ""
    """The protocol point at which it stops and asks."""
    halt_nth: int = 1
    cut: int = 0
    """It ends itself by SIGKILL when its machines have done so many things; 0: it does not."""
    workers: int = 0
    """So many do one transaction after the other at once, each on an account of its own from `row` on."""
    statement: str = ""
    """What each of the workers does in a transaction, with ``{}`` for its number; empty: it changes its
    account."""
    listen: bool = False
    """Tell every protocol point that is reached. Whoever does not listen takes the path of every day,
    where several commands travel in one message."""
    recovery_interval_s: float = 2.0
    in_doubt_after_s: float = 10.0
    answer_timeout_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Begun:
    """The transaction has begun."""

    gid: str


@dataclass(frozen=True, slots=True)
class Reached:
    """A protocol point was reached."""

    point: str


@dataclass(frozen=True, slots=True)
class Halted:
    """It stands at a protocol point until it is told to go on."""

    point: str


@dataclass(frozen=True, slots=True)
class Traced:
    """A machine did something, or was told something."""

    gid: str
    what: Effect | Event


@dataclass(frozen=True, slots=True)
class Answered:
    """What the application was told."""

    outcome: str
    """``committed``, ``aborted`` or ``in_doubt``."""
    error: str = ""
    """The exception's class; empty without one."""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Waiting:
    """All is done; it recovers in the background until it is told to recover now, or to end."""

    settled: tuple[str, ...] = ()
    """The gids that it has just settled because it was told to."""


@dataclass(frozen=True, slots=True)
class Done:
    """One of many transactions was answered."""

    row: int
    outcome: str
    """As `Answered`."""


Note = Begun | Reached | Halted | Traced | Answered | Waiting | Done


class _Points(Points):
    """Points that say where the process is."""

    def __init__(self, task: Task, wire: Connection) -> None:
        super().__init__(os.environ)
        self._task = task
        self._wire = wire
        self._left = task.halt_nth
        self.wake()

    def wake(self, awake: bool = True) -> None:
        """From now on be as the task says, or pretend that nothing is armed."""
        task = self._task
        self.armed = awake and (bool(self._actions) or task.listen or bool(task.halt))

    async def reach(self, name: str) -> None:
        task = self._task
        if task.listen:
            self._wire.send(Reached(name))
        if name == task.halt:
            self._left -= 1
            if self._left == 0:
                # Nothing else goes on meanwhile: the process as a whole stands here.
                self._wire.send(Halted(name))
                self._wire.recv()
        await super().reach(name)

    def disarm(self, name: str | None = None) -> None:
        super().disarm(name)
        self.wake()


def run(task: Task, wire: Connection) -> None:
    """What the process does; `wire` takes notes out and brings the word to go on."""
    os.environ["TWOPC_ARM"] = task.arm
    asyncio.run(_run(task, wire))


async def _run(task: Task, wire: Connection) -> None:
    done = 0
    is_warm = False

    def observe(gid: str, what: Effect | Event) -> None:
        nonlocal done
        if not is_warm:
            return
        done += 1
        if not task.workers:
            wire.send(Traced(gid, what))
        if done == task.cut:
            os.kill(os.getpid(), signal.SIGKILL)

    points = _Points(task, wire)
    coordinator = PostgresCoordinator(
        task.coordinator,
        distribution=task.distribution,
        publisher=task.publisher,
        subscribers={task.subscriber.name: task.subscriber},
        recovery_interval_s=task.recovery_interval_s,
        in_doubt_after_s=task.in_doubt_after_s,
        answer_timeout_s=task.answer_timeout_s,
        points=points,
        observe=observe,
    )
    try:
        async with coordinator:
            if task.warm_row:
                points.wake(False)
                await _warm_up(coordinator, task)
                points.wake()
            is_warm = True
            if task.workers:
                await _work(coordinator, task, wire)
            elif task.row:
                await transact(coordinator, task, wire.send)
            wire.send(Waiting())
            while await asyncio.to_thread(wire.recv) == RECOVER:
                settled = await coordinator.recover()
                wire.send(Waiting(tuple(branch.gid for branch in settled)))
    except TwopcError as error:
        wire.send(Answered("aborted", type(error).__name__, str(error)))


async def _work(coordinator: PostgresCoordinator, task: Task, wire: Connection) -> None:
    """Until told to end."""
    told = asyncio.create_task(asyncio.to_thread(wire.recv))

    async def work(row: int) -> None:
        statement = "update account set balance = balance + 1 where id = $1"
        while not told.done():
            try:
                if task.statement:
                    await coordinator.run(
                        task.subscriber.name, task.statement.format(row), commit=task.commit
                    )
                    wire.send(Done(row, "committed"))
                    continue
                # In one message, and in several.
                await coordinator.run(task.subscriber.name, statement, (row,), commit=task.commit)
                wire.send(Done(row, "committed"))
                async with coordinator.transaction(task.subscriber.name, commit=task.commit) as tx:
                    await tx.execute(CHANGE.format(row))
                wire.send(Done(row, "committed"))
            except ResultLostError:
                wire.send(Done(row, "committed"))
            except InDoubtError:
                wire.send(Done(row, "in_doubt"))
            except (RejectedError, psycopg.Error):
                wire.send(Done(row, "aborted"))

    await together(*(work(task.row + place) for place in range(task.workers)))


async def _warm_up(coordinator: PostgresCoordinator, task: Task) -> None:
    for _ in range(
        2
    ):  # the first learns who prepares at the Publisher, the second connects as that role
        async with coordinator.transaction(task.subscriber.name, commit=task.commit) as transaction:
            await transaction.execute(CHANGE.format(task.warm_row))


async def transact(
    coordinator: PostgresCoordinator, task: Task, say: Callable[[Note], None]
) -> Answered:
    """Do the transaction as an application does: whatever fails is rolled back.

    Args:
        coordinator: open.
        task: `row`, `ending`, `commit` and `shipping` of it.
        say: is told when the transaction has begun and how it was answered.
    """
    points = coordinator.points
    transaction = coordinator.transaction(
        task.subscriber.name,
        isolation=task.isolation or None,
        commit=task.commit,
        shipping=task.shipping,
    )
    try:
        async with transaction:
            say(Begun(transaction.gid))
            await transaction.execute(CHANGE.format(task.row))
            kind = 0 if task.ending == NO_PUBLISHER else 1
            await transaction.execute(ENTER.format(task.row, kind))
            for statement in _MORE.get(task.ending, ()):
                await transaction.execute(statement.format(task.row))
            await points.reach(WORKED)
            if task.ending == ROLLBACK:
                await transaction.rollback()
        answer = Answered(str(transaction.outcome))
    except InDoubtError as error:
        answer = Answered("in_doubt", type(error).__name__, str(error))
    except (RejectedError, psycopg.Error) as error:
        answer = Answered("aborted", type(error).__name__, str(error))
    say(answer)
    await points.reach(ANSWERED)
    return answer
