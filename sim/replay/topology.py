"""A live topology as a target: recorded transactions are executed at the nodes where they were made.

A transaction consists of decoded commands, executed as statements by key. A Subscriber's transaction runs as a
global transaction. Each transaction first records itself in a ledger at its node; a transaction found in the ledger
is skipped.
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

#: Name of the coordinator if the topology had none before.
COORDINATOR = "replay"
#: Outcomes of a transaction.
DONE, FOUND, REFUSED, FAILED, IN_DOUBT, LATE = (
    "done", "found", "rejected", "error", "in_doubt", "late",
)  # fmt: skip
#: Outcomes after which a transaction may be retried: it may have conflicted with a running transaction, or have
#: needed a row of another table that came later.
AGAIN = (REFUSED, FAILED, LATE)
#: Timeout for a Subscriber to receive the rows that a transaction needs, and for retries of a transaction.
DELIVERED_WITHIN_S = 60.0
#: Polling interval: an agent does not notify other processes.
_LOOK_EVERY_S = 0.005
#: Refusals because of another session's lock or commit, not because of a row's content.
_IN_THE_WAY = frozenset({"lock_timeout", "deadlock", "serialization_failure"})
_IN_THE_WAY_STATES = frozenset({"55P03", "40P01", "40001"})
_NOTE = "insert into twopc_replay.done (replay, seqno) values (%s, %s) on conflict do nothing"
_KNOWN = "select from msrepl.coordinator_epoch limit 1"

Row = Mapping[str, Any]
#: Rows of `twopc.sim.spark.shapes.DECODED`, in order.
Commands = Sequence[Row]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyAddress:
    """The nodes of a topology, and the name of its coordinator. Can be pickled and passed to tasks."""

    nodes: Mapping[str, str] = field(repr=False)
    """Names and connection strings of the nodes, including the distribution database."""
    coordinator: str
    """Coordinator of the transactions: the same for all tasks, so that each recovers the branches of the others."""

    async def attach(self) -> Topology:
        """See `twopc.sim.operate.attach`."""
        return await attach(self.nodes, coordinator=self.coordinator)


def address_of(nodes: Mapping[str, str], coordinator: str | None = None) -> TopologyAddress:
    """Return the address of a topology, which may not have had a coordinator yet.

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
    """The outcome of a transaction."""

    outcome: str
    message: str = ""
    in_the_way: bool = False
    """Whether only another session's lock or commit caused the refusal, so that a retry at once may succeed."""
    counts: tuple[tuple[str, tuple[str | None, ...], int], ...] = ()
    """Article, key and row count of the commands that did not affect exactly one row."""


class TopologyTarget:
    """A target that executes transactions on a topology.

    Args:
        replay: the replay's name in the ledger.
        articles: rows of `shapes.ARTICLES` by number and shape.
        fresh: whether a Subscriber's transaction waits until its rows have the Publisher's versions.
        patience_s: timeout of that wait, once for each node, after which the outcome is `LATE`; also the time for
            which a transaction that only conflicted with another session's lock is retried.
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
        """Nodes at which a wait has timed out: later transactions do not wait there."""
        self.begun_anew = 0
        """Number of retries because of another session."""

    async def carry_out(self, transaction: RecordedTransaction[Commands]) -> TransactionOutcome:
        """Execute a transaction, unless the ledger has it.

        A transaction that failed on another session's lock, or as a deadlock's victim, is rolled back at all nodes
        and retried in its place: the recording does not determine how two such transactions interleave.
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
        """Begin a transaction at a node, and yield an object that executes statements in it."""
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
        """Return whether the Subscriber has the Publisher's versions of the rows, at once or after waiting."""
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
    """Return whether the server or the connection is lost, so that all further transactions would fail too."""
    return isinstance(error, psycopg.OperationalError) and (
        error.sqlstate is None or error.sqlstate.startswith(("08", "57P"))
    )


async def ledger(topology: Topology, nodes: Iterable[str], *, there: bool) -> None:
    """Create or drop the table in which transactions record themselves."""
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
    """Return the statement of a command, by key, and its parameters. Row versions are left to the databases."""
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
    if not taken:  # an UPDATE that changed no value
        name = sql.Identifier(columns[article["key"][0]])
        sets = [sql.SQL("{} = {}").format(name, name)]
    return (
        sql.SQL("update {} set {} where {}").format(table, sql.SQL(", ").join(sets), where),
        [*values, *key],
    )


def version_query(command: Row, article: Row) -> tuple[sql.Composed, list[str | None]]:
    """Return a query for the version of a command's row, and its parameters."""
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
    """Return a parameter cast to a type as the catalog spells it."""
    return sql.SQL("cast({} as {})").format(sql.Placeholder(), sql.SQL(type_))
