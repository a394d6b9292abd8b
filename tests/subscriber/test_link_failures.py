"""The link when the Publisher is down, restarts or terminates it: clear errors, no partial changes."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from tests.fix_link import ApartPair, MakeApart, facts_of, holding, until
from tests.fix_topology import ACCOUNT, BALANCES, ROWS
from twopc.errors import PublisherUnreachableError, from_sqlstate

RESTARTS = ["fast", "immediate", "kill"]


@pytest.fixture
async def pair(make_apart: MakeApart) -> ApartPair:
    return await make_apart(ACCOUNT, ROWS, publish=["account"])


def assert_unreachable(error: psycopg.Error, sqlstate: str) -> None:
    """Assert that the error tells the application and the coordinator that the Publisher is unreachable."""
    assert error.sqlstate == sqlstate, error
    facts = facts_of(error)
    assert (facts["kind"], facts["number"]) == ("publisher_unreachable", 21054)
    assert "committed at either site" in str(error.diag.message_hint)
    told = from_sqlstate(sqlstate, str(error), detail=str(error.diag.message_detail))
    assert isinstance(told, PublisherUnreachableError)
    assert told.number == 21054


async def assert_untouched(pair: ApartPair) -> None:
    """Assert that neither end has anything of the failed transaction."""
    there, here = await pair.rows(BALANCES)
    assert there == here == [(g, 100) for g in range(1, 6)]
    there, here = await pair.rows("select count(*) from msrepl.branch_marker")
    assert there == here
    assert pair.eyes.prepared(pair.database) == []


@pytest.mark.parametrize("shipping", ["eager", "lazy"])
async def test_a_publisher_that_is_down_refuses_the_change(pair: ApartPair, shipping: str) -> None:
    """The transaction fails with 21054; when the Publisher is up again, the session works unaided."""
    await asyncio.to_thread(pair.servers.publisher.crash)

    error = await pair.refused("update account set balance = 1 where id = 1", shipping=shipping)

    assert_unreachable(error, "08001")
    assert "cannot be reached" in str(error)
    await asyncio.to_thread(pair.servers.publisher.restart)
    await pair.forget_publisher()
    await assert_untouched(pair)
    assert await pair.run("update account set balance = 2 where id = 1", shipping=shipping) == 1
    assert (1, 2) in (await pair.rows(BALANCES))[0]
    await pair.same("account")


@pytest.mark.parametrize("shipping", ["eager", "lazy"])
@pytest.mark.parametrize("how", RESTARTS)
async def test_a_restart_between_transactions_is_not_noticed(
    pair: ApartPair, how: str, shipping: str
) -> None:
    """The link has ended with the old server; the next transaction opens another."""
    await pair.run("update account set balance = 1 where id = 1", shipping=shipping)
    await pair.restart_publisher(how)

    await pair.run("update account set balance = 2 where id = 1", shipping=shipping)

    assert (1, 2) in (await pair.rows(BALANCES))[0]
    await pair.same("account")


@pytest.mark.parametrize("how", RESTARTS)
async def test_a_restart_in_mid_transaction_fails_all_that_follows(
    pair: ApartPair, how: str
) -> None:
    """Sent calls are lost, so only a rollback is possible, however the error is handled."""
    await pair.begin()
    await pair.execute("update account set balance = 1 where id = 1")
    await pair.restart_publisher(how)

    await pair.execute("savepoint a")
    assert_unreachable(await pair.fails("update account set balance = 2 where id = 2"), "08006")
    await pair.execute("rollback to a")
    assert_unreachable(await pair.fails("delete from account where id = 3"), "08006")
    await pair.execute("rollback to a")
    await pair.execute(
        "do $$ begin update account set balance = 3 where id = 3;"
        " exception when connection_exception then null; end $$"
    )
    with pytest.raises(psycopg.Error) as caught:
        await pair.prepare()
    assert_unreachable(caught.value, "08006")
    assert "broke within the transaction" in str(caught.value)
    await pair.rollback()

    await assert_untouched(pair)
    assert await pair.run("update account set balance = 4 where id = 4") == 1
    await pair.same("account")


async def test_a_restart_after_a_savepoint_that_held_everything(pair: ApartPair) -> None:
    """If all calls that were sent are also rolled back locally, the transaction can continue."""
    await pair.begin()
    await pair.execute("savepoint a")
    await pair.execute("update account set balance = 1 where id = 1")
    await pair.restart_publisher("immediate")

    assert_unreachable(await pair.fails("update account set balance = 2 where id = 2"), "08006")
    await pair.execute("rollback to a")
    await pair.execute("update account set balance = 3 where id = 3")
    assert await pair.commit() == 1

    assert (3, 3) in (await pair.rows(BALANCES))[0]
    await pair.same("account")


async def test_a_restart_does_not_hurt_what_is_still_queued(pair: ApartPair) -> None:
    """With lazy shipping no call was sent, so the whole branch is sent over the new link."""
    await pair.run("update account set balance = 1 where id = 1")
    await pair.begin(shipping="lazy")
    await pair.execute("update account set balance = 2 where id = 2")
    await pair.restart_publisher("kill")

    await pair.execute("update account set balance = 3 where id = 3")
    await pair.commit()

    assert {(2, 2), (3, 3)} <= set((await pair.rows(BALANCES))[0])
    await pair.same("account")


async def test_link_ended_while_idle_in_transaction(pair: ApartPair) -> None:
    """If the link's backend is terminated between two statements, the transaction fails."""
    await pair.begin()
    await pair.execute("update account set balance = 1 where id = 1")
    link = pair.eyes.open_link(pair)
    assert link.state == "idle in transaction"
    await pair.at_publisher(f"select pg_terminate_backend({link.pid}, 5000)")

    assert_unreachable(await pair.fails("update account set balance = 2 where id = 2"), "08006")
    await pair.rollback()

    await assert_untouched(pair)
    assert await pair.run("update account set balance = 2 where id = 2") == 1


