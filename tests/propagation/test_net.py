"""The net effect of a range of commands: its content, and that it makes both sites equal."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.propagation.here import Here, call, mask, propagation
from tests.propagation.histories import (
    ARTICLE,
    ClashError,
    Entry,
    History,
    MissingError,
    Row,
    histories,
)
from twopc.errors import SubscriptionError
from twopc.propagation import CommandType, Format, changed_columns, record_values
from twopc.subscriber.propagation import Layout, OrderedCommand, net_effect

FORMATS = st.tuples(
    st.sampled_from([Format.CALL, Format.SCALL, Format.MCALL, Format.XCALL]),
    st.sampled_from([Format.CALL, Format.XCALL]),
)
QUIETLY = settings(max_examples=300, deadline=None, derandomize=True, database=None)
SCALL = (Format.SCALL, Format.CALL)


def layout(update: Format, delete: Format) -> Layout:
    return Layout(columns=3, key=(0,), update=update, delete=delete)


def net(entries: list[Entry], formats: tuple[Format, Format]) -> list[tuple[int, bytes]]:
    """Return the net effect of these entries."""
    return net_effect(
        {ARTICLE: layout(*formats)},
        [
            OrderedCommand(article_id=ARTICLE, type=e.type, command=e.command(*formats), own=e.own)
            for e in entries
        ],
    )


def apply(
    rows: dict[int, Row], commands: list[tuple[int, bytes]], formats: tuple[Format, Format]
) -> dict[int, Row]:
    """Return a Subscriber's rows after these commands, all of which are applied at once."""
    freed: dict[int, Row] = dict(rows)
    come: list[Row] = []
    for code, command in commands:
        values = [None if v is None else v.decode() for v in record_values(command)]
        kind = code % 100
        if kind == CommandType.INSERT:
            come.append(row_of(values))
            continue
        if kind == CommandType.DELETE:
            key = int(str(values[0]))
        else:
            key = int(str(values[0] if formats[0] is Format.XCALL else values[3]))
        if key not in freed:
            raise MissingError(key)
        held = freed.pop(key)
        if kind == CommandType.UPDATE:
            come.append(updated(held, values, formats[0]))
    for row in come:
        unique = {other[1] for other in freed.values()}
        if row[0] in freed or (row[1] is not None and row[1] in unique):
            raise ClashError(row)
        freed[row[0]] = row
    return freed


def row_of(values: list[str | None]) -> Row:
    key, unique, plain = values
    return (int(str(key)), None if unique is None else int(unique), int(str(plain)))


def updated(held: Row, values: list[str | None], update: Format) -> Row:
    match update:
        case Format.CALL:
            return row_of(values[:3])
        case Format.XCALL:
            return row_of(values[3:])
    bits = changed_columns(bytes.fromhex(str(values[-1])[2:]))
    new = [
        values[n] if n in bits else (None if held[n] is None else str(held[n])) for n in range(3)
    ]
    return row_of(new)


def rows_of(history: History, which: str) -> dict[int, Row]:
    return {key: row for key, (row, _) in getattr(history, which).items()}


@QUIETLY
@given(histories(), FORMATS)
def test_the_whole_log_makes_both_sites_alike(
    history: History, formats: tuple[Format, Format]
) -> None:
    assert apply(rows_of(history, "subscriber"), net(history.log, formats), formats) == rows_of(
        history, "publisher"
    )


@QUIETLY
@given(histories(size_max=20), FORMATS)
def test_taking_as_little_as_possible_does_too(
    history: History, formats: tuple[Format, Format]
) -> None:
    """The agent's ranges work as well: up to the next own command, and further only after a clash."""
    rows, at = rows_of(history, "subscriber"), 0
    while at < len(history.log):
        ends = [n + 1 for n in range(at, len(history.log)) if history.log[n].own]
        for end in dict.fromkeys([*ends, len(history.log)]):
            try:
                rows = apply(rows, net(history.log[at:end], formats), formats)
            except (ClashError, MissingError):
                assert end < len(history.log), "a clash that nothing explains"
                continue
            at = end
            break
    assert rows == rows_of(history, "publisher")


