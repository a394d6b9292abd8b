"""A participant's database as the coordinator's role sees it: prepared branches, their outcomes, and finishing
them.

The slow path, which obtains an answer after any failure. This module must not decide anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import psycopg
from psycopg import errors as pg
from psycopg import sql

from twopc.drivers.database import ANSWER_TIMEOUT_S, Database
from twopc.drivers.lean import is_unsynced
from twopc.drivers.ports import PreparedBranch
from twopc.drivers.settlement import Branches
from twopc.protocol.effects import Outcome

_PREPARED = """
select gid, owner, coalesce(pg_has_role(owner, 'member'), false), extract(epoch from prepared)::float8
from pg_prepared_xacts
where database = current_database() and starts_with(gid, %s)
order by prepared, gid
"""
_OWNER = """
select owner, coalesce(pg_has_role(owner, 'member'), false), current_user::text
from pg_prepared_xacts where gid = %s and database = current_database()
"""
_END_SESSIONS = """
select pid, pg_terminate_backend(pid, 2000)
from pg_stat_activity
where datname = current_database() and application_name = any(%s) and pid <> pg_backend_pid()
  and pg_has_role(usesysid, 'usage')
"""
_END_SESSION = """
select pg_terminate_backend(pid, 2000)
from pg_stat_activity
where pid = %s and extract(epoch from backend_start) = %s::numeric and pid <> pg_backend_pid()
"""
_COMMITTED = """
select gid, participants from msrepl.branch_marker
where starts_with(gid, %s) and gid > %s and not fence
order by gid limit %s
"""
_FORGETS = """
select true from pg_proc as p join pg_namespace as n on n.oid = p.pronamespace
where (n.nspname, p.proname) = ('msrepl', 'forget_epoch')
"""
_MARKERS = "select gid, fence from msrepl.branch_marker where gid = any(%s)"
_UNRELEASED = """
select gid from msrepl.branch_marker
where gid = any(%s) and (calls > 0 or pending is not null) and created_at > '-infinity'
order by gid
"""
#: Time to wait before a branch that another session is finishing is checked again.
_RETRY_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class ParticipantAddress:
    """Connection strings of a participant."""

    name: str
    """Name of the node in the topology, and of its branch of a global transaction."""
    dsn: str = field(repr=False)
    """Connection string for the coordinator's role, which is a member of every role that prepares branches here."""
    application_dsn: str = field(default="", repr=False)
    """Connection string for applications; of Subscribers only."""


