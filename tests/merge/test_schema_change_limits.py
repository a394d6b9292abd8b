"""Schema changes and filters, snapshots, resolvers, handlers, owners, locks and types."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from tests.fix_merge import cut_off
from tests.fix_topology import share
from tests.merge.partitions import assert_mapped, publish_shop
from tests.merge.snapshots import one
from twopc.errors import ArticleError, MergeError
from twopc.merge.encounters import MergeEncounter
from twopc.merge.handlers import Accept, Answer, MergeHandler, Replace
from twopc.merge.ladder import InitialisationMethod
from twopc.merge.schema_changes import type_name, widens
from twopc.publisher.merge import schema_changes
from twopc.server import EmbeddedServer
from twopc.sim.merge import MergeTopology, moments


@pytest.mark.parametrize(
    ("old", "new", "is_wider"),
    [
        ("integer", "bigint", True),
        ("smallint", "numeric", True),
        ("bigint", "integer", False),
        ("integer", "numeric(12,2)", False),
        ("integer", "double precision", False),
        ("real", "double precision", True),
        ("character varying(9)", "character varying(10)", True),
        ("character varying(9)", "character varying", True),
        ("character varying", "text", True),
        ("character varying", "character varying(9)", False),
        ("character varying(10)", "character varying(9)", False),
        ("text", "character varying", False),
        ("character(3)", "character(4)", False),
        ("numeric(8,2)", "numeric(9,2)", True),
        ("numeric(8,2)", "numeric", True),
        ("numeric(8,2)", "numeric(9,3)", False),
        ("numeric", "numeric(9,2)", False),
        ("integer", "integer", False),
        ("date", "timestamp without time zone", False),
        ("sales.mood", "text", False),
    ],
)
def test_what_is_wider(old: str, new: str, is_wider: bool) -> None:
    """A wider type takes every value of the old one, with the same text at every node."""
    assert widens(old, new) is is_wider


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("int", "integer"),
        ("varchar( 10 )", "character varying(10)"),
        ("Numeric(10)", "numeric(10,0)"),
        ("numeric (10, 2)", "numeric(10,2)"),
        ("float8", "double precision"),
        ("timestamp with time zone", "timestamp with time zone"),
    ],
)
async def test_types_as_they_are_written(server: EmbeddedServer, written: str, name: str) -> None:
    """The name of a type in a scenario is the one that the server gives it."""
    async with await psycopg.AsyncConnection.connect(server.dsn("postgres")) as connection:
        query = "select format_type(to_regtype(%s), to_regtypemod(%s))"
        assert await (await connection.execute(query, (written, written))).fetchone() == (name,)
    assert type_name(written) == name


async def test_filtered_tables(server: EmbeddedServer) -> None:
    """A column that no filter uses is added and dropped; one that a filter uses is not changed.

    The partitions stay correct.
    """
    async with MergeTopology(server=server, subscribers=("north", "south")) as topology:
        await publish_shop(topology)
        await topology.subscribe("north")
        await topology.subscribe("south")
        for refused in (
            topology.drop_column("customer", "region"),
            topology.widen_column("purchase", "customer", "bigint"),
            topology.widen_column("customer", "id", "bigint"),
        ):
            with pytest.raises(ArticleError, match="filters look at column"):
                await refused
        await topology.add_column("customer", "mail", "text", default="none")
        await topology.drop_column("purchase", "total")
        await topology.execute(
            "pub", "update customer set region = 'south', mail = 'a' where id = 1"
        )
        await topology.execute("north", "update customer set phone = '2' where id = 1")
        await topology.sync("north")
        await topology.sync("south")
        await assert_mapped(topology)
        query = "select id, phone, mail from customer order by id"
        assert await topology.execute("south", query) == [(1, "2", "a"), (2, "1", "none")]
        assert await topology.execute("north", query) == []
        await topology.assert_converged()


async def test_snapshots_that_were_made_before(shop: MergeTopology, tmp_path: Path) -> None:
    """A snapshot from before a change is not used, even by name, nor is its delivery resumed."""
    await shop.snapshot(tmp_path)
    with cut_off(shop, "merge_delivery.file_loaded(anna)", nth=5):
        await shop.subscribe("anna")
    await shop.add_column("customer", "mail", "text", default="none")
    folder = one(tmp_path, "manifest.json").parent
    with pytest.raises(MergeError, match=r"customer was altered since.*\(20655\)"):
        await shop.subscribe("ben", snapshot_location=folder)
    report = await shop.subscribe("ben")
    assert report.method is InitialisationMethod.SELECT
    await shop.subscribe("anna")
    await shop.widen_column("customer", "credit", "bigint")
    await shop.snapshot(tmp_path)
    await shop.drop_column("customer", "mail")
    await shop.snapshot(tmp_path)
    await shop.sync("ben")
    report = (await shop.reinitialise("anna")).initialised["anna"]
    assert report.method is InitialisationMethod.APPLY
    await shop.execute("pub", "update customer set credit = 99999999999 where id = 1")
    await shop.sync("anna")
    await shop.sync("ben")
    await shop.assert_converged()


async def test_an_agent_that_goes_on_after_a_change(shop: MergeTopology, tmp_path: Path) -> None:
    """Files written before a change do not become part of the snapshot that is written now."""
    with cut_off(shop, "merge_snapshot.file_written", nth=4):
        await shop.snapshot(tmp_path)
    await shop.add_column("customer", "mail", "text", default="none")
    await shop.snapshot(tmp_path)
    assert (await shop.subscribe("anna")).method is InitialisationMethod.APPLY
    await shop.sync("anna")
    await shop.assert_converged()


async def test_resolvers_and_handlers(topology: MergeTopology) -> None:
    """A resolver's column is not dropped; a handler's value is stored in the right column.

    This holds although a column before it was dropped.
    """
    await share(
        topology,
        "item",
        "create table item (id int primary key, old int, stock int, name text);"
        " insert into item values (1, 0, 10, 'a')",
        tracking="column",
        resolver="additive(stock)",
    )
    with pytest.raises(ArticleError, match="stock"):
        await topology.drop_column("item", "stock")
    await topology.drop_column("item", "old")
    await topology.add_column("item", "mark", "text")

    class Stamps(MergeHandler):
        def row_updated(self, encounter: MergeEncounter) -> Answer:
            assert encounter.incoming is not None
            if encounter.is_upload:
                return Replace({"mark": "seen"})
            return Accept()

    topology.handlers["item"] = Stamps()
    await topology.execute("anna", "update item set name = 'b' where id = 1")
    await topology.execute("pub", "update item set stock = 20 where id = 1")
    await topology.sync("anna")
    await topology.assert_converged()
    for node in ("pub", "anna"):
        assert await topology.execute(node, "select stock, name, mark from item") == [
            (20, "b", "seen")
        ]


async def test_code_of_the_owner(topology: MergeTopology) -> None:
    """A check evaluated while a table is rewritten runs as the owner, and gains no rights.

    This holds at both ends.
    """
    for node in ("pub", "anna"):
        await topology.execute(
            node,
            "create table ran (who text); grant insert on ran to public;"
            " create function spring(n bigint) returns boolean language plpgsql as $$ begin"
            " begin execute 'set local role postgres'; exception when others then null; end;"
            " begin execute 'reset role'; exception when others then null; end;"
            " insert into public.ran values (current_user); return true; end $$",
        )
    await share(
        topology,
        "item",
        "create table item (id int primary key, n int); insert into item values (1, 1)",
    )
    for node in ("pub", "anna"):
        role = f"owner_of_{topology.node(node).database}"
        await topology.execute(
            node,
            f"create role {role}; alter table item owner to {role};"
            " alter table item add check (public.spring(n));"
            " delete from ran",
        )
    await topology.widen_column("item", "n", "bigint")
    await topology.sync("anna")
    for node in ("pub", "anna"):
        role = f"owner_of_{topology.node(node).database}"
        who = await topology.execute(node, "select distinct who from ran")
        await topology.execute(node, f"alter table item owner to postgres; drop role {role}")
        assert who == [(role,)]


@pytest.mark.parametrize(
    ("kind", "type_", "message"),
    [
        ("add", "text; create role made_by_a_type superuser", "has no type 'text; create role"),
        ("add", "text default public.spring()", "has no type 'text default"),
        ("widen", "smallint", "smallint does not take all of its values"),
    ],
)
async def test_types_that_a_publisher_forges(
    topology: MergeTopology, kind: str, type_: str, message: str
) -> None:
    """A forged list of schema changes executes nothing at Subscribers and narrows no column."""
    await share(topology, "item", "create table item (id int primary key, n int)")
    if kind == "add":
        await topology.add_column("item", "mark", "text")
    else:
        await topology.widen_column("item", "n", "bigint")
    admin = await topology.admin("pub")
    await admin.execute("update msrepl.sysmergeschemachange set column_type = %s", (type_,))
    with pytest.raises(MergeError, match=message):
        await topology.sync("anna")
    made = "select rolname from pg_roles where rolname = 'made_by_a_type'"
    assert await topology.execute("anna", made) == []
    columns = "select attname from pg_attribute where attrelid = 'item'::regclass and attnum > 0"
    assert ("mark",) not in await topology.execute("anna", columns)


async def test_a_table_in_use(server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """If an application locks the table, the change fails, at either end, and succeeds later."""
    monkeypatch.setattr(schema_changes, "LOCK_TIMEOUT_MS", 50)
    async with MergeTopology(server=server, subscribers=("anna",), lock_timeout_ms=50) as topology:
        await share(topology, "item", "create table item (id int primary key, n int)")
        for node in ("pub", "anna"):
            async with await psycopg.AsyncConnection.connect(topology.node(node).dsn) as busy:
                await busy.execute("insert into item values (1, 1)")
                if node == "pub":
                    with pytest.raises(ArticleError, match="was in use for 50 ms"):
                        await topology.add_column("item", "mark", "text")
                    await busy.rollback()
                    await topology.add_column("item", "mark", "text")
                else:
                    with pytest.raises(MergeError, match="lock timeout"):
                        await topology.sync("anna")
                    await busy.rollback()
        await topology.execute("pub", "insert into item (id, mark) values (2, 'x')")
        await topology.sync("anna")
        assert await topology.execute("anna", "select id, mark from item") == [(2, "x")]


async def test_who_reads_a_moment(server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table is not rewritten while a snapshot of it is read, to which it would appear empty."""
    monkeypatch.setattr(schema_changes, "LOCK_TIMEOUT_MS", 50)
    async with MergeTopology(server=server, subscribers=()) as topology:
        await topology.execute(
            "pub", "create table item (id int primary key, n int); insert into item values (1, 1)"
        )
        await topology.publish("item")
        node = topology.node("pub")
        async with (
            await node.connect() as above,
            await node.connect() as reader,
            reader.transaction(),
        ):
            await moments.close_moment(above, [reader], None)
            with pytest.raises(ArticleError, match="was in use"):
                await topology.widen_column("item", "n", "bigint")
            rows = await reader.execute("select n from item")
            assert await rows.fetchall() == [(1,)]
        await topology.widen_column("item", "n", "bigint")
