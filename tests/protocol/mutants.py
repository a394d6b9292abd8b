"""Planted bugs of the protocol: each breaks one rule that the machines keep.

Most are taken from bugs of real coordinators. `test_mutants` shows that the walks find each of
them; a check that has never failed proves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.protocol.values import Faults
from twopc.protocol import effects as x
from twopc.protocol import events as e
from twopc.protocol import recovery
from twopc.protocol.coordinator import Coordinator
from twopc.protocol.effects import COORDINATOR, Message, Outcome, Record, RecordKind, log, send
from twopc.protocol.participant import Participant
from twopc.protocol.second_phase import BranchProgress
from twopc.protocol.states import COORDINATOR as TABLE
from twopc.protocol.states import CoordinatorState, ParticipantState, Transition
from twopc.protocol.variants import (
    LAST_AGENT,
    PRESUMED_ABORT,
    PRESUMED_COMMIT,
    PRESUMED_NOTHING,
    Variant,
)

_Effects = tuple[x.Effect, ...]
_C = CoordinatorState


class TellsBeforeLogged(Coordinator):
    """Sends commit with the decision record instead of after it."""

    def _force(self, kind: RecordKind, names: tuple[str, ...], state: _C) -> _Effects:
        effects = super()._force(kind, names, state)
        told = x.send_all(names, Message.COMMIT) if kind is RecordKind.COMMIT else ()
        return (*effects, *told)


class ForgetsEarly(Coordinator):
    """Writes END with the first round of commits, before any participant has acknowledged."""

    def _commit(self, prepared: tuple[str, ...], now: float) -> _Effects:
        return (*super()._commit(prepared, now), log(RecordKind.END, forced=False))


class UnforcedDecision(Coordinator):
    """Does not wait until the decision record is durable."""

    def _voted(self, event: Any, now: float) -> _Effects:
        effects = super()._voted(event, now)
        if self.state is not _C.DECIDING or self._record is None:
            return effects
        unforced = x.Log(record=self._record, forced=False)
        return (*effects[:-1], unforced, *self._commit(self._record.participants, now))


class UnknownIsReadOnly(Coordinator):
    """Treats a lost connection as a branch that needs no second phase."""

    def _voted(self, event: Any, now: float) -> _Effects:
        if isinstance(event, e.VoteUnknown):
            event = e.VotedReadOnly(participant=event.participant)
        return super()._voted(event, now)


class UnknownIsYes(Coordinator):
    """Treats a lost connection as a yes vote."""

    def _voted(self, event: Any, now: float) -> _Effects:
        if isinstance(event, e.VoteUnknown):
            event = e.VotedYes(participant=event.participant)
        return super()._voted(event, now)


class NoIsOutvoted(Coordinator):
    """Commits the branches that are prepared although another one voted no."""

    def _abort(self, reason: str, now: float) -> _Effects:
        prepared = self._prepared()
        if BranchProgress.NO in self._branches.values() and prepared:
            return self._force(RecordKind.COMMIT, prepared, _C.DECIDING)
        return super()._abort(reason, now)


class CountsRepeatedVotes(Coordinator):
    """Counts votes instead of voters."""

    def _voted(self, event: Any, now: float) -> _Effects:
        if self._branches.get(event.participant) is BranchProgress.YES:
            self._branches[event.participant] = BranchProgress.ASKED
        return super()._voted(event, now)


class GuessesLog(Coordinator):
    """Treats a decision record of unknown fate as not written."""

    def _maybe_decided(self, event: e.LogUnknown, now: float) -> _Effects:
        self._check(event)
        return self._abort("the log did not answer", now)


class GuessesLogWritten(Coordinator):
    """Treats a decision record of unknown fate as written."""

    def _maybe_decided(self, event: e.LogUnknown, now: float) -> _Effects:
        record = self._check(event)
        return self._commit(record.participants, now)


class GivesUpTooLate(
    Coordinator,
    table=TABLE
    | {
        (_C.DECIDING, e.AbortAsked): Transition("give_up", (_C.ABORTING, _C.ENDED)),
    }
    | {
        (state, event): Transition("ignore", (state,))
        for state in (_C.ABORTING, _C.ENDED)
        for event in (e.Logged, e.LogFailed, e.LogUnknown)
    },
):
    """Lets the application abort while the decision is being written."""


class NeverResends(Coordinator):
    """Sends the decision only once."""

    def _commit_again(self, event: e.TimerFired, now: float) -> _Effects:
        return ()


class DoesNotFence(Coordinator):
    """Ignores a branch whose vote did not arrive, as if it could not be prepared."""

    def _tell_abort(self, now: float) -> _Effects:
        for name, branch in self._branches.items():
            if branch in (BranchProgress.ASKED, BranchProgress.UNKNOWN):
                self._branches[name] = BranchProgress.NO
        return super()._tell_abort(now)


class AnswersTwice(Coordinator):
    """Answers the application a second time."""

    def _answer(self, outcome: Outcome, reason: str = "") -> _Effects:
        self._answered = False
        return super()._answer(outcome, reason)


class PresumesForAgent(Coordinator):
    """Aborts when the last agent does not answer in time, instead of asking it."""

    def _agent_overdue(self, event: e.TimerFired, now: float) -> _Effects:
        self._branches[self._names[-1]] = BranchProgress.NO
        return self._abort("the last agent did not answer", now)


class VotesEarly(Participant):
    """Votes yes while the prepare record is being written."""

    def _prepare(self, event: e.PrepareAsked, now: float) -> _Effects:
        effects = super()._prepare(event, now)
        if self.state is ParticipantState.PREPARING:
            return (*effects, send(COORDINATOR, Message.VOTE_YES))
        return effects


class AcksEarly(Participant):
    """Acknowledges a commit that is not durable."""

    def _finish(self, outcome: Outcome, *, acked: bool) -> _Effects:
        effects = super()._finish(outcome, acked=False)
        if acked and outcome is Outcome.COMMITTED:
            return (*effects, send(COORDINATOR, Message.COMMITTED))
        return super()._finish(outcome, acked=acked) if acked else effects


class TiresOfWaiting(Participant):
    """Rolls back a prepared branch when no decision arrives."""

    def _inquire(self, event: e.TimerFired, now: float) -> _Effects:
        return self._finish(Outcome.ABORTED, acked=False)


class FalseYes(Participant):
    """Votes yes for a branch that has failed, like a driver that does not read the command tag."""

    def _vote_again(self, event: e.PrepareAsked, now: float) -> _Effects:
        return (send(COORDINATOR, Message.VOTE_YES),)


class OvertakesPrepare(Participant):
    """Answers a fence with "nothing to abort" while the prepare record is being written."""

    def _fence(self, event: e.FenceTold, now: float) -> _Effects:
        return (send(COORDINATOR, Message.ABORTED),)


class AgentKeepsNoRecord(Participant):
    """As last agent without changes, commits without the record on which other branches rely."""

    def _decide(self, event: e.DecideAsked, now: float) -> _Effects:
        alone = e.DecideAsked(participants=()) if not self.wrote else event
        return super()._decide(alone, now)


class Mute(Participant):
    """Never inquires, as PostgreSQL, where a prepared transaction waits to be finished; not a bug."""

    def _inquire(self, event: e.TimerFired, now: float) -> _Effects:
        return ()


class MuteAndOvertaken(OvertakesPrepare, Mute):
    """A participant with both of these properties."""


def commit_unlogged(variant: Variant, records: Sequence[Record]) -> Message | None:
    """Answer an inquiry about an unknown transaction with commit."""
    return recovery.answer(variant, records) if records else Message.COMMIT


def abort_always(variant: Variant, records: Sequence[Record]) -> Message | None:
    """Answer every inquiry with abort, regardless of the variant's presumption."""
    return Message.ABORT


