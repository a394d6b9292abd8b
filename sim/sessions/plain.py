"""A plain session on a real server: no coordinator, local transactions, and scripts sent unchanged.

The effect of transaction control in a script is not predicted: afterwards, the connection's status shows whether a
transaction is open.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import pq

from twopc.sim.scenario.sqltext import may_commit
from twopc.sim.sessions.local import result_of
from twopc.sim.sessions.results import Result
from twopc.sim.sessions.scripts import failure, last_result, printable, send_script
from twopc.sim.sessions.servers import PublisherSession


class PlainPostgresSession(PublisherSession):
    """One connection to any node.

    Args:
        as_administrator: connect as the administrator instead of the application's role, for scenarios without
            published tables, which create their own.
    """

    def __init__(self, *place: Any, as_administrator: bool) -> None:
        super().__init__(*place)
        self._as_administrator = as_administrator

    @property
    def dsn(self) -> str:
        return self._topology.node(self.node).dsn if self._as_administrator else super().dsn

    @property
    def is_open(self) -> bool:
        if self._connection is None or self._connection.closed:
            return False
        return self._connection.info.transaction_status != pq.TransactionStatus.IDLE

    def collect(self) -> None:
        """See `twopc.sim.sessions.interface.ClientSession.collect`."""
        connection = self._connection
        if connection is None or connection.closed or connection.lock.locked():
            return
        connection.pgconn.consume_input()
        while (came := connection.pgconn.notifies()) is not None:
            self._noticed(psycopg.Notify(came.relname.decode(), came.extra.decode(), came.be_pid))

    async def send(self, query: Any, params: Any = None) -> Result:
        commits = may_commit(query, is_open=self.is_open)
        connection = await self._connect()
        try:
            return await result_of(await connection.execute(query, params))
        except psycopg.Error as error:
            raise self._failed(error, commits) from error

    async def script(self, text: str) -> Result:
        """See `twopc.sim.sessions.interface.ClientSession.script`."""
        commits = may_commit(text, is_open=self.is_open)
        connection = await self._connect()
        self.printable = []
        try:
            results = await send_script(connection, text)
            self.printable = printable(results)
            if (error := failure(connection, results)) is not None:
                raise error
        except psycopg.Error as error:
            raise self._failed(error, commits) from error
        return last_result(connection, results)

    def _failed(self, error: psycopg.Error, commits: bool) -> Exception:
        """Return the exception for a failed message that may have committed."""
        lost = self._connection is not None and self._connection.closed
        return self._in_doubt(error) if lost and commits else self._error(error)
