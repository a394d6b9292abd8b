"""M29: Tests of PostgreSQL's own logical replication, with two_phase, of the published tables.

A native subscriber follows our branches: it prepares a transaction under its own gid when the
Publisher's branch is prepared, and finishes it with the same outcome. Our recovery ignores that
transaction, and our log reader is not affected.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import psycopg
import pytest

from tests.grid.cells import Kind, Seen
from tests.grid.process import CoordinatorProcess
from tests.grid.rig import LOG, PUBLISHER, Rig
from twopc.server.polling import wait_for

NATIVE = "native"
_PREPARED = (
    "select gid from pg_prepared_xacts where database = current_database() and gid like 'pg_gid_%'"
)


class Native:
    """A database with a native subscription to the Publisher's accounts."""

    def __init__(self, rig: Rig) -> None:
        self._server = rig.servers[LOG]
        self._server.create_database(NATIVE)
        self.dsn = self._server.superuser_dsn(NATIVE)
        rig.fetch(PUBLISHER, "create publication native for table account")
        self._do("create table account (id int primary key, balance int, msrepl_tran_version uuid)")
        there = rig.servers[PUBLISHER].superuser_dsn(PUBLISHER).replace("'", "''")
        self._do(
            f"create subscription native connection '{there}' publication native with (two_phase = true)"
        )
        # Prepared transactions are sent as such only after the rows are copied.
        query = "select 1 from pg_subscription where subtwophasestate = 'e'"
        wait_for(lambda: self._do(query), what="two_phase to be in use", timeout_s=60)

    def _do(self, text: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            cursor = connection.execute(text.encode())
            return cursor.fetchall() if cursor.description else []

    def prepared(self) -> list[tuple[object, ...]]:
        """Return its prepared transactions."""
        return self._do(_PREPARED)

    def balance(self, row: int) -> object:
        """Return an account's balance."""
        return self._do(f"select balance from account where id = {row}")[0][0]

    def end(self) -> None:
        """Drop the subscription with its slot, and the database."""
        self._do("drop subscription native")
        self._server.drop_database(NATIVE)


@pytest.fixture(scope="module")
def alone() -> Iterator[Rig]:
    """Start servers without prepared transactions: those would prevent the creation of a slot."""
    with Rig(planted=False) as made:
        yield made


@pytest.fixture(scope="module")
def native(alone: Rig) -> Iterator[Native]:
    made = Native(alone)
    yield made
    made.end()


@pytest.mark.parametrize(
    ("point", "balance"),
    [("coordinator.before_decision", 100), ("coordinator.decision_logged", 101)],
)
def test_it_follows_our_branches(alone: Rig, native: Native, point: str, balance: int) -> None:
    """The native subscriber finishes a branch as recovery does after the coordinator is killed."""
    seen = Seen.begin(alone, Kind())
    task = alone.task(seen.name, row=seen.row, warm_row=alone.fresh_row(), halt=point)
    with CoordinatorProcess(task) as process:
        assert process.halted()
        wait_for(native.prepared, what="the native subscriber to prepare", timeout_s=20)
        assert native.balance(seen.row) == 100
        process.kill()
    with CoordinatorProcess(alone.task(seen.name)) as process:
        alone.nothing_prepared(seen.name)
        process.end()
    wait_for(partial(_over, native), what="the native subscriber to finish", timeout_s=20)
    assert native.balance(seen.row) == balance
    assert {held.row[0] for held in seen.look(alone).sites.values()} == {balance}


def _over(native: Native) -> bool:
    return not native.prepared()
