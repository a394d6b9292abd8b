"""Drawn histories: sessions that are cut off anywhere, changes during sessions; nodes converge and nothing is lost."""

from __future__ import annotations

import asyncio
import copy
import itertools
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from tests.merge.histories import COLUMNS, History, Known, Lost
from twopc.drivers.merge.engine import MergeReport, MergeSession
from twopc.drivers.points import Points
from twopc.merge.lineage import unpacked
from twopc.server import EmbeddedServer
from twopc.sim.merge import MergeTopology
from twopc.sim.model.merge.end import ModelMergeEnd
from twopc.sim.model.merge.node import ModelMergeArticle, ModelMergeNode, ModelNeighbour

TABLE = UUID(int=1)
#: Publisher, a server subscription, another, a client.
PRIORITIES = {"anna": 75.0, "ben": 50.0, "cleo": None}


class ModelNodes:
    """Nodes in memory."""

    node_class = ModelMergeNode
    end_class = ModelMergeEnd

    def __init__(self, *, column_tracking: bool) -> None:
        self.points = Points()
        article = ModelMergeArticle(columns=COLUMNS, column_tracking=column_tracking)
        self.names = ("pub", *PRIORITIES)
        self.nodes = {
            name: self.node_class(name=name, replica=number, articles={TABLE: article})
            for number, name in enumerate(self.names, 1)
        }
        self._agents: set[str] = set()
        self._backups: dict[str, ModelMergeNode] = {}
        above = self.nodes["pub"]
        for name, priority in PRIORITIES.items():
            below = self.nodes[name]
            above.neighbours[name] = ModelNeighbour(
                replica=below.replica, is_publisher=False, server_priority=priority
            )
            below.neighbours["pub"] = ModelNeighbour(replica=above.replica, is_publisher=True)

    async def write(
        self, node: str, rowguid: UUID, values: Sequence[Any] | None, fresh: bool
    ) -> None:
        """See `Nodes`."""
        self.nodes[node].write(TABLE, rowguid, None if values is None else tuple(values))

    async def rows(self, node: str) -> dict[UUID, tuple[Any, ...]]:
        """See `Nodes`."""
        return dict(self.nodes[node].rows[TABLE])

    async def known(self, node: str, rowguid: UUID) -> Known | None:
        """See `Nodes`."""
        found = self.nodes[node].metadata[TABLE].get(rowguid)
        return found and Known(lineage=found.version.lineage, gone=found.version.gone)

    async def replica(self, node: str) -> int:
        """See `Nodes`."""
        return self.nodes[node].replica

    async def sync(self, subscriber: str) -> MergeReport:
        """See `Nodes`."""
        above = self.end_class(self.nodes["pub"], subscriber, self._agents)
        below = self.end_class(self.nodes[subscriber], "pub", set())
        return await MergeSession(above, below, self.points).run()

    def back_up(self, node: str) -> None:
        """See `Nodes`."""
        self._backups[node] = copy.deepcopy(self.nodes[node])

    def restore(self, node: str) -> bool:
        """See `Nodes`."""
        if node not in self._backups:
            return False
        self.nodes[node] = copy.deepcopy(self._backups[node])
        return True

    async def losers(self) -> Sequence[Lost]:
        """See `Nodes`."""
        return [Lost(rowguid=c.rowguid, row=c.loser) for c in self.nodes["pub"].conflicts]


async def play(nodes: ModelNodes, seed: str) -> int:
    """One history in memory, judged; how many rounds it took until quiet."""
    number = itertools.count(1)
    history = History(nodes, random.Random(seed), lambda: next(number))
    await history.play(40)
    rounds = await history.settle()
    await history.judge()
    return rounds


@pytest.mark.parametrize("tracking", ["row", "column"])
def test_in_memory(tracking: str) -> None:
    """Quiet after three rounds at most; `python -m tests.merge` plays more."""

    async def all_of_them() -> None:
        for seed in range(300):
            nodes = ModelNodes(column_tracking=tracking == "column")
            assert await play(nodes, f"{tracking} {seed}") <= 3, seed

    asyncio.run(all_of_them())


async def play_restored(nodes: ModelNodes, seed: str) -> bool:
    """One history in which any node is restored from any backup; whether a session found out."""
    number = itertools.count(1)
    history = History(nodes, random.Random(seed), number.__next__)
    await history.play(50, restores=0.12)
    assert await history.settle() <= 4
    rows = [await nodes.rows(name) for name in nodes.names]
    assert all(each == rows[0] for each in rows)
    return any(report.anew for report in history.reports)


