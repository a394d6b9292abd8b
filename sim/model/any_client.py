"""Clients of a Subscriber without a coordinator (`any client`) in virtual time: names of their transactions, and the
ports of their resolver, `PublisherPort` and `SubscriberPort`.

Implements subscriber/sql/{begin_any_client,refuse_unprepared}.sql: the client's own COMMIT prepares the Publisher's
branch, and is, with the marker in it, the decision. `twopc.drivers.resolver` settles the branch, and
`twopc.drivers.resolver_watch` decides when the resolver looks for branches.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import chain, count
from typing import Any, cast

import psycopg
import simpy

from twopc.drivers.points import Points
from twopc.drivers.virtual import VirtualTime, steps
from twopc.errors import conflict_facts
from twopc.names import PREFIX, branch_gid
from twopc.protocol.effects import Outcome
from twopc.sim.model.clients import PublisherClient
from twopc.sim.model.coordinator import CoordinatorPlace
from twopc.sim.model.log_client import ModelDecisionReader
from twopc.sim.model.node.node import MARKERS, ModelNode
from twopc.sim.model.node.session import NodeSession
from twopc.sim.model.node.tx import OpenTx
from twopc.sim.model.replication.articles import link_role
from twopc.sim.model.replication.subscription import flush_log
from twopc.sim.model.resolver_lock import ModelResolverLock, sessions_of
from twopc.sim.model.sites import ModelSite
from twopc.sim.model.values import Cause, Label, SqlError, Steps
from twopc.waits import link_name, link_prefix

_SWEEP_S = 0.25
#: The shortest and the longest pause of a client that waits for the resolver.
_PAUSE_S, _PAUSE_MAX_S = 0.001, 0.064
#: Number of sweeps after a commit whose moments the search also chooses: a slow commit is still running then.
_SWEEPS_AWAKE = 2
#: Seconds for which a client's commit or rollback waits for the end of its work at the Publisher.
_ENDED_S = 10.0
_MARK = "msrepl.any_client"


class _Node:
    """See `twopc.drivers.resolver.ResolverNodePort`."""

    def __init__(self, node: ModelNode, site: ModelSite, prefix: str) -> None:
        self.name = node.name
        self._node = node
        self._site = site
        self._prefix = prefix

    async def old_markers(self, kept_s: float, fences_kept_s: float, rows_max: int) -> list[str]:
        def look() -> list[str]:
            self._node.notify_access(f"markers of {self._prefix[:-1]}", changed=False)
            table, now, result = self._node.table(MARKERS), self._node.clock(), list[str]()
            for row in table.rows():
                gid, fence, created = (
                    cast("Any", row[table.at[name]]) for name in ("gid", "fence", "created_at")
                )
                kept = fences_kept_s if fence else kept_s
                if gid.startswith(self._prefix) and created.timestamp() < now - kept:
                    result.append(gid)
            return result[:rows_max]

        return await self._site.look("look for old markers", look)

    async def markers(self, gids: Collection[str]) -> Mapping[str, bool]:
        return await self._site.markers([*gids])

    async def forget(self, gids: list[str]) -> None:
        await self._site.forget(gids)


class _Publisher(_Node):
    """See `twopc.drivers.resolver.PublisherPort`."""

    def __init__(self, node: ModelNode, site: ModelSite, prefix: str, subscriber: str) -> None:
        super().__init__(node, site, prefix)
        self._role = link_role(subscriber)
        self._links = f"{link_prefix(subscriber)} "

    async def voted(self) -> list[str]:
        result = await self._site.prepared(self._prefix)
        return [gid for gid, one in result.items() if one.owner == self._role]

    async def commit(self, gids: list[str]) -> int:
        done = 0
        with suppress(psycopg.Error):
            for gid in gids:
                done += await self._site.finish(gid, self._role, Outcome.COMMITTED)
        return done

    async def prepared(self) -> set[str]:
        return {*await self._site.prepared(self._prefix)}

    async def idle_links(self, idle_s: float) -> Mapping[int, tuple[NodeSession, float]]:
        def look() -> dict[int, tuple[NodeSession, float]]:
            self._node.notify_rows_read()
            since = self._node.kernel.now - idle_s
            results = {}
            for one in sessions_of(self._node):
                is_link = one.role == self._role and one.application_name.startswith(self._links)
                if is_link and _is_idle_in_transaction(one) and one.idle_since < since:
                    pid = int(one.application_name.removeprefix(self._links))
                    results[pid] = (one, one.idle_since)
            return results

        return await self._site.look("look for idle links", look)

    async def end_links(self, links: Sequence[tuple[NodeSession, float]]) -> None:
        def end() -> None:
            self._node.notify_rows_written()
            for one, since in links:
                if _is_idle_in_transaction(one) and one.idle_since == since:
                    one.terminate()

        await self._site.look("end links", end)


def _is_idle_in_transaction(one: NodeSession) -> bool:
    return one.tx is not None and not one.busy and one.dead is None


class _Subscriber(_Node):
    """See `twopc.drivers.resolver.SubscriberPort`."""

    def __init__(self, node: ModelNode, site: ModelSite, prefix: str, publisher: str) -> None:
        super().__init__(node, site, prefix)
        self._publisher = publisher
        self._held: set[int] = set()

    async def fence(self, gid: str) -> Outcome | None:
        return await self._site.fence(gid, [self._publisher])

    async def flush(self) -> None:
        await self._site.ask("flush", lambda one: one.execute(_flush))

    @asynccontextmanager
    async def hold(self, pids: Sequence[int]) -> AsyncIterator[Mapping[int, bool]]:
        """See `SubscriberPort`. Here no lock is shared: a session without a transaction has none, and no other
        takes it.
        """

        def take() -> dict[int, bool]:
            self._node.notify_rows_read()
            self._notify(changed=True)
            sessions = self._node.sessions
            idle = [pid for pid in pids if pid not in sessions or sessions[pid].tx is None]
            self._held.update(idle)
            return dict.fromkeys(idle, True)

        idle = await self._site.look("keep links from being used", take)
        try:
            yield idle
        finally:
            self._notify(changed=True)
            self._held.difference_update(idle)

    def holds(self, pid: int) -> bool:
        """Whether a session must not use its link again."""
        self._notify(changed=False)
        return pid in self._held

    async def holders(self, pids: Sequence[int]) -> list[tuple[int, int, str]]:
        return []

    def _notify(self, *, changed: bool) -> None:
        self._node.notify_access("links held", changed=changed)


def _flush(tx: OpenTx, params: Any) -> Steps[Any]:
    return flush_log(tx)


class ModelAnyClients:
    """The clients without a coordinator of one Subscriber: names for their transactions, and their resolver.

    Args:
        coordinator: the name in their gids.
        epoch: an epoch of their own, of the variant ``last_agent``.
    """

    def __init__(
        self,
        place: CoordinatorPlace,
        subscriber: str,
        coordinator: str,
        epoch: int,
        markers_kept_s: float,
    ) -> None:
        self._kernel = place.kernel
        self.here: ModelNode = place.nodes[subscriber]
        self.there: ModelNode = place.nodes[place.publisher]
        self._prefix = f"{PREFIX}:{coordinator}:{epoch}:"
        self._actor = f"resolver:{subscriber}"
        sites = {
            one: place.wiring.site(place.nodes[one], place.network, self._actor, self._actor)
            for one in place.nodes
        }
        self._subscriber = _Subscriber(self.here, sites[subscriber], self._prefix, place.publisher)
        self._resolver = place.wiring.resolver(
            _Publisher(self.there, sites[place.publisher], self._prefix, subscriber),
            self._subscriber,
            place.wiring.recovery(
                coordinator,
                publisher=place.publisher,
                participants=sites,
                decisions=ModelDecisionReader(
                    place.ledger, place.network, self._actor, place.log_at, self._actor
                ),
                points=Points(),
                retention_s=math.inf,
            ),
            VirtualTime(lambda: place.kernel.now, self._until_sweep),
            sweep_s=_SWEEP_S,
            markers_kept_s=markers_kept_s,
        )
        self._numbers = count(1)
        self._lock = ModelResolverLock(self.here, self._prefix, self._pause, self._notify)
        self._loop = place.wiring.resolver_loop(self._lock, self._resolver.finish_decided)
        self._sweeps_awake = 0
        self._sweep = self._timer = place.kernel.event()
        """Comes when the next sweep is due; `_timer` triggers it."""
        self._processes: dict[str, simpy.Process] = {}

    # -- for the Subscriber's triggers ---------------------------------------------------------------

    def begin(self, tx: OpenTx) -> str:
        """Name a transaction, as ``msrepl.begin_any_client`` does, and return its gid."""
        gid = f"{self._prefix}{next(self._numbers)}"
        tx.set("msrepl.gid", gid, local=True)
        tx.set(_MARK, "yes", local=True)
        link = tx.session.link
        if link is not None and self._subscriber.holds(tx.session.pid):
            link.close()
        self._wake(self._sweep_repeatedly)
        self._wake(self._watch_links)
        return gid

    def ends(self, tx: OpenTx) -> None:
        """Note that the Publisher's branch is about to be prepared, and the decision to be made."""
        self._notify(changed=True)
        if self._lock.is_taken:
            tx.top.notified = True
        self._sweeps_awake = _SWEEPS_AWAKE
        if not self._sweep.triggered:
            self._kernel.cancel(self._timer)
            self._time_sweep(_SWEEP_S)

    def _notify(self, *, changed: bool) -> None:
        """Notify the search that the state of the resolver is read or changed."""
        if self._kernel.record_access is not None:
            self._kernel.record_access(f"what {self._actor} knows", changed)

    # -- when the resolver looks ---------------------------------------------------------------------

    def _wake(self, work: Callable[[], Steps[None]]) -> None:
        process = self._processes.get(work.__name__)
        if process is None or not process.is_alive:
            self._processes[work.__name__] = self._kernel.spawn(work(), self._actor)

    def _watch_links(self) -> Steps[None]:
        """Run the resolver's loop for ever, from the first client's begin."""
        return steps(self._loop.watch())

    def _sweep_repeatedly(self) -> Steps[None]:
        """Sweep periodically as long as a client has a transaction, branch or link."""
        goes_on = chain((True,), iter(self._is_work_left, None))
        return steps(self._resolver.keep_sweeping(goes_on.__next__))

    def _until_sweep(self, seconds: float) -> simpy.Event:
        self._notify(changed=True)
        self._sweep = self._kernel.event()
        self._time_sweep(seconds)
        return self._sweep

    def _time_sweep(self, seconds: float) -> None:
        awake = self._sweeps_awake > 0
        self._sweeps_awake -= awake
        timer = self._timer = self._pause(seconds, "sweep", awake=awake)
        assert timer.callbacks is not None
        timer.callbacks.append(self._sweep_is_due)

    def _sweep_is_due(self, _: simpy.Event) -> None:
        self._sweep.succeed()

    def _pause(self, seconds: float, what: str, *, awake: bool) -> simpy.Event:
        cause = Cause.MESSAGE if awake else Cause.POLL
        return self._kernel.delay(seconds, Label(actor=self._actor, cause=cause, what=what))

    def _is_work_left(self) -> bool:
        for what in ("branches", "begun branches"):
            self.there.notify_access(what, changed=True)  # see `PreparedTransaction.notify_change`
        return (
            any(gid.startswith(self._prefix) for gid in self.there.branches)
            or any(one.tx is not None and is_any(one.tx) for one in sessions_of(self.here))
            or bool(self._open_links())
        )

    def is_left(self, gid: str) -> bool:
        """Whether a branch at the Publisher is prepared or being prepared."""
        self.there.notify_access(f"branch {gid}", changed=False)
        return gid in self.there.branches

    def has_link(self, pid: int) -> bool:
        """Whether a Subscriber's session has no transaction, but its link has one at the Publisher."""
        here, there = self.here, self.there
        links = there.names.find(link_name(here.name, pid))
        for node, one in ((here, here.sessions.get(pid)), *((there, link) for link in links)):
            if one is not None:
                node.notify_access(one.search_name, changed=True)
        own = here.sessions.get(pid)
        return own is not None and own.tx is None and any(one.tx is not None for one in links)

    def _open_links(self) -> list[int]:
        """Return the pids of the Subscriber's sessions without a transaction whose links have one at the Publisher."""
        sessions = sessions_of(self.here)
        open_ = {one.pid for one in sessions if one.tx is not None}
        names = {link_name(self.here.name, one.pid): one.pid for one in sessions}
        return [
            names[one.application_name]
            for one in sessions_of(self.there)
            if one.tx is not None
            and one.application_name in names
            and names[one.application_name] not in open_
        ]


