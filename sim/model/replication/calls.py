"""What goes over a link: rows on their way from a Subscriber to a procedure of the Publisher."""

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
    """The gid, in the first call of a branch."""
    sites: tuple[str, ...] = ()
    """All branches, likewise."""
    old: tuple[Values, ...] = ()
    """The rows as they were: key and version for an update, all values for a delete."""
    new: tuple[Values, ...] = ()
    """The rows as they are: all values."""


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
"""A statement of a message: text, or one of the above."""
