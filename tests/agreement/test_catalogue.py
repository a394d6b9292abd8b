"""Tests that every shipped scenario passes on the model, with the stories that servers produced.

Runs on PostgreSQL wrote the stories, and other tests compare them with such runs. `python -m tests.agreement` plays
both and compares more.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.fix_golden import GOLDEN
from tests.report.normal import stories
from twopc.sim.report.history import History
from twopc.sim.scenario.agree import compare
from twopc.sim.scenario.check import LoadedScenario, load
from twopc.sim.scenario.model_theatre import ModelTheatre
from twopc.sim.scenario.postgres_theatre import PostgresTheatre
from twopc.sim.scenario.run import RunVerdict, run
from twopc.sim.scenario.theatres import played
from twopc.sim.scenario.values import Selection

SCENARIOS = Path(__file__).parents[2] / "scenarios"
#: All scenarios but loads, whose course is never the same.
FILES = [path for path in sorted(SCENARIOS.rglob("*.twopc.yaml")) if path.parent.name != "stress"]
#: Also played on servers by these tests: waits, a cycle, agents that stop, an unreachable node.
SAMPLE = (
    "immediate/lost_update", "immediate/cross_node_deadlock", "transactional/local_row_blocks_apply",
    "commit/publisher_unreachable",
)  # fmt: skip


#: Notices, which servers send and the model does not.
NOTICES = re.compile(r" receives: \d+ notices?\.$")


def name_of(path: Path) -> str:
    return str(path.relative_to(SCENARIOS)).removesuffix(".twopc.yaml")


def on_model(
    loaded: LoadedScenario, selection: Selection | None = None
) -> tuple[RunVerdict, History]:
    """Play a scenario on the model."""
    history = History()

    async def play() -> RunVerdict:
        async with ModelTheatre() as theatre:
            return await run(loaded, theatre, history, selection=selection or Selection())

    return played("model", play()), history


def of_order(text: str) -> dict[str, str]:
    """Return the stories of a golden file by order."""
    found: dict[str, str] = {}
    name = ""
    for line in text.splitlines():
        if line and not line.startswith("  "):
            name = line
            found[name] = ""
        elif line and not NOTICES.search(line):
            found[name] += line + "\n"
    return found


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_the_model_tells_what_servers_told(path: Path) -> None:
    """Each order and twin has the same story on the model as on servers."""
    loaded = load(path)
    verdict, history = on_model(loaded)
    assert [failure.message for order in verdict.orders for failure in order.failures] == []
    if loaded.scenario.faults:
        return  # each words its findings differently; `python -m tests.agreement` compares the rest
    golden = GOLDEN / f"stories/{name_of(path)}.txt"
    told, theirs = of_order(stories(history.records)), of_order(golden.read_text(encoding="utf-8"))
    # some protections can be switched off only in the model
    assert theirs.keys() <= told.keys()
    assert all(name.startswith("twin of ") for name in told.keys() - theirs.keys())
    for order, story in theirs.items():
        mine = told[order].splitlines()
        different = [
            pair for pair in zip(mine, story.splitlines(), strict=False) if not alike(*pair)
        ]
        assert (different, len(mine)) == ([], len(story.splitlines())), order


def alike(one: str, other: str) -> bool:
    """Return whether two lines are equal, except for the place at which a long text was cut.

    That place depends on times and positions in it that are not compared.
    """
    mine, theirs = one.split("…"), other.split("…")
    if len(mine) == 1:
        return one == other
    return len(mine) == len(theirs) and all(
        a == b or a.startswith(b.rstrip()) or b.startswith(a.rstrip())
        for a, b in zip(mine, theirs, strict=True)
    )


@pytest.mark.parametrize("name", SAMPLE)
async def test_both_come_to_the_same(name: str, server) -> None:
    loaded = load(SCENARIOS / f"{name}.twopc.yaml")
    history = History()
    selection = Selection(twins=False)
    async with PostgresTheatre(server=server) as theatre:
        await run(loaded, theatre, history, selection=selection)
    mine = await _in_a_thread(loaded, selection)
    assert [each.text("PostgreSQL", "the model") for each in compare(history.records, mine)] == []


async def _in_a_thread(loaded: LoadedScenario, selection: Selection) -> list:
    """Return the model's history, played in a thread, since the model has its own event loop."""
    import asyncio

    _, history = await asyncio.to_thread(on_model, loaded, selection)
    return history.records
