"""Rows of `msrepl_blocks` in COPY's binary format. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, repeat
from struct import Struct, pack
from typing import Final, NamedTuple

from twopc.core import int4_of

HEADER: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER: Final = b"\xff\xff"

BLOCKS = (
    "msrepl.msrepl_blocks (publisher_database_id, first_seqno, last_seqno, part, transactions, commands, "
    "last_command, seqnos, xids, entry_times, originators, marks, counts, lengths, command_seqnos, "
    "command_ids, codes, command_originators, hashkeys, texts)"
)
#: Limits of a block, unless a single command is longer.
BLOCK_COMMANDS = 2_000
BLOCK_BYTES = 1 << 20

_INT4, _INT8, _TEXT, _TIME, _LSN, _XID8 = 23, 20, 25, 1184, 3220, 5069

_row = Struct("!hiiiqiqiiiiiiii").pack
_array = Struct("!iiiIii").pack
_empty = Struct("!iiiI").pack
_lsn = Struct("!iq").pack
#: Layout of a pgoutput BEGIN: letter, commit LSN, time, the low bits of the transaction id.
_begin = Struct("!cqqI").pack
_BEGIN_BYTES = 21
_SEQNO_AT, _TIME_AT = 1, 9


class LoggedTransaction(NamedTuple):
    """A transaction with those of its commands that are not in a block yet."""

    seqno: int
    """Commit LSN."""
    xid: int
    time_us: int
    """Commit time, in microseconds since 2000."""
    originator: int
    """Number of the originator; 0 for the Publisher itself."""
    marks: int
    commands: int
    """Number of commands, including those in blocks."""
    length: int
    """Total length in bytes of all commands' texts."""
    stored: int = 0
    """Number of commands already in blocks, stored in `part` parts."""
    part: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPart:
    """Part of a transaction that is too large to wait for its end."""

    seqno: int
    xid: int
    originator: int
    """Originator as far as known so far."""
    blocks: list[bytes]
    """Rows of COPY data."""


@dataclass(slots=True)
class TransactionColumns:
    """Complete transactions in their order; see `LoggedTransaction`."""

    begins: list[bytes] = field(default_factory=list)
    """BEGIN messages, from which seqnos and times are taken by strides."""
    xids: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    marked: dict[int, tuple[int, int, int, int]] = field(default_factory=dict)
    """By place: originator, marks, commands stored, parts; only if not all of them are 0."""

    def __len__(self) -> int:
        return len(self.counts)

    def add(self, one: LoggedTransaction) -> None:
        """Append a transaction."""
        rest = (one.originator, one.marks, one.stored, one.part)
        if any(rest):
            self.marked[len(self)] = rest
        self.begins.append(_begin(b"B", one.seqno, one.time_us, one.xid & 0xFFFFFFFF))
        self.xids.append(one.xid)
        self.counts.append(one.commands)
        self.lengths.append(one.length)

    def at(self, place: int) -> LoggedTransaction:
        """Return the transaction at a place."""
        begin = self.begins[place]
        originator, marks, stored, part = self.marked.get(place, (0, 0, 0, 0))
        return LoggedTransaction(
            seqno=int.from_bytes(begin[_SEQNO_AT:_TIME_AT]),
            xid=self.xids[place],
            time_us=int.from_bytes(begin[_TIME_AT : _TIME_AT + 8], signed=True),
            originator=originator,
            marks=marks,
            commands=self.counts[place],
            length=self.lengths[place],
            stored=stored,
            part=part,
        )

    def fresh(self) -> list[int]:
        """Return the number of commands of each transaction that are not stored."""
        if not self.marked:
            return self.counts
        counts = list(self.counts)
        for place, (_, _, stored, _) in self.marked.items():
            counts[place] -= stored
        return counts