def is_any(tx: OpenTx) -> bool:
    """Whether a transaction belongs to a client without a coordinator."""
    return tx.setting(_MARK) == "yes"


class ModelAnyClient(PublisherClient):
    """A client of a Subscriber without a coordinator: its statements are sent unchanged.

    Commit and rollback return when the resolver has ended the client's work at the Publisher, as with a scenario's
    session on real servers.
    """

    gid = ""
    settles = "the resolver finishes what was decided"

    def __init__(self, name: str, clients: ModelAnyClients, network: Any) -> None:
        super().__init__(name, clients.here, network)
        self._clients = clients

    def begin(self, level: str = "read committed", role: str = "") -> Steps[None]:
        """Begin a transaction. Raise RejectedError."""
        self.gid = ""
        yield from super().begin(level, role)

    def commit(self) -> Steps[None]:
        """Commit. Raise RejectedError or InDoubtError."""
        there, tx = self._clients.there, self._session.tx if self._wire is not None else None
        self.gid = (tx.setting("msrepl.gid") if tx is not None else "") or ""
        yield from super().commit()
        branch = branch_gid(self.gid, there.name)
        yield from self._until(lambda: not self.gid or not self._clients.is_left(branch))

    def rollback(self) -> Steps[None]:
        """Roll back."""
        pid = self.pid
        yield from super().rollback()
        yield from self._until(lambda: not self._clients.has_link(pid))

    def raised_at(self, error: SqlError) -> str:
        over = "dblink" in error.context or conflict_facts(error.detail) is not None
        return self._clients.there.name if over else self.node

    def _until(self, over: Callable[[], bool]) -> Steps[None]:
        kernel, waited_s = self._network.kernel, 0.0
        label = Label(actor=f"client:{self.name}", cause=Cause.POLL, what="wait for the resolver")
        while not over() and waited_s < _ENDED_S:
            pause_s = min(max(_PAUSE_S, waited_s / 8), _PAUSE_MAX_S)
            yield kernel.delay(pause_s, label)
            waited_s += pause_s
