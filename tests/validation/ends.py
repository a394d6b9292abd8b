"""The databases that a validation of a topology's Subscriber connects to."""

from __future__ import annotations

from twopc.sim.topology import Topology
from twopc.sim.validation import ValidationEnds


def ends(topology: Topology, subscriber: str) -> ValidationEnds:
    """Return the connections of a validation, as the topology's administrators."""
    return ValidationEnds(
        publisher=topology.publisher,
        subscriber=subscriber,
        publisher_dsn=topology.node(topology.publisher).dsn,
        distribution_dsn=topology.node(topology.distribution).dsn,
        subscriber_dsn=topology.node(subscriber).dsn,
    )
