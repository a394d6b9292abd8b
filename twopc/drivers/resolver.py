"""The resolver finishes at the Publisher branches that clients of a Subscriber have decided by committing there.

The Subscriber's commit, which includes its branch marker, is the decision (last agent). `Resolver.finish_decided`
is called as soon as there may be a decision; a sweep finds branches that it misses and branches that were never
decided. Only `twopc.drivers.recovery` decides about those.

`Resolver` is the same on servers (`twopc.drivers.resolver_servers`) and in virtual time
(`twopc.sim.model.any_client`). It must not depend on tables, nor on the clients' statements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import psycopg
from psycopg import errors as pg

from twopc.drivers.recovery import Recovery, SettledBranch
from twopc.drivers.runtime import Runtime
from twopc.log import get_logger
from twopc.names import branch_gid
from twopc.protocol.effects import Outcome

_log = get_logger(__name__)

#: Maximum number of markers removed at a time.
_MARKERS_BATCH = 2000
#: Factor by which fences are kept longer than other markers, because a PREPARE may still arrive.
_FENCES_KEPT = 10


class ResolverNodePort(Protocol):
    """Interface common to both nodes: removal of markers. Every method may raise `psycopg.Error`."""

    name: str

    async def old_markers(self, kept_s: float, fences_kept_s: float, rows_max: int) -> list[str]:
        """Return branches of any client whose markers are older than the given times."""
        ...

    async def markers(self, gids: Collection[str]) -> Mapping[str, bool]:
        """Return which of `gids` have a visible marker, each with whether it is a fence."""
        ...

    async def forget(self, gids: list[str]) -> None:
        """Remove the markers of these branches."""
        ...


class PublisherPort(ResolverNodePort, Protocol):
    """Interface to the Publisher of a Subscriber's clients. Every method may raise `psycopg.Error`."""

    async def voted(self) -> list[str]:
        """Return the branches that the Subscriber's link has prepared."""
        ...

    async def commit(self, gids: list[str]) -> int:
        """Commit prepared branches, each independently, and return the number of commits. The other branches are
        finished by another session, or are found again later; no exception is raised.
        """
        ...

    async def prepared(self) -> set[str]:
        """Return the branches prepared by any role with gids of these clients."""
        ...

    async def idle_links(self, idle_s: float) -> Mapping[int, Any]:
        """Return the links that have been idle in a transaction for longer than `idle_s`, by the pid of their
        session at the Subscriber.
        """
        ...

    async def end_links(self, links: Sequence[Any]) -> None:
        """End links returned by `idle_links` that are still idle since the same time."""
        ...


class SubscriberPort(ResolverNodePort, Protocol):
    """Interface to the Subscriber. Every method may raise `psycopg.Error`."""

    async def fence(self, gid: str) -> Outcome | None:
        """Return the final outcome of a branch; None if it is prepared. Raise psycopg.errors.LockNotAvailable if it
        is active.
        """
        ...

    async def flush(self) -> None:
        """Wait until every visible commit is durable."""
        ...

    def hold(self, pids: Sequence[int]) -> AbstractAsyncContextManager[Mapping[int, bool]]:
        """Return those of the sessions that have no open transaction, each with whether it is prevented, within the
        block, from using its present link again.
        """
        ...

    async def holders(self, pids: Sequence[int]) -> list[tuple[int, int, str]]:
        """Return other holders of the locks that prevent sessions from using their links: the session, the pid of
        the holder, and its role.
        """
        ...


