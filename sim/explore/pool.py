"""The processes that work for the server: started when they are wanted, ended with it, replaced when they die."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from twopc.errors import TwopcError
from twopc.sim.explore.wire import Refusal

#: How long a process may take to end by itself.
_END_S = 10.0


class WorkerError(TwopcError):
    """What was asked was not done; `refusal` says why."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal["error"])
        self.refusal = refusal


@dataclass(slots=True)
class _PendingAnswer:
    """A request that is being done or waits for its turn."""

    number: int
    parts: asyncio.Queue[tuple[str, bytes]]
    is_stopped: bool = False


class Worker:
    """One process, which does one thing after the other.

    Args:
        module: what it runs, with these arguments.
        what: it does, as messages call it.
    """

    def __init__(self, module: str, arguments: Sequence[str], what: str) -> None:
        self._command = (sys.executable, "-m", module, *arguments)
        self._what = what
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._numbers = itertools.count(1)
        self._asked: dict[int, _PendingAnswer] = {}
        self._starting = asyncio.Lock()
        self.starts = 0
        """How many processes there have been."""

    @property
    def pid(self) -> int | None:
        """Of the process that lives."""
        return self._process.pid if self._process is not None else None

    async def warm(self) -> None:
        """Start it, if there is none."""
        async with self._starting:
            if self._process is not None:
                return
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                start_new_session=True,  # Ctrl-C of the terminal is the server's
            )
            self.starts += 1
            self._reading = asyncio.create_task(self._read(self._process))

    async def ask(self, do: str, values: Mapping[str, Any]) -> bytes:
        """Have something done; the result, as JSON.

        Raises:
            WorkerError: it was not done, was stopped, or the process has died.
        """
        async for kind, body in self.parts(do, values):
            if kind == "result":
                return body
        raise AssertionError("an answer ends with its result")

    async def parts(self, do: str, values: Mapping[str, Any]) -> AsyncIterator[tuple[str, bytes]]:
        """Have something done; its events, and the result as the last part. Raises as `ask`.

        Who does not want the rest leaves the iteration: what is being done is stopped.
        """
        await self.warm()
        process = self._process
        assert process is not None
        assert process.stdin is not None
        asked = _PendingAnswer(next(self._numbers), asyncio.Queue())
        self._asked[asked.number] = asked
        is_over = False
        try:
            request = {**values, "id": asked.number, "do": do}
            with suppress(ConnectionError):  # it has died, which `_read` notes
                process.stdin.write(json.dumps(request).encode() + b"\n")
                await process.stdin.drain()
            while True:
                kind, body = await asked.parts.get()
                if kind == "error":
                    is_over = True
                    raise WorkerError(json.loads(body))
                is_over = kind == "result"
                yield kind, body
                if is_over:
                    return
        finally:
            self._asked.pop(asked.number, None)
            if not is_over:
                await self._give_up(asked.number)

    async def _give_up(self, number: int) -> None:
        """Nobody wants this answer any more."""
        process = self._process
        if process is not None and process.stdin is not None:
            with suppress(ConnectionError):
                process.stdin.write(json.dumps({"stop": number}).encode() + b"\n")

    def stop(self) -> None:
        """End whatever is being done, and the process with it; another one takes its place."""
        for asked in self._asked.values():
            asked.is_stopped = True
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()

    async def close(self) -> None:
        """End the process; it ends what it has started."""
        process, reading = self._process, self._reading
        if process is None or reading is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(asyncio.shield(reading), _END_S)
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
            await reading

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        """Hand on what the process answers, until it has ended."""
        assert process.stdout is not None
        with suppress(asyncio.IncompleteReadError, ValueError):
            while head := await process.stdout.readline():
                number, kind, length = head.decode().split()
                body = await process.stdout.readexactly(int(length))
                asked = self._asked.get(int(number))
                if asked is not None:
                    asked.parts.put_nowait((kind, body))
        await process.wait()
        self._process = None
        for asked in [*self._asked.values()]:
            refusal: Refusal = {
                "error": f"{self._what} was stopped",
                "kind": "stopped",
            }
            if not asked.is_stopped:
                refusal = {
                    "error": f"the process for {self._what} has died (exit code {process.returncode}); another one "
                    "takes its place: try again, or change what was played",
                    "kind": "died",
                }
            asked.parts.put_nowait(("error", json.dumps(refusal).encode()))


@dataclass(slots=True, kw_only=True)
class Workers:
    """Those of one server: plays do not wait for the others."""

    play: Worker
    orders: Worker
    postgres: Worker

    @classmethod
    def of(cls, folder: str, pg: str) -> Workers:
        """For the scenarios of a folder; `pg` is which PostgreSQL."""
        model = "twopc.sim.explore.model_worker"
        return cls(
            play=Worker(model, (folder,), "the play"),
            orders=Worker(model, (folder,), "the search of all orders"),
            postgres=Worker(
                "twopc.sim.explore.postgres_worker", (folder, pg), "the run on PostgreSQL"
            ),
        )

    def each(self) -> dict[str, Worker]:
        """By name."""
        return {"play": self.play, "orders": self.orders, "postgres": self.postgres}

    async def close(self) -> None:
        """End all of them."""
        closing: list[Callable[[], Any]] = [one.close for one in self.each().values()]
        for close in closing:
            await close()