async def test_link_ended_while_a_later_statement_waits(make_apart: MakeApart) -> None:
    """A later statement fails at once, and not after its lock timeout."""
    pair = await make_apart(ACCOUNT, ROWS, publish=["account"], lock_timeout_ms=60_000)
    async with holding(pair):
        await pair.begin()
        await pair.execute("update account set balance = 1 where id = 1")
        task = asyncio.create_task(pair.fails("update account set balance = 2 where id = 2"))
        link = await pair.eyes.waiting_link(pair)
        await pair.at_publisher(f"select pg_terminate_backend({link.pid}, 5000)")
        assert_unreachable(await task, "08006")
        await pair.rollback()

    await assert_untouched(pair)


async def test_link_ended_while_the_first_statement_waits(make_apart: MakeApart) -> None:
    """No call is lost yet, so the first call is repeated once over a new link."""
    pair = await make_apart(ACCOUNT, ROWS, publish=["account"], lock_timeout_ms=60_000)
    await pair.run("update account set balance = 100 where id = 1")
    async with holding(pair) as holder:
        task = asyncio.create_task(pair.run("update account set balance = 2 where id = 2"))
        first = await pair.eyes.waiting_link(pair)
        await pair.at_publisher(f"select pg_terminate_backend({first.pid}, 5000)")
        second = await pair.eyes.waiting_link(pair)
        assert second.pid != first.pid
        await holder.execute("rollback")
        assert await task == 1

    assert (2, 2) in (await pair.rows(BALANCES))[0]
    await pair.same("account")


async def test_link_ended_twice_is_not_repeated_again(make_apart: MakeApart) -> None:
    """A call is repeated only once, because the Publisher might terminate every link."""
    pair = await make_apart(ACCOUNT, ROWS, publish=["account"], lock_timeout_ms=60_000)
    await pair.run("update account set balance = 100 where id = 1")
    async with holding(pair):
        task = asyncio.create_task(pair.refused("update account set balance = 2 where id = 2"))
        for _ in range(2):
            link = await pair.eyes.waiting_link(pair)
            await pair.at_publisher(f"select pg_terminate_backend({link.pid}, 5000)")
        assert_unreachable(await task, "08006")

    await assert_untouched(pair)


