"""Resolvers on servers: one topology, a table for each.

Without its resolver every case ends differently.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from itertools import pairwise
from typing import Any

import pytest

from twopc.errors import ArticleError
from twopc.merge.decision import Side
from twopc.merge.encounters import MergeEncounter, Resolution
from twopc.merge.resolvers import moment, parsed
from twopc.server import EmbeddedServer
from twopc.sim.merge import MergeTopology


@dataclass(frozen=True, kw_only=True)
class Case:
    """Two updates of one row, the first of which reaches the Publisher first and would win."""

    resolver: str
    type: str
    held: str
    incoming: str
    ends: tuple[Any, str]
    """The final value, and the node whose row has it."""
    tracking: str = "row"


CASES = {
    "plus": Case(
        resolver="additive(v)", type="int", held="12", incoming="15", ends=("27", "pub"),
        tracking="column",
    ),
    "plus_null": Case(
        resolver="additive(v)", type="numeric(8,2)", held="null", incoming="1.50", ends=("1.50", "pub"),
        tracking="column",
    ),
    "exact": Case(
        resolver="additive(v)", type="numeric", held="123456789012345678901234567890.12", incoming="1.01",
        ends=("123456789012345678901234567891.13", "pub"), tracking="column",
    ),
    "mean": Case(
        resolver="averaging(v)", type="int", held="12", incoming="15", ends=("14", "pub"),
        tracking="column",
    ),
    "least": Case(
        resolver="minimum(v)", type="numeric", held="10.5", incoming="9.25", ends=("9.25", "anna")
    ),
    "most": Case(
        resolver="maximum(v)", type="float8", held="1", incoming="'NaN'", ends=("NaN", "anna")
    ),
    "early": Case(
        resolver="datetime_earlier(v)", type="timestamptz", held="'infinity'",
        incoming="'2024-02-29 12:00:00+02'", ends=("2024-02-29 10:00:00+00", "anna"),
    ),
    "late": Case(
        resolver="datetime_later(v)", type="date", held="null", incoming="'0044-03-15 BC'",
        ends=("0044-03-15 BC", "anna"),
    ),
    "rank": Case(
        resolver="priority_column(v)", type="int", held="2", incoming="7", ends=("7", "anna")
    ),
    "notes": Case(
        resolver="merge_text(v, '; ')", type="text", held="'milk, (eggs)'", incoming="'milk, \"tea\"'",
        ends=('milk, (eggs); "tea"', "pub"), tracking="column",
    ),
    "theirs": Case(
        resolver="subscriber_wins", type="text", held="'x'", incoming="'y'", ends=("y", "anna")
    ),
    "own": Case(
        resolver="python:tests.merge.test_resolvers:shorter", type="text", held="'longer'",
        incoming="'short'", ends=("short!", "anna"),
    ),
    "by_function": Case(
        resolver="sql:public.longer", type="numeric(10,3)", held="1.005", incoming="12.340", ends=("112.340", "anna"),
    ),
}  # fmt: skip

#: The function has no rights on the table, and the path that it sets does not affect the agent.
LONGER = """
create function longer(conflict jsonb) returns jsonb language plpgsql as $$
begin
    if has_table_privilege('public.by_function', 'select') or conflict -> 'held' ->> 'v' <> '1.005' then
        return null;
    end if;
    perform set_config('search_path', 'public', false);
    return jsonb_build_object('winner', 'incoming', 'row',
        jsonb_build_object('v', (conflict -> 'incoming' ->> 'v')::numeric + 100));
