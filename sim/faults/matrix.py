"""The crash matrix of a scenario: a fault at every point that a run without faults reaches.

A cell is one fault of the scenario language, added to one of the file's orders. The order's expectations of its
steps are not checked then; its invariants are, and nothing may be prepared after recovery.
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
from twopc.sim.scenario.runner import play_case
from twopc.sim.scenario.stage import Theatre
from twopc.sim.scenario.theatres import TheatreOptions, played, theatre
from twopc.sim.scenario.values import Capabilities, Case, Selection

#: The id of a cell's fault, which no file's fault has.
_FAULT = "cell"
_ARRIVALS_MAX = 3
#: Faults of nodes, and below those of the coordinator or of a request. Faults that only delay, or in which an
#: operator does harm, are not crashes.
_OF_NODES = (
    "terminate backend {node}",
    "cancel backend {node}",
    "kill backend {node}",
    "restart node {node} immediate",
    "stop node {node}",
    "cut coordinator-{node}",
)
_OF_ALL = ("crash coordinator", "pause coordinator", "lose reply", "repeat request")
#: Points that a run without faults does not report: whether they are reached is known only when a fault is armed
#: there.
_UNREPORTED = ("trigger.enter", "proc.before_compare", "proc.after_apply")

#: Loggers of warnings that a branch is not settled yet, and the messages of these and of unreachable nodes.
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
    """Variant of two-phase commit, if it is not the file's; part of `order` then."""

    def __str__(self) -> str:
        repeated = f" #{self.nth}" if self.nth > 1 else ""
        return f"{self.order} | {self.point}{repeated} | {self.do}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixResult:
    """The result of a cell."""

    cell: MatrixCell
    broken: tuple[str, ...] = ()
    """Violated invariants; empty: all hold."""
    struck: bool = True
    """Whether the run has reached the point, and the fault had an object to act on."""
    outcomes: str = ""
    """Outcome of each session's transaction: ``alice committed, bob in doubt``."""
    seconds: float = 0.0
    unsettled: int = 0
    """Number of warnings of a coordinator that a branch could not be settled yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixSetup:
    """The arguments of a process that plays cells of a scenario."""

    path: str
    on: str
    options: TheatreOptions
    selection: Selection
    commits: tuple[str, ...] = ()
    """Variants of two-phase commit in which every order is played; none: the file's own."""


@dataclass(frozen=True, slots=True)
class Derive:
    """The job of finding the cells of an order."""

    order: str


# -- cases ---------------------------------------------------------------------------------------


def cases(
    loaded: LoadedScenario, selection: Selection, commits: Sequence[str] = ()
) -> Iterator[Case]:
    """Yield a case for each order, in each cell of the file's own matrix; the first case of generated orders.

    Args:
        commits: variants of two-phase commit, with a case for each that the scenario allows.
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
    """Return the cases that no stage could play, each with the reason."""
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
    """Return the case in another variant of two-phase commit, and why it is impossible; empty: it is possible.

    If the file's own matrix sets the variant, it is not changed.
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
    """Return the case with additional faults that are armed from its beginning."""
    names = tuple(fault.id for fault in faults)
    order = case.order.model_copy(update={"faults": (*case.order.faults, *names)})
    scenario = case.scenario.model_copy(update={"faults": (*case.scenario.faults, *faults)})
    return dataclasses.replace(case, scenario=scenario, order=order)


def _fault(name: str, point: str, nth: int, do: str) -> Fault:
    return Fault(id=name, at=point, when=ArrivalSelection(nth=nth), do=do, heal="at end")


def _nodes(case: Case) -> list[str]:
    """Return the Publisher, and the nodes of the order's sessions."""
    named = [case.scenario.steps[item.step][0] for item in case.items if item.step]
    homes = [case.scenario.sessions[name].node for name in named]
    return list(dict.fromkeys((case.scenario.topology.publisher, *homes)))


