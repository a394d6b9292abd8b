"""Unsubscribing keeps the rows and removes everything else: the catalogs before and after are equal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import psycopg
import pytest

from tests.fix_topology import Pair
from twopc.errors import LockTimeoutError, SubscriptionError
from twopc.sim.topology import Topology

MakeTopology = Callable[..., Awaitable[Topology]]

TABLES = """
create table parent (id int primary key, note text);
create table child (id int generated always as identity primary key,
                    parent_id int references parent on delete cascade on update cascade);
create table part (id int primary key, n int) partition by range (id);
create table part_1 partition of part for values from (0) to (100);
create function up() returns trigger language plpgsql as $$
begin new.note := upper(new.note); return new; end $$;
create trigger up before insert or update on parent for each row execute function up();
insert into parent values (1, 'a'), (2, 'b');
insert into child (parent_id) values (1), (1), (2);
insert into part values (1, 1);
"""
AT_SUBSCRIBER = """
create schema own; create table own.unrelated (id int primary key);
create table parent (id int primary key, note text);
create table child (id int primary key, parent_id int);
create index child_parent on child (parent_id);
create table part (id int primary key, n int) partition by range (id);
create table part_1 partition of part for values from (0) to (100);
create function mine() returns trigger language plpgsql as $$ begin return null; end $$;
create trigger mine after insert on child for each row execute function mine();
"""

CATALOG = """
select 'relation', n.nspname || '.' || c.relname || ' ' || c.relkind::text || ' '
       || coalesce((select string_agg(a::text, ',' order by a::text) from unnest(coalesce(c.relacl,
           acldefault((case when c.relkind = 'S' then 's' else 'r' end)::"char", c.relowner))) a), '')
from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname !~ '^(pg_|information_schema)'
union all
select 'column', attrelid::regclass || ' ' || attname || ' ' || format_type(atttypid, atttypmod) || attnotnull
       || coalesce(attacl::text, '')
