"""Random histories with interrupted sessions and changes during sessions.

Nodes converge, and nothing is lost.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from tests.merge.histories import COLUMNS, History, Known, Lost
from tests.merge.model_nodes import (
    PRIORITIES,
    STAR,
    TREE,
    CountingEnd,
    ModelNodes,
    RememberingNode,
)
from twopc.drivers.merge.engine import MergeReport
from twopc.errors import MergeError
from twopc.merge.articles import Logging, MergeOptions
from twopc.merge.decision import ConflictType, Side
from twopc.merge.encounters import MergeEncounter, Resolution
from twopc.merge.handlers import Accept, Answer, MergeHandler, Reject, Replace
from twopc.merge.lineage import unpacked
from twopc.server import EmbeddedServer
from twopc.sim.merge import MergeTopology


async def play(nodes: ModelNodes, seed: str) -> int:
    """Play and judge one history in memory; return the number of rounds until it is quiet."""
    number = itertools.count(1)
    history = History(nodes, random.Random(seed), lambda: next(number))
    await history.play(40)
    rounds = await history.settle()
    await history.judge()
    return rounds


@pytest.mark.parametrize("tracking", ["row", "column"])
def test_in_memory(tracking: str) -> None:
    """Histories are quiet after three rounds at most; `python -m tests.merge` plays more."""

    async def all_of_them() -> None:
        for seed in range(300):
            nodes = ModelNodes(column_tracking=tracking == "column")
            assert await play(nodes, f"{tracking} {seed}") <= 3, seed

    asyncio.run(all_of_them())


def unsure(encounter: MergeEncounter) -> Resolution | None:
    """Fail, choose a side or leave the decision, depending on the incoming row's last digit."""
    row = encounter.incoming or encounter.held or {}
    digit = row["c2"] % 5
    if digit == 0:
        raise LookupError("a digit of 0")
    return None if digit < 3 else Resolution(winner=Side.HELD if digit == 3 else Side.INCOMING)


@pytest.mark.parametrize("resolver", ["maximum(c0)", "minimum(c1)", "subscriber_wins"])
def test_with_a_resolver(resolver: str) -> None:
    """Whichever side wins, nodes converge, and every change is in the row or recorded."""

    async def all_of_them() -> None:
        for seed in range(60):
            options = MergeOptions(resolver=resolver)
            tree = TREE if seed % 2 else STAR  # a republisher resolves uploads
            nodes = ModelNodes(column_tracking=True, options=options, tree=tree)
            assert await play(nodes, f"{resolver} {seed}") <= 3, seed

    asyncio.run(all_of_them())


@pytest.mark.parametrize("resolver", ["additive(c0)", "download_only", f"python:{__name__}:unsure"])
def test_with_a_resolver_that_makes_rows(resolver: str) -> None:
    """Nodes converge, except for rows on which the resolver always fails; those are recorded."""

    async def all_of_them() -> int:
        failures = 0
        for seed in range(60):
            options = MergeOptions(resolver=resolver)
            nodes = ModelNodes(column_tracking=True, options=options)
            history = History(
                nodes, random.Random(f"{resolver} {seed}"), itertools.count(1).__next__
            )
            await history.play(30)
            assert await history.settle() <= 4
            recorded = nodes.nodes["pub"].failures
            pending = {guid for guid, failure in recorded.items() if failure.is_pending}
            rows = [await nodes.rows(name) for name in nodes.names]
            failing = set[UUID]()
            for other in rows:
                differing = {guid for guid, _ in set(other.items()) ^ set(rows[0].items())}
                assert differing <= recorded.keys(), seed
                failing |= differing
                failures += bool(differing)
            assert pending <= failing, f"{seed}: what has arrived at last is on record as a failure"
        return failures

    assert (asyncio.run(all_of_them()) > 0) == resolver.startswith("python:")


