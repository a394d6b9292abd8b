"""Tests of a user's program that is killed by ``TWOPC_ARM``, and recovered by the command line.

They use plain processes and a topology on existing nodes, without the tools of the other
crash tests.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.grid.rig import NODES, PUBLISHER, SITES, Rig
from twopc.names import PREFIX

ROOT = Path(__file__).parents[2]

PROGRAM = """
import asyncio
import sys
from twopc.sim.operate import attach

async def main(coordinator, commit, *nodes):
    topology = await attach(dict(node.split("=", 1) for node in nodes), coordinator=coordinator)
    async with topology, topology.transaction("sub1", commit=commit) as transaction:
        await transaction.execute("update account set balance = balance + 1 where id = 1")
    print("committed")

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    with Rig(planted=False) as made:
        yield made


def nodes_of(rig: Rig) -> list[str]:
    """Return ``name=DSN`` of every node."""
    return [f"{node}={rig.node(node).dsn}" for node in NODES]


def program(rig: Rig, commit: str, arm: str) -> subprocess.CompletedProcess[str]:
    """Run the user's program."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, rig.topology.name, commit, *nodes_of(rig)],
        cwd=ROOT, env={**os.environ, "TWOPC_ARM": arm}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def twopc(rig: Rig, command: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the command line on the nodes."""
    words = [word for node in nodes_of(rig) for word in ("--node", node)]
    return subprocess.run(
        [sys.executable, "-m", "twopc.sim", command, *words],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip


def balances(rig: Rig) -> list[int]:
    """Return the balances of account 1 at both sites."""
    query = "select balance from account where id = 1"
    return [int(rig.fetch(site, query)[0][0]) for site in SITES]


@pytest.mark.parametrize(
    ("commit", "point", "change"),
    [
        ("presumed_abort", "coordinator.decision_logged", 1),
        ("last_agent", "coordinator.before_commit(sub1)", 0),
    ],
)
def test_killed_and_recovered(rig: Rig, commit: str, point: str, change: int) -> None:
    before = balances(rig)
    died = program(rig, commit, f"{point}=kill")
    assert died.returncode == -signal.SIGKILL, died.stderr
    assert died.stdout == ""
    left = rig.prepared(PREFIX)
    assert PUBLISHER in {gid.rpartition(":")[2] for gid, *_ in left}

    recovered = twopc(rig, "recover")

    assert recovered.returncode == 0, recovered.stderr
    assert all(gid in recovered.stdout for gid, *_ in left)
    assert rig.prepared() == []
    assert balances(rig) == [balance + change for balance in before]
