"""What becomes of a server while a transaction stays prepared on it: what cannot be cleaned up, and how far that is
from standing still.

Pure: figures in, sentences out. It must not look at servers.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Of 2^31 transactions the server keeps three million for itself: at this age it takes no more.
STOPS_AT_XIDS = 2**31 - 3_000_000
#: From here on it is said.
OLD_S = 3600.0
_NEAR = 0.5
_MUCH_BYTES = 1 << 30
_STEPS = ((86400.0, "days"), (3600.0, "h"), (60.0, "min"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Age:
    """How old a prepared transaction is, in every way that counts."""

    age_s: float
    xids: int
    """Transactions that this server has begun since."""
    freeze_xids: int
    """``autovacuum_freeze_max_age``: at this age vacuum is forced, and can do nothing about it."""
    log_bytes: int
    """The log that the logical slot furthest behind keeps; slots cannot move past what is prepared."""
    slot: str
    """Its name; empty if there is none."""

    def warnings(self) -> tuple[str, ...]:
        """What somebody should hear of, in sentences; the worst last."""
        results = []
        if self.age_s >= OLD_S:
            results.append(
                f"prepared for {duration(self.age_s)}: no vacuum cleans up what is younger, in any "
                "table of this database"
            )
        if self.log_bytes >= _MUCH_BYTES:
            results.append(
                f"slot {self.slot} keeps {size(self.log_bytes)} of log: no slot moves past what is prepared"
            )
        if self.xids >= self.freeze_xids:
            results.append(
                f"{self.xids:,} transactions old, over autovacuum_freeze_max_age: forced vacuums run and "
                f"freeze nothing; {self._left()}"
            )
        elif self.xids >= _NEAR * self.freeze_xids:
            results.append(
                f"{self.xids:,} transactions old, {self.xids / self.freeze_xids:.0%} of "
                f"autovacuum_freeze_max_age; {self._left()}"
            )
        return tuple(results)

    def _left(self) -> str:
        left = max(STOPS_AT_XIDS - self.xids, 0)
        return f"the server takes no more changes in {left:,} transactions"


def duration(seconds: float) -> str:
    """``3.2 h``: in the largest unit of which there is one."""
    for length, unit in _STEPS:
        if seconds >= length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.1f} s"


def size(count: int) -> str:
    """``12.3 MB``."""
    value, unit = float(count), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"
