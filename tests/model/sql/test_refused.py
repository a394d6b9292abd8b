"""Tests that settings, modes, clauses and definitions that the model does not support are refused by name."""

from __future__ import annotations

import json

import pytest

from twopc.errors import ScenarioError
from twopc.sim.report.history import History
from twopc.sim.scenario.check import parse
from twopc.sim.scenario.model_check import unknown
from twopc.sim.scenario.model_theatre import ModelTheatre
from twopc.sim.scenario.run import run
from twopc.sim.scenario.theatres import played
from twopc.sim.scenario.values import Cell

HEAD = """\
twopc: 1
name: refused
about: Written in a test.
topology: {publisher: pub, subscribers: [sub1]}
tables: {t: {columns: {id: int primary key, n: int}, rows: [{id: 1, n: 1}]}}
"""


def refused(sql: str) -> list[str]:
    """Return the messages of `twopc check --on model` about one statement."""
    steps = f"sessions: {{a: {{node: pub, steps: [s: {{sql: {json.dumps(sql)}}}]}}}}\n"
    orders = "orders: [{name: o, steps: [s], expect: {otherwise: any}}]\n"
    return [message for _, message in unknown(parse(HEAD + steps + orders).scenario, Cell())]


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("set deadlock_timeout = '10ms'", "the setting deadlock_timeout"),
        ("set local statement_timeout = '10ms'", "SET LOCAL statement_timeout"),
        ("set enable_seqscan = off", "the setting enable_seqscan"),
        ("set time zone 'Europe/Rome'", "SET TIME ZONE"),
        ("set search_path = other", "another search_path than public (other)"),
        ("reset work_mem", "the setting work_mem"),
        ("show work_mem", "the setting work_mem"),
        ("set transaction read only", "SET TRANSACTION READ ONLY"),
        ("select distinct on (n) id, n from t", "DISTINCT ON"),
        ("select * from t fetch first 1 row only", "FETCH FIRST"),
        ("select * from only t", "ONLY"),
        ("select t from t", "a row as a value (t)"),
        ("select xmin from t", "the system column xmin"),
        ("delete from t where t.ctid is null", "the system column ctid"),
        ("select * from (select * from t for update) as s", "row locks in a subquery"),
        ("insert into t select id + 9, n from t for update", "row locks in a subquery"),
        ("with x as (select 1) update t set n = 2", "WITH"),
        ("with x as (select 1) delete from t", "WITH"),
        ("with x as (select 1 as i) insert into t select i + 5, 1 from x", "WITH"),
        ("delete from t returning old.n", "OLD in RETURNING"),
        ("truncate t restart identity", "TRUNCATE … RESTART IDENTITY"),
        ("vacuum full t", "VACUUM FULL"),
        ("reindex table t", "REINDEX"),
        ("revoke all on t from public", "REVOKE"),
        ("select array_agg(n order by id) from t", "ORDER BY here"),
        ("select (array_agg(n))[1] from t", "a subscript"),
        ("create unlogged table u (id int)", "CREATE TABLE … UNLOGGED"),
        ("create table u (id int) partition by range (id)", "CREATE TABLE … PARTITION BY RANGE(id)"),
        ("create table u (id int generated always as identity (start with 5))",
         "START in GENERATED ALWAYS AS IDENTITY (START WITH 5)"),
        ("create unique index on t using hash (n)", "USING"),
        ("create sequence s", "CREATE SEQUENCE"),
        ("alter table t alter column n set not null", "ALTER TABLE … ALTER COLUMN n SET NOT NULL"),
        ("alter role postgres set lock_timeout = '1s'", "ALTER ROLE"),
        ("create function f(a int) returns int language sql strict as $$ select 1 $$",
         "STRICT of a routine or a trigger"),
        ("create table u (id itn primary key)", "the type itn"),
        ("discard plans", "DISCARD PLANS"),
        ("comment on function f() is 'x'", "COMMENT ON FUNCTION"),
        ("grant create on schema public to public", "GRANT CREATE ON SCHEMA"),
        ("grant set on parameter session_replication_role to public", "GRANT ON PARAMETER"),
        ("grant pg_monitor to public", "GRANT of a role"),
        ("set lock_timeout = '1e3'", "this form of a duration (1e3)"),
        ("set search_path = other, public", "another search_path than public (other, public)"),
        ("select * from t where n = 1 is not unknown", "IS UNKNOWN"),
        ("set session characteristics as transaction read only", "SET SESSION CHARACTERISTICS"),
    ],
)  # fmt: skip
def test_by_name(sql: str, what: str) -> None:
    assert refused(sql) == [f"the model does not know {what}"]


@pytest.mark.parametrize(
    "sql",
    [
        "set lock_timeout = '10ms'",
        "set local lock_timeout = 0",
        "set search_path to public",
        "set app.user = 'alice'",
        "set transaction isolation level serializable, read write",
        "insert into t as tt values (7, 1) on conflict (id) do update set n = tt.n + 1",
        "create index on t (n)",
        "drop table if exists child, other cascade",
        "grant select on t to public",
        "select * from t where 'this is unknown' = ' is unknown '",
    ],
)
def test_what_it_has(sql: str) -> None:
    assert refused(sql) == []


def test_words_after_an_order() -> None:
    """A text may contain several statements; an error of the model quotes a table's name as written."""
    loaded = parse(
        HEAD
        + "teardown: 'drop table if exists child; drop function if exists f; drop table absent'\n"
        "sessions: {a: {node: pub, steps: [s: {sql: select n from t}]}}\n"
        "orders: [{name: o, steps: [s]}]\n"
    )

    async def playing() -> None:
        async with ModelTheatre() as theatre:
            await run(loaded, theatre, History())

    with pytest.raises(ScenarioError, match='the model says: table "absent" does not exist'):
        played("model", playing())
