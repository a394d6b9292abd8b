"""Copies on servers: the ports of the snapshot agent, implemented over the administrators' connections.

Independent of the order of the steps and of the position from which a Subscriber receives changes.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal

from psycopg import AsyncConnection, sql

from twopc.articles import Article
from twopc.distributed_article import DistributedArticle
from twopc.drivers.install import install_participant
from twopc.drivers.points import Points
from twopc.drivers.runtime import Asyncio
from twopc.drivers.snapshot_agent import CopyMoment, SnapshotAgent, UnseenTransaction
from twopc.lsn import lsn_text, lsn_value
from twopc.proc_execution import BESIDE, CALL_TYPE, ProcArticle
from twopc.publisher import proc_execution, subscriptions
from twopc.publisher.distribution import registry, retention
from twopc.sim.topology import initial
from twopc.sim.topology.grants import revoke_tables
from twopc.sim.topology.installer import Installer, TopologyComponent
from twopc.sim.topology.nodes import Node
from twopc.sim.topology.registration import numbers
from twopc.sim.topology.wiring import TopologyWiring
from twopc.sql import path
from twopc.sql.fragments import qualified
from twopc.subscriber import proc_execution as routines_here
from twopc.subscriber import propagation as procedures
from twopc.subscriber import read_only, subscription

SyncType = Literal["automatic", "replication support only", "none"]

_PREPARED = "select gid from pg_prepared_xacts where owner = %s order by prepared limit 1"
#: The first of the stored transactions that the copy's snapshot does not include.
_UNSEEN = """
select d.read_to::text, t.xact_seqno::text, t.xact_id::text
from msrepl.mspublisher_databases d
left join lateral (
    select t.xact_seqno, t.xact_id from msrepl.msrepl_transactions t
    where t.publisher_database_id = d.id and t.xact_seqno <= d.read_to
      and not pg_visible_in_snapshot(t.xact_id, %(snapshot)s::pg_snapshot)
    order by t.xact_seqno limit 1) t on true
where d.id = %(publisher)s
"""
#: A stored call without its rows that the copy's snapshot does not include, committed up to the copy's position.
_UNSEEN_CALL = """
select t.xact_seqno::text, t.xact_id::text from msrepl.msrepl_transactions t
where t.publisher_database_id = %(publisher)s and t.xact_seqno <= %(seqno)s::pg_lsn
  and not pg_visible_in_snapshot(t.xact_id, %(snapshot)s::pg_snapshot)
  and (select bool_or(c.type = %(call)s) and not bool_or(c.article_id > %(beside)s)
       from msrepl.commands_between(%(publisher)s, t.xact_seqno - 1::numeric, t.xact_seqno) c)
limit 1
"""
_START = """
update msrepl.mssubscriptions
set status = %(status)s, copy_snapshot = %(snapshot)s, copy_seqno = %(seqno)s,
    subscription_seqno = %(after)s
where publisher_database_id = %(publisher)s and subscriber = %(subscriber)s
  and article_id = any (%(articles)s)
"""
_SET_ACTIVE = """
update msrepl.mssubscriptions set status = %(status)s
where publisher_database_id = %(publisher)s and subscriber = %(subscriber)s
  and article_id = any (%(articles)s)
