"""After a crash: the machines from their log records, and what becomes of a branch found prepared.

Knows records and facts, not how they are read. An outcome is never guessed: where the facts do not
tell it, the branch is left as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from twopc.protocol.coordinator import Coordinator
from twopc.protocol.effects import NOTHING, Effect, Message, Outcome, Record, RecordKind
from twopc.protocol.participant import Participant
from twopc.protocol.variants import Settings, Variant

_OUTCOME_OF = {
    RecordKind.COMMIT: Outcome.COMMITTED,
    RecordKind.ABORT: Outcome.ABORTED,
    # Names were collected and no decision followed.
    RecordKind.COLLECTING: Outcome.ABORTED,
    RecordKind.COMMITTED: Outcome.COMMITTED,
    RecordKind.ABORTED: Outcome.ABORTED,
}


def rebuild_coordinator(
    machine: Coordinator, settings: Settings, records: Sequence[Record], now: float
) -> tuple[Effect, ...] | None:
    """Bring a new machine to where the log says that the old one was.

    Args:
        machine: newly made, with `settings`.
        settings: those that the transaction began with.
        records: the coordinator's durable records of this transaction, oldest first.
        now: as for `receive`.

    Returns:
        What is to be done; None if there is nothing to take up. Then an inquiry that comes all the
        same is answered by `answer`.
    """
    if not records or records[-1].kind is RecordKind.END:
        return None
    last = records[-1]
    outcome = _OUTCOME_OF[last.kind]
    if outcome is Outcome.COMMITTED and not settings.variant.commit_acked:
        return None  # commit is presumed: whoever is in doubt will ask
    return machine.resume(outcome, last.participants, now)


def answer(variant: Variant, records: Sequence[Record]) -> Message | None:
    """What a prepared branch is told that asks a coordinator which has no machine for it.

    Returns:
        ``COMMIT`` or ``ABORT``; None if only the last agent knows: make a resolver.
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
    """Make a new machine a resolver: it asks the last agent, and tells one prepared branch.

    Several branches of one transaction take a resolver each: none depends on another's progress.
    """
    return machine.resume(None, (branch, agent), now)


def rebuild_participant(
    machine: Participant, records: Sequence[Record], now: float
) -> tuple[Effect, ...]:
    """Bring a new machine to where the log says that the branch is.

    Unprepared work is gone with the crash: without records the machine stays ``NEW``, and votes no.
    """
    if not records:
        return NOTHING
    return machine.resume(_OUTCOME_OF.get(records[-1].kind), now)


class Action(StrEnum):
    """What is to be done with a branch found prepared."""

    LEAVE = "leave"
    """It is none of our business, or its coordinator is alive and will finish it."""
    COMMIT = "commit"
    ABORT = "abort"
    """Fence it, then roll it back."""
    ASK_AGENT = "ask_agent"
    """Fence the last agent's branch and see whether it is committed; then ask `decide` again."""
    BLOCK = "block"
    """Nobody knows: report it and touch nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchFacts:
    """The facts about a branch found prepared."""

    is_own: bool
    """Its gid is one of ours; a foreign or unparsable one is not."""
    alive: bool
    """The coordinator that began it (its epoch) is alive, that is, not fenced."""
    records: tuple[Record, ...] | None
    """What the decision log holds of it; None if that log is lost. Read after the branch was found
    and after its epoch was fenced: then nothing can be added."""
    peers: Mapping[str, Outcome] = field(default_factory=dict)
    """Other branches that are known to have ended; ABORTED only if a fence stands against them."""
    agent: str = ""
    """The last agent, if there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchVerdict:
    """What is to be done with a branch, and why, in words for an operator."""

    action: Action
    reason: str


def decide(result: BranchFacts, variant: Variant) -> BranchVerdict:
    """What becomes of a branch found prepared (Citus's rule, with a fence before an abort)."""
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
    """Cooperative termination: without the log, one branch that knows is enough."""
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
