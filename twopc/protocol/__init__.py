"""Two-phase commit as machines without input or output.

``receive(event, now) -> effects`` is all there is to a machine. It is handed what happened and the
time, and answers what is to be done, in order; see `effects` for the contract. The same machines
are driven by asyncio on real servers, in virtual time, and by the tests through every interleaving.

Start reading at `states`: the tables are the protocol.
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
