"""Our side of `benchmarks.distribution`: a topology whose log reader and agents are separate processes.

``python -m benchmarks.processes`` is such a process: it reads its configuration from standard input, and ends when
that is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psycopg

from twopc.publisher.distribution.update_modes import UpdateMode
from twopc.publisher.log_reader import LogReader
from twopc.sim.topology import Topology
from twopc.subscriber.distribution_agent import DistributionAgent, Profile, Servers

_WALSENDERS = "select pid from pg_stat_replication where application_name like 'msrepl%'"
PROFILE = Profile(commit_batch_size=1000, commit_batch_threshold=10_000)


class Ours:
    """Running processes, one for the log reader and one per agent."""

    def __init__(self, processes: Sequence[subprocess.Popen[bytes]], publisher_dsn: str) -> None:
        self._processes = processes
        self._publisher_dsn = publisher_dsn
        self._held: list[int] = []

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls,
        publisher_dsn: str,
        dsns: Mapping[str, str],
        tables: Sequence[str],
        *,
        propagate: Mapping[str, Mapping[str, str]] | None = None,
        routines: Mapping[str, str] | None = None,
        update_mode: UpdateMode = "sync tran",
    ) -> AsyncIterator[Ours]:
        """Publish tables of existing databases, subscribe, and start the processes.

        Args:
            propagate: formats of changes by table, where they are not the default.
            routines: routines to publish, each with the table that it reads and writes.
        """
        async with Topology(
            name="bench", subscribers=tuple(dsns), dsns={"pub": publisher_dsn, **dsns}
        ) as topology:
            for table in tables:
                await topology.publish(table, propagate=(propagate or {}).get(table))
            for name, table in (routines or {}).items():
                await topology.publish_procedure(name, reads=[table], writes=[table])
            for name in dsns:
                await topology.subscribe(name, update_mode=update_mode)
            distribution = topology.node(topology.distribution)
            roles: list[dict[str, Any]] = [
                {
                    "publisher": "pub",
                    "publisher_dsn": topology.node("pub").logreader_dsn,
                    "distribution_dsn": distribution.logreader_dsn,
                    "slot": await topology.registration.slot(),
                },
                *(
                    {
                        "subscriber": name,
                        "publisher": "pub",
                        "distribution_dsn": distribution.agent_dsn,
                        "subscriber_dsn": topology.node(name).agent_dsn,
                        "profile": PROFILE.as_json(),
                    }
                    for name in dsns
                ),
            ]
            processes = [_start(role) for role in roles]
            ours = cls(processes, publisher_dsn)
            try:
                yield ours
            finally:
                ours.let_go()
                for process in processes:
                    assert process.stdin is not None
                    process.stdin.close()
                for process in processes:
                    process.wait()

    def settings(self) -> dict[str, object]:
        """Return the profile of the agents."""
        return asdict(PROFILE)

    def hold(self) -> None:
        """Stop the processes where they are, and the walsender that decodes for the log reader, as for native."""
        for process in self._processes:
            os.kill(process.pid, signal.SIGSTOP)
        with psycopg.connect(self._publisher_dsn) as connection:
            self._held = [pid for (pid,) in connection.execute(_WALSENDERS)]
        for pid in self._held:
            os.kill(pid, signal.SIGSTOP)

    def let_go(self) -> None:
        """Let the processes continue."""
        held, self._held = self._held, []
        for pid in (*held, *(process.pid for process in self._processes)):
            os.kill(pid, signal.SIGCONT)

    def cpu_s(self) -> list[float]:
        """Return the CPU seconds that each process has used so far."""
        ticks = os.sysconf("SC_CLK_TCK")
        used = []
        for process in self._processes:
            fields = (
                Path(f"/proc/{process.pid}/stat")
                .read_text(encoding="utf-8")
                .rsplit(")", 1)[1]
                .split()
            )
            used.append((int(fields[11]) + int(fields[12])) / ticks)
        return used


def _start(role: Mapping[str, Any]) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.processes"], stdin=subprocess.PIPE
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(role).encode() + b"\n")
    process.stdin.flush()
    return process


async def main() -> None:
    """Run the process that standard input describes until the input is closed."""
    role = json.loads(sys.stdin.readline())
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin.fileno(), stop.set)
    if "slot" in role:
        await LogReader(**role).run(stop)
    else:
        profile = Profile.from_json(role.pop("profile"))
        await DistributionAgent(Servers(**role), profile=profile).run(stop)


if __name__ == "__main__":
    asyncio.run(main())
