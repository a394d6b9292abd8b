"""A global transaction of an application in virtual time, at one Subscriber or at several.

The meaning of `twopc.drivers.transaction` and `several`; what goes on at its ends is in `twopc.sim.model.coordinator`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from twopc.drivers.lean import Report
from twopc.drivers.outcome import VICTIM, refusal_at_commit, rejection
from twopc.drivers.plan import SETTINGS
from twopc.drivers.ports import Key
from twopc.drivers.postgres import Driver
from twopc.drivers.several import check, participants, publisher_branches
from twopc.drivers.statements import surely_wrote
from twopc.errors import (
    ConfigurationError,
    DeadlockError,
    HeuristicError,
    InDoubtError,
    LocalProtocolError,
    RejectedError,
    conflict_facts,
)
from twopc.names import node_of
from twopc.protocol.effects import Outcome
from twopc.sim.model.application import ModelConnection
from twopc.sim.model.words import Level, LostError, SqlError, StatementResult, Steps

if TYPE_CHECKING:
    from twopc.sim.model.coordinator import CoordinatorProcess


class ModelTransaction:
    """One global transaction of an application.

    Args:
        subscribers: where it works; it begins and ends at all of them.
    """

    def __init__(
        self, process: CoordinatorProcess, subscribers: Sequence[str], variant: str, role: str
    ) -> None:
        place = process.place
        self._process = process
        self.subscribers = tuple(subscribers)
        self.variant = variant
        self.role = role
        self.gid = ""
        self.epoch = 0
        self.sequence = 0
        self.connections: dict[str, ModelConnection] = {}
        """By Subscriber, once it has begun there."""
        self.outcome: Outcome | None = None
        self.cycle: tuple[str, ...] = ()
        """The deadlock that it was made the victim of."""
        self._wrote: set[str] = set()
        """The Subscribers at which it has surely changed something."""
        self._at_publisher: tuple[str, ...] = (place.publisher,)
        if len(self.subscribers) > 1:
            check(process.name, place.publisher, self.subscribers, variant)
            self._at_publisher = publisher_branches(place.publisher, self.subscribers)
        self.branches = (*self._at_publisher, *self.subscribers)
        """The Publisher's first."""

    @property
    def key(self) -> Key:
        """Epoch and sequence."""
        return self.epoch, self.sequence

    def begin(self, level: Level | str = "", *, shipping: str = "eager") -> Steps[None]:
        """Begin it at every Subscriber. RejectedError"""
        return self._process.begin(self, level, shipping)

    def opening(self, subscriber: str, level: str, shipping: str) -> list[str]:
        """The statements that begin it at a Subscriber."""
        texts = [
            f"begin isolation level {level}" if level else "begin",
            f"set local msrepl.gid = '{self.gid}'",
            "set local msrepl.proof = ''",
        ]
        if shipping == "lazy":
            texts.append("set local msrepl.shipping = 'lazy'")
        if len(self.subscribers) > 1:
            own = self._at_publisher[self.subscribers.index(subscriber)]
            texts.append(participants(own, self.branches))
        return texts

    def execute(
        self, text: str, params: Mapping[str, Any] | None = None, *, at: str = ""
    ) -> Steps[StatementResult]:
        """One statement. RejectedError: the transaction can only be rolled back.

        Args:
            at: the Subscriber; needed where there are several.
        """
        assert self.connections, "begin it first"
        subscriber = self._at(at)
        try:
            found = yield from self.connections[subscriber].execute(text, params)
        except SqlError as error:
            self._refuse(error, subscriber)
        except LostError as error:
            raise RejectedError(
                f"the connection to {subscriber} is lost: {error}", gid=self.gid,
                node=subscriber, sqlstate="08006",
            ) from error  # fmt: skip
        if len(self.subscribers) > 1 and surely_wrote(found.tag):
            self._wrote.add(subscriber)
        return found

    def commit(self) -> Steps[None]:
        """Commit it everywhere or nowhere. RejectedError, InDoubtError, HeuristicError"""
        return self._process.commit(self)

    def rollback(self) -> Steps[None]:
        """Roll it back everywhere; harmless after its end."""
        yield from self._process.rollback(self)

    def cancel(self) -> None:
        """Cancel what runs at its Subscribers."""
        for connection in self.connections.values():
            connection.session.cancel()

    def driver(self) -> Driver:
        """What commits it."""
        process = self._process
        wiring, ids = process.place.wiring, process.log.epochs[self.variant]
        settings, sessions = SETTINGS[self.variant], [*self.connections.values()]
        if len(sessions) == 1:
            (session,) = sessions
            return wiring.driver(process.hub, ids, self.sequence, session, settings, self.branches)
        return wiring.several(
            process.hub, ids, self.sequence, sessions, settings, self.branches,
            wrote=[name in self._wrote for name in self.subscribers],
        )  # fmt: skip

    def tell(self, driver: Driver) -> None:
        """What the application gets of a commit's end; see `twopc.drivers.outcome`."""
        damage = driver.damage
        if damage is not None:
            raise HeuristicError(
                f"{self.gid}: decided {damage.decided}, but {damage.participant} is {damage.found}: somebody"
                " finished that branch by hand",
                gid=self.gid,
                node=node_of(damage.participant),
            )
        if driver.answer is Outcome.COMMITTED:
            return
        if driver.answer is not Outcome.ABORTED:
            raise InDoubtError(
                f"{self.gid}: {driver.reason}; recovery will settle it", gid=self.gid
            )
        failure = driver.failure
        if self.cycle and failure is not None and failure.sqlstate in VICTIM:
            raise self.deadlock(driver.blamed)
        node = self._node_of(failure, driver.blamed) if failure is not None else ""
        raise refusal_at_commit(failure, driver.reason, gid=self.gid, node=node)

    def deadlock(self, subscriber: str) -> DeadlockError:
        """What the victim of a deadlock gets."""
        return DeadlockError(
            f"deadlock across servers; this transaction was chosen: {'; '.join(self.cycle)}",
            cycle=self.cycle, gid=self.gid, node=subscriber, sqlstate="40P01",
        )  # fmt: skip

    def _at(self, subscriber: str) -> str:
        if not subscriber and len(self.subscribers) == 1:
            return self.subscribers[0]
        if subscriber in self.connections:
            return subscriber
        names = " and ".join(self.subscribers)
        if not subscriber:
            raise LocalProtocolError(f"transaction {self.gid} is at {names}: say where")
        raise ConfigurationError(f"transaction {self.gid} is at {names}, not at {subscriber!r}")

    def _refuse(self, error: SqlError, subscriber: str) -> NoReturn:
        found = Report(
            message=error.message, sqlstate=error.sqlstate, detail=error.detail, hint=error.hint,
            context=error.context,
        )  # fmt: skip
        if self.cycle and found.sqlstate in VICTIM:
            raise self.deadlock(subscriber) from error
        node = self._node_of(found, subscriber)
        raise rejection(found, gid=self.gid, node=node) from error

    def _node_of(self, found: Report, subscriber: str) -> str:
        """Who raised an error."""
        over = found.remote or conflict_facts(found.detail) is not None
        return self._process.place.publisher if over else subscriber
