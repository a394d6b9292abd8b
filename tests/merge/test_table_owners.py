"""Code of a table's owner that runs when rows are merged, and gains no rights by it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from psycopg import AsyncConnection
from psycopg.errors import DatatypeMismatch

from tests.fix_topology import share
from twopc.errors import MergeError
from twopc.merge.ranges import IdentityRanges
from twopc.server import EmbeddedServer
from twopc.sim.merge import MergeTopology

#: Statements that the code tries. Each one that succeeds is recorded, with the role that ran it.
TRAP = """
create schema evil;
create table evil.reached (who text, what text);
create table evil.ran (who text);
create function evil.spring(via text) returns boolean language plpgsql as $$
declare
    attempt text;
begin
    insert into evil.ran values (current_user);
    foreach attempt in array array[
        'select from public.other', 'select from msrepl.msmerge_metadata', 'delete from msrepl.msmerge_genhistory',
        'update msrepl.sysmergesubscriptions set priority = 99', 'select msrepl.merge_close()',
        'select * from msrepl.merge_hello()', 'create table public.mine (id int)', 'create role evil_role',
        'set session_replication_role = origin'
    ] loop
        begin
            execute attempt;
            insert into evil.reached values (current_user, attempt);
        exception when others then
            null;
        end;
    end loop;
    {more}
    return true;
end $$;
grant usage on schema evil to public;
grant insert on evil.reached, evil.ran to public;
"""
TABLE = """
create table other (id int primary key, n int);
create domain evil.amount as int check (evil.spring('domain'));
create table item (id int primary key, n evil.amount, check (evil.spring('check')));
"""


@pytest.fixture
async def trapped(server: EmbeddedServer) -> AsyncIterator[MergeTopology]:
    """A topology with the trap in a domain, a check and a trigger of one table at both ends."""
    async with MergeTopology(server=server, subscribers=("anna",)) as topology:
        for node in ("pub", "anna"):
            await topology.execute(node, TRAP.format(more=""))
        await topology.execute("pub", TABLE)
        await topology.publish("item", tracking="column")
        await topology.publish("other")
        await topology.subscribe("anna")
        for node in ("pub", "anna"):
            await topology.execute(
                node,
                "create function evil.fire() returns trigger language plpgsql as"
                " $$ begin perform evil.spring('trigger'); return new; end $$;"
                " create trigger fire before insert or update on item for each row execute function evil.fire();"
                " alter table item enable always trigger fire; truncate evil.reached, evil.ran",
            )
        yield topology


async def change(topology: MergeTopology, node: str, statement: str) -> None:
    """Change rows as an application; an administrator would run the traps with superuser rights."""
    dsn = topology.node(node).app_dsn
    async with await AsyncConnection.connect(dsn, autocommit=True) as connection:
        await connection.execute(statement.encode())
    await topology.execute(node, "truncate evil.reached, evil.ran")


async def exchange(topology: MergeTopology) -> None:
    """Merge rows in both directions, and a conflict."""
    for number, node in enumerate(("pub", "anna")):
        await change(topology, node, f"insert into item values ({number}, 1)")
    await topology.settle()
    await change(topology, "pub", "update item set n = n + 1")
    await change(topology, "anna", "update item set n = n + 2")
    await topology.sync("anna")


async def test_it_runs_in_the_name_of_the_table(trapped: MergeTopology) -> None:
    """Domains, checks and triggers run as a role that has rights on this table only.

    This holds at both ends, and also when conflicts are recorded.
    """
    await exchange(trapped)
    assert len(await trapped.conflicts("item")) == 2
    for node in ("pub", "anna"):
        ran = await trapped.execute(node, "select distinct who from evil.ran")
        assert all(who.startswith("msrepl_table_") for (who,) in ran), (node, ran)
        assert await trapped.execute(node, "select who, what from evil.reached") == [], node
    assert await trapped.execute("anna", "select count(*) from evil.ran") != [(0,)]


async def test_by_hand(trapped: MergeTopology) -> None:
    """An administrator's resolution of a conflict writes the row as the table's role."""
    await exchange(trapped)
    await trapped.execute("pub", "truncate evil.reached, evil.ran")
    kept, given = await trapped.conflicts("item")
    await trapped.resolve(kept, keep="loser")
    await trapped.resolve(given, row={"n": 7})
    ran = await trapped.execute("pub", "select distinct who from evil.ran")
    assert ran and all(who.startswith("msrepl_table_") for (who,) in ran), ran
    assert await trapped.execute("pub", "select who, what from evil.reached") == []


async def test_a_path_that_it_sets(trapped: MergeTopology) -> None:
    """A row whose code sets the search path is refused, and the session continues.

    SET outlasts a call, so the path is restored.
    """
    sets = TRAP.format(more="set search_path = evil, pg_catalog;")
    function = sets[sets.index("create function evil.spring") : sets.index("grant usage")]
    await trapped.execute("anna", function.replace("create function", "create or replace function"))
    await change(trapped, "pub", "insert into item values (500, 1)")
    report = await trapped.sync("anna")
    assert (report.downloaded, report.retried) == (0, 1)
    assert await trapped.execute("anna", "select 1 from item where id = 500") == []
    [(reason,)] = await trapped.execute(
        "anna", "select reason_text from msrepl.msmerge_conflicts_info where reason_code = '42501'"
    )
    assert "has set search_path" in reason


async def test_what_it_leaves_in_the_session(trapped: MergeTopology) -> None:
    """Locks and temporary tables of the owner's code do not outlive a session.

    The connections of agents do.
    """
    leaves = TRAP.format(
        more="perform pg_advisory_lock(7); create temporary table if not exists left_over (n int);"
    )
    function = leaves[leaves.index("create function evil.spring") : leaves.index("grant usage")]
    await trapped.execute("anna", function.replace("create function", "create or replace function"))
    for key in (500, 501):
        await change(trapped, "pub", f"insert into item values ({key}, 1)")
        assert (await trapped.sync("anna")).downloaded == 1
        for left in (
            "select 1 from pg_locks where locktype = 'advisory' and objid = 7",
            "select 1 from pg_class where relname = 'left_over'",
        ):
            assert await trapped.execute("anna", left) == [], left


CASTS = """
create type evil.mood as enum ('calm', 'cross');
create type evil.point as (x int, note json);
create table odd (name varchar(9), mood evil.mood, place evil.point, primary key (mood, name));
insert into odd values ('a', 'calm', row(1, '{}'));
create function evil.printed(evil.mood) returns text language plpgsql as
    $$ begin perform evil.spring('cast'); return 'printed'; end $$;