class Strict(MergeHandler):
    """A handler that rejects or changes uploads by their last digit, and keeps some rows."""

    def _judge(self, encounter: MergeEncounter) -> Answer:
        assert encounter.incoming is not None
        digit = encounter.incoming["c2"] % 10 if encounter.is_upload else None
        if digit == 0:
            return Reject()
        return Replace({"c2": encounter.incoming["c2"] + 1}) if digit in (1, 2) else None

    row_inserted = row_updated = update_conflict = _judge

    def row_deleted(self, encounter: MergeEncounter) -> Answer:
        """Judge by the row held."""
        assert encounter.held is not None
        return Reject() if encounter.held["c2"] % 10 == 5 and encounter.is_upload else Accept()


@pytest.mark.parametrize("tracking", ["row", "column"])
def test_with_a_handler(tracking: str) -> None:
    """Nodes converge, whatever is rejected or changed at the Publisher."""

    async def all_of_them() -> int:
        rejected = 0
        for seed in range(100):
            nodes = ModelNodes(column_tracking=tracking == "column")
            nodes.handlers["item"] = Strict()
            history = History(nodes, random.Random(f"handler {seed}"), itertools.count(1).__next__)
            await history.play(40)
            assert await history.settle() <= 5, seed
            rows = [await nodes.rows(name) for name in nodes.names]
            assert all(each == rows[0] for each in rows), seed
            rejected += sum(report.rejected for report in history.reports)
        return rejected

    assert asyncio.run(all_of_them()) > 40


def test_logged_at_subscribers() -> None:
    """In the end every loser is recorded once, at a Subscriber, and none at the Publisher."""

    async def all_of_them() -> int:
        count = 0
        for seed in range(40):
            options = MergeOptions(conflict_logging=Logging.SUBSCRIBER)
            nodes = ModelNodes(column_tracking=True, options=options)
            assert await play(nodes, f"column {seed}") <= 3
            assert not nodes.nodes["pub"].conflicts
            ids = [each.id for node in nodes.nodes.values() for each in node.conflicts]
            assert len(ids) == len(set(ids))
            count += len(ids)
        return count

    assert asyncio.run(all_of_them()) > 40


async def play_restored(nodes: ModelNodes, seed: str) -> bool:
    """Play one history with restores from any backup; return whether a session noticed."""
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


async def play_aged(nodes: ModelNodes, seed: str) -> History:
    """Play and judge one history in which weeks pass."""
    history = History(nodes, random.Random(seed), itertools.count(1).__next__)
    await history.play(60, ages=0.15)
    assert await history.settle() <= 4
    await history.judge()
    return history


@pytest.mark.parametrize("tracking", ["row", "column"])
@pytest.mark.parametrize("shape", ["star", "tree"])
def test_aged_in_memory(tracking: str, shape: str) -> None:
    """Removed metadata is not needed: nothing is lost, and no deleted row comes back."""

    async def all_of_them() -> tuple[int, int]:
        forgotten = given_up = 0
        for seed in range(60):
            nodes = ModelNodes(
                column_tracking=tracking == "column", **({"tree": TREE} if shape == "tree" else {})
            )
            history = await play_aged(nodes, f"{tracking} aged {seed}")
            forgotten += any(node.cleaned for node in nodes.nodes.values())
            given_up += bool(history.given_up)
        return forgotten, given_up

    forgotten, given_up = asyncio.run(all_of_them())
    assert forgotten > 40
    assert given_up > 4


def test_a_row_that_was_left_is_not_forgotten() -> None:
    """A Subscriber that has deferred a row, and was away for weeks, has expired.

    Its change does not overwrite the row without a conflict.
    """

    async def course() -> None:
        nodes, row = ModelNodes(column_tracking=False), UUID(int=7)

        async def change(_: str) -> None:
            await nodes.write("ben", row, (3, 0, 0), False)

        await nodes.write("pub", row, (1, 0, 0), True)
        for name in ("anna", "ben"):
            await nodes.sync(name)
        await nodes.write("pub", row, (2, 0, 0), False)
        nodes.points.arm("merge.download_read(ben)", change)
        assert (await nodes.sync("ben")).deferred == 1
        nodes.points.disarm()
        for _ in range(2):
            await nodes.sync("anna")
            nodes.age(8.0)
        await nodes.sync("anna")
        with pytest.raises(MergeError, match="21072"):
            await nodes.sync("ben")

    asyncio.run(course())


