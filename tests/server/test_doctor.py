"""Tests that the doctor finds unfit servers, and that its remedies work."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import conninfo

from tests.fix_server import Database
from twopc.doctor import Finding, RoleOfNode, examine, format_findings, missing_grants
from twopc.doctor.checks import version_finding
from twopc.errors import ServerError
from twopc.names import LINK_SCHEMA
from twopc.server import EmbeddedServer

ROLES: tuple[RoleOfNode, ...] = ("publisher", "subscriber", "distribution")


@pytest.fixture
def plain(fresh_database: Database) -> Iterator[str]:
    """Create a role without privileges, and return its DSN."""
    with fresh_database.connect() as admin:
        admin.execute("CREATE ROLE \"plain role\" LOGIN PASSWORD 'p'")
        yield fresh_database.server.dsn(fresh_database.name, "plain role", "p")
        admin.execute('DROP OWNED BY "plain role"; DROP ROLE "plain role"')


def bad(findings: tuple[Finding, ...]) -> dict[str, Finding]:
    """Return the findings that are not ok, except those intended on the session's server."""
    return {
        finding.what: finding
        for finding in findings
        if finding.level != "ok" and finding.what not in ("fsync", "full_page_writes")
    }


def run(dsn: str, remedy: str) -> None:
    """Execute a remedy as it is printed."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        for line in remedy.splitlines():
            for statement in line.split(" --")[0].split(";"):
                if statement.strip():
                    connection.execute(statement.encode())


@pytest.mark.parametrize("role_of_node", ROLES)
def test_embedded_server_is_fit(fresh_database: Database, role_of_node: RoleOfNode) -> None:
    findings = examine(fresh_database.dsn, role_of_node=role_of_node)
    assert bad(findings) == {}
    assert findings[0] == Finding(level="ok", what="server version", state=findings[0].state)
    assert all(finding.remedy == "" for finding in findings if finding.level == "ok")


@pytest.mark.parametrize("role_of_node", ROLES)
def test_remedies_for_rights_cure(
    fresh_database: Database, plain: str, role_of_node: RoleOfNode
) -> None:
    found = bad(examine(plain, role_of_node=role_of_node))
    expected = {
        "publisher": {
            "CREATE in the database", "CREATEROLE", "REPLICATION", "pg_log_standby_snapshot",
            "pg_monitor", "pg_signal_backend",
        },
        "subscriber": {
            "CREATE in the database", "CREATEROLE", "session_replication_role", "dblink",
            "pg_monitor", "pg_signal_backend",
        },
        "distribution": {"CREATE in the database"},
    }  # fmt: skip
    assert set(found) == expected[role_of_node]
    for _ in range(2):  # the second time, dblink exists and more is found
        for finding in bad(examine(plain, role_of_node=role_of_node)).values():
            run(fresh_database.dsn, finding.remedy)
    if role_of_node == "subscriber":
        run(
            fresh_database.dsn,
            f"REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA {LINK_SCHEMA} FROM PUBLIC",
        )
    assert bad(examine(plain, role_of_node=role_of_node)) == {}


def test_dblink_where_everybody_can_use_it(fresh_database: Database) -> None:
    run(fresh_database.dsn, "CREATE EXTENSION dblink")
    elsewhere = bad(examine(fresh_database.dsn, role_of_node="subscriber"))["dblink"]
    assert elsewhere.state.startswith("installed in schema public")
    run(fresh_database.dsn, elsewhere.remedy)
    open_to_all = bad(examine(fresh_database.dsn, role_of_node="subscriber"))["dblink"]
    assert "PUBLIC" in open_to_all.state
    run(fresh_database.dsn, open_to_all.remedy)
    assert bad(examine(fresh_database.dsn, role_of_node="subscriber")) == {}
    assert bad(examine(fresh_database.dsn, role_of_node="publisher")) == {}


@pytest.mark.parametrize(
    ("number", "level"),
    [
        (90624, "error"),
        (160010, "error"),
        (170000, "ok"),
        (180000, "error"),
        (180001, "error"),
        (180002, "ok"),
        (190000, "ok"),
    ],
)
def test_versions(number: int, level: str) -> None:
    finding = version_finding(number)
    assert finding.level == level
    assert (finding.remedy != "") == (level == "error")


def test_unfit_settings_and_their_remedies() -> None:
    settings = {
        "wal_level": "replica",
        "max_prepared_transactions": "0",
        "idle_session_timeout": "10min",
        "max_slot_wal_keep_size": "1GB",
        "extension_control_path": "/nonexistent",
    }
    with EmbeddedServer.start(settings=settings, durable=True) as server:
        dsn = server.superuser_dsn("postgres")
        found = examine(dsn, role_of_node="publisher")
        remedies = {finding.what: finding.remedy for finding in bad(found).values()}
        assert remedies == {
            "wal_level": "ALTER SYSTEM SET wal_level = 'logical'; -- restart",
            "max_prepared_transactions": "ALTER SYSTEM SET max_prepared_transactions = 300;"
            " -- restart",
            "idle_session_timeout": "ALTER SYSTEM SET idle_session_timeout = 0;"
            " SELECT pg_reload_conf();",
            "max_slot_wal_keep_size": "ALTER SYSTEM SET max_slot_wal_keep_size = '-1';"
            " SELECT pg_reload_conf();",
        }
        dblink = bad(examine(dsn, role_of_node="subscriber"))["dblink"]
        assert "contrib" in dblink.remedy
        for remedy in remedies.values():
            run(dsn, remedy)
        waiting = bad(examine(dsn, role_of_node="publisher"))["wal_level"]
        assert "until the server is restarted" in waiting.state
        server.restart()
        assert bad(examine(dsn, role_of_node="publisher")) == {}


def test_nothing_left_to_take() -> None:
    settings = {"max_prepared_transactions": "1", "max_replication_slots": "1"}
    with EmbeddedServer.start(settings=settings) as server:
        dsn = server.superuser_dsn("postgres")
        few = bad(examine(dsn, role_of_node="publisher"))["max_prepared_transactions"]
        assert (few.level, "fewer than max_connections" in few.state) == ("warning", True)
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
            connection.execute("BEGIN; SELECT pg_current_xact_id(); PREPARE TRANSACTION 'g'")
        found = bad(examine(dsn, role_of_node="publisher"))
        assert found["max_prepared_transactions"].level == "error"
        assert "twopc indoubt" in found["max_prepared_transactions"].remedy
        assert found["max_replication_slots"].remedy == (
            "ALTER SYSTEM SET max_replication_slots = 11; -- restart"
        )


def test_lost_slot() -> None:
    settings = {"max_slot_wal_keep_size": "16MB", "max_wal_size": "32MB"}
    with EmbeddedServer.start(settings=settings) as server:
        dsn = server.superuser_dsn("postgres")
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
            for _ in range(6):
                connection.execute("SELECT pg_logical_emit_message(false, '', 'x')")
                connection.execute("SELECT pg_switch_wal()")
            connection.execute("CHECKPOINT")
        slot = bad(examine(dsn, role_of_node="publisher"))["slot s"]
        assert "lost" in slot.state
        run(dsn, slot.remedy)
        assert "slot s" not in bad(examine(dsn, role_of_node="publisher"))


def test_remedy_goes_where_the_setting_was_made(fresh_database: Database) -> None:
    name = "idle_in_transaction_session_timeout"
    database, dsn = fresh_database.name, fresh_database.dsn
    where = [
        f'ALTER DATABASE "{database}" SET {name} =',
        f'ALTER ROLE "postgres" SET {name} =',
        f'ALTER ROLE "postgres" IN DATABASE "{database}" SET {name} =',
    ]
    for change in where:
        run(dsn, f"{change} '1min'")
        try:
            found = bad(examine(dsn, role_of_node="publisher"))[name]
            assert found.remedy == f"{change} 0;"
            run(dsn, found.remedy)
            assert bad(examine(dsn, role_of_node="publisher")) == {}
        finally:
            run(dsn, change.replace(f"SET {name} =", f"RESET {name}"))
    client = conninfo.make_conninfo(dsn, options=f"-c {name}=1min")
    assert "DSN" in bad(examine(client, role_of_node="publisher"))[name].remedy


@pytest.mark.parametrize(
    ("name", "value"), [("session_replication_role", "replica"), ("event_triggers", "off")]
)
def test_disabled_triggers(fresh_database: Database, plain: str, name: str, value: str) -> None:
    """Whether they are disabled for all sessions, or for a role that is not the doctor's."""
    database, dsn = fresh_database.name, fresh_database.dsn
    for where in (
        f'ALTER DATABASE "{database}"',
        'ALTER ROLE "plain role"',
        f'ALTER ROLE "plain role" IN DATABASE "{database}"',
    ):
        run(dsn, f"{where} SET {name} = {value}")
        found = bad(examine(dsn, role_of_node="subscriber"))[name]
        assert found.level == "error"
        assert ("plain role" in found.state) == ("plain role" in where)
        run(dsn, found.remedy)
        assert bad(examine(dsn, role_of_node="subscriber")) == {}
        run(dsn, f"{where} RESET {name}")


