"""Plays random histories in a model, statement by statement in sessions of its Publisher."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.proc_execution.histories.drawn import ROUTINES, ROWS, TABLES, Play, Seen, rounds
from twopc.errors import DeliveryError
from twopc.sim.model.kernel import SimpyKernel
from twopc.sim.model.node.session import NodeSession
from twopc.sim.model.plants.protections import wiring_for
from twopc.sim.model.system import System, build
from twopc.sim.model.values import (
    ModelSpec,
    ProcedureSpec,
    SqlError,
    Steps,
    SubscriberSpec,
    TableSpec,
)
from twopc.sim.scenario.model_check import NullRecorder


def system(off: Iterable[str] = ()) -> System:
    """Build a Publisher with the tables and routines, and a read-only Subscriber."""
    spec = ModelSpec(
        publisher="pub",
        subscribers=(SubscriberSpec(name="sub1", update="read only"),),
        tables=tuple(
            TableSpec(
                name=name,
                columns={"id": "int", "v": "int not null"},
                key=("id",),
                rows=tuple({"id": str(id_), "v": str(v)} for id_, v in ROWS[name]),
            )
            for name in TABLES
        ),
        procedures=tuple(
            ProcedureSpec(name=name, body=body, reads=reads, writes=writes)
            for name, (body, reads, writes) in ROUTINES.items()
        ),
        lock_timeout_s=0.01,
    )
    return build(spec, wiring_for(off), kernel=SimpyKernel(0), recorder=NullRecorder())


class _Sessions:
    def __init__(self, model: System) -> None:
        self._model = model
        self._known: dict[int, NodeSession] = {}
        self.called = 0

    def execute(self, at: int, text: str) -> str:
        """Execute a statement; return the SQLSTATE of its error, or an empty string."""
        session = self._known.get(at)
        if session is None:
            session = self._known[at] = self._model.publisher.connect("app", f"s{at}")
        try:
            done(self._model, session.execute(text))
        except SqlError as error:
            return error.sqlstate
        self.called += text.startswith("call")
        return ""


def done(model: System, work: Steps[Any]) -> Any:
    """Run a process of the model to its end, and return its result."""
    process = model.kernel.spawn(work, "history")
    model.kernel.run(process)
    return process.value


def contents(model: System, node: str) -> dict[str, list[dict[str, str | None]]]:
    """Return the rows of both tables, without versions."""
    return {name: model.nodes[node].rows(name, ["id", "v"]) for name in TABLES}


def played(first: int, count: int, off: frozenset[str] = frozenset()) -> Seen:
    """Play `count` histories from a number on, up to the first difference."""
    seen = Seen()
    for numbers in rounds(first, count):
        model = system(off)
        sessions = _Sessions(model)
        play = Play(sessions.execute)
        for number in numbers:
            play.play(number)
        try:
            done(model, model.sync())
        except DeliveryError as error:
            seen.different = f"histories {numbers[0]} to {numbers[-1]}: {error}"
            break
        seen.histories += len(numbers)
        seen.called += sessions.called
        seen.calls += sum(each.calls for each in model.take_deliveries())
        there, here = contents(model, "pub"), contents(model, "sub1")
        if there != here:
            seen.different = (
                f"histories {numbers[0]} to {numbers[-1]}: pub holds {there}, sub1 {here}"
            )
            break
    return seen