async def test_link_ended_while_a_statement_executes(make_apart: MakeApart) -> None:
    """A statement that is executing and waits for no lock fails at once as well."""
    pair = await make_apart(
        ACCOUNT,
        ROWS,
        """
        create function dawdle() returns trigger language plpgsql as $$
        begin perform pg_sleep(60); return null; end $$
        """,
        """
        create trigger dawdle after update on account
        for each row when (new.balance = -1) execute function dawdle()
        """,
        publish=["account"],
    )
    await pair.begin()
    await pair.execute("update account set balance = 1 where id = 1")
    task = asyncio.create_task(pair.fails("update account set balance = -1 where id = 2"))
    asleep = "select pid from pg_stat_activity where wait_event = 'PgSleep'"
    [(pid,)] = await until(lambda: pair.eyes.fetch(asleep), "the trigger to dawdle")
    await pair.at_publisher(f"select pg_terminate_backend({pid}, 5000)")

    assert_unreachable(await task, "08006")
    await pair.rollback()
    await assert_untouched(pair)


async def test_link_idle_in_transaction_for_too_long(pair: ApartPair) -> None:
    """The Publisher's timeout for idle transactions ends the link, and so the transaction."""
    await pair.set_link(options="-c idle_in_transaction_session_timeout=100ms")
    await pair.begin()
    await pair.execute("update account set balance = 1 where id = 1")
    link = pair.eyes.open_link(pair)
    await pair.eyes.gone(link.pid)

    assert_unreachable(await pair.fails("update account set balance = 2 where id = 2"), "08006")
    await pair.rollback()
    await assert_untouched(pair)

    # a link that a local ROLLBACK left open, and that has ended since, is replaced
    await pair.begin()
    await pair.execute("update account set balance = 1 where id = 1")
    link = pair.eyes.open_link(pair)
    await pair.execute("rollback")
    await pair.eyes.gone(link.pid)
    assert await pair.run("update account set balance = 2 where id = 2") == 1
    await pair.same("account")


async def test_link_that_the_publisher_ends_between_transactions(pair: ApartPair) -> None:
    """The Publisher's timeout may also end idle sessions; the next transaction opens another link."""
    await pair.set_link(options="-c idle_session_timeout=100ms")
    await pair.run("update account set balance = 1 where id = 1")
    link = pair.eyes.link(pair)
    if link is not None:
        await pair.eyes.gone(link.pid)

    await pair.run("update account set balance = 2 where id = 2")

    await pair.same("account")


async def test_transaction_that_takes_the_publisher_too_long(pair: ApartPair) -> None:
    """The Publisher's transaction_timeout ends the link, and so the transaction."""
    await pair.set_link(options="-c transaction_timeout=200ms")
    await pair.begin()
    await pair.execute("update account set balance = 1 where id = 1")
    link = pair.eyes.link(pair)
    if link is not None:
        await pair.eyes.gone(link.pid)

    assert_unreachable(await pair.fails("update account set balance = 2 where id = 2"), "08006")
    await pair.rollback()
    await assert_untouched(pair)


async def link_role(pair: ApartPair) -> str:
    """Return the role with which the Subscriber connects to the Publisher."""
    [(role,)] = await pair.topology.execute("pub", "select link_role from msrepl.syssubscriptions")
    return str(role)


async def break_password(pair: ApartPair) -> None:
    await pair.at_publisher(f"alter role {await link_role(pair)} password 'another one'")


async def break_login(pair: ApartPair) -> None:
    await pair.at_publisher(f"alter role {await link_role(pair)} nologin")


async def break_right(pair: ApartPair) -> None:
    await pair.at_publisher(f"revoke connect on database {pair.database} from public")
    await pair.at_publisher(
        f"revoke connect on database {pair.database} from {await link_role(pair)}"
    )


async def break_limit(pair: ApartPair) -> None:
    await pair.at_publisher(f"alter role {await link_role(pair)} connection limit 0")


async def break_database(pair: ApartPair) -> None:
    await pair.set_link(dbname="nowhere")


async def break_port(pair: ApartPair) -> None:
    await pair.set_link(port="1")


