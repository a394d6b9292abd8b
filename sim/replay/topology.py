"""A live topology as a target: recorded transactions are carried out where they were made.

A transaction is its decoded commands, as statements by key. A Subscriber's runs as a global transaction. Each notes
itself in a ledger at its node first; one that is found there was carried out before.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import AsyncConnection, sql

from twopc.drivers.runtime import Asyncio
from twopc.errors import InDoubtError, TransactionError
from twopc.names import article_name
from twopc.sim.operate import attach
from twopc.sim.replay.engine import RecordedTransaction
from twopc.sim.topology import Topology

#: The coordinator's name where there was none before.
COORDINATOR = "replay"
#: What can come of a transaction.
DONE, FOUND, REFUSED, FAILED, IN_DOUBT, LATE = (
    "done", "found", "rejected", "error", "in_doubt", "late",
)  # fmt: skip
#: What may be tried once more: it may have met one that was under way, or have needed a row of another
#: table that came later.
AGAIN = (REFUSED, FAILED, LATE)
#: How long a Subscriber may take to receive what a transaction needs, and a transaction be begun anew.
DELIVERED_WITHIN_S = 60.0
#: How often it is looked: an agent tells nobody else.
_LOOK_EVERY_S = 0.005
#: Refusals that are about no row: another session was in the way.
_IN_THE_WAY = frozenset({"lock_timeout", "deadlock", "serialization_failure"})
_IN_THE_WAY_STATES = frozenset({"55P03", "40P01", "40001"})
_NOTE = "insert into twopc_replay.done (replay, seqno) values (%s, %s) on conflict do nothing"
_KNOWN = "select from msrepl.coordinator_epoch limit 1"

Row = Mapping[str, Any]
#: Of `twopc.sim.spark.shapes.DECODED`, in their order.
Commands = Sequence[Row]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyAddress:
    """Where a topology is, and the coordinator's name there. It travels to tasks."""

    nodes: Mapping[str, str] = field(repr=False)
    """Names and connection strings, the distribution database among them."""
    coordinator: str
    """In whose name transactions are coordinated: one for all tasks, who then recover for each other."""

    async def attach(self) -> Topology:
        """See `twopc.sim.operate.attach`."""
        return await attach(self.nodes, coordinator=self.coordinator)


def address_of(nodes: Mapping[str, str], coordinator: str | None = None) -> TopologyAddress:
    """A topology whose coordinator may never have been there.

    Raises:
        ConfigurationError: see `twopc.sim.operate.attach`.
    """

    async def look() -> str:
        topology = await attach(nodes, coordinator=coordinator)
        async with topology:
            rows = coordinator or await topology.execute(topology.distribution, _KNOWN)
        return topology.name if rows else COORDINATOR

    return TopologyAddress(nodes=nodes, coordinator=asyncio.run(look()))


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionOutcome:
    """What came of a transaction."""

    outcome: str
    message: str = ""
    in_the_way: bool = False
    """It was refused only because another session was first: it may be begun anew at once."""
    counts: tuple[tuple[str, tuple[str | None, ...], int], ...] = ()
    """Article, key and number of rows of commands that did not meet exactly one."""


class TopologyTarget:
    """Carries transactions out on a topology.

    Args:
        replay: the replay's name in the ledger.
        articles: of `shapes.ARTICLES` by number and shape.
        fresh: a transaction of a Subscriber begins when it has the Publisher's versions of its rows.
        patience_s: how long it waits for them, once at each node; then it is `LATE`. For so long, too, a
            transaction is begun anew that only met another session's lock.
    """

    def __init__(
        self,
        topology: Topology,
        *,
        replay: str,
        articles: Mapping[tuple[int, int], Row],
        fresh: bool,
        patience_s: float = DELIVERED_WITHIN_S,
    ) -> None:
        self._topology = topology
        self._replay = replay
        self._articles = articles
        self._fresh = fresh
        self._patience_s = patience_s
        self._late: set[str] = set()
        """Where something did not come in time: it is not waited for there again."""
        self.begun_anew = 0
        """How often another session was in the way."""

    async def carry_out(self, transaction: RecordedTransaction[Commands]) -> TransactionOutcome:
        """Carry it out, unless the ledger has it.

        One that only met another session's lock, or was chosen as a deadlock's victim, is rolled back everywhere
        and begins anew in its place: how two of them get past each other depends on nothing that was recorded.
        """
        at_subscriber = transaction.node != self._topology.publisher
        if self._fresh and at_subscriber and not await self._delivered(transaction):
            return TransactionOutcome(outcome=LATE, message="not delivered in time")
        clock = Asyncio()
        until = clock.time() + self._patience_s
        while (ended := await self._once(transaction)).in_the_way and clock.time() <= until:
            self.begun_anew += 1
        return ended

    async def _once(self, transaction: RecordedTransaction[Commands]) -> TransactionOutcome:
        counts: list[tuple[str, tuple[str | None, ...], int]] = []
        try:
            async with self._begun(transaction.node) as connection:
                noted = await connection.execute(_NOTE, (self._replay, transaction.number))
                if not noted.rowcount:
                    return TransactionOutcome(outcome=FOUND)
                for command in transaction.work:
                    article = self._articles[command["article_id"], command["shape"]]
                    query, params = statement(command, article)
                    done = await connection.execute(query, params)
                    if done.rowcount != 1:
                        name = article_name(article["source_schema"], article["source_object"])
                        counts.append((name, tuple(command["key"]), done.rowcount))
        except InDoubtError as error:
            return TransactionOutcome(outcome=IN_DOUBT, message=str(error))
        except TransactionError as error:
            kind = getattr(error, "kind", "error")
            return TransactionOutcome(
                outcome=FAILED if kind == "error" else REFUSED,
                message=str(error) if kind == "error" else f"{kind}: {error}",
                in_the_way=kind in _IN_THE_WAY,
            )
        except psycopg.Error as error:
            if gone(error):
                raise
            return TransactionOutcome(
                outcome=FAILED,
                message=str(error).strip(),
                in_the_way=error.sqlstate in _IN_THE_WAY_STATES,
            )
        return TransactionOutcome(outcome=DONE, counts=tuple(counts))

    @asynccontextmanager
    async def _begun(self, node: str) -> AsyncIterator[Any]:
        """A transaction at a node, as what executes statements in it."""
        if node != self._topology.publisher:
            async with self._topology.transaction(node) as transaction:
                yield transaction
            return
        async with (
            await AsyncConnection.connect(self._topology.node(node).dsn) as connection,
            connection.transaction(),
        ):
            yield connection

    # -- delivery ---------------------------------------------------------------------------------

    async def _delivered(self, transaction: RecordedTransaction[Commands]) -> bool:
        """Whether its Subscriber has the Publisher's versions of its rows, at once or after a while."""
        clock = Asyncio()
        until = clock.time() + self._patience_s
        while not await self._same(transaction):
            if transaction.node in self._late or clock.time() > until:
                self._late.add(transaction.node)
                return False
            await clock.sleep(_LOOK_EVERY_S)
        return True

    async def _same(self, transaction: RecordedTransaction[Commands]) -> bool:
        for command in transaction.work:
            article = self._articles[command["article_id"], command["shape"]]
            asked, params = version_query(command, article)
            query = asked.as_string(None)
            there = await self._topology.execute(self._topology.publisher, query, params)
            here = await self._topology.execute(transaction.node, query, params)
            if there != here:
                return False
        return True


