"""The states of both machines and their transition tables: the whole protocol.

A row is ``(state, event): action, next states``. The action names the machine's method, which chooses among the
next states. An event that is not in a table is an error and changes nothing. Effects are defined by the actions,
not by the tables.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from twopc.protocol import events as e


class CoordinatorState(StrEnum):
    """State of a global transaction at its coordinator."""

    NEW = "new"
    ACTIVE = "active"
    """The application is working; no participant was asked to vote."""
    COLLECTING = "collecting"
    """The participants' names are being forced (presumed commit)."""
    VOTING = "voting"
    """Votes are awaited."""
    DELEGATING = "delegating"
    """The last agent was asked to decide."""
    RESOLVING = "resolving"
    """The last agent's answer was lost; the agent is being fenced and asked for the outcome."""
    DECIDING = "deciding"
    """The commit decision is being forced. Only a failed write can still lead to abort."""
    READING_BACK = "reading_back"
    """Whether the commit decision was written is being determined."""
    REFUSING = "refusing"
    """The abort decision is being forced (presumed nothing)."""
    COMMITTING = "committing"
    """Commit is decided; acknowledgements are awaited."""
    ABORTING = "aborting"
    """Abort is decided; acknowledgements are awaited."""
    ENDED = "ended"


class ParticipantState(StrEnum):
    """State of a branch."""

    NEW = "new"
    """The branch is unknown: it never began, or a crash lost its unprepared work."""
    WORKING = "working"
    PREPARING = "preparing"
    """The prepare record is being forced."""
    PREPARED = "prepared"
    """The branch voted yes, and is in doubt until the decision arrives."""
    DECIDING = "deciding"
    """Last agent: the commit record, which is the decision, is being forced."""
    COMMITTING = "committing"
    ABORTING = "aborting"
    ENDED = "ended"


State = CoordinatorState | ParticipantState


class Transition(NamedTuple):
    """Action of a machine for an event in a state, and the possible next states."""

    action: str
    next: tuple[State, ...]


Table = dict[tuple[State, type[e.Event]], Transition]


def _row(action: str, *after: State) -> Transition:
    return Transition(action, after)


def _ignored(states: Iterable[State], *events: type[e.Event]) -> Table:
    return {(state, event): Transition("ignore", (state,)) for state in states for event in events}


_C = CoordinatorState
_VOTES: tuple[type[e.Event], ...] = (e.VotedYes, e.VotedNo, e.VotedReadOnly, e.VoteUnknown)
_ASKED = (
    _C.DELEGATING, _C.RESOLVING, _C.DECIDING, _C.READING_BACK, _C.REFUSING, _C.COMMITTING,
    _C.ABORTING, _C.ENDED,
)  # fmt: skip

