"""The part of a stage on real servers that is the same for both kinds of replication: what is read there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import psycopg
from psycopg import sql

from twopc.errors import TransactionError, from_sqlstate
from twopc.sim.report.history import plain
from twopc.sim.scenario import sqltext
from twopc.sim.scenario.model import Scenario
from twopc.sim.scenario.outages import cut, restore
from twopc.sim.scenario.stage import Stage, lost_table
from twopc.sim.sessions.interface import ClientSession
from twopc.sim.sessions.waits import Observer, Waits, clients_of
from twopc.sql import fragments as f

if TYPE_CHECKING:
    from twopc.sim.merge import MergeTopology
    from twopc.sim.topology import Topology

OneTopology = TypeVar("OneTopology", bound="Topology | MergeTopology")


class ServerStage(Stage, Generic[OneTopology]):
    """Stage on real servers.

    Args:
        printed: results of the scenario's `setup`.
    """

    _sessions: Mapping[str, ClientSession]

    def __init__(
        self,
        topology: OneTopology,
        scenario: Scenario,
        observer: Observer,
        printed: Sequence[Mapping[str, Any]],
    ) -> None:
        self._topology = topology
        self._scenario = scenario
        self._observer = observer
        self._printed = printed

    @property
    def about(self) -> Mapping[str, Any]:
        """Databases and server versions by node, and the results of `setup`."""
        about: dict[str, Any] = {
            "databases": {name: node.database for name, node in self._topology.nodes.items()},
            "server_versions": self._observer.versions,
        }
        return about | {"results": list(self._printed)} if self._printed else about

    async def waits(self) -> Waits:
        """Read the locks of all nodes."""
        return await self._observer.look(await clients_of(self._sessions))

    async def _read(
        self, node: str, tables: Mapping[str, Sequence[str]], *more: sql.Composable
    ) -> tuple[dict[str, list[list[str]]], list[Any]]:
        """Return the xmin and the given columns of these tables' rows, and the values of `more`, all read in one
        statement and thus in one snapshot.
        """
        parts = [
            sql.SQL("(select json_agg(array[xmin::text, {}] order by {}) from {})").format(
                _texts(columns),
                f.identifiers(self._scenario.tables[name].key_columns),
                sql.Identifier("public", name),
            )
            for name, columns in tables.items()
        ]
        query = sql.SQL("select {}").format(sql.SQL(", ").join([*parts, *more]))
        try:
            (contents,) = await self._topology.execute(node, query.as_string(None))
        except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn) as error:
            raise lost_table(error.diag.message_primary or str(error)) from error
        by_table = {name: rows or [] for name, rows in zip(tables, contents, strict=False)}
        return by_table, list(contents[len(tables) :])

    async def _selected(
        self, table: str, columns: Sequence[str], condition: sql.Composable, alias: str = ""
    ) -> list[dict[str, Any]]:
        """Return the given columns of the Publisher's rows that fulfil a condition, in which the table may have an
        alias.
        """
        named = sql.SQL("as {}").format(sql.Identifier(alias)) if alias else sql.SQL("")
        query = sql.SQL("select {} from {} {} where {} order by {}").format(
            _texts(columns),
            sql.Identifier("public", table),
            named,
            condition,
            # by the column, not by its text in the select list: 2 comes before 10
            f.identifiers(self._scenario.tables[table].key_columns, alias or table),
        )
        rows = await self._topology.execute(self._topology.publisher, query.as_string(None))
        return [dict(zip(columns, row, strict=True)) for row in rows]

    async def query(self, node: str, text: str) -> list[dict[str, Any]]:
        """Return the rows of a query, run in a read-only transaction.

        Raises:
            TransactionError: the node refuses the query.
        """
        connection = await self._topology.admin(node)
        try:
            async with connection.transaction():
                await connection.execute("set transaction read only")
                cursor = await connection.execute(text.encode())
                names = [column.name for column in cursor.description or ()]
                rows = await cursor.fetchall() if cursor.description else []
        except psycopg.Error as error:
            raise _refused(error, node) from error
        return [
            {
                name: None if value is None else str(plain(value))
                for name, value in zip(names, row, strict=True)
            }
            for row in rows
        ]

    async def read(self, node: str, text: str) -> None:
        """Prepare a statement at a node as the application and discard it; ``:name`` is a parameter.

        Raises:
            TransactionError: the node refuses the statement.
        """
        numbered = sqltext.numbered(text, sqltext.parameters(text))
        async with await psycopg.AsyncConnection.connect(
            self._topology.node(node).app_dsn,
            autocommit=True,
            options="-c default_transaction_read_only=on",
        ) as connection:
            try:
                await connection.execute(f"prepare reading as {numbered}".encode())
            except psycopg.Error as error:
                raise _refused(error, node) from error

    async def outage(self, node: str, *, on: bool) -> None:
        """See `twopc.sim.scenario.outages`."""
        self._observer.is_disturbed = True
        await (cut if on else restore)(self._topology, node)


def _texts(columns: Iterable[str]) -> sql.Composed:
    return sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(each)) for each in columns)


def _refused(error: psycopg.Error, node: str) -> TransactionError:
    message = error.diag.message_primary or str(error)
    return from_sqlstate(error.sqlstate or "08006", message, node=node)
