"""Places in a write-ahead log as numbers: they compare, and travel as eight bytes.

Pure.
"""

from __future__ import annotations


def lsn_text(value: int) -> str:
    """As PostgreSQL writes a pg_lsn: ``16/B374D848``."""
    return f"{value >> 32:X}/{value & 0xFFFFFFFF:X}"


def lsn_value(text: str) -> int:
    """The inverse of `lsn_text`."""
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)
