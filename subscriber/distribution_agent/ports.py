"""What a distribution agent needs of the world that it runs in: time, the distribution database, the Subscriber.

There are two worlds: servers (`twopc.subscriber.distribution_agent.servers`), and virtual time (`twopc.sim.model.distribution`).
The agent is the same in both. It must not know how a step is performed.
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
    """The connection is gone: whether what was sent last took effect is not known."""


class RefusedError(Exception):
    """A statement of the agent's own was refused."""

    def __init__(self, report: ServerReport) -> None:
        super().__init__(str(report))
        self.report = report


class PassingError(Exception):
    """It may work a little later."""


class UnfinishedError(Exception):
    """A transaction that was begun while it was being stored is not stored any further, or otherwise."""


class AheadError(DeliveryError):
    """A command clashes with what may be the Subscriber's own change, and that change has not come through
    the Publisher's log yet: it is tried again when more of the log has been read."""


@dataclass(slots=True, kw_only=True)
class StepsAnswer:
    """What a group of steps came to: those after one that failed are not performed."""

    failure: ServerReport | None = None
    failed_at: int = -1
    """The place of the step that failed; -1: none."""
    constraint: str = ""
    """Schema, table and constraint that the failure names, with dots; empty if it names none."""


class PendingGroup(Protocol):
    """A group that was sent; `LostError` in the place of its answer if the connection is lost before."""

    def __await__(self) -> Generator[Any, Any, StepsAnswer]: ...

    def done(self) -> bool:
        """The answer has arrived, or will not any more."""
        ...

    def result(self) -> StepsAnswer:
        """The answer of a group that is done."""
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
    """Up to where everything was delivered, as of the last answer."""

    @property
    def lines(self) -> Sequence[SessionPort]:
        """Its sessions: the first moves the position, all the others are for streams."""
        ...

    async def rival(self) -> str:
        """Wait for sessions of an agent of this subscription that was killed, which end when they notice.

        Returns:
            Another agent that is at work, in words; empty if there is none, and none can begin.
        """
        ...

    async def find_position(self) -> None:
        """Find the position, or enter the first one."""
        ...

    async def prepared(self) -> list[StreamId]:
        """What streams of an agent of this subscription have prepared."""
        ...

    async def open_streams(self, count: int) -> None:
        """Open sessions until there are `count`.

        Raises:
            ServerError: the server cannot prepare as many transactions.
        """
        ...

    def subscribe(self, subscription: SubscribedArticles) -> None:
        """Take over what applies commands."""
        ...

    def gid(self, upto: int, stream: int) -> StreamId:
        """Under which a stream prepares its part of the batch that ends there."""
        ...

    async def cancel(self, streams: Sequence[int]) -> None:
        """Cancel what these do."""
        ...

    async def cancel_blocked(self, streams: Sequence[int], upto: int) -> bool:
        """Cancel those that wait for another one, running or prepared; whether there are any."""
        ...

    async def is_order_free(self) -> bool:
        """Nothing there can tell in which order rows of different tables change within a transaction."""
        ...

    async def is_constraint(self, name: str) -> bool:
        """Something of this name is a constraint, and no plain unique index."""
        ...

    async def close(self) -> None:
        """Idempotent."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEvent:
    """A row of an agent's history."""

    event: str
    """``started``, ``succeeded``, ``retry``, ``failed``, ``net``, ``skipped``, ``serial``."""
    seqno: int | None = None
    """The transaction that it is about, or the position reached."""
    duration_ms: float = 0.0
    transactions: int = 0
    commands: int = 0
    error: str = ""
    """The original's number, or the SQLSTATE."""
    message: str = ""
    command: str = ""


class HistoryPort(Protocol):
    """What an agent records of itself. Only what is to be `durable` raises `LostError` if it is not written."""

    async def event(self, event: AgentEvent, *, durable: bool = False) -> None:
        """A row of history."""
        ...

    async def delivered(self, position: int) -> None:
        """What is before this position is not needed any more: it is durable at the Subscriber."""
        ...

    async def posted(self, posted: StoredMessage) -> None:
        """What was posted for every Subscriber has arrived."""
        ...


