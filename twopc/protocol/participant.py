"""The participant's machine: one instance for each branch of a global transaction.

The machine models PostgreSQL's treatment of a branch without depending on PostgreSQL: work, PREPARE TRANSACTION,
then COMMIT PREPARED or ROLLBACK PREPARED. It is used where nodes are models and in the protocol's tests; a real
server plays this part itself.
"""

from __future__ import annotations

from twopc.protocol import effects as x
from twopc.protocol import events as e
from twopc.protocol.effects import (
    COORDINATOR,
    NOTHING,
    Message,
    Outcome,
    RecordKind,
    Timer,
    log,
    send,
)
from twopc.protocol.machine import Machine
from twopc.protocol.states import PARTICIPANT, ParticipantState
from twopc.protocol.variants import Settings

_P = ParticipantState
_Effects = tuple[x.Effect, ...]

_CANCEL_IDLE = x.CancelTimer(name=Timer.IDLE)
_CANCEL_INQUIRY = x.CancelTimer(name=Timer.INQUIRY)
_ACK_OF = {Outcome.COMMITTED: Message.COMMITTED, Outcome.ABORTED: Message.ABORTED}


class Participant(Machine, table=PARTICIPANT):
    """Machine of one branch, which holds its locks until it learns the coordinator's decision."""

    __slots__ = ("_fenced", "_record", "_settings", "_silent", "outcome", "reason", "wrote")

    def __init__(self, settings: Settings) -> None:
        super().__init__(_P.NEW)
        self._settings = settings
        self._record: x.Record | None = None
        """Record that is being forced."""
        self._fenced = False
        """Whether a fence arrived while the prepare record was being forced."""
        self._silent = False
        """Whether the branch was finished manually, so that no message is sent about it."""
        self.wrote = False
        """Whether the branch changed anything."""
        self.outcome: Outcome | None = None
        """COMMITTED, ABORTED or READ_ONLY once the branch has ended, or can only end so."""
        self.reason = ""
        """Reason why the branch rolled back on its own."""

    def resume(self, outcome: Outcome | None, now: float) -> tuple[x.Effect, ...]:
        """Resume, in a new machine, a branch that a crash interrupted.

        Args:
            outcome: the branch's outcome; None if it is prepared.
            now: as for `receive`.
        """
        self.wrote = True
        if outcome is not None:
            self._end(outcome)
            return NOTHING
        self._state = _P.PREPARED
        return (send(COORDINATOR, Message.INQUIRE), self._inquiry_timer(now))

    # -- work --------------------------------------------------------------------------------------

    def _begin(self, event: e.WorkBegun, now: float) -> _Effects:
        self._state = _P.WORKING
        return (x.SetTimer(name=Timer.IDLE, at=now + self._settings.idle_timeout_s),)

    def _wrote(self, event: e.Wrote, now: float) -> _Effects:
        self.wrote = True
        return NOTHING

    def _failed(self, event: e.WorkFailed, now: float) -> _Effects:
        return self._lose(event.reason)

    def _idle(self, event: e.TimerFired, now: float) -> _Effects:
        if event.name is not Timer.IDLE:
            return NOTHING
        return self._lose("idle in transaction for too long")

    def _lose(self, reason: str) -> _Effects:
        self.reason = reason
        self._end(Outcome.ABORTED)
        return (_CANCEL_IDLE,)

    # -- the vote ----------------------------------------------------------------------------------

    def _prepare(self, event: e.PrepareAsked, now: float) -> _Effects:
        if not self.wrote and self._settings.variant.read_only_votes:
            self._end(Outcome.READ_ONLY)
            return (_CANCEL_IDLE, send(COORDINATOR, Message.VOTE_READ_ONLY))
        return (
            _CANCEL_IDLE,
            *self._force(RecordKind.PREPARED, _P.PREPARING, event.participants),
        )

    def _prepared(self, event: e.Logged, now: float) -> _Effects:
        self._check(event)
        if self._fenced:
            return self._finish(Outcome.ABORTED, acked=True)
        self._state = _P.PREPARED
        return (send(COORDINATOR, Message.VOTE_YES), self._inquiry_timer(now))

    def _not_prepared(self, event: e.LogFailed, now: float) -> _Effects:
        self._check(event)
        self.reason = event.reason
        self._end(Outcome.ABORTED)
        answer = send(COORDINATOR, Message.ABORTED) if self._fenced else self._no()
        return (answer,)

    def _vote_no(self, event: e.PrepareAsked | e.DecideAsked, now: float) -> _Effects:
        self.reason = "the branch's work is not here"
        self._end(Outcome.ABORTED)
        return (self._no(),)

    def _vote_yes(self, event: e.PrepareAsked, now: float) -> _Effects:
        return (send(COORDINATOR, Message.VOTE_YES),)

    def _vote_again(self, event: e.PrepareAsked, now: float) -> _Effects:
        if self.outcome is Outcome.ABORTED:
            return (self._no(),)
        if self.outcome is Outcome.READ_ONLY:
            return (send(COORDINATOR, Message.VOTE_READ_ONLY),)
        return NOTHING  # committed: the coordinator received the vote before it decided

    def _no(self) -> x.Send:
        return x.Send(to=COORDINATOR, message=Message.VOTE_NO, reason=self.reason)

    # -- last agent --------------------------------------------------------------------------------

    def _decide(self, event: e.DecideAsked, now: float) -> _Effects:
        if self.wrote or event.participants:  # other branches wait, so the decision must be durable
            self.outcome = Outcome.COMMITTED
            return (
                _CANCEL_IDLE,
                *self._force(RecordKind.COMMITTED, _P.DECIDING, event.participants),
            )
        self._end(Outcome.READ_ONLY)
        return (_CANCEL_IDLE, send(COORDINATOR, Message.VOTE_READ_ONLY))

    # -- the decision ------------------------------------------------------------------------------

    def _inquire(self, event: e.TimerFired, now: float) -> _Effects:
        if event.name is not Timer.INQUIRY:
            return NOTHING
        return (send(COORDINATOR, Message.INQUIRE), self._inquiry_timer(now))

    def _commit(self, event: e.CommitTold, now: float) -> _Effects:
        acked = self._settings.variant.awaits_commit
        return (_CANCEL_INQUIRY, *self._finish(Outcome.COMMITTED, acked=acked))

    def _abort(self, event: e.AbortTold | e.FenceTold, now: float) -> _Effects:
        acked = self._settings.variant.awaits_abort or type(event) is e.FenceTold
        return (_CANCEL_INQUIRY, *self._finish(Outcome.ABORTED, acked=acked))

    def _by_hand(self, event: e.ResolvedByHand, now: float) -> _Effects:
        committed = event.outcome is Outcome.COMMITTED
        kind = RecordKind.COMMITTED if committed else RecordKind.ABORTED
        self.outcome = Outcome.COMMITTED if committed else Outcome.ABORTED
        self._silent = True
        return (_CANCEL_INQUIRY, *self._force(kind, _P.COMMITTING if committed else _P.ABORTING))

    def _finish(self, outcome: Outcome, *, acked: bool) -> _Effects:
        """End a prepared branch; its record is forced if the end is acknowledged, since a crash must not revoke an
        acknowledgement.
        """
        committed = outcome is Outcome.COMMITTED
        kind = RecordKind.COMMITTED if committed else RecordKind.ABORTED
        if acked:
            self.outcome = outcome
            return self._force(kind, _P.COMMITTING if committed else _P.ABORTING)
        self._end(outcome)
        return (log(kind, forced=False),)

    def _ended(self, event: e.Logged, now: float) -> _Effects:
        self._check(event)
        assert self.outcome is not None
        self._state = _P.ENDED
        return NOTHING if self._silent else (send(COORDINATOR, _ACK_OF[self.outcome]),)

    def _not_ended(self, event: e.LogFailed, now: float) -> _Effects:
        """Return the branch to the prepared state, as after a COMMIT PREPARED that fails."""
        self._check(event)
        self.outcome = None
        self._silent = False
        self._state = _P.PREPARED
        return (self._inquiry_timer(now),)

    # -- early and repeated messages ---------------------------------------------------------------

    def _fence(self, event: e.FenceTold, now: float) -> _Effects:
        self._fenced = True
        return NOTHING

    def _roll_back(self, event: e.AbortTold | e.FenceTold, now: float) -> _Effects:
        fenced = type(event) is e.FenceTold
        effects: list[x.Effect] = [_CANCEL_IDLE] if self._state is _P.WORKING else []
        self.reason = "told to abort"
        self._end(Outcome.ABORTED)
        if fenced:  # on PostgreSQL the marker row, with which a late prepare conflicts
            effects.append(log(RecordKind.ABORTED, forced=False))
        if fenced or self._settings.variant.awaits_abort:
            effects.append(send(COORDINATOR, Message.ABORTED))
        return tuple(effects)

    def _tell(
        self, event: e.CommitTold | e.AbortTold | e.FenceTold | e.DecideAsked, now: float
    ) -> _Effects:
        """Report the branch's outcome, even if it contradicts the message received."""
        variant = self._settings.variant
        kind = type(event)
        if self.outcome is Outcome.COMMITTED:
            if kind is e.CommitTold and not variant.awaits_commit:
                return NOTHING
            return (send(COORDINATOR, Message.COMMITTED),)
        if kind is e.CommitTold and self.outcome is Outcome.READ_ONLY:
            raise self._refusal(event, "is for a branch that left with its vote")
        if kind is e.DecideAsked and self.outcome is Outcome.READ_ONLY:
            return (send(COORDINATOR, Message.VOTE_READ_ONLY),)
        if kind is e.AbortTold and not variant.awaits_abort:
            return NOTHING
        return (send(COORDINATOR, Message.ABORTED),)

    # -- helpers -----------------------------------------------------------------------------------

    def _force(self, kind: RecordKind, state: _P, participants: tuple[str, ...] = ()) -> _Effects:
        effect = log(kind, participants, forced=True)
        self._record = effect.record
        self._state = state
        return (effect,)

    def _check(self, event: e.Logged | e.LogFailed) -> None:
        if event.record is not self._record and event.record != self._record:
            raise self._refusal(event, "is not about the record being logged")

    def _inquiry_timer(self, now: float) -> x.SetTimer:
        return x.SetTimer(name=Timer.INQUIRY, at=now + self._settings.inquiry_s)

    def _end(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self._state = _P.ENDED
