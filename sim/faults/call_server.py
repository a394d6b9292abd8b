"""A coordinator in a process of its own, which serves the sessions of a scenario and halts at protocol points.

Calls arrive over one pipe, halts are reported over another: while the process halts, nothing in it proceeds. The
process knows only the places of faults; their effects are performed from outside, or are part of the order to
resume. Independent of the content of databases, and of judging.
"""

from __future__ import annotations

import asyncio
import os
import pickle
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, Final

import psycopg

from twopc import errors, log
from twopc.drivers import ParticipantAddress, Points, PostgresCoordinator
from twopc.drivers.implementation import PRODUCT, Implementation
from twopc.drivers.recovery import SettledBranch
from twopc.drivers.transaction import Transaction
from twopc.sim.faults.agenda import Occasions
from twopc.sim.faults.plans import FaultPlace
from twopc.sim.sessions.local import result_of
from twopc.sim.sessions.results import Result
from twopc.sim.sessions.servers import transaction_at

#: Session and global transaction of the running code; empty in background tasks.
_CURRENT_TRANSACTION: ContextVar[tuple[str, str]] = ContextVar("at_work", default=("", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorSetup:
    """The arguments of a coordinator's process."""

    coordinator: str
    distribution: str = field(repr=False)
    publisher: ParticipantAddress
    subscribers: Mapping[str, ParticipantAddress]
    lock_timeout_ms: int
    shipping: str
    commit: str
    in_doubt_after_s: float
    answer_timeout_s: float
    armed: tuple[tuple[str, FaultPlace], ...] = ()
    """Armed faults with their places, by id."""
    off: frozenset[str] = frozenset()
    """Protections that are switched off in this process."""


@dataclass(frozen=True, slots=True)
class SessionCall:
    """A request of a session."""

    number: int
    session: str
    verb: str
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class CallReply:
    """The result of a call."""

    number: int
    value: Any = None
    failure: Exception | None = None


@dataclass(frozen=True, slots=True)
class HaltNotice:
    """Reports that the process halts at a point until it gets a `ResumeOrder`."""

    fault: str
    point: str
    session: str
    gid: str


@dataclass(frozen=True, slots=True)
class ResumeOrder:
    """How the process resumes from where it halts."""

    delay_ms: int = 0
    arm: tuple[tuple[str, FaultPlace], ...] = ()
    """Further places at which it is to halt."""
    lose: bool = False
    """Whether the halted operation fails: an answer does not arrive, or a statement raises an error."""


#: The call that ends the process, and the calls that belong to no session.
END: Final = "end"
ARM: Final = "arm"
RECOVER: Final = "recover"


class _HaltingPoints(Points):
    """Points at which the whole process halts and reports it."""

    __slots__ = ("_halts", "_occasions")

    def __init__(self, halts: Connection) -> None:
        super().__init__()
        self._halts = halts
        self._occasions = Occasions()

    def put(self, fault: str, place: FaultPlace) -> None:
        """Make a fault halt the process at its place."""
        self._occasions.add(fault, place)
        self.armed = True

    async def reach(self, name: str) -> None:
        session, gid = _CURRENT_TRANSACTION.get()
        struck = self._occasions.arrived(name, session=session, gid=gid)
        self.armed = bool(self._occasions)
        for fault in struck:
            await self._halt(HaltNotice(fault, name, session, gid))

    async def _halt(self, halted: HaltNotice) -> None:
        self._halts.send(halted)
        try:
            word: ResumeOrder = self._halts.recv()
        except (EOFError, ConnectionResetError):
            os._exit(1)  # no process is left that could send an order
        for fault, place in word.arm:
            self.put(fault, place)
        if word.delay_ms:
            await asyncio.sleep(word.delay_ms / 1000)


class CallServer:
    """A process that answers calls until it is ended by a call.

    Each call is served by a method with the call's name and an underscore before it.
    """

    def __init__(
        self, armed: tuple[tuple[str, FaultPlace], ...], calls: Connection, halts: Connection
    ) -> None:
        self._calls = calls
        self._points = _HaltingPoints(halts)
        for fault, place in armed:
            self._points.put(fault, place)
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended = asyncio.Event()

    async def run(self) -> None:
        """Serve until the call `END`, or until the process that started this one has ended."""
        asyncio.get_running_loop().add_reader(self._calls.fileno(), self._listen)
        async with self._serving():
            self._calls.send(CallReply(0))
            await self._ended.wait()

    def _serving(self) -> AbstractAsyncContextManager[Any]:
        """Return a context manager that is entered while the process serves."""
        return nullcontext()

    def _listen(self) -> None:
        try:
            call: SessionCall = self._calls.recv()
        except (EOFError, ConnectionResetError):
            os._exit(1)  # the parent process is dead: behave as if both had crashed
        if call.verb == END:
            self._ended.set()
            return
        task = asyncio.get_running_loop().create_task(self._reply(call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _reply(self, call: SessionCall) -> None:
        try:
            reply = CallReply(call.number, await self._answer(call))
        except (errors.TwopcError, psycopg.Error) as error:
            reply = CallReply(call.number, failure=error)
        except Exception as error:  # a bug of ours: reported where it is seen
            reply = CallReply(call.number, failure=_unexpected(error))
        try:
            self._calls.send(reply)
        except (TypeError, AttributeError, pickle.PicklingError) as error:
            # nothing was sent: report the reason to the waiting caller
            self._calls.send(CallReply(call.number, failure=_unexpected(error)))

    async def _answer(self, call: SessionCall) -> Any:
        return await getattr(self, f"_{call.verb}")(call.session, *call.arguments)

    async def _arm(self, _: str, fault: str, place: FaultPlace) -> None:
        self._points.put(fault, place)


def _unexpected(error: Exception) -> RuntimeError:
    return RuntimeError(f"in the coordinator's process: {error!r}")


class _CoordinatorServer(CallServer):
    def __init__(self, setup: CoordinatorSetup, calls: Connection, halts: Connection) -> None:
        super().__init__(setup.armed, calls, halts)
        self._setup = setup
        self._open: dict[str, Transaction] = {}
        self._coordinator = PostgresCoordinator(
            setup.coordinator,
            distribution=setup.distribution,
            publisher=setup.publisher,
            subscribers=setup.subscribers,
            lock_timeout_ms=setup.lock_timeout_ms,
            in_doubt_after_s=setup.in_doubt_after_s,
            answer_timeout_s=setup.answer_timeout_s,
            points=self._points,
            classes=_classes(setup),
        )
        self._coordinator.keeper.recovery.observe = self._has_settled

    def _serving(self) -> AbstractAsyncContextManager[Any]:
        return self._coordinator

    async def _answer(self, call: SessionCall) -> Any:
        transaction = self._open.get(call.session)
        _CURRENT_TRANSACTION.set((call.session, transaction.gid if transaction is not None else ""))
        return await super()._answer(call)

    # -- calls --------------------------------------------------------------------------------------

    async def _begin(
        self, session: str, subscribers: Sequence[str], level: str, role: str
    ) -> tuple[str, dict[str, int]]:
        """Begin a transaction; return its gid, and the PID at each Subscriber, that of its own node first."""
        transaction = transaction_at(
            self._coordinator,
            subscribers,
            isolation=level,
            shipping=self._setup.shipping,
            commit=self._setup.commit,
            role=role or None,
        )
        await transaction.begin()
        self._open[session] = transaction
        return transaction.gid, {part.subscriber: part.pid for part in transaction.parts}

    async def _send(self, session: str, at: str, query: Any, params: Any) -> Result:
        return await result_of(await self._open[session].at(at).execute(query, params))

    async def _commit(self, session: str) -> None:
        await self._open.pop(session).commit()

    async def _rollback(self, session: str) -> None:
        transaction = self._open.pop(session, None)
        if transaction is not None:
            await transaction.rollback()

    async def _recover(self, _: str) -> None:
        await self._coordinator.recover()

    def _has_settled(self, settled: SettledBranch) -> None:
        self._calls.send(settled)


def _classes(setup: CoordinatorSetup) -> Implementation:
    """Return the product's classes, or variants without the protections that are off."""
    if not setup.off:
        return PRODUCT
    from twopc.sim.faults.removed_protections import without  # few twins need it

    return without(setup.off)


def serve(setup: CoordinatorSetup, calls: Connection, halts: Connection) -> None:
    """Run the coordinator's process."""
    log.configure(level="error", layout="text")  # failures are expected here
    asyncio.run(_CoordinatorServer(setup, calls, halts).run())
