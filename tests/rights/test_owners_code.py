"""The owner of a subscribed table gains no privilege through code that is evaluated when other roles write to it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fix_topology import MakeTopology, Pair
from tests.rights.traps import AT_SUBSCRIBER, DOMAIN, HARMLESS, OWN, TABLE, sabotage, trap
from tests.validation.ends import ends
from twopc.errors import DeliveryError
from twopc.sim.validation import validate
from twopc.subscriber.distribution_agent import Profile

TIDY = """
create function tidy() returns trigger language plpgsql as
    $$ begin new.name := upper(new.name); return new; end $$;
create trigger tidy before insert or update on item for each row execute function tidy();
"""
OTHER = "create table other (id int primary key, n int); insert into other values (1, 1), (2, 2)"
ALL = {"check", "domain", "index", "generated", "trigger"}


async def trapped(
    make_topology: MakeTopology, *, profile: Profile | None = None, **options: Any
) -> Pair:
    """Return a Subscriber whose table `item` belongs to the application, which has no privilege on `other`."""
    topology = await make_topology(subscribers=("sub1",))
    pub, app = topology.publisher, topology.node("sub1").app_role
    for statement in (
        HARMLESS,
        DOMAIN,
        TABLE.format(own="", generated="generated always as (id + 1) stored"),
        TIDY,
        OTHER,
    ):
        await topology.execute(pub, statement)
    await topology.publish("other")
    await topology.publish("item", **options)
    at_subscriber = [
        trap(app, AT_SUBSCRIBER),
        DOMAIN,
        TABLE.format(own=OWN, generated=""),
        "create index trapped on item ((evil.fine('index', id)))",
        "alter table item owner to {app}",
        "alter domain evil.amount owner to {app}",
    ]
    for statement in at_subscriber:
        await topology.execute("sub1", statement.replace("{app}", f'"{app}"'))
    await topology.subscribe("sub1", profile=profile)
    for statement in (
        "create trigger a_trap before insert or update or delete on item"
        " for each row execute function evil.spring()",
        "alter table item enable always trigger a_trap",
        f'revoke all on other from "{app}"',
    ):
        await topology.execute("sub1", statement)
    await topology.activate("sub1")
    await topology.execute("sub1", "truncate evil.reached, evil.evaluated")
    pair = Pair(topology, "sub1")
    await pair.open()
    return pair


async def nothing_reached(pair: Pair) -> dict[str, set[str]]:
    """Assert that no attempt succeeded; return which role evaluated what, and delete the records."""
    reached = await pair.topology.execute(
        "sub1", "select distinct via, who, what, how from evil.reached order by 2, 3, 1"
    )
    assert reached == []
    found: dict[str, set[str]] = {}
    for via, who in await pair.topology.execute(
        "sub1", "with gone as (delete from evil.evaluated returning *) select via, who from gone"
    ):
        found.setdefault(who, set()).add(via)
    return found


async def test_what_comes_back(make_topology: MakeTopology) -> None:
    """Values returned by the Publisher are written by a role that has no other privilege."""
    pair = await trapped(make_topology)
    async with pair.app:
        await pair.run(
            "insert into item (id, name, amount) values (1, 'one', 1), (2, 'two', 2)",
            "update item set name = 'again', amount = 7 where id = 1",
        )
    found = await nothing_reached(pair)
    found.pop(pair.topology.node("sub1").app_role)
    assert list(found.values()) == [ALL - {"index"}]  # no update of an indexed column
    assert not any("owner" in who for who in found)


async def test_what_the_publisher_generates(make_topology: MakeTopology) -> None:
    """A domain's check of a value that the Publisher generates runs as the role that inserts the row."""
    topology = await make_topology(subscribers=("sub1",))
    app = topology.node("sub1").app_role
    table = "create table item (id evil.amount primary key {default}, n int)"
    for statement in (
        HARMLESS,
        DOMAIN,
        "create sequence numbers",
        table.format(default="default nextval('numbers')"),
        OTHER,
    ):
        await topology.execute("pub", statement)
    for name in ("other", "item"):
        await topology.publish(name)
    for statement in (trap(app, AT_SUBSCRIBER), DOMAIN, table.format(default="")):
        await topology.execute("sub1", statement)
    await topology.subscribe("sub1")
    await topology.execute("sub1", f'revoke all on other from "{app}"; truncate evil.evaluated')
    pair = Pair(topology, "sub1")
    await pair.open()
    async with pair.app:
        await pair.run("insert into item (n) values (1), (2)", "insert into item (n) values (3)")
    assert await pair.rows("select id, n from item order by id") == (
        [(1, 1), (2, 2), (3, 3)],
        [(1, 1), (2, 2), (3, 3)],
    )
    assert await nothing_reached(pair) == {app: {"domain"}}


#: How the trap's code may affect its caller's later statements: its statements, and the
#: error that follows.
SABOTAGE = {
    "alters": (
        """
        for attempt in select format('alter routine %s security invoker', p.oid::regprocedure) from pg_proc p
                       where p.proowner = current_user::regrole loop
            execute attempt;
        end loop;
        """,
        "must run as its owner",
    ),
    "sets": ("set search_path = evil, pg_catalog;", "has set search_path"),
}


