"""Fixtures that give tests a PostgreSQL server and temporary databases on it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import psycopg
import pytest

from twopc.names import PREFIX
from twopc.server import EmbeddedServer


@dataclass(slots=True, kw_only=True)
class Database:
    """A database that lives as long as one test."""

    server: EmbeddedServer
    name: str
    may_leave_prepared: bool = False
    """Set by a test that leaves our prepared transactions on purpose."""

    @property
    def dsn(self) -> str:
        """The superuser's connection string."""
        return self.server.superuser_dsn(self.name)

    def connect(self, *, autocommit: bool = True) -> psycopg.Connection:
        """Open a superuser's connection."""
        return psycopg.connect(self.dsn, autocommit=autocommit)


MakeDatabase = Callable[[], Database]

#: No two databases of a worker have the same name: roles outlive them, and must not be taken for those of another.
_numbers = itertools.count()


@pytest.fixture(scope="session")
def server() -> Iterator[EmbeddedServer]:
    """One embedded server per worker process, which flushes nothing.

    A test that crashes a server starts a separate one.
    """
    with EmbeddedServer.start() as started:
        yield started


@pytest.fixture
def make_database(server: EmbeddedServer) -> Iterator[MakeDatabase]:
    """Return a function that creates empty databases, which are dropped after the test.

    The test fails if it has left one of our prepared transactions in a database, unless it is permitted.
    """
    made: list[Database] = []

    def make() -> Database:
        database = Database(server=server, name=f"test_{next(_numbers)}")
        server.create_database(database.name)
        made.append(database)
        return database

    yield make
    left = []
    for database in made:
        if not database.may_leave_prepared:
            left += _gids_left_in(database)
        server.drop_database(database.name, may_roll_back=is_ours)
    if left:
        pytest.fail(f"the test left prepared transactions: {', '.join(left)}")


@pytest.fixture
def fresh_database(make_database: MakeDatabase) -> Database:
    """An empty database, dropped after the test."""
    return make_database()


def is_ours(gid: str) -> bool:
    return gid.startswith(f"{PREFIX}:")


def _gids_left_in(database: Database) -> list[str]:
    with psycopg.connect(database.server.superuser_dsn("postgres")) as connection:
        rows = connection.execute(
            "SELECT gid FROM pg_prepared_xacts WHERE database = %s ORDER BY gid", (database.name,)
        )
        return [gid for (gid,) in rows if is_ours(gid)]
