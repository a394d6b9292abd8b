"""The snapshot agent: gives a Subscriber the Publisher's rows as of one moment, and says what it gets after them.

The Publisher is neither stopped nor locked, and transactions commit while rows are read. What the copy has not seen is
delivered to it, and nothing else.

`SnapshotAgent` is the same on servers (`twopc.sim.topology.copies`) and in virtual time
(`twopc.sim.model.distribution.copies`). It must not know how a database is asked, nor what a copy consists of.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from twopc.drivers.runtime import Runtime
from twopc.errors import LockTimeoutError, SubscriptionError

#: How often a branch that is prepared is looked at.
_LOOK_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyMoment:
    """What a copy has seen of the Publisher."""

    snapshot: str
    """pg_snapshot: the transactions that are in the copy."""
    seqno: int
    """A position of the log: none of the transactions that commit from here on is in the copy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnseenTransaction:
    """A stored transaction that a copy has not seen."""

    seqno: int
    xid: int


class CopySourcePort(Protocol):
    """The Publisher, as whoever copies sees it."""

    name: str

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """A transaction that sees one snapshot throughout, and writes nothing."""
        ...

    async def snapshot(self) -> str:
        """The transaction's snapshot, a pg_snapshot."""
        ...

    async def position(self) -> int:
        """Where the log ends now."""
        ...

    async def prepared(self) -> str | None:
        """The gid of a branch of the Subscriber's link that is prepared; None if there is none."""
        ...


class CopyTargetPort(Protocol):
    """A Subscriber, as whoever copies sees it."""

    name: str

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """The transaction in which everything but `refuse_prepared` is done."""
        ...

    async def prepare(self) -> None:
        """Make what a copy needs before any row; nothing where there is one already."""
        ...

    async def hold(self) -> None:
        """Keep the Subscriber's agent, wherever it runs, from delivering until the transaction ends.

        An agent moves the position from where it found it, so one that has planned a batch before finds it elsewhere
        afterwards, and plans anew: with what is subscribed then.
        """
        ...

    async def lock_out(self, timeout_s: float) -> None:
        """Let nobody change the copies until the transaction ends. LockTimeoutError: somebody is at it for too long."""
        ...

    async def close_tables(self, timeout_s: float) -> None:
        """Let nobody use the copies until the transaction ends. LockTimeoutError: somebody does for too long."""
        ...

    async def fill(self) -> None:
        """Bring tables, if they are not there, and all rows that the Publisher's transaction sees."""
        ...

    async def create_objects(self) -> None:
        """Make what stands on the tables."""
        ...

    async def position(self) -> int:
        """Up to where everything is delivered."""
        ...

    async def refuse_prepared(self) -> None:
        """SubscriptionError: a branch is prepared there."""
        ...

    async def remove(self) -> None:
        """Take away what is a subscription's; tables and rows stay."""
        ...


class CopyStorePort(Protocol):
    """The distribution database, as whoever copies sees it."""

    def kept(self) -> AbstractAsyncContextManager[None]:
        """Nothing that is stored is removed within the block, whoever has got it.

        A subscription that is not active holds nothing by itself, and it is the one that is copied anew.
        """
        ...

    async def unseen(self, moment: CopyMoment) -> tuple[int, UnseenTransaction | None]:
        """Up to where the log is stored, and the first transaction stored that the copy has not seen."""
        ...

    async def unseen_call(self, moment: CopyMoment) -> UnseenTransaction | None:
        """A transaction that the copy has not seen and that is stored as a call alone, where the copy takes calls."""
        ...

    async def start(self, after: int, moment: CopyMoment, *, active: bool) -> None:
        """Let the Subscriber have what comes after a position and is not in the copy, once it is active."""
        ...

    async def set_active(self) -> None:
        """Let the Subscriber's agent go on."""
        ...


def start_of(stored: int, unseen: UnseenTransaction | None) -> int:
    """The position after which a Subscriber gets what its copy has not seen. Pure.

    The first of the stored transactions that the copy has not seen is the first that it gets; what is not stored yet
    comes after everything that is.
    """
    return stored if unseen is None else unseen.seqno - 1


