"""Tests of an agent that runs until it is stopped, in this process and in its own."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

import pytest

from tests.distribution_agent.ends import Ends, dele, ins
from twopc.drivers import Points
from twopc.errors import DeliveryError
from twopc.lsn import lsn_text
from twopc.subscriber.distribution_agent import AgentProgress, Config, DistributionAgent

TABLE = "create table t (id integer primary key, v text, n integer)"
#: Longer than any test, so that polling finds nothing.
NEVER_MS = 3_600_000


@asynccontextmanager
async def running(agent: DistributionAgent) -> AsyncIterator[asyncio.Task[AgentProgress]]:
    """Run the agent during the block."""
    stop = asyncio.Event()
    task = asyncio.create_task(agent.run(stop))
    try:
        yield task
    finally:
        stop.set()
        await task


async def test_it_is_told_what_is_new(ends: Ends) -> None:
    await ends.subscribe(TABLE)
    async with running(ends.agent(polling_interval_ms=NEVER_MS)) as task:
        for n in range(20):
            await ends.store(ins(n, "", n))
            await ends.until_at(ends.at, task)
    assert len(await ends.rows()) == 20
    assert task.result().transactions == 20
    assert (await ends.status())["delivered"] == lsn_text(ends.at)
    assert [row["event"] for row in await ends.history()] == ["started", "succeeded"]


async def test_it_looks_by_itself_too(ends: Ends) -> None:
    await ends.subscribe(TABLE)
    async with running(ends.agent(polling_interval_ms=10)) as task:
        await ends.store(ins(1, "", 1), notify=False)
        await ends.until_at(ends.at, task)


async def test_it_stops_in_the_middle_of_much_work(ends: Ends) -> None:
    await ends.subscribe(TABLE)
    await ends.store_all([[ins(n, "", n)] for n in range(200)])
    stop = asyncio.Event()
    points = Points()
    points.arm("agent.committed", lambda _: stop.set(), nth=3)
    delivered = await ends.agent(points=points, commit_batch_size=1).run(stop)
    assert 3 <= delivered.transactions <= 5, "what is on its way comes to its end"
    assert len(await ends.rows()) == delivered.transactions


async def test_what_is_subscribed_to_later_arrives(ends: Ends) -> None:
    await ends.subscribe(TABLE)
    async with running(ends.agent(polling_interval_ms=NEVER_MS)) as task:
        await ends.store(ins(1, "", 1), ins(1, article_id=8))
        await ends.until_at(ends.at, task)
        await ends.subscribe(
            "create table o (id integer primary key)",
            table="o",
            article_id=8,
            subscription_seqno=lsn_text(ends.at),
        )
        await ends.store(ins(2, article_id=8), ins(2, "", 2))
        await ends.until_at(ends.at, task)
        await ends.admin.execute(b"delete from msrepl.mssubscriptions where article_id = 7")
        await ends.store(ins(3, article_id=8), ins(3, "", 3))
        await ends.until_at(ends.at, task)
    assert await ends.rows("o") == [(2,), (3,)]
    assert await ends.rows("t", "id") == [(1,), (2,)]


async def test_it_says_how_far_it_is_while_it_runs(ends: Ends) -> None:
    await ends.subscribe(TABLE)
    async with running(ends.agent(message_interval_ms=1, polling_interval_ms=10)) as task:
        await ends.store(ins(1, "", 1))
        await ends.until_at(ends.at, task)
        await ends.until_event("progress", 1)
        await ends.until_delivered(ends.at)
    progress = (await ends.history("progress"))[0]
    assert (progress["transactions"], progress["commands"]) == (1, 1)
    assert (await ends.history("succeeded"))[0]["transactions"] == 0


async def test_what_does_not_pass_ends_it(ends: Ends) -> None:
    await ends.subscribe(
        f"{TABLE}; create function dead() returns trigger language plpgsql as"
        " $$ begin raise exception 'no room' using errcode = '53100'; end $$;"
        " create trigger dead before insert on t for each row execute function dead();"
        " alter table t enable always trigger dead"
    )
    await ends.store(ins(1, "", 1))
    with pytest.raises(DeliveryError, match=r"no room.*given up after 3 further attempts"):
        await ends.agent(retry_attempts=3, retry_interval_ms=1).run(asyncio.Event())
    events = [row["event"] for row in await ends.history()]
    assert events == [*["started", "retry"] * 3, "started", "failed"]


async def test_a_database_that_is_down_is_tried_again(ends: Ends) -> None:
    await ends.subscribe(TABLE)
    await ends.store(ins(1, "", 1))
    await ends.admin.execute(
        f"alter database {ends.subscriber.name} allow_connections false".encode()
    )
    async with running(ends.agent(retry_interval_ms=50)) as task:
        await ends.until_event("retry", 2)
        await ends.admin.execute(
            f"alter database {ends.subscriber.name} allow_connections true".encode()
        )
        await ends.until_at(ends.at, task)
    assert (await ends.status())["last_error"] is None


async def test_a_stop_ends_any_wait(ends: Ends) -> None:
    await ends.subscribe(TABLE)
    await ends.admin.execute(
        f"alter database {ends.subscriber.name} allow_connections false".encode()
    )
    async with running(ends.agent(retry_interval_ms=NEVER_MS, retry_attempts=60)):
        await ends.until_event("retry", 1)
    async with running(ends.agent(polling_interval_ms=NEVER_MS)):
        pass
    await ends.admin.execute(
        f"alter database {ends.subscriber.name} allow_connections true".encode()
    )


class Program:
    """A process that runs ``python -m twopc.subscriber.distribution_agent``."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    @classmethod
    async def start(cls, config: Config, **profile: Any) -> Program:
        """Start the process."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "twopc.subscriber.distribution_agent",
            stdin=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(asdict(config) | {"profile": profile}).encode())
        process.stdin.close()
        return cls(process)

    async def end(self) -> tuple[int, str]:
        """Return the exit code and the error output."""
        _, said = await self.process.communicate()
        assert self.process.returncode is not None
        return self.process.returncode, said.decode()


async def test_in_a_process_of_its_own(ends: Ends) -> None:
    await ends.subscribe(TABLE)
    program = await Program.start(ends.config(), polling_interval_ms=NEVER_MS)
    await ends.until_event("started", 1)
    await ends.store(ins(1, "", 1))
    await ends.until_at(ends.at)
    program.process.send_signal(signal.SIGTERM)
    assert await program.end() == (0, "")
    assert [row["event"] for row in await ends.history()] == ["started", "succeeded"]


async def test_a_process_that_waits_for_a_row_ends_too(ends: Ends) -> None:
    """An agent that waits for a row lock stops on SIGTERM.

    Its command is applied or not; if not, the next agent applies it.
    """
    await ends.subscribe(TABLE)
    await ends.sub.execute("insert into t (id) values (1)")
    program = await Program.start(ends.config(), polling_interval_ms=NEVER_MS)
    await ends.until_event("started", 1)
    async with ends.sub.transaction():
        await ends.sub.execute("update t set n = 1 where id = 1")
        await ends.store(dele(1))
        await ends.until_waiting(1)
        program.process.send_signal(signal.SIGTERM)
        assert await program.end() == (0, "")
    await ends.agent().run_once()
    assert await ends.rows("t", "id") == []
    assert await ends.position() == ends.at


async def test_a_process_that_cannot_go_on(ends: Ends) -> None:
    await ends.subscribe(TABLE)
    await ends.store(dele(5))
    code, said = await (await Program.start(ends.config())).end()
    assert code == 1
    assert "command 1, table t, id = 5" in said and "Traceback" not in said
