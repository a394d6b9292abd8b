"""What was read of the log, on its way into the store: rows are made of messages, and stored when it is time.

It must not know where messages come from, nor who is told how far they were stored.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from twopc.drivers.points import Points
from twopc.errors import ArticleError
from twopc.log import get_logger
from twopc.publisher.filters import RowFilters
from twopc.publisher.log_reader.planner import Planner
from twopc.publisher.log_reader.reading import Reading
from twopc.publisher.log_reader.store import Store

_log = get_logger(__name__)


@dataclass(slots=True)
class Progress:
    """How far a log reader is, whatever it has learned anew meanwhile."""

    position: int = 0
    """Everything before it is stored."""
    transactions: int = 0
    """Stored since the pass began."""
    commands: int = 0


class Intake:
    """Takes in messages with the articles as they were learned last.

    Args:
        planner: what becomes of a message.
        filters: which rows belong to an article.
        store: of the distribution database.
        progress: is kept up to date.
        publisher: whose log it is; for messages.
    """

    def __init__(
        self,
        planner: Planner,
        filters: RowFilters,
        store: Store,
        progress: Progress,
        *,
        publisher: str,
        reading: Reading,
        points: Points,
    ) -> None:
        self.planner = planner
        self._publisher = publisher
        self._filters = filters
        self._store = store
        self._progress = progress
        self._reading = reading
        self._points = points

    @property
    def is_settled(self) -> bool:
        """Nothing is kept that is not stored."""
        planner = self.planner
        kept = planner.open or planner.transactions or planner.passed_over
        return not (kept or self._store.streaming)

    def pass_over(self, upto: int) -> None:
        """Store nothing that was committed up to a position; the distribution database has it as its mark."""
        self._store.read_to = self.planner.read_to = max(self.planner.read_to, upto)

    async def take(self, block: list[bytes]) -> None:
        """Make rows of a block of messages, and store what is too much to keep.

        Raises:
            ArticleError: an article does not fit what the log holds; what was committed before is stored.
            psycopg.Error: of the store.
        """
        planner, reading = self.planner, self._reading
        # while there is always more, nothing else would give way to other tasks
        await asyncio.sleep(0)
        await self._reach("log_reader.received")
        try:
            if planner.has_filters:
                messages = list(planner.decoded(block))
                changes = planner.filtered(messages)
                belonging = await self._filters.belongings(changes)
                keys = [id(change) for change in changes]
                planner.feed(messages, dict(zip(keys, belonging, strict=True)))
            else:
                planner.feed(planner.decoded(block))
        except ArticleError:
            if planner.transactions:
                # what was committed before goes to the Subscribers all the same
                await self.store()
            raise
        full = planner.size >= reading.store_bytes
        if planner.transactions and (
            full or self._store.streaming or planner.transactions >= reading.read_batch_size
        ):
            await self.store()
            full = planner.size >= reading.store_bytes
        if full:
            await self._store.write(planner.take_part())

    async def store(self) -> None:
        """Store every complete transaction.

        Raises:
            psycopg.Error: of the store.
        """
        planner, progress = self.planner, self._progress
        if planner.transactions:
            batch = planner.take()
            if batch.unknown:
                _log.warning(
                    "transactions are marked by somebody who is not registered",
                    publisher=self._publisher,
                    roles=sorted(batch.unknown),
                )
            await self._store.commit(batch)
            progress.transactions += batch.transactions
            progress.commands += batch.commands
            await self._reach("log_reader.after_commit")
        elif planner.passed_over:
            await self._store.check(planner.horizon if planner.has_calls else 0)
            planner.passed_over = False
        progress.position = max(progress.position, planner.end_lsn)

    async def _reach(self, point: str) -> None:
        if self._points.armed:
            await self._points.reach(point)
