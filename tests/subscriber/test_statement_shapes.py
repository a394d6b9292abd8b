"""After statements of every form, both ends are equal, and each kind of change is one call."""

from __future__ import annotations

import psutil
import pytest

from tests.fix_topology import MakePair, Pair
from twopc.waits import link_name

pytestmark = [pytest.mark.immediate, pytest.mark.rewinds]

# a unique key that is checked at the end of each statement, so that k = k + 1 is possible; calls of
# such a table are sent as one message per statement
DEFERRABLE = """
create table item (id int, k int, name text, constraint item_k unique (k) deferrable,
                   constraint item_pkey primary key (id) deferrable);
insert into item select g, g, 'n' || g from generate_series(1, 10) as g;
create table other (id int primary key, note text);
insert into other select g, 'o' from generate_series(1, 10) as g;
"""
# the same without it: several rows at once are possible only if no value occurs twice on the way
PLAIN = DEFERRABLE.replace(" deferrable", "")

# statement, number of calls
SHAPES = [
    # INSERT ... ON CONFLICT
    ("insert into other values (1, 'x'), (11, 'y') on conflict do nothing", 1),
    ("insert into other values (1, 'x'), (2, 'y') on conflict (id) do nothing", 0),
    ("insert into other values (1, 'x'), (12, 'y') on conflict (id) do update set note = excluded.note", 2),
    ("insert into other values (1, 'z') on conflict (id) do update set note = excluded.note", 1),
    ("insert into other values (1, 'z') on conflict (id) do update set note = 'never' where false", 0),
    ("insert into other values (1, 'z') on conflict (id) do update set id = 101", 1),
    # MERGE with all actions
    ("""
     merge into item as t using (values (1, 'a'), (2, 'b'), (3, 'c'), (50, 'new')) as s(id, name) on t.id = s.id
     when matched and s.id = 1 then delete
     when matched and s.id = 2 then do nothing
     when matched then update set name = s.name, k = 1000
     when not matched then insert values (s.id, s.id, s.name)
     """, 3),
    ("merge into item using (values (99)) as s(id) on item.id = s.id when matched then delete", 0),
    ("""
     merge into item using (select 4 as id) as s on item.id = s.id
     when not matched by source and item.id = 5 then delete
     when matched then update set name = 'merged'
     """, 2),
    # a unique value moves from a deleted row to another row
    ("with gone as (delete from item where k = 4 returning k) insert into item select 60, k, 'taken' from gone", 2),
    ("with gone as (delete from item where id = 6) update item set k = 6 where id = 7", 2),
    # data-modifying CTEs
    ("""
     with a as (insert into item values (70, 70, 'cte')), b as (update item set name = 'cte' where id = 8),
          c as (delete from item where id = 9), d as (update other set note = 'cte')
     select 1
     """, 4),
    ("with a as (insert into item values (71, 71, 'x') returning id) update other set note = a.id::text from a", 2),
    ("with a as (update item set name = 'twice' where id = 8), b as (update item set name = 'twice' where id = 7)"
     " select 1", 1),
    # unique keys, several rows at once
    ("update item set k = k + 1", 1),
    ("update item set k = -k", 1),
    ("update item set k = case k % 2 when 0 then k - 1 else k + 1 end", 1),
    ("update item set id = id + 1000", 1),
    ("update item set id = id + 1, k = k + 1, name = 'all'", 1),
    ("update item set id = id * 2 where id % 2 = 0", 1),
    # no rows
    ("update item set name = 'none' where false", 0),
    ("delete from item where false", 0),
    ("insert into item select id, k, name from item where false", 0),
    # an update that changes no value is a change
    ("update item set name = name", 1),
    ("update other set id = id", 1),
    ("delete from item", 1),
]  # fmt: skip


ONLY_DEFERRABLE = (
    "k = k + 1",
    "case k % 2",
    "with gone as (delete from item where id = 6)",
    "id = id + 1,",
)


@pytest.mark.parametrize("shipping", ["eager", "lazy"])
async def test_shapes(make_pair: MakePair, shipping: str) -> None:
    """Each statement in its own transaction is sent as one call per kind of change."""
    pair = await make_pair(PLAIN, publish=["item", "other"])
    for statement, calls in SHAPES:
        if any(part in statement for part in ONLY_DEFERRABLE):
            continue
        sent = await pair.run(statement, shipping=shipping)
        assert sent == (calls if shipping == "eager" else min(calls, 1)), statement
        await pair.equal("item", "other", after=statement)


@pytest.mark.parametrize("shipping", ["eager", "lazy"])
async def test_shapes_with_a_deferrable_unique_key(make_pair: MakePair, shipping: str) -> None:
    """k = k + 1, swaps and moving values are accepted by the Publisher if the Subscriber accepts them."""
    pair = await make_pair(DEFERRABLE, publish=["item", "other"])
    for statement, _ in SHAPES:
        await pair.run(statement, shipping=shipping)
        await pair.equal("item", "other", after=statement)


