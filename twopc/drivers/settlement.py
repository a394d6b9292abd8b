"""Settling of a branch in any state: the same on a server and in the model.

This module must not decide which outcome a branch gets.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from psycopg import errors as pg

from twopc.protocol.effects import Outcome
from twopc.waits import link_name

_TRIES = 50
#: Outcomes by the answers of ``msrepl.fence_branch``.
_OUTCOME_OF: dict[str, Outcome | None] = {
    "prepared": None,
    "committed": Outcome.COMMITTED,
    "fenced": Outcome.ABORTED,
}


class Branches(ABC):
    """A node's branches and their sessions. Every method may raise `psycopg.Error`."""

    name: str

    @abstractmethod
    async def owner_of(self, gid: str) -> str | None:
        """Return the role that prepared a branch; None if the branch is not prepared, or by a role of which the
        coordinator's role is not a member.
        """

    @abstractmethod
    async def finish(self, gid: str, owner: str, outcome: Outcome) -> bool:
        """Commit or roll back a prepared branch as its owner; return False if another session has done so, or is
        about to.
        """

    @abstractmethod
    async def _fence(self, gid: str, sites: list[str]) -> str:
        """Return the answer of ``msrepl.fence_branch``."""

    @abstractmethod
    async def pause(self) -> None:
        """Wait a moment while another session finishes a branch; the server does not notify of the end."""

    @abstractmethod
    async def end_sessions(self, names: list[str]) -> list[int]:
        """End the sessions with these application names, wait for their end, and return their pids."""

    async def settle(self, gid: str, outcome: Outcome, sites: list[str]) -> Outcome:
        """Bring a branch to an outcome if it has none, and return its outcome.

        The returned outcome is final: a branch that was never prepared is fenced.

        Args:
            gid: gid of the branch.
            outcome: COMMITTED or ABORTED.
            sites: the other participants, recorded with a fence.

        Raises:
            psycopg.Error: the outcome is not known, because the server does not answer or the branch is still
                active; call again.
        """
        for _ in range(_TRIES):
            owner = await self.owner_of(gid)
            if owner is not None and await self.finish(gid, owner, outcome):
                return outcome
            result = await self.fence(gid, sites)
            if result is not None:
                return result
            await self.pause()
        raise pg.ObjectInUse(f"branch {gid} at {self.name} is being finished by another session")

    async def fence(self, gid: str, sites: list[str]) -> Outcome | None:
        """Return the final outcome of a branch; None if it is prepared.

        Raises:
            psycopg.errors.LockNotAvailable: the branch is still active.
            psycopg.errors.InsufficientPrivilege: the branch is prepared, and the coordinator's role is not a member
                of its owner's role.
        """
        return _OUTCOME_OF[await self._fence(gid, sites)]

    async def end_links(self, subscriber: str, pids: list[int]) -> list[int]:
        """At the Publisher: end the links of the given sessions of a Subscriber."""
        return await self.end_sessions([link_name(subscriber, pid) for pid in pids])
