"""The choice of the model's parts: the only place at which a bug can be planted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from twopc.drivers.engine import CoordinatorEngine
from twopc.drivers.keeper import Keeper
from twopc.drivers.postgres import Driver
from twopc.drivers.recovery import Recovery
from twopc.drivers.resolver import Resolver
from twopc.drivers.resolver_watch import ResolverLoop
from twopc.drivers.several import SeveralDriver
from twopc.drivers.snapshot_agent import SnapshotAgent
from twopc.protocol import Participant
from twopc.publisher.log_reader import LogReaderEngine as LogReader
from twopc.sim.model.application import ModelLinkedSession
from twopc.sim.model.ledger import DecisionLedger
from twopc.sim.model.log_client import ModelLog
from twopc.sim.model.sites import ModelSite
from twopc.subscriber.distribution_agent import DistributionAgent
from twopc.subscriber.distribution_agent.synchronisation import Synchronisation

#: Replacements of functions of the model by name; see `twopc.sim.model.system.PARTS` for names and signatures.
Parts = Mapping[str, Callable[..., Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """Factories of the model's parts. The defaults are the product's own classes and functions."""

    driver: type[Driver] = Driver
    """Driver of a transaction; its class determines the decision and how votes are read."""
    several: type[SeveralDriver] = SeveralDriver
    """Driver of a transaction at several Subscribers; see `driver`."""
    engine: type[CoordinatorEngine] = CoordinatorEngine
    """Engine of a process's transactions."""
    session: type[ModelLinkedSession] = ModelLinkedSession
    """Session of an application at a Subscriber."""
    keeper: type[Keeper] = Keeper
    """Background work of a process."""
    recovery: type[Recovery] = Recovery
    resolver: type[Resolver] = Resolver
    """Resolver of clients without a coordinator."""
    resolver_loop: type[ResolverLoop] = ResolverLoop
    """Loop that decides when the resolver looks for branches."""
    participant: type[Participant] = Participant
    """The machine of a branch at a node."""
    ledger: type[DecisionLedger] = DecisionLedger
    """The decision log on its server."""
    log: type[ModelLog] = ModelLog
    """The decision log as a coordinator writes it; its class determines the gids."""
    site: type[ModelSite] = ModelSite
    """A node as drivers and recovery see it."""
    log_reader: type[LogReader] = LogReader
    """The log reader; its class determines the treatment of the WAL's messages."""
    agent: type[DistributionAgent] = DistributionAgent
    """The distribution agent of a Subscriber; its class determines planning, delivery and mending."""
    synchronisation: type[Synchronisation] = Synchronisation
    """Runs log reader and agents."""
    snapshot_agent: type[SnapshotAgent] = SnapshotAgent
    """Snapshot agent for a Subscriber's copy."""
    parts: Parts = field(default_factory=dict)
    """Replacements, by names in the `PARTS` of `replication.behaviour` and `distribution.system_distribution`."""
    names: tuple[str, ...] = ()
    """Names of the plants, for the history's header."""


Plant = Callable[[Wiring], Wiring]


def replacing(**fields: Any) -> Plant:
    """Return a plant that replaces these fields of a wiring."""
    return lambda wiring: replace(wiring, **fields)


def ruled_by(**parts: Callable[..., Any]) -> Plant:
    """Return a plant that replaces these `parts` of a wiring, by name."""
    return lambda wiring: replace(wiring, parts={**wiring.parts, **parts})
