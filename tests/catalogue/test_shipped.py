"""Tests that every shipped scenario is valid, short, passes on servers, and can fail."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import psycopg
import pytest

from tests.agreement.test_catalogue import on_model
from tests.report.normal import stories
from twopc.errors import ConfigurationError
from twopc.sim.report.history import History
from twopc.sim.scenario.check import LoadedScenario, load
from twopc.sim.scenario.postgres_theatre import PostgresTheatre
from twopc.sim.scenario.run import run
from twopc.sim.scenario.values import Selection

SCENARIOS = Path(__file__).parents[2] / "scenarios"
FILES = sorted(SCENARIOS.rglob("*.twopc.yaml"))
#: Loads are played by tests/scenario/test_stress.py: they have no twins, and never the same course.
PLAYED = [path for path in FILES if path.parent.name != "stress"]
LINES_MAX = 60
#: Scenarios without a twin, each with the reason.
TWINLESS = {
    "publisher-crash-in-doubt": "a prepared branch is on disk, or it was not prepared: that is the server's",
    "orphan-blocks-vacuum": "it is nobody's of ours",
    "swallowed-error": "the Publisher's part is asked for first, and refuses: whatever is switched off, nothing is left",
    "agent-dies-mid-batch": "between two commits of an agent, if it had two, there is no point to be killed at",
    "applied-but-unmarked": "likewise; tests/explore kills it there, in the model",
    "unique-clash": "the table's own index keeps the second row out: there is nothing of ours to leave out",
    "offline-too-long": "without the rule its session is refused all the same, for generations that are gone (21333)",
    "swapped-values": "there is one way to write the rows of a slice",
    "stays-behind": "that rows stay is the article's own option",
    "takes-the-place": "that another takes the place is likewise",
    "unseen-rowguid": "the mappings tell it, which nobody can leave out",
    "serializable-per-node": "nothing protects reads at two nodes: that is what it shows",
}
WITH_TWINS = [
    path for path in PLAYED if path.name.partition(".")[0].replace("_", "-") not in TWINLESS
]
LOST_UPDATE = SCENARIOS / "immediate/lost_update.twopc.yaml"

#: Conflicts, commits and deliveries that must be among the scenarios.
SHOWN = {
    "aba", "cross-node-deadlock", "delete-vs-delete", "delete-vs-update", "insert-insert", "isolation-triptych",
    "lost-update", "one-stale-row-of-many", "parent-deleted", "publisher-wrote-first", "savepoint",
    "update-vs-delete", "winner-rolls-back", "write-skew", "serializable-per-node", "agent-does-not-fire-triggers", "late-subscriber",
    "local-row-blocks-apply", "moves-out-of-partition", "no-echo", "primary-key-change", "reject-sync-retry",
    "joins-while-writing", "snapshot-while-writing", "stale-read-decision", "two-unique-keys", "forbidden-in-prepare", "out-of-slots",
    "publisher-unreachable", "subscriber-cannot-prepare", "dies-undecided", "dies-decided", "dies-halfway",
    "publisher-crash-in-doubt", "lost-acknowledgement", "wrong-name-recovery", "operator-guesses",
    "idle-branch-killed", "two-recoverers", "orphan-blocks-vacuum", "marker-lost", "applied-but-unmarked",
    "columns-meet", "priority-phases", "first-wins", "update-delete", "inserted-again", "unique-clash",
    "orphan-purchase", "swapped-values", "session-dies", "additive-stock", "merged-text", "changed-behind",
    "late-committer", "undone-at-home", "republisher", "offline-too-long",
    "restored-subscriber", "column-added", "column-dropped", "column-widened", "out-of-partition", "takes-the-place", "late-subscriber-under-load", "unseen-rowguid", "stays-behind",
    "agent-dies-mid-batch", "apply-meets-in-doubt", "replay-in-commit-order", "replay-unsynchronised",
}  # fmt: skip


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
    common = loaded.scenario.expect
    for order in loaded.scenario.orders:
        said = [(each.tables, each.committed, each.sum) for each in (order.expect, common)]
        assert any(map(any, said)), f"{order.name} says nothing of its rows"


@pytest.mark.catalogue
@pytest.mark.parametrize("path", PLAYED, ids=name_of)
async def test_it_passes(path, server, golden):
    """Orders, cells and twins pass, and the story is always the same.

    A twin passes if it fails in the check that it names.
    """
    loaded, history = load(path), History()
    async with PostgresTheatre(server=server) as theatre:
        verdict = await run(loaded, theatre, history)
    assert [failure.message for order in verdict.orders for failure in order.failures] == []
    twins = [order for order in verdict.orders if order.twin]
    assert len(twins) == len(loaded.scenario.twins), "none is for the model alone"
    golden(f"stories/{name_of(path)}.txt", stories(history.records))


@pytest.mark.catalogue
@pytest.mark.sample(12)
@pytest.mark.parametrize("path", WITH_TWINS, ids=name_of)
async def test_its_twin_proves_something(path, server):
    """With the protection on, the check that must fail passes."""
    loaded = protected(load(path))
    async with PostgresTheatre(server=server) as theatre:
        verdict = await run(loaded, theatre, History())
    assert_proved(loaded, verdict)


@pytest.mark.parametrize("path", WITH_TWINS, ids=name_of)
def test_its_twin_proves_something_in_the_model(path):
    """With the protection on, the check that must fail passes in the model too."""
    loaded = protected(load(path))
    verdict, _ = on_model(loaded)
    assert_proved(loaded, verdict)


def assert_proved(loaded, verdict):
    """Assert that each twin has failed because its check has passed."""
    twins = [order for order in verdict.orders if order.twin]
    assert len(twins) == len(loaded.scenario.twins)
    for twin in twins:
        assert [failure.check for failure in twin.failures] == ["twin"]
        assert "nothing failed" in twin.failures[0].message


def protected(loaded: LoadedScenario) -> LoadedScenario:
    """Return a scenario with only the orders of its twins, and no protection switched off."""

    def changed(scenario):
        twins = tuple(twin.model_copy(update={"protections": {}}) for twin in scenario.twins)
        played = {twin.order or scenario.orders[0].name for twin in twins}
        orders = tuple(order for order in scenario.orders if order.name in played)
        return scenario.model_copy(update={"twins": twins, "orders": orders})

    return dataclasses.replace(
        loaded,
        scenario=changed(loaded.scenario),
        cells=tuple((cell, changed(scenario)) for cell, scenario in loaded.cells[:1]),
    )


def test_nothing_is_missing():
    scenarios = [load(path).scenario for path in FILES]
    assert {scenario.name for scenario in scenarios} >= SHOWN
    orders = [scenario for scenario in scenarios if scenario.workload is None]
    assert {each.name for each in orders if not each.twins} == TWINLESS.keys()


async def test_the_worked_example():
    """Of 70 orders, 36 fulfil the conditions and 24 are feasible; 4 have all their behaviours."""
    loaded = load(LOST_UPDATE)
    counts = {}
    async with PostgresTheatre() as theatre:
        verdict = await run(loaded, theatre, History(), groups=counts.__setitem__)
    assert verdict.kind == ""
    every = counts["every order"]
    assert (every.orders, every.infeasible, every.run, every.behaviours) == (36, 12, 4, 4)


@pytest.fixture
def dsns(make_database):
    """Create four databases that belong to another application."""
    nodes = ("pub", "sub1", "sub2", "distribution")
    return {node: make_database().dsn for node in nodes}


TABLES = "select relname from pg_class where relnamespace = 'public'::regnamespace"


async def test_on_servers_that_run_already(dsns):
    async with PostgresTheatre(dsns=dsns) as theatre:
        verdict = await run(load(LOST_UPDATE), theatre, History(), selection=Selection(twins=False))
    assert verdict.kind == ""
    for dsn in dsns.values():
        with psycopg.connect(dsn) as connection:
            assert connection.execute(TABLES).fetchall() == []


async def test_somebody_elses_table_is_not_touched(dsns):
    with psycopg.connect(dsns["sub2"], autocommit=True) as connection:
        connection.execute("create table account (mine text)")
        with pytest.raises(ConfigurationError, match="table 'account' is at sub2 already"):
            async with PostgresTheatre(dsns=dsns) as theatre:
                await run(load(LOST_UPDATE), theatre, History())
        assert connection.execute(TABLES).fetchall() == [("account",)]
