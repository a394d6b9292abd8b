"""Tests of delivery from a commit to the Subscribers: formats, partitions, order, and what is omitted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.model.distribution.rig import ACCOUNT, Rig
from twopc.errors import DeliveryError
from twopc.sim.model.values import SqlError, SubscriberSpec, TableSpec

SUB1 = SubscriberSpec(name="sub1")


def test_changes_travel() -> None:
    rig = Rig()
    rig.at(
        "pub",
        "update account set balance = 50 where id = 1",
        "insert into account values (3, 'eve', 7)",
    )
    rig.at("pub", "delete from account where id = 2")
    done = rig.sync()
    assert (done["sub1"].transactions, done["sub1"].commands) == (2, 3)
    assert rig.balances("sub1") == {"1": "50", "3": "7"}
    assert rig.converged()
    assert rig.sync()["sub1"].transactions == 0


#: All that a format can carry: changed and unchanged values, NULL, quotes, another key.
CHANGES = (
    "insert into account values (3, 'e\"v\\e, (it''s)', 7), (4, null, 0)",
    "update account set balance = 1 where id = 1",
    "update account set owner = null where id = 3",
    "update account set owner = '' where id = 4",
    "update account set id = 9, balance = 2 where id = 2",
    "delete from account where id = 4",
)


@pytest.mark.parametrize(
    "propagate",
    [
        {},
        {"upd": "CALL"},
        {"upd": "MCALL"},
        {"upd": "XCALL", "del": "XCALL"},
        {"ins": "SQL", "upd": "SQL", "del": "SQL"},
    ],
)
def test_every_format_says_the_same(propagate: dict[str, str]) -> None:
    rig = Rig(SUB1, tables=[replace(ACCOUNT, propagate=propagate)])
    for text in CHANGES:
        rig.at("pub", text)
    rig.at("pub", *CHANGES[1:2], "update account set balance = balance + 1")
    assert rig.sync()["sub1"].transactions == len(CHANGES) + 1
    assert rig.converged()


def test_none_is_not_sent() -> None:
    rig = Rig(SUB1, tables=[replace(ACCOUNT, propagate={"del": "NONE"})])
    rig.at("pub", "delete from account where id = 1", "update account set balance = 3 where id = 2")
    rig.sync()
    assert rig.balances("sub1") == {"1": "100", "2": "3"}


AUDIT = """
create function sp_audited(c1 int, c2 text, c3 int, c4 uuid, pkc1 int, bitmap bytea) returns void
language plpgsql as $$
begin
    insert into audit select a.id, a.balance, c3 from account a where a.id = pkc1;
    update account set owner = c2, balance = c3, msrepl_tran_version = c4 where id = pkc1;
    if not found then perform msrepl.sp_msreplraiserror(20598); end if;
