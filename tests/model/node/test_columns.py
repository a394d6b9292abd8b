"""Tests of statements after a column of a table with rows was dropped or retyped."""

from __future__ import annotations

from tests.model.node.playing import world
from twopc.sim.model.node.columns import drop_column, retype_column
from twopc.sim.model.sql import types

_ITEM = """
create table item (id int primary key, gone text default 'x', n int check (n < 100), code varchar(3));
insert into item values (1, 'a', 10, 'abc');
"""


def test_no_statement_means_a_dropped_column() -> None:
    """No statement refers to a dropped column; keys and checks of the others still hold, and its name is free again."""
    w = world(_ITEM)
    drop_column(w.node.table("item"), "gone")
    w.node.plans.forget()
    a = w.player("a")
    a.play("select * from item", "insert into item values (2, 20, 'd') returning *")
    w.run()
    assert a.rows == [(2, 20, "d")]
    b = w.player("b")
    b.play("select * from item order by id", "select gone from item")
    w.run()
    assert b.told[0] == "SELECT 2"
    assert b.told[1].startswith("42703")
    c = w.player("c")
    c.play("update item set n = 200", "insert into item values (1, 1, 'e')")
    w.run()
    assert [each[:5] for each in c.told] == ["23514", "23505"]
    w.node.define("alter table item add column gone int default 7")
    d = w.player("d")
    d.play("select * from item where id = 1")
    w.run()
    assert d.rows == [(1, 10, "abc", 7)]


def test_a_retyped_column_takes_more() -> None:
    """A retyped column holds values of its new type, also in the key by which rows are found."""
    w = world(_ITEM)
    for name, type_ in (("id", "bigint"), ("n", "numeric"), ("code", "text")):
        retype_column(w.node.table("item"), name, types.named(type_))
    w.node.plans.forget()
    a = w.player("a")
    a.play("insert into item values (3000000000, 'b', 1.5, 'longer') returning id, n, code")
    w.run()
    assert [tuple(map(str, row)) for row in a.rows] == [("3000000000", "1.5", "longer")]
    b = w.player("b")
    b.play("insert into item values (1, 'again', 1, '')")
    w.run()
    assert b.told[0].startswith("23505")
