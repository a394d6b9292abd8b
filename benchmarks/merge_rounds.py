"""The number of rounds of sessions until random histories have converged, in memory."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Mapping
from uuid import UUID

from benchmarks.figures import Figure
from twopc.drivers.merge.engine import MergeReport, MergeSession
from twopc.drivers.points import MERGE_POINTS, Points
from twopc.sim.model.merge.end import ModelMergeEnd
from twopc.sim.model.merge.node import ModelMergeNode
from twopc.sim.model.merge.records import ModelMergeArticle, ModelNeighbour

TABLE = UUID(int=1)
COLUMNS = 3
STAR = {"anna": "pub", "ben": "pub", "cleo": "pub"}
TREE = {"anna": "pub", "depot": "pub", "van": "depot", "truck": "depot"}
PRIORITIES = {"anna": 75.0, "ben": 50.0, "depot": 50.0, "van": 20.0}
PLACES = [name.partition("(")[0] for name in MERGE_POINTS]


class CutError(Exception):
    """The end of an agent at a protocol point."""


class _Rounds:
    """One random history: changes at any node, and sessions, of which about a third are interrupted."""

    def __init__(self, tree: Mapping[str, str], seed: str) -> None:
        self._tree = tree
        self._chance = random.Random(seed)
        self._number = itertools.count(1)
        self._points = Points()
        article = ModelMergeArticle(columns=COLUMNS, column_tracking=self._chance.random() < 0.5)
        self.nodes = {
            name: ModelMergeNode(name=name, replica=number, articles={TABLE: article})
            for number, name in enumerate(("pub", *tree), 1)
        }
        for name, publisher in tree.items():
            above, below = self.nodes[publisher], self.nodes[name]
            above.neighbours[name] = ModelNeighbour(
                replica=below.replica, is_publisher=False, server_priority=PRIORITIES.get(name)
            )
            below.neighbours[publisher] = ModelNeighbour(replica=above.replica, is_publisher=True)

    def _write(self) -> None:
        node = self._chance.choice([*self.nodes.values()])
        held = sorted(node.rows[TABLE])
        draw = self._chance.random()
        fresh = tuple(next(self._number) for _ in range(COLUMNS))
        if draw < 0.25 or not held:
            node.write(TABLE, UUID(int=next(self._number)), fresh)
        elif draw < 0.35:
            node.write(TABLE, self._chance.choice(held), None)
        else:
            rowguid, place = self._chance.choice(held), self._chance.randrange(COLUMNS)
            row = node.rows[TABLE][rowguid]
            node.write(TABLE, rowguid, (*row[:place], fresh[0], *row[place + 1 :]))

    async def _session(self, name: str) -> MergeReport:
        above = ModelMergeEnd(self.nodes[self._tree[name]], name, set())
        below = ModelMergeEnd(self.nodes[name], self._tree[name], set())
        return await MergeSession(above, below, self._points).run()

    async def play(self) -> int:
        """Play forty steps; return how many rounds, each in a random order, then still transferred something."""
        names = [*self._tree]
        for _ in range(40):
            if self._chance.random() < 0.65:
                self._write()
                continue
            name = self._chance.choice(names)
            if self._chance.random() < 0.3:
                self._points.arm(f"{self._chance.choice(PLACES)}({name})", _cut)
            try:
                await self._session(name)
            except CutError:
                pass
            finally:
                self._points.disarm()
        for number in itertools.count():
            self._chance.shuffle(names)
            reports = [await self._session(name) for name in names]
            if not any(r.uploaded or r.downloaded or r.conflicts or r.deferred for r in reports):
                rows = [node.rows[TABLE] for node in self.nodes.values()]
                assert all(each == rows[0] for each in rows), "nodes differ: void"
                return number
        raise AssertionError("unreachable")


def _cut(_: str) -> None:
    raise CutError


async def rounds(histories: int) -> list[Figure]:
    """Return the most rounds in this number of histories, with three Subscribers and with a republisher."""
    figures = []
    for name, tree, target in (("star", STAR, 2), ("tree", TREE, 3)):
        counts = Counter(
            [await _Rounds(tree, f"{name} {number}").play() for number in range(histories)]
        )
        figures.append(
            Figure(
                name=f"merge_rounds_{name}",
                value=max(counts),
                unit="rounds",
                target=target,
                better="lower",
                detail={"histories": histories, "by rounds": dict(sorted(counts.items()))},
            )
        )
    return figures
