"""Command lines run in this process, each in an empty folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

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


@pytest.fixture
def shop(twopc: Any) -> Iterator[Shop]:
    """Nothing of ours is there."""
    with EmbeddedServer.start() as server:
        for name in NODES:
            server.create_database(name)
        made = Shop(server, twopc)
        made.sql("pub", "create table account (id int primary key, balance int not null)")
        made.sql("pub", "insert into account values (1, 100), (2, 100)")
        made.sql("pub", "create table note (id int primary key, text text)")
        made.sql(
            "pub",
            "create procedure double() language sql as 'update account set balance = balance * 2'",
        )
        yield made
