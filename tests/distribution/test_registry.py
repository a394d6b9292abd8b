"""Tests of the registry in a distribution database, and of the privileges of its two roles."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection

from tests.distribution.conftest import AGENT, LOGREADER
from tests.distribution.logged import Logged
from tests.distribution.made import article, columns, propagation
from tests.distribution.stored import register, rows, store
from twopc.errors import SubscriptionError
from twopc.publisher import distribution, publication

Connection = AsyncConnection[Any]


async def test_install_is_idempotent(stored: Connection) -> None:
    """Installing again keeps the stored rows."""
    await register(stored, article(*columns(3)))
    await distribution.install(stored, LOGREADER, AGENT)
    assert len(await rows(stored, "select from msrepl.msarticles")) == 1


async def test_in_the_publishers_own_database(logged: Logged) -> None:
    """Publication and distribution share the schema msrepl of one database, and are uninstalled with it."""
    connection = logged.connection
    await connection.execute("create role test_one; create role test_two")
    try:
        await distribution.install(connection, "test_one", "test_two")
        await logged.execute("create table t (id int primary key)")
        await publication.publish(connection, "public", "t")
        await register(connection, *(await publication.distributed_articles(connection)))
        await publication.unpublish(connection, "public", "t")
        await publication.uninstall(connection)
        assert await rows(connection, "select from pg_namespace where nspname = 'msrepl'") == []
    finally:
        await connection.execute("drop role test_one; drop role test_two")


async def test_articles_come_back_as_they_were(logged: Logged, stored: Connection) -> None:
    """Registered articles are read with all columns, formats, procedures and filters."""
    await logged.execute(
        """create schema "s""1"; create extension citext schema "s""1";
        create table "s""1"."t'1" (
            "k""ey" "s""1".citext primary key, id int generated always as identity, "b" bytea,
            g int generated always as (id + 1) stored, secret text, c text collate "C")"""
    )
    await publication.publish(
        logged.connection, 's"1', "t'1", columns=('k"ey', "id", "b", "c"), row_filter="b is null",
        propagation=propagation("CALL", "XCALL my.sp", "XCALL", large=("b", "c")),
    )  # fmt: skip
    [made] = await publication.distributed_articles(logged.connection)
    number = await register(stored, made)
    for _ in range(2):
        [found] = await distribution.articles(stored, number)
        for what in ("article_id", "propagation", "procedures", "types", "left_out", "generated"):
            assert getattr(found, what) == getattr(made, what)
        assert (found.left_out, found.generated) == (("secret",), ("g",))
        assert found.article.row_filter == made.article.row_filter
        assert found.article.key == made.article.key
        for ours, theirs in zip(found.article.columns, made.article.value_columns, strict=True):
            for what in ("name", "type", "identity", "equality", "collation"):
                assert getattr(ours, what) == getattr(theirs, what)
        await distribution.put_articles(stored, number, [found])


async def test_subscriptions(stored: Connection) -> None:
    """Subscriptions are added, moved to another position, and dropped one by one or all, without remains."""
    number = await register(
        stored, article(*columns(3), number=1), article(*columns(3), number=2, table="u")
    )
    assert number == await distribution.register_publisher(
        stored, "pub", database="db", slot="other"
    )
    assert await distribution.publisher_id(stored, "pub") == number
    assert await distribution.publisher_id(stored, "nobody") is None
    originator = await distribution.add_originator(
        stored, number, "sub1", database="d1", link_role="l1"
    )
    assert originator == await distribution.add_originator(
        stored, number, "sub1", database="d1", link_role="l1"
    )
    for identifier in (1, 2):
        await distribution.add_subscription(
            stored, number, identifier, "sub1", originator_id=originator
        )
    await distribution.add_subscription(
        stored, number, 1, "sub1", originator_id=originator, status=distribution.ACTIVE,
        subscription_seqno="0/10", copy_snapshot="10:20:15", copy_seqno="0/20",
    )  # fmt: skip
    assert await rows(
        stored,
        """select article_id, status, subscription_seqno::text, copy_snapshot::text, copy_seqno::text
        from msrepl.mssubscriptions order by 1""",
    ) == [(1, 2, "0/10", "10:20:15", "0/20"), (2, 1, None, None, None)]
    with pytest.raises(
        SubscriptionError, match="has none of that number: `twopc publish` the table first"
    ):
        await distribution.add_subscription(stored, number, 3, "sub1")
    with pytest.raises(
        SubscriptionError, match="'sub1' still subscribes to an article that is gone"
    ):
        await distribution.put_articles(stored, number, [article(*columns(3), number=1)])
    assert len(await distribution.articles(stored, number)) == 2

    await distribution.drop_subscription(stored, number, "sub1", article_id=2)
    await distribution.put_articles(stored, number, [article(*columns(3), number=1)])
    assert len(await distribution.articles(stored, number)) == 1
    assert len(await distribution.agents(stored)) == 1
    await distribution.drop_subscription(stored, number, "sub1")
    await distribution.drop_subscription(stored, number, "sub1")
    assert await distribution.agents(stored) == []
    assert await rows(stored, "select from msrepl.msrepl_originators") == []


async def test_forgetting_a_publisher(stored: Connection) -> None:
    """Forgetting a Publisher removes its rows, and no other Publisher's."""
    number = await register(stored, article(*columns(3)))
    other = await distribution.register_publisher(stored, "other", database="x", slot="y")
    for publisher in (number, other):
        await store(stored, publisher, "0/10", 2)
    await distribution.add_originator(stored, number, "sub1", database="d", link_role="l")
    await distribution.add_subscription(stored, number, 7, "sub1")
    await distribution.forget_publisher(stored, "pub")
    await distribution.forget_publisher(stored, "pub")
    assert (
        await rows(stored, "select publisher_database_id from msrepl.msrepl_commands")
        == [(other,)] * 2
    )
    assert await rows(stored, "select from msrepl.msarticles") == []


