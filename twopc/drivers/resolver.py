"""Finishes at the Publisher what clients of a Subscriber have decided by committing there.

The Subscriber's commit, with its branch marker in it, is the decision (last agent). It tells us of it; what we
miss, and what was never decided, is found by looking. Only `twopc.drivers.recovery` says what becomes of a
branch that nobody told us of. It must not know tables, nor what a client did.
"""

from __future__ import annotations

import asyncio
import math
import re
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import AsyncConnection, errors, sql

from twopc.drivers.database import ANSWER_TIMEOUT_S, Database, connect_timeout, cut_after
from twopc.drivers.decided import Decided
from twopc.drivers.participant import Participant, ParticipantAddress
from twopc.drivers.points import Points
from twopc.drivers.recovery import Recovery, Settled
from twopc.log import get_logger
from twopc.names import PREFIX, BranchId, branch_gid
from twopc.together import together
from twopc.waits import link_prefix

_log = get_logger(__name__)

#: How many branches are finished at a time: their commits share the Publisher's flushes.
_HANDS = 4
#: For how many of those that it is told of a hand looks whether they are decided, in one question.
_TOLD_MAX = 16
_MARKERS_BATCH = 2000
#: For how many times as long as other markers fences stay, against a PREPARE that is still on its way.
_FENCES_KEPT = 10
_RETRY_S = 0.5
#: Links of sessions that are not in a transaction any more, and have one open at the Publisher all the same.
_LEFT = """
select pid, split_part(application_name, ' ', 3)::int
from pg_stat_activity
where datname = current_database() and application_name ~ %s
  and state like 'idle in transaction%%' and state_change < clock_timestamp() - %s * interval '1 second'
"""
#: Of roles that we are no member of nothing but the pid is shown: it may have a transaction open.
_OPEN = """
select pid from pg_stat_activity
where datname = current_database() and pid = any (%s) and (state is distinct from 'idle' or xact_start is not null)
"""
_OLD = """
select gid from msrepl.branch_marker
where starts_with(gid, %s) and created_at < clock_timestamp() - %s * interval '1 second'
  and (not fence or created_at < clock_timestamp() - %s * interval '1 second')
limit %s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """Where a resolver works."""

    coordinator: str
    """In whose name the Subscriber's clients begin global transactions."""
    publisher: ParticipantAddress
    subscriber: ParticipantAddress
    distribution: str = field(repr=False)
    """Connection string of the distribution database, for the coordinator's role."""
    link_role: str
    """Which role prepares their branches at the Publisher."""
    channel: str
    """On which the Subscriber tells of decided branches."""


