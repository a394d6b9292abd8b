"""A Publisher whose snapshots have several files, and interruptions of its snapshots."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import psycopg

from twopc.sim.merge import MergeTopology

ROWS = 300
SHOP = (
    "create type mood as enum ('good', 'bad');"
    " create table customer (id int primary key, phone text unique, credit int check (credit >= 0), mood mood);"
    " create table purchase (id int primary key, customer int not null references customer, note text default 'none');"
    f" insert into customer select i, i::text, 10, 'good' from generate_series(1, {ROWS}) as i;"
    " insert into purchase select i, i, e'line\\nbreak \\\\ tab\\t' from generate_series(1, 50) as i"
)
PART_BYTES = 10_000
FILES = 17
"""Six files of each table, four parts of customers and one of purchases."""
DATA_FILES = 6
"""Those of them with rows, or with metadata of rows."""


def one(folder: Path, pattern: str) -> Path:
    """Return the first file below a folder that matches a pattern."""
    return min(folder.rglob(pattern))


async def change(topology: MergeTopology, number: int) -> None:
    """Change rows at the Publisher, as an application."""
    await topology.execute(
        "pub", "update customer set credit = credit + 1 where id = %s", (number,)
    )
    await topology.execute("pub", "insert into purchase values (%s, %s)", (1000 + number, number))
    await topology.execute("pub", "delete from purchase where id = %s", (number,))


_PROGRAM = """
import asyncio, json, os, sys
from twopc.drivers.points import Points
from twopc.sim import MergeTopology

async def main(dsns, call, *arguments):
    names = [name for name in dsns if name != "pub"]
    async with MergeTopology(subscribers=names, dsns=dsns, attach=True, points=Points(os.environ)) as topology:
        await getattr(topology, call)(*arguments, **({"part_bytes": %d} if call == "snapshot" else {}))

asyncio.run(main(json.loads(sys.argv[1]), *sys.argv[2:]))
"""


def kill(
    topology: MergeTopology, point: str, call: str, argument: str | Path, nth: int = 1
) -> None:
    """Make a call in another process, and kill it when it reaches a point the nth time."""
    dsns = {name: node.dsn for name, node in topology.nodes.items()}
    before = {name: _processes(dsn) for name, dsn in dsns.items()}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM % PART_BYTES, json.dumps(dsns), call, str(argument)],
        env=os.environ | {"TWOPC_ARM": f"{point}=kill@{nth}"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == -9, done.stderr
    for name, dsn in dsns.items():
        while _processes(dsn) - before[name]:  # backends that have not noticed yet
            pass


def _processes(dsn: str) -> set[int]:
    """Return the backends of other sessions in a database."""
    query = (
        "select pid from pg_stat_activity"
        " where backend_type = 'client backend' and datname = current_database() and pid <> pg_backend_pid()"
    )
    with psycopg.connect(dsn) as connection:
        return {pid for (pid,) in connection.execute(query)}
