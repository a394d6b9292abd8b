"""A session of any client at a Subscriber on a real server: without a library of ours; its own COMMIT is the
decision.
"""

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
#: How long COMMIT and ROLLBACK wait until the Publisher's branch is finished.
_FINISHED_S = 30.0


class AnyClientSession(PublisherSession):
    """An ordinary connection, with plain statements, COMMIT and ROLLBACK.

    COMMIT and ROLLBACK return once the resolver has also ended the transaction at the Publisher, so that the next
    step of an order finds a definite state; at most after 30 s.
    """

    _settles = "the resolver finishes what was decided"

    async def begin(self, level: str, role: str = "") -> None:
        self.gid = ""
        await super().begin(level, role)

    async def commit(self) -> None:
        connection = self._connection
        if connection and connection.info.transaction_status == pq.TransactionStatus.INTRANS:
            # the gid is assigned at the first change; queued changes get theirs during COMMIT
            try:
                cursor = await connection.execute(_GID.encode())
                row = await cursor.fetchone()
            except psycopg.Error as error:
                self._open = False
                # reported as at COMMIT, where a client without this query would see it
                if connection.closed:
                    raise self._in_doubt(error) from error
                raise self._error(error) from error
            self.gid = row[0] or "" if row else ""
        await super().commit()
        self._committed = False  # set once the resolver has ended the other branch
        if self.gid:
            branch = branch_gid(self.gid, self._topology.publisher)
            await self._wait_until_gone(_BRANCH.format(sql.Literal(branch)))
        self._committed = True

    async def rollback(self) -> None:
        await super().rollback()
        if self.pid:
            await self._wait_until_gone(_LINK.format(sql.Literal(link_name(self.node, self.pid))))

    async def _wait_until_gone(self, query: sql.Composed) -> None:
        """Wait until the Publisher has neither the branch nor the link of this transaction."""
        text = query.as_string(None)
        loop = asyncio.get_running_loop()
        until = loop.time() + _FINISHED_S
        # a fault has made the Publisher unreachable, which a later step detects
        with suppress(psycopg.Error):
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
