"""psycopg against a Subscriber: nothing of ours is imported. Where to connect is in PGHOST and the like."""

from __future__ import annotations

import sys
import time

import psycopg
from psycopg.errors import SerializationFailure


def transfer(connection: psycopg.Connection, amount: int) -> None:
    """A whole transaction: what it decides on is read in it, so that it can be run again."""
    with connection.transaction():
        rows = connection.execute("select balance from account where id = 1").fetchone()
        if rows is None or rows[0] < amount:
            raise ValueError("not enough money")
        for account, change in ((1, -amount), (2, amount)):
            connection.execute(
                "update account set balance = balance + %s where id = %s", (change, account)
            )
        connection.execute("insert into entry (account, amount) values (1, %s)", (-amount,))


def main() -> None:
    """Transfer, and try again after a conflict."""
    with psycopg.connect("", autocommit=True) as connection:
        for attempt in range(1, 11):
            try:
                transfer(connection, 10)
            except SerializationFailure as error:  # 40001
                print(f"attempt {attempt}: {error.diag.sqlstate} {error.diag.message_detail}")
                sys.stdout.flush()
                time.sleep(0.05 * 2**attempt)  # until the Subscriber has got what it lacks
            else:
                print("transferred")
                return
    sys.exit("gave up")


if __name__ == "__main__":
    main()
