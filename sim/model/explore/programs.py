"""Programs to explore: a small system, some sessions, and the faults that may strike.

A program consists of clients of the model, without a runner or an event loop: a run takes milliseconds. Independent
of what a search looks for.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from twopc.drivers.virtual import steps
from twopc.errors import (
    DeliveryError,
    HeuristicError,
    InDoubtError,
    LocalProtocolError,
    SubscriptionError,
    TransactionError,
    TwopcError,
)
from twopc.protocol.effects import Outcome
from twopc.sim.model.choosers import ChoiceKernel, Option, Strike
from twopc.sim.model.clients import PublisherClient, SubscriberClient
from twopc.sim.model.explore.evidence import Evidence, ReportedOutcome
from twopc.sim.model.explore.invariants import broken
from twopc.sim.model.explore.results import Budget
from twopc.sim.model.explore.strikes import STRIKES
from twopc.sim.model.system import LOG, System, build
from twopc.sim.model.values import Cause, Label, ModelSpec, RequestLostError, SqlError, Steps
from twopc.sim.model.wiring import Wiring
from twopc.waits import link_name

#: Longer than recovery waits between two passes.
_LONG_S = 3.5
#: Number of transaction numbers that are reserved for each client.
_APART = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptClient:
    """A session and its steps: statements, ``commit``, ``rollback``, ``sync``, ``reinitialise``.

    The first statement begins a transaction.
    """

    node: str
    steps: tuple[tuple[str, str], ...]
    """Name and text of each step."""
    params: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Parameters by step."""
    saves: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By step: names of parameters for later steps, each with the result column from which it is taken."""
    level: str = "read committed"
    also: tuple[str, ...] = ()
    """Further Subscribers at which its transactions have branches."""
    at: Mapping[str, str] = field(default_factory=dict)
    """Node of each step that is not executed at the client's own node."""
    beneath: tuple[str, ...] = ()
    """Steps that are executed directly on the connection, without the transaction's knowledge."""
    any_client: bool = False
    """Whether the client works without a coordinator, so that its own COMMIT decides."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """All nodes at which the client works."""
        return (self.node, *self.also)


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A program: a system, and clients that use it."""

    name: str
    spec: ModelSpec
    clients: Mapping[str, ScriptClient]
    prepare: Callable[[System], None] | None = None
    """Prepares the system outside virtual time, before the first event."""
    claims: Mapping[str, Callable[[Evidence], list[str]]] = field(default_factory=dict)
    """Invariants of this program: each returns its violations as texts."""
    checks: tuple[str, ...] = ()
    """Names of further invariants: see `twopc.sim.model.explore.invariants`."""
    forgoes: tuple[str, ...] = ()
    """Invariants that the clients themselves may violate."""
    keeps_rows: bool = False
    """Whether the rows of the first table are kept for every moment, not only for the end."""
    lingers: int = 0
    """Number of timers that fire after all clients have ended, while faults may still strike."""

    def start(self, kernel: ChoiceKernel, wiring: Wiring, budget: Budget) -> ScriptRun:
        """Return a new run of the program."""
        return ScriptRun(self, kernel, wiring, budget)


