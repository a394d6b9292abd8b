"""Rows of `msrepl_blocks` as COPY's binary format has them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from struct import Struct, pack
from typing import Final, NamedTuple

HEADER: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER: Final = b"\xff\xff"

BLOCKS = (
    "msrepl.msrepl_blocks (publisher_database_id, first_seqno, last_seqno, part, transactions, commands, "
    "last_command, seqnos, xids, entry_times, originators, marks, counts, lengths, command_seqnos, "
    "command_ids, codes, command_originators, hashkeys, texts)"
)
#: What a block holds, at most, unless a single command is longer.
BLOCK_COMMANDS = 2_000
BLOCK_BYTES = 1 << 20

_INT4, _INT8, _TEXT, _TIME, _LSN, _XID8 = 23, 20, 25, 1184, 3220, 5069

_row = Struct("!hiiiqiqiiiiiiii").pack
_array = Struct("!iiiIii").pack
_empty = Struct("!iiiI").pack
_lsn = Struct("!iq").pack
#: The four bytes before a text that say how long it is.
text_length = Struct("!i").pack


class LoggedTransaction(NamedTuple):
    """A transaction with the commands of it that are not in a block yet."""

    seqno: int
    """Commit LSN."""
    xid: int
    time_us: int
    """When it was committed, in microseconds since 2000."""
    originator: int
    """0: the Publisher itself."""
    marks: int
    commands: int
    """Those in blocks included."""
    length: int
    """Bytes of all their texts."""
    stored: int = 0
    """Commands in blocks already, in so many parts:"""
    part: int = 0


_COMMANDS, _LENGTH, _STORED, _PART = map(
    LoggedTransaction._fields.index, ("commands", "length", "stored", "part")
)


@dataclass(slots=True)
class CommandColumns:
    """Commands in their order, as three lists."""

    codes: list[int] = field(default_factory=list)
    """Article's number * 100 + type."""
    hashkeys: list[int] = field(default_factory=list)
    texts: list[bytes] = field(default_factory=list)
    """Two for each command: the text's length, as `text_length` has it, and the text."""

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, count: int) -> CommandColumns:
        """The first ones, which are not here any longer."""
        taken = CommandColumns(self.codes[:count], self.hashkeys[:count], self.texts[: 2 * count])
        del self.codes[:count], self.hashkeys[:count], self.texts[: 2 * count]
        return taken


def blocks(
    publisher: int, transactions: Sequence[LoggedTransaction], commands: CommandColumns
) -> Iterator[bytes]:
    """Rows of complete transactions with all their commands that are not stored yet."""
    first = at = 0
    count = length = 0
    for place, each in enumerate(transactions):
        # by place: there are many
        fresh, size = each[_COMMANDS] - each[_STORED], each[_LENGTH]
        large = each[_PART] or fresh > BLOCK_COMMANDS or size > BLOCK_BYTES
        full = count + fresh > BLOCK_COMMANDS or length + size > BLOCK_BYTES
        if place > first and (full or large):
            yield _block(publisher, transactions[first:place], commands, at, count)
            at, first = at + count, place
            count = length = 0
        if large:
            yield from _ending(publisher, each, commands, at)
            at, first = at + fresh, place + 1
        else:
            count, length = count + fresh, length + size
    if first < len(transactions):
        yield _block(publisher, transactions[first:], commands, at, count)


def parts(publisher: int, transaction: LoggedTransaction, commands: CommandColumns) -> list[bytes]:
    """Rows of one transaction that is not complete, and of which these are the next commands."""
    rows: list[bytes] = []
    at = 0
    for size in _sizes(commands, 0, len(commands)):
        rows.append(_part(publisher, transaction, len(rows), commands, at, size))
        at += size
    return rows


def _ending(
    publisher: int, transaction: LoggedTransaction, commands: CommandColumns, at: int
) -> Iterator[bytes]:
    """The rows of a large transaction, or the last of them."""
    sizes = list(_sizes(commands, at, at + transaction.commands - transaction.stored)) or [0]
    end = at + sum(sizes[:-1])
    start = at
    for number, size in enumerate(sizes[:-1]):
        yield _part(publisher, transaction, number, commands, start, size, stored=start - at)
        start += size
    last = transaction._replace(
        stored=transaction.stored + end - at, part=transaction.part + len(sizes) - 1
    )
    yield _block(publisher, [last], commands, end, sizes[-1])


def _sizes(commands: CommandColumns, start: int, end: int) -> Iterator[int]:
    """How many commands to take at a time."""
    size = length = 0
    for text in commands.texts[2 * start + 1 : 2 * end : 2]:
        if size and (size == BLOCK_COMMANDS or length + len(text) > BLOCK_BYTES):
            yield size
            size = length = 0
        size += 1
        length += len(text)
    if size:
        yield size


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
    """A part that is not the last one: without its transaction."""
    before = transaction.stored + (at if stored is None else stored)
    return b"".join(
        (
            _head(publisher, transaction.seqno, transaction.seqno, transaction.part + number, 0, count,
                  before + count),
            *map(_none, (_LSN, _XID8, _TIME, _INT4, _INT4, _INT4, _INT8)),
            _array_of(_LSN, _lsn(8, transaction.seqno) * count, count),
            _int4s(range(before + 1, before + count + 1)),
            _int4s(commands.codes[at : at + count]),
            _int4s([transaction.originator] * count),
            _int4s(commands.hashkeys[at : at + count]),
            _array_of(_TEXT, b"".join(commands.texts[2 * at : 2 * (at + count)]), count),
        )
    )  # fmt: skip


def _block(
    publisher: int,
    transactions: Sequence[LoggedTransaction],
    commands: CommandColumns,
    at: int,
    count: int,
) -> bytes:
    seqnos, xids, times, originators, marks, counts, lengths, _, _ = zip(*transactions, strict=True)
    last = transactions[-1]
    seqnos_of_all = _int8s(_LSN, seqnos)
    ids: list[int] = []
    origins: list[int] = []
    if (
        count == len(transactions) == sum(counts)
    ):  # a command each, so they have their arrays in common
        ids, origins, command_seqnos = [1] * count, list(originators), seqnos_of_all
    else:
        results: list[bytes] = []
        for each in transactions:
            fresh = each.commands - each.stored
            ids += range(each.stored + 1, each.commands + 1)
            origins += repeat(each.originator, fresh)
            results.append(_lsn(8, each.seqno) * fresh)
        command_seqnos = _array_of(_LSN, b"".join(results), count)
    return b"".join(
        (
            _head(publisher, seqnos[0], last.seqno, last.part, len(transactions), count, last.commands),
            seqnos_of_all,
            _int8s(_XID8, xids),
            _int8s(_TIME, times),
            _int4s(originators),
            _int4s(marks),
            _int4s(counts),
            _int8s(_INT8, lengths),
            command_seqnos,
            _int4s(ids),
            _int4s(commands.codes[at : at + count]),
            _int4s(origins),
            _int4s(commands.hashkeys[at : at + count]),
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
    """A field: an array of values, each after its length."""
    if not count:
        return _none(element)
    return _array(20 + len(data), 1, 0, element, count, 1) + data


def _none(element: int) -> bytes:
    return _empty(12, 0, 0, element)


def _int4s(values: Sequence[int]) -> bytes:
    flat = [4] * (2 * len(values))
    flat[1::2] = values
    return _array_of(_INT4, pack(f"!{len(flat)}i", *flat), len(values))


def _int8s(element: int, values: Sequence[int]) -> bytes:
    flat = [8] * (2 * len(values))
    flat[1::2] = values
    return _array_of(element, pack("!" + "iq" * len(values), *flat), len(values))
