"""The log reader in virtual time: the product's engine above a node's log and the model's distribution database.

Written here is what servers do: the slot, a session that shows the log, and one that stores. It must not know
Subscribers, nor in which order anything is done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import psycopg

from twopc.drivers.points import Points
from twopc.drivers.virtual import AwaitableSteps, steps, wait
from twopc.errors import TwopcError
from twopc.publisher.commands import Belonging, CommandBuilder
from twopc.publisher.log_reader import LogReaderEngine, LogReaderProfile
from twopc.publisher.log_reader.planner import StoredBatch
from twopc.publisher.log_reader.ports import ReaderArticles
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
#: So many transactions of the log are read at a time.
READ_MAX = 1000


class ModelSlot:
    """The replication slot: from where the log is kept.

    What it was moved to is on the disk a while later: a crash of the server takes it back.
    """

    def __init__(self, node: ModelNode, position: int) -> None:
        self._node = node
        self._confirmed = self._saved = position
        self._started = node.started

    @property
    def position(self) -> int:
        """Where reading goes on."""
        if self._node.started != self._started:
            self._started, self._confirmed = self._node.started, self._saved
        return self._confirmed

    def advance(self, lsn: int) -> None:
        """What comes before is not needed any more."""
        if lsn > self.position:
            self._saved, self._confirmed = self._confirmed, lsn
            self._node.trim(self._saved)


class ModelLogReader(Process):
    """One Publisher's log reader, and where it runs (`HostPort`); after a crash another one is made.

    Args:
        engine: the class of its engine.
        poll_s: how often it looks while it runs by itself.
    """

    stopping = False
    block_messages = BLOCK_MESSAGES
    """So many are taken at a time."""

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
        """For what it has stopped by itself."""
        self.history: list[tuple[str, str]] = []
        """Events, and what was the matter."""

    def run_once(self) -> Steps[int]:
        """Store everything that is committed now; how many transactions. TwopcError, psycopg.Error"""
        return (yield from steps(self.engine.run_once())).transactions

    def run(self) -> Steps[None]:
        """Store whatever comes, as long as the process lives and nothing stops it."""
        try:
            yield from steps(self.engine.attend())
        except (TwopcError, psycopg.Error) as error:
            self.failed = error

    # -- HostPort --------------------------------------------------------------------------------------

    def time(self) -> float:
        """The kernel's."""
        return self.kernel.now

    async def delay(self, seconds: float) -> None:
        """Nobody tells it to stop."""
        await AwaitableSteps(wait(self.sleep(seconds, "news in the log")))

    async def open_wal(self) -> ModelWal:
        """See `HostPort`."""
        return ModelWal(self, await self._open(self._node), self._node, self._slot, self._registry)

    async def open_store(self) -> ModelStore:
        """See `HostPort`."""
        connection = await self._open(self._store.node)
        read_to = await connection.asked(lambda _: at_once(self._store.read_to), "read the mark")
        return ModelStore(self, connection, self._store, self._registry, read_to)

    async def record(self, event: str, error: BaseException | None = None) -> None:
        """See `HostPort`."""
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
        """See `WalPort`."""
        return await self._connection.asked(self._end, "end of the log"), self._slot.position

    def _end(self, _: NodeSession) -> Steps[int]:
        end = self._node.wal.end
        yield from self._node.wal.force(end)
        return end

    async def log_snapshot(self) -> None:
        """What is open in the log does not keep the slot back here."""

    async def belongings(self, _: CommandBuilder, changes: Sequence[RowMessage]) -> list[Belonging]:
        """See `WalPort`."""
        return self._messages.belongings(changes)

    async def forget_calls(self) -> None:
        """Marks stay."""

    async def live(self) -> ModelLiveSource:
        """See `WalPort`."""
        return await self.peek(0)

    async def peek(self, upto: int) -> ModelLiveSource:
        """See `WalPort`."""
        self._messages = Messages(self._node, self._registry)
        return ModelLiveSource(
            self._process, self._connection, self._node, self._slot, self._messages, upto
        )

    async def close(self) -> None:
        """See `WalPort`."""
        self._connection.close()


class ModelLiveSource:
    """A session that shows what a node has committed. See `LivePort`.

    Args:
        upto: what was committed before is peeked at: each look begins at the slot.
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
        """And not taken."""
        self._is_end = False
        """The log had no more when it was read last."""
        self._durable = 0
        self.count = self.position = self.confirmed = 0
        self.drained = False

    @property
    def movable(self) -> bool:
        """At any time, or between two looks."""
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
        yield  # it is a generator

    async def confirm(self, lsn: int) -> None:
        """See `LogSourcePort`."""
        self._slot.advance(lsn)
        self.confirmed = lsn

    async def ask(self) -> None:
        """`take` tells."""

    async def wait(self) -> None:
        """It looks now and then."""
        await self._process.delay(self._process.poll_s)

    def leave(self, *, settled: bool) -> None:
        """Nothing is kept of what was not taken."""

    def resume(self) -> None:
        """It is as it was left."""

    async def close(self) -> None:
        """The connection is that of the log."""


class ModelStore:
    """The distribution database. See `StorePort`."""

    publisher = 1

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
        """See `StorePort`."""
        return bool(self._parts)

    async def registry(self) -> ReaderArticles:
        """See `StorePort`."""
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
        """See `StorePort`."""
        work = partial(self._write, [], upto=self.read_to, horizon=horizon)
        await self._connection.asked(partial(_and_commit, work), "look at the registry")

    async def write(self, part: StoredPart) -> None:
        """See `StorePort`; no agent begins it before `commit`."""
        self._parts += part.blocks
        await self._reach("log_reader.streamed")

    async def commit(self, batch: StoredBatch) -> None:
        """See `StorePort`."""
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

    def _write(
        self,
        transactions: Sequence[StoredTransaction],
        session: NodeSession,
        *,
        upto: int,
        horizon: int,
    ) -> Steps[None]:
        """Store some, in an open transaction. 55006: somebody else has; 40001: the registry has changed."""
        stored = yield from self._store.begin(session, self.read_to)
        if self._version != self._registry.version:
            raise SqlError("40001", "articles or originators have changed")
        yield from self._store.append(session, stored, transactions, upto, horizon)

    async def _reach(self, point: str) -> None:
        if self._process.points.armed:
            await self._process.points.reach(point)

    async def close(self) -> None:
        """See `StorePort`."""
        self._connection.close()


def _and_commit(work: Callable[[NodeSession], Steps[None]], session: NodeSession) -> Steps[None]:
    yield from work(session)
    yield from session.execute("commit")
