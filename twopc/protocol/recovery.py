"""Recovery after a crash: rebuilds machines from their log records, and decides about branches found prepared.

Independent of how records and facts are read. An outcome is never guessed: where the facts do not determine it, the
branch is left as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from twopc.protocol.coordinator import Coordinator
from twopc.protocol.effects import Effect, Message, Outcome, Record, RecordKind
from twopc.protocol.variants import Settings, Variant

_OUTCOME_OF = {
    RecordKind.COMMIT: Outcome.COMMITTED,
    RecordKind.ABORT: Outcome.ABORTED,
    # The participants' names were collected, and no decision followed.
    RecordKind.COLLECTING: Outcome.ABORTED,
}


def rebuild_coordinator(
    machine: Coordinator, settings: Settings, records: Sequence[Record], now: float
) -> tuple[Effect, ...] | None:
    """Bring a new machine to the state that the log records for the old one.

    Args:
        machine: newly made, with `settings`.
        settings: the settings with which the transaction began.
        records: the coordinator's durable records of this transaction, oldest first.
        now: as for `receive`.

    Returns: The effects to perform; None if there is nothing to resume. An inquiry that arrives nevertheless is
        then answered by `answer`.
    """
    if not records or records[-1].kind is RecordKind.END:
        return None
    last = records[-1]
    outcome = _OUTCOME_OF[last.kind]
    if outcome is Outcome.COMMITTED and not settings.variant.commit_acked:
        return None  # commit is presumed: a branch in doubt will inquire
    return machine.resume(outcome, last.participants, now)


def answer(variant: Variant, records: Sequence[Record]) -> Message | None:
    """Return the message for a prepared branch that inquires at a coordinator without a machine for the
    transaction.

    Returns:
        ``COMMIT`` or ``ABORT``; None if only the last agent knows the outcome: use `resolve`.
    """
    decided = [record.kind for record in records if record.kind is not RecordKind.END]
    if decided:
        committed = _OUTCOME_OF[decided[-1]] is Outcome.COMMITTED
    elif variant.last_agent:
        return None
    else:
        committed = variant.presumes is Outcome.COMMITTED
    return Message.COMMIT if committed else Message.ABORT


def resolve(machine: Coordinator, branch: str, agent: str, now: float) -> tuple[Effect, ...]:
    """Make a new machine a resolver, which asks the last agent and sends the outcome to one prepared branch.

    Each branch of a transaction needs its own resolver, so that none depends on another's progress.
    """
    return machine.resume(None, (branch, agent), now)


class Action(StrEnum):
    """Action to take on a branch found prepared."""

    LEAVE = "leave"
    """Leave a branch that is not ours, or whose coordinator is alive and will finish it."""
    COMMIT = "commit"
    ABORT = "abort"
    """Fence the branch, then roll it back."""
    ASK_AGENT = "ask_agent"
    """Fence the last agent's branch and check whether it is committed; then call `decide` again."""
    BLOCK = "block"
    """Report the branch and leave it unchanged: the outcome is unknown everywhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchFacts:
    """Facts about a branch found prepared."""

    is_own: bool
    """Whether the branch's gid is one of ours, not foreign or unparsable."""
    alive: bool
    """Whether the coordinator process (the epoch) that began the branch is alive, that is, not fenced."""
    records: tuple[Record, ...] | None
    """The decision log's records of the transaction; None if the log is lost. They are read after the branch was
    found and its epoch was fenced, so no record can be added afterwards.
    """
    peers: Mapping[str, Outcome] = field(default_factory=dict)
    """Outcomes of other branches that are known to have ended; ABORTED only if a fence protects the outcome."""
    agent: str = ""
    """Name of the last agent; empty if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchVerdict:
    """Action to take on a branch, and the reason, worded for an operator."""

    action: Action
    reason: str


def decide(result: BranchFacts, variant: Variant) -> BranchVerdict:
    """Return the action for a branch found prepared (Citus's rule, with a fence before an abort)."""
    if not result.is_own:
        return BranchVerdict(action=Action.LEAVE, reason="not a branch of ours")
    if result.alive:
        return BranchVerdict(action=Action.LEAVE, reason="its coordinator is alive and finishes it")
    if variant.last_agent and not result.records:
        return _by_agent(result)
    if result.records is None:
        return _by_peers(result)
    message = answer(variant, result.records)
    action = Action.COMMIT if message is Message.COMMIT else Action.ABORT
    if not result.records:
        return BranchVerdict(
            action=action, reason=f"no decision was logged: {variant.presumes} is presumed"
        )
    return BranchVerdict(action=action, reason=f"the decision log says {result.records[-1].kind}")


def _by_agent(result: BranchFacts) -> BranchVerdict:
    outcome = result.peers.get(result.agent)
    if outcome is None:
        return BranchVerdict(
            action=Action.ASK_AGENT, reason=f"{result.agent or 'it'} decides, and was not asked"
        )
    action = Action.COMMIT if outcome is Outcome.COMMITTED else Action.ABORT
    return BranchVerdict(action=action, reason=f"{result.agent} decided: {outcome}")


def _by_peers(result: BranchFacts) -> BranchVerdict:
    """Decide by cooperative termination: without the log, one branch that knows the outcome is enough."""
    known = {name: o for name, o in result.peers.items() if o is not Outcome.READ_ONLY}
    if len(set(known.values())) == 1:
        name, outcome = min(known.items())
        action = Action.COMMIT if outcome is Outcome.COMMITTED else Action.ABORT
        return BranchVerdict(action=action, reason=f"the decision log is lost; {name} is {outcome}")
    why = "other branches ended differently" if known else "no other branch knows the outcome"
    return BranchVerdict(
        action=Action.BLOCK,
        reason=f"the decision log is lost and {why}: restore the log, or decide by hand",
    )