@pytest.mark.parametrize("how", SABOTAGE)
async def test_what_is_done_to_those_who_go_on(make_topology: MakeTopology, how: str) -> None:
    """Neither altering its own functions nor a setting that outlasts a call gives the table's role more privileges."""
    pair = await trapped(make_topology)
    doing, said = SABOTAGE[how]
    await pair.topology.execute("sub1", sabotage(doing))
    async with pair.app:
        statement = "insert into item (id, name, amount) values ({0}, 'one', 1)"
        if how == "alters":
            await pair.run(statement.format(1))
        error = await pair.refused(statement.format(2))
    assert error.sqlstate == "42501"
    assert said in str(error)
    assert not any("owner" in who for who in await nothing_reached(pair))


#: Statements at the Publisher, by how agents apply them; each evaluates the table's expressions.
BROUGHT = {
    "one by one": "insert into item (id, name, amount) select g, 'x', g from generate_series(1, 3) g",
    "as a set": "insert into item (id, name, amount) select g, 'x', g from generate_series(100, 199) g",
    "updates": "update item set amount = amount + 1, id = case id when 2 then 99 else id end",
    "deletes": "delete from item where id < 99",
}


@pytest.mark.parametrize("form", ["CALL", "SQL"])
async def test_what_agents_bring(make_topology: MakeTopology, form: str) -> None:
    """In every call format, only the table's role evaluates the owner's code."""
    pair = await trapped(make_topology, propagate={"ins": form, "upd": form, "del": form})
    async with pair.app:
        for statement in BROUGHT.values():
            await pair.topology.execute("pub", statement)
            await pair.topology.sync()
            (who,) = await nothing_reached(pair)
            assert who.startswith("msrepl_table_")


@pytest.mark.parametrize("how", SABOTAGE)
async def test_what_is_done_to_an_agent(make_topology: MakeTopology, how: str) -> None:
    """Neither altered functions nor settings give the code the privileges of the agent or of another table's role."""
    pair = await trapped(make_topology)
    doing, said = SABOTAGE[how]
    await pair.topology.execute("sub1", sabotage(doing))
    both = "begin; insert into item (id, name, amount) values ({0}, 'x', 1); insert into other values (1{0}, 1); commit"
    async with pair.app:
        if how == "alters":  # an altered function takes effect with the next statement
            await pair.topology.execute("pub", both.format(1))
            await pair.topology.sync()
        await pair.topology.execute("pub", both.format(2))
        with pytest.raises(DeliveryError, match=said):
            await pair.topology.sync()
    assert all(who.startswith("msrepl_table_") for who in await nothing_reached(pair))


async def test_what_administrators_bring(make_topology: MakeTopology) -> None:
    """Repairs, reinitialising and copying into an existing table do not evaluate the owner's code as a superuser."""
    pair = await trapped(make_topology)
    topology = pair.topology
    await pair.app.close()
    await topology.execute("sub1", sabotage("null;"))
    await topology.execute(
        "pub", "insert into item (id, name, amount) select g, 'x', g from generate_series(1, 9) g"
    )
    await topology.sync()
    await topology.execute(
        "sub1",
        "begin; set local session_replication_role = replica; update item set amount = 77 where id = 4;"
        " delete from item where id = 5; update item set id = 50 where id = 6; commit",
    )
    await topology.execute("sub1", "truncate evil.reached, evil.evaluated")
    found = await validate(ends(topology, "sub1"), advance=topology.sync, repair=True)
    assert sum(len(each.repaired) for each in found) == 4
    by = [await nothing_reached(pair)]
    await topology.reinitialise("sub1")
    by.append(await nothing_reached(pair))
    await topology.unsubscribe("sub1")
    await topology.execute("sub1", "truncate item, other, evil.reached, evil.evaluated")
    await topology.subscribe("sub1")
    by.append(await nothing_reached(pair))
    for found_by in by:
        (who,) = found_by
        assert who.startswith("msrepl_table_")
        assert found_by[who] >= ALL
    await pair.same("other")


async def test_a_path_that_comes_with_the_commit(make_topology: MakeTopology) -> None:
    """A search path that SET LOCAL hides until the commit does not affect the agent's next transaction."""
    pair = await trapped(make_topology, profile=Profile(commit_batch_size=1))
    await pair.topology.execute(
        "sub1",
        "create function evil.same(integer, integer) returns boolean language plpgsql"
        " as $$ begin perform evil.try('path'); return $1 operator(pg_catalog.=) $2; end $$;"
        " create operator evil.= (leftarg = integer, rightarg = integer, function = evil.same)",
    )
    hide = """
        perform set_config('traps.path', current_setting('search_path'), false);
        set search_path = evil, pg_catalog;
        perform set_config('search_path', current_setting('traps.path'), true);
    """
    await pair.topology.execute("sub1", sabotage(hide))
    async with pair.app:
        for number in (1, 2):
            await pair.topology.execute(
                "pub", f"insert into item (id, name, amount) values ({number}, 'x', 1)"
            )
        await pair.topology.sync()
    assert all(who.startswith("msrepl_table_") for who in await nothing_reached(pair))
