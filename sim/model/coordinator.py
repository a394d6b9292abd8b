"""The process of a coordinator in virtual time: the parts that its transactions and its recovery need, and its
death.

Transactions are run by `twopc.drivers.engine`, branches recovered by `twopc.drivers.recovery` at times that
`twopc.drivers.keeper` decides. This module does not know tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

import simpy

from twopc.drivers.engine import CoordinatorEngine
from twopc.drivers.hub import Hub
from twopc.drivers.implementation import Implementation
from twopc.drivers.marker_retention import MarkerRetention
from twopc.drivers.plan import TransactionPlan, plan_of
from twopc.drivers.points import Points
from twopc.drivers.ports import Key
from twopc.drivers.recovery import SettledBranch
from twopc.drivers.sessions import LinkedSession
from twopc.drivers.several import SeveralTransaction, check
from twopc.drivers.transaction import Transaction
from twopc.drivers.virtual import VirtualTime, awaited, steps
from twopc.sim.model.application import ModelFinishers, ModelSessions
from twopc.sim.model.clocks import Clock
from twopc.sim.model.ledger import DecisionLedger
from twopc.sim.model.log_client import ModelDecisionReader
from twopc.sim.model.network import Network
from twopc.sim.model.node.node import ModelNode
from twopc.sim.model.transaction import ModelTransaction
from twopc.sim.model.values import Cause, Label, Steps
from twopc.sim.model.wire import KILLED
from twopc.sim.model.wiring import Wiring

_TURN_S = 0.001


class _Open(set[Key]):
    """The set of open transactions; the search is notified of membership tests.

    Args:
        asked: transactions that were tested before and will be tested again.
        stretch: returns the name of the current stretch.
    """

    def __init__(
        self, keys: set[Key], notify: Callable[[str, bool], None], asked: dict[object, None],
        stretch: Callable[[], int],
    ) -> None:  # fmt: skip
        super().__init__(keys)
        self._notify = notify
        self._tested = asked
        self._stretch = stretch
        self._made = stretch()
        for key in asked:
            notify(_object_name(key), False)

    def __contains__(self, key: object) -> bool:
        result = super().__contains__(key)
        self._notify(_object_name(key), False)
        if not result or self._stretch() != self._made:  # an open one is not tested again
            self._tested[key] = None
        return result

    def __or__(self, other: Any) -> Any:
        return _Open({*self, *other}, self._notify, self._tested, self._stretch)

    def __rsub__(self, other: Any) -> Any:
        self._notify("unsettled", True)
        return {key for key in other if key not in self}


def _object_name(key: object) -> str:
    return f"transaction {key}"


class _Owners(dict[str, str]):
    """See `twopc.drivers.hub.Hub.owners`; the search is notified of reads and changes."""

    def __init__(self, notify: Callable[[str, bool], None]) -> None:
        super().__init__()
        self._notify = notify

    def get(self, subscriber: str, default: Any = None) -> Any:
        self._notify(f"owner of {subscriber}", False)
        return super().get(subscriber, default)

    def __contains__(self, subscriber: object) -> bool:
        self._notify(f"owner of {subscriber}", False)
        return super().__contains__(subscriber)

    def __setitem__(self, subscriber: str, owner: str) -> None:
        self._notify(f"owner of {subscriber}", True)
        super().__setitem__(subscriber, owner)


class _ModelEngine(CoordinatorEngine):
    """The product's engine, in a process that may die; notifies the search of state that transactions share."""

    process: CoordinatorProcess

    def _number(self, transaction: Transaction) -> int:
        process = self.process
        process.notify_access("numbers", True)
        number = transaction.sequence or super()._number(transaction)
        process.begins(number)
        return number

    async def _register(self, transaction: Transaction) -> None:
        await super()._register(transaction)
        self._notify_change(transaction)

    def _notify_change(self, transaction: Transaction) -> None:
        """Notify the search that a transaction was opened or has ended."""
        if self.process.place.kernel.record_access is not None:
            self.process.notify_access(_object_name(_key(transaction)), True)

    async def begin(self, transaction: Transaction) -> LinkedSession:
        """See `CoordinatorEngine`."""
        try:
            return await super().begin(transaction)
        except BaseException:
            self._notify_change(transaction)
            raise
        finally:
            self.process.has_begun()

    async def begin_several(self, transaction: SeveralTransaction) -> list[LinkedSession]:
        """See `CoordinatorEngine`."""
        try:
            return await super().begin_several(transaction)
        except BaseException:
            self._notify_change(transaction)
            raise
        finally:
            self.process.has_begun()

    async def _end(
        self, transaction: Transaction, sessions: Sequence[LinkedSession], *, settled: bool
    ) -> None:
        process = self.process
        self._notify_change(transaction)
        process.place.kernel.forget(f"{process.actor}:{transaction.sequence}")

        await super()._end(transaction, sessions, settled=settled)


