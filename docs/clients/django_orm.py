"""Django's ORM against a Subscriber: models of tables that are there already."""

from __future__ import annotations

import os
import sys
import time

import django
from django.conf import settings

if not settings.configured:
    settings.configure(
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": os.environ["PGDATABASE"],  # the rest is in PGHOST and the like
                "DISABLE_SERVER_SIDE_CURSORS": True,  # for a pooler in transaction mode
            }
        }
    )
    django.setup()

from django.db import OperationalError, models, transaction  # settings come first


class Account(models.Model):
    """A row of `account`."""

    id = models.IntegerField(primary_key=True)
    balance = models.IntegerField()
    revision = models.IntegerField(default=1)

    class Meta:
        """Where it is."""

        app_label = "bank"
        db_table = "account"
        managed = False


class Entry(models.Model):
    """A row of `entry`; its key comes from the Publisher."""

    id = models.AutoField(primary_key=True)
    account = models.ForeignKey(Account, models.CASCADE, db_column="account")
    amount = models.IntegerField()

    class Meta:
        """Where it is."""

        app_label = "bank"
        db_table = "entry"
        managed = False


@transaction.atomic
def transfer(amount: int) -> None:
    """A whole transaction: rows are read in it, locked here, and saved."""
    payer, payee = Account.objects.select_for_update().filter(id__in=(1, 2)).order_by("id")
    if payer.balance < amount:
        raise ValueError("not enough money")
    payer.balance -= amount
    payee.balance += amount
    payer.save()
    payee.save()
    Entry.objects.create(account=payer, amount=-amount)


def main() -> None:
    """Transfer, and try again after a conflict."""
    for attempt in range(1, 11):
        try:
            transfer(10)
        except OperationalError as error:
            said = error.__cause__
            if getattr(said, "sqlstate", None) != "40001":
                raise
            print(f"attempt {attempt}: 40001 {said.diag.message_detail}", flush=True)
            time.sleep(0.05 * 2**attempt)  # until the Subscriber has got what it lacks
        else:
            print("transferred")
            return
    sys.exit("gave up")


if __name__ == "__main__":
    main()
