"""The choice of how a Subscriber is initialised, in the order of seed 003. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class InitialisationMethod(StrEnum):
    """The source of a Subscriber's first rows."""

    APPLY = "apply"
    """An existing snapshot in files."""
    GENERATE = "generate"
    """A snapshot in files that is made for the Subscriber."""
    SELECT = "select"
    """The Publisher's tables themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFacts:
    """Facts on which the choice depends. A snapshot counts only if the Publisher can still continue from its
    generation.
    """

    given: str | None = None
    """The location named in the call that subscribes."""
    pregenerated: str | None = None
    """Location of a snapshot that an administrator has made, of the Subscriber's partition if there are partitions."""
    subscribers_may_start: bool = False
    """Whether the publication lets Subscribers have snapshots made."""
    shared: str | None = None
    """Location of a snapshot that was made for another Subscriber of the same partition."""


@dataclass(frozen=True, slots=True)
class InitialisationStep:
    """The chosen way of initialisation."""

    method: InitialisationMethod
    location: str | None = None
    """The folder of the snapshot; None if the snapshot does not exist yet, or none is needed."""
    may_be_made: bool = False
    """Whether a new snapshot is made for the Subscriber if this one is outdated."""


def choose(facts: SnapshotFacts) -> InitialisationStep:
    """Return the first possible way of initialisation, in the order of seed 003."""
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