create function evil.printed(evil.point) returns text language plpgsql as
    $$ begin perform evil.spring('cast'); return 'printed'; end $$;
create function evil.equal(varchar, varchar) returns boolean language plpgsql as
    $$ begin perform evil.spring('operator'); return true; end $$;
create cast (evil.mood as text) with function evil.printed(evil.mood) as implicit;
create cast (evil.point as text) with function evil.printed(evil.point) as assignment;
create operator public.= (leftarg = varchar, rightarg = varchar, function = evil.equal);
"""


async def test_casts_and_operators(topology: MergeTopology) -> None:
    """Validation and inspection of rows call no cast and no operator of the owner."""
    for node in ("pub", "anna"):
        await topology.execute(node, TRAP.format(more=""))
    await share(topology, "odd", CASTS)
    await topology.execute("anna", "update odd set place = row(2, '[]')")
    await topology.sync("anna")
    [result] = await topology.validate("anna")
    assert (result.passed, result.rows) == (True, 1)
    for key in ({"name": "a"}, {"mood": "calm"}):
        assert [row.state for row in await topology.show_row("odd", key)] == ["contents"] * 2
    with pytest.raises(MergeError, match="no node has a row"):
        await topology.show_row("odd", {"name": "b"})
    with pytest.raises(MergeError, match="no column 'nothing'"):
        await topology.show_row("odd", {"nothing": 1})
    await topology.dummy_update("odd", {"name": "a", "mood": "calm"})
    assert (await topology.sync("anna")).downloaded == 1
    assert await topology.execute("pub", "select * from evil.ran") == []


#: A type whose casts are the owner's code.
LABEL = """
create schema evil;
create type evil.label as enum ('a');
create function evil.to_guid(evil.label) returns uuid language plpgsql as
    $$ begin raise 'run by %', current_user; end $$;
create function evil.to_number(evil.label) returns int8 language plpgsql as
    $$ begin raise 'run by %', current_user; end $$;
create function evil.from_number(int8) returns evil.label language plpgsql as
    $$ begin raise 'run by %', current_user; end $$;
create cast (evil.label as uuid) with function evil.to_guid(evil.label) as assignment;
create cast (evil.label as int8) with function evil.to_number(evil.label) as assignment;
create cast (int8 as evil.label) with function evil.from_number(int8) as assignment;
grant usage on schema evil to public;
"""


@pytest.mark.parametrize("node", ["pub", "anna"])
@pytest.mark.parametrize("tracking", ["row", "column"])
async def test_a_column_that_takes_the_name_of_another(
    server: EmbeddedServer, node: str, tracking: str
) -> None:
    """The triggers that record changes and check identity values cast no values of a user's type."""
    async with MergeTopology(server=server, subscribers=("anna",)) as topology:
        await topology.execute("pub", "create table item (id int primary key, n int)")
        await topology.execute("pub", "insert into item values (1, 1)")
        await topology.execute(
            "pub", "create table numbered (id int generated by default as identity primary key)"
        )
        await topology.publish("item", tracking=tracking)
        await topology.publish("numbered", tracking=tracking, identity=IdentityRanges())
        await topology.subscribe("anna")
        await topology.execute(node, LABEL)
        for table, column in (("item", "rowguid"), ("numbered", "id")):
            await topology.execute(
                node,
                f"alter table {table} rename {column} to former;"
                f" alter table {table} add {column} evil.label default 'a'",
            )
        for statement in (
            "insert into item values (2, 1)",
            "update item set n = 2",
            "delete from item",
            "insert into numbered default values",
        ):
            with pytest.raises(DatatypeMismatch):
                await topology.execute(node, statement)
        with pytest.raises(MergeError, match=r"item.*another type in column rowguid: evil\.label"):
            await topology.sync("anna")
