"""Step-by-step tests of the coordinator: times, order and messages, which walks do not check."""

from __future__ import annotations

from dataclasses import replace

import pytest

from twopc.errors import LocalProtocolError
from twopc.protocol import effects as x
from twopc.protocol import events as e
from twopc.protocol.coordinator import Coordinator
from twopc.protocol.effects import (
    Effect,
    Message,
    Outcome,
    Record,
    RecordKind,
    Timer,
    send,
)
from twopc.protocol.states import CoordinatorState
from twopc.protocol.variants import (
    LAST_AGENT,
    PRESUMED_ABORT,
    PRESUMED_COMMIT,
    PRESUMED_NOTHING,
    VARIANTS,
    Settings,
)

COMMIT = Record(kind=RecordKind.COMMIT, participants=("pub", "sub"))
CANCEL_VOTE = x.CancelTimer(name=Timer.VOTE)
CANCEL_RESEND = x.CancelTimer(name=Timer.RESEND)
END = x.Log(record=Record(kind=RecordKind.END), forced=False)
COMMITTED = x.Finish(outcome=Outcome.COMMITTED)
YES = (e.VotedYes(participant="pub"), e.VotedYes(participant="sub"))
ACKS = (e.BranchCommitted(participant="pub"), e.BranchCommitted(participant="sub"))
TO_VOTING = (e.Begin(participants=("pub", "sub")), e.CommitAsked())
TO_DECIDING = (*TO_VOTING, *YES)
TO_COMMITTING = (*TO_DECIDING, e.Logged(record=COMMIT))
IN_TIME = Settings(variant=PRESUMED_ABORT, vote_timeout_s=5.0, resend_s=2.0)


def run(machine: Coordinator, *events: e.Event, now: float = 0.0) -> tuple[Effect, ...]:
    """Feed the events, and return the effects of the last one."""
    effects: tuple[Effect, ...] = ()
    for event in events:
        effects = machine.receive(event, now)
    return effects


def coordinator(*events: e.Event, settings: Settings = IN_TIME) -> Coordinator:
    """Return a coordinator that has received these events."""
    machine = Coordinator(settings)
    run(machine, *events)
    return machine


def test_commit() -> None:
    """A complete commit with presumed abort and two participants."""
    machine = Coordinator(IN_TIME)

    assert run(machine, e.Begin(participants=("pub", "sub"))) == ()
    assert run(machine, e.CommitAsked(), now=100.0) == (
        x.Send(to="pub", message=Message.PREPARE, participants=("pub", "sub")),
        x.Send(to="sub", message=Message.PREPARE, participants=("pub", "sub")),
        x.SetTimer(name=Timer.VOTE, at=105.0),
    )
    assert run(machine, YES[1]) == ()
    assert run(machine, YES[0]) == (CANCEL_VOTE, x.Log(record=COMMIT, forced=True))
    assert run(machine, e.Logged(record=COMMIT), now=200.0) == (
        send("pub", Message.COMMIT),
        send("sub", Message.COMMIT),
        x.SetTimer(name=Timer.RESEND, at=202.0),
        COMMITTED,
    )
    assert run(machine, ACKS[0]) == ()
    assert machine.unsettled == ("sub",)
    assert run(machine, ACKS[1]) == (CANCEL_RESEND, END)
    assert (machine.state, machine.outcome) == (CoordinatorState.ENDED, Outcome.COMMITTED)
    assert not machine.unsettled


def test_vote_unknown_is_fenced() -> None:
    """A lost connection counts as a no: its branch is fenced and awaited, the other one is aborted."""
    machine = coordinator(*TO_VOTING, YES[0])

    effects = run(machine, e.VoteUnknown(participant="sub", reason="connection reset"), now=10.0)

    assert effects == (
        CANCEL_VOTE,
        send("pub", Message.ABORT),
        send("sub", Message.FENCE),
        x.SetTimer(name=Timer.RESEND, at=12.0),
        x.Finish(outcome=Outcome.ABORTED, reason="sub: connection reset"),
    )
    assert run(machine, e.BranchAborted(participant="sub")) == (CANCEL_RESEND,)


