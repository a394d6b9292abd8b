"""A folder for a topology that is left running, and when its sites agree."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest

from twopc.server.waiting import wait_for
from twopc.sim.up import State

PREPARED = "select count(*) from pg_prepared_xacts where database = current_database()"
ROWS = "select md5(string_agg(t::text, ' ' order by id)) from account as t"


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that the servers' user can enter; pytest's are its owner's alone."""
    with TemporaryDirectory(prefix="twopc-test-") as made:
        Path(made).chmod(0o755)
        yield Path(made) / "Ada's state"  # what is printed for a shell is quoted for it


def wait_until_equal(state: State) -> None:
    """Nothing is prepared, and all sites hold the same."""

    def asked(node: str, query: str) -> object:
        with psycopg.connect(state.nodes[node].dsn) as connection:
            row = connection.execute(query.encode()).fetchone()
        assert row is not None
        return row[0]

    def equal() -> bool:
        nodes = (state.publisher, *state.subscribers)
        return not any(asked(node, PREPARED) for node in nodes) and (
            len({asked(node, ROWS) for node in nodes}) == 1
        )

    wait_for(equal, what="all sites to be equal", timeout_s=60)
