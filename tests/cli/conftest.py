"""Fixtures that run command lines in this process, each in an empty folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.cli.in_process import Done
from tests.cli.in_process import twopc as run_command
from tests.cli.shops import NODES, Shop
from twopc.server import EmbeddedServer


@pytest.fixture
def twopc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Done]:
    """Run a command line in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return run_command


@pytest.fixture(scope="session")
def shop_server() -> Iterator[EmbeddedServer]:
    """An external server, whose databases have the same names in each test, one after the other."""
    with EmbeddedServer.start() as server:
        yield server


def clear(server: EmbeddedServer, names: Iterable[str]) -> None:
    """Drop the databases, and our roles."""
    for name in names:
        server.drop_database(name, may_roll_back=lambda gid: gid.startswith("twopc:shop:"))
    with psycopg.connect(server.superuser_dsn("postgres"), autocommit=True) as connection:
        roles = connection.execute("select rolname from pg_roles where rolname ~ '^msrepl_'")
        for (role,) in roles.fetchall():
            connection.execute(f"drop owned by {role}")
            connection.execute(f"drop role {role}")


@pytest.fixture
def shop(shop_server: EmbeddedServer, twopc: Any) -> Iterator[Shop]:
    """A shop in whose databases nothing is installed yet."""
    for name in NODES:
        shop_server.create_database(name)
    made = Shop(shop_server, twopc)
    made.sql("pub", "create table account (id int primary key, balance int not null)")
    made.sql("pub", "insert into account values (1, 100), (2, 100)")
    made.sql("pub", "create table note (id int primary key, text text)")
    made.sql(
        "pub",
        "create procedure double() language sql as 'update account set balance = balance * 2'",
    )
    yield made
    made.close()
    clear(shop_server, NODES)
