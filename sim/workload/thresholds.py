"""Whether a load's figures keep the bounds that a file sets."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from twopc.sim.scenario.workload import Threshold
from twopc.sim.workload.figures import Figures

_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


def compared(figures: Figures, thresholds: Sequence[Threshold]) -> list[dict[str, Any]]:
    """Each bound in words, what was measured, and whether it was kept.

    Where there is nothing to measure (no commit, and so no latency of one) a bound is not kept: it was meant
    for something that did not happen.
    """
    return [_compared(figures, each) for each in thresholds]


def _compared(figures: Figures, threshold: Threshold) -> dict[str, Any]:
    result = figures.measure(threshold.metric, threshold.unit)
    return {
        "bound": threshold.text,
        "measured": None if result is None else f"{result:.4g}{threshold.unit}",
        "kept": result is not None and _COMPARE[threshold.op](result, threshold.number),
    }
