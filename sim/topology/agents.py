"""The log reader and the agents of a topology in this process, driven to a position or running continuously.

Nothing in this module waits for a fixed time: a position in the Publisher's log is taken, and the log reader and
the agents work until they have reached that position. The module does not depend on how they work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Protocol

from twopc.distributed_article import DistributedArticle
from twopc.errors import ArticleError, ConfigurationError
from twopc.log import get_logger
from twopc.lsn import lsn_text, lsn_value
from twopc.proc_execution import ProcArticle
from twopc.publisher.distribution import registry
from twopc.publisher.log_reader import LogReader
from twopc.publisher.posted_messages import post_message, stored_message
from twopc.sim.topology.other_processes import OtherProcesses
from twopc.sim.topology.registration import Registration
from twopc.sim.topology.wiring import TopologyWiring
from twopc.subscriber.distribution_agent import (
    AgentProgress,
    DistributionAgent,
    Profile,
    Servers,
)
from twopc.subscriber.distribution_agent.synchronisation import Synchronisation
from twopc.together import together

_log = get_logger(__name__)

_SUBSCRIBERS = """
select a.subscriber, coalesce(min(s.status), 0) = 2 as active
from msrepl.msdistribution_agents a
join msrepl.mspublisher_databases d on d.id = a.publisher_database_id
left join msrepl.mssubscriptions s using (publisher_database_id, subscriber)
where d.publisher = %s
group by a.subscriber
order by a.subscriber
"""
#: Advances the log reader's position and deletes the blocks that no Subscriber has received. Returns whether there
#: were any.
_PASS_OVER = """
with moved as (
    update msrepl.mspublisher_databases set read_to = greatest(read_to, %(upto)s) where id = %(id)s),
gone as (
    delete from msrepl.msrepl_blocks
    where publisher_database_id = %(id)s and last_seqno > %(delivered)s returning true)
