"""The places where passwords are stored, and where they must not appear."""

from __future__ import annotations

import asyncio
import io

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tests.fix_log import loggers_restored
from tests.fix_topology import ACCOUNT, ROWS, Pair, share
from twopc.log import configure
from twopc.server import EmbeddedServer
from twopc.sim.topology import Topology


async def test_the_password_of_the_link_cannot_be_read(pair: Pair) -> None:
    """The link's password is in the user mapping of our owner role, and in no other place."""
    await pair.run("update account set balance = 1 where id = 1")
    stored = "select umoptions from pg_user_mappings where srvname = 'msrepl_publisher'"
    [(options,)] = await pair.topology.execute("sub1", stored)
    password = next(o.partition("=")[2] for o in options if o.startswith("password="))
    assert len(password) >= 24

    assert await pair.execute(stored) == [(None,)]
    for query in (
        "select * from information_schema.user_mapping_options",
        "select * from pg_foreign_server",
        "select name, setting, boot_val, reset_val from pg_settings",
        "select * from pg_stat_activity",
        "select proname, prosrc, proconfig from pg_proc where pronamespace > 16384",
        "select * from pg_db_role_setting",
        "select * from pg_stat_ssl",
        "select obj_description(oid) from pg_class",
    ):
        assert password not in str(await pair.execute(query)), query


#: Settings of a server that logs every statement, including failed ones, with its parameters.
TALKATIVE = {
    "log_statement": "all",
    "log_min_duration_statement": "0",
    "log_min_error_statement": "debug5",
    "log_min_messages": "debug1",
    "log_connections": "on",
    "log_parameter_max_length": "-1",
    "log_parameter_max_length_on_error": "-1",
    "shared_preload_libraries": "pg_stat_statements",
}


async def test_no_password_is_written_anywhere() -> None:
    """No password appears in the server log, statistics, our log events, reprs or errors."""
    heard = io.StringIO()
    with loggers_restored():
        configure(level="debug", layout="json", stream=heard)
        with await asyncio.to_thread(EmbeddedServer.start, settings=TALKATIVE) as server:
            said = await use_everything(server)
            said.texts["the server's log"] = server.log_tail(1_000_000)
    said.texts["our log"] = heard.getvalue()

    assert "create server" in said.texts["the server's log"], "it does not log what it should"
    assert "create user mapping" not in said.texts["the server's log"]
    assert "server started" in said.texts["our log"]
    for place, text in said.texts.items():
        for whose, password in said.passwords.items():
            assert password not in text, f"the {whose}'s password is in {place}"


class Said:
    """The texts that were produced, and the passwords that must not be in them."""

    def __init__(self) -> None:
        self.passwords: dict[str, str] = {}
        self.texts: dict[str, str] = {}


async def use_everything(server: EmbeddedServer) -> Said:
    """Create, use, break and remove a topology on a server; return the texts that it produced."""
    said = Said()
    await asyncio.to_thread(server.create_database, "statistics")
    async with Topology(subscribers=("sub1",), server=server) as topology:
        with psycopg.connect(server.superuser_dsn("statistics"), autocommit=True) as admin:
            admin.execute("create extension pg_stat_statements")
        await share(topology, "account", ACCOUNT, ROWS)
        pair = Pair(topology, "sub1")
        await pair.open()
        await pair.run("update account set balance = 1 where id = 1")
        [(options,)] = await topology.execute(
            "sub1", "select umoptions from pg_user_mappings where srvname = 'msrepl_publisher'"
        )
        node = topology.node("sub1")
        said.passwords = {
            "link": next(o.partition("=")[2] for o in options if o.startswith("password=")),
            "application": node.app_password,
            "coordinator": node.coordinator_password,
            "superuser": str(conninfo_to_dict(server.superuser_dsn("postgres"))["password"]),
        }
        [(role,)] = await topology.execute("pub", "select link_role from msrepl.syssubscriptions")
        await topology.execute("pub", f'alter role "{role}" nologin')
        await pair.app.close()
        await pair.open()
        error = await pair.refused("update account set balance = 2 where id = 1")
        diag = error.diag
        said.texts["an error"] = f"{error!r} {error} {diag.message_detail} {diag.message_hint}"
        said.texts["a repr"] = f"{topology!r} {node!r} {node.server!r} {topology.nodes!r}"
        with psycopg.connect(server.superuser_dsn("statistics"), autocommit=True) as admin:
            rows = admin.execute("select query from pg_stat_statements").fetchall()
            assert len(rows) > 50
            said.texts["the statistics"] = str(rows)
        await pair.app.close()
        await topology.execute("pub", f'alter role "{role}" login')
        await topology.unsubscribe("sub1")
    await asyncio.to_thread(server.drop_database, "statistics")
    return said