class Resolver:
    """The resolver of one Subscriber's clients. Several may run; one is sufficient.

    Args:
        publisher: the node at which branches are finished.
        subscriber: the node at which they are decided.
        recovery: recovery of the coordinator in whose name clients begin transactions; closed by its creator.
        runtime: source of time and concurrency.
        sweep_s: interval between sweeps for branches that `finish_decided` has missed.
        markers_kept_s: time for which the markers of finished transactions are kept.
    """

    def __init__(
        self,
        publisher: PublisherPort,
        subscriber: SubscriberPort,
        recovery: Recovery,
        runtime: Runtime,
        *,
        sweep_s: float = 0.5,
        markers_kept_s: float = 60.0,
    ) -> None:
        self._publisher = publisher
        self._subscriber = subscriber
        self._recovery = recovery
        self._runtime = runtime
        self._sweep_s = sweep_s
        self._markers_kept_s = markers_kept_s
        self._forgotten_at = -math.inf
        self._prepared: set[str] = set()
        """Branches that were prepared at the last sweep."""
        self._kept: set[int] = set()
        """Idle sessions whose links could not be ended at the last sweep, because of a lock."""
        self.finished = 0
        """Number of branches that the resolver finished by itself, without recovery."""

    # -- decided branches ----------------------------------------------------------------------------

    async def finish_decided(self) -> int:
        """Commit at the Publisher the branches that the Subscriber's clients have decided, and return their number.

        Errors are left to the sweep.
        """
        before = self.finished
        try:
            decided = await self.decided()
            if decided:
                self.finished += await self._publisher.commit(decided)
        except psycopg.Error as error:
            _log.debug("not finished at once", reason=" ".join(str(error).split()))
        return self.finished - before

    async def decided(self) -> list[str]:
        """Return branches prepared at the Publisher that the Subscriber has durably committed.

        A commit can be visible before it is on disk, or at the standby, so it counts only after a flush.
        """
        seen = await self.committed()
        if seen:
            await self._subscriber.flush()
        return seen

    async def committed(self) -> list[str]:
        """Return branches prepared at the Publisher whose marker is visible at the Subscriber: only a commit leaves
        one.
        """
        branch_of = {
            branch_gid(_transaction(gid), self._subscriber.name): gid
            for gid in await self._publisher.voted()
        }
        if not branch_of:
            return []
        markers = await self._subscriber.markers(branch_of)
        return [branch_of[gid] for gid, is_fence in markers.items() if not is_fence]

    # -- sweeps -------------------------------------------------------------------------------------

    async def keep_sweeping(self, goes_on: Callable[[], bool]) -> None:
        """Sweep at intervals, for as long as `goes_on` returns true."""
        while goes_on():
            await self._runtime.sleep(self._sweep_s)
            try:
                await self.sweep()
            except psycopg.Error as error:
                _log.warning("resolver cannot look", reason=" ".join(str(error).split()))

    async def sweep(self) -> None:
        """Settle branches that were already prepared at the last sweep, and end links whose sessions have no open
        transaction.

        Raises:
            psycopg.Error: a database cannot be reached.
        """
        prepared = await self._publisher.prepared()
        if prepared & self._prepared:
            for settled in await self.settle():
                _log.info("settled", gid=settled.gid, outcome=str(settled.outcome))
        self._prepared = prepared
        await self.end_links(self._sweep_s / 2)
        await self._forget()

    async def settle(self) -> list[SettledBranch]:
        """Run one pass of recovery over this Subscriber's branches.

        Raises:
            psycopg.Error: the distribution database cannot be reached.
        """
        return await self._recovery.run()

    async def end_links(self, idle_s: float) -> None:
        """End the links that a rollback has left idle in a transaction for longer than `idle_s`; the Publisher is
        not notified of a rollback.

        The link's session may begin a transaction at any time. So a lock is taken which every transaction shares
        when it begins: a session that holds the lock is skipped, and a session that cannot get it uses a new link.
        """
        links = await self._publisher.idle_links(idle_s)
        kept: set[int] = set()
        if links:
            async with self._subscriber.hold([*links]) as idle:
                ended = [links[pid] for pid, is_held in idle.items() if is_held]
                if ended:
                    await self._publisher.end_links(ended)
            kept = {pid for pid, is_held in idle.items() if not is_held}
        if kept & self._kept:
            for pid, holder, role in await self._subscriber.holders([*kept & self._kept]):
                _log.warning(
                    "a lock keeps a link open that a rollback has left: end that session",
                    link_of=pid,
                    held_by=holder,
                    role=role,
                )
        self._kept = kept

    async def _forget(self) -> None:
        """Remove the markers of transactions that ended long ago, and old fences; record branches that were finished
        manually against the decision.

        The Subscriber's markers stay while the Publisher's branch is prepared: they are the decision. The
        Publisher's are removed first: a transaction with a marker at the Publisher alone would appear not to have
        been committed at the Subscriber.
        """
        now = self._runtime.time()
        if now < self._forgotten_at + self._markers_kept_s / 4:
            return
        old = await self._old(self._subscriber)
        prepared = await self._publisher.prepared()  # read after the decisions
        open_ = {_transaction(gid) for gid in prepared}
        over = {
            gid: branch_gid(_transaction(gid), self._publisher.name)
            for gid in old
            if _transaction(gid) not in open_
        }
        if over:
            await self._recovery.release(self._subscriber.name, over)
        there = [*over.values()]
        there += await self._alone([*there, *await self._old(self._publisher)])
        if there:
            await self._publisher.forget(there)
        if over:
            await self._subscriber.forget([*over])
        if len(old) < _MARKERS_BATCH:
            self._forgotten_at = now

    async def _alone(self, there: Sequence[str]) -> list[str]:
        """Return those of the Publisher's old markers that have no counterpart at the Subscriber. If they are not
        fences, their branches were committed manually.
        """
        branch_of = {branch_gid(_transaction(gid), self._subscriber.name): gid for gid in there}
        known = await self._subscriber.markers(branch_of) if branch_of else {}
        alone = {own: gid for own, gid in branch_of.items() if known.get(own, True)}
        # read after the Subscriber's markers, which another resolver removes only after these
        still = await self._publisher.markers([*alone.values()]) if alone else {}
        for own, gid in [*alone.items()]:
            if not still.get(gid, True):
                try:
                    outcome = await self._subscriber.fence(own)
                except pg.LockNotAvailable:
                    outcome = None
                if outcome is Outcome.ABORTED:
                    await self._recovery.record_damage(
                        gid, outcome=Outcome.COMMITTED, decided=Outcome.ABORTED
                    )
                else:
                    del alone[own]
        return [*alone.values()]

    async def _old(self, node: ResolverNodePort) -> list[str]:
        kept_s = self._markers_kept_s
        return await node.old_markers(kept_s, _FENCES_KEPT * kept_s, _MARKERS_BATCH)


def _transaction(gid: str) -> str:
    """Return the global transaction of a branch."""
    return gid.rpartition(":")[0]
