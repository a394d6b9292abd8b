"""Tests of calls in the log: stored as one command instead of rows, with rows beside it, or as rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pytest

from tests.log_reader.test_planner import (
    ARTICLE,
    ITEM,
    MARKER,
    ORIGINATORS,
    TABLE,
    feed,
    insert,
    mark,
    rows_of,
    transaction,
)
from twopc.errors import RemoteProtocolError
from twopc.proc_execution import BESIDE, ProcArticle, ProcCall, ProcType
from twopc.propagation import Propagation, parse_method
from twopc.publisher.commands import CommandBuilder
from twopc.publisher.log_reader.planner import LogPlanner, ReaderArticles, StoredBatch
from twopc.publisher.pgoutput import (
    Decoded,
    RelationColumn,
    RelationMessage,
    RowMessage,
    TruncateMessage,
)
from twopc.sim.model.distribution.packets import encode

_COLUMNS = ("id", "article_id", "opened", "snapshot", "call", "failure")
CALLS = RelationMessage(
    502, "msrepl", "call_marker", "d",
    tuple(RelationColumn(name, 25, -1, name == "id") for name in _COLUMNS),
)  # fmt: skip
POSTED = RelationMessage(
    503, "msrepl", "log_message", "d",
    tuple(RelationColumn(name, 25, -1, name == "id") for name in ("id", "kind", "body")),
)  # fmt: skip
#: Published, but its changes are not stored.
UNSENT = dataclasses.replace(
    ARTICLE,
    article_id=9,
    article=dataclasses.replace(ITEM, table="other"),
    propagation=Propagation(
        ins=parse_method("ins", "NONE"),
        upd=parse_method("upd", "NONE"),
        dele=parse_method("del", "NONE"),
    ),
)
OTHER = RelationMessage(504, "public", "other", "f", TABLE.columns)


def routine(number: int = 20, **more: object) -> ProcArticle:
    """Return a published routine."""
    return ProcArticle(
        article_id=number, schema="public", name=f"r{number}", kind="p", arguments=(), **more
    )  # type: ignore[arg-type]


def planner(
    *routines: ProcArticle, beside_until: int = -1, horizon: int = 0, read_to: int = 0
) -> LogPlanner:
    """Return a planner that knows the article and these routines."""
    known = ReaderArticles(
        builder=CommandBuilder([ARTICLE, UNSENT]),
        originators=ORIGINATORS,
        calls={each.article_id: each for each in routines},
        beside_until=beside_until,
        horizon=horizon,
    )
    return LogPlanner(known, publisher=3, read_to=read_to, next_xid=1000)


def _inserted(relation: RelationMessage, values: Mapping[str, object | None]) -> RowMessage:
    row = [
        None if (value := values.get(column.name)) is None else str(value).encode()
        for column in relation.columns
    ]
    return RowMessage(relation, "ins", None, row, False)


def begun(number: int, article: int = 20, snapshot: str = "5000:5000:") -> RowMessage:
    """Return the marker of a call's begin; by default its snapshot sees every transaction."""
    call = ProcCall(values=(str(number),)).as_text()
    return _inserted(
        CALLS, {"id": number, "article_id": article, "snapshot": snapshot, "call": call}
    )


def ended(number: int, article: int = 20, failure: str | None = None) -> RowMessage:
    """Return the marker of a call's end."""
    return _inserted(
        CALLS,
        {"id": number + 1000, "article_id": article, "opened": number, "failure": failure},
    )


def posted(body: str) -> RowMessage:
    """Return a posted message about a routine."""
    return _inserted(POSTED, {"id": 1, "kind": "procedure", "body": body})


def read(
    one: LogPlanner, *transactions: list[Decoded]
) -> tuple[list[tuple[int, int, bytes]], StoredBatch]:
    """Return article, type and text of every command made of these transactions, and the batch."""
    feed(one, [TABLE, MARKER, CALLS, POSTED, OTHER])
    for each in transactions:
        feed(one, each)
    batch = one.take()
    _, commands = rows_of(batch.blocks)
    return [(*divmod(row[2], 100), row[-1]) for row in commands], batch


def rows(count: int, shift: int = 0) -> list[tuple[int, int]]:
    """Return article and type of `count` inserted rows."""
    return [(7 + shift, 1)] * count


def kinds(commands: list[tuple[int, int, bytes]]) -> list[tuple[int, int]]:
    """Return articles and types without texts."""
    return [(article, kind) for article, kind, _ in commands]


def test_a_call_stands_for_its_rows() -> None:
    commands, batch = read(
        planner(routine()),
        transaction(10, insert(1), begun(1), insert(2), insert(3), ended(1), insert(4)),
    )
    assert kinds(commands) == [(7, 1), (20, 30), (7, 1)]
    assert ProcCall.parse(commands[1][2].decode()) == ProcCall(values=("1",))
    assert (batch.transactions, batch.commands, batch.fallbacks) == (1, 3, [])


