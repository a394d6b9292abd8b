"""Worker processes of the server: started on demand, ended with the server, and replaced when they die."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from twopc.errors import TwopcError
from twopc.sim.explore.folder import OpenFolder
from twopc.sim.explore.wire.files import Refusal
from twopc.together import together

#: Time limit for a process to end by itself.
_END_S = 10.0
#: Time limit for a process that has no servers to stop.
_CLOSE_S = 1.0
#: Time limit for a job to stop after it was abandoned.
_LEFT_S = 2.0


class WorkerError(TwopcError):
    """A job was not done; `refusal` gives the reason."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal["error"])
        self.refusal = refusal


@dataclass(slots=True, eq=False)
class _PendingAnswer:
    """A request that is in progress or waits for its turn."""

    number: int
    request: bytes
    parts: asyncio.Queue[tuple[str, bytes]]
    is_stopped: bool = False


class Worker:
    """One process, which does one job at a time.

    Args:
        module: module that the process runs, with these arguments.
        what: its work, for messages.
        patience_s: how long the process may take to stop by itself before it is killed.
    """

    def __init__(
        self, module: str, arguments: Sequence[str], what: str, *, patience_s: float = 0.0
    ) -> None:
        self._command = (sys.executable, "-m", module, *arguments)
        self._what = what
        self._patience_s = patience_s
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._numbers = itertools.count(1)
        self._asked: dict[int, _PendingAnswer] = {}
        """Requests in their sequence: the first one is in progress."""
        self._starting = asyncio.Lock()
        self._closed = False

    async def warm(self) -> None:
        """Start the process if there is none."""
        async with self._starting:
            if self._process is not None or self._closed:
                return
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                start_new_session=True,  # only the server handles the terminal's Ctrl-C
            )
            self._reading = asyncio.create_task(self._read(self._process))

    async def ask(self, do: str, values: Mapping[str, Any]) -> bytes:
        """Have a job done. Return its result as JSON.

        Raises:
            WorkerError: the job was not done, was stopped, or the process died.
        """
        async for kind, body in self.parts(do, values):
            if kind == "result":
                return body
        raise AssertionError("an answer ends with its result")

    async def parts(self, do: str, values: Mapping[str, Any]) -> AsyncIterator[tuple[str, bytes]]:
        """Have a job done. Yield its events, and the result as the last part. Raises as `ask`.

        If the caller leaves the iteration early, the job is stopped.
        """
        if self._closed:
            raise WorkerError({"error": f"{self._what} has ended", "kind": "stopped"})
        number = next(self._numbers)
        request = json.dumps({"id": number, "do": do, "values": values}).encode()
        asked = self._asked[number] = _PendingAnswer(number, request, asyncio.Queue())
        try:
            await self.warm()
            await self._send(request)
            while True:
                kind, body = await asked.parts.get()
                if kind == "error":
                    raise WorkerError(json.loads(body))
                yield kind, body
                if kind == "result":
                    return
        finally:
            if number in self._asked:
                await self._abandon(asked)

    async def close(self) -> None:
        """End the process, which ends what it has started."""
        self._closed = True
        process, reading = self._process, self._reading
        if process is None or reading is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(asyncio.shield(reading), max(self._patience_s, _CLOSE_S))
        except TimeoutError:
            self._kill()
            await reading

    async def _send(self, line: bytes) -> None:
        if self._process is None:
            return  # the process has died; the next one gets the request again
        assert self._process.stdin is not None
        with suppress(ConnectionError):
            self._process.stdin.write(line + b"\n")
            await self._process.stdin.drain()

    async def _abandon(self, asked: _PendingAnswer) -> None:
        """Stop a job that is no longer wanted; kill the process if the job does not stop."""
        asked.is_stopped = True
        await self._send(json.dumps({"stop": asked.number}).encode())
        patience_s = max(self._patience_s, _LEFT_S)
        asyncio.get_running_loop().call_later(patience_s, self._end, asked)

    def _end(self, asked: _PendingAnswer) -> None:
        """Kill the process if it is still at this job."""
        if next(iter(self._asked.values()), None) is asked:
            self._kill()

    def _kill(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        """Deliver the process's answers until it has ended; then start another one for the remaining requests."""
        assert process.stdout is not None
        with suppress(asyncio.IncompleteReadError, ValueError):
            while head := await process.stdout.readline():
                number, kind, length = head.decode().split()
                body = await process.stdout.readexactly(int(length))
                asked = self._asked.get(int(number))
                if asked is not None:
                    asked.parts.put_nowait((kind, body))
                if kind != "event":
                    self._asked.pop(int(number), None)
        code = await process.wait()
        self._process = None
        self._refuse(code)
        if self._asked and not self._closed:
            await self.warm()
            for asked in [*self._asked.values()]:
                await self._send(asked.request)

    def _refuse(self, code: int) -> None:
        """Refuse the job that was in progress, and stopped ones."""
        for place, asked in enumerate([*self._asked.values()]):
            if asked.is_stopped or self._closed:
                refusal: Refusal = {"error": f"{self._what} was stopped", "kind": "stopped"}
            elif place == 0:
                refusal = {
                    "error": f"the process for {self._what} has died (exit code {code}); another one has taken its "
                    "place: try again, or change what was played",
                    "kind": "died",
                }
            else:
                continue
            asked.parts.put_nowait(("error", json.dumps(refusal).encode()))
            del self._asked[asked.number]


@dataclass(slots=True, kw_only=True)
class Workers:
    """Workers of one server; plays do not wait for other jobs."""

    play: Worker
    orders: Worker
    postgres: Worker

    @classmethod
    def of(cls, folder: OpenFolder, pg: str) -> Workers:
        """Create the workers for a folder; `pg` selects PostgreSQL."""
        opened = str(folder.opened)
        model = "twopc.sim.explore.model_worker"
        return cls(
            play=Worker(model, (opened,), "the play"),
            orders=Worker(
                model, (opened, "background"), "the search of all orders", patience_s=_LEFT_S
            ),
            postgres=Worker(
                "twopc.sim.explore.postgres_worker",
                (str(folder.root), pg),
                "the run on PostgreSQL",
                patience_s=_END_S,
            ),
        )

    async def close(self) -> None:
        """End all workers and their jobs."""
        await together(*(one.close() for one in (self.play, self.orders, self.postgres)))
