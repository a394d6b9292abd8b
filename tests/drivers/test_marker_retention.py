"""Tests of the retention of branch markers."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg

from twopc.drivers.marker_retention import MarkerRetention
from twopc.drivers.runtime import Asyncio


class Node:
    """A node that notes which markers it was to forget."""

    def __init__(self, *, is_down: bool = False) -> None:
        self.is_down = is_down
        self.forgotten: list[str] = []

    async def release(self, gids: Sequence[str]) -> None:
        if self.is_down:
            raise psycopg.OperationalError("down")

    async def forget(self, gids: list[str]) -> None:
        if self.is_down:
            raise psycopg.OperationalError("down")
        self.forgotten += gids


async def test_a_subscriber_that_is_down_keeps_the_markers_of_its_transactions_only() -> None:
    nodes = {"pub": Node(), "a": Node(is_down=True), "b": Node()}
    retention = MarkerRetention(nodes, "pub", 0.0, Asyncio())
    retention.over("t:1", ("pub", "a"))
    retention.over("t:2", ("pub", "b"))
    retention.over("t:3", ("pub", "pub/b", "a", "b"))
    await retention.forget()
    assert {name: node.forgotten for name, node in nodes.items()} == {
        "pub": ["t:2:pub"],
        "a": [],
        "b": ["t:2:b"],
    }