end $$
"""


def shorter(encounter: MergeEncounter) -> Resolution | None:
    """Let the shorter text win, with a mark."""
    if not encounter.is_update_conflict:
        return None
    assert encounter.held is not None and encounter.incoming is not None
    if len(encounter.incoming["v"]) < len(encounter.held["v"]):
        return Resolution(winner=Side.INCOMING, row={"v": encounter.incoming["v"] + "!"})
    return Resolution(winner=Side.HELD)


async def test_each_resolver(topology: MergeTopology) -> None:
    """Each resolver has its outcome, the loser is recorded, and both ends agree.

    A second session transfers nothing.
    """
    await topology.execute("pub", LONGER)
    for table, case in CASES.items():
        await topology.execute(
            "pub", f"create table {table} (id int primary key, v {case.type}, by text)"
        )
        await topology.execute("pub", f"insert into {table} values (1, null, '')")
        await topology.publish(table, tracking=case.tracking, resolver=case.resolver)
    await topology.subscribe("anna")
    for table, case in CASES.items():
        for node, value in (("pub", case.held), ("anna", case.incoming)):
            await topology.execute(node, f"update {table} set v = {value}, by = '{node}'")
    report = await topology.sync("anna")
    assert (report.conflicts, report.retried) == (len(CASES), 0)
    for table, case in CASES.items():
        for node in ("pub", "anna"):
            await topology.execute(node, "set timezone = 'UTC'")
            rows = await topology.execute(node, f"select v::text, by from {table}")
            assert rows == [case.ends], (table, node)
        [conflict] = await topology.conflicts(table)
        loser = "anna" if case.ends[1] == "pub" else "pub"
        assert (conflict.origin, conflict.loser and conflict.loser["by"]) == (loser, loser)
    again = await topology.sync("anna")
    assert (again.uploaded, again.downloaded, again.conflicts) == (0, 0, 0)
    await topology.assert_converged()


async def test_a_column_that_is_not_in_conflict(topology: MergeTopology) -> None:
    """Values that were not changed are not added or joined; a change of one side alone is kept."""
    for table, kind, value, resolver in (
        ("stock", "int", "10", "additive(v)"),
        ("memo", "text", "'milk'", "merge_text(v, '; ')"),
    ):
        await topology.execute(
            "pub", f"create table {table} (id int primary key, v {kind}, by text)"
        )
        await topology.execute(
            "pub", f"insert into {table} select i, {value} from generate_series(1, 2) as i"
        )
        await topology.publish(table, tracking="column", resolver=resolver)
    await topology.subscribe("anna")
    for node in ("pub", "anna"):
        await topology.execute(
            node, f"update stock set by = '{node}'; update memo set by = '{node}'"
        )
    await topology.execute("anna", "update stock set v = 15 where id = 2")
    await topology.execute("anna", "update memo set v = 'tea' where id = 2")
    assert (await topology.sync("anna")).conflicts == 4
    for node in ("pub", "anna"):
        rows = await topology.execute(node, "select v::text, by from stock order by id")
        rows += await topology.execute(node, "select v, by from memo order by id")
        assert rows == [("10", "pub"), ("15", "pub"), ("milk", "pub"), ("tea", "pub")]


FAILING = """
create function asserting(conflict jsonb) returns jsonb language plpgsql as
    $$ begin assert false, 'never'; return null; end $$;
create function steady(conflict jsonb) returns jsonb language sql as $$ select '{"winner": "incoming"}'::jsonb $$;
create function dropping(conflict jsonb) returns jsonb language plpgsql as $$
declare
    other regprocedure;
begin
    for other in select p.oid::regprocedure from pg_proc as p where p.proname ~ 'msmerge_(ask|call)_' loop
        begin
            execute format('drop function %s', other);
        exception when insufficient_privilege then
            null;
        end;
    end loop;
    return null;
