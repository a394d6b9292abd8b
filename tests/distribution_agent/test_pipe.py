"""Tests of groups of statements that are sent over one connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.fix_server import Database
from twopc.subscriber.distribution_agent.arrays import (
    block,
    int4,
    int4s,
    lsn8,
    lsn8s,
    numbers,
    texts,
)
from twopc.subscriber.distribution_agent.pipe import Pipe, Statement
from twopc.subscriber.distribution_agent.ports import LostError

ONE = Statement("select 1")
ECHO = Statement("select $1::text, $2::integer")
DIVIDE = Statement("select 1 / $1::integer")
MISSING = Statement("select * from public.not_there")


@pytest.fixture
async def pipe(fresh_database: Database) -> AsyncIterator[Pipe]:
    """Return a pipe that is connected to an empty database."""
    made = await Pipe.connect(fresh_database.dsn, application_name="pipe\\ test")
    yield made
    await made.close()


async def test_a_group_is_answered_as_one(pipe: Pipe) -> None:
    answer = await pipe.run((ONE, ()), (ECHO, (b"a\xc3\xa4", None)), (ECHO, (None, b"7")))
    assert (answer.failure, answer.failed_at) == (None, -1)
    assert [answer.rows(step) for step in range(3)] == [[("1",)], [("aä", None)], [(None, "7")]]
    assert answer.tag(0) == b"SELECT 1"


async def test_a_failure_names_its_step_and_takes_the_rest_along(pipe: Pipe) -> None:
    for _ in range(2):
        answer = await pipe.run((ONE, ()), (DIVIDE, (b"0",)), (ECHO, (b"x", None)))
        assert answer.failure is not None
        assert (answer.failure.sqlstate, answer.failed_at) == ("22012", 1)
        assert len(answer.results) == 1
    assert (await pipe.run((ECHO, (b"x", None)))).rows(0) == [("x", None)]


async def test_what_cannot_be_prepared_fails_each_time_until_it_can(pipe: Pipe) -> None:
    for _ in range(2):
        answer = await pipe.run((ONE, ()), (MISSING, ()))
        assert answer.failure is not None
        assert (answer.failure.sqlstate, answer.failed_at) == ("42P01", 1)
    await pipe.run((Statement("create table public.not_there (a integer)", kept=False), ()))
    assert (await pipe.run((MISSING, ()))).rows(0) == []


async def test_a_failure_names_its_constraint(pipe: Pipe) -> None:
    answer = await pipe.run(
        (
            Statement(
                "create table public.t (a integer, constraint positive check (a > 0))", kept=False
            ),
            (),
        ),
        (Statement("insert into public.t values (0)", kept=False), ()),
    )
    assert answer.constraint == "public.t.positive"


async def test_groups_travel_one_behind_the_other(pipe: Pipe) -> None:
    sent = [pipe.send((ECHO, (b"x", str(n).encode()))) for n in range(50)]
    answers = await asyncio.gather(*sent)
    assert [answer.rows(0)[0][1] for answer in answers] == [str(n) for n in range(50)]


async def test_more_than_a_socket_holds_both_ways(pipe: Pipe) -> None:
    text = b"z" * 20_000_000
    sent = [pipe.send((ECHO, (text, None))) for _ in range(3)]
    for answer in await asyncio.gather(*sent):
        assert answer.results[0].get_value(0, 0) == text


async def test_arrays(pipe: Pipe) -> None:
    values = [1, -5, 2**31 - 1]
    step = Statement(
        "select $1::int[], $2::pg_lsn[], $3::text[], $4::int, $5::pg_lsn, $6::int[]", binary=True
    )
    words = [b"a", b"", b'{"', "ä".encode()]
    codes, calls = block([(n, word) for n, word in enumerate(words)])
    given = (int4s(values), lsn8s([1, 2**63]), calls, int4(-7), lsn8(77), int4s([]))
    result = (await pipe.run((step, given))).results[0]
    found = [result.get_value(0, column) for column in range(6)]
    assert found == list(given)
    assert numbers(found[0], "i") == tuple(values)
    assert numbers(found[1], "Q") == (1, 2**63)
    assert texts(found[2]) == words
    assert numbers(codes, "i") == (0, 1, 2, 3)
    assert (numbers(found[5], "i"), numbers(None, "i"), texts(None)) == ((), (), [])


async def test_news_come_while_it_waits_for_nothing(fresh_database: Database) -> None:
    news = asyncio.Event()
    pipe = await Pipe.connect(fresh_database.dsn, on_notify=news.set)
    await pipe.run((Statement("listen here", kept=False), ()))
    with fresh_database.connect() as other:
        other.execute("notify here")
        await asyncio.wait_for(news.wait(), 60)
        news.clear()
        other.execute("select pg_terminate_backend(%s)", (pipe.pid,))
        await asyncio.wait_for(news.wait(), 60)
    assert pipe.lost
    await pipe.close()


async def test_a_lost_connection_says_so_to_everybody(pipe: Pipe, fresh_database: Database) -> None:
    slow = Statement("select pg_advisory_lock(1)", kept=False)
    with fresh_database.connect() as other:
        other.execute("select pg_advisory_lock(1)")
        sent = [pipe.send((slow, ())), pipe.send((ONE, ()))]
        other.execute("select pg_terminate_backend(%s, 10000)", (pipe.pid,))
        for each in sent:
            with pytest.raises(LostError, match="terminat"):
                await each
    with pytest.raises(LostError):
        await pipe.run((ONE, ()))
    await pipe.close()
    await pipe.close()
