"""An agent's access to the distribution database in virtual time: query results, and the agent's record.

Independent of the Subscriber's node.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from twopc.distributed_article import DistributedArticle
from twopc.proc_execution import ProcArticle
from twopc.sim.model.distribution.articles import Registry
from twopc.sim.model.distribution.processes import Connection, Process, at_once
from twopc.sim.model.distribution.store import PublisherStore, StoredTransaction
from twopc.sim.model.node.session import NodeSession
from twopc.sim.model.values import Steps
from twopc.subscriber.distribution_agent.loads import (
    BatchLoad,
    DecodedCommand,
    StoredMessage,
    SubscribedArticles,
    part_of,
)
from twopc.subscriber.distribution_agent.planner import ArticleTerms, Batch, OwnCommands, Window
from twopc.subscriber.distribution_agent.ports import AgentEvent, LostError
from twopc.subscriber.distribution_agent.profile import Profile

T = TypeVar("T")
#: Number of transactions that are planned at once.
_WINDOW = 10_000


@dataclass(slots=True, kw_only=True)
class AgentRecord:
    """The record of an agent in the distribution database, which outlives the process."""

    history: list[AgentEvent] = field(default_factory=list)


class ModelSource:
    """See `twopc.subscriber.distribution_agent.ports.SourcePort`.

    Args:
        record: the agent's record.
    """

    publisher_db = ""

    def __init__(
        self, process: Process, connection: Connection, store: PublisherStore, registry: Registry, record: AgentRecord, *,
        subscriber: str, profile: Profile,
    ) -> None:  # fmt: skip
        self._process = process
        self._connection = connection
        self._store = store
        self._registry = registry
        self._subscriber = subscriber
        self._terms: tuple[ArticleTerms, ...] | None = None
        self._stored: dict[int, StoredTransaction] = {}
        """Transactions of the last window, with their commands."""
        self.profile = profile
        self.subscription = SubscribedArticles()
        self.history = ModelHistory(self, record, subscriber, store)

    async def ask(self, find: Callable[[], T], what: str) -> T:
        """Run a query of the database, and return its result."""

        def work(_: NodeSession) -> Steps[T]:
            return (yield from at_once(find()))

        return await self._process.perform(self._connection.ask(work, what))

    async def window(self, position: int, *, may_be_open: bool = False) -> tuple[bool, Window]:
        """See `SourcePort`; no transaction is visible before it is stored completely."""
        del may_be_open
        terms, (window, stored) = await self.ask(
            lambda: (
                self._registry.terms(self._subscriber),
                self._store.window(position, _WINDOW),
            ),
            "the next transactions",
        )
        self._stored = {each.seqno: each for each in stored}
        changed = terms != self._terms
        if changed:
            self._terms = terms
            routines = self._registry.routines
            calls = tuple(each.article_id for each in terms if each.article_id in routines)
            self.subscription = SubscribedArticles(terms=terms, calls=calls)
        return changed, window

    async def loads(
        self,
        batches: Sequence[Batch],
        *,
        own: OwnCommands,
        streams: int,
        apart: Sequence[int] = (),
    ) -> AsyncGenerator[BatchLoad, None]:
        """See `SourcePort`; a large batch also comes in one piece, and no command comes apart."""
        for batch in batches:
            parts: dict[int, list[tuple[int, bytes]]] = {}
            posted: list[StoredMessage] = []
            for each in (self._stored[seqno] for seqno in batch.seqnos):
                for command, hashkey in zip(each.commands, each.hashkeys, strict=True):
                    if own.has(command.originator, command.article_id):
                        continue
                    if not command.article_id:
                        posted.append(_posted(command))
                    elif command.article_id in batch.articles:
                        coded = command.article_id * 100 + command.type, command.command.encode()
                        parts.setdefault(hashkey % streams, []).append(coded)
            yield BatchLoad(
                batch=batch,
                parts=tuple(part_of(parts[stream], stream) for stream in sorted(parts)),
                posted=tuple(posted),
            )

    async def uniform(
        self, after: int, upto: int, articles: Sequence[int], commands: int
    ) -> dict[int, int]:
        """See `SourcePort`; empty, as no command comes apart."""
        return {}

    async def own_transactions(self, position: int, originator: int) -> list[int]:
        return await self.ask(
            lambda: self._store.own_transactions(position, originator), "own transactions"
        )

    async def commands(self, after: int, upto: int) -> AsyncIterator[DecodedCommand]:
        for each in await self.ask(lambda: self._store.commands(after, upto), "commands"):
            yield each

    async def articles(self) -> Mapping[int, DistributedArticle]:
        return self._registry.articles

    async def proc_articles(self) -> Mapping[int, ProcArticle]:
        return self._registry.routines

    @property
    def lost(self) -> bool:
        """Whether the connection is lost."""
        return self._connection.lost

    def disconnect(self) -> None:
        """Close the connection. Idempotent."""
        self._connection.close()

    async def close(self) -> None:
        self.disconnect()


class ModelHistory:
    """See `twopc.subscriber.distribution_agent.ports.HistoryPort`.

    An event that need not be durable is recorded at once, or lost if there is no connection.
    """

    def __init__(
        self, source: ModelSource, record: AgentRecord, subscriber: str, store: PublisherStore
    ) -> None:
        self._source = source
        self._record = record
        self._subscriber = subscriber
        self._store = store

    async def event(self, event: AgentEvent, *, durable: bool = False) -> None:
        if durable:
            await self._source.ask(
                lambda: self._record.history.append(event), f"history: {event.event}"
            )
        elif not self._source.lost:
            self._record.history.append(event)

    async def delivered(self, position: int) -> None:
        with suppress(LostError):
            await self._source.ask(
                lambda: self._store.report(self._subscriber, position), "report the position"
            )

    async def posted(self, posted: StoredMessage) -> None:
        """See `HistoryPort`; ignored, as the model never reads it."""


def _posted(command: DecodedCommand) -> StoredMessage:
    return StoredMessage(seqno=command.seqno, type=command.type, body=json.loads(command.command))
