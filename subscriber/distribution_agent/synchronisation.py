"""Brings Subscribers up to date with the Publisher: runs the log reader and the agents, or waits for running ones.

`Synchronisation` is the same on servers (`twopc.sim.topology.agents`) and in virtual time
(`twopc.sim.model.distribution.system_distribution`). The module must not know how a log reader or an agent works.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from twopc.errors import ConfigurationError, SlotInUseError, SubscriptionError
from twopc.log import get_logger
from twopc.subscriber.distribution_agent.agent import AgentProgress
from twopc.subscriber.distribution_agent.ports import AheadError

_log = get_logger(__name__)

#: Attempts at work that meets another process, or a change that the log reader has not read yet.
_ATTEMPTS = 5


class AgentsPort(Protocol):
    """A log reader and agents, which either work on request or run continuously."""

    @property
    def are_running(self) -> bool:
        """Whether log reader and agents run continuously."""
        ...

    async def subscriptions(self) -> Mapping[str, bool]:
        """Return the Subscribers that have an agent, and whether their subscriptions are active.

        Raises:
            ConfigurationError: distribution is not set up.
        """
        ...

    def turn(self) -> AbstractAsyncContextManager[Any]:
        """Return a context in which no other caller drives log reader and agents."""
        ...

    async def read(self) -> None:
        """Have the log reader store all transactions committed so far.

        Raises:
            SlotInUseError: another process's log reader reads the slot.
            DeliveryError: the log reader cannot continue.
        """
        ...

    async def deliver(self, subscriber: str, *, final: bool) -> AgentProgress | None:
        """Have an agent deliver all transactions stored so far; return None if another process's agent did so.

        Raises:
            AheadError, DeliveryError: see `DistributionAgent.run_once`.
        """
        ...

    async def together(
        self,
        work: Callable[[str], Coroutine[Any, Any, AgentProgress | None]],
        subscribers: Sequence[str],
    ) -> list[AgentProgress | BaseException | None]:
        """Run the work for each Subscriber concurrently; return each result or exception once all have ended."""
        ...

    async def mark(self) -> Any:
        """Return a mark of the current end of the Publisher's log: see `stored`."""
        ...

    async def stored(self, mark: Any) -> int | None:
        """Return the position of the last transaction to deliver, or None until the log up to a mark is stored."""
        ...

    async def delivered(self, subscriber: str) -> int:
        """Return the position up to which a Subscriber has received all of its transactions."""
        ...

    async def check(self, subscribers: Sequence[str]) -> None:
        """Check that the log reader and these agents run; raise the error that stopped one of them, if any.

        Raises:
            ConfigurationError: the log reader, or an agent, does not run.
        """
        ...

    async def look_again(self) -> None:
        """Wait briefly for the running log reader and agents."""
        ...


def choose(subscribers: Sequence[str], known: Mapping[str, bool]) -> list[str]:
    """Return the Subscribers to bring up to date: those named, or all if none is named. Pure.

    Args:
        known: the existing Subscribers, and whether their subscriptions are active.

    Raises:
        ConfigurationError: a Subscriber does not subscribe, or its subscription is not active.
    """
    for name in subscribers or known:
        if name not in known:
            raise ConfigurationError(
                f"{name!r} does not subscribe; Subscribers are {', '.join(known) or 'none'}"
            )
        if not known[name]:
            raise SubscriptionError(
                f"the subscription of {name!r} is not active: its copy was not finished, or it fell behind what is "
                f"kept (21074): `twopc refresh {name}`, and if that is not enough `twopc reinitialise {name}`"
            )
    return list(dict.fromkeys(subscribers or known))


class Synchronisation:
    """Drives the log reader and the agents of one Publisher."""

    def __init__(self, agents: AgentsPort) -> None:
        self._agents = agents

    async def sync(self, subscribers: Sequence[str] = ()) -> dict[str, AgentProgress]:
        """Deliver all transactions committed at the Publisher so far to the Subscribers named, or to all.

        Returns:
            The progress of each agent; none for agents that run continuously, or in another process.

        Raises:
            ConfigurationError: a Subscriber does not subscribe, or its subscription is not active.
            DeliveryError: a change cannot be applied at a Subscriber; the others are up to date.
        """
        agents = self._agents
        requested = choose(subscribers, await agents.subscriptions())
        if agents.are_running:
            await self._await_delivered(requested)
            return {}
        async with agents.turn():
            await self.read()
            done = await agents.together(self.drive, requested)
        failures = [each for each in done if isinstance(each, BaseException)]
        for further in failures[1:]:
            _log.warning("a Subscriber did not get everything", error=str(further))
        if failures:
            raise failures[0]
        return {
            name: each
            for name, each in zip(requested, done, strict=True)
            if isinstance(each, AgentProgress)
        }

    async def read(self) -> None:
        """Have the log reader store all transactions committed so far."""
        for _ in range(_ATTEMPTS - 1):
            try:
                return await self._agents.read()
            except SlotInUseError:
                continue  # another process's log reader was between two sessions when checked
        return await self._agents.read()

    async def drive(self, subscriber: str) -> AgentProgress | None:
        """Have an agent deliver all transactions stored so far; return None if another process's agent did so."""
        for _ in range(_ATTEMPTS):
            try:
                return await self._agents.deliver(subscriber, final=False)
            except AheadError:
                # the conflicting row came from the Subscriber itself, after the log was read
                await self.read()
        return await self._agents.deliver(subscriber, final=True)

    async def _await_delivered(self, subscribers: Sequence[str]) -> None:
        """Wait until continuously running agents have delivered all transactions committed so far.

        Raises:
            DeliveryError: the log reader, or an agent, has stopped.
            ConfigurationError: a Subscriber's agent does not run.
        """
        agents, left = self._agents, list(subscribers)
        await agents.check(left)
        mark, upto = await agents.mark(), None
        while left:
            await agents.check(left)
            if upto is None:
                upto = await agents.stored(mark)
            if upto is not None:
                left = [name for name in left if await agents.delivered(name) < upto]
            if left:
                await agents.look_again()
