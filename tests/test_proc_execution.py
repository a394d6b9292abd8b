"""Tests of calls of routines: the order of the gate's checks, texts of calls, the snapshot rule."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twopc.proc_execution import (
    Argument,
    GateFacts,
    PgSnapshot,
    ProcArticle,
    ProcCall,
    ProcType,
    ProcWarning,
    Writers,
    base_of,
    beside,
    call_text,
    gate_verdict,
)

ARTICLE = ProcArticle(
    article_id=7,
    schema="public",
    name="give_raise",
    kind="p",
    arguments=(
        Argument(name="pct", mode="i", type="numeric"),
        Argument(name="", mode="o", type="integer"),
        Argument(name="who", mode="v", type="text[]"),
    ),
    reads=("employees",),
    writes=("employees", "hr.log"),
    definition="CREATE OR REPLACE PROCEDURE public.give_raise() ...",
    obstacle="table employees has trigger t",
    warnings=(ProcWarning(kind="clock", object="now", text="now() is another at a Subscriber"),),
)
FACTS = GateFacts(
    type=ProcType.SERIALIZABLE,
    isolation="serializable",
    read_only=False,
    called=True,
    origin=True,
    obstacle=False,
    temporary=False,
    branch=False,
)
#: Every fact that prevents a call, in the order in which they are checked.
AGAINST: list[tuple[str, dict[str, object]]] = [
    ("read_only", {"read_only": True}),
    ("nobody", {"called": False}),
    ("isolation", {"isolation": "repeatable read"}),
    ("replica", {"origin": False}),
    ("obstacle", {"obstacle": True}),
    ("temporary", {"temporary": True}),
    ("branch", {"branch": True}),
]


@pytest.mark.parametrize("place", range(len(AGAINST)))
def test_first_fact_against_a_call_wins(place: int) -> None:
    facts = FACTS
    for _, change in AGAINST[place:]:
        facts = dataclasses.replace(facts, **change)  # type: ignore[arg-type]
    assert gate_verdict(facts) == AGAINST[place][0]


def test_nothing_against_a_call() -> None:
    assert gate_verdict(FACTS) is None


@pytest.mark.parametrize(
    ("type_", "isolation", "verdict"),
    [
        (ProcType.SERIALIZABLE, "read committed", "isolation"),
        (ProcType.PLAIN, "read uncommitted", "isolation"),
        (ProcType.PLAIN, "read committed", None),
        (ProcType.PLAIN, "repeatable read", None),
        (ProcType.PLAIN, "serializable", None),
        (ProcType.SCHEMA_ONLY, "serializable", "nobody"),
    ],
)
def test_isolation_by_type(type_: ProcType, isolation: str, verdict: str | None) -> None:
    assert gate_verdict(dataclasses.replace(FACTS, type=type_, isolation=isolation)) == verdict


def test_an_article_is_stored_and_read() -> None:
    assert ProcArticle.from_json(ARTICLE.as_json()) == ARTICLE
    undeclared = dataclasses.replace(ARTICLE, reads=None, writes=None, warnings=(), obstacle=None)
    stored = undeclared.as_json()
    for optional in ("definition", "obstacle", "warnings"):
        del stored[optional]
    assert ProcArticle.from_json(stored) == dataclasses.replace(undeclared, definition="")


def test_identity_and_tables() -> None:
    assert ARTICLE.identity == "public.give_raise(numeric, text[])"
    odd = dataclasses.replace(ARTICLE, schema="Hr", name='odd "name"', arguments=())
    assert odd.identity == '"Hr"."odd ""name"""()'
    assert ARTICLE.tables == frozenset({"employees", "hr.log"})
    assert dataclasses.replace(ARTICLE, reads=None).tables is None
    assert dataclasses.replace(ARTICLE, writes=None).tables is None


_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(
    st.lists(st.none() | _TEXTS).map(tuple),
    st.lists(_TEXTS).map(tuple),
    st.dictionaries(_TEXTS, _TEXTS),
    st.none() | st.just("23503"),
)
def test_a_call_is_stored_and_read(
    values: tuple[str | None, ...],
    types: tuple[str, ...],
    settings: dict[str, str],
    failure: str | None,
) -> None:
    call = ProcCall(values=values, types=types, settings=settings, failure=failure)
    assert ProcCall.parse(call.as_text()) == call


def test_a_call_is_short() -> None:
    call = ProcCall(values=("10",), settings={"search_path": '"$user", public'})
    assert call.as_text() == '{"v":["10"],"s":{"search_path":"\\"$user\\", public"}}'


def test_a_call_is_readable() -> None:
    assert call_text(ARTICLE, ProcCall(values=("10", "{it's}"))) == (
        "{call \"public\".\"give_raise\" (10, '{it''s}')}"
    )
    assert call_text(ARTICLE, ProcCall(values=(None, "5"), types=("text", "integer"))) == (
        '{call "public"."give_raise" (NULL, 5)}'
    )


# -- the snapshot rule ----------------------------------------------------------------------------

A, B = frozenset({"a"}), frozenset({"b"})


@pytest.mark.parametrize(
    ("snapshot", "tables", "seen"),
    [
        ("105:105:", A, True),
        ("104:105:104", A, False),
        ("104:105:104", B, True),
        ("104:105:104", None, False),
        ("103:104:", A, False),
        ("103:106:103", A, True),
        ("100:106:", A, False),  # it began before the horizon
    ],
)
def test_snapshot_rule(snapshot: str, tables: frozenset[str] | None, seen: bool) -> None:
    writers = Writers(100)
    writers.note(104, A)
    writers.note(102, B)
    assert writers.sees_all(PgSnapshot.parse(snapshot), tables) == seen


def test_who_wrote_any_table_counts_for_all() -> None:
    writers = Writers(0)
    writers.note(104, None)
    assert not writers.sees_all(PgSnapshot.parse("104:105:104"), B)


def test_the_horizon_begins_where_the_last_one_ended() -> None:
    writers = Writers(100)
    writers.note(107, A)
    writers.note(103, A)
    assert (writers.horizon, writers.highest) == (100, 107)
    again = Writers(writers.highest)
    assert not again.sees_all(PgSnapshot.parse("107:109:107"), B)
    assert again.sees_all(PgSnapshot.parse("108:109:"), B)


def test_who_is_forgotten_raises_the_horizon() -> None:
    writers = Writers(0, kept=2)
    for xid in (30, 10, 20):
        writers.note(xid, A)
    assert (writers.horizon, writers.highest) == (30, 30)
    writers.note(40, A)
    assert writers.horizon == 30
    assert not writers.sees_all(PgSnapshot.parse("30:50:"), B)
    assert writers.sees_all(PgSnapshot.parse("31:50:"), A)


def test_numbers_beside() -> None:
    assert base_of(beside(7)) == base_of(7) == 7
    assert (beside(9_999_999) * 100 + 31) < 2**31
