"""The Publisher's transaction follows the Subscriber's through savepoints and exception blocks."""

from __future__ import annotations

import random

import psycopg
import pytest

from tests.fix_topology import MakePair, Pair

pytestmark = pytest.mark.immediate

TABLE = """
create table item (id int primary key, n int check (n < 1000));
insert into item select g, 0 from generate_series(1, 10) as g;
create table other (id int primary key, n int);
insert into other select g, 0 from generate_series(1, 10) as g;
"""
LAZY = "set local msrepl.shipping = 'lazy'"
EAGER = "set local msrepl.shipping = 'eager'"


@pytest.fixture
async def pair(make_pair: MakePair) -> Pair:
    """Two plain tables."""
    return await make_pair(TABLE, publish=["item", "other"])


SCRIPTS = {
    "before the first call": [
        "savepoint a", "update item set n = 1", "rollback to a", "update item set n = 2 where id = 1",
    ],
    "all calls, then commit": [
        "savepoint a", "update item set n = 1", "delete from other", "rollback to a",
    ],
    "nested": [
        "update item set n = 1", "savepoint a", "update item set n = 2", "savepoint b",
        "update item set n = 3", "savepoint c", "delete from item", "rollback to b",
        "update item set n = n + 10 where id = 2", "release b", "rollback to c_",
    ],
    "released": [
        "savepoint a", "update item set n = 1", "savepoint b", "update item set n = n + 1", "release b",
        "rollback to a", "savepoint c", "update item set n = 7", "release c", "release a",
        "update other set n = 8",
    ],
    "same name twice": [
        "savepoint a", "update item set n = 1", "savepoint a", "update item set n = 2", "rollback to a",
        "update other set n = 5", "release a", "rollback to a", "update item set n = 9 where id = 9",
    ],
    "between statements of two tables": [
        "update item set n = 1", "savepoint a", "update other set n = 1", "rollback to a",
        "insert into other values (11, 11)", "savepoint b", "delete from item where id = 1", "rollback to b",
        "insert into item values (11, 11)",
    ],
    "asked for its vote in between": [
        "update item set n = 1", "savepoint a", "set constraints all immediate", "update item set n = 2", "rollback to a",
        "update item set n = n + 1 where id = 3", "savepoint b", "set constraints all immediate", "update item set n = 3",
        "update other set n = 3", "rollback to b",
    ],
    "back and forth": [
        "savepoint a", *["update item set n = n + 1", "rollback to a"] * 5, "update item set n = n + 1",
    ],
}  # fmt: skip


@pytest.mark.parametrize("shipping", ["eager", "lazy", "lazy then eager", "eager then lazy"])
async def test_scripts(pair: Pair, shipping: str) -> None:
    """Both ends are equal after rollbacks to savepoints before or after the first call, nested or released."""
    await pair.save("item", "other")
    for name, script in SCRIPTS.items():
        first, _, then = shipping.partition(" then ")
        statements = [s for s in script if s != "rollback to c_"]
        if then:
            half = len(statements) // 2
            statements = [*statements[:half], LAZY if then == "lazy" else EAGER, *statements[half:]]
        await pair.run(*statements, shipping=first)
        await pair.equal("item", "other", after=name)
        await pair.restore("item", "other")


async def test_all_rolled_back_leaves_no_branch(pair: Pair) -> None:
    """If everything is rolled back to a savepoint, there is no branch to prepare or finish."""
    for shipping in ("eager", "lazy"):
        calls = await pair.run(
            "savepoint a", "update item set n = 5", "rollback to a", shipping=shipping
        )
        assert calls == 0
        assert await pair.topology.execute("pub", "select count(*) from pg_prepared_xacts") == [
            (0,)
        ]
    # and no lock remains
    await pair.topology.execute("pub", "set lock_timeout = '1s'; update item set n = 0")


BLOCK = """
do $$
declare
    counter int;
begin
    update item set n = 1 where id = 1;
    begin
        update item set n = 2 where id = 2;
        begin
            update other set n = 3;
            raise exception 'inner';
        exception when raise_exception then
            insert into other values (100, 100);
        end;
        delete from item where id = 3;
        raise division_by_zero;
    exception when division_by_zero then
        update item set n = 4 where id = 4;
    end;
    for counter in 1 .. 3 loop
        begin
            update item set n = n + counter where id = 5;
            if counter = 2 then raise division_by_zero; end if;
        exception when division_by_zero then null;
        end;
    end loop;
end
$$
"""


@pytest.mark.parametrize("shipping", ["eager", "lazy"])
async def test_exception_blocks(pair: Pair, shipping: str) -> None:
    """PL/pgSQL exception blocks, nested and in a loop, leave both ends equal."""
    await pair.run(BLOCK, "update item set n = n + 100 where id = 5", shipping=shipping)
    await pair.equal("item", "other")
    assert await pair.topology.execute("pub", "select n from item where id = 5") == [(104,)]


async def test_error_of_the_publisher_caught(pair: Pair) -> None:
    """A conflict that an exception block or ROLLBACK TO handles does not prevent later statements."""
    await pair.topology.execute("pub", "update item set n = 500 where id = 1")
    await pair.topology.execute("pub", "insert into other values (50, 50)")

    await pair.begin()
    await pair.execute("update item set n = 2 where id = 2")
    await pair.execute(
        """
        do $$
        begin
            begin
                update item set n = 1 where id = 1;
            exception when serialization_failure then
                update item set n = 3 where id = 3;
            end;
            begin
                insert into other values (50, 1);
            exception when unique_violation then
                insert into other values (51, 1);
            end;
        end
        $$
        """
    )
    await pair.execute("savepoint a")
    with pytest.raises(psycopg.errors.SerializationFailure):
        await pair.execute("delete from item where id = 1")
    await pair.execute("rollback to a")
    await pair.execute("update item set n = 4 where id = 4")
    await pair.commit()

    there, here = await pair.rows("select id, n from item where id > 1 order by id")
    assert there == here
    assert here[:3] == [(2, 2), (3, 3), (4, 4)]
    there, here = await pair.rows("select id, n from other where id <> 50 order by id")
    assert there == here


