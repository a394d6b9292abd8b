"""Referential actions: a statement's changes to parents and children are sent as one net effect."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from tests.fix_topology import MakePair, Pair

pytestmark = pytest.mark.immediate

THREE_LEVELS = """
create table parent (id int primary key, note text);
create table child (id int primary key, parent_id int references parent on delete cascade on update cascade);
create table grandchild (id int primary key, child_id int references child on delete cascade on update cascade,
                         note text);
insert into parent select g, 'p' from generate_series(1, 4) as g;
insert into child select p * 10 + c, p from generate_series(1, 4) as p, generate_series(1, 3) as c;
insert into grandchild select id * 10 + g, id, 'g' from child, generate_series(1, 2) as g;
"""
LEVELS = ("parent", "child", "grandchild")

# one table that refers to itself by two keys with different actions
TREE = """
create table tree (id int primary key, up int references tree on delete cascade on update cascade,
                   other int references tree on delete set null on update cascade);
insert into tree values (1, null, null), (2, 1, 1), (3, 2, 1), (4, 3, 2), (5, 1, 4), (6, null, 5);
"""

# a child with two keys: a row is set to null by one, and deleted by the other
MIXED = """
create table source (id int primary key);
create table target (id int primary key, a int references source on delete set null,
                     b int references source on delete cascade);
