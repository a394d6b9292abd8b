"""The snapshot agent copies the Publisher's rows of one snapshot to a Subscriber, and sets the position after which
the Subscriber receives transactions.

The Publisher is neither stopped nor locked, and transactions commit while rows are read. Exactly the transactions
that the copy's snapshot did not see are delivered to it.

`SnapshotAgent` is the same on servers (`twopc.sim.topology.copies`) and in virtual time
(`twopc.sim.model.distribution.copies`). It must not depend on how a database is queried, nor on the content of a
copy.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from twopc.drivers.runtime import Runtime
from twopc.errors import LockTimeoutError, SubscriptionError

#: Interval at which prepared branches are checked.
_POLL_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyMoment:
    """The snapshot and the position at which a copy was made."""

    snapshot: str
    """pg_snapshot: the transactions that are in the copy."""
    seqno: int
    """A position of the log: no transaction that commits after it is in the copy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnseenTransaction:
    """A stored transaction that a copy has not seen."""

    seqno: int
    xid: int


class CopySourcePort(Protocol):
    """Interface to the Publisher."""

    name: str

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """Return a transaction that uses one snapshot throughout, and writes nothing."""
        ...

    async def snapshot(self) -> str:
        """Return the transaction's snapshot, a pg_snapshot."""
        ...

    async def position(self) -> int:
        """Return the present end of the log."""
        ...

    async def prepared(self) -> str | None:
        """Return the gid of a prepared branch of the Subscriber's link; None if there is none."""
        ...


class CopyTargetPort(Protocol):
    """Interface to a Subscriber."""

    name: str

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """Return the transaction in which all methods but `refuse_prepared` are called."""
        ...

    async def prepare(self) -> None:
        """Create the objects that a copy needs before any row; no effect if they exist."""
        ...

    async def hold(self) -> None:
        """Prevent the Subscriber's agent, wherever it runs, from delivering until the transaction ends.

        An agent moves the position only from the value that it read, so an agent that has planned a batch before
        finds another position afterwards, and plans again, with the subscriptions of that time.
        """
        ...

    async def lock_out(self, timeout_s: float) -> None:
        """Prevent changes of the copies until the transaction ends; raise LockTimeoutError if a transaction keeps
        its locks for too long.
        """
        ...

    async def close_tables(self, timeout_s: float) -> None:
        """Prevent any use of the copies until the transaction ends; raise LockTimeoutError if a transaction keeps
        its locks for too long.
        """
        ...

    async def fill(self) -> None:
        """Create missing tables, and copy all rows that the Publisher's transaction sees."""
        ...

    async def create_objects(self) -> None:
        """Create the objects that depend on the tables."""
        ...

    async def position(self) -> int:
        """Return the position up to which transactions are delivered."""
        ...

    async def refuse_prepared(self) -> None:
        """Raise SubscriptionError if a branch is prepared at the Subscriber."""
        ...

    async def remove(self) -> None:
        """Remove the subscription's objects; tables and rows stay."""
        ...


class CopyStorePort(Protocol):
    """Interface to the distribution database."""

    def kept(self) -> AbstractAsyncContextManager[None]:
        """Return a context in which stored transactions are not removed, even if every Subscriber has received
        them.

        The subscription that is being copied again is not active, and an inactive subscription retains nothing by
        itself.
        """
        ...

    async def unseen(self, moment: CopyMoment) -> tuple[int, UnseenTransaction | None]:
        """Return the position up to which the log is stored, and the first stored transaction that the copy has not
        seen.
        """
        ...

    async def unseen_call(self, moment: CopyMoment) -> UnseenTransaction | None:
        """Return a transaction that the copy has not seen and that is stored as a call alone, if the copy takes
        calls.
        """
        ...

    async def start(self, after: int, moment: CopyMoment, *, active: bool) -> None:
        """Set the position after which the Subscriber receives transactions that are not in the copy, once it is
        active.
        """
        ...

    async def set_active(self) -> None:
        """Let the Subscriber's agent continue."""
        ...


def start_of(stored: int, unseen: UnseenTransaction | None) -> int:
    """Return the position after which a Subscriber receives the transactions that its copy has not seen. Pure.

    The first stored transaction that the copy has not seen is the first to be delivered; transactions that are not
    stored yet come after all stored ones.
    """
    return stored if unseen is None else unseen.seqno - 1


