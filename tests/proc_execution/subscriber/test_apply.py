"""Tests of stored calls and definitions at a Subscriber, as agents execute them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest

from twopc import names
from twopc.errors import SubscriptionError
from twopc.proc_execution import Argument, ProcArticle, ProcCall
from twopc.sim import Topology
from twopc.subscriber import proc_execution
from twopc.subscriber.propagation import install

MakeTopology = Callable[..., Awaitable[Topology]]

#: Values in the format of their types' output functions, one for each argument of a procedure.
VALUES = {
    "boolean": "t",
    "smallint": "-32768",
    "integer": "2147483647",
    "bigint": "-9223372036854775808",
    "numeric": "1.100000000000000000000000000001",
    "real": "3.4028235e+38",
    "double precision": "0.1",
    "money": "$1.25",
    "text": "  ' \\ \" ,{} \n\t€",
    "character varying": "two  ",
    "bpchar": "padded  ",
    "character": "more than one",
    "name": "a name",
    '"char"': "c",
    "bytea": "\\x00ff27",
    "date": "4713-01-01 BC",
    "time without time zone": "24:00:00",
    "time with time zone": "12:00:00.5+05:30",
    "timestamp without time zone": "infinity",
    "timestamp with time zone": "2024-02-29 12:00:00.000001+00",
    "interval": "-1 years -2 mons +3 days -04:05:06.7",
    "uuid": "00000000-0000-0000-0000-00000000000a",
    "json": '{"b": 1, "a" : null}',
    "jsonb": '{"a": null, "b": [1, 2]}',
    "inet": "10.0.0.1/8",
    "cidr": "10.0.0.0/8",
    "macaddr": "08:00:2b:01:02:03",
    "bit": "10101",
    "bit varying": "0001",
    "point": "(1,2)",
    "box": "(2,2),(1,1)",
    "polygon": "((0,0),(1,1),(1,0))",
    "int4range": "[1,5)",
    "tstzrange": '["2024-01-01 00:00:00+00",)',
    "int8multirange": "{[1,3),[5,7)}",
    "tsvector": "'a':1A 'b':2",
    "tsquery": "'a' & 'b':*",
    "pg_lsn": "16/B374D848",
    "integer[]": "[0:1]={1,NULL}",
    "text[]": '{"a,b",NULL,"\\"","NULL"}',
    "public.mood": "so so",
    "public.positive": "7",
    "public.pair": '(1,"x, y")',
}
TYPES = """
create type mood as enum ('good', 'so so');
create domain positive as int check (value > 0);
create type pair as (a int, b text);
create table seen (place int generated always as identity, what text);
grant select, insert on seen to public;
"""


class Site:
    """A Subscriber's database with one routine of the subscription, and an agent's session."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.article: ProcArticle
        self.agent: psycopg.AsyncConnection[Any]

    async def create(self, definition: str, *arguments: tuple[str, str], **options: Any) -> None:
        """Create the routine of a definition; arguments are modes and types."""
        self.article = ProcArticle(
            article_id=7,
            schema=options.get("schema", "public"),
            name=options.get("name", "routine"),
            kind=options.get("kind", "p"),
            arguments=tuple(Argument(name="", mode=mode, type=kind) for mode, kind in arguments),
            definition=definition,
        )
        node = self.topology.node("sub1")
        here = await self.topology.admin("sub1")
        call = options.get("call", True)
        await proc_execution.create(here, self.article, node.agent_role, call=call)

    async def call(self, *values: str | None, **options: Any) -> None:
        """Make a call as an agent does."""
        text = ProcCall(values=values, **options).as_text()
        await self.agent.execute("select msrepl.apply_7_call(%s)", (text,))

    async def seen(self) -> list[str]:
        """Return what the routine has recorded since the last call of this method."""
        rows = await self.topology.execute(
            "sub1",
            "with gone as (delete from seen returning *) select what from gone order by place",
        )
        return [what for (what,) in rows]


@pytest.fixture
async def site(make_topology: MakeTopology) -> Any:
    """A Subscriber without distribution."""
    topology = await make_topology(subscribers=("sub1",))
    await topology.execute("sub1", TYPES)
    node = topology.node("sub1")
    await install(await topology.admin("sub1"), node.agent_role)
    await topology.execute(
        "sub1",
        "create table msrepl.msreplication_objects (dest_schema text, article text)",
    )
    found = Site(topology)
    async with await psycopg.AsyncConnection.connect(node.agent_dsn, autocommit=True) as agent:
        found.agent = agent
        await agent.execute("set session_replication_role = replica")
        await agent.execute("set lc_monetary = 'C'; set timezone = 'Asia/Tokyo'")
        yield found


