"""Filtered publications: which rows reach whom, and what becomes of those that move."""

from __future__ import annotations

from twopc.publisher.merge.filters import Join
from twopc.server import EmbeddedServer
from twopc.sim.merge import MergeTopology

SHOP = """
create table customer (id int primary key, region text, phone text);
create table purchase (id int primary key, customer int not null references customer, total int);
create table product (id int primary key, price int);
insert into customer values (1, 'north', '1'), (2, 'south', '1'), (3, 'east', '1');
insert into purchase values (1, 1, 5), (2, 2, 6), (3, 3, 7);
insert into product values (1, 100);
"""


async def shop(topology: MergeTopology) -> None:
    await topology.execute("pub", SHOP)
    await topology.publish("customer", tracking="column", row_filter="region = msrepl.host_name()")
    await topology.publish("purchase", join=Join("customer", "purchase.customer = customer.id"))
    await topology.publish("product")
    for name, host in (("anna", "north"), ("ben", "north"), ("cleo", "south")):
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
        assert (report.uploaded, report.downloaded) == (1, 3)
        assert await topology.execute("anna", "select * from customer") == []
        assert (await topology.sync("cleo")).downloaded == 3 + 2
        await topology.settle()
        await topology.assert_converged()
        assert await topology.execute("cleo", "select id, total from purchase order by id") == [
            (1, 5), (2, 6), (4, 7)]  # fmt: skip
