"""Effects of a transaction that stays prepared on its server: rows that cannot be cleaned up, and the distance to
wraparound.

Pure: numbers in, sentences out. This module must not query servers.
"""

from __future__ import annotations

from dataclasses import dataclass

#: The server reserves three million of 2^31 transactions: at this age it accepts no further ones.
STOPS_AT_XIDS = 2**31 - 3_000_000
#: Age from which a warning is given.
OLD_S = 3600.0
_WARNING_SHARE = 0.5
_WARNING_BYTES = 1 << 30
_STEPS = ((86400.0, "days"), (3600.0, "h"), (60.0, "min"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Age:
    """Age of a prepared transaction, in time, transactions and log."""

    age_s: float
    xids: int
    """Transactions that this server has begun since the transaction began."""
    freeze_xids: int
    """``autovacuum_freeze_max_age``: at this age vacuum is forced, without effect on the prepared transaction."""
    log_bytes: int
    """Size of the log retained by the logical slot that is furthest behind; slots cannot advance past a prepared
    transaction.
    """
    slot: str
    """Name of that slot; empty if there is none."""

    def warnings(self) -> tuple[str, ...]:
        """Return the warnings as sentences, in increasing order of severity."""
        results = []
        if self.age_s >= OLD_S:
            results.append(
                f"prepared for {duration(self.age_s)}: no vacuum cleans up what is younger, in any "
                "table of this database"
            )
        if self.log_bytes >= _WARNING_BYTES:
            results.append(
                f"slot {self.slot} keeps {size(self.log_bytes)} of log: no slot moves past what is prepared"
            )
        if self.xids >= self.freeze_xids:
            results.append(
                f"{self.xids:,} transactions old, over autovacuum_freeze_max_age: forced vacuums run and "
                f"freeze nothing; {self._left()}"
            )
        elif self.xids >= _WARNING_SHARE * self.freeze_xids:
            results.append(
                f"{self.xids:,} transactions old, {self.xids / self.freeze_xids:.0%} of "
                f"autovacuum_freeze_max_age; {self._left()}"
            )
        return tuple(results)

    def _left(self) -> str:
        left = max(STOPS_AT_XIDS - self.xids, 0)
        return f"the server takes no more changes in {left:,} transactions"


def duration(seconds: float) -> str:
    """Return a duration in the largest unit of which there is at least one: ``3.2 h``."""
    for length, unit in _STEPS:
        if seconds >= length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.1f} s"


def size(count: int) -> str:
    """Return a size in a suitable unit: ``12.3 MB``."""
    value, unit = float(count), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"
