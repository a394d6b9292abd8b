"""A shop whose customers belong to regions, and the invariant of its partitions."""

from __future__ import annotations

import re

from twopc.publisher.merge.filters import Join
from twopc.sim.merge import MergeTopology

SHOP = """
create table customer (id int primary key, region text, phone text);
create table purchase (id int primary key, customer int not null references customer, total int);
create table line (id int primary key, purchase int not null references purchase, count int);
create table product (id int primary key, price int);
insert into customer values (1, 'north', '1'), (2, 'south', '1'), (3, 'east', '1');
insert into purchase values (1, 1, 5), (2, 2, 6), (3, 3, 7);
insert into line values (1, 1, 1), (2, 2, 1), (3, 3, 1);
insert into product values (1, 100);
"""


async def publish_shop(
    topology: MergeTopology, *, precomputed: bool = True, has_keys: bool = True, partition: int = 0
) -> None:
    """Publish customers by region, their purchases and lines by join filters, and all products."""
    await topology.execute("pub", SHOP if has_keys else re.sub(r" references \w+", "", SHOP))
    for table, filters in (
        ("customer", {"row_filter": "region = msrepl.host_name()", "tracking": "column"}),
        ("purchase", {"join": Join("customer", "purchase.customer = customer.id")}),
        ("line", {"join": Join("purchase", "line.purchase = purchase.id")}),
    ):
        await topology.publish(table, precomputed=precomputed, partition=partition, **filters)
    await topology.publish("product")


async def assert_mapped(topology: MergeTopology) -> None:
    """Assert that the mappings of all rows agree with the filters."""
    assert await topology.check_partitions() == []