async def test_values_of_every_type(site: Site) -> None:
    """Arguments of every type arrive unchanged, and so do NULLs."""
    places = ", ".join(f"(${n}::text)" for n in range(1, len(VALUES) + 1))
    parameters = ", ".join("bpchar" if each == "character" else each for each in VALUES)
    parameters = parameters.replace(" bit,", ' "bit",')
    await site.create(
        f"CREATE OR REPLACE PROCEDURE public.routine({parameters}) LANGUAGE plpgsql"
        f" AS $$ begin insert into public.seen (what) values {places}; end $$",
        *(("i", each) for each in VALUES),
    )
    await site.agent.execute("set timezone = 'UTC'")

    await site.call(*VALUES.values())

    wanted = {
        **VALUES,
        "boolean": "true",
        "bpchar": "padded",  # as cast to text
    }
    assert dict(zip(VALUES, await site.seen(), strict=True)) == wanted
    await site.call(*[None] * len(VALUES))
    assert set(await site.seen()) == {None}


async def test_settings_hold_for_the_call(site: Site) -> None:
    """The settings of a call do not affect the rest of its transaction."""
    await site.topology.execute("sub1", "create schema other; create table other.seen (what text)")
    await site.topology.execute(
        "sub1", "grant usage on schema other to public; grant insert on other.seen to public"
    )
    await site.create(
        "CREATE OR REPLACE PROCEDURE public.routine() LANGUAGE plpgsql"
        " AS $$ begin insert into seen (what) select current_setting('timezone'); end $$"
    )
    before = await (await site.agent.execute("show search_path")).fetchone()
    async with site.agent.transaction():
        await site.call(settings={"search_path": "public", "timezone": "UTC"})
        assert await (await site.agent.execute("show timezone")).fetchone() == ("Asia/Tokyo",)
        await site.call(settings={"search_path": "other"})
        assert await (await site.agent.execute("show search_path")).fetchone() == before

    assert await site.seen() == ["UTC"]
    assert await site.topology.execute("sub1", "select what from other.seen") == [("Asia/Tokyo",)]


@pytest.mark.parametrize(
    ("definition", "arguments", "call", "wanted"),
    [
        (
            "PROCEDURE public.routine(VARIADIC a integer[]) AS $$ begin insert into public.seen (what)"
            " select array_to_string(a, '+'); end $$",
            (("v", "integer[]"),),
            ProcCall(values=("{1,2}",)),
            ["1+2"],
        ),
        (
            "PROCEDURE public.routine(IN a integer, INOUT b integer, OUT c text) AS $$ begin b := a + b;"
            " c := 'out'; insert into public.seen (what) select b; end $$",
            (("i", "integer"), ("b", "integer"), ("o", "text")),
            ProcCall(values=("1", "2")),
            ["3"],
        ),
        (
            "PROCEDURE public.routine(a anyelement, b integer) AS $$ begin insert into public.seen (what)"
            " select pg_typeof(a); end $$",
            (("i", "anyelement"), ("i", "integer")),
            ProcCall(values=("2024-01-01", "2"), types=("date", "integer")),
            ["date"],
        ),
        (
            "FUNCTION public.routine(a integer) RETURNS SETOF integer AS $$ begin insert into public.seen (what)"
            " select 'one'; return next a; insert into public.seen (what) select 'two'; return next a; end $$",
            (("i", "integer"),),
            ProcCall(values=("1",)),
            ["one", "two"],
        ),
        (
            "FUNCTION public.routine(OUT a integer) RETURNS integer AS $$ begin a := 1; insert into public.seen"
            " (what) select a; end $$",
            (("o", "integer"),),
            ProcCall(values=()),
            ["1"],
        ),
    ],
    ids=["variadic", "out", "polymorphic", "rows", "function_out"],
)
async def test_arguments(
    site: Site, definition: str, arguments: Any, call: ProcCall, wanted: list[str]
) -> None:
    """Arguments of all modes work for procedures and functions, which run to their end."""
    kind = "f" if definition.startswith("FUNCTION") else "p"
    head, _, body = definition.partition(" AS ")
    text = f"CREATE OR REPLACE {head} LANGUAGE plpgsql AS {body}"
    await site.create(text, *arguments, kind=kind)
    await site.call(*call.values, types=call.types)
    assert await site.seen() == wanted


async def test_odd_names(site: Site) -> None:
    """Quotes, percent signs and line breaks in names are allowed."""
    name = 'a "%s"\n$1'
    quoted = '"a ""%s""\n$1"'
    await site.create(
        f'CREATE OR REPLACE PROCEDURE "o%d".{quoted}(anyelement) LANGUAGE plpgsql'
        " AS $$ begin insert into public.seen (what) select 'odd'; end $$",
        ("i", "anyelement"),
        schema="o%d",
        name=name,
    )
    await site.call("1", types=("integer",))
    assert await site.seen() == ["odd"]


