"""The one place where both ends are wired together: nodes, servers, links, a running system."""

from __future__ import annotations

from twopc.sim.topology.nodes import Node
from twopc.sim.topology.topology import Topology

__all__ = ["Node", "Topology"]