insert into source select generate_series(1, 5);
insert into target values (1, 1, 2), (3, 3, null), (4, 4, 3), (5, 5, 5);
"""


@pytest.fixture
async def pair(make_pair: MakePair) -> Pair:
    return await make_pair(THREE_LEVELS, publish=LEVELS)


DELETES = [
    "delete from parent where id = 1",
    "delete from parent where id < 3",
    "delete from parent",
    "delete from child where id in (11, 12)",
    "with gone as (delete from child where parent_id = 1) delete from parent where id = 1",
    "with gone as (delete from parent where id = 1) delete from child where parent_id = 1",
    "with gone as (delete from grandchild where child_id = 11), c as (delete from child where id = 11) "
    "delete from parent where id = 1",
]
UPDATES = [
    "update parent set id = 100 where id = 1",
    "update parent set id = id + 100, note = 'x'",
    "update child set id = id + 1000 where parent_id = 2",
    "with moved as (update child set parent_id = 2 where id = 11) delete from parent where id = 1",
    "with noted as (update grandchild set note = 'last' where child_id = 11) delete from parent where id = 1",
    "with noted as (update child set id = 110 where id = 11) update parent set id = 9 where id = 4",
]
MERGES = [
    """
    merge into parent as p using (values (1), (2), (8)) as v(id) on p.id = v.id
    when matched and p.id = 1 then delete
    when matched then update set id = 200
    when not matched then insert values (v.id, 'new')
    """,
    """
    merge into child as c using parent as p on c.parent_id = p.id
    when matched and c.id % 10 = 1 then delete
    when matched and c.id % 10 = 2 then update set id = c.id + 500
    """,
]


@pytest.mark.parametrize("shipping", ["eager", "lazy"])
async def test_three_levels(pair: Pair, shipping: str) -> None:
    """CASCADE over three levels is sent as one message: for DELETE, UPDATE and MERGE, alone and in a CTE."""
    await pair.save(*LEVELS)
    for statement in DELETES + UPDATES + MERGES:
        assert await pair.run(statement, shipping=shipping) == 1, statement
        await pair.equal(*LEVELS, after=statement)
        await pair.restore(*LEVELS)


@pytest.mark.parametrize("action", ["cascade", "set null", "set default"])
async def test_composite_key(make_pair: MakePair, action: str) -> None:
    """Each action on delete and on update works with a composite key."""
    pair = await make_pair(
        f"""
        create table p (a int, b int, note text, primary key (a, b));
        create table c (id int primary key, a int default 9, b int default 9,
                        foreign key (a, b) references p on delete {action} on update {action});
        insert into p values (1, 1, 'x'), (1, 2, 'x'), (2, 1, 'x'), (9, 9, 'default');
        insert into c select row_number() over (), a, b from p, generate_series(1, 3)
        """,
        publish=["p", "c"],
    )
    await pair.save("p", "c")
    for statement in (
        "delete from p where a < 3",
        "update p set b = b + 10 where a < 3",
        "update p set a = a + 10, note = 'y' where a < 9",
        "update p set a = b * 100, b = a * 100 where a < 9",
    ):
        assert await pair.run(statement) == 1
        await pair.equal("p", "c", after=statement)
        await pair.restore("p", "c")


async def test_self_reference(make_pair: MakePair) -> None:
    """In a table that refers to itself, one statement can change a row several times."""
    pair = await make_pair(TREE, publish=["tree"])
    await pair.save("tree")
    for statement in (
        "delete from tree where id = 1",
        "delete from tree where id = 2",
        "delete from tree where id = 4",
        "delete from tree where id in (3, 6)",
        "delete from tree",
        "update tree set id = 100 where id = 1",
        "update tree set id = id + 100",
        "update tree set id = id + 100, other = null",
        "update tree set up = null, other = null",
        "insert into tree values (7, 8, 9), (8, 7, 9), (9, 9, 9)",
        "with moved as (update tree set up = 6 where id = 2) delete from tree where id = 1",
    ):
        assert await pair.run(statement) == 1
        await pair.equal("tree", after=statement)
        await pair.restore("tree")


async def test_two_keys_on_one_row(make_pair: MakePair) -> None:
    """A row that SET NULL and CASCADE both change is sent as deleted, with its values before the statement."""
    pair = await make_pair(MIXED, publish=["source", "target"])
    await pair.save("source", "target")
    for count in (1, 2, 5):
        for rows in itertools.combinations(range(1, 6), count):
            statement = f"delete from source where id in ({', '.join(map(str, rows))})"
            assert await pair.run(statement) == 1
            await pair.equal("source", "target", after=statement)
            await pair.restore("source", "target")


async def test_tables_that_refer_to_each_other(make_pair: MakePair) -> None:
    """A deletion cascades through two tables that refer to each other, from the end of the chain to its beginning."""
    pair = await make_pair(
        """
        create table one (id int primary key, up int);
        create table two (id int primary key, up int references one on delete cascade);
        alter table one add foreign key (up) references two on delete cascade;
        insert into one values (1, null), (9, null);
        insert into two values (1, 1);
        insert into one values (2, 1);
        insert into two values (2, 2);
        insert into one values (3, 2)
        """,
        publish=["one", "two"],
    )

    await pair.run("delete from one where id = 1")

    await pair.equal("one", "two")
    assert await pair.topology.execute("sub1", "select id from one") == [(9,)]


async def test_several_statements_and_savepoints(pair: Pair) -> None:
    """Each statement is sent when it ends; changes that are rolled back to a savepoint are not sent."""
    calls = await pair.run(
        "update parent set note = 'first'",
        "savepoint a",
        "delete from parent where id = 1",
        "rollback to a",
        "update parent set id = 101 where id = 1",
        "savepoint b",
        "update child set id = 999 where id = 11",
        "rollback to a",
        "delete from child where id = 21",
        "insert into parent values (5, 'new')",
        "with p as (insert into parent values (6, 'new')) insert into child values (61, 6)",
        "delete from parent where id = 2",
    )

    assert calls == 5
    await pair.equal(*LEVELS)


async def test_exception_block(pair: Pair) -> None:
    """A cascade that an exception block rolls back leaves no held rows."""
    await pair.run(
        """
        do $$
        begin
            begin
                delete from parent where id < 3;
                raise division_by_zero;
            exception when division_by_zero then
                update parent set id = 200 where id = 2;
            end;
            delete from parent where id = 3;
        end
        $$
        """
    )

    await pair.equal(*LEVELS)


@pytest.mark.parametrize("action", ["no action", "restrict"])
async def test_keys_without_actions(make_pair: MakePair, action: str) -> None:
    """Parents and children changed by one statement are sent in an order that neither end refuses."""
    pair = await make_pair(
        f"""
        create table p (id int primary key);
        create table c (id int primary key, p int references p on delete {action});
        insert into p values (1), (2);
        insert into c values (11, 1), (21, 2)
        """,
        publish=["p", "c"],
    )

    calls = await pair.run(
        "with gone as (delete from c where p = 1) delete from p where id = 1",
        "with new as (insert into p values (3)) insert into c values (31, 3)",
        "with new as (insert into p values (4) returning id) insert into c select 41, id from new",
    )

    assert calls == 3
    await pair.equal("p", "c")


@pytest.mark.parametrize(
    ("action", "statement"),
    [
        ("on delete cascade", "delete from parent where id = 1"),
        ("on delete set null", "delete from parent where id = 1"),
        ("on delete set default", "delete from parent where id = 1"),
        ("on update cascade", "update parent set id = 5 where id = 1"),
        ("on update set null", "update parent set id = 5 where id = 1"),
    ],
)
async def test_rows_that_only_the_publisher_holds(
    make_pair: MakePair, action: str, statement: str
) -> None:
    """If the Publisher's action would change a row that the Subscriber does not hold, there is a conflict."""
    pair = await make_pair(
        f"""
        create table parent (id int primary key);
        create table child (id int primary key, parent_id int references parent {action});
        insert into parent values (1), (2);
        insert into child values (11, 1)
        """,
        publish=["parent", "child"],
    )
    await pair.topology.execute("pub", "insert into child values (12, 1)")
    before = await pair.rows("select * from child order by id")

    error = await pair.refused(statement)

    assert error.sqlstate == "23503"
    assert "child" in str(error)
    assert "does not hold" in str(error)
    assert await pair.rows("select * from child order by id") == before
    assert await pair.rows("select id from parent order by id") == ([(1,), (2,)], [(1,), (2,)])


