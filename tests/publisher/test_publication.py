"""Publishing and unpublishing: row version, privileges, refusals, and complete removal."""

from __future__ import annotations

import pytest

from tests.fix_topology import MakePair, MakeTopology
from tests.publisher.catalogs import make_everything, rows, snapshot
from twopc.errors import ArticleError
from twopc.publisher import publication


@pytest.mark.parametrize("order", [("customer", "visit"), ("visit", "customer")])
async def test_unpublishing_restores_the_table(
    make_topology: MakeTopology, order: tuple[str, str]
) -> None:
    """Unpublishing restores columns, triggers, grants, keys, replica identity and rows, and drops all our objects."""
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
    """Unpublishing keeps privileges and objects that another article needs."""
    topology = await make_everything(make_topology, subscribers=())
    connection = await topology.admin("pub")
    await publication.publish(connection, "sales", "customer")
    alone = await snapshot(topology, "pub")
    await publication.publish(connection, "sales", "visit")
    await publication.unpublish(connection, "sales", "visit")
    assert await snapshot(topology, "pub") == alone


async def test_uninstall(make_topology: MakeTopology) -> None:
    """Uninstalling removes all our objects from a database that publishes nothing."""
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
    """Unpublishing a subscribed table is refused with the Subscribers' names, because their triggers would fail."""
    pair = await make_pair("create table item (id int primary key)", publish=["item"])
    with pytest.raises(
        ArticleError, match=r"has subscriptions \(14046\): `twopc unsubscribe` sub1 first"
    ):
        await pair.topology.unpublish("item")
    await pair.run("insert into item values (1)")
    await pair.app.close()
    await pair.topology.unsubscribe("sub1")
    await pair.topology.unpublish("item")
    assert await pair.topology.execute("pub", "select * from item") == [(1,)]


# -- row version ----------------------------------------------------------------------------------

VERSION = "select msrepl_tran_version::text from item where id = 1"


async def test_row_version(make_topology: MakeTopology) -> None:
    """INSERT sets and UPDATE renews the row version, even if the statement contains another value."""
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
    [fourth] = await topology.execute("pub", VERSION)
    assert fourth not in {first, second, third, (own,)}
    await topology.execute(
        "pub", "insert into item values (1, 5) on conflict (id) do update set v = 5"
    )
    assert await topology.execute("pub", VERSION) != [fourth]


async def test_row_version_beside_triggers_of_the_user(make_pair: MakePair) -> None:
    """A user's triggers, which fire before or after ours by their names, do not affect the row version."""
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
    """An existing row version column is used, and is kept when the table is unpublished."""
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
    """A column of this name that cannot be the row version is refused."""
    topology = await make_topology(subscribers=())
    await topology.execute("pub", f"create table item (id int primary key, {definition})")
    with pytest.raises(ArticleError, match=problem):
        await topology.publish("item")
