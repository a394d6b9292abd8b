"""Tests of two purchases at the same time."""

from __future__ import annotations

import pytest
from shop import CarefulPurchase, Purchase
from sqlalchemy import create_engine
from sqlalchemy.orm.exc import StaleDataError


@pytest.fixture
def engine(twopc):
    engine = create_engine(twopc.url("pub"))
    yield engine
    engine.dispose()


def charged(twopc):
    return 100 - twopc.node("pub").rows("account")[0]["balance"]


def test_one_charge_is_lost(twopc, engine):
    found = {}

    def check(run):
        found[run.text] = charged(twopc)

    first, second = Purchase(engine), Purchase(engine)
    twopc.run_orders(
        {"a": [first.load, first.charge], "b": [second.load, second.charge]}, check=check
    )
    assert found["a0 a1 b0 b1"] == 20
    assert found["a0 b0 a1 b1"] == 10  # the second overwrites the first


def test_no_charge_is_lost(twopc, engine):
    def check(run):
        for error in run.errors.values():
            assert isinstance(error, StaleDataError)
        assert charged(twopc) == 20 - 10 * len(run.errors)

    first, second = CarefulPurchase(engine), CarefulPurchase(engine)
    orders = twopc.run_orders(
        {"a": [first.load, first.charge], "b": [second.load, second.charge]}, check=check
    )
    assert any(run.errors for run in orders)
    twopc.sync()
    twopc.assert_converged()
