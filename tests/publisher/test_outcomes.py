"""Refusals by the sync procedures, and the facts that each contains."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import psycopg
import pytest

from tests.fix_topology import MakePair, MakeTopology, Pair
from twopc.errors import ConflictError, LockTimeoutError, from_sqlstate

pytestmark = [pytest.mark.immediate, pytest.mark.rewinds]

ACCOUNT = """create table account (
    id int primary key, code text unique, owner text, balance int not null default 0,
    boss int references account on delete cascade)"""
ROWS = "insert into account select g, 'c' || g, 'o' || g, 100 from generate_series(1, 9) as g"


def facts(error: psycopg.Error) -> dict[str, Any]:
    """Return the JSON object in DETAIL, after checking that the exception made of it agrees."""
    detail = str(error.diag.message_detail)
    found = json.loads(detail)
    made = from_sqlstate(str(error.sqlstate), str(error), detail=detail)
    assert made.kind == found["kind"]
    assert made.number == found["number"]
    return dict(found)


async def versions(pair: Pair, key: int) -> tuple[str, str]:
    """Return the row version of an account at the Publisher and at the Subscriber."""
    there, here = await pair.rows(f"select msrepl_tran_version::text from account where id = {key}")
    return there[0][0], here[0][0]


async def at_publisher(pair: Pair, *statements: str) -> None:
    """Execute statements of another session at the Publisher."""
    for statement in statements:
        await pair.topology.execute("pub", statement)


@pytest.mark.parametrize("shipping", ["eager", "lazy"])
@pytest.mark.parametrize(
    ("publisher", "subscriber", "kind", "sqlstate"),
    [
        ("update account set owner = 'p' where id = 1", "update account set owner = 's' where id = 1",
         "version_mismatch", "40001"),
        ("delete from account where id = 1", "update account set owner = 's' where id = 1",
         "row_missing", "40001"),
        ("delete from account where id = 1", "delete from account where id = 1", "row_missing", "40001"),
        ("update account set owner = 'p' where id = 1", "delete from account where id = 1",
         "delete_stale", "40001"),
        ("update account set id = 77 where id = 1", "update account set owner = 's' where id = 1",
         "row_missing", "40001"),
        ("insert into account values (50, 'p')", "insert into account values (50, 's')",
         "insert_exists", "23505"),
        ("insert into account values (50, 'x')", "insert into account values (51, 'x')",
         "insert_exists", "23505"),
        ("insert into account values (50, 'x')", "insert into account values (50, 'x')",
         "multiple_unique", "23505"),
        ("insert into account values (50, 'x')", "update account set code = 'x' where id = 1",
         "update_exists", "23505"),
        ("insert into account values (50, 'x')", "update account set id = 50 where id = 1",
         "update_exists", "23505"),
        ("insert into account values (50, 'x')", "update account set id = 50, code = 'x' where id = 1",
         "multiple_unique", "23505"),
        ("delete from account where id = 2", "insert into account values (60, 'y', 'o', 1, 2)",
         "fk_violation", "23503"),
        ("delete from account where id = 2", "update account set boss = 2 where id = 1",
         "fk_violation", "23503"),
    ],
)  # fmt: skip
async def test_kinds(
    make_pair: MakePair, publisher: str, subscriber: str, kind: str, sqlstate: str, shipping: str
) -> None:
    """Each kind of refusal reports its facts, and leaves no change at either end."""
    pair = await make_pair(ACCOUNT, ROWS, publish=["account"])
    await at_publisher(pair, publisher)
    before = await pair.rows("select t::text from account as t order by 1")

    error = await pair.refused(
        "update account set balance = 0 where id between 4 and 6", subscriber, shipping=shipping
    )

    assert error.sqlstate == sqlstate
    told = facts(error)
    assert (told["kind"], told["article"], told["number"]) == (kind, "account", 20515)
    assert str(error.diag.message_hint).startswith("20512: ")
    assert await pair.rows("select t::text from account as t order by 1") == before
    assert await pair.topology.execute("pub", "select gid from pg_prepared_xacts") == []


async def test_facts_of_a_stale_row(make_pair: MakePair) -> None:
    """A refusal names the first stale row: its key, both versions and the Publisher's row."""
    pair = await make_pair(ACCOUNT, ROWS, publish=["account"])
    await at_publisher(pair, "update account set owner = 'p', balance = 7 where id = 3")
    there, here = await versions(pair, 3)

    for statement in ("update account set balance = balance + 1", "delete from account"):
        told = facts(await pair.refused(statement))

        assert told["key"] == {"id": 3}
        assert told["subscriber_version"] == here
        assert told["publisher_version"] == there
        assert told["publisher_row"] == {
            "id": 3, "code": "c3", "owner": "p", "balance": 7, "boss": None,
            "msrepl_tran_version": there,
        }  # fmt: skip
        assert told["constraints"] is None


