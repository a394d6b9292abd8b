"""Random histories of merging nodes, on servers or in memory, and a judge of their results.

No clock is used: an application's change is identified by row, replica and version, with the
lineage that it is based on.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

from twopc.drivers.points import MERGE_POINTS, Points
from twopc.errors import MergeError

COLUMNS = 3
PLACES = tuple(name.partition("(")[0] for name in MERGE_POINTS)


class CutError(Exception):
    """The agent has crashed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The metadata of a row at a node."""

    lineage: Mapping[int, int]
    gone: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """The loser of a conflict, as the Publisher has recorded it."""

    rowguid: UUID
    row: Sequence[Any] | None


class Nodes(Protocol):
    """Nodes on which a history is played; the first is the Publisher."""

    names: Sequence[str]
    points: Points

    async def write(
        self, node: str, rowguid: UUID, values: Sequence[Any] | None, fresh: bool
    ) -> None:
        """Change a row as an application; with None, delete it."""
        ...

    async def rows(self, node: str) -> dict[UUID, tuple[Any, ...]]:
        """Return all rows."""
        ...

    async def known(self, node: str, rowguid: UUID) -> Known | None:
        """Return the metadata of a row."""
        ...

    async def replica(self, node: str) -> int:
        """Return the number of the replica."""
        ...

    async def sync(self, subscriber: str) -> Any:
        """Run a session, and return its report."""
        ...

    def age(self, days: float) -> None:
        """Let time pass."""
        ...

    def back_up(self, node: str) -> None:
        """Keep a backup of the node."""
        ...

    def restore(self, node: str, chance: random.Random) -> bool:
        """Restore one of the node's backups; return False if there is none."""
        ...

    def reinitialise(self, subscriber: str) -> Sequence[str]:
        """Reinitialise a Subscriber and those below it; return their names."""
        ...

    async def losers(self) -> Sequence[Lost]:
        """Return the losers of all conflicts that the Publisher has recorded."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """An application's change."""

    node: str
    rowguid: UUID
    replica: int
    version: int
    base: Mapping[int, int]
    values: Mapping[int, Any] | None
    """The changed columns; None: a deletion."""


