"""The lost update of the catalogue, with nothing of its file but topology, tables and sessions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from twopc.sim.model.choosers import ChoiceKernel
from twopc.sim.model.explore.programs import Script, ScriptRun
from twopc.sim.model.explore.results import Budget
from twopc.sim.model.explore.search import exhaust
from twopc.sim.model.explore.strikes import STRIKES
from twopc.sim.model.plants.protections import wiring_for
from twopc.sim.model.wiring import Wiring
from twopc.sim.scenario.check import load
from twopc.sim.scenario.search_program import script_of

FILE = Path(__file__).parents[2] / "scenarios" / "immediate" / "lost_update.twopc.yaml"


@pytest.fixture(scope="module")
def script() -> Script:
    """The scenario as a program."""
    return script_of(load(FILE))


def test_every_order(script: Script) -> None:
    """Either wins, and the other has waited or not."""
    found = exhaust(script, Wiring(), Budget(faults=0))
    assert found.exhausted
    assert found.broken is None
    assert found.endings == (
        "alice committed, bob refused after a wait; account ((1, 90),)",
        "alice committed, bob refused; account ((1, 90),)",
        "alice refused after a wait, bob committed; account ((1, 80),)",
        "alice refused, bob committed; account ((1, 80),)",
    )


def test_one_session_and_every_crash(script: Script) -> None:
    """Of the coordinator, of both its nodes and of the decision log: told is what is so."""
    alone = replace(script, clients={"alice": script.clients["alice"]})
    kinds = ("coordinator", "publisher", "subscriber", "log")
    found = exhaust(alone, Wiring(), Budget(faults=1, of=kinds))
    assert found.exhausted
    assert found.broken is None
    assert found.crash_points > 100
    assert found.endings == (
        "alice committed; account ((1, 90),)",
        "alice in doubt; account ((1, 100),)",
        "alice in doubt; account ((1, 90),)",
        "alice refused; account ((1, 100),)",
    )


class Killed:
    """The coordinator is killed while the first session's commit is under way, and the second has not begun."""

    name = "killed"

    def __init__(self, script: Script, after: str) -> None:
        self._script = script
        self._after = after

    def start(self, kernel: ChoiceKernel, wiring: Wiring, budget: Budget) -> ScriptRun:
        """From there on."""
        run = self._script.start(kernel, wiring, budget)
        kernel.settle()
        fired = ""
        while self._after not in fired:
            option = next(one for one in kernel.enabled() if one.label.actor != "bob")
            kernel.fire(option)
            run.look()
            fired = str(option)
        (strike,) = STRIKES["coordinator"](run)
        kernel.fire(strike)
        run.look()
        return run


@pytest.mark.parametrize(
    ("after", "endings"),
    [
        (
            "sp_mssync_upd_account → pub",
            (
                "alice refused, bob committed after a wait; account ((1, 80),)",
                "alice refused, bob committed; account ((1, 80),)",
            ),
        ),
        (
            "1 decisions → distribution",
            (
                "alice in doubt, bob refused after a wait; account ((1, 90),)",
                "alice in doubt, bob refused; account ((1, 90),)",
            ),
        ),
    ],
)
def test_recovery_beside_a_session(script: Script, after: str, endings: tuple[str, ...]) -> None:
    """Everything that the other session does in the new process, whenever recovery looks."""
    found = exhaust(Killed(script, after), Wiring(), Budget(faults=0))
    assert found.exhausted
    assert found.broken is None
    assert found.endings == endings


def test_without_versions(script: Script) -> None:
    """Both change the same copy, in some order."""
    found = exhaust(script, wiring_for(["version_check"]), Budget(faults=0)).broken
    assert found is not None
    assert "converged" in found.invariants
