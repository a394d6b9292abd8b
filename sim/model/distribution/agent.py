"""The distribution agent in virtual time: the product's planner between the distribution database and one Subscriber.

What `subscriber.distribution_agent.{agent,delivery}` do over connections to real servers. The position is written in
the commit of the data, so whatever happens to the agent, it goes on where the Subscriber is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sim.model.distribution.articles import Registry
from sim.model.distribution.loads import Bring, Habits, Load, Move, call_of, load_of
from sim.model.distribution.mending import Mending
from sim.model.distribution.processes import Connection, Process, at_once, outcome
from sim.model.distribution.store import Store, Stored
from sim.model.distribution.streams import FallbackError, Streams, spread
from sim.model.distribution.target import ROLE, Target
from sim.model.network import Network
from sim.model.node import ModelNode
from sim.model.node.session import NodeSession
from sim.model.words import LostError, SqlError, Steps
from subscriber.distribution_agent import AheadError, Delivered, Profile
from subscriber.distribution_agent.failures import Failure, may_pass
from subscriber.distribution_agent.mending_plan import PassingError
from subscriber.distribution_agent.patience import Patience
from subscriber.distribution_agent.planner import Batch, Planner, Window
from twopc.drivers.lean import Report
from twopc.drivers.points import Points
from twopc.errors import DeliveryError
from twopc.lsn import lsn_text

#: How many transactions are planned at once.
WINDOW = 10_000
_ATTEMPTS = 4
_PASSING = (PassingError, LostError, SqlError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A row of an agent's history."""

    event: str
    seqno: int
    message: str = ""
    error: str = ""
    transactions: int = 0
    commands: int = 0


@dataclass(slots=True, kw_only=True)
class Counts:
    """What has been delivered."""

    transactions: int = 0
    commands: int = 0
    batches: int = 0
    skipped: int = 0


@dataclass(slots=True, kw_only=True)
class Record:
    """What the distribution database knows of an agent; it outlives the process."""

    reported: int = 0
    """The position that it was told."""
    history: list[Told] = field(default_factory=list)
    posted: list[Any] = field(default_factory=list)
    """What was posted for everybody and has arrived."""