@QUIETLY
@given(histories(), FORMATS)
def test_each_row_is_touched_once(history: History, formats: tuple[Format, Format]) -> None:
    """Each old and each new row has at most one command; deletes come first, then updates, then inserts."""
    commands = net(history.log, formats)
    kinds = [code % 100 for code, _ in commands]
    assert kinds == sorted(kinds, key=[3, 2, 1].index)
    touched = [
        original_key(kind, command, formats)
        for kind, (_, command) in zip(kinds, commands, strict=True)
    ]
    before = [key for key, kind in zip(touched, kinds, strict=True) if kind != CommandType.INSERT]
    come = [key for key, kind in zip(touched, kinds, strict=True) if kind == CommandType.INSERT]
    assert len(set(before)) == len(before)
    assert len(set(come)) == len(come)
    if all(entry.own for entry in history.log):
        assert commands == []


def original_key(kind: int, command: bytes, formats: tuple[Format, Format]) -> bytes | None:
    """Return the key by which a command finds its row, or that of the row that it inserts."""
    values = record_values(command)
    return values[3] if kind == CommandType.UPDATE and formats[0] is not Format.XCALL else values[0]


# -- named cases ----------------------------------------------------------------------------------


def ins(*row: object) -> tuple[int, bytes]:
    return CommandType.INSERT, call(*row)


def dele(key: object) -> tuple[int, bytes]:
    return CommandType.DELETE, call(key)


def upd(key: object, *row: object, changed: tuple[int, ...]) -> tuple[int, bytes]:
    sent = [value if n in changed else None for n, value in enumerate(row, 1)]
    return CommandType.UPDATE, call(*sent, key, mask(3, *changed))


def effect(*commands: tuple[int, bytes] | str) -> list[tuple[int, bytes]]:
    """Return the net effect of these commands; one that follows the word "own" is the Subscriber's own."""
    changes, own = [], False
    for each in commands:
        if isinstance(each, str):
            own = True
            continue
        changes.append(OrderedCommand(article_id=ARTICLE, type=each[0], command=each[1], own=own))
        own = False
    return [
        (code - 100 * ARTICLE, text)
        for code, text in net_effect({ARTICLE: layout(*SCALL)}, changes)
    ]


def test_insert_delete_insert_of_a_key() -> None:
    """The Publisher's insert and delete cancel out, so the Subscriber's own row remains."""
    assert effect(ins(1, 1, 0), dele(1)) == []
    assert effect(ins(1, 1, 0), dele(1), "own", ins(1, 1, 5)) == []
    assert effect(ins(1, 1, 0), dele(1), "own", ins(1, 1, 5), upd(1, 1, 1, 6, changed=(3,))) == [
        upd(1, 1, 1, 6, changed=(3,))
    ]
    assert effect("own", dele(1), ins(1, 1, 0), dele(1), "own", ins(1, 1, 5)) == []


def test_insert_delete_insert_of_a_unique_value() -> None:
    """The Publisher's row gets its final value, not the one that the Subscriber has used since."""
    assert effect(ins(1, 9, 0), dele(1), "own", ins(2, 9, 5)) == []
    assert effect(ins(1, 9, 0), upd(1, 1, 8, 0, changed=(2,)), "own", ins(2, 9, 5)) == [
        ins(1, 8, 0)
    ]
    assert effect(
        upd(1, 1, 9, 0, changed=(2,)), upd(1, 1, 8, 0, changed=(2,)), "own", ins(2, 9, 5)
    ) == [upd(1, 1, 8, 0, changed=(2,))]


def test_a_key_that_moves_is_followed() -> None:
    assert effect(upd(1, 2, None, 0, changed=(1,)), dele(2), "own", ins(2, 9, 5)) == [dele(1)]
    assert effect(
        upd(1, 2, None, 0, changed=(1,)), upd(2, 3, None, 4, changed=(1, 3)), "own", ins(2, 9, 5)
    ) == [upd(1, 3, None, 4, changed=(1, 3))]
    assert effect(upd(1, 2, None, 0, changed=(1,)), upd(2, 1, 7, 0, changed=(1, 2))) == [
        upd(1, 1, 7, 0, changed=(1, 2))
    ]
    # an old key is used again: the commands concern two rows
    assert effect(
        upd(1, 2, None, 0, changed=(1,)), ins(1, 9, 9), upd(1, 1, 9, 3, changed=(3,))
    ) == [
        upd(1, 2, None, 0, changed=(1,)),
        ins(1, 9, 3),
    ]


