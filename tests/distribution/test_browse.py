"""Tests of browsing stored commands in the format of the seed, and of the state of agents."""

from __future__ import annotations

from typing import Any

import pytest
from psycopg import AsyncConnection

from tests.distribution.made import (
    VERSION,
    article,
    columns,
    delete,
    insert,
    names_of,
    propagation,
    relation,
    update,
)
from tests.distribution.stored import register, store, store_commands, store_in_part
from twopc.articles import Column
from twopc.distributed_article import read_command
from twopc.errors import ConfigurationError
from twopc.propagation import CommandType
from twopc.publisher import distribution, publication
from twopc.publisher.commands import CommandBuilder

Connection = AsyncConnection[Any]
V = "00000000-0000-0000-0000-000000000001"

ITEM = article(
    Column(name="id", type="integer"),
    Column(name="name", type="text"),
    Column(name="price", type="numeric(8,2)"),
    Column(name="tags", type="integer[]"),
    VERSION,
    key=("id",),
    table="item",
)
OLD = [b"1", b"it's", b"9.90", b"{1,2}", V.encode()]
NEW = [b"1", b"it's", None, b"{1,2}", V.replace("1", "2").encode()]
SECOND = f"'{V.replace('1', '2')}'"


@pytest.mark.parametrize(
    ("upd", "expected"),
    [
        ("SCALL", f"{{CALL sp_msupd_item (,,NULL,,{SECOND},1,0x14)}}"),
        ("MCALL", f"{{CALL sp_msupd_item (1,'it''s',NULL,'{{1,2}}',{SECOND},1,0x14)}}"),
        ("CALL my.sp", f"{{CALL my.sp (1,'it''s',NULL,'{{1,2}}',{SECOND},1)}}"),
        (
            "XCALL",
            f"{{CALL sp_msupd_item (1,NULL,9.90,NULL,'{V}',1,'it''s',NULL,'{{1,2}}',{SECOND})}}",
        ),
    ],
)
def test_updates(upd: str, expected: str) -> None:
    """Unchanged columns of an SCALL are empty, NULL is written as such, and numbers have no quotes."""
    made = article(*ITEM.article.columns, key=("id",), table="item", how=propagation(upd=upd))
    here = relation(*names_of(made), table="item")
    ((_, kind, _, text),) = CommandBuilder([made]).commands(update(here, OLD, NEW))
    reading = read_command(made, kind, text.decode())
    assert reading.text == expected
    names = ("price", VERSION.name) if "0x14" in expected else None
    assert reading.changed == names


def test_inserts_and_deletes() -> None:
    """Calls are shown by their parameters, statements unchanged, and posted messages as JSON."""
    here = relation(*names_of(ITEM), table="item")
    builder = CommandBuilder([ITEM])
    ((_, kind, _, text),) = builder.commands(insert(here, OLD))
    assert (
        read_command(ITEM, kind, text.decode()).text
        == f"{{CALL sp_msins_item (1,'it''s',9.90,'{{1,2}}','{V}')}}"
    )
    ((_, kind, _, text),) = builder.commands(delete(here, OLD))
    assert read_command(ITEM, kind, text.decode(), verb="VCALL").text == "{VCALL sp_msdel_item (1)}"
    for kind in (CommandType.SQL_DELETE, CommandType.TRACER_TOKEN):
        assert read_command(ITEM, kind, "as it is").text == "as it is"


def test_commands_of_an_article_that_has_changed() -> None:
    """A command of an earlier shape of an article is shown as it is stored."""
    narrower = article(*columns(3), table="item")
    assert read_command(narrower, CommandType.INSERT, '("1","2")').text == '("1","2")'
    assert read_command(None, CommandType.INSERT, '("1","2")').text == '("1","2")'


async def fill(connection: Connection) -> int:
    part = article(*ITEM.article.columns, key=("id",), table="item", number=8, row_filter="id > 1")
    number = await register(connection, ITEM, part)
    sub = await distribution.add_originator(connection, number, "sub1", database="d", link_role="l")
    item = f'("1","a","2.50",,"{V}")'
    await store_commands(connection, number, "0/10", (1, 7, item), (1, 8, item))
    update = f'(,,,,"{V}","1","\\\\x10")'
    await store_commands(connection, number, "0/20", (2, 7, update), originator=sub)
    await store_commands(connection, number, "0/30", (20, 0, '{"id": 5}'))
    return number


