"""Tables that cannot be published or subscribed to are refused with a reason, and no objects remain."""

from __future__ import annotations

import pytest

from tests.fix_topology import MakePair, MakeTopology
from tests.publisher.catalogs import make_everything, snapshot
from twopc.errors import ArticleError, SubscriptionError


@pytest.mark.parametrize(
    ("table", "schema", "problem"),
    [
        ("custmer", "sales", r"sales\.custmer does not exist.*did you mean sales\.customer"),
        ("customer", "public", r"public\.customer does not exist.*did you mean sales\.customer"),
        ("no_key", "public", r"no_key has no primary key.*ADD PRIMARY KEY"),
        ("stay", "public", r"stay has no primary key.*or one WITHOUT OVERLAPS"),
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
        ("pub_twice", "public", r"pub_twice is published already: `twopc unpublish` it first"),
        ("temp", "pg_temp", r"pg_temp\.temp does not exist"),
    ],
)  # fmt: skip
async def test_tables_that_cannot_be_published(
    make_topology: MakeTopology, table: str, schema: str, problem: str
) -> None:
    """The message names the object and the remedy, and the catalogs are unchanged."""
    topology = await make_everything(make_topology, subscribers=())
    for statement in (
        "create table no_key (id int)",
        "create table stay (room int4range, nights daterange, primary key (room, nights without overlaps))",
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
    """The message names the problem, and neither end's catalogs are changed."""
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
    """A type of the same name must have the same definition; one that cannot be created is named."""
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
    """The Publisher generates identities and serials; an existing table at the Subscriber must not."""
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
    """An existing table with another order of columns, additional columns and no row version is accepted."""
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
    """Checks that use built-in functions are copied to the Subscriber; others apply at the Publisher only."""
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
