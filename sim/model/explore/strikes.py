"""Faults that may strike a program: each kind of fault finds its possible strikes at a moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from twopc.sim.model.choosers import WRITE, Absorbs, Choice, Strike
from twopc.sim.model.system import LOG
from twopc.sim.model.values import Cause

if TYPE_CHECKING:
    from twopc.sim.model.explore.programs import ScriptRun
    from twopc.sim.model.seats import CoordinatorSeat

#: Kinds of faults, with descriptions.
FAULTS: Mapping[str, str] = {
    "coordinator": "kill -9 of the coordinator; another process of its name starts at once",
    "pause": "SIGSTOP of the coordinator; another process of its name starts, and much later the first goes on",
    "publisher": "the Publisher goes down, with what its disk did not have yet, and comes back",
    "subscriber": "a Subscriber likewise",
    "publisher away": "the Publisher goes down, and stays down until nothing else happens",
    "subscriber away": "a Subscriber likewise",
    "log": "the server of the decision log likewise",
    "connection": "a connection breaks while a client waits for an answer over it",
    "machine": "power failure where the coordinator and the decision log are; both come back",
    "another": "another process of the coordinator starts while the first is alive",
    "hand": "a prepared branch is finished by hand, against the coordinator's decision",
    "agent": "kill -9 of an agent; the next delivery starts another",
    "log reader": "kill -9 of the log reader; the next delivery starts another",
    "backend": "a session that is idle in a transaction is ended by its server",
}

_TRAVELS = frozenset((Cause.MESSAGE, Cause.REPLY))
#: Readers of prepared branches: see `twopc.sim.model.node.prepared_transactions.PreparedTransaction.notify_change`.
_BRANCHES = "branches "
#: Names of the decision log in labels and in connections.
_OF_LOG = ("node log", f"node {LOG}")


def _memory_of(actor: str, name: str) -> Absorbs:
    """Return a predicate for events that leave no trace if a coordinator's process dies.

    These are events that changed only the process's memory, including messages that were about to be sent.
    """
    own = (
        f"actor {actor}",
        *(f"{what} of {name}" for what in ("queue", "epochs", "turn", "forgotten")),
    )

    def absorbs(event: Choice, seen: Mapping[str, int]) -> bool:
        if any(what.startswith("sessions ") for what in seen):
            return False  # a session began or ended: this changes the numbers of later ones
        return event.label.cause in _TRAVELS and all(
            what in own
            or what.startswith((f"actor {actor}:", _BRANCHES))
            or what.endswith(f" of {actor}")
            for what, how in seen.items()
            if how == WRITE
        )

    return absorbs


def _memory_at(name: str, *, with_log: bool) -> Absorbs:
    """Return a predicate for events that leave no trace if a server crashes.

    These are events on which no process waits and of which the server's log has no record.

    Args:
        with_log: whether flushes of the log are included: in another strike the record is on disk without any
            process knowing.
    """
    lost = (f"at {name}", f"given up at {name}", f"tables at {name}")
    flushed = (*lost, f"actor node:{name}", f"log at {name}")

    def absorbs(event: Choice, seen: Mapping[str, int]) -> bool:
        written = [what for what, how in seen.items() if how == WRITE]
        if event.label.cause is Cause.FLUSH:
            return with_log and all(
                what in flushed or (what.startswith("branch ") and what.endswith(f" at {name}"))
                for what in written
            )
        own = f"actor {event.label.actor}"
        return (
            event.label.cause in _TRAVELS
            and lost[0] in written
            and all(what == own or what in lost or what.startswith("wire of ") for what in written)
        )

    return absorbs


def _busy(run: ScriptRun) -> Iterator[tuple[str, CoordinatorSeat, tuple[str, str]]]:
    """Yield the coordinators with open transactions: name, seat, and the objects that the death of the process writes."""
    for name, seat in run.system.coordinators().items():
        if seat.process.alive and seat.process.active:
            yield name, seat, (f"process {seat.process.actor}", f"seat {name}")


def _coordinators(run: ScriptRun) -> list[Strike]:
    return [
        Strike(
            f"coordinator {name} is killed, and another process of it starts",
            partial(run.coordinator_killed, name),
            objects,
            "crash coordinator",
            _memory_of(seat.process.actor, name),
        )
        for name, seat, objects in _busy(run)
    ]


def _pauses(run: ScriptRun) -> list[Strike]:
    return [
        Strike(
            f"coordinator {name} stands still, and another process of it starts",
            partial(run.coordinator_paused, name),
            ("*",),
        )
        for name, _, _ in _busy(run)
    ]


def _away(run: ScriptRun, names: Sequence[str]) -> list[Strike]:
    return [
        Strike(
            f"{name} goes down, and stays away",
            partial(run.node_down, name, None, away=True),
            (f"node {name}",),
            absorbs=_memory_at(name, with_log=False),
        )
        for name in names
        if run.system.nodes[name].up
    ]


def _nodes(run: ScriptRun, names: Sequence[str]) -> list[Strike]:
    results = []
    for name in names:
        node = run.system.nodes[name]
        if not node.up:
            continue
        for place, kept in enumerate((None, *node.wal.young())):
            what = f"{name} goes down" + (
                f" with {place} more records on its disk" if place else ""
            )
            results.append(
                Strike(
                    what, partial(run.node_down, name, kept),
                    (f"node {name}",), "" if place else f"restart node {name} immediate",
                    _memory_at(name, with_log=True),
                )
            )  # fmt: skip
    return results


def _publisher(run: ScriptRun) -> list[Strike]:
    return _nodes(run, [run.script.spec.publisher])


def _subscribers(run: ScriptRun) -> list[Strike]:
    return _nodes(run, _used(run))


def _used(run: ScriptRun) -> list[str]:
    """Return the Subscribers at which a client works."""
    used = dict.fromkeys(name for one in run.script.clients.values() for name in one.nodes)
    return [name for name in used if name != run.script.spec.publisher]


def _log(run: ScriptRun) -> list[Strike]:
    if not run.system.log_host.up:
        return []
    return [Strike("the decision log goes down", partial(run.node_down, LOG, None), _OF_LOG)]


def _connections(run: ScriptRun) -> list[Strike]:
    return [
        Strike(
            f"the connection of {wire.actor} to {wire.there} breaks",
            partial(wire.break_, "it broke"),
            (f"actor {wire.actor}", f"node {wire.there}"),
            on=wire.search_name,
        )
        for wire in run.system.network.wires
        if wire.waiting
    ]


def _machine(run: ScriptRun) -> list[Strike]:
    return [
        Strike(
            f"power failure where coordinator {name} and the decision log are",
            partial(run.machine_fails, name),
            (*objects, *_OF_LOG),
            absorbs=_memory_of(seat.process.actor, name),
        )
        for name, seat, objects in _busy(run)
        if run.system.log_host.up
    ]


def _others(run: ScriptRun) -> list[Strike]:
    return [
        Strike(f"another process of coordinator {name} starts", seat.restart, objects)
        for name, seat, objects in _busy(run)
    ]


def _by_hand(run: ScriptRun) -> list[Strike]:
    return [
        Strike(
            f"{gid} is rolled back by hand",
            partial(run.finished_by_hand, name, gid),
            (f"node {name}",),
        )
        for name, node in run.system.nodes.items()
        for gid in node.prepared()
    ]


def _agents(run: ScriptRun) -> list[Strike]:
    if run.system.distribution is None:
        return []
    results = []
    for name in run.system.subscribers:
        seat = run.system.agent(name)
        if seat.process is not None and seat.process.alive:
            results.append(
                Strike(
                    f"the agent of {name} is killed",
                    seat.crash,
                    ("*",), f"crash agent {name}",
                )
            )  # fmt: skip
    return results


def _log_readers(run: ScriptRun) -> list[Strike]:
    distribution = run.system.distribution
    process = None if distribution is None else distribution.reader.process
    if process is None or not process.alive:
        return []
    return [Strike("the log reader is killed", process.crash, ("*",))]


def _backends(run: ScriptRun) -> list[Strike]:
    results = []
    for name, node in run.system.nodes.items():
        for session in node.sessions.values():
            if session.tx is not None and not session.busy and session.dead is None:
                who = session.application_name or "a session"
                results.append(
                    Strike(
                        f"{name} ends the idle session of {who}",
                        session.terminate,
                        (f"node {name}",), on=session.search_name,
                    )
                )  # fmt: skip
    return results


#: By kind: returns the strikes that are possible now.
STRIKES: Mapping[str, Callable[[ScriptRun], list[Strike]]] = {
    "coordinator": _coordinators,
    "pause": _pauses,
    "publisher": _publisher,
    "subscriber": _subscribers,
    "publisher away": lambda run: _away(run, [run.script.spec.publisher]),
    "subscriber away": lambda run: _away(run, _used(run)),
    "log": _log,
    "connection": _connections,
    "machine": _machine,
    "another": _others,
    "hand": _by_hand,
    "agent": _agents,
    "log reader": _log_readers,
    "backend": _backends,
}
