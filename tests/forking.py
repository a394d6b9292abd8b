"""A program for tests that forks a process for each order, so that each can be killed.

It reads one JSON object per line and answers each with one. Because modules are imported once, before the
fork, a crash costs milliseconds.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The end of a process."""

    code: int
    """As `subprocess` reports it: minus the signal's number if a signal killed the process."""
    said: str
    """What `work` returned, or nothing."""
    memory_kb: int
    """The peak memory of the process."""


def serve(work: Callable[[dict[str, Any]], str]) -> None:
    """Execute the order in each line, in a process of its own."""
    for line in sys.stdin:
        order = json.loads(line)
        ears, mouth = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.environ["TWOPC_ARM"] = order.pop("arm")
            os.write(mouth, work(order).encode())
            os._exit(0)
        os.close(mouth)
        _, status, usage = os.wait4(pid, 0)
        with os.fdopen(ears) as pipe:
            said = pipe.read()
        ended = Ended(code=os.waitstatus_to_exitcode(status), said=said, memory_kb=usage.ru_maxrss)
        sys.stdout.write(json.dumps(asdict(ended)) + "\n")
        sys.stdout.flush()


class Forking:
    """A program that calls `serve`, as tests use it."""

    def __init__(self, module: str) -> None:
        self._program = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    async def order(self, order: Mapping[str, Any], arm: str = "") -> Ended:
        """Run one process to its end; `arm` are the points at which something is done to it."""
        return await asyncio.to_thread(self._order, json.dumps({**order, "arm": arm}))

    def _order(self, text: str) -> Ended:
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._program.stdin.write(text + "\n")
        self._program.stdin.flush()
        answer = self._program.stdout.readline()
        assert answer, "the program has ended; its error is on standard error"
        return Ended(**json.loads(answer))

    def close(self) -> None:
        """Stop the program."""
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._program.stdin.close()
        self._program.wait()
        self._program.stdout.close()