def test_several_calls_of_a_transaction_in_their_order() -> None:
    commands, _ = read(
        planner(routine(20), routine(21)),
        transaction(
            10, begun(1), insert(1), ended(1), begun(2, 21), ended(2, 21), begun(3), ended(3)
        ),
    )
    assert kinds(commands) == [(20, 30), (21, 30), (20, 30)]


def test_rows_are_stored_beside_the_call() -> None:
    one = planner(routine(), beside_until=10)
    commands, _ = read(
        one,
        transaction(10, begun(1), insert(1), insert(2), ended(1), insert(3)),
        transaction(20, begun(2), insert(4), ended(2)),
    )
    assert kinds(commands) == [*rows(2, BESIDE), (20, 30), *rows(1), (20, 30)]


def test_a_call_over_several_blocks() -> None:
    one = planner(routine())
    whole = transaction(10, begun(1), *map(insert, range(300)), ended(1), insert(1))
    feed(one, [TABLE, MARKER, CALLS])
    for message in whole:
        feed(one, [message])
    _, commands = rows_of(one.take().blocks)
    assert [divmod(row[2], 100) for row in commands] == [(20, 30), (7, 1)]


@pytest.mark.parametrize("known", [True, False])
def test_the_outermost_call_counts(known: bool) -> None:
    """Only the outermost stored call becomes a command; one within a call that is not stored is judged."""
    one = planner(*([routine(20)] if known else []), routine(21))
    commands, _ = read(
        one,
        transaction(
            10, begun(1), insert(1), begun(2, 21), insert(2), ended(2, 21), insert(3), ended(1)
        ),
    )
    assert kinds(commands) == ([(20, 30)] if known else [(7, 1), (21, 30), (7, 1)])


def test_a_call_among_filtered_rows() -> None:
    """Rows behind the end of a call in a block are filtered, although the block is scanned before."""
    filtered = dataclasses.replace(ARTICLE, article=dataclasses.replace(ITEM, row_filter="id > 0"))
    known = ReaderArticles(
        builder=CommandBuilder([filtered]), originators={}, calls={20: routine()}
    )
    one = LogPlanner(known, publisher=3, read_to=0, next_xid=1000)
    feed(one, [TABLE, MARKER, CALLS])
    whole = transaction(10, insert(1), begun(1), insert(2), ended(1), insert(3))
    for block in (whole[:3], whole[3:]):
        messages = [encode(message) for message in block]
        changes = one.filtered(messages)
        one.feed(messages, {at: (change, [(False, True)]) for at, change in changes.items()})
    _, commands = rows_of(one.take().blocks)
    assert [divmod(row[2], 100) for row in commands] == [(7, 1), (20, 30), (7, 1)]


def test_a_failure_travels() -> None:
    commands, _ = read(
        planner(routine(xact_abort=False)), transaction(10, begun(1), ended(1, failure="23503"))
    )
    assert ProcCall.parse(commands[0][2].decode()).failure == "23503"


def test_a_routine_nobody_takes() -> None:
    commands, _ = read(planner(), transaction(10, begun(1), insert(1), ended(1)))
    assert kinds(commands) == rows(1)


# -- the snapshot rule ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("snapshot", "sent"),
    [("901:902:", True), ("900:902:900", False), ("900:900:", False)],
)
def test_an_earlier_writer_must_have_been_seen(snapshot: str, sent: bool) -> None:
    commands, batch = read(
        planner(routine()),
        transaction(10, insert(1), xid=900),
        transaction(20, begun(1, snapshot=snapshot), insert(2), ended(1), xid=899),
    )
    assert kinds(commands) == [*rows(1), (20, 30) if sent else (7, 1)]
    assert batch.fallbacks == ([] if sent else [(20, 20)])


def test_a_writer_of_other_tables_does_not_count() -> None:
    declared = routine(reads=("other",), writes=("other",))
    commands, _ = read(
        planner(declared),
        transaction(10, insert(1), xid=900),
        transaction(20, begun(1, snapshot="900:901:900"), ended(1), xid=899),
    )
    assert kinds(commands) == [*rows(1), (20, 30)]


@pytest.mark.parametrize(
    "writer",
    [
        [RowMessage(OTHER, "ins", None, [b"1", b"v"], False)],
        [TruncateMessage((OTHER,), False, False)],
        [begun(7, 21), ended(7, 21)],
        [posted('{"article": 20}')],
        [posted('{"article": 20, "definition": "x"}')],
    ],
    ids=["no command", "truncate", "a call", "an obstacle", "a definition"],
)
def test_who_else_is_a_writer(writer: list[RowMessage]) -> None:
    """A transaction is a writer of its tables even if it stores no command for them."""
    declared = routine(reads=("other",), writes=("other",))
    commands, batch = read(
        planner(declared, routine(21, writes=("other",), reads=("other",))),
        transaction(10, *writer, xid=900),
        transaction(20, begun(1, snapshot="900:901:900"), insert(1), ended(1), xid=899),
    )
    assert batch.fallbacks == [(20, 20)]
    assert kinds(commands)[-1] == (7, 1)


