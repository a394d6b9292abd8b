"""Modules shared by Publisher and Subscriber, the two-phase commit machines, and the drivers of the machines."""

from __future__ import annotations

from twopc.errors import (
    ConflictError,
    InDoubtError,
    RejectedError,
    ResultLostError,
    TransactionError,
    TwopcError,
)
from twopc.names import BranchId, GlobalId

__all__ = [
    "BranchId",
    "ConflictError",
    "GlobalId",
    "InDoubtError",
    "RejectedError",
    "ResultLostError",
    "TransactionError",
    "TwopcError",
]
