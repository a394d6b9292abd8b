"""Columns of merged tables that are added, dropped and widened while there are Subscribers."""

from __future__ import annotations

import re

import pytest

from tests.fix_merge import CUSTOMER, converge, customer, cut_off
from twopc.drivers.points import MERGE_POINTS, MERGE_SCHEMA_POINTS
from twopc.errors import ArticleError, MergeError, SubscriptionError
from twopc.server import EmbeddedServer
from twopc.sim.merge import MergeTopology

ROWS = "select id, phone, credit, mail from customer order by id"


async def test_a_column_travels(merge_shop: MergeTopology) -> None:
    """A new column merges like the others, and earlier changes do not conflict with it.

    Rows that both sides have changed before keep their changes, and get the default.
    """
    await merge_shop.execute("anna", "update customer set phone = '2' where id = 1")
    await merge_shop.add_column("customer", "mail", "text", default="none")
    await merge_shop.add_column("purchase", "price", "numeric(8,2)")
    await merge_shop.execute("pub", "update customer set mail = 'a@b' where id = 1")
    await merge_shop.execute("pub", "update customer set credit = 30 where id = 2")
    report = await merge_shop.sync("anna")
    assert (report.conflicts, report.retried) == (0, 0)
    assert await customer(merge_shop, "pub") == ("2", 10)
    await merge_shop.execute("anna", "update customer set phone = '3', mail = 'c@d' where id = 2")
    await merge_shop.execute("pub", "update customer set credit = 40 where id = 2")
    await merge_shop.sync("anna")
    await merge_shop.sync("ben")
    await merge_shop.assert_converged()
    for node in ("pub", "anna", "ben"):
        assert await merge_shop.execute(node, ROWS) == [(1, "2", 10, "a@b"), (2, "3", 40, "c@d")]
    assert await merge_shop.conflicts() == []
    assert await merge_shop.check() == []


async def test_numbers_are_never_given_again(merge_shop: MergeTopology) -> None:
    """Column numbers are not used again, so that a later column has no history of a dropped one.

    Changes of two columns still merge without a conflict.
    """
    await merge_shop.add_column("customer", "mail", "text")
    await merge_shop.sync("anna")
    await merge_shop.execute("anna", "update customer set mail = 'x' where id = 1")
    await merge_shop.drop_column("customer", "mail")
    await merge_shop.drop_column("customer", "phone")
    await merge_shop.add_column("customer", "mail", "text", default="none")
    await merge_shop.execute("pub", "update customer set mail = 'y' where id = 1")
    report = await merge_shop.sync("anna")
    assert (report.conflicts, report.uploaded, report.downloaded) == (0, 1, 1)
    await merge_shop.execute("anna", "update customer set credit = 20 where id = 1")
    await merge_shop.execute("pub", "update customer set mail = 'z' where id = 1")
    await merge_shop.execute("pub", "update customer set mail = 'w' where id = 2")
    assert (await merge_shop.sync("anna")).conflicts == 0
    await merge_shop.sync("ben")
    await merge_shop.assert_converged()
    assert await merge_shop.execute("ben", "select credit, mail from customer order by id") == [
        (20, "z"),
        (10, "w"),
    ]
    [row, *_] = await merge_shop.show_row("customer", {"id": 2})
    assert row.columns == {"mail": ("pub", 1)}


async def test_a_wider_type(merge_shop: MergeTopology) -> None:
    """A value that only the wider type takes arrives from either side."""
    await merge_shop.execute("anna", "update customer set credit = 77 where id = 1")
    await merge_shop.widen_column("customer", "credit", "bigint")
    await merge_shop.execute("pub", f"update customer set credit = {2**40} where id = 2")
    await merge_shop.sync("anna")
    await merge_shop.execute("anna", f"update customer set credit = {2**41} where id = 1")
    await merge_shop.sync("anna")
    await merge_shop.sync("ben")
    await merge_shop.assert_converged()
    assert await merge_shop.execute("ben", "select credit from customer order by id") == [
        (2**41,),
        (2**40,),
    ]


