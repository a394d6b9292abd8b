"""Tests of object-relational mappers at a Subscriber: how each reports conflicts."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.any_client.conftest import Clients
from tests.any_client.test_clients import PROGRAMS, environment


def load(name: str) -> ModuleType:
    """Import a program of docs/clients as a module."""
    spec = importlib.util.spec_from_file_location(Path(name).stem, PROGRAMS / name)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where annotations are resolved
    spec.loader.exec_module(module)
    return module


@pytest.fixture
async def orm(clients: Clients, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return a runner of functions in a thread; the resolver runs in the event loop."""
    for name, value in environment(clients.topology.node("sub1").app_dsn).items():
        monkeypatch.setenv(name, value)
    return asyncio.to_thread


async def test_sqlalchemy(clients: Clients, orm: Callable[..., Any]) -> None:
    """SQLAlchemy writes units of work over several tables, and reports conflicts of both kinds.

    Its own `revision` finds conflicts within the Subscriber, ours finds those with the Publisher.
    """
    pytest.importorskip("sqlalchemy")
    from sqlalchemy import exc, select
    from sqlalchemy.orm.exc import StaleDataError

    bank = load("sqlalchemy_orm.py")

    def work() -> None:
        with bank.Session.begin() as session:  # inserts and updates, in the right order
            new = bank.Account(id=5, balance=1)
            new.entries = [bank.Entry(amount=1), bank.Entry(amount=2)]
            session.add(new)
            session.get_one(bank.Account, 1).balance += 1
            session.flush()
            with session.begin_nested():
                session.get_one(bank.Account, 2).balance += 1
            keys = [entry.id for entry in new.entries]
        with bank.Session() as session:
            assert list(session.scalars(select(bank.Entry.id).order_by(bank.Entry.id))) == keys
            assert session.get_one(bank.Account, 1).revision == 2
        with (
            bank.Session() as mine,
            bank.Session() as other,
        ):  # another session of this Subscriber commits first
            stale = mine.get_one(bank.Account, 3)
            other.get_one(bank.Account, 3).balance += 1
            other.commit()
            stale.balance += 5
            with pytest.raises(StaleDataError):
                mine.commit()
            mine.rollback()
            assert mine.get_one(bank.Account, 3).balance == 101
        bank.Session.kw["bind"].dispose()

    def refused() -> None:
        with bank.Session() as session:
            session.get_one(bank.Account, 4).balance += 1
            with pytest.raises(exc.OperationalError) as caught:
                session.commit()
            assert caught.value.orig is not None
            assert caught.value.orig.sqlstate == "40001"
            assert json.loads(caught.value.orig.diag.message_detail)["kind"] == "version_mismatch"
            session.rollback()  # the session remains usable
            session.get_one(bank.Account, 1).balance += 1
            session.commit()
            with pytest.raises(exc.IntegrityError) as exists:
                session.add(bank.Account(id=6, balance=1))
                session.commit()
            assert exists.value.orig is not None
            assert exists.value.orig.sqlstate == "23505"
        bank.Session.kw["bind"].dispose()

    await orm(work)
    await clients.settled()
    await clients.topology.execute("pub", "update account set balance = 50 where id = 4")
    await clients.topology.execute("pub", "insert into account (id, balance) values (6, 6)")
    await orm(refused)
    await clients.topology.sync("sub1")
    await clients.settled()
    assert await clients.balances() == [102, 101, 101, 50, 1, 6]


async def test_django(clients: Clients, orm: Callable[..., Any]) -> None:
    """Savepoints, expressions and bulk statements work, and conflicts are the usual exceptions of Django."""
    pytest.importorskip("django")
    bank = load("django_orm.py")
    from django.db import IntegrityError, OperationalError, connection, models, transaction

    account, entry = bank.Account.objects, bank.Entry.objects

    def work() -> None:
        made = entry.bulk_create([bank.Entry(account_id=1, amount=n) for n in (1, 2, 3)])
        assert [each.id for each in entry.order_by("id")] == [each.id for each in made]
        with transaction.atomic():
            account.filter(id__lte=2).update(balance=models.F("balance") + 1)
            with pytest.raises(ZeroDivisionError), transaction.atomic():  # a savepoint
                account.all().update(balance=0)
                raise ZeroDivisionError
            got, is_new = account.get_or_create(id=5, defaults={"balance": 5})
            assert (got.balance, is_new) == (5, True)
        entry.filter(amount=3).delete()
        connection.close()

    def refused() -> None:
        one = account.get(id=4)
        one.balance += 1
        with pytest.raises(OperationalError) as caught, transaction.atomic():
            one.save()
        assert caught.value.__cause__.sqlstate == "40001"
        # the row exists at the Publisher, but not yet at this Subscriber
        with transaction.atomic():
            with pytest.raises(IntegrityError), transaction.atomic():
                account.create(id=6, balance=1)
            account.filter(id=1).update(balance=7)
        connection.close()

    await orm(work)
    await clients.settled()
    await clients.topology.execute("pub", "update account set balance = 50 where id = 4")
    await clients.topology.execute("pub", "insert into account (id, balance) values (6, 6)")
    await orm(refused)
    await clients.topology.sync("sub1")
    await clients.settled()
    assert await clients.balances() == [7, 101, 100, 50, 5, 6]
