"""Bugs of servers: answers that are given before the disk has the data."""

from __future__ import annotations

from dataclasses import replace

from twopc.drivers.ports import PreparedBranch
from twopc.protocol import Participant
from twopc.protocol import effects as x
from twopc.protocol import events as e
from twopc.protocol.effects import Outcome, RecordKind
from twopc.sim.model.explore.results import Budget, PlantedBug
from twopc.sim.model.sites import ModelSite
from twopc.sim.model.wiring import replacing

_Effects = tuple[x.Effect, ...]


def _unforced(machine: Participant, effects: _Effects, now: float, kind: RecordKind) -> _Effects:
    """Return the effects with forced records of this kind written without waiting for the disk."""
    done: list[x.Effect] = []
    for effect in effects:
        if isinstance(effect, x.Log) and effect.forced and effect.record.kind is kind:
            done.append(replace(effect, forced=False))
            done += machine.receive(e.Logged(record=effect.record), now)
        else:
            done.append(effect)
    return tuple(done)


class VotesEarly(Participant):
    """A participant that votes yes before its prepared record is durable."""

    def receive(self, event: e.Event, now: float) -> _Effects:
        """See `Participant`; do not wait until the vote is durable."""
        return _unforced(self, super().receive(event, now), now, RecordKind.PREPARED)


class AnswersEarly(Participant):
    """A participant that acknowledges a commit before its record is durable."""

    def receive(self, event: e.Event, now: float) -> _Effects:
        """See `Participant`; do not wait until the commit is durable."""
        return _unforced(self, super().receive(event, now), now, RecordKind.COMMITTED)


#: Longer than a commit takes, and than recovery waits between two passes.
_PATIENCE_S = 2.0


class TimesOut(ModelSite):
    """A server that rolls back branches that have been prepared for too long."""

    async def prepared(self, prefix: str) -> dict[str, PreparedBranch]:
        """Roll back old branches, and return the others."""
        result = await super().prepared(prefix)
        late = self._node.clock() - _PATIENCE_S
        for gid, one in [*result.items()]:
            if one.prepared_at < late:
                await self.finish(gid, one.owner, Outcome.ABORTED)
                del result[gid]
        return result


_DOWN = Budget(of=("publisher",), deviations=0)

PLANTS = (
    PlantedBug(
        name="unforced_prepare",
        why="a vote is a promise, and a crash does not excuse from it",
        source="fsync = off",
        plant=replacing(participant=VotesEarly),
        program="transfer",
        budget=_DOWN,
        breaks=("I1", "I3", "I4"),
    ),
    PlantedBug(
        name="unforced_commit",
        why="who hears that it is committed forgets the decision, and a crash must not ask for it again",
        source="synchronous_commit = off, if COMMIT PREPARED obeyed it",
        plant=replacing(participant=AnswersEarly),
        program="transfer, and later",
        budget=_DOWN,
        breaks=("I1", "I8"),
    ),
    PlantedBug(
        name="prepared_timeout_rolls_back",
        why="a branch may be old because its server was away, and committed everywhere else",
        source="a patch to PostgreSQL that was proposed in 2026: a timeout for prepared transactions",
        plant=replacing(site=TimesOut),
        program="transfer",
        budget=Budget(of=("subscriber away",), deviations=0),
        breaks=("I1", "I3"),
    ),
)