def test_a_short_statement_timeout_does_not_stop_the_examination(fresh_database: Database) -> None:
    run(fresh_database.dsn, f'ALTER DATABASE "{fresh_database.name}" SET statement_timeout = 1')
    for _ in range(3):
        assert bad(examine(fresh_database.dsn, role_of_node="subscriber")) == {}


def test_a_slot_that_is_gone(fresh_database: Database) -> None:
    """The distribution database knows it; slots of other databases are not looked for here."""
    name = fresh_database.name
    known = {"msrepl_gone": name, "msrepl_elsewhere": f"{name}_not"}
    found = bad(examine(fresh_database.dsn, role_of_node="publisher", registered=known))
    assert [*found] == ["slot msrepl_gone"]
    assert found["slot msrepl_gone"].level == "error"
    assert "twopc reinitialise" in found["slot msrepl_gone"].remedy


def test_read_only_and_standby() -> None:
    with EmbeddedServer.start() as server:
        dsn = server.superuser_dsn("postgres")
        run(dsn, "ALTER SYSTEM SET default_transaction_read_only = on; SELECT pg_reload_conf()")
        read_only = bad(examine(dsn, role_of_node="distribution"))["default_transaction_read_only"]
        assert read_only.level == "error"
        server.crash()
        data = server.directory / "data"
        (data / "standby.signal").touch()
        owner = data.stat()
        os.chown(data / "standby.signal", owner.st_uid, owner.st_gid)
        server.restart()
        standby = bad(examine(dsn, role_of_node="distribution"))["writable"]
        assert "standby" in standby.state


