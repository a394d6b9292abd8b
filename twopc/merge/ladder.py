"""How a Subscriber is initialised: the order of decisions of seed 003. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class InitialisationMethod(StrEnum):
    """Where a Subscriber's first rows come from."""

    APPLY = "apply"
    """A snapshot in files, which is there."""
    GENERATE = "generate"
    """A snapshot in files, which is made for it."""
    SELECT = "select"
    """The Publisher's tables themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFacts:
    """What the choice depends on. Snapshots count only if the Publisher can still go on from their generation."""

    given: str | None = None
    """The location that whoever subscribes has named."""
    pregenerated: str | None = None
    """Where a snapshot is that an administrator has made, of the Subscriber's partition if there are partitions."""
    subscribers_may_start: bool = False
    """The publication lets Subscribers have snapshots made."""
    shared: str | None = None
    """Where one is that was made for another Subscriber of the same partition."""


@dataclass(frozen=True, slots=True)
class InitialisationStep:
    """What is done."""

    method: InitialisationMethod
    location: str | None = None
    """The folder of the snapshot; None: it is not there, or none is needed."""
    may_be_made: bool = False
    """If that snapshot is outdated, one is made for the Subscriber."""


def choose(facts: SnapshotFacts) -> InitialisationStep:
    """The first way that is open, in the order of seed 003."""
    if facts.given is not None:
        return InitialisationStep(InitialisationMethod.APPLY, facts.given)
    may_start = facts.subscribers_may_start
    if facts.pregenerated is not None:
        return InitialisationStep(InitialisationMethod.APPLY, facts.pregenerated, may_start)
    if may_start:
        if facts.shared is not None:
            return InitialisationStep(InitialisationMethod.APPLY, facts.shared, may_start)
        return InitialisationStep(InitialisationMethod.GENERATE)
    return InitialisationStep(InitialisationMethod.SELECT)