async def test_failures(site: Site) -> None:
    """A call that failed at the Publisher fails here with the same error, even if it could succeed.

    The Publisher has rolled back its rows.
    """
    await site.create(
        "CREATE OR REPLACE PROCEDURE public.routine(a integer) LANGUAGE plpgsql"
        " AS $$ begin insert into public.seen (what) select 1 / a; end $$",
        ("i", "integer"),
    )
    with pytest.raises(psycopg.errors.DivisionByZero):
        await site.call("0")
    with pytest.raises(
        psycopg.errors.ForeignKeyViolation, match=r"public.routine\(integer\) failed"
    ):
        await site.call("1", failure="23503")
    with pytest.raises(psycopg.errors.InvalidTextRepresentation):
        await site.call("one")
    assert await site.seen() == []


BODY = "LANGUAGE plpgsql AS $$ begin insert into public.seen (what) select '{}'; end $$"


async def test_definitions(site: Site) -> None:
    """A changed body remains until the next definition, which may have another result type."""
    head = "CREATE OR REPLACE FUNCTION public.routine(a integer) RETURNS {} "
    await site.create((head + BODY).format("void", "there"), ("i", "integer"), kind="f")
    await site.topology.execute("sub1", (head + BODY).format("void", "mine"))
    await site.call("1")
    assert await site.seen() == ["mine"]

    define = "select msrepl.apply_7_definition(jsonb_build_object('definition', %s::text)::text)"
    for result, text in (("void", "newer"), ("TABLE(x integer)", "newest")):
        await site.agent.execute(define, ((head + BODY).format(result, text),))
        await site.call("1")
        assert await site.seen() == [text]
    for refused in (
        BODY.format("x"),
        "drop table public.seen",
        ("CREATE OR REPLACE PROCEDURE public.routine(a integer) " + BODY).format("x"),
        ("CREATE OR REPLACE FUNCTION public.routine_2(a integer) RETURNS void " + BODY).format("x"),
    ):
        with pytest.raises(psycopg.errors.InvalidObjectDefinition, match="defines something else"):
            await site.agent.execute(define, (refused,))
    other = "CREATE OR REPLACE FUNCTION public.routine(a text) RETURNS void " + BODY.format("x")
    with pytest.raises(
        psycopg.errors.InvalidObjectDefinition, match="another routine of that name"
    ):
        await site.agent.execute(define, (other,))
    await site.call("1")
    assert await site.seen() == ["newest"]


async def test_rights(site: Site) -> None:
    """Calls run in a role without other privileges, and only agents can make or define them."""
    await site.create(
        "CREATE OR REPLACE PROCEDURE public.routine() LANGUAGE sql SECURITY DEFINER"
        " AS $$ insert into seen (what) select current_user $$"
    )
    await site.call()
    node = site.topology.node("sub1")
    assert await site.seen() == [names.calls_role(names.role("owner", node.database))]
    async with await psycopg.AsyncConnection.connect(node.app_dsn, autocommit=True) as app:
        for statement in (
            "call routine()",
            "select msrepl.apply_7_call('{}')",
            "select msrepl.define_routine(7, '')",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                await app.execute(statement.encode())
        await site.create(site.article.definition, call=False)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await site.agent.execute("select msrepl.define_routine(7, '')")


async def test_what_was_there_comes_back(site: Site) -> None:
    """Dropping an article restores a routine of the user that it replaced, or drops the routine."""
    mine = "create function routine() returns text language sql as 'select ''mine'''"
    await site.topology.execute("sub1", mine)
    there = "CREATE OR REPLACE FUNCTION public.routine() RETURNS text LANGUAGE sql AS 'select ''there'''"
    here = await site.topology.admin("sub1")
    look = "select routine(), pg_get_userbyid(proowner)::text = current_user from pg_proc where proname = 'routine'"
    await site.create(there, kind="f")
    assert await site.topology.execute("sub1", look) == [("there", False)]
    await proc_execution.drop_all(here)
    assert await site.topology.execute("sub1", look) == [("mine", True)]
    await site.topology.execute("sub1", "drop function routine()")
    await site.create(there, kind="f")
    await proc_execution.drop(here, 7)
    left = "select proname from pg_proc where proname in ('routine', 'apply_7_call', 'apply_7_definition')"
    assert await site.topology.execute("sub1", left) == []
    with pytest.raises(SubscriptionError, match="cannot be defined"):
        await site.create(there.replace("text LANGUAGE", "nonesuch LANGUAGE"), kind="f")
    assert await site.topology.execute("sub1", left) == []