class SnapshotAgent:
    """Makes one Subscriber's copy, replaces its rows, or takes it away.

    Args:
        store: None: nothing is distributed.
        reach: comes by a point of the protocol.
        timeout_s: how long transactions are waited for that are in the way.
    """

    def __init__(
        self,
        publisher: CopySourcePort,
        subscriber: CopyTargetPort,
        store: CopyStorePort | None,
        *,
        runtime: Runtime,
        reach: Callable[[str], Awaitable[None]],
        timeout_s: float,
    ) -> None:
        self._publisher = publisher
        self._subscriber = subscriber
        self._store = store
        self._runtime = runtime
        self._reach = reach
        self._timeout_s = timeout_s

    async def bring(self) -> None:
        """Make the copy, in one transaction at the Subscriber.

        Raises:
            SubscriptionError: see `CopyTargetPort.fill` and `start`.
        """
        target = self._subscriber
        await self._reach("snapshot.begin")
        async with target.transaction():
            await target.prepare()
            await self._hold()
            # before the commit: an agent that sees it too soon waits for us, and finds it changed
            await self._copy(active=True)

    async def reinitialise(self) -> None:
        """Replace all rows of the copy; the Subscriber's own transactions are waited for.

        Raises:
            LockTimeoutError: one of them does not end.
            SubscriptionError: see `start`.
        """
        target = self._subscriber
        await self._reach("snapshot.begin")
        async with target.transaction():
            await self._hold()  # first, as the agent does, or they wait for each other
            await target.lock_out(self._timeout_s)
            await self.await_branches()
            # the agent stands still until the copy is committed, or it would skip what this one has
            await self._copy(active=False)
        if self._store is not None:
            await self._store.set_active()

    async def remove(self) -> None:
        """Take the subscription away at the Subscriber; transactions that use its tables are waited for.

        Raises:
            LockTimeoutError: one does not end.
            SubscriptionError: a branch is prepared there.
        """
        target = self._subscriber
        async with target.transaction():
            await target.refuse_prepared()
            await target.close_tables(self._timeout_s)
            await self.await_branches()
            await target.remove()

    async def await_branches(self) -> None:
        """Wait until no branch of the Subscriber's link is prepared at the Publisher.

        A Subscriber's transaction may be over there while its branch here is still to be committed: a copy made now
        would miss it, and it would never come, being the Subscriber's own.

        Raises:
            LockTimeoutError: one stays (named).
        """
        until = self._runtime.time() + self._timeout_s
        while (gid := await self._publisher.prepared()) is not None:
            if self._runtime.time() > until:
                raise LockTimeoutError(
                    f"branch {gid} is prepared at the Publisher and does not end: `twopc recover` settles "
                    "what a dead coordinator left",
                    gid=gid,
                )
            await self._runtime.sleep(_LOOK_S)

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[CopyMoment]:
        """See the Publisher as of one moment while inside.

        A branch that was prepared before and is committed afterwards is not in the copy: the snapshot does not see it,
        and its commit comes after the position.
        """
        publisher = self._publisher
        async with publisher.transaction():
            snapshot = await publisher.snapshot()
            # asked for after the snapshot was taken: whatever it sees has written its commit before
            yield CopyMoment(snapshot=snapshot, seqno=await publisher.position())

    async def start(self, moment: CopyMoment, *, delivered: int, active: bool) -> None:
        """Let the Subscriber have what its copy has not seen.

        Args:
            delivered: up to where its agent has come; it does not go back.

        Raises:
            SubscriptionError: a transaction was delivered, or stored as a call, that the Publisher's own sessions do
                not see yet: its commit waits for a synchronous standby.
        """
        store = self._store
        assert store is not None
        stored, unseen = await store.unseen(moment)
        if unseen is not None and unseen.seqno <= delivered:
            raise self._too_soon(unseen, "was delivered to")
        if (call := await store.unseen_call(moment)) is not None:
            raise self._too_soon(call, "is stored as a call for")
        await store.start(start_of(stored, unseen), moment, active=active)

    async def _hold(self) -> None:
        if self._store is not None:
            await self._subscriber.hold()

    async def _copy(self, *, active: bool) -> None:
        target, store = self._subscriber, self._store
        # what the copy has not seen must be there still when it is looked for
        async with store.kept() if store is not None else nullcontext():
            async with self.reading() as moment:
                await self._reach("snapshot.taken")
                await target.fill()
            await self._reach("snapshot.copied")
            await target.create_objects()
            if store is not None:
                await self.start(moment, delivered=await target.position(), active=active)
        await self._reach("snapshot.started")

    def _too_soon(self, unseen: UnseenTransaction, what: str) -> SubscriptionError:
        return SubscriptionError(
            f"transaction {unseen.xid} {what} {self._subscriber.name!r} and cannot be seen at "
            f"{self._publisher.name!r} yet: its commit waits for a synchronous standby; try again"
        )
