"""Finishes at the Publisher what clients of a Subscriber have decided by committing there.

The Subscriber's commit, with its branch marker in it, is the decision (last agent), seen at once by a
`resolver_watch`; what it misses, and what was never decided, is found by a sweep. Only `twopc.drivers.recovery` says what becomes of a
branch that nobody told us of. It must not know tables, nor what a client did.
"""

from __future__ import annotations

import asyncio
import math
import re
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import AsyncConnection, errors, pq, sql

from twopc.drivers.database import (
    ANSWER_TIMEOUT_S,
    DURABLE,
    Database,
    connect_timeout,
    cut_after,
)
from twopc.drivers.decided import Decided
from twopc.drivers.hand import Hand
from twopc.drivers.lean import report
from twopc.drivers.participant import Participant, ParticipantAddress
from twopc.drivers.points import Points
from twopc.drivers.recovery import Recovery, Settled
from twopc.drivers.resolver_watch import Watch
from twopc.log import get_logger
from twopc.names import PREFIX, branch_gid
from twopc.sql import path
from twopc.together import together
from twopc.waits import link_prefix

_log = get_logger(__name__)

#: How many branches are finished at a time: their commits share the Publisher's flushes.
_HANDS = 16
_MARKERS_BATCH = 2000
#: For how many times as long as other markers fences stay, against a PREPARE that is still on its way.
_FENCES_KEPT = 10
#: Another one has finished it, or is about to.
_QUICKER = (errors.UndefinedObject.sqlstate, errors.ObjectNotInPrerequisiteState.sqlstate)
_PREPARED = sql.SQL(
    "select gid from pg_prepared_xacts"
    " where starts_with(gid, {}) and database = current_database() and owner = {}"
)
#: Those of them that are decided, once that is durable: a marker can be seen of a commit that did not wait until
#: it is on disk, or at the standby.
_DECIDED = sql.SQL("""
with decided as materialized (
    select gid from msrepl.branch_marker where gid in ({}) and not fence
), durable as materialized (
    select msrepl.flush_log() from decided limit 1
)
select gid from decided left join durable on true
""")
#: Links that have long been idle in a transaction. Names are believed of the link role only: anybody may take one.
_LEFT = """
select split_part(application_name, ' ', 3)::bigint, pid, backend_start::text, state_change::text
from pg_stat_activity
where datname = current_database() and usename = %s and application_name ~ %s
  and state like 'idle in transaction%%' and state_change < clock_timestamp() - %s * interval '1 second'
"""
#: Sessions that have nothing open, and whether they are kept from using their links again; see begin_any_client.
#: Of roles that we are no member of nothing but the pid is shown: it may have a transaction open.
_KEEP = """
select s.pid, pg_try_advisory_xact_lock(1836282472, s.pid)
from unnest(%s::integer[]) as s(pid)
where not exists (
    select from pg_stat_activity as a
    where a.datname = current_database() and a.pid = s.pid
      and (a.state is distinct from 'idle' or a.xact_start is not null))
"""
_KEEPERS = """
select l.objid::bigint, l.pid, a.usename::text from pg_locks as l left join pg_stat_activity as a on a.pid = l.pid
where l.locktype = 'advisory' and l.granted and l.objsubid = 2 and l.classid = 1836282472 and l.objid::bigint = any (%s)
  and l.database = (select d.oid from pg_database as d where d.datname = current_database())
"""
#: A link is idle as it was seen to be, or it is not ended.
_END = """
select pg_terminate_backend(a.pid, 2000)
from pg_stat_activity as a
join unnest(%s::integer[], %s::timestamptz[], %s::timestamptz[]) as l(pid, backend_start, state_change)
    using (pid, backend_start, state_change)
where a.state like 'idle in transaction%%'
"""
_PID_MAX = 2**31 - 1
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
        self._watch = Watch(lambda: self._connect(at.subscriber), at.channel, self._finish_decided)
        # of their own: a sweep that waits must not keep it from looking
        self._eyes = (
            Hand(lambda: self._connect(at.publisher)),
            Hand(lambda: self._connect(at.subscriber)),
        )
        self._hands = [Hand(self._connect_as_link) for _ in range(_HANDS)]
        self._forgotten_at = -math.inf
        self._seen: set[str] = set()
        """What was prepared the last time that we looked."""
        self._kept: set[int] = set()
        """Idle sessions whose links could not be ended the last time, because of a lock."""
        self._tasks: list[asyncio.Task[None]] = []
        self.finished = 0
        """How many branches it has finished because it saw them decided, not by recovery."""

    async def open(self) -> None:
        """Begin to listen, and settle what is left from before.

        Raises:
            psycopg.Error: a database cannot be reached.
        """
        await self._watch.open()
        await self.settle()
        self._tasks = [
            asyncio.create_task(self._watch.run(), name="twopc resolver"),
            asyncio.create_task(self._keep_sweeping(), name="twopc resolver sweep"),
        ]

    async def close(self) -> None:
        """Stop. Harmless twice; what is decided and not finished yet is found by the next one."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await together(
            *(hand.close() for hand in (*self._hands, *self._eyes)),
            self._watch.close(),
            self._recovery.close(),
            self._publisher.close(),
            self._subscriber.close(),
        )

    async def settle(self) -> list[Settled]:
        """One pass of recovery over this Subscriber's branches.

        Raises:
            psycopg.Error: the distribution database cannot be reached.
        """
        return await self._recovery.run()

    # -- what is decided ---------------------------------------------------------------------------

    async def _connect(self, at: ParticipantAddress) -> AsyncConnection[Any]:
        connection = await AsyncConnection.connect(
            at.dsn,
            autocommit=True,
            application_name=f"twopc resolver {self._at.coordinator}",
            connect_timeout=connect_timeout(ANSWER_TIMEOUT_S),
            options=path.options(at.dsn),
        )
        try:
            with cut_after(connection, ANSWER_TIMEOUT_S):
                await connection.execute(DURABLE)
        except BaseException:
            await connection.close()
            raise
        return connection

    async def _finish_decided(self) -> int:
        """Commit at the Publisher what the Subscriber's clients have decided, and tell how many that were.

        Anything unexpected is left to the sweep.
        """
        before = self.finished
        try:
            decided = await self._decided()
            shares = [share for n in range(_HANDS) if (share := decided[n::_HANDS])]
            await together(
                *(
                    self._finish(hand, share)
                    for hand, share in zip(self._hands, shares, strict=False)
                )
            )
        except psycopg.Error as error:
            _log.debug("not finished at once", reason=" ".join(str(error).split()))
        return self.finished - before

    async def _decided(self) -> list[str]:
        """Branches prepared at the Publisher whose marker is at the Subscriber for good: only a commit leaves one."""
        publisher, subscriber = self._eyes
        question = _PREPARED.format(sql.Literal(self._prefix), sql.Literal(self._at.link_role))
        prepared = _gids(await publisher.run(question))
        ours = {
            branch_gid(gid.rpartition(":")[0], self._at.subscriber.name): gid for gid in prepared
        }
        if not ours:
            return []
        decided = await subscriber.run(_DECIDED.format(sql.SQL(", ").join(map(sql.Literal, ours))))
        return [ours[gid] for gid in _gids(decided)]

    async def _finish(self, hand: Hand, gids: list[str]) -> None:
        """Commit some at the Publisher; another resolver may have been quicker."""
        for gid in gids:
            command = sql.SQL("commit prepared {}").format(sql.Literal(gid))
            failed = report((await hand.run(command))[0])
            if failed is None:
                self.finished += 1
            elif failed.sqlstate not in _QUICKER:
                _log.debug("not finished at once", reason=str(failed))

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
        """Nobody tells a server that a transaction was rolled back: its link is found idle in one.

        Its session may begin anew at any time. So a lock is taken that whoever begins shares: who has it is left
        alone, and who cannot get it takes a new link.
        """
        prefix = re.escape(link_prefix(self._at.subscriber.name))
        left = {
            pid: link
            for pid, *link in await self._publisher.database.fetch(
                _LEFT, (self._at.link_role, f"^{prefix} [0-9]{{1,10}}$", self._sweep_s / 2)
            )
            if pid <= _PID_MAX
        }
        kept: set[int] = set()
        if left:
            async with self._subscriber.database.use() as connection, connection.transaction():
                cursor = await connection.execute(_KEEP, ([*left],))
                idle = dict(await cursor.fetchall())
                gone = [left[pid] for pid, is_ours in idle.items() if is_ours]
                if gone:
                    await self._publisher.database.fetch(
                        _END, [*map(list, zip(*gone, strict=True))]
                    )
                kept = {pid for pid, is_ours in idle.items() if not is_ours}
                if kept & self._kept:
                    cursor = await connection.execute(_KEEPERS, ([*kept & self._kept],))
                    for pid, keeper, role in await cursor.fetchall():
                        _log.warning(
                            "a lock keeps a link open that a rollback has left: end that session",
                            link_of=pid,
                            held_by=keeper,
                            role=role,
                        )
        self._kept = kept

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


def _gids(results: list[pq.abc.PGresult]) -> list[str]:
    (result,) = results
    if (failed := report(result)) is not None:
        raise psycopg.DatabaseError(str(failed))
    values = (result.get_value(row, 0) for row in range(result.ntuples))
    return [value.decode() for value in values if value is not None]
