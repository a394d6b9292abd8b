"""The coordinator's machine: one instance for each global transaction.

The machine must not depend on connections, SQL, clocks or gids. Its state is small on purpose: after a crash,
`twopc.protocol.recovery` rebuilds the state from the records that the machine asked to be logged.
"""

from __future__ import annotations

from twopc.protocol import effects as x
from twopc.protocol import events as e
from twopc.protocol.effects import NOTHING, Message, Outcome, RecordKind, Timer, log, send, send_all
from twopc.protocol.second_phase import BranchProgress, Finishing
from twopc.protocol.states import COORDINATOR, CoordinatorState

_C = CoordinatorState
_Effects = tuple[x.Effect, ...]
_Vote = e.VotedYes | e.VotedNo | e.VotedReadOnly | e.VoteUnknown

_CANCEL_VOTE = x.CancelTimer(name=Timer.VOTE)
_CANCEL_RESEND = x.CancelTimer(name=Timer.RESEND)
_VOTE_OF: dict[type[e.Event], BranchProgress] = {
    e.VotedYes: BranchProgress.YES,
    e.VotedNo: BranchProgress.NO,
    e.VotedReadOnly: BranchProgress.READ_ONLY,
    e.VoteUnknown: BranchProgress.UNKNOWN,
}


class Coordinator(Finishing, table=COORDINATOR):
    """Machine that decides one global transaction, and sends the decision until every participant has acknowledged
    it.
    """

    __slots__ = ()

    # -- work and votes ----------------------------------------------------------------------------

    def _begin(self, event: e.Begin, now: float) -> _Effects:
        branches = dict.fromkeys(event.participants, BranchProgress.WORKING)
        if not branches or len(branches) != len(event.participants) or x.COORDINATOR in branches:
            raise self._refusal(event, "needs participants with distinct names")
        self._names = event.participants
        self._branches = branches
        self._state = _C.ACTIVE
        return NOTHING

    def _ask(self, event: e.CommitAsked, now: float) -> _Effects:
        if self._settings.variant.collects:
            return self._force(RecordKind.COLLECTING, self._names, _C.COLLECTING)
        return self._ask_votes(now)

    def _ask_votes(self, now: float) -> _Effects:
        settings = self._settings
        names = self._names[:-1] if settings.variant.last_agent else self._names
        if not names:
            return self._delegate(now)
        for name in names:
            self._branches[name] = BranchProgress.ASKED
        self._awaited = len(names)
        self._state = _C.VOTING
        timer = x.SetTimer(name=Timer.VOTE, at=now + settings.vote_timeout_s)
        return (*send_all(names, Message.PREPARE, self._names), timer)

    def _collected(self, event: e.Logged, now: float) -> _Effects:
        self._check(event)
        self._log_holds = True
        if self.outcome is Outcome.ABORTED:
            # the application gave up while the record was being written
            return self._abort(self.reason, now)
        return self._ask_votes(now)

    def _not_collected(self, event: e.LogFailed, now: float) -> _Effects:
        self._check(event)
        return self._abort(event.reason, now)

    def _maybe_collected(self, event: e.LogUnknown, now: float) -> _Effects:
        self._check(event)
        self._log_holds = True
        return self._abort(event.reason, now)

    def _veto(self, event: e.AbortAsked, now: float) -> _Effects:
        self.outcome = Outcome.ABORTED
        self.reason = event.reason
        return NOTHING

    def _give_up(self, event: e.AbortAsked, now: float) -> _Effects:
        voting = self._state is _C.VOTING
        effects = self._abort(event.reason, now)
        return (_CANCEL_VOTE, *effects) if voting else effects

    def _voted(self, event: _Vote, now: float) -> _Effects:
        name = event.participant
        branches = self._branches
        if branches.get(name) is not BranchProgress.ASKED:
            return self._late_vote(event, now)
        branches[name] = _VOTE_OF[type(event)]
        if isinstance(event, e.VotedNo | e.VoteUnknown) and not self.reason:
            self.reason = f"{name}: {event.reason}"
        self._awaited -= 1
        if self._awaited:
            return NOTHING
        votes = branches.values()
        if BranchProgress.NO in votes or BranchProgress.UNKNOWN in votes:
            return (_CANCEL_VOTE, *self._abort(self.reason, now))
        if self._settings.variant.last_agent:
            return self._delegate(now)
        prepared = self._prepared()
        if prepared:
            return (_CANCEL_VOTE, *self._force(RecordKind.COMMIT, prepared, _C.DECIDING))
        self.outcome = Outcome.COMMITTED
        if self._log_holds:  # supersede the collecting record; no branch depends on either record
            return (_CANCEL_VOTE, log(RecordKind.COMMIT, forced=False), *self._end())
        return (_CANCEL_VOTE, *self._end())

    def _late_vote(self, event: _Vote, now: float) -> _Effects:
        """Ignore a vote that no longer counts because it is repeated or the decision overtook it; refuse any other
        vote.
        """
        if self._resumed:
            return NOTHING  # the log holds less than the machine knew before the crash
        branch = self._branches.get(event.participant)
        if branch is None or branch is BranchProgress.WORKING:
            raise self._refusal(event, "is from a site that was not asked")
        vote = _VOTE_OF[type(event)]
        if {branch, vote} == {BranchProgress.YES, BranchProgress.NO} and self.outcome is None:
            raise self._refusal(event, "contradicts its earlier vote")
        return NOTHING

    def _votes_overdue(self, event: e.TimerFired, now: float) -> _Effects:
        if event.name is not Timer.VOTE:
            return NOTHING
        late = ", ".join(
            n for n, branch in self._branches.items() if branch is BranchProgress.ASKED
        )
        return self._abort(f"no vote in time from {late}", now)

    # -- last agent --------------------------------------------------------------------------------

    def _delegate(self, now: float) -> _Effects:
        agent = self._names[-1]
        self._branches[agent] = BranchProgress.ASKED
        self._state = _C.DELEGATING
        timer = x.SetTimer(name=Timer.VOTE, at=now + self._settings.vote_timeout_s)
        return (send(agent, Message.DECIDE, self._prepared()), timer)

    def _agent_committed(self, event: e.BranchCommitted, now: float) -> _Effects:
        if not self._from_agent(event):
            return NOTHING
        return (self._agent_timer(), *self._commit(self._prepared(), now))

    def _agent_aborted(self, event: e.BranchAborted, now: float) -> _Effects:
        if not self._from_agent(event):
            return NOTHING
        return (self._agent_timer(), *self._abort(f"{event.participant}: rolled back", now))

    def _from_agent(self, event: e.BranchCommitted | e.BranchAborted) -> bool:
        """Return whether the answer is the last agent's, and mark the agent's branch as settled if so."""
        name = event.participant
        if name == self._names[-1]:
            self._branches[name] = BranchProgress.SETTLED
            return True
        if self._resumed and name in self._branches:
            return False  # acknowledges a message sent before the crash; the agent's own answer is still to come
        raise self._refusal(event, "is not from the last agent")

    def _agent_refused(self, event: e.VotedNo, now: float) -> _Effects:
        if event.participant != self._names[-1]:
            return self._late_vote(event, now)
        self._branches[event.participant] = BranchProgress.NO
        return (self._agent_timer(), *self._abort(f"{event.participant}: {event.reason}", now))

    def _agent_read_only(self, event: e.VotedReadOnly, now: float) -> _Effects:
        name = event.participant
        if name != self._names[-1]:
            return self._late_vote(event, now)
        if self._prepared():
            raise self._refusal(event, "leaves those alone who wait for its decision")
        self._branches[name] = BranchProgress.READ_ONLY
        return (self._agent_timer(), *self._commit((), now))

    def _agent_lost(self, event: e.VoteUnknown, now: float) -> _Effects:
        if event.participant != self._names[-1]:
            return self._late_vote(event, now)
        return (_CANCEL_VOTE, *self._resolve(now))

    def _agent_overdue(self, event: e.TimerFired, now: float) -> _Effects:
        return self._resolve(now) if event.name is Timer.VOTE else NOTHING

    def _resolve_again(self, event: e.TimerFired, now: float) -> _Effects:
        if event.name is not Timer.RESEND:
            return NOTHING
        return (
            *self._answer(Outcome.IN_DOUBT, "the last agent does not answer"),
            *self._resolve(now),
        )

    def _agent_timer(self) -> x.CancelTimer:
        return _CANCEL_VOTE if self._state is _C.DELEGATING else _CANCEL_RESEND

    # -- the decision ------------------------------------------------------------------------------

    def _force(self, kind: RecordKind, names: tuple[str, ...], state: _C) -> _Effects:
        effect = log(kind, names, forced=True)
        self._record = effect.record
        self._state = state
        return (effect,)

    def _check(
        self, event: e.Logged | e.LogFailed | e.LogUnknown | e.LogFound | e.LogMissing
    ) -> x.Record:
        record = self._record
        if record is None or (event.record is not record and event.record != record):
            raise self._refusal(event, "is not about the record being logged")
        return record

    def _decided(self, event: e.Logged | e.LogFound, now: float) -> _Effects:
        record = self._check(event)
        self._log_holds = True
        effects = self._commit(record.participants, now)
        return (_CANCEL_RESEND, *effects) if type(event) is e.LogFound else effects

    def _not_decided(self, event: e.LogFailed | e.LogMissing, now: float) -> _Effects:
        self._check(event)
        if type(event) is e.LogFailed:
            return self._abort(f"the decision could not be logged: {event.reason}", now)
        return (_CANCEL_RESEND, *self._abort("the decision was not logged", now))

    def _maybe_decided(self, event: e.LogUnknown, now: float) -> _Effects:
        record = self._check(event)
        self._state = _C.READING_BACK
        return (x.ReadBack(record=record), self._resend_timer(now))

    def _read_again(self, event: e.TimerFired, now: float) -> _Effects:
        if event.name is not Timer.RESEND or self._record is None:
            return NOTHING
        return (
            *self._answer(Outcome.IN_DOUBT, "the decision log does not answer"),
            x.ReadBack(record=self._record),
            self._resend_timer(now),
        )

    def _abort(self, reason: str, now: float) -> _Effects:
        """Decide abort; the caller guarantees that the log holds no commit record and will never hold one."""
        self.outcome = Outcome.ABORTED
        self.reason = reason
        variant = self._settings.variant
        if not variant.logs_abort or not (self._log_holds or self.unsettled):
            return self._tell_abort(now)
        if variant.forces_abort:
            return self._force(RecordKind.ABORT, self._names, _C.REFUSING)
        self._log_holds = True
        return (log(RecordKind.ABORT, self._names, forced=False), *self._tell_abort(now))

    def _refused(self, event: e.Logged | e.LogFailed | e.LogUnknown, now: float) -> _Effects:
        # A failed write changes nothing: without a record, recovery concludes abort.
        self._check(event)
        self._log_holds = type(event) is not e.LogFailed
        return self._tell_abort(now)