@pytest.mark.parametrize(
    "point",
    [each.partition("(")[0] for each in (*MERGE_SCHEMA_POINTS, *MERGE_POINTS)],
)
async def test_a_session_that_is_cut_off(merge_shop: MergeTopology, point: str) -> None:
    """After a session that was interrupted at any point, each schema change is made once.

    No row is lost.
    """
    await merge_shop.execute("anna", "update customer set phone = '2' where id = 1")
    await merge_shop.add_column("customer", "mail", "text", default="none")
    await merge_shop.widen_column("customer", "credit", "bigint")
    await merge_shop.add_column("purchase", "price", "integer")
    await merge_shop.execute("pub", "update customer set mail = 'a@b', credit = 20 where id = 2")

    with cut_off(merge_shop, f"{point}(anna)"):
        await merge_shop.sync("anna")
    report = await merge_shop.sync("anna")
    assert (report.conflicts, report.retried) == (0, 0)
    for node in ("pub", "anna"):
        assert await merge_shop.execute(node, ROWS) == [
            (1, "2", 10, "none"),
            (2, "1", 20, "a@b"),
        ]


async def test_a_change_during_a_session(merge_shop: MergeTopology) -> None:
    """A session ends before it sends a row in a shape that the other end lacks.

    The next session brings all rows.
    """
    await merge_shop.execute("anna", "update customer set phone = '2' where id = 1")
    await merge_shop.execute("pub", "update customer set credit = 20 where id = 2")

    async def change(_: str) -> None:
        await merge_shop.add_column("customer", "mail", "text", default="none")

    merge_shop.points.arm("merge.upload_read(anna)", change)
    with pytest.raises(MergeError, match="schema change 1 was made during the session"):
        await merge_shop.sync("anna")
    report = await merge_shop.sync("anna")
    assert (report.uploaded, report.downloaded, report.retried) == (1, 1, 0)
    assert await merge_shop.conflicts() == []
    await merge_shop.sync("ben")
    await merge_shop.assert_converged()


async def test_a_conflict_before_and_after(merge_shop: MergeTopology) -> None:
    """A loser of a conflict before or after a schema change is kept, and can still be written."""
    for node, code in (("anna", "b"), ("pub", "c")):
        await merge_shop.execute(node, f"update purchase set code = '{code}' where id = 1")
    await merge_shop.sync("anna")
    await merge_shop.execute("anna", "update purchase set code = 'd' where id = 1")
    await merge_shop.execute("pub", "update purchase set code = 'e' where id = 1")
    await merge_shop.add_column("purchase", "price", "integer", default="5")
    report = await merge_shop.sync("anna")
    assert report.conflicts == 1
    older, newer = await merge_shop.conflicts()
    assert older.loser is not None and newer.loser is not None
    assert (older.loser["code"], older.loser["price"]) == ("b", None)
    assert (newer.loser["code"], newer.loser["price"]) == ("d", 5)
    await merge_shop.resolve(newer.id, keep="loser")
    await merge_shop.sync("anna")
    await merge_shop.sync("ben")
    await merge_shop.assert_converged()
    assert await merge_shop.execute("ben", "select code, price from purchase") == [("d", 5)]


async def test_a_loser_without_a_column(merge_shop: MergeTopology) -> None:
    """A loser from before a new column is written without it.

    A row that exists keeps its value of the column; a row that was deleted gets the default.
    """
    await merge_shop.execute("pub", "insert into purchase values (7, 1, 'g'), (8, 1, 'h')")
    await merge_shop.settle()
    await merge_shop.execute("anna", "update purchase set code = code || 'b' where id in (7, 8)")
    await merge_shop.execute(
        "pub", "update purchase set code = 'gc' where id = 7; delete from purchase where id = 8"
    )
    await merge_shop.sync("anna")
    await merge_shop.add_column("purchase", "price", "integer", default="5")
    await merge_shop.execute("pub", "update purchase set price = 9 where id = 7")
    for conflict in await merge_shop.conflicts():
        await merge_shop.resolve(conflict.id, keep="loser")
    await converge(merge_shop)
    rows = "select id, code, price from purchase where id in (7, 8) order by id"
    assert await merge_shop.execute("anna", rows) == [(7, "gb", 9), (8, "hb", 5)]