end $$
"""


def test_a_procedure_of_the_users() -> None:
    rig = Rig(
        SUB1,
        tables=[replace(ACCOUNT, propagate={"upd": "MCALL sp_audited"})],
        sql={"sub1": ("create table audit (id int primary key, was int, now int)", AUDIT)},
    )
    rig.at("pub", "update account set balance = balance + 1")
    rig.sync()
    assert rig.converged()
    assert rig.rows("sub1", "audit") == [
        {"id": "1", "was": "100", "now": "101"},
        {"id": "2", "was": "100", "now": "101"},
    ]
    rig.nodes["sub1"].define("delete from account where id = 1")
    rig.nodes["sub1"].define("delete from audit")
    rig.at("pub", "update account set balance = 0 where id = 1")
    with pytest.raises(DeliveryError, match="20598") as caught:
        rig.sync()
    assert caught.value.number == 20598


def test_a_procedure_that_is_not_there() -> None:
    with pytest.raises(SqlError, match="sp_gone") as caught:
        Rig(SUB1, tables=[replace(ACCOUNT, propagate={"upd": "CALL sp_gone"})])
    assert caught.value.sqlstate == "42883"


def test_something_else_in_place_of_a_default_procedure() -> None:
    body = """
    create function sp_msdel_account(pkc1 int) returns void language plpgsql as $$
    begin update account set owner = 'gone' where id = pkc1; end $$
    """
    rig = Rig(SUB1, sql={"sub1": (body,)})
    rig.at("pub", "delete from account where id = 1")
    rig.sync()
    assert [row["owner"] for row in rig.rows("sub1")] == ["gone", "bob"]


def test_moves_into_and_out_of_a_partition() -> None:
    table = replace(ACCOUNT, filter="balance >= 100")
    part = SubscriberSpec(name="sub2", filters={"account": "owner <> 'bob'"})
    rig = Rig(SUB1, part, tables=[table])
    rig.at("sub2", "delete from account where id = 2")  # a row that is not in the filtered copy
    rig.at("pub", "insert into account values (3, 'eve', 1), (4, 'kim', 200)")
    rig.at(
        "pub",
        "update account set balance = 99 where id = 1",
        "update account set balance = 300 where id = 3",
    )
    rig.at("pub", "update account set owner = 'joe' where id = 2")
    rig.sync()
    assert rig.balances("sub1") == {"2": "100", "3": "300", "4": "200"}
    assert rig.balances("sub2") == {"2": "100", "3": "300", "4": "200"}
    rig.at(
        "pub", "update account set owner = 'bob' where id = 4", "delete from account where id = 3"
    )
    rig.sync()
    assert rig.balances("sub1") == {"2": "100", "4": "200"}
    assert rig.balances("sub2") == {"2": "100"}


def test_columns_that_are_not_published() -> None:
    rig = Rig(SUB1, tables=[replace(ACCOUNT, published=("id", "balance"))])
    rig.nodes["sub1"].define("alter table account alter column owner set default 'nobody'")
    rig.at(
        "pub",
        "insert into account values (3, 'eve', 7)",
        "update account set owner = 'x', balance = 5 where id = 1",
    )
    rig.sync()
    assert [row["owner"] for row in rig.rows("sub1")] == ["ada", "bob", "nobody"]
    assert rig.balances("sub1") == rig.balances("pub")


def test_a_column_that_was_not_there_when_it_was_published() -> None:
    rig = Rig(SUB1)
    rig.nodes["pub"].define("alter table account add column more int")
    rig.at("pub", "update account set balance = 0")
    with pytest.raises(Exception, match="twopc regenerate"):
        rig.sync()


def test_own_changes_do_not_come_back() -> None:
    rig = Rig()
    rig.own(
        "sub1", "insert into account values (3, 'eve', 7, '00000000-0000-0000-0000-000000000003')"
    )
    done = rig.sync()
    assert (done["sub1"].transactions, done["sub2"].transactions) == (0, 1)
    assert rig.converged()
    told = rig.distribution.take_deliveries()
    assert [(one.node, one.origin, one.suppressed) for one in told] == [
        ("sub1", "sub1", True),
        ("sub2", "sub1", False),
    ]
    assert told[0].gid == "twopc:c:1:1"


def test_two_subscription_databases_in_one_transaction() -> None:
    """The last branch marker determines the originator of the whole transaction.

    One Subscriber gets its own change back, and the other never gets a change that it lacks.
    """
    rig = Rig(SUB1, SubscriberSpec(name="sub2"), SubscriberSpec(name="sub3"))

    def both() -> Any:
        session = rig.nodes["pub"].connect("app", "app")
        table = rig.nodes["pub"].table("msrepl.branch_marker")
        table.indexes[1:] = []  # without the index that permits only one marker per transaction
        yield from session.execute("begin")
        yield from rig.mark(session, "sub1")
        yield from session.execute("update account set balance = 1 where id = 1")
        yield from rig.mark(session, "sub2")
        yield from session.execute("update account set balance = 2 where id = 2")
        yield from session.execute("commit")

    rig.run(both())
    rig.at("sub1", "update account set balance = 1 where id = 1")
    rig.at("sub2", "update account set balance = 2 where id = 2")
    done = rig.sync()
    assert {name: each.commands for name, each in done.items()} == {"sub1": 2, "sub2": 0, "sub3": 2}
    assert rig.balances("sub2") == {"1": "100", "2": "2"}
    assert [each.marks for each in rig.distribution.store.transactions] == [2]


def test_triggers_do_not_fire_for_agents() -> None:
    text = """
    create function count_it() returns trigger language plpgsql as $$
    begin insert into seen values (new.id); return new; end $$
    """
    fires = "create trigger {} after update on account for each row execute function count_it()"
    rig = Rig(
        SUB1, SubscriberSpec(name="sub2"),
        sql={
            "sub1": ("create table seen (id int primary key)", text, fires.format("mine")),
            "sub2": (
                "create table seen (id int primary key)", text, fires.format("mine"),
                "alter table account enable always trigger mine",
            ),
        },
    )  # fmt: skip
    rig.at("pub", "update account set balance = 1 where id = 1")
    rig.sync()
    assert rig.rows("sub1", "seen") == []
    assert rig.rows("sub2", "seen") == [{"id": "1"}]


def test_large_transactions_and_small_batches() -> None:
    rig = Rig(replace(SUB1, batch=2))
    many = ", ".join(f"({number}, 'x', {number})" for number in range(10, 2510))
    rig.at("pub", f"insert into account values {many}")
    for number in range(5):
        rig.at("pub", f"update account set balance = 0 where id = {number + 10}")
    done = rig.sync()["sub1"]
    assert (done.transactions, done.commands, done.batches) == (6, 2505, 4)
    assert rig.converged()


def test_foreign_keys_and_order() -> None:
    child = TableSpec(
        name="child", columns={"id": "int", "parent": "int references account (id)"}, key=("id",)
    )
    rig = Rig(SUB1, tables=[ACCOUNT, child])
    rig.at("pub", "insert into account values (5, 'p', 0)", "insert into child values (1, 5)")
    rig.at("pub", "delete from child where id = 1", "delete from account where id = 5")
    rig.at("pub", "insert into account values (5, 'again', 1)")
    rig.sync()
    assert rig.converged()
