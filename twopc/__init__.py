"""The words both ends share, the two-phase commit machines, and what drives them."""

from __future__ import annotations

from twopc.errors import (
    ConflictError,
    InDoubtError,
    RejectedError,
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
    "TransactionError",
    "TwopcError",
]
