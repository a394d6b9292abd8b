"""A server of `twopc explore` in a process of its own, and HTTP requests to it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

#: Time limit for a required event.
WAIT_S = 60


class ExploreProcess:
    """A running server, and its answers."""

    def __init__(self, process: subprocess.Popen[str], link: str) -> None:
        self.process = process
        self.link = link
        self.port = int(link.split("/")[2].rpartition(":")[2])
        self.token = link.partition("#token=")[2]

    def ask(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, Any, dict[str, str]]:
        """Return status, body and headers of an answer; an empty header is not sent."""
        connection = self.connection()
        try:
            self.send(connection, method, path, body, **headers)
            answer = connection.getresponse()
            raw = answer.read()
            is_json = (answer.getheader("content-type") or "").startswith("application/json")
            value = json.loads(raw) if is_json else raw
            return answer.status, value, {name.lower(): text for name, text in answer.getheaders()}
        finally:
            connection.close()

    def connection(self) -> http.client.HTTPConnection:
        """Return a connection to the server."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)

    def send(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: Any = None,
        **headers: str,
    ) -> None:
        """Send a request with the token, without reading the answer."""
        given = {
            "X-Twopc-Token": self.token,
            **{k.replace("_", "-"): v for k, v in headers.items()},
        }
        if body is not None:
            given.setdefault("Content-Type", "application/json")
        raw = None if body is None else json.dumps(body)
        connection.request(method, path, raw, {k: v for k, v in given.items() if v})

    def get(self, path: str) -> Any:
        """Return the body of a GET request's answer, whose status must be 200."""
        status, value, _ = self.ask("GET", path)
        assert status == 200, value
        return value

    def post(self, where: str, /, **body: Any) -> Any:
        """Return the body of a POST request's answer, whose status must be 200."""
        status, value, _ = self.ask("POST", where, body)
        assert status == 200, value
        return value

    def events(self, where: str, /, **body: Any) -> list[Any]:
        """Return the data of all events of a stream."""
        status, value, headers = self.ask("POST", where, body)
        assert (status, headers["content-type"][:17]) == (200, "text/event-stream"), value
        blocks = value.decode().strip().split("\n\n")
        return [json.loads(each.partition("data: ")[2]) for each in blocks]

    def play(self, path: str, order: list[Any], **more: Any) -> Any:
        """Play an order, and return its run."""
        return self.post("/api/play", path=path, order=order, **more)

    def workers(self) -> list[psutil.Process]:
        """Return the processes that the server has started."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def interrupt(self) -> int:
        """Press Ctrl-C, wait for the end, and return the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(WAIT_S)


def left(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Return the processes that still run; one that has ended may remain as a zombie."""
    results = []
    for each in processes:
        with suppress(psutil.NoSuchProcess):
            if each.is_running() and each.status() != psutil.STATUS_ZOMBIE:
                results.append(each)
    return results


@contextmanager
def explored(folder: Path, *words: str) -> Iterator[ExploreProcess]:
    """Serve a folder or a file until the end of the block."""
    command = [sys.executable, "-m", "twopc.sim", "explore", str(folder), "--no-open", *words]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "80"}
    ) as process:
        assert process.stdout is not None
        try:
            yield ExploreProcess(process, process.stdout.readline().strip())
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                process.wait(WAIT_S)
