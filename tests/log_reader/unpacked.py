"""Reads rows of `msrepl_blocks` from COPY data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from struct import unpack_from
from typing import Any

_TEXT = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A row of `msrepl_blocks`."""

    first: int
    last: int
    part: int
    last_command: int
    transactions: list[tuple[int, ...]]
    """Position, id, time, originator, marks, commands and length of each transaction."""
    commands: list[tuple[Any, ...]]
    """Position, number, code, originator, hash key and text of each command."""


def unpacked(data: bytes) -> Iterator[Block]:
    """Yield the rows of COPY data without header and trailer."""
    at = 0
    while at < len(data):
        (count,) = unpack_from("!h", data, at)
        assert count == 20
        at += 2
        fields: list[bytes] = []
        for _ in range(count):
            (length,) = unpack_from("!i", data, at)
            assert length >= 0
            at += 4
            fields.append(data[at : at + length])
            at += length
        _, first, last, part, transactions, commands, last_command = (
            int.from_bytes(field, signed=True) for field in fields[:7]
        )
        arrays = [_array(field) for field in fields[7:]]
        found = Block(
            first=first,
            last=last,
            part=part,
            last_command=last_command,
            transactions=list(zip(*arrays[:7], strict=True)),
            commands=list(zip(*arrays[7:], strict=True)),
        )
        assert (len(found.transactions), len(found.commands)) == (transactions, commands)
        yield found


def _array(data: bytes) -> list[Any]:
    dimensions, nulls, element = unpack_from("!iiI", data)
    assert nulls == 0
    if not dimensions:
        assert len(data) == 12
        return []
    count, lower = unpack_from("!ii", data, 12)
    assert (dimensions, lower) == (1, 1)
    at, values = 20, []
    for _ in range(count):
        (length,) = unpack_from("!i", data, at)
        raw = data[at + 4 : at + 4 + length]
        values.append(raw if element == _TEXT else int.from_bytes(raw, signed=True))
        at += 4 + length
    assert at == len(data)
    return values


def checked(blocks: Iterable[Block]) -> tuple[list[tuple[int, ...]], list[tuple[Any, ...]]]:
    """Return all transactions and commands, after checking the invariants of blocks."""
    blocks = list(blocks)
    for one in blocks:
        seqnos = {command[0] for command in one.commands} | {each[0] for each in one.transactions}
        assert (one.first, one.last) == (min(seqnos), max(seqnos))
        if one.commands:
            assert (one.last, one.last_command) == one.commands[-1][:2]
        # complete transactions, or a part of one
        if one.part or not one.transactions:
            assert one.first == one.last
        else:
            assert {each[0] for each in one.transactions} == seqnos
    for before, after in pairwise(blocks):
        assert (before.last, before.part) < (after.last, after.part)
        assert before.last < after.first or (before.last, before.part + 1) == (
            after.first,
            after.part,
        )
    return (
        [each for one in blocks for each in one.transactions],
        [command for one in blocks for command in one.commands],
    )
