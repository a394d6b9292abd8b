"""The log reader on servers: its sessions, and its history in the distribution database."""

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
    """Reads the log of one Publisher's database on a server, as a process under asyncio; its own `HostPort`.

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
        super().__init__(self, publisher=publisher, reading=reading, points=points)
        self.publisher_dsn = publisher_dsn
        self.distribution_dsn = distribution_dsn
        self.slot = slot
        self._name = f"msrepl logreader {publisher}"
        self._stopped: asyncio.Future[Any] | None = None
        """Done when the log reader is told to stop; None during a single pass."""
        self._last_wal: ServerWal | None = None

    @property
    def sessions(self) -> frozenset[int]:
        """Process IDs of the backends at the Publisher, including those of closed sessions that have not ended."""
        return frozenset(self._last_wal.sessions if self._last_wal is not None else ())

    async def run(self, stop: asyncio.Event) -> None:
        """Read until `stop`; see `LogReaderEngine.attend`."""
        await self.close()  # sessions opened from now on observe `_stopped`
        stopping = self._stopped = asyncio.ensure_future(stop.wait())
        try:
            await self.attend()
        finally:
            stopping.cancel()
            self._stopped = None

    # -- HostPort -----------------------------------------------------------------------------------

    @property
    def stopping(self) -> bool:
        """See `HostPort.stopping`."""
        return self._stopped is not None and self._stopped.done()

    def time(self) -> float:
        """Return the event loop's time."""
        return asyncio.get_running_loop().time()

    async def delay(self, seconds: float) -> None:
        """See `HostPort.delay`."""
        assert self._stopped is not None
        await asyncio.wait((self._stopped,), timeout=seconds)

    async def open_wal(self) -> ServerWal:
        """See `HostPort.open_wal`."""
        wal = self._last_wal = await ServerWal.open(
            self.publisher_dsn, self._name, self.publisher, self.slot, self.reading, self._stopped
        )
        return wal

    async def open_store(self) -> ServerStore:
        """See `HostPort.open_store`."""
        return await ServerStore.open(
            self.distribution_dsn, self._name, self.publisher, self.points
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
                        "publisher": self.publisher,
                        "event": event,
                        "error": state,
                        "message": None if error is None else str(error),
                    },
                )
        except (psycopg.Error, TwopcError, OSError) as failure:
            _log.warning(
                "not recorded", publisher=self.publisher, event_kind=event, reason=str(failure)
            )
