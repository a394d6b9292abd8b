"""The Snapshot Agent of a topology of merge replication."""

from __future__ import annotations

from pathlib import Path

import psycopg

from twopc.drivers.in_doubt import reason_of
from twopc.drivers.merge import partitions, snapshots
from twopc.errors import ConfigurationError, MergeError
from twopc.merge.partitions import check_named
from twopc.merge.snapshots import PART_BYTES, SnapshotFormat, SnapshotPartition
from twopc.sim.merge import snapshot_agent
from twopc.sim.merge.snapshot_agent import SnapshotReport, SnapshotRequest, Tell
from twopc.sim.merge.snapshot_files import make_folder
from twopc.sim.merge.subscriptions import MergePair, SubscriptionKind
from twopc.sim.merge.wiring import Connection, MergeWiring


class MergeSnapshots:
    """Makes snapshots in files."""

    def __init__(self, wiring: MergeWiring) -> None:
        self._wiring = wiring

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
        """Run the Snapshot Agent once: write the files from which Subscribers are initialised.

        After being killed, a new run continues at the next file, as long as nothing was changed since.

        Args:
            folder: below which ``unc/<Publisher>_<database>_<publication>`` is created; None: that of the last run.
            publisher: at which node; None: the topmost.
            host_name: of the partition whose rows are written, as is `login`: the values that the filters use.
                Without them, tables whose filters use one are described, and no rows are written.
            jobs: number of connections that read in parallel.
            part_bytes: approximate size of the part of a table that goes into one file.
            data_format: of rows: ``text``, or ``binary``, which loads faster, and only for Subscribers of the same
                major version of PostgreSQL.
            tell: called after each file.

        Raises:
            ConfigurationError: no folder is known; nothing is filtered (21323), a value of the partition is missing
                (20698, 20699), or is not used by any filter (20672, 20673).
            MergeError: see `twopc.sim.merge.snapshot_agent.generate`.
        """
        name = publisher or self._wiring.tree.root
        above = await self._wiring.admin(name)
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
            above, self._wiring.node(name).connect, request, self._wiring.points, tell
        )

    async def let_subscribers_start_snapshots(self, may: bool = True) -> None:
        """Set whether a snapshot is made for a Subscriber that has none (``@allow_subscriber_initiated_snapshot``)."""
        await snapshots.let_subscribers_start(await self._wiring.at_root(), may=may)

    async def _named_partition(
        self, above: Connection, host_name: str | None, login: str | None
    ) -> SnapshotPartition | None:
        used = await partitions.values_used(above)
        if host_name is None and login is None:
            if used is None or used:
                return None
            # filters use no value of a Subscriber: all Subscribers share one partition
            return await self._partition(above, await partitions.partition_of(above, "", ""))
        if not used:
            raise ConfigurationError(
                "the publication is not filtered by a value of a Subscriber, so that there are no partitions (21323): "
                "leave host_name and login out"
            )
        values = check_named(used, "snapshot", host_name, login)
        return await self._partition(above, await partitions.partition_of(above, **values))

    async def _partition(self, above: Connection, number: int | None) -> SnapshotPartition | None:
        if number is None:
            return None
        held = await partitions.find_partition(above, number)
        return SnapshotPartition(number=number, host_name=held.host_name, login=held.login)

    async def make_for(self, pair: MergePair, kind: SubscriptionKind) -> str:
        """Make a snapshot for a Subscriber; return its location.

        Raises:
            MergeError: 20631: no folder is known; 20632: the folder is not writable; 20633: the Publisher cannot be
                connected to; 20630: a snapshot is being made; 20628: it failed; 20629: the Subscriber's partition
                is unknown.
        """
        settings = await snapshots.read_settings(pair.above)
        if settings.folder is None:
            raise MergeError(
                f"{pair.subscriber} may have a snapshot made, and no folder is known for it (20631): run the Snapshot "
                f"Agent at {pair.publisher} once, with a folder",
                number=20631,
            )
        whose = f"the snapshot for {pair.subscriber}"
        try:
            make_folder(Path(settings.folder))
        except MergeError as error:
            raise MergeError(f"{whose} cannot be begun (20632): {error}", number=20632) from error

        async def connect() -> Connection:
            try:
                return await pair.connect_above()
            except psycopg.OperationalError as error:
                raise MergeError(
                    f"{whose} cannot be begun (20633): the Snapshot Agent cannot connect to {pair.publisher}: "
                    f"{reason_of(error)}: `subscribe` again once it can",
                    node=pair.publisher,
                    sqlstate=error.sqlstate or "",
                    number=20633,
                ) from error

        request = SnapshotRequest(
            publisher=pair.publisher,
            folder=Path(settings.folder),
            partition=await self._partition(pair.above, kind.partition),
            initiated_by=pair.subscriber,
        )
        try:
            made = await snapshot_agent.generate(pair.above, connect, request, self._wiring.points)
        except MergeError as error:
            if error.number:
                raise
            raise MergeError(
                f"{whose} could not be made (20628): {error}",
                node=error.node,
                sqlstate=error.sqlstate,
                number=20628,
            ) from error
        return made.location
