"""The owner of a published table gains no privilege through code that is evaluated when Subscribers change it."""

from __future__ import annotations

import json
from typing import Any

import psycopg

from tests.fix_topology import MakeTopology, Pair, share
from tests.rights.traps import AT_PUBLISHER, DOMAIN, HARMLESS, TABLE, sabotage, trap

OTHER = "create table other (id int primary key, n int); insert into other values (1, 1), (2, 2)"
INSERT = "insert into item (id, name, amount) values ({0}, 'one', 1)"
OWN = """
    own boolean default evil.fine('default', 1),
    worked_out boolean generated always as (evil.fine('generated', id)) stored,
    kept serial check (evil.fine('check of a made value', kept)),
"""


async def trapped(make_topology: MakeTopology) -> Pair:
    """Return a Publisher whose table `item` belongs to the application, which has no privilege on `other`."""
    topology = await make_topology(subscribers=("sub1",))
    pub, app = topology.publisher, topology.node("pub").app_role
    for statement in (
        trap(app, AT_PUBLISHER),
        DOMAIN,
        TABLE.format(own=OWN, generated=""),
        "create index trapped on item ((evil.fine('index', id)))",
        "create trigger a_trap before insert or update or delete on item"
        " for each row execute function evil.spring()",
        "alter table item owner to {app}",
        "alter domain evil.amount owner to {app}",
        OTHER,
    ):
        await topology.execute(pub, statement.replace("{app}", f'"{app}"'))
    await topology.execute("sub1", HARMLESS)
    await topology.publish("other")
    await topology.publish("item", columns=["id", "name", "amount", "made"])
    await topology.execute(pub, f'revoke all on other from "{app}"')
    await topology.subscribe("sub1")
    await topology.execute(pub, "truncate evil.reached, evil.evaluated")
    pair = Pair(topology, "sub1")
    await pair.open()
    return pair


async def nothing_reached(pair: Pair) -> dict[str, set[str]]:
    """Assert that no attempt succeeded; return which role evaluated what."""
    query = "select distinct via, who, what, how from evil.reached order by 2, 3, 1"
    assert await pair.topology.execute("pub", query) == []
    found: dict[str, set[str]] = {}
    for via, who in await pair.topology.execute("pub", "select via, who from evil.evaluated"):
        found.setdefault(who, set()).add(via)
    return found


async def test_what_subscribers_change(make_topology: MakeTopology) -> None:
    """Neither the owner of the sync procedures nor the link's role evaluates code of the table's owner."""
    pair = await trapped(make_topology)
    async with pair.app:
        await pair.run(
            INSERT.format(1),
            INSERT.format(2),
            "update item set name = 'again', amount = 7 where id = 1",
            "delete from item where id = 2",
        )
    found = await nothing_reached(pair)
    (who,) = found
    assert who.startswith("msrepl_table_")
    assert found[who] >= {"check", "domain", "index", "generated", "trigger", "default"}


ALTERS = """
for attempt in select format('alter routine %s security invoker', p.oid::regprocedure) from pg_proc p
               where p.proowner = current_user::regrole loop
    execute attempt;
end loop;
"""


async def test_what_is_done_to_those_who_go_on(make_topology: MakeTopology) -> None:
    """The table's role gains no privilege by altering the functions that it owns."""
    pair = await trapped(make_topology)
    await pair.topology.execute("pub", sabotage(ALTERS))
    async with pair.app:
        await pair.run(INSERT.format(1))
        error = await pair.refused(INSERT.format(2))
    assert error.sqlstate == "42501"
    assert "must run as its owner" in str(error)
    assert all(who.startswith("msrepl_table_") for who in await nothing_reached(pair))


async def test_a_path_that_comes_with_the_commit(make_topology: MakeTopology) -> None:
    """A search path that SET LOCAL hides until the commit does not affect the link's later queries."""
    pair = await trapped(make_topology)
    (link,) = await pair.topology.execute("pub", "select link_role from msrepl.syssubscriptions")
    await pair.topology.execute("pub", f'alter role "{link[0]}" set lock_timeout = 300')
    await pair.topology.execute(
        "pub",
        """
        create function evil.pg_backend_pid() returns int language plpgsql
            as $$ begin perform evil.try('path'); return 0; end $$;
        grant usage on schema evil to public
        """,
    )
    hide = "set search_path = evil, pg_catalog; set local search_path = pg_catalog, pg_temp;"
    await pair.topology.execute("pub", sabotage(hide))
    async with pair.app:
        await pair.run(INSERT.format(1))
        admin = await pair.topology.admin("pub")
        async with admin.transaction():
            await admin.execute("select from item where id = 1 for update")
            error = await pair.refused("update item set name = 'again' where id = 1")
    assert error.sqlstate == "55P03"
    assert all(who.startswith("msrepl_table_") for who in await nothing_reached(pair))


