"""Plays drawn merge histories: in memory, ``python -m tests.merge --count 20000 --first 0``, or beside it on servers
(``--servers 1000``), which come to the same.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random

from rich.console import Console

from tests.merge.histories import History
from tests.merge.model_nodes import STAR, TREE, ModelNodes
from tests.merge.test_histories import play, play_aged, play_on_servers, play_restored
from twopc.server import EmbeddedServer

#: Of each history on servers.
ACTIONS = 12
#: So many histories are on the same rows: all rows that have been are judged after each.
TOGETHER = 25


async def play_all(nodes: ModelNodes, seed: str) -> None:
    """One history with backups, and in which weeks pass: in the end all nodes have the same rows."""
    history = History(nodes, random.Random(seed), itertools.count(1).__next__)
    await history.play(60, ages=0.1, restores=0.1)
    assert await history.settle() <= 5
    rows = [await nodes.rows(name) for name in nodes.names]
    assert all(each == rows[0] for each in rows)


KINDS = {"plain": play, "restored": play_restored, "aged": play_aged, "all": play_all}
SHAPES = {"star": STAR, "tree": TREE}


async def main() -> None:
    """Stars and trees, with backups and restores, with weeks that pass; the first that fails ends it, with its name."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000, help="how many histories")
    parser.add_argument("--first", type=int, default=0, help="the number of the first")
    parser.add_argument("--servers", type=int, default=0, help="how many on servers instead")
    chosen = parser.parse_args()
    if chosen.servers:
        with EmbeddedServer.start() as server:
            for first in range(0, chosen.servers, 2 * TOGETHER):
                for tracking in ("row", "column"):
                    await play_on_servers(server, tracking, TOGETHER, ACTIONS, f" {first}")
                Console().print(f"{first + 2 * TOGETHER} histories on servers")
        return
    cells = [*itertools.product(KINDS, SHAPES, ("row", "column"))]
    numbers = range(chosen.first, chosen.first + max(1, chosen.count // len(cells)))
    for number, (kind, shape, tracking) in itertools.product(numbers, cells):
        nodes = ModelNodes(column_tracking=tracking == "column", tree=SHAPES[shape])
        try:
            await KINDS[kind](nodes, f"{kind} {shape} {tracking} {number}")
        except BaseException as error:
            error.add_note(
                f"history {number}, {kind}, {shape}, tracked by {tracking}:"
                f" --count {len(cells)} --first {number}"
            )
            raise
    Console().print(f"{len(numbers) * len(cells)} histories")


if __name__ == "__main__":
    asyncio.run(main())
