"""Tests of call markers: a call is marked if and only if its changes exist."""

from __future__ import annotations

import psycopg
import pytest

from tests.proc_execution.publisher.home import GIVE_RAISE, Home
from twopc.proc_execution import ProcType

FAILING = """
create procedure failing(n int) language plpgsql as $$ begin
    update emp set salary = 0; perform 1 / n; end $$
"""
_SALARIES = "select salary::int from emp order by id"


async def test_a_call_is_marked_around_its_rows(home: Home) -> None:
    article = await home.publish(GIVE_RAISE)
    await home.serializable("call give_raise(10)")
    assert await home.rows(_SALARIES) == [(110,), (220,), (330,)]
    assert await home.marks() == [
        (article.article_id, "open", None),
        (article.article_id, "close", None),
    ]
    [call] = await home.calls()
    assert call["v"] == ["10"]
    assert call["s"]["search_path"] == "public"


@pytest.mark.parametrize(
    ("statements", "values"),
    [
        (["savepoint s", "call give_raise(1)", "rollback to s"], []),
        (["call give_raise(1)", "savepoint s", "call give_raise(2)", "rollback to s"], ["1"]),
        (["savepoint s", "call give_raise(1)", "release s", "call give_raise(2)"], ["1", "2"]),
        (["savepoint s", "savepoint t", "call give_raise(1)", "release t", "rollback to s"], []),
        (
            [
                "do $$ begin begin call give_raise(1); raise 'x'; exception when others then end; call give_raise(2); end $$"
            ],
            ["2"],
        ),
    ],
)
async def test_marks_vanish_with_what_was_changed(
    home: Home, statements: list[str], values: list[str]
) -> None:
    await home.publish(GIVE_RAISE)
    await home.serializable(*statements)
    assert [call["v"] for call in await home.calls()] == [[value] for value in values]
    assert len(await home.marks()) == 2 * len(values)
    changed = await home.rows("select from emp where salary <> 100 * id")
    assert bool(changed) is bool(values)


async def test_nested_calls(home: Home) -> None:
    """The markers of an inner call are between those of the outer call."""
    inner = await home.publish(GIVE_RAISE)
    outer = await home.publish(
        "create procedure outer_one() language sql as 'call give_raise(1)'", "outer_one"
    )
    await home.serializable("call outer_one()")
    assert await home.marks() == [
        (outer.article_id, "open", None),
        (inner.article_id, "open", None),
        (inner.article_id, "close", None),
        (outer.article_id, "close", None),
    ]


async def test_a_call_that_fails(home: Home) -> None:
    """A call that fails or is cancelled raises its error and leaves no marker."""
    await home.publish(FAILING, "failing")
    for statement, error in (
        ("call failing(0)", psycopg.errors.DivisionByZero),
        ("set local statement_timeout = 1; call waiting()", psycopg.errors.QueryCanceled),
    ):
        if "waiting" in statement:
            await home.publish(
                "create procedure waiting() language plpgsql as "
                "$$ begin loop update emp set salary = salary; end loop; end $$",
                "waiting",
            )
        with pytest.raises(error):
            await home.serializable(statement)
        await home.connection.execute("rollback")
    assert await home.marks() == []
    assert await home.rows(_SALARIES) == [(100,), (200,), (300,)]


async def test_xact_abort_off(home: Home) -> None:
    """With xact_abort off, an error ends the call and is marked; the caller gets a warning, no results."""
    article = await home.publish(
        FAILING.replace("n int", "inout n int"), "failing", xact_abort=False
    )
    notices: list[tuple[str | None, str | None]] = []
    home.connection.add_notice_handler(
        lambda diag: notices.append((diag.sqlstate, diag.message_primary))
    )
    await home.connection.execute("begin isolation level serializable")
    cursor = await home.connection.execute("call failing(0)")
    assert await cursor.fetchall() == [(None,)]
    await home.connection.execute("commit")
    assert await home.marks() == [
        (article.article_id, "open", None),
        (article.article_id, "close", "22012"),
    ]
    assert notices == [
        ("22012", "routine public.failing(integer) failed: division by zero (22012)")
    ]
    assert await home.rows(_SALARIES) == [(100,), (200,), (300,)]
    await home.serializable("call failing(1)")
    assert (await home.marks())[-1] == (article.article_id, "close", None)


async def test_xact_abort_off_in_a_call(home: Home) -> None:
    """With xact_abort off, an inner call raises its error, as it does at a Subscriber."""
    await home.publish(FAILING, "failing", xact_abort=False)
    await home.publish(
        "create procedure outer_one() language sql as 'call failing(0)'", "outer_one"
    )
    with pytest.raises(psycopg.errors.DivisionByZero):
        await home.serializable("call outer_one()")
    await home.connection.execute("rollback")
    assert await home.marks() == []
    # after that error the next call is the outermost again
    await home.serializable(
        "do $$ begin begin call outer_one(); exception when others then end; call failing(0); end $$"
    )
    assert [failure for *_, failure in await home.marks()] == [None, "22012"]


async def test_xact_abort_off_swallows_no_serialization_failure(home: Home) -> None:
    await home.publish(GIVE_RAISE, xact_abort=False)
    other = await home.another()
    async with other:
        await other.execute("begin isolation level serializable; select from emp")
        await home.connection.execute("update emp set salary = 7")
        with pytest.raises(psycopg.errors.SerializationFailure):
            await other.execute("call give_raise(10)")


async def test_transaction_control_is_refused(home: Home) -> None:
    """Transaction control that the text does not show, as in dynamic SQL, is refused."""
    text = "create procedure r() language plpgsql as $$ begin execute 'com' || 'mit'; end $$"
    await home.publish(text, "r")
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        await home.connection.execute("call r()")
    await home.publish(
        "create procedure c() language plpgsql as $$ begin call in_there(); end $$; "
        "create procedure in_there() language plpgsql as $$ begin update emp set salary = 1; commit; end $$",
        "c",
        type=ProcType.PLAIN,
    )
    with pytest.raises(psycopg.errors.InvalidTransactionTermination):
        await home.connection.execute("call c()")


async def test_a_prepared_transaction(home: Home) -> None:
    await home.publish(GIVE_RAISE)
    await home.connection.execute(
        "begin isolation level serializable; call give_raise(10); prepare transaction 'test_call'"
    )
    assert await home.marks() == []
    await home.connection.execute("commit prepared 'test_call'")
    assert len(await home.marks()) == 2


async def test_settings_of_the_caller(home: Home) -> None:
    """A call carries settings that differ from the agent's, and the existing schemas of the path."""
    await home.connection.execute('create schema "App"')
    await home.publish(GIVE_RAISE)
    await home.serializable(
        'set local search_path = "$user", "App", gone, public',
        "set local timezone = 'Asia/Tokyo'",
        "set local datestyle = 'German, DMY'",
        "call give_raise(1.50)",
    )
    [call] = await home.calls()
    assert call == {
        "v": ["1.50"],
        "s": {"search_path": '"App", public', "timezone": "Asia/Tokyo", "datestyle": "German, DMY"},
    }
