"""The Snapshot Agent of merge replication, which writes files from which Subscribers are initialised.

All files with rows are of one moment, which is a generation. Other sessions do not wait for it. A file is valid
once it is complete, a folder once its manifest exists, which is written last. A restarted agent continues at the
next file if nothing was changed since; otherwise the moment cannot be read again, because it ended with the agent's
transactions, and the agent begins with another generation.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
from psycopg import AsyncConnection

from twopc.articles import Article
from twopc.drivers.merge import partitions, retention, snapshots
from twopc.drivers.merge.snapshots import RecordedSnapshot
from twopc.drivers.points import Points
from twopc.errors import MergeError
from twopc.merge.articles import MergeArticle
from twopc.merge.marks import Generation
from twopc.merge.snapshots import (
    FORMAT,
    MANIFEST,
    PART_BYTES,
    PARTIAL,
    SnapshotArticle,
    SnapshotFile,
    SnapshotFormat,
    SnapshotGeneration,
    SnapshotKind,
    SnapshotManifest,
    SnapshotPartition,
)
from twopc.publisher.merge import publication
from twopc.sim.merge import moments
from twopc.sim.merge.snapshot_files import (
    StoredManifest,
    is_intact,
    make_folder,
    read_manifest,
    remove_others,
    whole,
    write_file,
    write_manifest,
)
from twopc.sim.merge.snapshot_schema import DescribedTable, copied_articles, described
from twopc.sim.merge.snapshot_tasks import SnapshotTask, check_binary, row_files
from twopc.sql import path
from twopc.together import together

Connection = AsyncConnection[Any]
Tell = Callable[[int, int, str], None]
"""Called after each file with the number of files done, the number of all files, and the file's name."""

_UNLOCK = "select pg_advisory_unlock_all()"
_LOCK = "select pg_try_advisory_lock(hashtextextended('msrepl snapshot ' || %s, 0))"

