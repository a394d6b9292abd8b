"""What a stage cannot do is refused by name before anything is played.

The files in `data` are played unchanged.
"""

from __future__ import annotations

import pytest

from twopc.errors import ScenarioError
from twopc.server import EmbeddedServer
from twopc.sim.faults import capabilities
from twopc.sim.faults.plans import Heal, deed_of, heal_of, plan_of
from twopc.sim.report.history import History
from twopc.sim.scenario.check import parse
from twopc.sim.scenario.faults_meaning import DEEDS
from twopc.sim.scenario.model_theatre import ModelTheatre
from twopc.sim.scenario.postgres_theatre import PostgresTheatre
from twopc.sim.scenario.refusals import refuse
from twopc.sim.scenario.run import run

FILE = """\
twopc: 1
name: two
about: x
topology: {{publisher: pub, subscribers: [sub1]}}
tables: {{t: {{columns: {{id: int primary key}}}}}}
sessions:
  alice: {{node: sub1, steps: [{{a_write: {{sql: "insert into t values (1)"}}}}]}}
faults: [{{id: f, at: "{at}", do: "{do}"}}]
orders: [{{name: one, faults: [f], steps: [a_write]}}]
"""


@pytest.mark.parametrize(
    ("at", "do", "why"),
    [
        ("coordinator.decision_logged", "skew clock sub1 +5m", "the time of its machine"),
        ("coordinator.decision_logged", "error 53200", "but at proc.after_apply"),
        ("coordinator.begin(sub1)", "lose reply", "is not performed at 'coordinator.begin'"),
        ("log_reader.received", "crash coordinator", "have no point"),
        ("agent.sent", "restart node pub", "is not performed at 'agent.sent'"),
    ],
)
def test_on_real_servers(at: str, do: str, why: str) -> None:
    with pytest.raises(ScenarioError, match=why):
        refuse(parse(FILE.format(at=at, do=do)), PostgresTheatre().capabilities)


def test_clocks_are_the_models_own() -> None:
    refuse(
        parse(FILE.format(at="coordinator.decision_logged", do="skew clock sub1 +5m")),
        ModelTheatre().capabilities,
    )


async def test_a_server_of_somebody_else_is_not_struck(server: EmbeddedServer) -> None:
    loaded = parse(FILE.format(at="coordinator.decision_logged", do="restart node pub"))
    async with PostgresTheatre(pg=server.dsn("postgres", tcp=True)) as theatre:
        with pytest.raises(ScenarioError, match="only a server of our own is struck"):
            await run(loaded, theatre, History())


def test_every_deed_is_performed_somewhere_or_it_is_said_why_not() -> None:
    assert DEEDS.keys() == capabilities.ON_POSTGRES.keys() | capabilities.WHY_NOT.keys()
    assert DEEDS.keys() == capabilities.ON_MODEL.keys()


def test_what_is_written_is_taken_apart() -> None:
    nodes = ("pub", "sub-1", "coordinator")
    cut = deed_of("cut sub-1-pub", nodes)
    assert (cut.node, cut.other) == ("sub-1", "pub")
    hole = deed_of("black hole coordinator–pub", nodes)
    assert (hole.what, hole.node, hole.other) == ("hole", "coordinator", "pub")
    assert deed_of("skew clock pub -200ms", nodes).ms == -200
    assert deed_of("restart node pub immediate", nodes).how == "immediate"
    assert deed_of("finish pub rollback", nodes).how == "rollback"
    assert heal_of("after 2s") == Heal(when="after", after_ms=2000)
    assert heal_of("at recovery.end") == Heal(when="at", point="recovery.end")
    loaded = parse(FILE.format(at="coordinator.before_commit(pub)", do="delay 5ms")).scenario
    place = plan_of(loaded.faults[0], loaded).place
    assert (place.name, place.node) == ("coordinator.before_commit", "pub")