end $$;
"""


async def test_resolvers_that_fail(server: EmbeddedServer) -> None:
    """A failed assertion is a failed change; a resolver cannot drop those of other tables.

    Documents may be nested deeply.
    """
    deep = "(repeat('[', 3000) || repeat(']', 3000))::jsonb"
    tables = ("dropping", "asserting", "steady")
    async with MergeTopology(server=server, subscribers=("anna",)) as topology:
        await topology.execute("pub", FAILING)
        for table in tables:
            await topology.execute(
                "pub", f"create table {table} (id int primary key, v int, d jsonb)"
            )
            await topology.execute("pub", f"insert into {table} values (1, 0), (2, 0)")
            await topology.publish(table, tracking="column", resolver=f"sql:public.{table}")
        await topology.subscribe("anna")
        for table in tables:
            await topology.execute("pub", f"update {table} set v = 1 where id = 1")
            await topology.execute("anna", f"update {table} set v = 2, d = {deep}")
        assert (await topology.sync("anna")).retried == 1
        assert await topology.execute("pub", "select v from steady") == [(2,), (2,)]
        [failed] = await topology.conflicts("asserting")
        assert failed.reason.endswith("never (P0004)")
        await topology.execute(
            "pub",
            "create or replace function asserting(conflict jsonb) returns jsonb return null::jsonb",
        )
        assert (await topology.sync("anna")).retried == 0
        await topology.assert_converged()


REFUSED = (
    ("best_guess(v)", "row", "20020"),
    ("python:no.such:thing", "row", "20020"),
    ("sql:public.nothing", "row", "20020"),
    ("sql:pg_catalog.jsonb_typeof", "row", "20020"),
    ("sql:drop table thing", "row", "20020"),
    ("maximum", "row", "21301"),
    ("maximum(note)", "row", "21301"),
    ("datetime_later(v)", "row", "21302"),
    ("additive(v)", "row", "21303"),
    ("minimum(w)", "row", "21501"),
    ("subscriber_wins(v)", "row", "21300"),
    ("merge_text(note)", "column", "21301"),
)


async def test_what_is_refused(server: EmbeddedServer) -> None:
    """A resolver that cannot work is refused when the table is published, and nothing remains."""
    async with MergeTopology(server=server, subscribers=()) as topology:
        await topology.execute("pub", "create table thing (id int primary key, v int, note text)")
        for resolver, tracking, number in REFUSED:
            with pytest.raises(ArticleError, match=number):
                await topology.publish("thing", tracking=tracking, resolver=resolver)
        for option in ({"upload": "never"}, {"deletes": "lost"}):
            with pytest.raises(ArticleError, match="use '"):
                await topology.publish("thing", **option)
        columns = (
            "select count(*) from pg_attribute where attrelid = 'thing'::regclass and attnum > 0"
        )
        assert await topology.execute("pub", columns) == [(3,)]


def test_dates_that_python_has_no_value_for() -> None:
    """Dates that Python cannot represent are compared as PostgreSQL compares them."""
    moments = [
        "-infinity", "4713-01-01 BC", "0044-03-15 BC", "0044-04-01 BC", "0001-01-01 00:00:00+00 BC", date(1, 1, 1),
        datetime(2024, 2, 29, 10, tzinfo=timezone(timedelta(hours=2))), datetime(2024, 2, 29, 8, 0, 0, 1, UTC),
        "10000-01-01 00:00:00.5+00", "10000-01-01 00:00:00.51", "infinity",
    ]  # fmt: skip
    assert all(moment(one) < moment(later) for one, later in pairwise(moments))


def test_names_in_quotes() -> None:
    """A column may have any name, and a delimiter any characters."""
    resolver = parsed("""merge_text("a ""b"", (c)", ', ''and'' ')""", "table t")
    assert (resolver.column, resolver.delimiter) == ('a "b", (c)', ", 'and' ")
    for text in (
        "additive(a b)",
        "additive(a, b)",
        "additive(a))",
        "additive a",
        "merge_text(a, 'x', 'y')",
    ):
        with pytest.raises(ArticleError, match=r"20020|21301"):
            parsed(text, "table t")


async def test_a_resolver_that_writes(topology: MergeTopology) -> None:
    """What a resolver writes into merged tables is merged like other changes."""
    await topology.execute(
        "pub",
        "create table c (id int primary key, v text); insert into c values (1, '0'), (2, '0');"
        " create table note (id int primary key, t text);"
        " create function pick(jsonb) returns jsonb language plpgsql security definer set search_path = public as"
        " $$ begin insert into note values (1, $1->>'type'); update c set v = 'touched' where id = 2;"
        ' return \'{"winner": "held"}\'; end $$',
    )
    await topology.publish("note")
    await topology.publish("c", resolver="sql:public.pick")
    await topology.subscribe("anna")
    for name in ("pub", "anna"):
        await topology.execute(name, "update c set v = %s where id = 1", (name,))
    assert (await topology.sync("anna")).conflicts == 1
    await topology.settle()
    await topology.assert_converged()
    assert await topology.execute("anna", "select v from c order by id") == [
        ("pub",), ("touched",),
    ]  # fmt: skip
    assert await topology.execute("anna", "select id from note") == [(1,)]
