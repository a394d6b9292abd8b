"""Inspection of real servers: rows, prepared branches, branch markers, and subscriptions.

It changes nothing. See `twopc.sim.scenario.stage.Stage` for each method.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from psycopg import sql

from twopc.errors import from_sqlstate
from twopc.names import PREFIX, SCHEMA
from twopc.sim.scenario import sqltext
from twopc.sim.scenario.model import Scenario
from twopc.sim.scenario.stage import AwayError, NodeContent, lost_table
from twopc.sim.topology import Topology

#: The branches committed at a node, with their transaction ids in the 32-bit form of `xmin`.
_BRANCHES = sql.SQL(
    "(select json_object_agg(gid, (xid::text::bigint % 4294967296)::text) from {} where not fence)"
).format(sql.Identifier(SCHEMA, "branch_marker"))


class StageInspection:
    """The read-only part of a stage."""

    def __init__(self, topology: Topology, scenario: Scenario) -> None:
        self._topology = topology
        self._scenario = scenario

    def subscribes(self, node: str) -> bool:
        """Return whether the node is the Publisher or has a subscription in this topology."""
        return node == self._topology.publisher or node in self._topology.installer.subscribed

    async def look(self, node: str, tables: Mapping[str, Sequence[str]]) -> NodeContent:
        """Return the given columns of these tables' rows, all read in one statement and thus in one snapshot."""
        if not self.subscribes(node):
            result = await self._topology.execute(
                node,
                "select bool_or(to_regclass(format('public.%%I', name)) is null) "
                "from unnest(%s::text[]) as name",
                ([*tables],),
            )
            if result[0][0]:
                raise AwayError(node)
        parts = [
            sql.SQL("(select json_agg(array[xmin::text, {}] order by {}) from {})").format(
                sql.SQL(", ").join(
                    sql.SQL("{}::text").format(sql.Identifier(each)) for each in columns
                ),
                sql.SQL(", ").join(map(sql.Identifier, self._scenario.tables[name].key_columns)),
                sql.Identifier("public", name),
            )
            for name, columns in tables.items()
        ]
        if self._has_markers(node):
            parts.append(_BRANCHES)
        query = sql.SQL("select {}").format(sql.SQL(", ").join(parts))
        try:
            ((*contents,),) = await self._topology.execute(node, query.as_string(None))
        except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn) as error:
            raise lost_table(error.diag.message_primary or str(error)) from error
        branches = contents.pop() if self._has_markers(node) else None
        by_table = {name: rows or () for name, rows in zip(tables, contents, strict=True)}
        return NodeContent(
            rows={
                name: [dict(zip(tables[name], row[1:], strict=True)) for row in rows]
                for name, rows in by_table.items()
            },
            xids={name: [row[0] for row in rows] for name, rows in by_table.items()},
            branches=branches or {},
        )

    async def part(
        self, subscriber: str, table: str, columns: Sequence[str]
    ) -> list[dict[str, Any]] | None:
        """Return the Publisher's rows that fulfil the filters of the table and the Subscriber."""
        filters = [
            self._scenario.tables[table].filter,
            self._scenario.subscriber(subscriber).filter.get(table),
        ]
        conditions = [sql.SQL("(\n{}\n)").format(sql.SQL(text)) for text in filters if text]
        if not conditions:
            return None
        publisher, condition = self._topology.publisher, sql.SQL(" and ").join(conditions)
        key = self._scenario.tables[table].key_columns
        query = sql.SQL("select {} from {} where {} order by {}").format(
            sql.SQL(", ").join(
                sql.SQL("{}::text").format(sql.Identifier(each)) for each in columns
            ),
            sql.Identifier("public", table),
            condition,
            # by the column, not by its text in the select list: 2 comes before 10
            sql.SQL(", ").join(sql.Identifier("public", table, each) for each in key),
        )
        rows = await self._topology.execute(publisher, query.as_string(None))
        return [dict(zip(columns, row, strict=True)) for row in rows]

    async def prepared(self, node: str) -> tuple[str, ...]:
        """Return the gids of coordinators' branches that are prepared in the node's database."""
        rows = await self._topology.execute(
            node,
            "select gid from pg_prepared_xacts "
            "where database = current_database() and starts_with(gid, %s) order by gid",
            (f"{PREFIX}:",),
        )
        return tuple(str(gid) for (gid,) in rows)

    async def markers(self, node: str) -> list[dict[str, Any]]:
        """Return the rows of the node's marker table; `sent`: whether a Subscriber's branch has one at the
        Publisher.
        """
        if not self._has_markers(node):
            return []
        query = sql.SQL(
            "select gid, participants, fence, calls > 0 or pending is not null from {} order by gid"
        ).format(sql.Identifier(SCHEMA, "branch_marker"))
        rows = await self._topology.execute(node, query.as_string(None))
        return [
            {"gid": gid, "participants": list(participants), "fence": fence, "sent": sent}
            for gid, participants, fence, sent in rows
        ]

    def _has_markers(self, node: str) -> bool:
        return not self._scenario.only_reads(node) and self.subscribes(node)

    async def query(self, node: str, text: str) -> list[dict[str, Any]]:
        """Return the rows of a query, run in a read-only transaction."""
        return await answer(await self._topology.admin(node), node, text)

    async def read(self, node: str, text: str) -> None:
        """Prepare a statement at a node as the application and discard it; ``:name`` is a parameter.

        Raises:
            TransactionError: the node refuses the statement.
        """
        await read_only(self._topology.nodes[node].app_dsn, node, text)


async def answer(
    connection: psycopg.AsyncConnection[Any], node: str, text: str
) -> list[dict[str, Any]]:
    """Return the rows of a query as text, run in a read-only transaction.

    Raises:
        TransactionError: the node refuses the query.
    """
    try:
        async with connection.transaction():
            await connection.execute("set transaction read only")
            cursor = await connection.execute(text.encode())
            names = [column.name for column in cursor.description or ()]
            rows = await cursor.fetchall() if cursor.description else []
    except psycopg.Error as error:
        message = error.diag.message_primary or str(error)
        raise from_sqlstate(error.sqlstate or "08006", message, node=node) from error
    return [
        {
            name: None if value is None else str(value)
            for name, value in zip(names, row, strict=True)
        }
        for row in rows
    ]


async def read_only(dsn: str, node: str, text: str) -> None:
    """Prepare a statement at a node and discard it; ``:name`` is a parameter.

    Raises:
        TransactionError: the node refuses the statement.
    """
    names = sqltext.parameters(text)
    query = sqltext.numbered(text, names)
    options = "-c default_transaction_read_only=on"
    async with await psycopg.AsyncConnection.connect(
        dsn, autocommit=True, options=options
    ) as connection:
        try:
            await connection.execute(f"prepare reading as {query}".encode())
        except psycopg.Error as error:
            message = error.diag.message_primary or str(error)
            raise from_sqlstate(error.sqlstate or "08006", message, node=node) from error
