"""The distribution database: transactions with their commands, in the order of the Publisher's log.

Transactions are kept as values. Their visibility depends on a row of the node (``msrepl.mspublisher_databases``:
the number of stored transactions, and the position up to which the log was read), so that they are visible only
after a commit.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from struct import unpack_from
from types import MappingProxyType
from typing import Any, NamedTuple

from twopc.sim.model.node.node import ModelNode
from twopc.sim.model.node.session import NodeSession
from twopc.sim.model.values import SqlError, Steps
from twopc.subscriber.distribution_agent.loads import DecodedCommand
from twopc.subscriber.distribution_agent.planner import Window

#: One row, which the log reader updates in each commit.
_TABLE = """
create table msrepl.mspublisher_databases (id int primary key, publisher text not null,
    read_to bigint not null, stored bigint not null)
"""
TABLE = "msrepl.mspublisher_databases"
_ARRAYS = 13
_MOVE = "update msrepl.mspublisher_databases set read_to = :upto, stored = :stored where id = 1"
#: The table if calls are stored: the row also has the upper bound of the writers' transaction ids.
_TABLE_OF_CALLS = _TABLE.replace(
    "stored bigint not null", "stored bigint not null, horizon bigint not null"
)
_MOVE_OF_CALLS = _MOVE.replace("stored = :stored", "stored = :stored, horizon = :horizon")
_LOCK = "select read_to, stored from msrepl.mspublisher_databases where id = 1 for update"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTransaction:
    """A stored transaction."""

    seqno: int
    xid: int
    time_us: int
    originator: int
    marks: int
    commands: tuple[DecodedCommand, ...]
    hashkeys: tuple[int, ...]
    """Hash keys of the commands."""

    @property
    def bytes(self) -> int:
        """Length of the commands' texts."""
        return sum(len(each.command) for each in self.commands)


class CopyBlock(NamedTuple):
    """A decoded row of COPY data: see `twopc.publisher.log_reader.rows`."""

    transactions: list[tuple[int, int, int, int, int]]
    """Commit LSN, transaction id, time, originator, marks."""
    commands: list[tuple[int, int, int, int, int, str]]
    """Commit LSN, number, code, originator, hash key, text."""


def read_block(data: bytes) -> CopyBlock:
    """Decode a row that `twopc.publisher.log_reader.rows` has written."""
    at = 2
    for _ in range(7):  # scalar columns, whose values follow from the arrays
        (length,) = unpack_from("!i", data, at)
        at += 4 + length
    arrays: list[list[bytes]] = []
    for _ in range(_ARRAYS):
        values, at = _array(data, at)
        arrays.append(values)
    seqnos, xids, times, originators, marks = ([_int(each) for each in one] for one in arrays[:5])
    of, numbers, codes, origins, hashkeys = ([_int(each) for each in one] for one in arrays[7:12])
    texts = [each.decode() for each in arrays[12]]
    return CopyBlock(
        list(zip(seqnos, xids, times, originators, marks, strict=True)),
        list(zip(of, numbers, codes, origins, hashkeys, texts, strict=True)),
    )


def _array(data: bytes, at: int) -> tuple[list[bytes], int]:
    (length,) = unpack_from("!i", data, at)
    end = at + 4 + length
    (dimensions,) = unpack_from("!i", data, at + 4)
    values = []
    at += 24  # length, dimensions, flags, type, count, lower bound
    while dimensions and at < end:
        (size,) = unpack_from("!i", data, at)
        values.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return values, end


def _int(value: bytes) -> int:
    return int.from_bytes(value, "big", signed=True)


def read_blocks(
    blocks: Sequence[bytes], remarked: Mapping[int, int] = MappingProxyType({})
) -> list[StoredTransaction]:
    """Return the transactions in rows of COPY data that contain all their parts.

    Args:
        remarked: originators of transactions whose parts may carry another one.
    """
    parts = [read_block(each) for each in blocks]
    commands: dict[int, list[tuple[DecodedCommand, int]]] = {}
    xids = {seqno: xid for part in parts for seqno, xid, *_ in part.transactions}
    for part in parts:
        for seqno, number, code, originator, hashkey, text in part.commands:
            article_id, kind = divmod(code, 100)
            made = DecodedCommand(
                seqno=seqno, xid=xids[seqno], command_id=number, article_id=article_id, type=kind,
                originator=remarked.get(seqno, originator) or None, command=text,
            )  # fmt: skip
            commands.setdefault(seqno, []).append((made, hashkey))
    return [
        StoredTransaction(
            seqno=seqno,
            xid=xid,
            time_us=time_us,
            originator=originator,
            marks=marks,
            commands=tuple(each for each, _ in commands.get(seqno, ())),
            hashkeys=tuple(hashkey for _, hashkey in commands.get(seqno, ())),
        )
        for part in parts
        for seqno, xid, time_us, originator, marks in part.transactions
    ]


