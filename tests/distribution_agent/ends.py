"""A distribution database and a Subscriber for tests, with a stand-in for the log reader."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from psycopg import AsyncConnection

from tests.distribution.blocks import LoggedTransaction, moment_us, write_blocks
from tests.fix_server import Database
from tests.propagation.here import call, propagation
from twopc.articles import Article
from twopc.distributed_article import DistributedArticle, default_procedures
from twopc.lsn import lsn_text, lsn_value
from twopc.propagation import TYPE_OF, Format
from twopc.publisher import distribution
from twopc.sql.describe import describe
from twopc.subscriber import propagation as procedures
from twopc.subscriber.distribution_agent import Config, DistributionAgent, Profile, Servers

AGENT, PASSWORD = "delivering_agent", "delivering"
PUBLISHER, SUBSCRIBER = "pub", "sub1"
_FIRST, _STEP = 0x1000, 0x100


@dataclass(frozen=True, slots=True, kw_only=True)
class Does:
    """A command of a source transaction."""

    operation: str
    values: tuple[object, ...]
    article_id: int = 7
    hashkey: int = 0
    type: int | None = None
    text: str | None = None
    """Text of the command, in place of values."""


def ins(*values: object, article_id: int = 7, hashkey: int = 0) -> Does:
    """Return an INSERT."""
    return Does(operation="ins", values=values, article_id=article_id, hashkey=hashkey)


def upd(*values: object, article_id: int = 7, hashkey: int = 0) -> Does:
    """Return an UPDATE, with the values that its format has."""
    return Does(operation="upd", values=values, article_id=article_id, hashkey=hashkey)


def dele(*values: object, article_id: int = 7, hashkey: int = 0) -> Does:
    """Return a DELETE."""
    return Does(operation="del", values=values, article_id=article_id, hashkey=hashkey)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A source transaction as stored in the distribution database."""

    seqno: str
    xid: int


