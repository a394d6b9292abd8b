"""SQL tokens: parameters, statements, and what cannot be prepared."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.scenario import sqltext


@given(st.text(alphabet="ab:'\"$[]/*-;%\\\n éE1."))
def test_tokens_joined_are_the_text(text):
    assert "".join(token.text for token in sqltext.tokens(text)) == text


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("select :a + :b - :a", ["a", "b"]),
        ("select x::int, ':no', \":no\", $$ :no $$, $t$ :no $$ :no $t$", []),
        ("select a[1:n], a[:n], (array[1,2])[:x:y], :yes", ["yes"]),
        ("select 1 -- :no\n, :yes /* :no /* :no */ :no */", ["yes"]),
        (r"select E'it''s \' :no', :yes", ["yes"]),
        ("select U&'\\0041 :no', b'1', :yes", ["yes"]),
        ("call p(x := 1, y => :yes)", ["yes"]),
        ("select $1, :yes", ["yes"]),
        ("select 'open :no", []),
    ],
)
def test_parameters(text, names):
    assert sqltext.parameters(text) == names


def test_placeholders():
    text = "select :a, 5 % 2, 'x%:a', a like '%' || :a"
    assert sqltext.placeholders(text) == "select %(a)s, 5 %% 2, 'x%%:a', a like '%%' || %(a)s"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("; -- nothing\n;", 0),
        ("select 1;", 1),
        ("select ';'; select $$;$$", 2),
        (
            "create function f() returns int language sql begin atomic select 1; select 2; end; select 1",
            2,
        ),
        ("create function f() returns int begin atomic select case when true then 1 end; end", 1),
    ],
)
def test_statements(text, count):
    assert len(sqltext.statements(text)) == count


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("begin", "BEGIN"),
        ("START TRANSACTION", "START TRANSACTION"),
        ("select 1; Commit", "COMMIT"),
        ("prepare transaction 'x'", "PREPARE TRANSACTION"),
        ("rollback prepared 'x'", "ROLLBACK PREPARED"),
        ("savepoint a", ""),
        ("rollback to a", ""),
        ("rollback work to savepoint a", ""),
        ("release a", ""),
        ("prepare p as select 1", ""),
        ("select 'commit'", ""),
        ("update t set commit = 1", ""),
    ],
)
def test_transaction_control(text, found):
    assert sqltext.transaction_control(text) == found


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("notify x", "NOTIFY"),
        ("LISTEN x", "LISTEN"),
        ("unlisten *", "UNLISTEN"),
        ("select pg_notify('x', '')", "NOTIFY"),
        ("select pg_catalog.pg_notify('x', '')", "NOTIFY"),
        ("create temp table t (i int)", "a temporary object"),
        ("create local temporary table t (i int)", "a temporary object"),
        ("create or replace temp view v as select 1", "a temporary object"),
        ("create table pg_temp.t (i int)", "a temporary object"),
        ("select * into temp t from u", "a temporary object"),
        ("with a as (select 1) select * into temporary t from a", "a temporary object"),
        ("declare c cursor with hold for select 1", "a cursor WITH HOLD"),
        ("declare c scroll cursor with hold for select 1", "a cursor WITH HOLD"),
        ("select pg_export_snapshot()", "an exported snapshot"),
        ("select 1; notify x", "NOTIFY"),
    ],
)
def test_forbidden(text, what):
    reason = sqltext.forbidden_before_prepare(text)
    assert reason is not None
    assert reason.what == what


@pytest.mark.parametrize(
    "text",
    [
        "select 'notify x; create temp table t()'",
        "update t set notify = 1, listen = 2 where temp = 3",
        'insert into "temporary" values (1)',
        "select notify from t",
        "select pg_notify from t",
        "create table temp (i int)",
        "create table t (temp int, temporary int)",
        "declare c cursor for select hold from t",
        "declare c cursor without hold for select 1",
        "/* notify x */ select 1",
        "select $$ notify $$",
        "select 1 as temp",
    ],
)
def test_allowed(text):
    assert sqltext.forbidden_before_prepare(text) is None


@pytest.mark.parametrize(
    ("text", "locks"),
    [
        ("select 1", False),
        ("select * from t for update", True),
        ("select * from t for key share", True),
        ("with x as (delete from t returning *) select * from x", True),
        ("select 'update'", False),
    ],
)
def test_takes_locks(text, locks):
    assert sqltext.takes_locks(text) is locks


@pytest.mark.parametrize(
    ("text", "does"),
    [
        ("rollback to a", True),
        ("ROLLBACK TRANSACTION TO SAVEPOINT a", True),
        ("rollback", False),
        ("rollback prepared 'to'", False),
        ("savepoint to_b", False),
        ("", False),
    ],
)
def test_returns_to_savepoint(text, does):
    assert sqltext.returns_to_savepoint(text) is does


@pytest.mark.parametrize(
    ("text", "does"),
    [
        ("copy t from stdin", True),
        ("COPY (select 1) TO STDOUT", True),
        ("copy t from '/tmp/x'", False),
        ("select 'copy', 'stdin'", False),
    ],
)
def test_copies(text, does):
    assert sqltext.copies(text) is does
