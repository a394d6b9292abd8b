"""Subscriptions that begin, are refused or are reinitialised: their effects on other sessions."""

from __future__ import annotations

import asyncio

import pytest
from psycopg import AsyncConnection

from tests.fix_merge import customer
from twopc.drivers.merge.neighbours import agent_role
from twopc.errors import SubscriptionError
from twopc.server import EmbeddedServer
from twopc.sim.merge import MergeTopology

_WAITS = "select from pg_stat_activity where wait_event_type = 'Lock' and datname = %s"


async def test_others_merge_while_rows_are_copied(merge_shop: MergeTopology) -> None:
    """A long initial copy blocks no session; the next session brings changes made in between."""
    await merge_shop.unsubscribe("ben")
    await merge_shop.execute("ben", "drop table purchase, customer")
    merge_shop.lock_timeout_ms = 200
    node = merge_shop.node("ben")
    async with (
        await AsyncConnection.connect(node.dsn) as blocker,
        await AsyncConnection.connect(node.dsn, autocommit=True) as observer,
    ):
        await blocker.execute("create table customer (id int)")
        copying = asyncio.create_task(merge_shop.subscribe("ben"))
        while not (await observer.execute(_WAITS, (node.database,))).rowcount:
            assert not copying.done()
        await merge_shop.execute("anna", "update customer set phone = '2' where id = 1")
        assert (await merge_shop.sync("anna")).uploaded == 1
        await blocker.rollback()
        await copying
    assert await customer(merge_shop, "ben") == ("1", 10)
    assert (await merge_shop.sync("ben")).downloaded == 1
    await merge_shop.assert_converged()


async def test_a_refused_subscription_leaves_nothing(topology: MergeTopology) -> None:
    """A refused subscription leaves no agent's role and nothing at the Subscriber.

    It can be begun again.
    """
    await topology.execute("pub", "create table item (id int primary key)")
    await topology.publish("item")
    await topology.execute("anna", "create table item (id int)")
    with pytest.raises(SubscriptionError, match="is there already"):
        await topology.subscribe("anna")
    agents = [
        agent_role(topology.node(node).database, other)
        for node, other in (("pub", "anna"), ("anna", "pub"))
    ]
    roles = "select rolname from pg_roles where rolname = any (%s)"
    assert await topology.execute("pub", roles, (agents,)) == []
    assert not await topology.merges("anna")
    await topology.execute("anna", "drop table item")
    await topology.subscribe("anna")
    assert len(await topology.execute("pub", roles, (agents,))) == 2


async def test_databases_of_different_encodings(server: EmbeddedServer) -> None:
    """Databases of different encodings are refused by name.

    A character that one of them lacks would stop every session.
    """
    names = ("encodings_pub", "encodings_anna")
    dsns = {"pub": server.superuser_dsn(names[0]), "anna": server.superuser_dsn(names[1])}
    async with await AsyncConnection.connect(
        server.superuser_dsn("postgres"), autocommit=True
    ) as admin:
        for name, encoding in zip(names, ("LATIN1", "UTF8"), strict=True):
            await admin.execute(
                f"create database {name} encoding '{encoding}' locale_provider libc locale 'C' template template0".encode()
            )
        try:
            async with MergeTopology(
                dsns=dsns, subscribers=("anna",), name="encodings"
            ) as topology:
                await topology.execute("pub", "create table item (id int primary key)")
                await topology.publish("item")
                with pytest.raises(SubscriptionError, match="has encoding UTF8"):
                    await topology.subscribe("anna")
        finally:
            server.drop_database(*names)


async def test_no_trigger_fires_when_a_subscriber_begins_anew(merge_shop: MergeTopology) -> None:
    """Reinitialisation fires no trigger, not even ENABLE ALWAYS, and keeps the modes of all."""
    await merge_shop.execute(
        "anna",
        "create table fired (what text);"
        " create function fire() returns trigger language plpgsql as"
        " $$ begin insert into public.fired values (tg_op); return new; end $$;"
        " create trigger each_row before insert on customer for each row execute function fire();"
        " create trigger emptied after truncate on customer for each statement execute function fire();"
        " alter table customer enable always trigger each_row, enable replica trigger emptied;"
        " grant insert on fired to public; update customer set phone = 'lost'",
    )
    await merge_shop.reinitialise("anna")
    assert await customer(merge_shop, "anna") == ("1", 10)
    assert await merge_shop.execute("anna", "select what from fired") == []
    modes = (
        "select tgname::text, tgenabled::text from pg_trigger"
        " where tgrelid = 'customer'::regclass and tgname in ('each_row', 'emptied') order by 1"
    )
    assert await merge_shop.execute("anna", modes) == [("each_row", "A"), ("emptied", "R")]