async def test_republishers_and_newcomers(server: EmbeddedServer) -> None:
    """A republisher passes schema changes on.

    Nodes that subscribe or are reinitialised in between have them, too.
    """
    tree = {"pub": ["hub", "cleo"], "hub": ["anna"]}
    async with MergeTopology(server=server, tree=tree) as topology:
        await topology.execute("pub", CUSTOMER)
        await topology.publish("customer", tracking="column")
        await topology.publish("purchase")
        await topology.subscribe("hub", kind="server", priority=50)
        await topology.add_column("customer", "mail", "text", default="none")
        await topology.subscribe("cleo")
        await topology.subscribe("anna")
        await topology.add_column("purchase", "price", "integer", default="1")
        await topology.execute("pub", "update customer set mail = 'a@b' where id = 1")
        await topology.execute("anna", "update customer set phone = '2' where id = 2")
        await topology.sync("hub")
        await topology.reinitialise("cleo")
        await topology.sync("anna")
        await topology.sync("hub")
        await topology.sync("cleo")
        await topology.assert_converged()
        for node in ("pub", "hub", "anna", "cleo"):
            assert await topology.execute(node, ROWS) == [
                (1, "1", 10, "a@b"),
                (2, "2", 10, "none"),
            ]
            assert await topology.execute(node, "select price from purchase") == [(1,)]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("drop_column", "customer", "rowguid"), "rows are known by column 'rowguid'"),
        (("drop_column", "customer", "id"), "belongs to the primary key"),
        (("drop_column", "purchase", "customer"), "purchase_customer_fkey"),
        (("drop_column", "purchase", "code"), "purchase_code_key"),
        (("drop_column", "customer", "credit"), "customer_credit_check"),
        (("drop_column", "customer", "fax"), "no column 'fax' travels; those that do: id, phone"),
        (("drop_column", "nothing", "fax"), "table nothing is not merged"),
        (("widen_column", "customer", "credit", "smallint"), "does not take all of its values"),
        (("widen_column", "customer", "credit", "text"), "does not take all of its values"),
        (("add_column", "customer", "phone", "text"), "has a column 'phone' already"),
        (("add_column", "customer", "mail", "txet"), "name a type of PostgreSQL's own"),
        (("add_column", "customer", "mail", "mood"), "name a type of PostgreSQL's own"),
        (("add_column", "customer", "mail", "text); drop table customer; --"), "cannot be text)"),
        (("add_column", "customer", "sum", "money"), "column 'sum' is money"),
        (
            ("add_column", "customer", "msrepl_conflict_id", "uuid"),
            "as its conflict table will have",
        ),
        (("add_column", "customer", "a$msrepl$b", "text"), "contains $msrepl$"),
    ],
)
async def test_what_is_refused(
    merge_shop: MergeTopology, change: tuple[str, ...], words: str
) -> None:
    """The message names the column and the remedy, and nothing is changed."""
    await merge_shop.execute("pub", "create domain mood as text")
    what, *arguments = change
    with pytest.raises(ArticleError, match=re.escape(words)):
        await getattr(merge_shop, what)(*arguments)
    assert await merge_shop.execute("pub", "select from msrepl.sysmergeschemachange") == []
    assert (await merge_shop.sync("anna")).retried == 0


async def test_a_default_is_a_constant(merge_shop: MergeTopology) -> None:
    """A default is a constant, since an expression would have another value at each node.

    The current time is read once.
    """
    with pytest.raises(ArticleError, match="no constant of type integer"):
        await merge_shop.add_column("customer", "n", "integer", default="random()")
    await merge_shop.add_column("customer", "since", "timestamptz", default="now")
    await merge_shop.sync("anna")
    query = "select since from customer where id = 1"
    assert await merge_shop.execute("pub", query) == await merge_shop.execute("anna", query)


async def test_names_and_values_are_nothing_else(merge_shop: MergeTopology) -> None:
    """Neither the name of a column nor its default is read as SQL."""
    name, default = "%s {x} \"odd\" 'one' $$", 'it\'s $msrepl$ {y} %(z)s \\ "$$"'
    await merge_shop.add_column("customer", name, "text", default=default)
    await merge_shop.execute("pub", "update customer set phone = '7' where id = 1")
    await merge_shop.sync("anna")
    for node in ("pub", "anna"):
        rows = await merge_shop.execute(node, "select to_jsonb(c) from customer as c")
        assert [row[name] for (row,) in rows] == [default, default]
    await merge_shop.drop_column("customer", name)
    await merge_shop.sync("anna")
    await merge_shop.sync("ben")
    await merge_shop.assert_converged()