@dataclass(slots=True)
class CommandColumns:
    """Commands in their order, as three lists of array elements."""

    codes: list[bytes] = field(default_factory=list)
    """Number of the article * 100 + type."""
    hashkeys: list[bytes] = field(default_factory=list)
    texts: list[bytes] = field(default_factory=list)
    """Two elements for each command: the text's length, and the text."""

    def __len__(self) -> int:
        return len(self.codes)

    def add(self, code: int, hashkey: int, text: bytes) -> None:
        """Append a command."""
        self.codes.append(int4_of(code))
        self.hashkeys.append(int4_of(hashkey))
        self.texts += (len(text).to_bytes(4), text)

    def take(self, count: int) -> CommandColumns:
        """Remove and return the first commands."""
        taken = CommandColumns(self.codes[:count], self.hashkeys[:count], self.texts[: 2 * count])
        del self.codes[:count], self.hashkeys[:count], self.texts[: 2 * count]
        return taken


def blocks(
    publisher: int, transactions: TransactionColumns, commands: CommandColumns
) -> Iterator[bytes]:
    """Yield rows of complete transactions with all their commands that are not stored yet."""
    fresh = transactions.fresh()
    counted, sized = list(accumulate(fresh)), list(accumulate(transactions.lengths))
    first = at = length = 0
    while first < len(counted):
        end = first
        if not transactions.marked or not transactions.at(first).part:
            end = min(
                bisect_right(counted, at + BLOCK_COMMANDS, first),
                bisect_right(sized, length + BLOCK_BYTES, first),
            )
        if end == first:  # the transaction is too large for a block, or parts of it are stored
            end = first + 1
            yield from _ending(publisher, transactions.at(first), commands, at)
        else:
            yield _block(publisher, transactions, first, end, fresh, commands, at)
        first, at, length = end, counted[end - 1], sized[end - 1]


def parts(publisher: int, transaction: LoggedTransaction, commands: CommandColumns) -> list[bytes]:
    """Return rows with the next commands of a transaction that is not complete."""
    rows: list[bytes] = []
    at = 0
    for size in _sizes(commands, 0, len(commands)):
        rows.append(_part(publisher, transaction, len(rows), commands, at, size))
        at += size
    return rows


def _ending(
    publisher: int, transaction: LoggedTransaction, commands: CommandColumns, at: int
) -> Iterator[bytes]:
    """Yield the rows of a large transaction, or its last ones if parts are stored."""
    sizes = list(_sizes(commands, at, at + transaction.commands - transaction.stored)) or [0]
    end = at + sum(sizes[:-1])
    start = at
    for number, size in enumerate(sizes[:-1]):
        yield _part(publisher, transaction, number, commands, start, size, stored=start - at)
        start += size
    only = TransactionColumns()
    only.add(
        transaction._replace(
            stored=transaction.stored + end - at, part=transaction.part + len(sizes) - 1
        )
    )
    yield _block(publisher, only, 0, 1, only.fresh(), commands, end)


def _sizes(commands: CommandColumns, start: int, end: int) -> Iterator[int]:
    """Yield the number of commands of each row."""
    sized = list(accumulate(map(len, commands.texts[2 * start + 1 : 2 * end : 2])))
    at = length = 0
    while at < len(sized):
        size = bisect_right(sized, length + BLOCK_BYTES, at) - at
        size = max(1, min(size, BLOCK_COMMANDS))
        yield size
        at += size
        length = sized[at - 1]


def _part(
    publisher: int,
    transaction: LoggedTransaction,
    number: int,
    commands: CommandColumns,
    at: int,
    count: int,
    *,
    stored: int | None = None,
) -> bytes:
    """Return the row of a part that is not the last one, which does not contain the transaction."""
    before = transaction.stored + (at if stored is None else stored)
    return b"".join(
        (
            _head(publisher, transaction.seqno, transaction.seqno, transaction.part + number, 0, count,
                  before + count),
            *map(_none, (_LSN, _XID8, _TIME, _INT4, _INT4, _INT4, _INT8)),
            _array_of(_LSN, _lsn(8, transaction.seqno) * count, count),
            _int4s(range(before + 1, before + count + 1)),
            _array_of(_INT4, b"".join(commands.codes[at : at + count]), count),
            _array_of(_INT4, int4_of(transaction.originator) * count, count),
            _array_of(_INT4, b"".join(commands.hashkeys[at : at + count]), count),
            _array_of(_TEXT, b"".join(commands.texts[2 * at : 2 * (at + count)]), count),
        )
    )  # fmt: skip


