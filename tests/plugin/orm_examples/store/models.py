"""Its models."""

from __future__ import annotations

from django.db import models


class Account(models.Model):
    """A row of `store_account`; its key comes from the Publisher."""

    balance = models.IntegerField()
