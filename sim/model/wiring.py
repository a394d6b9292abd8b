"""How the model's parts are chosen: the one place where a bug can be planted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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

#: Replaced behaviour of the model's own parts, by name; see `twopc.sim.model.system.PARTS` for names and signatures.
Parts = Mapping[str, Callable[..., Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """Factories. The defaults are the product's own classes and functions."""

    driver: type[Driver] = Driver
    """Of a transaction; its class says what decides, and how votes are read."""
    several: type[SeveralDriver] = SeveralDriver
    """The same, of a transaction at several Subscribers."""
    engine: type[CoordinatorEngine] = CoordinatorEngine
    """Of a process's transactions."""
    session: type[ModelLinkedSession] = ModelLinkedSession
    """Of an application at a Subscriber."""
    keeper: type[Keeper] = Keeper
    """What goes on in the background of a process."""
    recovery: type[Recovery] = Recovery
    resolver: type[Resolver] = Resolver
    """Of any client's transactions."""
    resolver_loop: type[ResolverLoop] = ResolverLoop
    """When it looks."""
    participant: type[Participant] = Participant
    """The machine of a branch at a node."""
    ledger: type[DecisionLedger] = DecisionLedger
    """The decision log at its place."""
    log: type[ModelLog] = ModelLog
    """The decision log as a coordinator writes it; its class says how transactions are called."""
    site: type[ModelSite] = ModelSite
    """A node as drivers and recovery ask it."""
    log_reader: type[LogReader] = LogReader
    """Its class says what becomes of the log's messages."""
    agent: type[DistributionAgent] = DistributionAgent
    """Of a Subscriber; its class says what plans, delivers and mends."""
    synchronisation: type[Synchronisation] = Synchronisation
    """Drives log reader and agents."""
    snapshot_agent: type[SnapshotAgent] = SnapshotAgent
    """Of a Subscriber's copy."""
    parts: Parts = field(default_factory=dict)
    """Those of `twopc.sim.model.replication.behaviour.PARTS` and `twopc.sim.model.distribution.system_distribution.PARTS`."""
    names: tuple[str, ...] = ()
    """Of the plants, for the history's header."""


Plant = Callable[[Wiring], Wiring]
