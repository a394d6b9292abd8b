"""Topologies of merge replication: a Publisher and its Subscribers as real PostgreSQL databases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twopc.sim.merge.topology import MergeTopology

__all__ = ["MergeTopology"]


def __getattr__(name: str) -> Any:
    """Import the topology at its first use: checking a scenario needs only the topology's shape."""
    if name == "MergeTopology":
        from twopc.sim.merge.topology import MergeTopology  # imports psycopg

        return MergeTopology
    raise AttributeError(f"module 'twopc.sim.merge' has no attribute {name!r}")
