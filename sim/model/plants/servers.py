"""Bugs of servers: what they answer, and what their disks have by then."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sim.model.explore.words import Budget, PlantedBug
from twopc.protocol import Participant
from twopc.protocol import effects as x
from twopc.protocol import events as e
from twopc.protocol.effects import RecordKind

_Effects = tuple[x.Effect, ...]


def served_by(participant: type[Participant]) -> Any:
    """A plant that puts another machine in every branch."""
    return lambda wiring: replace(wiring, participant=participant)


def _unforced(machine: Participant, effects: _Effects, now: float, kind: RecordKind) -> _Effects:
    """The same, but nobody waits for the disk."""
    done: list[x.Effect] = []
    for effect in effects:
        if isinstance(effect, x.Log) and effect.forced and effect.record.kind is kind:
            done.append(replace(effect, forced=False))
            done += machine.receive(e.Logged(record=effect.record), now)
        else:
            done.append(effect)
    return tuple(done)


class VotesEarly(Participant):
    """Votes yes before it is sure to survive a crash."""

    def receive(self, event: e.Event, now: float) -> _Effects:
        """As it should be, but early."""
        return _unforced(self, super().receive(event, now), now, RecordKind.PREPARED)


_DOWN = Budget(of=("publisher",), deviations=0)

PLANTS = (
    PlantedBug(
        name="unforced_prepare",
        why="a vote is a promise, and a crash does not excuse from it",
        source="fsync = off",
        plant=served_by(VotesEarly),
        program="transfer",
        budget=_DOWN,
        breaks=("I1", "I3", "I4"),
    ),
)
