"""A coordinator process that can be killed: a program for tests that forks once per order.

It reads one JSON object per line and answers each with one: the exit code and the last output of
the process. Because the modules are imported once, before the fork, a crash costs milliseconds.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from twopc.drivers import ParticipantAddress, PostgresCoordinator
from twopc.errors import TransactionError


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The end of a process."""

    code: int
    """As `subprocess` reports it: minus the signal's number if a signal killed the process."""
    said: str
    """``committed``, the error's class, or nothing."""


async def work(order: dict[str, Any]) -> str:
    """Open a coordinator, which recovers, and run the statements of a transaction, if any.

    With ``elsewhere``, the addresses of other Subscribers, each statement begins with the name of
    its Subscriber: ``sub2: update``.
    """
    subscribers = {"sub1": order["subscriber"], **order["elsewhere"]}
    coordinator = PostgresCoordinator(
        order["coordinator"],
        distribution=order["distribution"],
        publisher=ParticipantAddress(**order["publisher"]),
        subscribers={name: ParticipantAddress(**found) for name, found in subscribers.items()},
        recovery_interval_s=3600.0,
        in_doubt_after_s=1.0,
    )
    try:
        async with coordinator:
            if order["elsewhere"] and order["statements"]:
                async with coordinator.several([*subscribers], **order["options"]) as transaction:
                    for line in order["statements"]:
                        where, _, statement = line.partition(": ")
                        await transaction.at(where).execute(statement)
            elif order["statements"]:
                async with coordinator.transaction("sub1", **order["options"]) as transaction:
                    for statement in order["statements"]:
                        await transaction.execute(statement)
        return "committed"
    except TransactionError as error:
        return type(error).__name__


def serve() -> None:
    """Execute the order in each line, in a process of its own."""
    for line in sys.stdin:
        order = json.loads(line)
        ears, mouth = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.environ["TWOPC_ARM"] = order["arm"]
            said = asyncio.run(work(order))
            os.write(mouth, said.encode())
            os._exit(0)
        os.close(mouth)
        _, status = os.waitpid(pid, 0)
        with os.fdopen(ears) as pipe:
            said = pipe.read()
        ended = Ended(code=os.waitstatus_to_exitcode(status), said=said)
        sys.stdout.write(json.dumps(asdict(ended)) + "\n")
        sys.stdout.flush()


class Crashing:
    """The program, as tests use it."""

    def __init__(self) -> None:
        self._program = subprocess.Popen(
            [sys.executable, "-m", "tests.drivers.crashing"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    async def run(
        self,
        *,
        coordinator: str,
        distribution: str,
        publisher: ParticipantAddress,
        subscriber: ParticipantAddress,
        elsewhere: Mapping[str, ParticipantAddress] | None = None,
        arm: str = "",
        statements: tuple[str, ...] = (),
        options: dict[str, str] | None = None,
    ) -> Ended:
        """Run one process to its end."""
        order = {
            "coordinator": coordinator,
            "distribution": distribution,
            "publisher": asdict(publisher),
            "subscriber": asdict(subscriber),
            "elsewhere": {name: asdict(found) for name, found in (elsewhere or {}).items()},
            "arm": arm,
            "statements": statements,
            "options": options or {},
        }
        return await asyncio.to_thread(self._order, json.dumps(order))

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


if __name__ == "__main__":
    serve()