def test_no_vote_is_not_told() -> None:
    """A participant that voted no has rolled back already, so nothing is sent to it."""
    machine = coordinator(*TO_VOTING, YES[0])

    effects = run(machine, e.VotedNo(participant="sub", reason="tag ROLLBACK"))

    assert effects == (
        CANCEL_VOTE,
        send("pub", Message.ABORT),
        x.Finish(outcome=Outcome.ABORTED, reason="sub: tag ROLLBACK"),
    )


def test_first_refusal_is_the_reason() -> None:
    """The application gets the first refusal as the reason; remaining votes are awaited."""
    machine = coordinator(*TO_VOTING)

    assert run(machine, e.VotedNo(participant="sub", reason="first")) == ()
    effects = run(machine, e.VotedNo(participant="pub", reason="second"))

    assert effects[-1] == x.Finish(outcome=Outcome.ABORTED, reason="sub: first")


def test_votes_overdue() -> None:
    """When votes are overdue, the participants that did not vote are named and fenced."""
    machine = coordinator(*TO_VOTING, YES[0])

    effects = run(machine, e.TimerFired(name=Timer.VOTE))

    assert send("sub", Message.FENCE) in effects
    assert effects[-1] == x.Finish(outcome=Outcome.ABORTED, reason="no vote in time from sub")


def test_abort_resent_as_fence() -> None:
    """On PostgreSQL an abort is awaited; it is resent as a fence, which also stops a late prepare."""
    settings = replace(IN_TIME, variant=PRESUMED_ABORT.on_postgres())
    machine = coordinator(*TO_VOTING, YES[0], settings=settings)
    assert send("pub", Message.ABORT) in run(machine, e.VotedNo(participant="sub"))

    effects = run(machine, e.TimerFired(name=Timer.RESEND), now=50.0)

    assert effects == (send("pub", Message.FENCE), x.SetTimer(name=Timer.RESEND, at=52.0))
    assert run(machine, e.BranchAborted(participant="pub")) == (CANCEL_RESEND,)
    assert machine.state is CoordinatorState.ENDED


def test_log_refuses() -> None:
    """A decision that was definitely not written is no decision: the transaction aborts."""
    effects = run(coordinator(*TO_DECIDING), e.LogFailed(record=COMMIT, reason="epoch is fenced"))

    reason = "the decision could not be logged: epoch is fenced"
    assert effects[-1] == x.Finish(outcome=Outcome.ABORTED, reason=reason)
    assert effects[:2] == (send("pub", Message.ABORT), send("sub", Message.ABORT))


def test_log_unknown_is_read_back() -> None:
    """Until the log has answered, no participant gets a decision, and the application gets in doubt."""
    machine = coordinator(*TO_DECIDING)
    timer = x.SetTimer(name=Timer.RESEND, at=2.0)

    assert run(machine, e.LogUnknown(record=COMMIT)) == (x.ReadBack(record=COMMIT), timer)
    assert run(machine, e.TimerFired(name=Timer.RESEND)) == (
        x.Finish(outcome=Outcome.IN_DOUBT, reason="the decision log does not answer"),
        x.ReadBack(record=COMMIT),
        timer,
    )
    assert run(machine, e.TimerFired(name=Timer.RESEND)) == (x.ReadBack(record=COMMIT), timer)
    effects = run(machine, e.LogFound(record=COMMIT))
    assert effects == (
        CANCEL_RESEND,
        send("pub", Message.COMMIT),
        send("sub", Message.COMMIT),
        timer,
    )


def test_log_unknown_was_missing() -> None:
    """A decision that is not in the log, and can no longer be written, is replaced by an abort."""
    machine = coordinator(*TO_DECIDING, e.LogUnknown(record=COMMIT))

    effects = run(machine, e.LogMissing(record=COMMIT))

    assert effects[0] == CANCEL_RESEND
    assert effects[-1] == x.Finish(outcome=Outcome.ABORTED, reason="the decision was not logged")


def test_too_late_to_give_up() -> None:
    """The application cannot abort while the decision is being written."""
    machine = coordinator(*TO_DECIDING)

    assert run(machine, e.AbortAsked(reason="cancelled")) == ()
    assert COMMITTED in run(machine, e.Logged(record=COMMIT))


def test_give_up_while_voting() -> None:
    """An abort while voting fences the participants that may be preparing."""
    machine = coordinator(*TO_VOTING, YES[0])

    effects = run(machine, e.AbortAsked(reason="cancelled"))

    assert effects[:3] == (CANCEL_VOTE, send("pub", Message.ABORT), send("sub", Message.FENCE))
    assert machine.reason == "cancelled"