class ScriptRun:
    """A run of a script; see `twopc.sim.model.explore.single.ExploredRun`."""

    def __init__(
        self, script: Script, kernel: ChoiceKernel, wiring: Wiring, budget: Budget
    ) -> None:
        self.script: Script = script
        self.kernel = kernel
        self.budget = budget
        self.evidence = Evidence(keeps_rows=script.keeps_rows)
        self.system = build(script.spec, wiring, kernel=kernel, recorder=self.evidence)
        self.evidence.of(self.system)
        if script.prepare is not None:
            script.prepare(self.system)
        self.evidence.begins()
        kernel.settle()
        while (options := kernel.enabled()) and not options[0].is_timer:
            kernel.fire(options[0])  # coordinators start before the clients
        for seat in self.system.coordinators().values():
            kernel.run(kernel.spawn(steps(seat.process.log.epoch(script.spec.commit)), "an epoch"))
        self._lingered = 0
        self.launched: list[str] = []
        """Names of the steps that began, in order; kept only if a trace is made."""
        self.struck: list[tuple[Strike, str]] = []
        """Faults that struck, each with the protocol point that was reached last, if any."""
        self._sessions: dict[str, SubscriberClient | PublisherClient] = {}
        self._waited: dict[str, None] = {}
        self._links: dict[str, set[str]] = {name: set() for name in script.clients}
        """For each client, the names of all links that its sessions had."""
        self._alive = {
            name: kernel.spawn(self._client(name, one), f"client:{name}")
            for name, one in script.clients.items()
        }

    # -- clients -----------------------------------------------------------------------------------

    def _client(self, name: str, client: ScriptClient) -> Steps[None]:
        place = [*self.script.clients].index(name)
        numbers = itertools.count(place * _APART + 1)  # independent of the order of clients
        session = self.system.session(
            name, client.node, client.also, numbers, any_client=client.any_client
        )
        params: dict[str, Any] = {}
        report, refused = self.evidence.outcomes, False
        self._sessions[name] = session
        touches = frozenset((f"client {name}",))
        assert self.kernel.record_access is not None
        for step, text in client.steps:
            self.kernel.record_access(f"what {name} knows", True)
            label = Label(actor=name, cause=Cause.LAUNCH, what=f"{step}: {text}", touches=touches)
            yield self.kernel.delay(0.0, label)
            self._read_coordinators()
            if refused and text != "begin":
                continue
            refused = False
            try:
                if not session.is_open and text not in ("rollback", "sync", "reinitialise"):
                    yield from session.begin(client.level)
                if text == "commit":
                    yield from session.commit()
                    report.append(_played_outcome(name, client, step, session.gid, "committed"))
                elif text == "rollback":
                    yield from session.rollback()
                    report.append(_played_outcome(name, client, step, session.gid, "rolled back"))
                elif text == "sync":
                    yield from self.system.sync(self.system.subscribers)
                elif text == "reinitialise":
                    yield from self.system.reinitialise(client.node)
                elif text != "begin":
                    given = {**params, **client.params.get(step, {})}
                    rows = yield from (
                        session.execute(
                            text, given, at=client.at.get(step, ""), beneath=step in client.beneath
                        )
                        if isinstance(session, SubscriberClient)
                        else session.execute(text, given)
                    )
                    for column, by in client.saves.get(step, {}).items():
                        row = (rows.rows or [()])[0]
                        params[column] = row[rows.names.index(by)]
            except (TransactionError, LocalProtocolError) as error:
                report.append(
                    _played_outcome(name, client, step, session.gid, _outcome(error), error)
                )
                with suppress(TransactionError):  # the connection may be lost
                    yield from session.rollback()
                refused = True
            except (DeliveryError, SubscriptionError):
                continue  # `finish` delivers
        self.kernel.record_access(f"what {name} knows", True)
        yield from session.close()

    def _read_coordinators(self) -> None:
        """Report to the search that a step reads the state of the coordinators' processes."""
        assert self.kernel.record_access is not None
        for seat in self.system.coordinators().values():
            self.kernel.record_access(f"process {seat.process.actor}", False)
            self.kernel.record_access(f"seat {seat.name}", False)

    # -- ExploredRun -------------------------------------------------------------------------------

    def over(self) -> bool:
        """Return whether all clients have ended and only timers remain."""
        if any(process.is_alive for process in self._alive.values()):
            return False
        enabled = self.kernel.enabled()
        if any(not one.is_timer for one in enabled):
            return False
        self._lingered += 1
        return self._lingered > self.script.lingers

    def look(self) -> None:
        """Keep the state that can be observed from outside."""
        self.evidence.look()
        waiting = {
            one.application_name
            for node in self.system.nodes.values()
            for one in node.sessions.values()
            if one.wait is not None
        }
        for name, session in self._sessions.items():
            links = self._links[name]
            if isinstance(session, SubscriberClient):
                links.update(link_name(node, pid) for node, pid in session.pids.items())
            else:
                links.add(link_name(session.node, session.pid))
            if waiting and links & waiting:  # also sessions that were killed meanwhile
                self._waited[name] = None

    def strikes(self) -> Sequence[Strike]:
        """Return the faults that may strike now."""
        results: list[Strike] = []
        for kind in self.budget.of:
            results += STRIKES[kind](self)
        return results

    def finish(self) -> list[tuple[str, str]]:
        """Repair the failed parts, let recovery run, and return the violations."""
        kernel, system = self.kernel, self.system
        interval = self.script.spec.recovery_interval_s
        kernel.settle()
        for _ in range(12):
            kernel.run(kernel.now + interval)
            self.evidence.look()
            if system.quiet() and all(node.up for node in system.nodes.values()):
                break
        if self.script.spec.distributes:
            failed = self._deliver()
            if failed:
                return [("delivers", failed)]
        for _ in range(2):
            kernel.run(kernel.now + interval)
            self.evidence.ends()
        hung = [name for name, process in self._alive.items() if process.is_alive]
        if hung:
            return [("ends", f"{', '.join(hung)} never ended")]
        results = [
            one
            for one in broken(self.evidence, self.script.checks)
            if one[0] not in self.script.forgoes
        ]
        for name, claim in self.script.claims.items():
            results += [(name, message) for message in claim(self.evidence)]
        return results

    def _deliver(self) -> str:
        """Deliver all commits to all Subscribers; return why that failed, or an empty text."""
        system, kernel, failed = self.system, self.kernel, ""
        for _ in range(3):  # a server may not have noticed yet that an agent was killed
            try:
                kernel.run(kernel.spawn(system.sync(system.subscribers), "sync"))
            except (DeliveryError, SubscriptionError, TransactionError) as error:
                failed = str(error)
                kernel.run(kernel.now + self.script.spec.recovery_interval_s)
            else:
                self.evidence.deliveries += system.take_deliveries()
                return ""
        return failed

    def ending(self) -> str:
        """Return each client's last outcome, and the rows of the tables, as text."""
        last = {one.session: one.outcome for one in self.evidence.outcomes}
        text = ", ".join(
            f"{name} {last.get(name, 'nothing')}{' after a wait' if name in self._waited else ''}"
            for name in self.script.clients
        )
        return f"{text}; {self.evidence.rows()}"

    def story(self, option: Option) -> str:
        """Return the trace line of a step or a fault."""
        if isinstance(option, Strike):
            self.struck.append((option, self.evidence.point()))
            return f"!! {option.what}"
        if option.label.cause is Cause.LAUNCH:
            self.launched.append(option.label.what.partition(":")[0])
        return str(option) if option.label.cause is Cause.LAUNCH else ""

    # -- strikes -----------------------------------------------------------------------------------

    def _restarted(self, name: str, away: bool) -> Steps[None]:
        if not away and name != LOG:  # a node's restart takes time by itself
            yield from self.system.restart_node(name)
            return
        label = Label(
            actor=f"restart of {name}", cause=Cause.PAUSE if away else Cause.RESTART,
            what="it comes back", touches=frozenset((name,)),
        )  # fmt: skip
        yield self.kernel.delay(_LONG_S if away else 0.01, label)
        yield from self.system.restart_node(name)

    def node_down(self, name: str, kept: int | None, *, away: bool = False) -> None:
        """Crash a node, which restarts by itself."""
        self.system.crash_node(name, kept)
        self.kernel.spawn(self._restarted(name, away), f"restart of {name}")

    def coordinator_killed(self, name: str) -> None:
        """Kill a coordinator's process, and start another."""
        seat = self.system.coordinators()[name]
        seat.crash()
        seat.restart()

    def machine_fails(self, name: str) -> None:
        """Crash the coordinator together with the server of the decision log."""
        seat = self.system.coordinators()[name]
        seat.crash()
        self.node_down(LOG, None)
        seat.restart()

    def finished_by_hand(self, node: str, gid: str) -> None:
        """Roll back a branch as an operator, if it still exists."""
        self.evidence.by_hand.append(gid)

        def finish() -> Steps[None]:
            with suppress(SqlError, RequestLostError):
                yield from self.system.finish_by_hand(node, gid, Outcome.ABORTED)

        self.kernel.spawn(finish(), "by hand")

    def coordinator_paused(self, name: str) -> None:
        """Pause a coordinator's process, and start another; the first one continues when nothing else can happen."""
        seat = self.system.coordinators()[name]
        process = seat.process
        process.pause()
        seat.restart()

        def wake() -> Steps[None]:
            label = Label(actor=f"{process.actor}:sleep", cause=Cause.PAUSE, what="it goes on")
            yield self.kernel.delay(_LONG_S, label)
            process.go_on()

        self.kernel.spawn(wake(), "sleep")


def _played_outcome(
    session: str,
    client: ScriptClient,
    step: str,
    gid: str,
    outcome: str,
    error: Exception | None = None,
) -> ReportedOutcome:
    return ReportedOutcome(
        session=session, gid=gid, outcome=outcome, error=error, step=step, node=client.node,
        also=client.also,
    )  # fmt: skip


def _outcome(error: TwopcError) -> str:
    if isinstance(error, HeuristicError):
        return "heuristic"
    return "in doubt" if isinstance(error, InDoubtError) else "refused"