def test_what_an_own_command_has_touched_is_left_alone() -> None:
    """An own command is not older than the Subscriber's row; otherwise it would have been refused."""
    assert effect(upd(1, 1, 5, 0, changed=(2,)), "own", upd(1, 1, 6, 0, changed=(2,))) == []


def test_statements_cannot_be_folded() -> None:
    with pytest.raises(SubscriptionError, match="article 7 is propagated by statements"):
        effect((CommandType.SQL_DELETE, b"delete from t"))


def test_the_layout_of_an_article() -> None:
    assert Layout.of(["a", "b", "c"], ["c", "a"], propagation(upd="XCALL")) == Layout(
        columns=3, key=(2, 0), update=Format.XCALL, delete=Format.CALL
    )


# -- on a server ----------------------------------------------------------------------------------

TABLE = "create table t (id int primary key, u int unique, n int)"


#: Every trigger, including those of foreign keys, also fires in the replica role.
ALWAYS = """
do $$ declare name text; begin
    for name in select format('alter table %s enable always trigger %I', tgrelid::regclass, tgname) from pg_trigger
    loop execute name; end loop;
end $$
"""


async def apply_net(here: Here, commands: list[tuple[int, bytes]]) -> None:
    await here.agent.execute(
        "select msrepl.apply_net(%s::int[], %s::text[])",
        ([code for code, _ in commands], [text.decode() for _, text in commands]),
    )


