"""The fixtures themselves."""

from __future__ import annotations

import psycopg
import pytest

from tests.fix_server import Database, MakeDatabase


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
    # The gid is unique in the cluster: the second test could not prepare if the first one's had
    # survived its database.
    fresh_database.may_leave_prepared = True
    with fresh_database.connect() as connection:
        connection.execute("BEGIN; CREATE TABLE t(); PREPARE TRANSACTION 'twopc:c:1:1:sub'")