class ServerParticipant(Branches):
    """A participant on a server."""

    def __init__(
        self,
        address: ParticipantAddress,
        coordinator: str,
        *,
        answer_timeout_s: float = ANSWER_TIMEOUT_S,
        unreachable: str = "",
    ) -> None:
        self.name = address.name
        self.database = Database(
            address.name,
            address.dsn,
            f"twopc recovery {coordinator}",
            answer_timeout_s=answer_timeout_s,
            unreachable=unreachable,
        )

    async def introduce(self, introduction: tuple[str, str, int, bytes]) -> None:
        """Register a coordinator process at a Subscriber; see `twopc.proof`.

        Raises:
            psycopg.Error: the server does not answer, or has no subscription.
        """
        await self.database.fetch(
            "select msrepl.introduce_coordinator(%s, %s, %s, %s)", introduction
        )

    async def prepared(self, prefix: str) -> dict[str, PreparedBranch]:
        """Return the branches prepared here whose gid starts with `prefix`, oldest first."""
        rows = await self.database.fetch(_PREPARED, (prefix,))
        return {
            gid: PreparedBranch(gid=gid, owner=owner, is_ours=is_ours, prepared_at=at)
            for gid, owner, is_ours, at in rows
        }

    async def owner_of(self, gid: str) -> str | None:
        """See `Branches`."""
        rows = await self.database.fetch(_OWNER, (gid,))
        return str(rows[0][0]) if rows and rows[0][1] else None

    async def markers(self, gids: list[str]) -> dict[str, bool]:
        """Return which of `gids` have a marker here, each with whether it is a fence."""
        return dict(await self.database.fetch(_MARKERS, (gids,)))

    async def committed(self, prefix: str, after: str, rows_max: int) -> dict[str, list[str]]:
        """Return branches committed here whose markers are not forgotten, with the other branches, ordered by gid.

        Args:
            prefix: beginning of the gids.
            after: gid after which to start; empty to start with the first.
            rows_max: maximum number of branches.

        A node without subscriptions, or with read-only ones only, has none.
        """
        if not await self.database.fetch(_FORGETS):
            return {}
        return dict(await self.database.fetch(_COMMITTED, (prefix, after, rows_max)))

    async def unreleased(self, gids: Sequence[str]) -> list[str]:
        """See `ParticipantPort`."""
        return [gid for (gid,) in await self.database.fetch(_UNRELEASED, ([*gids],))]

    async def release(self, gids: Sequence[str]) -> None:
        """See `ParticipantPort`."""
        await self.database.fetch("select msrepl.release_branches(%s)", ([*gids],))

    async def pause(self) -> None:
        """See `Branches`."""
        await asyncio.sleep(_RETRY_S)

    async def _fence(self, gid: str, sites: list[str]) -> str:
        try:
            rows = await self.database.fetch("select msrepl.fence_branch(%s, %s)", (gid, sites))
        except pg.LockNotAvailable as error:
            for owner, is_ours, role in await self.database.fetch(_OWNER, (gid,)):
                if not is_ours:
                    raise self._refusal(gid, owner, role) from error
            raise
        return str(rows[0][0])

    async def end_sessions(self, names: list[str]) -> list[int]:
        """End the sessions with these application names, wait for their end, and return their pids.

        Any role may use a name, so only sessions of roles of which the coordinator is a member are ended.
        """
        return [pid for pid, _ in await self.database.fetch(_END_SESSIONS, (names,))]

    async def end_session(self, pid: int, started: str) -> None:
        """End a session, if it is still the one that started at the given time, and wait for its end."""
        await self.database.fetch(_END_SESSION, (pid, started))

    async def forget(self, gids: list[str]) -> None:
        """Remove the markers of branches about which no inquiry is expected any more."""
        await self.database.fetch("select msrepl.forget_branches(%s)", (gids,))

    async def forget_epoch(self, prefix: str, rows_max: int) -> int:
        """Remove markers whose gid starts with `prefix`, and return their number; `rows_max` if there may be more.

        A node without subscriptions, or with read-only ones only, has none.
        """
        if not await self.database.fetch(_FORGETS):
            return 0
        rows = await self.database.fetch("select msrepl.forget_epoch(%s, %s)", (prefix, rows_max))
        return int(rows[0][0])

    async def close(self) -> None:
        """Close the connection."""
        await self.database.close()

    async def finish(self, gid: str, owner: str, outcome: Outcome) -> bool:
        """See `Branches`."""
        verb = "commit prepared {}" if outcome is Outcome.COMMITTED else "rollback prepared {}"
        async with self.database.use() as connection:
            try:
                await connection.execute(sql.SQL("set role {}").format(sql.Identifier(owner)))
            except pg.InsufficientPrivilege as error:
                raise self._refusal(gid, owner, connection.info.user) from error
            unsynced: list[bool] = []

            def notice(diagnostic: psycopg.errors.Diagnostic) -> None:
                # the diagnostic is valid during this call only
                unsynced.append(is_unsynced(diagnostic))

            connection.add_notice_handler(notice)
            try:
                await connection.execute(sql.SQL(verb).format(sql.Literal(gid)))
            except (pg.UndefinedObject, pg.ObjectNotInPrerequisiteState):
                return False  # finished or being finished by another session: check again
            finally:
                connection.remove_notice_handler(notice)
                if not connection.closed:
                    await connection.execute("reset role")
        if any(unsynced):
            raise pg.OperationalError(
                f"branch {gid} is finished, but not on the synchronous standby"
            )
        return True

    def _refusal(self, gid: str, owner: str, role: str) -> pg.InsufficientPrivilege:
        return pg.InsufficientPrivilege(
            f"branch {gid} at {self.name} belongs to {owner}: GRANT {owner} TO {role}"
        )