#: Lock for the folder that describes tables, which agents of several partitions write.
_WAIT = "select pg_advisory_xact_lock(hashtextextended('msrepl snapshot tables ' || %s, 0))"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotReport:
    """The report of a Snapshot Agent."""

    location: str
    """Folder from which a Subscriber can be initialised; for a filtered publication without a partition, the folder
    with the descriptions of its tables.
    """
    files: int
    """Number of files written."""
    kept: int
    """Number of files that existed already."""
    rows: int
    """Number of rows in all files."""
    generation: int | None
    """Generation with which a Subscriber begins; None: there are no rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRequest:
    """The snapshot that an agent is to write."""

    publisher: str
    folder: Path
    partition: SnapshotPartition | None = None
    """Partition whose rows are written; None: all rows, or none if the publication is filtered."""
    jobs: int = 1
    """Number of connections that read in parallel."""
    part_bytes: int = PART_BYTES
    data_format: SnapshotFormat = SnapshotFormat.TEXT
    initiated_by: str | None = None
    """Subscriber for which the snapshot is made; None: an administrator has requested it."""


async def generate(
    above: Connection,
    connect: Callable[[], Awaitable[Connection]],
    request: SnapshotRequest,
    points: Points,
    tell: Tell | None = None,
) -> SnapshotReport:
    """Write the files of a snapshot.

    Args:
        above: an administrator's connection to the Publisher; `connect` opens further ones.

    Raises:
        MergeError: another agent is writing it (20630), a file cannot be written, or a connection was lost.
            Complete files are kept for the next run, if nothing has changed by then.
    """
    is_filtered = bool(await partitions.filtered_articles(above))
    async with AsyncExitStack() as stack:
        try:
            lock = await stack.enter_async_context(await connect())
            await _lock(lock, request)
            stack.push_async_callback(_unlock, lock)
            agent = _Agent(above, request, points, tell)
            if is_filtered:
                report = await agent.describe_tables(lock)
                if request.partition is None:
                    return report
            readers = [
                await stack.enter_async_context(await connect()) for _ in range(request.jobs)
            ]
            return await agent.write_rows(readers, is_filtered=is_filtered)
        except psycopg.OperationalError as error:
            raise MergeError(
                f"Snapshot Agent at {request.publisher}: {str(error).strip()}: run it again: it goes on at the next file "
                "if nothing was changed since, and otherwise begins anew, since the moment that it had read ended with "
                "its connection",
                node=request.publisher,
                sqlstate=error.sqlstate or "",
            ) from error


async def _unlock(connection: Connection) -> None:
    """Release the lock at once: a backend may take a while to notice that its client is gone."""
    with suppress(psycopg.Error):
        await connection.execute(_UNLOCK)


async def _lock(connection: Connection, request: SnapshotRequest) -> None:
    number = request.partition.number if request.partition is not None else 0
    cursor = await connection.execute(_LOCK, (f"{publication.PUBLICATION} {number}",))
    if await cursor.fetchone() != (True,):
        of = f" of partition {number}" if number else ""
        raise MergeError(
            f"another Snapshot Agent is writing the snapshot{of} of {request.publisher} (20630): wait until it has ended",
            node=request.publisher,
            number=20630,
        )


class _Agent:
    def __init__(
        self, above: Connection, request: SnapshotRequest, points: Points, tell: Tell | None
    ) -> None:
        self._above = above
        self._request = request
        self._points = points
        self._tell = tell
        self._done: dict[str, SnapshotFile] = {}
        self._files = 0
        """Number of files written."""
        self._at = 0
        self._total = 0
        self._partial: SnapshotManifest | None = None
        self._moving = asyncio.Lock()

    async def describe_tables(self, reader: Connection) -> SnapshotReport:
        """Describe the tables of a filtered publication, whose rows are in other folders."""
        async with reader.transaction():
            await reader.execute(_WAIT, (publication.PUBLICATION,))
            await reader.execute(path.SET_LOCAL)
            copied = await copied_articles(reader)
            texts = described(copied)
            manifest = self._manifest(copied, texts)
            folder = await self._folder(manifest)
            self._total += len(texts)
            await self._describe(folder, texts)
            await self._finish(folder, manifest)
        return self._report(folder, manifest)

    async def write_rows(
        self, readers: Sequence[Connection], *, is_filtered: bool
    ) -> SnapshotReport:
        """Write the rows of a moment, with the descriptions of the tables unless these have a folder of their own."""
        partition = self._request.partition
        async with _transactions(readers):
            generation = await moments.close_moment(
                self._above, readers, partition.number if partition else None
            )
            await self._reach("merge_snapshot.generation_closed")
            for reader in readers:
                await reader.execute(path.SET_LOCAL)
            copied = await copied_articles(readers[0])
            texts = described(copied)
            manifest = await self._of_moment(readers[0], self._manifest(copied, texts), generation)
            folder = await self._folder(manifest)
            if self._request.data_format is SnapshotFormat.BINARY:
                await check_binary(readers[0], [article for _, article in copied])
            tasks = await row_files(
                readers[0], copied, generation, self._request.part_bytes, self._request.data_format
            )
            self._total += len(tasks) + (0 if is_filtered else len(texts))
            before = self._before(folder, manifest)
            if not is_filtered:
                await self._describe(folder, texts)
            self._partial = manifest
            await self._write(folder, tasks, readers, before)
        files = [*manifest.files, *(self._done[task.file.name] for task in tasks)]
        order = [*SnapshotKind]
        files.sort(key=lambda each: (order.index(each.kind), each.nickname, each.name))
        manifest = replace(manifest, files=tuple(files))
        digest = await self._finish(folder, manifest)
        await snapshots.record(
            self._above,
            RecordedSnapshot(
                digest=digest,
                partition=partition.number if partition else None,
                location=str(folder),
                number=generation.number,
                guid=generation.guid,
                initiated_by=self._request.initiated_by,
            ),
        )
        return self._report(folder, manifest)

    def _report(self, folder: Path, manifest: SnapshotManifest) -> SnapshotReport:
        return SnapshotReport(
            location=str(folder),
            files=self._files,
            kept=len(manifest.files) - self._files,
            rows=sum(each.rows for each in manifest.files if each.kind is SnapshotKind.DATA),
            generation=manifest.generation.number if manifest.generation else None,
        )

    def _manifest(
        self,
        copied: Sequence[tuple[MergeArticle, Article]],
        texts: Sequence[DescribedTable],
    ) -> SnapshotManifest:
        return SnapshotManifest(
            format=FORMAT,
            publisher=self._request.publisher,
            database=self._above.info.dbname,
            publication=publication.PUBLICATION,
            server_version=self._above.info.server_version,
            data_format=self._request.data_format,
            generation=None,
            partition=None,
            articles=tuple(
                SnapshotArticle(
                    artid=each.artid,
                    nickname=each.nickname,
                    schema=each.schema,
                    table=each.table,
                )
                for each, _ in copied
            ),
            files=tuple(each.file for each in texts),
        )

    async def _of_moment(
        self, reader: Connection, manifest: SnapshotManifest, generation: Generation
    ) -> SnapshotManifest:
        floors = {
            each.nickname: await moments.floor_of(reader, each.nickname)
            for each in manifest.articles
        }
        [(snapshot,)] = await (
            await reader.execute("select pg_current_snapshot()::text")
        ).fetchall()
        return replace(
            manifest,
            partition=self._request.partition,
            articles=tuple(
                replace(each, floor=floors[each.nickname]) for each in manifest.articles
            ),
            generation=SnapshotGeneration(
                number=generation.number,
                guid=generation.guid,
                snapshot=snapshot,
                retention_days=await retention.read_retention(reader),
            ),
        )

    async def _folder(self, manifest: SnapshotManifest) -> Path:
        folder = self._request.folder.absolute() / "unc" / Path(*manifest.folder)
        make_folder(folder)
        await snapshots.set_folder(self._above, str(self._request.folder.absolute()))
        return folder

    def _before(self, folder: Path, manifest: SnapshotManifest) -> StoredManifest | None:
        """Return the existing manifest of the same moment, with the same tables; None: there is none."""
        for name in (PARTIAL, MANIFEST):
            try:
                stored = read_manifest(folder, name)
            except MergeError:  # incomplete, or of another version: it is written again
                continue
            if stored is None:
                continue
            held, made = stored.manifest.generation, manifest.generation
            if (held and held.guid) == (made and made.guid) and {
                (each.name, each.sha256) for each in manifest.files
            } <= {(each.name, each.sha256) for each in stored.manifest.files}:
                return stored
        return None

    async def _describe(self, folder: Path, texts: Sequence[DescribedTable]) -> None:
        for each in texts:
            is_there = await is_intact(folder, each.file)
            if not is_there:
                await write_file(folder, each.file.name, whole(each.text))
            await self._count(each.file, is_written=not is_there)

    async def _write(
        self,
        folder: Path,
        tasks: Sequence[SnapshotTask],
        readers: Sequence[Connection],
        before: StoredManifest | None,
    ) -> None:
        held = {each.name: each for each in before.manifest.files} if before else {}
        left = list(reversed(tasks))

        async def work(reader: Connection) -> None:
            while left:
                task = left.pop()
                there = held.get(task.file.name)
                if (
                    there is not None
                    and there.place == task.file.place
                    and await is_intact(folder, there)
                ):
                    await self._keep(folder, there, is_written=False)
                    continue
                rows: list[int] = []
                blocks = self._watched(task.blocks(reader, count=rows.append))
                try:
                    written = await write_file(folder, task.file.name, blocks)
                except BaseException:
                    left.clear()
                    raise
                file = replace(
                    task.file, size_bytes=written.size_bytes, sha256=written.sha256, rows=sum(rows)
                )
                await self._keep(folder, file)

        await together(*(work(reader) for reader in readers))

    async def _watched(self, rows: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
        is_first = True
        async with aclosing(rows):
            async for block in rows:
                yield block
                if is_first:
                    is_first = False
                    await self._reach("merge_snapshot.file_begun")

    async def _keep(self, folder: Path, file: SnapshotFile, *, is_written: bool = True) -> None:
        """Record a file in the partial manifest, so that a restarted agent knows that it is complete."""
        async with self._moving:
            self._done[file.name] = file
            assert self._partial is not None
            self._partial = replace(self._partial, files=(*self._partial.files, file))
            await write_manifest(folder, PARTIAL, self._partial)
        await self._count(file, is_written=is_written)

    async def _count(self, file: SnapshotFile, *, is_written: bool = True) -> None:
        self._files += is_written
        self._at += 1
        if self._tell is not None:
            self._tell(self._at, self._total, file.name)
        if is_written:
            await self._reach("merge_snapshot.file_written")

    async def _finish(self, folder: Path, manifest: SnapshotManifest) -> str:
        digest = await write_manifest(folder, MANIFEST, manifest)
        await self._reach("merge_snapshot.manifest_written")
        remove_others(folder, frozenset({MANIFEST, *(each.name for each in manifest.files)}))
        return digest

    async def _reach(self, name: str) -> None:
        if self._points.armed:
            await self._points.reach(name)


@asynccontextmanager
async def _transactions(connections: Sequence[Connection]) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for each in connections:
            await stack.enter_async_context(each.transaction())
        yield
