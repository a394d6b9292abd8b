"""Nodes as a coordinator's driver and its recovery see them: the `SitePort` of virtual time.

This module decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from psycopg import errors as pg

from twopc.drivers.ports import PreparedBranch
from twopc.drivers.settlement import Branches
from twopc.drivers.virtual import AwaitableSteps, awaited
from twopc.protocol.effects import Outcome
from twopc.sim.model.application import notify_branch_answer
from twopc.sim.model.errors import raised
from twopc.sim.model.network import Network
from twopc.sim.model.node.node import MARKERS, ModelNode
from twopc.sim.model.node.session import NodeSession
from twopc.sim.model.node.tx import OpenTx
from twopc.sim.model.pool import ConnectionPool
from twopc.sim.model.values import Cause, Label, StatementResult, Steps

T = TypeVar("T")

#: A role that is a member of every role that prepares branches.
ROLE = "postgres"
_BUSY_S = 0.02
#: Creation time of a marker whose transaction's other markers may be removed.
_RELEASED = datetime.min.replace(tzinfo=UTC)


class ModelSite(Branches):
    """One participant.

    Args:
        here: name of the coordinator's place in the network.
        actor: actor of the coordinator's connections.
    """

    def __init__(self, node: ModelNode, network: Network, here: str, actor: str) -> None:
        self.name = node.name
        self._node = node
        self._network = network
        self._here = here
        self._actor = f"{actor}:{node.name}"
        self._touches = frozenset((node.name,))
        self._pool = ConnectionPool(
            network, here, node.name, self._actor, lambda: node.connect(ROLE, "twopc recovery")
        )

    async def prepared(self, prefix: str) -> dict[str, PreparedBranch]:
        """Return the prepared branches whose gid begins with `prefix`, oldest first."""

        def look() -> dict[str, PreparedBranch]:
            results = [
                PreparedBranch(gid=gid, owner=one.owner, prepared_at=one.prepared_at)
                for gid, one in self._node.prepared().items()
                if gid.startswith(prefix)
            ]
            if self._network.kernel.record_access is not None:
                results.sort(key=lambda one: one.gid)  # their order is irrelevant
            return {one.gid: one for one in results}

        return await self.look("look for branches", look)

    async def owner_of(self, gid: str) -> str | None:
        """See `Branches`."""

        def look() -> str | None:
            result = self._node.branch(gid)
            return None if result is None else result.owner

        return await self.look(f"look for {gid}", look)

    async def markers(self, gids: list[str]) -> dict[str, bool]:
        """Return those of `gids` that have a marker at the node; True for a fence."""

        def look() -> dict[str, bool]:
            requested = set(gids)
            return {row.gid: row.fence for row in self._node.markers(*gids) if row.gid in requested}

        return await self.look("read markers", look)

    async def committed(self, prefix: str, after: str, rows_max: int) -> dict[str, list[str]]:
        """Return the committed branches whose gid begins with `prefix` and is greater than `after`, with the other
        sites.
        """

        def look() -> dict[str, list[str]]:
            rows = sorted((row.gid, row) for row in self._node.markers(prefix) if not row.fence)
            results = [(gid, row) for gid, row in rows if gid.startswith(prefix) and gid > after]
            return {gid: [*row.participants] for gid, row in results[:rows_max]}

        return await self.look("compare markers", look)

    async def unreleased(self, gids: Sequence[str]) -> list[str]:
        """See `ParticipantPort`."""
        table, asked = self._node.table(MARKERS), {*gids}
        at = table.at

        def look() -> list[str]:
            self._node.markers(*gids)
            return sorted(
                str(row[at["gid"]])
                for row in table.rows()
                if row[at["gid"]] in asked
                and (row[at["calls"]] or row[at["pending"]])
                and row[at["created_at"]] != _RELEASED
            )

        return await self.look("look for branches not released", look)

    async def release(self, gids: Sequence[str]) -> None:
        """See `ParticipantPort`."""
        at = self._node.table(MARKERS).at["created_at"]

        def release(tx: OpenTx, params: Any) -> Steps[StatementResult]:
            for gid in gids:
                yield from tx.change(
                    MARKERS, (gid,), lambda old: (*old[:at], _RELEASED, *old[at + 1 :])
                )
            return StatementResult(tag=f"UPDATE {len(gids)}", rowcount=len(gids))

        if gids:
            await self.ask("release markers", lambda one: one.execute(release))

    async def settle(self, gid: str, outcome: Outcome, sites: list[str]) -> Outcome:
        """See `Branches`."""
        try:
            return await super().settle(gid, outcome, sites)
        finally:
            notify_branch_answer(self._network.kernel, gid, self._here)

    async def _fence(self, gid: str, sites: list[str]) -> str:
        return await self.ask(f"fence {gid}", lambda _: self._node.fence(gid, sites))

    async def finish(self, gid: str, owner: str, outcome: Outcome) -> bool:
        """See `Branches`."""
        verb = "commit prepared" if outcome is Outcome.COMMITTED else "rollback prepared"
        try:
            await self.ask(f"{verb} {gid}", lambda one: one.execute(f"{verb} '{gid}'"))
        except (pg.UndefinedObject, pg.ObjectNotInPrerequisiteState):
            return False
        return True

    async def pause(self) -> None:
        """See `Branches`."""
        label = Label(actor=self._actor, cause=Cause.POLL, what=f"look at {self.name} again")
        await awaited(self._network.kernel.delay(_BUSY_S, label))

    async def end_sessions(self, names: list[str]) -> list[int]:
        """See `Branches`."""

        def end(_: NodeSession) -> Steps[list[int]]:
            results = self._node.names.find(*names)
            for one in results:
                one.terminate()
            label = Label(actor=self._actor, cause=Cause.POLL, what=f"wait at {self.name}")
            while any(one.dead is None for one in results):
                yield self._network.kernel.delay(_BUSY_S, label)
            return [one.pid for one in results]

        return await self.ask("end sessions", end)

    async def end_session(self, pid: int, started: str) -> None:
        """End one session, if it is still the one that started at `started`."""

        def end() -> None:
            # see `PreparedTransaction.notify_change`
            self._node.notify_access("sessions", changed=True)
            result = self._node.sessions.get(pid)
            if result is not None and str(result.born) == started:
                result.terminate()

        await self.look(f"end session {pid}", end)

    async def forget_epoch(self, prefix: str, rows_max: int) -> int:
        """Remove markers whose gid begins with `prefix`; return their number."""
        gids = await self.look(
            "look for markers",
            lambda: [row.gid for row in self._node.markers(prefix) if row.gid.startswith(prefix)],
        )
        await self.forget(gids[:rows_max])
        return min(len(gids), rows_max)

    async def forget(self, gids: list[str]) -> None:
        """Remove the markers of branches whose outcome no process needs any more."""

        def delete(tx: OpenTx, params: Any) -> Steps[StatementResult]:
            count = yield from tx.delete_all("msrepl.branch_marker", [(gid,) for gid in gids])
            return StatementResult(tag=f"DELETE {count}", rowcount=count)

        if gids:
            await self.ask("forget markers", lambda one: one.execute(delete))

    async def close(self) -> None:
        """Close the connections; idempotent."""
        self._pool.close()

    # -- requests ----------------------------------------------------------------------------------

    async def look(self, what: str, look: Callable[[], T]) -> T:
        """Send a request that takes no time at the node. Raise psycopg.Error."""

        def steps(_: NodeSession) -> Steps[T]:
            return look()
            yield  # makes this a generator

        return await self.ask(what, steps)

    async def ask(self, what: str, work: Callable[[NodeSession], Steps[T]]) -> T:
        """Send a request that a session of the node performs. Raise psycopg.Error."""
        with raised():
            return await AwaitableSteps(self._pool.ask(what, work, self._touches))
