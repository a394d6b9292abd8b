"""Drivers, which perform the effects of the protocol's machines on PostgreSQL.

Start reading at `coordinator` for the interface to applications, and at `postgres` for the steps of a commit.
"""

from __future__ import annotations

from twopc.drivers.coordinator import PostgresCoordinator
from twopc.drivers.heuristics import Heuristic
from twopc.drivers.in_doubt import InDoubtBranch
from twopc.drivers.install import install_decision_log, install_participant
from twopc.drivers.oneshot import RunResult
from twopc.drivers.participant import ParticipantAddress
from twopc.drivers.points import POINTS, Points
from twopc.drivers.recovery import SettledBranch
from twopc.drivers.several import SeveralTransaction
from twopc.drivers.transaction import Transaction

__all__ = [
    "POINTS",
    "Heuristic",
    "InDoubtBranch",
    "ParticipantAddress",
    "Points",
    "PostgresCoordinator",
    "RunResult",
    "SettledBranch",
    "SeveralTransaction",
    "Transaction",
    "install_decision_log",
    "install_participant",
]
