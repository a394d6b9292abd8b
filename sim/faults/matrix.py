"""The crash matrix of a scenario: what happens at every point that a run without faults comes by.

A cell is one fault of the scenario language, added to one of the file's orders. What the order expects of its
steps does not hold then; its invariants do, and nothing may be prepared after recovery.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection

from twopc.sim.faults.capabilities import MERGE, MERGE_DELIVERY
from twopc.sim.faults.plans import needs_servers
from twopc.sim.report.history import History, HistoryRecord, OrderHistory
from twopc.sim.scenario.cases import groups
from twopc.sim.scenario.check import LoadedScenario, load
from twopc.sim.scenario.faults import ArrivalSelection, Fault
from twopc.sim.scenario.faults_meaning import points
from twopc.sim.scenario.judging.case_expectations import CaseExpectations
from twopc.sim.scenario.judging.invariants import invariants
from twopc.sim.scenario.judging.lapses import stuck, timed_out
from twopc.sim.scenario.judging.runs import Runs
from twopc.sim.scenario.judging.verdicts import FailedCheck
from twopc.sim.scenario.matrix import path_of
from twopc.sim.scenario.meaning import check_meaning
from twopc.sim.scenario.model import Scenario
from twopc.sim.scenario.runner import Runner
from twopc.sim.scenario.stage import Theatre
from twopc.sim.scenario.theatres import TheatreOptions, played, theatre
from twopc.sim.scenario.values import Capabilities, Case, Selection

#: The id of a cell's fault: no file's fault is called so.
_FAULT = "cell"
_ARRIVALS_MAX = 3
#: Of a node's, first words, and whether each node is struck or the coordinator alone. What only takes time,
#: or lets a person do harm, is no crash.
_OF_NODES = (
    "terminate backend {node}",
    "cancel backend {node}",
    "kill backend {node}",
    "restart node {node} immediate",
    "stop node {node}",
    "cut coordinator-{node}",
)
_OF_ALL = ("crash coordinator", "pause coordinator", "lose reply", "repeat request")
#: Points that no order of a clean run tells of: whether they are reached is seen when they are struck.
_ONCE = ("trigger.enter", "proc.before_compare", "proc.after_apply")

#: Who says that a branch is not settled yet, and in which words; and what is said of the node that is in the way.
_LOGGERS = ("twopc.drivers.hub", "twopc.drivers.recovery", "twopc.drivers.peers")
_NOT_SETTLED = "branch not settled yet"
_UNREACHED = "recovery cannot reach a node"


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixCell:
    """One fault at one arrival at one point, in one order of a scenario."""

    order: str
    point: str
    nth: int
    do: str
    commit: str = ""
    """The variant of two-phase commit, where it is not the file's; `order` names it then."""

    def __str__(self) -> str:
        repeated = f" #{self.nth}" if self.nth > 1 else ""
        return f"{self.order} | {self.point}{repeated} | {self.do}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixResult:
    """What came of a cell."""

    cell: MatrixCell
    broken: tuple[str, ...] = ()
    """Which invariants do not hold; empty: all do."""
    struck: bool = True
    """False: the run has not come by there, or the fault had nothing to act on."""
    outcomes: str = ""
    """``alice committed, bob in doubt``."""
    seconds: float = 0.0
    unsettled: int = 0
    """How often a coordinator has said that it could not settle a branch yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixSetup:
    """What a process needs to play cells of a scenario."""

    path: str
    on: str
    options: TheatreOptions
    selection: Selection
    commits: tuple[str, ...] = ()
    """Variants of two-phase commit, each of which every order is played in; none: the file's own."""


@dataclass(frozen=True, slots=True)
class Derive:
    """The job to find out the cells of an order."""

    order: str


# -- what there is ---------------------------------------------------------------------------------


def cases(
    loaded: LoadedScenario, selection: Selection, commits: Sequence[str] = ()
) -> Iterator[Case]:
    """A case for each order, in each cell of the file's own matrix; of generated ones the first.

    Args:
        commits: variants of two-phase commit, a case in each, as far as the scenario allows it.
    """
    for case in _cases(loaded, selection):
        if not commits:
            yield case
        for commit in commits:
            made, why = in_variant(loaded, case, commit)
            if not why:
                yield made


def left_out(
    loaded: LoadedScenario, selection: Selection, commits: Sequence[str]
) -> dict[str, str]:
    """The cases that no stage could play, each with why."""
    return {
        made.name: why
        for case in _cases(loaded, selection)
        for commit in commits
        for made, why in [in_variant(loaded, case, commit)]
        if why
    }


