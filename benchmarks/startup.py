"""Start-up times: ``python -m benchmarks.startup``.

``run_warm`` is the wall time of ``twopc run`` on the small scenario, including the start of the server, with the
cluster cached. ``topology_fresh`` is the time for a topology of three databases on a running server.

``topology_mean`` is the cost of a test that gets unused databases: 50 trivial tests with the fixture ``twopc``, less
the same 50 without it, in separate pytest processes started in turn; it includes the start of the server, and creating
databases ahead and dropping them. ``topology_rewound`` is the same with databases that are restored, the default.
``topology_pooled`` is the time to get a topology from a full pool. ``check_file`` is the median time to examine a
scenario file in a warm process, for the slowest file.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from importlib.metadata import entry_points
from pathlib import Path

from benchmarks.figures import Figure, median, report, spread
from twopc.server import EmbeddedServer
from twopc.sim.topology import Topology
from twopc.sim.topology.pool import TopologyPool

ROOT = Path(__file__).parent.parent
SCENARIO = ROOT / "scenarios" / "immediate" / "lost_update.twopc.yaml"
ROUNDS = 7
TESTS = 50
TEST_ROUNDS = 5

#: A test module, with a fixture and a mark to be filled in.
_MODULE = """
import pytest

@pytest.mark.parametrize("n", range({tests}))
{mark}
def test_nothing({fixture}n):
    assert n >= 0
"""
_KINDS = {
    "without": _MODULE.format(tests=TESTS, mark="", fixture=""),
    "fresh": _MODULE.format(
        tests=TESTS, mark='@pytest.mark.twopc(reset="clone")', fixture="twopc, "
    ),
    "rewound": _MODULE.format(tests=TESTS, mark="", fixture="twopc, "),
}


def run_warm() -> list[float]:
    """Return the seconds of each `twopc run`, after one that fills the caches."""
    command = [sys.executable, "-m", "twopc.sim", "run", str(SCENARIO)]
    seconds = []
    for _ in range(ROUNDS + 1):
        began = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
        seconds.append(time.perf_counter() - began)
    return seconds[1:]


async def topology_fresh() -> list[float]:
    """Return the seconds until a Publisher and two Subscribers exist."""
    seconds = []
    with EmbeddedServer.start() as server:
        for _ in range(ROUNDS + 1):
            began = time.perf_counter()
            async with Topology(server=server):
                seconds.append(time.perf_counter() - began)
    return seconds[1:]


def test_costs() -> dict[str, list[float]]:
    """Return the extra seconds per test, with new databases and with restored ones."""
    plugin = (
        [] if entry_points(group="pytest11", name="twopc") else ["-p", "twopc.sim.pytest_plugin"]
    )
    seconds: dict[str, list[float]] = {kind: [] for kind in _KINDS}
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        for kind, text in _KINDS.items():
            (folder / f"test_{kind}.py").write_text(text, encoding="utf-8")
        for _ in range(TEST_ROUNDS):
            for kind in _KINDS:
                command = [sys.executable, "-m", "pytest", *plugin, "-q", "-p", "no:cacheprovider"]
                command += ["--rootdir", directory, str(folder / f"test_{kind}.py")]
                began = time.perf_counter()
                # the project need not be installed: `-m` finds it in its folder
                subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
                seconds[kind].append(time.perf_counter() - began)
    base = median(seconds["without"])
    return {
        kind: [(each - base) / TESTS for each in seconds[kind]] for kind in ("fresh", "rewound")
    }


async def topology_pooled() -> list[float]:
    """Return the seconds to take a topology from a pool that has one ready."""
    seconds = []
    with EmbeddedServer.start() as server:
        pool = TopologyPool(server, prefix="bench", size=1)
        for _ in range(ROUNDS + 1):
            topology = await pool.take()
            await pool.give_back(topology, how="drop")
            await pool.until_ready()
            began = time.perf_counter()
            topology = await pool.take()
            seconds.append(time.perf_counter() - began)
            await pool.give_back(topology, how="drop")
        await pool.close()
    return seconds[1:]


def check_file() -> dict[str, float]:
    """Return the median seconds to examine each shipped scenario."""
    from twopc.sim.scenario.check import examine

    found = {}
    for path in sorted((ROOT / "scenarios").rglob("*.twopc.yaml")):
        examine(path)
        seconds = []
        for _ in range(ROUNDS):
            began = time.perf_counter()
            examine(path)
            seconds.append(time.perf_counter() - began)
        found[path.stem.removesuffix(".twopc")] = median(seconds)
    return found


def main() -> None:
    """Measure, and print the figures."""
    warm = run_warm()
    fresh = asyncio.run(topology_fresh())
    costs = test_costs()
    pooled = asyncio.run(topology_pooled())
    checks = check_file()
    longest = max(checks, key=lambda name: checks[name])
    report(
        "start-up",
        [
            Figure(name="run_warm", value=median(warm), unit="s", target=1.2, better="lower",
                   detail={"rounds": spread(warm)}),
            Figure(name="topology_fresh", value=median(fresh), unit="s", target=0.2,
                   better="lower", detail={"rounds": spread(fresh)}),
            Figure(name="topology_mean", value=median(costs["fresh"]), unit="s", target=0.1,
                   better="lower", detail={"rounds": spread(costs["fresh"]), "tests": TESTS}),
            Figure(name="topology_rewound", value=median(costs["rewound"]), unit="s", target=0.1,
                   better="lower", detail={"rounds": spread(costs["rewound"]), "tests": TESTS}),
            Figure(name="topology_pooled", value=median(pooled), unit="s", target=0.06,
                   better="lower", detail={"rounds": spread(pooled)}),
            Figure(name="check_file", value=checks[longest], unit="s", target=0.05,
                   better="lower", detail={"file": longest, "files": len(checks)}),
        ],
    )  # fmt: skip


if __name__ == "__main__":
    main()
