"""A plain session on a real server: no coordinator, local transactions, and scripts as they stand.

What the server makes of transaction control in a script is the server's business: afterwards it is asked
whether a transaction is open.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import pq

from sim.scenario.postgres_sessions import PublisherSession, result_of
from sim.scenario.stage import Result


class PlainSession(PublisherSession):
    """One connection to one node, whichever it is.

    Args:
        as_administrator: not as the application's role, for scenarios whose tables nobody publishes: they
            make their own.
    """

    def __init__(self, *place: Any, as_administrator: bool) -> None:
        super().__init__(*place)
        self._as_administrator = as_administrator

    @property
    def dsn(self) -> str:
        node = self._topology.nodes[self.node]
        return node.dsn if self._as_administrator else node.app_dsn

    @property
    def is_open(self) -> bool:
        if self._connection is None or self._connection.closed:
            return False
        return self._connection.info.transaction_status != pq.TransactionStatus.IDLE

    @property
    def notices(self) -> int:
        connection = self._connection
        if connection is not None and not connection.closed and not connection.lock.locked():
            connection.pgconn.consume_input()  # what has come while nothing ran
            while connection.pgconn.notifies() is not None:
                self._count += 1
        return self._count

    async def script(self, text: str) -> Result:
        """See `sim.scenario.stage.StageSession.script`."""
        connection = await self._connect()
        try:
            cursor = await connection.execute(text.encode())
            while cursor.nextset():
                pass
        except psycopg.Error as error:
            raise self._error(error) from error
        return await result_of(cursor)
