"""Brings a branch to an outcome, whatever it has met before: the same at a real node and in the model.

It must not decide anything.
"""

from __future__ import annotations

from typing import Protocol

from psycopg import errors as pg

from twopc.protocol.effects import Outcome

_TRIES = 50


class Branches(Protocol):
    """What settling needs of a node. Every method may raise `psycopg.Error`."""

    name: str

    async def owner_of(self, gid: str) -> str | None:
        """The role that prepared a branch; None if it is not prepared."""
        ...

    async def finish(self, gid: str, owner: str, outcome: Outcome) -> bool:
        """Commit or roll back a prepared branch; False: somebody else has, or is about to."""
        ...

    async def fence(self, gid: str, sites: list[str]) -> Outcome | None:
        """How a branch ended and can no longer help having ended; None if it is prepared."""
        ...

    async def pause(self) -> None:
        """A moment, after which to look again."""
        ...


async def settle(at: Branches, gid: str, outcome: Outcome, sites: list[str]) -> Outcome:
    """Bring a branch to an outcome if it has none, and tell which it has: see `Participant.settle`.

    Raises:
        psycopg.Error: it is not known yet; ask again.
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
