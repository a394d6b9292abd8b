"""A coordinator's process in virtual time: its transactions, its recovery, and what becomes of it when it dies.

The drivers, the rules and the recovery are the product's own; here is what `twopc.drivers.engine` and `keeper` do
beside them. It must not know tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

import psycopg
import simpy

from twopc.drivers.hub import Hub
from twopc.drivers.points import Points
from twopc.drivers.ports import Key
from twopc.drivers.recovery import Settled
from twopc.drivers.virtual import VirtualTime, steps
from twopc.errors import RejectedError
from twopc.names import GlobalId, session_name
from twopc.protocol.effects import Outcome
from twopc.sim.model.application import ModelConnection, ModelFinishers
from twopc.sim.model.clocks import Clock
from twopc.sim.model.ledger import Ledger
from twopc.sim.model.log_client import ModelDecided
from twopc.sim.model.markers import Markers
from twopc.sim.model.network import Network
from twopc.sim.model.node.node import ModelNode
from twopc.sim.model.transaction import ModelTransaction
from twopc.sim.model.wire import KILLED
from twopc.sim.model.wiring import Wiring
from twopc.sim.model.words import Cause, Label, LostError, SqlError, Steps
from twopc.waits import Transactions

_TURN_S = 0.001


class _Open(set[Key]):
    """Transactions that are open; whoever explores is told of which of them anybody asks.

    Args:
        asked: those of which somebody will ask later, as he has before.
        stretch: the name of what happens now.
    """

    def __init__(
        self, keys: set[Key], told: Callable[[str, bool], None], asked: dict[object, None],
        stretch: Callable[[], int],
    ) -> None:  # fmt: skip
        super().__init__(keys)
        self._told = told
        self._asked = asked
        self._stretch = stretch
        self._made = stretch()
        for key in asked:
            told(_called(key), False)

    def __contains__(self, key: object) -> bool:
        found = super().__contains__(key)
        self._told(_called(key), False)
        if not found or self._stretch() != self._made:  # of one that is open nobody asks twice
            self._asked[key] = None
        return found

    def __or__(self, other: Any) -> Any:
        return _Open({*self, *other}, self._told, self._asked, self._stretch)

    def __rsub__(self, other: Any) -> Any:
        self._told("unsettled", True)
        return {key for key in other if key not in self}


def _called(key: object) -> str:
    return f"transaction {key}"


class Place:
    """What the coordinators of one system have in common.

    Args:
        nodes: by name, the Publisher among them.
        log_at: the node that the decision log is at.
    """

    def __init__(
        self, network: Network, nodes: Mapping[str, ModelNode], ledger: Ledger, *, publisher: str,
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
    """A process of a coordinator; several of one name may live at once.

    Args:
        number: tells it from others of its name.
        clock: what it waits by for answers that were lost; without it, one that is right.
        observe: sees every effect and event of its drivers, with the gid.
    """

    def __init__(
        self, place: Place, name: str, number: int = 1, *, points: Points | None = None,
        in_doubt_after_s: float = 5.0, recovery_interval_s: float = 1.0, retention_s: float = 600.0,
        markers_kept_s: float = 60.0, clock: Clock | None = None,
        observe: Callable[[str, Any], None] | None = None,
    ) -> None:  # fmt: skip
        self.place = place
        self.name = name
        self.actor = f"coordinator:{name}:{number}"
        self.points = points if points is not None else Points()
        self.alive = True
        self.active: dict[int, ModelTransaction] = {}
        self.unsettled: set[Key] = set()
        self._asked: dict[object, None] = {}
        """Transactions of which recovery has asked whether they are open."""
        self._interval_s = recovery_interval_s
        self._sequence = count(1)
        self._processes: dict[simpy.Process, None] = {}
        self._idle: dict[tuple[str, str, int], list[ModelConnection]] = {}
        """Connections to Subscribers that are in no transaction, by role and epoch."""
        kernel, network, nodes = place.kernel, place.network, place.nodes
        here = self.actor
        self.log = place.wiring.log(
            place.ledger, network, here, place.log_at, coordinator=name, actor=self.actor,
            branches=[*nodes],
        )  # fmt: skip
        clock = clock or Clock(lambda: kernel.now)
        runtime = VirtualTime(
            clock,
            lambda seconds: kernel.delay(
                clock.lasts(seconds), Label(actor=self.actor, cause=Cause.TIMER, what="look again")
            ),
        )
        decided = ModelDecided(place.ledger, network, here, place.log_at, self.actor)
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
            observe=observe,
            runtime=runtime,
        )
        sites = {
            one: place.wiring.site(nodes[one], network, here, f"{self.actor}:recovery")
            for one in nodes
        }
        self._markers = Markers(kernel, sites, markers_kept_s)
        self._recovery = place.wiring.recovery(
            name,
            publisher=place.publisher,
            participants=sites,
            decisions=decided,
            points=self.points,
            retention_s=retention_s,
        )

    # -- life --------------------------------------------------------------------------------------

    def spawn(self, work: Steps[Any], what: str) -> simpy.Process:
        """Run something as this process, with which it dies."""
        process = self.place.kernel.spawn(work, f"{self.actor}: {what}")
        self._processes[process] = None
        assert process.callbacks is not None
        process.callbacks.append(lambda _: self._processes.pop(process, None))
        return process

    def join(self) -> simpy.Process | None:
        """Whatever runs now is part of it from now on, until `leave`; None if it is already."""
        process = self.place.kernel.env.active_process
        if process is None or process in self._processes:
            return None
        self._processes[process] = None
        return process

    def leave(self, process: simpy.Process) -> None:
        """It goes on by itself."""
        self._processes.pop(process, None)

    def crash(self) -> None:
        """kill -9: everything it does stops, and its connections break. Harmless twice.

        What runs now cannot be stopped by itself: it must not do anything more.
        """
        self.alive = False
        running = self.place.kernel.env.active_process
        killed = [one for one in self._processes if one.is_alive and one is not running]
        for process in killed:
            process.defused = True
            process.interrupt(KILLED)
        self.place.network.client_lost(self.actor, killed)

    def pause(self) -> None:
        """SIGSTOP: its connections stay."""
        self.place.network.pause(self.actor)

    def go_on(self) -> None:
        """SIGCONT"""
        self.place.network.go_on(self.actor)

    def transaction(
        self, *subscribers: str, variant: str = "presumed_abort", role: str = "app"
    ) -> ModelTransaction:
        """A transaction of an application at a Subscriber, or at several, not begun.

        Raises:
            ConfigurationError: several cannot have what is asked for.
        """
        return ModelTransaction(self, subscribers, variant, role)

    # -- transactions ------------------------------------------------------------------------------

    def begin(self, one: ModelTransaction, level: str, shipping: str) -> Steps[None]:
        """For `ModelTransaction`."""
        several = len(one.subscribers) > 1
        if self.points.armed and not several:
            yield from steps(self.points.reach(f"coordinator.begin({one.subscribers[0]})"))
        try:
            ids = self.log.current(one.variant) or (yield from self.log.epoch(one.variant))
        except (LostError, SqlError) as error:
            raise RejectedError(
                f"the decision log cannot be reached, nothing was begun: {error}", sqlstate="08001"
            ) from error
        one.epoch = ids.epoch
        if not one.sequence:
            self._remembers("numbers", True)
            one.sequence = next(self._sequence)
        self._remembers(_called(one.key), True)
        one.gid = ids.text(one.sequence)
        self.active[one.sequence] = one
        for subscriber in one.subscribers:
            if self.points.armed and several:
                yield from steps(self.points.reach(f"coordinator.begin({subscriber})"))
            connection = self._idle_connection(one, subscriber)
            try:
                if connection is None:
                    connection = yield from self._connect(one, subscriber)
                one.connections[subscriber] = connection
                yield from connection.say(one.opening(subscriber, level, shipping))
            except (LostError, SqlError) as error:
                self._remembers(_called(one.key), True)
                self.active.pop(one.sequence, None)
                for each in one.connections.values():
                    each.close()
                raise RejectedError(
                    f"{subscriber} cannot be reached, nothing was begun: {error}", gid=one.gid,
                    node=subscriber, sqlstate="08001",
                ) from error  # fmt: skip

    def _connect(self, one: ModelTransaction, subscriber: str) -> Steps[ModelConnection]:
        node = self.place.nodes[subscriber]
        return ModelConnection.open(
            self.place.network, node, here=self.actor, actor=f"{self.actor}:{one.sequence}",
            role=one.role, name=session_name(self.name, one.epoch),
        )  # fmt: skip

    def _idle_connection(self, one: ModelTransaction, subscriber: str) -> ModelConnection | None:
        self._remembers(subscriber, True)
        idle = self._idle.get((subscriber, one.role, one.epoch))
        while idle:
            found = idle.pop()
            if found.clean:
                found.wire.belongs_to(f"{self.actor}:{one.sequence}")
                return found
            found.close()
        return None

    def commit(self, one: ModelTransaction) -> Steps[None]:
        """For `ModelTransaction`."""
        assert one.connections, "begin it first"
        driver = one.driver()
        try:
            yield from driver.commit().__await__()
        finally:
            one.outcome = driver.answer
            self._end(one, settled=driver.settled)
        one.tell(driver)

    def rollback(self, one: ModelTransaction) -> Steps[None]:
        """For `ModelTransaction`."""
        if not one.connections or one.outcome is not None:
            return
        one.outcome = Outcome.ABORTED
        try:
            for connection in one.connections.values():
                yield from steps(connection.roll_back())
        finally:
            self._end(one, settled=True)

    def _remembers(self, what: str, changed: bool) -> None:
        """What its transactions have in common is looked at, or changed: whoever explores is told."""
        if self.place.kernel.watch is not None:
            self.place.kernel.watch(f"{what} of {self.actor}", changed)

    def _end(self, one: ModelTransaction, *, settled: bool) -> None:
        self._remembers(_called(one.key), True)
        for subscriber in one.subscribers:
            self._remembers(subscriber, True)
        self.active.pop(one.sequence, None)
        self.place.kernel.forget(f"{self.actor}:{one.sequence}")
        if not settled:
            self._remembers("unsettled", True)
            self.unsettled.add(one.key)
        elif one.outcome is Outcome.COMMITTED:
            self._markers.over(one.gid, one.branches)
        for subscriber, connection in one.connections.items():
            if settled and one.outcome is Outcome.COMMITTED and connection.clean and self.alive:
                # after a rollback its link may have something open
                self._idle.setdefault((subscriber, one.role, one.epoch), []).append(connection)
            else:
                connection.close()

    # -- deadlocks ---------------------------------------------------------------------------------

    def transactions(self) -> Transactions:
        """Where the sessions of its open transactions are."""
        return {
            GlobalId(coordinator=self.name, epoch=one.epoch, sequence=one.sequence): tuple(
                (subscriber, connection.pid) for subscriber, connection in one.connections.items()
            )
            for one in self.active.values()
            if one.connections
        }

    def name_victim(self, node: str, pid: int, cycle: tuple[str, ...]) -> None:
        """The transaction of this session is chosen to end a deadlock."""
        for one in self.active.values():
            connection = one.connections.get(node)
            if connection is not None and connection.pid == pid:
                one.cycle = cycle

    # -- recovery ----------------------------------------------------------------------------------

    def recover(self) -> Steps[list[Settled]]:
        """One pass. psycopg.Error: the log cannot be reached."""
        yield from self.log.ensure()
        self._remembers("unsettled", True)
        while self._recovery.is_busy:  # with one that was begun by itself
            yield self.place.kernel.delay(
                _TURN_S, Label(actor=self.actor, cause=Cause.POLL, what="recovery's turn")
            )
        return (
            yield from steps(
                self._recovery.run(
                    own=self.log.own,
                    unsettled=self.unsettled,
                    active=self._open,
                )
            )
        )

    def _open(self) -> set[Key]:
        keys = {one.key for one in self.active.values()}
        return _Open(keys, self._remembers, self._asked, lambda: self.place.kernel.stretch)

    def keep_recovering(self) -> Steps[None]:
        """Recover at once, and from time to time."""
        label = Label(actor=self.actor, cause=Cause.POLL, what="recovery")
        while True:
            try:
                yield from self.recover()
                yield from self.log.forget_now()
                yield from self._markers.forget()
            except (psycopg.Error, LostError, SqlError):
                pass  # it is tried again
            yield self.place.kernel.delay(self._interval_s, label)
