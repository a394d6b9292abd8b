"""Drivers: they perform what the protocol's machines ask for, on PostgreSQL.

Start reading at `coordinator` for what an application uses, and at `postgres` for how a commit goes.
"""

from __future__ import annotations

from twopc.drivers.coordinator import PostgresCoordinator
from twopc.drivers.heuristics import Heuristic
from twopc.drivers.in_doubt import InDoubtBranch
from twopc.drivers.install import install_decision_log, install_participant
from twopc.drivers.oneshot import Done
from twopc.drivers.participant import ParticipantAddress
from twopc.drivers.points import POINTS, Points
from twopc.drivers.recovery import Settled
from twopc.drivers.several import SeveralTransaction
from twopc.drivers.transaction import Transaction

__all__ = [
    "POINTS",
    "Done",
    "Heuristic",
    "InDoubtBranch",
    "ParticipantAddress",
    "Points",
    "PostgresCoordinator",
    "Settled",
    "SeveralTransaction",
    "Transaction",
    "install_decision_log",
    "install_participant",
]
