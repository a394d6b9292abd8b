"""A run of calls as one statement has the same effect as the single calls, or none and returns -1."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.propagation.here import Here, mask

TABLE = "create table t (id int primary key, name text, u int unique)"
FORMATS = ["CALL", "SCALL", "MCALL", "XCALL"]


def update(form: str, old: tuple[object, ...], new: tuple[object, ...]) -> list[object]:
    """Return the arguments of the call that changes `old` to `new`."""
    changed = [n for n, (a, b) in enumerate(zip(old, new, strict=True), 1) if a != b]
    sent = [value if n in changed or form == "MCALL" else None for n, value in enumerate(new, 1)]
    match form:
        case "CALL":
            return [*new, old[0]]
        case "XCALL":
            return [*old, *new]
    return [*sent, old[0], mask(3, *changed)]


@pytest.mark.parametrize("form", FORMATS)
async def test_a_run_is_as_good_as_its_calls(here: Here, form: str) -> None:
    await here.subscribe(
        TABLE, methods={"upd": form, "dele": "XCALL" if form == "XCALL" else "CALL"}
    )
    rows = [(n, f"name {n}", n) for n in range(1, 1001)]
    assert await here.apply_set("ins", *rows) == 1000
    new = [(n, None if n % 2 else f"new {n}", u) for n, _, u in rows]
    calls = [update(form, a, b) for a, b in zip(rows, new, strict=True)]
    assert await here.apply_set("upd", *calls) == 1000
    assert await here.rows() == new
    gone = [row if form == "XCALL" else row[:1] for row in new[::2]]
    assert await here.apply_set("del", *gone) == 500
    assert await here.rows() == new[1::2]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([((9, "x", 9), (9, "y", 9))], id="a row that is not there"),
        pytest.param([((1, "a", 1), (8, "a", 1))], id="a key that changes"),
        pytest.param([((1, "a", 1), (1, "a", 7)), ((2, "b", 2), (2, "b", 1))], id="a value that moves on"),
        pytest.param([((1, "a", 1), (1, "a", 2))], id="a value that is taken"),
    ],
)  # fmt: skip
async def test_a_run_that_is_no_set_changes_nothing(
    here: Here, form: str, steps: list[tuple[tuple[object, ...], tuple[object, ...]]]
) -> None:
    """If a value moves to another row, a set either returns -1 or applies all calls correctly."""
    await here.subscribe(TABLE, methods={"upd": form})
    await here.apply_set("ins", (1, "a", 1), (2, "b", 2), (3, "c", 3))
    before = await here.rows()
    calls = [update(form, old, new) for old, new in [*steps, ((3, "c", 3), (3, "z", 3))]]
    if await here.apply_set("upd", *calls) == -1:
        assert await here.rows() == before
    else:
        assert [row[2] for row in await here.rows()] == [7, 1, 3]


@pytest.mark.parametrize("form", FORMATS)
async def test_a_key_several_times(here: Here, form: str) -> None:
    """Of several calls that set the same columns of a row, it is enough to apply the last."""
    await here.subscribe(TABLE, methods={"upd": form})
    await here.apply_set("ins", (1, "a", 1), (2, "b", 2))
    steps = [((1, f"{n}", 1), (1, f"{n + 1}", 1)) for n in range(100)]
    steps.insert(50, ((2, "b", 2), (2, "z", 2)))
    assert await here.apply_set("upd", *(update(form, old, new) for old, new in steps)) == 101
    assert await here.rows() == [(1, "100", 1), (2, "z", 2)]


@pytest.mark.parametrize("form", ["SCALL", "MCALL"])
async def test_a_key_several_times_with_other_columns(here: Here, form: str) -> None:
    """Several calls for a row that set different columns are applied in the order of the calls."""
    await here.subscribe(TABLE, methods={"upd": form})
    await here.apply_set("ins", (1, "a", 1), (2, "b", 2))
    steps = [
        ((1, "a", 1), (1, "b", 1)),
        ((2, "b", 2), (2, "c", 2)),
        ((1, "b", 1), (1, "c", 5)),
        ((1, "c", 5), (1, "c", 6)),
        ((1, "c", 6), (1, "d", 6)),
    ]
    assert await here.apply_set("upd", *(update(form, old, new) for old, new in steps)) == 5
    assert await here.rows() == [(1, "d", 6), (2, "c", 2)]


@pytest.mark.parametrize("form", FORMATS)
async def test_a_key_that_leaves_and_one_that_comes(here: Here, form: str) -> None:
    """A set is refused if a second call for key 1 concerns the row that had key 2 before."""
    await here.subscribe(TABLE, methods={"upd": form})
    await here.apply_set("ins", (1, "a", 1), (2, "b", 2))
    steps = [
        ((1, "a", 1), (3, "x", 5)),
        ((2, "b", 2), (1, "y", 6)),
        ((1, "y", 6), (1, "z", 7)),
    ]
    assert await here.apply_set("upd", *(update(form, old, new) for old, new in steps)) == -1
    everything = [[*new, old[0], mask(3, 1, 2, 3)] for old, new in steps]
    if form in ("SCALL", "MCALL"):
        assert await here.apply_set("upd", *everything) == -1
    assert await here.rows() == [(1, "a", 1), (2, "b", 2)]


@pytest.mark.parametrize("table", ["t", "p1"])
async def test_a_key_several_times_where_somebody_counts(here: Here, table: str) -> None:
    """A trigger that is not NOT FOR REPLICATION, also one of a partition, fires for every call."""
    await here.subscribe(
        "create table t (id int primary key, name text) partition by range (id);"
        " create table p1 partition of t default"
    )
    await here.apply("ins", 1, "a")
    calls = [[None, name, 1, mask(2, 2)] for name in ("b", "c")]
    await here.admin.execute(
        "create function seen() returns trigger language plpgsql as $$ begin return null; end $$; "
        f"create trigger seen after update on {table} for each row execute function seen()"
    )
    assert await here.apply_set("upd", *calls) == 2
    await here.admin.execute(f"alter table {table} enable always trigger seen".encode())
    assert await here.apply_set("upd", *calls) == -1
    assert await here.apply_set("upd", calls[0]) == 1


@pytest.mark.parametrize("form", ["SCALL", "MCALL"])
async def test_a_key_that_is_said_to_change_and_does_not(here: Here, form: str) -> None:
    """If the log has no old rows, every bit is set; calls that keep the key still form a set."""
    await here.subscribe(TABLE, methods={"upd": form})
    await here.apply_set("ins", (1, "a", 1), (2, "b", 2))
    everything = mask(3, 1, 2, 3)
    assert await here.apply_set("upd", [1, "x", 5, 1, everything], [2, "y", 6, 2, everything]) == 2
    assert await here.rows() == [(1, "x", 5), (2, "y", 6)]
    assert await here.apply_set("upd", [3, "x", 5, 1, everything]) == -1


async def test_duplicates_and_rows_that_are_gone(here: Here) -> None:
    await here.subscribe(TABLE)
    await here.apply("ins", 1, "a", 1)
    assert await here.apply_set("ins", (2, "b", 2), (1, "b", 3)) == -1
    assert await here.apply_set("ins", (2, "b", 2), (3, "b", 2)) == -1
    assert await here.apply_set("ins", (2, "b")) == -1
    assert await here.apply_set("del", [1], [1]) == -1
    assert await here.apply_set("del", [1], [2]) == -1
    assert await here.rows() == [(1, "a", 1)]


async def test_other_errors_are_not_hidden(here: Here) -> None:
    """An error that a single call would raise is raised by a set too."""
    await here.subscribe("create table t (id int primary key, n int check (n > 0))")
    with pytest.raises(Exception, match="violates check constraint"):
        await here.apply_set("ins", (1, 1), (2, -1))


async def test_a_replaced_procedure_is_called_for_every_row(here: Here) -> None:
    """A set would bypass a procedure that the user has replaced, so the calls are made one by one."""
    await here.subscribe(TABLE)
    await here.admin.execute(
        "create or replace function sp_msins_t(c1 int, c2 text, c3 int) returns void language plpgsql as "
        "$$ begin insert into public.t values (c1, 'mine', c3); end $$"
    )
    assert await here.apply_set("ins", (1, "a", 1)) == -1
    await here.apply("ins", 1, "a", 1)
    assert await here.rows() == [(1, "mine", 1)]


@pytest.mark.parametrize("form", FORMATS)
async def test_a_key_that_moves_twice(here: Here, form: str) -> None:
    """The seed's key change 1 -> 2 -> 3 works in the Publisher's order, and is 20598 in reverse order."""
    await here.subscribe(TABLE, methods={"upd": form})
    first = update(form, (1, "a", 1), (2, "a", 1))
    second = update(form, (2, "a", 1), (3, "a", 1))
    await here.apply("ins", 1, "a", 1)
    error = await here.fails("upd", *second)
    assert "with primary key id = 2 (20598)" in str(error.diag.message_primary)
    await here.apply("upd", *first)
    await here.apply("upd", *second)
    assert await here.rows() == [(3, "a", 1)]


async def test_a_key_of_several_columns_changes_in_part(here: Here) -> None:
    await here.subscribe("create table t (a int, n text, b text, primary key (b, a))")
    await here.apply("ins", 1, "x", "k")
    await here.apply("upd", 2, None, None, "k", 1, mask(3, 1))
    await here.apply("upd", None, None, "l", "k", 2, mask(3, 3))
    error = await here.fails("upd", None, "y", None, "k", 2, mask(3, 2))
    assert "a = 2, b = k" in str(error.diag.message_primary)
    assert await here.rows() == [(2, "x", "l")]


async def test_a_key_may_be_equal_and_yet_another_text(here: Here) -> None:
    """A key that changes from 1.0 to 1.00 is written, with its bit or without a bitmask."""
    for form in FORMATS:
        await here.subscribe(
            "drop table if exists t cascade; create table t (id numeric primary key)",
            methods={"upd": form},
        )
        await here.apply("ins", "1.0")
        match form:
            case "CALL":
                await here.apply("upd", "1.00", "1.0")
            case "XCALL":
                await here.apply("upd", "1.0", "1.00")
            case _:
                await here.apply("upd", "1.00", "1.0", mask(1, 1))
        assert await here.rows(columns="id::text") == [("1.00",)]


_values = st.tuples(st.sampled_from(["a", "b", None]), st.none() | st.integers(1, 9))
#: Mostly existing rows, and keys that do not change.
_old_keys = st.sampled_from([1, 2, 3, 1, 2, 3, 1, 2, 3, 4])
_moves = st.sampled_from([0] * 9 + [1])
#: The column that an update leaves unchanged.
_stays = st.sampled_from([0, 0, 1, 2])
_runs = st.one_of(
    st.tuples(
        st.just("ins"),
        st.lists(st.tuples(st.integers(3, 12), _values).map(lambda d: (d[0], *d[1])), min_size=1, max_size=3),
    ),
    st.tuples(st.just("del"), st.lists(st.tuples(_old_keys), min_size=1, max_size=3)),
    st.tuples(
        st.just("upd"),
        st.lists(
            st.tuples(_old_keys, _moves, _values, _stays).map(
                lambda d: (d[0], (d[0] + d[1], *d[2]), d[3])
            ),
            min_size=1,
            max_size=4,
        ),
    ),
)  # fmt: skip


@pytest.mark.parametrize("form", ["CALL", "SCALL"])
async def test_drawn_runs(here: Here, form: str) -> None:
    """A set has the same effect as its single calls, and none of them fails.

    The exception is an update that, as a single call, violates a unique key because of a value that
    a later call of the set removes.
    """
    await here.subscribe(TABLE, methods={"upd": form})
    drawn: list[tuple[str, list[Any]]] = []

    @settings(max_examples=150, deadline=None, derandomize=True, database=None)
    @given(_runs)
    def draw(run: tuple[str, list[Any]]) -> None:
        drawn.append(run)

    draw()
    as_sets = 0
    for operation, values in drawn:
        calls = values
        if operation == "upd":
            calls = []
            for key, new, stays in values:
                old = (key, *(new[n] if n == stays else object() for n in (1, 2)))
                calls.append(update(form, old, new))
        await here.admin.execute(
            "truncate t; insert into t values (1, 'a', 1), (2, 'b', 2), (3, 'c', null)"
        )
        before = await here.rows()
        if await here.apply_set(operation, *calls) == -1:
            assert await here.rows() == before, (operation, values)
            continue
        as_sets += 1
        after = await here.rows()
        await here.admin.execute(
            "truncate t; insert into t values (1, 'a', 1), (2, 'b', 2), (3, 'c', null)"
        )
        try:
            for each in calls:
                await here.apply(operation, *each)
        except psycopg.errors.UniqueViolation:
            assert operation == "upd", (operation, values)
            continue
        assert await here.rows() == after, (operation, values)
    assert 15 < as_sets < len(drawn) - 15
