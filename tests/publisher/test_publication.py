"""Publishing and unpublishing: the row version, rights, what is refused, and that nothing is left behind."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg import sql

from publisher import publication, subscriptions
from tests.fix_topology import MakePair, MakeTopology, Pair
from tests.publisher.catalogs import rows, snapshot
from twopc import names
from twopc.errors import ArticleError, SubscriptionError

EVERYTHING = (
    "create schema sales",
    "create role {reader}",
    "create type sales.mood as enum ('good', 'bad')",
    "create sequence sales.nr",
    "create function sales.made() returns text language sql as $$ select 'made' $$",
    "revoke all on function sales.made from public",
    """create table sales.customer (
        id int generated always as identity primary key, name text not null unique, mood sales.mood default 'good',
        nr bigint default nextval('sales.nr'), made text default sales.made(), secret text default 's',
        twice bigint generated always as (nr * 2) stored, check (length(name) < 100))""",
    "create table sales.visit (id int primary key, customer int references sales.customer on delete cascade)",
    "create table sales.log (id int generated always as identity, what text)",
    "create function sales.log() returns trigger language plpgsql security definer as"
    " $$ begin insert into sales.log (what) values (tg_op); return coalesce(new, old); end $$",
    "create trigger log before insert or update or delete on sales.customer"
    " for each row execute function sales.log()",
    "grant select (name) on sales.customer to {reader}",
    "grant select on sales.visit to {reader}",
    "alter table sales.customer replica identity full",
    "insert into sales.customer (name) values ('a'), ('b')",
    "insert into sales.visit values (1, 1), (2, 2)",
)


async def make_everything(make_topology: MakeTopology, **options: Any) -> Any:
    """A topology whose Publisher has tables with all that tables may have."""
    topology = await make_topology(**options)
    reader = names.role("app", topology.name)
    for statement in EVERYTHING:
        if "create role" not in statement:
            await topology.execute("pub", statement.replace("{reader}", reader))
    return topology


@pytest.mark.parametrize("order", [("customer", "visit"), ("visit", "customer")])
async def test_unpublishing_restores_the_table(
    make_topology: MakeTopology, order: tuple[str, str]
) -> None:
    """Columns, triggers, grants, keys, replica identity and rows are what they were; no object is left."""
    topology = await make_everything(make_topology, subscribers=())
    tables = ("sales.customer", "sales.visit", "sales.log")
    before, held = await snapshot(topology, "pub"), await rows(topology, "pub", *tables)

    for _ in range(2):
        connection = await topology.admin("pub")
        for table in order:
            await publication.publish(
                connection, "sales", table,
                columns=("id", "name", "nr", "mood") if table == "customer" else None,
                row_filter="id > 0 and sales.made() = 'made'" if table == "customer" else None,
            )  # fmt: skip
        assert await snapshot(topology, "pub") != before
        for table in order:
            await publication.unpublish(connection, "sales", table)

        assert await snapshot(topology, "pub") == before
        assert await rows(topology, "pub", *tables) == held


async def test_unpublishing_leaves_the_others(make_topology: MakeTopology) -> None:
    """Rights and objects that another article needs stay."""
    topology = await make_everything(make_topology, subscribers=())
    connection = await topology.admin("pub")
    await publication.publish(connection, "sales", "customer")
    alone = await snapshot(topology, "pub")
    await publication.publish(connection, "sales", "visit")
    await publication.unpublish(connection, "sales", "visit")
    assert await snapshot(topology, "pub") == alone


async def test_uninstall(make_topology: MakeTopology) -> None:
    """Nothing of ours is left in a database that publishes nothing."""
    topology = await make_everything(make_topology, subscribers=())
    connection = await topology.admin("pub")
    await publication.publish(connection, "sales", "customer")
    with pytest.raises(ArticleError, match=r"sales\.customer is still published"):
        await publication.uninstall(connection)
    await publication.unpublish(connection, "sales", "customer")
    await publication.uninstall(connection)
    without = await snapshot(topology, "pub")
    assert not [line for line in without if "msrepl_owner" in line or " msrepl." in line]

    await publication.install(connection)
    installed = await snapshot(topology, "pub")
    await publication.install(connection)
    assert await snapshot(topology, "pub") == installed
    await publication.publish(connection, "sales", "customer")
    await publication.unpublish(connection, "sales", "customer")
    await publication.uninstall(connection)
    assert await snapshot(topology, "pub") == without


async def test_unpublishing_while_subscribed(make_pair: MakePair) -> None:
    """Refused: the Subscriber's triggers would call what is gone. The remedy names the Subscribers."""
    pair = await make_pair("create table item (id int primary key)", publish=["item"])
    with pytest.raises(ArticleError, match=r"has subscriptions \(14046\): unsubscribe sub1 first"):
        await pair.topology.unpublish("item")
    await pair.run("insert into item values (1)")
    await pair.app.close()
    await pair.topology.unsubscribe("sub1")
    await pair.topology.unpublish("item")
    assert await pair.topology.execute("pub", "select * from item") == [(1,)]


