"""Merge replication, wired: a Publisher and its Subscribers as real PostgreSQL databases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twopc.sim.merge.topology import MergeTopology

__all__ = ["MergeTopology"]


def __getattr__(name: str) -> Any:
    """The topology is imported at its first use: who checks a scenario asks for its shape only."""
    if name == "MergeTopology":
        from twopc.sim.merge.topology import MergeTopology  # with all of psycopg

        return MergeTopology
    raise AttributeError(f"module 'twopc.sim.merge' has no attribute {name!r}")
