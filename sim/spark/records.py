"""Parsing of the values in many texts of records at once (`twopc.propagation.record_text`). Runs on executors.

Every value is quoted, so that the number of quotes before a byte shows whether the byte is within a value; the
bytes of all texts are processed together.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_QUOTE, _OPEN, _CLOSE, _COMMA, _BACKSLASH = b'"(),\\'
#: Replacement for a text that is no record.
_NOTHING = "()"


class Records(NamedTuple):
    """The values in a number of texts."""

    values: pa.StringArray
    """The values of all texts, concatenated; null if there is nothing between two commas."""
    firsts: NDArray[np.int64]
    """Place of the first value of each text."""
    counts: NDArray[np.int64]
    """Number of values of each text; 0 if the text is no record."""


def records_of(texts: pa.StringArray) -> Records:
    """Return the values in texts, none of which is null."""
    data, ends = _bytes(texts)
    wrong = _misshapen(data, ends)
    if wrong.any():
        data, ends = _bytes(pc.if_else(pa.array(wrong), _NOTHING, texts))
    starts = np.append(0, ends)[:-1]
    quote = data == _QUOTE
    is_inside = _is_odd(np.cumsum(quote, dtype=np.uint8) - quote)  # before the byte
    kept = is_inside & ~quote
    # a doubled quote ends a value and begins it again: the second one is kept
    kept[1:] |= quote[1:] & ~is_inside[1:] & quote[:-1]
    kept[_second_of_pairs(data)] = False
    between = np.flatnonzero(~is_inside & ~quote)  # bytes outside of values: parentheses and commas
    is_first, is_last = np.zeros((2, len(between)), bool)
    is_first[np.searchsorted(between, starts)] = True
    is_last[np.searchsorted(between, ends - 1)] = True
    foreign = between[~is_first & ~is_last & (data[between] != _COMMA)]
    wrong[np.searchsorted(ends, foreign, side="right")] = True
    before, behind = between[~is_last], between[~is_first]
    count = np.diff(np.searchsorted(before, np.append(0, ends)))
    offsets = np.append(0, np.cumsum(np.add.reduceat(kept, before, dtype=np.int32)))
    there = behind - before > 1
    values = pa.StringArray.from_buffers(
        len(before),
        pa.py_buffer(offsets.astype(np.int32)),
        pa.py_buffer(data[kept]),
        pa.py_buffer(np.packbits(there, bitorder="little")),
    )
    return Records(values, np.cumsum(count) - count, np.where(wrong, 0, count))


def _bytes(texts: pa.StringArray) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the bytes of all texts, and the end of each text."""
    _, offsets, data = texts.buffers()
    bounds = np.frombuffer(offsets, np.int32, len(texts) + 1, 4 * texts.offset).astype(np.int64)
    every = np.frombuffer(data or b"", np.uint8)
    return every[bounds[0] : bounds[-1]], bounds[1:] - bounds[0]


def _misshapen(data: NDArray[np.uint8], ends: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which texts are not enclosed in parentheses or have an odd number of quotes."""
    starts = np.append(0, ends)[:-1]
    quotes = np.append(np.uint8(0), np.cumsum(data == _QUOTE, dtype=np.uint8))
    wrong: NDArray[np.bool_] = (ends - starts < 2) | _is_odd(quotes[ends] - quotes[starts])
    within = ~wrong
    wrong[within] = (data[starts[within]] != _OPEN) | (data[ends[within] - 1] != _CLOSE)
    return wrong


def _is_odd(counts: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Return which counts, modulo 256, are odd; one byte for each count limits the memory."""
    return (counts & 1).view(np.bool_)


def _second_of_pairs(data: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the places of the second backslash of each pair."""
    places = np.flatnonzero(data == _BACKSLASH)
    begins = np.diff(places, prepend=-2) > 1
    number = np.arange(len(places))
    run = np.maximum.accumulate(np.where(begins, number, 0))
    return np.compress((number - run) % 2 == 1, places)