async def test_browse(stored: Connection) -> None:
    """Commands are shown in order of delivery, with their originator, whose commands are VCALLs."""
    await fill(stored)
    found = await distribution.browse(stored, "pub")
    call = f"{{CALL sp_msins_item (1,'a',2.50,NULL,'{V}')}}"
    assert [(c.xact_seqno, c.command_id, c.article, c.article_id, c.statement) for c in found] == [
        ("0/10", 1, "item", 7, call),
        ("0/10", 2, "item", 8, call),
        (
            "0/20", 1, "item", 7,
            f"{{VCALL sp_msupd_item (,,,,'{V}',1,0x10)}} -- changes {VERSION.name}",
        ),
        ("0/30", 1, "", 0, '{"id": 5}'),
    ]  # fmt: skip
    assert [c.originator for c in found] == [None, None, "sub1", None]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({"seqno_start": "0/20"}, ["0/20 1", "0/30 1"]),
        ({"seqno_start": "0/11", "seqno_end": "0/20"}, ["0/20 1"]),
        ({"seqno_start": "0/10", "seqno_end": "0/10", "command_id": 2}, ["0/10 2"]),
        ({"article": 8}, ["0/10 2"]),
        ({"article": "item"}, ["0/10 1", "0/10 2", "0/20 1"]),
        ({"article": "public.item", "limit": 2}, ["0/10 1", "0/10 2"]),
    ],
)
async def test_choosing(stored: Connection, choice: dict[str, Any], expected: list[str]) -> None:
    """Commands are selected by position, article and number."""
    await fill(stored)
    found = await distribution.browse(stored, "pub", **choice)
    assert [f"{c.xact_seqno} {c.command_id}" for c in found] == expected


@pytest.mark.parametrize(
    ("choice", "problem"),
    [
        ({"command_id": 1}, "within one transaction only .21109."),
        ({"seqno_start": "0/10", "command_id": 1}, "21109"),
        ({"article": "nothing"}, "no article 'nothing'; articles are item"),
        ({"publisher": "other"}, "knows no Publisher 'other'"),
        ({"seqno_start": "yesterday"}, "'yesterday' is no position of a log"),
    ],
)
async def test_choices_that_make_no_sense(
    stored: Connection, choice: dict[str, Any], problem: str
) -> None:
    """An invalid selection is refused with its reason."""
    await fill(stored)
    with pytest.raises(ConfigurationError, match=problem):
        await distribution.browse(stored, choice.pop("publisher", "pub"), **choice)


async def test_status(stored: Connection) -> None:
    """The state shows positions, waiting commands with their age, the last rate and the last error."""
    number = await register(stored, ITEM)
    for place in range(1, 5):
        await store(stored, number, f"0/{place}0", place, age=f"{50 - 10 * place} seconds")
    for name in ("sub1", "sub2"):
        await distribution.add_subscription(
            stored, number, 7, name, status=distribution.ACTIVE, subscription_seqno="0/0"
        )
    await stored.execute(
        """
        update msrepl.mspublisher_databases set read_to = '0/40', last_error = 'e';
        update msrepl.msdistribution_agents set delivered = '0/20', runstatus = 'failed', last_error = 'why'
        where subscriber = 'sub2';
        insert into msrepl.msdistribution_history
            (publisher_database_id, subscriber, event, duration_ms, commands)
        values (1, 'sub2', 'succeeded', 500, 1000), (1, 'sub2', 'started', null, null)
        """
    )
    [reader] = await distribution.readers(stored)
    assert (reader.publisher, reader.read_to, reader.last_error) == ("pub", "0/40", "e")
    assert (reader.transactions, reader.commands) == (4, 10)
    first, second = await distribution.agents(stored)
    assert (first.subscriber, first.subscription, first.delivered) == ("sub1", "active", "0/0")
    assert (first.waiting_transactions, first.waiting_commands, first.commands_per_s) == (
        4,
        10,
        None,
    )
    assert first.runstatus == "never started"
    assert (second.waiting_transactions, second.waiting_commands) == (2, 7)
    assert (second.runstatus, second.last_error, second.commands_per_s) == ("failed", "why", 2000)
    assert second.lag_s is not None
    assert first.lag_s is not None
    assert 20 <= second.lag_s < first.lag_s
    await stored.execute("update msrepl.msdistribution_agents set delivered = '0/40'")
    first, _ = await distribution.agents(stored)
    assert (first.waiting_transactions, first.lag_s) == (0, None)
    await stored.execute("update msrepl.msdistribution_agents set delivered = '0/20'")
    await store_in_part(stored, "0/40")
    [reader] = await distribution.readers(stored)
    assert (reader.transactions, reader.commands) == (3, 6)
    first, _ = await distribution.agents(stored)
    assert (first.waiting_transactions, first.waiting_commands) == (1, 3)


async def test_published_and_browsed(stored: Connection, logged: Any) -> None:
    """A change of a published table is shown as a call."""
    await logged.execute(
        "create schema sales; create table sales.orders (id int primary key, note text)"
    )
    await publication.publish(logged.connection, "sales", "orders")
    number = await register(stored, *(await publication.distributed_articles(logged.connection)))
    await logged.execute("insert into sales.orders values (1, 'a')")
    cursor = await logged.connection.execute("select msrepl_tran_version::text from sales.orders")
    [(version,)] = await cursor.fetchall()
    made = [
        (kind, article_id, text.decode()) for article_id, kind, _, text in await logged.commands()
    ]
    await store_commands(stored, number, "0/10", *made)
    [shown] = await distribution.browse(stored, "pub", article="sales.orders")
    assert shown.text == f"{{CALL sp_msins_salesorders (1,'a','{version}')}}"
