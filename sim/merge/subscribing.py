"""Subscriptions of a topology of merge replication, and the snapshots that they begin with.

`twopc.sim.merge.topology.MergeTopology` is one that has both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from pathlib import Path
from typing import Any

from psycopg import AsyncConnection

from twopc.drivers.merge import neighbours, partitions, snapshots
from twopc.drivers.points import Points
from twopc.errors import ConfigurationError, MergeError, SubscriptionError
from twopc.merge.ladder import InitialisationMethod, InitialisationStep, SnapshotFacts, choose
from twopc.merge.partitions import check_value
from twopc.merge.snapshots import PART_BYTES, SnapshotPartition
from twopc.sim.merge import delivery, snapshot_agent, subscriptions
from twopc.sim.merge.delivery import InitialisationReport
from twopc.sim.merge.logins import AgentLogin
from twopc.sim.merge.shape import MergeTree
from twopc.sim.merge.snapshot_agent import SnapshotReport, SnapshotRequest, Tell
from twopc.sim.merge.snapshot_checks import check_snapshot
from twopc.sim.merge.snapshot_files import read_manifest
from twopc.sim.merge.subscriptions import MergePair, SubscriptionKind
from twopc.sim.topology.nodes import Node

Connection = AsyncConnection[Any]

#: A Subscriber's values: the function that filters call, and the original's number if it is missing.
_VALUES = {"host_name": ("host_name", 20698), "login": ("suser_sname", 20699)}


class MergeSubscribing(ABC):
    """What begins and ends subscriptions."""

    tree: MergeTree
    """Who subscribes at whom."""
    points: Points
    _logins: dict[tuple[str, str], AgentLogin]
    """Of the agent at one node for the other."""

    @abstractmethod
    async def admin(self, name: str) -> Connection:
        """The administrator's connection to a node."""

    @abstractmethod
    def node(self, name: str) -> Node:
        """The node of that name."""

    @abstractmethod
    async def pair(self, subscriber: str) -> MergePair:
        """A Subscriber and its Publisher."""

    @abstractmethod
    def login(self, node: str, other: str) -> AgentLogin:
        """How the agent at a node for another logs in."""

    async def subscribe(
        self,
        subscriber: str,
        *,
        kind: str = "client",
        priority: float | None = None,
        host_name: str | None = None,
        login: str | None = None,
        snapshot_location: str | Path | None = None,
        tell: Tell | None = None,
    ) -> InitialisationReport:
        """Make a Subscriber: its tables, and the rows that the Publisher has in one snapshot.

        Nobody waits for the copy: that snapshot is the generation with which the subscription begins. Where it comes
        from is decided in the order of seed 003: see `twopc.merge.ladder`. A delivery from files that was cut off goes
        on at the next file if it is called again.

        Args:
            kind: ``client``: the first change that reaches the Publisher wins. ``server``: the subscription has a
                priority of its own, which its changes keep.
            priority: of a server subscription, from 0 to less than 100.
            host_name: what ``msrepl.host_name()`` is in filters; None: the Subscriber's name.
            login: what ``msrepl.suser_sname()`` is in filters; None: the Subscriber's name.
            snapshot_location: the folder of a snapshot in files.
            tell: called after each file.

        Raises:
            SubscriptionError: the kind or priority is none, it subscribes already, has such a table, or another
                encoding; nothing is changed.
            MergeError: a snapshot in files is not there, not what it should be, or cannot be made; or its delivery was
                cut off, and the next call goes on with it.
        """
        pair = await self.pair(subscriber)
        subscriptions.check_encodings(pair)
        await subscriptions.check_kind(subscriber, kind, priority, pair.above, pair.publisher)
        unfinished = await delivery.is_unfinished(pair.below)
        if not unfinished and subscriber in await neighbours.subscriber_names(pair.above):
            raise SubscriptionError(f"{subscriber} subscribes already")
        if await delivery.is_unfinished(pair.above):
            raise SubscriptionError(
                f"{subscriber} subscribes at {pair.publisher}, which is being initialised: `subscribe` "
                f"{pair.publisher} first, and its initialisation goes on"
            )
        values = {
            name: check_value(subscriber, name, subscriber if value is None else value)
            for name, value in (("host_name", host_name), ("login", login))
        }
        partition = await partitions.partition_of(pair.above, **values)
        if partition is not None and self.tree.subscribers_of(subscriber):
            raise SubscriptionError(
                f"{subscriber} would republish a filtered publication, which is not possible yet: publish without "
                "filters, or subscribe its Subscribers at the Publisher"
            )
        begun = SubscriptionKind(
            is_server=kind == "server", priority=priority or 0, partition=partition
        )
        step = await self._step(pair, begun, snapshot_location)
        if step.method is not InitialisationMethod.SELECT:
            return await self._apply(pair, begun, step, tell)
        if unfinished:
            await delivery.abandon(pair.below)
        await self._copy(pair, begun)
        return InitialisationReport(method=step.method)

    async def _copy(self, pair: MergePair, kind: SubscriptionKind) -> None:
        """Initialise a Subscriber from the Publisher's tables."""
        try:
            await self._make_logins(pair)
            async with pair.below.transaction():
                await subscriptions.begin(pair, kind)
            await self._drop_others(pair, kind)
        except BaseException:
            self._forget_logins(pair)
            await subscriptions.withdraw(pair)
            raise

    async def _step(
        self, pair: MergePair, kind: SubscriptionKind, given: str | Path | None
    ) -> InitialisationStep:
        """How a Subscriber is initialised."""
        usable = [
            each
            for each in await snapshots.recorded(pair.above)
            if each.is_usable and each.partition == kind.partition
        ]
        settings = await snapshots.read_settings(pair.above)
        made, shared = (
            next((each.location for each in usable if (each.initiated_by is None) is own), None)
            for own in (True, False)
        )
        return choose(
            SnapshotFacts(
                given=None if given is None else str(given),
                pregenerated=made,
                subscribers_may_start=settings.subscribers_may_start,
                shared=shared,
            )
        )

    async def _apply(
        self, pair: MergePair, kind: SubscriptionKind, step: InitialisationStep, tell: Tell | None
    ) -> InitialisationReport:
        """Initialise a Subscriber from files, which are written first if need be."""
        location = step.location
        if location is None:
            location = await self._have_snapshot_made(pair, kind)
        folder = Path(location)
        stored = read_manifest(folder)
        if stored is None:
            raise MergeError(
                f"there is no snapshot in {folder} (20631): name the folder with its manifest.json, or run the Snapshot "
                "Agent",
                number=20631,
            )
        await check_snapshot(pair, kind, stored)
        report = await delivery.deliver(
            pair,
            kind,
            stored,
            make_logins=lambda: self._make_logins(pair),
            points=self.points,
            tell=tell,
        )
        await self._drop_others(pair, kind)
        return replace(report, method=step.method)

    async def _drop_others(self, pair: MergePair, kind: SubscriptionKind) -> None:
        if kind.partition is not None:
            await partitions.drop_others(pair.above, kind.partition, pair.subscriber)

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

    async def unsubscribe(self, subscriber: str) -> None:
        """End a subscription: its tables stay at the Subscriber, as ordinary tables. Changes not sent are not sent.

        What an initialisation has brought that was cut off is removed.

        Raises:
            SubscriptionError: it does not subscribe, or others subscribe at it.
        """
        pair = await self.pair(subscriber)
        if await delivery.is_unfinished(pair.below):
            await delivery.abandon(pair.below)
            self._forget_logins(pair)
            await subscriptions.withdraw(pair)
            return
        if await subscriptions.subscription_kind(pair.above, subscriber) is None:
            raise SubscriptionError(f"{subscriber} does not subscribe")
        if others := await neighbours.subscriber_names(pair.below):
            raise SubscriptionError(
                f"{subscriber} publishes to {', '.join(others)}: unsubscribe these first"
            )
        await neighbours.dismiss(pair.above, subscriber)
        async with pair.below.transaction():
            await subscriptions.leave(pair)
        self._forget_logins(pair)

    async def _make_logins(self, pair: MergePair) -> None:
        ends = (pair.publisher, pair.subscriber)
        for node, other in (ends, ends[::-1]):
            await self.login(node, other).make(await self.admin(node))

    def _forget_logins(self, pair: MergePair) -> None:
        for ends in ((pair.publisher, pair.subscriber), (pair.subscriber, pair.publisher)):
            self._logins.pop(ends, None)

    # -- snapshots in files --------------------------------------------------------------------------

    async def snapshot(
        self,
        folder: str | Path | None = None,
        *,
        publisher: str | None = None,
        host_name: str | None = None,
        login: str | None = None,
        jobs: int = 1,
        part_bytes: int = PART_BYTES,
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
        if jobs < 1 or part_bytes < 1:
            raise ConfigurationError(f"jobs {jobs}, part_bytes {part_bytes}: use 1 or more")
        request = SnapshotRequest(
            publisher=name,
            folder=Path(where),
            partition=await self._named_partition(above, host_name, login),
            jobs=jobs,
            part_bytes=part_bytes,
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
