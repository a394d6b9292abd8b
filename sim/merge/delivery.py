"""Initialisation of a Subscriber from the files of a snapshot, with one commit per file.

The content of a file, and the record of its delivery, are committed together: an interrupted delivery continues at
the next file, and sends none again. Until the last file has arrived, changes of the tables are refused (20092).
Every function takes administrators' connections.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

import psycopg
from psycopg import AsyncConnection, sql

from twopc.articles import Article
from twopc.drivers.merge import neighbours, retention, schema_changes, snapshots, tracking
from twopc.drivers.points import Points
from twopc.errors import MergeError
from twopc.merge.articles import MergeArticle
from twopc.merge.ladder import InitialisationMethod
from twopc.merge.marks import Generation
from twopc.merge.protections import MergeProtection
from twopc.merge.snapshots import OF_DATA, SnapshotFile, SnapshotFormat, SnapshotKind
from twopc.sim.merge import moments, subscriptions
from twopc.sim.merge.snapshot_checks import check_generation
from twopc.sim.merge.snapshot_files import (
    StoredManifest,
    check_there,
    from_json,
    read_blocks,
    read_file,
)
from twopc.sim.merge.snapshot_schema import SnapshotConflicts, SnapshotKeys, SnapshotTable
from twopc.sim.merge.subscriptions import MergePair, SubscriptionKind
from twopc.sim.topology.grants import grant_tables
from twopc.sql import path
from twopc.sql.fragments import COMMA
from twopc.sql.table_role import drop_text
from twopc.subscriber.merge import subscription

Connection = AsyncConnection[Any]
Tell = Callable[[int, int, str], None]
"""Called after each file with the number of files done, the number of all files, and the file's name."""

_IS_UNFINISHED = "select to_regclass('msrepl.mssnapshotdeliveryprogress') is not null"
_STATUS = "select status from msrepl.sysmergesubscriptions where is_publisher and status <> 1"
_CLOSED = """
select n.nspname::text, c.relname::text from pg_trigger as t
join pg_class as c on c.oid = t.tgrelid join pg_namespace as n on n.oid = c.relnamespace
where t.tgfoid = 'msrepl.merge_refuse_uninitialised()'::regprocedure order by 1, 2
"""
_BEGUN = """
insert into msrepl.sysmergesubscriptions (subscriber_server, replnickname, is_publisher, subscriber_type, priority, status)
values (%s, %s, true, 1, 100, %s) on conflict (subscriber_server) do nothing
"""
_LOCK = "select pg_try_advisory_lock(hashtextextended('msrepl delivery ' || current_database(), 0))"
_UNLOCK = "select pg_advisory_unlock(hashtextextended('msrepl delivery ' || current_database(), 0))"


class Unfinished(IntEnum):
    """An interrupted initialisation, as recorded in ``sysmergesubscriptions.status``."""

    FIRST = 0
    """The initialisation creates the tables, which are dropped if it is abandoned."""
    ANEW = 3
    """The Subscriber is being reinitialised: its tables existed, and stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InitialisationReport:
    """How a Subscriber was initialised."""

    method: InitialisationMethod
    location: str | None = None
    """Folder of the snapshot; None: no snapshot was used."""
    files: int = 0
    """Number of files delivered by this call."""
    kept: int = 0
    """Number of files delivered before, by an interrupted call."""


async def unfinished(below: Connection) -> Unfinished | None:
    """Return the kind of a node's interrupted initialisation; None: there is none."""
    if await (await below.execute(_IS_UNFINISHED)).fetchone() != (True,):
        return None
    row = await (await below.execute(_STATUS)).fetchone()
    return None if row is None else Unfinished(row[0])


async def abandon(below: Connection) -> None:
    """Remove the tables of an interrupted first initialisation, and everything of merge replication.

    The tables of an interrupted reinitialisation stay, with the rows delivered so far.
    """
    stays = await unfinished(below) is Unfinished.ANEW
    async with below.transaction():
        tables = await (await below.execute(_CLOSED)).fetchall()
        await subscription.leave(below)
        if tables and not stays:
            await below.execute(
                sql.SQL("drop table {}").format(
                    COMMA.join([sql.Identifier(*each) for each in tables])
                )
            )
        owner = tracking.owner_role(below.info.dbname)
        for schema, table in tables:
            await below.execute(drop_text(owner, schema, table).encode())
        await tracking.uninstall(below)


async def deliver(
    pair: MergePair,
    kind: SubscriptionKind,
    stored: StoredManifest,
    *,
    make_logins: Callable[[], Awaitable[None]],
    points: Points,
    over: bool = False,
    tell: Tell | None = None,
) -> InitialisationReport:
    """Initialise a Subscriber from a checked snapshot, or continue to, and register it at both ends.

    Args:
        make_logins: creates the agents' roles.
        over: the Subscriber is reinitialised: the content of its tables is replaced.

    Raises:
        MergeError: a file is not as written, or a connection was lost. The delivered files are kept, and the next
            call continues with the next one.
        SubscriptionError: the Subscriber has such a table, or lacks a type; the delivered files are kept.
    """
    async with _alone(pair):
        delivery = _Delivery(pair, kind, stored, points, tell, over=over)
        try:
            return await delivery.run(make_logins)
        except psycopg.Error as error:
            what = f"{delivery.at}: " if delivery.at else ""
            raise MergeError(
                f"{pair.subscriber}: its initialisation was cut off: {what}{str(error).strip()}: "
                f"`{'reinitialise' if over else 'subscribe'}` it again, and it goes on at the next file",
                node=pair.subscriber,
                sqlstate=error.sqlstate or "08006",
            ) from error


