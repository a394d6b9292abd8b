"""A program for tests that forks agent processes, each of which can be killed.

It reads one JSON object per line, and answers each with the exit code and the peak memory of the
process. Since modules are imported once, before forking, a crash costs only milliseconds.
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
    """Run the order of each line in a forked process."""
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
    """A client of the program."""

    def __init__(self) -> None:
        self.memory_kb = 0
        """Peak memory of the last process."""
        self._program = subprocess.Popen(
            [sys.executable, "-m", "tests.distribution_agent.killing"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    async def run(self, config: Config, profile: dict[str, Any], arm: str = "") -> int:
        """Run one agent once, until its process ends, and return the exit code."""
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
        """Stop the program."""
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._program.stdin.close()
        self._program.wait()
        self._program.stdout.close()


if __name__ == "__main__":
    serve()