@pytest.mark.parametrize("method", ["trust", "scram-sha-256"])
def test_link_needs_a_password(method: str) -> None:
    with EmbeddedServer.start() as server:
        hba = server.directory / "data" / "pg_hba.conf"
        hba.write_text(
            f"# first line\nlocal all all {method}\nhost all all 127.0.0.1/32 {method}\n",
            encoding="utf-8",
        )
        server.restart()
        dsn = server.superuser_dsn("postgres")
        findings = examine(dsn, role_of_node="publisher")
        if method == "trust":
            found = bad(findings)["pg_hba.conf"]
            assert found.level == "error"
            assert "line 2 trust, line 3 trust" in found.state
            # The finding is correct: the link of a role without superuser rights is refused.
            run(dsn, "CREATE EXTENSION dblink; CREATE ROLE plain LOGIN PASSWORD 'p'")
            with (
                psycopg.connect(server.dsn("postgres", "plain", "p")) as connection,
                pytest.raises(psycopg.errors.ProhibitedSqlStatementAttempted),
            ):
                connection.execute(
                    "SELECT dblink_connect(%s)", (server.dsn("postgres", "plain", "p"),)
                )
        else:
            assert bad(findings) == {}


def test_password_of_pgpass_does_not_deceive(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "pgpass").write_text("*:*:*:*:wrong\n", encoding="utf-8")
    (tmp_path / "pgpass").chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "pgpass"))
    monkeypatch.setenv("PGPASSWORD", "wrong")
    assert bad(examine(server.superuser_dsn("postgres"), role_of_node="publisher")) == {}