def _points(scenario: Scenario, possible: Capabilities, nodes: list[str]) -> Iterator[str]:
    """Yield every point at which a fault can strike, for every node that it may have."""
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
    """Yield the faults that are possible at a point."""
    name, _, node = point.rstrip(")").partition("(")
    if name in MERGE or name in MERGE_DELIVERY:
        yield f"crash agent {node}"
        return
    for text in _OF_ALL + tuple(text.format(node=node) for text in _OF_NODES for node in nodes):
        verb = text.partition(" ")[0]
        if name in possible.faults_at.get(verb, ()):
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
        """Return the cells of an order, from a run with a short delay at every point."""
        case = self._cases[order]
        possible, nodes = self._theatre.capabilities, _nodes(case)
        probes = {
            f"probe{number}": (point, nth)
            for number, (point, nth) in enumerate(
                (point, nth)
                for point in _points(case.scenario, possible, nodes)
                if point.partition("(")[0] not in _UNREPORTED
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
            if point.partition("(")[0] in _UNREPORTED
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
        # a cell that cannot be played is broken, and must not stop the others
        except Exception as error:
            took = time.monotonic() - began
            return MatrixResult(cell=cell, broken=(f"not played: {error!r}",), seconds=took)
        runs, expected = Runs(history.records), CaseExpectations(case)
        failures = [
            *stuck(case, expected, runs),
            *timed_out(case, expected, runs),
            *invariants(case, expected, runs),
        ]
        if _was_finished_manually(case, history.records):
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
        clock = None
        if self._theatre.capabilities.is_virtual:
            loop = asyncio.get_running_loop()
            now = getattr(loop, "virtual_time", loop.time)
            clock = lambda: round(now() * 1_000_000_000)  # noqa: E731 -- used once
        own = History().of(name, clock=clock)
        async with self._theatre.stage(case) as stage:
            await play_case(case, stage, own, step_timeout_ms=self._timeout_ms)
        own.write("end")
        return own


def _was_finished_manually(case: Case, records: Sequence[HistoryRecord]) -> bool:
    """Whether a fault of the file has finished a branch manually, with an outcome that may be wrong in this cell."""
    by_hand = {one.id for one in case.scenario.faults if one.do.startswith("finish ")}
    return any(_has_struck(one, by_hand) for one in records)


def _has_struck(record: HistoryRecord, faults: Collection[str]) -> bool:
    """Whether a record is of a strike of one of these faults that had an effect."""
    data = record.data or {}
    return record.kind == "fault" and data.get("id") in faults and "no_effect" not in data


def _is_confessed(failure: FailedCheck, records: Sequence[HistoryRecord]) -> bool:
    """Whether a failure is damage that no protocol can prevent, and the application got no false confirmation."""
    unknown = [one.gid for one in records if one.kind == "in_doubt"]
    if failure.check == "atomic":
        return any(f": {gid} took effect at " in failure.message for gid in unknown)
    return failure.check == "converged" and bool(unknown)


def serve(setup: MatrixSetup, wire: Connection) -> None:
    """Play the jobs that arrive over the wire until its end; for `twopc.sim.faults.matrix_pool`."""
    played(setup.on, _serve(setup, wire))


async def _serve(setup: MatrixSetup, wire: Connection) -> None:
    # Between two cells nothing runs on this event loop, so a blocking receive is possible.
    async with theatre(setup.on, setup.options) as place:
        stand = CellPlayer(setup, place)
        while (job := wire.recv()) is not None:
            if isinstance(job, Derive):
                wire.send(await stand.derive(job.order))
            else:
                wire.send(await stand.cell(job))


def needs_a_server_each(cell: MatrixCell, scenario: Scenario) -> bool:
    """Whether a cell is played on servers of its own, which cells of one kind share."""
    own = scenario.model_copy(update={"faults": (_fault(_FAULT, cell.point, cell.nth, cell.do),)})
    return needs_servers(own) is not None


class _Unsettled(logging.Filter):
    """Counts and suppresses warnings that a branch is not settled yet."""

    count = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Suppress these warnings and count them; pass all others."""
        self.count += record.msg == _NOT_SETTLED
        return record.msg not in (_NOT_SETTLED, _UNREACHED)


@contextmanager
def _unsettled() -> Iterator[_Unsettled]:
    """Count these warnings within the block, and suppress them."""
    result = _Unsettled()
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    for each in loggers:
        each.addFilter(result)
    try:
        yield result
    finally:
        for each in loggers:
            each.removeFilter(result)