@asynccontextmanager
async def _alone(pair: MergePair) -> AsyncIterator[None]:
    if await (await pair.below.execute(_LOCK)).fetchone() != (True,):
        raise MergeError(
            f"{pair.subscriber} is being initialised by another process (21036): wait until it has ended",
            node=pair.subscriber,
            number=21036,
        )
    try:
        yield
    finally:
        if not pair.below.closed:
            await pair.below.execute(_UNLOCK)


class _Delivery:
    def __init__(
        self,
        pair: MergePair,
        kind: SubscriptionKind,
        stored: StoredManifest,
        points: Points,
        tell: Tell | None,
        *,
        over: bool,
    ) -> None:
        self._pair = pair
        self._below = pair.below
        self._kind = kind
        self._stored = stored
        self._points = points
        self._tell = tell
        self._over = over
        self._token = f"{'/'.join(stored.manifest.folder)} {stored.digest}"
        self._texts: dict[tuple[int, SnapshotKind], tuple[Path, bytes]] = {}
        self._publisher = 0
        self.at = ""
        """File that is being delivered."""

    async def run(self, make_logins: Callable[[], Awaitable[None]]) -> InitialisationReport:
        """Deliver the missing files."""
        files = self._stored.manifest.files
        done = await self._held()
        for file in files:
            if file.kind not in OF_DATA:
                text = await read_file(self._folder(file), file)
                self._texts[file.nickname, file.kind] = self._folder(file) / file.name, text
            elif file.name not in done:
                check_there(self._folder(file), file)
        await self._begin(is_begun=bool(done))
        sent = 0
        for place, file in enumerate(files, 1):
            if file.name not in done:
                self.at = file.name
                if MergeProtection.FILE_COMMIT in self._pair.without:
                    await self._note(file)
                    async with self._below.transaction():
                        await self._load(file)
                else:
                    async with self._below.transaction():
                        await self._load(file)
                        await self._note(file)
                sent += 1
                await self._reach("file_loaded")
            if self._tell is not None:
                self._tell(place, len(files), file.name)
        self.at = ""
        await self._activate(make_logins)
        return InitialisationReport(
            method=InitialisationMethod.APPLY,
            location=str(self._stored.folder),
            files=sent,
            kept=len(done),
        )

    async def _note(self, file: SnapshotFile) -> None:
        await self._below.execute(
            "insert into msrepl.mssnapshotdeliveryprogress (session_token, progress_token) values (%s, %s)",
            (self._token, file.name),
        )

    async def _held(self) -> set[str]:
        """Return the files that are delivered already; remove what another snapshot has delivered."""
        if await unfinished(self._below) is None:
            return set()
        cursor = await self._below.execute(
            "select session_token, progress_token from msrepl.mssnapshotdeliveryprogress"
        )
        rows = await cursor.fetchall()
        if any(token != self._token for token, _ in rows):
            if not self._over:
                await abandon(self._below)
            return set()
        return {name for _, name in rows}

    async def _begin(self, *, is_begun: bool) -> None:
        """Record at the Subscriber that it is being initialised."""
        self._publisher = await neighbours.name_self(self._pair.above, self._pair.publisher)
        if not is_begun:
            async with self._below.transaction():
                if self._over:
                    await subscription.leave(self._below)
                    await tracking.uninstall(self._below)
                await tracking.install(self._below)
                await neighbours.name_self(self._below, self._pair.subscriber)
                await self._adopt_schema()
                status = Unfinished.ANEW if self._over else Unfinished.FIRST
                await self._below.execute(_BEGUN, (self._pair.publisher, self._publisher, status))
                if self._over:
                    await self._empty()
        await self._reach("begun")

    async def _adopt_schema(self) -> None:
        """Record the schema changes that the snapshot includes.

        Raises:
            MergeError: a schema change was made since the check, which invalidates snapshots.
        """
        above = self._pair.above
        changes = await schema_changes.schema_changes(above)
        if all(self._stored.digest != each.digest for each in await snapshots.recorded(above)):
            raise MergeError(
                f"snapshot {self._stored.folder} is outdated: a column was changed since (20655): run the Snapshot Agent "
                "again",
                number=20655,
            )
        await schema_changes.adopt(self._below, changes)

    async def _empty(self) -> None:
        """Delete all rows of the existing tables, and prevent changes of the tables."""
        there = []
        for file in self._stored.manifest.files:
            if file.kind is SnapshotKind.SCHEMA:
                article = self._article(file)
                if await subscription.is_there(self._below, article.schema, article.table):
                    await subscription.check_columns(self._below, article)
                    there.append((article, self._tracked(file)))
        if there:
            async with subscription.emptied(self._below, [article for article, _ in there]):
                pass
        for _, merged in there:
            await subscription.close_table(self._below, merged)

    def _folder(self, file: SnapshotFile) -> Path:
        """Return the folder of a file: tables of a filtered publication are described in the folder above those of
        partitions.
        """
        folder = self._stored.folder
        is_above = self._stored.manifest.partition is not None and file.kind not in OF_DATA
        return folder.parent if is_above else folder

    async def _load(self, file: SnapshotFile) -> None:
        """Load a file, inside the transaction that records it."""
        below = self._below
        match file.kind:
            case SnapshotKind.PRE:
                table = from_json(*self._text(file, SnapshotKind.PRE), SnapshotTable)
                if not self._over:
                    await subscription.refuse_if_there(below, table.schema, table.table)
            case SnapshotKind.SCHEMA:
                article = self._article(file)
                if not self._over or not await subscription.is_there(
                    below, article.schema, article.table
                ):
                    await subscription.create_closed(below, article, self._tracked(file))
            case SnapshotKind.DATA:
                binary = self._stored.manifest.data_format is SnapshotFormat.BINARY
                await subscription.receive_part(
                    below, self._article(file), self._blocks(file), binary=binary
                )
            case SnapshotKind.KEYS:
                keys = from_json(*self._text(file, SnapshotKind.KEYS), SnapshotKeys)
                await subscription.make_keys(
                    below, self._article(file), keys.uniques, keys.foreign_keys
                )
            case SnapshotKind.CONFLICTS:
                pass  # the table is created with the triggers, which come next
            case SnapshotKind.TRIGGERS:
                await self._track(file)
            case SnapshotKind.METADATA:
                await below.execute(path.READ_LOCAL)
                await subscription.receive_metadata(
                    below, self._tracked(file), self._publisher, self._blocks(file)
                )

    async def _track(self, file: SnapshotFile) -> None:
        conflicts = from_json(*self._text(file, SnapshotKind.CONFLICTS), SnapshotConflicts)
        floors = {each.nickname: each.floor for each in self._stored.manifest.articles}
        await self._below.execute(path.SET_LOCAL)
        await subscription.track(
            self._below,
            self._tracked(file),
            conflicts.publication,
            floor=floors[file.nickname],
            is_client=not self._kind.is_server,
            without=self._pair.without,
        )

    def _text(self, file: SnapshotFile, kind: SnapshotKind) -> tuple[bytes, Path]:
        where, text = self._texts[file.nickname, kind]
        return text, where

    def _article(self, file: SnapshotFile) -> Article:
        text, where = self._text(file, SnapshotKind.SCHEMA)
        return from_json(text, where, Article)

    def _tracked(self, file: SnapshotFile) -> MergeArticle:
        text, where = self._text(file, SnapshotKind.TRIGGERS)
        return from_json(text, where, MergeArticle)

    async def _blocks(self, file: SnapshotFile) -> AsyncIterator[bytes]:
        is_first = True
        async for block in read_blocks(self._folder(file), file):
            yield block
            if is_first:
                is_first = False
                await self._reach("file_begun")

    async def _activate(self, make_logins: Callable[[], Awaitable[None]]) -> None:
        """Allow changes of the tables, and register the Subscriber at both ends."""
        pair, below = self._pair, self._below
        held = self._stored.manifest.generation
        assert held is not None
        generation = Generation(number=held.number, guid=held.guid)
        if MergeProtection.SNAPSHOT_GENERATION in pair.without:
            generation = await moments.close_moment(pair.above, [], None)
        try:
            await make_logins()
            async with below.transaction():
                await subscription.open_tables(below)
                tracked = [
                    self._tracked(file)
                    for file in self._stored.manifest.files
                    if file.kind is SnapshotKind.TRIGGERS
                ]
                partition = self._stored.manifest.partition
                values = (partition.host_name, partition.login) if partition else (None, None)
                host_name, login = (value or "" for value in values)
                await subscription.guard_partition(below, tracked, (host_name, login))
                for each in self._stored.manifest.articles:
                    await grant_tables(below, each.schema, each.table, pair.app_role)
                await retention.set_retention(below, held.retention_days)
                await below.execute("delete from msrepl.mssnapshotdeliveryprogress")
                await below.execute("delete from msrepl.sysmergesubscriptions")
                priority = self._kind.priority if self._kind.is_server else None
                await neighbours.name_self(below, pair.subscriber, priority=priority)
                await subscriptions.enter(pair, self._kind, generation)
                await check_generation(pair, self._stored)
                await self._reach("activated")
        except BaseException:
            if not self._over:  # a reinitialised Subscriber stays registered at the Publisher
                await subscriptions.withdraw(pair)
            raise

    async def _reach(self, point: str) -> None:
        if self._points.armed:
            await self._points.reach(f"merge_delivery.{point}({self._pair.subscriber})")