class PublisherStore:
    """The stored transactions of one Publisher.

    Args:
        node: node of the distribution database.
        read_to: position from which the log is read.
        horizon: an upper bound of the writers' transaction ids; None if it is not needed.
    """

    def __init__(
        self, node: ModelNode, publisher: str, read_to: int, horizon: int | None = None
    ) -> None:
        self.node = node
        self._kept: list[StoredTransaction] = []
        self.reports: dict[str, int] = {}
        """Position up to which each agent has reported delivery to its Subscriber."""
        self.keeps_all = True
        """Whether nothing is cleaned up, so that deliveries can be reported later."""
        self._gone = 0
        """Number of transactions that have been cleaned up."""
        self._of_calls = horizon is not None
        node.define(_TABLE_OF_CALLS if self._of_calls else _TABLE)
        row = (1, publisher, read_to, 0, *((horizon,) if self._of_calls else ()))
        node.outside(lambda tx: tx.insert(TABLE, row), "the Publisher's mark")
        self._table = node.table(TABLE)

    # -- reading -----------------------------------------------------------------------------------------

    def _row(self) -> tuple[int, int]:
        row: tuple[Any, ...] = next(self._table.committed())
        return row[2], row[3]

    @property
    def read_to(self) -> int:
        """Position up to which the log has been read and stored."""
        return self._row()[0]

    @property
    def horizon(self) -> int:
        """Upper bound of the transaction ids of writers that are stored or earlier; 0 if it is not kept."""
        row: tuple[Any, ...] = next(self._table.committed())
        return row[4] if self._of_calls else 0

    @property
    def transactions(self) -> list[StoredTransaction]:
        """Transactions whose storing has committed, in the Publisher's order."""
        return self._kept[: self._count]

    @property
    def _count(self) -> int:
        return max(0, self._row()[1] - self._gone)

    def _place(self, position: int) -> int:
        """Return the index of the first transaction after a position."""
        return bisect_right(self._kept, position, 0, self._count, key=_seqno)

    def between(self, after: int, upto: int) -> list[StoredTransaction]:
        """Return the transactions after one position, up to another."""
        return self._kept[self._place(after) : self._place(upto)]

    @property
    def last(self) -> int:
        """Position of the last transaction; 0 if none is left."""
        count = self._count
        return self._kept[count - 1].seqno if count else 0

    def window(self, position: int, most: int) -> tuple[Window, list[StoredTransaction]]:
        """Return the next transactions after a position."""
        first = self._place(position)
        result = self._kept[first : min(first + most, self._count)]
        window = Window(
            seqnos=[each.seqno for each in result],
            xids=[each.xid for each in result],
            commands=[len(each.commands) for each in result],
            bytes=[each.bytes for each in result],
            originators=[each.originator for each in result],
        )
        return window, result

    def own_transactions(self, position: int, originator: int) -> list[int]:
        """Return the positions of a Subscriber's own transactions after a position."""
        result = self._kept[self._place(position) : self._count]
        return [each.seqno for each in result if each.originator == originator]

    def commands(self, after: int, upto: int) -> list[DecodedCommand]:
        """Return all commands after one position, up to another."""
        return [command for each in self.between(after, upto) for command in each.commands]

    # -- storing -----------------------------------------------------------------------------------------

    def begin(self, session: NodeSession, read_to: int) -> Steps[int]:
        """Begin a transaction of the log reader, and return the number of stored transactions, whose row is locked.

        Raises:
            SqlError: 55006 if another log reader has read on.
        """
        yield from session.execute("begin")
        result = yield from session.execute(_LOCK)
        rows: Any = result.rows
        there, stored = rows[0]
        if there != read_to:
            raise SqlError("55006", "the log was read on by another log reader (18752)")
        return int(stored)

    def append(
        self, session: NodeSession, stored: int, transactions: Sequence[StoredTransaction], upto: int,
        horizon: int = 0,
    ) -> Steps[None]:  # fmt: skip
        """Store transactions after the first `stored`, and the new position; both become visible with the commit."""
        del self._kept[max(0, stored - self._gone) :]
        self._kept += transactions
        report = {"upto": upto, "stored": stored + len(transactions)}
        if self._of_calls:
            report["horizon"] = max(horizon, self.horizon)
        yield from session.execute(_MOVE_OF_CALLS if self._of_calls else _MOVE, report)

    def report(self, subscriber: str, position: int) -> None:
        """Note that everything up to a position is durable at a Subscriber, and clean up what all have received."""
        self.reports[subscriber] = position
        if not self.keeps_all:
            self.clean_up(min(self.reports.values()))

    def clean_up(self, upto: int) -> int:
        """Remove the transactions up to a position, and return their number."""
        gone = self._place(upto)
        del self._kept[:gone]
        self._gone += gone
        return gone


def _seqno(each: StoredTransaction) -> int:
    return each.seqno
