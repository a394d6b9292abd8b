"""Tests that settings do not affect stored values, and tests of other records in the log."""

from __future__ import annotations

from typing import Any

import pytest

from tests.log_reader.rig import ROLE, Rig, rows, value
from twopc.propagation import record_values
from twopc.publisher.log_reader import LogReaderProfile
from twopc.publisher.posted_messages import post_message

NASTY = {
    "datestyle": "German, DMY",
    "intervalstyle": "sql_standard",
    "timezone": "Australia/Eucla",
    "extra_float_digits": "-15",
    "bytea_output": "escape",
    "lc_monetary": "C",
    "client_encoding": "LATIN1",
    "search_path": "other, public",
    "xmlbinary": "hex",
    "quote_all_identifiers": "on",
    "statement_timeout": "1ms",
    "default_transaction_read_only": "on",
    "default_transaction_isolation": "serializable",
    "idle_session_timeout": "1ms",
    "synchronous_commit": "off",
}
VALUES = {
    "d date": ("'1999-12-31'", "1999-12-31"),
    "t timestamptz": ("'2024-02-29 12:00:00.123456+02'", "2024-02-29 10:00:00.123456+00"),
    "p timestamp": ("'2024-02-29 12:00:00'", "2024-02-29 12:00:00"),
    "i interval": ("'-1 year 2 days -03:04:05.6'", "-1 years +2 days -03:04:05.6"),
    "f double precision": ("0.1::float8 + 0.2", "0.30000000000000004"),
    "r real": ("0.1", "0.1"),
    "b bytea": ("'\\x00ff5c27'", "\\x00ff5c27"),
    "n name": ("'ÄÖ€'", "ÄÖ€"),
    "c regclass": ("'other.thing'", "other.thing"),
    "y regtype": ("'other.mood'", "other.mood"),
    "u numeric": ("'1.50'", "1.50"),
    "a text[]": ("array['a\"b', null, 'c,d']", '{"a\\"b",NULL,"c,d"}'),
}


@pytest.mark.parametrize("peek", [True, False], ids=["peek", "live"])
async def test_settings_do_not_show(both: Rig, peek: bool) -> None:
    await both.pub.execute("create schema other; create table other.thing ()")
    await both.pub.execute("create type other.mood as enum ('fine')")
    columns = ", ".join(VALUES)
    await both.pub.execute(f"create table kinds (id int primary key, {columns})".encode())
    await both.publish("kinds")
    values = ", ".join(sql for sql, _ in VALUES.values())
    await both.pub.execute(f"insert into kinds values (1, {values})".encode())
    for name, setting in NASTY.items():
        for target in (
            f"database {both.publisher.name}",
            f"database {both.distribution.name}",
            f"role {ROLE}",
        ):
            quoted = setting if name in ("datestyle", "search_path") else f"'{setting}'"
            await both.pub.execute(f"alter {target} set {name} = {quoted}".encode())
    await both.read(reading=LogReaderProfile(catch_up_bytes=0 if peek else 1 << 40))
    (text,) = await rows(both.dist, "select command from msrepl.msrepl_commands")
    found = [each and each.decode() for each in record_values(text[0].encode())]
    assert found[1:-1] == [shown for _, shown in VALUES.values()]


async def test_posted_messages_are_commands_for_everybody(both: Rig) -> None:
    await both.pub.execute("insert into item (id) values (1)")
    token = await post_message(both.pub, "tracer_token", {"by": "me"})
    await post_message(both.pub, "validation", {"what": "all"})
    await both.read()
    found = await rows(
        both.dist,
        "select article_id, type, hashkey, command::jsonb ->> 'by' from msrepl.msrepl_commands "
        "where article_id = 0 order by xact_seqno",
    )
    assert found == [(0, 20, 0, "me"), (0, 21, 0, None)]
    passed = await rows(
        both.dist,
        "select tracer_id, publisher_commit <= distributor_commit, entry_time = publisher_commit "
        "from msrepl.mstracer_tokens cross join msrepl.msrepl_transactions "
        "order by xact_seqno offset 1 limit 1",
    )
    assert passed == [(token.id, True, True)]


async def test_a_token_seen_again_is_taken_once(both: Rig) -> None:
    await both.pub.execute("select pg_copy_logical_replication_slot('msrepl_test', 'msrepl_old')")
    await post_message(both.pub, "tracer_token", {})
    await both.read()
    before = await rows(both.dist, "select * from msrepl.mstracer_tokens")
    await both.read(slot="msrepl_old")
    assert await rows(both.dist, "select * from msrepl.mstracer_tokens") == before


async def test_a_truncate_past_the_trigger_is_told_and_passed_over(both: Rig) -> None:
    await both.pub.execute("insert into item (id) values (1)")
    async with both.pub.transaction():
        await both.pub.execute("set local session_replication_role = replica")
        await both.pub.execute("truncate item")
        await both.pub.execute("insert into item (id) values (2)")
    await both.pub.execute("truncate msrepl.branch_marker")
    await both.read()
    assert len(await both.texts()) == 2
    history: list[tuple[Any, ...]] = await rows(
        both.dist,
        "select h.event, h.command, h.xact_seqno = max(t.xact_seqno), h.message "
        "from msrepl.msdistribution_history h, msrepl.msrepl_transactions t group by h.id",
    )
    assert len(history) == await value(
        both.pub, "select (pubtruncate)::int from pg_publication where pubname = 'msrepl'"
    )
    for event, command, in_place, message in history:
        assert (event, command, in_place) == ("skipped", "TRUNCATE item", True)
        assert "`twopc validate --repair`" in message


async def test_messages_and_unpublished_tables_are_nothing(both: Rig) -> None:
    await both.pub.execute("create table other (id int primary key)")
    await both.pub.execute("insert into other values (1)")
    await both.pub.execute("select pg_logical_emit_message(true, 'a', 'b')")
    assert (await both.read()).transactions == 0


async def test_row_filters_are_asked(both: Rig) -> None:
    """Filtered rows keep their order among other tables' changes in one transaction."""
    await both.pub.execute("create table bid (id int primary key, price int)")
    await both.publish("bid", row_filter="price > 10")
    async with both.pub.transaction():
        await both.pub.execute("insert into bid values (1, 5), (2, 50)")
        await both.pub.execute("insert into item (id) values (1)")
        await both.pub.execute("update bid set price = 60")
        await both.pub.execute("update bid set price = 1 where id = 2")
        await both.pub.execute("delete from bid where id = 2")
    await both.read()
    found = [(kind, text.split('"')[1]) for _, _, kind, text in await both.commands()]
    kinds = [(1, "2"), (1, "1"), (1, "1"), (2, None), (3, "2")]
    assert [kind for kind, _ in found] == [kind for kind, _ in kinds]
    assert [key for kind, key in found if kind != 2] == [key for kind, key in kinds if kind != 2]


async def test_row_filters_are_compared_within_a_run(both: Rig) -> None:
    """Rows to be filtered interrupt a run of changes that are scanned together."""
    await both.pub.execute("create table bid (id int primary key, price int)")
    await both.publish("bid", row_filter="price > 10")
    async with both.pub.transaction():
        await both.pub.execute("insert into bid values (0, 50)")
        await both.pub.execute("insert into item (id) select generate_series(1, 500)")
        await both.pub.execute("insert into bid values (1, 5), (2, 50)")
    await both.read()
    assert len(await both.commands()) == 502
