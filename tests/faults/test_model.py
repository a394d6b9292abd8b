"""The scenarios with faults on the model: in virtual time, with the same outcomes."""

from __future__ import annotations

import pytest

from tests.faults.conftest import DATA
from twopc.sim.report.history import History
from twopc.sim.scenario.check import load
from twopc.sim.scenario.run import run
from twopc.sim.scenario.theatres import TheatreOptions, played, theatre

FILES = sorted(path.name.removesuffix(".twopc.yaml") for path in DATA.glob("*.twopc.yaml"))


def play(name: str) -> tuple[list[str], list[str], list[str]]:
    """Return the failures, the faults that struck, and the whole history."""
    history = History()

    async def all_of_it() -> list[str]:
        async with theatre("model", TheatreOptions()) as model:
            verdict = await run(load(DATA / f"{name}.twopc.yaml"), model, history)
        return [each.message for order in verdict.orders for each in order.failures] + (
            [verdict.kind] if verdict.kind else []
        )

    failures = played("model", all_of_it())
    faults = [record.message for record in history.records if record.kind == "fault"]
    return failures, faults, [record.line() for record in history.records]


@pytest.mark.parametrize("name", FILES)
def test_the_model_agrees_with_what_is_expected_of_servers(name: str) -> None:
    failures, faults, _ = play(name)
    assert failures == []
    scenario = load(DATA / f"{name}.twopc.yaml").scenario
    armed = [fault for order in scenario.orders for fault in order.faults]
    if scenario.workload is not None:
        armed += [each.fault for each in scenario.workload.during if each.fault is not None]
    assert len(faults) >= len(armed), "each fault has happened"


def test_faults_happen_alike_each_time() -> None:
    assert play("coordinator")[2] == play("coordinator")[2]
