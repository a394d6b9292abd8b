"""Tests of settling a branch after its answer was lost: fences, owners, and active sessions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing

import psycopg
import pytest
from psycopg import errors as pg
from psycopg import sql

from tests.fix_link import until
from tests.fix_server import Database
from twopc.drivers.install import install_participant
from twopc.drivers.participant import ParticipantAddress, ServerParticipant
from twopc.names import SCHEMA
from twopc.protocol.effects import Outcome
from twopc.server import EmbeddedServer
from twopc.sql.render import render

GID = "twopc:c:1:1:pub"
MARK = f"insert into msrepl.branch_marker (gid, xid, participants) values ('{GID}', pg_current_xact_id(), '{{}}')"


@pytest.fixture
async def place(fresh_database: Database) -> Database:
    """A participant's database with a table ``t``."""
    await furnish(fresh_database)
    return fresh_database


async def furnish(database: Database) -> None:
    """Install what a participant needs, and a table ``t``."""
    async with await psycopg.AsyncConnection.connect(database.dsn, autocommit=True) as connection:
        await connection.execute(f"create schema {SCHEMA}".encode())
        owner = sql.Identifier("postgres")
        await connection.execute(render("twopc", "branch_marker", owner=owner).encode())
        await install_participant(connection, "postgres", "postgres")
        await connection.execute("create table t (n integer)")


@pytest.fixture
async def participant(place: Database) -> AsyncIterator[ServerParticipant]:
    """The participant as the coordinator sees it."""
    made = ServerParticipant(ParticipantAddress(name="pub", dsn=place.dsn), "c")
    yield made
    await made.close()


@pytest.fixture
def connect(place: Database) -> Iterator[Callable[[], psycopg.Connection]]:
    """A function that makes connections, which are closed after the test."""
    made: list[psycopg.Connection] = []

    def make() -> psycopg.Connection:
        made.append(place.connect())
        return made[-1]

    yield make
    for connection in made:
        connection.close()


Connect = Callable[[], psycopg.Connection]


def rows(place: Database) -> int:
    with closing(place.connect()) as connection:
        return connection.execute("select n from t").rowcount


def prepare(connection: psycopg.Connection, *, marked: bool = True) -> None:
    connection.execute("begin; insert into t values (1)")
    if marked:
        connection.execute(MARK.encode())
    connection.execute(f"prepare transaction '{GID}'".encode())


@pytest.mark.parametrize("outcome", [Outcome.COMMITTED, Outcome.ABORTED])
async def test_a_prepared_branch_is_finished(
    participant: ServerParticipant, connect: Connect, place: Database, outcome: Outcome
) -> None:
    prepare(connect())
    assert await participant.settle(GID, outcome, []) is outcome
    assert rows(place) == (1 if outcome is Outcome.COMMITTED else 0)
    assert await participant.settle(GID, outcome, []) is outcome
    other = Outcome.ABORTED if outcome is Outcome.COMMITTED else Outcome.COMMITTED
    assert await participant.settle(GID, other, []) is outcome, "it never flips"


async def test_a_branch_that_never_was_is_fenced(
    participant: ServerParticipant, connect: Connect
) -> None:
    assert await participant.settle(GID, Outcome.COMMITTED, ["sub1"]) is Outcome.ABORTED
    assert await participant.markers([GID]) == {GID: True}
    late = connect()
    late.execute("begin; insert into t values (1)")
    with pytest.raises(pg.UniqueViolation):
        late.execute(MARK.encode())


async def test_a_branch_that_is_open_keeps_its_outcome_open(
    participant: ServerParticipant, connect: Connect
) -> None:
    """A fence waits one second for an open branch to end, and then fails without an outcome."""
    session = connect()
    session.execute("begin")
    session.execute(MARK.encode())
    with pytest.raises(pg.LockNotAvailable):
        await participant.settle(GID, Outcome.ABORTED, [])
    session.execute("rollback")
    assert await participant.settle(GID, Outcome.ABORTED, []) is Outcome.ABORTED