@pytest.mark.parametrize("update", ["CALL", "SCALL", "MCALL", "XCALL"])
@pytest.mark.parametrize("delete", ["CALL", "XCALL"])
async def test_histories_on_a_server(here: Here, update: str, delete: str) -> None:
    """The procedures apply the same histories with the same result."""
    await here.subscribe(TABLE, methods={"upd": update, "dele": delete})
    formats = (Format(update), Format(delete))
    drawn: list[History] = []

    @settings(
        max_examples=60, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    @given(histories(size_max=20))
    def draw(history: History) -> None:
        drawn.append(history)

    draw()
    for history in drawn:
        await here.admin.execute("truncate t")
        for row, _ in history.subscriber.values():
            await here.apply("ins", *row)
        await apply_net(here, net(history.log, formats))
        assert await here.rows() == sorted(rows_of(history, "publisher").values()), history


async def test_values_that_change_places(here: Here) -> None:
    """Unique values and keys that are exchanged in a ring are applied at once; own columns keep their values."""
    article = await here.subscribe(TABLE)
    await here.admin.execute(
        "alter table t add own text default 'kept', add made int generated always as (n + 1)"
    )
    await here.apply_set("ins", (1, 1, 0), (2, 2, 0), (3, 3, 0), (4, 4, 0))
    await here.admin.execute("update t set own = 'own ' || id")
    ring = [
        upd(1, 1, 2, 0, changed=(2,)),
        upd(2, 2, 3, 7, changed=(2, 3)),
        upd(3, 5, 1, 0, changed=(1, 2)),
    ]
    codes = [(700 + kind, text) for kind, text in [dele(4), *ring, ins(9, 4, 9)]]
    # the columns were added after the procedures had been created
    await here.subscribe("select", article=article)
    await apply_net(here, codes)
    assert await here.rows() == [
        (1, 2, 0, "own 1", 1), (2, 3, 7, "own 2", 8), (5, 1, 0, "own 3", 1), (9, 4, 9, "kept", 10),
    ]  # fmt: skip
    keys = [upd(1, 2, None, 0, changed=(1,)), upd(2, 1, None, 0, changed=(1,))]
    await apply_net(here, [(700 + kind, text) for kind, text in keys])
    assert [row[:2] for row in await here.rows()] == [(1, 3), (2, 2), (5, 1), (9, 4)]


async def test_keys_that_change_places_between_partitions(here: Here) -> None:
    await here.subscribe(
        "create table t (id int primary key, u int, n int) partition by range (id);"
        "create table t_1 partition of t for values from (0) to (10);"
        "create table t_2 partition of t for values from (10) to (20)"
    )
    await here.apply_set("ins", (1, 1, 0), (11, 11, 0))
    ring = [upd(1, 11, None, 0, changed=(1,)), upd(11, 1, None, 5, changed=(1, 3))]
    await apply_net(here, [(700 + kind, text) for kind, text in ring])
    assert await here.rows("t_1") == [(1, 11, 5)]
    assert await here.rows("t_2") == [(11, 1, 0)]


async def test_what_is_left_fails_with_its_own_error(here: Here) -> None:
    await here.subscribe(TABLE)
    await here.apply_set("ins", (1, 1, 0), (2, 2, 0))
    with pytest.raises(
        Exception, match=r'duplicate key value violates unique constraint "t_u_key"'
    ):
        await apply_net(here, [(701, call(3, 4, 0)), (702, upd(1, 1, 2, 0, changed=(2,))[1])])
    with pytest.raises(Exception, match=r"primary key id = 9 \(20598\)"):
        await apply_net(here, [(702, upd(9, 1, 2, 0, changed=(2,))[1])])
    assert await here.rows() == [(1, 1, 0), (2, 2, 0)]


async def test_parents_and_children(here: Here) -> None:
    """If foreign keys apply to agents, rows and the rows that refer to them are applied in a valid order."""
    await here.subscribe(
        "create table parent (id int primary key, u int unique)", table="parent", article_id=6
    )
    await here.subscribe(
        "create table t (id int primary key, u int references parent on delete cascade, n int)"
    )
    await here.admin.execute(ALWAYS)
    await here.admin.execute(
        "insert into parent values (1, 1), (2, 2); insert into t values (1, 1, 0), (2, 2, 0)"
    )
    await apply_net(
        here,
        [
            (702, upd(1, 1, 3, 0, changed=(2,))[1]),
            (701, call(4, 4, 0)),
            (601, call(3, 3)),
            (601, call(4, 4)),
        ],
    )
    assert await here.rows() == [(1, 3, 0), (2, 2, 0), (4, 4, 0)]
    # a delete that would cascade to children is never executed, not even temporarily
    ring = [(602, call(None, 4, 3, mask(2, 2))), (602, call(None, 3, 4, mask(2, 2)))]
    with pytest.raises(Exception, match="parent_u_key"):
        await apply_net(here, ring)
    assert len(await here.rows()) == 3


async def test_custom_procedures_are_called_once_per_row(here: Here) -> None:
    await here.subscribe(
        f"""{TABLE}; create table called (n serial, what text);
        grant insert on called to public; grant usage on sequence called_n_seq to public;
        create function c_ins(int, int, int) returns void begin atomic
            insert into called (what) values (format('ins %s %s %s', $1, $2, $3)); end;
        create function c_upd(int, int, int, int, bytea) returns void begin atomic
            insert into called (what) values (format('upd %s %s %s of %s %s', $1, $2, $3, $4, $5)); end;
        create function c_del(int) returns void begin atomic
            insert into called (what) values (format('del %s', $1)); end;
        """,
        methods={"ins": "CALL c_ins", "upd": "SCALL c_upd", "dele": "CALL c_del"},
    )
    commands = effect(
        ins(5, 5, 0), upd(5, 5, 6, 0, changed=(2,)), upd(1, 1, 2, 0, changed=(2,)), upd(1, 1, None, 3, changed=(3,)),
        ins(8, 8, 8), dele(8), dele(4), "own", ins(8, 8, 9),
    )  # fmt: skip
    await apply_net(here, [(700 + kind, text) for kind, text in commands])
    assert [row[1] for row in await here.rows("called")] == [
        "del 4", "upd  2 3 of 1 \\x06", "ins 5 6 0",
    ]  # fmt: skip