COORDINATOR: Table = {
    # Late and repeated events change nothing: a message may arrive twice, a timer may have fired just before it
    # was cancelled, and it is too late to abort. Rows below override these.
    **_ignored(_ASKED, e.TimerFired, e.AbortAsked),
    **{(state, vote): _row("late_vote", state) for state in _ASKED for vote in _VOTES},
    # A branch that inquires before the decision gets the decision once there is one.
    **{(state, e.Inquired): _row("undecided", state) for state in (_C.VOTING, *_ASKED)},
    # Work.
    (_C.NEW, e.Begin): _row("begin", _C.ACTIVE),
    (_C.ACTIVE, e.CommitAsked): _row("ask", _C.VOTING, _C.COLLECTING, _C.DELEGATING),
    (_C.ACTIVE, e.AbortAsked): _row("give_up", _C.ENDED),
    # Presumed commit: the names are logged first.
    (_C.COLLECTING, e.Logged): _row("collected", _C.VOTING, _C.ENDED),
    (_C.COLLECTING, e.LogFailed): _row("not_collected", _C.ENDED),
    (_C.COLLECTING, e.LogUnknown): _row("maybe_collected", _C.ENDED),
    (_C.COLLECTING, e.AbortAsked): _row("veto", _C.COLLECTING),
    # Votes.
    (_C.VOTING, e.VotedYes): _row(
        "voted", _C.VOTING, _C.DECIDING, _C.DELEGATING, _C.REFUSING, _C.ABORTING, _C.ENDED
    ),
    (_C.VOTING, e.VotedNo): _row("voted", _C.VOTING, _C.REFUSING, _C.ABORTING, _C.ENDED),
    (_C.VOTING, e.VotedReadOnly): _row(
        "voted", _C.VOTING, _C.DECIDING, _C.DELEGATING, _C.REFUSING, _C.ABORTING, _C.ENDED
    ),
    (_C.VOTING, e.VoteUnknown): _row("voted", _C.VOTING, _C.REFUSING, _C.ABORTING),
    (_C.VOTING, e.TimerFired): _row("votes_overdue", _C.VOTING, _C.REFUSING, _C.ABORTING),
    (_C.VOTING, e.AbortAsked): _row("give_up", _C.REFUSING, _C.ABORTING),
    # Last agent.
    (_C.DELEGATING, e.BranchCommitted): _row("agent_committed", _C.COMMITTING, _C.ENDED),
    (_C.DELEGATING, e.BranchAborted): _row("agent_aborted", _C.ABORTING, _C.ENDED),
    (_C.DELEGATING, e.VotedNo): _row("agent_refused", _C.DELEGATING, _C.ABORTING, _C.ENDED),
    (_C.DELEGATING, e.VotedReadOnly): _row("agent_read_only", _C.DELEGATING, _C.ENDED),
    (_C.DELEGATING, e.VoteUnknown): _row("agent_lost", _C.DELEGATING, _C.RESOLVING),
    (_C.DELEGATING, e.TimerFired): _row("agent_overdue", _C.DELEGATING, _C.RESOLVING),
    (_C.RESOLVING, e.BranchCommitted): _row(
        "agent_committed", _C.RESOLVING, _C.COMMITTING, _C.ENDED
    ),
    (_C.RESOLVING, e.BranchAborted): _row("agent_aborted", _C.RESOLVING, _C.ABORTING, _C.ENDED),
    (_C.RESOLVING, e.VotedNo): _row("agent_refused", _C.RESOLVING, _C.ABORTING, _C.ENDED),
    (_C.RESOLVING, e.VotedReadOnly): _row("agent_read_only", _C.RESOLVING, _C.ENDED),
    (_C.RESOLVING, e.TimerFired): _row("resolve_again", _C.RESOLVING),
    # The decision.
    (_C.DECIDING, e.Logged): _row("decided", _C.COMMITTING, _C.ENDED),
    (_C.DECIDING, e.LogFailed): _row("not_decided", _C.REFUSING, _C.ABORTING, _C.ENDED),
    (_C.DECIDING, e.LogUnknown): _row("maybe_decided", _C.READING_BACK),
    (_C.READING_BACK, e.LogFound): _row("decided", _C.COMMITTING, _C.ENDED),
    (_C.READING_BACK, e.LogMissing): _row("not_decided", _C.REFUSING, _C.ABORTING, _C.ENDED),
    (_C.READING_BACK, e.TimerFired): _row("read_again", _C.READING_BACK),
    (_C.REFUSING, e.Logged): _row("refused", _C.ABORTING),
    (_C.REFUSING, e.LogFailed): _row("refused", _C.ABORTING),
    (_C.REFUSING, e.LogUnknown): _row("refused", _C.ABORTING),
    # Acknowledgements.
    (_C.COMMITTING, e.BranchCommitted): _row("acked", _C.COMMITTING, _C.ENDED),
    (_C.COMMITTING, e.BranchAborted): _row("contradicted", _C.COMMITTING, _C.ENDED),
    (_C.COMMITTING, e.AckLost): _row("ack_lost", _C.COMMITTING),
    (_C.COMMITTING, e.TimerFired): _row("commit_again", _C.COMMITTING),
    (_C.COMMITTING, e.Inquired): _row("inquired", _C.COMMITTING),
    (_C.ABORTING, e.BranchAborted): _row("acked", _C.ABORTING, _C.ENDED),
    (_C.ABORTING, e.BranchCommitted): _row("contradicted", _C.ABORTING, _C.ENDED),
    (_C.ABORTING, e.AckLost): _row("ack_lost", _C.ABORTING),
    (_C.ABORTING, e.TimerFired): _row("abort_again", _C.ABORTING),
    (_C.ABORTING, e.Inquired): _row("inquired", _C.ABORTING),
    (_C.ENDED, e.BranchCommitted): _row("late_ack", _C.ENDED),
    (_C.ENDED, e.BranchAborted): _row("late_ack", _C.ENDED),
    (_C.ENDED, e.AckLost): _row("ignore", _C.ENDED),
    (_C.ENDED, e.Inquired): _row("inquired", _C.ENDED),
}

_P = ParticipantState
_BEGUN = tuple(state for state in _P if state is not _P.NEW)

