"""Tests that validation finds every row that differs, by key, and repairs it, and leaves all others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.validation.ends import ends
from twopc.errors import SubscriptionError
from twopc.sim.topology import Topology
from twopc.sim.validation import validate
from twopc.validation import ArticleVerdict

MakeTopology = Callable[..., Awaitable[Topology]]

TABLES = """
create type mood as enum ('sad', 'ok');
create table item (
    id int primary key, n int, big bigint, price numeric(10,2), ratio float8, note text, at timestamptz,
    data bytea, doc jsonb, tags text[], feeling mood, u int unique, secret text,
    twice int generated always as (n * 2) stored);
create table line (item int, place text, n int, primary key (place, item));
create table other (id int primary key, n int);
insert into item
select g, g, g * 10000000000, g / 3.0, g / 7.0, 'note ' || g, '2024-01-01'::timestamptz + g * interval '1 h',
       sha256(g::text::bytea), jsonb_build_object('g', g), array['a', g::text], 'ok', g, 'hidden'
from generate_series(1, 300) g;
insert into item (id) select g from generate_series(301, 310) g;
insert into line select g, 'say "' || g || '", it''s', g from generate_series(1, 100) g;
insert into other values (1, 1);
"""
COLUMNS = ["id", "n", "big", "price", "ratio", "note", "at", "data", "doc", "tags", "feeling", "u", "twice"]  # fmt: skip


@pytest.fixture
async def topology(make_topology: MakeTopology) -> Topology:
    topology = await make_topology(subscribers=("sub1",))
    await topology.execute("pub", TABLES)
    await topology.publish("item", columns=COLUMNS, row_filter="id % 10 <> 0 or id > 300")
    await topology.publish("line")
    await topology.publish("other")
    await topology.subscribe("sub1")
    return topology


async def judged(topology: Topology, **options: Any) -> dict[str, ArticleVerdict]:
    """Validate the only Subscriber; return the verdicts by article."""
    found = await validate(ends(topology, "sub1"), advance=topology.sync, **options)
    return {verdict.article: verdict for verdict in found}


async def tamper(topology: Topology, statement: str) -> None:
    """Change the Subscriber's rows without firing triggers."""
    await topology.execute(
        "sub1", f"begin; set local session_replication_role = replica; {statement}; commit"
    )


async def test_nothing_differs(topology: Topology) -> None:
    """Copies with filters, hidden and generated columns and NULLs pass, also after changes at both nodes."""
    found = await judged(topology)
    assert [(v.article, v.number, v.actual.rows) for v in found.values()] == [
        ("item", 20575, 280),
        ("line", 20575, 100),
        ("other", 20575, 1),
    ]
    await topology.execute("pub", "update item set n = n + 1, id = id + 1000 where id % 7 = 0")
    await topology.execute("pub", "delete from line where n < 10")
    async with topology.transaction("sub1") as transaction:
        await transaction.execute("update item set note = 'from here' where id = 1")
        await transaction.execute("delete from line where n = 20")
    found = await judged(topology)
    assert all(verdict.passed and not verdict.undecided for verdict in found.values())
    assert found["line"].actual.rows == 90


DAMAGE = {
    "a bit of an integer": "update item set n = n # 1 where id = 5",
    "the highest bit of a bigint": "update item set big = big # (1::bigint << 62) where id = 5",
    "a bit of a float": "update item set ratio = ratio * (1 + 2.3e-16) where id = 3",
    "the case of a text": "update item set note = upper(note) where id = 5",
    "a microsecond": "update item set at = at + interval '1 microsecond' where id = 5",
    "a bit of a large value": "update item set data = set_bit(data, 77, 1 - get_bit(data, 77)) where id = 5",
    "a number inside jsonb": "update item set doc = '{\"g\": 5.0}' where id = 5",
    "an element": "update item set tags[2] = null where id = 5",
    "a value instead of NULL": "update item set note = '' where id = 305",
    "NULL instead of a value": "update item set feeling = null where id = 5",
    "the version alone": "update item set msrepl_tran_version = gen_random_uuid() where id = 5",
    "a missing row": "delete from item where id = 5",
    "an extra row": "insert into item (id, n) values (4711, 1)",
    "a row outside of the partition": "insert into item (id, n, u) values (10, 10, 10)",
    "another key": "update item set id = 4712 where id = 5",
    "unique values that changed places": "update item set u = -1 where id = 5; update item set u = 5 where"
    " id = 6; update item set u = 6 where id = 5",
}  # fmt: skip


