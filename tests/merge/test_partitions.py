"""Filtered publications: which Subscribers receive a row, and what happens to rows that move."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.fix_merge import converge
from tests.merge.partitions import SHOP, publish_shop
from twopc.errors import ArticleError, MergeError, SubscriptionError
from twopc.publisher.merge.filters import Join
from twopc.server import EmbeddedServer
from twopc.sim.merge import MergeTopology

HOSTS = {"anna": "north", "ben": "north", "cleo": "south"}


async def shop(topology: MergeTopology) -> None:
    """Publish the shop; Anna and Ben subscribe to the north, Cleo to the south."""
    await publish_shop(topology)
    for name, host in HOSTS.items():
        await topology.subscribe(name, host_name=host)


async def test_rows_reach_their_partition(server: EmbeddedServer) -> None:
    async with MergeTopology(server=server, subscribers=("anna", "ben", "cleo")) as topology:
        await shop(topology)
        for node, rows in (("anna", [(1, 5)]), ("cleo", [(2, 6)])):
            assert await topology.execute(node, "select id, total from purchase") == rows
        await topology.execute(
            "pub", "update customer set phone = '2'; update product set price = 3"
        )
        report = await topology.sync("anna")
        assert (report.uploaded, report.downloaded) == (0, 2)
        await topology.execute("pub", "update customer set region = 'south' where id = 1")
        await topology.execute("anna", "insert into purchase values (4, 1, 7)")
        report = await topology.sync("anna")
        assert (report.uploaded, report.downloaded) == (1, 4)
        assert await topology.execute("anna", "select * from customer") == []
        assert (await topology.sync("cleo")).downloaded == 4 + 2
        await converge(topology)
        assert await topology.execute("cleo", "select id, total from purchase order by id") == [
            (1, 5), (2, 6), (4, 7)]  # fmt: skip


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"row_filter": "region ="}, "is not a condition over its columns"),
    ({"row_filter": "true) or (true"}, "is not a condition over its columns"),
    ({"row_filter": "(select true from product)"}, "looks at public.product"),
    ({"join": Join("nowhere", "true")}, "names 'nowhere', which is not published"),
    ({"join": Join("product", "true")}, "every Subscriber gets every row"),
    ({"join": Join("customer", "purchase.nothing = 1")}, "is not a condition over the columns"),
    ({"join": Join("customer", "true) group by (1")}, "is not a condition over the columns"),
    (
        {"join": Join("customer", "customer.region = msrepl.host_name()")},
        "uses host_name, which row filters alone may",
    ),
    (
        {"join": Join("customer", "exists (select from product)")},
        "looks at public.product: use columns of both tables only",
    ),
    (
        {"join": Join("customer", "to_jsonb(customer.*)->>'id' = purchase.customer::text")},
        "looks at the row as a whole",
    ),
    (
        {"row_filter": "(purchase.*)::text like '%' || msrepl.host_name() || '%'"},
        "looks at the row as a whole",
    ),
    ({}, "refers to customer, of which not every Subscriber gets every row"),
]


async def test_what_is_refused(topology: MergeTopology) -> None:
    """Impossible filters and values are refused by name, and nothing is changed."""
    await topology.execute("pub", SHOP)
    await topology.publish("customer", row_filter="region = msrepl.host_name()")
    await topology.publish("product")
    for filters, message in REFUSED:
        with pytest.raises(ArticleError, match=re.escape(message)):
            await topology.publish("purchase", **filters)
    published = "select source_object from msrepl.sysmergearticles order by 1"
    assert await topology.execute("pub", published) == [("customer",), ("product",)]
    for value, message in (
        ("a\0b", "host_name holds a NUL character"),
        ("x" * 10_000, "host_name has 10000 characters, and may have 128"),
    ):
        with pytest.raises(SubscriptionError, match=message):
            await topology.subscribe("anna", host_name=value)
    assert await topology.execute("pub", "select from msrepl.msmerge_partition_groups") == []


async def test_what_mappings_say(server: EmbeddedServer) -> None:
    """Mappings state in which partitions a row is and was, and the reason why it left one."""
    current = "select partition_id from msrepl.msmerge_current_partition_mappings where tablenick = %s and rowguid = %s"
    past = "select partition_id, reason from msrepl.msmerge_past_partition_mappings where tablenick = %s and rowguid = %s"
    async with MergeTopology(server=server, subscribers=("anna",)) as topology:
        await topology.execute("pub", SHOP)
        lent = "region = msrepl.host_name() or phone = msrepl.host_name()"
        await topology.publish("customer", row_filter=lent)
        await topology.publish("purchase", join=Join("customer", "purchase.customer = customer.id"))
        north, south = [(await topology.add_partition(name)).number for name in ("north", "south")]

        async def mapped(table: str, nickname: int) -> tuple[list[int], dict[int, int]]:
            assert await topology.check_partitions() == []
            [(guid,)] = rows[table]
            held = await topology.execute("pub", f"{current} order by 1", (nickname, guid))
            left = await topology.execute("pub", past, (nickname, guid))
            return [each for (each,) in held], dict(left)

        await topology.execute("pub", "insert into customer values (9, 'north', '1')")
        await topology.execute("pub", "insert into purchase values (9, 9, 1)")
        rows = {
            table: await topology.execute("pub", f"select rowguid from {table} where id = 9")
            for table in ("customer", "purchase")
        }
        assert await mapped("customer", 1) == ([north], {})
        assert await mapped("purchase", 2) == ([north], {})
        await topology.execute("pub", "update customer set phone = 'south' where id = 9")
        assert await mapped("customer", 1) == ([north, south], {})
        await topology.execute("pub", "update customer set region = 'south' where id = 9")
        assert await mapped("customer", 1) == ([south], {north: 2})
        assert await mapped("purchase", 2) == ([south], {north: 3})
        await topology.execute("pub", "delete from purchase where id = 9")
        assert await mapped("purchase", 2) == ([], {north: 3, south: 1})
        tables = "select to_regclass('msrepl.msmerge_past_partition_mappings') is not null"
        assert await topology.execute("pub", tables) == [(True,)]


async def test_a_republisher_of_one_partition(server: EmbeddedServer) -> None:
    """A republisher of one partition is refused, whichever of the two subscribes last.

    The message says where to subscribe instead, and nothing of the subscription remains.
    """
    tree = {"pub": ["depot"], "depot": ["van"]}
    async with MergeTopology(server=server, tree=tree) as topology:
        await publish_shop(topology)
        with pytest.raises(
            SubscriptionError, match="subscribe van at pub, or publish without filters"
        ):
            await topology.subscribe("depot", kind="server", priority=75)
        assert not await topology.merges("depot")
        dsns = {name: topology.node(name).dsn for name in ("pub", "depot", "van")}
        above = {name: dsns[name] for name in ("pub", "depot")}
        async with MergeTopology(subscribers=["depot"], dsns=above, attach=True) as alone:
            await alone.subscribe("depot", kind="server", priority=75)
        async with MergeTopology(tree=tree, dsns=dsns, attach=True) as whole:
            with pytest.raises(
                SubscriptionError, match=r"one partition of pub's rows.*subscribe van at pub"
            ):
                await whole.subscribe("van")
            assert not await whole.merges("van")


async def test_what_does_not_concern_a_partition(server: EmbeddedServer) -> None:
    """A change outside a partition is not enumerated for it, as its generation's mappings show."""
    async with MergeTopology(server=server, subscribers=sorted(HOSTS)) as topology:
        await shop(topology)
        await topology.execute("pub", "update customer set phone = '9' where region = 'south'")
        status = (await topology.status())["pub"]
        waiting = {each.neighbour: each.waiting for each in status.neighbours}
        assert waiting == {"anna": 0, "ben": 0, "cleo": 1}
        assert (await topology.sync("anna")).downloaded == 0
        [south] = await topology.execute(
            "pub",
            "select partition_id from msrepl.msmerge_partition_groups where host_name_fn = 'south'",
        )
        assert await topology.execute(
            "pub",
            "select distinct partition_id from msrepl.msmerge_generation_partition_mappings",
        ) == [south]
        assert (await topology.sync("cleo")).downloaded == 1


