"""Tests of publishing routines of every kind: they are called as before, and restored at the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.proc_execution.publisher.home import GIVE_RAISE, Home
from twopc.errors import ArticleError
from twopc.proc_execution import ProcType
from twopc.publisher import proc_execution, publication

#: Properties of a routine that users can see, except its text.
_LOOKS = """
select p.oid, n.nspname, p.proname, p.proowner::regrole::text, p.proacl::text, p.prokind, p.proisstrict, p.proretset,
       pg_get_function_arguments(p.oid), pg_get_function_result(p.oid), obj_description(p.oid, 'pg_proc')
from pg_proc p join pg_namespace n on n.oid = p.pronamespace
where n.nspname !~ '^(pg_|information_schema|msrepl)' order by p.oid
"""
_TEXTS = """
select p.oid, pg_get_functiondef(p.oid) from pg_proc p join pg_namespace n on n.oid = p.pronamespace
where n.nspname !~ '^(pg_|information_schema|msrepl)' order by p.oid
"""


@dataclass(frozen=True)
class Case:
    """A routine, its call, and the expected result."""

    create: str
    call: str
    values: list[str | None]
    answer: list[tuple[Any, ...]] = field(default_factory=list)
    schema: str = "public"
    name: str = "r"
    types: list[str] | None = None


CASES = {
    "none": Case("create procedure r() language sql as 'update emp set salary = 1'", "call r()", []),
    "in": Case(
        "create procedure r(numeric) language sql as 'update emp set salary = $1'", "call r(7)", ["7"]
    ),
    "null": Case(
        "create procedure r(a text) language sql as 'update emp set salary = 1'", "call r(null)", [None]
    ),
    "default and named": Case(
        "create procedure r(a int, b int default 5, c int default 6) language sql "
        "as 'update emp set salary = a + b + c'",
        "call r(1, c => 2)",
        ["1", "5", "2"],
    ),
    "inout": Case(
        "create procedure r(inout n int, inout m int default 4) language plpgsql "
        "as 'begin n := n + 1; m := m + 1; end'",
        "call r(1)",
        ["1", "4"],
        [(2, 5)],
    ),
    "out": Case(
        "create procedure r(a int, out b int, out text) language plpgsql "
        "as 'begin b := a + 1; $3 := ''x''; end'",
        "call r(1, null, null)",
        ["1"],
        [(2, "x")],
    ),
    "variadic": Case(
        "create procedure r(out n int, variadic a int[]) language plpgsql "
        "as 'begin n := cardinality(a); end'",
        "call r(null, 1, 2, 3)",
        ["{1,2,3}"],
        [(3,)],
    ),
    "polymorphic": Case(
        "create procedure r(inout a anyelement, b anyarray) language plpgsql as 'begin a := b[1]; end'",
        "call r(1::bigint, array[8::bigint])",
        ["1", "{8}"],
        [(8,)],
        types=["bigint", "bigint[]"],
    ),
    "scalar function": Case(
        "create function r(a int) returns int language plpgsql as 'begin return a + 1; end'",
        "select r(1)",
        ["1"],
        [(2,)],
    ),
    "void function": Case(
        "create function r(a int) returns void language sql as 'update emp set salary = a'",
        "select r(1)",
        ["1"],
        [("",)],
    ),
    "row function": Case(
        "create function r(a int) returns emp language sql "
        "as 'update emp set salary = a where id = 1 returning emp'",
        "select id, salary from r(1)",
        ["1"],
        [(1, 1)],
    ),
    "function with out": Case(
        "create function r(a int, out b int, inout c text, out d int) language plpgsql "
        "as 'begin b := a; c := c || 1; d := 3; end'",
        "select * from r(1, 'x')",
        ["1", "x"],
        [(1, "x1", 3)],
    ),
    "function with one out": Case(
        "create function r(a int, out b int) language plpgsql as 'begin b := a; end'",
        "select * from r(1)",
        ["1"],
        [(1,)],
    ),
    "polymorphic function": Case(
        "create function r(a anyelement) returns anyelement language plpgsql as 'begin return a; end'",
        "select r('x'::text)",
        ["x"],
        [("x",)],
        types=["text"],
    ),
    "strict function": Case(
        "create function r(a int) returns int language plpgsql strict as 'begin return a + 1; end'",
        "select r(1), r(null)",
        ["1"],
        [(2, None)],
    ),
    "set function": Case(
        "create function r(a int) returns setof int language sql "
        "as 'update emp set salary = a returning id'",
        "select * from r(1) order by 1",
        ["1"],
        [(1,), (2,), (3,)],
    ),
    "table function": Case(
        "create function r(a int) returns table(opened int, stack text) language sql "
        "as 'update emp set salary = a returning id, ''x'''",
        "select * from r(1) order by 1",
        ["1"],
        [(1, "x"), (2, "x"), (3, "x")],
    ),
    "set function with one out": Case(
        "create function r(a int, out id int) returns setof int language sql "
        "as 'update emp set salary = a returning emp.id'",
        "select * from r(1) order by 1",
        ["1"],
        [(1,), (2,), (3,)],
    ),
    "quoted": Case(
        'create schema "o.(d\'"; create procedure "o.(d\'"."r ""x(" ("p\'1" text default \'$msr$\') language sql '
        "as 'update public.emp set salary = 1'",
        'call "o.(d\'"."r ""x("()',
        ["$msr$"],
        schema="o.(d'",
        name='r "x(',
    ),
    "standard body": Case(
        "create procedure r(a int) language sql begin atomic update emp set salary = a; end",
        "call r(1)",
        ["1"],
    ),
    "by its own name": Case(
        "create procedure r(id int) language plpgsql "
        "as 'begin update emp set salary = 1 where emp.id = r.id; end'",
        "call r(1)",
        ["1"],
    ),
    "blanks and quotes": Case(
        "create procedure r(a char(5), b text[], c bytea, d timestamptz) language sql as 'select 1'",
        r"""call r('a', array['"', ',', null], '\x00ff', '2020-01-01 00:00+01')""",
        ["a", '{"\\"",",",NULL}', r"\x00ff", "2019-12-31 23:00:00+00"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
async def test_called_and_restored(home: Home, name: str) -> None:
    """A published routine looks and works as before, is marked with all values, and is restored."""
    case = CASES[name]
    await home.connection.execute(case.create.encode())
    looks, texts = await home.rows(_LOOKS), await home.rows(_TEXTS)
    article = await proc_execution.publish_procedure(home.connection, case.schema, case.name)
    await home.take()
    assert await home.rows(_LOOKS) == looks

    connection = home.connection
    await connection.execute(
        "begin isolation level serializable; set local datestyle = 'German, DMY'; "
        "set local extra_float_digits = 0; set local bytea_output = 'escape'"
    )
    cursor = await connection.execute(case.call.encode())
    answer = await cursor.fetchall() if cursor.description else []
    await connection.execute("commit")
    assert answer == case.answer
    [call] = await home.calls()
    assert call["v"] == case.values
    assert call.get("t") == case.types
    assert [mark[1] for mark in await home.marks()] == ["open", "close"]

    await proc_execution.unpublish_procedure(connection, article.article_id)
    assert await home.rows(_LOOKS) == looks
    assert await home.rows(_TEXTS) == texts
    left = await home.rows("select count(*) from pg_proc where proname ~ '^(run|args)_[0-9]'")
    assert left == [(0,)]
    assert await home.rows("select from pg_namespace where nspname ~ '^msrepl_body'") == []


async def test_overloads(home: Home) -> None:
    """Overloaded routines are published by signature, and marked as separate articles."""
    await home.connection.execute(
        "create procedure r(a int) language sql as 'select 1'; "
        "create procedure r(a text) language sql as 'select 1'"
    )
    with pytest.raises(
        ArticleError, match=r"r is 2 routines: .* one of \(IN a integer\); \(IN a text\)"
    ):
        await home.publish("", "r")
    first = await home.publish("", "r", signature="int")
    second = await home.publish("", "r", signature="IN a text")
    assert (first.identity, second.identity) == ("public.r(integer)", "public.r(text)")
    await home.serializable("call r(1)", "call r('x')")
    assert [article for article, *_ in await home.marks()] == [
        *[first.article_id] * 2,
        *[second.article_id] * 2,
    ]
    found = await proc_execution.find(home.connection, "public", "r", "text")
    assert found == second


async def test_rights_owner_and_comment(home: Home) -> None:
    """The moved body has the privileges and the owner of its routine, and follows their changes."""
    await home.connection.execute(
        "create role test_owner; create role test_caller; create schema app authorization test_owner; "
        "grant usage on schema app to test_caller, test_owner; "
        "create procedure app.r() language sql security definer set search_path = app, pg_temp as 'select 1'; "
        "alter procedure app.r() owner to test_owner; revoke all on procedure app.r() from public; "
        "grant execute on procedure app.r() to test_caller; comment on procedure app.r() is 'ours'"
    )
    try:
        looks = await home.rows(_LOOKS)
        article = await home.publish("", "r", schema="app")
        assert await home.rows(_LOOKS) == looks
        body = f"msrepl_body_{article.article_id}.r()"
        rights = f"select has_function_privilege(r, '{body}', 'execute') from unnest(array['public', 'test_caller']) r"
        assert await home.rows(rights) == [(False,), (True,)]
        await home.connection.execute("revoke execute on procedure app.r() from test_caller")
        assert await home.rows(rights) == [(False,), (False,)]
        await home.connection.execute("grant execute on procedure app.r() to public")
        assert await home.rows(rights) == [(True,), (True,)]
        assert await home.rows(
            f"select prosecdef, proconfig, proowner::regrole::text from pg_proc where oid = '{body}'::regprocedure"
        ) == [(True, ["search_path=app, pg_temp"], "test_owner")]
        await home.connection.execute("alter procedure app.r() owner to test_caller")
        assert await home.rows(
            f"select proowner::regrole::text from pg_proc where oid = '{body}'::regprocedure"
        ) == [("test_caller",)]
        await proc_execution.unpublish_procedure(home.connection, article.article_id)
    finally:
        await home.connection.execute(
            "drop schema app cascade; drop owned by test_owner, test_caller; drop role test_owner, test_caller"
        )


REFUSED = {
    "none": ("", "r", r"there is no procedure or function r \(21219\)"),
    "aggregate": (
        "create aggregate r(int) (sfunc = int4pl, stype = int)", "r", r"cannot be published|21219"
    ),
    "trigger": (
        "create function r() returns trigger language plpgsql as 'begin return new; end'",
        "r", r"r\(\) is no procedure or function that can be called \(21219\)",
    ),
    "internal": (
        "create function r(int) returns int language internal as 'int4up'", "r", r"has no text .*\(21004\)"
    ),
    "stable": (
        "create function r() returns int stable language sql as 'select 1'", "r", "is not VOLATILE"
    ),
    "record": (
        "create function r() returns setof record language sql as 'select 1'", "r", "only a caller knows"
    ),
    "commit": (
        "create procedure r() language plpgsql as 'begin update emp set salary = 1; commit; end'",
        "r", "ends transactions",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
async def test_refused(home: Home, name: str) -> None:
    create, routine, message = REFUSED[name]
    await home.connection.execute(create.encode())
    before = await home.rows(_LOOKS)
    with pytest.raises(ArticleError, match=message):
        await proc_execution.publish_procedure(home.connection, "public", routine)
    assert await home.rows(_LOOKS) == before
    assert await proc_execution.proc_articles(home.connection) == ()


async def test_published_already(home: Home) -> None:
    await home.publish(GIVE_RAISE)
    with pytest.raises(
        ArticleError,
        match=r"as serializable proc exec \(21024\): `twopc procedure unpublish` it first",
    ):
        await home.publish("", type=ProcType.PLAIN)
    with pytest.raises(ArticleError, match=r"'dept' is no published table: .* which are emp"):
        await home.publish("create procedure r() language sql as ''", "r", reads=["dept"])
    with pytest.raises(ArticleError, match="no routine is published as article 99"):
        await proc_execution.unpublish_procedure(home.connection, 99)
    await home.connection.execute("create procedure other() language sql as ''")
    with pytest.raises(
        ArticleError, match=r"other\(\) is not published; .* public\.give_raise\(numeric\)"
    ):
        await proc_execution.find(home.connection, "public", "other")
    with pytest.raises(ArticleError, match=r"msrepl_call, which is not published"):
        await home.publish("", "settings", schema="msrepl_call")


async def test_only_the_definition(home: Home) -> None:
    """Neither a definition-only article nor a plain one that ends transactions replaces the routine."""
    await home.publish(GIVE_RAISE, type=ProcType.SCHEMA_ONLY)
    await home.publish(
        "create procedure r() language plpgsql as 'begin update emp set salary = 1; commit; end'",
        "r",
        type=ProcType.PLAIN,
    )
    await home.serializable("call give_raise(10)")
    await home.connection.execute("call r()")
    assert await home.marks() == []


async def test_uninstalling(home: Home) -> None:
    """Uninstalling restores routines, and requires that tables have been unpublished."""
    await home.connection.execute(GIVE_RAISE.encode())
    texts = await home.rows(_TEXTS)
    await home.publish("")
    with pytest.raises(ArticleError, match=r"table public\.emp is still published"):
        await publication.uninstall(home.connection)
    await publication.unpublish(home.connection, "public", "emp")
    await publication.uninstall(home.connection)
    assert await home.rows(_TEXTS) == texts
    assert await home.rows("select evtname from pg_event_trigger") == []
    assert await home.rows("select from pg_namespace where nspname like 'msrepl%'") == []


async def test_telling(home: Home) -> None:
    """An article names its obstacle and its warnings."""
    article = await home.publish(
        "create procedure r(x oid) language plpgsql as "
        "$$ begin insert into log values (now()); update emp set salary = random(); end $$; "
        "create table log (at timestamptz); create function tf() returns trigger language plpgsql as 'begin return null; end'; "
        "create trigger audit after update on emp for each row execute function tf()",
        "r",
        reads=[],
        writes=["emp"],
    )
    assert article.obstacle == "table emp has trigger audit, which does nothing at Subscribers"
    assert {(each.kind, each.object) for each in article.warnings} == {
        ("clock", "now"),
        ("random", "random"),
        ("unpublished", "log"),
        ("types", "x"),
        ("obstacle", "table emp has trigger audit"),
    }
    assert (await proc_execution.proc_articles(home.connection))[0] == article
