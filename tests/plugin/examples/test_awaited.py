"""Tests of the till on the test's own event loop."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

pytestmark = pytest.mark.asyncio  # or asyncio_mode = auto in the ini file


async def test_an_awaited_till(twopc_async):
    twopc = twopc_async
    clerk = await twopc.session("pub", name="clerk")
    await clerk.execute("update account set balance = 10 where id = 1")

    dsn = twopc.dsn("pub", application_name="till")
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        work = asyncio.create_task(
            connection.execute("update account set balance = 0 where id = 1")
        )
        till = await twopc.watch("pub", application_name="till", work=work)
        assert await till.blocked_by(clerk)
        await clerk.commit()
        await work


async def test_two_awaited_tills(twopc_async):
    async def look_and_pay():
        dsn = twopc_async.dsn("pub")
        async with await psycopg.AsyncConnection.connect(dsn) as connection:
            await connection.execute("update account set balance = balance - 70 where id = 1")

    async def check(run):
        rows = await twopc_async.node("pub").rows("account")
        assert rows[0]["balance"] == -40

    await twopc_async.run_orders({"one": [look_and_pay], "other": [look_and_pay]}, check=check)
