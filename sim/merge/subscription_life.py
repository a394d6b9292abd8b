"""Subscriptions of a topology of merge replication: beginning, reinitialising and ending them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from twopc.drivers.merge import neighbours, partitions, snapshots
from twopc.drivers.merge.engine import MergeReport
from twopc.errors import MergeError, SubscriptionError
from twopc.merge.ladder import InitialisationMethod, InitialisationStep, SnapshotFacts, choose
from twopc.merge.partitions import check_value
from twopc.sim.merge import delivery, subscriptions
from twopc.sim.merge.delivery import InitialisationReport, Unfinished
from twopc.sim.merge.sessions import MergeSessions
from twopc.sim.merge.snapshot_agent import Tell
from twopc.sim.merge.snapshot_checks import OUTDATED, check_snapshot
from twopc.sim.merge.snapshot_files import StoredManifest, read_manifest
from twopc.sim.merge.snapshots import MergeSnapshots
from twopc.sim.merge.subscriptions import MergePair, SubscriptionKind
from twopc.sim.merge.wiring import MergeWiring


@dataclass(frozen=True, slots=True, kw_only=True)
class Reinitialisation:
    """The result of reinitialising a Subscriber."""

    uploaded: MergeReport | None
    """Report of the preceding session; None: there was none."""
    lost: Mapping[str, Mapping[str, int]]
    """Number of rows with changes that the Publisher never received, by reinitialised node and table."""
    initialised: Mapping[str, InitialisationReport]
    """How each node was initialised."""


class MergeSubscriptions:
    """Begins, reinitialises and ends subscriptions."""

    def __init__(
        self, wiring: MergeWiring, sessions: MergeSessions, snapshots: MergeSnapshots
    ) -> None:
        self._wiring = wiring
        self._sessions = sessions
        self._snapshots = snapshots

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
        """Initialise a Subscriber: its tables, and the rows that the Publisher has in one snapshot.

        Other sessions do not wait for the copy: that snapshot is the generation with which the subscription begins.
        The source of the rows is chosen in the order of seed 003: see `twopc.merge.ladder`. An interrupted delivery
        from files continues at the next file in the next call.

        Args:
            kind: ``client``: the first change that reaches the Publisher wins. ``server``: the subscription has a
                priority of its own, which its changes keep.
            priority: of a server subscription, from 0 to less than 100.
            host_name: value of ``msrepl.host_name()`` in filters; None: the Subscriber's name.
            login: value of ``msrepl.suser_sname()`` in filters; None: the Subscriber's name.
            snapshot_location: the folder of a snapshot in files.
            tell: called after each file.

        Raises:
            SubscriptionError: the kind or priority is invalid, the node subscribes already, has such a table, or
                another encoding; nothing is changed.
            MergeError: a snapshot in files does not exist, was altered, or cannot be made; or its delivery was
                interrupted, and the next call continues.
        """
        pair = await self._wiring.pair(subscriber)
        subscriptions.check_encodings(pair)
        await subscriptions.check_kind(subscriber, kind, priority, pair.above, pair.publisher)
        unfinished = await delivery.unfinished(pair.below)
        if unfinished is None and subscriber in await neighbours.subscriber_names(pair.above):
            if not await self._wiring.merges(subscriber):
                raise SubscriptionError(
                    f"{subscriber} subscribes, as {pair.publisher} knows, and its database {pair.below.info.dbname!r} does "
                    f"not merge: a `subscribe` was cut off, or that is another database. `twopc merge unsubscribe "
                    f"{subscriber}`, and subscribe it again"
                )
            raise SubscriptionError(f"{subscriber} subscribes already")
        await _refuse_unfinished_publisher(pair)
        values = {
            name: check_value(subscriber, name, subscriber if value is None else value)
            for name, value in (("host_name", host_name), ("login", login))
        }
        await self._refuse_part(pair)
        partition = await partitions.partition_of(pair.above, **values)
        if partition is not None and (below := self._wiring.tree.subscribers_of(subscriber)):
            raise SubscriptionError(
                f"{subscriber} would have one partition of {pair.publisher}'s rows, and republish it: subscribe "
                f"{', '.join(below)} at {pair.publisher}, or publish without filters"
            )
        begun = SubscriptionKind(
            is_server=kind == "server", priority=priority or 0, partition=partition
        )
        return await self._initialise(pair, begun, snapshot_location, tell)

    async def _refuse_part(self, pair: MergePair) -> None:
        """Refuse a republisher of one partition: rows that leave its partition would stay at its Subscribers.

        Raises:
            SubscriptionError: the pair's Publisher has one partition.
        """
        if pair.publisher == self._wiring.tree.root:
            return
        top = self._wiring.tree.publisher_of(pair.publisher)
        held = await subscriptions.subscription_kind(await self._wiring.admin(top), pair.publisher)
        if held is not None and held.partition is not None:
            raise SubscriptionError(
                f"{pair.publisher} has one partition of {top}'s rows, and cannot republish it to {pair.subscriber}: "
                f"subscribe {pair.subscriber} at {top}"
            )

    async def reinitialise(
        self,
        subscriber: str,
        *,
        upload_first: bool = False,
        snapshot_location: str | Path | None = None,
        tell: Tell | None = None,
    ) -> Reinitialisation:
        """Replace every row of a Subscriber by its Publisher's rows, and then those of its own Subscribers.

        The source of the rows is chosen as by `subscribe`. Files are delivered one by one, and an interrupted
        delivery continues at the next file; until the last one, changes of the tables are refused (20092). The
        tables stay, and their content is replaced. No trigger of the user's fires. The Subscriber's recorded
        conflicts are deleted.

        Args:
            upload_first: run a session first, so that the Subscriber's own changes are not lost. Not possible for a
                Subscriber that has expired.
            snapshot_location: the folder of a snapshot in files, for this Subscriber.
            tell: called after each file.

        Raises:
            SubscriptionError: the node does not subscribe, a table that is not merged refers to one that is, or a
                table lacks the columns of the Publisher's.
            MergeError: the session failed, or the snapshot is refused, and nothing else was done; or its delivery
                was interrupted, and the next call continues.
        """
        order = [subscriber]
        kinds: dict[str, SubscriptionKind] = {}
        whole: set[str] = set()
        for name in order:
            pair = await self._wiring.pair(name)
            held = await subscriptions.subscription_kind(pair.above, name)
            if held is not None and await self._wiring.merges(name):
                kinds[name] = held
                order += self._wiring.tree.subscribers_of(name)
                if await delivery.unfinished(pair.below) is None:
                    whole.add(name)
            elif name == subscriber:
                raise SubscriptionError(f"{subscriber} does not subscribe: `subscribe` it")
        await _refuse_unfinished_publisher(await self._wiring.pair(subscriber))
        uploaded = None
        if upload_first and whole == {*kinds}:
            for name in reversed(kinds):
                uploaded = await self._sessions.sync(name)
        lost = {name: await subscriptions.unsent(await self._wiring.admin(name)) for name in kinds}
        initialised = {}
        for name, kind in kinds.items():
            given = snapshot_location if name == subscriber else None
            pair = await self._wiring.pair(name)
            if name in whole:
                await subscriptions.bring_schema(pair)
            initialised[name] = await self._initialise(pair, kind, given, tell, anew=True)
        return Reinitialisation(uploaded=uploaded, lost=lost, initialised=initialised)

    async def _initialise(
        self,
        pair: MergePair,
        kind: SubscriptionKind,
        given: str | Path | None,
        tell: Tell | None,
        *,
        anew: bool = False,
    ) -> InitialisationReport:
        """Initialise a Subscriber, or continue to.

        Args:
            anew: the Subscriber has the tables already.
        """
        unfinished = await delivery.unfinished(pair.below)
        over = anew if unfinished is None else unfinished is Unfinished.ANEW
        step = await self._step(pair, kind, given)
        if step.method is not InitialisationMethod.SELECT:
            return await self._apply(pair, kind, step, tell, over=over)
        if over:
            await subscriptions.renew(pair, kind)
        else:
            if unfinished is not None:
                await delivery.abandon(pair.below)
            await self._copy(pair, kind)
        return InitialisationReport(method=step.method)

    async def _copy(self, pair: MergePair, kind: SubscriptionKind) -> None:
        """Initialise a Subscriber from the Publisher's tables."""
        try:
            await self._wiring.make_logins(pair)
            async with pair.below.transaction():
                await subscriptions.begin(pair, kind)
            await self._drop_others(pair, kind)
        except BaseException:
            await self._wiring.forget_logins(pair)
            await subscriptions.withdraw(pair)
            raise

    async def _step(
        self, pair: MergePair, kind: SubscriptionKind, given: str | Path | None
    ) -> InitialisationStep:
        """Choose how a Subscriber is initialised."""
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
        self,
        pair: MergePair,
        kind: SubscriptionKind,
        step: InitialisationStep,
        tell: Tell | None,
        *,
        over: bool,
    ) -> InitialisationReport:
        """Initialise a Subscriber from files, which are written first if necessary."""
        method, location = step.method, step.location
        if location is None:
            location = await self._snapshots.make_for(pair, kind)
        try:
            stored = await _checked_snapshot(pair, kind, location)
        except MergeError as error:
            if error.number != OUTDATED or not step.may_be_made:
                raise
            method = InitialisationMethod.GENERATE
            location = await self._snapshots.make_for(pair, kind)
            stored = await _checked_snapshot(pair, kind, location)
        report = await delivery.deliver(
            pair,
            kind,
            stored,
            make_logins=lambda: self._wiring.make_logins(pair),
            points=self._wiring.points,
            over=over,
            tell=tell,
        )
        await self._drop_others(pair, kind)
        return replace(report, method=method)

    async def _drop_others(self, pair: MergePair, kind: SubscriptionKind) -> None:
        if kind.partition is not None:
            await partitions.drop_others(pair.above, kind.partition, pair.subscriber)

    async def unsubscribe(self, subscriber: str) -> None:
        """End a subscription: its tables stay at the Subscriber, as ordinary tables. Changes not sent yet are not
        sent.

        The tables of an interrupted initialisation are removed.

        Raises:
            SubscriptionError: the node does not subscribe, or has Subscribers itself.
        """
        pair = await self._wiring.pair(subscriber)
        if await delivery.unfinished(pair.below) is not None:
            await delivery.abandon(pair.below)
            await self._wiring.forget_logins(pair)
            await subscriptions.withdraw(pair)
            return
        kind = await subscriptions.subscription_kind(pair.above, subscriber)
        # After an interruption that followed the Publisher's commit, only the Subscriber has the
        # subscription.
        if kind is None and await neighbours.publisher_name(pair.below) != pair.publisher:
            raise SubscriptionError(f"{subscriber} does not subscribe")
        if not await self._wiring.merges(subscriber):  # its first initialisation was cut off
            await subscriptions.withdraw(pair)
            await self._wiring.forget_logins(pair)
            return
        if others := await neighbours.subscriber_names(pair.below):
            raise SubscriptionError(
                f"{subscriber} publishes to {', '.join(others)}: unsubscribe these first"
            )
        await neighbours.dismiss(pair.above, subscriber)
        async with pair.below.transaction():
            await subscriptions.leave(pair)
        await self._wiring.forget_logins(pair)


async def _checked_snapshot(
    pair: MergePair, kind: SubscriptionKind, location: str
) -> StoredManifest:
    """Return the snapshot in a folder, after checking that a Subscriber can be initialised from it.

    Raises:
        MergeError: it cannot; 20631: there is no snapshot.
    """
    folder = Path(location)
    stored = read_manifest(folder)
    if stored is None:
        raise MergeError(
            f"there is no snapshot in {folder} (20631): name the folder with its manifest.json, or run the Snapshot "
            "Agent",
            number=20631,
        )
    await check_snapshot(pair, kind, stored)
    return stored


async def _refuse_unfinished_publisher(pair: MergePair) -> None:
    if await delivery.unfinished(pair.above) is not None:
        raise SubscriptionError(
            f"{pair.subscriber} subscribes at {pair.publisher}, which is being initialised: `subscribe` "
            f"{pair.publisher} first, and its initialisation goes on"
        )