_BAD_DAY = Faults(crashes=2, losses=1, duplicates=2, unknown=1, log_faults=1, hasty=2, give_ups=1)
#: The coordinator's process stays alive, so there is no recovery.
_NO_CRASH = Faults(losses=1, unknown=1, hasty=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A planted bug, and the world in which it is detected."""

    bug: Any
    """A machine, a variant, or the function that answers inquiries."""
    variant: Variant = PRESUMED_ABORT
    faults: Faults = _BAD_DAY
    writers: str = "abc"
    mute: bool = False
    """Whether participants never inquire, so that only the coordinator can settle them."""

    @property
    def name(self) -> str:
        """Name of the bug and the variant, for the test's id."""
        named = self.bug.name if isinstance(self.bug, Variant) else self.bug.__name__
        return f"{named}-{self.variant.name}"


_ON_POSTGRES = PRESUMED_ABORT.on_postgres()

MUTANTS: tuple[Mutant, ...] = (
    Mutant(bug=TellsBeforeLogged),
    Mutant(bug=TellsBeforeLogged, variant=PRESUMED_NOTHING),
    Mutant(bug=ForgetsEarly),
    Mutant(bug=UnforcedDecision),
    Mutant(bug=UnforcedDecision, variant=PRESUMED_COMMIT),
    Mutant(bug=UnknownIsReadOnly),
    Mutant(bug=UnknownIsReadOnly, variant=LAST_AGENT),
    Mutant(bug=UnknownIsYes),
    Mutant(bug=NoIsOutvoted, faults=Faults(work_failures=1)),
    Mutant(bug=CountsRepeatedVotes),
    Mutant(bug=GuessesLog, faults=Faults(crashes=1, log_faults=1)),
    Mutant(bug=GuessesLogWritten, faults=Faults(crashes=1, losses=1, log_faults=1, hasty=2)),
    Mutant(bug=GivesUpTooLate, variant=_ON_POSTGRES, faults=Faults(crashes=1, give_ups=1)),
    Mutant(bug=NeverResends, variant=_ON_POSTGRES, faults=_NO_CRASH, mute=True),
    Mutant(bug=DoesNotFence, variant=_ON_POSTGRES, faults=_NO_CRASH, mute=True),
    Mutant(bug=AnswersTwice),
    Mutant(bug=PresumesForAgent, variant=LAST_AGENT),
    Mutant(bug=VotesEarly),
    Mutant(bug=AcksEarly),
    Mutant(bug=TiresOfWaiting),
    Mutant(bug=FalseYes, faults=Faults(work_failures=1)),
    Mutant(bug=MuteAndOvertaken, variant=_ON_POSTGRES, faults=_NO_CRASH),
    Mutant(bug=AgentKeepsNoRecord, variant=LAST_AGENT, writers="a"),
    Mutant(bug=commit_unlogged),
    Mutant(bug=abort_always, variant=PRESUMED_COMMIT),
    # variants without a part that they depend on
    Mutant(bug=replace(PRESUMED_COMMIT, name="collects_nothing", collects=False)),
    Mutant(bug=replace(PRESUMED_COMMIT, name="forgets_aborts", abort_acked=False)),
    Mutant(bug=replace(PRESUMED_ABORT, name="forgets_commits", commit_acked=False)),
    Mutant(bug=replace(PRESUMED_ABORT, name="presumes_wrongly", presumes=Outcome.COMMITTED)),
)