PARTICIPANT: Table = {
    **_ignored(_BEGUN, e.TimerFired),
    # Work. Until a branch is prepared it may roll back on its own.
    (_P.NEW, e.WorkBegun): _row("begin", _P.WORKING),
    (_P.WORKING, e.Wrote): _row("wrote", _P.WORKING),
    (_P.WORKING, e.WorkFailed): _row("failed", _P.ENDED),
    (_P.WORKING, e.TimerFired): _row("idle", _P.WORKING, _P.ENDED),
    # The vote.
    (_P.NEW, e.PrepareAsked): _row("vote_no", _P.ENDED),
    (_P.WORKING, e.PrepareAsked): _row("prepare", _P.PREPARING, _P.ENDED),
    (_P.PREPARING, e.PrepareAsked): _row("ignore", _P.PREPARING),
    (_P.PREPARING, e.Logged): _row("prepared", _P.PREPARED, _P.ABORTING),
    (_P.PREPARING, e.LogFailed): _row("not_prepared", _P.ENDED),
    (_P.PREPARED, e.PrepareAsked): _row("vote_yes", _P.PREPARED),
    (_P.COMMITTING, e.PrepareAsked): _row("ignore", _P.COMMITTING),
    (_P.ABORTING, e.PrepareAsked): _row("ignore", _P.ABORTING),
    (_P.ENDED, e.PrepareAsked): _row("vote_again", _P.ENDED),
    # In doubt.
    (_P.PREPARED, e.TimerFired): _row("inquire", _P.PREPARED),
    (_P.PREPARED, e.CommitTold): _row("commit", _P.COMMITTING, _P.ENDED),
    (_P.PREPARED, e.AbortTold): _row("abort", _P.ABORTING, _P.ENDED),
    (_P.PREPARED, e.FenceTold): _row("abort", _P.ABORTING),
    (_P.PREPARED, e.ResolvedByHand): _row("by_hand", _P.COMMITTING, _P.ABORTING),
    (_P.COMMITTING, e.Logged): _row("ended", _P.ENDED),
    (_P.ABORTING, e.Logged): _row("ended", _P.ENDED),
    (_P.COMMITTING, e.LogFailed): _row("not_ended", _P.PREPARED),
    (_P.ABORTING, e.LogFailed): _row("not_ended", _P.PREPARED),
    # Last agent.
    (_P.NEW, e.DecideAsked): _row("vote_no", _P.ENDED),
    (_P.WORKING, e.DecideAsked): _row("decide", _P.DECIDING, _P.ENDED),
    (_P.DECIDING, e.DecideAsked): _row("ignore", _P.DECIDING),
    (_P.DECIDING, e.FenceTold): _row("ignore", _P.DECIDING),
    (_P.DECIDING, e.Logged): _row("ended", _P.ENDED),
    (_P.DECIDING, e.LogFailed): _row("not_prepared", _P.ENDED),
    (_P.ENDED, e.DecideAsked): _row("tell", _P.ENDED),
    # Abort or fence before the branch is prepared: it will never be prepared. A branch that may be preparing must
    # be fenced: there is no row for a plain abort, because the prepare could complete after an abort that found
    # nothing to roll back.
    (_P.NEW, e.AbortTold): _row("roll_back", _P.ENDED),
    (_P.WORKING, e.AbortTold): _row("roll_back", _P.ENDED),
    (_P.NEW, e.FenceTold): _row("roll_back", _P.ENDED),
    (_P.WORKING, e.FenceTold): _row("roll_back", _P.ENDED),
    (_P.PREPARING, e.FenceTold): _row("fence", _P.PREPARING),
    # Repeated messages: report the outcome. The coordinator reports a contradiction; only a branch that was
    # finished manually can contradict the decision.
    **_ignored((_P.COMMITTING, _P.ABORTING), e.CommitTold, e.AbortTold, e.FenceTold),
    (_P.ENDED, e.CommitTold): _row("tell", _P.ENDED),
    (_P.ENDED, e.AbortTold): _row("tell", _P.ENDED),
    (_P.ENDED, e.FenceTold): _row("tell", _P.ENDED),
}


def mermaid(table: Table) -> str:
    """Return the table as a Mermaid state diagram, without transitions that keep the state."""
    first = next(iter(type(next(iter(table))[0])))
    arrows: dict[tuple[State, State], list[str]] = {}
    for (state, event), row in table.items():
        for after in row.next:
            if after is not state:
                arrows.setdefault((state, after), []).append(event.__name__)
    lines = ["stateDiagram-v2", f"    [*] --> {first}"]
    for (state, after), names in sorted(arrows.items(), key=lambda arrow: _order(*arrow[0])):
        lines.append(f"    {state} --> {after}: {', '.join(names)}")
    lines.append("    ended --> [*]")
    return "\n".join(lines)


def _order(*states: State) -> list[int]:
    return [list(type(state)).index(state) for state in states]
