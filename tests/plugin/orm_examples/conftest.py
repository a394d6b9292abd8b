"""Topologies whose tables are created by an application's own migrations."""

from __future__ import annotations

import os
from pathlib import Path

import django
import pytest
from django.db import connections

from twopc.sim.testing import AlembicMigrations, DjangoMigrations, topology

HERE = Path(__file__).parent
os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
django.setup()  # pytest-django does this itself

migrated = topology(any_client=True, load=[AlembicMigrations(HERE / "alembic.ini")])
django_shop = topology(any_client=True, load=[DjangoMigrations(folder=HERE)])


@pytest.fixture
def shop(django_shop):
    connections.databases["default"].update(django_shop.django("sub1"))
    yield django_shop
    connections.close_all()