# -- the row version ------------------------------------------------------------------------------

VERSION = "select msrepl_tran_version::text from item where id = 1"


async def test_row_version(make_topology: MakeTopology) -> None:
    """Given by INSERT, renewed by UPDATE, kept if the statement sets it."""
    topology = await make_topology(subscribers=())
    await topology.execute("pub", "create table item (id int primary key, v int)")
    await topology.execute("pub", "insert into item values (1, 1), (2, 2)")
    await topology.publish("item")
    seen = set(await topology.execute("pub", "select msrepl_tran_version from item"))
    assert len(seen) == 2

    [first] = await topology.execute("pub", VERSION)
    await topology.execute("pub", "update item set v = 2 where id = 1")
    [second] = await topology.execute("pub", VERSION)
    await topology.execute("pub", "update item set v = v where id = 1")
    [third] = await topology.execute("pub", VERSION)
    assert len({first, second, third}) == 3
    own = "00000000-0000-0000-0000-000000000001"
    await topology.execute(
        "pub", f"update item set msrepl_tran_version = '{own}', v = 9 where id = 1"
    )
    assert await topology.execute("pub", VERSION) == [(own,)]
    await topology.execute(
        "pub", "insert into item values (1, 5) on conflict (id) do update set v = 5"
    )
    assert await topology.execute("pub", VERSION) != [(own,)]


async def test_row_version_beside_triggers_of_the_user(make_pair: MakePair) -> None:
    """Triggers that fire before and after ours, by name, change nothing about it."""
    pair = await make_pair(
        "create table item (id int primary key, v int, n int default 0)",
        "insert into item values (1, 1)",
        "create function count_up() returns trigger language plpgsql as "
        "$$ begin new.n := coalesce(new.n, 0) + 1; return new; end $$",
        'create trigger "!first" before insert or update on item for each row execute function count_up()',
        "create trigger zzz before insert or update on item for each row execute function count_up()",
        publish=["item"],
    )
    [before] = await pair.topology.execute("pub", VERSION)
    await pair.topology.execute("pub", "update item set v = 5")
    [after] = await pair.topology.execute("pub", VERSION)
    assert before != after
    assert (await pair.refused("update item set v = 6")).sqlstate == "40001"
    await pair.topology.execute(
        "sub1",
        "set session_replication_role = replica; delete from item;"
        "set session_replication_role = default",
    )
    await pair.run("insert into item values (2, 2)")
    await pair.run("update item set v = 3 where id = 2")
    [(there,)] = await pair.topology.execute("pub", "select n from item where id = 2")
    assert there == 4


async def test_row_version_that_is_there_already(make_pair: MakePair) -> None:
    """It is used, and stays when the table is unpublished."""
    pair = await make_pair(
        "create table item (id int primary key, msrepl_tran_version uuid not null default gen_random_uuid(), v int)",
        "insert into item (id) values (1)",
        publish=["item"],
    )
    await pair.run("update item set v = 1", "insert into item (id, v) values (2, 2)")
    await pair.same("item")
    await pair.app.close()
    await pair.topology.unsubscribe("sub1")
    await pair.topology.unpublish("item")
    assert len(await pair.topology.execute("pub", "select msrepl_tran_version from item")) == 2


