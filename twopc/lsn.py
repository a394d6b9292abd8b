"""Positions in a write-ahead log as numbers, which can be compared and sent as eight bytes.

Pure.
"""

from __future__ import annotations


def lsn_text(value: int) -> str:
    """Return a position in the notation of PostgreSQL's pg_lsn: ``16/B374D848``."""
    return f"{value >> 32:X}/{value & 0xFFFFFFFF:X}"


def lsn_value(text: str) -> int:
    """Return the position that `lsn_text` wrote."""
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)
