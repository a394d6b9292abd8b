"""NOT FOR REPLICATION: changes that an agent applies are not sent back. Also TRUNCATE, which names no rows."""

from __future__ import annotations

import psycopg
import pytest

from tests.fix_topology import MakePair, Pair

pytestmark = pytest.mark.rewinds

TABLES = """
create table parent (id int primary key, n int check (n >= 0));
create table child (id int generated always as identity primary key,
                    parent_id int references parent on delete cascade,
                    u int unique, d int, constraint child_d unique (d) deferrable);
insert into parent values (1, 1), (2, 2);
insert into child (parent_id, u, d) values (1, 1, 1), (2, 2, 2);
"""


@pytest.fixture
async def pair(make_pair: MakePair) -> Pair:
    return await make_pair(TABLES, publish=["parent", "child"])


async def replica(pair: Pair, *statements: str) -> None:
    """Execute statements as an agent does: as an administrator, in the replica role."""
    texts = ["begin", "set local session_replication_role = replica", *statements, "commit"]
    try:
        await pair.topology.execute("sub1", "; ".join(texts))
    except psycopg.Error:
        await pair.topology.execute("sub1", "rollback")
        raise


async def test_nothing_of_ours_fires(pair: Pair) -> None:
    """Our triggers do not fire for an agent: there is no call, and delivered row versions are kept."""
    version = "11111111-1111-1111-1111-111111111111"

    await replica(
        pair,
        f"insert into parent values (3, 3, '{version}')",
        f"insert into child values (30, 3, 30, 30, '{version}')",
        f"update parent set n = 10, msrepl_tran_version = '{version}' where id = 1",
        "update child set u = 20 where u = 2",
        "delete from child where id = 1",
    )

    here = await pair.topology.execute(
        "sub1", f"select id, n, msrepl_tran_version = '{version}' from parent order by id"
    )
    assert here == [(1, 10, True), (2, 2, False), (3, 3, True)]
    assert await pair.topology.execute("pub", "select id, n from parent order by id") == [
        (1, 1),
        (2, 2),
    ]
    for node in ("pub", "sub1"):
        assert await pair.topology.execute(node, "select count(*) from msrepl.branch_marker") == [
            (0,)
        ]


@pytest.mark.parametrize(
    ("what", "statement", "origin", "in_replica"),
    [
        ("CHECK", "update parent set n = -1", "23514", "23514"),
        ("UNIQUE", "update child set u = 1 where u = 2", "23505", "23505"),
        ("deferrable UNIQUE", "update child set d = 1 where d = 2", "23505", None),
        ("foreign key", "update child set parent_id = 99", "23503", None),
        ("NOT NULL", "update parent set id = null", "23502", "23502"),
    ],
)
async def test_what_the_replica_role_still_checks(
    pair: Pair, what: str, statement: str, origin: str, in_replica: str | None
) -> None:
    """Tables with our triggers have the constraint checks that PostgreSQL performs in the replica role."""
    error = await pair.refused(statement)
    assert error.sqlstate == origin, what
    if in_replica is None:
        await replica(pair, statement)
    else:
        with pytest.raises(psycopg.Error) as caught:
            await replica(pair, statement)
        assert caught.value.sqlstate == in_replica, what


async def test_cascades_do_not_happen_in_the_replica_role(pair: Pair) -> None:
    """Cascades do not happen in the replica role, because the agent delivers the children's deletion."""
    await replica(pair, "delete from parent where id = 1")
    assert await pair.topology.execute("sub1", "select count(*) from child") == [(2,)]


async def test_triggers_of_the_user(pair: Pair) -> None:
    """ALWAYS and REPLICA triggers fire for an agent, and the changes that they make are not sent."""
    await pair.topology.execute(
        "sub1",
        """
        create table seen (what text);
        create function see() returns trigger language plpgsql as $$
        begin insert into seen values (tg_argv[0]); return null; end $$;
        create trigger see_origin after insert on parent for each row execute function see('origin');
        create trigger see_always after insert on parent for each row execute function see('always');
        create trigger see_replica after insert on parent for each row execute function see('replica');
        alter table parent enable always trigger see_always;
        alter table parent enable replica trigger see_replica;
        grant all on seen to public;
        """,
    )
    await pair.topology.regenerate("parent")
    fired = "delete from seen returning what"

    await replica(pair, "insert into parent values (5, 5)")
    assert sorted(await pair.topology.execute("sub1", fired)) == [("always",), ("replica",)]
    await pair.run("insert into parent values (6, 6)")
    assert sorted(await pair.topology.execute("sub1", fired)) == [("always",), ("origin",)]
    assert await pair.topology.execute("pub", "select id from parent where id > 4") == [(6,)]


async def test_an_application_cannot_take_the_replica_role(pair: Pair) -> None:
    """An application cannot set the replica role, within a global transaction or outside one."""
    assert (await pair.fails("set session_replication_role = replica")).sqlstate == "42501"
    error = await pair.refused("set local session_replication_role = replica")
    assert error.sqlstate == "42501"


async def test_truncate_is_refused(make_pair: MakePair) -> None:
    """TRUNCATE is refused at both ends: alone, with CASCADE from a parent, and with other tables."""
    pair = await make_pair(
        TABLES,
        "create table outside (id int primary key); alter table parent add foreign key (n) references outside"
        " not valid",
        publish=["parent", "child"],
    )
    await pair.topology.execute("sub1", "create table outside (id int primary key)")
    role = pair.topology.node("sub1").app_role
    await pair.topology.execute("sub1", f"grant truncate on parent, child, outside to {role}")

    for statement in (
        "truncate child",
        "truncate parent cascade",
        "truncate parent, child",
        "truncate outside, child",
    ):
        error = await pair.refused(statement)
        assert error.sqlstate == "0A000", statement
        assert "TRUNCATE is refused" in str(error)
    for statement in ("truncate child", "truncate outside cascade"):
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="TRUNCATE is refused"):
            await pair.topology.execute("pub", statement)
    await pair.equal("parent", "child")
    assert len(await pair.same("child")) == 2


async def test_change_outside_a_global_transaction_is_refused(pair: Pair) -> None:
    for statement in (
        "insert into parent values (7, 7)",
        "update child set u = u + 100",
        "delete from parent where id = 1",
    ):
        assert (await pair.fails(statement)).sqlstate == "25000"
    # a statement that changes no row is allowed
    await pair.execute("delete from parent where false")
    await pair.equal("parent", "child")
