"""Tests of an embedded server: its settings, crashes, restarts and prepared clusters."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from tests.fix_server import Database
from tests.server.conftest import is_alive
from twopc.errors import ConfigurationError, ServerError
from twopc.server import ClusterContents, EmbeddedServer, embedded_server
from twopc.server.polling import wait_for
from twopc.server.supervisor import processes_of


@pytest.fixture(scope="module")
def victim() -> Iterator[EmbeddedServer]:
    """Start a server that these tests may crash."""
    with EmbeddedServer.start() as started:
        yield started


def fetch(server: EmbeddedServer, query: str, database: str = "postgres") -> object:
    with psycopg.connect(server.dsn(database), autocommit=True) as connection:
        row = connection.execute(query.encode()).fetchone()
        assert row is not None
        return row[0]


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("wal_level", "logical"),
        ("password_encryption", "scram-sha-256"),
        ("max_prepared_transactions", "300"),
        ("max_connections", "300"),
        ("max_replication_slots", "64"),
        ("max_wal_senders", "64"),
        ("client_connection_check_interval", "300ms"),
        ("lock_timeout", "0"),
        ("deadlock_timeout", "1s"),
        ("jit", "off"),
        ("autovacuum", "on"),
        ("fsync", "off"),
        ("TimeZone", "UTC"),
        ("server_encoding", "UTF8"),
    ],
)
def test_settings(server: EmbeddedServer, setting: str, value: str) -> None:
    assert fetch(server, f"SHOW {setting}") == value


def test_dblink_is_there(server: EmbeddedServer) -> None:
    assert fetch(server, "SELECT 1 FROM pg_available_extensions WHERE name = 'dblink'") == 1


def test_wal_flushes_are_counted(server: EmbeddedServer) -> None:
    assert fetch(server, "SELECT count(*) > 0 FROM pg_stat_io WHERE object = 'wal'") is True


@pytest.mark.parametrize("tcp", [False, True])
def test_every_way_in_asks_for_the_password(server: EmbeddedServer, tcp: bool) -> None:
    dsn = server.dsn("postgres", tcp=tcp)
    with psycopg.connect(dsn) as connection:
        assert connection.pgconn.used_password
        assert connection.info.host == (server.host if tcp else str(server.socket_dir))
    for password in ("", "wrong"):
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(dsn, password=password, passfile="/nonexistent")


def test_dsn_of_another_role(fresh_database: Database) -> None:
    role, password = "it's", "a b'c\\d"
    with fresh_database.connect() as admin:
        create = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}")
        admin.execute(create.format(sql.Identifier(role), sql.Literal(password)))
        try:
            dsn = fresh_database.server.dsn(fresh_database.name, role, password)
            with psycopg.connect(dsn) as connection:
                assert connection.info.user == role
        finally:
            admin.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


def test_nothing_secret_in_repr_and_logfile(server: EmbeddedServer) -> None:
    password = psycopg.conninfo.conninfo_to_dict(server.dsn("postgres"))["password"]
    assert str(password) not in repr(server)
    with (
        psycopg.connect(server.dsn("postgres"), autocommit=True) as connection,
        pytest.raises(psycopg.errors.UndefinedObject),
    ):
        connection.execute("ALTER ROLE nobody_of_this_name PASSWORD 'hunter2'")
    assert "nobody_of_this_name" in server.log_tail()
    assert "hunter2" not in server.log_tail(1000)


def test_settings_of_the_caller_win() -> None:
    settings = {"max_prepared_transactions": "3", "application_name": "it's a \\ name"}
    with EmbeddedServer.start(settings=settings) as server:
        assert fetch(server, "SHOW max_prepared_transactions") == "3"
        assert fetch(server, "SHOW application_name") == "it's a \\ name"
        with psycopg.connect(server.dsn("postgres"), autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET max_prepared_transactions = 0")
        server.restart()
        assert fetch(server, "SHOW max_prepared_transactions") == "0"


@pytest.mark.parametrize(
    ("settings", "error", "said"),
    [
        ({"no_such_setting": "1"}, ServerError, "no_such_setting"),
        ({"wal_level": "none of these"}, ServerError, "wal_level"),
        ({"a = 1\nb": "1"}, ConfigurationError, "not the name"),
        ({"jit": "on\nfsync = off"}, ConfigurationError, "single line"),
    ],
)
def test_bad_settings(settings: dict[str, str], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        EmbeddedServer.start(settings=settings)


@pytest.mark.parametrize("how", ["crash", "kill"])
@pytest.mark.parametrize("durable", [False, True])
def test_what_was_committed_or_prepared_survives(how: str, durable: bool) -> None:
    with EmbeddedServer.start(durable=durable) as server:
        assert fetch(server, "SHOW fsync") == ("on" if durable else "off")
        client = psycopg.connect(server.dsn("postgres"), autocommit=True)
        client.execute("CREATE TABLE t AS SELECT 1 AS x")
        client.execute("BEGIN; INSERT INTO t VALUES (2); PREPARE TRANSACTION 'g'")
        client.execute("BEGIN; INSERT INTO t VALUES (3)")
        processes = processes_of(server.directory / "data")
        assert len(processes) > 5
        port, socket_dir = server.port, server.socket_dir
        getattr(server, how)()
        assert not server.is_running()
        assert not [process for process in processes if is_alive(process.pid)]
        with pytest.raises(psycopg.OperationalError):
            client.execute("SELECT 1")
        client.close()
        server.restart()
        assert (server.port, server.socket_dir) == (port, socket_dir)
        assert server.is_running()
        assert fetch(server, "SELECT array_agg(gid) FROM pg_prepared_xacts") == ["g"]
        assert fetch(server, "SELECT array_agg(x) FROM t") == [1]


def test_crash_and_kill_of_a_server_that_is_down(victim: EmbeddedServer) -> None:
    victim.kill()
    victim.crash()
    victim.kill()
    victim.restart()
    assert victim.is_running()


def test_stuck_processes_are_killed(victim: EmbeddedServer) -> None:
    for process in processes_of(victim.directory / "data"):
        process.suspend()
    victim.kill()
    victim.restart()


def test_log_tail(victim: EmbeddedServer) -> None:
    victim.restart()
    assert "ready to accept connections" in victim.log_tail(2)
    assert len(victim.log_tail(2).splitlines()) == 2


def test_restart_waits_for_its_port(victim: EmbeddedServer) -> None:
    victim.crash()
    with socket.create_server((victim.host, victim.port)):
        restart = threading.Thread(target=victim.restart)
        restart.start()
        wait_for(
            lambda: "Address already in use" in victim.log_tail(),
            what="the server to find its port taken",
            timeout_s=60,
        )
    restart.join()
    assert fetch(victim, "SELECT 1") == 1


def test_start_takes_another_port_if_one_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ports = iter([taken.getsockname()[1], embedded_server.free_port()])
        monkeypatch.setattr(embedded_server, "free_port", lambda: next(ports))
        with EmbeddedServer.start() as server:
            assert server.port != taken.getsockname()[1]


def test_stop_is_for_good() -> None:
    server = EmbeddedServer.start()
    server.stop()
    server.stop()
    assert not server.directory.exists()
    assert not server.socket_dir.exists()
    assert server.log_tail() == ""
    with pytest.raises(ServerError, match="start another"):
        server.restart()


def test_prepared_cluster_is_made_once(empty_cache: Path) -> None:
    made = []

    def prepare(server: EmbeddedServer) -> None:
        made.append(server.port)
        server.create_database("node")
        with psycopg.connect(server.dsn("node"), autocommit=True) as connection:
            connection.execute("CREATE TABLE t AS SELECT 42 AS x")

    for key, times in (("a", 1), ("a", 1), ("b", 2)):
        with EmbeddedServer.start(prepared=ClusterContents(key=key, prepare=prepare)) as server:
            assert fetch(server, "SELECT x FROM t", "node") == 42
        assert len(made) == times
    with EmbeddedServer.start() as server:
        assert fetch(server, "SELECT count(*) FROM pg_database WHERE datname = 'node'") == 0


def test_failed_preparation_is_not_cached(empty_cache: Path) -> None:
    def fail(server: EmbeddedServer) -> None:
        server.create_database("node")
        raise LookupError("on purpose")

    def prepare(server: EmbeddedServer) -> None:
        server.create_database("node")

    with pytest.raises(LookupError, match="on purpose"):
        EmbeddedServer.start(prepared=ClusterContents(key="k", prepare=fail))
    assert not list((empty_cache / "clusters").glob("*.partial"))
    assert not list((empty_cache / "runs").iterdir())
    with EmbeddedServer.start(prepared=ClusterContents(key="k", prepare=prepare)) as server:
        assert fetch(server, "SELECT 1", "node") == 1