@pytest.mark.parametrize("shipping", ["eager", "lazy"])
async def test_shapes_in_one_transaction(make_pair: MakePair, shipping: str) -> None:
    """All statements work one after the other in one transaction."""
    pair = await make_pair(DEFERRABLE, publish=["item", "other"])
    await pair.run(*(statement for statement, _ in SHAPES[:-1]), shipping=shipping)
    assert len(await pair.same("item")) > 5
    await pair.same("other")


async def test_zero_rows_leave_no_trace(make_pair: MakePair) -> None:
    """A transaction that changes no row is read-only: it has no call, marker or branch at the Publisher."""
    pair = await make_pair(PLAIN, publish=["item"])
    await pair.begin()
    await pair.execute("update item set name = 'x' where false")
    await pair.execute("delete from item where false")
    await pair.execute("insert into item select * from item where false")
    await pair.execute(
        "merge into item using (select 1 where false) s on false when matched then delete"
    )
    assert await pair.execute("select pg_current_xact_id_if_assigned() is null") == [(True,)]
    assert await pair.prepare() == 0
    await pair.app.execute(f"rollback prepared '{pair.gid}:sub1'")
    assert await pair.topology.execute("pub", "select count(*) from msrepl.branch_marker") == [(0,)]


@pytest.mark.parametrize(
    ("definition", "statements"),
    [
        ("id int primary key", ["update t set id = id + 100", "update t set id = 1 where id = 105"]),
        (
            "a int, b text, c date, primary key (b, c, a)",
            ["update t set a = a + 1", "update t set b = 'x' || b, c = c + 1", "update t set a = -a, b = b || a"],
        ),
        ("id uuid primary key", ["update t set id = md5(id::text)::uuid"]),
    ],
)  # fmt: skip
async def test_key_changes(make_pair: MakePair, definition: str, statements: list[str]) -> None:
    """Single and composite keys can be changed for some rows or all, and to values of other rows."""
    columns = definition.split(", primary key")[0].removesuffix(" primary key")
    made = {
        "int": "g",
        "text": "'t' || g",
        "date": "date '2024-01-01' + g",
        "uuid": "gen_random_uuid()",
    }
    values = ", ".join(made[column.split()[1]] for column in columns.split(", "))
    pair = await make_pair(
        f"create table t ({definition}, note text)",
        f"insert into t select {values}, 'n' from generate_series(1, 6) as g",
        publish=["t"],
    )
    for statement in [*statements, "update t set note = note || '!'"]:
        assert await pair.run(statement) == 1
        await pair.equal("t", after=statement)


async def test_keys_that_are_permuted(make_pair: MakePair) -> None:
    """Rows can exchange keys that are deferrable, and unpublished columns stay with their rows."""
    pair = await make_pair(
        """
        create table t (id int, name text, secret text default 's', primary key (id) deferrable);
        insert into t select g, 'n' || g, 'secret of ' || g from generate_series(1, 5) as g
        """,
        publish=[{"table": "t", "columns": ["id", "name"]}],
    )
    for statement in (
        "update t set id = 3 - id where id < 3",
        "update t set id = 6 - id",
        "update t set id = id % 5 + 1",
        "update t set id = id + 1",
    ):
        await pair.run(statement)
        there, here = await pair.rows("select id, name, msrepl_tran_version from t order by id")
        assert there == here, statement
    assert await pair.topology.execute(
        "pub", "select count(*) from t where secret <> 'secret of ' || substr(name, 2)"
    ) == [(0,)]


async def test_immediate_unique_key_in_descending_order(make_pair: MakePair) -> None:
    """An update that PostgreSQL accepts row by row at the Subscriber is accepted by the Publisher."""
    pair = await make_pair(
        "create table t (id int primary key); insert into t select generate_series(20, 1, -1)",
        publish=["t"],
    )
    try:
        await pair.run("update t set id = id + 1")
    except Exception as error:  # neither end has changed anything, whichever refuses
        assert "t_pkey" in str(error)
    await pair.same("t")


async def test_copy_returning_views_and_rules(make_pair: MakePair) -> None:
    """COPY FROM, RETURNING, writable views, INSERT ... SELECT from the same table, and functions work."""
    pair = await make_pair(PLAIN, publish=["item", "other"])
    await pair.topology.execute(
        "sub1",
        """
        create view low as select id, k, name from item where id < 100 with check option;
        grant all on low to public;
        create function rename(which int, what text) returns text language sql as
            $$ update item set name = what where id = which returning name $$;
        """,
    )
    await pair.begin()
    async with (
        pair.app.cursor() as cursor,
        cursor.copy("copy item (id, k, name) from stdin") as copy,
    ):
        for number in range(200, 300):
            await copy.write_row((number, number, f"copied, {number}\t'\\"))
    returned = await pair.execute(
        "update item set name = 'r' where id in (1, 2) returning id, name"
    )
    assert sorted(returned) == [(1, "r"), (2, "r")]
    await pair.execute("insert into low values (90, 90, 'view')")
    await pair.execute("update low set name = 'through the view' where id = 3")
    await pair.execute("delete from low where id = 4")
    await pair.execute("insert into item select id + 1000, k + 1000, name from item")
    assert await pair.execute("select rename(5, 'by function')") == [("by function",)]
    assert await pair.commit() == 7
    await pair.same("item")


