"""Tests of sessions terminated (57P01) or cancelled (57014) at every protocol point.

Neither error says how a branch ended, so neither is taken for an answer.
"""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from tests.drivers.bank import PUB, SUB, Bank
from tests.drivers.test_server_killed import CELLS, LOGGED, UPDATE
from tests.fix_link import until
from twopc import errors
from twopc.drivers import Points, PostgresCoordinator
from twopc.names import session_name

LOG = "distribution"
SESSIONS = {
    "the application's": (SUB, "twopc %"),
    "the link's": (PUB, "msrepl %"),
    "the finishers'": (PUB, "twopc finisher %"),
    "the decision log's": (LOG, "twopc decisions %"),
}


async def end(bank: Bank, node: str, name: str, how: str = "pg_terminate_backend") -> int:
    """Terminate or cancel the sessions with this name at a node, and return their number.

    Terminated sessions have ended when this returns.
    """
    wait = ", 5000" if how == "pg_terminate_backend" else ""
    query = f"""
        select {how}(pid{wait}) from pg_stat_activity
        where application_name like %s and datname = current_database() and pid <> pg_backend_pid()
    """
    return len(await bank.fetch(node, query, (name,)))


async def attempt(bank: Bank, coordinator: PostgresCoordinator, commit: str) -> str:
    try:
        async with coordinator.transaction(SUB, commit=commit) as transaction:
            await transaction.execute(UPDATE)
    except errors.RejectedError:
        return "rejected"
    return "committed"


@pytest.mark.sample(1, by=("commit", "whose"))
@pytest.mark.parametrize("whose", SESSIONS)
@pytest.mark.parametrize(("commit", "point"), CELLS)
async def test_a_session_ended_at_a_point(bank: Bank, commit: str, point: str, whose: str) -> None:
    points = Points()
    async with bank.coordinator(points=points) as coordinator:
        assert await attempt(bank, coordinator, commit) == "committed"  # opens all sessions
        points.arm(point, lambda _: end(bank, *SESSIONS[whose]))  # type: ignore[arg-type,return-value]
        told = await attempt(bank, coordinator, commit)
        assert not points.armed, f"{point} was not reached"
        await coordinator.recover()
        await bank.assert_atomic()
        assert await bank.balance(PUB) == (2 if told == "committed" else 1)
        assert await attempt(bank, coordinator, commit) == "committed"
    assert await bank.decisions() == []


async def waits(bank: Bank, node: str, name: str) -> None:
    """Wait until a session with this name waits for a lock."""
    query = (
        "select 1 from pg_stat_activity where application_name like %s and wait_event_type = 'Lock'"
    )

    def look() -> list[tuple[Any, ...]]:
        with psycopg.connect(bank.topology.node(node).dsn, autocommit=True) as eyes:
            return eyes.execute(query, (name,)).fetchall()

    await until(look, f"{name} to wait at {node}")


@pytest.mark.parametrize(
    ("how", "told"), [("pg_cancel_backend", "rejected"), ("pg_terminate_backend", "rejected")]
)
async def test_the_decision_is_interrupted_while_it_is_written(
    bank: Bank, how: str, told: str
) -> None:
    async with bank.coordinator() as coordinator:
        log = await psycopg.AsyncConnection.connect(bank.topology.node(LOG).dsn, autocommit=True)
        async with log:
            await log.execute("begin; lock msrepl.decision in share mode")
            trying = asyncio.create_task(attempt(bank, coordinator, "presumed_abort"))
            await waits(bank, LOG, "twopc decisions %")
            await end(bank, LOG, "twopc decisions %", how)
            await log.execute("rollback")
        assert await trying == told
        await bank.assert_atomic()
        assert await bank.balances() == (0, 0)


async def test_the_second_phase_waits_for_nobody_to_be_right(bank: Bank) -> None:
    """The second phase succeeds although its session is terminated: the branch's outcome is looked up."""
    points = Points()

    async def end_while_it_commits(_: str) -> None:
        await end(bank, PUB, "twopc finisher %")

    async with bank.coordinator(points=points) as coordinator:
        for _ in range(3):
            points.arm("coordinator.before_commit(pub)", end_while_it_commits)
            assert await attempt(bank, coordinator, "presumed_abort") == "committed"
    await bank.assert_atomic()
    assert await bank.balances() == (3, 3)


# -- the client's own cancellation -----------------------------------------------------------------


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    "point", [f"coordinator.{point}" for point in LOGGED if "begin" not in point]
)
async def test_a_commit_that_is_cancelled_goes_on_to_its_end(bank: Bank, point: str) -> None:
    points = Points()
    async with bank.coordinator(points=points) as coordinator:
        transaction = coordinator.transaction(SUB)
        task = asyncio.current_task()
        assert task is not None

        async def commit() -> None:
            async with transaction:
                await transaction.execute(UPDATE)

        working = asyncio.create_task(commit())
        points.arm(point, lambda _: working.cancel() and None)  # type: ignore[func-returns-value]
        with pytest.raises(asyncio.CancelledError):
            await working
        assert transaction.outcome == "committed"
        await bank.assert_atomic()
        assert await bank.balances() == (1, 1)