from pg_attribute join pg_class c on c.oid = attrelid join pg_namespace n on n.oid = c.relnamespace
where n.nspname !~ '^(pg_|information_schema)' and attnum > 0 and not attisdropped
union all
select 'trigger', tgrelid::regclass || ' ' || tgname || ' ' || tgenabled::text || ' ' || tgtype from pg_trigger
where not tgisinternal
union all
select 'constraint', conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid) || condeferrable
from pg_constraint where conrelid <> 0
union all
select 'function', p.oid::regprocedure::text from pg_proc p join pg_namespace n on n.oid = p.pronamespace
where n.nspname !~ '^(pg_|information_schema)'
union all
select 'type', t.oid::regtype::text from pg_type t join pg_namespace n on n.oid = t.typnamespace
where n.nspname !~ '^(pg_|information_schema)'
union all
select 'schema', nspname || ' ' || coalesce((select string_agg(a::text, ',' order by a::text) from unnest(coalesce(nspacl, acldefault('n', nspowner))) a), '')
from pg_namespace where nspname !~ '^pg_(toast|temp)'
union all
select 'extension', extname from pg_extension
union all
select 'server', srvname from pg_foreign_server
union all
select 'mapping', oid::text from pg_user_mapping
union all
select 'event trigger', evtname from pg_event_trigger
union all
select 'setting', s::text from pg_db_role_setting s
where setdatabase = (select oid from pg_database where datname = current_database())
union all
select 'default privileges', d.oid::text from pg_default_acl d
order by 1, 2
"""
ROLES = "select rolname from pg_roles where rolname !~ '^pg_' order by 1"
#: Privileges of our owner roles on parameters, except lc_messages: the Publisher, whose database is
#: on the same server, needs that one so that its gate of published routines can pin a language.
PARAMETERS = (
    "select parname, paracl::text from pg_parameter_acl "
    "where paracl::text ~ 'msrepl_owner' and parname <> 'lc_messages'"
)


@pytest.fixture
async def topology(make_topology: MakeTopology) -> Topology:
    topology = await make_topology(subscribers=("sub1", "sub2"))
    await topology.execute("pub", TABLES)
    for table in ("parent", "child", "part"):
        await topology.publish(table)
    return topology


async def changed(topology: Topology) -> None:
    """Change rows through the subscription, so that the link and all other objects have been used."""
    pair = Pair(topology, "sub1")
    await pair.open()
    try:
        await pair.run(
            "insert into parent values (3, 'c')",
            "insert into child (id, parent_id) values (77, 3)",
            "update parent set id = 22 where id = 2",
            "insert into part values (5, 5)",
        )
        await pair.equal("parent", "child", "part")
    finally:
        await pair.app.close()


@pytest.mark.parametrize("dblink", ["brought", "there already"])
async def test_tables_that_were_there_are_as_they_were(topology: Topology, dblink: str) -> None:
    """Unsubscribing removes all columns, keys, privileges and triggers that the subscription added."""
    await topology.execute("sub1", AT_SUBSCRIBER)
    if dblink == "there already":
        await topology.execute(
            "sub1", "create schema msrepl_link; create extension dblink schema msrepl_link"
        )
        # only its owner may use it, with or without a subscription
        await topology.execute(
            "sub1", "revoke all on all functions in schema msrepl_link from public"
        )
    before = await topology.execute("sub1", CATALOG)
    roles = await topology.execute("sub1", ROLES)

    await topology.subscribe("sub1")
    await changed(topology)
    await topology.unsubscribe("sub1")

    assert await topology.execute("sub1", CATALOG) == before
    assert await topology.execute("sub1", ROLES) == roles
    assert await topology.execute("sub1", PARAMETERS) == []
    assert await topology.execute("sub1", "select id, note from parent order by id") == [
        (1, "A"), (3, "C"), (22, "B"),
    ]  # fmt: skip
    # the table is an ordinary one again
    await topology.execute(
        "sub1", "update parent set note = 'free'; truncate child; delete from parent"
    )


async def test_tables_that_the_subscription_made_stay(topology: Topology) -> None:
    """Tables that the subscription created keep rows, keys and row versions, without our other objects."""
    await topology.subscribe("sub1")
    await changed(topology)
    await topology.unsubscribe("sub1")

    left = await topology.execute("sub1", CATALOG)
    assert not [row for row in left if "msrepl" in row[1] and "msrepl_tran_version" not in row[1]
                and "msrepl_app_" not in row[1]]  # fmt: skip
    assert [
        row for row in left if row[0] in ("trigger", "server", "mapping", "event trigger")
    ] == []
    assert await topology.execute("sub1", "select count(*) from child") == [(4,)]
    assert await topology.execute(
        "sub1", "select count(distinct msrepl_tran_version) from parent"
    ) == [(3,)]
    await topology.execute("sub1", "delete from parent where id = 1")
    assert await topology.execute("sub1", "select count(*) from child") == [(2,)]


async def test_the_publisher_forgets(topology: Topology) -> None:
    """The Publisher drops the link's role; the other Subscriber's subscription continues to work."""
    before = await topology.execute("pub", CATALOG)
    await topology.subscribe("sub2")
    with_one = await topology.execute("pub", CATALOG)
    await topology.subscribe("sub1")
    await topology.unsubscribe("sub1")

    assert await topology.execute("pub", CATALOG) == with_one
    pair = Pair(topology, "sub2")
    await pair.open()
    await pair.run("update parent set note = 'still'")
    await pair.equal("parent")
    await pair.app.close()
    await topology.unsubscribe("sub2")
    assert await topology.execute("pub", CATALOG) == before


async def test_subscribing_again(topology: Topology) -> None:
    """A database that has unsubscribed and emptied its tables can subscribe again."""
    await topology.execute("sub1", AT_SUBSCRIBER)
    for _ in range(2):
        await topology.subscribe("sub1")
        with pytest.raises(SubscriptionError, match="21058"):
            await topology.subscribe("sub1")
        await topology.unsubscribe("sub1")
        await topology.execute("sub1", "delete from child; delete from parent; delete from part")
    await topology.subscribe("sub1")
    await changed(topology)


async def test_prepared_branches_are_settled_first(topology: Topology) -> None:
    """Unsubscribing is refused while a branch in doubt needs the subscription's objects."""
    await topology.subscribe("sub1")
    pair = Pair(topology, "sub1")
    await pair.open()
    await pair.begin()
    await pair.execute("update part set n = 9")
    calls = await pair.prepare()
    with pytest.raises(SubscriptionError, match=r"prepared branches \(twopc:.*twopc recover"):
        await topology.unsubscribe("sub1")
    await pair.finish(calls)
    await pair.same("part")
    await pair.app.close()
    await topology.unsubscribe("sub1")


