"""Tests of SQL tokens: parameters, tables, and statements that prevent a prepare."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twopc.sim.scenario import preparation, sqltext


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
    reason = preparation.forbidden_before_prepare(text)
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
    assert preparation.forbidden_before_prepare(text) is None


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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("select 1", {"select"}),
        ("select * from t for update", {"select"}),
        ("insert into t values (1) on conflict do update set n = 2", {"insert"}),
        (
            "with x as (delete from t returning *) insert into u select * from x",
            {"delete", "insert"},
        ),
        ("with x as (select 1) select * from x", {"select"}),
        ("select 1 as n into u", {"select", "select into"}),
        ("set local work_mem = '1MB'; update t set n = 1", {"set", "update"}),
        ("call p(1)", {"call"}),
        ("merge into t using u on t.id = u.id when matched then update set n = 1", {"merge"}),
        ("", set()),
    ],
)
def test_verbs(text, said):
    assert sqltext.verbs(text) == said


@pytest.mark.parametrize(
    ("text", "reads", "writes"),
    [
        ("select n from t where id = 1", "t", ""),
        ("select 1", "", ""),
        ("select count(*), sum(t.n) from t join u on t.id = u.id", "t u", ""),
        ("select * from t, u where t.id = u.id", "t u", ""),
        ("select * from t for update", "t", "t"),
        ("select * from t for no key update of t", "t", "t"),
        ("insert into t (id, n) values (1, 2)", "t", "t"),
        ("insert into t select * from u", "t u", "t"),
        ("insert into t values (1) on conflict (id) do update set n = 2", "t", "t"),
        ('update "t" set n = n - :a where id in (select id from u)', "t u", "t"),
        ("update public.t set n = 1", "t", "t"),
        ("delete from t using u where t.id = u.id", "t u", "t"),
        ("merge into t using u on t.id = u.id when matched then delete", "t u", "t"),
        ("with x as (delete from t returning *) select * from x", "t", "t"),
        ("with x(a, b) as (select 1, 2) insert into u select a from x", "u", "u"),
        ("select * from (select * from t) s", "t", ""),
        ("select * from (t join u using (id))", "t u", ""),
        ("select * from t where n is distinct from 3", "t", ""),
        ("select * from generate_series(1, 3) as g(n), t", "t", ""),
        ("update t set n = numeric(10, 2) '1'", "t", "t"),
        ("select t from u", "t u", ""),  # a column named like a table counts as one
        ("table t", "t", ""),
    ],
)
def test_tables(text, reads, writes):
    found = sqltext.tables(text, ["t", "u"])
    assert found == (frozenset(reads.split()), frozenset(writes.split()))


@pytest.mark.parametrize(
    "text",
    [
        "select * from somewhere",
        "select * from t, somewhere",
        "select * from (somewhere join t using (id))",
        "select * from t join other.t using (id)",
        "select raise_all(1)",
        "select * from t where mine.count(n) > 1",
        "update t set n = nextval('s')",
        "update somewhere set n = 1",
        "delete from t using somewhere",
        "with t as (select 1) select * from t",
        "call p(1)",
        "create table v (id int)",
        "select 1 as n into u",
        "savepoint a",
        "select * from t where extract(year from n) = 1",
    ],
)
def test_tables_not_known(text):
    assert sqltext.tables(text, ["t", "u"]) is None


PIECES = """
select from t u x ( ) , with as using join update delete insert into values set " ' . where 1 for
"""


@given(st.lists(st.sampled_from(PIECES.split())))
def test_whatever_it_is_it_is_looked_at(words):
    text = " ".join(words)
    found = sqltext.tables(text, ["t", "u"])
    assert found is None or found[1] <= found[0]
    assert sqltext.verbs(text) is not None


@st.composite
def queries(draw, depth=2):
    """Draw a SELECT, and the tables in it; ``v`` is not a known table."""
    sources, seen = [], set()
    for number in range(draw(st.integers(1, 2))):
        name = f"s{depth}{number}"
        shape = draw(st.sampled_from(["plain", "only", "schema", "as", "query", "join"]))
        table = draw(st.sampled_from("ttuuv"))
        if shape == "query" and depth:
            inner, inside = draw(queries(depth=depth - 1))
            sources.append(f"({inner}) as {name}")
            seen |= inside
            continue
        other = draw(st.sampled_from("tu"))
        seen |= {table} | ({other} if shape == "join" else set())
        sources.append(
            {
                "only": f"only {table} {name}",
                "schema": f"public.{table} {name}",
                "as": f'"{table}" as {name}',
                "join": f"{table} {name} left join {other} {name}x on {name}.id = {name}x.id",
            }.get(shape, f"{table} {name}")
        )
    text = f"select count(*) from {', '.join(sources)}"
    if depth and draw(st.booleans()):
        inner, inside = draw(queries(depth=depth - 1))
        text += f" where exists ({inner} limit 1)"
        seen |= inside
    return text, seen


@st.composite
def commands(draw):
    """Draw a statement, the tables in it, and those that it writes."""
    query, seen = draw(queries())
    table = draw(st.sampled_from("ttuuv"))
    shape = draw(st.sampled_from(["select", "lock", "insert", "update", "delete", "using", "with"]))
    if shape == "select":
        return query, seen, set()
    if shape == "lock":
        return f"{query} for update", seen, seen
    text = {
        "insert": f"insert into {table} (id) {query}",
        "update": f"update {table} set id = ({query}) where id = 1",
        "delete": f"delete from only {table} where id in ({query})",
        "using": f"delete from {table} using ({query}) q where {table}.id = q.count",
        "with": f"with q as ({query}), w as (update {table} set id = 1 returning id) select * from q, w",
    }[shape]
    return text, seen | {table}, {table}


@given(commands())
def test_no_table_is_passed_over(command):
    text, seen, written = command
    found = sqltext.tables(text, ["t", "u"])
    assert found == (None if "v" in seen else (seen, written)), text


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("select * from a, lateral (select 1) x, generate_series(1, 2) g", ["a"]),
        ("update only a set n = (select 1 from b where b.id = a.id)", ["a", "b"]),
        ("insert into a (id) select id from b on conflict (id) do update set n = excluded.n", ["a", "b"]),
        ("delete from a using b as c where c.id = a.id", ["a", "b"]),
        ("with recursive t(n) as (select 1 union all select n + 1 from t) select * from t, a", ["a"]),
        ("select extract(year from a), substring(b from 2), a is distinct from c", []),
        ("select * from rows from (generate_series(1, 2)) as x", []),
        ("select array(select id from \"A\") from only (b) for update of b", ["b", "A"]),
        ("select * from pg_catalog.pg_class, information_schema.tables", []),
        ("select 1 into made from a", []),
        ("truncate a", []),
    ],
)  # fmt: skip
def test_relations(text, names):
    """All names of tables in a statement are found, in any order."""
    assert sorted(token.name for token in sqltext.relations(text)) == sorted(names)
