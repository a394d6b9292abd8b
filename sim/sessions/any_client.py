"""Any client's session at a Subscriber on a real server: no library of ours, and its own COMMIT decides."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import psycopg
from psycopg import pq, sql

from twopc.drivers.lean import report_of
from twopc.errors import conflict_facts
from twopc.names import branch_gid
from twopc.sim.sessions.servers import PublisherSession
from twopc.waits import link_name

_GID = "select current_setting('msrepl.gid', true)"
_BRANCH = sql.SQL("select 1 from pg_prepared_xacts where gid = {}")
_LINK = sql.SQL(
    "select 1 from pg_stat_activity where application_name = {} and state like 'idle in transaction%'"
)
#: For how long its end waits for the Publisher's branch.
_FINISHED_S = 30.0


class AnyClientSession(PublisherSession):
    """An ordinary connection; statements, COMMIT and ROLLBACK as they are.

    Its end returns when the resolver has ended at the Publisher, too, what it has there, so that what comes next
    in an order finds it so; at most after 30 s.
    """

    _settles = "the resolver finishes what was decided"

    async def begin(self, level: str, role: str = "") -> None:
        self.gid = ""
        await super().begin(level, role)

    async def commit(self) -> None:
        connection = self._connection
        if connection and connection.info.transaction_status == pq.TransactionStatus.INTRANS:
            # which it was given at its first change, and what is queued is given at its COMMIT
            try:
                cursor = await connection.execute(_GID.encode())
                row = await cursor.fetchone()
            except psycopg.Error as error:
                self._open = False
                if connection.closed:  # who does not ask for the name meets that at the COMMIT
                    raise self._in_doubt(error) from error
                raise self._error(error) from error
            self.gid = row[0] or "" if row else ""
        await super().commit()
        self._committed = False  # not before the resolver has ended the other branch
        if self.gid:
            branch = branch_gid(self.gid, self._topology.publisher)
            await self._gone(_BRANCH.format(sql.Literal(branch)))
        self._committed = True

    async def rollback(self) -> None:
        await super().rollback()
        if self.pid:
            await self._gone(_LINK.format(sql.Literal(link_name(self.node, self.pid))))

    async def _gone(self, query: sql.Composed) -> None:
        """Wait until the Publisher has nothing of it any more."""
        text = query.as_string(None)
        loop = asyncio.get_running_loop()
        until = loop.time() + _FINISHED_S
        with suppress(psycopg.Error):  # a fault has taken it away: who looks later finds out
            while loop.time() < until and await self._topology.execute(
                self._topology.publisher, text
            ):
                pass

    def _error(self, error: psycopg.Error) -> Exception:
        over = (
            report_of(error).remote or conflict_facts(error.diag.message_detail or "") is not None
        )
        return self._refusal(
            error, node=self._topology.publisher if over else self.node, gid=self.gid
        )