@pytest.mark.parametrize(
    ("definition", "problem"),
    [
        ("msrepl_tran_version int", r"is integer, it must be uuid NOT NULL \(21192\)"),
        ("msrepl_tran_version uuid", r"is uuid, it must be uuid NOT NULL \(21192\)"),
        ("msrepl_tran_version text not null default 'x'", r"is text NOT NULL, it must be"),
        ("msrepl_tran_version uuid not null", r"has no default.*SET DEFAULT gen_random_uuid"),
    ],
)
async def test_row_version_of_another_kind(
    make_topology: MakeTopology, definition: str, problem: str
) -> None:
    """A column of that name that cannot be the row version."""
    topology = await make_topology(subscribers=())
    await topology.execute("pub", f"create table item (id int primary key, {definition})")
    with pytest.raises(ArticleError, match=problem):
        await topology.publish("item")


# -- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "schema", "problem"),
    [
        ("custmer", "sales", r"sales\.custmer does not exist.*did you mean sales\.customer"),
        ("customer", "public", r"public\.customer does not exist.*did you mean sales\.customer"),
        ("no_key", "public", r"no_key has no primary key.*ADD PRIMARY KEY"),
        ("a_view", "public", r"a_view is a view.*publish the table behind it"),
        ("mat", "public", r"mat is a materialized view"),
        ("far", "public", r"far is a foreign table"),
        ("quick", "public", r"quick is unlogged.*ALTER TABLE public\.quick SET LOGGED"),
        ("part_1", "public", r"part_1 is a partition: publish its parent"),
        ("rls", "public", r"rls has row security.*DISABLE ROW LEVEL SECURITY"),
        ("ruled", "public", r"ruled has rules"),
        ("heir", "public", r"heir has a parent or children by INHERITS"),
        ("elder", "public", r"elder has a parent or children by INHERITS"),
        ("genkey", "public", r"key column 'id' is generated"),
        ("tagged", "public", r"'x\$msrepl\$' contains \$msrepl\$.*rename it"),
        ("tag$msrepl$ged", "public", r"contains \$msrepl\$.*rename it"),
        ("nr", "sales", r"sales\.nr is a sequence"),
        ("priced", "public", r"'b' is money.*lc_monetary.*TYPE numeric"),
        ("sysarticles", "msrepl", r"belongs to the system"),
        ("pg_class", "pg_catalog", r"belongs to the system"),
        ("pub_twice", "public", r"pub_twice is published already: unpublish it first"),
        ("temp", "pg_temp", r"pg_temp\.temp does not exist"),
    ],
)  # fmt: skip
async def test_tables_that_cannot_be_published(
    make_topology: MakeTopology, table: str, schema: str, problem: str
) -> None:
    """The message names the object and the remedy; the catalogs are as before."""
    topology = await make_everything(make_topology, subscribers=())
    for statement in (
        "create table no_key (id int)",
        "create view a_view as select 1 as id",
        "create materialized view mat as select 1 as id",
        "create extension file_fdw",
        "create server files foreign data wrapper file_fdw",
        "create foreign table far (id int) server files options (filename '/dev/null')",
        "create unlogged table quick (id int primary key)",
        "create table part (id int primary key) partition by range (id)",
        "create table part_1 partition of part for values from (0) to (9)",
        "create table rls (id int primary key)",
        "alter table rls enable row level security",
        "create table ruled (id int primary key)",
        "create rule r as on insert to ruled do instead nothing",
        "create table elder (id int primary key)",
        "create table heir (primary key (id)) inherits (elder)",
        "create table genkey (a int, id int generated always as (a) stored primary key)",
        'create table tagged (id int primary key, "x$msrepl$" int)',
        'create table "tag$msrepl$ged" (id int primary key)',
        "create table pub_twice (id int primary key)",
        "create domain cash as money[]",
        "create table priced (id int primary key, a numeric, b cash)",
        "create temp table temp (id int primary key)",
    ):
        await topology.execute("pub", statement)
    await topology.publish("pub_twice")
    before = await snapshot(topology, "pub")
    with pytest.raises(ArticleError, match=problem):
        await topology.publish(table, schema=schema)
    assert await snapshot(topology, "pub") == before


ITEM = "create table item (id int primary key, name text not null, price numeric(8, 2), made int generated always as (id + 1) stored)"