class DistributionAgent(Process):
    """One subscription's agent; after a crash another one is made.

    Args:
        node: the Subscriber's.
        record: what is known of this and of earlier processes.
    """

    def __init__(
        self, network: Network, node: ModelNode, store: Store, registry: Registry, record: Record, *,
        publisher: str, subscriber: str, profile: Profile | None = None, habits: Habits | None = None,
        points: Points | None = None,
    ) -> None:  # fmt: skip
        super().__init__(network, f"agent:{subscriber}", points or Points())
        self.node = node
        self.store = store
        self.registry = registry
        self.record = record
        self.publisher = publisher
        self.subscriber = subscriber
        self.profile = profile or Profile()
        self.habits = habits or Habits()
        self.counts = Counts()
        self.planner = self.habits.planner((), self.profile)
        self.source: Connection | None = None
        self.target: Target | None = None
        self._streams: Streams | None = None
        self.seen = 0
        """Up to where everything is delivered or is not for this Subscriber: the position or beyond."""
        self.kept: dict[int, Stored] = {}
        """The transactions that are being delivered."""
        self.failed: Exception | None = None
        """For what it has stopped by itself."""

    # -- connections ---------------------------------------------------------------------------------

    def open(self) -> Steps[None]:
        """Connect to both databases and find where to go on; harmless twice. LostError, SqlError, DeliveryError"""
        if self.target is not None and self.source is not None:
            return
        self.source = yield from self.connect(
            self.store.node, ROLE, f"msrepl agent {self.subscriber}"
        )
        target = self.target = Target(self, self.node, self.publisher, self.subscriber)
        yield from target.open(self.profile, self.habits.settings)
        if self.profile.subscription_streams > 1:
            self._streams = Streams(self, target)
        self.seen = target.position
        yield from self.tell("started")
        yield from self.reach("agent.opened")

    def close(self) -> None:
        """Disconnect; harmless twice."""
        source, target = self.source, self.target
        self.source = self.target = self._streams = None
        if source is not None:
            source.close()
        if target is not None:
            target.close()

    @property
    def sessions(self) -> list[NodeSession]:
        """Its sessions at the Subscriber."""
        return [] if self.target is None else self.target.sessions

    @property
    def position(self) -> int:
        """Up to where everything is at the Subscriber; 0 before it is opened."""
        return self.target.position if self.target is not None else 0

    # -- work ----------------------------------------------------------------------------------------

    def run_once(self, *, final: bool = True) -> Steps[Delivered]:
        """Deliver everything that is in the distribution database now.

        Args:
            final: see `subscriber.distribution_agent.DistributionAgent.run_once`.

        Raises:
            DeliveryError: a command cannot be applied, or a database does not answer.
        """
        before = replace(self.counts)
        for attempt in range(_ATTEMPTS):
            was_open = self.target is not None
            try:
                yield from self.open()
                while (yield from self.window(final=final)):
                    pass
                yield from self.report()
                break
            except _PASSING as error:
                self.close()
                passing = isinstance(error, PassingError) or was_open
                if attempt == _ATTEMPTS - 1 or not passing:
                    raise DeliveryError(
                        f"{self.subscriber}: {error}; try again", node=self.subscriber
                    ) from error
        counts = self.counts
        return Delivered(
            transactions=counts.transactions - before.transactions,
            commands=counts.commands - before.commands,
            batches=counts.batches - before.batches,
            skipped=counts.skipped - before.skipped,
            position=lsn_text(self.position),
        )

    def run(self, poll_s: float) -> Steps[None]:
        """Deliver whatever comes, as long as the process lives and no command stops it."""
        patience = Patience(self.profile, lambda: self.kernel.now)
        while True:
            try:
                yield from self.open()
                more = yield from self.window(final=patience.is_over)
                patience.renew()
                if not more:
                    yield from self.report()
                    yield self.sleep(poll_s, f"news for {self.subscriber}")
            except AheadError as error:
                patience.clash(error)
                wait_s = min(poll_s, patience.clash_wait_ms / 1000)
                yield self.sleep(wait_s, f"wait for what {self.subscriber} has done itself")
            except DeliveryError as error:
                self.failed = error
                self.close()
                return
            except _PASSING as error:
                self.close()
                try:
                    wait_ms = patience.failed(error, self.subscriber)
                except DeliveryError as given_up:
                    self.failed = given_up
                    return
                yield self.sleep(wait_ms / 1000, f"try again at {self.subscriber}")

    def window(self, *, final: bool) -> Steps[bool]:
        """Deliver the next transactions; whether there were any."""
        source = self.source
        assert source is not None and self.target is not None
        terms, window, stored = yield from source.ask(self._look, "the next transactions")
        if terms != self.planner.terms:
            self.planner = self.habits.planner(terms, self.profile)
        planner = self.planner
        start = planner.start(self.seen)
        if start > self.seen:
            self.seen = start
            return True
        if not planner.terms:
            return False
        if not len(window):
            if self.seen > self.target.position:
                yield from self.move(self.seen)
            return False
        yield from self.reach("agent.planned")
        self.kept = {each.seqno: each for each in stored}
        failure = yield from self.deliver(list(planner.plan(self.seen, window)))
        if failure is not None:
            yield from Mending(self, final=final).mend(failure)
        return True

    def _look(self, _: NodeSession) -> Steps[tuple[Any, Window, list[Stored]]]:
        terms = self.registry.terms(self.subscriber)
        window, stored = self.store.window(self.seen, WINDOW)
        return (yield from at_once((terms, window, stored)))

    # -- delivering ----------------------------------------------------------------------------------

    def deliver(self, batches: Sequence[Batch]) -> Steps[Failure | None]:
        """Bring batches, in order, up to the first that fails."""
        for batch in batches:
            load = load_of(batch, self.kept, self.planner, self.habits)
            if self._streams is None or len(spread(load, self.profile.subscription_streams)) <= 1:
                failure = yield from self.serial(load)
                if failure is not None:
                    return failure
                continue
            try:
                yield from self._streams.take(load)
            except FallbackError as error:
                yield from self.tell(
                    "serial", batch.upto, f"the batch went over one connection: {error}"
                )
                yield from self.reach("agent.serial")
                return (yield from self.serial(load))
            self._count(load)
        return None

    def alone(self, batch: Batch) -> Steps[Failure | None]:
        """Each transaction of a batch in a commit of its own; the first that fails."""
        for each in batch.apart():
            load = load_of(each, self.kept, self.planner, self.habits)
            failure = yield from self.serial(load)
            if failure is not None:
                return failure
        return None

    def serial(self, load: Load) -> Steps[Failure | None]:
        """Bring a batch over one connection."""
        target, batch = self.target, load.batch
        assert target is not None
        if not load.commands and not load.posted:
            self.seen = batch.upto
            self.counts.transactions += len(batch.seqnos) - batch.own
            return None
        move = Move(was=target.position, becomes=batch.upto)
        bring = Bring(calls=tuple(call_of(command) for command, _ in load.commands))
        work = target.deliver(self.habits.commits(move, bring))
        try:
            if self.points.armed:
                yield from self._watched(work)
            else:
                yield from work
        except SqlError as error:
            yield from target.first.run("rollback")
            self.seen = target.position
            return Failure(batch=batch, report=report_of(error), constraint=error.constraint)
        target.position = batch.upto
        self._count(load)
        yield from self.reach("agent.committed")
        return None

    def _watched(self, work: Steps[None]) -> Steps[None]:
        yield from self.reach("agent.before_send")
        sending = self.spawn(outcome(work), "a batch")
        yield from self.reach("agent.sent")
        said: Any = sending.value if sending.processed else (yield sending)
        error: Exception | None = said[0]
        if error is not None:
            raise error

    def _count(self, load: Load) -> None:
        counts, batch = self.counts, load.batch
        counts.commands += len(load.commands)
        counts.transactions += len(batch.seqnos) - batch.own
        counts.batches += 1
        self.record.posted += load.posted
        self.seen = max(self.seen, batch.upto)

    def move(self, upto: int) -> Steps[None]:
        """Move the position and nothing else."""
        assert self.target is not None
        yield from self.target.move(upto)
        self.seen = upto

    # -- what it says of itself ----------------------------------------------------------------------

    def report(self) -> Steps[None]:
        """Tell the distribution database what it need not keep for this Subscriber any more."""
        target, source = self.target, self.source
        if target is None or source is None or self.record.reported == target.position:
            return
        yield from self.reach("agent.before_report")
        yield from target.make_durable()

        def note(_: NodeSession) -> Steps[None]:
            self.record.reported = target.position
            self.store.report(self.subscriber, target.position)
            return (yield from at_once(None))

        yield from source.ask(note, "report the position")
        self.node.trim(self.node.wal.durable)  # nobody reads a Subscriber's log

    def tell(
        self, event: str, seqno: int | None = None, message: str = "", *, error: str = "",
        transactions: int = 0, commands: int = 0,
    ) -> Steps[None]:  # fmt: skip
        """A row of history."""
        assert self.source is not None
        told = Told(
            event=event, seqno=self.position if seqno is None else seqno, message=message, error=error,
            transactions=transactions, commands=commands,
        )  # fmt: skip

        def note(_: NodeSession) -> Steps[None]:
            self.record.history.append(told)
            return (yield from at_once(None))

        yield from self.source.ask(note, f"history: {event}")


def report_of(error: SqlError) -> Report:
    """An error of the model's servers as the agent's rules read it."""
    return Report(
        message=error.message, sqlstate=error.sqlstate, detail=error.detail, hint=error.hint
    )


__all__ = ["DistributionAgent", "Planner", "Record", "Told", "may_pass"]