async def listed(topology: MergeTopology, *options: str) -> tuple[int, str]:
    """Run the command on the partitions; return its exit code and its output."""
    pairs = [f"{name}={node.dsn}" for name, node in topology.nodes.items()]
    nodes = [word for pair in pairs for word in ("--node", pair)]
    command = [sys.executable, "-m", "twopc.sim", "merge", "partitions", *options, *nodes]
    ran = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, check=False
    )
    return ran.returncode, ran.stdout + ran.stderr


async def test_partitions_on_the_command_line(server: EmbeddedServer) -> None:
    """Partitions are listed and added; wrong mappings are reported, differing rows repaired."""
    async with MergeTopology(server=server, subscribers=sorted(HOSTS)) as topology:
        await shop(topology)
        code, text = await listed(topology, "--add", "east", "--check")
        numbers = re.sub(r"^\d+", "N", text, flags=re.MULTILINE)
        assert (code, numbers) == (
            0,
            "N  host name 'north': anna, ben\nN  host name 'south': cleo\n"
            "N  host name 'east': no Subscriber\nthe mappings are what the filters say\n",
        )
        await topology.execute(
            "pub",
            "delete from msrepl.msmerge_current_partition_mappings as c using msrepl.msmerge_partition_groups as p"
            " where p.partition_id = c.partition_id and p.host_name_fn = 'east' and c.tablenick = 2",
        )
        code, text = await listed(topology, "--check")
        assert code == 1
        assert re.search(
            r"^wrong: purchase [-0-9a-f]+, partition \d+: belongs$", text, re.MULTILINE
        )
        # Anna loses two rows, and gets one that the Publisher does not have
        await topology.execute(
            "anna",
            "begin; set local session_replication_role = replica; delete from line; delete from purchase;"
            " insert into purchase (id, customer, total) values (9, 1, 9); commit",
        )
        for repaired in (False, True):
            results = await topology.validate("anna", repair=repaired)
            kinds = {
                r.table: sorted(d.kind for d in r.differences) for r in results if not r.passed
            }
            assert kinds == {"purchase": ["extra", "missing"], "line": ["missing"]}
        await topology.sync("anna")
        assert all(result.passed for result in await topology.validate("anna"))
        await topology.assert_converged()