@pytest.mark.parametrize("tracking", ["row", "column"])
def test_restored_in_memory(tracking: str) -> None:
    """In the end all nodes have the same rows."""

    async def all_of_them() -> int:
        return sum(
            [
                await play_restored(
                    ModelNodes(column_tracking=tracking == "column"), f"{tracking} restored {seed}"
                )
                for seed in range(300)
            ]
        )

    assert asyncio.run(all_of_them()) > 100


class ServerNodes:
    """The same nodes on a real server."""

    def __init__(self, topology: MergeTopology) -> None:
        self.topology = topology
        self.points = topology.points
        self.names = (topology.publisher, *topology.subscribers)

    async def write(
        self, node: str, rowguid: UUID, values: Sequence[Any] | None, fresh: bool
    ) -> None:
        """See `Nodes`."""
        if values is None:
            await self.topology.execute(node, "delete from item where rowguid = %s", (rowguid,))
        elif fresh:
            await self.topology.execute(
                node, "insert into item values (%s, %s, %s, %s)", (rowguid, *values)
            )
        else:
            await self.topology.execute(
                node,
                "update item set c0 = %s, c1 = %s, c2 = %s where rowguid = %s",
                (*values, rowguid),
            )

    async def rows(self, node: str) -> dict[UUID, tuple[Any, ...]]:
        """See `Nodes`."""
        rows = await self.topology.execute(node, "select rowguid, c0, c1, c2 from item")
        return {rowguid: tuple(values) for rowguid, *values in rows}

    async def known(self, node: str, rowguid: UUID) -> Known | None:
        """See `Nodes`."""
        rows = await self.topology.execute(
            node,
            "select msrepl.merge_lineage(m.lineage, r.replica, m.own), m.gone"
            " from msrepl.msmerge_metadata as m, msrepl.msmerge_replica as r where m.rowguid = %s",
            (rowguid,),
        )
        return Known(lineage=unpacked(rows[0][0]), gone=rows[0][1]) if rows else None

    async def replica(self, node: str) -> int:
        """See `Nodes`."""
        [(replica,)] = await self.topology.execute(
            node, "select replica from msrepl.msmerge_replica"
        )
        return int(replica)

    async def sync(self, subscriber: str) -> MergeReport:
        """See `Nodes`."""
        return await self.topology.sync(subscriber)

    def back_up(self, node: str) -> None:
        """Not here."""

    def restore(self, node: str) -> bool:
        """Not here."""
        return False

    async def losers(self) -> Sequence[Lost]:
        """See `Nodes`."""
        return [
            Lost(
                rowguid=c.rowguid,
                row=tuple(c.loser[f"c{n}"] for n in range(COLUMNS)) if c.loser else None,
            )
            for c in await self.topology.conflicts()
        ]


@pytest.mark.slow
@pytest.mark.parametrize("tracking", ["row", "column"])
async def test_on_servers(server: EmbeddedServer, tracking: str) -> None:
    """Three long histories, one after the other, on the same rows; nodes in memory do the same, session by session."""
    async with MergeTopology(server=server, subscribers=tuple(PRIORITIES)) as topology:
        await topology.execute(
            "pub", "create table item (rowguid uuid primary key, c0 int, c1 int, c2 int)"
        )
        await topology.publish("item", tracking=tracking)
        for name, priority in PRIORITIES.items():
            kind = "client" if priority is None else "server"
            await topology.subscribe(name, kind=kind, priority=priority)
        played = []
        for nodes in (ServerNodes(topology), ModelNodes(column_tracking=tracking == "column")):
            number = itertools.count(1)
            history = History(nodes, random.Random(f"servers {tracking}"), number.__next__)
            for _ in range(3):
                await history.play(60)
                assert await history.settle() <= 3
                await history.judge()
            losers = [(each.rowguid, each.row) for each in await nodes.losers()]
            played.append((history.reports, await nodes.rows("pub"), sorted(map(repr, losers))))
        assert played[0] == played[1]
        verdicts = Counter(conflict.type for conflict in await topology.conflicts())
        assert len(verdicts) == 3  # of updates, and of deletions that won or lost