async def test_a_statement_that_is_cancelled_is_rolled_back_everywhere(bank: Bank) -> None:
    async with bank.coordinator() as coordinator:
        blocker = await psycopg.AsyncConnection.connect(
            bank.topology.node(PUB).dsn, autocommit=True
        )
        async with blocker:
            await blocker.execute("begin; select 1 from account where id = 1 for update")
            working = asyncio.create_task(attempt(bank, coordinator, "presumed_abort"))
            await waits(bank, PUB, "msrepl %")
            working.cancel()
            with pytest.raises(asyncio.CancelledError):
                await working
        await bank.assert_atomic()
        assert await attempt(bank, coordinator, "presumed_abort") == "committed"


async def test_closing_rolls_open_transactions_back(bank: Bank) -> None:
    async with bank.coordinator() as coordinator:
        transaction = await coordinator.transaction(SUB).begin()
        await transaction.execute(UPDATE)
    assert transaction.outcome == "aborted"
    with pytest.raises(errors.LocalProtocolError):
        await transaction.commit()
    await bank.assert_atomic()
    assert await bank.balances() == (0, 0)


async def test_idle_sessions_that_the_server_ended_are_replaced(bank: Bank) -> None:
    async with bank.coordinator() as coordinator:
        assert await attempt(bank, coordinator, "presumed_abort") == "committed"
        for node, name in SESSIONS.values():
            await end(bank, node, name)
        assert await attempt(bank, coordinator, "presumed_abort") == "committed"
        assert (await coordinator.run(SUB, UPDATE)).rowcount == 1
        await end(bank, SUB, "twopc %")
        assert (await coordinator.run(SUB, UPDATE)).rowcount == 1
    assert await bank.balances() == (4, 4)


@pytest.mark.parametrize("whose", ["the application's", "the decision log's"])
async def test_a_session_that_ended_a_moment_ago_is_not_used(bank: Bank, whose: str) -> None:
    """A session terminated a moment ago is not used, although the event loop has not noticed its end."""
    node, name = SESSIONS[whose]
    query = """
        select pg_terminate_backend(pid, 5000) from pg_stat_activity
        where application_name like %s and datname = current_database()
    """
    async with bank.coordinator() as coordinator:
        assert (await coordinator.run(SUB, UPDATE)).rowcount == 1
        with psycopg.connect(bank.topology.node(node).dsn) as connection:
            assert connection.execute(query, (name,)).fetchall() != []
        assert (await coordinator.run(SUB, UPDATE)).rowcount == 1
    assert await bank.balances() == (2, 2)


async def test_closing_waits_for_a_commit_that_is_under_way(bank: Bank) -> None:
    points, arrived, go = Points(), asyncio.Event(), asyncio.Event()

    async def hold(_: str) -> None:
        arrived.set()
        await go.wait()

    async with bank.coordinator(points=points) as coordinator:
        points.arm("coordinator.decision_logged", hold)
        working = asyncio.create_task(attempt(bank, coordinator, "presumed_abort"))
        await arrived.wait()
        asyncio.get_running_loop().call_soon(go.set)
    assert await working == "committed"
    await bank.assert_atomic()
    assert await bank.balances() == (1, 1)


async def test_closing_does_not_wait_for_ever(bank: Bank) -> None:
    """Closing leaves a commit that hangs to the next process's recovery; its caller gets its outcome."""
    points, arrived, go = Points(), asyncio.Event(), asyncio.Event()

    async def hold(_: str) -> None:
        arrived.set()
        await go.wait()

    async with bank.coordinator(points=points, in_doubt_after_s=0.05) as coordinator:
        points.arm("coordinator.decision_logged", hold)
        working = asyncio.create_task(attempt(bank, coordinator, "presumed_abort"))
        await arrived.wait()
    go.set()
    assert await working == "committed"
    async with bank.coordinator():
        await bank.assert_atomic()
    assert await bank.balances() == (1, 1)


async def test_sessions_of_a_fenced_epoch_are_not_used_again(bank: Bank) -> None:
    """A process does not reuse the sessions of a fenced epoch, and continues in a new epoch.

    The process that has fenced an epoch terminates the sessions that are named after it.
    """
    async with bank.coordinator() as coordinator:
        assert await attempt(bank, coordinator, "presumed_abort") == "committed"
        fenced = "update msrepl.coordinator_epoch set fenced = true, fenced_at = now() where coordinator = %s"
        await bank.fetch(LOG, fenced, (coordinator.coordinator,))
        assert await attempt(bank, coordinator, "presumed_abort") == "rejected"
        assert await attempt(bank, coordinator, "presumed_abort") == "committed"
        epochs = "select max(epoch) from msrepl.coordinator_epoch where coordinator = %s"
        [(epoch,)] = await bank.fetch(LOG, epochs, (coordinator.coordinator,))
        names = (
            "select distinct application_name from pg_stat_activity"
            " where application_name ~ '^twopc [0-9]+ ' and datname = current_database()"
        )
        own = session_name(coordinator.coordinator, epoch)
        assert await bank.fetch(SUB, names) == [(own,)]
