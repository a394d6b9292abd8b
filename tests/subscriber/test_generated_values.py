"""Values that the Publisher generates are visible at the Subscriber in the statement that inserts the row."""

from __future__ import annotations

import pytest

from tests.fix_topology import MakePair, Pair
from tests.publisher.test_values import ODD_SETTINGS
from twopc.names import generated_setting

pytestmark = pytest.mark.immediate

TABLE = """
create sequence tickets start 500;
create function code() returns text language sql volatile security definer as $$ select 'c' || nextval('public.tickets') $$;
create table sale (
    id bigint generated always as identity primary key,
    number serial,
    code text default code(),
    note text unique,
    made timestamptz default now()
)
"""
STEPS = "select last_value from sale_id_seq"


@pytest.fixture
async def pair(make_pair: MakePair) -> Pair:
    return await make_pair(TABLE, publish=["sale"])


async def test_returning_shows_the_publishers_values(make_pair: MakePair) -> None:
    """RETURNING shows identity, serial and a default by a user's function, for one row and for several."""
    pair = await make_pair(TABLE, "insert into sale (note) values ('first')", publish=["sale"])

    await pair.begin()
    one = await pair.execute("insert into sale (note) values ('a') returning id, number, code")
    several = await pair.execute(
        "insert into sale (note) values ('b'), ('c'), ('d') returning id, number, code"
    )
    await pair.commit()

    assert one == [(2, 2, "c501")]
    assert [row[0] for row in several] == [3, 4, 5]
    assert len(await pair.same("sale")) == 5
    # the Publisher continues with later values
    assert await pair.topology.execute(
        "pub", "insert into sale (note) values ('e') returning id > 5"
    ) == [(True,)]


async def test_blocks_grow(pair: Pair) -> None:
    """Values are fetched in blocks of 1, 3, 7 ... 63, 64, 64, so that many rows need few queries."""
    await pair.begin()
    for count, fetched in (
        (1, 1),
        (1, 4),
        (2, 4),
        (1, 11),
        (6, 11),
        (1, 26),
        (14, 26),
        (1, 57),
        (31, 120),
        (63, 184),
    ):
        await pair.execute(
            f"insert into sale (note) select gen_random_uuid() from generate_series(1, {count})"
        )
        assert await pair.topology.execute("pub", STEPS) == [(fetched,)]
    assert await pair.commit() == 10

    # the next transaction starts with a block of one
    await pair.run("insert into sale (note) values ('x')")
    assert await pair.topology.execute("pub", STEPS) == [(185,)]
    await pair.same("sale")


@pytest.mark.parametrize("shipping", ["eager", "lazy"])
async def test_on_conflict_leaves_no_row_at_the_publisher_only(
    make_pair: MakePair, shipping: str
) -> None:
    """A value that was fetched for a row which is not inserted leaves only a gap."""
    pair = await make_pair(TABLE, "insert into sale (note) values ('a'), ('b')", publish=["sale"])

    await pair.run(
        "insert into sale (note) values ('a'), ('new') on conflict do nothing",
        "insert into sale (note) values ('b'), ('newer') on conflict (note) do update set code = 'again'",
        "insert into sale (note) values ('a') on conflict do nothing",
        shipping=shipping,
    )

    assert await pair.topology.execute("pub", "select note from sale order by note") == [
        ("a",), ("b",), ("new",), ("newer",),
    ]  # fmt: skip
    await pair.same("sale")


async def test_user_trigger_that_suppresses_the_row(make_pair: MakePair) -> None:
    """If a BEFORE trigger of the Subscriber returns NULL, neither end has the row."""
    pair = await make_pair(
        TABLE,
        publish=["sale"],
        user_triggers=[
            """
            create function no() returns trigger language plpgsql as $$
            begin if new.note = 'no' then return null; end if; return new; end $$;
            create trigger no before insert on sale for each row execute function no();
            """
        ],
    )
    await pair.run("insert into sale (note) values ('yes'), ('no')")
    assert len(await pair.same("sale")) == 1


async def test_savepoints(pair: Pair) -> None:
    """After ROLLBACK TO, the values fetched since the savepoint are gaps, and later rows get other values."""
    await pair.run(
        "savepoint z",
        "insert into sale (note) values ('never')",
        "rollback to z",
        "insert into sale (note) values ('a')",
        "savepoint s",
        "insert into sale (note) select 'b' || g from generate_series(1, 20) as g",
        "rollback to s",
        "insert into sale (note) values ('c')",
        "do $$ begin insert into sale (note) values ('a'); exception when unique_violation then null; end $$",
        "insert into sale (note) values ('d')",
    )

    assert len(await pair.same("sale")) == 3


