"""A session's output settings have no effect: values that are compared or sent elsewhere are in pinned formats."""

from __future__ import annotations

from tests.fix_topology import MakePair, MakeTopology, share
from tests.publisher.test_values import ODD_SETTINGS

ITEM = r"""
create table item (id int primary key, at timestamptz not null default '2026-02-03 04:05:06+00',
    day date not null default '2026-02-03', span interval default '1 mon 2 days 03:04:05', raw bytea default '\x00ff',
    ratio float8 default '0.12345678901234567'::float8, "select" int generated always as (id + 1) stored);
create unique index item_late on item (day) where at > '2026-03-04 05:06:07+00'
"""
#: Default expressions, whose texts from the catalogs depend on settings unless these are pinned.
DEFAULTS = """
select a.attname::text, pg_get_expr(d.adbin, d.adrelid) from pg_attrdef d
join pg_attribute a on (a.attrelid, a.attnum) = (d.adrelid, d.adnum)
where d.adrelid = 'item'::regclass and a.attname <> 'msrepl_tran_version' order by 1
"""


async def test_whoever_drops_a_table_makes_no_article_stale(make_pair: MakePair) -> None:
    """A DDL guard in a session with unusual settings, such as a driver's TimeZone, makes no article stale."""
    pair = await make_pair(ITEM, "insert into item values (1)", publish=["item"])
    for node, stale in (
        ("pub", "select stale from msrepl.sysarticles"),
        ("sub1", "select stale from msrepl.msreplication_objects"),
    ):
        async with await pair.topology.node(node).connect() as session:
            for name, value in ODD_SETTINGS.items():
                await session.execute("create table public.own ()")
                await session.execute(f"set {name} = {value}".encode())
                await session.execute("drop table public.own")
                assert await pair.topology.execute(node, stale) == [(None,)], name
                await session.execute(f"reset {name}".encode())
    await pair.run("update item set day = day + 1")
    await pair.same("item")


async def test_a_copy_is_made_alike_whatever_the_sites_print(make_topology: MakeTopology) -> None:
    """Values printed by one node keep their meaning at another, whose DateStyle has day and month in another order."""
    topology = await make_topology(subscribers=("sub1",))
    await topology.execute("pub", ITEM)
    plain = await topology.execute("pub", DEFAULTS)
    for node, order in (("pub", "DMY"), ("sub1", "MDY")):
        zone = "Asia/Kathmandu" if node == "pub" else "America/New_York"
        await topology.execute(node, f"set datestyle = 'SQL, {order}'; set timezone = '{zone}'")
    await share(
        topology, "item", "set intervalstyle = 'sql_standard'; set extra_float_digits = -15"
    )

    async with await topology.node("sub1").connect() as session:
        cursor = await session.execute(DEFAULTS)
        assert await cursor.fetchall() == plain