async def test_error_at_the_first_call_caught(pair: Pair) -> None:
    """If the first call of a transaction fails and is rolled back, the next one counts as the first."""
    await pair.topology.execute("pub", "update item set n = 500 where id = 1")
    await pair.begin()
    await pair.execute("savepoint a")
    with pytest.raises(psycopg.errors.SerializationFailure):
        await pair.execute("update item set n = 1 where id = 1")
    await pair.execute("rollback to a")
    await pair.execute("update item set n = 2 where id = 2")
    assert await pair.commit() == 1
    there, here = await pair.rows("select id, n from item where id > 1 order by id")
    assert there == here


@pytest.mark.parametrize("shipping", ["eager", "lazy"])
async def test_two_hundred_savepoints(pair: Pair, shipping: str) -> None:
    """Both ends are equal after 200 nested savepoints, half of which are rolled back."""
    statements = []
    for number in range(200):
        statements += [
            f"savepoint s{number}",
            f"update item set n = {number} where id = {number % 10 + 1}",
        ]
    statements += ["rollback to s100", "update other set n = 1"]
    calls = await pair.run(*statements, shipping=shipping)
    assert calls == (101 if shipping == "eager" else 1)
    await pair.equal("item", "other")
    assert await pair.topology.execute("pub", "select max(n) from item") == [(99,)]


@pytest.mark.parametrize("seed", range(4))
async def test_drawn_scripts(pair: Pair, seed: int) -> None:
    """Both ends are equal after random statements, savepoints, rollbacks and changes of shipping."""
    chance = random.Random(seed)
    await pair.save("item", "other")
    for turn in range(12):
        stack: list[str] = []
        script: list[str] = []
        for number in range(chance.randint(3, 25)):
            kind = chance.choice(
                ["change"] * 6 + ["savepoint"] * 3 + ["rollback"] * 3 + ["release", "shipping"]
            )
            table = chance.choice(["item", "other"])
            if kind == "savepoint":
                stack.append(f"s{number}")
                script.append(f"savepoint s{number}")
            elif kind == "rollback" and stack:
                place = chance.randrange(len(stack))
                del stack[place + 1 :]
                script.append(f"rollback to {stack[place]}")
            elif kind == "release" and stack:
                place = chance.randrange(len(stack))
                script.append(f"release {stack[place]}")
                del stack[place:]
            elif kind == "shipping":
                script.append(chance.choice([LAZY, EAGER]))
            else:
                script.append(
                    chance.choice(
                        [
                            f"update {table} set n = n + 1 where id % 3 = {chance.randrange(3)}",
                            f"delete from {table} where id = {chance.randint(1, 10)}",
                            f"insert into {table} values ({1000 + number}, {number})",
                            f"update {table} set id = id + 10000 where id = {chance.randint(1, 10)}",
                        ]
                    )
                )
        await pair.run(*script, shipping=chance.choice(["eager", "lazy"]))
        await pair.equal("item", "other", after=f"seed {seed}, turn {turn}: {script}")
        await pair.restore("item", "other")


@pytest.mark.sample(1, by=("tamper",))
@pytest.mark.parametrize("shipping", ["eager", "lazy"])
@pytest.mark.parametrize(
    "tamper",
    [
        "reset all",
        "discard all",
        "set local msrepl.gid = 'other'",
        "set local msrepl.gid = ''",
        "reset msrepl.gid",
        "set local msrepl.marker = ''",
        "set local msrepl.marker = '(0,1)'",
        "set local msrepl.marker = '(99,1)'",
        "set local msrepl.marker = 'x'",
        "set local msrepl.shipping = 'neither'",
    ],
)
async def test_tampering_never_diverges(pair: Pair, tamper: str, shipping: str) -> None:
    """Changing our settings, at any point of a transaction, causes an error or leaves both ends equal."""
    await pair.save("item", "other")
    script = [
        "update item set n = 1",
        "savepoint a",
        "update other set n = 2",
        "rollback to a",
        "insert into item values (20, 20)",
    ]
    for place in range(len(script) + 1):
        await pair.begin(shipping=shipping)
        try:
            for statement in [*script[:place], tamper, *script[place:]]:
                await pair.execute(statement)
            await pair.commit()
        except psycopg.Error:
            await pair.rollback()
        await pair.equal("item", "other", after=f"{tamper} at {place}")
        await pair.restore("item", "other")


async def test_the_counter_is_not_the_applications(pair: Pair) -> None:
    """Calls are counted in a row that the application can neither read nor write."""
    await pair.begin()
    await pair.execute("update item set n = 1")
    for statement in (
        "update msrepl.branch_marker set calls = 0",
        "select * from msrepl.branch_marker",
        "delete from msrepl.branch_marker",
        "insert into msrepl.held_row values (default)",
    ):
        await pair.execute("savepoint a")
        assert (await pair.fails(statement)).sqlstate == "42501"
        await pair.execute("rollback to a")
    await pair.commit()
    await pair.same("item")
