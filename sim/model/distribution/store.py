"""The distribution database: transactions with their commands, in the order of the Publisher's log.

Kept as values; what is there for others is what a row of the node says (``msrepl.mspublisher_databases``: how
many transactions are stored, and up to where the log was read), so that a commit, or a crash before it, decides.
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

#: A commit of the log reader's is one row here.
_TABLE = """
create table msrepl.mspublisher_databases (id int primary key, publisher text not null,
    read_to bigint not null, stored bigint not null)
"""
TABLE = "msrepl.mspublisher_databases"
_ARRAYS = 13
_MOVE = "update msrepl.mspublisher_databases set read_to = :upto, stored = :stored where id = 1"
#: The same, where calls are stored: the highest transaction id of a writer stands in the row, too.
_TABLE_OF_CALLS = _TABLE.replace(
    "stored bigint not null", "stored bigint not null, horizon bigint not null"
)
_MOVE_OF_CALLS = _MOVE.replace("stored = :stored", "stored = :stored, horizon = :horizon")
_LOCK = "select read_to, stored from msrepl.mspublisher_databases where id = 1 for update"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTransaction:
    """A transaction as it is stored."""

    seqno: int
    xid: int
    time_us: int
    originator: int
    marks: int
    commands: tuple[DecodedCommand, ...]
    hashkeys: tuple[int, ...]
    """Of the commands."""

    @property
    def bytes(self) -> int:
        """Of the commands' texts."""
        return sum(len(each.command) for each in self.commands)


class CopyBlock(NamedTuple):
    """A row of COPY data, read: see `twopc.publisher.log_reader.rows`."""

    transactions: list[tuple[int, int, int, int, int]]
    """Commit LSN, transaction id, time, originator, marks."""
    commands: list[tuple[int, int, int, int, int, str]]
    """Commit LSN, number, code, originator, hashkey, text."""


def read_block(data: bytes) -> CopyBlock:
    """The inverse of what `twopc.publisher.log_reader.rows` writes."""
    at = 2
    for _ in range(7):  # numbers, of which the arrays tell all that is needed
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
    """The transactions in rows of COPY data, all of whose parts are there.

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
    """What is stored of one Publisher.

    Args:
        node: that the distribution database is at.
        read_to: where its log begins for it.
        horizon: no transaction id of a writer is higher; None: nobody will ask.
    """

    def __init__(
        self, node: ModelNode, publisher: str, read_to: int, horizon: int | None = None
    ) -> None:
        self.node = node
        self._kept: list[StoredTransaction] = []
        self.reports: dict[str, int] = {}
        """Up to where each agent has said that everything is at its Subscriber."""
        self.keeps_all = True
        """Nothing is cleaned up: somebody may want to be told what was delivered."""
        self._gone = 0
        """So many are cleaned up."""
        self._of_calls = horizon is not None
        node.define(_TABLE_OF_CALLS if self._of_calls else _TABLE)
        row = (1, publisher, read_to, 0, *((horizon,) if self._of_calls else ()))
        node.outside(lambda tx: tx.insert(TABLE, row), "the Publisher's mark")
        self._table = node.table(TABLE)

    # -- as others see it ------------------------------------------------------------------------------

    def _row(self) -> tuple[int, int]:
        row: tuple[Any, ...] = next(self._table.committed())
        return row[2], row[3]

    @property
    def read_to(self) -> int:
        """Commit LSN of the last transaction stored."""
        return self._row()[0]

    @property
    def horizon(self) -> int:
        """The highest transaction id of a writer that is stored, or from before; 0: nobody keeps it."""
        row: tuple[Any, ...] = next(self._table.committed())
        return row[4] if self._of_calls else 0

    @property
    def transactions(self) -> list[StoredTransaction]:
        """What is committed here, in the Publisher's order."""
        return self._kept[: self._count]

    @property
    def _count(self) -> int:
        return max(0, self._row()[1] - self._gone)

    def _place(self, position: int) -> int:
        """Of the first transaction after a position."""
        return bisect_right(self._kept, position, 0, self._count, key=_seqno)

    def between(self, after: int, upto: int) -> list[StoredTransaction]:
        """The transactions after a position, up to another."""
        return self._kept[self._place(after) : self._place(upto)]

    @property
    def last(self) -> int:
        """Position of the last transaction; 0 if there is none any more."""
        count = self._count
        return self._kept[count - 1].seqno if count else 0

    def window(self, position: int, most: int) -> tuple[Window, list[StoredTransaction]]:
        """The next transactions after a position."""
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
        """A Subscriber's own transactions after a position."""
        result = self._kept[self._place(position) : self._count]
        return [each.seqno for each in result if each.originator == originator]

    def commands(self, after: int, upto: int) -> list[DecodedCommand]:
        """All commands after a position up to another."""
        return [command for each in self.between(after, upto) for command in each.commands]

    # -- storing -----------------------------------------------------------------------------------------

    def begin(self, session: NodeSession, read_to: int) -> Steps[int]:
        """Begin a commit of the log reader's: what is stored so far, locked. 55006: somebody else has read on."""
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
        """Put transactions behind the first `stored`, and the mark behind them; others see it from the commit on."""
        del self._kept[max(0, stored - self._gone) :]
        self._kept += transactions
        report = {"upto": upto, "stored": stored + len(transactions)}
        if self._of_calls:
            report["horizon"] = max(horizon, self.horizon)
        yield from session.execute(_MOVE_OF_CALLS if self._of_calls else _MOVE, report)

    def report(self, subscriber: str, position: int) -> None:
        """Everything up to there is at a Subscriber, durably; what all have got is not needed any more."""
        self.reports[subscriber] = position
        if not self.keeps_all:
            self.clean_up(min(self.reports.values()))

    def clean_up(self, upto: int) -> int:
        """Forget what everybody has got; how many transactions."""
        gone = self._place(upto)
        del self._kept[:gone]
        self._gone += gone
        return gone


def _seqno(each: StoredTransaction) -> int:
    return each.seqno
