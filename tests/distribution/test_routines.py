"""Tests of routines among the articles of a distribution database, and of storing their calls."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import psycopg
import pytest
from psycopg import AsyncConnection

from tests.distribution.conftest import AGENT, LOGREADER
from tests.distribution.made import article, columns
from tests.distribution.stored import register, rows, store_commands
from twopc.errors import ConfigurationError
from twopc.proc_execution import (
    BESIDE,
    CALL_TYPE,
    Argument,
    ProcArticle,
    ProcCall,
    ProcType,
    beside,
)
from twopc.publisher import distribution

ROUTINE = ProcArticle(
    article_id=8,
    schema="sales",
    name="give_raise",
    kind="p",
    arguments=(Argument(name="pct", mode="i", type="numeric"),),
    definition="CREATE OR REPLACE ...",
)


async def made(connection: AsyncConnection, *more: ProcArticle) -> int:
    """Register a Publisher with article 7, the routine 8, and others."""
    number = await register(connection, article(*columns(3)))
    for each in (ROUTINE, *more):
        await distribution.put_proc_article(connection, number, each)
    return number


async def version(connection: AsyncConnection) -> int:
    """Return the version of the registry that the log reader checks."""
    [(found,)] = await rows(connection, "select registry_version from msrepl.mspublisher_databases")
    return int(found)


async def subscribe(
    connection: AsyncConnection, number: int, name: str, *articles: int, mode: str = "read only"
) -> None:
    """Add an active subscription to these articles."""
    for each in articles:
        await distribution.add_subscription(
            connection, number, each, name, status=distribution.ACTIVE, update_mode=mode,
            subscription_seqno="0/10",
        )  # fmt: skip


async def test_entered_and_read(stored: AsyncConnection) -> None:
    """Routines are registered without definitions, and separately from tables."""
    number = await made(stored)
    known = dataclasses.replace(ROUTINE, definition="")
    assert await distribution.proc_articles(stored, number) == (known,)
    assert [each.article_id for each in await distribution.articles(stored, number)] == [7]
    assert await rows(stored, "select article_id, kind from msrepl.msarticles order by 1") == [
        (7, "table"),
        (8, "proc"),
        (8 + BESIDE, "proc"),
    ]
    renamed = dataclasses.replace(ROUTINE, xact_abort=False)
    await distribution.put_proc_article(stored, number, renamed)
    assert not (await distribution.proc_articles(stored, number))[0].xact_abort
    await distribution.put_articles(stored, number, [article(*columns(3))])
    assert len(await distribution.proc_articles(stored, number)) == 1
    assert await rows(stored, "select from msrepl.msarticle_shapes where article_id <> 7") == []
    await subscribe(stored, number, "sub1", 8, beside(8))
    await distribution.drop_proc_article(stored, number, 8)
    assert await distribution.proc_articles(stored, number) == ()


async def test_calls_are_stored_if_every_reader_has_the_routine(stored: AsyncConnection) -> None:
    only = dataclasses.replace(ROUTINE, article_id=9, name="only", type=ProcType.SCHEMA_ONLY)
    ending = dataclasses.replace(
        ROUTINE, article_id=10, name="ending", type=ProcType.PLAIN, commits=True
    )
    number = await made(stored, only, ending)
    assert await distribution.set_calls(stored, number) == frozenset()
    await subscribe(stored, number, "changing", 7, beside(8), mode="sync tran")
    assert await distribution.set_calls(stored, number) == frozenset()
    await subscribe(stored, number, "one", 7, 8, beside(8), 9, 10)
    assert await distribution.set_calls(stored, number) == {8}
    assert await distribution.called(stored, number) == {8}
    await subscribe(stored, number, "other", 7)
    assert await distribution.wanted_calls(stored, number) == frozenset()
    assert await distribution.called(stored, number) == {8}
    await distribution.add_subscription(stored, number, 8, "other", update_mode="read only")
    assert await distribution.set_calls(stored, number) == frozenset()
    await subscribe(stored, number, "other", 8)
    assert await distribution.set_calls(stored, number) == {8}


async def test_the_log_reader_notices(stored: AsyncConnection) -> None:
    """With a routine, a changed subscription changes the registry's version; an unchanged one does not."""
    number = await register(stored, article(*columns(3)))
    before = await version(stored)
    await subscribe(stored, number, "sub1", 7)
    assert await version(stored) == before
    await distribution.put_proc_article(stored, number, ROUTINE)
    before = await version(stored)
    await subscribe(stored, number, "sub1", 7)
    assert await version(stored) == before
    await distribution.add_subscription(stored, number, 7, "sub1", update_mode="read only")
    assert await version(stored) == before + 1
    await subscribe(stored, number, "sub1", 8)
    assert await version(stored) == before + 2
    await distribution.drop_subscription(stored, number, "sub1")
    assert await version(stored) == before + 4