async def test_hostile_names(server: EmbeddedServer) -> None:
    """Tables, columns and values with names like ours, or like SQL, are taken literally."""
    names = ('msrepl partition"', "msrepl id", "guids", "partitions", "partition_id")
    a, b, c, d, e = (sql.Identifier(name).as_string(None) for name in names)
    async with MergeTopology(server=server, subscribers=["anna", "ben"]) as topology:
        await topology.execute(
            "pub", f"create table {a} ({b} int primary key, {c} text, {d} text, {e} int)"
        )
        await topology.execute(
            "pub",
            f"insert into {a} values (1, '../x', 'msrepl.host_name()', 1), (2, 'msrepl.host_name()', 'a', 2)",
        )
        await topology.publish(
            names[0],
            row_filter=f"{c} = msrepl . host_name ( ) and {d} <> 'msrepl.host_name()' and {e} > 0 -- {{b}} %s",
        )
        await topology.subscribe("anna", host_name="../x")
        await topology.subscribe("ben", host_name="msrepl.host_name()")
        rows = [await topology.execute(node, f"select {b} from {a}") for node in ("anna", "ben")]
        assert rows == [[], [(2,)]]
        await topology.execute("ben", f"update {a} set {c} = '../x'")
        await converge(topology)
        assert await topology.execute("anna", f"select {b} from {a}") == [(2,)]


async def test_a_filter_on_time(topology: MergeTopology) -> None:
    """Rows leave with their children as time passes, although no row is changed."""
    await topology.execute(
        "pub",
        "create table offer (id int primary key, ends int);"
        " create table item (id int primary key, offer int references offer);"
        " insert into offer select n, n from generate_series(1, 5) as n;"
        " insert into item select n, n from generate_series(1, 5) as n",
    )
    await topology.publish("offer", row_filter="ends > current_setting('shop.day')::int")
    await topology.publish("item", join=Join("offer", "item.offer = offer.id"))
    [(database,)] = await topology.execute("pub", "select quote_ident(current_database())")
    await topology.execute("pub", f"set shop.day = 2; alter database {database} set shop.day = 4")
    await topology.subscribe("anna")
    items = "select id from item order by id"
    assert await topology.execute("anna", items) == [(3,), (4,), (5,)]
    report = await topology.sync("anna")
    assert (report.uploaded, report.downloaded, report.retried) == (0, 4, 0)
    assert await topology.execute("anna", items) == [(5,)]
    assert await topology.execute("pub", "select count(*) from offer") == [(5,)]


async def test_parents_that_exchange_their_keys(server: EmbeddedServer) -> None:
    """When parents exchange their keys, their unchanged children move with them."""
    async with MergeTopology(server=server, subscribers=sorted(HOSTS)) as topology:
        await shop(topology)
        await topology.execute(
            "pub",
            "begin; set constraints all deferred; update customer set id = 99 where id = 1;"
            " update customer set id = 1 where id = 2; update customer set id = 2 where id = 99; commit",
        )
        await converge(topology)
        await topology.execute("pub", "alter table purchase drop constraint purchase_customer_fkey")
        with pytest.raises(MergeError, match="no validated foreign key to customer any more"):
            await topology.sync("anna")


