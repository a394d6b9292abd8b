"""Models of the store."""

from __future__ import annotations

from django.db import models


class Account(models.Model):
    """A row of `store_account`, whose key the Publisher generates."""

    balance = models.IntegerField()