def test_a_declared_table_that_is_gone() -> None:
    """A declared table that does not exist counts as written, because it may have been renamed."""
    gone = routine(reads=("gone",), writes=("gone",))
    _, batch = read(
        planner(gone),
        transaction(10, insert(1), xid=900),
        transaction(20, begun(1, snapshot="900:901:900"), ended(1), xid=899),
    )
    assert batch.fallbacks == [(20, 20)]


def test_the_rule_is_not_for_every_type() -> None:
    commands, _ = read(
        planner(routine(type=ProcType.PLAIN)),
        transaction(10, insert(1), xid=900),
        transaction(20, begun(1, snapshot="900:901:900"), insert(2), ended(1), xid=899),
    )
    assert kinds(commands) == [*rows(1), (20, 30)]


def test_rows_of_a_part_that_was_streamed_count() -> None:
    one = planner(routine())
    feed(one, [TABLE, MARKER, CALLS])
    feed(one, transaction(10, insert(1), xid=900)[:2])
    one.take_part()
    feed(one, transaction(10, xid=900)[1:])
    feed(one, transaction(20, begun(1, snapshot="900:901:900"), ended(1), xid=899))
    assert one.take().fallbacks == [(20, 20)]


def test_what_was_stored_already_is_not_known() -> None:
    one = planner(routine(), read_to=10)
    _, batch = read(
        one,
        transaction(10, insert(1), xid=900),
        transaction(20, begun(1, snapshot="900:901:900"), ended(1), xid=899),
    )
    assert batch.fallbacks == [(20, 20)]


def test_the_horizon_goes_with_the_batch() -> None:
    """A batch carries the highest writer as horizon, before which the next reader knows no writers."""
    one = planner(routine(), horizon=800)
    _, batch = read(one, transaction(10, insert(1), xid=910), transaction(20, insert(1), xid=905))
    assert batch.horizon == 910
    for snapshot, sent in (("910:920:", False), ("911:920:", True)):
        _, batch = read(
            planner(routine(), horizon=910),
            transaction(30, begun(1, snapshot=snapshot), ended(1), xid=920),
        )
        assert (batch.fallbacks == []) is sent


def test_the_horizon_without_calls_is_every_transaction() -> None:
    _, batch = read(planner(), transaction(10, insert(1), xid=910))
    assert batch.horizon == 910


def test_transaction_ids_beyond_32_bits() -> None:
    known = ReaderArticles(
        builder=CommandBuilder([ARTICLE]),
        originators={},
        calls={20: routine()},
        horizon=2**32 - 100,
    )
    one = LogPlanner(known, publisher=3, read_to=0, next_xid=2**32 + 5)
    _, batch = read(
        one,
        transaction(10, insert(1), xid=2**32 - 2),
        transaction(20, insert(1), xid=3),
        transaction(30, begun(1, snapshot=f"{2**32 + 3}:{2**32 + 5}:{2**32 + 3}"), ended(1), xid=4),
        transaction(40, begun(2, snapshot=f"{2**32 + 4}:{2**32 + 5}:"), ended(2), xid=5),
    )
    assert batch.fallbacks == [(30, 20)]
    assert batch.horizon == 2**32 + 3 or batch.horizon == 2**32 + 5


# -- branch markers, definitions, errors ----------------------------------------------------------


def test_after_another_mark_calls_travel_as_rows() -> None:
    commands, batch = read(
        planner(routine()),
        transaction(
            10, begun(1), insert(1), ended(1), mark("link_a"), begun(2), insert(2), ended(2)
        ),
    )
    assert kinds(commands) == [(20, 30), (7, 1)]
    assert batch.remarked == []  # no part was streamed: all commands have the last mark


def test_a_definition_is_carried_where_it_stands() -> None:
    commands, _ = read(
        planner(routine()),
        transaction(
            10, begun(1), ended(1), posted('{"article": 20, "definition": "é"}'), insert(1)
        ),
    )
    assert kinds(commands) == [(20, 30), (20 + BESIDE, 31), (7, 1)]
    assert commands[1][2] == '{"definition": "é"}'.encode()


def test_a_definition_of_a_routine_whose_calls_nobody_takes() -> None:
    commands, _ = read(planner(), transaction(10, posted('{"article": 20, "definition": "x"}')))
    assert kinds(commands) == [(20 + BESIDE, 31)]


def test_an_open_call_at_the_end() -> None:
    with pytest.raises(
        RemoteProtocolError, match=r"has call 1 in msrepl\.call_marker begin and not"
    ):
        read(planner(routine()), transaction(10, begun(1), insert(1)))


def test_marks_that_do_not_fit() -> None:
    with pytest.raises(
        RemoteProtocolError, match="ends call b'1', which is not the one that began"
    ):
        read(planner(routine()), transaction(10, begun(1), begun(2), ended(1), ended(2)))
