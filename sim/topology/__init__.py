"""A running topology, in which both ends are wired together: nodes, servers and links."""

from __future__ import annotations

from twopc.sim.topology.nodes import Node
from twopc.sim.topology.topology import Topology

__all__ = ["Node", "Topology"]