def test_give_up_while_working() -> None:
    """An abort before any vote was requested is a plain rollback without acknowledgements."""
    effects = run(coordinator(TO_VOTING[0]), e.AbortAsked(reason="application"))

    assert effects == (
        send("pub", Message.ABORT),
        send("sub", Message.ABORT),
        x.Finish(outcome=Outcome.ABORTED, reason="application"),
    )


def test_commit_resent() -> None:
    """A commit is resent, repeatedly, to those participants only that have not acknowledged it."""
    machine = coordinator(*TO_COMMITTING, ACKS[0])

    for now in (10.0, 20.0):
        assert run(machine, e.TimerFired(name=Timer.RESEND), now=now) == (
            send("sub", Message.COMMIT),
            x.SetTimer(name=Timer.RESEND, at=now + 2.0),
        )


def test_answer_when_finished() -> None:
    """Without ``answer_early`` the application gets its answer after the acknowledgements."""
    settings = replace(IN_TIME, answer_early=False)
    machine = coordinator(*TO_DECIDING, settings=settings)

    assert COMMITTED not in run(machine, e.Logged(record=COMMIT))
    assert run(machine, *ACKS) == (CANCEL_RESEND, COMMITTED, END)


@pytest.mark.parametrize("event", [e.AckLost(participant="pub"), e.TimerFired(name=Timer.RESEND)])
def test_answer_when_overdue(event: e.Event) -> None:
    """Without ``answer_early`` a lost or overdue acknowledgement does not delay the answer."""
    machine = coordinator(*TO_COMMITTING, settings=replace(IN_TIME, answer_early=False))

    assert run(machine, event)[0] == COMMITTED
    assert run(machine, *ACKS) == (CANCEL_RESEND, END)


def test_finish_in_turn() -> None:
    """With ``finish_in_turn`` the second participant gets the decision after the first has acknowledged."""
    settings = replace(IN_TIME, finish_in_turn=True, answer_early=False)
    machine = coordinator(*TO_DECIDING, settings=settings)
    timer = x.SetTimer(name=Timer.RESEND, at=2.0)

    assert run(machine, e.Logged(record=COMMIT)) == (send("pub", Message.COMMIT), timer)
    assert run(machine, ACKS[0]) == (send("sub", Message.COMMIT), timer)
    assert run(machine, ACKS[1]) == (CANCEL_RESEND, COMMITTED, END)


def test_finish_in_turn_overdue() -> None:
    """When an acknowledgement is overdue, ``finish_in_turn`` no longer delays the other participants."""
    machine = coordinator(*TO_COMMITTING, settings=replace(IN_TIME, finish_in_turn=True))

    effects = run(machine, e.TimerFired(name=Timer.RESEND))

    assert effects[:2] == (send("pub", Message.COMMIT), send("sub", Message.COMMIT))
    assert run(machine, ACKS[1]) == ()
    assert run(machine, ACKS[0]) == (CANCEL_RESEND, END)


def test_inquiry() -> None:
    """An inquiry is not answered before the decision, and with the decision afterwards."""
    machine = coordinator(*TO_DECIDING)
    asks = e.Inquired(participant="pub")

    assert run(machine, asks) == ()
    run(machine, e.Logged(record=COMMIT))
    assert run(machine, asks) == (send("pub", Message.COMMIT),)
    run(machine, *ACKS)
    assert run(machine, asks) == (send("pub", Message.COMMIT),)


def test_presumed_commit_names_participants_first() -> None:
    """Presumed commit requests no vote before the participants' names are durable."""
    settings = Settings(variant=PRESUMED_COMMIT)
    machine = coordinator(TO_VOTING[0], settings=settings)
    names = Record(kind=RecordKind.COLLECTING, participants=("pub", "sub"))

    assert run(machine, e.CommitAsked()) == (x.Log(record=names, forced=True),)
    asked = run(machine, e.Logged(record=names))
    assert [effect.message for effect in asked if isinstance(effect, x.Send)] == [
        Message.PREPARE
    ] * 2
    assert run(machine, *YES, e.Logged(record=COMMIT)) == (
        send("pub", Message.COMMIT),
        send("sub", Message.COMMIT),
        COMMITTED,
    )


