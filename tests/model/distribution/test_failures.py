"""Tests of an agent whose command fails: retry one by one, own changes, skipped errors, streams."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import psycopg
import pytest

from tests.model.distribution.rig import ACCOUNT, FIRST, Rig
from twopc.errors import DeliveryError
from twopc.sim.model.values import SubscriberSpec, TableSpec

SUB1 = SubscriberSpec(name="sub1")


@pytest.mark.parametrize(
    ("form", "row"),
    [
        ("CALL", "command 1, table account, id = 2"),
        (
            "SQL",
            r"""command 1, table account: UPDATE "public"."account" .* WHERE "id" = '2'::integer:""",
        ),
    ],
)
def test_a_row_that_is_not_there_stops_the_agent(form: str, row: str) -> None:
    rig = Rig(SUB1, tables=[replace(ACCOUNT, propagate={"upd": form})])
    rig.nodes["sub1"].define("delete from account where id = 2")
    rig.at("pub", "update account set balance = 1 where id = 1")
    rig.at("pub", "update account set balance = 2 where id = 2")
    rig.at("pub", "update account set balance = 3 where id = 1")
    with pytest.raises(DeliveryError, match=f"sub1: .* {row}") as caught:
        rig.sync()
    assert (caught.value.number, caught.value.sqlstate) == (20598, "P0002")
    assert rig.balances("sub1") == {"1": "1"}  # earlier commands were applied
    rig.at("sub1", f"insert into account values (2, 'bob', 100, '{FIRST}')")
    rig.sync()
    assert rig.converged()


@pytest.mark.parametrize("error", ["2627", "23505"])
def test_errors_to_pass_over(error: str) -> None:
    rig = Rig(replace(SUB1, skip_errors=(error,)))
    rig.nodes["sub1"].define(f"insert into account values (3, 'mine', 0, '{FIRST}')")
    rig.at(
        "pub",
        "update account set balance = 1 where id = 1",
        "insert into account values (3, 'x', 1)",
    )
    rig.at("pub", "update account set balance = 2 where id = 2")
    done = rig.sync()["sub1"]
    assert (done.skipped, rig.balances("sub1")) == (1, {"1": "100", "2": "2", "3": "0"})
    (skipped,) = rig.history("sub1", "skipped")
    assert skipped.error == "2627"
    told = rig.distribution.take_deliveries()
    assert [one.skipped for one in told] == ["2627", ""]


def test_a_unique_index_is_no_constraint() -> None:
    rig = Rig(
        replace(SUB1, skip_errors=("2601",)),
        sql={"sub1": ("create unique index on account (owner)",)},
    )
    rig.at("pub", "insert into account values (3, 'ada', 1)")
    assert rig.sync()["sub1"].skipped == 1


def test_its_own_row_is_in_the_way() -> None:
    """A key is inserted and deleted by the Publisher, then inserted by the Subscriber: no command is left."""
    rig = Rig(SUB1, SubscriberSpec(name="sub2"))
    rig.at("pub", "insert into account values (5, 'theirs', 0)")
    rig.at("pub", "delete from account where id = 5")
    rig.own("sub1", f"insert into account values (5, 'own', 1, '{FIRST}')")
    rig.at("pub", "update account set balance = 9 where id = 5")
    assert rig.sync()["sub1"].transactions == 3
    assert rig.converged()
    (net,) = rig.history("sub1", "net")
    assert (net.transactions, net.commands) == (2, 0)


def test_its_own_change_has_not_come_through_the_log_yet() -> None:
    """If the Subscriber's own transaction is not yet stored, the agent lets the log reader read again."""
    rig = Rig(SUB1)
    rig.at("pub", "insert into account values (5, 'theirs', 0)")
    rig.run(rig.distribution.reader.living().run_once())
    rig.at("pub", "delete from account where id = 5")
    rig.own("sub1", f"insert into account values (5, 'own', 1, '{FIRST}')")
    reads: list[float] = []
    reader = rig.distribution.reader.living()
    once = reader.run_once

    def late() -> Any:
        reads.append(rig.kernel.now)
        if len(reads) > 1:
            return (yield from once())
        yield rig.kernel.event().succeed()
        return 0

    reader.run_once = late
    rig.sync()
    assert len(reads) == 2
    assert rig.converged()