async def test_same_row_three_times(make_pair: MakePair) -> None:
    """A row can be inserted, updated twice, deleted and inserted again in one transaction."""
    pair = await make_pair(PLAIN, publish=["item", "other"])
    for shipping in ("eager", "lazy"):
        await pair.run(
            "update item set name = 'one' where id = 1",
            "update other set note = 'between'",
            "update item set name = 'two' where id = 1",
            "update item set name = 'three', id = 77 where id = 1",
            "delete from item where id = 77",
            "insert into item values (1, 1, 'four')",
            "update item set name = 'five' where id = 1",
            "insert into item values (500, 500, 'gone again')",
            "delete from item where id = 500",
            shipping=shipping,
        )
        await pair.equal("item", "other", after=shipping)


async def backends(pair: Pair) -> list[psutil.Process]:
    """Return the server processes of the application's session and of its link."""
    await pair.run("insert into plain values (0, 'opens the link')")
    name = link_name(pair.subscriber, pair.app.info.backend_pid)
    found = await pair.topology.execute(
        "pub", "select pid from pg_stat_activity where application_name = %s", (name,)
    )
    return [psutil.Process(pid) for pid in (pair.app.info.backend_pid, found[0][0])]


async def test_cost_per_row_does_not_grow(make_pair: MakePair) -> None:
    """10 000 rows cost as much per row as 1 000: no kind of change has quadratic cost."""
    pair = await make_pair(
        "create table plain (id int primary key, name text);"
        "create table parent (id int primary key, name text);"
        "create table child (id int primary key, p int references parent on delete cascade on update cascade);"
        "create index on child (p)",
        publish=["plain", "parent", "child"],
    )
    # PostgreSQL's referential actions search the children of each parent
    await pair.topology.execute("sub1", "create index on child (p)")

    pair_of_backends = await backends(pair)

    async def seconds(*statements: str) -> float:
        began = sum(sum(backend.cpu_times()[:2]) for backend in pair_of_backends)
        await pair.run(*statements)
        return sum(sum(backend.cpu_times()[:2]) for backend in pair_of_backends) - began

    async def all_of(first: int, count: int) -> dict[str, float]:
        last = first + count - 1
        spread = f"generate_series({first}, {last}) as g"
        within = f"between {first} and {last}"
        return {
            "insert": await seconds(f"insert into plain select g, 'n' || g from {spread}"),
            "update": await seconds(f"update plain set name = name || 'x' where id {within}"),
            "key": await seconds(f"update plain set id = -id where id {within}"),
            "delete": await seconds(f"delete from plain where -id {within}"),
            "held insert": await seconds(
                f"with p as (insert into parent select g, 'p' from {spread} returning id)"
                " insert into child select id, id from p"
            ),
            "cascade update": await seconds(f"update parent set id = -id where id {within}"),
            "cascade delete": await seconds(f"delete from parent where -id {within}"),
        }

    await all_of(1, 100)  # plans, link
    small, large = await all_of(1000, 1000), await all_of(10000, 10000)

    await pair.equal("plain", "parent", "child")
    for what in small:
        # quadratic cost would be 100 times as much; the bound is generous, for a busy machine
        assert large[what] < 35 * max(small[what], 0.01), (
            f"{what}: {small[what]} s, {large[what]} s"
        )


async def test_two_pairs_of_tables(make_pair: MakePair) -> None:
    """Tables in several schemas work, with names that need quotes."""
    pair = await make_pair(
        """
        create schema "Sales ""dept"; create table "Sales ""dept"."Order" ("Id" int primary key, "select" text);
        create table "item %s" ("sync" int primary key, "r" text, "place" text, "sent" int);
        """,
        publish=[
            {"schema": 'Sales "dept', "table": "Order"},
            "item %s",
        ],
    )
    await pair.run(
        """insert into "Sales ""dept"."Order" values (1, 'a''b\\'), (2, null)""",
        """insert into "item %s" values (1, '%s', $$x$$, 3), (2, '{}', '$msrepl$', null)""",
        """update "item %s" set "sync" = "sync" + 10, r = 'n'""",
        """update "Sales ""dept"."Order" set "select" = 'x' where "Id" = 1""",
        """delete from "item %s" where "place" = '$msrepl$'""",
    )
    await pair.equal('"Sales ""dept"."Order"', '"item %s"')


async def test_isolation_levels(make_pair: MakePair) -> None:
    """REPEATABLE READ and SERIALIZABLE work, also with foreign keys."""
    pair = await make_pair(
        "create table p (id int primary key); insert into p values (1), (2), (3);"
        "create table c (id int primary key, p int references p on delete cascade); insert into c values (1, 1), (2, 2)",
        publish=["p", "c"],
    )
    for place, isolation in enumerate(("read committed", "repeatable read", "serializable"), 1):
        await pair.run(f"delete from p where id = {place}", isolation=isolation)
        await pair.equal("p", "c", after=isolation)