async def test_child_that_the_publisher_is_adding(make_pair: MakePair) -> None:
    """A child that is added while the parent's deletion waits causes a conflict, and is not silently deleted."""
    pair = await make_pair(
        "create table parent (id int primary key);"
        "create table child (id int primary key, parent_id int references parent on delete cascade);"
        "insert into parent values (1)",
        publish=["parent", "child"],
    )
    other = await pair.topology.node("pub").connect()
    async with other:
        await other.set_autocommit(False)
        await other.execute("insert into child values (12, 1)")
        await pair.begin()
        waiting = asyncio.create_task(pair.execute("delete from parent where id = 1"))
        await pair.waiting_link()
        await other.commit()
        with pytest.raises(Exception, match="does not hold"):
            await waiting
        await pair.rollback()
    assert await pair.topology.execute("pub", "select id from child") == [(12,)]


async def test_user_trigger_that_adds_children(make_pair: MakePair) -> None:
    """Changes that a user's trigger makes within a statement belong to its net effect."""
    pair = await make_pair(
        THREE_LEVELS,
        publish=LEVELS,
        user_triggers=[
            """
            create function touch() returns trigger language plpgsql as $$
            begin
                if tg_op = 'INSERT' then
                    insert into child values (new.id * 10, new.id);
                else
                    update child set id = id + 5000 where parent_id = new.id;
                    delete from grandchild where child_id = new.id * 10 + 5001;
                end if;
                return null;
            end $$;
            create trigger touch after insert or update on parent for each row execute function touch();
            """
        ],
    )

    await pair.run(
        "insert into parent values (7, 'x'), (8, 'x')",
        "update parent set id = id + 100 where id in (1, 2)",
        "delete from parent where id = 7",
    )

    await pair.equal(*LEVELS)


async def test_row_deleted_and_inserted_again(make_pair: MakePair) -> None:
    """A row that one statement deletes and inserts again may keep its row version."""
    pair = await make_pair(
        "create table p (id int primary key, note text);"
        "create table c (id int primary key, p int references p, note text);"
        "insert into p values (1, 'a'); insert into c values (11, 1, 'a'), (12, 1, 'a')",
        publish=["p", "c"],
    )

    await pair.run(
        "with old as (delete from c where id = 11 returning *), up as (update p set note = 'b')"
        " insert into c select id + 100, p, 'again', msrepl_tran_version from old",
        "with old as (delete from c where id = 12 returning *), up as (update p set note = 'c')"
        " insert into c select id, p, 'again', msrepl_tran_version from old where false",
    )

    await pair.equal("p", "c")


async def test_held_rows_are_gone_afterwards(pair: Pair) -> None:
    await pair.run("delete from parent where id = 1", "update parent set id = 99 where id = 2")
    assert await pair.topology.execute("sub1", "select count(*) from msrepl.held_row") == [(0,)]


async def test_serializable_transactions_do_not_meet_in_our_tables(pair: Pair) -> None:
    """Held rows take no predicate locks, because these would make unrelated transactions conflict."""
    await pair.begin(isolation="serializable")
    await pair.execute("delete from parent where id = 1")
    await pair.execute("update parent set id = 99 where id = 2")
    taken = """
        select distinct c.relname from pg_locks l join pg_class c on c.oid = l.relation
        where l.mode = 'SIReadLock' and c.relname ~ '^(held|branch)'
    """
    assert await pair.topology.execute("sub1", taken) == []
    calls = await pair.prepare()
    assert await pair.topology.execute("sub1", taken) == []
    await pair.finish(calls)
    await pair.equal(*LEVELS)


async def test_publishing_makes_keys_deferrable_and_unpublishing_restores(
    make_pair: MakePair,
) -> None:
    """Foreign keys between published tables become deferrable; unpublishing restores those that were not."""
    pair = await make_pair(
        THREE_LEVELS,
        "create table outside (id int primary key, c int references child)",
        publish=["parent", "grandchild", "child"],
    )
    keys = """
        select conname, condeferrable, condeferred from pg_constraint
        where contype = 'f' and connamespace = 'public'::regnamespace order by conname
    """
    assert await pair.topology.execute("pub", keys) == [
        ("child_parent_id_fkey", True, False),
        ("grandchild_child_id_fkey", True, False),
        ("outside_c_fkey", False, False),
    ]
    await pair.topology.unsubscribe("sub1")
    await pair.topology.unpublish("parent")
    assert await pair.topology.execute("pub", keys) == [
        ("child_parent_id_fkey", False, False),
        ("grandchild_child_id_fkey", True, False),
        ("outside_c_fkey", False, False),
    ]
    await pair.topology.unpublish("grandchild")
    await pair.topology.unpublish("child")
    assert all(not deferrable for _, deferrable, _ in await pair.topology.execute("pub", keys))


