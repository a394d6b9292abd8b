"""Planted bugs: each breaks one rule that keeps databases consistent, and must be found by the search.

Most are bugs that real coordinators, poolers and drivers had. They are planted by wiring
(`twopc.sim.model.wiring`): each replaces a class or a rule of the product by a wrong one, and the product's code
does not refer to them. A search that has never found a bug proves nothing.
"""

from __future__ import annotations

from twopc.sim.model.explore.results import PlantedBug
from twopc.sim.model.plants import (
    agent,
    coordinator,
    log,
    log_reader,
    recovery,
    replication,
    resolver,
    servers,
    several,
    snapshot_agent,
    synchronisation,
)

#: All plants, by name.
PLANTS: dict[str, PlantedBug] = {
    one.name: one
    for module in (
        agent,
        coordinator,
        log,
        log_reader,
        recovery,
        resolver,
        replication,
        servers,
        several,
        snapshot_agent,
        synchronisation,
    )
    for one in module.PLANTS
}
