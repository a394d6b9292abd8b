"""A sample of `python -m benchmarks.pgbench`: unmodified pgbench, and kill -9 under traffic."""

from __future__ import annotations

import importlib.util
import shutil

import pytest

from benchmarks.pgbench import check, kill, run, topology

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.skipif(
        shutil.which("pgbench") is None or shutil.which("psql") is None,
        reason="no programs pgbench and psql here (Debian: apt-get install postgresql-contrib)",
    ),
    pytest.mark.skipif(
        importlib.util.find_spec("sqlalchemy") is None, reason="package sqlalchemy is not installed"
    ),
]


def test_a_sample() -> None:
    """The Publisher's server is killed while clients, resolver and agents run."""
    with topology(scale=1) as state:
        assert run(state, clients=8, seconds=1) > 0
        before = check(state)
        assert kill(state, "server of pub", clients=2) > before
