"""The coordinator's second phase: the decision is sent until every participant has acknowledged it.

One half of the coordinator's machine, separated to keep modules short; it makes no decisions. See `Coordinator`.
"""

from __future__ import annotations

from enum import Enum, auto

from twopc.protocol import effects as x
from twopc.protocol import events as e
from twopc.protocol.effects import NOTHING, Message, Outcome, RecordKind, Timer, log, send, send_all
from twopc.protocol.machine import Machine
from twopc.protocol.states import CoordinatorState
from twopc.protocol.variants import Settings

_C = CoordinatorState
_Effects = tuple[x.Effect, ...]
_COMMITTED = x.Finish(outcome=Outcome.COMMITTED)
_CANCEL_RESEND = x.CancelTimer(name=Timer.RESEND)
# A crash may lose this unforced record; the transaction is then finished and forgotten again.
_END = log(RecordKind.END, forced=False)


class BranchProgress(Enum):
    """The coordinator's knowledge of a branch."""

    WORKING = auto()
    """Not yet asked for its vote."""
    ASKED = auto()
    """Asked for its vote."""
    YES = auto()
    NO = auto()
    UNKNOWN = auto()
    """The vote will not arrive: the branch may be prepared or not."""
    READ_ONLY = auto()
    TOLD = auto()
    """The decision was sent; its acknowledgement is awaited."""
    SETTLED = auto()


