"""How long a newcomer waits: ``python -m benchmarks.startup``.

``run_warm`` is the wall time of ``twopc run`` on the small scenario, server start included, with the
cluster cached. ``topology_fresh`` is a topology of three databases on a running server.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.figures import Figure, median, report, spread
from sim.topology import Topology
from twopc.server import Server

ROOT = Path(__file__).parent.parent
SCENARIO = ROOT / "scenarios" / "immediate" / "lost_update.twopc.yaml"
ROUNDS = 7


def run_warm() -> list[float]:
    """Seconds per `twopc run`, after one that fills the caches."""
    command = [sys.executable, "-m", "sim", "run", str(SCENARIO)]
    seconds = []
    for _ in range(ROUNDS + 1):
        began = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
        seconds.append(time.perf_counter() - began)
    return seconds[1:]


async def topology_fresh() -> list[float]:
    """Seconds until a Publisher and two Subscribers are there."""
    seconds = []
    with Server.start() as server:
        for _ in range(ROUNDS + 1):
            began = time.perf_counter()
            async with Topology(server=server):
                seconds.append(time.perf_counter() - began)
    return seconds[1:]


def main() -> None:
    """Measure and print."""
    warm = run_warm()
    fresh = asyncio.run(topology_fresh())
    report(
        "start-up",
        [
            Figure(name="run_warm", value=median(warm), unit="s", target=2.0, better="lower",
                   detail={"rounds": spread(warm)}),
            Figure(name="topology_fresh", value=median(fresh), unit="s", target=0.2,
                   better="lower", detail={"rounds": spread(fresh)}),
        ],
    )  # fmt: skip


if __name__ == "__main__":
    main()
