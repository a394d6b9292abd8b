"""Checks of a scenario's statements by servers, without playing: a statement that a server refuses is an error.

The tables are created, published and subscribed as for playing. Objects that the scenario's statements create do
not exist, so only plain reads and writes of rows are checked, and scripts are not.
"""

from __future__ import annotations

from collections.abc import Iterator

from twopc.errors import TransactionError
from twopc.sim.scenario import sqltext
from twopc.sim.scenario.check import LoadedScenario
from twopc.sim.scenario.matrix import applies
from twopc.sim.scenario.merge_stage import MergeStage
from twopc.sim.scenario.model import Scenario
from twopc.sim.scenario.postgres_stage import PostgresStage
from twopc.sim.scenario.postgres_theatre import PostgresTheatre
from twopc.sim.scenario.stage import SetUpError
from twopc.sim.scenario.text import Path
from twopc.sim.scenario.values import Case, Cell

_READ = frozenset({"select", "insert", "update", "delete", "merge", "values", "table"})
_UTILITIES = """
abort alter analyze begin call checkpoint close cluster comment commit copy create deallocate declare discard do
drop end execute explain fetch grant import listen load lock move notify prepare reassign refresh reindex release
reset revoke rollback savepoint security set show start truncate unlisten vacuum with
"""
#: Commands that cannot be prepared. A text that begins with no command is checked too: it is misspelt.
_OTHERS = frozenset(_UTILITIES.split())
#: The server cannot determine a parameter's type before it has a value, which is not an error.
_UNDETERMINED = frozenset({"42P18"})


async def check_statements(loaded: LoadedScenario, theatre: PostgresTheatre) -> None:
    """Record in the document the tables and statements of the scenario that servers refuse.

    Raises:
        ConfigurationError: no server is available.
    """
    document = loaded.document
    cell, scenario = loaded.cells[0]
    if not scenario.orders:
        return
    case = Case(
        name="check",
        group="check",
        scenario=scenario,
        order=scenario.orders[0],
        at=("orders", 0),
        items=(),
        cell=cell,
    )
    try:
        async with theatre.stage(case) as stage:
            for path, node, text in _statements(scenario, cell):
                await _ask(loaded, stage, path, node, text)
    except SetUpError as error:
        document.error(error.path, str(error))


async def _ask(
    loaded: LoadedScenario, stage: PostgresStage | MergeStage, path: Path, node: str, text: str
) -> None:
    verbs = sqltext.verbs(text)
    if not verbs <= _READ and verbs & _OTHERS:
        return
    try:
        await stage.read(node, text)
    except TransactionError as error:
        if error.sqlstate not in _UNDETERMINED:
            document = loaded.document
            document.error(path, f"{node} says: {error} ({error.sqlstate})")


def _statements(scenario: Scenario, cell: Cell) -> Iterator[tuple[Path, str, str]]:
    """Yield each statement with its place and its node."""
    for at, session, _, step in scenario.placed_steps():
        if session.setup or any(each.script for _, each in session.named_steps):
            continue  # its SQL may create objects that its statements need
        if step.call is None:
            yield from ((path, session.node, text) for path, text in step.placed(at))
    for path, query in scenario.queries():
        if applies(path, cell):
            for node in query.nodes(scenario.topology.nodes):
                yield path, node, query.text