def _key(transaction: Transaction) -> Key:
    ids = getattr(transaction, "ids", None)  # missing if the decision log could not be reached
    return (ids.epoch if ids is not None else 0), transaction.sequence


class _Alarm:
    """See `twopc.drivers.keeper.AlarmPort`. A search chooses the moment of each pass, so that `ring` brings none
    forward.
    """

    def __init__(self, process: CoordinatorProcess) -> None:
        self._process = process
        self._label = Label(actor=process.actor, cause=Cause.POLL, what="recovery")

    def ring(self) -> None:
        self._process.notify_access("unsettled", True)

    async def wait(self, seconds: float) -> None:
        await awaited(self._process.place.kernel.delay(seconds, self._label))


class _Recovery:
    """See `twopc.drivers.keeper.RecoveryPort`; notifies the search of the state that recovery reads.

    It waits for its turn by polling: a lock of asyncio cannot wake a process of the model.
    """

    def __init__(self, process: CoordinatorProcess) -> None:
        self._process = process
        self._label = Label(actor=process.actor, cause=Cause.POLL, what="recovery's turn")
        self._tested: dict[object, None] = {}
        """Transactions for which recovery has tested whether they are open."""

    async def run(
        self, *, own: set[int], unsettled: set[Key], active: Callable[[], set[Key]]
    ) -> list[SettledBranch]:
        process = self._process
        kernel, recovery = process.place.kernel, process.recovery
        process.notify_access("unsettled", True)
        while recovery.is_busy:  # with a pass that was started separately
            await awaited(kernel.delay(_TURN_S, self._label))

        def open_() -> set[Key]:
            return _Open(active(), process.notify_access, self._tested, lambda: kernel.stretch)

        return await recovery.run(own=own, unsettled=unsettled, active=open_)


class CoordinatorPlace:
    """The parts that the coordinators of one system share.

    Args:
        nodes: nodes by name, including the Publisher.
        log_at: the node that has the decision log.
    """

    def __init__(
        self, network: Network, nodes: Mapping[str, ModelNode], ledger: DecisionLedger, *, publisher: str,
        log_at: str, wiring: Wiring,
    ) -> None:  # fmt: skip
        self.network = network
        self.kernel = network.kernel
        self.nodes = nodes
        self.ledger = ledger
        self.publisher = publisher
        self.log_at = log_at
        self.wiring = wiring


