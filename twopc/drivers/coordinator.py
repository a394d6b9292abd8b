"""The coordinator on PostgreSQL: one process's epochs and transactions.

The public face of this package. It must not know articles, triggers or scenarios.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self

import psycopg

from twopc.drivers import heuristics, in_doubt, oneshot
from twopc.drivers.decision_log import DecisionLog
from twopc.drivers.engine import CoordinatorEngine
from twopc.drivers.heuristics import Heuristic
from twopc.drivers.hub import Hub
from twopc.drivers.implementation import PRODUCT, Implementation
from twopc.drivers.lean import Lean
from twopc.drivers.oneshot import RunResult
from twopc.drivers.participant import ParticipantAddress
from twopc.drivers.plan import TransactionPlans
from twopc.drivers.points import Points
from twopc.drivers.recovery import SettledBranch
from twopc.drivers.server_keeper import ServerKeeper
from twopc.drivers.server_sessions import Finishers, Introduction
from twopc.drivers.several import SeveralTransaction, check
from twopc.drivers.transaction import Transaction
from twopc.errors import ConfigurationError
from twopc.log import get_logger
from twopc.names import PREFIX
from twopc.protocol import effects as x
from twopc.protocol import events as e
from twopc.protocol.effects import Outcome
from twopc.together import together

_log = get_logger(__name__)
_READS = re.compile(r"\s*(?:select|show|values|table|explain)\b", re.IGNORECASE)


class PostgresCoordinator:
    """Coordinates global transactions over a Publisher and Subscribers; an async context manager.

    Args:
        coordinator: its name, part of every gid; processes of one name recover for each other.
        distribution: connection string of the distribution database, which holds the decision log.
        publisher: address of the Publisher.
        subscribers: addresses of the Subscribers, by name.
        lock_timeout_ms: how long an application's statement may wait for a lock at a Subscriber.
        recovery_interval_s: between two passes of recovery.
        deadlock_interval_s: between two looks for deadlocks while transactions are open.
        in_doubt_after_s: how long to look for an outcome before `InDoubtError` is raised.
        answer_timeout_s: after how long without an answer a connection is given up.
        markers_kept_s: how long branch markers are kept after their transaction was settled everywhere,
            for those who ask late how it ended.
        points: protocol points; None: those that the environment arms.
        observe: sees every effect and event of every machine, with its global transaction.
        classes: what it is made of.
    """

    def __init__(
        self,
        coordinator: str,
        *,
        distribution: str,
        publisher: ParticipantAddress,
        subscribers: Mapping[str, ParticipantAddress],
        lock_timeout_ms: int = 5000,
        recovery_interval_s: float = 2.0,
        deadlock_interval_s: float = 0.25,
        in_doubt_after_s: float = 10.0,
        answer_timeout_s: float = 60.0,
        markers_kept_s: float = 60.0,
        points: Points | None = None,
        observe: Callable[[str, x.Effect | e.Event], None] | None = None,
        classes: Implementation = PRODUCT,
    ) -> None:
        self.coordinator = coordinator
        self.publisher = publisher.name
        self._subscribers = dict(subscribers)
        self.points = points if points is not None else Points(os.environ)
        addresses = (publisher, *self._subscribers.values())
        busy: set[Lean] = set()
        self._log = DecisionLog(
            coordinator,
            distribution,
            [one.name for one in addresses],
            self.points,
            busy,
            answer_timeout_s=answer_timeout_s,
        )
        self._participants = {
            one.name: classes.participant(one, coordinator, answer_timeout_s=answer_timeout_s)
            for one in addresses
        }
        self._finishers = Finishers(publisher.dsn, f"twopc finisher {coordinator}", busy)
        self._hub = Hub(
            publisher=publisher.name,
            participants=self._participants,
            log=self._log,
            finishers=self._finishers,
            points=self.points,
            damage=partial(heuristics.record_found, self._log.database),
            in_doubt_after_s=in_doubt_after_s,
            observe=observe,
        )
        self._plans = TransactionPlans(
            {one.name: one.application_dsn for one in self._subscribers.values()},
            self._introductions(),
            lock_timeout_ms=lock_timeout_ms,
            busy=busy,
        )
        self._engine = CoordinatorEngine(self._hub, self._log, classes)
        self.keeper = ServerKeeper(
            coordinator,
            distribution=distribution,
            publisher=publisher.name,
            addresses=addresses,
            log=self._log,
            points=self.points,
            busy=busy,
            engine=self._engine,
            recovery=classes.recovery,
            recovery_interval_s=recovery_interval_s,
            deadlock_interval_s=deadlock_interval_s,
            answer_timeout_s=answer_timeout_s,
            markers_kept_s=markers_kept_s,
        )
        """What goes on in the background; see there."""
        self._engine.keeper = self.keeper

    def watch(self, observe: Callable[[str, x.Effect | e.Event], None] | None) -> None:
        """From here on somebody else sees every effect and event, or nobody."""
        self._hub.observe = observe

    def _introductions(self) -> dict[str, Introduction]:
        log = self._log
        return {
            name: Introduction(self._participants[name], self.coordinator, log.key, log.own)
            for name in self._subscribers
        }

    # -- life --------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Take an epoch, recover what dead processes of this name have left, and keep watch.

        Raises:
            ConfigurationError: the decision log cannot be reached, or is not installed.
        """
        try:
            await self._log.open()
            await self._log.epoch("presumed_abort")
            await self.keeper.open()
        except psycopg.Error as error:
            await self.close()
            raise ConfigurationError(
                f"decision log of coordinator {self.coordinator!r}: {error}"
            ) from error
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Stop; transactions that are still open are rolled back, those that are being committed are
        waited for. Idempotent."""
        # As long as a commit may take to find out how it ended; then recovery goes on with it.
        if not await self._engine.stop(self._hub.in_doubt_after_s):
            count = len(self._engine.active)
            _log.warning("closed with transactions under way", count=count)
        await self.keeper.close()
        await self._plans.close()
        await self._finishers.close()
        await self._log.close()
        await together(*(one.close() for one in self._participants.values()))

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    # -- transactions ------------------------------------------------------------------------------

    def transaction(
        self,
        subscriber: str,
        *,
        isolation: str | None = None,
        shipping: str = "eager",
        commit: str = "presumed_abort",
        role: str | None = None,
    ) -> Transaction:
        """A global transaction at a Subscriber, to be used in ``async with``.

        Args:
            subscriber: its name.
            isolation: ``read committed``, ``repeatable read`` or ``serializable``; None: the default
                of the database.
            shipping: ``eager``: each statement is tried at the Publisher at once; ``lazy``: all of
                them at commit.
            commit: ``presumed_abort``, ``presumed_commit``, ``presumed_nothing`` or ``last_agent``.
            role: to take at the Subscriber; None: that of the application's connection string.

        Raises:
            ConfigurationError: there is no such Subscriber or option.
        """
        plan = self._plans.of(subscriber, isolation, shipping, commit, role)
        return Transaction(self._engine, plan)

    def several(
        self,
        subscribers: Sequence[str],
        *,
        isolation: str | None = None,
        shipping: str = "eager",
        commit: str = "presumed_abort",
        role: str | None = None,
    ) -> SeveralTransaction:
        """One global transaction at several Subscribers, all or none of which it takes effect at.

        At the Publisher each of them has a branch of its own, with its own mark of where it came from.

        Args:
            subscribers: their names.
            isolation: this and the rest as for `transaction`; there is no last agent.

        Raises:
            ConfigurationError: there is no such Subscriber or option, or the names are too long.
        """
        check(self.coordinator, self.publisher, subscribers, commit)
        return SeveralTransaction(
            self._engine,
            [self._plans.of(one, isolation, shipping, commit, role) for one in subscribers],
        )

    async def run(
        self,
        subscriber: str,
        statement: str,
        params: Sequence[Any] = (),
        *,
        isolation: str | None = None,
        shipping: str = "eager",
        commit: str = "presumed_abort",
        role: str | None = None,
    ) -> RunResult:
        """A whole transaction of one statement, in as few messages as there can be.

        Args:
            subscriber: its name.
            statement: with ``$1``, ``$2`` ... for parameters; prepared at its first use in a session.
            params: their values.
            isolation: this and the rest as for `transaction`.

        Raises:
            RejectedError: it was rolled back at both sites.
            InDoubtError: the outcome is not known.
            ResultLostError: it was committed; what the statement returned is lost.
        """
        if _READS.match(statement):
            reading = self.transaction(subscriber, isolation=isolation, role=role)
            return await oneshot.read(reading, statement, params)
        plan = self._plans.of(subscriber, isolation, shipping, commit, role)
        return await self._engine.run(plan, statement, params)

    # -- recovery, and looking ---------------------------------------------------------------------

    async def recover(self) -> list[SettledBranch]:
        """One pass of recovery now; returns what it has settled.

        Raises:
            psycopg.Error: the distribution database cannot be reached.
        """
        return await self.keeper.recover()

    async def in_doubt(self) -> list[in_doubt.InDoubtBranch]:
        """Every branch prepared at any participant, oldest first, with what will become of it.

        Raises:
            psycopg.Error: a server cannot be reached.
        """
        participants = [*self._participants.values()]
        return await in_doubt.in_doubt(self._log.database, participants, self.coordinator)

    async def heuristics(self) -> list[Heuristic]:
        """Branches of this coordinator that were finished without waiting for the decision."""
        return await heuristics.read(self._log.database, f"{PREFIX}:{self.coordinator}:")

    async def force(self, gid: str, outcome: Outcome, reason: str) -> Outcome:
        """Finish a prepared branch at an operator's word, recorded first; returns how it ended.

        Raises:
            ConfigurationError: it is no branch of this coordinator, or not prepared.
            psycopg.Error: it was not recorded, or not done.
        """
        return await in_doubt.force(
            self._log.database, self._participants, self.coordinator, gid, outcome, reason
        )
