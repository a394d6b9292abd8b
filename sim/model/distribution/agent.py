"""A distribution agent in virtual time: the product's own agent, in a process that can be killed.

Independent of the agent's decisions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import simpy

from twopc.drivers.points import Points
from twopc.drivers.virtual import awaited, steps
from twopc.errors import TwopcError
from twopc.sim.model.distribution.apply import ROLE
from twopc.sim.model.distribution.articles import Registry
from twopc.sim.model.distribution.processes import Process
from twopc.sim.model.distribution.source import AgentRecord, ModelSource
from twopc.sim.model.distribution.store import PublisherStore
from twopc.sim.model.distribution.target import ModelTarget, Settings, settings_of
from twopc.sim.model.network import Network
from twopc.sim.model.node.node import ModelNode
from twopc.sim.model.node.session import NodeSession
from twopc.sim.model.values import Steps
from twopc.subscriber.distribution_agent import AgentProgress, DistributionAgent, Profile
from twopc.subscriber.distribution_agent.ports import PendingGroup, Signal


class _Flag:
    """A signal that is never set."""

    def is_set(self) -> bool:
        """Return False."""
        return False

    def clear(self) -> None:
        """Do nothing."""

    async def wait(self) -> None:
        """Raise AssertionError: in virtual time agents wait for a time instead."""
        raise AssertionError("not used in virtual time")


_NEWS, _STOP = _Flag(), _Flag()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentParts:
    """The parts of an agent that a plant can replace."""

    agent: type[DistributionAgent] = DistributionAgent
    settings: Settings = settings_of


class AgentProcess(Process):
    """The agent of one subscription, and its `WorldPort`; after a crash a new process is made.

    Args:
        node: the Subscriber's node.
        record: history of this agent's processes.
        poll_s: polling interval of a running agent, which gets no notifications; 0 if the agent is driven by calls.
    """

    def __init__(
        self, network: Network, node: ModelNode, store: PublisherStore, registry: Registry, record: AgentRecord, *,
        publisher: str, subscriber: str, profile: Profile, parts: AgentParts, points: Points, poll_s: float,
    ) -> None:  # fmt: skip
        super().__init__(network, f"agent:{subscriber}", points)
        self.node = node
        self.publisher = publisher
        self.subscriber = subscriber
        self.failed: Exception | None = None
        """Error with which the agent stopped by itself."""
        self._store = store
        self._registry = registry
        self._record = record
        self._parts = parts
        self._poll_s = poll_s
        self._target: ModelTarget | None = None
        self._source: ModelSource | None = None
        self.engine = parts.agent(self, profile=profile, points=points)

    # -- control ---------------------------------------------------------------------------------------

    def run_once(self, *, final: bool = True) -> Steps[AgentProgress]:
        """See `DistributionAgent.run_once`."""
        return steps(self.engine.run_once(final=final))

    def run(self) -> Steps[None]:
        """Deliver continuously, until the process is killed or a command fails."""
        try:
            yield from steps(self.engine.run(_STOP))
        except TwopcError as error:
            self.failed = error

    def disconnect(self) -> None:
        """Close the connections; the agent opens new ones when needed. Idempotent."""
        if self._target is not None:
            self._target.disconnect()
        if self._source is not None:
            self._source.disconnect()

    @property
    def sessions(self) -> list[NodeSession]:
        """The agent's sessions at the Subscriber."""
        return [] if self._target is None else self._target.sessions

    # -- WorldPort -------------------------------------------------------------------------------------

    @property
    def news(self) -> Signal:
        """A signal that is never set: see `poll_s`."""
        return _NEWS

    def time(self) -> float:
        return self.kernel.now

    async def wait(self, signals: Sequence[Signal], timeout_s: float) -> None:
        self.check_alive()
        if self._poll_s and self.news in signals:
            timeout_s = min(timeout_s, self._poll_s)
        await awaited(self.sleep(timeout_s, f"news for {self.subscriber}"))

    async def first(self, pending: Sequence[PendingGroup], timeout_s: float) -> None:
        self.check_alive()
        look = self.sleep(timeout_s, "look at the streams")
        events: list[Any] = [each.event for each in pending]  # type: ignore[attr-defined] # they are `ModelPending`
        await awaited(simpy.AnyOf(self.kernel.env, [*events, look]))
        if not look.processed:
            self.kernel.cancel(look)

    async def source(self, profile: Profile | None) -> ModelSource:
        connection = await self.perform(
            self.connect(self._store.node, ROLE, f"msrepl agent {self.subscriber}")
        )
        self._source = ModelSource(
            self, connection, self._store, self._registry, self._record,
            subscriber=self.subscriber, profile=profile or Profile(),
        )  # fmt: skip
        return self._source

    async def target(self, publisher_db: str, profile: Profile) -> ModelTarget:
        self._target = ModelTarget(self, self.node, profile, self._parts.settings, self.publisher)
        await self._target.open()
        return self._target