async def test_a_publisher_that_is_restored(topology: MergeTopology) -> None:
    """Rows that left a Subscriber after the backup come back, whenever they first arrived."""
    await publish_shop(topology)
    await topology.subscribe("anna", host_name="north")
    await topology.execute("pub", "insert into customer values (7, 'north', '1')")
    await topology.sync("anna")
    await topology.back_up("pub")
    await topology.execute("pub", "update customer set region = 'south'")
    await topology.sync("anna")
    await topology.restore_backup("pub")
    await topology.settle()
    rows = await topology.execute("anna", "select id, region from customer order by id")
    assert rows == [(1, "north"), (7, "north")]
    await topology.assert_converged()


async def test_a_row_of_which_a_filter_fails(server: EmbeddedServer) -> None:
    """A row whose filter fails belongs to no partition, stops no session, and is reported."""
    async with MergeTopology(server=server, subscribers=sorted(HOSTS)) as topology:
        await topology.execute("pub", SHOP)
        await topology.publish(
            "customer", row_filter="region = msrepl.host_name() and phone::int > 0"
        )
        for name, host in HOSTS.items():
            await topology.subscribe(name, host_name=host)
        await topology.execute("anna", "insert into customer values (4, 'north', 'x')")
        await topology.execute("pub", "update customer set phone = '5' where id = 2")
        await topology.settle()
        assert await topology.execute("cleo", "select phone from customer") == [("5",)]
        assert await topology.execute("anna", "select id from customer") == [(1,)]
        [wrong] = await topology.check_partitions()
        assert wrong.reason == 'its filter fails: invalid input syntax for type integer: "x"'
        await topology.execute("pub", "update customer set phone = '6' where id = 4")
        await topology.settle()
        assert (4,) in await topology.execute("ben", "select id from customer")


async def test_what_an_agent_may_not(server: EmbeddedServer) -> None:
    """The role that evaluates filters may read what they use, and nothing else."""
    async with MergeTopology(server=server, subscribers=sorted(HOSTS)) as topology:
        await shop(topology)
        await topology.execute("pub", "create table secret (id int); insert into secret values (1)")
        roles = await topology.execute(
            "pub",
            "select rolname from pg_roles where rolname like '%\\_filter\\_%' and not rolcanlogin order by 1",
        )
        assert len(roles) >= 3
        for (role,) in roles:
            rights = await topology.execute(
                "pub",
                "select has_table_privilege(%(r)s, 'secret', 'select'), has_table_privilege(%(r)s, 'customer', 'update')",
                {"r": role},
            )
            assert rights == [(False, False)]


async def test_publishing_is_taken_back(server: EmbeddedServer) -> None:
    """Parents are unpublished after their children; then nothing of the publication is left."""
    async with MergeTopology(server=server, subscribers=sorted(HOSTS)) as topology:
        await shop(topology)
        for name in sorted(HOSTS):
            await topology.unsubscribe(name)
        with pytest.raises(
            ArticleError, match="join filters of purchase name it: take these back first"
        ):
            await topology.unpublish("customer")
        for table in ("line", "purchase", "customer", "product"):
            await topology.unpublish(table)
        assert (
            await topology.execute(
                "pub",
                "select from msrepl.msmerge_current_partition_mappings union all select from msrepl.msmerge_past_partition_mappings",
            )
            == []
        )
        assert (
            await topology.execute(
                "pub",
                "select 1 from pg_proc as p where p.pronamespace = 'msrepl'::regnamespace and p.proname ~ '^msmerge_'",
            )
            == []
        )


