"""Tests of tills that might pay out more than there is."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from till import CarefulTill, Till


def paid_out(twopc):
    return 100 - twopc.node("pub").rows("account")[0]["balance"]


def test_two_careful_tills(twopc):
    one, other = CarefulTill(twopc.dsn("pub")), CarefulTill(twopc.dsn("pub"))

    def check(run):
        assert paid_out(twopc) == 70  # the second finds 30, and pays nothing

    twopc.run_orders(
        {"one": [one.look, one.pay_out], "other": [other.look, other.pay_out]}, check=check
    )


def test_two_tills_pay_twice(twopc):
    one, other = Till(twopc.dsn("pub")), Till(twopc.dsn("pub"))
    looked = {}

    def check(run):
        looked[run.text] = one.balance, other.balance

    twopc.run_orders(
        {"one": [one.look, one.pay_out], "other": [other.look, other.pay_out]}, check=check
    )
    assert looked["one0 one1 other0 other1"] == (100, 30)
    assert looked["one0 other0 one1 other1"] == (100, 100)  # both paid out 70


def test_a_clerk_is_in_the_way(twopc):
    clerk = twopc.session("pub", name="clerk")
    clerk.execute("update account set balance = 10 where id = 1")

    till = CarefulTill(twopc.dsn("pub", application_name="till"))
    with ThreadPoolExecutor() as pool:
        work = pool.submit(till.look)
        assert twopc.watch("pub", application_name="till", work=work).blocked_by(clerk)
        clerk.commit()
        work.result()
    assert till.balance == 10
    till.pay_out()
    assert paid_out(twopc) == 90


def test_everybody_gets_it(twopc):
    with psycopg.connect(twopc.dsn("pub")) as connection:
        connection.execute("update account set balance = 1 where id = 2")
    twopc.sync()
    twopc.assert_converged()
    assert twopc.node("sub1").rows("account")[1]["balance"] == 1


def test_a_stale_copy_is_refused(twopc):
    alice, bob = twopc.session("sub1"), twopc.session("sub2")
    alice.execute("update account set balance = 90 where id = 1")
    step = bob.start("update account set balance = 80 where id = 1")
    assert step.blocked_by(alice)
    alice.commit()
    with pytest.raises(twopc.Conflict) as caught:
        step.result()
    assert caught.value.kind == "version_mismatch"
    bob.rollback()
    twopc.settle()
    twopc.assert_converged()
    twopc.assert_atomic()


@pytest.mark.twopc(any_client=True)
def test_a_sale_arrives(twopc):
    with psycopg.connect(twopc.dsn("sub1")) as connection:
        connection.execute("update account set balance = 90 where id = 1")
    twopc.settle()
    assert twopc.node("pub").rows("account")[0]["balance"] == 90