TOLD = """
set role {app};
create type evil.mood as enum ('calm', 'cross');
create function evil.told(evil.mood) returns json language plpgsql
    as $$ begin perform evil.try('cast'); return '1'; end $$;
create cast (evil.mood as json) with function evil.told(evil.mood) as assignment;
reset role;
create table item (id evil.mood primary key, n int, mood evil.mood);
create function evil.again() returns trigger language plpgsql as $$
begin
    if pg_trigger_depth() = 1 then
        update item set n = n + 1 where id = new.id or new.n < 0;
    end if;
    return null;
end $$;
create trigger again after insert or update on item for each row execute function evil.again();
alter table item owner to {app};
"""


async def test_casts_of_rows_that_a_trigger_changes(make_topology: MakeTopology) -> None:
    """The witness of the Publisher's triggers, which runs as the owner of our objects, calls no cast to json."""
    topology = await make_topology(subscribers=("sub1",))
    app = topology.node("pub").app_role
    for statement in (trap(app, AT_PUBLISHER), TOLD.replace("{app}", f'"{app}"'), OTHER):
        await topology.execute("pub", statement)
    for name in ("other", "item"):
        await topology.publish(name)
    await topology.execute("pub", f'revoke all on other from "{app}"; truncate evil.evaluated')
    await topology.subscribe("sub1")
    pair = Pair(topology, "sub1")
    await pair.open()
    async with pair.app:
        await pair.run(
            "insert into item values ('calm', 1, 'calm'), ('cross', 1, 'cross')",
            "update item set n = n + 1, mood = 'calm'",
        )
        error = await pair.refused("update item set n = -1 where id = 'calm'")
    assert json.loads(str(error.diag.message_detail))["key"] == {"id": "cross"}
    assert await pair.same("item")
    own: Any = await psycopg.AsyncConnection.connect(topology.node("pub").app_dsn, autocommit=True)
    async with own:
        await own.execute("update item set n = n + 1")
    assert await nothing_reached(pair) == {}


ONLY_AS_THE_TABLES_ROLE = """
create schema evil;
create table item (id int primary key, "t" int, label text);
create function evil.few(id int) returns boolean language plpgsql as $$
begin
    if current_user !~ '^msrepl_table_' then
        raise exception 'evaluated as %', current_user;
    end if;
    return id % 2 = 0;
end $$;
insert into item select g, g, 'a ''quoted'', "text"' from generate_series(1, 9) g;
"""


async def test_what_a_filter_calls(make_topology: MakeTopology) -> None:
    """An administrator who copies, compares or repairs rows does not evaluate the functions of a row filter."""
    topology = await make_topology(subscribers=("sub1", "sub2"))
    await topology.execute("pub", ONLY_AS_THE_TABLES_ROLE)
    await topology.publish("item")
    await topology.subscribe("sub1", filters={"item": "evil.few(id)"})
    await topology.subscribe("sub2", update_mode="read only", filters={"item": "evil.few(id)"})
    await topology.execute("pub", "update item set t = 0 where id < 5")
    await topology.sync()
    await topology.assert_converged()
    for name in ("sub1", "sub2"):
        await topology.execute(
            name,
            "set session_replication_role = replica; update item set t = 77 where id = 2;"
            " reset session_replication_role",
        )
        (verdict,) = await topology.validate(name, repair=True)
        assert verdict.repaired
        assert await topology.execute(name, "select count(*) from item") == [(4,)]
    await topology.reinitialise("sub1")
    await topology.execute("pub", "alter table item alter label type varchar using label || '!'")
    await topology.execute("sub1", "alter table item alter label type varchar")
    await topology.execute("sub2", "alter table item alter label type varchar")
    await topology.regenerate("item", repair=True)
    await topology.assert_converged()


CASTS = """
create type mood as enum ('calm', 'cross');
create table item (id mood primary key, other mood, is_new boolean);
insert into item values ('calm', 'cross', true);
create function trap(mood) returns text language plpgsql as $$ begin raise 'called as %', current_user; end $$;
create cast (mood as text) with function trap(mood) as assignment;
"""


async def test_casts_of_the_owners(make_topology: MakeTopology) -> None:
    """Comparing both ends, by rows or by checksums, calls no cast to text."""
    topology = await make_topology(subscribers=("sub1",))
    await share(topology, "item", CASTS)
    await topology.execute("pub", "update item set other = null, is_new = false")
    await topology.sync()
    await topology.assert_converged()
    assert [each.passed for each in await topology.validate("sub1")] == [True]