class Resolver:
    """The resolver of one Subscriber's clients. Several may run; one is enough.

    Args:
        sweep_s: how often it is looked for what nobody has told of.
        markers_kept_s: for how long the markers of finished transactions stay.
    """

    def __init__(
        self,
        at: Resolved,
        *,
        sweep_s: float = 0.5,
        markers_kept_s: float = 60.0,
    ) -> None:
        self._at = at
        self._sweep_s = sweep_s
        self._markers_kept_s = markers_kept_s
        self._prefix = f"{PREFIX}:{at.coordinator}:"
        who = f"resolver {at.coordinator}"
        self._publisher = Participant(at.publisher, who)
        self._subscriber = Participant(at.subscriber, who)
        self._recovery = Recovery(
            at.coordinator,
            publisher=at.publisher.name,
            participants={
                at.publisher.name: Participant(at.publisher, at.coordinator),
                at.subscriber.name: Participant(at.subscriber, at.coordinator),
            },
            decisions=Decided(
                Database("distribution", at.distribution, f"twopc recovery {at.coordinator}")
            ),
            points=Points(),
            retention_s=math.inf,  # its epoch is for as long as clients are let in
        )
        self._listening: AsyncConnection[Any] | None = None
        self._told: asyncio.Queue[str] = asyncio.Queue()
        self._forgotten_at = -math.inf
        self._seen: set[str] = set()
        """What was prepared the last time that we looked."""
        self._tasks: list[asyncio.Task[None]] = []
        self.finished = 0
        """How many branches it has finished because it was told of them."""

    async def open(self) -> None:
        """Begin to listen, and settle what is left from before.

        Raises:
            psycopg.Error: a database cannot be reached.
        """
        await self._listen()
        await self.settle()
        self._tasks = [
            asyncio.create_task(self._keep_listening(), name="twopc resolver"),
            *(
                asyncio.create_task(self._keep_finishing(), name="twopc resolver hand")
                for _ in range(_HANDS)
            ),
            asyncio.create_task(self._keep_sweeping(), name="twopc resolver sweep"),
        ]

    async def close(self) -> None:
        """Stop. Harmless twice; what is decided and not finished yet is found by the next one."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._listening is not None:
            await self._listening.close()
        await together(self._recovery.close(), self._publisher.close(), self._subscriber.close())

    async def settle(self) -> list[Settled]:
        """One pass of recovery over this Subscriber's branches.

        Raises:
            psycopg.Error: the distribution database cannot be reached.
        """
        return await self._recovery.run()

    # -- what we are told of -----------------------------------------------------------------------

    async def _listen(self) -> AsyncConnection[Any]:
        connection = self._listening
        if connection is None or connection.closed:
            connection = await self._connect(self._at.subscriber)
            try:
                with cut_after(connection, ANSWER_TIMEOUT_S):
                    await connection.execute(
                        sql.SQL("listen {}").format(sql.Identifier(self._at.channel))
                    )
            except BaseException:
                await connection.close()
                raise
            self._listening = connection
        return connection

    async def _connect(self, at: ParticipantAddress) -> AsyncConnection[Any]:
        return await AsyncConnection.connect(
            at.dsn,
            autocommit=True,
            application_name=f"twopc resolver {self._at.coordinator}",
            connect_timeout=connect_timeout(ANSWER_TIMEOUT_S),
        )

    async def _keep_listening(self) -> None:
        while True:
            try:
                async for notice in (await self._listen()).notifies():
                    self._told.put_nowait(notice.payload)
            except psycopg.Error as error:
                _log.warning("resolver does not hear", reason=" ".join(str(error).split()))
                await asyncio.sleep(_RETRY_S)

    async def _keep_finishing(self) -> None:
        """Commit at the Publisher what is told to be decided; anything unexpected is left to the sweep."""
        connection: AsyncConnection[Any] | None = None
        try:
            while True:
                told = [await self._told.get()]
                while not self._told.empty() and len(told) < _TOLD_MAX:
                    told.append(self._told.get_nowait())
                try:
                    for branch in await self._decided(told):
                        connection = connection or await self._connect_as_link()
                        with cut_after(connection, ANSWER_TIMEOUT_S):
                            await self._finish(connection, str(branch.global_id))
                except psycopg.Error as error:
                    _log.debug("not finished at once", reason=" ".join(str(error).split()))
                except Exception:
                    _log.exception("not finished at once")  # a fault of ours must not end the watch
                if connection is not None and connection.closed:
                    connection = None
        finally:
            if connection is not None:
                await connection.close()

    async def _decided(self, told: list[str]) -> list[BranchId]:
        """Those whose marker is there: anybody may notify, and only a commit leaves a marker."""
        ours = [
            branch
            for text in dict.fromkeys(told)
            if (branch := BranchId.parse(text)) is not None
            and branch.global_id.coordinator == self._at.coordinator
            and branch.branch == self._at.subscriber.name
        ]
        markers = await self._subscriber.markers([str(branch) for branch in ours])
        return [branch for branch in ours if markers.get(str(branch)) is False]

    async def _finish(self, connection: AsyncConnection[Any], gid: str) -> None:
        """Commit one at the Publisher; another resolver may have been quicker."""
        branch = branch_gid(gid, self._at.publisher.name)
        try:
            await connection.execute(sql.SQL("commit prepared {}").format(sql.Literal(branch)))
        except (errors.UndefinedObject, errors.ObjectNotInPrerequisiteState):
            return
        self.finished += 1

    async def _connect_as_link(self) -> AsyncConnection[Any]:
        connection = await self._connect(self._at.publisher)
        try:
            await connection.execute(
                sql.SQL("set role {}").format(sql.Identifier(self._at.link_role))
            )
        except BaseException:
            await connection.close()
            raise
        return connection

    # -- what nobody tells of ----------------------------------------------------------------------

    async def _keep_sweeping(self) -> None:
        while True:
            await asyncio.sleep(self._sweep_s)
            try:
                await self.sweep()
            except psycopg.Error as error:
                _log.warning("resolver cannot look", reason=" ".join(str(error).split()))
            except Exception:
                _log.exception("resolver cannot look")  # it must not end the watch

    async def sweep(self) -> None:
        """Settle what was prepared the last time already; end links whose sessions have nothing open.

        Raises:
            psycopg.Error: a database cannot be reached.
        """
        prepared = set(await self._publisher.prepared(self._prefix))
        if prepared & self._seen:
            for settled in await self.settle():
                _log.info("settled", gid=settled.gid, outcome=str(settled.outcome))
        self._seen = prepared
        await self._end_links()
        await self._forget()

    async def _end_links(self) -> None:
        """Nobody tells a server that a transaction was rolled back: its link is found idle in one."""
        prefix = re.escape(link_prefix(self._at.subscriber.name))
        left = await self._publisher.database.fetch(
            _LEFT, (f"^{prefix} [0-9]+$", self._sweep_s / 2)
        )
        if not left:
            return
        open_ = {
            pid
            for (pid,) in await self._subscriber.database.fetch(_OPEN, ([pid for _, pid in left],))
        }
        gone = [pid for _, pid in left if pid not in open_]
        if gone:
            await self._publisher.end_links(self._at.subscriber.name, gone)

    async def _forget(self) -> None:
        """Remove the markers of what has been over for long, whoever finished it, and old fences.

        The Subscriber's stay while the Publisher's branch is prepared: they are the decision. The Publisher's
        are the first to go: what it alone has a marker of was never committed elsewhere.
        """
        now = asyncio.get_running_loop().time()
        if now < self._forgotten_at + self._markers_kept_s / 4:
            return
        ours = await self._old(self._subscriber)
        open_ = {
            gid.rpartition(":")[0] for gid in await self._publisher.prepared(self._prefix)
        }  # asked for after the decisions were read
        over = [gid for gid in ours if gid.rpartition(":")[0] not in open_]
        there = await self._old(self._publisher)
        there += [branch_gid(gid.rpartition(":")[0], self._publisher.name) for gid in over]
        if there:
            await self._publisher.forget(there)
        if over:
            await self._subscriber.forget(over)
        if len(ours) < _MARKERS_BATCH:
            self._forgotten_at = now

    async def _old(self, participant: Participant) -> list[str]:
        rows = await participant.database.fetch(
            _OLD,
            (
                self._prefix,
                self._markers_kept_s,
                _FENCES_KEPT * self._markers_kept_s,
                _MARKERS_BATCH,
            ),
        )
        return [gid for (gid,) in rows]
