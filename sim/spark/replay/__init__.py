"""Replay of an archive, with a report of how the result differs from the recording."""

from __future__ import annotations

from twopc.sim.spark.replay.report import ReplayReport
from twopc.sim.spark.replay.rows import compare_states, onto_rows

__all__ = ["ReplayReport", "compare_states", "onto_rows"]