@pytest.mark.parametrize(
    ("here", "problem"),
    [
        ("create table item (id bigint primary key, name text, price numeric(8, 2), made int)",
         r"column 'id' is bigint, the Publisher's is integer: ALTER TABLE"),
        ("create table item (id int primary key, name text, price numeric, made int)",
         r"'price' is numeric, the Publisher's is numeric\(8,2\)"),
        ("create table item (id int primary key, name text, made int)",
         r"no column 'price' \(numeric\(8,2\) at the Publisher\): ALTER TABLE"),
        ("create table item (id int, name text, price numeric(8, 2), made int)",
         r"has primary key \(none\), the Publisher's is \(id\)"),
        ("create table item (id int, name text primary key, price numeric(8, 2), made int)",
         r"has primary key \(name\), the Publisher's is \(id\)"),
        ("create table item (id int primary key, name text, price numeric(8, 2) not null, made int)",
         r"'price' is NOT NULL, the Publisher's may be NULL"),
        ("create table item (id int primary key, name text, price numeric(8, 2) generated always as (1) stored, made int)",
         r"'price' is generated, the Publisher's takes values"),
        ("create table item (id int primary key, name text, price numeric(8, 2), made int, more int not null)",
         r"'more' is not published and NOT NULL without a default"),
        ("create table item (id int primary key, name text, price numeric(8, 2), made int, msrepl_tran_version text)",
         r"'msrepl_tran_version' is text, the Publisher's is uuid"),
        (ITEM + "; insert into item values (7, 'own')", r"is not empty"),
        ("create view item as select 1 as id", r"is not an ordinary table"),
        ("create unlogged table item (id int primary key, name text, price numeric(8, 2), made int)",
         r"is not an ordinary table"),
        ("create table other (id int); create index item_pkey on other (id)",
         r"'item_pkey' already exists|\"item_pkey\" already exists"),
        ("create extension dblink", r"dblink"),
    ],
)  # fmt: skip
async def test_tables_in_the_way_at_the_subscriber(
    make_topology: MakeTopology, here: str, problem: str
) -> None:
    """Refused by name, and nothing is half-installed at either end."""
    topology = await make_topology(subscribers=("sub1",))
    await topology.execute("pub", ITEM)
    await topology.execute("pub", "insert into item values (1, 'a', 1)")
    await topology.publish("item")
    await topology.execute("sub1", here)
    before = await snapshot(topology, "pub"), await snapshot(topology, "sub1")
    with pytest.raises(SubscriptionError, match=problem):
        await topology.subscribe("sub1")
    assert (await snapshot(topology, "pub"), await snapshot(topology, "sub1")) == before


@pytest.mark.parametrize(
    ("there", "here", "problem"),
    [
        ("create type mood as enum ('a', 'b')", "create type mood as enum ('a')",
         r"type public\.mood, needed by column 'm' of item, differs .*is \"create type .*\('a'\)\", the Publisher's is"),
        ("create domain mood as text check (value <> 'x')", "create domain mood as text", r"differs at"),
        ("create extension citext; create domain mood as citext", "select 1",
         r"type public\.citext.* comes with extension 'citext'.*CREATE EXTENSION citext"),
        ("create function f(text) returns boolean language sql as 'select true';"
         " create domain mood as text check (f(value))", "select 1", r"function public\.f.* does not exist"),
        ("create collation c (provider = libc, locale = 'C'); create domain mood as text collate c", "select 1",
         r"collation .*does not exist"),
    ],
)  # fmt: skip
async def test_types_that_differ(
    make_topology: MakeTopology, there: str, here: str, problem: str
) -> None:
    """A type of the same name must be the same; one that cannot be created is named."""
    topology = await make_topology(subscribers=("sub1",))
    await topology.execute("pub", there)
    await topology.execute("pub", "create table item (id int primary key, m mood)")
    await topology.publish("item")
    await topology.execute("sub1", here)
    before = await snapshot(topology, "pub"), await snapshot(topology, "sub1")
    with pytest.raises(SubscriptionError, match=problem):
        await topology.subscribe("sub1")
    assert (await snapshot(topology, "pub"), await snapshot(topology, "sub1")) == before


async def test_numbers_that_the_subscriber_would_make_itself(make_topology: MakeTopology) -> None:
    """The Publisher makes identities and serials; a table that is there must not."""
    topology = await make_topology(subscribers=("sub1",))
    await topology.execute(
        "pub", "create table item (id int generated by default as identity primary key, s serial)"
    )
    await topology.publish("item")
    for definition, problem in (
        (
            "id int generated by default as identity primary key, s int not null",
            "'id' makes numbers of its own.*DROP IDENTITY",
        ),
        ("id int primary key, s serial", "'s' has the default nextval.*DROP DEFAULT"),
    ):
        await topology.execute("sub1", f"create table item ({definition})")
        with pytest.raises(SubscriptionError, match=problem):
            await topology.subscribe("sub1")
        await topology.execute("sub1", "drop table item")