select exists (select from gone)
"""
#: Interval at which positions are polled while agents run continuously.
_LOOK_EVERY_S = 0.002
#: Time allowed to a log reader or an agent to finish its current work before it is interrupted.
_END_S = 3.0


class DrivenAgent(Protocol):
    """An agent that works only when it is called."""

    async def run_once(self, *, final: bool = True) -> AgentProgress:
        """Deliver everything that the distribution database holds at the time of the call."""
        ...

    async def close(self) -> None:
        """Disconnect; idempotent."""
        ...


class Agents:
    """Runs or drives the log reader and the agents that deliver a topology's changes."""

    def __init__(self, wiring: TopologyWiring, registration: Registration) -> None:
        self._wiring = wiring
        self._registration = registration
        self._others = OtherProcesses(wiring, registration)
        self.profiles: dict[str, Profile] = {}
        """Profiles of agents of this process, which take precedence over those stored with the subscriptions."""
        self.make_driven: Callable[[str], DrivenAgent] = self.make_agent
        """Creates the agents that `sync` drives."""
        self._reader: LogReader | None = None
        self._last_reader: LogReader | None = None
        """The log reader created last, driven or running continuously, closed or not."""
        self._driven: dict[str, DrivenAgent] = {}
        self._driving = asyncio.Lock()
        self._synchronisation = Synchronisation(self)
        self._stop = asyncio.Event()
        self._running: dict[str, asyncio.Task[Any]] = {}

    @property
    def are_running(self) -> bool:
        """Whether the log reader and the agents run continuously in this process."""
        return bool(self._running)

    async def subscribers(self) -> list[str]:
        """Return the nodes that have an agent according to the distribution database."""
        return list(await self._subscriptions())

    async def _subscriptions(self) -> dict[str, bool]:
        """Return the Subscribers that have an agent, each with whether its subscriptions are active."""
        if not await self._registration.can_distribute():
            return {}
        rows = await self._wiring.execute(
            self._wiring.distribution, _SUBSCRIBERS, (self._wiring.publisher,)
        )
        return {name: active for name, active in rows if name in self._wiring.nodes}

    # -- delivering --------------------------------------------------------------------------------

    async def sync(self, *subscribers: str) -> dict[str, AgentProgress]:
        """Deliver to Subscribers (default: all) everything that is committed at the Publisher at the time of the
        call.

        A transaction that was refused because its Subscriber's copy is stale can be retried afterwards. A log
        reader or an agent that runs in another process is waited for.

        Returns:
            What each agent has done; nothing for agents that run continuously.

        Raises:
            ConfigurationError: a node does not subscribe, or its subscription is not active.
            DeliveryError: a change cannot be applied at a Subscriber; the other Subscribers have received
                everything.
        """
        return await self._synchronisation.sync(subscribers)

    async def deliver_before_change(self, subscribers: Sequence[str]) -> None:
        """Deliver the changes made before a table was altered, while all procedures still have the old shape.

        The log reader cannot read past the position where the new shape begins. Changes that cannot be delivered
        are left.
        """
        if self._running:
            return  # running agents have delivered what is possible
        async with self._driving:
            with suppress(ArticleError):
                await self._synchronisation.read()
            done = await self.together(self._synchronisation.drive, subscribers)
        for name, each in zip(subscribers, done, strict=True):
            if isinstance(each, BaseException):
                _log.warning("not everything was delivered", subscriber=name, error=str(each))

    # -- AgentsPort --------------------------------------------------------------------------------

    async def subscriptions(self) -> dict[str, bool]:
        """See `AgentsPort`."""
        await self._registration.publisher_number()
        return await self._subscriptions()

    def turn(self) -> asyncio.Lock:
        """See `AgentsPort`."""
        return self._driving

    async def read(self) -> None:
        """See `AgentsPort`."""
        if self._reader is None:
            last = self._last_reader
            if await self._others.have_read(last.sessions if last is not None else ()):
                return
            self._reader = self._last_reader = await self.make_reader()
        try:
            await self._reader.run_once()
        except BaseException:
            await self._close_reader()
            raise

    async def deliver(self, subscriber: str, *, final: bool) -> AgentProgress | None:
        """See `AgentsPort`."""
        agent = self._driven.get(subscriber)
        if agent is None:
            if await self._others.have_delivered(subscriber):
                return None
            agent = self._driven[subscriber] = self.make_driven(subscriber)
        return await agent.run_once(final=final)

    async def together(
        self,
        work: Callable[[str], Coroutine[Any, Any, AgentProgress | None]],
        subscribers: Sequence[str],
    ) -> list[AgentProgress | BaseException | None]:
        """See `AgentsPort`."""
        return await asyncio.gather(*map(work, subscribers), return_exceptions=True)

    async def mark(self) -> Any:
        """See `AgentsPort`; the mark is a message in the log."""
        return await post_message(await self._wiring.at_publisher(), "tracer_token", {})

    async def stored(self, mark: Any) -> int | None:
        """See `AgentsPort`."""
        distribution = await self._wiring.at_distribution()
        seqno = await stored_message(distribution, self._wiring.publisher, mark)
        return None if seqno is None else lsn_value(seqno)

    async def delivered(self, subscriber: str) -> int:
        """See `AgentsPort`."""
        return lsn_value(await self._registration.position(subscriber))

    async def check(self, subscribers: Sequence[str]) -> None:
        """See `AgentsPort`."""
        for name in ("", *subscribers):
            task = self._running.get(name)
            if task is None:
                raise ConfigurationError(
                    f"the agent of {name!r} does not run: stop the others (`stop_agents`) and start all"
                )
            if task.done():
                await task  # raises the error that has stopped it

    async def look_again(self) -> None:
        """See `AgentsPort`."""
        await asyncio.sleep(_LOOK_EVERY_S)

    # -- after all nodes were restored ----------------------------------------------------------------

    async def pass_over(self, upto: int) -> dict[str, str]:
        """Skip everything that was committed at the Publisher up to a position and is not delivered yet.

        The copies never receive the skipped changes. For use after all nodes were restored to one common state.

        Returns:
            The position of each Subscriber, in the form of `Registration.position`.

        Raises:
            ConfigurationError: agents run continuously.
        """
        if self.are_running:
            raise ConfigurationError("agents run by themselves: `stop_agents` first")
        async with self._driving:
            number = await self._registration.publisher_number()
            names = await self.subscribers()
            result = await together(*(self._registration.position(name) for name in names))
            positions = dict(zip(names, result, strict=True))
            gone = await self._wiring.execute(
                self._wiring.distribution,
                _PASS_OVER,
                {"id": number, "upto": lsn_text(upto), "delivered": min(result, key=lsn_value)},
            )
            if gone[0][0]:
                # batches that they have planned may contain deleted commands
                await self._close_driven()
            if self._reader is not None:
                await self._reader.pass_over(upto)
            return positions

    async def make_reader(self) -> LogReader:
        """Create the Publisher's log reader, not opened yet."""
        return LogReader(
            publisher=self._wiring.publisher,
            publisher_dsn=self._wiring.node(self._wiring.publisher).logreader_dsn,
            distribution_dsn=self._wiring.node(self._wiring.distribution).logreader_dsn,
            slot=await self._registration.slot(),
        )

    def make_agent(self, subscriber: str) -> DistributionAgent:
        """Create a Subscriber's agent, not opened yet."""
        servers = Servers(
            subscriber=subscriber,
            publisher=self._wiring.publisher,
            distribution_dsn=self._wiring.node(self._wiring.distribution).agent_dsn,
            subscriber_dsn=self._wiring.node(subscriber).agent_dsn,
        )
        return DistributionAgent(servers, profile=self.profiles.get(subscriber))

    # -- running by themselves ---------------------------------------------------------------------

    async def start(self) -> None:
        """Run the log reader and every Subscriber's agent in this process until `stop`.

        Raises:
            ConfigurationError: the Publisher has no subscriptions.
        """
        async with self._driving:
            await self._close_driven()
            if self._running:
                return
            self._stop = asyncio.Event()
            reader = self._last_reader = await self.make_reader()
            self._running[""] = asyncio.create_task(reader.run(self._stop), name="log reader")
            for name in await self.subscribers():
                self._start_agent(name)

    def _start_agent(self, subscriber: str) -> None:
        self._running[subscriber] = asyncio.create_task(
            self.make_agent(subscriber).run(self._stop), name=f"agent of {subscriber}"
        )

    async def stop(self) -> None:
        """Stop the log reader and the agents of this process, between two transactions; idempotent.

        An agent that does not stop because it waits for a row lock is interrupted. A transaction that it had
        already sent either takes effect or is delivered again later.
        """
        self._stop.set()
        running, self._running = self._running, {}
        if running:
            _, late = await asyncio.wait(running.values(), timeout=_END_S)
            for task in late:
                task.cancel()
        for name, done in zip(
            running, await asyncio.gather(*running.values(), return_exceptions=True), strict=True
        ):
            if isinstance(done, Exception):
                _log.warning("it had stopped by itself", who=name or "log reader", error=str(done))
        await self._close_driven()

    async def _close_driven(self) -> None:
        await self._close_reader()
        for agent in self._driven.values():
            await agent.close()
        self._driven.clear()

    async def _close_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            await reader.close()

    async def forget_publisher(self) -> None:
        """Drop the slot and everything that is stored of the Publisher, once it has no Subscriber left."""
        await self.stop()
        await self._registration.forget_publisher()

    async def withdraw(
        self,
        subscriber: str,
        articles: Sequence[DistributedArticle] | None = None,
        routines: Sequence[ProcArticle] = (),
    ) -> None:
        """Remove articles (default: all) from a subscription; with the last subscription, drop the slot and the
        stored data.
        """
        async with self._registration.turn():
            if await self._registration.withdraw(subscriber, articles, routines):
                # slot and registration come last, so that an interrupted call can be repeated
                await self.forget_publisher()

    # -- while a subscription changes --------------------------------------------------------------

    async def dismiss(self, subscriber: str) -> None:
        """Stop a Subscriber's agent in this process permanently."""
        await self._close_agent(subscriber)
        task = self._running.pop(subscriber, None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _close_agent(self, subscriber: str) -> None:
        """Close a driven agent; the next `sync` creates another."""
        agent = self._driven.pop(subscriber, None)
        if agent is not None:
            await agent.close()

    async def set_profile(self, subscriber: str, profile: Profile) -> None:
        """Store the profile of a Subscriber's agent. It takes effect wherever the agent is started next."""
        await registry.set_profile(
            await self._wiring.at_distribution(),
            await self._registration.publisher_number(),
            subscriber,
            profile.as_json(),
        )

    def attend(self, subscriber: str) -> None:
        """Run the agent of a new Subscriber if the other agents run continuously."""
        if self._running and subscriber not in self._running:
            self._start_agent(subscriber)

    async def hold(self, subscriber: str) -> None:
        """Prevent a Subscriber's agent, in any process, from delivering until the current transaction ends there.

        An agent advances the position only from the value that it last saw. An agent that has planned a batch
        before therefore finds another position afterwards, and plans again from the current subscriptions. The
        position moves by one byte, within which no transaction commits.
        """
        # discards planned batches; a running agent notices the new position
        await self._close_agent(subscriber)
        await self._wiring.execute(
            subscriber,
            """
            insert into msrepl.msreplication_subscriptions as s (publisher, publisher_db)
            values (%s, %s)
            on conflict (publisher, stream) do update
            set transaction_timestamp = s.transaction_timestamp + 1::numeric
            """,
            (self._wiring.publisher, self._wiring.node(self._wiring.publisher).database),
        )

    async def processes(self, subscriber: str) -> list[tuple[str, int]]:
        """Return node and process ID of each session of a Subscriber's agent at that Subscriber."""
        rows = await self._wiring.execute(
            subscriber,
            "select pid from pg_stat_activity where datname = current_database() and usename = %s",
            (self._wiring.node(subscriber).agent_role,),
        )
        return [(subscriber, pid) for (pid,) in rows]
