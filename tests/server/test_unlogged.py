"""Tests that a server killed after a failed installation starts again, since no table of ours is unlogged."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import sql

from twopc.errors import ServerError
from twopc.server import EmbeddedServer
from twopc.sql.render import render

OWNER = sql.Identifier("some_owner")


def killed_after_rollback(server: EmbeddedServer, *statements: str) -> None:
    """Roll the statements back, and kill the server before the rollback is flushed to the WAL."""
    with (
        psycopg.connect(server.superuser_dsn("here"), autocommit=True) as failing,
        psycopg.connect(server.superuser_dsn("here"), autocommit=True) as other,
    ):
        failing.execute("checkpoint")
        failing.execute("begin")
        for statement in statements:
            failing.execute(statement.encode())
        other.execute("create table flushes ()")
        other.execute("drop table flushes")
        failing.execute("rollback")
        server.crash()
    server.restart()


def test_a_failed_installation_and_a_kill() -> None:
    """Tables of ours are not unlogged, so that a failed installation and a kill do no harm."""
    with EmbeddedServer.start(durable=True, settings={"wal_writer_delay": "10s"}) as server:
        server.create_database("here")
        with psycopg.connect(server.superuser_dsn("here"), autocommit=True) as connection:
            connection.execute(
                "create role some_owner; create schema msrepl authorization some_owner"
            )
        killed_after_rollback(
            server,
            render("twopc.publisher", "touched_row", owner=OWNER),
            render("twopc.subscriber", "held_row", owner=OWNER),
        )
        with psycopg.connect(server.superuser_dsn("here"), autocommit=True) as connection:
            connection.execute(render("twopc.publisher", "touched_row", owner=OWNER).encode())
            connection.execute(render("twopc.subscriber", "held_row", owner=OWNER).encode())
            unlogged = connection.execute("select relname from pg_class where relpersistence = 'u'")
            assert unlogged.fetchall() == []


def test_what_an_unlogged_table_does() -> None:
    """The server does not start after an unlogged table was rolled back; if it does, change docs/crashes.md."""
    with EmbeddedServer.start(durable=True, settings={"wal_writer_delay": "10s"}) as server:
        server.create_database("here")
        with pytest.raises(ServerError, match="File exists"):
            killed_after_rollback(server, "create unlogged table t (n int)")
