"""Maintenance of a topology of merge replication."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from twopc.drivers.merge import neighbours, partitions, retention, tracking
from twopc.drivers.merge.checks import MergeFinding, check_nodes
from twopc.drivers.merge.partitions import MergePartition, WrongMapping
from twopc.drivers.merge.range_status import RangeStatus, read_ranges
from twopc.drivers.merge.rows import (
    RowReplica,
    dummy_update,
    find_row,
    read_row,
    replica_names,
)
from twopc.drivers.merge.status import NodeStatus, RecordedSession, read_sessions, read_status
from twopc.errors import MergeError
from twopc.publisher import foreign_keys
from twopc.publisher.foreign_keys import ArticleTable
from twopc.sim.merge import backups
from twopc.sim.merge.validation import CHECKSUMS, TableValidation, validate_subscriber
from twopc.sim.merge.wiring import MergeWiring


class MergeUpkeep:
    """Maintenance, inspection and validation of the nodes of a topology."""

    def __init__(self, wiring: MergeWiring) -> None:
        self._wiring = wiring
        self._backed_up: set[str] = set()
        """Nodes that have a backup."""

    async def partitions(self) -> list[MergePartition]:
        """Return the partitions of the publication, each with its Subscribers; none if nothing is filtered."""
        return await partitions.partitions(await self._wiring.at_root())

    async def add_partition(
        self, host_name: str | None = None, *, login: str | None = None
    ) -> MergePartition:
        """Create a partition before the first Subscriber (sp_addmergepartition).

        Raises:
            SubscriptionError: the filters use no value of a Subscriber (20674), a value is missing (20698, 20699)
                or is not used by any filter (20672, 20673), or is invalid.
        """
        return await partitions.add_partition(await self._wiring.at_root(), host_name, login)

    async def check_partitions(self) -> list[WrongMapping]:
        """Close a generation, and compare the mappings with an evaluation of the filters for all rows."""
        async with (
            await self._wiring.node(self._wiring.tree.root).connect() as connection,
            connection.transaction(),
        ):
            await connection.execute("set transaction isolation level repeatable read")
            await neighbours.close_generation(connection)
            return await partitions.wrong_mappings(connection)

    async def set_retention(self, days: int) -> str | None:
        """Set the publication's retention, at every Publisher; see `twopc.drivers.merge.retention.set_retention`."""
        advice = None
        for name in self._wiring.tree.publishers:
            if await self._wiring.merges(name):
                advice = await retention.set_retention(await self._wiring.admin(name), days)
        return advice

    async def clean_up(self) -> dict[str, int]:
        """Delete metadata at every node that is no longer needed, as sessions do; return the number of rows by
        node.
        """
        members = await self._wiring.members()
        return {name: await retention.clean_up(connection) for name, connection in members.items()}

    async def status(self) -> dict[str, NodeStatus]:
        """Return the status of each node; see `twopc.drivers.merge.status.NodeStatus`."""
        return {
            name: await read_status(connection)
            for name, connection in (await self._wiring.members()).items()
        }

    async def ranges(self) -> list[RangeStatus]:
        """Return the identity ranges that each node holds and has allotted, for each table with ranges."""
        return [
            status
            for name, connection in (await self._wiring.members()).items()
            for status in await read_ranges(connection, name)
        ]

    async def sessions(
        self, subscriber: str | None = None, *, limit: int = 20
    ) -> list[RecordedSession]:
        """Return the sessions that Publishers have recorded, newest first.

        Args:
            subscriber: only its sessions.
            limit: maximum number of sessions.
        """
        recorded = [
            session
            for name in self._wiring.tree.publishers
            if await self._wiring.merges(name)
            for session in await read_sessions(
                await self._wiring.admin(name), subscriber=subscriber, limit=limit
            )
        ]
        return sorted(recorded, key=lambda each: each.ended, reverse=True)[:limit]

    async def check(self) -> list[MergeFinding]:
        """Return defects of the nodes that sessions would not detect; see `twopc.drivers.merge.checks`."""
        return await check_nodes(await self._wiring.members())

    async def regenerate(self) -> None:
        """Enable at every node the triggers that record changes, and those that check keys for agents.

        Needed after a foreign key was added, or after triggers were disabled. Changes made while triggers were
        disabled are not recorded; `validate` finds them.

        Raises:
            ArticleError: a table was dropped.
        """
        for connection in (await self._wiring.members()).values():
            for stored in await tracking.stored_articles(connection):
                async with connection.transaction():
                    relid = await tracking.table_oid(connection, stored.artid)
                    await foreign_keys.make_deferrable(connection, relid, ArticleTable.MERGE)
                    await tracking.regenerate(connection, stored)

    async def validate(
        self, subscriber: str, *, level: int = CHECKSUMS, repair: bool = False
    ) -> list[TableValidation]:
        """Compare a Subscriber's tables with its Publisher's; see `twopc.sim.merge.validation`.

        Raises:
            MergeError: a session is in progress, or was interrupted; or the level is invalid.
        """
        publisher = self._wiring.tree.publisher_of(subscriber)
        async with (
            await self._wiring.node(publisher).connect() as above,
            await self._wiring.node(subscriber).connect() as below,
        ):
            return await validate_subscriber(
                above, below, publisher, subscriber, level=level, repair=repair
            )

    async def show_row(self, table: str, key: Mapping[str, Any] | UUID) -> list[RowReplica]:
        """Return the metadata of a row at each node (sp_showrowreplicainfo).

        Args:
            key: columns with values that identify the row at some node; or the row's rowguid.

        Raises:
            ArticleError: the table is not merged.
            MergeError: no node has such a row, or several rows match.
        """
        members = await self._wiring.members()
        rowguids = {key} if isinstance(key, UUID) else set()
        if not isinstance(key, UUID):
            each = [await find_row(connection, table, key) for connection in members.values()]
            rowguids = {guid for guid in each if guid is not None}
        if len(rowguids) != 1:
            count = "no node has a row" if not rowguids else "nodes have several rows"
            raise MergeError(f"{count} of {table} with {key}: name it by its rowguid")
        replicas: dict[int, str] = {}
        for connection in members.values():
            replicas |= await replica_names(connection)
        [rowguid] = rowguids
        return [
            await read_row(connection, name, table, rowguid, replicas)
            for name, connection in members.items()
        ]

    async def dummy_update(
        self, table: str, key: Mapping[str, Any] | UUID, *, node: str | None = None
    ) -> None:
        """Propagate a row again without changing a value (sp_mergedummyupdate).

        Args:
            key: columns with values, or the row's rowguid.
            node: from which the row is propagated; None: the topmost Publisher.

        Raises:
            ArticleError: the table is not merged.
            MergeError: there is neither such a row nor metadata of one (20513).
        """
        connection = await self._wiring.admin(node or self._wiring.tree.root)
        rowguid = key if isinstance(key, UUID) else await find_row(connection, table, key)
        if rowguid is None:
            raise MergeError(
                f"{node or self._wiring.tree.root} has no row of {table} with {key} (20513)"
            )
        await dummy_update(connection, table, rowguid)

    async def age(self, days: float) -> None:
        """Age all recorded times at the nodes, as if this many days had passed. For tests and lessons."""
        for connection in (await self._wiring.members()).values():
            await retention.age(connection, days)

    async def back_up(self, node: str) -> None:
        """Back up a node for `restore_backup`, replacing an earlier backup. For tests.

        Sessions connected to it are terminated.

        Raises:
            ConfigurationError: the database existed before the topology.
        """
        await (await self._wiring.admin(node)).close()
        await backups.back_up(self._wiring.node(node))
        self._backed_up.add(node)

    async def restore_backup(self, node: str) -> None:
        """Restore a node from its backup, without notifying any node: the next session detects this, or `rewound`
        announces it.

        Sessions connected to it are terminated.

        Raises:
            ConfigurationError: there is no backup, or the database existed before the topology.
        """
        await (await self._wiring.admin(node)).close()
        await backups.restore_backup(self._wiring.node(node))

    async def drop_backups(self) -> None:
        """Drop the backups of nodes that can be reached."""
        for node in self._wiring.running:
            if node.name in self._backed_up:
                await backups.drop_backup(node)
