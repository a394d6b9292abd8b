"""Ports of a distribution agent: time, the distribution database, the Subscriber.

There are two implementations: on servers (`twopc.subscriber.distribution_agent.servers`), and in virtual time
(`twopc.sim.model.distribution`). The agent is the same in both. It must not know how a step is performed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from twopc.distributed_article import DistributedArticle
from twopc.drivers.lean import ServerReport
from twopc.errors import DeliveryError
from twopc.names import StreamId
from twopc.proc_execution import ProcArticle
from twopc.subscriber.distribution_agent.loads import (
    BatchLoad,
    DecodedCommand,
    StoredMessage,
    SubscribedArticles,
)
from twopc.subscriber.distribution_agent.planner import Batch, OwnCommands, Window
from twopc.subscriber.distribution_agent.profile import Profile
from twopc.subscriber.distribution_agent.steps import Rollback, Step


class LostError(Exception):
    """The connection is lost: whether the last statements sent took effect is unknown."""


class RefusedError(Exception):
    """One of the agent's own statements was refused."""

    def __init__(self, report: ServerReport) -> None:
        super().__init__(str(report))
        self.report = report


class PassingError(Exception):
    """A failure after which a retry may succeed."""


class UnfinishedError(Exception):
    """A transaction whose delivery began while it was being stored is not completed, or its parts have changed."""


class AheadError(DeliveryError):
    """A command conflicts with a change that may be the Subscriber's own and has not come through the Publisher's
    log yet: the command is retried when more of the log has been read.
    """


@dataclass(slots=True, kw_only=True)
class StepsAnswer:
    """Result of a group of steps; steps after a failed one are not performed."""

    failure: ServerReport | None = None
    failed_at: int = -1
    """Place of the step that failed; -1 if none failed."""
    constraint: str = ""
    """Schema, table and constraint that the failure names, separated by dots; empty if it names none."""


class PendingGroup(Protocol):
    """A group that was sent; awaiting it raises `LostError` if the connection is lost before its answer."""

    def __await__(self) -> Generator[Any, Any, StepsAnswer]: ...

    def done(self) -> bool:
        """Return whether the answer has arrived, or can no longer arrive."""
        ...

    def result(self) -> StepsAnswer:
        """Return the answer of a group that is done."""
        ...


# -- the two databases -------------------------------------------------------------------------------------


class SessionPort(Protocol):
    """A session at the Subscriber."""

    def send(self, *steps: Step) -> PendingGroup:
        """Send a group of steps; further ones may be sent before the answer has arrived."""
        ...


class TargetPort(Protocol):
    """The agent's sessions at the Subscriber. Every method may raise `LostError` or `RefusedError`."""

    position: int
    """Position up to which transactions are delivered, as of the last answer."""

    @property
    def lines(self) -> Sequence[SessionPort]:
        """Sessions: the first moves the position, the others are for streams."""
        ...

    async def rival(self) -> str:
        """Wait until the sessions of a killed agent of this subscription have ended.

        Returns:
            A description of another running agent; empty if there is none, and none can start.
        """
        ...

    async def find_position(self) -> None:
        """Read the position, or insert the initial one."""
        ...

    async def prepared(self) -> list[StreamId]:
        """Return the transactions that streams of an agent of this subscription have prepared."""
        ...

    async def open_streams(self, count: int) -> None:
        """Open sessions until there are `count`.

        Raises:
            ServerError: the server cannot prepare as many transactions.
        """
        ...

    def subscribe(self, subscription: SubscribedArticles) -> None:
        """Take over the functions that apply the commands of a subscription."""
        ...

    def gid(self, upto: int, stream: int) -> StreamId:
        """Return the gid under which a stream prepares its part of the batch that ends at a position."""
        ...

    async def cancel(self, streams: Sequence[int]) -> None:
        """Cancel the current statements of streams."""
        ...

    async def cancel_blocked(self, streams: Sequence[int], upto: int) -> bool:
        """Cancel streams that wait for another stream, running or prepared; return whether there are any."""
        ...

    async def is_order_free(self) -> bool:
        """Return whether the order in which rows of different tables change within a transaction is
        unobservable at the Subscriber.
        """
        ...

    async def is_constraint(self, name: str) -> bool:
        """Return whether the name is that of a constraint, not only of a unique index."""
        ...

    async def close(self) -> None:
        """Close all sessions. Idempotent."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEvent:
    """A row of an agent's history."""

    event: str
    """``started``, ``succeeded``, ``retry``, ``failed``, ``net``, ``skipped``, ``serial``."""
    seqno: int | None = None
    """Transaction that the event concerns, or the position reached."""
    duration_ms: float = 0.0
    transactions: int = 0
    commands: int = 0
    error: str = ""
    """The original's number, or the SQLSTATE."""
    message: str = ""
    command: str = ""


