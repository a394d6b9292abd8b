"""Tests of the scan of a routine's text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twopc.lexer import ends_transaction
from twopc.publisher.proc_execution.scan import (
    DatabaseRoutines,
    source_of,
    strange_type,
    warnings_of,
    words_of,
)
from twopc.publisher.proc_execution.writes import ArticleLimits

_INSIDE = st.text("ab ;'\"$\\/*-\n", max_size=12)


def hidden(words: str) -> st.SearchStrategy[str]:
    """Draw a text that contains these words where they have no meaning."""
    return st.one_of(
        _INSIDE.map(lambda t: "'" + (t + words).replace("'", "''").replace("\\", "") + "'"),
        _INSIDE.map(lambda t: "E'" + (t + words).replace("\\", "\\\\").replace("'", "\\'") + "'"),
        _INSIDE.map(lambda t: "$x$" + t.replace("$", "") + words + "$x$"),
        _INSIDE.map(lambda t: "--" + t.replace("\n", "") + words + "\n"),
        _INSIDE.map(lambda t: "/* /* " + t.replace("*", "").replace("/", "") + "*/" + words + "*/"),
        _INSIDE.map(lambda t: '"' + (t + words).replace('"', '""') + '"'),
    )


@given(hidden("; commit; now() "), hidden(" begin rollback;"))
def test_words_in_strings_and_comments_never_count(one: str, other: str) -> None:
    source = f"begin {one} ; select {other} ; end"
    assert not ends_transaction(source)
    assert [each for each in words_of(source) if each[0] != '"'] == ["begin", "select", "end"]
    assert warnings_of(source, tables={}, known=DatabaseRoutines()) == ()


@given(hidden("x"), st.sampled_from(["COMMIT", "rollback"]))
def test_statements_beside_them_count(one: str, word: str) -> None:
    assert ends_transaction(f"begin perform {one}; {word}; end")


@pytest.mark.parametrize(
    "source",
    [
        "select commit from t",
        "begin perform t.rollback; end",
        'insert into "commit" values (1)',
        "update t set commit = 1",
    ],
)
def test_columns_of_that_name(source: str) -> None:
    assert not ends_transaction(source)


@pytest.mark.parametrize(
    "source",
    [
        "begin commit; end",
        "begin if true then rollback; end if; end",
        "<<a>> commit",
        "COMMIT AND CHAIN",
    ],
)
def test_statements(source: str) -> None:
    assert ends_transaction(source)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("select now()", ("clock", "now")),
        ("select now from t", None),
        ("insert into x values (current_timestamp)", ("clock", "current_timestamp")),
        ("select gen_random_uuid()", ("random", "gen_random_uuid")),
        ("select nextval('s')", ("sequence", "nextval")),
        ("select current_user", ("session", "current_user")),
        ("select pg_catalog.current_setting('x')", ("session", "current_setting")),
        ("update t set a = 1 where id in (select id from t limit 1)", ("order", "limit")),
        ("select id from t order by id limit 1", None),
        ("select 1 order by 1; select id from t limit 1", ("order", "limit")),
        ("fetch c into x", None),
        ("select id from t fetch first row only", ("order", "fetch")),
        ("begin execute 'x'; end", ("dynamic", "execute")),
        ("update part set a = 1", ("row_filter", "part")),
        ("update app.part set a = 1", ("row_filter", "part")),
        ("insert into made (a) values (1)", ("identity", "made")),
        ("update made set a = 1", None),
        ("select a from elsewhere", ("unpublished", "elsewhere")),
        ('select a from "Else where"', ("unpublished", "Else where")),
        ("perform helper()", ("clock", "clock_timestamp")),
        ("select whole.a from whole", None),
    ],
)
def test_warnings(source: str, found: tuple[str, str] | None) -> None:
    known = DatabaseRoutines(
        unpublished=frozenset({"elsewhere", "Else where"}),
        made={"made": "id"},
        functions={"helper": "select clock_timestamp()"},
    )
    warned = warnings_of(source, tables={"part": True, "made": False, "whole": False}, known=known)
    assert [(each.kind, each.object) for each in warned] == ([found] if found else [])
    assert all(each.object in each.text.lower() or each.object in each.text for each in warned)


def test_what_functions_use() -> None:
    known = DatabaseRoutines(
        unpublished=frozenset({"elsewhere"}), functions={"helper": "select from elsewhere"}
    )
    [warning] = warnings_of("perform helper()", tables={}, known=known)
    assert warning.text.startswith(
        "table elsewhere is used by function helper and is not published"
    )


def test_what_is_not_declared() -> None:
    known = DatabaseRoutines(declared=frozenset({"a"}))
    [warning] = warnings_of(
        "update b set x = 1; select from a", tables={"a": False, "b": False}, known=known
    )
    assert (warning.kind, warning.object) == ("not_declared", "b")


def test_source_of_a_definition() -> None:
    assert (
        source_of("CREATE ... \n LANGUAGE sql\nAS $procedure$a $x$\nAS $procedure$") == "a $x$\nAS "
    )
    assert source_of("CREATE ...\nBEGIN ATOMIC\n SELECT 1;\nEND").startswith("CREATE")


def test_strange_types() -> None:
    assert [each for each in ("oid", "regclass[]", "integer", "xid8", "public.oid2") if strange_type(each)] == [
        "oid", "regclass[]", "xid8",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("update t set region = 'n'", ("moves", "t.region")),
        ("update only app.t as x set a = 1, region = 'n' where id = 1", ("moves", "t.region")),
        ("update t set (a, region) = (1, 'n')", ("moves", "t.region")),
        ("update t set a = 1 where region = 'n'", None),
        ("insert into t (id, region) values (1, 'n')", None),
        ("update t set secret = 1", ("column", "t.secret")),
        ("insert into t (id, secret) values (1, 2)", ("column", "t.secret")),
        ("select secret from elsewhere", None),
        ("if found then delete from app.t where id = 1; end if", ("stays", "t")),
        ("merge into t using s on t.id = s.id when matched then delete", ("stays", "t")),
        ("select id from t for update", None),
        ("delete from other", None),
    ],
)
def test_writes_that_do_not_travel_so(source: str, found: tuple[str, str] | None) -> None:
    """Writes to columns, and operations, that rows would not carry cause warnings."""
    narrow = ArticleLimits(
        left_out=frozenset({"secret"}), decides=frozenset({"region"}), stays=frozenset({"del"})
    )
    known = DatabaseRoutines(narrow={"t": narrow})
    warned = warnings_of(source, tables={"t": False}, known=known)
    assert [(each.kind, each.object) for each in warned] == ([found] if found else [])


@pytest.mark.parametrize(
    ("source", "stays"),
    [
        ("insert into t values (1)", True),
        ("if found then insert into app.t as x (id) select 1; end if", True),
        ("merge into t using s on t.id = s.id when not matched then insert values (1)", True),
        ("delete from t; insert into other values (1)", False),
        ("update t set id = 1", False),
    ],
)
def test_inserts_that_do_not_travel(source: str, stays: bool) -> None:
    """An INSERT that rows would not carry causes a warning if it is into the article's table."""
    known = DatabaseRoutines(narrow={"t": ArticleLimits(stays=frozenset({"ins"}))})
    warned = warnings_of(source, tables={"t": False}, known=known)
    assert [(each.kind, each.object, each.text[:17]) for each in warned] == (
        [("stays", "t", "INSERT of table t")] if stays else []
    )
