"""The log reader on servers: engine, host, and history in the distribution database."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg

from twopc.drivers.points import Points
from twopc.errors import TwopcError
from twopc.log import get_logger
from twopc.publisher.log_reader.engine import LogReaderEngine
from twopc.publisher.log_reader.ports import LogReaderProfile
from twopc.publisher.log_reader.session import connect
from twopc.publisher.log_reader.store import ServerStore
from twopc.publisher.log_reader.wal import ServerWal

_log = get_logger(__name__)

_RECORD = """
with there as (
    update msrepl.mspublisher_databases d
    set last_error = coalesce(%(message)s, d.last_error)
    where d.publisher = %(publisher)s
    returning d.id, d.read_to
)
insert into msrepl.msdistribution_history
    (publisher_database_id, event, xact_seqno, error, message)
select id, %(event)s, read_to, %(error)s, %(message)s from there
"""


class LogReader(LogReaderEngine):
    """Reads the log of one Publisher's database on a server; see `LogReaderEngine`.

    Args:
        publisher: node name under which the distribution database knows the Publisher.
        publisher_dsn: to the Publisher's database, as a role that may read the log.
        distribution_dsn: to the distribution database, as a role that may store.
        slot: the replication slot.
        points: protocol points, at which tests place faults.
    """

    def __init__(
        self,
        *,
        publisher: str,
        publisher_dsn: str,
        distribution_dsn: str,
        slot: str,
        reading: LogReaderProfile | None = None,
        points: Points | None = None,
    ) -> None:
        reading, points = reading or LogReaderProfile(), points or Points()
        self.host = AsyncioHost(publisher, publisher_dsn, distribution_dsn, slot, reading, points)
        super().__init__(self.host, publisher=publisher, reading=reading, points=points)

    @property
    def sessions(self) -> frozenset[int]:
        """Process IDs of the backends at the Publisher, including those of closed sessions that have not ended."""
        return frozenset(self.host.wal.sessions if self.host.wal is not None else ())

    async def run(self, stop: asyncio.Event) -> None:
        """Read until `stop`; see `LogReaderEngine.attend`."""
        await self.close()  # sessions opened from now on observe `stopped`
        stopping = self.host.stopped = asyncio.ensure_future(stop.wait())
        try:
            await self.attend()
        finally:
            stopping.cancel()
            self.host.stopped = None


class AsyncioHost:
    """A process under asyncio, and its servers. See `HostPort`."""

    def __init__(
        self, publisher: str, publisher_dsn: str, distribution_dsn: str, slot: str, reading: LogReaderProfile,
        points: Points,
    ) -> None:  # fmt: skip
        self.publisher_dsn = publisher_dsn
        self.distribution_dsn = distribution_dsn
        self.slot = slot
        self.stopped: asyncio.Future[Any] | None = None
        """Done when the log reader is told to stop; None during a single pass."""
        self.wal: ServerWal | None = None
        """WAL opened last."""
        self._publisher = publisher
        self._name = f"msrepl logreader {publisher}"
        self._reading = reading
        self._points = points

    @property
    def stopping(self) -> bool:
        """See `HostPort.stopping`."""
        return self.stopped is not None and self.stopped.done()

    def time(self) -> float:
        """Return the event loop's time."""
        return asyncio.get_running_loop().time()

    async def delay(self, seconds: float) -> None:
        """See `HostPort.delay`."""
        assert self.stopped is not None
        await asyncio.wait((self.stopped,), timeout=seconds)

    async def open_wal(self) -> ServerWal:
        """See `HostPort.open_wal`."""
        self.wal = await ServerWal.open(
            self.publisher_dsn, self._name, self._publisher, self.slot, self._reading, self.stopped
        )
        return self.wal

    async def open_store(self) -> ServerStore:
        """See `HostPort.open_store`."""
        return await ServerStore.open(
            self.distribution_dsn, self._name, self._publisher, self._points
        )

    async def record(self, event: str, error: BaseException | None = None) -> None:
        """Add a row to the history, on a separate connection: after an error there may be no other.

        If this fails too, the failure is only logged: the error itself matters more. The error stays visible
        until transactions are stored.
        """
        state = error.sqlstate if isinstance(error, psycopg.Error) else None
        try:
            async with await connect(self.distribution_dsn, self._name) as connection:
                await connection.execute(
                    _RECORD,
                    {
                        "publisher": self._publisher,
                        "event": event,
                        "error": state,
                        "message": None if error is None else str(error),
                    },
                )
        except (psycopg.Error, TwopcError, OSError) as failure:
            _log.warning(
                "not recorded", publisher=self._publisher, event_kind=event, reason=str(failure)
            )
