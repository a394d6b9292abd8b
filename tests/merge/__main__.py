"""Play random merge histories.

``python -m tests.merge --count 20000 --first 0`` plays histories in memory; ``--servers 1000``
plays histories on servers as well, with the same result; ``--races 10000`` plays races of parents
and children on a server.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial

from rich.console import Console

from tests.merge.histories import History
from tests.merge.model_nodes import STAR, TREE, ModelNodes
from tests.merge.model_partitions import COURSES, JOINS, play_filtered
from tests.merge.races import races
from tests.merge.test_histories import play, play_aged, play_on_servers, play_restored
from twopc.server import EmbeddedServer

#: Number of actions of a history on servers.
ACTIONS = 12
#: Number of histories on the same rows. Each one judges all rows so far.
TOGETHER = 25


async def play_all(nodes: ModelNodes, seed: str) -> None:
    """Play one history with restores and passing weeks; assert that all nodes end alike."""
    history = History(nodes, random.Random(seed), itertools.count(1).__next__)
    await history.play(60, ages=0.1, restores=0.1)
    assert await history.settle() <= 5
    rows = [await nodes.rows(name) for name in nodes.names]
    assert all(each == rows[0] for each in rows)


KINDS = {"plain": play, "restored": play_restored, "aged": play_aged, "all": play_all}
SHAPES = {"star": STAR, "tree": TREE}
TRACKING = ("row", "column")
#: Number of races at one Publisher, where the metadata of deleted rows accumulates.
RACES_TOGETHER = 250


@dataclass(frozen=True, slots=True)
class HistoryKind:
    """A kind of random history."""

    name: str
    play: Callable[[str], Awaitable[object]]
    """Plays the history of a seed."""


def _kinds() -> Iterator[HistoryKind]:
    for kind, shape, tracking in itertools.product(KINDS, SHAPES, TRACKING):
        yield HistoryKind(f"{kind} {shape} {tracking}", partial(_play_whole, kind, shape, tracking))
    for joins, course, tracking in itertools.product(JOINS, COURSES, TRACKING):
        drawn = partial(play_filtered, joins=joins, course=course, tracking=tracking)
        yield HistoryKind(f"filtered {joins} {course} {tracking}", drawn)


async def _play_whole(kind: str, shape: str, tracking: str, seed: str) -> None:
    nodes = ModelNodes(column_tracking=tracking == "column", tree=SHAPES[shape])
    await KINDS[kind](nodes, seed)


async def main() -> None:
    """Play histories of every kind; the first one that fails ends the run, with its name."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000, help="how many histories")
    parser.add_argument("--first", type=int, default=0, help="the number of the first")
    parser.add_argument("--servers", type=int, default=0, help="how many on servers instead")
    parser.add_argument(
        "--races", type=int, default=0, help="how many races of parents and children, on a server"
    )
    chosen = parser.parse_args()
    if chosen.races:
        with EmbeddedServer.start() as server:
            for number in range(chosen.first, chosen.first + -(-chosen.races // RACES_TOGETHER)):
                async with races(server, random.Random(f"races {number}")) as drawn:
                    await drawn.play(RACES_TOGETHER)
                Console().print(f"{RACES_TOGETHER} races, drawn as --first {number}")
        return
    if chosen.servers:
        with EmbeddedServer.start() as server:
            for first in range(0, chosen.servers, 2 * TOGETHER):
                for tracking in TRACKING:
                    await play_on_servers(server, tracking, TOGETHER, ACTIONS, f" {first}")
                Console().print(f"{first + 2 * TOGETHER} histories on servers")
        return
    kinds = [*_kinds()]
    numbers = range(chosen.first, chosen.first + max(1, chosen.count // len(kinds)))
    for number, kind in itertools.product(numbers, kinds):
        try:
            await kind.play(f"{kind.name} {number}")
        except BaseException as error:
            error.add_note(f"history {number}, {kind.name}: --count {len(kinds)} --first {number}")
            raise
    Console().print(f"{len(numbers) * len(kinds)} histories")


if __name__ == "__main__":
    asyncio.run(main())
