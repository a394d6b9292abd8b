"""A log reader process that can be killed: a program for tests that forks once per order.

It reads one JSON object per line and answers each with the exit code of the process, as
`subprocess` reports it: minus the signal's number if a signal killed the process.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from typing import Any

from twopc.drivers.points import Points
from twopc.publisher.log_reader import LogReader, LogReaderProfile


async def work(order: dict[str, Any]) -> None:
    """Run one pass."""
    async with LogReader(
        **order["reader"],
        reading=LogReaderProfile(**order["reading"]),
        points=Points({"TWOPC_ARM": order["arm"]}),
    ) as reader:
        await reader.run_once()


def serve() -> None:
    """Execute the order in each line, in a process of its own."""
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            asyncio.run(work(order))
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


class Killed:
    """The program, as tests use it."""

    def __init__(self) -> None:
        self._program = subprocess.Popen(
            [sys.executable, "-m", "tests.log_reader.killed"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    async def run(self, reader: LogReader, *, arm: str, reading: dict[str, Any]) -> int:
        """Run a process like `reader` to its end, and return its exit code."""
        order = {
            "reader": {
                "publisher": reader.publisher,
                "publisher_dsn": reader.publisher_dsn,
                "distribution_dsn": reader.distribution_dsn,
                "slot": reader.slot,
            },
            "arm": arm,
            "reading": reading,
        }
        return await asyncio.to_thread(self._order, json.dumps(order))

    def _order(self, text: str) -> int:
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._program.stdin.write(text + "\n")
        self._program.stdin.flush()
        answer = self._program.stdout.readline()
        assert answer, "the program has ended; its error is on standard error"
        return int(answer)

    def close(self) -> None:
        """Stop the program."""
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._program.stdin.close()
        self._program.wait()
        self._program.stdout.close()


if __name__ == "__main__":
    serve()
