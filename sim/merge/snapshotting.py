"""The Snapshot Agent of a topology of merge replication; `twopc.sim.merge.topology.MergeTopology` has one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from psycopg import AsyncConnection

from twopc.drivers.merge import partitions, snapshots
from twopc.drivers.points import Points
from twopc.errors import ConfigurationError, MergeError
from twopc.merge.partitions import check_value
from twopc.merge.snapshots import PART_BYTES, SnapshotFormat, SnapshotPartition
from twopc.sim.merge import snapshot_agent
from twopc.sim.merge.shape import MergeTree
from twopc.sim.merge.snapshot_agent import SnapshotReport, SnapshotRequest, Tell
from twopc.sim.merge.subscriptions import MergePair, SubscriptionKind
from twopc.sim.topology.nodes import Node

Connection = AsyncConnection[Any]

#: A Subscriber's values: the function that filters call, and the original's number if it is missing.
_VALUES = {"host_name": ("host_name", 20698), "login": ("suser_sname", 20699)}


class MergeSnapshots(ABC):
    """What has snapshots in files made."""

    tree: MergeTree
    """Who subscribes at whom."""
    points: Points

    @abstractmethod
    async def admin(self, name: str) -> Connection:
        """The administrator's connection to a node."""

    @abstractmethod
    def node(self, name: str) -> Node:
        """The node of that name."""

    async def snapshot(
        self,
        folder: str | Path | None = None,
        *,
        publisher: str | None = None,
        host_name: str | None = None,
        login: str | None = None,
        jobs: int = 1,
        part_bytes: int = PART_BYTES,
        data_format: str = SnapshotFormat.TEXT,
        tell: Tell | None = None,
    ) -> SnapshotReport:
        """The Snapshot Agent, once: write what Subscribers begin with into files.

        Begun again after it was killed it goes on at the next file, as long as nothing was changed since.

        Args:
            folder: below which ``unc/<Publisher>_<database>_<publication>`` is; None: that of the last run.
            publisher: at which node; None: the topmost.
            host_name: of the partition whose rows are written, `login` likewise: those that the filters look at.
                Without them a filtered publication's tables are described, and no rows are written.
            jobs: how many connections read at a time.
            part_bytes: how much of a table goes into one file, about.
            data_format: of rows: ``text``, or ``binary``, which is quicker to load, and only for Subscribers of the same
                major version of PostgreSQL.
            tell: called after each file.

        Raises:
            ConfigurationError: no folder is known; there is no such partition, or its values are missing (20698,
                20699, 21323).
            MergeError: see `twopc.sim.merge.snapshot_agent.generate`.
        """
        name = publisher or self.tree.root
        above = await self.admin(name)
        where = folder or (await snapshots.read_settings(above)).folder
        if where is None:
            raise ConfigurationError("name the folder for snapshots: none was written yet")
        if data_format not in [*SnapshotFormat]:
            raise ConfigurationError(f"format {data_format!r}: use 'text' or 'binary'")
        if jobs < 1 or part_bytes < 1:
            raise ConfigurationError(f"jobs {jobs}, part_bytes {part_bytes}: use 1 or more")
        request = SnapshotRequest(
            publisher=name,
            folder=Path(where),
            partition=await self._named_partition(above, host_name, login),
            jobs=jobs,
            part_bytes=part_bytes,
            data_format=SnapshotFormat(data_format),
        )
        return await snapshot_agent.generate(
            above, self.node(name).connect, request, self.points, tell
        )

    async def let_subscribers_start_snapshots(self, may: bool = True) -> None:
        """Say whether a Subscriber for which there is no snapshot has one made (``@allow_subscriber_initiated_snapshot``)."""
        await snapshots.let_subscribers_start(await self.admin(self.tree.root), may=may)

    async def _named_partition(
        self, above: Connection, host_name: str | None, login: str | None
    ) -> SnapshotPartition | None:
        values = {"host_name": host_name, "login": login}
        if all(value is None for value in values.values()):
            return None
        used = await partitions.values_used(above)
        if used is None:
            raise ConfigurationError(
                "the publication is not filtered, so that there are no partitions (21323): leave host_name and login out"
            )
        for name, (function, number) in _VALUES.items():
            if function in used and values[name] is None:
                raise ConfigurationError(
                    f"filters look at msrepl.{function}(), and {name} is missing ({number}): name it as well"
                )
        checked = {
            name: check_value("snapshot", name, value or "") for name, value in values.items()
        }
        return await self._partition(above, await partitions.partition_of(above, **checked))

    async def _partition(self, above: Connection, number: int | None) -> SnapshotPartition | None:
        for each in await partitions.partitions(above):
            if each.number == number:
                return SnapshotPartition(
                    number=each.number, host_name=each.host_name, login=each.login
                )
        return None

    async def _have_snapshot_made(self, pair: MergePair, kind: SubscriptionKind) -> str:
        """Have a snapshot made for a Subscriber; its location.

        Raises:
            MergeError: 20631: nobody knows where to; 20628: it failed; 20630: one is being made.
        """
        settings = await snapshots.read_settings(pair.above)
        if settings.folder is None:
            raise MergeError(
                f"{pair.subscriber} may have a snapshot made, and no folder is known for it (20631): run the Snapshot "
                f"Agent at {pair.publisher} once, with a folder",
                number=20631,
            )
        request = SnapshotRequest(
            publisher=pair.publisher,
            folder=Path(settings.folder),
            partition=await self._partition(pair.above, kind.partition),
            initiated_by=pair.subscriber,
        )
        try:
            made = await snapshot_agent.generate(
                pair.above, pair.connect_above, request, self.points
            )
        except MergeError as error:
            if error.number:
                raise
            raise MergeError(
                f"the snapshot for {pair.subscriber} could not be made (20628): {error}",
                node=error.node,
                sqlstate=error.sqlstate,
                number=20628,
            ) from error
        return made.location