async def test_facts_of_a_clash(make_pair: MakePair) -> None:
    """All violated constraints are named, and the conflicting row is shown."""
    pair = await make_pair(ACCOUNT, ROWS, publish=["account"])
    await at_publisher(pair, "insert into account values (50, 'x', 'p', 5)")

    told = facts(await pair.refused("insert into account values (49, 'w', 's'), (50, 'x', 's')"))
    assert told["key"] == {"id": 50}
    assert told["constraints"] == ["account_code_key", "account_pkey"]
    assert told["publisher_row"]["owner"] == "p"

    error = await pair.refused("update account set code = 'x' where id = 2")
    told = facts(error)
    assert told["key"] == {"id": 2}
    assert told["constraints"] == ["account_code_key"]
    assert (told["publisher_row"]["id"], told["publisher_row"]["owner"]) == (50, "p")
    assert "account_code_key" in str(error)


async def test_clash_with_a_key_that_only_the_publisher_knows(make_pair: MakePair) -> None:
    """Unique indexes on expressions, partial unique indexes and exclusion constraints are named as well."""
    pair = await make_pair(
        "create table room (id int primary key, name text, during int4range, open boolean)",
        "insert into room values (1, 'Blue', '[1,5)', true)",
        "create unique index room_name on room (lower(name))",
        "create unique index room_open on room (open) where open",
        "alter table room add constraint room_during exclude using gist (during with &&)",
        publish=["room"],
    )
    for row, constraint in (
        ("(2, 'BLUE', '[7,8)', false)", "room_name"),
        ("(2, 'red', '[7,8)', true)", "room_open"),
        ("(2, 'red', '[2,3)', false)", "room_during"),
    ):
        told = facts(await pair.refused(f"insert into room values {row}"))
        assert (told["kind"], told["key"], told["constraints"]) == (
            "insert_exists",
            {"id": 2},
            [constraint],
        )
    await pair.run("insert into room values (2, 'red', '[7,8)', false)")
    for change, constraint in (
        ("name = 'bLuE'", "room_name"), ("open = true", "room_open"), ("during = '[1,2)'", "room_during"),
    ):  # fmt: skip
        told = facts(await pair.refused(f"update room set {change} where id = 2"))
        assert (told["kind"], told["key"], told["constraints"]) == (
            "update_exists",
            {"id": 2},
            [constraint],
        )


async def test_one_stale_row_of_many(make_pair: MakePair) -> None:
    """One stale row causes a statement of 1,000 rows, or a transaction of several statements, to fail as a whole."""
    pair = await make_pair(
        "create table item (id int primary key, v int)",
        "insert into item select g, 0 from generate_series(1, 1000) as g",
        publish=["item"],
    )
    await at_publisher(pair, "update item set v = -1 where id = 777")
    before = await pair.rows("select t::text from item as t order by id")

    error = await pair.refused("update item set v = 1")
    assert facts(error)["key"] == {"id": 777}
    assert "1 of 1000 rows" in str(error)
    error = await pair.refused("delete from item")
    assert facts(error)["key"] == {"id": 777}
    await pair.refused(
        "insert into item values (2000, 0)", "delete from item where id < 10",
        "update item set v = 5 where id = 20", "update item set v = 5 where id = 777",
    )  # fmt: skip

    assert await pair.rows("select t::text from item as t order by id") == before


