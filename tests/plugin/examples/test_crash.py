"""Tests of payments whose coordinator crashes, or whose answer is lost."""

from __future__ import annotations

import pytest


def test_a_payment_outlives_its_coordinator(twopc):
    twopc.crash_at("coordinator.decision_logged")
    alice = twopc.session("sub1")
    alice.execute("update account set balance = 90 where id = 1")
    with pytest.raises(twopc.InDoubt):
        alice.commit()
    twopc.settle()  # another process recovers
    assert twopc.node("pub").rows("account")[0]["balance"] == 90
    twopc.assert_atomic()


@pytest.mark.twopc(faults=[{"at": "reply.commit(pub)", "do": "lose reply"}])
def test_a_lost_answer_changes_nothing(twopc):
    alice = twopc.session("sub1")
    alice.execute("update account set balance = 90 where id = 1")
    alice.commit()
    twopc.settle()
    twopc.assert_converged()
