"""Tests of articles that are delivered separately, because the order makes no difference."""

from __future__ import annotations

import pytest

from tests.distribution_agent.ends import Does, Ends, dele, ins, upd
from tests.propagation.here import mask

COUNT = 400


async def interleaved(ends: Ends) -> None:
    """Store transactions that change three tables, one of them with commands of several kinds."""
    await ends.subscribe("create table t (id integer primary key, n integer)")
    await ends.subscribe(
        "create table o (id integer primary key, n integer)", table="o", article_id=8
    )
    await ends.subscribe(
        "create table m (id integer primary key, n integer)", table="m", article_id=9
    )
    transactions: list[list[Does]] = []
    for n in range(COUNT):
        mixed = [ins(n % 10, n, article_id=9), upd(None, -n, n % 10, mask(2, 2), article_id=9)]
        if n % 20 >= 10:
            mixed = [dele((n - 10) % 10, article_id=9), *mixed]
        transactions.append(
            [ins(n, 0, article_id=8), *mixed, ins(n, n)]
            if n < 10 or n % 20 >= 10
            else [ins(n, 0, article_id=8), dele(n % 10, article_id=9), *mixed, ins(n, n)]
        )
    await ends.store_all(transactions)


async def check(ends: Ends) -> None:
    """Check the final rows, which do not depend on how the commands were grouped."""
    assert await ends.rows() == [(n, n) for n in range(COUNT)]
    assert await ends.rows("o") == [(n, 0) for n in range(COUNT)]
    assert await ends.rows("m") == [(n, -(COUNT - 10 + n)) for n in range(10)]


@pytest.mark.parametrize("streams", [1, 3])
async def test_articles_of_one_kind_come_apart(ends: Ends, streams: int) -> None:
    await interleaved(ends)
    agent = ends.agent(subscription_streams=streams)
    assert (await agent.run_once()).transactions == COUNT
    assert agent._delivery is not None
    assert agent._delivery.apart == (7, 8), "and the one with several kinds does not"
    await check(ends)
    assert await ends.history("retry", "failed") == []


@pytest.mark.parametrize(
    "reason",
    [
        "create function f() returns trigger language plpgsql as $$ begin return null; end $$;"
        " create trigger f after insert on o for each row execute function f();"
        " alter table o enable always trigger f",
        "create rule r as on insert to m where new.id < 0 do also nothing; alter table m enable always rule r",
        "create or replace function sp_msins_o(c1 integer, c2 integer) returns void language plpgsql"
        " as $$ begin insert into o values (c1, c2); end $$",
        "insert into msrepl.msreplication_procedures"
        """ select (jsonb_populate_record(p, '{"article_id": 99}')).*"""
        " from msrepl.msreplication_procedures p where article_id = 7",
    ],
    ids=["trigger", "rule", "procedure", "two articles of a table"],
)
async def test_where_somebody_could_tell_the_order_is_the_publishers(
    ends: Ends, reason: str
) -> None:
    await interleaved(ends)
    await ends.sub.execute(reason.encode())
    agent = ends.agent()
    await agent.run_once()
    assert agent._delivery is not None
    assert agent._delivery.apart == ()
    await check(ends)


async def test_what_fails_as_a_set_goes_through_one_by_one(ends: Ends) -> None:
    """Commands that fail as a set succeed individually: here a trigger limits the rows per statement."""
    await ends.subscribe("create table t (id integer primary key, n integer)")
    await ends.sub.execute(
        b"create function few() returns trigger language plpgsql as $$ begin"
        b" if (select count(*) from new_rows) > 1 then raise exception 'too many'; end if; return null;"
        b" end $$; create trigger few after insert on t referencing new table as new_rows"
        b" for each statement execute function few(); alter table t enable always trigger few"
    )
    await ends.store(*(ins(n, n) for n in range(100)))
    await ends.store_all([[ins(100 + n, n)] for n in range(100)])
    agent = ends.agent()
    assert (await agent.run_once()).transactions == 101
    assert len(await ends.rows()) == 200
    assert await ends.history("failed", "retry") == []
