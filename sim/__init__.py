"""The simulator's public face: build a topology, run scenarios on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twopc.sim.topology import Topology

__all__ = ["Topology"]


def __getattr__(name: str) -> Any:
    """`Topology` is imported at its first use: the command line does not need it to print help."""
    if name == "Topology":
        from twopc.sim.topology import Topology  # with psycopg and all of both ends

        return Topology
    raise AttributeError(f"module 'twopc.sim' has no attribute {name!r}")