async def test_a_fence_waits_for_a_branch_that_then_commits(
    participant: ServerParticipant, connect: Connect, place: Database
) -> None:
    session = connect()
    session.execute("begin")
    session.execute(MARK.encode())
    asking = asyncio.create_task(participant.settle(GID, Outcome.ABORTED, []))
    query = (
        "select pid from pg_stat_activity where wait_event_type = 'Lock' and query like '%fence%'"
    )
    with closing(place.connect()) as eyes:
        await until(lambda: eyes.execute(query).fetchall(), "the fence to wait")
    session.execute("commit")
    assert await asking is Outcome.COMMITTED


async def test_a_late_prepare_does_not_outlive_its_abort(
    participant: ServerParticipant, connect: Connect, place: Database
) -> None:
    """A PREPARE that completes after the first attempt to abort it is aborted by the next one.

    The client is gone, but its backend still executes PREPARE: nothing is prepared yet. Without the
    fence, "nothing to roll back" would be followed by a branch that no process finishes.
    """
    gate, late = connect(), connect()
    gate.execute("select pg_advisory_lock(1)")
    gate.execute(
        """
        create function wait_at_gate() returns trigger language plpgsql as
        $$ begin perform pg_advisory_lock(1); perform pg_advisory_unlock(1); return null; end $$;
        create constraint trigger wait_at_gate after insert on t deferrable initially deferred
        for each row execute function wait_at_gate();
        """
    )
    late.execute("set client_connection_check_interval = 0")
    late.execute("begin; insert into t values (1)")
    late.execute(MARK.encode())
    pid = late.info.backend_pid
    late.pgconn.send_query(f"prepare transaction '{GID}'".encode())
    query = "select 1 from pg_stat_activity where pid = %s and wait_event = 'advisory'"
    await until(lambda: gate.execute(query, (pid,)).fetchall(), "PREPARE to reach the gate")
    late.pgconn.finish()

    with pytest.raises(pg.LockNotAvailable):
        await participant.settle(GID, Outcome.ABORTED, [])
    gate.execute("select pg_advisory_unlock(1)")
    alive = "select 1 from pg_stat_activity where pid = %s"
    await until(lambda: not gate.execute(alive, (pid,)).fetchall(), "the backend to end")
    assert await participant.owner_of(GID) is not None, "PREPARE has succeeded after all"
    assert await participant.settle(GID, Outcome.ABORTED, []) is Outcome.ABORTED
    assert await participant.owner_of(GID) is None
    assert rows(place) == 0


async def test_two_finishers_at_once_agree(
    participant: ServerParticipant, connect: Connect, place: Database
) -> None:
    second = ServerParticipant(ParticipantAddress(name="pub", dsn=place.dsn), "c")
    session = connect()
    for _ in range(20):
        session.execute("delete from msrepl.branch_marker")
        prepare(session)
        told = await asyncio.gather(
            participant.settle(GID, Outcome.COMMITTED, []),
            second.settle(GID, Outcome.ABORTED, []),
        )
        assert told[0] is told[1]
    await second.close()


async def test_a_stale_connection_is_made_again(
    participant: ServerParticipant, place: Database
) -> None:
    assert await participant.prepared("twopc:") == {}
    with closing(place.connect()) as admin:
        admin.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
            " where application_name = 'twopc recovery c'"
        )
    assert await participant.prepared("twopc:") == {}


# -- who may finish a branch -----------------------------------------------------------------------