def test_presumed_nothing_forces_abort() -> None:
    """Presumed nothing sends no abort and answers no application before the abort is durable."""
    machine = coordinator(*TO_VOTING, YES[0], settings=Settings(variant=PRESUMED_NOTHING))
    abort = Record(kind=RecordKind.ABORT, participants=("pub", "sub"))

    assert run(machine, e.VotedNo(participant="sub", reason="no")) == (
        CANCEL_VOTE,
        x.Log(record=abort, forced=True),
    )
    assert run(machine, e.Logged(record=abort))[0] == send("pub", Message.ABORT)
    assert run(machine, e.BranchAborted(participant="pub")) == (CANCEL_RESEND, END)


def test_last_agent() -> None:
    """The agent decides after the others are prepared, and without a record of the coordinator."""
    machine = coordinator(TO_VOTING[0], settings=replace(IN_TIME, variant=LAST_AGENT))

    assert run(machine, e.CommitAsked())[0] == send("pub", Message.PREPARE, ("pub", "sub"))
    assert run(machine, YES[0]) == (
        send("sub", Message.DECIDE, ("pub",)),
        x.SetTimer(name=Timer.VOTE, at=5.0),
    )
    assert run(machine, ACKS[1]) == (
        CANCEL_VOTE,
        send("pub", Message.COMMIT),
        x.SetTimer(name=Timer.RESEND, at=2.0),
        COMMITTED,
    )
    assert run(machine, ACKS[0]) == (CANCEL_RESEND,)


def test_last_agent_alone() -> None:
    """A single participant commits in one phase."""
    machine = coordinator(e.Begin(participants=("sub",)), settings=Settings(variant=LAST_AGENT))

    assert run(machine, e.CommitAsked())[0] == send("sub", Message.DECIDE)
    assert run(machine, ACKS[1]) == (CANCEL_VOTE, COMMITTED)


def test_last_agent_silent() -> None:
    """A last agent that does not answer is fenced repeatedly; meanwhile the transaction is in doubt."""
    machine = coordinator(*TO_VOTING, YES[0], settings=replace(IN_TIME, variant=LAST_AGENT))
    asks = (send("sub", Message.FENCE), x.SetTimer(name=Timer.RESEND, at=2.0))

    assert run(machine, e.TimerFired(name=Timer.VOTE)) == asks
    assert run(machine, e.TimerFired(name=Timer.RESEND)) == (
        x.Finish(outcome=Outcome.IN_DOUBT, reason="the last agent does not answer"),
        *asks,
    )
    effects = run(machine, e.BranchAborted(participant="sub"))
    assert effects == (CANCEL_RESEND, send("pub", Message.ABORT))


@pytest.mark.parametrize(
    ("decided", "found"),
    [(Outcome.COMMITTED, Outcome.ABORTED), (Outcome.ABORTED, Outcome.COMMITTED)],
)
def test_damage(decided: Outcome, found: Outcome) -> None:
    """A branch finished by hand is reported once as damage, and its decision is not forgotten."""
    settings = replace(IN_TIME, variant=PRESUMED_NOTHING)
    machine = coordinator(*TO_DECIDING, settings=settings)
    ack: type[e.BranchCommitted | e.BranchAborted] = e.BranchCommitted
    other: type[e.BranchCommitted | e.BranchAborted] = e.BranchAborted
    if decided is Outcome.COMMITTED:
        run(machine, e.Logged(record=COMMIT))
    else:
        ack, other = other, ack
        abort = Record(kind=RecordKind.ABORT, participants=("pub", "sub"))
        run(machine, e.LogFailed(record=COMMIT), e.Logged(record=abort))

    damage = x.Damage(participant="pub", decided=decided, actual=found)
    assert run(machine, other(participant="pub")) == (damage,)
    assert run(machine, other(participant="pub")) == ()
    assert run(machine, ack(participant="sub")) == (CANCEL_RESEND,)
    assert machine.state is CoordinatorState.ENDED


def test_driver_makes_a_mistake() -> None:
    """An event that no effect of the machine requested raises `LocalProtocolError`."""
    with pytest.raises(LocalProtocolError, match="in state new: Logged"):
        run(Coordinator(IN_TIME), e.Logged(record=COMMIT))


def test_variants_by_name() -> None:
    """The variants have the names that scenario files use."""
    assert set(VARIANTS) == {
        "presumed_abort",
        "presumed_commit",
        "presumed_nothing",
        "last_agent",
    }
