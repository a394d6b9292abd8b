"""A process that plays for the server: one request after the other, over its standard input and output.

Whatever a scenario does to it, the server goes on: it ends this process and starts another one. It ends by itself when
its input does, so that nothing is left if the server is killed.

A request is a line of JSON, ``{"id": 1, "do": "play", "values": {…}}``, and so is ``{"stop": 1}``, which is heeded by what can be
stopped between two plays. An answer is a line ``id kind length`` and so many bytes of JSON; `kind` is ``event``,
``result`` or ``error``.
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

#: What a worker is told to do: the request's values, and what sends an event. Returns the result.
Job = Callable[[Mapping[str, Any], "Answering"], Any]


class StoppedError(TwopcError):
    """Somebody has stopped what was being done."""


class Answering:
    """Where an answer goes, and whether it is still wanted."""

    def __init__(
        self, number: int, out: BinaryIO, stopped: set[int], gone: threading.Event
    ) -> None:
        self.number = number
        self.on_stop: Callable[[], object] | None = None
        """Called, in another thread, when nobody wants the rest."""
        self._out = out
        self._stopped = stopped
        self._gone = gone

    @property
    def is_stopped(self) -> bool:
        """Nobody wants the rest."""
        return self.number in self._stopped or self._gone.is_set()

    def send(self, kind: str, value: Any) -> None:
        """One part of the answer."""
        body = json.dumps(value, default=str).encode()
        self._out.write(f"{self.number} {kind} {len(body)}\n".encode() + body)
        self._out.flush()

    def event(self, value: Any) -> None:
        """How far it is."""
        self.send("event", value)


def serve(jobs: Mapping[str, Job], close: Callable[[], None] = lambda: None) -> None:
    """Do what comes in, until nothing more can.

    Args:
        jobs: by the word under `do`.
        close: called when the input has ended and nothing is being done.
    """
    log.configure(level="error", layout="text")  # what servers complain of is in the history
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server is told, and ends this one
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what anybody prints is no answer
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
            os._exit(1)  # the server has gone, and what is played here does not end

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


#: How long what is being played, and the end of servers, may take when the server has gone.
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
    """The word of `twopc.sim.explore.wire.Refusal` for an error."""
    from twopc.sim.explore.bases import SwitchError  # likewise

    if isinstance(error, StoppedError):
        return "stopped"
    return "switch" if isinstance(error, SwitchError) else "scenario"
