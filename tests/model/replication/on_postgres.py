"""Play histories on real servers: one topology for all, rewound between them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import sql

from tests.model.replication.telling import Notes, Played, graph_of, refused, told, waiting
from tests.model.replication.world import (
    ALSO,
    FILTERS,
    LOCK_TIMEOUT_S,
    NODES,
    PUBLISHER,
    SUBSCRIBER_SQL,
    SUBSCRIBERS,
    TABLES,
    History,
    directed,
)
from twopc.errors import RejectedError, TransactionError, from_sqlstate
from twopc.names import GlobalId
from twopc.server import EmbeddedServer
from twopc.sim.topology import Topology
from twopc.sim.topology.checkpoint import Checkpoint, checkpoint, rewind
from twopc.waits import WAITS_SQL, Party, session

_PATIENCE_S = 40.0


class World:
    """A topology, and a checkpoint of its initial state."""

    def __init__(self, topology: Topology, kept: Checkpoint) -> None:
        self.topology = topology
        self.kept = kept

    @classmethod
    async def make(cls, server: EmbeddedServer) -> World:
        """Create a topology with all tables published and subscribed."""
        topology = Topology(
            publisher=PUBLISHER, subscribers=SUBSCRIBERS, server=server,
            lock_timeout_ms=round(LOCK_TIMEOUT_S * 1000),
        )  # fmt: skip
        await topology.__aenter__()
        for table in TABLES:
            columns = [f"{name} {text}" for name, text in table.columns.items()]
            if table.key:
                columns.append(f"primary key ({', '.join(table.key)})")
            await topology.execute(PUBLISHER, f"create table {table.name} ({', '.join(columns)})")
            for text in table.sql:
                await topology.execute(PUBLISHER, text)
            for row in table.rows:
                insert = sql.SQL("insert into {} ({}) overriding system value values ({})").format(
                    sql.Identifier(table.name), sql.SQL(", ").join(map(sql.Identifier, row)),
                    sql.SQL(", ").join([sql.Placeholder()] * len(row)),
                )  # fmt: skip
                await topology.execute(PUBLISHER, insert.as_string(None), list(row.values()))
        for table in TABLES:
            await topology.publish(
                table.name, columns=table.published or None, row_filter=table.filter or None
            )
        for name in SUBSCRIBERS:
            await topology.subscribe(name, filters=FILTERS[name])
            for text in SUBSCRIBER_SQL.get(name, ()):
                await topology.execute(name, text)
            await topology.activate(name)
        return cls(topology, await checkpoint(topology))

    async def close(self) -> None:
        """Stop the topology."""
        await self.topology.__aexit__(None, None, None)

    async def play(self, history: History) -> Played:
        """Rewind the topology and play a history."""
        await rewind(self.topology, self.kept)
        run = PostgresRun(self.topology, history)
        try:
            return await run.run()
        finally:
            await run.close()


class PostgresRun:
    """A history played on servers, step by step."""

    def __init__(self, topology: Topology, history: History) -> None:
        self.topology = topology
        self.history = history
        self.played = Played()
        self.notes = Notes(self.played)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._contexts: dict[str, Any] = {}
        self._open: dict[str, Any] = {}
        self._places: dict[str, list[tuple[str, int]]] = {}
        self._gids: dict[str, str] = {}

    async def run(self) -> Played:
        """Play all steps, and record the rows and prepared transactions that remain."""
        for number, (name, text) in enumerate(self.history.steps, 1):
            if name in self.notes.busy:
                await self._until_ended(name)
            step = f"{number} {name}"
            self.notes.busy[name] = step
            self._tasks[name] = asyncio.create_task(self._step(name, step, text))
            self.notes.tell(step, await self._until_settled())
        for name in list(self.notes.busy):
            if name in self.notes.busy:
                await self._until_ended(name)
        await self.close()
        await self._look_at_rows()
        return self.played

    async def close(self) -> None:
        """Cancel all steps and roll back open transactions."""
        for task in self._tasks.values():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        for name in list(self._open):
            with suppress(TransactionError, psycopg.Error):
                await self._end(name, "rollback")

    async def _step(self, name: str, step: str, text: str) -> None:
        try:
            said = await self._do(name, text)
        except TransactionError as error:
            said = refused(error)
        except psycopg.Error as error:
            diag = error.diag
            said = refused(
                from_sqlstate(
                    error.sqlstate or "08006", diag.message_primary or str(error),
                    detail=diag.message_detail or "", node=directed(text)[0] or NODES[name[0]],
                )
            )  # fmt: skip
        del self.notes.busy[name]
        self.notes.ended[step] = said

    async def _do(self, name: str, text: str) -> str:
        node = NODES[name[0]]
        at, text = directed(text)
        verb, _, rest = text.partition(" ")
        if verb == "begin":
            await self._begin(name, node, rest or "read committed")
            return "begun"
        if text in ("commit", "rollback"):
            await self._end(name, text)
            return "committed" if text == "commit" else "rolled back"
        if text == "sync":
            await self.topology.sync(*(() if node == PUBLISHER else (node,)))
            return "synced"
        one = self._open[name]
        if name[0] in ALSO:
            one = one.at(at or node)
        cursor = await one.execute(text)
        return told(cursor.statusmessage, await cursor.fetchall() if cursor.description else None)

    async def _begin(self, name: str, node: str, level: str) -> None:
        if node == PUBLISHER:
            one = await psycopg.AsyncConnection.connect(
                self.topology.node(node).app_dsn, autocommit=True,
                options=f"-c lock_timeout={self.topology.wiring.lock_timeout_ms}",
            )  # fmt: skip
            await one.execute(f"begin isolation level {level}".encode())
            self._open[name] = one
            self._places[name] = [(node, one.info.backend_pid)]
            return
        subscribers = (node, *ALSO.get(name[0], ()))
        context = self.topology.transaction(
            *subscribers, isolation=level, shipping=self.history.shipping,
            several_subscriptions=len(subscribers) > 1,
        )  # fmt: skip
        self._contexts[name] = context
        transaction = self._open[name] = await context.__aenter__()
        self._places[name] = [(one.subscriber, one.pid) for one in transaction.parts]
        self._gids[name] = transaction.gid

    async def _end(self, name: str, how: str) -> None:
        one, context = self._open.get(name), self._contexts.get(name)
        if one is None:
            return
        try:
            if context is None:
                cursor = await one.execute(how.encode())
                if cursor.statusmessage != how.upper():
                    raise RejectedError("a statement of it had failed", node=PUBLISHER)
            elif how == "commit":
                await one.commit()
            else:
                await one.rollback()
        finally:
            self._open.pop(name, None)
            self._contexts.pop(name, None)
            self._gids.pop(name, None)
            if context is None:
                await one.close()
            else:
                await context.__aexit__(None, None, None)

    # -- looking ---------------------------------------------------------------------------------------

    async def _until_ended(self, name: str) -> None:
        step = self.notes.busy[name]
        await asyncio.wait([self._tasks[name]], timeout=_PATIENCE_S)
        assert self.notes.busy.get(name) != step, f"{step} does not end: {self.played.lines}"
        self.notes.tell("", await self._until_settled())

    async def _until_settled(self) -> dict[str, list[str]]:
        """Wait until every step has ended or waits, with the same result of two successive queries."""
        until, before = asyncio.get_running_loop().time() + _PATIENCE_S, None
        while self.notes.busy:
            tasks = [self._tasks[name] for name in self.notes.busy]
            await asyncio.wait(tasks, timeout=0.01, return_when=asyncio.FIRST_COMPLETED)
            waits = await self._waits()
            if all(waits.get(name) for name in self.notes.busy) and waits == before:
                return waits
            before = waits
            assert asyncio.get_running_loop().time() < until, f"not settled: {self.notes.busy}"
        return {}

    async def _waits(self) -> dict[str, list[str]]:
        sessions = [
            session(node, row)
            for node in (PUBLISHER, *SUBSCRIBERS)
            for row in await self.topology.execute(node, WAITS_SQL)
        ]
        transactions = {}
        for name, gid in self._gids.items():
            known = GlobalId.parse(gid)
            assert known is not None
            transactions[known] = tuple(self._places[name])
        graph = graph_of(sessions, transactions)
        at = {one.node: one.server for one in sessions}
        places = {
            name: (at.get(node, node), pid) for name, ((node, pid), *_) in self._places.items()
        }
        names = {Party(*place): name for name, place in places.items()}
        return {
            name: waiting(graph, *places[name], names) for name in self.notes.busy if name in places
        }

    async def _look_at_rows(self) -> None:
        for node in (PUBLISHER, *SUBSCRIBERS):
            for table in TABLES:
                found = await self.topology.execute(
                    node,
                    "select string_agg(format('%%I::text', attname), ', ' order by attnum) from pg_attribute "
                    "where attrelid = %s::regclass and attnum > 0 and not attisdropped",
                    (table.name,),
                )
                rows = await self.topology.execute(
                    node,
                    f"select {found[0][0]} from {table.name} as t order by {', '.join(f't.{one}' for one in table.key or ('id',))}",
                )
                self.played.tables[f"{node}.{table.name}"] = [str(tuple(row)) for row in rows]
            gids = await self.topology.execute(
                node, "select gid from pg_prepared_xacts where database = current_database()"
            )
            self.played.prepared += [gid for (gid,) in gids]
