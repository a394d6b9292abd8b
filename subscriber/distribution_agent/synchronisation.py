"""Brings Subscribers to where the Publisher is: has its log read, and agents deliver, or waits for those that run.

`Synchronisation` is the same on servers (`twopc.sim.topology.agents`) and in virtual time
(`twopc.sim.model.distribution.system_distribution`). It must not know how a log reader or an agent works.
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

#: Attempts of what meets another process, or a change that the log reader has not read yet.
_ATTEMPTS = 5


class AgentsPort(Protocol):
    """A log reader and agents: they work when they are told to, or run by themselves."""

    @property
    def are_running(self) -> bool:
        """They run by themselves."""
        ...

    async def subscriptions(self) -> Mapping[str, bool]:
        """The Subscribers that have an agent, and whether their subscriptions are active.

        Raises:
            ConfigurationError: nothing is distributed.
        """
        ...

    def turn(self) -> AbstractAsyncContextManager[Any]:
        """Nobody else drives them meanwhile."""
        ...

    async def read(self) -> None:
        """Have the log reader store everything that is committed by now.

        Raises:
            SlotInUseError: another process's log reader reads the slot.
            DeliveryError: it cannot go on.
        """
        ...

    async def deliver(self, subscriber: str, *, final: bool) -> AgentProgress | None:
        """Have an agent deliver everything that is stored by now; None: another process's has.

        Raises:
            AheadError, DeliveryError: see `DistributionAgent.run_once`.
        """
        ...

    async def together(
        self,
        work: Callable[[str], Coroutine[Any, Any, AgentProgress | None]],
        subscribers: Sequence[str],
    ) -> list[AgentProgress | BaseException | None]:
        """What the work for each Subscriber came to, or why it failed, once all have ended."""
        ...

    async def mark(self) -> Any:
        """Where the Publisher's log is now: see `stored`."""
        ...

    async def stored(self, mark: Any) -> int | None:
        """The position of the last transaction that is to be delivered, once everything up to a mark is stored."""
        ...

    async def delivered(self, subscriber: str) -> int:
        """Up to where everything is delivered to a Subscriber that is for it."""
        ...

    async def check(self, subscribers: Sequence[str]) -> None:
        """Raise what the log reader, or one of these agents, has stopped for, or ConfigurationError if one does not
        run."""
        ...

    async def look_again(self) -> None:
        """Wait a moment for those that run."""
        ...


def choose(subscribers: Sequence[str], known: Mapping[str, bool]) -> list[str]:
    """Those that are to be brought up to date: all, or those that are named. Pure.

    Args:
        known: the Subscribers that there are, and whether their subscriptions are active.

    Raises:
        ConfigurationError: one does not subscribe, or its subscription is not active.
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
        """Deliver everything that is committed at the Publisher at this moment to Subscribers (all).

        Returns:
            What each agent has done; nothing of agents that run by themselves, or in another process.

        Raises:
            ConfigurationError: one does not subscribe, or its subscription is not active.
            DeliveryError: a change cannot be applied at one of them; the others have got everything.
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
        """Have the log reader store everything that is committed by now."""
        for _ in range(_ATTEMPTS - 1):
            try:
                return await self._agents.read()
            except SlotInUseError:
                continue  # another process's was between two sessions when it was looked for
        return await self._agents.read()

    async def drive(self, subscriber: str) -> AgentProgress | None:
        """Have an agent deliver everything that is stored by now; None: another process's has."""
        for _ in range(_ATTEMPTS):
            try:
                return await self._agents.deliver(subscriber, final=False)
            except AheadError:
                # what it clashes with came from the Subscriber itself, after the log was read
                await self.read()
        return await self._agents.deliver(subscriber, final=True)

    async def _await_delivered(self, subscribers: Sequence[str]) -> None:
        """Wait until agents that run by themselves have delivered what is committed by now.

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
