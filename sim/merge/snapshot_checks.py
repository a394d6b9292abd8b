"""Checks by the Publisher whether a Subscriber can be initialised from a snapshot in files."""

from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection

from twopc.drivers.merge import partitions, snapshots
from twopc.errors import MergeError
from twopc.merge.marks import Generation
from twopc.merge.snapshots import OF_DATA, SnapshotFormat, SnapshotManifest
from twopc.sim.merge.snapshot_files import StoredManifest
from twopc.sim.merge.snapshot_schema import copied_articles, described
from twopc.sim.merge.subscriptions import MergePair, SubscriptionKind
from twopc.sql import path

Connection = AsyncConnection[Any]

OUTDATED = 20655
"""Number of the error if the snapshot is outdated, or the Publisher's tables have changed."""
_REMEDY = "run the Snapshot Agent again"


async def check_snapshot(pair: MergePair, kind: SubscriptionKind, stored: StoredManifest) -> None:
    """Refuse a snapshot from which a Subscriber cannot be initialised.

    A manifest is identified by its digest, which the Publisher has recorded, and the descriptions of tables must
    equal those that the Publisher would write now: no SQL of another origin can be in the folder.

    Raises:
        MergeError: names the defect, and the remedy.
    """
    manifest, folder = stored.manifest, stored.folder
    where = (pair.publisher, pair.above.info.dbname)
    if (manifest.publisher, manifest.database) != where:
        raise MergeError(
            f"snapshot {folder} is of {manifest.publisher}, database {manifest.database!r}, and {pair.subscriber} "
            f"subscribes at {pair.publisher}, database {where[1]!r}: name one of that Publisher's"
        )
    _check_versions(pair, manifest, str(folder))
    await check_partition(pair, kind, stored)
    await check_generation(pair, stored)
    await _check_tables(pair, manifest, str(folder))
    if all(stored.digest != each.digest for each in await snapshots.recorded(pair.above)):
        raise MergeError(
            f"snapshot {folder}: its manifest is none that {pair.publisher} has recorded: it was altered, or the agent "
            f"did not end: {_REMEDY}"
        )


def _check_versions(pair: MergePair, manifest: SnapshotManifest, folder: str) -> None:
    """Refuse rows in binary format from a server of another major version, whose types may have changed."""
    written, read = (
        number // 10_000 for number in (manifest.server_version, pair.below.info.server_version)
    )
    if manifest.data_format is SnapshotFormat.BINARY and written != read:
        raise MergeError(
            f"snapshot {folder} is in binary format, of PostgreSQL {written}, and {pair.subscriber} is a server of "
            f"PostgreSQL {read}: make one in text (`twopc merge snapshot --format text`)"
        )


async def check_partition(pair: MergePair, kind: SubscriptionKind, stored: StoredManifest) -> None:
    """Refuse the rows of another partition.

    Raises:
        MergeError: the snapshot is of another partition; 20655: the publication is filtered now and was not, or the
            reverse; 20631: there are no rows; 20629: the Subscriber's partition is unknown.
    """
    manifest, folder = stored.manifest, stored.folder
    if manifest.generation is None:
        raise _refusal(
            20631, f"snapshot {folder} has no rows: name the folder of a partition, which is in it"
        )
    held = manifest.partition
    if (held is None) != (kind.partition is None):
        now, then = ("is", "was not") if held is None else ("is not", "was")
        raise _refusal(
            OUTDATED,
            f"snapshot {folder} is outdated: the publication {now} filtered, and {then} when it was made: {_REMEDY}",
        )
    if held is None or held.number == kind.partition:
        return
    assert kind.partition is not None
    own = await partitions.find_partition(pair.above, kind.partition)
    words = [
        f"{name} {values[0]!r}, and {pair.subscriber} has {values[1]!r}"
        for name, values in (
            ("host_name", (held.host_name, own.host_name)),
            ("login", (held.login, own.login)),
        )
        if values[0] != values[1]
    ]
    raise MergeError(
        f"snapshot {folder} is of the partition with {'; '.join(words)}: name that of its own partition"
    )


async def check_generation(pair: MergePair, stored: StoredManifest) -> None:
    """Refuse a snapshot after which the Publisher cannot continue.

    Raises:
        MergeError: 20655.
    """
    held = stored.manifest.generation
    assert held is not None
    if not await snapshots.is_known(pair.above, Generation(number=held.number, guid=held.guid)):
        raise _refusal(
            OUTDATED,
            f"snapshot {stored.folder} is outdated: {pair.publisher} does not know its generation {held.number} any "
            f"more, or has forgotten what was changed after it: {_REMEDY}",
        )


async def _check_tables(pair: MergePair, manifest: SnapshotManifest, folder: str) -> None:
    async with pair.above.transaction():
        await pair.above.execute(path.SET_LOCAL)
        copied = await copied_articles(pair.above)
    now = {each.file.name: each.file.sha256 for each in described(copied)}
    then = {each.name: each.sha256 for each in manifest.files if each.kind not in OF_DATA}
    names = {each.nickname: each.name for each, _ in copied}
    names = {each.nickname: f"{each.schema}.{each.table}" for each in manifest.articles} | names
    for name in sorted(now.keys() | then.keys()):
        if now.get(name) != then.get(name):
            what = (
                "is not among its tables"
                if name not in then
                else "was altered since, or taken back, or its file was altered"
            )
            raise _refusal(
                OUTDATED,
                f"snapshot {folder} is outdated: table {names[int(name[:4])]} {what}: {_REMEDY}",
            )


def _refusal(number: int, text: str) -> MergeError:
    return MergeError(f"{text} ({number})", number=number)