async def test_failed_subscribing_leaves_nothing(topology: Topology) -> None:
    """A subscription that is refused leaves both catalogs unchanged."""
    await topology.execute("sub1", "create table child (id int primary key, parent_id bigint)")
    before = [await topology.execute(node, CATALOG) for node in ("pub", "sub1")]
    roles = await topology.execute("pub", ROLES)
    with pytest.raises(SubscriptionError, match="bigint"):
        await topology.subscribe("sub1")
    assert [await topology.execute(node, CATALOG) for node in ("pub", "sub1")] == before
    assert await topology.execute("pub", ROLES) == roles


async def test_dblink_where_everybody_may_use_it(topology: Topology) -> None:
    """dblink in another schema is refused with the remedy, because an open link belongs to the session."""
    await topology.execute("sub1", "create extension dblink")
    with pytest.raises(SubscriptionError, match="ALTER EXTENSION dblink SET SCHEMA"):
        await topology.subscribe("sub1")


async def test_a_publisher_cannot_subscribe(topology: Topology) -> None:
    """A Publisher cannot subscribe, because the objects of both ends would share a schema."""
    from twopc.subscriber import subscription

    link = subscription.LinkAddress(options={"dbname": "x"}, role="x", password="x")
    with pytest.raises(SubscriptionError, match="publishes tables itself"):
        await subscription.install(
            await topology.admin("pub"), topology.installer.sites("sub1"), link
        )


async def test_who_uses_the_tables_is_waited_for(topology: Topology) -> None:
    """Unsubscribing waits for the tables' users up to a timeout, and removes nothing before."""
    await topology.subscribe("sub1")
    topology.wiring.lock_timeout_ms = 200
    async with topology.transaction("sub1") as transaction:
        await transaction.execute("update part set n = 9")
        with pytest.raises(LockTimeoutError, match=r"in use.*try again"):
            await topology.unsubscribe("sub1")
    await topology.assert_converged()
    assert await topology.execute("pub", "select distinct n from part") == [(9,)]
    topology.wiring.lock_timeout_ms = 30_000
    async with topology.transaction("sub1") as transaction:
        await transaction.execute("update part set n = 10")
        leaving = asyncio.create_task(topology.unsubscribe("sub1"))
        async with asyncio.timeout(60):
            while not await _is_blocked(topology):
                pass
    await leaving
    assert await topology.execute("pub", "select distinct n from part") == [(10,)]
    assert topology.installer.subscribed == []


async def _is_blocked(topology: Topology) -> bool:
    pid = (await topology.admin("sub1")).info.backend_pid
    found = await topology.execute(
        "pub", "select exists (select from pg_locks where pid = %s and not granted)", (pid,)
    )
    return bool(found[0][0])


async def test_a_publisher_that_could_not_be_told_is_told_the_next_time(
    topology: Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unsubscribing again completes at the Publisher, without a search for removed objects at the Subscriber."""
    before = await topology.execute("pub", CATALOG)
    await topology.subscribe("sub1")

    async def lost(subscriber: str) -> None:
        raise psycopg.OperationalError("the connection is lost")

    with monkeypatch.context() as patch:
        patch.setattr(topology.installer, "forget_subscriber", lost)
        with pytest.raises(psycopg.OperationalError):
            await topology.unsubscribe("sub1")
    assert topology.installer.subscribed == []
    assert await topology.execute("pub", CATALOG) != before
    await topology.unsubscribe("sub1")
    assert await topology.execute("pub", CATALOG) == before


async def test_what_a_stranger_has_prepared_keeps_nobody(topology: Topology) -> None:
    """Another role's prepared transaction does not prevent unsubscribing, even if its name is that of a branch."""
    await topology.subscribe("sub1")
    node = topology.node("sub1")
    await topology.execute("sub1", "create role stranger login password 'x'")
    dsn = psycopg.conninfo.make_conninfo(node.dsn, user="stranger", password="x")
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as stranger:
        await stranger.execute("begin; prepare transaction 'twopc:bank:1:1:sub1'")
        try:
            await topology.unsubscribe("sub1")
        finally:
            await stranger.execute("rollback prepared 'twopc:bank:1:1:sub1'")
    await topology.execute("sub1", "drop role stranger")
