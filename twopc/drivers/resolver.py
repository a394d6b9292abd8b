"""Finishes at the Publisher what clients of a Subscriber have decided by committing there.

The Subscriber's commit, with its branch marker in it, is the decision (last agent). `Resolver.finish_decided` is called
as soon as there may be one; what that misses, and what was never decided, is found by a sweep. Only
`twopc.drivers.recovery` says what becomes of a branch that nobody told us of.

`Resolver` is the same on servers (`twopc.drivers.resolver_servers`) and in virtual time (`twopc.sim.model.any_client`). It must
not know tables, nor what a client did.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import psycopg

from twopc.drivers.recovery import Recovery, SettledBranch
from twopc.drivers.runtime import Runtime
from twopc.log import get_logger
from twopc.names import branch_gid

_log = get_logger(__name__)

#: So many markers are forgotten at a time.
_MARKERS_BATCH = 2000
#: For how many times as long as other markers fences stay, against a PREPARE that is still on its way.
_FENCES_KEPT = 10


class ResolverNodePort(Protocol):
    """What is forgotten at both nodes. Every method may raise `psycopg.Error`."""

    name: str

    async def old_markers(self, kept_s: float, fences_kept_s: float, rows_max: int) -> list[str]:
        """Branches of any client whose markers are older than that."""
        ...

    async def forget(self, gids: list[str]) -> None:
        """Remove the markers of these branches."""
        ...


class PublisherPort(ResolverNodePort, Protocol):
    """The Publisher of a Subscriber's clients. Every method may raise `psycopg.Error`."""

    async def voted(self) -> list[str]:
        """Branches that the Subscriber's link has prepared."""
        ...

    async def commit(self, gids: list[str]) -> int:
        """Commit prepared branches, each on its own; how many. Others are finished by somebody else, or are found again;
        it raises nothing."""
        ...

    async def prepared(self) -> set[str]:
        """Branches that anybody has prepared in the name of these clients."""
        ...

    async def idle_links(self, idle_s: float) -> Mapping[int, Any]:
        """Links that have been idle in a transaction for longer, by the process of their session at the Subscriber."""
        ...

    async def end_links(self, links: Sequence[Any]) -> None:
        """End those that `idle_links` has returned and that are idle still, as they were then."""
        ...


class SubscriberPort(ResolverNodePort, Protocol):
    """The Subscriber. Every method may raise `psycopg.Error`."""

    async def markers(self, gids: Collection[str]) -> Mapping[str, bool]:
        """Those that have a marker that can be seen; True for a fence."""
        ...

    async def flush(self) -> None:
        """Wait until every commit that can be seen is durable."""
        ...

    def hold(self, pids: Sequence[int]) -> AbstractAsyncContextManager[Mapping[int, bool]]:
        """Those of these sessions that have no transaction open, each with whether it is kept, within the block, from
        using the link again that it has."""
        ...

    async def holders(self, pids: Sequence[int]) -> list[tuple[int, int, str]]:
        """Who else keeps sessions from using their links: the session, the process that does, and its role."""
        ...


class Resolver:
    """The resolver of one Subscriber's clients. Several may run; one is enough.

    Args:
        publisher: where branches are finished.
        subscriber: where they are decided.
        recovery: of the coordinator in whose name clients begin; closed by whoever made it.
        runtime: the world it runs in.
        sweep_s: how often it is looked for what `finish_decided` has missed.
        markers_kept_s: for how long the markers of finished transactions stay.
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
        """What was prepared at the last sweep."""
        self._kept: set[int] = set()
        """Idle sessions whose links could not be ended at the last sweep, because of a lock."""
        self.finished = 0
        """How many branches it has finished because it saw them decided, not by recovery."""

    # -- what is decided ---------------------------------------------------------------------------

    async def finish_decided(self) -> int:
        """Commit at the Publisher what the Subscriber's clients have decided, and tell how many that were.

        Anything unexpected is left to the sweep.
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
        """Branches prepared at the Publisher that the Subscriber has committed for good.

        A commit can be seen that did not wait until it was on disk, or at the standby: it counts once what could be
        seen is flushed.
        """
        seen = await self.committed()
        if seen:
            await self._subscriber.flush()
        return seen

    async def committed(self) -> list[str]:
        """Branches prepared at the Publisher whose marker can be seen at the Subscriber: only a commit leaves one."""
        branch_of = {
            branch_gid(_transaction(gid), self._subscriber.name): gid
            for gid in await self._publisher.voted()
        }
        if not branch_of:
            return []
        markers = await self._subscriber.markers(branch_of)
        return [branch_of[gid] for gid, is_fence in markers.items() if not is_fence]

    # -- what nobody tells of ----------------------------------------------------------------------

    async def keep_sweeping(self, goes_on: Callable[[], bool]) -> None:
        """Sweep at intervals, for as long as `goes_on`."""
        while goes_on():
            await self._runtime.sleep(self._sweep_s)
            try:
                await self.sweep()
            except psycopg.Error as error:
                _log.warning("resolver cannot look", reason=" ".join(str(error).split()))

    async def sweep(self) -> None:
        """Settle what was prepared the last time already; end links whose sessions have nothing open.

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
        """One pass of recovery over this Subscriber's branches.

        Raises:
            psycopg.Error: the distribution database cannot be reached.
        """
        return await self._recovery.run()

    async def end_links(self, idle_s: float) -> None:
        """Nobody tells a server that a transaction was rolled back: its link is found idle in one, for so long.

        Its session may begin anew at any time. So a lock is taken that whoever begins shares: who has it is left
        alone, and who cannot get it takes a new link.
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
        """Remove the markers of what has been over for long, whoever finished it, and old fences.

        The Subscriber's stay while the Publisher's branch is prepared: they are the decision. The Publisher's
        are the first to go: what it alone has a marker of was never committed elsewhere.
        """
        now = self._runtime.time()
        if now < self._forgotten_at + self._markers_kept_s / 4:
            return
        old = await self._old(self._subscriber)
        prepared = await self._publisher.prepared()  # asked for after the decisions were read
        open_ = {_transaction(gid) for gid in prepared}
        over = [gid for gid in old if _transaction(gid) not in open_]
        there = await self._old(self._publisher)
        there += [branch_gid(_transaction(gid), self._publisher.name) for gid in over]
        if there:
            await self._publisher.forget(there)
        if over:
            await self._subscriber.forget(over)
        if len(old) < _MARKERS_BATCH:
            self._forgotten_at = now

    async def _old(self, node: ResolverNodePort) -> list[str]:
        kept_s = self._markers_kept_s
        return await node.old_markers(kept_s, _FENCES_KEPT * kept_s, _MARKERS_BATCH)


def _transaction(gid: str) -> str:
    """The global transaction of a branch."""
    return gid.rpartition(":")[0]
