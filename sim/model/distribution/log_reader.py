"""The log reader in virtual time: the product's engine on a node's log and the model's distribution database.

This module implements the servers' side: the slot, a session that streams the log, and one that stores. Independent
of Subscribers and of the order of actions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import psycopg

from twopc.drivers.points import Points
from twopc.drivers.virtual import awaited, steps
from twopc.errors import TwopcError
from twopc.publisher.commands import Belonging, CommandBuilder
from twopc.publisher.log_reader import LogReaderEngine, LogReaderProfile
from twopc.publisher.log_reader.planner import ReaderArticles, StoredBatch
from twopc.publisher.log_reader.rows import StoredPart
from twopc.publisher.log_reader.sources import BLOCK_MESSAGES
from twopc.publisher.pgoutput import RowMessage
from twopc.sim.model.distribution.articles import Registry
from twopc.sim.model.distribution.changes import Messages
from twopc.sim.model.distribution.processes import Connection, Process, at_once
from twopc.sim.model.distribution.store import PublisherStore, StoredTransaction, read_blocks
from twopc.sim.model.network import Network
from twopc.sim.model.node.node import ModelNode
from twopc.sim.model.node.session import NodeSession
from twopc.sim.model.values import CommittedTransaction, SqlError, Steps

ROLE = "msrepl_logreader"
#: Number of transactions that are read from the log at a time.
READ_MAX = 1000


class ModelSlot:
    """The replication slot: the position from which the log is kept.

    A new position reaches the disk later: a crash of the server restores the previous one.
    """

    def __init__(self, node: ModelNode, position: int) -> None:
        self._node = node
        self._confirmed = self._saved = position
        self._started = node.started

    @property
    def position(self) -> int:
        """Position from which reading continues."""
        if self._node.started != self._started:
            self._started, self._confirmed = self._node.started, self._saved
        return self._confirmed

    def advance(self, lsn: int) -> None:
        """Confirm a position, so that the log before it can be removed."""
        if lsn > self.position:
            self._saved, self._confirmed = self._confirmed, lsn
            self._node.wal.trim(self._saved)


class ModelLogReader(Process):
    """One Publisher's log reader, and its `HostPort`; after a crash a new process is made.

    Args:
        engine: the class of its engine.
        poll_s: polling interval of a running log reader.
    """

    stopping = False
    block_messages = BLOCK_MESSAGES
    """Number of messages that are taken at a time."""

    def __init__(
        self, network: Network, node: ModelNode, store: PublisherStore, slot: ModelSlot, registry: Registry, *,
        engine: type[LogReaderEngine] = LogReaderEngine, points: Points | None = None, poll_s: float = 0.0,
        reading: LogReaderProfile | None = None,
    ) -> None:  # fmt: skip
        super().__init__(network, "log_reader", points or Points())
        self._node = node
        self._store = store
        self._slot = slot
        self._registry = registry
        self.poll_s = poll_s
        reading = replace(reading or LogReaderProfile(), retry_s_min=poll_s, retry_s_max=poll_s)
        self.engine = engine(self, publisher=node.name, reading=reading, points=self.points)
        self.failed: Exception | None = None
        """Error with which the log reader stopped by itself."""
        self.history: list[tuple[str, str]] = []
        """Events, each with its error text."""

    def run_once(self) -> Steps[int]:
        """Store all transactions committed by now, and return their number. TwopcError, psycopg.Error"""
        return (yield from steps(self.engine.run_once())).transactions

    def run(self) -> Steps[None]:
        """Store transactions continuously, until the process is killed or an error occurs."""
        try:
            yield from steps(self.engine.attend())
        except (TwopcError, psycopg.Error) as error:
            self.failed = error

    # -- HostPort --------------------------------------------------------------------------------------

    def time(self) -> float:
        """Return the kernel's virtual time."""
        return self.kernel.now

    async def delay(self, seconds: float) -> None:
        """Wait; no stop signal interrupts the wait."""
        await awaited(self.sleep(seconds, "news in the log"))

    async def open_wal(self) -> ModelWal:
        return ModelWal(self, await self._open(self._node), self._node, self._slot, self._registry)

    async def open_store(self) -> ModelStore:
        connection = await self._open(self._store.node)
        read_to = await connection.asked(lambda _: at_once(self._store.read_to), "read the mark")
        return ModelStore(self, connection, self._store, self._registry, read_to)

    async def record(self, event: str, error: BaseException | None = None) -> None:
        self.history.append((event, str(error or "")))

    async def _open(self, node: ModelNode) -> Connection:
        return await self.connected(node, ROLE, "msrepl log reader")


class ModelWal:
    """A node's log. See `WalPort`."""

    next_xid = 1

    def __init__(
        self, process: ModelLogReader, connection: Connection, node: ModelNode, slot: ModelSlot, registry: Registry
    ) -> None:  # fmt: skip
        self._process = process
        self._connection = connection
        self._node = node
        self._slot = slot
        self._registry = registry
        self._messages = Messages(node, registry)

    async def look(self) -> tuple[int, int]:
        return await self._connection.asked(self._end, "end of the log"), self._slot.position

    def _end(self, _: NodeSession) -> Steps[int]:
        end = self._node.wal.end
        yield from self._node.wal.force(end)
        return end

    async def log_snapshot(self) -> None:
        """Do nothing: open transactions do not hold back the slot here."""

    async def belongings(self, _: CommandBuilder, changes: Sequence[RowMessage]) -> list[Belonging]:
        return self._messages.belongings(changes)

    async def forget_calls(self) -> None:
        """Do nothing: call markers are kept."""

    async def live(self) -> ModelLiveSource:
        return await self.peek(0)

    async def peek(self, upto: int) -> ModelLiveSource:
        self._messages = Messages(self._node, self._registry)
        return ModelLiveSource(
            self._process, self._connection, self._node, self._slot, self._messages, upto
        )

    async def close(self) -> None:
        self._connection.close()