def gone(error: psycopg.Error) -> bool:
    """Whether the server, or the way to it, is not there any more: nothing that follows can be done either."""
    return isinstance(error, psycopg.OperationalError) and (
        error.sqlstate is None or error.sqlstate.startswith(("08", "57P"))
    )


async def ledger(topology: Topology, nodes: Iterable[str], *, there: bool) -> None:
    """Make the table in which transactions note themselves, or drop it."""
    for node in nodes:
        if there:
            for each in (
                "create schema if not exists twopc_replay",
                "create table if not exists twopc_replay.done"
                " (replay text not null, seqno bigint not null, primary key (replay, seqno))",
                "grant usage on schema twopc_replay to public",
                "grant insert, select on twopc_replay.done to public",
            ):
                await topology.execute(node, each)
        else:
            await topology.execute(node, "drop schema if exists twopc_replay cascade")


# -- statements -----------------------------------------------------------------------------------


def statement(command: Row, article: Row) -> tuple[sql.Composed, list[str | None]]:
    """What a command does, by key, and its parameters. The row's version is left to the databases."""
    table = sql.Identifier(article["source_schema"], article["source_object"])
    columns, types = article["columns"], article["types"]
    where, key = _by_key(command, article)
    if command["operation"] == "del":
        return sql.SQL("delete from {} where {}").format(table, where), key
    taken = [
        at
        for at in range(len(columns))
        if at != article["version"] and (command["changed"] is None or command["changed"][at])
    ]
    values = [command["values"][at] for at in taken]
    if command["operation"] == "ins":
        made = sql.SQL("insert into {} ({}) overriding system value values ({})").format(
            table,
            sql.SQL(", ").join([sql.Identifier(columns[at]) for at in taken]),
            sql.SQL(", ").join([_cast(types[at]) for at in taken]),
        )
        return made, values
    sets = [
        sql.SQL("{} = {}").format(sql.Identifier(columns[at]), _cast(types[at])) for at in taken
    ]
    if not taken:  # it wrote the row as it was
        name = sql.Identifier(columns[article["key"][0]])
        sets = [sql.SQL("{} = {}").format(name, name)]
    return (
        sql.SQL("update {} set {} where {}").format(table, sql.SQL(", ").join(sets), where),
        [*values, *key],
    )


def version_query(command: Row, article: Row) -> tuple[sql.Composed, list[str | None]]:
    """The version of the row that a command is about, if it is there."""
    where, key = _by_key(command, article)
    query = sql.SQL("select {}::text from {} where {}").format(
        sql.Identifier(article["columns"][article["version"]]),
        sql.Identifier(article["source_schema"], article["source_object"]),
        where,
    )
    return query, key


def _by_key(command: Row, article: Row) -> tuple[sql.Composed, list[str | None]]:
    places = article["key"]
    parts = [
        sql.SQL("{} = {}").format(
            sql.Identifier(article["columns"][at]), _cast(article["types"][at])
        )
        for at in places
    ]
    return sql.SQL(" and ").join(parts), list(command["key"])


def _cast(type_: str) -> sql.Composed:
    """A parameter of a type, as the catalog wrote it."""
    return sql.SQL("cast({} as {})").format(sql.Placeholder(), sql.SQL(type_))
