"""A coordinator in its own process, which a test arms, halts, kills and receives notes from.

It runs one global transaction like an application, and reports each event immediately, so that
notes from before a kill arrive. It must not query the databases, nor judge.
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

#: Not part of the grid: PREPARE waits until a gate is opened, at the Subscriber or at
#: the Publisher.
GATED_HERE: Final = "PREPARE waits at the Subscriber"
GATED_THERE: Final = "PREPARE waits at the Publisher"
GATED_UNSEEN: Final = (
    "PREPARE waits in a session that nobody can find, and that does not look after its client"
)

CHANGE: Final = "update account set balance = balance + 1 where id = {}"
#: Kind 0 does not exist at the Publisher, which is detected when it prepares.
ENTER: Final = "insert into entry (id, kind, amount) values ({0}, {1}, 1)"
_MORE: Final = {
    # A duplicate in a table of the Subscriber only, which is detected when it prepares.
    NO_SUBSCRIBER: ("insert into only_here (number) values (1), (1)",),
    GATED_HERE: ("insert into gated_here values ({})",),
    GATED_THERE: ("insert into gated values ({})",),
    GATED_UNSEEN: (
        "set application_name = 'anybody'",
        "set client_connection_check_interval = 0",
        "insert into gated_here values ({})",
    ),
}

#: Points of the application, besides those of the drivers.
WORKED: Final = "application.worked"
ANSWERED: Final = "application.answered"

GO_ON: Final = "go on"
RECOVER: Final = "recover"
END: Final = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The work of a process."""

    coordinator: str
    distribution: str = field(repr=False)
    publisher: ParticipantAddress
    subscriber: ParticipantAddress
    row: int = 0
    """The account that it changes and the entry that it inserts; 0 to only recover."""
    warm_row: int = 0
    """An account for earlier transactions, which open and initialise every connection."""
    ending: str = COMMIT
    commit: str = "presumed_abort"
    shipping: str = "eager"
    isolation: str = ""
    """``repeatable read`` or ``serializable``; empty: the database's default."""
    arm: str = ""
    """Value of ``TWOPC_ARM``."""
    halt: str = ""
    """The protocol point at which it halts."""
    halt_nth: int = 1
    cut: int = 0
    """Number of its machines' steps after which it kills itself by SIGKILL; 0 for never."""
    workers: int = 0
    """Number of concurrent workers, each with its own account from `row` on, that repeat transactions."""
    statement: str = ""
    """The statement of the workers' transactions, with ``{}`` for the worker's number; empty to change its account."""
    listen: bool = False
    """Report every protocol point that is reached.

    Without it, the process takes its usual path, on which several commands are sent in one message.
    """
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
    """The process halts at a protocol point until it is resumed."""

    point: str


@dataclass(frozen=True, slots=True)
class Traced:
    """A machine has produced an effect, or received an event."""

    gid: str
    what: Effect | Event


@dataclass(frozen=True, slots=True)
class Answered:
    """The application's answer."""

    outcome: str
    """``committed``, ``aborted`` or ``in_doubt``."""
    error: str = ""
    """Class of the exception; empty without one."""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The work is done; the process recovers in the background until told to recover now, or to end."""

    settled: tuple[str, ...] = ()
    """The gids that it has settled on request."""


@dataclass(frozen=True, slots=True)
class Done:
    """One transaction of a worker was answered."""

    row: int
    outcome: str
    """As in `Answered`."""


Note = Begun | Reached | Halted | Traced | Answered | Waiting | Done


class _Points(Points):
    """Points that report where the process is."""

    def __init__(self, task: Task, wire: Connection) -> None:
        super().__init__(os.environ)
        self._task = task
        self._wire = wire
        self._left = task.halt_nth
        self.wake()

    def wake(self, awake: bool = True) -> None:
        """Arm the points as the task says, or none of them."""
        task = self._task
        self.armed = awake and (bool(self._actions) or task.listen or bool(task.halt))

    async def reach(self, name: str) -> None:
        task = self._task
        if task.listen:
            self._wire.send(Reached(name))
        if name == task.halt:
            self._left -= 1
            if self._left == 0:
                # Blocks the event loop, so that the whole process halts here.
                self._wire.send(Halted(name))
                self._wire.recv()
        await super().reach(name)

    def disarm(self, name: str | None = None) -> None:
        super().disarm(name)
        self.wake()


def run(task: Task, wire: Connection) -> None:
    """Run the process; `wire` sends notes and receives commands."""
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
    """Run the workers until told to end."""
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
                # Once in one message, once in several.
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
    ):  # the first finds the role that prepares at the Publisher, the second connects as that role
        async with coordinator.transaction(task.subscriber.name, commit=task.commit) as transaction:
            await transaction.execute(CHANGE.format(task.warm_row))


async def transact(
    coordinator: PostgresCoordinator, task: Task, say: Callable[[Note], None]
) -> Answered:
    """Run the transaction like an application, which rolls back after any failure.

    Args:

        coordinator: open.
        task: `row`, `ending`, `commit` and `shipping` of the transaction.
        say: gets a note when the transaction has begun, and its answer.
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
