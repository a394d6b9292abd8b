"""Tests of the commands for running servers, as a person types them."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator

import psycopg
import pytest
from psycopg import conninfo

from tests.cli.conftest import clear
from tests.cli.in_process import twopc
from twopc.errors import RejectedError, ServerError
from twopc.server import EmbeddedServer
from twopc.sim import Topology
from twopc.sim.cli.place import run_in
from twopc.sim.operate import attach


@pytest.fixture
async def nodes(shop_server: EmbeddedServer) -> AsyncIterator[list[str]]:
    """``--node`` options of a shop with one Subscriber, whose topology's process has ended."""
    dsns = {}
    for name in ("pub", "store", "distribution"):
        shop_server.create_database(name)
        dsns[name] = shop_server.superuser_dsn(name)
    async with Topology(subscribers=("store",), dsns=dsns, name="shop", keep=True) as topology:
        await topology.execute("pub", "create table account (id int primary key, balance int)")
        await topology.execute("pub", "insert into account values (1, 100), (2, 100)")
        await topology.publish("account")
        await topology.subscribe("store")
        await topology.run("store", "update account set balance = 90 where id = 1")
    yield [word for name, dsn in dsns.items() for word in ("--node", f"{name}={dsn}")]
    clear(shop_server, dsns)


def dsn_of(nodes: list[str], name: str) -> str:
    """Return the connection string of a ``--node`` option."""
    return next(word.partition("=")[2] for word in nodes if word.startswith(f"{name}="))


def test_nothing_is_in_doubt(nodes: list[str]) -> None:
    done = twopc("indoubt", *nodes)

    assert (done.returncode, done.stdout) == (0, "nothing is prepared\n")


def test_a_branch_with_a_name_for_the_terminal(nodes: list[str]) -> None:
    """Control characters in a gid, which may be any, are not sent to the terminal."""
    gid = "gone\x1b[2J"
    with psycopg.connect(dsn_of(nodes, "pub"), autocommit=True) as connection:
        connection.execute("begin")
        connection.execute("create table gone ()")
        connection.execute(f"prepare transaction '{gid}'")
        listed = twopc("indoubt", *nodes)
        connection.execute(f"rollback prepared '{gid}'")

    assert listed.stdout.startswith("gone\\x1b[2J\n  at pub, prepared")


def test_a_branch_is_listed_and_recovered(nodes: list[str]) -> None:
    """A branch of a dead coordinator is listed with what it locks, and then settled."""
    gid = "twopc:shop:1:77:pub"
    with psycopg.connect(dsn_of(nodes, "pub"), autocommit=True) as connection:
        connection.execute("begin")
        connection.execute("update account set balance = 1 where id = 2")
        connection.execute(f"prepare transaction '{gid}'")

    listed = twopc("indoubt", *nodes)
    recovered = twopc("recover", *nodes)
    after = twopc("indoubt", *nodes)

    assert listed.returncode == 3
    assert gid in listed.stdout
    assert "at pub, prepared" in listed.stdout
    assert "1 rows locked in public.account" in listed.stdout.replace(
        "in account", "in public.account"
    )
    assert "decision: none logged" in listed.stdout
    assert recovered.returncode == 0, recovered.stderr
    assert f"{gid} at pub: aborted" in recovered.stdout
    assert after.stdout == "nothing is prepared\n"


def test_a_branch_is_forced(nodes: list[str]) -> None:
    """A forced outcome needs a reason, and is recorded."""
    gid = "twopc:shop:1:78:pub"
    with psycopg.connect(dsn_of(nodes, "pub"), autocommit=True) as connection:
        connection.execute("begin")
        connection.execute("update account set balance = 5 where id = 2")
        connection.execute(f"prepare transaction '{gid}'")

    without = twopc("indoubt", *nodes, "--force", "commit", "--gid", gid)
    forced = twopc("indoubt", *nodes, "--force", "commit", "--gid", gid, "--reason", "a test")

    assert without.returncode == 2
    assert "--reason" in without.stderr
    assert forced.returncode == 0, forced.stderr
    with psycopg.connect(dsn_of(nodes, "pub")) as connection:
        assert connection.execute("select balance from account where id = 2").fetchone() == (5,)
    with psycopg.connect(dsn_of(nodes, "distribution")) as connection:
        rows = connection.execute("select gid, reason from msrepl.heuristic_outcome").fetchall()
    assert (gid, "a test") in rows


def test_damage_is_listed(nodes: list[str]) -> None:
    """A branch that was finished against its decision stays in the list."""
    gid = "twopc:shop:1:79:pub"
    record = (
        "insert into msrepl.heuristic_outcome (gid, node, outcome, decided, forced, damage, reason) "
        "values (%s, 'pub', 'aborted', 'committed', false, true, 'found\x1b[31m aborted')"
    )
    with psycopg.connect(dsn_of(nodes, "distribution"), autocommit=True) as connection:
        connection.execute(record.encode(), (gid,))

    listed = twopc("indoubt", *nodes)
    as_json = json.loads(twopc("indoubt", *nodes, "--json").stdout)

    assert listed.returncode == 0, listed.stderr
    assert (
        f"{gid}\n  at pub: aborted, but decided was committed: the nodes differ\n" in listed.stdout
    )
    assert "\x1b" not in listed.stdout
    assert [one["gid"] for one in as_json["damage"]] == [gid]