class ModelLiveSource:
    """A session that streams a node's commits. See `LivePort`.

    Args:
        upto: if not 0, the session peeks at commits up to this position: each read begins at the slot.
    """

    ended = False

    def __init__(
        self, process: ModelLogReader, connection: Connection, node: ModelNode, slot: ModelSlot,
        messages: Messages, upto: int = 0,
    ) -> None:  # fmt: skip
        self._process = process
        self._connection = connection
        self._node = node
        self._slot = slot
        self._messages = messages
        self._upto = upto
        self._shown = slot.position
        self._arrived: list[bytes] = []
        """Messages that have been read and not taken."""
        self._is_end = False
        """Whether the last read reached the end of the log."""
        self._durable = 0
        self.count = self.position = self.confirmed = 0
        self.drained = self.pressed = False

    @property
    def movable(self) -> bool:
        """Whether the slot may be moved: at any time, or only between two reads when peeking."""
        return not (self._upto and self._arrived)

    async def take(self) -> list[bytes]:
        """See `LogSourcePort`."""
        if not self._arrived:
            records, self._durable = await self._connection.asked(self._read, "read the log")
            self._is_end = len(records) < READ_MAX
            if records:
                self._shown = records[-1].end_lsn
            self._arrived = self._messages.of(records)
        most = self._process.block_messages
        block, self._arrived = self._arrived[:most], self._arrived[most:]
        self.count += len(block)
        self.drained = not self._arrived and (self._is_end or bool(self._upto))
        if self.drained and self._is_end:
            self.position = self._upto or self._durable
        return block

    def _read(self, _: NodeSession) -> Steps[tuple[Sequence[CommittedTransaction], int]]:
        first = self._slot.position if self._upto else self._shown
        records = [
            each for each in self._node.log(first) if not self._upto or each.end_lsn <= self._upto
        ]
        return records[:READ_MAX], self._node.wal.durable
        yield  # makes this function a generator

    async def confirm(self, lsn: int, slot: int) -> None:
        """See `LogSourcePort`."""
        self._slot.advance(slot)
        self.confirmed = lsn

    async def ask(self) -> None:
        """Do nothing: `take` reads the log."""

    async def wait(self) -> None:
        """Wait for the polling interval."""
        await self._process.delay(self._process.poll_s)

    def leave(self, *, settled: bool) -> None:
        """Do nothing: messages that were not taken are not kept."""

    def resume(self) -> None:
        """Do nothing: the state is unchanged."""

    async def close(self) -> None:
        """Do nothing: the connection belongs to the `ModelWal`."""


class ModelStore:
    """The distribution database. See `StorePort`."""

    publisher = 1
    last_seqno = last_commit_us = 0
    slot_limit = 1 << 63
    """There is no limit: no node of the model that has a slot or the store is restored from a backup."""

    def __init__(
        self, process: ModelLogReader, connection: Connection, store: PublisherStore, registry: Registry, read_to: int
    ) -> None:  # fmt: skip
        self._process = process
        self._connection = connection
        self._store = store
        self._registry = registry
        self._version = -1
        self._parts: list[bytes] = []
        self.read_to = read_to

    @property
    def streaming(self) -> bool:
        return bool(self._parts)

    async def registry(self) -> ReaderArticles:
        registry = self._registry
        self._version = registry.version
        return ReaderArticles(
            builder=CommandBuilder(registry.articles.values()),
            originators=dict(registry.originators),
            calls=registry.calls,
            beside_until=registry.beside_until,
            horizon=self._store.horizon,
        )

    async def check(self, horizon: int) -> None:
        work = partial(self._write, [], upto=self.read_to, horizon=horizon)
        await self._connection.asked(partial(_and_commit, work), "look at the registry")

    async def write(self, part: StoredPart) -> None:
        """See `StorePort`; agents cannot see the part before `commit`."""
        self._parts += part.blocks
        await self._reach("log_reader.streamed")

    async def commit(self, batch: StoredBatch) -> None:
        blocks, self._parts = [*self._parts, *batch.blocks], []
        transactions = read_blocks(blocks, dict(batch.remarked))
        work = partial(self._write, transactions, upto=batch.read_to, horizon=batch.horizon)
        connection = self._connection
        await self._reach("log_reader.before_blocks")
        if self._process.points.armed:
            await connection.asked(work, "store")
            await self._reach("log_reader.before_commit")
            await connection.asked(lambda session: session.execute("commit"), "commit")
        else:
            await connection.asked(partial(_and_commit, work), "store")
        self.read_to = batch.read_to

    async def raise_slot_limit(self, lsn: int) -> None:
        """Do nothing: the slot has no limit."""

    def _write(
        self,
        transactions: Sequence[StoredTransaction],
        session: NodeSession,
        *,
        upto: int,
        horizon: int,
    ) -> Steps[None]:
        """Store transactions in an open transaction.

        Raises:
            SqlError: 55006 if another log reader has stored some, 40001 if the registry has changed.
        """
        stored = yield from self._store.begin(session, self.read_to)
        if self._version != self._registry.version:
            raise SqlError("40001", "articles or originators have changed")
        yield from self._store.append(session, stored, transactions, upto, horizon)

    async def _reach(self, point: str) -> None:
        if self._process.points.armed:
            await self._process.points.reach(point)

    async def close(self) -> None:
        self._connection.close()


def _and_commit(work: Callable[[NodeSession], Steps[None]], session: NodeSession) -> Steps[None]:
    yield from work(session)
    yield from session.execute("commit")