"""


class ServerCopySource:
    """The Publisher of a topology; see `CopySourcePort`.

    Args:
        articles: articles that are copied.
        link_role: role of the Subscriber's link; None: the Subscriber has no link.
    """

    def __init__(
        self, wiring: TopologyWiring, articles: Sequence[Article], link_role: str | None = None
    ) -> None:
        self.name = wiring.publisher
        self._wiring = wiring
        self._tables = [qualified(each.schema, each.table) for each in articles]
        self._link_role = link_role

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """See `CopySourcePort`."""
        here = await self._wiring.admin(self.name)
        async with here.transaction():
            await here.execute("set transaction isolation level repeatable read, read only")
            await here.execute(path.SET_LOCAL)
            if self._tables:
                # before the snapshot, in which a table that ALTER TABLE rewrites later would be empty
                lock = sql.SQL("lock table {} in access share mode")
                await here.execute(lock.format(sql.SQL(", ").join(self._tables)))
            yield

    async def snapshot(self) -> str:
        """See `CopySourcePort`."""
        rows = await self._wiring.execute(self.name, "select pg_current_snapshot()::text")
        return str(rows[0][0])

    async def position(self) -> int:
        """See `CopySourcePort`."""
        rows = await self._wiring.execute(self.name, "select pg_current_wal_insert_lsn()::text")
        return lsn_value(rows[0][0])

    async def prepared(self) -> str | None:
        """See `CopySourcePort`."""
        if self._link_role is None:
            return None
        rows = await self._wiring.execute(self.name, _PREPARED, (self._link_role,))
        return str(rows[0][0]) if rows else None


class ServerCopyTarget(TopologyComponent):
    """A Subscriber of a topology, with the articles and routines of its subscription; see `CopyTargetPort`."""

    def __init__(
        self,
        installer: Installer,
        subscriber: str,
        articles: Sequence[DistributedArticle] = (),
        routines: Sequence[ProcArticle] = (),
        *,
        reads: bool = False,
    ) -> None:
        self.name = subscriber
        self.articles = articles
        self.routines = routines
        super().__init__(installer)
        self._reads = reads

    @property
    def _plain(self) -> list[Article]:
        return [each.article for each in self.articles]

    @property
    def _node(self) -> Node:
        return self._wiring.node(self.name)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """See `CopyTargetPort`."""
        async with (await self._wiring.admin(self.name)).transaction():
            yield

    async def prepare(self) -> None:
        """See `CopyTargetPort`."""

    async def hold(self) -> None:
        """See `CopyTargetPort`."""
        await self._agents.hold(self.name)

    async def lock_out(self, timeout_s: float) -> None:
        """See `CopyTargetPort`."""
        here = await self._wiring.admin(self.name)
        await initial.lock_out(here, self._plain, round(timeout_s * 1000))

    async def close_tables(self, timeout_s: float) -> None:
        """See `CopyTargetPort`."""
        await initial.close_tables(await self._wiring.admin(self.name), round(timeout_s * 1000))

    async def fill(self) -> None:
        """See `CopyTargetPort`."""
        await self._read_routines()
        publisher = await self._wiring.at_publisher()
        await initial.bring_again(publisher, await self._wiring.admin(self.name), self._plain)

    async def _read_routines(self) -> None:
        """Read the definitions of the routines at the Publisher, in the snapshot of the copy."""
        requested = {routine.article_id for routine in self.routines}
        result = await proc_execution.proc_articles(await self._wiring.at_publisher())
        self.routines = [routine for routine in result if routine.article_id in requested]

    async def create_objects(self) -> None:
        """See `CopyTargetPort`."""
        await self._installer.create_routines(self.name, self.routines, calls=self._reads)

    async def position(self) -> int:
        """See `CopyTargetPort`."""
        return lsn_value(await self._registration.position(self.name))

    async def refuse_prepared(self) -> None:
        """See `CopyTargetPort`."""
        await subscription.refuse_prepared(await self._wiring.admin(self.name))

    async def remove(self) -> None:
        """See `CopyTargetPort`."""
        here, node = await self._wiring.admin(self.name), self._node
        roles = [node.app_role]
        if self._wiring.distribute:
            await procedures.drop_all(here)
            await routines_here.drop_all(here)
            roles.append(node.agent_role)
        for schema, table in await subscription.uninstall(here):
            for role in roles:
                await revoke_tables(here, schema, table, role)


class FirstCopy(ServerCopyTarget):
    """Articles that a Subscriber has not received yet.

    Args:
        sync: ``automatic``: rows are copied.
        scripts: SQL that creates the user's own procedures, by table.
        link: the link of a new subscription that is not read-only.
        new: the Subscriber has no articles yet.
    """

    def __init__(
        self,
        *given: Any,
        sync: SyncType,
        scripts: Mapping[str, Sequence[str]],
        link: subscription.LinkAddress | None,
        new: bool,
        reads: bool,
    ) -> None:
        super().__init__(*given, reads=reads)
        self.obstacles: list[Any] = []
        """Triggers of the user that would fire before ours."""
        self._sync = sync
        self._scripts = scripts
        self._link = link
        self._new = new
        self._copies: list[dict[str, Any]] = []

    async def prepare(self) -> None:
        """See `CopyTargetPort`."""
        here, sites = await self._wiring.admin(self.name), self._installer.sites(self.name)
        if self._link is not None:
            await subscription.install(here, sites, self._link)
        elif self._new:
            origin = self._wiring.node(self._wiring.publisher)
            await read_only.install(here, sites, origin.database)
        if self._wiring.distribute:
            await procedures.install(here, self._node.agent_role)

    async def fill(self) -> None:
        """See `CopyTargetPort`."""
        await self._read_routines()
        self._copies = await initial.bring(
            await self._wiring.at_publisher(),
            await self._wiring.admin(self.name),
            self._plain,
            self._node.app_role,
            rows=self._sync == "automatic",
            read_only=self._reads,
        )

    async def create_objects(self) -> None:
        """See `CopyTargetPort`."""
        here, node = await self._wiring.admin(self.name), self._node
        sites = self._installer.sites(self.name)
        for article, copy in zip(self._plain, self._copies, strict=True):
            if self._reads:
                await read_only.subscribe(here, article, **copy)
            else:
                self.obstacles += await subscription.subscribe(here, article, sites, **copy)
        if self._link is not None:
            await subscription.register_role(here, node.app_role, node.coordinator_role)
            await install_participant(
                here, subscription.owner_role(node.database), node.coordinator_role
            )
        if self._wiring.distribute:
            await self._installer.create_procedures(self.name, self.articles, self._scripts)
            await super().create_objects()


class ServerCopyStore(TopologyComponent):
    """The distribution database of a topology; see `CopyStorePort`."""

    def __init__(self, installer: Installer, target: ServerCopyTarget) -> None:
        super().__init__(installer)
        self._target = target
        self._keeping: AsyncConnection[Any] | None = None
        """The session that retains stored commands; while there is one, all queries run in it."""

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """See `CopyStorePort`; uses a separate session, whose loss ends the copy."""
        node = self._wiring.node(self._wiring.distribution)
        async with await node.connect() as connection, retention.kept(connection):
            self._keeping = connection
            try:
                yield
            finally:
                self._keeping = None

    async def unseen(self, moment: CopyMoment) -> tuple[int, UnseenTransaction | None]:
        """See `CopyStorePort`."""
        rows = await self._execute(_UNSEEN, snapshot=moment.snapshot)
        stored, seqno, xid = rows[0]
        unseen = None if seqno is None else UnseenTransaction(seqno=lsn_value(seqno), xid=int(xid))
        return lsn_value(stored), unseen

    async def unseen_call(self, moment: CopyMoment) -> UnseenTransaction | None:
        """See `CopyStorePort`."""
        target = self._target
        if not target.routines or not await self._registration.is_read_only(target.name):
            return None
        rows = await self._execute(
            _UNSEEN_CALL,
            snapshot=moment.snapshot,
            seqno=lsn_text(moment.seqno),
            call=CALL_TYPE,
            beside=BESIDE,
        )
        return UnseenTransaction(seqno=lsn_value(rows[0][0]), xid=int(rows[0][1])) if rows else None

    async def start(self, after: int, moment: CopyMoment, *, active: bool) -> None:
        """See `CopyStorePort`."""
        await self._execute(
            _START,
            status=registry.ACTIVE if active else registry.SUBSCRIBED,
            snapshot=moment.snapshot,
            seqno=lsn_text(moment.seqno),
            after=lsn_text(after),
        )

    async def set_active(self) -> None:
        """See `CopyStorePort`."""
        await self._execute(_SET_ACTIVE, status=registry.ACTIVE)

    async def _execute(self, query: str, **values: Any) -> list[tuple[Any, ...]]:
        target = self._target
        given = {
            "publisher": await self._registration.publisher_number(),
            "subscriber": target.name,
            "articles": numbers(target.articles, target.routines),
            **values,
        }
        if self._keeping is None:
            return await self._wiring.execute(self._wiring.distribution, query, given)
        cursor = await self._keeping.execute(query.encode(), given)
        return await cursor.fetchall() if cursor.description else []


class Copies(TopologyComponent):
    """Creates the snapshot agents of a topology."""

    def __init__(self, installer: Installer) -> None:
        super().__init__(installer)
        self.points = Points(os.environ)
        """Protocol points at which armed faults strike while a Subscriber's rows are copied."""
        self.subscriber = ""
        """Subscriber that is being copied to."""

    async def agent(self, target: ServerCopyTarget) -> SnapshotAgent:
        """Return the snapshot agent that makes, replaces or removes a copy."""
        wiring = self._wiring

        async def reach(point: str) -> None:
            if self.points.armed:
                self.subscriber = target.name
                await self.points.reach(point)

        known = await subscriptions.subscriptions(await wiring.at_publisher())
        roles = {each.subscriber: each.link_role for each in known}
        return SnapshotAgent(
            ServerCopySource(
                wiring, [each.article for each in target.articles], roles.get(target.name)
            ),
            target,
            ServerCopyStore(self._installer, target) if wiring.distribute else None,
            runtime=Asyncio(),
            reach=reach,
            timeout_s=wiring.lock_timeout_ms / 1000,
        )
