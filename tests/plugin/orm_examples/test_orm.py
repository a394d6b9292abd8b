"""Tests of unmodified applications that write at a Subscriber with their ORMs."""

from __future__ import annotations

import pytest
from django.db import OperationalError, connections, transaction
from sales import Account, Base, sell, sell_async
from sqlalchemy import create_engine, exc
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session
from store.models import Account as DjangoAccount


@pytest.fixture
def engine(migrated):
    engine = create_engine(migrated.url("sub1"))
    yield engine
    engine.dispose()


@pytest.mark.parametrize("price", [10, 20])
def test_a_sale_arrives(migrated, engine, price):
    sell(engine, price)
    migrated.settle()
    assert migrated.node("pub").rows("account") == [{"id": 1, "balance": 100 - price}]
    migrated.assert_converged()


def test_a_sale_is_refused(migrated, engine):
    office = migrated.session("pub")
    office.execute("update account set balance = 50")
    office.commit()  # not yet delivered to the Subscriber
    with pytest.raises(exc.OperationalError) as caught:
        sell(engine, 10)
    assert caught.value.orig.sqlstate == "40001"
    migrated.sync()
    sell(engine, 10)
    migrated.settle()
    assert migrated.node("pub").rows("account") == [{"id": 1, "balance": 40}]


async def test_asyncpg(migrated):
    engine = create_async_engine(migrated.url("sub2", "asyncpg"))
    await sell_async(engine, 10)
    await engine.dispose()
    migrated.settle()
    assert migrated.node("pub").rows("account") == [{"id": 1, "balance": 90}]


@pytest.mark.twopc(any_client=True, load=[Base.metadata])
def test_create_all(twopc):
    engine = create_engine(twopc.url("sub1"))
    with Session(engine) as session, session.begin():
        session.add(Account(id=1, balance=7))
    engine.dispose()
    twopc.settle()
    assert twopc.node("sub2").rows("account") == [{"id": 1, "balance": 7}]


@transaction.atomic
def pay(amount):
    account = DjangoAccount.objects.select_for_update().get(id=1)
    account.balance -= amount
    account.save()


def test_a_django_shop(shop):
    pay(10)
    DjangoAccount.objects.create(balance=5)
    shop.settle()
    assert shop.node("pub").rows("store_account") == [
        {"id": 1, "balance": 90},
        {"id": 2, "balance": 5},
    ]


def test_django_shops_in_every_order(shop):
    def shop_pays():
        try:
            pay(10)
        finally:
            connections.close_all()  # Django has a connection for each thread

    def office_pays(twopc):
        office = twopc.session("pub")
        office.execute("update store_account set balance = balance - 1")
        office.commit()

    def check(run):
        for error in run.errors.values():
            assert isinstance(error, OperationalError)
            assert error.__cause__.sqlstate == "40001"

    orders = shop.run_orders({"shop": [shop_pays], "office": [office_pays]}, check=check)
    assert [list(run.errors) for run in orders] == [[], ["shop0"]]
