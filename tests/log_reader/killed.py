"""A log reader process that can be killed: a program for tests that forks once per order."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from tests.forking import Forking, serve
from twopc.drivers.points import Points
from twopc.publisher.log_reader import LogReader, LogReaderProfile


async def work(order: dict[str, Any]) -> None:
    """Run one pass."""
    async with LogReader(
        **order["reader"],
        reading=LogReaderProfile(**order["reading"]),
        points=Points(os.environ),
    ) as reader:
        await reader.run_once()


class Killed(Forking):
    """The program, as tests use it."""

    def __init__(self) -> None:
        super().__init__("tests.log_reader.killed")

    async def run(self, reader: LogReader, *, arm: str, reading: dict[str, Any]) -> int:
        """Run a process like `reader` to its end, and return its exit code."""
        order = {
            "reader": {
                "publisher": reader.publisher,
                "publisher_dsn": reader.publisher_dsn,
                "distribution_dsn": reader.distribution_dsn,
                "slot": reader.slot,
            },
            "reading": reading,
        }
        return (await self.order(order, arm)).code


if __name__ == "__main__":
    serve(lambda order: asyncio.run(work(order)) or "")