def test_prepared_transactions(fresh_database: Database) -> None:
    fresh_database.may_leave_prepared = True
    with fresh_database.connect() as connection:
        for gid in ("twopc:c:1:1:sub", "it's another's", *(f"foreign {n}" for n in range(6))):
            connection.execute("BEGIN; SELECT pg_current_xact_id()")
            connection.execute(psycopg.sql.SQL("PREPARE TRANSACTION {}").format(gid))
    try:
        found = bad(examine(fresh_database.dsn, role_of_node="subscriber"))
        ours, others = found["prepared transactions"], found["prepared by others"]
        assert "'twopc:c:1:1:sub'" in ours.state
        assert "foreign" not in ours.state
        assert "twopc recover" in ours.remedy
        assert "; 2 more: " in others.state
        assert "ROLLBACK PREPARED 'it''s another''s';" in others.remedy
        assert f"as postgres, in {fresh_database.name}" in others.remedy
    finally:
        for gid in ("it''s another''s", *(f"foreign {n}" for n in range(6))):
            run(fresh_database.dsn, f"ROLLBACK PREPARED '{gid}'")


def test_wrong_dsn(server: EmbeddedServer, plain: str) -> None:
    password = "not the password"
    wrong = {
        "host=127.0.0.1 port=1 password=hunter2": "start the server",
        "host=/nonexistent password=hunter2": "start the server",
        conninfo.make_conninfo(plain, password=password): "correct user, password",
        server.superuser_dsn("no such database"): "correct user, password",
        "postgresql://u:hunter2@127.0.0.1:port/d": "write it as",
        "password=hunter2 and more": "write it as",
    }
    for dsn, remedy in wrong.items():
        (finding,) = examine(dsn, role_of_node="publisher")
        assert (finding.level, finding.what) == ("error", "connection"), dsn
        assert finding.remedy.startswith(remedy), dsn
        for secret in ("hunter2", password):
            assert secret not in f"{finding}"


def test_server_that_never_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        (finding,) = examine(
            f"host=127.0.0.1 port={port} connect_timeout=2", role_of_node="publisher"
        )
    assert (finding.level, finding.what) == ("error", "connection")
    assert finding.remedy.startswith("start the server")


def test_missing_grants(fresh_database: Database) -> None:
    roles = ["coordinator", "link", 'an "app"']
    dsn = fresh_database.dsn
    create = "".join(f'CREATE ROLE "{role.replace(chr(34), chr(34) * 2)}";' for role in roles)
    run(dsn, create)
    try:
        lines = missing_grants(dsn, "coordinator", [*roles, "link"])
        assert lines == (
            'GRANT "an ""app""" TO "coordinator" WITH SET TRUE;',
            'GRANT "link" TO "coordinator" WITH SET TRUE;',
        )
        # Membership that only inherits does not permit SET ROLE.
        run(dsn, "GRANT link TO coordinator WITH SET FALSE, INHERIT TRUE")
        assert len(missing_grants(dsn, "coordinator", roles)) == 2
        run(dsn, "\n".join(lines))
        assert missing_grants(dsn, "coordinator", roles) == ()
        assert missing_grants(dsn, "postgres", roles) == ()  # a superuser needs none
        with pytest.raises(ServerError, match='CREATE ROLE "nobody here";'):
            missing_grants(dsn, "coordinator", ["nobody here"])
    finally:
        run(dsn, create.replace("CREATE", "DROP"))
    with pytest.raises(ServerError, match="twopc doctor"):
        missing_grants("host=127.0.0.1 port=1", "coordinator", roles)


def test_format() -> None:
    findings = [
        Finding(level="ok", what="a", state="fine"),
        Finding(level="error", what="longer", state="off: bad", remedy="do this\nand that"),
    ]
    assert format_findings(findings) == [
        "ok       a       fine",
        "error    longer  off: bad",
        "         do this",
        "         and that",
    ]
    assert format_findings([]) == []