class SnapshotAgent:
    """Makes one Subscriber's copy, replaces its rows, or removes it.

    Args:
        store: the distribution database; None if nothing is distributed.
        reach: called with each protocol point.
        timeout_s: time to wait for transactions that block the copy.
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
            # before the commit: an agent that sees the subscription too soon waits for this transaction, and
            # finds the position changed
            await self._copy(active=True)

    async def reinitialise(self) -> None:
        """Replace all rows of the copy, after waiting for the Subscriber's own transactions.

        Raises:
            LockTimeoutError: a transaction does not end.
            SubscriptionError: see `start`.
        """
        target = self._subscriber
        await self._reach("snapshot.begin")
        async with target.transaction():
            await self._hold()  # first, in the same order as the agent, to avoid a deadlock
            await target.lock_out(self._timeout_s)
            await self.await_branches()
            # the agent must not run until the copy is committed, or it would skip transactions that this copy
            # includes
            await self._copy(active=False)
        if self._store is not None:
            await self._store.set_active()

    async def remove(self) -> None:
        """Remove the subscription at the Subscriber, after waiting for transactions that use its tables.

        Raises:
            LockTimeoutError: a transaction does not end.
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

        A Subscriber's transaction may have ended while its branch at the Publisher is not committed yet: a copy
        made now would miss the branch, which would never be delivered, because it is the Subscriber's own.

        Raises:
            LockTimeoutError: a branch stays prepared; the message names it.
        """
        until = self._runtime.time() + self._timeout_s
        while (gid := await self._publisher.prepared()) is not None:
            if self._runtime.time() > until:
                raise LockTimeoutError(
                    f"branch {gid} is prepared at the Publisher and does not end: `twopc recover` settles "
                    "what a dead coordinator left",
                    gid=gid,
                )
            await self._runtime.sleep(_POLL_S)

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[CopyMoment]:
        """Use one snapshot of the Publisher within the block.

        A branch that was prepared before and is committed afterwards is not in the copy: the snapshot does not see
        it, and its commit comes after the position.
        """
        publisher = self._publisher
        async with publisher.transaction():
            snapshot = await publisher.snapshot()
            # read after the snapshot was taken: the commit records of all transactions that the snapshot sees
            # come before
            yield CopyMoment(snapshot=snapshot, seqno=await publisher.position())

    def kept(self) -> AbstractAsyncContextManager[None]:
        """Return a context in which stored transactions are kept: those that the copy has not seen must still be there
        when they are looked for.
        """
        return self._store.kept() if self._store is not None else nullcontext()

    async def start(self, moment: CopyMoment, *, delivered: int, active: bool) -> None:
        """Let the Subscriber receive the transactions that its copy has not seen.

        Args:
            delivered: position of its agent, which does not go back.

        Raises:
            SubscriptionError: a transaction was delivered, or stored as a call, that sessions at the Publisher do
                not see yet, because its commit waits for a synchronous standby.
        """
        store = self._store
        assert store is not None
        stored, unseen = await store.unseen(moment)
        if unseen is not None and unseen.seqno <= delivered:
            raise self._unseen_error(unseen, "was delivered to")
        if (call := await store.unseen_call(moment)) is not None:
            raise self._unseen_error(call, "is stored as a call for")
        await store.start(start_of(stored, unseen), moment, active=active)

    async def _hold(self) -> None:
        if self._store is not None:
            await self._subscriber.hold()

    async def _copy(self, *, active: bool) -> None:
        target, store = self._subscriber, self._store
        async with self.kept():
            async with self.reading() as moment:
                await self._reach("snapshot.taken")
                await target.fill()
            await self._reach("snapshot.copied")
            await target.create_objects()
            if store is not None:
                await self.start(moment, delivered=await target.position(), active=active)
        await self._reach("snapshot.started")

    def _unseen_error(self, unseen: UnseenTransaction, what: str) -> SubscriptionError:
        return SubscriptionError(
            f"transaction {unseen.xid} {what} {self._subscriber.name!r} and cannot be seen at "
            f"{self._publisher.name!r} yet: its commit waits for a synchronous standby; try again"
        )
