"""The owner of one subscribed table reaches nothing by what is evaluated when others write to it."""

from __future__ import annotations

import pytest

from tests.fix_topology import MakeTopology, Pair
from tests.rights.traps import AT_SUBSCRIBER, DOMAIN, HARMLESS, OWN, TABLE, sabotage, trap

TIDY = """
create function tidy() returns trigger language plpgsql as
    $$ begin new.name := upper(new.name); return new; end $$;
create trigger tidy before insert or update on item for each row execute function tidy();
"""
OTHER = "create table other (id int primary key, n int); insert into other values (1, 1), (2, 2)"
ALL = {"check", "domain", "index", "generated", "trigger"}


async def trapped(make_topology: MakeTopology, *rows: str, **options: object) -> Pair:
    """A Subscriber whose table `item` is the application's, which has no right to `other`."""
    topology = await make_topology(subscribers=("sub1",))
    pub, app = topology.publisher, topology.node("sub1").app_role
    for statement in (
        HARMLESS,
        DOMAIN,
        TABLE.format(own="", generated="generated always as (id + 1) stored"),
        TIDY,
        OTHER,
        *rows,
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
    await topology.subscribe("sub1")
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
    """Assert that no attempt had success; returns who has evaluated what, and forgets it."""
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
    """Rows that the Publisher stored otherwise are written by a role that can do nothing else."""
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


#: What the code may do to those who go on after it: its function, and what the next statement fails with.
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
    """The table's role owns its functions and can alter them; a setting outlasts a call. Neither leads further."""
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
