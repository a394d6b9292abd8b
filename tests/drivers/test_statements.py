"""What would end a transaction past its coordinator is recognised, and nothing else is taken for it."""

from __future__ import annotations

import pytest
from psycopg import sql

from twopc.drivers.statements import ending_word


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("commit", "commit"),
        ("  COMMIT;", "COMMIT"),
        ("end", "end"),
        ("rollback", "rollback"),
        ("rollback work", "rollback"),
        ("Start  Transaction read only", "Start  Transaction"),
        ("begin", "begin"),
        ("prepare transaction 'mine'", "prepare transaction"),
        ("-- it is time\ncommit", "commit"),
        ("/* so */ commit", "commit"),
        ("select 1; commit", "commit"),
        ("select 'it''s; not over'; commit", "commit"),
        ("select $$ ; $$; commit; begin", "commit"),
        (r"select e'\'; '; abort", "abort"),
        ("select 1 -- ;\n; end", "end"),
        (b"commit", "commit"),
        (b"select 1;commit", "commit"),
        (sql.SQL("commit"), "commit"),
        (sql.SQL("select {}; ").format(sql.Literal("a;b")) + sql.SQL("rollback"), "rollback"),
    ],
)
def test_it_is_recognised(query: object, word: str) -> None:
    assert ending_word(query) == word


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
    assert ending_word(query) == ""