async def test_existing_table_is_taken(make_pair: MakePair) -> None:
    """Other order of columns, columns of its own, and no row version: all right."""
    pair = await make_pair(
        ITEM,
        "insert into item values (1, 'a', 1), (2, 'b', null)",
        publish=["item"],
        at_subscriber=(
            "create table item (made int, price numeric(8, 2), own text default 'mine', name text, id int primary key)",
        ),
    )
    await pair.run("update item set price = 5", "insert into item (id, name) values (3, 'c')")
    there, here = await pair.rows(
        "select id, name, price, made, msrepl_tran_version from item order by id"
    )
    assert there == here
    assert len(there) == 3


async def test_checks_are_copied_if_they_can_be(make_pair: MakePair) -> None:
    """Built-in functions: refused here, before anything travels. The user's own: at the Publisher."""
    pair = await make_pair(
        "create function good(int) returns boolean language sql as 'select $1 < 100'",
        """create table item (id int primary key, v int constraint small check (v < 50) constraint fine check (good(v)),
            w int, x int constraint hidden check (x > 0))""",
        "alter table item add constraint not_yet check (w > 0) not valid",
        "alter table item drop constraint small",
        "alter table item add constraint small check (v between 0 and 1000 and id > 0)",
        publish=[{"table": "item", "columns": ["id", "v", "w"]}],
    )
    [(copied,)] = await pair.topology.execute(
        "sub1",
        "select array_agg(conname::text) from pg_constraint where contype = 'c' and conrelid = 'item'::regclass",
    )
    assert copied == ["small"]
    await pair.begin()
    error = await pair.fails("insert into item values (1, 2000)")
    await pair.rollback()
    assert error.diag.constraint_name == "small"
    error = await pair.refused("insert into item values (1, 500)")
    assert error.sqlstate == "23514"
    assert "fine" in str(error)


# -- rights ---------------------------------------------------------------------------------------


async def link(pair: Pair) -> psycopg.AsyncConnection[Any]:
    """A session as the link role, with a password of the test's."""
    [subscription] = await subscriptions.subscriptions(await pair.topology.admin("pub"))
    await pair.topology.execute("pub", f"alter role {subscription.link_role} password 'known'")
    node = pair.topology.node("pub")
    dsn = node.server.dsn(node.database, subscription.link_role, "known")
    return await psycopg.AsyncConnection.connect(dsn, autocommit=True)