async def test_changes_by_hand(merge_shop: MergeTopology) -> None:
    """A column dropped by hand stops sessions, and the message names the remedy.

    A column added by hand is not merged.
    """
    await merge_shop.execute("pub", "alter table customer add column fax text")
    with pytest.raises(ArticleError, match="'fax' already, which does not travel"):
        await merge_shop.add_column("customer", "fax", "text")
    await merge_shop.add_column("purchase", "memo", "varchar(5)")
    await merge_shop.sync("anna")
    await merge_shop.execute("pub", "alter table purchase alter column memo type varchar(9)")
    found = {(each.node, each.what.partition(",")[0]) for each in await merge_shop.check()}
    assert found == {
        ("pub", "table customer has a column 'fax' that does not travel: it was added by hand"),
        ("anna", "table purchase has column 'memo' as character varying(5)"),
    }
    await merge_shop.execute("anna", "alter table customer drop column phone")
    with pytest.raises(MergeError, match=r"has lost its column phone: .*rename it back"):
        await merge_shop.sync("anna")


async def test_a_restored_publisher(merge_shop: MergeTopology) -> None:
    """A Subscriber with a schema change that its Publisher has lost is refused.

    Nor is it reinitialised with rows of another shape.
    """
    await merge_shop.back_up("pub")
    await merge_shop.add_column("customer", "mail", "text")
    await merge_shop.sync("anna")
    await merge_shop.restore_backup("pub")
    await merge_shop.add_column("customer", "fax", "text")
    with pytest.raises(MergeError, match="anna has made schema change 1, which pub does not know"):
        await merge_shop.sync("anna")
    with pytest.raises(SubscriptionError, match=r"its column 'fax' .* is missing there"):
        await merge_shop.reinitialise("anna")


async def test_a_restored_subscriber(merge_shop: MergeTopology) -> None:
    """A Subscriber that has lost a schema change makes it again, and gets back its rows."""
    await merge_shop.back_up("anna")
    await merge_shop.add_column("customer", "mail", "text", default="none")
    await merge_shop.sync("anna")
    await merge_shop.execute("anna", "update customer set mail = 'a@b' where id = 1")
    await merge_shop.sync("anna")
    await merge_shop.restore_backup("anna")
    assert (await merge_shop.sync("anna")).anew
    await merge_shop.sync("ben")
    await merge_shop.assert_converged()
    assert await merge_shop.execute("anna", ROWS) == [(1, "1", 10, "a@b"), (2, "1", 10, "none")]


async def test_a_restored_republisher(server: EmbeddedServer) -> None:
    """Subscribers of a restored republisher are refused until its own session.

    That session makes the change again.
    """
    async with MergeTopology(server=server, tree={"pub": ["mid"], "mid": ["van"]}) as topology:
        await topology.execute(
            "pub", "create table item (id int primary key, n int); insert into item values (1)"
        )
        await topology.publish("item")
        await topology.subscribe("mid", kind="server", priority=75)
        await topology.subscribe("van")
        await topology.back_up("mid")
        await topology.add_column("item", "mark", "text")
        await topology.sync("mid")
        await topology.sync("van")
        await topology.execute("van", "update item set mark = 'v'")
        await topology.restore_backup("mid")
        with pytest.raises(MergeError, match="If mid subscribes itself, `twopc merge sync mid`"):
            await topology.sync("van")
        await topology.sync("mid")
        await converge(topology)
        assert await topology.execute("pub", "select mark from item") == [("v",)]


async def test_what_does_not_fit(merge_shop: MergeTopology) -> None:
    """Names and defaults that are too long are refused, not truncated."""
    with pytest.raises(ArticleError, match="has 70 bytes: give it at most 63"):
        await merge_shop.add_column("customer", "x" * 70, "integer")
    with pytest.raises(ArticleError, match=r"'toolong' .* value too long"):
        await merge_shop.add_column("customer", "mail", "varchar(3)", default="toolong")