def test_unique_values_that_change_places() -> None:
    """If rows of a net effect exchange unique values, they are deleted and inserted again."""
    table = TableSpec(
        name="account", columns={"id": "int", "owner": "text unique", "balance": "int"}, key=("id",)
    )
    rig = Rig(SUB1, tables=[table])
    rig.at("pub", "insert into account values (5, 'theirs', 0)")
    rig.at("pub", "update account set owner = 't' where id = 1")
    rig.at("pub", "update account set owner = 'ada' where id = 2")
    rig.at("pub", "update account set owner = 'bob' where id = 1")
    rig.at("pub", "delete from account where id = 5")
    rig.own("sub1", f"insert into account values (5, 'own', 1, '{FIRST}')")
    rig.sync()
    assert rig.history("sub1", "net")
    assert rig.converged()


def test_a_lock_is_waited_for() -> None:
    rig = Rig(SUB1)
    rig.at("pub", "update account set balance = 1 where id = 1")
    reader = rig.nodes["sub1"].connect("app", "reader")
    rig.run(reader.execute("begin"))
    rig.run(reader.execute("select * from account where id = 1 for update"))
    sync = rig.kernel.spawn(rig.distribution.sync(), "sync")
    rig.until(20.0)
    assert not sync.processed
    assert [(node, pid) for node, pid in rig.distribution.agent("sub1").sessions] == [
        ("sub1", wait.pid) for wait in rig.nodes["sub1"].waits()
    ]
    rig.run(reader.execute("commit"))
    rig.kernel.run(sync)
    assert rig.converged()


# -- streams ----------------------------------------------------------------------------------------

STREAMS = replace(SUB1, streams=3)


def test_streams_bring_the_same() -> None:
    rig = Rig(STREAMS)
    many = ", ".join(f"({number}, 'x', {number})" for number in range(10, 40))
    rig.at("pub", f"insert into account values {many}")
    for number in range(10, 40):
        rig.at("pub", f"update account set balance = balance + 1 where id = {number}")
    done = rig.sync()["sub1"]
    assert (done.transactions, done.batches) == (31, 1)
    assert not rig.history("sub1", "serial")
    assert rig.converged()
    assert not rig.nodes["sub1"].prepared()


def test_streams_fall_back_where_keys_move_on() -> None:
    rig = Rig(STREAMS)
    values = ", ".join(f"({number}, 'x', {number})" for number in range(10, 30))
    rig.at("pub", f"insert into account values {values}")
    rig.sync()
    for number in range(29, 9, -1):
        rig.at("pub", f"update account set id = {number + 1} where id = {number}")
    rig.at("pub", "update account set balance = 0 where id = 1")
    rig.sync()
    assert rig.history("sub1", "serial")
    assert rig.converged()
    assert not rig.nodes["sub1"].prepared()
    rig.at("pub", "update account set balance = balance + 1")
    rig.sync()  # the streams are used again
    assert rig.converged()


def test_streams_and_an_error() -> None:
    rig = Rig(STREAMS)
    many = ", ".join(f"({number}, 'x', {number})" for number in range(10, 40))
    rig.at("pub", f"insert into account values {many}")
    rig.nodes["sub1"].define(f"insert into account values (20, 'mine', 0, '{FIRST}')")
    with pytest.raises(DeliveryError, match="id = 20"):
        rig.sync()
    assert len(rig.rows("sub1")) == 3
    assert not rig.nodes["sub1"].prepared()


def test_nothing_to_do_but_to_move() -> None:
    """A transaction without commands for a Subscriber advances its position."""
    rig = Rig(SUB1, tables=[ACCOUNT])
    rig.own("sub1", "update account set balance = 5 where id = 1")
    rig.sync()
    assert rig.distribution.position("sub1") == rig.distribution.store.read_to


@pytest.mark.parametrize("error", ["53100", "57P01"])
def test_an_error_that_passes_is_tried_again(error: str) -> None:
    rig = Rig(SUB1)
    rig.at("pub", "update account set balance = 1 where id = 1")
    rig.sync()
    rig.at("pub", "update account set balance = 2 where id = 1")

    def fail(_: str) -> None:
        raise psycopg.errors.lookup(error)("no")

    rig.points.arm("agent.planned", fail)
    rig.sync()
    assert rig.converged()
    assert len(rig.history("sub1", "started")) == 2
