"""Distribution of one system: log reader, distribution database and agents.

They are driven to a position, or run by themselves. This module implements the ports of `Synchronisation`. Waits
depend on the work of processes, not on elapsed time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import simpy

from twopc.drivers.points import Points
from twopc.drivers.snapshot_agent import SnapshotAgent
from twopc.drivers.virtual import AwaitableSteps, awaited, steps
from twopc.errors import DeliveryError, SubscriptionError
from twopc.proc_execution import ProcArticle
from twopc.sim.deliveries import ReportedDelivery, deliveries
from twopc.sim.model.distribution.agent import AgentParts, AgentProcess
from twopc.sim.model.distribution.apply import Receiver, apply_call
from twopc.sim.model.distribution.articles import Registry
from twopc.sim.model.distribution.copies import (
    ModelCopySource,
    Seen,
    SnapshotProcess,
    nobody,
    take_copies,
)
from twopc.sim.model.distribution.log_reader import ModelLogReader, ModelSlot
from twopc.sim.model.distribution.processes import KilledError, outcome
from twopc.sim.model.distribution.seats import AgentSeat, Seat
from twopc.sim.model.distribution.source import AgentRecord
from twopc.sim.model.distribution.store import PublisherStore
from twopc.sim.model.distribution.target import settings_of
from twopc.sim.model.network import Network
from twopc.sim.model.node.node import ModelNode
from twopc.sim.model.values import Cause, Label, ModelSpec, Steps, SubscriberSpec
from twopc.sim.model.wiring import Wiring
from twopc.subscriber.distribution_agent import AgentProgress, Profile

#: Parts of `twopc.sim.model.wiring.Wiring.parts` that are used here, with their defaults: a replacement has the same
#: signature.
PARTS: Mapping[str, Any] = {
    "agent_settings": settings_of,
    "apply": apply_call,
}
#: Polling interval for positions while agents are running by themselves.
_LOOK_S = 0.002


class Distribution:
    """The distribution of one Publisher.

    Args:
        nodes: by name; tables and rows exist there, also at the Subscribers.
        role_of: returns the role of a Subscriber's link at the Publisher.
        points: protocol points of the log reader and the agents at which armed faults strike.
        routines: articles of routines whose execution is published.
    """

    def __init__(
        self, spec: ModelSpec, wiring: Wiring, network: Network, nodes: Mapping[str, ModelNode], *,
        role_of: Callable[[str], str], points: Points | None = None,
        routines: Sequence[ProcArticle] = (),
    ) -> None:  # fmt: skip
        self.spec = spec
        self.network = network
        self.kernel = network.kernel
        self.nodes = nodes
        self.points = points or Points()
        self.publisher = nodes[spec.publisher]
        self._role_of = role_of
        self._parts = wiring.parts
        self._engine = wiring.log_reader
        self._snapshot_agent = wiring.snapshot_agent
        self._begin = self.publisher.wal.end
        self.registry = Registry(self.publisher, spec.tables, routines)
        horizon = self.publisher.next_xid if routines else None
        self.store = PublisherStore(self.publisher, spec.publisher, self._begin, horizon)
        self.store.keeps_all = not spec.agent_poll_s
        self.slot = ModelSlot(self.publisher, self._begin)
        self._agent_parts = AgentParts(agent=wiring.agent, settings=self._part("agent_settings"))
        poll_s = spec.agent_poll_s
        self.reader = Seat(self._make_reader, (lambda one: one.run()) if poll_s else None)
        self.receivers: dict[str, Receiver] = {}
        self.seats: dict[str, AgentSeat] = {}
        self._reported: dict[str, int] = {}
        self._driving: simpy.Event | None = None
        self._synchronisation = wiring.synchronisation(self)
        for one in spec.subscribers:
            if not one.joins_later:
                self._subscribe(one, active=True)
                self.check_procedures(one.name)
        if poll_s:
            self.start()

    def _part(self, name: str) -> Any:
        return self._parts.get(name, PARTS[name])

    def _subscribe(self, spec: SubscriberSpec, *, active: bool) -> None:
        node, poll_s = self.nodes[spec.name], self.spec.agent_poll_s
        receiver = self.receivers.get(spec.name)
        if receiver is None:
            receiver = self.receivers[spec.name] = Receiver(
                node, self.registry.articles, self._part("apply"), self.registry.routines
            )
            take_copies(node)
        if receiver.position(self.spec.publisher) is None:
            receiver.begin(self.spec.publisher)
        self.registry.announce(
            spec, role=self._role_of(spec.name), after=self._begin, active=active
        )
        record = AgentRecord()
        self.store.reports[spec.name] = 0
        run = (lambda one: one.run()) if poll_s else None
        self.seats[spec.name] = AgentSeat(lambda: self._make_agent(spec, record), run, record)

    def check_procedures(self, subscriber: str) -> None:
        """Raise 42883 if an article names a custom procedure that does not exist at the Subscriber."""
        for each in self.registry.subscriptions[subscriber].values():
            self.receivers[subscriber].check_procedures(each.article)

    def announce(self, spec: SubscriberSpec) -> None:
        """Announce a Subscriber: from now on, no transaction that it may need is removed."""
        self._subscribe(spec, active=False)
        self._reported[spec.name] = self.store.last

    def _dismiss(self, subscriber: str) -> None:
        """End the work of a Subscriber's agent; the next synchronisation starts it anew."""
        seat = self.seats.get(subscriber)
        if seat is not None and seat.process is not None and not self.spec.agent_poll_s:
            seat.process.disconnect()  # it has no plan; a running agent notices by itself

    def forget(self, subscriber: str) -> None:
        """Remove a Subscriber and its agent."""
        seat = self.seats.pop(subscriber, None)
        if seat is not None:
            seat.crash()
        self.registry.forget(subscriber, role=self._role_of(subscriber))
        self.store.reports.pop(subscriber, None)
        self._reported.pop(subscriber, None)

    def bring(self, subscriber: str, seen: Seen = nobody) -> Steps[None]:
        """Make the copy of an announced Subscriber. SubscriptionError, SqlError, LostError"""
        yield from self._snapshot_process(subscriber, seen).run(lambda agent, _: agent.bring())

    def reinitialise(self, subscriber: str, seen: Seen = nobody) -> Steps[None]:
        """Replace the copies of a Subscriber while other work goes on. LockTimeoutError, SubscriptionError"""
        self._dismiss(subscriber)
        yield from self._snapshot_process(subscriber, seen).run(
            lambda agent, _: agent.reinitialise()
        )

    def close_down(self, subscriber: str, seen: Seen, remove: Callable[[], None]) -> Steps[None]:
        """End all subscriptions of a Subscriber. LockTimeoutError, SubscriptionError

        Args:
            remove: removes the objects of the subscription at the Subscriber.
        """
        self._dismiss(subscriber)

        async def leave(agent: SnapshotAgent, publisher: ModelCopySource) -> None:
            await agent.remove()
            remove()
            await publisher.forget()

        yield from self._snapshot_process(subscriber, seen).run(leave)
        self.forget(subscriber)

    def _snapshot_process(self, subscriber: str, seen: Seen) -> SnapshotProcess:
        if not self.registry.subscriptions.get(subscriber):
            raise SubscriptionError(f"{subscriber!r} does not subscribe: subscribe it first")
        return SnapshotProcess(
            self.network, self.points, self.publisher, self.nodes[subscriber], self.store,
            self.registry, role=self._role_of(subscriber), timeout_s=self.spec.lock_timeout_s,
            agent=self._snapshot_agent, seen=seen,
        )  # fmt: skip

    def _make_reader(self) -> ModelLogReader:
        return ModelLogReader(
            self.network, self.publisher, self.store, self.slot, self.registry,
            engine=self._engine, points=self.points, poll_s=self.spec.agent_poll_s,
        )  # fmt: skip

    def _make_agent(self, spec: SubscriberSpec, record: AgentRecord) -> AgentProcess:
        return AgentProcess(
            self.network, self.nodes[spec.name], self.store, self.registry, record,
            publisher=self.spec.publisher, subscriber=spec.name,
            profile=Profile(
                subscription_streams=spec.streams, commit_batch_size=spec.batch,
                skip_errors=spec.skip_errors,
            ),
            parts=self._agent_parts, points=self.points, poll_s=self.spec.agent_poll_s,
        )  # fmt: skip

    # -- delivering ----------------------------------------------------------------------------------

    def sync(self, subscribers: Sequence[str] = ()) -> Steps[dict[str, AgentProgress]]:
        """See `Synchronisation.sync`."""
        return (yield from steps(self._synchronisation.sync(subscribers)))

    # -- AgentsPort ----------------------------------------------------------------------------------

    @property
    def are_running(self) -> bool:
        """See `AgentsPort`."""
        return bool(self.spec.agent_poll_s)

    async def subscriptions(self) -> dict[str, bool]:
        """See `AgentsPort`."""
        return {
            name: any(each.active for each in self.registry.subscriptions[name].values())
            for name in self.seats
        }

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """See `AgentsPort`."""
        self._notify_turn()
        while self._driving is not None:
            await awaited(self._driving)
            self._notify_turn()
        own = self._driving = self.kernel.event()
        try:
            yield
        finally:
            self._notify_turn()
            self._driving = None
            own.succeed()

    def _notify_turn(self) -> None:
        """Notify the search that a synchronisation begins, waits for its turn, or ends."""
        if self.kernel.record_access is not None:
            self.kernel.record_access("turn of a sync", True)

    async def read(self) -> None:
        """See `AgentsPort`."""
        reader = self.reader.living()
        try:
            await AwaitableSteps(reader.have(reader.run_once(), "read"))
        except (KilledError, psycopg.Error) as error:
            raise DeliveryError(
                f"the log reader does not get on: {error}", node=self.spec.publisher,
                sqlstate=getattr(error, "sqlstate", None) or "08006",
            ) from error  # fmt: skip

    async def deliver(self, subscriber: str, *, final: bool) -> AgentProgress:
        """See `AgentsPort`."""
        agent: AgentProcess = self.seats[subscriber].living()
        try:
            return await AwaitableSteps(agent.have(agent.run_once(final=final), "deliver"))
        except KilledError as error:
            raise DeliveryError(
                f"the agent of {subscriber} was killed", node=subscriber, sqlstate="08006"
            ) from error

    async def together(
        self, work: Callable[[str], Coroutine[Any, Any, AgentProgress | None]], subscribers: Sequence[str]
    ) -> list[AgentProgress | BaseException | None]:  # fmt: skip
        """See `AgentsPort`."""
        all_ = f"sync {self.kernel.stretch}"
        sent = [
            self.kernel.spawn(outcome(self._driven(work, name, all_)), f"sync of {name}")
            for name in subscribers
        ]
        endings: list[Any] = [
            process.value if process.processed else await awaited(process) for process in sent
        ]
        return [value if error is None else error for error, value in endings]

    def _driven(
        self, work: Callable[[str], Coroutine[Any, Any, AgentProgress | None]], subscriber: str, all_: str
    ) -> Steps[AgentProgress | None]:  # fmt: skip
        """Run one agent's work. The end of the last one resumes the caller, so each end is reported to the search."""
        try:
            return (
                yield from steps(work(subscriber))
            )  # made only when the process runs, which may never happen
        finally:
            if self.kernel.record_access is not None:
                self.kernel.record_access(all_, True)

    async def mark(self) -> int:
        """See `AgentsPort`; the end of the log."""
        return self.publisher.wal.end

    async def stored(self, mark: int) -> int | None:
        """See `AgentsPort`."""
        return self._stored(mark)

    def _stored(self, mark: int) -> int | None:
        reader: ModelLogReader | None = self.reader.process
        if reader is None or not reader.alive or reader.engine.position < mark:
            return None
        return self.store.last

    async def delivered(self, subscriber: str) -> int:
        """See `AgentsPort`."""
        return self._delivered_to(subscriber)

    async def check(self, subscribers: Sequence[str]) -> None:
        """See `AgentsPort`; a killed process is no failure, as it is restarted."""
        for seat in (self.reader, *(self.seats[name] for name in subscribers)):
            if seat.process is not None and seat.process.failed is not None:
                raise seat.process.failed

    async def look_again(self) -> None:
        """See `AgentsPort`."""
        label = Label(actor="sync", cause=Cause.POLL, what="look how far agents are")
        await awaited(self.kernel.delay(_LOOK_S, label))

    # -- results -------------------------------------------------------------------------------------

    def take_deliveries(self) -> list[ReportedDelivery]:
        """Return what the agents have delivered, suppressed and skipped since the previous call."""
        results: list[ReportedDelivery] = []
        markers = {each.xid: each.gid for each in self.publisher.markers()}
        for name, seat in self.seats.items():
            after = self._reported.get(name, 0)
            upto = self._reported[name] = self.position(name)
            results += deliveries(
                self.store.commands(after, upto), self.registry.terms(name),
                node=name, publisher=self.spec.publisher,
                articles=self.registry.articles, routines=self.registry.routines,
                originators=self.registry.names, markers=markers,
                skipped={
                    each.seqno: each.error
                    for each in seat.record.history
                    if each.event == "skipped" and each.seqno is not None
                },
            )  # fmt: skip
        return results

    def position(self, subscriber: str) -> int:
        """Return the position up to which a Subscriber has received everything."""
        return self.receivers[subscriber].position(self.spec.publisher) or 0

    # -- running by themselves -----------------------------------------------------------------------

    def start(self) -> None:
        """Have the log reader and every agent run; no effect on those that are running."""
        self.reader.start()
        for seat in self.seats.values():
            seat.start()

    def _delivered_to(self, subscriber: str) -> int:
        agent = self.seats[subscriber].process
        return max(
            self.position(subscriber), agent.engine.seen if agent is not None and agent.alive else 0
        )

    def agent(self, subscriber: str) -> AgentSeat:
        """Return the seat of a Subscriber's agent."""
        return self.seats[subscriber]

    def quiet(self) -> bool:
        """Return whether running agents have delivered everything, and no agent is being driven."""
        if not self.spec.agent_poll_s:
            return self._driving is None
        seats = (self.reader, *self.seats.values())
        if any(seat.process is not None and seat.process.failed is not None for seat in seats):
            return True
        last = self._stored(self.publisher.wal.end)
        return last is not None and all(self._delivered_to(name) >= last for name in self.seats)

    def digest(self) -> tuple[Any, ...]:
        """Return a digest of the relevant state: stored transactions, and the progress of each Subscriber."""
        stored = self.store.transactions
        place = {each.seqno: at for at, each in enumerate(stored, 1)}
        return (
            len(stored),
            *(len(each.commands) for each in stored),
            *(
                max((at for seqno, at in place.items() if seqno <= self.position(name)), default=0)
                for name in self.seats
            ),
        )
