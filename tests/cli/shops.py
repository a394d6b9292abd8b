"""A shop whose topology is built and operated by commands alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg

from tests.topology.test_topology import CATALOG
from twopc.server import EmbeddedServer

ROOT = Path(__file__).parents[2]
HERE = ("pub", "distribution")
THREE = (*HERE, "store")
NODES = ("pub", "distribution", "store", "desk")


class Shop:
    """Databases of an external server, and commands for some of them."""

    def __init__(self, server: EmbeddedServer, twopc: Any) -> None:
        self.twopc = twopc
        self.dsns = {name: server.superuser_dsn(name) for name in NODES}
        self._eyes = {
            name: psycopg.connect(dsn, autocommit=True) for name, dsn in self.dsns.items()
        }
        self._seen: dict[str, set[object]] | None = None
        """Content of each database after the last refusal; None if something was done since."""

    def close(self) -> None:
        """Close the connections."""
        for each in self._eyes.values():
            each.close()

    def sql(self, node: str, statement: str) -> list[tuple[object, ...]]:
        """Execute a statement at a node, as with psql."""
        self._seen = None
        with psycopg.connect(self.dsns[node], autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def catalog(self) -> dict[str, set[object]]:
        """Return the content of each database's catalogue."""
        return {
            name: {line for (line,) in eyes.execute(CATALOG).fetchall()}
            for name, eyes in self._eyes.items()
        }

    def does(self, *words: str, at: tuple[str, ...] = NODES) -> str:
        """Run a command that succeeds, and return its output."""
        self._seen = None
        done = self.twopc(*words, *self.options(at))
        assert (done.returncode, "error" in done.stderr) == (0, False), (words, done)
        return done.stdout

    def refuses(self, code: int, text: str, *words: str, at: tuple[str, ...] = NODES) -> None:
        """Run a command that fails with this code and text, and changes nothing."""
        before = self._seen or self.catalog()
        done = self.twopc(*words, *self.options(at))
        assert done.returncode == code, (words, done.stdout, done.stderr)
        assert text in done.stderr, (words, done.stderr)
        assert "Traceback" not in done.stderr, done.stderr
        self._seen = self.catalog()
        assert self._seen == before, words

    def options(self, at: tuple[str, ...]) -> list[str]:
        """Return the ``--node`` options."""
        return [word for name in at for word in ("--node", f"{name}={self.dsns[name]}")]

    def cut_off(self, point: str, *words: str, at: tuple[str, ...] = NODES) -> None:
        """Run a command in a process that is killed at a point of a copy."""
        self._seen = None
        done = subprocess.run(
            [sys.executable, "-m", "twopc.sim", *words, *self.options(at)],
            cwd=ROOT,
            env={**os.environ, "TWOPC_ARM": f"{point}=kill"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == -signal.SIGKILL, (words, done)

    def slots(self) -> list[tuple[object, ...]]:
        """Return the slots that keep the Publisher's log."""
        return self.sql("pub", "select slot_name::text from pg_replication_slots")
