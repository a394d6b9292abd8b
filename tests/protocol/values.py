"""The values that a world in memory is made of; see `tests.protocol.world`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tests.protocol.frozen import Frozen
from twopc.protocol.effects import Message, Outcome, Record, Timer
from twopc.protocol.variants import PRESUMED_ABORT, Settings

#: No bound: not counted down.
ANY = -1
_DEFAULT = Settings(variant=PRESUMED_ABORT)


class Packet(NamedTuple):
    """A message under way."""

    source: str
    to: str
    message: Message
    participants: tuple[str, ...] = ()
    reason: str = ""


class Disk(NamedTuple):
    """A node's log of this one transaction."""

    records: tuple[Record, ...] = ()
    durable: int = 0
    """So many records survive a crash surely; each further one may."""
    pending: bool = False
    """The last record is being forced."""

    @property
    def safe(self) -> tuple[Record, ...]:
        """What survives surely."""
        return self.records[: self.durable]


class Faults(NamedTuple):
    """How many of each may still happen."""

    crashes: int = 0
    losses: int = 0
    duplicates: int = 0
    unknown: int = 0
    """Connections lost: reported, while what was sent over them may still arrive."""
    log_faults: int = 0
    stale: int = 0
    """Timers that fire although they were cancelled, or never set."""
    work_failures: int = 0
    give_ups: int = 0
    by_hand: int = 0
    hasty: int = 0
    """Timers that fire although something else is due; `ANY` of them. Alone they fire freely."""


_NONE = Faults()


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """One little world."""

    settings: Settings = _DEFAULT
    participants: tuple[str, ...] = ("a", "b")
    writers: frozenset[str] = frozenset({"a", "b", "c"})
    faults: Faults = _NONE


class State(NamedTuple):
    """Everything there is, at one moment."""

    up: bool
    """Whether the coordinator's node is."""
    machines: tuple[tuple[str, Frozen], ...]
    """At the coordinator: the transaction's under ``""``, resolvers under their branch."""
    branches: tuple[Frozen | None, ...]
    """None: that node is down."""
    disks: tuple[Disk, ...]
    """The coordinator's first."""
    net: frozenset[Packet]
    timers: frozenset[tuple[str, str, Timer]]
    """Node, machine, name."""
    reading: bool
    """The coordinator's log is being read back."""
    answer: Outcome | None
    """What the application was told."""
    seen: tuple[Outcome | None, ...]
    """How each branch that wrote has ended, ever."""
    damage: bool
    """An outcome by hand was reported."""
    faults: Faults