async def test_link_role_may_call_sync_procedures_only(make_pair: MakePair) -> None:
    """No table, no fence, no other function of ours, no schema to create in."""
    pair = await make_pair(
        "create table item (id int generated by default as identity primary key, v int)",
        "create table other (id int primary key)",
        publish=["item"],
    )
    async with await link(pair) as session:
        may = await (await session.execute(
            """
            select p.proname::text from pg_proc p
            where p.pronamespace = 'msrepl'::regnamespace and has_function_privilege(p.oid, 'execute')
            """
        )).fetchall()  # fmt: skip
        allowed = {
            "sp_mssync_ins_item",
            "sp_mssync_upd_item",
            "sp_mssync_del_item",
            "sp_mssync_gen_item",
        }
        assert allowed <= {name for (name,) in may} <= allowed | {"defer_keys", "stored_rows"}
        for statement in (
            "select from item",
            "select from other",
            "insert into item values (1)",
            "update item set v = 1",
            "delete from item",
            "truncate item",
            "begin; lock table item",
            "copy item to stdout",
            "select from msrepl.branch_marker",
            "insert into msrepl.branch_marker (gid, xid, participants) values ('x', '1', '{}')",
            "select from msrepl.sysarticles",
            "select from msrepl.syssubscriptions",
            "select msrepl.raise_stale('a', 'b', 'c')",
            "select msrepl.await_branches(null)",
            "select msrepl.table_structure(1)",
            "create table msrepl.mine (id int)",
            "create function msrepl.mine() returns int language sql as 'select 1'",
            "create schema mine",
            "select nextval('item_id_seq')",
            "set role postgres",
            "set session authorization postgres",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                await session.execute(statement)
            await session.execute("rollback")


async def test_another_role_may_not_call(make_pair: MakePair) -> None:
    """Application roles at the Publisher cannot pose as a Subscriber."""
    pair = await make_pair("create table item (id int primary key)", publish=["item"])
    async with await psycopg.AsyncConnection.connect(
        pair.topology.node("pub").app_dsn, autocommit=True
    ) as app:
        for operation in ("ins", "upd", "del"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                arguments = "null, null, '{}', '{}'" if operation == "upd" else "null, null, '{}'"
                await app.execute(f"call msrepl.sp_mssync_{operation}_item(null, {arguments})")


PUBLIC = """
select 'function ' || p.oid::regprocedure from pg_proc p
where p.pronamespace = 'msrepl'::regnamespace
  and exists (select from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a where a.grantee = 0)
union all
select 'relation ' || c.oid::regclass from pg_class c
where c.relnamespace = 'msrepl'::regnamespace and exists (select from aclexplode(c.relacl) a where a.grantee = 0)
union all
select 'schema' from pg_namespace n
where n.nspname = 'msrepl' and exists (select from aclexplode(n.nspacl) a where a.grantee = 0)
union all
select 'type ' || t.oid::regtype from pg_type t
left join pg_class c on c.oid = t.typrelid
where t.typnamespace = 'msrepl'::regnamespace and t.typcategory <> 'A' and coalesce(c.relkind, 'c') = 'c'
  and exists (select from aclexplode(coalesce(t.typacl, acldefault('T', t.typowner))) a where a.grantee = 0)
"""
NOT_OWNED = """
select p.oid::regprocedure::text from pg_proc p
where p.pronamespace = 'msrepl'::regnamespace and p.proowner <> %s::regrole
union all
select c.oid::regclass::text from pg_class c
where c.relnamespace = 'msrepl'::regnamespace and c.relkind in ('r', 'S', 'v') and c.relowner <> %s::regrole
"""
UNPINNED = """
select p.oid::regprocedure::text from pg_proc p
where p.pronamespace = 'msrepl'::regnamespace
  and not coalesce(p.proconfig::text ~ 'search_path=pg_catalog', false)
"""


async def test_public_has_nothing(make_pair: MakePair) -> None:
    """In schema msrepl, at either end; everything there belongs to our owner, with a pinned search path."""
    pair = await make_pair(
        "create table item (id int generated by default as identity primary key, v serial, parent int references item)",
        publish=["item"],
    )
    for node in ("pub", "sub1"):
        assert await pair.topology.execute(node, PUBLIC) == [], node
        owner = publication.owner_role(pair.topology.node(node).database)
        assert await pair.topology.execute(node, NOT_OWNED, (owner, owner)) == [], node
        assert await pair.topology.execute(node, UNPINNED) == [], node


async def test_names_of_ours_do_not_reach_a_users_function(make_pair: MakePair) -> None:
    """A function of the user's with a familiar name is not called by our procedures."""
    pair = await make_pair(
        "create function public.unnest(anyarray) returns setof anyelement language sql as"
        " $$ select null::int / 0 $$".replace(
            "select null::int / 0", "select ($1)[1] where 1 / 0 > 0"
        ),
        "create function public.cardinality(anyarray) returns int language sql as 'select 1 / 0'",
        "create table item (id int primary key, v int)",
        publish=["item"],
    )
    await pair.run("insert into item values (1, 1)", "update item set v = 2", "delete from item")


async def test_a_role_may_not_be_invented(make_pair: MakePair) -> None:
    """The originator is the role of the link, whatever a call says."""
    pair = await make_pair("create table item (id int primary key)", publish=["item"])
    await pair.run("insert into item values (1)")
    [subscription] = await subscriptions.subscriptions(await pair.topology.admin("pub"))
    marked = await pair.topology.execute(
        "pub", "select originator, participants from msrepl.branch_marker"
    )
    assert marked == [(subscription.link_role, ["pub", "sub1"])]


def test_owner_role_is_quoted_nowhere_by_hand() -> None:
    """Role names are hashes: no database name can break out of one."""
    role = publication.owner_role('a"b; drop table c')
    assert sql.Identifier(role).as_string(None) == f'"{role}"'
    assert role.replace("_", "").isalnum()
