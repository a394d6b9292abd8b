"""Two-phase commit as state machines without input or output.

The interface of a machine is ``receive(event, now) -> effects``: the driver passes an event and the current time,
and performs the returned effects in order; see `effects` for the contract. The same machines are driven by asyncio
on real servers, in virtual time, and by the tests through every interleaving.

Start reading at `states`: the transition tables define the protocol.
"""

from __future__ import annotations

from twopc.protocol.coordinator import Coordinator
from twopc.protocol.participant import Participant
from twopc.protocol.states import CoordinatorState, ParticipantState
from twopc.protocol.variants import (
    LAST_AGENT,
    PRESUMED_ABORT,
    PRESUMED_COMMIT,
    PRESUMED_NOTHING,
    VARIANTS,
    Settings,
    Variant,
)

__all__ = [
    "LAST_AGENT",
    "PRESUMED_ABORT",
    "PRESUMED_COMMIT",
    "PRESUMED_NOTHING",
    "VARIANTS",
    "Coordinator",
    "CoordinatorState",
    "Participant",
    "ParticipantState",
    "Settings",
    "Variant",
]