async def test_changes_out_of_the_partition(server: EmbeddedServer) -> None:
    """With the partition option, only agents make changes out of the partition at a Subscriber."""
    async with MergeTopology(server=server, subscribers=sorted(HOSTS)) as topology:
        await publish_shop(topology, partition=2)
        for name, host in HOSTS.items():
            await topology.subscribe(name, host_name=host)
        for number, statement in (
            ("20703", "insert into customer values (4, 'south', '1')"),
            ("20703", "insert into customer values (4, null, '1')"),
            ("20733", "update customer set region = 'south'"),
        ):
            with pytest.raises(psycopg.errors.WithCheckOptionViolation, match=number):
                await topology.execute("anna", statement)
        [(trigger,)] = await topology.execute(
            "anna",
            "select quote_ident(tgname) from pg_trigger where tgname like '%guard\\_upd%' and tgrelid = 'customer'::regclass",
        )
        await topology.execute("anna", f"alter table customer disable trigger {trigger}")
        with pytest.raises(MergeError, match="takes updates that leave the partition"):
            await topology.sync("anna")
        await topology.regenerate()
        await topology.execute("anna", "insert into customer values (4, 'north', '1')")
        await topology.execute(
            "anna", "insert into purchase values (4, 4, 1); update purchase set customer = 4"
        )
        await topology.execute("pub", "update customer set region = 'south' where id = 1")
        await converge(topology)
        assert await topology.execute("cleo", "select id from customer order by id") == [(1,), (2,)]
        with pytest.raises(ArticleError, match="either a row filter or one join filter"):
            await topology.unsubscribe("anna")
            await topology.unsubscribe("ben")
            await topology.unsubscribe("cleo")
            await topology.unpublish("line")
            joins = [
                Join("purchase", "line.purchase = purchase.id"),
                Join("customer", "line.id = customer.id"),
            ]
            await topology.publish("line", join=joins, partition=2)


async def test_rows_in_two_partitions(server: EmbeddedServer) -> None:
    """The check reports a row that violates the partition option by belonging to two partitions."""
    async with MergeTopology(server=server, subscribers=["anna", "ben"]) as topology:
        await topology.execute(
            "pub",
            "create table item (id int primary key, owners text); insert into item values (1, 'anna ben')",
        )
        await topology.publish(
            "item", row_filter="position(msrepl.host_name() in owners) > 0", partition=2
        )
        await topology.subscribe("anna")
        assert await topology.check_partitions() == []
        await topology.subscribe("ben")
        assert [each.reason for each in await topology.check_partitions()] == [
            "belongs to others, too"
        ]


async def test_one_subscriber_for_each_partition(server: EmbeddedServer) -> None:
    """The next Subscriber of a partition replaces the first, which has no subscription any more."""
    async with MergeTopology(server=server, subscribers=["anna", "ben"]) as topology:
        await publish_shop(topology, partition=3)
        await topology.subscribe("anna", host_name="north")
        await topology.subscribe("ben", host_name="north")
        assert await topology.subscribed() == ["ben"]
        with pytest.raises(MergeError, match="works for no subscription"):
            await topology.sync("anna")
        await topology.execute("pub", "update customer set phone = '2'")
        assert (await topology.sync("ben")).downloaded == 1


async def test_rows_that_stay(topology: MergeTopology) -> None:
    """Without realignment a row that leaves stays: its changes are uploaded, none is downloaded."""
    await topology.execute("pub", SHOP)
    await topology.publish("customer", row_filter="region = msrepl.host_name()", realigns=False)
    await topology.subscribe("anna", host_name="north")
    await topology.execute("pub", "update customer set region = 'south', phone = '2' where id = 1")
    assert (await topology.sync("anna")).downloaded == 0
    await topology.execute("anna", "update customer set phone = '3'")
    await topology.settle()
    assert await topology.execute("anna", "select phone from customer") == [("3",)]
    await topology.assert_converged()
    assert all(result.passed for result in await topology.validate("anna"))


@pytest.mark.parametrize("deletes", [False, True], ids=["inserted", "deleted again"])
async def test_a_rowguid_of_another_partition(server: EmbeddedServer, deletes: bool) -> None:
    """By the rowguid of a row of another partition, a Subscriber replaces and deletes nothing.

    A row that it has inserted is recorded as a conflict.
    """
    key = "00000000-0000-0000-0000-000000000001"
    async with MergeTopology(server=server, subscribers=("anna", "ben")) as topology:
        await topology.execute(
            "pub",
            "create table customer (id uuid primary key, region text);"
            f" insert into customer values ('{key}', 'north')",
        )
        await topology.publish("customer", rowguid="id", row_filter="region = msrepl.host_name()")
        await topology.subscribe("anna", host_name="north")
        await topology.subscribe("ben", host_name="south")
        await topology.execute("ben", f"insert into customer values ('{key}', 'south')")
        if deletes:
            await topology.execute("ben", "delete from customer")
        for name in ("ben", "anna", "ben"):
            await topology.sync(name)
        for name in ("pub", "anna"):
            assert await topology.execute(name, "select region from customer") == [("north",)]
        found = [each.reason for each in await topology.conflicts()]
        assert len(found) == (0 if deletes else 1)
        assert all("outside the partition of ben" in reason for reason in found)
