"""Tests that a statement's values and messages are those that a driver gets from a server."""

from __future__ import annotations

import json

import psycopg
import pytest

from tests.model.stage.toys import loaded, play
from twopc.server import EmbeddedServer
from twopc.sim.report.history import plain

TABLE = "create table t (id int primary key, small smallint, day date)"
FILE = """
twopc: 1
name: values
topology: {publisher: pub, subscribers: [sub1], distribution: none}
tables: {t: {columns: {id: int primary key, small: smallint, day: date}}}
sessions: {a: {node: pub, steps: [s: {sql: %s}]}}
orders: [{name: one, steps: [s], expect: {otherwise: any}}]
"""


@pytest.mark.postgres
@pytest.mark.parametrize(
    "statement",
    [
        "select array[1, 2] as value",
        "select array['a', 'b c', null] as value",
        "select array[array[1], array[2]] as value",
        "select array[1, 2]::text as value",
        "select id from t where small = '1.0'",
        "select id from t where id > '3000000000'",
        "select id from t where day = '2020-02-30'",
        "show lock_timeout",
        "set lock_timeout = '2147483648ms'",
    ],
)
def test_same(server: EmbeddedServer, statement: str) -> None:
    file = loaded(FILE % json.dumps(statement))
    (record,) = (
        each for each in play(file)[1].records if each.step == "s" and each.kind in ("ok", "error")
    )
    with psycopg.connect(server.superuser_dsn("postgres")) as connection:
        connection.execute(TABLE.replace("create", "create temporary").encode())
        timeout = "5s" if statement.startswith("show") else "0"
        connection.execute(f"set lock_timeout = '{timeout}'".encode())
        try:
            cursor = connection.execute(statement.encode())
        except psycopg.Error as error:
            assert (record.sqlstate, record.message) == (error.sqlstate, error.diag.message_primary)
            return
        assert cursor.description is not None
        name = cursor.description[0].name
        assert list(record.rows) == [{name: plain(value)} for (value,) in cursor.fetchall()]
