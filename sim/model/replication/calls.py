"""Statements sent over a link: calls with a Subscriber's rows for procedures of the Publisher."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from twopc.sim.model.values import Values

Operation = Literal["ins", "upd", "del"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncCall:
    """``call msrepl.sp_mssync_<operation>_<table>(…)``"""

    operation: Operation
    article: str
    branch: str = ""
    """The gid; only in the first call of a branch."""
    sites: tuple[str, ...] = ()
    """All branches; only in the first call of a branch."""
    old: tuple[Values, ...] = ()
    """The old rows: key and version for an update, all values for a delete."""
    new: tuple[Values, ...] = ()
    """The new rows: all values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeferKeys:
    """``call msrepl.defer_keys(…)``"""

    defer: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateCall:
    """``select msrepl.sp_mssync_gen_<table>(…)``"""

    article: str
    size: int


Procedure = SyncCall | DeferKeys | GenerateCall
Order = str | Procedure
"""A statement of a message: SQL text or one of the calls above."""