async def test_regenerate_after_alter_table(nodes: list[str], shop_server: EmbeddedServer) -> None:
    """The error about a stale article names the command that mends it."""
    for name in ("pub", "store"):
        with psycopg.connect(dsn_of(nodes, name), autocommit=True) as connection:
            connection.execute("alter table account add column note text")
    dsns = {name: dsn_of(nodes, name) for name in ("pub", "store", "distribution")}
    async with Topology(subscribers=("store",), dsns=dsns, name="shop", attach=True) as topology:
        with pytest.raises(RejectedError) as caught:
            await topology.run("store", "update account set note = 'x' where id = 1")
        assert "Run: twopc regenerate" in caught.value.hint

        done = twopc("regenerate", "account", *nodes)

        assert done.returncode == 0, done.stderr
        await topology.run("store", "update account set note = 'x' where id = 1")
        assert ("x",) in await topology.execute("pub", "select note from account")


def test_a_script_for_a_new_subscriber(nodes: list[str], shop_server: EmbeddedServer) -> None:
    """A script for a database with existing rows is printed without a password."""
    shop_server.create_database("second")
    try:
        dsn = shop_server.superuser_dsn("second")
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(
                "create table account (id int primary key, balance int,"
                " msrepl_tran_version uuid not null default gen_random_uuid())"
            )

        done = twopc("script", "second", *nodes, "--node", f"second={dsn}")

        assert done.returncode == 0, done.stderr
        assert 'function "msrepl"."trg_mssync_upd_account"()' in done.stdout
        assert "ALTER ROLE msrepl_link_" in done.stdout
        assert "password '" not in done.stdout.lower()
        assert "Give it a password" in done.stderr
    finally:
        shop_server.drop_database("second")


def test_a_wrong_password(nodes: list[str], shop_server: EmbeddedServer) -> None:
    """A wrong password is reported for its node alone, although others are on the same server."""
    wrong = f"postgresql+psycopg://postgres:sesame@127.0.0.1:{shop_server.port}/pub"

    done = twopc("recover", "--node", f"pub={wrong}", *nodes[2:])

    assert done.returncode == 3, done.stderr
    assert done.stdout.startswith("pub: not reached: "), done.stdout
    assert "password authentication failed" in done.stdout
    assert "distribution" not in done.stdout + done.stderr
    assert "sesame" not in done.stdout + done.stderr


async def test_a_server_that_does_not_answer(nodes: list[str]) -> None:
    """A server that accepts connections and does not answer is tried once, and with a timeout."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        dsn = f"postgresql://postgres@127.0.0.1:{silent.getsockname()[1]}/store"

        done = twopc("recover", *nodes[:2], *nodes[4:], "--node", f"store={dsn}?connect_timeout=2")

        assert (done.returncode, done.stdout.splitlines()[0]) == (
            3,
            "store: not reached: connection timeout expired",
        )
        silent.setblocking(False)
        silent.accept()[0].close()
        with pytest.raises(BlockingIOError):
            silent.accept()
    given = {name: dsn_of(nodes, name) for name in ("pub", "store", "distribution")}
    async with await attach(given) as topology:
        for name in given:
            assert "connect_timeout" in conninfo.conninfo_to_dict(topology.node(name).dsn)


def test_mistakes(nodes: list[str]) -> None:
    """A mistake is reported with what to write instead, and exit code 2 or 4."""
    for words, code, text in (
        (["indoubt", "--node", "pub"], 2, "write NAME=DSN"),
        (["indoubt", "--node", "pub=host=/nowhere"], 4, "node 'pub'"),
        (["indoubt", *nodes[2:4]], 4, "0 of the nodes given are Publishers"),
        (["recover", "--node", f"shop={dsn_of(nodes, 'store')}"], 4, "set up as 'store'"),
        (["regenerate", "nothing", *nodes], 4, "nothing"),
        (["doctor", "--node", "master=host=/nowhere"], 2, "publisher=DSN"),
        (["doctor", "--node", "publisher=host=/nowhere"], 4, None),
    ):
        done = twopc(*words)
        assert done.returncode == code, (words, done.stdout, done.stderr)
        assert text is None or text in done.stderr, (words, done.stderr)
        assert "Traceback" not in done.stderr, done.stderr


def test_the_doctor_finds_the_embedded_server_fit() -> None:
    """Without a DSN, `doctor` examines what `twopc run` would use."""
    done = twopc("doctor")

    assert done.returncode == 0, done.stdout
    assert "wal_level" in done.stdout


def test_clean_has_nothing_to_do_twice() -> None:
    assert twopc("clean").returncode == 0
    assert twopc("clean").stdout == "nothing was left behind\n"


def test_an_error_without_sqlstate() -> None:
    """The error of a connection that is lost names no SQLSTATE."""

    async def opening() -> None:
        raise psycopg.OperationalError("the connection is lost")

    with pytest.raises(ServerError, match=r"^PostgreSQL says: the connection is lost$"):
        run_in(opening(), lambda topology: opening())
