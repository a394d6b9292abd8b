"""PostgreSQL's binary format of numbers and arrays, as far as an agent needs it. Pure."""

from __future__ import annotations

import struct
from collections.abc import Sequence

_HEADER = struct.Struct(">iiIii")  # dimensions, NULLs, element type, length, lower bound
_EMPTY = struct.Struct(">iiI")
_INT4, _TEXT, _LSN = 23, 25, 3220


def int4(value: int) -> bytes:
    """Return the binary form of an integer."""
    return value.to_bytes(4, signed=True)


def lsn8(value: int) -> bytes:
    """Return the binary form of a pg_lsn."""
    return value.to_bytes(8)


def int4s(values: Sequence[int]) -> bytes:
    """Return the binary form of an array of integer."""
    return _array(_INT4, [int4(value) for value in values])


def lsn8s(values: Sequence[int]) -> bytes:
    """Return the binary form of an array of pg_lsn."""
    return _array(_LSN, [lsn8(value) for value in values])


def _array(element: int, values: Sequence[bytes]) -> bytes:
    if not values:
        return _EMPTY.pack(0, 0, element)
    head = _HEADER.pack(1, 0, element, len(values), 1)
    return head + b"".join([int4(len(value)) + value for value in values])


def concatenated(arrays: Sequence[bytes], count: int) -> bytes:
    """Concatenate non-empty arrays of one type.

    Args:
        count: total number of elements.
    """
    element = int.from_bytes(arrays[0][8:12])
    head = _HEADER.pack(1, 0, element, count, 1)
    return head + b"".join([each[_HEADER.size :] for each in arrays])


def block(commands: Sequence[tuple[int, bytes]]) -> tuple[bytes, bytes]:
    """Return codes and commands, each as an array."""
    return int4s([code for code, _ in commands]), _array(_TEXT, [text for _, text in commands])


def numbers(raw: bytes | None, code: str) -> tuple[int, ...]:
    """Return the elements of an array of numbers without NULLs; no elements if the array is NULL.

    Args:
        code: `struct` format of an element.
    """
    if raw is None or len(raw) <= _HEADER.size:
        return ()
    return tuple([value for _, value in struct.iter_unpack(f">i{code}", raw[_HEADER.size :])])


def texts(raw: bytes | None) -> list[bytes]:
    """Return the elements of an array of text without NULLs; no elements if the array is NULL."""
    results: list[bytes] = []
    at = _HEADER.size
    while raw is not None and at < len(raw):
        start = at + 4
        at = start + int.from_bytes(raw[at:start])
        results.append(raw[start:at])
    return results