async def test_aba(make_pair: MakePair) -> None:
    """A row that was changed and changed back has another version, so the stale copy is refused."""
    pair = await make_pair(ACCOUNT, ROWS, publish=["account"])
    await at_publisher(
        pair,
        "update account set owner = 'else' where id = 1",
        "update account set owner = 'o1' where id = 1",
    )

    assert (
        facts(await pair.refused("update account set balance = 1 where id = 1"))["kind"]
        == "version_mismatch"
    )
    assert facts(await pair.refused("delete from account where id = 1"))["kind"] == "delete_stale"
    await at_publisher(
        pair, "delete from account where id = 2", "insert into account select 2, 'c2', 'o2', 100"
    )
    assert (
        facts(await pair.refused("update account set balance = 1 where id = 2"))["kind"]
        == "version_mismatch"
    )


async def test_a_trigger_of_the_publisher_keeps_rows(make_pair: MakePair) -> None:
    """A BEFORE trigger that skips a row causes an error of another kind than a conflict."""
    pair = await make_pair(
        "create table item (id int primary key, v int)",
        "insert into item values (1, 1), (2, 2)",
        "create function keep() returns trigger language plpgsql as "
        "$$ begin if coalesce(new.id, old.id) > 1 then return null; end if; return coalesce(new, old); end $$",
        "create trigger keep before insert or update or delete on item for each row execute function keep()",
        publish=["item"],
    )
    for statement in (
        "insert into item values (0, 0), (3, 3)", "update item set v = v + 1", "delete from item",
    ):  # fmt: skip
        error = await pair.refused(statement)
        assert facts(error)["kind"] == "suppressed"
        assert error.sqlstate == "09000"
        assert "1 of 2 rows" in str(error)
    await pair.run("update item set v = 9 where id = 1")
    await pair.same("item")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            "update account set balance = 1 where id = 1",
            "update account set balance = 2 where id = 1",
        ),
        ("update account set balance = 1", "update account set balance = balance + 1"),
        ("update account set balance = 1 where id = 1", "delete from account where id = 1"),
        (
            "update account set id = 100, code = 'z' where id = 3",
            "update account set balance = 5 where id = 100",
        ),
        ("delete from account where id = 1", "insert into account values (1, 'c1', 'again')"),
        ("insert into account values (60, 'new')", "update account set owner = 'x' where id = 60"),
        ("insert into account values (60, 'new')", "delete from account where id = 60"),
    ],
)
async def test_behind_a_branch_that_is_finished_here_and_prepared_there(
    make_pair: MakePair, first: str, second: str
) -> None:
    """The Publisher's procedure waits for the prepared branch, and succeeds without a false conflict."""
    pair = await make_pair(
        ACCOUNT, ROWS, "update account set boss = 1 where id = 2", publish=["account"]
    )
    await pair.begin()
    await pair.execute(first)
    calls = await pair.prepare()
    gid = pair.gid
    await pair.app.execute(f"commit prepared '{gid}:sub1'")

    await pair.begin()
    waiting = asyncio.create_task(pair.execute(second))
    await pair.waiting_link()
    assert not waiting.done()
    await at_publisher(pair, f"commit prepared '{gid}:pub'")
    await waiting
    await pair.commit()

    assert calls == 1
    await pair.same("account")


async def test_behind_a_branch_that_nobody_finishes(make_pair: MakePair) -> None:
    """The wait for a prepared branch that is never finished ends at the lock timeout, and the error names it."""
    pair = await make_pair(ACCOUNT, ROWS, publish=["account"], lock_timeout_ms=50)
    await pair.begin()
    await pair.execute("insert into account values (60, 'new')")
    await pair.prepare()
    gid = pair.gid
    await pair.app.execute(f"commit prepared '{gid}:sub1'")
    for statement in (
        "update account set balance = 1 where id = 60",
        "delete from account where id = 60",
        "insert into account values (61, 'child', 'o', 0, 60)",
    ):
        error = await pair.refused(statement)
        assert error.sqlstate == "55P03"
        assert f"{gid}:pub, which was not finished within 50ms" in str(error)
        made = from_sqlstate("55P03", str(error), detail=str(error.diag.message_detail or ""))
        assert isinstance(made, LockTimeoutError)
    # changes of another table do not wait for it, nor do changes whose rows exist
    await pair.run("update account set balance = 1 where id = 5")
    await at_publisher(pair, f"commit prepared '{gid}:pub'")
    await pair.run("update account set balance = 1 where id = 60")
    await pair.same("account")