async def test_rolled_back_transaction_leaves_gaps_only(pair: Pair) -> None:
    """A rolled-back transaction leaves gaps, because a sequence does not roll back."""
    await pair.begin()
    await pair.execute("insert into sale (note) select 'x' || g from generate_series(1, 20) as g")
    await pair.rollback()

    await pair.run("insert into sale (note) values ('after')")

    assert await pair.topology.execute("pub", "select id > 20 from sale") == [(True,)]
    await pair.same("sale")


async def test_explicit_values_are_kept(pair: Pair) -> None:
    """Values in the statement are stored at both ends, and only omitted values are generated."""
    await pair.run(
        "insert into sale (id, number, code, note) values (1000, 7, 'mine', 'a')",
        "insert into sale (id, note) values (1001, 'b'), (default, 'c'), (1003, 'd')",
        "insert into sale (number, code, note) values (8, default, 'e')",
    )

    assert await pair.topology.execute(
        "pub", "select id, number, code from sale where note = 'a'"
    ) == [(1000, 7, "mine")]
    assert len(await pair.same("sale")) == 5


async def test_copy_from(pair: Pair) -> None:
    """COPY FROM fires the same triggers, and is sent as one call."""
    await pair.begin()
    async with pair.app.cursor() as cursor, cursor.copy("copy sale (note) from stdin") as copy:
        for number in range(100):
            await copy.write_row((f"row {number}",))
    assert await pair.commit() == 1
    assert len(await pair.same("sale")) == 100


async def test_identity_update_is_refused(make_pair: MakePair) -> None:
    """A column GENERATED ALWAYS AS IDENTITY cannot be changed at the Publisher (20510); other columns can."""
    pair = await make_pair(TABLE, "insert into sale (note) values ('a')", publish=["sale"])
    error = await pair.refused("update sale set id = 77")
    assert error.sqlstate == "428C9"
    assert "20510" in str(error)
    await pair.run("update sale set id = id, note = 'b', number = 77")
    await pair.same("sale")


async def test_block_that_the_application_changes(pair: Pair) -> None:
    """The block is kept in a setting; changing it yields explicit values, or causes an error."""
    setting = generated_setting("public", "sale")
    for value, outcome in (
        ('{"size": 1, "rows": [["500", "500", "x"]]}', [(500, 500, "x")]),
        ('{"size": 1, "rows": []}', None),
        ("", None),
    ):
        await pair.begin()
        await pair.execute(f"insert into sale (note) values ('before {value}')")
        await pair.execute(f"set local {setting} = '{value}'")
        made = await pair.execute(
            f"insert into sale (note) values ('after {value}') returning id, number, code"
        )
        assert outcome in (None, made)
        await pair.commit()
        await pair.same("sale")
    error = await pair.refused(
        f"set local {setting} = 'nonsense'", "insert into sale (note) values ('z')"
    )
    assert error.sqlstate == "22P02"


async def test_generated_values_are_read_as_they_were_printed(make_pair: MakePair) -> None:
    """The settings of the application's session do not change values that the Publisher has generated."""
    pair = await make_pair(
        "create function parts() returns text[] language sql volatile as $$ select array['NULL', null] $$;"
        "create table item (id serial primary key, parts text[] default parts())",
        publish=["item"],
    )
    for name, value in ODD_SETTINGS.items():
        await pair.execute(f"set {name} = {value}")
    await pair.run("insert into public.item default values")
    assert await pair.same("item")
    found = await pair.topology.execute("pub", "select parts from item")
    assert found == [(["NULL", None],)]


async def test_two_sessions_take_turns(pair: Pair) -> None:
    """Two concurrent transactions never get the same value."""
    await pair.begin()
    await pair.execute("insert into sale (note) select 'a' || g from generate_series(1, 10) as g")
    await pair.topology.execute(
        "pub", "insert into sale (note) select 'p' || g from generate_series(1, 30) as g"
    )
    await pair.execute("insert into sale (note) select 'b' || g from generate_series(1, 60) as g")
    await pair.commit()
    found = await pair.topology.execute(
        "pub", "select count(*), count(distinct id), count(distinct number) from sale"
    )
    assert found == [(100, 100, 100)]
