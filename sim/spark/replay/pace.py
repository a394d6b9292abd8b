"""When a transaction is due, and how late it was."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil


def percentile(ordered: Sequence[float], of: float) -> float:
    """The least value that so many per cent do not exceed."""
    return ordered[max(0, ceil(len(ordered) * of / 100) - 1)]


def speed(text: str) -> float | None:
    """``2x`` as a factor; ``max`` is None.

    Raises:
        ValueError: neither a factor nor ``max``.
    """
    if text == "max":
        return None
    factor = float(text.removesuffix("x"))
    if not 0 < factor < float("inf"):
        raise ValueError(text)
    return factor
