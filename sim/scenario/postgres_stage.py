"""Stage on real servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from twopc.drivers.recovery import SettledBranch
from twopc.protocol.effects import Effect
from twopc.protocol.events import Event
from twopc.sim.scenario.faults import Fault
from twopc.sim.scenario.merge_parts import ColumnChange
from twopc.sim.scenario.outages import cut, restore
from twopc.sim.scenario.postgres_inspection import StageInspection
from twopc.sim.scenario.postgres_setup import subscribe
from twopc.sim.scenario.postgres_topologies import PreparedTopology
from twopc.sim.scenario.stage import AGENTS, EndedMergeSession, StageDelivery
from twopc.sim.scenario.values import FaultStrike, NotPlayableError
from twopc.sim.sessions.any_client import AnyClientSession
from twopc.sim.sessions.interface import ClientSession
from twopc.sim.sessions.plain import PlainPostgresSession
from twopc.sim.sessions.servers import PostgresSession, PublisherSession, SubscriberSession
from twopc.sim.sessions.waits import Waits, clients_of
from twopc.sim.topology.protections import switch_off_at

AnySession = TypeVar("AnySession", bound=PostgresSession)


class PostgresStage(StageInspection):
    """See `twopc.sim.scenario.stage.Stage`."""

    def __init__(self, prepared: PreparedTopology) -> None:
        super().__init__(prepared.topology, prepared.scenario)
        self._observer = prepared.observer
        self._off = prepared.off
        self._printed = prepared.printed
        self._sessions: dict[str, PostgresSession] = {}
        self._settled: list[SettledBranch] = []

    @property
    def about(self) -> Mapping[str, Any]:
        """Databases and server versions by node, and the results of `setup`."""
        about: dict[str, Any] = {
            "databases": {name: node.database for name, node in self._topology.nodes.items()},
            "server_versions": self._observer.versions,
        }
        return about | {"results": list(self._printed)} if self._printed else about

    def watch(self, observe: Callable[[str, Effect | Event], None] | None) -> None:
        """Call `observe` with the effects and events of the coordinator's machines."""
        self._topology.watch(observe)

    async def open(self, session: str, node: str) -> ClientSession:
        """Return a session of the application's role."""
        place = (self._topology, node, self._observer)
        opened: PostgresSession
        text = self._scenario.sessions.get(session)  # the clients of a load are not in the file
        if text is not None and text.plain:
            nobody_publishes = not self._topology.subscribers
            opened = PlainPostgresSession(*place, as_administrator=nobody_publishes)
        elif node == self._topology.publisher:
            opened = PublisherSession(*place)
        elif text is not None and text.any_client:
            opened = self._any_client(session, node)
        else:
            opened = await self._coordinated(session, node, text.also if text is not None else ())
        return self._seated(session, opened)

    async def _coordinated(self, session: str, node: str, also: Sequence[str]) -> PostgresSession:
        """Return a Subscriber's session whose transactions a coordinator commits."""
        coordinator = await self._topology.coordinator()
        coordinator.keeper.recovery.observe = self._settled.append
        return SubscriberSession(self._topology, node, self._observer, also=also)

    def _any_client(self, session: str, node: str) -> PostgresSession:
        """Return a Subscriber's session that commits by itself."""
        return AnyClientSession(self._topology, node, self._observer)

    def _seated(self, name: str, session: AnySession) -> AnySession:
        """Register a session and return it."""
        session.join = self._join
        self._sessions[name] = session
        return session

    async def _join(self, subscriber: str) -> None:
        await subscribe(self._topology, self._scenario, subscriber)
        await switch_off_at(self._topology, subscriber, self._off)

    def agents(self) -> ClientSession:
        """Return the session in which an order syncs."""
        opened = PostgresSession(self._topology, "", self._observer)
        self._sessions[AGENTS] = opened
        return opened

    async def deliveries(self) -> list[StageDelivery]:
        """Return the agents' deliveries since the last call."""
        return [
            StageDelivery(
                node=each.subscriber,
                seqno=each.seqno,
                origin=each.origin or self._topology.publisher,
                gid=each.gid,
                commands=each.commands,
                calls=each.calls,
                definitions=each.definitions,
                suppressed=each.suppressed,
                skipped=each.skipped,
            )
            for each in await self._topology.inspect.take_deliveries()
        ]

    def merge_sessions(self) -> Sequence[EndedMergeSession]:
        """Return nothing: this is not merge replication."""
        return ()

    async def waits(self) -> Waits:
        """Read the locks of all nodes."""
        return await self._observer.look(await clients_of(self._sessions))

    async def outage(self, node: str, *, on: bool) -> None:
        """See `twopc.sim.scenario.outages`."""
        self._observer.is_disturbed = True
        await (cut if on else restore)(self._topology, node)
        self._observer.cut = [each for each in self._observer.cut if each != node] + [node] * on

    async def pause_agent(self, subscriber: str, *, on: bool) -> None:
        """Do nothing: agents run only in sync steps, and the player omits paused agents."""

    async def age(self, days: int) -> None:
        """Do nothing: only metadata of merge replication is dated."""

    async def backup(self, node: str, *, kept: bool) -> None:
        """Do nothing: only merging nodes are backed up."""

    async def change_column(self, change: ColumnChange) -> None:
        """Do nothing: only columns of merged tables are changed."""

    async def arm(self, fault: Fault) -> None:
        """Raise NotPlayableError: this stage does not inject faults."""
        raise NotPlayableError(("faults",), "faults are not performed on real servers")

    async def fired(self) -> Sequence[FaultStrike]:
        """Return nothing: no fault is armed."""
        return ()

    async def recover(self) -> None:
        """Run one pass of the coordinator's recovery."""
        await self._topology.recover()

    def settled(self) -> Sequence[SettledBranch]:
        """See `twopc.sim.scenario.stage.Stage`."""
        results = [*self._settled]
        self._settled.clear()
        return results