async def test_every_damage_is_found_and_repaired(topology: Topology) -> None:
    """Each damage is found by key and repaired with the Publisher's version, and no change is captured."""
    await judged(topology)
    read = "select read_to::text from msrepl.mspublisher_databases"
    rows = "select i::text from item i order by id"
    before = await topology.execute("sub1", rows)
    for what, statement in DAMAGE.items():
        await tamper(topology, statement)
        found = await judged(topology, tables=["item"])
        damaged = {"another key": 2, "unique values that changed places": 2}.get(what, 1)
        assert len(found["item"].differences) == damaged, what
        assert found["item"].number == 20574
        assert await topology.execute("sub1", rows) != before
        repaired = await judged(topology, tables=["item"], repair=True)
        assert len(repaired["item"].repaired) == damaged, what
        assert await topology.execute("sub1", rows) == before, what
        assert (await judged(topology))["item"].passed, what
    await topology.sync()
    changes = await topology.execute(
        topology.distribution, "select count(*) from msrepl.msrepl_commands where article_id <> 0"
    )
    assert changes == [(0,)]
    assert await topology.execute(topology.distribution, read)


async def test_keys_of_several_columns(topology: Topology) -> None:
    """Keys of several columns are shown in the order of the key, with any content."""
    await tamper(topology, "delete from line where item = 7; update line set n = -1 where item = 8")
    found = (await judged(topology, repair=True))["line"]
    assert found.named() == [
        'missing (place = say "7", it\'s, item = 7)',
        'changed (place = say "8", it\'s, item = 8)',
    ]
    assert (await judged(topology))["line"].passed
    history = await topology.execute(
        topology.distribution,
        "select event, error, message from msrepl.msdistribution_history "
        "where subscriber = 'sub1' and message ~ 'line' and event in ('validated', 'repaired') order by id",
    )
    assert [(event, error) for event, error, _ in history] == [
        ("validated", "20574"),
        ("repaired", None),
        ("validated", "20575"),
    ]
    assert "failed data validation" in history[0][2]


async def test_all_rows_differ(topology: Topology) -> None:
    """If all rows differ, all are repaired."""
    await tamper(topology, "update line set n = n + 1; truncate other")
    found = await judged(topology, repair=True)
    assert len(found["line"].differences) == len(found["line"].repaired) == 100
    assert found["other"].messages()[0][0] == 20524
    assert found["item"].passed
    assert all(verdict.passed for verdict in (await judged(topology)).values())


async def test_an_own_transaction_that_is_not_finished_everywhere(
    topology: Topology,
) -> None:
    """A change committed at the Publisher and only prepared at the Subscriber is no difference."""
    before = await judged(topology)
    async with topology.transaction("sub1") as transaction:
        await transaction.execute("update other set n = 2")
    assert (await judged(topology))["other"].passed
    assert before["other"].passed


async def test_no_such_subscription(topology: Topology) -> None:
    """The error names the existing articles; waiting for an agent that does not deliver ends with an error."""
    with pytest.raises(
        SubscriptionError, match="no subscription to 'nothing'; it has item, line, other"
    ):
        await judged(topology, tables=["nothing"])
    with pytest.raises(SubscriptionError, match="no active subscription"):
        await validate(ends(topology, "pub"))
    with pytest.raises(SubscriptionError, match=r"waited 0.1 s .* to deliver .* `twopc status`"):
        await validate(ends(topology, "sub1"), timeout_s=0.1)


async def test_agents_that_run_by_themselves_are_not_driven(
    topology: Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `drive=False` no agents are run: they run elsewhere, and a second log reader would be refused."""
    await topology.start_agents()

    async def never(*_: object) -> None:
        raise AssertionError("driven")

    monkeypatch.setattr(topology.agents, "sync", never)
    await topology.execute("pub", "update line set n = n + 1 where n < 10")
    found = await topology.validate("sub1", drive=False)
    assert {verdict.number for verdict in found} == {20575}