class HistoryPort(Protocol):
    """The agent's history. Only an event that must be `durable` raises `LostError` if it is not written."""

    async def event(self, event: AgentEvent, *, durable: bool = False) -> None:
        """Write a row of history."""
        ...

    async def delivered(self, position: int) -> None:
        """Record that transactions before this position are durable at the Subscriber and no longer needed."""
        ...

    async def posted(self, posted: StoredMessage) -> None:
        """Record that a message for every Subscriber has arrived."""
        ...


class SourcePort(Protocol):
    """The distribution database, for one Subscriber. Every method may raise `LostError`."""

    profile: Profile
    publisher_db: str
    subscription: SubscribedArticles
    """Subscription as of the last `window`."""

    @property
    def history(self) -> HistoryPort:
        """The agent's history."""
        ...

    async def window(self, position: int, *, may_be_open: bool = False) -> tuple[bool, Window]:
        """Return whether the subscription has changed, and the next transactions after a position.

        Args:
            may_be_open: whether a partly stored transaction is returned if there is no complete one.

        Raises:
            SubscriptionError: the subscription no longer exists.
            DeliveryError: the next transactions were removed.
        """
        ...

    def loads(
        self,
        batches: Sequence[Batch],
        *,
        own: OwnCommands,
        streams: int,
        apart: Sequence[int] = (),
    ) -> AsyncGenerator[BatchLoad, None]:
        """Yield the batches with their commands, without the Subscriber's own.

        Args:
            streams: number of streams over which the commands are spread, by the hash of their keys.
            apart: articles whose commands come in parts of their own.

        Raises:
            UnfinishedError: a transaction whose delivery began while it was being stored is not completed, or
                its parts have changed.
        """
        ...

    async def uniform(
        self, after: int, upto: int, articles: Sequence[int], commands: int
    ) -> dict[int, int]:
        """Return the articles that have commands of only one type in a range, and their number; of each
        transaction at most `commands` commands are examined.
        """
        ...

    async def own_transactions(self, position: int, originator: int) -> list[int]:
        """Return the commit positions of the Subscriber's own transactions after a position."""
        ...

    def commands(self, after: int, upto: int) -> AsyncIterator[DecodedCommand]:
        """Yield all commands of the transactions after a position up to another, in order."""
        ...

    async def articles(self) -> Mapping[int, DistributedArticle]:
        """Return the Publisher's tables that are articles, by number."""
        ...

    async def proc_articles(self) -> Mapping[int, ProcArticle]:
        """Return the Publisher's routines, by number."""
        ...

    async def close(self) -> None:
        """Close the connection. Idempotent."""
        ...


class Signal(Protocol):
    """A flag that can be awaited; an `asyncio.Event` is one."""

    def is_set(self) -> bool: ...
    def clear(self) -> None: ...
    async def wait(self) -> Any: ...


class WorldPort(Protocol):
    """Environment of an agent, for one subscription."""

    publisher: str
    subscriber: str
    """Node names; the Subscriber's name is also that of its changes' originator."""

    @property
    def news(self) -> Signal:
        """Signal that transactions may have been stored."""
        ...

    def time(self) -> float:
        """Return the time of a monotonic clock, in seconds."""
        ...

    async def wait(self, signals: Sequence[Signal], timeout_s: float) -> None:
        """Wait until one of the signals is set, or the timeout expires."""
        ...

    async def first(self, pending: Sequence[PendingGroup], timeout_s: float) -> None:
        """Wait until one of the groups is done, or the timeout expires."""
        ...

    async def source(self, profile: Profile | None) -> SourcePort:
        """Connect to the distribution database.

        Args:
            profile: None for the profile stored with the subscription.

        Raises:
            LostError, psycopg.OperationalError, OSError: the database does not answer.
            SubscriptionError: the database does not know the Publisher.
        """
        ...

    async def target(self, publisher_db: str, profile: Profile) -> TargetPort:
        """Connect to the Subscriber.

        Raises:
            LostError, psycopg.OperationalError, OSError: the Subscriber does not answer.
            RefusedError: the Subscriber refuses a statement.
        """
        ...


async def answers(pending: Iterable[PendingGroup]) -> list[StepsAnswer]:
    """Return the answer of each group once all are done; raise the first `LostError`."""
    results: list[StepsAnswer] = []
    lost: LostError | None = None
    for each in pending:
        try:
            results.append(await each)
        except LostError as error:
            lost = lost or error
    if lost is not None:
        raise lost
    return results


async def perform(session: SessionPort, *steps: Step) -> StepsAnswer:
    """Perform a group of steps that is not expected to fail.

    Raises:
        RefusedError: a step failed; the group is rolled back.
    """
    answer = await session.send(*steps)
    if answer.failure is not None:
        await session.send(Rollback())
        raise RefusedError(answer.failure)
    return answer
