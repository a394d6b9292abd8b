"""Tests of the recognition of statements that end a transaction or leave state in its session."""

from __future__ import annotations

import pytest
from psycopg import sql

from twopc.drivers.statements import Trace, ending_command, trace_of


@pytest.mark.parametrize(
    ("query", "command"),
    [
        ("commit", "COMMIT"),
        ("  COMMIT;", "COMMIT"),
        ("end", "END"),
        ("rollback", "ROLLBACK"),
        ("rollback work", "ROLLBACK"),
        ("Start  Transaction read only", "START TRANSACTION"),
        ("begin", "BEGIN"),
        ("prepare transaction 'mine'", "PREPARE TRANSACTION"),
        ("-- it is time\ncommit", "COMMIT"),
        ("/* so */ commit", "COMMIT"),
        ("select 1; commit", "COMMIT"),
        ("select 'it''s; not over'; commit", "COMMIT"),
        ("select $$ ; $$; commit; begin", "COMMIT"),
        (r"select e'\'; '; abort", "ABORT"),
        ("select 1 -- ;\n; end", "END"),
        (b"commit", "COMMIT"),
        (b"select 1;commit", "COMMIT"),
        (sql.SQL("commit"), "COMMIT"),
        (sql.SQL("select {}; ").format(sql.Literal("a;b")) + sql.SQL("rollback"), "ROLLBACK"),
    ],
)
def test_it_is_recognised(query: object, command: str) -> None:
    assert ending_command(query) == command


@pytest.mark.parametrize(
    "query",
    [
        "",
        ";",
        "update account set note = 'x; commit'",
        "select $b$; commit; $b$",
        "do $$ begin perform 1; end $$",
        "do $$ begin perform 1; end $$; select 1",
        'select 1 as "; commit"',
        "rollback to savepoint a",
        "rollback work to a",
        "select 1; rollback transaction to savepoint a",
        "savepoint a; release a",
        "prepare p as select 1",
        "select 1 /* ; commit */",
        "select 1 -- ; commit",
        "create function f() returns int begin atomic select 1; select 2; end",
        "committed",
        "select ending from beginnings; select 2",
        sql.SQL("select {}").format(sql.Literal("; commit")),
    ],
)
def test_nothing_else_is(query: object) -> None:
    assert ending_command(query) == ""


@pytest.mark.parametrize(
    ("query", "trace"),
    [
        ("set role alice", Trace.DIRT),
        ("/* be her */ SET SESSION ROLE alice", Trace.DIRT),
        ("set session authorization alice", Trace.DIRT),
        ("set session session authorization alice", Trace.DIRT),
        ("reset role", Trace.DIRT),
        ('set "role" to alice', Trace.DIRT),
        ("select set_config('role', 'alice', false)", Trace.DIRT),
        (
            "select set_config('app.user', 'a', true), set_config('ROLE', 'alice', false)",
            Trace.DIRT,
        ),
        ("select set_config($1, 'the role', false)", Trace.DIRT),
        ("select pg_advisory_lock(1)", Trace.DIRT),
        ("select pg_try_advisory_lock_shared (1)", Trace.DIRT),
        ("select 1; listen somebody", Trace.DIRT),
        ("declare c cursor with hold for select 1", Trace.DIRT),
        ("create or replace local temp view v as select 1", Trace.DIRT),
        ("select 1 as n into temporary t", Trace.DIRT),
        ("create table pg_temp.t (n int)", Trace.DIRT),
        ("prepare p as select 1", Trace.STAIN),
        ("select 1; prepare p as select 1", Trace.STAIN),
        (b"load 'auto_explain'", Trace.STAIN),
        # every BEGIN resets settings
        ("set search_path = elsewhere", Trace.NONE),
        ("select set_config('app.user', 'the role', false)", Trace.NONE),
        ("set local role alice", Trace.NONE),
        ("select pg_advisory_xact_lock(1)", Trace.NONE),
        ("update role set temperature = 1 where prepared and load > threshold", Trace.NONE),
        ("select 'listen', '; prepare p' -- ; load", Trace.NONE),
        (sql.SQL("insert into t values ({})").format(sql.Literal("; prepare p")), Trace.NONE),
    ],
)
def test_what_is_left_in_the_session(query: object, trace: Trace) -> None:
    assert trace_of(query) is trace
