"""The log reader in virtual time: the product's planner between a node's log and the distribution database.

Whole transactions, in the order of their commits, each once: what is stored moves the mark in the same commit,
and the slot only afterwards. It must not know Subscribers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from twopc.drivers.points import Points
from twopc.errors import ArticleError
from twopc.publisher.commands import CommandBuilder
from twopc.publisher.log_reader.planner import Batch, Planner
from twopc.sim.model.distribution.articles import Registry
from twopc.sim.model.distribution.changes import Messages, ReadMarker, see_marker
from twopc.sim.model.distribution.processes import Connection, Process, at_once
from twopc.sim.model.distribution.store import Store, read_blocks
from twopc.sim.model.network import Network
from twopc.sim.model.node import ModelNode
from twopc.sim.model.node.session import NodeSession
from twopc.sim.model.words import Committed, LostError, SqlError, Steps

ROLE = "msrepl_logreader"
#: So many transactions of the log are taken at a time.
READ_MAX = 1000
_ATTEMPTS = 4

#: In which commits a batch is stored: each a list of ``transactions`` and ``mark``. What is left out of a commit
#: comes in a later one.
Commits = Callable[[], Sequence[Sequence[str]]]


def in_one_commit() -> Sequence[Sequence[str]]:
    """The transactions, and how far the log is read."""
    return (("transactions", "mark"),)


class Slot:
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


class LogReader(Process):
    """One Publisher's log reader; after a crash another one is made.

    Args:
        planner: the class of its planner.
        read_marker: how it sees the rows of marks.
    """

    def __init__(
        self, network: Network, node: ModelNode, store: Store, slot: Slot, registry: Registry, *,
        planner: type[Planner] = Planner, points: Points | None = None,
        read_marker: ReadMarker = see_marker, commits: Commits = in_one_commit,
    ) -> None:  # fmt: skip
        super().__init__(network, "log_reader", points or Points())
        self._node = node
        self._store = store
        self._slot = slot
        self._registry = registry
        self._make = planner
        self._read_marker = read_marker
        self._commits = commits
        self._log: Connection | None = None
        self._distribution: Connection | None = None
        self._planner: Planner | None = None
        self._messages: Messages | None = None
        self._version = -1
        self._sent = 0
        """Up to here the log was read in this session."""
        self.read_to = 0
        """Up to here everything is stored."""
        self.failed: Exception | None = None
        """For what it has stopped by itself."""

    # -- one pass ------------------------------------------------------------------------------------

    def run_once(self) -> Steps[int]:
        """Store everything that is committed now; how many transactions. LostError, SqlError"""
        for attempt in range(_ATTEMPTS):
            was_open = self._log is not None
            try:
                return (yield from self._pass())
            except (LostError, SqlError) as error:
                self.disconnect()
                # sessions of an earlier pass may have ended since, with their server for one
                passing = (
                    was_open if isinstance(error, LostError) else error.sqlstate[:2] in ("40", "57")
                )
                if attempt == _ATTEMPTS - 1 or not passing:
                    raise
        raise AssertionError("it has tried, or raised")

    def _pass(self) -> Steps[int]:
        yield from self._open()
        assert self._log is not None
        upto = yield from self._log.ask(self._end_of_log, "end of the log")
        stored = 0
        while self._sent < upto:
            if self._version != self._registry.version:
                yield from self._begin_again()
            records = yield from self._log.ask(self._read, "read the log")
            if not records:
                break
            yield from self.reach("log_reader.received")
            stored += yield from self._take(records)
        self.read_to = max(self.read_to, upto)
        return stored

    def run(self, poll_s: float) -> Steps[None]:
        """Store whatever comes, as long as the process lives and no article stops it."""
        while True:
            try:
                yield from self.run_once()
            except (LostError, SqlError):
                self.disconnect()
            except ArticleError as error:
                self.failed = error
                self.disconnect()
                return
            yield self.sleep(poll_s, "news in the log")

    def _take(self, records: Sequence[Committed]) -> Steps[int]:
        planner, messages = self._planner, self._messages
        assert planner is not None and messages is not None
        found = messages.of(records)
        belonging = messages.belonging(planner.filtered(found)) if planner.has_filters else None
        planner.feed(found, belonging)
        batch = planner.take()
        if batch.transactions:
            yield from self._keep(batch)
        self._sent = records[-1].end_lsn
        yield from self.reach("log_reader.before_advance")
        self._slot.advance(self._sent)
        yield from self.reach("log_reader.after_advance")
        return batch.transactions

    def _keep(self, batch: Batch) -> Steps[None]:
        """Store a batch; 40001: what it was made by, or the mark, is not as it was."""
        there = self._distribution
        assert there is not None
        store, transactions = self._store, read_blocks(batch.blocks)
        yield from self.reach("log_reader.before_blocks")
        last = store.read_to
        for commit in self._commits():
            upto = batch.read_to if "mark" in commit else last
            new = transactions if "transactions" in commit else []

            def write(
                session: NodeSession, last: int = last, upto: int = upto, new: Any = new
            ) -> Steps[None]:
                stored = yield from store.begin(session, last)
                if self._version != self._registry.version:
                    raise SqlError("40001", "articles or originators have changed")
                yield from store.append(session, stored, new, upto, batch.horizon)

            if self.points.armed:
                yield from there.ask(write, "store")
                yield from self.reach("log_reader.before_commit")
                yield from there.run("commit")
            else:
                yield from there.ask(partial(_and_commit, write), "store")
            last = upto
        yield from self.reach("log_reader.after_commit")

    # -- what is done at the server --------------------------------------------------------------------

    def _end_of_log(self, _: NodeSession) -> Steps[int]:
        """A position behind everything that is committed, which is durable then."""
        wal = self._node.wal
        end = wal.end
        yield from wal.force(end)
        return end

    def _read(self, _: NodeSession) -> Steps[Sequence[Committed]]:
        return self._node.log(self._sent)[:READ_MAX]
        yield  # it is a generator

    # -- connections ---------------------------------------------------------------------------------

    def _open(self) -> Steps[None]:
        if self._log is not None and self._distribution is not None:
            if not (self._log.lost or self._distribution.lost):
                return
            self.disconnect()
        self._log = yield from self.connect(self._node, ROLE, "msrepl log reader")
        self._distribution = yield from self.connect(self._store.node, ROLE, "msrepl log reader")
        yield from self._begin_again()

    def _begin_again(self) -> Steps[None]:
        """Read on from the slot, with what is published and subscribed now."""
        there = self._distribution
        assert there is not None
        registry = self._registry
        self._version = registry.version
        read_to = yield from there.ask(lambda _: at_once(self._store.read_to), "read the mark")
        of_calls: dict[str, Any] = {}
        if registry.routines:
            of_calls = {
                "calls": registry.calls,
                "beside_until": registry.beside_until,
                "horizon": self._store.horizon,
            }
        self._planner = self._make(
            publisher=1,
            builder=CommandBuilder(registry.articles.values()),
            originators=registry.originators,
            read_to=read_to,
            next_xid=1,
            **of_calls,
        )
        self._messages = Messages(self._node, registry, self._read_marker)
        self._sent = self._slot.position

    def disconnect(self) -> None:
        """Harmless twice."""
        for one in (self._log, self._distribution):
            if one is not None:
                one.close()
        self._log = self._distribution = self._planner = self._messages = None


def _and_commit(write: Callable[[NodeSession], Steps[None]], session: NodeSession) -> Steps[None]:
    yield from write(session)
    yield from session.execute("commit")