class CoordinatorProcess:
    """A process of a coordinator; several with one name may be alive at once.

    Args:
        number: distinguishes processes with one name.
        clock: the clock of timeouts for lost answers; one without error if None.
        observe: called with every effect and event of its drivers, and the gid.
    """

    def __init__(
        self, place: CoordinatorPlace, name: str, number: int = 1, *, points: Points | None = None,
        in_doubt_after_s: float = 5.0, recovery_interval_s: float = 1.0, retention_s: float = 600.0,
        markers_kept_s: float = 60.0, clock: Clock | None = None,
        observe: Callable[[str, Any], None] | None = None,
    ) -> None:  # fmt: skip
        self.place = place
        self.name = name
        self.actor = f"coordinator:{name}:{number}"
        self.points = points if points is not None else Points()
        self.alive = True
        self._processes: dict[simpy.Process, None] = {}
        self._begin: dict[simpy.Process | None, int] = {}
        """Numbers of transactions that are being begun, by the process that begins them."""
        self._plans: dict[tuple[str | None, ...], TransactionPlan] = {}
        self._pools: dict[tuple[str, str, str], ModelSessions] = {}
        kernel, network, nodes = place.kernel, place.network, place.nodes
        here = self.actor
        self.log = place.wiring.log(
            place.ledger, network, here, place.log_at, coordinator=name, actor=self.actor,
            branches=[*nodes],
        )  # fmt: skip
        runtime = self._time(clock or Clock(partial(attrgetter("now"), kernel)))
        decided = ModelDecisionReader(place.ledger, network, here, place.log_at, self.actor)
        self.finishers = ModelFinishers(
            network, nodes[place.publisher], here=here, actor=self.actor
        )
        self.hub = Hub(
            publisher=place.publisher,
            participants={
                one: place.wiring.site(nodes[one], network, here, self.actor) for one in nodes
            },
            log=self.log,
            finishers=self.finishers,
            points=self.points,
            damage=decided.damage,
            in_doubt_after_s=in_doubt_after_s,
            owners=_Owners(self.notify_access),
            observe=observe,
            runtime=runtime,
        )
        made_of: Any = type("Engine", (_ModelEngine, place.wiring.engine), {})
        self.engine: _ModelEngine = made_of(
            self.hub,
            self.log,
            Implementation(driver=place.wiring.driver, several=place.wiring.several),
        )
        self.engine.process = self
        sites = {
            one: place.wiring.site(nodes[one], network, here, f"{self.actor}:recovery")
            for one in nodes
        }
        self.recovery = place.wiring.recovery(
            name,
            publisher=place.publisher,
            participants=sites,
            decisions=decided,
            points=self.points,
            retention_s=retention_s,
        )
        self.keeper = self.engine.keeper = place.wiring.keeper(
            name,
            log=self.log,
            recovery=_Recovery(self),
            markers=MarkerRetention(sites, place.publisher, markers_kept_s, runtime),
            engine=self.engine,
            alarm=_Alarm(self),
            interval_s=recovery_interval_s,
        )

    def _time(self, clock: Clock) -> VirtualTime:
        label = Label(actor=self.actor, cause=Cause.TIMER, what="look again")
        return VirtualTime(
            clock, lambda seconds: self.place.kernel.delay(clock.lasts(seconds), label)
        )

    # -- life --------------------------------------------------------------------------------------

    def spawn(self, work: Steps[Any], what: str) -> simpy.Process:
        """Start steps as a part of this process, with which they end."""
        process = self.place.kernel.spawn(work, f"{self.actor}: {what}")
        self._processes[process] = None
        assert process.callbacks is not None
        process.callbacks.append(lambda _: self._processes.pop(process, None))
        return process

    def join(self) -> simpy.Process | None:
        """Make the running process a part of this one until `leave`, and return it; None if it is already."""
        process: simpy.Process | None = self.place.kernel.env.active_process
        if process is None or process in self._processes:
            return None
        self._processes[process] = None
        return process

    def leave(self, process: simpy.Process) -> None:
        """Separate a process from this one."""
        self._processes.pop(process, None)

    def crash(self) -> None:
        """Kill the process (kill -9): all its work stops, and its connections break. Idempotent.

        The process of the model that calls this cannot be stopped: it must not do any further work.
        """
        self.alive = False
        running = self.place.kernel.env.active_process
        killed = [one for one in self._processes if one.is_alive and one is not running]
        for process in killed:
            process.defused = True
            process.interrupt(KILLED)
        self.place.network.client_lost(self.actor, killed)

    def pause(self) -> None:
        """Stop the process (SIGSTOP); its connections stay."""
        self.place.network.pause(self.actor)

    def go_on(self) -> None:
        """Continue the process (SIGCONT)."""
        self.place.network.go_on(self.actor)

    # -- transactions ------------------------------------------------------------------------------

    def transaction(
        self, *subscribers: str, variant: str = "presumed_abort", role: str = "app", level: str = "",
        shipping: str = "eager", number: int = 0,
    ) -> ModelTransaction:  # fmt: skip
        """Return a transaction, not begun, of an application at one or several Subscribers.

        Args:
            number: the transaction's number; 0 for the next one.

        Raises:
            ConfigurationError: these options are not available for several Subscribers.
        """
        kind = (level or None, shipping, variant, role)
        plans = [self._plan(one, *kind) for one in subscribers]
        if len(subscribers) == 1:
            made = Transaction(self.engine, plans[0])
        else:
            check(self.name, self.place.publisher, subscribers, variant)
            made = SeveralTransaction(self.engine, plans)
        made.sequence = number
        return ModelTransaction(made)

    def _plan(
        self, subscriber: str, level: str | None, shipping: str, variant: str, role: str
    ) -> TransactionPlan:
        key = (subscriber, level, shipping, variant, role)
        plan = self._plans.get(key)
        if plan is None:
            where = (subscriber, role, variant)
            pool = self._pools.setdefault(where, ModelSessions(self, *where))
            plan = self._plans[key] = plan_of(
                pool, isolation=level, shipping=shipping, commit=variant
            )
        return plan

    @property
    def active(self) -> Mapping[int, Transaction]:
        """Transactions that are open or being committed, by number."""
        return self.engine.active

    def begins(self, number: int) -> None:
        """Note that the running process begins a transaction."""
        self._begin[self.place.kernel.env.active_process] = number

    def has_begun(self) -> None:
        """Note that the running process has begun its transaction, or failed to."""
        self._begin.pop(self.place.kernel.env.active_process, None)

    @property
    def beginner(self) -> str:
        """The actor of the transaction that the running process is beginning."""
        return f"{self.actor}:{self._begin[self.place.kernel.env.active_process]}"

    def notify_access(self, what: str, changed: bool) -> None:
        """Notify the search that state which the transactions share is read or changed."""
        if self.place.kernel.record_access is not None:
            self.place.kernel.record_access(f"{what} of {self.actor}", changed)

    # -- recovery ----------------------------------------------------------------------------------

    def recover(self) -> Steps[list[SettledBranch]]:
        """Run one pass of recovery. Raise psycopg.Error if the decision log cannot be reached."""
        return steps(self.keeper.recover())

    def keep_recovering(self) -> Steps[None]:
        """Run recovery at once, and then periodically."""
        yield from steps(self.keeper.attempt())
        yield from steps(self.keeper.watch(lambda: True))