@dataclass(slots=True)
class History:
    """One random history."""

    nodes: Nodes
    chance: random.Random
    number: Callable[[], int]
    """Returns numbers that no other change has used."""
    changes: list[Change] = field(default_factory=list)
    reports: list[Any] = field(default_factory=list)
    """Reports of the sessions that were not interrupted."""
    given_up: list[Change] = field(default_factory=list)
    """Changes that were lost when their Subscriber was reinitialised."""

    def may_go(self, rowguid: UUID) -> bool:
        """Return whether an application may delete this row."""
        return True

    def may_return(self, node: str, rowguid: UUID) -> bool:
        """Return whether an application may insert a deleted row again at a node."""
        return True

    async def write(self) -> None:
        """Change a random row at a random node."""
        node = self.chance.choice(self.nodes.names)
        rows = await self.nodes.rows(node)
        draw = self.chance.random()
        if draw < 0.2 or not rows:
            gone = [
                c.rowguid
                for c in self.changes
                if c.values is None and c.rowguid not in rows and self.may_return(node, c.rowguid)
            ]
            again = gone and self.chance.random() < 0.5
            rowguid = self.chance.choice(gone) if again else UUID(int=self.number() << 64 | 1 << 63)
            values: list[Any] | None = [self.number() for _ in range(COLUMNS)]
            changed: dict[int, Any] | None = dict(enumerate(values or ()))
        else:
            rowguid = self.chance.choice(sorted(rows))
            values, changed = None, None
            if draw < 0.88 or not self.may_go(rowguid):
                places = self.chance.sample(range(COLUMNS), self.chance.choice((1, 1, 2)))
                changed = {place: self.number() for place in places}
                values = [changed.get(place, held) for place, held in enumerate(rows[rowguid])]
        before = await self.nodes.known(node, rowguid)
        await self.nodes.write(node, rowguid, values, rowguid not in rows)
        after = await self.nodes.known(node, rowguid)
        replica = await self.nodes.replica(node)
        assert after is not None
        self.changes.append(
            Change(
                node=node,
                rowguid=rowguid,
                replica=replica,
                version=after.lineage[replica],
                base=before.lineage if before is not None else {},
                values=changed,
            )
        )

    async def session(self, *, cut: float, during: float) -> None:
        """Run a session with a Subscriber, which may be interrupted, while applications write."""
        subscriber = self.chance.choice(self.nodes.names[1:])
        points = self.nodes.points

        async def write(_: str) -> None:
            await self.write()

        def stop(_: str) -> None:
            raise CutError

        for place in PLACES:
            if self.chance.random() < during:
                points.arm(f"{place}({subscriber})", write)
        if self.chance.random() < cut:
            points.arm(
                f"{self.chance.choice(PLACES)}({subscriber})",
                stop,
                nth=self.chance.choice((1, 1, 2)),
            )
        try:
            await self._sync(subscriber)
        except CutError:
            pass
        finally:
            points.disarm()

    async def _sync(self, subscriber: str) -> Any:
        """Run a session; if the Subscriber has expired, reinitialise it and give up its changes."""
        try:
            report = await self.nodes.sync(subscriber)
        except MergeError as error:
            if not any(number in str(error) for number in ("21072", "21333", "subscribe anew")):
                raise
            self.nodes.points.disarm()
            begun = self.nodes.reinitialise(subscriber)
            for change in self.changes:
                known = await self.nodes.known(self.nodes.names[0], change.rowguid)
                is_there = known and known.lineage.get(change.replica, 0) >= change.version
                if change.node in begun and not is_there:
                    self.given_up.append(change)
            return None
        self.reports.append(report)
        return report

    async def play(
        self,
        steps: int,
        *,
        cut: float = 0.3,
        during: float = 0.15,
        restores: float = 0.0,
        ages: float = 0.0,
    ) -> None:
        """Play changes, sessions, restores from backups, and weeks that pass."""
        for _ in range(steps):
            if ages and self.chance.random() < ages:
                self.nodes.age(self.chance.choice((1.0, 8.0, 8.0, 16.0)))
            elif self.chance.random() < restores:
                node = self.chance.choice(self.nodes.names)
                if self.chance.random() < 0.5 or not self.nodes.restore(node, self.chance):
                    self.nodes.back_up(node)
            elif self.chance.random() < 0.65:
                await self.write()
            else:
                await self.session(cut=cut, during=during)

    async def settle(self) -> int:
        """Run rounds of sessions until one transfers nothing; return how many did not."""
        for round_number in range(6):
            reports = [await self._sync(name) for name in self.nodes.names[1:]]
            if all(
                r and not (r.uploaded or r.downloaded or r.conflicts or r.deferred) for r in reports
            ):
                return round_number
        raise AssertionError("not quiet after 6 rounds")

    async def judge(self) -> None:
        """Assert that nodes converge, nothing is lost, and no version names two changes."""
        publisher = self.nodes.names[0]
        final = await self.nodes.rows(publisher)
        for node in self.nodes.names[1:]:
            assert await self.nodes.rows(node) == final, f"{node} differs"
        stamps = [(c.rowguid, c.replica, c.version) for c in self.changes]
        assert len(stamps) == len(set(stamps)), "a version names two changes"
        losers = await self.nodes.losers()
        for change in self.changes:
            if change in self.given_up:
                continue
            await self._judge(change, final.get(change.rowguid), losers)

    async def _judge(
        self, change: Change, row: Sequence[Any] | None, losers: Sequence[Lost]
    ) -> None:
        known = await self.nodes.known(self.nodes.names[0], change.rowguid)
        assert known is not None, f"{change} never arrived"
        assert known.lineage.get(change.replica, 0) >= change.version, f"{change} never arrived"
        others = [c for c in self.changes if c.rowguid == change.rowguid and c is not change]
        if any(c.base.get(change.replica, 0) >= change.version for c in others):
            return  # a later change includes it
        recorded = [each.row for each in losers if each.rowguid == change.rowguid]
        if change.values is None:
            assert row is None or any(c.values is not None for c in others), f"{change} came back"
            return
        if row is None:
            assert any(c.values is None for c in others), f"{change} vanished"
            assert any(lost is not None for lost in recorded), (
                f"{change} was deleted, and not recorded"
            )
            return
        for place, value in change.values.items():
            is_recorded = any(lost is not None and lost[place] == value for lost in recorded)
            assert row[place] == value or is_recorded, f"column {place} of {change} is lost"
            is_met = any(
                c.base.get(change.replica, 0) < change.version
                and change.base.get(c.replica, 0) < c.version
                for c in others
            )
            assert row[place] == value or is_met, f"column {place} of {change} lost against nobody"


Play = Callable[[Nodes, random.Random], Awaitable[History]]
