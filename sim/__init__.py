"""The simulator's public interface: topologies, on which scenarios are run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twopc.sim.merge import MergeTopology
    from twopc.sim.topology import Topology

__all__ = ["MergeTopology", "Topology"]


def __getattr__(name: str) -> Any:
    """Import a topology's class at its first use: the command line does not need it to print help."""
    if name == "Topology":
        from twopc.sim.topology import Topology  # imports psycopg and both ends

        return Topology
    if name == "MergeTopology":
        from twopc.sim.merge import MergeTopology  # imports psycopg and both ends

        return MergeTopology
    raise AttributeError(f"module 'twopc.sim' has no attribute {name!r}")
