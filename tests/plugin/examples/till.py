"""An ordinary application on psycopg: it reads a balance, and later writes the new one."""

from __future__ import annotations

import psycopg


class Till:
    def __init__(self, dsn):
        self.dsn = dsn

    def look(self):
        self.connection = psycopg.connect(self.dsn)
        row = self.connection.execute("select balance from account where id = 1").fetchone()
        self.balance = row[0]

    def pay_out(self, amount=70):
        with self.connection as connection:  # commits and closes
            if self.balance >= amount:
                connection.execute(
                    "update account set balance = %s where id = 1", (self.balance - amount,)
                )


class CarefulTill(Till):
    def look(self):
        self.connection = psycopg.connect(self.dsn)
        row = self.connection.execute(
            "select balance from account where id = 1 for update"
        ).fetchone()
        self.balance = row[0]
