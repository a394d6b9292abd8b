"""A process that plays for the server: one request at a time, over its standard input and output.

Whatever a scenario does to the process, the server continues: it kills the process and starts another one. The
process ends when its input ends, so that nothing remains if the server is killed.

A request is a line of JSON, ``{"id": 1, "do": "play", "values": {…}}``; ``{"stop": 1}`` stops a job that can be
stopped between two plays. An answer is a line ``id kind length``, followed by that many bytes of JSON; `kind` is
``event``, ``result`` or ``error``.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

from twopc import log
from twopc.errors import TwopcError

#: A job of a worker: takes the request's values and the channel for events, and returns the result.
Job = Callable[[Mapping[str, Any], "Answering"], Any]


class StoppedError(TwopcError):
    """A job was stopped."""


class Answering:
    """The channel for the answer to one request, and whether the answer is still wanted."""

    def __init__(
        self, number: int, out: BinaryIO, stopped: set[int], gone: threading.Event
    ) -> None:
        self.number = number
        self.on_stop: Callable[[], object] | None = None
        """Called in another thread when the job is to stop."""
        self._out = out
        self._stopped = stopped
        self._gone = gone

    @property
    def is_stopped(self) -> bool:
        """Whether the job is to stop."""
        return self.number in self._stopped or self._gone.is_set()

    def send(self, kind: str, value: Any) -> None:
        """Send one part of the answer."""
        body = json.dumps(value, default=str).encode()
        self._out.write(f"{self.number} {kind} {len(body)}\n".encode() + body)
        self._out.flush()

    def event(self, value: Any) -> None:
        """Send a progress event."""
        self.send("event", value)


def serve(jobs: Mapping[str, Job], close: Callable[[], None] = lambda: None) -> None:
    """Do the jobs of incoming requests until the input ends.

    Args:
        jobs: jobs by the value of `do`.
        close: called when the input has ended and no job is in progress.
    """
    log.configure(level="error", layout="text")  # warnings of servers are in the history
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server handles it, and ends this process
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # so that printed text does not mix with answers
    requests: queue.SimpleQueue[Mapping[str, Any] | None] = queue.SimpleQueue()
    stopped: set[int] = set()
    current: list[Answering] = []
    gone, is_over = threading.Event(), threading.Event()

    def stop(number: int) -> None:
        stopped.add(number)
        for answer in current:
            if answer.number == number and answer.on_stop is not None:
                answer.on_stop()

    def read() -> None:
        for line in sys.stdin.buffer:
            request = json.loads(line)
            if "stop" in request:
                stop(request["stop"])
            else:
                requests.put(request)
        gone.set()
        for answer in [*current]:
            stop(answer.number)
        requests.put(None)
        if not is_over.wait(_END_S):
            os._exit(1)  # the server has ended, and the job here does not stop

    threading.Thread(target=read, daemon=True).start()
    while (request := requests.get()) is not None:
        answer = Answering(int(request["id"]), out, stopped, gone)
        current[:] = [answer]
        try:
            if answer.is_stopped:
                answer.send("error", {"error": "it was stopped", "kind": "stopped"})
                continue
            _answer(jobs[str(request["do"])], request["values"], answer)
        except BrokenPipeError:
            break
    close()
    is_over.set()


#: Time limit for the present job, and for stopping servers, when the server has ended.
_END_S = 8.0


def _answer(job: Job, values: Mapping[str, Any], answer: Answering) -> None:
    try:
        answer.send("result", job(values, answer))
    except BrokenPipeError:
        raise
    except TwopcError as error:
        refusal = {"error": str(error), "kind": kind_of(error)}
        if errors := getattr(error, "errors", ()):
            refusal["errors"] = errors
        answer.send("error", refusal)
    except Exception as error:
        answer.send("error", {"error": f"{type(error).__name__}: {error}", "kind": "server"})


def kind_of(error: Exception) -> str:
    """Return the `kind` of a `twopc.sim.explore.wire.files.Refusal` for an error."""
    from twopc.sim.explore.bases import SwitchError  # imports pydantic models

    if isinstance(error, StoppedError):
        return "stopped"
    return "switch" if isinstance(error, SwitchError) else "scenario"