class Finishing(Machine):
    """Fields of the coordinator's machine, and its second phase: sending, acknowledgements and the end."""

    __slots__ = (
        "_answered", "_awaited", "_branches", "_damaged", "_log_holds", "_names", "_record",
        "_resumed", "_settings", "outcome", "reason",
    )  # fmt: skip

    def __init__(self, settings: Settings) -> None:
        super().__init__(_C.NEW)
        self._settings = settings
        self._names: tuple[str, ...] = ()
        self._branches: dict[str, BranchProgress] = {}
        self._awaited = 0
        """Number of branches whose vote or acknowledgement is missing."""
        self._record: x.Record | None = None
        """Record that is being forced or read back."""
        self._log_holds = False
        """Whether the log may hold records that an END record must release."""
        self._answered = False
        """Whether the application has its answer."""
        self._damaged = False
        self._resumed = False
        """Whether the machine was rebuilt from a log, which names only the participants still concerned."""
        self.outcome: Outcome | None = None
        """COMMITTED or ABORTED once decided."""
        self.reason = ""
        """Reason for the abort."""

    @property
    def unsettled(self) -> tuple[str, ...]:
        """Names of the branches that may still be prepared, in order; empty after the end."""
        open_ = (
            BranchProgress.ASKED,
            BranchProgress.YES,
            BranchProgress.UNKNOWN,
            BranchProgress.TOLD,
        )
        return tuple(name for name, branch in self._branches.items() if branch in open_)

    def resume(
        self, outcome: Outcome | None, participants: tuple[str, ...], now: float
    ) -> tuple[x.Effect, ...]:
        """Resume, in a new machine, a transaction that a crash interrupted; called by `recovery`.

        Args:
            outcome: the decision; None if the last agent decides, which is then named last.
            participants: the participants concerned.
            now: as for `receive`.
        """
        self._resumed = True
        self._answered = True  # the application that asked is gone with the old machine
        self._names = participants
        self._branches = dict.fromkeys(participants, BranchProgress.YES)
        if outcome is None:
            return self._resolve(now)
        self._log_holds = True
        if outcome is Outcome.COMMITTED:
            return self._commit(participants, now)
        self._branches = dict.fromkeys(participants, BranchProgress.UNKNOWN)
        self.outcome = Outcome.ABORTED
        self.reason = "the coordinator was restarted"
        return self._tell_abort(now)

    def _resolve(self, now: float) -> _Effects:
        self._state = _C.RESOLVING
        agent = self._names[-1]
        self._branches[agent] = BranchProgress.ASKED
        return (send(agent, Message.FENCE), self._resend_timer(now))

    # -- sending the decision ----------------------------------------------------------------------

    def _commit(self, prepared: tuple[str, ...], now: float) -> _Effects:
        self.outcome = Outcome.COMMITTED
        settings = self._settings
        if not prepared:
            return self._end()
        if not settings.variant.awaits_commit:
            return (*send_all(prepared, Message.COMMIT), *self._end())
        text = prepared[:1] if settings.finish_in_turn else prepared
        for name in text:
            self._branches[name] = BranchProgress.TOLD
        self._awaited = len(prepared)
        self._state = _C.COMMITTING
        sends = send_all(text, Message.COMMIT)
        if settings.answer_early:
            return (*sends, self._resend_timer(now), *self._answer(Outcome.COMMITTED))
        return (*sends, self._resend_timer(now))

    def _tell_abort(self, now: float) -> _Effects:
        effects: list[x.Effect] = []
        branches = self._branches
        self._awaited = 0
        for name, branch in branches.items():
            message = Message.ABORT
            if branch is BranchProgress.ASKED or branch is BranchProgress.UNKNOWN:
                message = Message.FENCE
            elif branch is not BranchProgress.YES and branch is not BranchProgress.WORKING:
                continue
            effects.append(send(name, message))
            branches[name] = BranchProgress.SETTLED
            if message is Message.FENCE or (
                branch is BranchProgress.YES and self._settings.variant.awaits_abort
            ):
                branches[name] = BranchProgress.TOLD
                self._awaited += 1
        if not self._awaited:
            return (*effects, *self._end())
        self._state = _C.ABORTING
        effects.append(self._resend_timer(now))
        if self._settings.answer_early:
            effects.extend(self._answer(Outcome.ABORTED, self.reason))
        return tuple(effects)

    def _resend_timer(self, now: float) -> x.SetTimer:
        return x.SetTimer(name=Timer.RESEND, at=now + self._settings.resend_s)

    def _answer(self, outcome: Outcome, reason: str = "") -> _Effects:
        if self._answered:
            return NOTHING
        self._answered = True
        if outcome is Outcome.COMMITTED:
            return (_COMMITTED,)
        return (x.Finish(outcome=outcome, reason=reason),)

    def _prepared(self) -> tuple[str, ...]:
        votes = self._branches
        prepared = tuple([name for name in votes if votes[name] is BranchProgress.YES])
        return self._names if len(prepared) == len(self._names) else prepared

    # -- acknowledgements -------------------------------------------------------------------------

    def _acked(self, event: e.BranchCommitted | e.BranchAborted, now: float) -> _Effects:
        name = event.participant
        branch = self._branches.get(name)
        if branch is BranchProgress.TOLD or (
            branch is BranchProgress.YES and self.outcome is Outcome.COMMITTED
        ):
            return self._settle(name, now)
        if branch is None or (
            branch is not BranchProgress.SETTLED and self.outcome is Outcome.COMMITTED
        ):
            raise self._refusal(event, "acknowledges what it was not told")
        return NOTHING

    def _contradicted(self, event: e.BranchCommitted | e.BranchAborted, now: float) -> _Effects:
        name = event.participant
        branch = self._branches.get(name)
        if branch is None:
            raise self._refusal(event, "is from no participant of this transaction")
        if branch is not BranchProgress.TOLD and branch is not BranchProgress.YES:
            return NOTHING
        self._damaged = True
        return (self._damage(event), *self._settle(name, now))

    def _damage(self, event: e.BranchCommitted | e.BranchAborted) -> x.Damage:
        committed = type(event) is e.BranchCommitted
        return x.Damage(
            participant=event.participant,
            decided=Outcome.ABORTED if committed else Outcome.COMMITTED,
            actual=Outcome.COMMITTED if committed else Outcome.ABORTED,
        )

    def _settle(self, name: str, now: float) -> _Effects:
        self._branches[name] = BranchProgress.SETTLED
        self._awaited -= 1
        if not self._awaited:
            return (_CANCEL_RESEND, *self._end())
        if self._settings.finish_in_turn and self.outcome is Outcome.COMMITTED:
            if BranchProgress.TOLD in self._branches.values():
                return NOTHING
            following = self._prepared()[0]
            self._branches[following] = BranchProgress.TOLD
            return (send(following, Message.COMMIT), self._resend_timer(now))
        return NOTHING

    def _end(self) -> _Effects:
        self._state = _C.ENDED
        outcome = self.outcome
        assert outcome is not None
        answer = self._answer(outcome, self.reason)
        variant = self._settings.variant
        acked = variant.commit_acked if outcome is Outcome.COMMITTED else variant.abort_acked
        if acked and self._log_holds and not self._damaged:
            return (*answer, _END)
        return answer

    def _ack_lost(self, event: e.AckLost, now: float) -> _Effects:
        assert self.outcome is not None
        if event.participant not in self._branches:
            raise self._refusal(event, "is about no participant of this transaction")
        return self._answer(self.outcome, self.reason)

    def _commit_again(self, event: e.TimerFired, now: float) -> _Effects:
        if event.name is not Timer.RESEND:
            return NOTHING
        names = self.unsettled
        for name in names:
            self._branches[name] = BranchProgress.TOLD
        answer = self._answer(Outcome.COMMITTED)
        return (*answer, *send_all(names, Message.COMMIT), self._resend_timer(now))

    def _abort_again(self, event: e.TimerFired, now: float) -> _Effects:
        if event.name is not Timer.RESEND:
            return NOTHING
        # A fence, even if the first message was a plain abort: the abort may have had no effect because the
        # branch was still preparing.
        answer = self._answer(Outcome.ABORTED, self.reason)
        return (*answer, *send_all(self.unsettled, Message.FENCE), self._resend_timer(now))

    def _undecided(self, event: e.Inquired, now: float) -> _Effects:
        if event.participant not in self._branches:
            raise self._refusal(event, "is from no participant of this transaction")
        return NOTHING

    def _inquired(self, event: e.Inquired, now: float) -> _Effects:
        self._undecided(event, now)
        committed = self.outcome is Outcome.COMMITTED
        return (send(event.participant, Message.COMMIT if committed else Message.ABORT),)

    def _late_ack(self, event: e.BranchCommitted | e.BranchAborted, now: float) -> _Effects:
        branch = self._branches.get(event.participant)
        if branch is None:
            raise self._refusal(event, "is from no participant of this transaction")
        result = Outcome.COMMITTED if type(event) is e.BranchCommitted else Outcome.ABORTED
        if result is self.outcome or self._damaged or branch is BranchProgress.READ_ONLY:
            return NOTHING
        self._damaged = True
        return (self._damage(event),)
