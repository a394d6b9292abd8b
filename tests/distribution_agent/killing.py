"""Agent processes that can be killed: a program for tests, which forks one for each order.

It reads one JSON object a line and answers each with the number that the process ended with and the memory
that it had at most. Importing once and forking makes a crash cost milliseconds.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from typing import Any

from twopc.subscriber.distribution_agent import Config, Profile, main


def serve() -> None:
    """Do what each line orders, in a process of its own."""
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            os.environ["TWOPC_ARM"] = order.pop("arm")
            profile = order.pop("profile")
            profile["skip_errors"] = tuple(profile.get("skip_errors", ()))
            main(Config(profile=Profile(**profile), once=True, **order))
            os._exit(0)
        _, status, usage = os.wait4(pid, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)} {usage.ru_maxrss}\n")
        sys.stdout.flush()


class Killing:
    """The program, from outside."""

    def __init__(self) -> None:
        self.memory_kb = 0
        """Of the last process, at most."""
        self._program = subprocess.Popen(
            [sys.executable, "-m", "tests.distribution_agent.killing"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    async def run(self, config: Config, profile: dict[str, Any], arm: str = "") -> int:
        """Run one agent once, to its end; what its process ended with."""
        order = {
            "subscriber": config.subscriber,
            "publisher": config.publisher,
            "distribution_dsn": config.distribution_dsn,
            "subscriber_dsn": config.subscriber_dsn,
            "profile": profile,
            "arm": arm,
        }
        return await asyncio.to_thread(self._order, json.dumps(order))

    def _order(self, text: str) -> int:
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._program.stdin.write(f"{text}\n")
        self._program.stdin.flush()
        code, memory_kb = self._program.stdout.readline().split()
        self.memory_kb = int(memory_kb)
        return int(code)

    def close(self) -> None:
        """End the program."""
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._program.stdin.close()
        self._program.wait()
        self._program.stdout.close()


if __name__ == "__main__":
    serve()
