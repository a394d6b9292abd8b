"""Merge replication, wired: a Publisher and its Subscribers as real PostgreSQL databases."""

from __future__ import annotations

from twopc.sim.merge.topology import MergeTopology

__all__ = ["MergeTopology"]