@dataclass(slots=True, kw_only=True)
class Ends:
    """The distribution database and the Subscriber."""

    distribution: Database
    subscriber: Database
    publisher_id: int = 0
    originator_id: int = 0
    other_originator_id: int = 0
    at: int = _FIRST
    xid: int = 1000
    admin: AsyncConnection[Any] = field(init=False)
    """Administrator's connection to the distribution database."""
    sub: AsyncConnection[Any] = field(init=False)
    """Administrator's connection to the Subscriber."""
    _open: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def open(self) -> None:
        """Connect, and install what both databases need before the first article."""
        self.admin = await self._connect(self.distribution)
        await distribution.install(self.admin, AGENT, AGENT)
        await self.move()
        self.publisher_id = await distribution.register_publisher(
            self.admin, PUBLISHER, database="shop", slot="msrepl_test"
        )
        self.originator_id, self.other_originator_id = [
            await distribution.add_originator(
                self.admin, self.publisher_id, name, database=name, link_role=f"link_{name}"
            )
            for name in (SUBSCRIBER, "sub2")
        ]

    async def move(self) -> None:
        """Connect to the Subscriber's database, which may be a new one, and install procedures."""
        self.sub = await self._connect(self.subscriber)
        await procedures.install(self.sub, AGENT)

    async def _connect(self, database: Database) -> AsyncConnection[Any]:
        connection = await AsyncConnection.connect(database.dsn, autocommit=True)
        await self._open.enter_async_context(connection)
        known = await connection.execute("select from pg_roles where rolname = %s", (AGENT,))
        if not known.rowcount:
            await connection.execute(f"create role {AGENT} login password '{PASSWORD}'".encode())
        await connection.execute(
            f"grant set on parameter session_replication_role to {AGENT}".encode()
        )
        return connection

    async def close(self) -> None:
        """Disconnect, and drop what the agent's role owns."""
        await self._open.aclose()
        for database in (self.distribution, self.subscriber):
            with database.connect() as admin:
                admin.execute(f"drop owned by {AGENT} cascade")

    async def subscribe(
        self,
        statement: str,
        *,
        table: str = "t",
        schema: str = "public",
        article_id: int = 7,
        methods: Mapping[str, str] | None = None,
        scripts: Sequence[str] = (),
        **terms: Any,
    ) -> Article:
        """Create a table at the Subscriber, and the subscription to its article.

        The subscription is updatable unless ``originator_id=None``.
        """
        await self.sub.execute(statement.encode())
        found = await describe(self.sub, schema, table)
        article = Article(
            schema=schema, table=table, columns=found.columns, key=found.key, uniques=found.uniques
        )
        how = propagation(**(methods or {}))
        await procedures.create(self.sub, article, article_id, how, AGENT, scripts=scripts)
        await distribution.put_article(
            self.admin,
            self.publisher_id,
            DistributedArticle(
                article_id=article_id,
                article=article,
                propagation=how,
                procedures=default_procedures(schema, table),
            ),
        )
        given: dict[str, Any] = {
            "originator_id": self.originator_id,
            "status": 2,
            "subscription_seqno": "0/0",
        }
        await distribution.add_subscription(
            self.admin, self.publisher_id, article_id, SUBSCRIBER, **(given | terms)
        )
        return article

    async def store(
        self,
        *commands: Does,
        own: bool = False,
        originator: int | None = None,
        posted: Sequence[tuple[int, Mapping[str, object]]] = (),
        notify: bool = True,
    ) -> Stored:
        """Store one transaction as the log reader does: in one commit, with its notification."""
        made = await self.store_all(
            [commands], own=own, originator=originator, posted=posted, notify=notify
        )
        return made[0]

    async def store_all(
        self,
        transactions: Sequence[Sequence[Does]],
        *,
        own: bool = False,
        originator: int | None = None,
        posted: Sequence[tuple[int, Mapping[str, object]]] = (),
        notify: bool = True,
    ) -> list[Stored]:
        """Store several transactions in one commit, as `store` does."""
        who = self.originator_id if own else originator
        made, whole = [], []
        for commands in transactions:
            self.at += _STEP
            self.xid += 1
            texts = [(_type(each), each.article_id, each.hashkey, _text(each)) for each in commands]
            texts += [(kind, 0, 0, json.dumps(body)) for kind, body in posted]
            whole.append((self._transaction(self.xid, who), texts))
            made.append(Stored(seqno=lsn_text(self.at), xid=self.xid))
        async with self.admin.transaction():
            await write_blocks(self.admin, self.publisher_id, whole)
            if notify:
                await self.admin.execute("notify msrepl_distribution")
        return made

    async def store_many(self, count: int, text: str) -> None:
        """Store one transaction that inserts `count` rows."""
        self.at += _STEP
        made = [(1, 7, n % 63 + 1, f'("{n}","{text}","0")') for n in range(1, count + 1)]
        await write_blocks(self.admin, self.publisher_id, [(self._transaction(5), made)])

    def _transaction(self, xid: int, originator: int | None = None) -> LoggedTransaction:
        return LoggedTransaction(self.at, xid, moment_us(time.time()), originator or 0)

    def agent(self, *, points: Any = None, **profile: Any) -> DistributionAgent:
        """Return an agent under the agents' role; it is closed with the databases."""
        config = self.config(**profile)
        servers = Servers(
            subscriber=SUBSCRIBER,
            publisher=PUBLISHER,
            distribution_dsn=config.distribution_dsn,
            subscriber_dsn=config.subscriber_dsn,
        )
        made = DistributionAgent(servers, profile=config.profile, points=points)
        self._open.push_async_callback(made.close)
        return made

    def config(self, **profile: Any) -> Config:
        """Return the configuration of an agent that runs in its own process."""
        distribution_database, server = self.distribution, self.distribution.server
        return Config(
            subscriber=SUBSCRIBER,
            publisher=PUBLISHER,
            distribution_dsn=server.dsn(distribution_database.name, AGENT, PASSWORD),
            subscriber_dsn=self.subscriber.server.dsn(self.subscriber.name, AGENT, PASSWORD),
            profile=Profile(**profile),
        )

    async def rows(self, table: str = "t", columns: str = "*") -> list[tuple[Any, ...]]:
        """Return the rows of a table at the Subscriber, ordered by the first column."""
        cursor = await self.sub.execute(f"select {columns} from {table} order by 1".encode())
        return await cursor.fetchall()

    async def position(self) -> int:
        """Return the Subscriber's position, or 0."""
        cursor = await self.sub.execute(
            "select transaction_timestamp::text from msrepl.msreplication_subscriptions"
        )
        row = await cursor.fetchone()
        return lsn_value(row[0]) if row is not None else 0

    async def history(self, *events: str) -> list[dict[str, Any]]:
        """Return rows of the agent's history, of the given events or all."""
        cursor = await self.admin.execute(
            "select to_jsonb(h) from msrepl.msdistribution_history h where subscriber = %s order by id",
            (SUBSCRIBER,),
        )
        found = [row for (row,) in await cursor.fetchall()]
        return [row for row in found if not events or row["event"] in events]

    async def status(self) -> dict[str, Any]:
        """Return the agent's row in the distribution database."""
        cursor = await self.admin.execute(
            "select to_jsonb(a) from msrepl.msdistribution_agents a where subscriber = %s",
            (SUBSCRIBER,),
        )
        row = await cursor.fetchone()
        assert row is not None
        return dict(row[0])

    async def until_waiting(self, count: int) -> None:
        """Wait until `count` sessions of the agent wait for locks."""
        query = """
            select count(*) from pg_stat_activity
            where datname = %s and application_name like 'msrepl agent%%' and wait_event_type = 'Lock'
        """
        await self._until(query, (self.subscriber.name,), lambda seen: seen[0] >= count)

    async def until_looked_at(self, times: int) -> None:
        """Wait until the agent has checked `times` times for streams that wait for each other."""
        query = """
            select query_start from pg_stat_activity
            where datname = %s and usename = %s and query like '%%pg_cancel_backend%%'
        """
        seen: set[Any] = set()

        def enough(row: tuple[Any, ...]) -> bool:
            seen.add(row[0])
            return len(seen) > times

        await self._until(query, (self.subscriber.name, AGENT), enough)

    async def reconnect(self) -> None:
        """Connect to the Subscriber again after its server was down."""
        connection = await AsyncConnection.connect(self.subscriber.dsn, autocommit=True)
        self.sub = await self._open.enter_async_context(connection)

    async def until_crashed(self, crashes: list[int], running: asyncio.Task[Any]) -> None:
        """Wait until a crash has been recorded."""
        while not crashes:
            assert not running.done(), running
            await self.status()

    async def until_at(self, position: int, running: asyncio.Task[Any] | None = None) -> None:
        """Wait until the Subscriber has reached a position; `running` must not end before."""
        deadline = time.monotonic() + 20
        while await self.position() < position:
            assert running is None or not running.done(), running
            assert time.monotonic() < deadline, f"{await self.position()} < {position}"

    async def until_delivered(self, position: int) -> None:
        """Wait until the agent has reported a position to the distribution database."""
        query = "select delivered::text from msrepl.msdistribution_agents where subscriber = %s"
        await self._until(query, (SUBSCRIBER,), lambda seen: lsn_value(seen[0]) >= position)

    async def until_event(self, event: str, count: int) -> None:
        """Wait until the agent's history has `count` rows of an event."""
        query = """
            select count(*) from msrepl.msdistribution_history where subscriber = %s and event = %s
        """
        await self._until(query, (SUBSCRIBER, event), lambda seen: seen[0] >= count)

    async def _until(
        self, query: str, params: tuple[Any, ...], enough: Callable[[tuple[Any, ...]], bool]
    ) -> None:
        deadline = time.monotonic() + 20
        while True:
            cursor = await self.admin.execute(query.encode(), params)
            row = await cursor.fetchone()
            if row is not None and enough(row):
                return
            assert time.monotonic() < deadline, f"{query}: {row}"

    async def prepared(self) -> list[str]:
        """Return the gids of prepared transactions at the Subscriber."""
        cursor = await self.sub.execute(
            "select gid from pg_prepared_xacts where database = current_database()"
        )
        return [gid for (gid,) in await cursor.fetchall()]


def _type(each: Does) -> int:
    return each.type if each.type is not None else TYPE_OF[each.operation]


def _text(each: Does) -> str:
    return each.text if each.text is not None else call(*each.values).decode()


__all__ = ["AGENT", "Does", "Ends", "Format", "Stored", "dele", "ins", "upd"]