@pytest.mark.sample(1, by=("tamper",))
@pytest.mark.parametrize(
    "tamper",
    [
        "reset all",
        "set local msrepl.open_statements = ''",
        "set local msrepl.open_statements = '7;1 DELETE 7'",
        "set local msrepl.open_statements = 'x'",
        "set local msrepl.held_rows = ''",
        "set local msrepl.held_rows = '(0,1)'",
        "set local msrepl.held_rows = '(0,1) (0,2) (0,3) (7,7)'",
        "set local msrepl.held_rows = 'x'",
        "set local msrepl.marker = ''",
    ],
)
@pytest.mark.parametrize("when", ["between", "within"])
async def test_tampered_settings_never_diverge(make_pair: MakePair, tamper: str, when: str) -> None:
    """Changing our settings causes an error or leaves both ends equal, and never makes them differ."""
    pair = await make_pair(
        THREE_LEVELS,
        publish=LEVELS,
        user_triggers=[
            f"""
            create function meddle() returns trigger language plpgsql as $$
            begin
                execute $x${tamper}$x$;
                return null;
            end $$;
            create trigger meddle after delete on child for each statement execute function meddle();
            """
        ]
        if when == "within"
        else [],
    )
    gid = await pair.begin()
    try:
        await pair.execute("update parent set note = 'x' where id = 3")
        await pair.execute("delete from parent where id = 1")
        if when == "between":
            await pair.execute(tamper)
        await pair.execute(f"set local msrepl.gid = '{gid}'")
        await pair.execute("delete from parent where id = 2")
        await pair.execute("update parent set id = 30 where id = 3")
        await pair.commit()
    except Exception:
        await pair.rollback()
    await pair.equal(*LEVELS)


async def test_keys_that_only_the_subscriber_has(make_pair: MakePair) -> None:
    """Referential actions that only the Subscriber has are replicated like other changes."""
    pair = await make_pair(
        "create table tree (id int primary key, up int); create table leaf (id int primary key, tree int);"
        "insert into tree values (1, null), (2, 1), (3, 2); insert into leaf values (10, 1), (20, 2), (30, 3)",
        publish=["tree", "leaf"],
        at_subscriber=[
            "create table tree (id int primary key, up int references tree on delete cascade on update cascade);"
            "create table leaf (id int primary key, tree int references tree on delete set null on update cascade)"
        ],
    )
    for statement in (
        "update tree set id = id + 100",
        "update tree set id = 5 where id = 102",
        "delete from tree where id = 5",
    ):
        assert await pair.run(statement) == 1
        await pair.equal("tree", "leaf", after=statement)
    assert await pair.topology.execute("pub", "select id from tree") == [(101,)]


#: Keys with everything that a key may have; a row of `line` violates those that were not checked.
KEYS = """
create table shop (tenant int, id int, primary key (tenant, id));
create table line (
    id int primary key, tenant int not null, shop int, a int, b int, c int,
    constraint to_shop foreign key (tenant, shop) references shop on delete set null (shop) on update cascade
        deferrable initially deferred,
    constraint in_full foreign key (a, b) references shop match full,
    constraint ignored foreign key (tenant, c) references shop on delete cascade not enforced
);
insert into shop values (1, 1), (1, 2);
insert into line (id, tenant, shop, c) values (1, 1, 1, null), (2, 9, null, 7);
"""
UNCHECKED = (
    "alter table line add constraint unchecked foreign key (tenant, c) references shop not valid"
)


async def test_keys_that_the_subscription_creates(make_pair: MakePair) -> None:
    """A created copy has the foreign keys of the Publisher's table, except those that PostgreSQL ignores."""
    pair = await make_pair(KEYS, UNCHECKED, publish=["shop", "line"])
    # publishing makes keys deferrable
    there, here = await pair.rows(
        "select conname::text, regexp_replace(pg_get_constraintdef(oid), ' DEFERRABLE( NOT VALID)?$', '\\1')"
        " from pg_constraint where contype = 'f' and conrelid = 'line'::regclass order by 1"
    )
    assert [key for key in there if key[0] != "ignored"] == here
    assert [name for name, _ in here] == ["in_full", "to_shop", "unchecked"]
    await pair.run("insert into line values (3, 5, 5)", "insert into shop values (5, 5)")
    await pair.run("delete from shop where tenant = 5")
    assert await pair.execute("select tenant, shop from line where id = 3") == [(5, None)]
    await pair.equal("shop", "line")