async def break_hba(pair: ApartPair) -> None:
    path = pair.servers.publisher.directory / "data" / "pg_hba.conf"
    path.write_text(
        f"local all {await link_role(pair)} reject\n" + path.read_text(encoding="utf-8"),
        encoding="utf-8",
    )
    await pair.at_publisher("select pg_reload_conf()")


async def break_server(pair: ApartPair) -> None:
    await pair.topology.execute("sub1", "drop server msrepl_publisher cascade")


async def break_mapping(pair: ApartPair) -> None:
    await pair.topology.execute(
        "sub1",
        "do $$ begin execute (select format('drop user mapping for %I server msrepl_publisher',"
        " usename) from pg_user_mappings); end $$",
    )


async def break_usage(pair: ApartPair) -> None:
    await pair.topology.execute(
        "sub1",
        "do $$ begin execute (select format('revoke usage on foreign server msrepl_publisher from %I',"
        " usename) from pg_user_mappings); end $$",
    )


@pytest.mark.parametrize(
    ("breakage", "sqlstate", "reason", "remedy"),
    [
        (break_password, "08001", "password authentication failed", "ALTER ROLE"),
        (break_login, "08001", "not permitted to log in", "ALTER ROLE"),
        (break_right, "08001", "permission denied for database", "GRANT CONNECT ON DATABASE"),
        (break_limit, "08001", "too many connections for role", "limit of the link role"),
        (break_database, "08001", 'database "nowhere" does not exist', "SET dbname"),
        (break_port, "08001", "No such file or directory", "when the Publisher is up"),
        (break_hba, "08001", "pg_hba.conf", "pg_hba.conf"),
        (break_server, "2F003", "credentials required", "unsubscribe and subscribe again"),
        (break_mapping, "42704", "user mapping not found", "unsubscribe and subscribe again"),
        (break_usage, "42501", "permission denied for foreign server", "unsubscribe and subscribe"),
    ],
)
async def test_why_the_link_cannot_be_opened(
    pair: ApartPair, breakage: Any, sqlstate: str, reason: str, remedy: str
) -> None:
    """If only an administrator can help, the error has the reason and the remedy, and no password."""
    [(password,)] = await pair.topology.execute(
        "sub1", "select umoptions[2] from pg_user_mappings where srvname = 'msrepl_publisher'"
    )
    hba = pair.servers.publisher.directory / "data" / "pg_hba.conf"
    before = hba.read_text(encoding="utf-8")
    await breakage(pair)
    try:
        error = await pair.refused("update account set balance = 1 where id = 1")
    finally:
        hba.write_text(before, encoding="utf-8")
        await pair.at_publisher("select pg_reload_conf()")

    assert_unreachable(error, sqlstate)
    assert reason in str(error)
    assert remedy in str(error.diag.message_hint)
    assert "\n" not in str(error.diag.message_primary)
    assert str(password).partition("=")[2] not in told(error)


def told(error: psycopg.Error) -> str:
    """Return everything that the application sees of an error."""
    diag = error.diag
    return " ".join(
        str(part)
        for part in (diag.message_primary, diag.message_detail, diag.message_hint, diag.context)
    )


async def test_the_text_of_a_call_stays_out_of_errors_and_logs(make_apart: MakeApart) -> None:
    """The text of a call appears neither in the error nor in the Subscriber's log.

    dblink takes the name of a link that is not open for a connection string, and reports it.
    """
    pair = await make_apart("create table note (id int primary key, body text)", publish=["note"])
    await pair.topology.execute(
        "sub1",
        f"alter role {pair.topology.node('sub1').app_role} set log_min_error_statement='error'",
    )
    await asyncio.to_thread(pair.servers.publisher.crash)
    await pair.reopen()
    await pair.begin()
    error = await pair.fails("insert into note values (1, %s)", ("the-secret-of-the-call",))
    await pair.rollback()
    await pair.begin(shipping="lazy")
    await pair.app.execute("insert into note values (1, %s)", ("the-secret-of-the-call",))
    with pytest.raises(psycopg.Error) as caught:
        await pair.prepare()
    await pair.rollback()

    log = pair.servers.subscriber.log_tail(1000)
    assert "cannot be reached" in log
    for text in (told(error), told(caught.value), log):
        assert "the-secret-of-the-call" not in text
