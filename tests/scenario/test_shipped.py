"""Every scenario that is shipped is right, is short, and passes on real servers."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from sim.report.history import History
from sim.scenario.check import load
from sim.scenario.postgres_stage import PostgresTheatre
from sim.scenario.run import run
from twopc.errors import ConfigurationError

SCENARIOS = Path(__file__).parents[2] / "scenarios"
FILES = sorted(SCENARIOS.rglob("*.twopc.yaml"))
LINES_MAX = 60


def name_of(path: Path) -> str:
    return str(path.relative_to(SCENARIOS)).removesuffix(".twopc.yaml")


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_it_explains_itself(path):
    loaded = load(path)
    assert loaded.document.problems == []
    assert len(loaded.document.lines) <= LINES_MAX
    assert len(loaded.scenario.about.split()) >= 20
    assert loaded.scenario.tags
    assert loaded.scenario.name == path.name.removesuffix(".twopc.yaml").replace("_", "-")
    for order in loaded.scenario.orders:
        asserted = (*order.expect.tables, *loaded.scenario.expect.tables)
        assert asserted, f"{order.name} says nothing of its rows"


@pytest.mark.parametrize("path", FILES, ids=name_of)
async def test_it_passes(path, server):
    loaded = load(path)
    async with PostgresTheatre(server=server) as theatre:
        verdict = await run(loaded, theatre, History())
    assert [failure.message for order in verdict.orders for failure in order.failures] == []


def test_there_are_enough():
    assert len(FILES) >= 10


@pytest.fixture
def dsns(make_database):
    """Four databases of somebody else's."""
    nodes = ("pub", "sub1", "sub2", "distribution")
    return {node: make_database().dsn for node in nodes}


TABLES = "select relname from pg_class where relnamespace = 'public'::regnamespace"


async def test_on_servers_that_run_already(dsns):
    loaded = load(SCENARIOS / "immediate/lost_update.twopc.yaml")
    async with PostgresTheatre(dsns=dsns) as theatre:
        verdict = await run(loaded, theatre, History())
    assert verdict.kind == ""
    for dsn in dsns.values():
        with psycopg.connect(dsn) as connection:
            assert connection.execute(TABLES).fetchall() == []


async def test_somebody_elses_table_is_not_touched(dsns):
    with psycopg.connect(dsns["sub2"], autocommit=True) as connection:
        connection.execute("create table account (mine text)")
        loaded = load(SCENARIOS / "immediate/lost_update.twopc.yaml")
        with pytest.raises(ConfigurationError, match="table 'account' is at sub2 already"):
            async with PostgresTheatre(dsns=dsns) as theatre:
                await run(loaded, theatre, History())
        assert connection.execute(TABLES).fetchall() == [("account",)]