@pytest.fixture
def roles(place: Database) -> Iterator[tuple[str, str]]:
    """A role that prepares, and one that coordinates."""
    with closing(place.connect()) as admin:
        admin.execute(
            "create role preparer login password 'x'; create role conductor login password 'x'"
        )
        admin.execute("grant usage on schema msrepl, public to preparer, conductor")
        admin.execute("grant insert on t, msrepl.branch_marker to preparer")
        admin.execute("grant select on msrepl.branch_marker to conductor")
        for function in ("fence_branch(text, text[])", "forget_branches(text[])"):
            admin.execute(f"grant execute on function msrepl.{function} to conductor".encode())
    yield "preparer", "conductor"
    with closing(place.connect()) as admin:
        for row in admin.execute(
            "select gid from pg_prepared_xacts where owner = 'preparer'"
        ).fetchall():
            admin.execute(f"rollback prepared '{row[0]}'".encode())
        admin.execute("drop owned by preparer, conductor; drop role preparer, conductor")


async def test_a_branch_is_finished_under_the_role_that_prepared_it(
    roles: tuple[str, str], place: Database
) -> None:
    conductor = ServerParticipant(
        ParticipantAddress(name="pub", dsn=place.server.dsn(place.name, roles[1], "x")), "c"
    )
    with psycopg.connect(place.server.dsn(place.name, roles[0], "x"), autocommit=True) as session:
        prepare(session)
    try:
        with pytest.raises(pg.InsufficientPrivilege, match="GRANT preparer TO conductor"):
            await conductor.settle(GID, Outcome.COMMITTED, [])
        with closing(place.connect()) as admin:
            admin.execute("grant preparer to conductor")
        assert await conductor.settle(GID, Outcome.COMMITTED, []) is Outcome.COMMITTED
        assert await conductor.database.fetch("select current_user") == [("conductor",)]
    finally:
        await conductor.close()


async def test_markers_are_forgotten_by_gid_and_by_epoch(
    participant: ServerParticipant, connect: Connect
) -> None:
    session = connect()
    for sequence in range(1, 8):
        session.execute(MARK.replace(":1:1:", f":1:{sequence}:").encode())
    session.execute(MARK.replace(":1:1:", ":11:1:").encode())
    await participant.forget([GID, "twopc:c:1:2:pub", "twopc:c:9:9:pub"])
    assert await participant.forget_epoch("twopc:c:1:", 3) == 3
    assert await participant.forget_epoch("twopc:c:1:", 3) == 2
    left = session.execute("select gid from msrepl.branch_marker").fetchall()
    assert left == [("twopc:c:11:1:pub",)]


async def test_a_commit_that_no_standby_has_is_not_settled_yet() -> None:
    """A commit whose wait for the synchronous standby was cancelled is not settled.

    It is committed locally only, and may be lost with this server.
    """
    with EmbeddedServer.start() as server:
        server.create_database("db")
        place = Database(server=server, name="db")
        await furnish(place)
        participant = ServerParticipant(ParticipantAddress(name="pub", dsn=place.dsn), "c")
        with closing(place.connect()) as admin:
            prepare(admin)
            admin.execute("alter system set synchronous_standby_names = 'nobody'")
            admin.execute("select pg_reload_conf()")
            waits = "select pid from pg_stat_activity where wait_event = 'SyncRep'"
            named = "select 1 where current_setting('synchronous_standby_names') = 'nobody'"
            await until(lambda: admin.execute(named).fetchall(), "the standby to be named")
            settling = asyncio.create_task(participant.settle(GID, Outcome.COMMITTED, []))
            ((pid,),) = await until(lambda: admin.execute(waits).fetchall(), "the commit to wait")
            admin.execute("select pg_cancel_backend(%s)", (pid,))
            with pytest.raises(psycopg.OperationalError, match="standby"):
                await settling
            asking = asyncio.create_task(participant.settle(GID, Outcome.COMMITTED, []))
            await until(
                lambda: admin.execute(waits).fetchall(), "the next answer to wait for it too"
            )
            admin.execute("alter system reset synchronous_standby_names")
            admin.execute("select pg_reload_conf()")
            assert await asking is Outcome.COMMITTED
        await participant.close()
