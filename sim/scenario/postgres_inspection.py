"""What is looked at on real servers: rows, prepared branches, markers, and who subscribes.

It changes nothing. See `twopc.sim.scenario.stage.Stage` for what each method does.
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

#: The branches that have committed at a node, with their transactions' ids as rows have them.
_BRANCHES = sql.SQL(
    "(select json_object_agg(gid, (xid::text::bigint % 4294967296)::text) from {} where not fence)"
).format(sql.Identifier(SCHEMA, "branch_marker"))


class StageInspection:
    """The part of a stage that looks."""

    def __init__(self, topology: Topology, scenario: Scenario) -> None:
        self._topology = topology
        self._scenario = scenario

    def subscribes(self, node: str) -> bool:
        """As this topology knows it."""
        return node == self._topology.publisher or node in self._topology.installer.subscribed

    async def look(self, node: str, tables: Mapping[str, Sequence[str]]) -> NodeContent:
        """These tables' rows, with these columns; one statement, and thereby one moment."""
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
        """The Publisher's rows that fulfil the filters of table and Subscriber."""
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
            # by the column, not by the text of that name that is asked for: 2 comes before 10
            sql.SQL(", ").join(sql.Identifier("public", table, each) for each in key),
        )
        rows = await self._topology.execute(publisher, query.as_string(None))
        return [dict(zip(columns, row, strict=True)) for row in rows]

    async def prepared(self, node: str) -> tuple[str, ...]:
        """Our gids in the node's database."""
        rows = await self._topology.execute(
            node,
            "select gid from pg_prepared_xacts "
            "where database = current_database() and starts_with(gid, %s) order by gid",
            (f"{PREFIX}:",),
        )
        return tuple(str(gid) for (gid,) in rows)

    async def markers(self, node: str) -> list[dict[str, Any]]:
        """The rows of the node's marker table; `sent`: a Subscriber's branch has one at the Publisher."""
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
        """The rows of a query, in a transaction that may not write."""
        return await answer(await self._topology.admin(node), node, text)

    async def read(self, node: str, text: str) -> None:
        """Have a node read a statement as the application, and forget it; ``:name`` stands for a parameter.

        Raises TransactionError if it does not take it.
        """
        await read_only(self._topology.nodes[node].app_dsn, node, text)


async def answer(
    connection: psycopg.AsyncConnection[Any], node: str, text: str
) -> list[dict[str, Any]]:
    """The rows of a query as text, in a transaction that may not write.

    Raises:
        TransactionError: the node does not take it.
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
    """Have a node parse a statement, and forget it; ``:name`` stands for a parameter.

    Raises:
        TransactionError: it does not take it.
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