@pytest.mark.parametrize("tracking", ["row", "column"])
def test_tree_in_memory(tracking: str) -> None:
    """With a republisher, histories are quiet after three rounds at most."""

    async def all_of_them() -> None:
        for seed in range(100):
            nodes = ModelNodes(column_tracking=tracking == "column", tree=TREE)
            assert await play(nodes, f"tree {tracking} {seed}") <= 3, seed

    asyncio.run(all_of_them())


async def superfluous_rows(node_class: Any, histories: int) -> int:
    """Return the number of rows that arrived although known, in undisturbed histories of a tree."""
    nodes_class = type(
        "CountedNodes", (ModelNodes,), {"node_class": node_class, "end_class": CountingEnd}
    )
    CountingEnd.superfluous = 0
    for seed in range(histories):
        nodes = nodes_class(column_tracking=True, tree=TREE)
        history = History(nodes, random.Random(f"echo {seed}"), itertools.count(1).__next__)
        await history.play(40, cut=0, during=0)
        assert await history.settle() <= 3
        await history.judge()
    return CountingEnd.superfluous


def test_no_echo_in_a_tree() -> None:
    """No row arrives at a node that has it already, upwards or downwards."""
    assert asyncio.run(superfluous_rows(RememberingNode, 50)) == 0


@pytest.mark.parametrize("tracking", ["row", "column"])
def test_restored_tree_in_memory(tracking: str) -> None:
    """After any node of a tree is restored from any backup, all nodes end with the same rows."""

    async def all_of_them() -> None:
        for seed in range(60):
            nodes = ModelNodes(column_tracking=tracking == "column", tree=TREE)
            await play_restored(nodes, f"tree {tracking} restored {seed}")

    asyncio.run(all_of_them())


class ServerNodes:
    """Nodes on a server, on which the same histories are played."""

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

    def age(self, days: float) -> None:
        """Not supported on servers."""

    def reinitialise(self, subscriber: str) -> Sequence[str]:
        """Not supported on servers."""
        raise NotImplementedError

    def back_up(self, node: str) -> None:
        """Not supported on servers."""

    def restore(self, node: str, chance: random.Random) -> bool:
        """Not supported on servers."""
        return False

    async def losers(self) -> Sequence[Lost]:
        """See `Nodes`."""
        return [
            Lost(
                rowguid=c.rowguid,
                row=tuple(c.loser[f"c{n}"] for n in range(COLUMNS)) if c.loser else None,
            )
            for node in self.topology.tree.publishers
            for c in await self.topology.conflicts(node=node)
        ]


async def play_on_servers(
    server: EmbeddedServer, tracking: str, count: int, actions: int, draw: str = ""
) -> set[ConflictType]:
    """Play histories on servers and in memory; assert that they agree session by session.

    All histories use the same rows, one after the other.

    Returns:
        The types of the conflicts.
    """
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
            history = History(nodes, random.Random(f"servers {tracking}{draw}"), number.__next__)
            for _ in range(count):
                await history.play(actions)
                assert await history.settle() <= 3
                await history.judge()
            losers = [(each.rowguid, each.row) for each in await nodes.losers()]
            played.append((history.reports, await nodes.rows("pub"), sorted(map(repr, losers))))
        assert played[0] == played[1]
        return {conflict.type for conflict in await topology.conflicts()}


@pytest.mark.slow
@pytest.mark.parametrize("tracking", ["row", "column"])
async def test_on_servers(server: EmbeddedServer, tracking: str) -> None:
    """Three long histories agree; ``python -m tests.merge --servers`` plays many more."""
    assert (
        len(await play_on_servers(server, tracking, 3, 60)) == 3
    )  # updates, deletions that won or lost