def _cases(loaded: LoadedScenario, selection: Selection) -> Iterator[Case]:
    chosen = dataclasses.replace(selection, twins=False)
    for group in groups(loaded, chosen):
        course = group.courses.next()
        if course is not None:
            yield dataclasses.replace(group.case(*course), number=0)


def in_variant(loaded: LoadedScenario, case: Case, commit: str) -> tuple[Case, str]:
    """The case in another variant of two-phase commit, and why that cannot be; empty: it can.

    Where the file's own matrix says the variant, it is not changed.
    """
    topology = case.scenario.topology
    if any(path_of(key) == ["topology", "commit"] for key, _ in case.cell.values):
        return case, "" if topology.commit == commit else "the file's matrix has it in another cell"
    scenario = case.scenario.model_copy(
        update={"topology": topology.model_copy(update={"commit": commit})}
    )
    examined = dataclasses.replace(loaded.document, problems=[])
    check_meaning(examined, scenario)
    why = examined.errors[0].message if examined.errors else ""
    return dataclasses.replace(case, name=f"{case.name} [{commit}]", scenario=scenario), why


def with_faults(case: Case, faults: tuple[Fault, ...]) -> Case:
    """The case, with faults that are armed from its beginning beside its own."""
    names = tuple(fault.id for fault in faults)
    order = case.order.model_copy(update={"faults": (*case.order.faults, *names)})
    scenario = case.scenario.model_copy(update={"faults": (*case.scenario.faults, *faults)})
    return dataclasses.replace(case, scenario=scenario, order=order)


def _fault(name: str, point: str, nth: int, do: str) -> Fault:
    return Fault(id=name, at=point, when=ArrivalSelection(nth=nth), do=do, heal="at end")


def _nodes(case: Case) -> list[str]:
    """The Publisher, and the nodes of the sessions that the order has."""
    named = [case.scenario.steps[item.step][0] for item in case.items if item.step]
    homes = [case.scenario.sessions[name].node for name in named]
    return list(dict.fromkeys((case.scenario.topology.publisher, *homes)))


def _points(scenario: Scenario, possible: Capabilities, nodes: list[str]) -> Iterator[str]:
    """Every point that a fault can be at, at every node that it may be of."""
    if scenario.merges:
        nodes = [node for node in nodes if node in scenario.topology.subscribers]
    for template in sorted(points()):
        name = template.partition("(")[0]
        if (name in MERGE or name in MERGE_DELIVERY) != scenario.merges:
            continue
        if name in MERGE_DELIVERY and scenario.topology.snapshot == "none":
            continue
        if name not in possible.points and template not in possible.points:
            continue
        if name.startswith(("agent.", "log_reader.")):
            continue
        if template == name:
            yield name
        else:
            yield from (f"{name}({node})" for node in nodes)


def deeds(possible: Capabilities, nodes: list[str], point: str) -> Iterator[str]:
    """What can be done at a point."""
    name, _, node = point.rstrip(")").partition("(")
    if name in MERGE or name in MERGE_DELIVERY:
        yield f"crash agent {node}"
        return
    for text in _OF_ALL + tuple(text.format(node=node) for text in _OF_NODES for node in nodes):
        verb = text.partition(" ")[0]
        if verb in possible.faults and name in possible.faults_at.get(verb, possible.points):
            yield text


# -- playing ---------------------------------------------------------------------------------------