class SourcePort(Protocol):
    """The distribution database, for one Subscriber. Every method may raise `LostError`."""

    profile: Profile
    publisher_db: str
    subscription: SubscribedArticles
    """As of the last `window`."""

    @property
    def history(self) -> HistoryPort:
        """Where the agent records what it does."""
        ...

    async def window(self, position: int, *, may_be_open: bool = False) -> tuple[bool, Window]:
        """Whether the subscription has changed, and the next transactions after a position.

        Args:
            may_be_open: if there is none, a transaction of which a part is stored will do.

        Raises:
            SubscriptionError: there is no subscription any more.
            DeliveryError: transactions that come next are not kept any more.
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
        """The batches with their commands, without the Subscriber's own.

        Args:
            streams: over how many the commands are spread, by the hash of their keys.
            apart: articles whose commands come in parts of their own.

        Raises:
            UnfinishedError: a transaction that was begun while it was being stored is not stored any further, or
                otherwise.
        """
        ...

    async def uniform(
        self, after: int, upto: int, articles: Sequence[int], commands: int
    ) -> dict[int, int]:
        """Articles that have commands of one kind only in a range, and how many; of each transaction no
        more than so many commands are looked at."""
        ...

    async def own_transactions(self, position: int, originator: int) -> list[int]:
        """The Subscriber's own transactions after a position, by where they committed."""
        ...

    def commands(self, after: int, upto: int) -> AsyncIterator[DecodedCommand]:
        """All commands of the transactions after a position up to another, in order."""
        ...

    async def articles(self) -> Mapping[int, DistributedArticle]:
        """The Publisher's tables that are articles, by number."""
        ...

    async def proc_articles(self) -> Mapping[int, ProcArticle]:
        """The Publisher's routines, by number."""
        ...

    async def close(self) -> None:
        """Idempotent."""
        ...


class Signal(Protocol):
    """A flag that can be waited for; an `asyncio.Event` is one."""

    def is_set(self) -> bool: ...
    def clear(self) -> None: ...
    async def wait(self) -> Any: ...


class WorldPort(Protocol):
    """A world, for one subscription."""

    publisher: str
    subscriber: str
    """Node names; the Subscriber's name is also that of its changes' originator."""

    @property
    def news(self) -> Signal:
        """There may be something to do."""
        ...

    def time(self) -> float:
        """Seconds of a clock that only goes forward."""
        ...

    async def wait(self, signals: Sequence[Signal], timeout_s: float) -> None:
        """Until one of them is set, or so much time has passed."""
        ...

    async def first(self, pending: Sequence[PendingGroup], timeout_s: float) -> None:
        """Until one of them is done, or so much time has passed."""
        ...

    async def source(self, profile: Profile | None) -> SourcePort:
        """Connect to the distribution database.

        Args:
            profile: None: the one that is kept with the subscription.

        Raises:
            LostError, psycopg.OperationalError, OSError: it does not answer.
            SubscriptionError: it does not know the Publisher.
        """
        ...

    async def target(self, publisher_db: str, profile: Profile) -> TargetPort:
        """Connect to the Subscriber.

        Raises:
            LostError, psycopg.OperationalError, OSError: it does not answer.
            RefusedError: it refuses us.
        """
        ...


async def answers(pending: Iterable[PendingGroup]) -> list[StepsAnswer]:
    """What each came to, once all are done; raises the first failure."""
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
    """Perform a group that nothing should refuse.

    Raises:
        RefusedError: it was refused; nothing of the group holds.
    """
    answer = await session.send(*steps)
    if answer.failure is not None:
        await session.send(Rollback())
        raise RefusedError(answer.failure)
    return answer
