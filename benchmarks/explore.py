"""Response times of the explorer: ``python -m benchmarks.explore``.

``replay_p95`` is the 95th percentile of the time in ms from moving a step to the data of the new picture, over HTTP:
for every shipped scenario with an order of at most 20 steps, each step of that order is moved one place on, and the
order is played. ``open_s`` is the time in s from the command to the data of the first picture, with warm caches.
``all_orders`` is the time in s for all orders of the lost update, on the model.

A run is void if a request to play is refused, or if the counts of all orders differ from those of `twopc run`.
"""

from __future__ import annotations

import argparse
import http.client
import json
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.figures import Figure, median, report, spread

STEPS_MAX = 20
LOST_UPDATE = "immediate/lost_update.twopc.yaml"
#: Number of orders of its steps, whatever their outcome.
LOST_UPDATE_ORDERS = 70
_WAIT_S = 120


class Link:
    """A client of the server that a link names."""

    def __init__(self, link: str) -> None:
        host = link.split("/")[2]
        self._token = link.partition("#token=")[2]
        self._connection = http.client.HTTPConnection(host, timeout=_WAIT_S)

    def ask(self, method: str, path: str, body: Any = None) -> bytes:
        """Return the content of an answer.

        Raises:
            RuntimeError: the request is refused.
        """
        headers = {"X-Twopc-Token": self._token, "Content-Type": "application/json"}
        raw = None if body is None else json.dumps(body)
        self._connection.request(method, path, raw, headers)
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{method} {path}: {answer.status} {content[:300]!r}")
        return content

    def json(self, method: str, path: str, body: Any = None) -> Any:
        """Return the content of an answer in JSON as values."""
        return json.loads(self.ask(method, path, body))

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


@contextmanager
def serving() -> Iterator[Link]:
    """Serve the installed scenarios until the end of the block."""
    command = [sys.executable, "-m", "twopc.sim", "explore", "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        link = Link(process.stdout.readline().strip())
        try:
            yield link
        finally:
            link.close()
            process.send_signal(signal.SIGINT)
            process.wait(_WAIT_S)


def opened() -> float:
    """Return the seconds from the command to the data of the first picture."""
    began = time.perf_counter()
    with serving() as link:
        link.ask("GET", "/")
        link.ask("GET", "/api/files")
        content = link.json("GET", f"/api/file?path={LOST_UPDATE}")
        order = content["scenario"]["orders"][0]["steps"]
        link.ask("POST", "/api/play", {"path": LOST_UPDATE, "order": order})
        return time.perf_counter() - began


def moves(order: list[Any]) -> Iterator[list[Any]]:
    """Yield the order, and the order with each of its entries moved one place on."""
    yield order
    for at in range(len(order) - 1):
        yield [*order[:at], order[at + 1], order[at], *order[at + 2 :]]


def replays(link: Link) -> dict[str, list[float]]:
    """Return the duration of each play in ms, by scenario."""
    results: dict[str, list[float]] = {}
    for file in link.json("GET", "/api/files?checked=1")["files"]:
        if file["why_not"] or file["error"]:
            continue
        path = file["path"]
        content = link.json("GET", f"/api/file?path={path}")
        for order in content["scenario"]["orders"]:
            if len(order["steps"]) > STEPS_MAX:
                continue
            for each in moves(order["steps"]):
                began = time.perf_counter()
                link.ask(
                    "POST", "/api/play", {"path": path, "text": content["text"], "order": each}
                )
                results.setdefault(path, []).append((time.perf_counter() - began) * 1000)
    return results


def all_orders(link: Link) -> float:
    """Return the seconds that all orders take.

    Raises:
        RuntimeError: there are not as many orders as expected.
    """
    began = time.perf_counter()
    raw = link.ask("POST", "/api/orders", {"path": LOST_UPDATE}).decode()
    took = time.perf_counter() - began
    last = json.loads(raw.strip().split("\n\n")[-1].partition("data: ")[2])
    if (last["event"], last["orders"], last["left_out"]) != ("done", LOST_UPDATE_ORDERS, 0):
        raise RuntimeError(f"not all orders: {last}")
    return took


def main() -> None:
    """Measure, and print the table and the lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    opened()  # compile, and fill the caches
    opens = [opened() for _ in range(rounds)]
    p95s: list[float] = []
    orders: list[float] = []
    worst: dict[str, float] = {}
    with serving() as link:
        replays(link)  # read every file once
        for _ in range(rounds):
            times = replays(link)
            every = [each for of in times.values() for each in of]
            p95s.append(statistics.quantiles(every, n=20)[-1])
            worst = {path: max(of) for path, of in times.items()}
            orders.append(all_orders(link))
    slowest = max(worst, key=lambda each: worst[each])
    more = {"scenarios": len(worst), "slowest": f"{slowest} {worst[slowest]:.0f} ms"}
    report(
        "Explorer",
        [
            _figure("replay_p95", "ms", 100.0, p95s, **more),
            _figure("open_s", "s", 1.5, opens),
            _figure("all_orders", "s", 2.0, orders),
        ],
    )


def _figure(name: str, unit: str, target: float, values: list[float], **more: Any) -> Figure:
    detail = {"rounds": spread(values), **more}
    return Figure(
        name=name, value=median(values), unit=unit, target=target, better="lower", detail=detail
    )  # fmt: skip


if __name__ == "__main__":
    main()
