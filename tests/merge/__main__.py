"""Plays drawn merge histories in memory: ``python -m tests.merge --count 20000 --first 0``."""

from __future__ import annotations

import argparse
import asyncio

from rich.console import Console

from tests.merge.model_nodes import ModelNodes
from tests.merge.test_histories import play, play_restored


async def main() -> None:
    """Half of them with backups and restores; the first that fails ends it, with its name."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000, help="how many histories")
    parser.add_argument("--first", type=int, default=0, help="the number of the first")
    chosen = parser.parse_args()
    found = 0
    for number in range(chosen.first, chosen.first + chosen.count // 4):
        for tracking in ("row", "column"):
            nodes = ModelNodes(column_tracking=tracking == "column")
            try:
                await play(nodes, f"{tracking} {number}")
                nodes = ModelNodes(column_tracking=tracking == "column")
                found += await play_restored(nodes, f"{tracking} restored {number}")
            except BaseException as error:
                error.add_note(
                    f"history {number}, tracked by {tracking}: --count 4 --first {number}"
                )
                raise
    Console().print(f"{chosen.count // 4 * 4} histories; in {found} a restored node was noticed")


if __name__ == "__main__":
    asyncio.run(main())
