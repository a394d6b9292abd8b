"""Checks of a scenario for parts that the model does not support, with their places, before it is played.

A model is built, and each statement of the scenario is parsed by its node. Objects that the scenario's own
statements create do not exist yet, so that not all errors are found; a run reports the others.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from twopc.drivers.points import Points
from twopc.sim.model.builder import BuildError
from twopc.sim.model.kernel import SimpyKernel
from twopc.sim.model.merge.merge_nodes import ModelMerging
from twopc.sim.model.ports import RecorderPort
from twopc.sim.model.sql import parse
from twopc.sim.model.system import System, build
from twopc.sim.model.values import ModelSpec, SqlError, UnsupportedError
from twopc.sim.model.wiring import Wiring
from twopc.sim.scenario.check import LoadedScenario
from twopc.sim.scenario.matrix import applies
from twopc.sim.scenario.merge_model_setup import empty_spec, merging_of
from twopc.sim.scenario.model import Scenario
from twopc.sim.scenario.model_setup import spec_of
from twopc.sim.scenario.stage import SetUpError
from twopc.sim.scenario.text import Path
from twopc.sim.scenario.values import Cell

_NO_RIGHTS = "the model looks at no rights, so it has no roles"
_NO_NOTICES = "the model sends no notices"


def check_model(loaded: LoadedScenario) -> None:
    """Record in the document the parts that the model does not support."""
    document = loaded.document
    for cell, scenario in loaded.cells:
        for path, message in unknown(scenario, cell):
            document.error(path, message)


def unknown(scenario: Scenario, cell: Cell) -> Iterator[tuple[Path, str]]:
    """Yield the parts of a scenario with a cell's values that the model does not support, with their places."""
    yield from _unsupported(scenario)
    try:
        spec = spec_of(scenario)
        kernel, recorder = SimpyKernel(spec.seed), NullRecorder()
        if scenario.merges:
            model, _ = built_to_merge(scenario, spec, Points(), kernel=kernel, recorder=recorder)
        else:
            model = built(scenario, spec, Wiring(), kernel=kernel, recorder=recorder)
    except SetUpError as error:
        yield error.path, str(error)
        return
    for path, nodes, text in statements(scenario):
        for node in nodes if applies(path, cell) else ():
            result = _unknown(model, node, text)
            if result is not None:
                yield path, refusal_text(result)
                break


@contextmanager
def _placing(scenario: Scenario) -> Generator[None]:
    """Convert errors of the model to SetUpError with their place in the file."""
    try:
        yield
    except UnsupportedError as error:
        raise SetUpError(
            error.path or path_of(scenario, error.text), refusal_text(error)
        ) from error
    except BuildError as error:
        raise SetUpError(error.path, f"the model says: {error}") from error


def built(
    scenario: Scenario,
    spec: ModelSpec,
    wiring: Wiring,
    *,
    kernel: SimpyKernel,
    recorder: RecorderPort,
    points: Points | None = None,
) -> System:
    """Return a model of a scenario.

    Args:
        points: protocol points of its processes; by default its own.

    Raises:
        SetUpError: the model does not support a part of the scenario, or refuses it as a server would.
    """
    with _placing(scenario):
        return build(spec, wiring, kernel=kernel, recorder=recorder, points=points)


def built_to_merge(
    scenario: Scenario,
    spec: ModelSpec,
    points: Points,
    off: frozenset[str] = frozenset(),
    *,
    kernel: SimpyKernel,
    recorder: RecorderPort,
) -> tuple[System, ModelMerging]:
    """Return a model of a scenario of merge replication, and its merge replication. See `built` for errors.

    Args:
        points: protocol points of its merge sessions.
        off: protections that are switched off.
    """
    model = built(scenario, empty_spec(spec), Wiring(), kernel=kernel, recorder=recorder)
    with _placing(scenario):
        return model, merging_of(model, spec, scenario, points, off)


class NullRecorder:
    """A recorder that stores only drawn parameters, for callers that observe the model themselves."""

    def __init__(self) -> None:
        self.drawn: dict[str, Any] = {}
        self.watched: Callable[[str, Any], None] | None = None
        """Called with the gid and each effect or event of the coordinators' machines."""

    def write(self, kind: str, **fields: Any) -> None:
        """Pass on a record of a coordinator's machine; other records are dropped."""
        if self.watched is not None and kind == "machine":
            self.watched(fields["gid"], fields["what"])

    def drew(self, name: str, value: Any) -> None:
        """Store a drawn parameter."""
        self.drawn[name] = value


def refusal_text(error: UnsupportedError) -> str:
    """Return the message of an error without the statement, whose place is shown."""
    return f"the model does not know {error.what}"


def path_of(scenario: Scenario, text: str) -> Path:
    """Return the place in the file of a text, or of a text that contains it; that of the tables if it is not found."""
    requested = " ".join(text.split())
    for path, _, result in (*statements(scenario), *_texts(scenario)):
        if requested in " ".join(result.split()):
            return path
    return ("tables",)


def _unknown(model: System, node: str, text: str) -> UnsupportedError | None:
    plans = model.nodes[node].plans
    for each in parse.statements(text):
        try:
            plans.get(each)
        except UnsupportedError as error:
            return error
        except SqlError:
            pass  # an error that servers report too, not a limit of the model
    return None


def _unsupported(scenario: Scenario) -> Iterator[tuple[Path, str]]:
    for path, _, _, step in scenario.placed_steps():
        if step.role:
            yield (*path, "as"), _NO_RIGHTS
    for place, order in enumerate(scenario.orders):
        for at, item in enumerate(order.steps):
            if item.waits_for_notices:
                yield ("orders", place, "steps", at), _NO_NOTICES


def statements(scenario: Scenario) -> Iterator[tuple[Path, Sequence[str], str]]:
    """Yield each statement with its place and its nodes."""
    for name, session in scenario.sessions.items():
        for when in ("setup", "teardown"):
            for place, text in enumerate(getattr(session, when)):
                yield ("sessions", name, when, place), (session.node,), text
        for place, (step_name, step) in enumerate(session.named_steps):
            at: Path = ("sessions", name, "steps", place, step_name)
            for text in (*step.statements, *([step.script] if step.script is not None else ())):
                yield at, (session.node,), text
    for when in ("setup", "teardown"):
        for place, text in enumerate(getattr(scenario, when)):
            yield (when, place), (scenario.topology.publisher,), text
    for path, query in scenario.queries():
        yield path, query.nodes(scenario.topology.nodes), query.text


def _texts(scenario: Scenario) -> Iterator[tuple[Path, Sequence[str], str]]:
    """Yield each text of a definition with its place."""
    for name, table in scenario.tables.items():
        for column, text in table.columns.items():
            yield ("tables", name, "columns", column), (), text
        for place, text in enumerate(table.sql):
            yield ("tables", name, "sql", place), (), text
        for place, text in enumerate(table.procedures):
            yield ("tables", name, "procedures", place), (), text
        if table.filter:
            yield ("tables", name, "filter"), (), table.filter
    for name, procedure in scenario.procedures.items():
        yield ("procedures", name, "body"), (), procedure.body
        for place, text in enumerate(procedure.at_subscribers):
            yield ("procedures", name, "at_subscribers", place), (), text
    for name, message in scenario.subscribers.items():
        for place, text in enumerate(message.sql):
            yield ("subscribers", name, "sql", place), (), text
        for table_name, text in message.filter.items():
            yield ("subscribers", name, "filter", table_name), (), text
