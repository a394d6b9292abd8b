"""Rows of `msrepl_blocks` in COPY's binary format, of the transactions and commands that a scanner holds. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, repeat
from struct import Struct, pack
from typing import Final

from twopc.core import CommandScanner, int4_of

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
#: Length of a pgoutput BEGIN, and places of the commit LSN and the time in it.
_BEGIN_BYTES, _SEQNO_AT, _TIME_AT = 21, 1, 9
#: `CommandScanner.marked` of a transaction that it does not list.
_UNMARKED = (0, 0, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPart:
    """Part of a transaction that is too large to wait for its end."""

    seqno: int
    xid: int
    originator: int
    """Originator as far as known so far."""
    blocks: list[bytes]
    """Rows of COPY data."""


def blocks(publisher: int, held: CommandScanner) -> Iterator[bytes]:
    """Yield rows of the complete transactions, with all their commands that are not stored yet."""
    marked, fresh = held.marked, held.counts
    if marked:
        fresh = list(fresh)
        for place, (_, _, stored, _) in marked.items():
            fresh[place] -= stored
    counted, sized = list(accumulate(fresh)), list(accumulate(held.lengths))
    first = at = length = 0
    while first < len(counted):
        end = first
        if not marked.get(first, _UNMARKED)[3]:
            end = min(
                bisect_right(counted, at + BLOCK_COMMANDS, first),
                bisect_right(sized, length + BLOCK_BYTES, first),
            )
        if end == first:  # the transaction is too large for a block, or parts of it are stored
            end = first + 1
            yield from _ending(publisher, held, first, at, counted[first])
        else:
            part = marked.get(end - 1, _UNMARKED)[3]
            yield _block(publisher, held, first, end, fresh[first:end], at, part)
        first, at, length = end, counted[end - 1], sized[end - 1]


def parts(publisher: int, held: CommandScanner) -> StoredPart:
    """Return the commands held of the transaction in progress; there must be no complete transaction."""
    seqno = int.from_bytes(held.begun[_SEQNO_AT:_TIME_AT])
    sizes = _sizes(held, 0, len(held.codes))
    rows = _parts(publisher, held, 0, sizes, seqno, held.originator, held.stored, held.parts)
    return StoredPart(seqno=seqno, xid=held.xid, originator=held.originator, blocks=list(rows))


def _ending(
    publisher: int, held: CommandScanner, place: int, start: int, end: int
) -> Iterator[bytes]:
    """Yield the rows of a large transaction, or its last ones if parts are stored, from its commands' places."""
    originator, _, stored, part = held.marked.get(place, _UNMARKED)
    seqno = int.from_bytes(held.begins[place][_SEQNO_AT:_TIME_AT])
    *sizes, last = list(_sizes(held, start, end)) or [0]
    yield from _parts(publisher, held, start, sizes, seqno, originator, stored, part)
    yield _block(publisher, held, place, place + 1, [last], end - last, part + len(sizes))


def _sizes(held: CommandScanner, start: int, end: int) -> Iterator[int]:
    """Yield the number of commands of each row."""
    sized = list(accumulate(map(len, held.texts[2 * start + 1 : 2 * end : 2])))
    at = length = 0
    while at < len(sized):
        size = bisect_right(sized, length + BLOCK_BYTES, at) - at
        size = max(1, min(size, BLOCK_COMMANDS))
        yield size
        at += size
        length = sized[at - 1]


def _parts(
    publisher: int, held: CommandScanner, at: int, sizes: Iterable[int], seqno: int, originator: int,
    stored: int, part: int,
) -> Iterator[bytes]:  # fmt: skip
    """Yield the rows of parts that are not the last one, which do not contain the transaction.

    Args:
        at: place of the first command.
        stored, part: numbers of commands and of parts that precede.
    """
    for number, count in enumerate(sizes, part):
        numbers = range(stored + 1, stored + count + 1)
        yield b"".join(
            (
                _head(publisher, seqno, seqno, number, 0, count, stored + count),
                *map(_none, (_LSN, _XID8, _TIME, _INT4, _INT4, _INT4, _INT8)),
                *_commands(held, at, count, _lsn(8, seqno) * count, _elements(numbers), int4_of(originator) * count),
            )
        )  # fmt: skip
        at += count
        stored += count


def _block(
    publisher: int,
    held: CommandScanner,
    first: int,
    end: int,
    fresh: Sequence[int],
    at: int,
    part: int,
) -> bytes:
    """Return the row of the transactions from one place to another, with their commands, which begin at place `at`.

    Args:
        fresh: number of commands of each transaction that are not stored.
    """
    width, count = end - first, sum(fresh)
    begins = b"".join(held.begins[first:end])
    counts = held.counts[first:end]
    seqnos = _eights(begins, _SEQNO_AT)
    marked = (
        [held.marked.get(place, _UNMARKED) for place in range(first, end)] if held.marked else []
    )
    originators = [each[0] for each in marked] or [0] * width
    marks = [each[1] for each in marked] or [0] * width
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
        for total, many, who in zip(counts, fresh, originators, strict=True):
            numbers += range(total - many + 1, total + 1)
            origin += repeat(who, many)
        ids, origins = _elements(numbers), _elements(origin)
    first_seqno, last_seqno = int.from_bytes(seqnos[4:12]), int.from_bytes(seqnos[-8:])
    return b"".join(
        (
            _head(publisher, first_seqno, last_seqno, part, width, count, counts[-1]),
            _array_of(_LSN, seqnos, width),
            _int8s(_XID8, held.xids[first:end]),
            _array_of(_TIME, _eights(begins, _TIME_AT), width),
            _int4s(originators),
            _int4s(marks),
            _int4s(counts),
            _int8s(_INT8, held.lengths[first:end]),
            *_commands(held, at, count, command_seqnos, ids, origins),
        )
    )


def _commands(
    held: CommandScanner, at: int, count: int, seqnos: bytes, ids: bytes, originators: bytes
) -> Iterator[bytes]:
    """Yield the fields of commands, given the elements that are not held."""
    yield _array_of(_LSN, seqnos, count)
    yield _array_of(_INT4, ids, count)
    yield _array_of(_INT4, b"".join(held.codes[at : at + count]), count)
    yield _array_of(_INT4, originators, count)
    yield _array_of(_INT4, b"".join(held.hashkeys[at : at + count]), count)
    yield _array_of(_TEXT, b"".join(held.texts[2 * at : 2 * (at + count)]), count)


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