class CellPlayer:
    """Plays the cells of one scenario, one after the other."""

    def __init__(self, setup: MatrixSetup, place: Theatre) -> None:
        self._theatre = place
        requested = cases(load(setup.path), setup.selection, setup.commits)
        self._cases = {case.name: case for case in requested}
        self._names_commit = bool(setup.commits)
        self._timeout_ms = setup.selection.step_timeout_ms

    async def derive(self, order: str) -> list[MatrixCell]:
        """The cells of an order: from a run in which it only stands for a moment wherever it comes by."""
        case = self._cases[order]
        possible, nodes = self._theatre.capabilities, _nodes(case)
        probes = {
            f"probe{number}": (point, nth)
            for number, (point, nth) in enumerate(
                (point, nth)
                for point in _points(case.scenario, possible, nodes)
                if point.partition("(")[0] not in _ONCE
                for nth in range(1, _ARRIVALS_MAX + 1)
            )
        }
        faults = tuple(_fault(name, *place, "delay 1ms") for name, place in probes.items())
        with _unsettled():
            history = await self._play(with_faults(case, faults), order)
        reached = [
            probes[name]
            for record in history.records
            if record.kind == "fault" and (name := str((record.data or {}).get("id"))) in probes
        ]
        reached += [
            (point, 1)
            for point in _points(case.scenario, possible, nodes)
            if point.partition("(")[0] in _ONCE
        ]
        commit = case.scenario.topology.commit if self._names_commit else ""
        return [
            MatrixCell(order=order, point=point, nth=nth, do=do, commit=commit)
            for point, nth in dict.fromkeys(reached)
            for do in deeds(possible, nodes, point)
        ]

    async def cell(self, cell: MatrixCell) -> MatrixResult:
        """Play a cell and judge it."""
        began = time.monotonic()
        fault = _fault(_FAULT, cell.point, cell.nth, cell.do)
        case = self._cases[cell.order]
        try:
            with _unsettled() as report:
                history = await self._play(with_faults(case, (fault,)), str(cell))
        except (
            Exception
        ) as error:  # one that cannot be played is broken, and the others are not its victims
            took = time.monotonic() - began
            return MatrixResult(cell=cell, broken=(f"not played: {error!r}",), seconds=took)
        runs, expected = Runs(history.records), CaseExpectations(case)
        failures = [
            *stuck(case, expected, runs),
            *timed_out(case, expected, runs),
            *invariants(case, expected, runs),
        ]
        if _somebody_guessed(case, history.records):
            failures = [one for one in failures if not _is_confessed(one, history.records)]
        outcomes = [
            f"{record.session} {record.message}"
            for record in history.records
            if record.kind == "outcome"
        ]
        return MatrixResult(
            cell=cell,
            broken=tuple(failure.message for failure in failures),
            struck=any(_has_struck(record, {_FAULT}) for record in history.records),
            outcomes=", ".join(outcomes),
            seconds=time.monotonic() - began,
            unsettled=report.count,
        )

    async def _play(self, case: Case, name: str) -> OrderHistory:
        """Play a case and return what happened."""
        clock = None
        if self._theatre.capabilities.is_virtual:
            loop = asyncio.get_running_loop()
            now = getattr(loop, "virtual_time", loop.time)
            clock = lambda: round(now() * 1_000_000_000)  # noqa: E731 -- the one place
        own = History().of(name, clock=clock)
        async with self._theatre.stage(case) as stage:
            await Runner(case, stage, own, step_timeout_ms=self._timeout_ms).play()
        own.write("end")
        return own


def _somebody_guessed(case: Case, records: Sequence[HistoryRecord]) -> bool:
    """Whether a fault of the file's own has finished a branch by hand: right once, and wrong in this cell, maybe."""
    by_hand = {one.id for one in case.scenario.faults if one.do.startswith("finish ")}
    return any(_has_struck(one, by_hand) for one in records)


def _has_struck(record: HistoryRecord, faults: Collection[str]) -> bool:
    """Whether one of these faults has happened, and had something to act on."""
    data = record.data or {}
    return record.kind == "fault" and data.get("id") in faults and "no_effect" not in data


def _is_confessed(failure: FailedCheck, records: Sequence[HistoryRecord]) -> bool:
    """Whether it is damage that no protocol can mend, and the application was not told that all is well."""
    unknown = [one.gid for one in records if one.kind == "in_doubt"]
    if failure.check == "atomic":
        return any(f": {gid} took effect at " in failure.message for gid in unknown)
    return failure.check == "converged" and bool(unknown)


def serve(setup: MatrixSetup, wire: Connection) -> None:
    """Play what comes over the wire until its end; for `twopc.sim.faults.matrix_pool`."""
    played(setup.on, _serve(setup, wire))


async def _serve(setup: MatrixSetup, wire: Connection) -> None:
    # Between two cells nothing goes on here, so it may stand where it listens.
    async with theatre(setup.on, setup.options) as place:
        stand = CellPlayer(setup, place)
        while (job := wire.recv()) is not None:
            if isinstance(job, Derive):
                wire.send(await stand.derive(job.order))
            else:
                wire.send(await stand.cell(job))


def needs_a_server_each(cell: MatrixCell, scenario: Scenario) -> bool:
    """Whether it is played on servers of its own, which cells of one kind share."""
    own = scenario.model_copy(update={"faults": (_fault(_FAULT, cell.point, cell.nth, cell.do),)})
    return needs_servers(own) is not None


class _Unsettled(logging.Filter):
    """How often it was said that a branch is not settled yet."""

    count = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep what is something else."""
        self.count += record.msg == _NOT_SETTLED
        return record.msg not in (_NOT_SETTLED, _UNREACHED)


@contextmanager
def _unsettled() -> Iterator[_Unsettled]:
    """Within the block those warnings are counted, and nobody else hears of them."""
    result = _Unsettled()
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    for each in loggers:
        each.addFilter(result)
    try:
        yield result
    finally:
        for each in loggers:
            each.removeFilter(result)
