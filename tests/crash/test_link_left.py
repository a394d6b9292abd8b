"""M33: Tests of the link's transaction at the Publisher after the Subscriber's session rolls back or dies.

dblink does not join the local transaction: after a local ROLLBACK the remote transaction would stay
open, with its locks. The coordinator resets it, and a session that dies closes its link.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress

import psycopg
import pytest

from tests.crash.here import Here
from tests.grid.cells import Kind
from tests.grid.process import CoordinatorProcess
from tests.grid.program import ROLLBACK, WORKED
from tests.grid.rig import PUBLISHER, SUBSCRIBER, Rig
from twopc.errors import LocalProtocolError, RejectedError
from twopc.server.polling import wait_for
from twopc.waits import link_name

FREE = "select id from account where id = %s for update nowait"
OPEN = "select pid from pg_stat_activity where application_name like 'msrepl %' and state like 'idle in%'"


def is_free(rig: Rig, row: int) -> bool:
    """Return whether the row is not locked at the Publisher."""
    with suppress(psycopg.errors.LockNotAvailable):
        return bool(rig.fetch(PUBLISHER, FREE, (row,)))
    return False


def becomes_free(rig: Rig, row: int) -> None:
    """Wait until the row is not locked at the Publisher."""
    wait_for(lambda: is_free(rig, row), what=f"row {row} to be free", timeout_s=3)


@pytest.mark.parametrize("commit", ["presumed_abort", "last_agent"])
async def test_a_rollback_lets_go_at_the_publisher(rig: Rig, commit: str) -> None:
    """When `rollback` returns, the row is unlocked, although the session and its link stay open."""
    here = Here(rig, Kind(commit=commit))
    row = here.seen.row
    async with here.open() as coordinator:
        async with coordinator.transaction(SUBSCRIBER, commit=commit) as tx:
            await tx.execute(f"update account set balance = 0 where id = {row}")
            assert not await asyncio.to_thread(is_free, rig, row)
            await tx.rollback()
        assert await asyncio.to_thread(is_free, rig, row)
        assert await asyncio.to_thread(rig.fetch, PUBLISHER, OPEN) == []


async def test_a_rollback_past_the_coordinator_is_swept_with_the_session(rig: Rig) -> None:
    """If the application rolls back without the coordinator, the session is closed, with its link."""
    here = Here(rig, Kind())
    row = here.seen.row
    async with here.open() as coordinator:
        with pytest.raises(LocalProtocolError, match="past its coordinator"):
            async with coordinator.transaction(SUBSCRIBER) as tx:
                await tx.execute(f"update account set balance = 0 where id = {row}")
                await tx.session.connection.execute("rollback")
                assert not await asyncio.to_thread(
                    is_free, rig, row
                )  # the link's transaction is still open
        await asyncio.to_thread(becomes_free, rig, row)
        async with coordinator.transaction(SUBSCRIBER) as tx:
            await tx.execute(f"update account set balance = balance + 1 where id = {row}")
    state = await asyncio.to_thread(rig.look, here.seen.name, row)
    assert state.sites[PUBLISHER].row == state.sites[SUBSCRIBER].row
    assert state.sites[PUBLISHER].row[0] == 101


@pytest.mark.parametrize("point", [WORKED, "coordinator.before_rollback(sub1)"])
def test_a_dead_coordinator_lets_go_at_the_publisher(rig: Rig, point: str) -> None:
    """Without recovery, the sessions of a dead process end by themselves, with their links."""
    row = rig.fresh_row()
    task = rig.task(rig.fresh_name(), row=row, ending=ROLLBACK, halt=point)
    with CoordinatorProcess(task) as process:
        assert process.halted()
        assert not is_free(rig, row)
        process.kill()
    becomes_free(rig, row)


@pytest.mark.parametrize("how", ["killed", "terminated"])
async def test_a_session_ended_in_its_trigger_lets_go_at_the_publisher(rig: Rig, how: str) -> None:
    """A session that ends while its link waits for a lock leaves no statement and no lock."""
    here = Here(rig, Kind())
    row, other = here.seen.row, rig.fresh_row()
    async with here.open() as coordinator:
        with psycopg.connect(rig.node(PUBLISHER).dsn) as holder:
            holder.execute("update account set balance = 0 where id = %s", (other,))
            transaction = await coordinator.transaction(SUBSCRIBER).begin()
            pid = transaction.pid
            await transaction.execute(f"update account set balance = 0 where id = {row}")
            waiting = asyncio.create_task(
                transaction.execute(f"update account set balance = 0 where id = {other}")
            )
            link = await asyncio.to_thread(_waiting_link, rig, pid)
            await asyncio.to_thread(_end, rig, pid, how)
            with pytest.raises(RejectedError) as caught:
                await waiting
            await transaction.rollback()
            assert caught.value.definite
            await asyncio.to_thread(rig.gone, PUBLISHER, link)
            assert await asyncio.to_thread(is_free, rig, row)
            holder.rollback()
        await here.transact()
    result = await here.judge("M33", "M33")
    assert result.broken == ()
    assert result.outcome == "committed"


def _waiting_link(rig: Rig, pid: int) -> int:
    """Wait until the link of a session waits for a lock, and return its pid."""
    query = (
        "select pid from pg_stat_activity where application_name = %s and wait_event_type = 'Lock'"
    )
    rows = wait_for(
        lambda: rig.fetch(PUBLISHER, query, (link_name(SUBSCRIBER, pid),)),
        what="the link to wait for a lock",
        timeout_s=10,
    )
    return int(rows[0][0])


def _end(rig: Rig, pid: int, how: str) -> None:
    if how == "terminated":
        rig.fetch(SUBSCRIBER, "select pg_terminate_backend(%s, 5000)", (pid,))
        return
    os.kill(pid, signal.SIGKILL)
    wait_for(
        lambda: (
            rig.try_fetch(SUBSCRIBER, "select 1") is not None
            and rig.try_fetch(SUBSCRIBER, "select pid from pg_stat_activity where pid = %s", (pid,))
            == []
        ),
        what="the Subscriber to be up again",
        timeout_s=30,
    )
