"""Settling of a branch in any state: the same on a server and in the model.

This module must not decide anything.
"""

from __future__ import annotations

from typing import Protocol

from psycopg import errors as pg

from twopc.protocol.effects import Outcome

_TRIES = 50


class Branches(Protocol):
    """Interface to a node's branches. Every method may raise `psycopg.Error`."""

    name: str

    async def owner_of(self, gid: str) -> str | None:
        """Return the role that prepared a branch; None if it is not prepared."""
        ...

    async def finish(self, gid: str, owner: str, outcome: Outcome) -> bool:
        """Commit or roll back a prepared branch; return False if another session has done so, or is about to."""
        ...

    async def fence(self, gid: str, sites: list[str]) -> Outcome | None:
        """Return the final outcome of a branch; None if it is prepared."""
        ...

    async def pause(self) -> None:
        """Wait a moment before the next attempt."""
        ...


async def settle(at: Branches, gid: str, outcome: Outcome, sites: list[str]) -> Outcome:
    """Bring a branch to an outcome if it has none, and return its outcome; see `ServerParticipant.settle`.

    Raises:
        psycopg.Error: the outcome is not known yet; call again.
    """
    for _ in range(_TRIES):
        owner = await at.owner_of(gid)
        if owner is not None and await at.finish(gid, owner, outcome):
            return outcome
        result = await at.fence(gid, sites)
        if result is not None:
            return result
        await at.pause()
    raise pg.ObjectInUse(f"branch {gid} at {at.name} is being finished by another session")
