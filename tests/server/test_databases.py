"""Tests of databases on any server, and of external servers."""

from __future__ import annotations

import threading

import psycopg
import pytest
from psycopg import sql

from tests.fix_server import Database
from twopc.errors import ConfigurationError, ServerError
from twopc.server import EmbeddedServer, ExternalServer
from twopc.server.polling import wait_for

NAME = 'a "quoted" näme'


@pytest.fixture
def external(server: EmbeddedServer) -> ExternalServer:
    """The session's server as an external one."""
    return ExternalServer.from_dsn(server.superuser_dsn("postgres"))


@pytest.mark.parametrize("kind", ["embedded", "external"])
def test_create_and_drop(server: EmbeddedServer, external: ExternalServer, kind: str) -> None:
    where = server if kind == "embedded" else external
    where.create_database(NAME)
    with psycopg.connect(where.dsn(NAME), autocommit=True) as connection:
        connection.execute("CREATE TABLE t AS SELECT 42 AS x")
    where.create_database("copy", template=NAME)
    with psycopg.connect(where.superuser_dsn("copy")) as connection:
        assert connection.execute("TABLE t").fetchone() == (42,)
    where.drop_database("copy")
    where.drop_database(NAME)
    where.drop_database(NAME)  # does not exist: no effect
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(where.dsn(NAME))


def test_create_errors(server: EmbeddedServer, fresh_database: Database) -> None:
    with pytest.raises(ServerError, match="exists"):
        server.create_database(fresh_database.name)
    with pytest.raises(ServerError, match="no_such"):
        server.create_database("x", template="no_such")
    with fresh_database.connect(), pytest.raises(ServerError, match="in use"):
        server.create_database("x", template=fresh_database.name)


def test_create_without_the_right_to(server: EmbeddedServer, fresh_database: Database) -> None:
    with fresh_database.connect() as admin:
        admin.execute("CREATE ROLE plain LOGIN PASSWORD 'p'")
        try:
            plain = ExternalServer.from_dsn(server.dsn(fresh_database.name, "plain", "p"))
            with pytest.raises(ServerError, match='ALTER ROLE "plain" CREATEDB;'):
                plain.create_database("x")
        finally:
            admin.execute("DROP ROLE plain")


def test_drop_ends_sessions_and_slots(server: EmbeddedServer) -> None:
    server.create_database("busy")
    with psycopg.connect(server.dsn("busy"), autocommit=True) as client:
        client.execute("SELECT pg_create_logical_replication_slot('busy', 'pgoutput')")
        server.drop_database("busy")
        with pytest.raises(psycopg.OperationalError):
            client.execute("SELECT 1")
    with psycopg.connect(server.dsn("postgres")) as connection:
        found = connection.execute("SELECT 1 FROM pg_replication_slots WHERE slot_name = 'busy'")
        assert found.fetchone() is None


def test_drop_ends_a_session_that_is_reading_a_slot(server: EmbeddedServer) -> None:
    server.create_database("busy")
    dsn = server.dsn("busy")
    with psycopg.connect(dsn, autocommit=True) as client:
        client.execute("SELECT pg_create_logical_replication_slot('reading', 'pgoutput')")
    walsender = psycopg.connect(f"{dsn} replication=database", autocommit=True)
    walsender.pgconn.send_query(
        b"START_REPLICATION SLOT reading LOGICAL 0/0 (proto_version '1', publication_names 'none')"
    )
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as connection:
        wait_for(
            lambda: connection.execute(
                "SELECT active FROM pg_replication_slots WHERE slot_name = 'reading' AND active"
            ).fetchone(),
            what="the slot to be in use",
            timeout_s=60,
        )
    server.drop_database("busy")
    walsender.close()


def test_drop_touches_nothing_if_a_foreign_transaction_is_prepared(server: EmbeddedServer) -> None:
    server.create_database("held")
    with psycopg.connect(server.dsn("held"), autocommit=True) as client:
        for gid in ("twopc:c:1:1:sub", "foreign'gid"):
            client.execute("BEGIN; SELECT pg_current_xact_id()")
            client.execute(sql.SQL("PREPARE TRANSACTION {}").format(gid))
        for answer in (None, lambda gid: gid.startswith("twopc:")):
            with pytest.raises(ServerError, match="foreign'gid"):
                server.drop_database("held", may_roll_back=answer)
            row = client.execute("SELECT count(*) FROM pg_prepared_xacts").fetchone()
            assert row == (2,)  # the session was not terminated
    server.drop_database("held", may_roll_back=lambda _: True)


def test_drop_while_clients_come_back(server: EmbeddedServer) -> None:
    server.create_database("popular")
    stop = threading.Event()

    def come_back() -> None:
        while not stop.is_set():
            try:
                with psycopg.connect(server.dsn("popular"), autocommit=True) as connection:
                    connection.execute("SELECT pg_sleep(60)")
            except psycopg.Error:
                continue

    clients = [threading.Thread(target=come_back) for _ in range(3)]
    for client in clients:
        client.start()
    try:
        server.drop_database("popular")
    finally:
        stop.set()
        for client in clients:
            client.join()


def test_external_server_is_not_ours_to_end(
    external: ExternalServer, server: EmbeddedServer
) -> None:
    for end in (external.crash, external.kill, external.restart):
        with pytest.raises(ConfigurationError, match="use an embedded server"):
            end()
    with external:
        assert external.is_running()
    assert server.is_running()
    assert (EmbeddedServer.can_crash, ExternalServer.can_crash) == (True, False)


def test_external_server_shows_no_password(server: EmbeddedServer) -> None:
    for dsn in ("host=h password='hunter2'", "postgresql://u:hunter2@h:5433/d"):
        assert "hunter2" not in repr(ExternalServer.from_dsn(dsn))
    with pytest.raises(ServerError, match="not a connection string") as caught:
        ExternalServer.from_dsn("host=h password=hunter2 hunter3")
    assert "hunter" not in f"{caught.value}{caught.value.__cause__}"
    assert caught.value.__suppress_context__


def test_external_dsn_of_another_role(external: ExternalServer) -> None:
    parameters = psycopg.conninfo.conninfo_to_dict(external.dsn("d", "u", "p"))
    assert (parameters["dbname"], parameters["user"], parameters["password"]) == ("d", "u", "p")


def test_external_server_that_is_not_there() -> None:
    assert not ExternalServer.from_dsn("host=127.0.0.1 port=1").is_running()