BLOCK = (
    "(1, '0/1', '0/1', 0, 1, 1, 1, '{0/1}', '{1}', '{now}', '{0}', '{0}', '{1}', '{1}', "
    "'{0/1}', '{1}', '{701}', '{0}', '{0}', '{x}')"
)
ALLOWED = {
    LOGREADER: (
        f"insert into msrepl.msrepl_blocks values {BLOCK}",
        "update msrepl.mspublisher_databases set read_to = '0/1', last_commit = now()",
        "insert into msrepl.msdistribution_history (publisher_database_id, event) values (1, 'x')",
        "select from msrepl.msarticles, msrepl.msrepl_originators",
    ),
    AGENT: (
        "select from msrepl.msrepl_commands join msrepl.msrepl_transactions using (xact_seqno)",
        "select from msrepl.commands_between(1, '0/0', '0/1'), msrepl.transactions_between(1, '0/0', '0/1')",
        "select from msrepl.mssubscriptions, msrepl.msarticles, msrepl.mspublisher_databases",
        "update msrepl.msdistribution_agents set delivered = '0/1', runstatus = 'running'",
        "insert into msrepl.msdistribution_history (publisher_database_id, subscriber, event) values (1, 's', 'x')",
        "listen msrepl_distribution",
    ),
}
REFUSED = {
    LOGREADER: (
        "delete from msrepl.msrepl_blocks",
        "update msrepl.msrepl_blocks set texts = '{}'",
        "select texts from msrepl.msrepl_blocks",
        "update msrepl.mspublisher_databases set read_to = '0/0'",
        "update msrepl.mspublisher_databases set slot = ''",
        "update msrepl.msarticles set filter_clause = ''",
        "insert into msrepl.mssubscriptions (publisher_database_id, article_id, subscriber) values (1, 7, 's')",
        "create table msrepl.x ()",
        "truncate msrepl.msrepl_blocks",
    ),
    AGENT: (
        f"insert into msrepl.msrepl_blocks values {BLOCK}",
        "delete from msrepl.msrepl_blocks",
        "update msrepl.mspublisher_databases set read_to = '0/1'",
        "update msrepl.mssubscriptions set loopback_detection = false",
        "update msrepl.msdistribution_agents set subscriber = 'other'",
        "update msrepl.msdistribution_history set event = ''",
        "delete from msrepl.msdistribution_history",
    ),
}


@pytest.mark.parametrize("role", [LOGREADER, AGENT])
async def test_rights(stored: Connection, role: str) -> None:
    """Each role has the privileges for its work only, and other roles have none."""
    await register(stored, article(*columns(3)))
    await stored.execute(f"set role {role}".encode())
    for statement in ALLOWED[role]:
        await stored.execute(statement.encode())
    for statement in REFUSED[role]:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await stored.execute(statement.encode())
    await stored.execute("reset role")
    await stored.execute("create role test_nobody")
    try:
        await stored.execute("set role test_nobody")
        for statement in ALLOWED[role]:
            if not statement.startswith("listen"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    await stored.execute(statement.encode())
    finally:
        await stored.execute("reset role; drop role test_nobody")


async def test_shapes_of_an_article(stored: Connection) -> None:
    """Every shape of an article is kept, with the position up to which commands had it."""
    plain, wider = article(*columns(2)), article(*columns(3))
    publisher = await register(stored, plain)

    async def change(distributed: Any, read_to: str) -> None:
        await stored.execute("update msrepl.mspublisher_databases set read_to = %s", (read_to,))
        await distribution.put_article(stored, publisher, distributed)

    async def shapes() -> list[tuple[Any, ...]]:
        return await rows(
            stored,
            "select shape, after::text, jsonb_array_length(columns) from msrepl.msarticle_shapes order by 1",
        )

    await change(plain, "0/10")
    assert await shapes() == [(1, "0/0", 2)], "the same again is no other shape"
    await change(wider, "0/20")
    await change(wider, "0/30")
    assert await shapes() == [(1, "0/0", 2), (2, "0/20", 3)]
    await distribution.drop_article(stored, publisher, plain.article_id)
    await change(plain, "0/40")
    assert await shapes() == [(1, "0/0", 2), (2, "0/20", 3), (3, "0/40", 2)]


async def test_shapes_of_a_database_from_before(stored: Connection) -> None:
    """An article registered before shapes were recorded has had its old shape from the beginning."""
    publisher = await register(stored, article(*columns(2)))
    await stored.execute(
        """
        delete from msrepl.msarticle_shapes;
        alter table msrepl.mspublisher_databases drop column removed_to;
        update msrepl.mspublisher_databases set read_to = '0/20'
        """
    )
    await distribution.install(stored, LOGREADER, AGENT)
    await distribution.put_article(stored, publisher, article(*columns(3)))
    found = await rows(stored, "select shape, after::text from msrepl.msarticle_shapes order by 1")
    assert found == [(1, "0/0"), (2, "0/20")]
    assert await rows(stored, "select removed_to::text from msrepl.mspublisher_databases") == [
        ("0/0",)
    ]
