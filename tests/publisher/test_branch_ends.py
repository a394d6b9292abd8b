"""A branch that ends between a sync procedure's last search for a row and its search for branches."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from tests.fix_topology import MakePair

pytestmark = pytest.mark.immediate

TABLE = "create table account (id int primary key, balance int not null)"
ROWS = "insert into account select g, 100 from generate_series(1, 3) as g"
GATE = 7001
PAUSE = f"""
create sequence attempt;
create function pause() returns trigger language plpgsql security definer as $$
begin
    if nextval('public.attempt') = 2 then
        perform pg_advisory_xact_lock({GATE});
    end if;
    return null;
end $$;
create trigger pause after update or delete on account for each statement execute function pause()
"""


@pytest.mark.parametrize(
    "statement",
    ["update account set balance = 1 where id = 60", "delete from account where id = 60"],
)
async def test_it_is_no_conflict(make_pair: MakePair, statement: str) -> None:
    """The row is missing at the second attempt, and no branch is prepared any more: another attempt finds it."""
    pair = await make_pair(TABLE, ROWS, PAUSE, publish=["account"])
    await pair.begin()
    await pair.execute("insert into account values (60, 100)")
    await pair.prepare()
    gid = pair.gid
    await pair.app.execute(f"commit prepared '{gid}:sub1'")

    async with await psycopg.AsyncConnection.connect(pair.topology.node("pub").dsn) as gate:
        await gate.execute(f"select pg_advisory_xact_lock({GATE})")
        await pair.begin()
        waiting = asyncio.create_task(pair.execute(statement))
        await pair.waiting_link()
        await pair.topology.execute("pub", f"commit prepared '{gid}:pub'")
        await gate.rollback()
        await waiting
        await pair.commit()

    await pair.same("account")
