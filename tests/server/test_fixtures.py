"""Tests of the fixtures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests.fix_server import Database, MakeDatabase
from tests.server.conftest import ROOT


def test_databases_are_separate(make_database: MakeDatabase) -> None:
    one, two = make_database(), make_database()
    with one.connect() as connection:
        connection.execute("CREATE TABLE t()")
    with two.connect() as connection, pytest.raises(psycopg.errors.UndefinedTable):
        connection.execute("TABLE t")


@pytest.mark.parametrize("once_more", [False, True])
def test_a_prepared_transaction_may_be_left_on_request(
    fresh_database: Database, once_more: bool
) -> None:
    # A gid is unique in the cluster: the second test could not prepare if the first one's
    # transaction had survived its database.
    fresh_database.may_leave_prepared = True
    with fresh_database.connect() as connection:
        connection.execute("BEGIN; CREATE TABLE t(); PREPARE TRANSACTION 'twopc:c:1:1:sub'")


def test_a_prepared_transaction_that_is_left_fails_the_test(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "def test_it(fresh_database):\n"
        "    with fresh_database.connect() as connection:\n"
        "        connection.execute('BEGIN; SELECT pg_current_xact_id()')\n"
        "        connection.execute(\"PREPARE TRANSACTION 'twopc:c:1:1:sub'\")\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "pytest", "-p", "tests.fix_server", "-q", str(tmp_path)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "the test left prepared transactions: twopc:c:1:1:sub" in run.stdout
    assert "1 passed, 1 error" in run.stdout
