"""Plays an archive again, and says where what comes of it differs from what was recorded."""

from __future__ import annotations

from twopc.sim.spark.replay.report import ReplayReport
from twopc.sim.spark.replay.rows import compare_states, onto_rows

__all__ = ["ReplayReport", "compare_states", "onto_rows"]