async def test_nothing_is_removed_that_a_call_waits_for(stored: AsyncConnection) -> None:
    """A call or definition is kept until every Subscriber of the routine has received it."""
    number = await made(stored)
    call = ProcCall(values=("10",)).as_text()
    await store_commands(stored, number, "0/20", (CALL_TYPE, 8, call))
    await store_commands(stored, number, "0/30", (31, beside(8), '{"definition": "x"}'))
    await subscribe(stored, number, "sub1", 8, beside(8))
    await stored.execute("update msrepl.mspublisher_databases set read_to = '0/40'")
    for delivered, left in (("0/10", 2), ("0/20", 1), ("0/30", 0)):
        await stored.execute(
            f"update msrepl.msdistribution_agents set delivered = '{delivered}'".encode()
        )
        await distribution.clean_up(stored, max_retention=timedelta(days=36_500))
        assert len(await rows(stored, "select from msrepl.msrepl_transactions")) == left


async def test_browsed(stored: AsyncConnection) -> None:
    """Calls, definitions, and rows beside calls are browsed by their routine or table."""
    number = await made(stored)
    await store_commands(
        stored, number, "0/20",
        (1, 7 + BESIDE, '("1","2","00000000-0000-0000-0000-000000000001")'),
        (CALL_TYPE, 8, ProcCall(values=("10",)).as_text()),
        (31, beside(8), '{"definition": "CREATE ..."}'),
    )  # fmt: skip
    found = await distribution.browse(stored, "pub")
    assert [(each.article_id, each.article) for each in found] == [
        (7 + BESIDE, "t"),
        (8, "sales.give_raise"),
        (8 + BESIDE, "sales.give_raise"),
    ]
    assert [each.text for each in found[1:]] == [
        '{call "sales"."give_raise" (10)}',
        "CREATE ...",
    ]
    assert "CALL sp_msins_t" in found[0].text
    assert found[1:] == await distribution.browse(stored, "pub", article="sales.give_raise")
    assert found[:1] == await distribution.browse(stored, "pub", article=7)
    with pytest.raises(ConfigurationError, match=r"articles are sales\.give_raise, t$"):
        await distribution.browse(stored, "pub", article="other")


async def test_horizon(stored: AsyncConnection) -> None:
    """The horizon is not replaced while there are subscriptions, and only increases."""
    where = {"database": "db", "slot": "s"}
    number = await distribution.register_publisher(stored, "pub", horizon=100, **where)
    horizon = "select horizon::text::int from msrepl.mspublisher_databases"
    await distribution.register_publisher(stored, "pub", horizon=150, **where)
    assert await rows(stored, horizon) == [(150,)]
    await register(stored, article(*columns(3)))
    await subscribe(stored, number, "sub1", 7)
    await distribution.register_publisher(stored, "pub", horizon=200, **where)
    assert await rows(stored, horizon) == [(150,)]
    for position, told, expected in (("1", 180, 180), ("2", 160, 180)):
        await stored.execute(
            f"select msrepl.log_was_read({number}, read_to, registry_version, '0/{position}', now(), '{told}', false,"
            f" '0/{position}') from msrepl.mspublisher_databases".encode()
        )
        assert await rows(stored, horizon) == [(expected,)]


async def test_roles(stored: AsyncConnection) -> None:
    """The roles can read routines, but not change which calls are stored."""
    await made(stored)
    for role in (LOGREADER, AGENT):
        await stored.execute(f"set role {role}".encode())
        assert len(await rows(stored, "select kind, proc, calls from msrepl.msarticles")) == 3
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await stored.execute("update msrepl.msarticles set calls = true")
        await stored.execute("reset role")