def _block(
    publisher: int,
    transactions: TransactionColumns,
    first: int,
    end: int,
    fresh: Sequence[int],
    commands: CommandColumns,
    at: int,
) -> bytes:
    """Return the row of the transactions from one place to another, with their commands, which begin at place `at`."""
    width, fresh = end - first, fresh[first:end]
    count, last = sum(fresh), transactions.at(end - 1)
    begins = b"".join(transactions.begins[first:end])
    counts = transactions.counts[first:end]
    seqnos = _eights(begins, _SEQNO_AT)
    marked = (
        [transactions.marked.get(place) for place in range(first, end)]
        if transactions.marked
        else []
    )
    originators = [each[0] if each else 0 for each in marked] or [0] * width
    marks = [each[1] if each else 0 for each in marked] or [0] * width
    stored = [each[2] if each else 0 for each in marked] or [0] * width
    if (
        fresh == counts and count == width
    ):  # one command per transaction, so the arrays are the same
        command_seqnos, ids, origins = seqnos, int4_of(1) * count, _elements(originators)
    else:
        command_seqnos = b"".join(
            [seqnos[12 * place : 12 * place + 12] * many for place, many in enumerate(fresh)]
        )
        numbers: list[int] = []
        origin: list[int] = []
        for before, many, who in zip(stored, fresh, originators, strict=True):
            numbers += range(before + 1, before + many + 1)
            origin += repeat(who, many)
        ids, origins = _elements(numbers), _elements(origin)
    return b"".join(
        (
            _head(publisher, int.from_bytes(seqnos[4:12]), last.seqno, last.part, width, count, last.commands),
            _array_of(_LSN, seqnos, width),
            _int8s(_XID8, transactions.xids[first:end]),
            _array_of(_TIME, _eights(begins, _TIME_AT), width),
            _int4s(originators),
            _int4s(marks),
            _int4s(counts),
            _int8s(_INT8, transactions.lengths[first:end]),
            _array_of(_LSN, command_seqnos, count),
            _array_of(_INT4, ids, count),
            _array_of(_INT4, b"".join(commands.codes[at : at + count]), count),
            _array_of(_INT4, origins, count),
            _array_of(_INT4, b"".join(commands.hashkeys[at : at + count]), count),
            _array_of(_TEXT, b"".join(commands.texts[2 * at : 2 * (at + count)]), count),
        )
    )  # fmt: skip


def _head(
    publisher: int, first: int, last: int, part: int, transactions: int, commands: int, last_command: int
) -> bytes:  # fmt: skip
    return _row(
        20, 4, publisher, 8, first, 8, last, 4, part, 4, transactions, 4, commands, 4, last_command
    )


def _array_of(element: int, data: bytes, count: int) -> bytes:
    """Return a field: an array of values, each preceded by its length."""
    if not count:
        return _none(element)
    return _array(20 + len(data), 1, 0, element, count, 1) + data


def _none(element: int) -> bytes:
    return _empty(12, 0, 0, element)


def _eights(begins: bytes, at: int) -> bytes:
    """Return array elements: the 8 bytes at a place in every BEGIN."""
    made = bytearray(_lsn(8, 0) * (len(begins) // _BEGIN_BYTES))
    for place in range(8):
        made[4 + place :: 12] = begins[at + place :: _BEGIN_BYTES]
    return bytes(made)


def _elements(values: Sequence[int]) -> bytes:
    """Return the elements of an array of integers."""
    flat = [4] * (2 * len(values))
    flat[1::2] = values
    return pack(f"!{len(flat)}i", *flat)


def _int4s(values: Sequence[int]) -> bytes:
    return _array_of(_INT4, _elements(values), len(values))


def _int8s(element: int, values: Sequence[int]) -> bytes:
    flat = [8] * (2 * len(values))
    flat[1::2] = values
    return _array_of(element, pack("!" + "iq" * len(values), *flat), len(values))