async def test_behind_a_branch_that_is_rolled_back(make_pair: MakePair) -> None:
    """If a transaction that is waited for rolls back, the change succeeds."""
    pair = await make_pair(ACCOUNT, ROWS, publish=["account"])
    async with await psycopg.AsyncConnection.connect(pair.topology.node("pub").dsn) as other:
        await other.execute("update account set balance = 0 where id = 1")
        await pair.begin()
        waiting = asyncio.create_task(pair.execute("update account set balance = 5 where id = 1"))
        await pair.waiting_link()
        await other.rollback()
        await waiting
        await pair.commit()
    await pair.same("account")


@pytest.mark.parametrize(
    "statement",
    [
        "update account set balance = 1 where id = 1",
        "delete from account where id = 1",
        "insert into account values (60, 'c60', 'o', 0, 1)",
    ],
)
async def test_lock_wait_is_bounded(make_pair: MakePair, statement: str) -> None:
    """The wait for a row lock at the Publisher ends at the lock timeout, and the error names the table."""
    pair = await make_pair(ACCOUNT, ROWS, publish=["account"], lock_timeout_ms=50)
    async with await psycopg.AsyncConnection.connect(pair.topology.node("pub").dsn) as other:
        await other.execute("select from account where id = 1 for update")
        error = await pair.refused(statement)
        assert error.sqlstate == "55P03"
        made = from_sqlstate("55P03", str(error), detail=str(error.diag.message_detail or ""))
        assert isinstance(made, LockTimeoutError)
        assert "account" in str(error)
        assert "50ms" in str(error)
        await other.rollback()
    await pair.run(statement)
    await pair.same("account")


async def test_two_subscribers_race_for_one_row(make_topology: MakeTopology) -> None:
    """If two Subscribers change a row at the same time, exactly one of them succeeds."""
    topology = await make_topology(subscribers=("sub1", "sub2"))
    await topology.execute("pub", ACCOUNT)
    await topology.execute("pub", ROWS)
    await topology.publish("account")
    pairs = []
    for name in topology.subscribers:
        await topology.subscribe(name)
        pairs.append(Pair(topology, name))
        await pairs[-1].open()
    try:
        for turn in range(1, 10):
            answers = await asyncio.gather(
                *(
                    pair.run(f"update account set owner = '{pair.subscriber}' where id = {turn}")
                    for pair in pairs
                ),
                return_exceptions=True,
            )
            won = [p.subscriber for p, a in zip(pairs, answers, strict=True) if a == 1]
            lost = [a for a in answers if isinstance(a, psycopg.Error)]
            assert (len(won), len(lost)) == (1, 1), answers
            assert facts(lost[0])["kind"] == "version_mismatch"
            holder = await topology.execute("pub", f"select owner from account where id = {turn}")
            assert holder == [(won[0],)]
    finally:
        for pair in pairs:
            await pair.app.close()


async def test_repeatable_read(make_pair: MakePair) -> None:
    """At REPEATABLE READ, a concurrent change causes PostgreSQL's own serialization failure."""
    pair = await make_pair(ACCOUNT, ROWS, publish=["account"])
    await pair.begin(isolation="repeatable read")
    await pair.execute("update account set balance = 1 where id = 2")
    await at_publisher(pair, "update account set balance = 3 where id = 1")
    error = await pair.fails("update account set balance = 2 where id = 1")
    await pair.rollback()
    assert error.sqlstate == "40001"
    made = from_sqlstate("40001", str(error), detail=str(error.diag.message_detail or ""))
    assert isinstance(made, ConflictError)
