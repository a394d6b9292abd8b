"""The translation of messages into events of the machine that receives them."""

from __future__ import annotations

from tests.protocol.frozen import ViolationError
from tests.protocol.values import Packet
from twopc.protocol import events as e
from twopc.protocol.effects import Message


def to_participant(packet: Packet) -> e.Event:
    """Return the event by which a participant receives a message."""
    match packet.message:
        case Message.PREPARE:
            return e.PrepareAsked(participants=packet.participants)
        case Message.DECIDE:
            return e.DecideAsked(participants=packet.participants)
        case Message.COMMIT:
            return e.CommitTold()
        case Message.ABORT:
            return e.AbortTold()
        case Message.FENCE:
            return e.FenceTold()
    raise ViolationError(f"not for a participant: {packet}")


def to_coordinator(packet: Packet) -> e.Event:
    """Return the event by which the coordinator receives a message."""
    who = packet.source
    match packet.message:
        case Message.VOTE_YES:
            return e.VotedYes(participant=who)
        case Message.VOTE_NO:
            return e.VotedNo(participant=who, reason=packet.reason)
        case Message.VOTE_READ_ONLY:
            return e.VotedReadOnly(participant=who)
        case Message.COMMITTED:
            return e.BranchCommitted(participant=who)
        case Message.ABORTED:
            return e.BranchAborted(participant=who)
        case Message.INQUIRE:
            return e.Inquired(participant=who)
    raise ViolationError(f"not for the coordinator: {packet}")
